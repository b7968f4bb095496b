//! Generic netlink family `wireguard`: `WG_CMD_GET_DEVICE` and `WG_CMD_SET_DEVICE`, by which wg(8) works.

use super::message::{Request, attribute, attributes, ip_bytes, parse_ip};
use super::policies;
use super::policy::STRICT;
use super::refusal::Refusal;
use super::tree::{GenericRequest, put, put_nested, text, word};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::devices::wireguard;
use belljar_netstack::interface::{Attachment, DeviceKind};
use belljar_netstack::{Stack, interface_index};
use belljar_wireguard::{Key, Now, Peer, PeerEndpoint, WireguardDevice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// `WG_CMD_*`.
const GET_DEVICE: u8 = 0;
const SET_DEVICE: u8 = 1;
/// Commands with their flags: both need `CAP_NET_ADMIN`; the first one is a dump.
pub(super) const OPERATIONS: &[(u32, u32)] = &[(GET_DEVICE as u32, 0x1c), (SET_DEVICE as u32, 0x1a)];

/// `WGDEVICE_A_*`.
mod device {
    pub const IFINDEX: u16 = 1;
    pub const IFNAME: u16 = 2;
    pub const PRIVATE_KEY: u16 = 3;
    pub const PUBLIC_KEY: u16 = 4;
    pub const FLAGS: u16 = 5;
    pub const LISTEN_PORT: u16 = 6;
    pub const FWMARK: u16 = 7;
    pub const PEERS: u16 = 8;
    /// `WGDEVICE_F_REPLACE_PEERS`, the only flag.
    pub const REPLACE_PEERS: u32 = 1;
}
/// `WGPEER_A_*`.
mod peer {
    pub const PUBLIC_KEY: u16 = 1;
    pub const PRESHARED_KEY: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const ENDPOINT: u16 = 4;
    pub const KEEPALIVE: u16 = 5;
    pub const LAST_HANDSHAKE: u16 = 6;
    pub const RX_BYTES: u16 = 7;
    pub const TX_BYTES: u16 = 8;
    pub const ALLOWED_IPS: u16 = 9;
    pub const VERSION: u16 = 10;
    /// `WGPEER_F_*`.
    pub const REMOVE_ME: u32 = 1;
    pub const REPLACE_ALLOWED_IPS: u32 = 2;
    pub const UPDATE_ONLY: u32 = 4;
}
/// `WGALLOWEDIP_A_*`.
mod allowed_ip {
    pub const FAMILY: u16 = 1;
    pub const ADDRESS: u16 = 2;
    pub const LEN: u16 = 3;
    pub const FLAGS: u16 = 4;
    /// `WGALLOWEDIP_F_REMOVE_ME`, the only flag.
    pub const REMOVE_ME: u32 = 1;
}

/// Length of the attributes in one message of a dump, in bytes: it fits the buffers of programs.
const ROOM: usize = 3_500;

fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    attribute(bytes, kind).and_then(|value| value.first_chunk().copied()).map(u32::from_ne_bytes)
}
fn short(bytes: &[u8], kind: u16) -> Option<u16> {
    attribute(bytes, kind).and_then(|value| value.first_chunk().copied()).map(u16::from_ne_bytes)
}
fn key(bytes: &[u8], kind: u16) -> Option<Key> {
    attribute(bytes, kind).and_then(|value| value.try_into().ok())
}

/// Interface that a request names, by index or by name (`lookup_interface`).
fn interface_named(net: &Stack, bytes: &[u8]) -> Result<usize, Errno> {
    let index = number(bytes, device::IFINDEX);
    let name = attribute(bytes, device::IFNAME).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
    let found = match (index, name) {
        (Some(index), None) => net.interfaces.by_index(index),
        (None, Some(name)) => net.interfaces.by_name(name),
        _ => return Err(Errno::EBADR),
    };
    let found = found.ok_or(Errno::ENODEV)?;
    match net.interfaces[found].attachment {
        Attachment::Made(DeviceKind::Wireguard) => Ok(found),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Answers a request; returns the command and the attributes of each message.
pub(super) fn answer(
    net: &mut Stack,
    request: &Request<'_>,
    asked: &GenericRequest<'_>,
) -> Result<Vec<(u8, Vec<u8>)>, Refusal> {
    let bytes = asked.attributes;
    policies::WIREGUARD.validate(request, bytes, request.offset_of(bytes), STRICT)?;
    match (asked.command, asked.is_dump) {
        (GET_DEVICE, true) => {
            let interface = interface_named(net, bytes)?;
            Ok(list(net, interface).into_iter().map(|body| (GET_DEVICE, body)).collect())
        }
        (SET_DEVICE, false) => {
            let interface = interface_named(net, bytes)?;
            set_device(net, request, interface, bytes).map(|()| Vec::new())
        }
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    let mut out = Vec::new();
    let family = if address.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
    out.extend((family as u16).to_ne_bytes());
    out.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            out.extend(v4.ip().octets());
            out.extend([0; 8]);
        }
        SocketAddr::V6(v6) => {
            out.extend(v6.flowinfo().to_be_bytes());
            out.extend(v6.ip().octets());
            out.extend(v6.scope_id().to_ne_bytes());
        }
    }
    out
}

/// Reads a `struct sockaddr_in` or `struct sockaddr_in6`; others are ignored, as in Linux.
fn parse_socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match (bytes.len(), family) {
        (16, c::AF_INET) => {
            let ip: [u8; 4] = *bytes[4..].first_chunk()?;
            Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
        }
        (28, c::AF_INET6) => {
            let ip: [u8; 16] = *bytes[8..].first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

/// Attributes of the messages that describe a device. A message is continued by another one that has the remaining
/// peers, and of a peer with many networks the remaining ones (`wg_get_device_dump`).
fn list(net: &Stack, interface: usize) -> Vec<Vec<u8>> {
    let Some(wireguard) = wireguard::device(net, interface) else { return Vec::new() };
    let mut head = Vec::new();
    put(&mut head, device::LISTEN_PORT, &wireguard.port.to_ne_bytes());
    put(&mut head, device::FWMARK, &word(wireguard.fwmark));
    put(&mut head, device::IFINDEX, &word(interface_index(interface)));
    put(&mut head, device::IFNAME, &text(&net.interfaces[interface].name));
    if let Some(own) = wireguard.identity() {
        put(&mut head, device::PRIVATE_KEY, &own.private);
        put(&mut head, device::PUBLIC_KEY, &own.public);
    }
    let mut messages = Vec::new();
    let mut peers = Vec::new();
    for (key, listed) in wireguard.peers() {
        let mut networks = wireguard.allowed.of_peer(*key);
        let mut begun = false;
        loop {
            let mut entry = Vec::new();
            put(&mut entry, peer::PUBLIC_KEY, key);
            if !std::mem::replace(&mut begun, true) {
                put_state(&mut entry, listed);
            }
            let used = head.len() + peers.len() + entry.len();
            // Each network has at most 44 bytes.
            let fitting = networks.len().min(ROOM.saturating_sub(used) / 44);
            let (now, later) = networks.split_at(fitting);
            networks = later;
            if !now.is_empty() {
                put_nested(&mut entry, peer::ALLOWED_IPS, &allowed_ips(now));
            }
            put_nested(&mut peers, 0, &entry);
            if networks.is_empty() && head.len() + peers.len() < ROOM {
                break;
            }
            put_nested(&mut head, device::PEERS, &peers);
            peers.clear();
            messages.push(std::mem::take(&mut head));
            if networks.is_empty() {
                break;
            }
        }
    }
    if messages.is_empty() || !peers.is_empty() {
        if !peers.is_empty() {
            put_nested(&mut head, device::PEERS, &peers);
        }
        messages.push(head);
    }
    messages
}

/// Attributes of a peer's state.
fn put_state(entry: &mut Vec<u8>, listed: &Peer) {
    put(entry, peer::PRESHARED_KEY, &listed.remote.preshared);
    let time = listed.last_handshake_ns.unwrap_or(0);
    let time = [time / 1_000_000_000, time % 1_000_000_000].map(u64::to_ne_bytes).concat();
    put(entry, peer::LAST_HANDSHAKE, &time);
    put(entry, peer::KEEPALIVE, &listed.persistent_keepalive.to_ne_bytes());
    put(entry, peer::TX_BYTES, &listed.tx_bytes.to_ne_bytes());
    put(entry, peer::RX_BYTES, &listed.rx_bytes.to_ne_bytes());
    put(entry, peer::VERSION, &word(1));
    if let Some(endpoint) = listed.endpoint {
        put(entry, peer::ENDPOINT, &socket_address(endpoint.remote));
    }
}

fn allowed_ips(networks: &[(IpAddr, u8)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (ip, len) in networks {
        let mut entry = Vec::new();
        let family = if ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
        put(&mut entry, allowed_ip::LEN, &[*len]);
        put(&mut entry, allowed_ip::FAMILY, &(family as u16).to_ne_bytes());
        put(&mut entry, allowed_ip::ADDRESS, &ip_bytes(*ip));
        put_nested(&mut all, 0, &entry);
    }
    all
}

/// Changes a device (`wg_set_device`). What precedes an error stays.
fn set_device(net: &mut Stack, request: &Request<'_>, interface: usize, bytes: &[u8]) -> Result<(), Refusal> {
    let flags = number(bytes, device::FLAGS).unwrap_or(0);
    if flags & !device::REPLACE_PEERS != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if let Some(mark) = number(bytes, device::FWMARK) {
        wireguard::change(net, interface, |device, _| {
            device.fwmark = mark;
            device.clear_sources();
        });
    }
    if let Some(port) = short(bytes, device::LISTEN_PORT) {
        if wireguard::device(net, interface).is_some_and(|device| device.port != port) {
            wireguard::change(net, interface, |device, _| device.clear_sources());
        }
        wireguard::claim_port(net, interface, port, false)?;
    }
    if flags & device::REPLACE_PEERS != 0 {
        wireguard::change(net, interface, |device, _| device.remove_all_peers());
    }
    if let Some(private) = key(bytes, device::PRIVATE_KEY) {
        wireguard::change(net, interface, |device, _| device.set_private_key(private));
    }
    let peers = attribute(bytes, device::PEERS).unwrap_or_default();
    for (_, entry) in attributes(peers) {
        policies::WIREGUARD_PEER.validate(request, entry, request.offset_of(entry), STRICT)?;
        wireguard::change(net, interface, |device, now| {
            let changed = set_peer(device, request, entry, now);
            if device.is_up()
                && let Some(public) = key(entry, peer::PUBLIC_KEY)
            {
                device.send_staged_if_any(&public, now);
            }
            changed
        })
        .unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Changes, adds or removes a peer (`set_peer`).
fn set_peer(
    device: &mut WireguardDevice,
    request: &Request<'_>,
    entry: &[u8],
    now: Now,
) -> Result<(), Refusal> {
    let public = key(entry, peer::PUBLIC_KEY).ok_or(Errno::EINVAL)?;
    let flags = number(entry, peer::FLAGS).unwrap_or(0);
    if flags & !(peer::REMOVE_ME | peer::REPLACE_ALLOWED_IPS | peer::UPDATE_ONLY) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if number(entry, peer::VERSION).is_some_and(|version| version != 1) {
        return Err(Errno::EPFNOSUPPORT.into());
    }
    if device.peer(&public).is_none() {
        let absent = flags & (peer::REMOVE_ME | peer::UPDATE_ONLY) != 0;
        // A peer with the device's own key is ignored.
        if absent || !device.add_peer(public) {
            return Ok(());
        }
    }
    if flags & peer::REMOVE_ME != 0 {
        device.remove_peer(&public);
        return Ok(());
    }
    if let Some(changed) = device.peer_mut(&public) {
        if let Some(preshared) = key(entry, peer::PRESHARED_KEY) {
            changed.remote.preshared = preshared;
        }
        if let Some(remote) = attribute(entry, peer::ENDPOINT).and_then(parse_socket_address) {
            changed.endpoint = Some(PeerEndpoint { remote, local: None });
        }
    }
    if flags & peer::REPLACE_ALLOWED_IPS != 0 {
        device.allowed.remove_peer(public);
    }
    let networks = attribute(entry, peer::ALLOWED_IPS).unwrap_or_default();
    for (_, network) in attributes(networks) {
        policies::WIREGUARD_NETWORK.validate(request, network, request.offset_of(network), STRICT)?;
        set_allowed_ip(device, public, network)?;
    }
    if let Some(seconds) = short(entry, peer::KEEPALIVE) {
        device.set_persistent_keepalive(&public, seconds, now);
    }
    Ok(())
}

/// Gives a network to a peer, or takes it from it (`set_allowedip`).
fn set_allowed_ip(device: &mut WireguardDevice, public: Key, network: &[u8]) -> Result<(), Errno> {
    let family = short(network, allowed_ip::FAMILY).ok_or(Errno::EINVAL)?;
    let ip = parse_ip(attribute(network, allowed_ip::ADDRESS).ok_or(Errno::EINVAL)?)?;
    let len =
        attribute(network, allowed_ip::LEN).and_then(|len| len.first().copied()).ok_or(Errno::EINVAL)?;
    let flags = number(network, allowed_ip::FLAGS).unwrap_or(0);
    if flags & !allowed_ip::REMOVE_ME != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let fits = match (i32::from(family), ip) {
        (c::AF_INET, IpAddr::V4(_)) => len <= 32,
        (c::AF_INET6, IpAddr::V6(_)) => len <= 128,
        _ => false,
    };
    match (fits, flags) {
        (false, _) => return Err(Errno::EINVAL),
        (true, 0) => device.allowed.insert(ip, len, public),
        (true, _) => device.allowed.remove(ip, len, public),
    }
    Ok(())
}
