//! WireGuard interfaces: packets of the host to peers in UDP datagrams, by the protocol of [`belljar_wireguard`].
//!
//! The interface listens on a UDP port of all addresses while it is up; programs cannot bind to it. Datagrams are routed
//! with the mark of the interface and the address to which the peer has last sent, as long as the host has it.

use super::ip_tunnel::enter;
use super::of;
use super::tunnel::take_over;
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::endpoint::choose_port;
use crate::family::FlowKey;
use crate::ip::route::{ResolvedRoute, Through};
use crate::ip::{Inbound, IpHeader, Outbound, icmp};
use crate::{PacketDirection, Stack};
use belljar_linux_abi::Errno;
use belljar_net::{Packet, ecn, forward, forward6};
use belljar_wire::{checksum, protocol, udp};
use belljar_wireguard::{Key, Now, PeerEndpoint, RejectReason, WireguardDevice, WireguardOutput};
use std::net::{IpAddr, SocketAddr};

/// Code of "host unreachable" in ICMP, and of "address unreachable" in ICMPv6.
const HOST_UNREACHABLE: [u8; 2] = [1, 3];
/// Bits of ECN that stand for congestion experienced.
const CONGESTION: u8 = 3;

/// Bytes by which the largest packet is shorter than the MTU of Ethernet: headers of IPv6, UDP and the protocol.
pub const OVERHEAD: usize = 80;
/// Largest MTU.
pub const MOST_MTU: u32 = (i32::MAX as u32 & !15) - OVERHEAD as u32;

fn now(stack: &Stack) -> Now {
    Now { time: stack.clock.now(), realtime_ns: stack.clock.realtime_ns() }
}

fn cause(why: RejectReason) -> DropCause {
    match why {
        RejectReason::Malformed => DropCause::Malformed,
        RejectReason::NoPeer => DropCause::WireguardNoPeer,
        RejectReason::NoEndpoint => DropCause::WireguardNoEndpoint,
        RejectReason::NoSession => DropCause::WireguardNoSession,
        RejectReason::Handshake => DropCause::WireguardHandshake,
        RejectReason::Key => DropCause::WireguardKey,
        RejectReason::Replay => DropCause::WireguardReplay,
        RejectReason::Source => DropCause::WireguardSource,
    }
}

/// The device of an interface.
pub fn device(stack: &Stack, number: usize) -> Option<&WireguardDevice> {
    stack.devices.as_ref()?.wireguards.get(&number)
}

/// Changes the device of an interface, and sends what follows from it.
pub fn change<T>(
    stack: &mut Stack,
    number: usize,
    change: impl FnOnce(&mut WireguardDevice, Now) -> T,
) -> Option<T> {
    let now = now(stack);
    let changed = change(of(stack).wireguards.get_mut(&number)?, now);
    flush(stack, number, 0);
    Some(changed)
}

/// Creates the device of a new interface.
pub(super) fn create(stack: &mut Stack, number: usize) {
    let owner = format!("{}.{number}", stack.number);
    let random = stack.config.seed.stream(&["host", &stack.config.name, "wireguard", &owner]);
    of(stack).wireguards.insert(number, WireguardDevice::new(random));
}

/// Removes the device of an interface.
pub(super) fn delete(stack: &mut Stack, number: usize) {
    if device(stack, number).is_some() {
        change(stack, number, |device, _| {
            device.stop();
            device.remove_all_peers();
        });
        of(stack).wireguards.remove(&number);
    }
}

/// True if an interface listens on a UDP port.
#[cold]
pub(crate) fn listens(devices: &super::state::Devices, port: u16) -> bool {
    devices.wireguards.values().any(|device| device.is_up() && device.port == port)
}

/// Gives an interface a UDP port, or a free one for 0. Fails with `EADDRINUSE` if an interface that is up, or that is
/// about to be (`starts`), cannot have it.
pub fn claim_port(stack: &mut Stack, number: usize, port: u16, starts: bool) -> Result<(), Errno> {
    let Some(own) = device(stack, number) else { return Ok(()) };
    if !starts && !own.is_up() || own.is_up() && own.port == port {
        change(stack, number, |device, _| device.port = port);
        return Ok(());
    }
    let devices = &stack.devices;
    let others = devices.iter().flat_map(|devices| devices.wireguards.iter());
    let others: Vec<u16> =
        others.filter(|(other, device)| **other != number && device.is_up()).map(|(_, d)| d.port).collect();
    let table = &stack.udp_ports[crate::udp::Protocol::Udp.index()];
    let is_free = |port| !others.contains(&port) && !table.0.contains_key(&port);
    let chosen = match port {
        0 => choose_port(&mut stack.ports, stack.sysctls.local_ports, is_free)?,
        port if is_free(port) => port,
        _ => return Err(Errno::EADDRINUSE),
    };
    change(stack, number, |device, _| device.port = chosen);
    Ok(())
}

/// Starts or stops the device of an interface that has come up or gone down.
pub(super) fn state_changed(stack: &mut Stack, number: usize) {
    let up = stack.interfaces[number].up;
    let Some(device) = device(stack, number) else { return };
    match (device.is_up(), up) {
        (false, true) => {
            let port = device.port;
            // The caller has checked the port.
            if claim_port(stack, number, port, true).is_ok() {
                change(stack, number, |device, now| device.start(now));
            }
        }
        (true, false) => {
            change(stack, number, |device, _| device.stop());
        }
        _ => {}
    }
}

/// Handles the timers of all devices.
pub(super) fn on_timer(stack: &mut Stack) {
    let time = stack.clock.now();
    let due = |device: &WireguardDevice| device.next_timeout().is_some_and(|at| at <= time);
    let all = of(stack).wireguards.iter();
    let numbers: Vec<usize> = all.filter(|(_, device)| due(device)).map(|(number, _)| *number).collect();
    for number in numbers {
        change(stack, number, |device, now| device.on_timeout(now));
    }
}

/// Sends a packet of the host (`wg_xmit`).
pub(super) fn output(stack: &mut Stack, number: usize, mut packet: Packet) -> PacketDisposition {
    stack.seen(stack.clock.now(), number, &mut packet, PacketDirection::Out);
    let (mtu, now) = (stack.interfaces[number].mtu, now(stack));
    let bytes = take_over(stack, number, packet);
    let Some(device) = of(stack).wireguards.get_mut(&number) else {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    };
    match device.send(bytes, mtu, now) {
        Ok(()) => {
            flush(stack, number, 0);
            PacketDisposition::HELD
        }
        Err((why, bytes)) => {
            if why != RejectReason::Malformed {
                report_unreachable(stack, &bytes);
            }
            PacketDisposition::dropped(cause(why))
        }
    }
}

/// Reports to the sender of a packet that no peer takes it (`icmp_ndo_send`).
fn report_unreachable(stack: &mut Stack, packet: &[u8]) {
    let [v4, v6] = HOST_UNREACHABLE;
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let (message, tos) = match is_v6 {
        false => (forward::unreachable_message(packet, v4), icmp::ERROR_TOS),
        true => (forward6::unreachable_message(packet, v6), icmp::ERROR_TOS_V6),
    };
    let sender: Option<IpAddr> = match is_v6 {
        false => packet.get(12..16).and_then(|ip| ip.first_chunk::<4>().copied()).map(IpAddr::from),
        true => packet.get(8..24).and_then(|ip| ip.first_chunk::<16>().copied()).map(IpAddr::from),
    };
    let (Some(mut message), Some(sender)) = (message, sender) else { return };
    if let Ok(route) = stack.route(sender, None, None) {
        stack.send_icmp_by(route, false, tos, &mut message);
    }
}

/// Receives a datagram for the port of an interface; `None` if no interface listens on it (`wg_receive`).
pub(super) fn receive(stack: &mut Stack, inbound: &Inbound, port: u16) -> Option<PacketDisposition> {
    let devices = stack.devices.as_ref()?;
    let mut listening = devices.wireguards.iter();
    let number = *listening.find(|(_, device)| device.is_up() && device.port == port)?.0;
    let (header, now) = (inbound.header, now(stack));
    let segment = inbound.payload();
    let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let remote = SocketAddr::new(header.src, word(0));
    let bytes = segment.get(udp::HEADER_LEN..usize::from(word(4))).unwrap_or_default();
    let from = PeerEndpoint { remote, local: Some((header.dst, inbound.interface)) };
    let end = of(stack).wireguards.get_mut(&number)?.receive(bytes, from, now);
    if let Ok(len @ 1..) = end {
        stack.interfaces.count_virtual(number, len, PacketDirection::In);
    }
    flush(stack, number, header.tos);
    Some(match end {
        Ok(_) => PacketDisposition::consumed(Receiver::Tunnel),
        Err(why) => PacketDisposition::dropped(cause(why)),
    })
}

/// Carries out the results of a call of a device; `tos` is that of the datagram received in it.
fn flush(stack: &mut Stack, number: usize, tos: u8) {
    let Some(device) = of(stack).wireguards.get_mut(&number) else { return };
    for output in device.take_outputs() {
        match output {
            WireguardOutput::Datagram { peer, endpoint, tos, bytes, carries } => {
                let len = bytes.len();
                let sent = send(stack, number, (peer, endpoint), tos, bytes);
                if sent {
                    stack.interfaces.count_virtual(number, len, PacketDirection::Out);
                    let device = of(stack).wireguards.get_mut(&number);
                    let peer = device.and_then(|device| device.peer_mut(&peer?));
                    peer.into_iter().for_each(|peer| peer.tx_bytes += len as u64);
                }
                match (carries, sent) {
                    (true, true) => stack.account.release(PacketDisposition::consumed(Receiver::Tunnel)),
                    (true, false) => stack.account.release(PacketDisposition::dropped(DropCause::Tunnel)),
                    _ => {}
                }
            }
            WireguardOutput::Packet(mut bytes) => {
                if tos & CONGESTION == CONGESTION {
                    // A packet that is not capable of ECN passes unmarked.
                    ecn::mark(&mut bytes, false);
                }
                let end = enter(stack, number, Packet::new(bytes));
                stack.account.originate(Origin::Tunnel, end);
            }
            WireguardOutput::Dropped(why) => stack.account.release(PacketDisposition::dropped(cause(why))),
        }
    }
    super::set_timer(stack);
}

/// Route of a datagram to an endpoint. The host's address is that of the endpoint while it is the host's and leads to
/// the same interface (`send4`).
fn route(
    stack: &Stack,
    endpoint: &PeerEndpoint,
    (port, mark): (u16, u32),
) -> Result<(ResolvedRoute, bool), Errno> {
    let sender = FlowKey { protocol: protocol::UDP, ports: (port, endpoint.remote.port()), uid: 0 };
    let scope = match endpoint.remote {
        SocketAddr::V6(v6) => Some(v6.scope_id()).filter(|scope| *scope != 0),
        SocketAddr::V4(_) => None,
    };
    let through = || Through { device: scope, mark, tos: 0, sender };
    let remote = endpoint.remote.ip();
    let local = endpoint.local.filter(|(ip, _)| stack.is_local(*ip));
    if let Some((ip, interface)) = local
        && let Ok(route) = stack.route(remote, Some(ip), through())
        && (route.interface == interface || remote.is_ipv6())
    {
        return Ok((ResolvedRoute { source: ip, ..route }, true));
    }
    Ok((stack.route(remote, None, through())?, false))
}

/// Sends a datagram. False if there is no route, or if the packet is dropped on its way out.
fn send(
    stack: &mut Stack,
    number: usize,
    (peer, endpoint): (Option<Key>, PeerEndpoint),
    tos: u8,
    payload: Vec<u8>,
) -> bool {
    let Some(device) = device(stack, number) else { return false };
    let (port, mark) = (device.port, device.fwmark);
    let Ok((route, kept)) = route(stack, &endpoint, (port, mark)) else { return false };
    if !kept && endpoint.local.is_some() {
        let device = of(stack).wireguards.get_mut(&number);
        if let Some(peer) = device.and_then(|device| device.peer_mut(&peer?)) {
            peer.clear_source();
        }
    }
    let (source, remote) = (route.source, endpoint.remote.ip());
    let header = IpHeader { tos, ttl: 64, ..IpHeader::new(source, remote, protocol::UDP) };
    let mut bytes = vec![0; if remote.is_ipv4() { 20 } else { 40 }];
    let start = bytes.len();
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    bytes.extend([port, endpoint.remote.port(), len, 0].into_iter().flat_map(u16::to_be_bytes));
    bytes.extend(payload);
    let sum = checksum::transport(source, remote, protocol::UDP, &bytes[start..]);
    let sum = if sum == 0 { 0xffff } else { sum };
    bytes[start + 6..start + 8].copy_from_slice(&sum.to_be_bytes());
    let outbound = Outbound { mark, ..Outbound::new(Origin::Tunnel, &route, header, bytes) };
    stack.ip_output(outbound).is_ok()
}
