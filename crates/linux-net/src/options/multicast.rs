//! Multicast options of level `IPPROTO_IP` in all their forms: by address or by index, specific to IPv4 or
//! protocol-independent.

use belljar_base::Set;
use belljar_linux_abi::{Errno, c};
use belljar_net::igmp::SourceFilter;
use belljar_netstack::SocketKey;
use belljar_netstack::Stack;
use belljar_netstack::ip::{MAX_SOURCES, SourceChange};
use std::net::{Ipv4Addr, Ipv6Addr};

/// `sizeof(struct group_req)`, and the offset of its address.
const GROUP_REQ: usize = 136;
const GROUP_AT: usize = 8;
/// `sizeof(struct group_source_req)`, and the offset of the source address.
const GROUP_SOURCE_REQ: usize = 264;
const SOURCE_AT: usize = 136;

fn ip(value: &[u8], at: usize) -> Result<Ipv4Addr, Errno> {
    let octets: [u8; 4] = value.get(at..at + 4).and_then(|b| b.try_into().ok()).ok_or(Errno::EINVAL)?;
    Ok(octets.into())
}

fn index(value: &[u8], at: usize) -> u32 {
    value.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

/// The IPv4 address of a `struct sockaddr_storage`.
fn sockaddr(value: &[u8], at: usize) -> Result<Ipv4Addr, Errno> {
    let family = value.get(at..at + 2).map(|b| i32::from(u16::from_ne_bytes([b[0], b[1]])));
    if family != Some(c::AF_INET) { Err(Errno::EADDRNOTAVAIL) } else { ip(value, at + 4) }
}

/// Sets a multicast option; `None` if `name` is not one.
pub fn set(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Option<Result<(), Errno>> {
    Some(match name {
        c::IP_MULTICAST_IF => set_interface(net, key, value),
        c::IP_ADD_MEMBERSHIP | c::IP_DROP_MEMBERSHIP => membership(net, key, name, value),
        c::MCAST_JOIN_GROUP | c::MCAST_LEAVE_GROUP => group(net, key, name, value),
        c::IP_ADD_SOURCE_MEMBERSHIP
        | c::IP_DROP_SOURCE_MEMBERSHIP
        | c::IP_BLOCK_SOURCE
        | c::IP_UNBLOCK_SOURCE => source(net, key, name, value),
        c::MCAST_JOIN_SOURCE_GROUP
        | c::MCAST_LEAVE_SOURCE_GROUP
        | c::MCAST_BLOCK_SOURCE
        | c::MCAST_UNBLOCK_SOURCE => group_source(net, key, name, value),
        c::IP_MSFILTER => filter(net, key, value),
        c::MCAST_MSFILTER => group_filter(net, key, value),
        _ => return None,
    })
}

/// `IP_MULTICAST_IF` with an address, a `struct ip_mreq` or a `struct ip_mreqn`.
fn set_interface(net: &mut Stack, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    if net.socket(key).is_stream() {
        return Err(Errno::EINVAL);
    }
    let (own, number) = match value.len() {
        12.. => (ip(value, 4)?, index(value, 8)),
        8.. => (ip(value, 4)?, 0),
        _ => (ip(value, 0)?, 0),
    };
    let interface = match (number, own.is_unspecified()) {
        (0, true) => None,
        (0, false) => Some(net.interfaces.with_address(own).ok_or(Errno::EADDRNOTAVAIL)?),
        (number, _) => Some(net.interfaces.by_index(number).ok_or(Errno::EADDRNOTAVAIL)?),
    };
    let options = net.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?;
    options.multicast_interface = (interface, own);
    Ok(())
}

fn multicast(group: Ipv4Addr) -> Result<Ipv4Addr, Errno> {
    if group.is_multicast() { Ok(group) } else { Err(Errno::EINVAL) }
}

fn join_or_leave(
    net: &mut Stack,
    key: SocketKey,
    join: bool,
    group: Ipv4Addr,
    (own, number): (Ipv4Addr, u32),
) -> Result<(), Errno> {
    if !join && !group.is_multicast() {
        return Err(Errno::EADDRNOTAVAIL);
    }
    let group = multicast(group)?;
    let interface = net.multicast_interface(number, own, group);
    match join {
        true => net.join_group(key, interface?, group),
        // A group on a nonexistent interface has no members.
        false => leave_group(net, key, interface?, group),
    }
}

/// Handles a `struct ip_mreq` or `struct ip_mreqn`.
fn membership(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    // Only this request checks the socket type.
    if net.socket(key).is_stream() {
        return Err(Errno::EPROTO);
    }
    if value.len() < 8 {
        return Err(Errno::EINVAL);
    }
    let number = if value.len() >= 12 { index(value, 8) } else { 0 };
    let place = (ip(value, 4)?, number);
    join_or_leave(net, key, name == c::IP_ADD_MEMBERSHIP, ip(value, 0)?, place)
}

/// Handles a `struct group_req`.
fn group(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    if value.len() < GROUP_REQ {
        return Err(Errno::EINVAL);
    }
    let group = sockaddr(value, GROUP_AT).map_err(|_| Errno::EINVAL)?;
    let place = (Ipv4Addr::UNSPECIFIED, index(value, 0));
    join_or_leave(net, key, name == c::MCAST_JOIN_GROUP, group, place)
}

/// Decodes a `struct group_req` with an IPv6 address: interface index and group.
pub fn group_request6(value: &[u8]) -> Result<(u32, Ipv6Addr), Errno> {
    const OCTETS_AT: usize = GROUP_AT + 8;
    if value.len() < GROUP_REQ {
        return Err(Errno::EINVAL);
    }
    let family = i32::from(u16::from_ne_bytes([value[GROUP_AT], value[GROUP_AT + 1]]));
    let octets = value[OCTETS_AT..].first_chunk::<16>().ok_or(Errno::EINVAL)?;
    if family != c::AF_INET6 { Err(Errno::EADDRNOTAVAIL) } else { Ok((index(value, 0), (*octets).into())) }
}

/// Handles a `struct ip_mreq_source`: group, own address, source.
fn source(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    if value.len() < 12 {
        return Err(Errno::EINVAL);
    }
    let change = match name {
        c::IP_ADD_SOURCE_MEMBERSHIP => SourceChange::Join,
        c::IP_DROP_SOURCE_MEMBERSHIP => SourceChange::Leave,
        c::IP_BLOCK_SOURCE => SourceChange::Block,
        _ => SourceChange::Unblock,
    };
    let group = multicast(ip(value, 0)?)?;
    let interface = net.multicast_interface(0, ip(value, 4)?, group)?;
    let source = ip(value, 8)?;
    net.change_memberships(key, interface, group, |options| {
        options.change_group_source((interface, group), source, change)
    })
}

/// Handles a `struct group_source_req`.
fn group_source(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    if value.len() < GROUP_SOURCE_REQ {
        return Err(Errno::EINVAL);
    }
    let change = match name {
        c::MCAST_JOIN_SOURCE_GROUP => SourceChange::Join,
        c::MCAST_LEAVE_SOURCE_GROUP => SourceChange::Leave,
        c::MCAST_BLOCK_SOURCE => SourceChange::Block,
        _ => SourceChange::Unblock,
    };
    let group = multicast(sockaddr(value, GROUP_AT)?)?;
    let interface = net.multicast_interface(index(value, 0), Ipv4Addr::UNSPECIFIED, group)?;
    let source = sockaddr(value, SOURCE_AT)?;
    net.change_memberships(key, interface, group, |options| {
        options.change_group_source((interface, group), source, change)
    })
}

/// Handles a `struct ip_msfilter`: group, own address, mode, count, sources.
fn filter(net: &mut Stack, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    const SOURCES_AT: usize = 16;
    if value.len() < SOURCES_AT {
        return Err(Errno::EINVAL);
    }
    let (mode, count) = (index(value, 8), index(value, 12) as usize);
    if count > MAX_SOURCES {
        return Err(Errno::ENOBUFS);
    }
    let sources: Result<_, Errno> = (0..count).map(|n| ip(value, SOURCES_AT + 4 * n)).collect();
    let place = (ip(value, 4)?, 0);
    set_filter(net, key, ip(value, 0)?, place, mode, sources?)
}

/// Handles a `struct group_filter`: index, group, mode, count, sources.
fn group_filter(net: &mut Stack, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    const SOURCES_AT: usize = 144;
    if value.len() < SOURCES_AT {
        return Err(Errno::EINVAL);
    }
    let (mode, count) = (index(value, 136), index(value, 140) as usize);
    if count > MAX_SOURCES {
        return Err(Errno::ENOBUFS);
    }
    if value.len() < SOURCES_AT + 128 * count {
        return Err(Errno::EINVAL);
    }
    let sources: Result<_, Errno> = (0..count).map(|n| sockaddr(value, SOURCES_AT + 128 * n)).collect();
    let place = (Ipv4Addr::UNSPECIFIED, index(value, 0));
    set_filter(net, key, sockaddr(value, GROUP_AT)?, place, mode, sources?)
}

/// Sets a source filter, `ip_mc_msfilter` in Linux: `mode` is `MCAST_EXCLUDE` (0) or `MCAST_INCLUDE` (1).
fn set_filter(
    net: &mut Stack,
    key: SocketKey,
    group: Ipv4Addr,
    (own, number): (Ipv4Addr, u32),
    mode: u32,
    sources: Set<Ipv4Addr>,
) -> Result<(), Errno> {
    let group = multicast(group)?;
    if mode > 1 {
        return Err(Errno::EINVAL);
    }
    let interface = net.multicast_interface(number, own, group)?;
    let filter = SourceFilter { include: mode == 1, sources };
    // An empty include filter is equivalent to leaving the group.
    if filter.is_nobody() {
        return leave_group(net, key, interface, group);
    }
    net.change_memberships(key, interface, group, |options| {
        options.set_group_filter(interface, group, filter)
    })
}

/// `IP_MSFILTER` of `getsockopt(2)`, whose value names the group and the local address and gives the capacity
/// for sources. Returns mode, count and the sources that fit.
pub fn get_filter(net: &mut Stack, key: SocketKey, value: &[u8]) -> Result<Vec<u8>, Errno> {
    if value.len() < 16 {
        return Err(Errno::EINVAL);
    }
    let (group, own) = (multicast(ip(value, 0)?)?, ip(value, 4)?);
    let interface = net.multicast_interface(0, own, group)?;
    let options = net.socket(key).ip_options().ok_or(Errno::ENOPROTOOPT)?;
    let member = options.groups.iter().find(|m| m.group == group && m.interface == interface);
    let filter = &member.ok_or(Errno::EADDRNOTAVAIL)?.filter;
    let room = index(value, 12) as usize;
    let mut answer = value[..8].to_vec();
    answer.extend(u32::from(filter.include).to_ne_bytes());
    answer.extend((filter.sources.len() as u32).to_ne_bytes());
    answer.extend(filter.sources.iter().take(room).flat_map(|source| source.octets()));
    Ok(answer)
}

/// `IP_DROP_MEMBERSHIP`.
fn leave_group(net: &mut Stack, key: SocketKey, interface: usize, group: Ipv4Addr) -> Result<(), Errno> {
    net.change_memberships(key, interface, group, |options| options.leave_group(interface, group))
}
