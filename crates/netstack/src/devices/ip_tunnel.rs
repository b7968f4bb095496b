//! Tunnels over IP with two ends: GRE (RFC 2784, RFC 2890) for packets and for frames, IPIP, SIT, IPv6 tunnels and Geneve
//! (RFC 8926).

use super::ip_tunnel_state::{GENEVE_LEN, GRE_CSUM, GRE_KEY, GRE_SEQ, IpTunnel};
use super::of;
use super::tunnel::{Encapsulation, carry_congestion, encapsulate, encapsulate_udp, source_port, take_over};
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::interface::DeviceKind;
use crate::ip::Inbound;
use crate::{PacketDirection, Stack, traffic};
use belljar_net::Packet;
use belljar_wire::checksum;
use belljar_wire::ethernet::HEADER_LEN;
use belljar_wire::udp;
use std::net::{IpAddr, Ipv4Addr};

/// IP protocols of tunnels.
const IPIP: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
/// EtherType of frames in a tunnel, `ETH_P_TEB`.
const FRAMES: u16 = 0x6558;
const LOST: PacketDisposition = PacketDisposition::dropped(DropCause::Tunnel);

/// The tunnel for a received packet: the one with the most addresses that match (`ip_tunnel_lookup`).
fn find(
    stack: &Stack,
    inbound: &Inbound,
    key: Option<u32>,
    takes: impl Fn(&IpTunnel) -> bool,
) -> Option<usize> {
    let addresses = (inbound.header.src, inbound.header.dst);
    let tunnels = stack.devices.as_ref()?.tunnels.iter();
    let up = tunnels.filter(|(number, tunnel)| stack.interfaces[**number].up && takes(tunnel));
    let ranked = up.filter_map(|(number, tunnel)| Some((tunnel.rank(addresses, key)?, *number)));
    ranked.max_by_key(|(rank, number)| (*rank, std::cmp::Reverse(*number))).map(|(_, number)| number)
}

/// Receives a packet of a tunnel's protocol; `None` if no tunnel takes it.
pub(super) fn receive(stack: &mut Stack, inbound: &Inbound) -> Option<PacketDisposition> {
    if stack.devices.as_ref()?.tunnels.is_empty() {
        return None;
    }
    let payload = inbound.payload();
    let over_v4 = inbound.header.dst.is_ipv4();
    match inbound.header.protocol {
        GRE if over_v4 => receive_gre(stack, inbound),
        protocol @ (IPIP | IPV6) => {
            let device = find(stack, inbound, None, |tunnel| {
                let carries = tunnel.proto == 0 || tunnel.proto == protocol;
                carries
                    && match tunnel.kind {
                        DeviceKind::Ipip => over_v4 && protocol == IPIP,
                        DeviceKind::Sit => over_v4,
                        DeviceKind::Ip6tnl => !over_v4,
                        _ => false,
                    }
            })?;
            let packet = payload.to_vec();
            Some(deliver(stack, inbound, device, packet))
        }
        _ => None,
    }
}

fn receive_gre(stack: &mut Stack, inbound: &Inbound) -> Option<PacketDisposition> {
    let payload = inbound.payload();
    let [a, b, c, d, ..] = *payload else { return Some(PacketDisposition::dropped(DropCause::Malformed)) };
    let (flags, kind) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    // Of version 0, without routing.
    if flags & !(GRE_CSUM | GRE_KEY | GRE_SEQ) != 0 {
        return None;
    }
    let mut at = 4;
    let mut word = |has: u16| {
        let there = flags & has != 0;
        let value = payload.get(at..at + 4).and_then(|bytes| bytes.first_chunk().copied());
        at += if there { 4 } else { 0 };
        there.then_some(value.map_or(0, u32::from_be_bytes))
    };
    let (sum, key, _) = (word(GRE_CSUM), word(GRE_KEY), word(GRE_SEQ));
    if at > payload.len() || sum.is_some() && checksum::internet(payload) != 0 {
        return Some(PacketDisposition::dropped(DropCause::Malformed));
    }
    let framed = kind == FRAMES;
    let wanted = if framed { DeviceKind::Gretap } else { DeviceKind::Gre };
    let device = find(stack, inbound, key, |tunnel| tunnel.kind == wanted)?;
    let tunnel = &stack.devices.as_ref()?.tunnels[&device];
    // The options of a packet are those of the tunnel.
    if (flags ^ tunnel.flags.0) & (GRE_CSUM | GRE_SEQ) & tunnel.flags.0 != 0 {
        return Some(LOST);
    }
    let bytes = payload[at..].to_vec();
    Some(deliver(stack, inbound, device, bytes))
}

/// Receives a datagram for the port of a Geneve interface; `None` if the port is no such one.
pub(super) fn receive_geneve(stack: &mut Stack, inbound: &Inbound, port: u16) -> Option<PacketDisposition> {
    let here = |tunnel: &IpTunnel| tunnel.kind == DeviceKind::Geneve && tunnel.port == port;
    if !stack.devices.as_ref()?.tunnels.values().any(here) {
        return None;
    }
    let payload = inbound.payload().get(udp::HEADER_LEN..).unwrap_or_default();
    let Some((header, rest)) = payload.split_first_chunk::<GENEVE_LEN>() else {
        return Some(PacketDisposition::dropped(DropCause::Malformed));
    };
    let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    let options = usize::from(header[0] & 0x3f) * 4;
    // Version 0, no critical option, a frame.
    let valid = header[0] >> 6 == 0 && header[1] & 0x40 == 0 && header[2..4] == FRAMES.to_be_bytes();
    let takes =
        |tunnel: &IpTunnel| here(tunnel) && tunnel.keys.0 == vni && tunnel.remote == Some(inbound.header.src);
    let Some(device) = find(stack, inbound, None, takes).filter(|_| valid && rest.len() >= options) else {
        return Some(LOST);
    };
    let bytes = rest[options..].to_vec();
    Some(deliver(stack, inbound, device, bytes))
}

/// Passes the contents of a packet to the tunnel's interface.
fn deliver(stack: &mut Stack, inbound: &Inbound, device: usize, mut bytes: Vec<u8>) -> PacketDisposition {
    let framed = stack.interfaces[device].is_link();
    if !carry_congestion(inbound.header.tos, &mut bytes, framed) {
        return LOST;
    }
    let packet = Packet::new(bytes).with_mark(inbound.mark);
    stack.interfaces.count_virtual(device, packet.len(), PacketDirection::In);
    let end = match framed {
        true => stack.frame_input(device, packet),
        false => enter(stack, device, packet),
    };
    stack.account.originate(Origin::Tunnel, end);
    PacketDisposition::consumed(Receiver::Tunnel)
}

/// Passes a packet that has left a tunnel to IP.
pub(super) fn enter(stack: &mut Stack, device: usize, mut packet: Packet) -> PacketDisposition {
    stack.seen(stack.clock.now(), device, &mut packet, PacketDirection::In);
    stack.arrived_as_one = true;
    traffic::packet_input(stack, device, packet)
}

/// Destination of a packet in a tunnel without a far end: its next hop, or the relay in a 6to4 address.
fn destination_of(tunnel: &IpTunnel, gateway: Option<IpAddr>, bytes: &[u8]) -> Option<IpAddr> {
    let to = gateway.or(crate::interface::destination(bytes))?;
    match (tunnel.kind, to) {
        (DeviceKind::Sit, IpAddr::V6(to)) => {
            let [a, b, x, y, z, w, ..] = to.octets();
            let [.., c, d, e, f] = to.octets();
            let compatible = to.octets()[..12] == [0; 12];
            match (u16::from_be_bytes([a, b]), compatible) {
                (0x2002, _) => Some(Ipv4Addr::new(x, y, z, w).into()),
                (_, true) => Some(Ipv4Addr::new(c, d, e, f).into()),
                _ => None,
            }
        }
        (DeviceKind::Gre | DeviceKind::Ipip, IpAddr::V4(_)) => Some(to),
        (DeviceKind::Ip6tnl, IpAddr::V6(_)) => Some(to),
        _ => None,
    }
}

/// Sends a packet or a frame through a tunnel.
pub(super) fn output(
    stack: &mut Stack,
    device: usize,
    gateway: Option<IpAddr>,
    mut packet: Packet,
) -> PacketDisposition {
    stack.seen(stack.clock.now(), device, &mut packet, PacketDirection::Out);
    let Some(tunnel) = of(stack).tunnels.get_mut(&device) else { return LOST };
    let sequence = tunnel.sequence;
    tunnel.sequence = tunnel.sequence.wrapping_add(1);
    let tunnel = tunnel.clone();
    let framed = tunnel.kind.is_ethernet();
    let version = packet.open_bytes().first().map(|first| first >> 4);
    let inner = if version == Some(4) { IPIP } else { IPV6 };
    let remote = tunnel.remote.or_else(|| destination_of(&tunnel, gateway, packet.open_bytes()));
    let Some(remote) = remote.filter(|_| framed || tunnel.proto == 0 || tunnel.proto == inner) else {
        return LOST;
    };
    let given = Encapsulation {
        local: tunnel.local,
        remote,
        link: tunnel.link,
        ttl: tunnel.ttl,
        ttl_inherit: tunnel.ttl_inherit || tunnel.ttl == 0 && !framed,
        tos: tunnel.tos,
        df: if tunnel.pmtudisc && remote.is_ipv4() { 1 } else { 0 },
        mark: packet.mark(),
    };
    let len = packet.len();
    let bytes = take_over(stack, device, packet);
    let within = if framed { bytes.get(HEADER_LEN..) } else { Some(&bytes[..]) };
    let sent = match tunnel.kind {
        DeviceKind::Gre | DeviceKind::Gretap => {
            let kind = match (framed, inner) {
                (true, _) => FRAMES,
                (_, IPIP) => 0x0800,
                _ => 0x86dd,
            };
            encapsulate(stack, &given, GRE, within, |_, _| gre(&tunnel, kind, sequence, &bytes))
        }
        DeviceKind::Geneve => {
            let mut header = [0, 0, 0x65, 0x58, 0, 0, 0, 0];
            header[4..7].copy_from_slice(&tunnel.keys.1.to_be_bytes()[1..]);
            let source = source_port(stack, &bytes, stack.sysctls.local_ports.map(|port| port as u16));
            encapsulate_udp(stack, &given, (source, tunnel.port), (&header, &bytes), tunnel.udp_csum)
        }
        DeviceKind::Ip6tnl if tunnel.limit.is_some() => {
            // A destination option of the encapsulation limit and padding.
            let limit = tunnel.limit.unwrap_or(0);
            let option = [inner, 0, 4, 1, limit, 1, 1, 0];
            encapsulate(stack, &given, DESTINATION_OPTIONS, within, |_, _| [&option[..], &bytes].concat())
        }
        _ => encapsulate(stack, &given, inner, within, |_, _| bytes.clone()),
    };
    if !sent {
        return LOST;
    }
    stack.interfaces.count_virtual(device, len, PacketDirection::Out);
    PacketDisposition::consumed(Receiver::Tunnel)
}

/// Protocol number of destination options.
const DESTINATION_OPTIONS: u8 = 60;

/// A GRE header, followed by a packet.
fn gre(tunnel: &IpTunnel, kind: u16, sequence: u32, packet: &[u8]) -> Vec<u8> {
    let flags = tunnel.flags.1 & (GRE_CSUM | GRE_KEY | GRE_SEQ);
    let mut bytes = [flags, kind].map(u16::to_be_bytes).concat();
    if flags & GRE_CSUM != 0 {
        bytes.extend([0; 4]);
    }
    if flags & GRE_KEY != 0 {
        bytes.extend(tunnel.keys.1.to_be_bytes());
    }
    if flags & GRE_SEQ != 0 {
        bytes.extend(sequence.to_be_bytes());
    }
    bytes.extend(packet);
    if flags & GRE_CSUM != 0 {
        let sum = checksum::internet(&bytes);
        bytes[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}
