//! veth pairs, and moves of interfaces between network namespaces, in rtnetlink.

use super::links::{IFINFOMSG, bare};
use super::message::{Request, attribute};
use super::new_links::{check_ethernet, check_mtu, text};
use super::policies;
use super::policy::{ATTRIBUTE, LIBERAL};
use super::refusal::{Refusal, refusal};
use crate::ioctl::interface_flags;
use crate::{Admin, NetworkName};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::carrier;
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::veth::PeerNews;
use belljar_netstack::virtual_links::add_virtual_at;

/// `VETH_INFO_PEER`: attributes of the peer, as a link request.
const INFO_PEER: u16 = 1;

fn number(bytes: &[u8]) -> Result<i32, Errno> {
    Ok(i32::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EINVAL)?))
}

impl Admin<'_> {
    /// Network namespace in an interface's attributes, if it is not the current one.
    fn network_in(&self, attributes: &[u8]) -> Result<Option<u32>, Refusal> {
        let name = match (attribute(attributes, c::IFLA_NET_NS_FD), attribute(attributes, c::IFLA_NET_NS_PID))
        {
            (Some(fd), _) => NetworkName::Descriptor(number(fd)?),
            (None, Some(pid)) => NetworkName::Process(number(pid)?),
            (None, None) => return Ok(None),
        };
        let named = self.listeners.network_named(name).map_err(|errno| match errno {
            Errno::EPERM => Refusal::from(errno),
            errno => refusal(errno, "Invalid network namespace"),
        })?;
        Ok(Some(named).filter(|network| *network != self.net.number))
    }

    /// Network namespace in a request for an interface, if it is not the current one.
    pub(super) fn network_asked(&self, request: &Request<'_>) -> Result<Option<u32>, Refusal> {
        self.network_in(request.body.get(IFINFOMSG..).unwrap_or_default())
    }

    /// Checks that an interface name is free in `network`, or else in this namespace: `EEXIST`.
    pub(super) fn check_free(&self, name: &str, network: Option<u32>) -> Result<(), Errno> {
        let taken = match network {
            Some(network) => self.listeners.has_interface(network, name),
            None => self.net.interfaces.by_name(name.as_bytes()).is_some(),
        };
        if taken { Err(Errno::EEXIST) } else { Ok(()) }
    }

    /// Creates the peer of a veth interface that follows; returns its number.
    pub(super) fn make_peer(
        &mut self,
        peer: &PeerWanted,
        mtu: Option<usize>,
        index: Option<u32>,
    ) -> Result<usize, Refusal> {
        check_mtu(mtu.map(|mtu| mtu as u32))?;
        let name = self.name_wanted(peer.name.as_deref().unwrap_or("veth%d"), peer.network)?;
        let number = self.claim_index(index)?;
        add_virtual_at(self.net, number, &name, Attachment::Dummy, (peer.mac, mtu));
        // It cannot be brought up before it has a peer of its own (`veth_open`).
        let (flags, change) = peer.flags;
        if flags != 0 || change != 0 {
            let before = interface_flags(&self.net.interfaces[number]);
            let flags = if change == 0 { flags } else { flags & change | before & !change };
            if flags & c::IFF_UP as u32 != 0 {
                self.remove_interface(number);
                return Err(Errno::ENOTCONN.into());
            }
            self.set_flags(number, flags);
        }
        Ok(number)
    }

    /// Decodes and validates the peer's attributes in a request for a veth pair.
    pub(super) fn peer_wanted(
        &self,
        request: &Request<'_>,
        data: Option<&[u8]>,
    ) -> Result<PeerWanted, Refusal> {
        let Some(data) = data else { return Ok(PeerWanted::default()) };
        let Some(peer) = attribute(data, INFO_PEER) else { return Ok(PeerWanted::default()) };
        let attributes = peer.get(IFINFOMSG..).ok_or(Errno::EINVAL)?;
        let word = |at: usize| u32::from_ne_bytes(*peer[at..].first_chunk().expect("a checked length"));
        if word(4) as i32 <= -1 {
            let at = Some((request.offset_of(peer) - ATTRIBUTE) as u32);
            return Err(Refusal { at, ..refusal(Errno::EINVAL, "ifindex can't be negative") });
        }
        policies::LINK.validate(request, attributes, request.offset_of(attributes), LIBERAL)?;
        let mac = attribute(attributes, c::IFLA_ADDRESS);
        let mtu = attribute(attributes, c::IFLA_MTU).map(number).transpose()?;
        check_ethernet(mac, mtu.map(|mtu| mtu as u32))?;
        let name = attribute(attributes, c::IFLA_IFNAME).map(|name| text(bare(name)));
        let network = self.network_in(attributes)?;
        Ok(PeerWanted {
            given: true,
            name,
            mac: mac.and_then(|mac| mac.try_into().ok()),
            mtu: mtu.map(|mtu| mtu as usize),
            network,
            index: Some(word(4)).filter(|index| *index != 0),
            flags: (word(8), word(12)),
        })
    }

    /// Handles `ip link set netns`: deletes a virtual interface here and creates it in the other namespace,
    /// down and without addresses.
    pub(super) fn move_link(&mut self, number: usize, network: u32) {
        let interface = &self.net.interfaces[number];
        let moved = Interface {
            mtu: interface.mtu,
            carrier: interface.carrier,
            settings: interface.settings.clone(),
            ..Interface::program(&interface.name, interface.mac, interface.attachment)
        };
        self.withdraw_interface(number);
        self.net.effects.tell_peer(network, 0, PeerNews::Moved(number, Box::new(moved)));
    }

    /// Adds an interface from another network namespace, in which its name is free; returns its index here.
    pub fn receive_interface(&mut self, interface: &Interface) -> usize {
        let (mac, mtu, carrier) = (interface.mac, interface.mtu, interface.carrier);
        let new = self.net.add_virtual(&interface.name, interface.attachment, Some(mac), Some(mtu));
        self.net.interfaces[new].set_carrier(carrier);
        self.link_changed(new);
        new
    }

    /// Sets the carrier of a veth interface whose peer has come up or gone down.
    pub fn set_peer_carrier(&mut self, number: usize, carrier: bool) {
        let interface = &self.net.interfaces[number];
        if matches!(interface.attachment, Attachment::Veth { .. }) && interface.carrier != carrier {
            self.net.interfaces[number].set_carrier(carrier);
            self.link_changed(number);
            carrier::changed(self.net, number);
        }
    }

    /// Notifies the peer of a veth interface of the interface's state.
    pub(crate) fn tell_carrier(&mut self, number: usize) {
        let Attachment::Veth { network, peer } = self.net.interfaces[number].attachment else { return };
        let up = self.net.interfaces[number].up;
        if network == self.net.number {
            self.set_peer_carrier(peer, up);
        } else {
            self.net.effects.tell_peer(network, peer, PeerNews::Carrier(up));
        }
    }
}

/// Peer of a new veth pair.
#[derive(Debug, Default)]
pub(super) struct PeerWanted {
    /// True if the request describes the peer.
    pub(super) given: bool,
    name: Option<String>,
    mac: Option<[u8; 6]>,
    pub(super) mtu: Option<usize>,
    pub(super) network: Option<u32>,
    /// Index asked for.
    pub(super) index: Option<u32>,
    /// Flags and their mask of change.
    flags: (u32, u32),
}
