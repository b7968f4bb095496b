//! The neighbour cache in rtnetlink: `RTM_NEWNEIGH`, `RTM_GETNEIGH`.

use super::message::{MULTI, Message, Request};
use super::route::parse_ip;
use crate::host::Host;
use crate::net::interface_index;
use belljar_linux_abi::{Errno, c};
use belljar_net::neighbour::NeighbourState;
use belljar_wire::ethernet::Address;
use std::net::{IpAddr, Ipv4Addr};

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

impl Host {
    pub(super) fn neighbours(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        if family == c::AF_INET6 {
            return Vec::new();
        }
        let message = |neighbour: belljar_net::neighbour::Neighbour| {
            let message = Message::new(c::RTM_NEWNEIGH, MULTI, sequence, port)
                .put(&[c::AF_INET as u8, 0, 0, 0])
                .put(&interface_index(neighbour.interface).to_ne_bytes())
                .put(&nud(neighbour.state).to_ne_bytes())
                .put(&[0, c::RTN_UNICAST])
                .attribute(NDA_DST, &neighbour.ip.octets());
            match neighbour.address {
                Some(address) => message.attribute(NDA_LLADDR, &address.0).finish(),
                None => message.finish(),
            }
        };
        self.net.neighbours.iter().map(message).collect()
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
        let exists = self.net.neighbours.iter().any(|n| (n.interface, n.ip) == (interface, ip));
        if exists && i32::from(request.flags) & c::NLM_F_EXCL != 0 {
            return Err(Errno::EEXIST);
        }
        self.net.neighbours.set(interface, ip, address, permanent);
        Ok(())
    }

    /// `ip neigh del`.
    pub(super) fn remove_neighbour(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        let (interface, ip) = self.neighbour_named(request)?;
        self.net.neighbours.remove(interface, ip).then_some(()).ok_or(Errno::ENOENT)
    }

    fn neighbour_named(&self, request: &Request<'_>) -> Result<(usize, Ipv4Addr), Errno> {
        let interface = self.net.interface_by_index(request.word(4)?).ok_or(Errno::ENODEV)?;
        let ip = parse_ip(request.attribute(NDMSG, NDA_DST).ok_or(Errno::EINVAL)?)?;
        match ip {
            IpAddr::V4(ip) if self.net.interfaces[interface].is_link() => Ok((interface, ip)),
            IpAddr::V4(_) => Err(Errno::EINVAL),
            IpAddr::V6(_) => Err(Errno::EAFNOSUPPORT),
        }
    }
}
