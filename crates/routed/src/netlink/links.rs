//! Interfaces with their addresses.

use super::Netlink;
use belljar_wire::ethernet::Address;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub mtu: usize,
    /// True if the interface is up and has a carrier.
    pub running: bool,
    pub loopback: bool,
    /// Hardware address; zero if it has none.
    pub mac: Address,
    /// First IPv4 address.
    pub address: Option<Ipv4Addr>,
    /// Prefix length of the address.
    pub network_bits: u8,
}

/// All interfaces.
pub fn links(netlink: &mut Netlink) -> io::Result<Vec<Link>> {
    let mut all: Vec<Link> = netlink
        .dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?
        .into_iter()
        .filter_map(
            |message| if let RouteNetlinkMessage::NewLink(link) = message { Some(of(&link)) } else { None },
        )
        .collect();
    for (index, address, network_bits) in local_addresses(netlink)? {
        if let Some(link) = all.iter_mut().find(|link| link.index == index && link.address.is_none()) {
            (link.address, link.network_bits) = (Some(address), network_bits);
        }
    }
    Ok(all)
}

/// The IPv4 addresses of all interfaces.
pub fn addresses(netlink: &mut Netlink) -> io::Result<Vec<Ipv4Addr>> {
    Ok(local_addresses(netlink)?.into_iter().map(|(_, address, _)| address).collect())
}

/// IPv4 addresses: interface index, address, prefix length.
fn local_addresses(netlink: &mut Netlink) -> io::Result<Vec<(u32, Ipv4Addr, u8)>> {
    let mut request = AddressMessage::default();
    request.header.family = AddressFamily::Inet;
    let mut out = Vec::new();
    for message in netlink.dump(RouteNetlinkMessage::GetAddress(request))? {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        // On point-to-point interfaces the local address follows the peer's.
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
            _ => None,
        });
        out.extend(local.map(|address| (message.header.index, address, message.header.prefix_len)));
    }
    Ok(out)
}

fn of(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mtu: 1500,
        running: message.header.flags.contains(LinkFlags::Up | LinkFlags::Running),
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        mac: Address([0; 6]),
        address: None,
        network_bits: 32,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu as usize,
            LinkAttribute::Address(mac) => link.mac = mac[..].try_into().map_or(link.mac, Address),
            _ => {}
        }
    }
    link
}
