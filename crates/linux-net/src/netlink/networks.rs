//! Pairs of interfaces, and interfaces that go to another network, by rtnetlink.

use super::links::IFINFOMSG;
use super::message::{Request, attribute};
use super::new_links::{checked_name, text};
use super::refusal::{Refusal, refusal};
use crate::{Admin, NetworkName};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::veth::PeerNews;

/// `VETH_INFO_PEER`: what the other end is to be like, as a request for it.
const INFO_PEER: u16 = 1;

fn number(bytes: &[u8]) -> Result<i32, Errno> {
    Ok(i32::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EINVAL)?))
}

impl Admin<'_> {
    /// The network that attributes of an interface name, if they name another one than this.
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

    /// The network that a request for an interface names, if it is another one.
    pub(super) fn network_asked(&self, request: &Request<'_>) -> Result<Option<u32>, Refusal> {
        self.network_in(request.body.get(IFINFOMSG..).unwrap_or_default())
    }

    /// `EEXIST` if there is an interface of this name, in another network if that is named.
    pub(super) fn check_free(&self, name: &str, network: Option<u32>) -> Result<(), Errno> {
        let taken = match network {
            Some(network) => self.listeners.has_interface(network, name),
            None => self.net.interface_by_name(name.as_bytes()).is_some(),
        };
        if taken { Err(Errno::EEXIST) } else { Ok(()) }
    }

    /// Makes the other end of a new interface, and joins them.
    pub(super) fn make_peer(&mut self, own: usize, peer: &PeerWanted) {
        let name = peer.name.clone().unwrap_or_else(|| self.free_name("veth"));
        let number = self.net.add_virtual(&name, Attachment::Dummy, peer.mac, peer.mtu);
        self.net.join_ends(own, number);
        self.link_changed(number);
        if let Some(network) = peer.network {
            self.move_link(number, network);
        }
    }

    /// The other end that a request for a pair asks for.
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

    /// `ip link set netns`: an interface that was made here is taken away, and is there from now on, down and without addresses.
    pub(super) fn move_link(&mut self, number: usize, network: u32) {
        let interface = &self.net.interfaces[number];
        let moved = Interface {
            mtu: interface.mtu,
            carrier: interface.carrier,
            settings: interface.settings.clone(),
            ..Interface::program(&interface.name, interface.mac, interface.attachment)
        };
        self.withdraw_interface(number);
        self.net.tell_peer(network, 0, PeerNews::Moved(number, Box::new(moved)));
    }

    /// An interface of another network, whose name is free, comes here; its number here.
    pub fn receive_interface(&mut self, interface: &Interface) -> usize {
        let (mac, mtu, carrier) = (interface.mac, interface.mtu, interface.carrier);
        let new = self.net.add_virtual(&interface.name, interface.attachment, Some(mac), Some(mtu));
        self.net.interfaces[new].carrier = carrier;
        self.link_changed(new);
        new
    }

    /// The other end of an interface has come up or gone down.
    pub fn set_peer_carrier(&mut self, number: usize, carrier: bool) {
        let interface = &self.net.interfaces[number];
        if matches!(interface.attachment, Attachment::Veth { .. }) && interface.carrier != carrier {
            self.net.interfaces[number].carrier = carrier;
            self.link_changed(number);
        }
    }

    /// Tells the other end of a pair that this one is up, or is not.
    pub(crate) fn tell_carrier(&mut self, number: usize) {
        let Attachment::Veth { network, peer } = self.net.interfaces[number].attachment else { return };
        let up = self.net.interfaces[number].up;
        if network == self.net.number {
            self.set_peer_carrier(peer, up);
        } else {
            self.net.tell_peer(network, peer, PeerNews::Carrier(up));
        }
    }
}

/// The other end of a new pair.
#[derive(Debug, Default)]
pub(super) struct PeerWanted {
    name: Option<String>,
    mac: Option<[u8; 6]>,
    mtu: Option<usize>,
    network: Option<u32>,
}
