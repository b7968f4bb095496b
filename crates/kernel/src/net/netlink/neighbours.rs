//! The neighbour cache in rtnetlink: `RTM_NEWNEIGH`, `RTM_GETNEIGH`.

use super::message::{MULTI, Message, Request};
use super::route::{ip_bytes, parse_ip};
use crate::host::Host;
use crate::net::interface_index;
use belljar_linux_abi::{Errno, c};
use belljar_net::neighbour::{Neighbour, NeighbourState};
use belljar_net::routes::Ip;
use belljar_wire::ethernet::Address;
use std::net::IpAddr;

/// The length of `struct ndmsg`.
const NDMSG: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// `NUD_*`.
const PERMANENT: u16 = 0x80;

/// The state as a bit.
pub(in crate::net) fn nud(state: NeighbourState) -> u16 {
    match state {
        NeighbourState::Incomplete => 0x01,
        NeighbourState::Reachable => 0x02,
        NeighbourState::Stale => 0x04,
        NeighbourState::Delay => 0x08,
        NeighbourState::Probe => 0x10,
        NeighbourState::Failed => 0x20,
        NeighbourState::Permanent => PERMANENT,
    }
}

/// A message about a neighbour.
fn shown<A: Ip>(neighbour: Neighbour<A>, sequence: u32, port: u32) -> Vec<u8> {
    let ip: IpAddr = neighbour.ip.into();
    let family = if ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
    let message = Message::new(c::RTM_NEWNEIGH, MULTI, sequence, port)
        .put(&[family as u8, 0, 0, 0])
        .put(&interface_index(neighbour.interface).to_ne_bytes())
        .put(&nud(neighbour.state).to_ne_bytes())
        .put(&[0, c::RTN_UNICAST])
        .attribute(NDA_DST, &ip_bytes(ip));
    match neighbour.address {
        Some(address) => message.attribute(NDA_LLADDR, &address.0).finish(),
        None => message.finish(),
    }
}

impl Host {
    pub(super) fn neighbours(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        let v4 = self.net.neighbours.iter().map(|each| shown(each, sequence, port));
        let v6 = self.net.v6.neighbours.iter().map(|each| shown(each, sequence, port));
        match family {
            c::AF_INET => v4.collect(),
            c::AF_INET6 => v6.collect(),
            _ => v4.chain(v6).collect(),
        }
    }

    /// `ip neigh add`.
    pub(super) fn add_neighbour(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let (interface, ip) = self.neighbour_named(request)?;
        let address = request.attribute(NDMSG, NDA_LLADDR).and_then(|bytes| bytes.try_into().ok());
        let address = Address(address.ok_or(Errno::EINVAL)?);
        let [.., low, high, _, _] = request.body.get(..NDMSG).ok_or(Errno::EINVAL)? else {
            return Err(Errno::EINVAL);
        };
        let permanent = u16::from_ne_bytes([*low, *high]) & PERMANENT != 0;
        let exists = match ip {
            IpAddr::V4(ip) => self.net.neighbours.iter().any(|n| (n.interface, n.ip) == (interface, ip)),
            IpAddr::V6(ip) => self.net.v6.neighbours.iter().any(|n| (n.interface, n.ip) == (interface, ip)),
        };
        if exists && i32::from(request.flags) & c::NLM_F_EXCL != 0 {
            return Err(Errno::EEXIST);
        }
        match ip {
            IpAddr::V4(ip) => self.net.neighbours.set(interface, ip, address, permanent),
            IpAddr::V6(ip) => self.net.v6.neighbours.set(interface, ip, address, permanent),
        }
        Ok(())
    }

    /// `ip neigh del`.
    pub(super) fn remove_neighbour(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let (interface, ip) = self.neighbour_named(request)?;
        let removed = match ip {
            IpAddr::V4(ip) => self.net.neighbours.remove(interface, ip),
            IpAddr::V6(ip) => self.net.v6.neighbours.remove(interface, ip),
        };
        removed.then_some(()).ok_or(Errno::ENOENT)
    }

    fn neighbour_named(&self, request: &Request<'_>) -> Result<(usize, IpAddr), Errno> {
        let interface = self.net.interface_by_index(request.word(4)?).ok_or(Errno::ENODEV)?;
        let ip = parse_ip(request.attribute(NDMSG, NDA_DST).ok_or(Errno::EINVAL)?)?;
        if self.net.interfaces[interface].is_link() { Ok((interface, ip)) } else { Err(Errno::EINVAL) }
    }
}
