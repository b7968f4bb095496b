//! Neighbours with hardware addresses known to the kernel.

use super::Netlink;
use belljar_wire::ethernet::Address;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::Ipv4Addr;

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    pub interface: u32,
    pub address: Ipv4Addr,
    pub mac: Address,
}

/// All neighbours to which packets can be sent, including stale entries that the kernel would verify.
pub fn neighbors(netlink: &mut Netlink) -> io::Result<Vec<Neighbor>> {
    let mut request = NeighbourMessage::default();
    request.header.family = AddressFamily::Inet;
    let messages = netlink.dump(RouteNetlinkMessage::GetNeighbour(request))?;
    let all = messages.iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewNeighbour(neighbour) => usable(neighbour),
        _ => None,
    });
    Ok(all.collect())
}

fn usable(message: &NeighbourMessage) -> Option<Neighbor> {
    use NeighbourState::{Delay, Permanent, Probe, Reachable, Stale};
    if !matches!(message.header.state, Reachable | Stale | Delay | Probe | Permanent) {
        return None;
    }
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(found)) => address = Some(*found),
            NeighbourAttribute::LinkLayerAddress(found) => mac = found[..].try_into().ok().map(Address),
            _ => {}
        }
    }
    Some(Neighbor { interface: message.header.ifindex, address: address?, mac: mac? })
}
