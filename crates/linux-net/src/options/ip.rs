//! Levels `IPPROTO_IP` and `IPPROTO_IPV6`, ip(7) and ipv6(7).

use super::{Value, flag, int, multicast, to_int};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::SocketKey;
use belljar_netstack::Stack;
use belljar_netstack::ip::IpOptions;
use belljar_netstack::socket::SocketKind;
use belljar_tcp::State;
use std::net::{IpAddr, Ipv6Addr};

/// Sets an option of this level.
pub fn set(net: &mut Stack, key: SocketKey, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
    if level == c::IPPROTO_IP
        && let Some(result) = multicast::set(net, key, name, value)
    {
        return result;
    }
    if level == c::IPPROTO_IPV6 && matches!(name, c::IPV6_ADD_MEMBERSHIP | c::IPV6_DROP_MEMBERSHIP) {
        return membership6(net, key, name, value);
    }
    if (level, name) == (c::IPPROTO_IPV6, c::IPV6_ADDRFORM) {
        return change_family(net, key, to_int(value)?);
    }
    if level == c::IPPROTO_IPV6 && matches!(name, c::MCAST_JOIN_GROUP | c::MCAST_LEAVE_GROUP) {
        let (index, group) = multicast::group_request6(value)?;
        return set_membership6(net, key, name == c::MCAST_JOIN_GROUP, index, group);
    }
    let groupless = matches!(name, c::IPV6_MULTICAST_IF | c::IPV6_MULTICAST_HOPS);
    if level == c::IPPROTO_IPV6 && groupless && net.socket(key).type_ == c::SOCK_STREAM {
        return Err(Errno::ENOPROTOOPT);
    }
    if level == c::IPPROTO_IPV6 && name == c::IPV6_MULTICAST_IF {
        let index = u32::try_from(to_int(value)?).map_err(|_| Errno::ENODEV)?;
        let index = (index != 0).then_some(index);
        if index.is_some_and(|index| net.interfaces.by_index(index).is_none()) {
            return Err(Errno::ENODEV);
        }
        net.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?.multicast_if6 = index;
        return Ok(());
    }
    // Options of this level may be passed as a single byte.
    let number = match value {
        [] if level == c::IPPROTO_IP
            && !matches!(
                name,
                c::IP_TTL
                    | c::IP_MULTICAST_TTL
                    | c::IP_MULTICAST_LOOP
                    | c::IP_MULTICAST_ALL
                    | c::IP_FREEBIND
                    | c::IP_TRANSPARENT
                    | c::IP_MINTTL
            ) =>
        {
            0
        }
        [byte, rest @ ..] if level == c::IPPROTO_IP && rest.len() < 3 => i32::from(*byte),
        _ => to_int(value)?,
    };
    // A stream socket cannot have a multicast peer.
    if (level, name) == (c::IPPROTO_IP, c::IP_MULTICAST_TTL) && net.socket(key).type_ == c::SOCK_STREAM {
        return Err(Errno::EINVAL);
    }
    let bound = is_bound(net, key);
    if level == c::IPPROTO_IP && name == c::IP_HDRINCL {
        let SocketKind::Raw(raw) = &mut net.socket(key).kind else { return Err(Errno::ENOPROTOOPT) };
        raw.header_included = number != 0;
        return Ok(());
    }
    let options = net.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?;
    if level == c::IPPROTO_IP {
        set_v4(options, name, number)?;
    } else {
        set_v6(options, name, number, bound)?;
    }
    Ok(())
}

/// Peer address of a connected TCP or UDP socket; `ENOPROTOOPT` for other sockets.
fn connected_to(net: &mut Stack, key: SocketKey) -> Result<Option<IpAddr>, Errno> {
    match &mut net.socket(key).kind {
        SocketKind::Udp(udp) => Ok(udp.peer.map(|peer| peer.ip())),
        SocketKind::Tcp(tcp) => {
            let open = tcp.connection().filter(|connection| connection.state() == State::Established);
            Ok(open.map(|connection| connection.remote().ip()))
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// `IPV6_ADDRFORM`: turns a connection to an IPv4 address into an IPv4 socket.
fn change_family(net: &mut Stack, key: SocketKey, family: i32) -> Result<(), Errno> {
    if family != c::AF_INET {
        return Err(Errno::EINVAL);
    }
    let peer = connected_to(net, key)?.ok_or(Errno::ENOTCONN)?;
    let socket = net.socket(key);
    if peer.is_ipv6() || socket.ip_options().is_some_and(|options| options.v6_only) {
        return Err(Errno::EADDRNOTAVAIL);
    }
    socket.domain = c::AF_INET;
    Ok(())
}

fn is_bound(net: &mut Stack, key: SocketKey) -> bool {
    match &net.socket(key).kind {
        SocketKind::Udp(udp) => udp.bound.is_some(),
        SocketKind::Tcp(tcp) => tcp.bound.is_some(),
        SocketKind::Ping(ping) => ping.local.is_some_and(|local| local.port() != 0),
        // The protocol serves as its port.
        SocketKind::Raw(_) => true,
        _ => false,
    }
}

/// Value of `IP_TTL` and similar options; -1 selects the default.
fn hops(number: i32, least: i32) -> Result<Option<u8>, Errno> {
    match number {
        -1 => Ok(None),
        n if (least..=255).contains(&n) => Ok(Some(n as u8)),
        _ => Err(Errno::EINVAL),
    }
}

fn set_v4(options: &mut IpOptions, name: i32, number: i32) -> Result<(), Errno> {
    let on = number != 0;
    match name {
        // The ECN bits are controlled by TCP.
        c::IP_TOS => options.tos = number as u8,
        c::IP_TTL => options.ttl = hops(number, 1)?,
        c::IP_MTU_DISCOVER => {
            if !(c::IP_PMTUDISC_DONT..=c::IP_PMTUDISC_OMIT).contains(&number) {
                return Err(Errno::EINVAL);
            }
            options.mtu_discover = number;
        }
        c::IP_PKTINFO => options.receive_pktinfo = on,
        c::IP_RECVTTL => options.receive_ttl = on,
        c::IP_RECVORIGDSTADDR => options.receive_destination = on,
        c::IP_RECVTOS => options.receive_tos = on,
        c::IP_RECVERR => options.receive_errors = on,
        c::IP_FREEBIND | c::IP_TRANSPARENT => options.free_bind = on,
        c::IP_BIND_ADDRESS_NO_PORT => options.bind_address_no_port = on,
        c::IP_MULTICAST_TTL => options.multicast_ttl = hops(number, 0)?.unwrap_or(1),
        c::IP_MULTICAST_LOOP => options.multicast_loop = on,
        c::IP_MULTICAST_ALL => options.multicast_all = on,
        c::IP_OPTIONS
        | c::IP_RECVOPTS
        | c::IP_RETOPTS
        | c::IP_ROUTER_ALERT
        | c::IP_UNICAST_IF
        | c::IP_MINTTL
        | c::IP_CHECKSUM
        | c::IP_RECVFRAGSIZE => {
            keep(options, c::IPPROTO_IP, name, number);
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

fn set_v6(options: &mut IpOptions, name: i32, number: i32, bound: bool) -> Result<(), Errno> {
    let on = number != 0;
    match name {
        c::IPV6_V6ONLY if bound => return Err(Errno::EINVAL),
        c::IPV6_V6ONLY => options.v6_only = on,
        c::IPV6_UNICAST_HOPS => options.hop_limit = hops(number, 0)?,
        c::IPV6_TCLASS => options.tos = hops(number, 0)?.unwrap_or(0),
        c::IPV6_RECVPKTINFO => options.receive_pktinfo6 = on,
        c::IPV6_RECVHOPLIMIT => options.receive_ttl = on,
        c::IPV6_RECVTCLASS => options.receive_tos = on,
        c::IPV6_RECVERR => options.receive_errors = on,
        c::IPV6_MTU_DISCOVER => options.mtu_discover = number,
        c::IPV6_FREEBIND | c::IPV6_TRANSPARENT => options.free_bind = on,
        c::IPV6_MULTICAST_HOPS => options.multicast_hops = hops(number, 0)?.unwrap_or(1),
        c::IPV6_MULTICAST_LOOP if !(0..=1).contains(&number) => return Err(Errno::EINVAL),
        c::IPV6_MULTICAST_LOOP => options.multicast_loop6 = on,
        c::IPV6_AUTOFLOWLABEL => options.flow_label = on,
        // No packet of a host has these extension headers.
        c::IPV6_RECVRTHDR | c::IPV6_RECVHOPOPTS | c::IPV6_RECVDSTOPTS => {
            keep(options, c::IPPROTO_IPV6, name, i32::from(on));
        }
        c::IPV6_MTU | c::IPV6_DONTFRAG | c::IPV6_RECVFRAGSIZE | c::IPV6_UNICAST_IF => {
            keep(options, c::IPPROTO_IPV6, name, number);
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

fn keep(options: &mut IpOptions, level: i32, name: i32, number: i32) {
    options.kept.retain(|(l, n, _)| (*l, *n) != (level, name));
    options.kept.push((level, name, number));
}

/// `IPV6_ADD_MEMBERSHIP` and `IPV6_DROP_MEMBERSHIP` with a `struct ipv6_mreq`.
fn membership6(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    let (octets, rest) = value.split_first_chunk::<16>().ok_or(Errno::EINVAL)?;
    let index = rest.first_chunk::<4>().map(|index| u32::from_ne_bytes(*index)).ok_or(Errno::EINVAL)?;
    set_membership6(net, key, name == c::IPV6_ADD_MEMBERSHIP, index, Ipv6Addr::from(*octets))
}

/// Adds or removes a group membership of a socket.
fn set_membership6(
    net: &mut Stack,
    key: SocketKey,
    join: bool,
    index: u32,
    group: Ipv6Addr,
) -> Result<(), Errno> {
    if !group.is_multicast() {
        return Err(Errno::EINVAL);
    }
    let interface = match index {
        0 => net.v6.group_interface(&net.interfaces),
        index => net.interfaces.by_index(index),
    };
    let interface = interface.ok_or(Errno::ENODEV)?;
    let groups = &mut net.socket(key).ip_options_mut().ok_or(Errno::ENOPROTOOPT)?.groups6;
    let member = groups.iter().position(|other| *other == (interface, group));
    match (join, member) {
        (true, Some(_)) => Err(Errno::EADDRINUSE),
        (true, None) => {
            groups.push((interface, group));
            net.join_group6(interface, group);
            Ok(())
        }
        (false, None) => Err(Errno::EADDRNOTAVAIL),
        (false, Some(at)) => {
            groups.remove(at);
            net.leave_group6(interface, group);
            Ok(())
        }
    }
}

/// Gets an option of this level.
pub fn get(net: &mut Stack, key: SocketKey, level: i32, name: i32) -> Result<Value, Errno> {
    let mtu = net.socket_mtu(key);
    if (level, name) == (c::IPPROTO_IPV6, c::IPV6_ADDRFORM) {
        connected_to(net, key)?.ok_or(Errno::ENOTCONN)?;
        return Ok(int(net.socket(key).domain));
    }
    let options = net.socket(key).ip_options().ok_or(Errno::ENOPROTOOPT)?;
    let kept = |unset: i32| {
        let found = options.kept.iter().find(|(l, n, _)| (*l, *n) == (level, name));
        Ok(int(found.map_or(unset, |(_, _, value)| *value)))
    };
    let hops = |hops: Option<u8>| int(i32::from(hops.unwrap_or(64)));
    if level == c::IPPROTO_IP {
        return Ok(match name {
            c::IP_TOS => int(i32::from(options.tos)),
            c::IP_TTL => int(options.ttl.map_or(net.sysctls.default_ttl as i32, i32::from)),
            c::IP_MTU_DISCOVER => int(options.mtu_discover),
            c::IP_MTU => int(mtu as i32),
            c::IP_PKTINFO => flag(options.receive_pktinfo),
            c::IP_RECVORIGDSTADDR => flag(options.receive_destination),
            c::IP_RECVTTL => flag(options.receive_ttl),
            c::IP_RECVTOS => flag(options.receive_tos),
            c::IP_RECVERR => flag(options.receive_errors),
            c::IP_FREEBIND | c::IP_TRANSPARENT => flag(options.free_bind),
            c::IP_BIND_ADDRESS_NO_PORT => flag(options.bind_address_no_port),
            c::IP_MULTICAST_TTL => int(i32::from(options.multicast_ttl)),
            c::IP_MULTICAST_LOOP => flag(options.multicast_loop),
            c::IP_OPTIONS => Value::new(),
            c::IP_MULTICAST_ALL => flag(options.multicast_all),
            c::IP_MULTICAST_IF => Value::from_slice(&options.multicast_interface.1.octets()),
            c::IP_HDRINCL => match &net.socket(key).kind {
                SocketKind::Raw(raw) => flag(raw.header_included),
                _ => return Err(Errno::ENOPROTOOPT),
            },
            c::IP_RECVOPTS
            | c::IP_RETOPTS
            | c::IP_UNICAST_IF
            | c::IP_MINTTL
            | c::IP_CHECKSUM
            | c::IP_RECVFRAGSIZE => return kept(0),
            _ => return Err(Errno::ENOPROTOOPT),
        });
    }
    Ok(match name {
        c::IPV6_V6ONLY => flag(options.v6_only),
        c::IPV6_UNICAST_HOPS => hops(options.hop_limit),
        c::IPV6_TCLASS => int(i32::from(options.tos)),
        c::IPV6_RECVPKTINFO => flag(options.receive_pktinfo6),
        c::IPV6_RECVHOPLIMIT => flag(options.receive_ttl),
        c::IPV6_RECVTCLASS => flag(options.receive_tos),
        c::IPV6_RECVERR => flag(options.receive_errors),
        c::IPV6_MTU_DISCOVER => int(options.mtu_discover),
        c::IPV6_MTU => int(mtu as i32),
        c::IPV6_MULTICAST_HOPS => int(i32::from(options.multicast_hops)),
        c::IPV6_MULTICAST_LOOP => flag(options.multicast_loop6),
        c::IPV6_MULTICAST_IF => int(options.multicast_if6.unwrap_or(0) as i32),
        c::IPV6_AUTOFLOWLABEL => flag(options.flow_label),
        c::IPV6_DONTFRAG
        | c::IPV6_RECVFRAGSIZE
        | c::IPV6_UNICAST_IF
        | c::IPV6_RECVRTHDR
        | c::IPV6_RECVHOPOPTS
        | c::IPV6_RECVDSTOPTS => {
            return kept(0);
        }
        _ => return Err(Errno::ENOPROTOOPT),
    })
}
