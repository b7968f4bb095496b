//! ipvlan: interfaces on another interface that share its hardware address and differ in their IP addresses
//! (`ipvlan_core.c` of Linux).

use super::forward::{address, changed};
use super::ipvlan_state::{IpvlanMode, IpvlanPort, PRIVATE, VEPA};
use super::{copy, cross, frame_received, of, originate_copy};
use crate::account::{DropCause, PacketDisposition};
use crate::ip::{Inbound, Onward, pass_local};
use crate::veth::cross_now;
use crate::{PacketDirection, Stack, interface_index};
use belljar_linux_abi::c;
use belljar_net::Packet;
use belljar_wire::ethernet::{HEADER_LEN, ethertype};
use belljar_wire::{ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const DROPPED: PacketDisposition = PacketDisposition::dropped(DropCause::Ipvlan);
/// Type of a neighbour solicitation, `NDISC_NEIGHBOUR_SOLICITATION`.
const SOLICITATION: u8 = 135;

/// Address field of a packet by which its ipvlan is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Source,
    Destination,
}

/// The ipvlans on an interface, by number.
pub fn on(stack: &Stack, below: usize) -> Vec<usize> {
    let all = stack.devices.iter().flat_map(|devices| devices.ipvlans.iter());
    all.filter(|(_, ipvlan)| ipvlan.below == below).map(|(number, _)| *number).collect()
}

/// The settings of the ipvlans on an interface.
pub fn port(stack: &Stack, below: usize) -> Option<IpvlanPort> {
    stack.devices.as_ref()?.ipvlan_ports.get(&below).copied()
}

/// Number of the lower interface of an ipvlan.
pub fn below(stack: &Stack, number: usize) -> Option<usize> {
    Some(stack.devices.as_ref()?.ipvlans.get(&number)?.below)
}

/// The settings of an ipvlan.
pub fn settings(stack: &Stack, number: usize) -> Option<IpvlanPort> {
    port(stack, below(stack, number)?)
}

/// Sets whether an ipvlan has neighbours (`IFF_NOARP`), by its mode.
fn apply_mode(stack: &mut Stack, number: usize, mode: IpvlanMode) {
    let interface = &mut stack.interfaces[number];
    if interface.asks_neighbours() == mode.is_routed() {
        interface.settings.toggled ^= c::IFF_NOARP as u32;
    }
}

/// Prepares an interface that is taken up (`ipvlan_open`).
pub fn open(stack: &mut Stack, number: usize) {
    if let Some(port) = settings(stack, number) {
        apply_mode(stack, number, port.mode);
    }
}

/// Sets the mode of the ipvlans on an interface (`ipvlan_set_port_mode`). Returns those that have changed.
pub fn set_mode(stack: &mut Stack, below: usize, mode: IpvlanMode) -> Vec<usize> {
    let Some(port) = of(stack).ipvlan_ports.get_mut(&below) else { return Vec::new() };
    if std::mem::replace(&mut port.mode, mode) == mode {
        return Vec::new();
    }
    let uppers = on(stack, below);
    for upper in &uppers {
        apply_mode(stack, *upper, mode);
    }
    uppers
}

/// The ipvlan on the same interface as `number`, or itself, that has an IP address.
pub fn with_address(stack: &Stack, number: usize, ip: IpAddr) -> Option<usize> {
    on(stack, below(stack, number)?).into_iter().find(|upper| stack.interfaces.has_address(*upper, ip))
}

/// IPv6 address of an interface in a network, by its hardware address. That of ipvlans has their number in it
/// (`addrconf_ifid_eui48`).
pub(crate) fn eui64(stack: &Stack, number: usize, network: Ipv6Addr) -> Ipv6Addr {
    let mac = stack.interfaces[number].mac;
    let own = ipv6::eui64(network, mac);
    let ipvlan = stack.devices.as_ref().and_then(|devices| devices.ipvlans.get(&number));
    let Some(ipvlan) = ipvlan.filter(|ipvlan| ipvlan.id != 0) else { return own };
    let mut octets = own.octets();
    octets[8] = mac[0];
    octets[11..13].copy_from_slice(&ipvlan.id.to_be_bytes());
    octets.into()
}

/// Removes an ipvlan; the settings end with the last one.
pub(super) fn delete(stack: &mut Stack, number: usize) {
    let Some(devices) = &mut stack.devices else { return };
    let Some(ipvlan) = devices.ipvlans.remove(&number) else { return };
    if devices.ipvlans.values().all(|other| other.below != ipvlan.below) {
        devices.ipvlan_ports.remove(&ipvlan.below);
    }
}

fn ipv4_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

/// IP address in a frame by which its ipvlan is found (`ipvlan_get_L3_hdr`, `ipvlan_addr_lookup`).
fn address_in(frame: &[u8], field: Field) -> Option<IpAddr> {
    let kind = frame.get(HEADER_LEN - 2..HEADER_LEN)?;
    let packet = &frame[HEADER_LEN..];
    let by_destination = field == Field::Destination;
    match u16::from_be_bytes([kind[0], kind[1]]) {
        ethertype::ARP => ipv4_at(packet, if by_destination { 24 } else { 14 }),
        ethertype::IPV4 => {
            let header = usize::from(packet.first()? & 0xf) * 4;
            let len = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let whole = packet[0] >> 4 == 4 && header >= 20 && (header..=packet.len()).contains(&len);
            ipv4_at(packet, if by_destination { 16 } else { 12 }).filter(|_| whole)
        }
        ethertype::IPV6 => {
            let header = packet.get(..ipv6::HEADER_LEN)?;
            let ip = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).ok().map(Ipv6Addr::from);
            let source = ip(&header[8..24])?;
            if source.is_unspecified()
                && header[6] == protocol::ICMPV6
                && packet.get(ipv6::HEADER_LEN) == Some(&SOLICITATION)
            {
                return ip(packet.get(48..64)?).map(IpAddr::V6);
            }
            Some(if by_destination { ip(&header[24..40])? } else { source }.into())
        }
        _ => None,
    }
}

/// The ipvlan on an interface that receives packets to an IP address. Those that are down receive none.
fn receiver(stack: &Stack, below: usize, ip: IpAddr) -> Option<usize> {
    let has = |upper: &usize| stack.interfaces[*upper].up && stack.interfaces.has_address(*upper, ip);
    on(stack, below).into_iter().find(has)
}

/// The ipvlan of a frame.
fn find(stack: &Stack, below: usize, frame: &[u8], field: Field) -> Option<usize> {
    receiver(stack, below, address_in(frame, field)?)
}

/// Receives a frame at the lower interface (`ipvlan_handle_frame`). Returns a frame that the interface keeps.
pub(super) fn receive(stack: &mut Stack, below: usize, frame: Packet) -> Result<Packet, PacketDisposition> {
    let Some(IpvlanPort { mode, .. }) = port(stack, below) else { return Ok(frame) };
    let bytes = frame.open_bytes();
    if mode == IpvlanMode::L3s {
        let is_arp = bytes.get(HEADER_LEN - 2..HEADER_LEN) == Some(&ethertype::ARP.to_be_bytes()[..]);
        if is_arp || !stack.hooks.is_empty() || address(bytes, 0) != stack.interfaces[below].mac {
            return Ok(frame);
        }
        // Without hooks nothing sees the packet on the lower interface after this.
        let Some(upper) = find(stack, below, bytes, Field::Destination) else { return Ok(frame) };
        stack.interfaces.count_virtual(upper, frame.len(), PacketDirection::In);
        stack.arrived_as_one = true;
        return Err(stack.ip_input(upper, without_header(frame)));
    }
    if mode == IpvlanMode::L2 && bytes.first().is_some_and(|first| first & 1 != 0) {
        let own = address(bytes, 6) == stack.interfaces[below].mac;
        if !own || find(stack, below, bytes, Field::Source).is_none() {
            for upper in on(stack, below) {
                if stack.interfaces[upper].up {
                    let copied = copy(&frame);
                    let end = frame_received(stack, upper, copied);
                    originate_copy(stack, end);
                }
            }
        }
        return Ok(frame);
    }
    match find(stack, below, bytes, Field::Destination) {
        Some(upper) => Err(frame_received(stack, upper, frame)),
        None => Ok(frame),
    }
}

/// Interface of a packet in mode l3s that has passed the hooks on the lower one (`ipvlan_nf_input`).
#[cold]
#[inline(never)]
pub(crate) fn after_hooks(stack: &mut Stack, inbound: &mut Inbound) {
    let below = inbound.interface;
    if port(stack, below).is_none_or(|port| port.mode != IpvlanMode::L3s) {
        return;
    }
    if let Some(upper) = receiver(stack, below, inbound.header.dst) {
        stack.interfaces.count_virtual(upper, inbound.packet.len() + HEADER_LEN, PacketDirection::In);
        inbound.interface = upper;
    }
}

/// The IP packet of a frame, which remains charged to its sender.
fn without_header(frame: Packet) -> Packet {
    changed(frame, |bytes| drop(bytes.drain(..HEADER_LEN.min(bytes.len()))))
}

/// Sends a frame on an ipvlan (`ipvlan_queue_xmit`).
pub(super) fn output(stack: &mut Stack, number: usize, mut frame: Packet) -> PacketDisposition {
    stack.seen(stack.clock.now(), number, &mut frame, PacketDirection::Out);
    let len = frame.len();
    let end = pass(stack, number, frame);
    if end.is_queued() {
        stack.interfaces.count_virtual(number, len, PacketDirection::Out);
    }
    end
}

fn pass(stack: &mut Stack, number: usize, frame: Packet) -> PacketDisposition {
    let Some((below, port)) = below(stack, number).zip(settings(stack, number)) else {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    };
    let bytes = frame.open_bytes();
    let (to, from) = (address(bytes, 0), address(bytes, 6));
    let stays = port.flags & VEPA == 0 && (port.mode.is_routed() || to == from);
    if stays && let Some(upper) = find(stack, below, bytes, Field::Destination) {
        if port.flags & PRIVATE != 0 {
            return DROPPED;
        }
        return cross(stack, (number, upper), frame);
    }
    if port.mode.is_routed() {
        return route(stack, below, frame);
    }
    if stays {
        return cross(stack, (number, below), frame);
    }
    if to[0] & 1 != 0 {
        for other in on(stack, below) {
            if other != number && stack.interfaces[other].up {
                let copied = copy(&frame);
                cross_now(stack, other, copied);
                originate_copy(stack, PacketDisposition::HELD);
            }
        }
    }
    if !stack.interfaces[below].up {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    }
    stack.send_framed(below, frame)
}

/// Sends the packet in a frame by the routes of the lower interface (`ipvlan_process_outbound`).
fn route(stack: &mut Stack, below: usize, frame: Packet) -> PacketDisposition {
    let bytes = frame.open_bytes();
    if address(bytes, 0)[0] & 1 != 0 {
        return DROPPED;
    }
    let kind = bytes.get(HEADER_LEN - 2..HEADER_LEN).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]]));
    if ![ethertype::IPV4, ethertype::IPV6].contains(&kind) {
        return PacketDisposition::dropped(DropCause::UnknownProtocol);
    }
    let ends = (address_in(bytes, Field::Source), address_in(bytes, Field::Destination));
    let (Some(source), Some(to)) = ends else { return PacketDisposition::dropped(DropCause::Malformed) };
    let Ok(route) = stack.route(to, Some(source), Some(interface_index(below))) else {
        return PacketDisposition::dropped(DropCause::NoRoute);
    };
    let mtu = stack.interfaces.mtu(route.interface);
    let onward = Onward { mtu, ..Onward::by(route.interface, route.gateway) };
    pass_local(stack, &to, without_header(frame), &onward)
}
