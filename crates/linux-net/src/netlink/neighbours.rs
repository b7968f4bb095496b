//! The neighbour cache in rtnetlink: `RTM_NEWNEIGH`, `RTM_GETNEIGH`.

use super::group;
use super::message::{MULTI, Message, Request, To};
use super::refusal::{Refusal, refusal};
use super::requests::{ip_bytes, parse_ip};
use crate::Admin;
use belljar_base::SimTime;
use belljar_linux_abi::{Errno, c};
use belljar_net::neighbour::{Neighbour, NeighbourState, Neighbours, NoAddress};
use belljar_net::routes::Ip;
use belljar_netstack::interface_index;
use belljar_wire::ethernet::Address;
use std::net::IpAddr;

/// Length of `struct ndmsg` in bytes.
const NDMSG: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// `NTF_USE` and `NTF_PROXY`.
const NTF_USE: u8 = 0x01;
const NTF_PROXY: u8 = 0x08;

/// State as a `NUD_*` bit.
pub fn nud(state: NeighbourState) -> u16 {
    match state {
        NeighbourState::Incomplete => 0x01,
        NeighbourState::Reachable => 0x02,
        NeighbourState::Stale => 0x04,
        NeighbourState::Delay => 0x08,
        NeighbourState::Probe => 0x10,
        NeighbourState::Failed => 0x20,
        NeighbourState::NoArp => 0x40,
        NeighbourState::Permanent => 0x80,
    }
}

/// State of a `NUD_*` mask; 0 stands for a failed neighbour. `EINVAL` for unknown bits.
fn state_of(nud: u16) -> Result<NeighbourState, Errno> {
    const ALL: [NeighbourState; 8] = [
        NeighbourState::Permanent,
        NeighbourState::NoArp,
        NeighbourState::Reachable,
        NeighbourState::Probe,
        NeighbourState::Stale,
        NeighbourState::Delay,
        NeighbourState::Incomplete,
        NeighbourState::Failed,
    ];
    match nud {
        0 => Ok(NeighbourState::Failed),
        _ => ALL.into_iter().find(|state| self::nud(*state) & nud != 0).ok_or(Errno::EINVAL),
    }
}

/// Message of type `kind` about a neighbour; `to` is the sequence number, the flags and the receiver's port
/// id.
fn message<A: Ip>(neighbour: Neighbour<A>, kind: u16, to: To) -> Vec<u8> {
    let (sequence, flags, port) = to;
    let ip: IpAddr = neighbour.ip.into();
    let family = if ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
    let message = Message::new(kind, flags, sequence, port)
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

/// Refusal of a state that requires a link-layer address.
fn no_address(_: NoAddress) -> Refusal {
    refusal(Errno::EINVAL, "No link layer address given")
}

/// True if a dump requests proxy entries only.
pub(crate) fn asks_for_proxies(request: &Request<'_>) -> bool {
    request.body.get(..NDMSG).is_some_and(|head| head[NDMSG - 2] == NTF_PROXY)
}

impl Admin<'_> {
    /// All neighbours of a family, or of every family. There are no proxy entries (`ip neigh show proxy`).
    pub(crate) fn neighbours(&self, family: i32, proxies: bool, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        if proxies {
            return Vec::new();
        }
        let to = (sequence, MULTI, port);
        let v4 = self.net.neighbours.iter().map(|each| message(each, c::RTM_NEWNEIGH, to));
        let v6 = self.net.v6.neighbours.iter().map(|each| message(each, c::RTM_NEWNEIGH, to));
        match family {
            c::AF_INET => v4.collect(),
            c::AF_INET6 => v6.collect(),
            _ => v4.chain(v6).collect(),
        }
    }

    /// Handles `ip neigh get`.
    pub(crate) fn neighbour(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Errno> {
        let (interface, ip) = self.neighbour_named(request)?;
        let to = (request.sequence, 0, port);
        let found = match ip {
            IpAddr::V4(ip) => {
                self.net.neighbours.get(interface, ip).map(|each| message(each, c::RTM_NEWNEIGH, to))
            }
            IpAddr::V6(ip) => {
                self.net.v6.neighbours.get(interface, ip).map(|each| message(each, c::RTM_NEWNEIGH, to))
            }
        };
        found.ok_or(Errno::ENOENT)
    }

    /// Handles `ip neigh add`, `replace` and `change`: `neigh_add` in Linux.
    pub(crate) fn add_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (interface, ip) = self.neighbour_named(request)?;
        let address = match request.attribute(NDMSG, NDA_LLADDR) {
            Some(bytes) => {
                Some(Address(bytes.get(..6).and_then(|bytes| bytes.try_into().ok()).ok_or(Errno::EINVAL)?))
            }
            None => None,
        };
        let [.., low, high, ntf, _] = request.body.get(..NDMSG).ok_or(Errno::EINVAL)? else {
            return Err(Errno::EINVAL.into());
        };
        if ntf & NTF_PROXY != 0 {
            self.warn("netlink: answering for neighbours (ip neigh add proxy) is not supported");
            return Err(Errno::EOPNOTSUPP.into());
        }
        let state = state_of(u16::from_ne_bytes([*low, *high]))?;
        let flags = i32::from(request.flags);
        let now = self.net.clock.now();
        let known = match ip {
            IpAddr::V4(ip) => self.net.neighbours.get(interface, ip).map(|n| n.address),
            IpAddr::V6(ip) => self.net.v6.neighbours.get(interface, ip).map(|n| n.address),
        };
        let address = match known {
            None if flags & c::NLM_F_CREATE == 0 => return Err(Errno::ENOENT.into()),
            Some(_) if flags & c::NLM_F_EXCL != 0 => return Err(Errno::EEXIST.into()),
            // A different address is ignored unless the request replaces it.
            Some(Some(old)) if flags & c::NLM_F_REPLACE == 0 && address.is_some_and(|new| new != old) => {
                return Ok(());
            }
            _ => address,
        };
        let use_it = ntf & NTF_USE != 0;
        match ip {
            IpAddr::V4(ip) if use_it => self.net.neighbours.make_use(now, interface, ip),
            IpAddr::V6(ip) if use_it => self.net.v6.neighbours.make_use(now, interface, ip),
            IpAddr::V4(ip) => {
                self.net.neighbours.assign(now, interface, ip, address, state).map_err(no_address)?
            }
            IpAddr::V6(ip) => {
                self.net.v6.neighbours.assign(now, interface, ip, address, state).map_err(no_address)?
            }
        }
        Ok(())
    }

    /// Handles `ip neigh del`: the neighbour enters the failed state and is then removed.
    pub(crate) fn remove_neighbour(&mut self, request: &Request<'_>) -> Result<(), Errno> {
        fn remove<A: Ip>(all: &mut Neighbours<A>, now: SimTime, interface: usize, ip: A) -> bool {
            let known = all.get(interface, ip).is_some();
            known
                && all.assign(now, interface, ip, None, NeighbourState::Failed).is_ok()
                && all.remove(interface, ip)
        }
        let (interface, ip) = self.neighbour_named(request)?;
        let now = self.net.clock.now();
        let removed = match ip {
            IpAddr::V4(ip) => remove(&mut self.net.neighbours, now, interface, ip),
            IpAddr::V6(ip) => remove(&mut self.net.v6.neighbours, now, interface, ip),
        };
        removed.then_some(()).ok_or(Errno::ENOENT)
    }

    /// Notifies the netlink group of a neighbour's state, or of its removal.
    pub fn announce_neighbour<A: Ip>(&mut self, neighbour: Neighbour<A>, there: bool) {
        let kind = if there { c::RTM_NEWNEIGH } else { c::RTM_DELNEIGH };
        self.announce(group::NEIGHBOUR, &message(neighbour, kind, (0, 0, 0)));
    }

    fn neighbour_named(&self, request: &Request<'_>) -> Result<(usize, IpAddr), Errno> {
        let interface = self.net.interfaces.by_index(request.word(4)?).ok_or(Errno::ENODEV)?;
        let ip = parse_ip(request.attribute(NDMSG, NDA_DST).ok_or(Errno::EINVAL)?)?;
        if self.net.interfaces[interface].is_link() { Ok((interface, ip)) } else { Err(Errno::EINVAL) }
    }
}
