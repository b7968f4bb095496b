//! veth pairs, and moves of interfaces between network namespaces, in rtnetlink.

use super::links::IFINFOMSG;
use super::message::{Request, attribute};
use super::new_links::{checked_name, text};
use super::refusal::{Refusal, refusal};
use crate::{Admin, NetworkName};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::veth::PeerNews;

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

    /// Creates the peer of a new veth interface and connects both.
    pub(super) fn make_peer(&mut self, own: usize, peer: &PeerWanted) {
        let name = peer.name.clone().unwrap_or_else(|| self.free_name("veth"));
        let number = self.net.add_virtual(&name, Attachment::Dummy, peer.mac, peer.mtu);
        self.net.join_ends(own, number);
        self.link_changed(number);
        if let Some(network) = peer.network {
            self.move_link(number, network);
        }
    }

    /// Decodes the peer's attributes in a request for a veth pair.
    pub(super) fn peer_wanted(&self, data: Option<&[u8]>) -> Result<PeerWanted, Refusal> {
        let Some(peer) = data.and_then(|data| attribute(data, INFO_PEER)) else {
            return Ok(PeerWanted::default());
        };
        let attributes = peer.get(IFINFOMSG..).ok_or(Errno::EINVAL)?;
        let name = attribute(attributes, c::IFLA_IFNAME).map(text).filter(|name| !name.is_empty());
        let network = self.network_in(attributes)?;
        if let Some(name) = &name {
            checked_name(name)?;
            self.check_free(name, network)?;
        }
        let mac = attribute(attributes, c::IFLA_ADDRESS).map(|mac| mac.try_into().map_err(|_| Errno::EINVAL));
        let mtu = attribute(attributes, c::IFLA_MTU).map(number).transpose()?;
        Ok(PeerWanted { name, mac: mac.transpose()?, mtu: mtu.map(|mtu| mtu as usize), network })
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
        self.net.interfaces[new].carrier = carrier;
        self.link_changed(new);
        new
    }

    /// Sets the carrier of a veth interface whose peer has come up or gone down.
    pub fn set_peer_carrier(&mut self, number: usize, carrier: bool) {
        let interface = &self.net.interfaces[number];
        if matches!(interface.attachment, Attachment::Veth { .. }) && interface.carrier != carrier {
            self.net.interfaces[number].carrier = carrier;
            self.link_changed(number);
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
    name: Option<String>,
    mac: Option<[u8; 6]>,
    mtu: Option<usize>,
    network: Option<u32>,
}
