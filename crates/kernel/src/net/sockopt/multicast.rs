//! Options of level `IPPROTO_IP` about multicast, in all the shapes that they have: by address or by index,
//! of IPv4 alone or of the kind that is common with IPv6.

use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::multicast::SourceChange;
use belljar_linux_abi::{Errno, c};
use std::net::{Ipv4Addr, Ipv6Addr};

/// `sizeof(struct group_req)`, and where its address begins.
const GROUP_REQ: usize = 136;
const GROUP_AT: usize = 8;
/// `sizeof(struct group_source_req)`, and where the source's address begins.
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

/// `None` if the option is not about multicast interfaces or groups.
pub fn set(host: &mut Host, key: SocketKey, name: i32, value: &[u8]) -> Option<Result<(), Errno>> {
    Some(match name {
        c::IP_MULTICAST_IF => set_interface(host, key, value),
        c::IP_ADD_MEMBERSHIP | c::IP_DROP_MEMBERSHIP => membership(host, key, name, value),
        c::MCAST_JOIN_GROUP | c::MCAST_LEAVE_GROUP => group(host, key, name, value),
        c::IP_ADD_SOURCE_MEMBERSHIP
        | c::IP_DROP_SOURCE_MEMBERSHIP
        | c::IP_BLOCK_SOURCE
        | c::IP_UNBLOCK_SOURCE => source(host, key, name, value),
        c::MCAST_JOIN_SOURCE_GROUP
        | c::MCAST_LEAVE_SOURCE_GROUP
        | c::MCAST_BLOCK_SOURCE
        | c::MCAST_UNBLOCK_SOURCE => group_source(host, key, name, value),
        c::IP_MSFILTER | c::MCAST_MSFILTER => {
            host.warn("IP_MSFILTER is not supported: sources are added one by one");
            Err(Errno::ENOPROTOOPT)
        }
        _ => return None,
    })
}

/// `IP_MULTICAST_IF` with an address, a `struct ip_mreq` or a `struct ip_mreqn`.
fn set_interface(host: &mut Host, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    if host.socket(key).is_stream() {
        return Err(Errno::EINVAL);
    }
    let (own, number) = match value.len() {
        12.. => (ip(value, 4)?, index(value, 8)),
        8.. => (ip(value, 4)?, 0),
        _ => (ip(value, 0)?, 0),
    };
    let interface = match (number, own.is_unspecified()) {
        (0, true) => None,
        (0, false) => Some(host.net.interface_of(own).ok_or(Errno::EADDRNOTAVAIL)?),
        (number, _) => Some(host.net.interface_by_index(number).ok_or(Errno::EADDRNOTAVAIL)?),
    };
    let options = host.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?;
    options.multicast_interface = (interface, own);
    Ok(())
}

fn multicast(group: Ipv4Addr) -> Result<Ipv4Addr, Errno> {
    if group.is_multicast() { Ok(group) } else { Err(Errno::EINVAL) }
}

fn join_or_leave(
    host: &mut Host,
    key: SocketKey,
    join: bool,
    group: Ipv4Addr,
    (own, number): (Ipv4Addr, u32),
) -> Result<(), Errno> {
    if host.socket(key).is_stream() {
        return Err(Errno::EPROTO);
    }
    if !join && !group.is_multicast() {
        return Err(Errno::EADDRNOTAVAIL);
    }
    let group = multicast(group)?;
    let interface = host.net.multicast_interface(number, own, group);
    match join {
        true => host.join_group(key, interface?, group),
        // Of a group on an interface that there is not nobody is a member.
        false => host.leave_group(key, interface?, group),
    }
}

/// `struct ip_mreq` or `struct ip_mreqn`.
fn membership(host: &mut Host, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    if value.len() < 8 {
        return Err(Errno::EINVAL);
    }
    let number = if value.len() >= 12 { index(value, 8) } else { 0 };
    let place = (ip(value, 4)?, number);
    join_or_leave(host, key, name == c::IP_ADD_MEMBERSHIP, ip(value, 0)?, place)
}

/// `struct group_req`.
fn group(host: &mut Host, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    if value.len() < GROUP_REQ {
        return Err(Errno::EINVAL);
    }
    let group = sockaddr(value, GROUP_AT).map_err(|_| Errno::EINVAL)?;
    let place = (Ipv4Addr::UNSPECIFIED, index(value, 0));
    join_or_leave(host, key, name == c::MCAST_JOIN_GROUP, group, place)
}

/// `struct group_req` with an IPv6 address: the interface's index and the group.
pub fn group_request6(value: &[u8]) -> Result<(u32, Ipv6Addr), Errno> {
    const OCTETS_AT: usize = GROUP_AT + 8;
    if value.len() < GROUP_REQ {
        return Err(Errno::EINVAL);
    }
    let family = i32::from(u16::from_ne_bytes([value[GROUP_AT], value[GROUP_AT + 1]]));
    let octets = value[OCTETS_AT..].first_chunk::<16>().ok_or(Errno::EINVAL)?;
    if family != c::AF_INET6 { Err(Errno::EADDRNOTAVAIL) } else { Ok((index(value, 0), (*octets).into())) }
}

/// `struct ip_mreq_source`: group, own address, source.
fn source(host: &mut Host, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
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
    let interface = host.net.multicast_interface(0, ip(value, 4)?, group)?;
    host.change_group_source(key, (interface, group), ip(value, 8)?, change)
}

/// `struct group_source_req`.
fn group_source(host: &mut Host, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
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
    let interface = host.net.multicast_interface(index(value, 0), Ipv4Addr::UNSPECIFIED, group)?;
    host.change_group_source(key, (interface, group), sockaddr(value, SOURCE_AT)?, change)
}
