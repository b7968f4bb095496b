//! Frames in bridges: learning, forwarding, flooding and the filtering of VLANs (`br_input.c`, `br_forward.c` and
//! `br_vlan.c` of Linux).
//!
//! With VLAN filtering a frame is carried without its tag, and gets one where it leaves tagged. Without it tags are part of
//! the frame and not looked at.

use super::bridge::{Bridge, Port, PortState};
use super::{bridge, bridge_mut, copy, frame_received, nested, originate_copy, settle};
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::{PacketDirection, Stack};
use belljar_net::Packet;
use belljar_wire::ethernet::HEADER_LEN;

/// Length of a tag in bytes.
const TAG_LEN: usize = 4;
/// Mask of the VLAN in a tag.
const VID: u16 = 0xfff;
/// LLC header of BPDUs: the SAP of bridges, unnumbered information.
const LLC: [u8; 3] = [0x42, 0x42, 0x03];
/// Least length of a frame without its checksum.
const LEAST_FRAME: usize = 60;
const DROPPED: PacketDisposition = PacketDisposition::dropped(DropCause::Bridge);

/// A frame in a bridge.
struct Bridged {
    packet: Packet,
    /// VLAN, or 0 without filtering.
    vid: u16,
    /// Priority bits of the tag that was taken off.
    priority: u16,
    /// Number of the interface by which the frame has come; `None` for the host's own.
    source: Option<usize>,
}

/// Address at an offset of a frame; zero if the frame is too short.
pub(super) fn address(frame: &[u8], at: usize) -> [u8; 6] {
    frame.get(at..at + 6).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default()
}

fn is_link_local(address: [u8; 6]) -> bool {
    address[..5] == [0x01, 0x80, 0xc2, 0, 0] && address[5] & 0xf0 == 0
}

/// Sends a BPDU on a port.
pub(super) fn send_bpdu(stack: &mut Stack, (bridge, port): (usize, usize), bytes: &[u8]) {
    let Some(group) = self::bridge(stack, bridge).map(|bridge| bridge.group_address) else { return };
    let mut frame = [&group[..], &stack.interfaces[port].mac].concat();
    frame.extend(((LLC.len() + bytes.len()) as u16).to_be_bytes());
    frame.extend(LLC);
    frame.extend(bytes);
    frame.resize(frame.len().max(LEAST_FRAME), 0);
    stack.transmit_frame(Origin::Stp, port, frame);
}

/// Receives a frame at a port (`br_handle_frame`). Returns a frame that the interface keeps: one of a link-local group.
pub(super) fn receive(
    stack: &mut Stack,
    (number, interface): (usize, usize),
    frame: Packet,
) -> Result<Packet, PacketDisposition> {
    let (to, from) = (address(frame.open_bytes(), 0), address(frame.open_bytes(), 6));
    if frame.len() < HEADER_LEN || from[0] & 1 != 0 || from == [0; 6] {
        return Err(PacketDisposition::dropped(DropCause::Malformed));
    }
    let now = stack.clock.now();
    let Some(bridge) = bridge_mut(stack, number) else { return Ok(frame) };
    let Some(port) = bridge.port(interface) else { return Ok(frame) };
    if is_link_local(to) {
        let kind = to[5];
        let mask = bridge.group_fwd_mask | port.group_fwd_mask;
        let forwards = mask & 1 << kind != 0 || kind == 0 && !bridge.stp;
        if kind == 1 {
            return Err(DROPPED);
        }
        if !forwards {
            if !bridge.no_linklocal_learn && port.flags.learning && learns(port.state) {
                let vid = if bridge.vlan_filtering { port.vlans.pvid.unwrap_or(0) } else { 0 };
                bridge.learn(interface, from, vid, now);
            }
            if to == bridge.group_address
                && let Some(bpdu) =
                    frame.open_bytes().get(HEADER_LEN..).and_then(|llc| llc.strip_prefix(&LLC))
            {
                let bpdu = bpdu.to_vec();
                bridge.receive_bpdu(interface, &bpdu, now);
                settle(stack, number);
                return Err(PacketDisposition::consumed(Receiver::Stp));
            }
            settle(stack, number);
            return Ok(frame);
        }
    }
    Err(nested(stack, |stack| handle(stack, (number, interface), frame)))
}

fn learns(state: PortState) -> bool {
    matches!(state, PortState::Learning | PortState::Forwarding)
}

/// Forwards a received frame (`br_handle_frame_finish`).
fn handle(stack: &mut Stack, (number, interface): (usize, usize), frame: Packet) -> PacketDisposition {
    let now = stack.clock.now();
    let Some(bridge) = bridge_mut(stack, number) else { return DROPPED };
    let Some(port) = bridge.port(interface).filter(|port| learns(port.state)) else { return DROPPED };
    let (state, flags) = (port.state, port.flags);
    let Some(frame) = enter(bridge, Some(interface), frame) else { return DROPPED };
    let (to, from) = (address(frame.packet.open_bytes(), 0), address(frame.packet.open_bytes(), 6));
    if flags.locked {
        let known = bridge.fdb.get(&(from, frame.vid));
        if known.is_none_or(|entry| entry.local || entry.port != Some(interface)) {
            return DROPPED;
        }
    }
    if flags.learning {
        bridge.learn(interface, from, frame.vid, now);
    }
    if state == PortState::Learning {
        settle(stack, number);
        return DROPPED;
    }
    let to_many = to[0] & 1 != 0;
    let known = if to_many { None } else { bridge.fdb.get_mut(&(to, frame.vid)) };
    let known = known.map(|entry| {
        entry.used = now;
        (entry.local, entry.port)
    });
    if !bridge.outputs.is_empty() {
        settle(stack, number);
    }
    match known {
        Some((true, _)) => pass_up(stack, number, frame),
        Some((false, port)) => forward(stack, number, port, frame),
        None => flood(stack, number, frame, to),
    }
}

/// Sends a frame of the host on a bridge (`br_dev_xmit`).
pub(super) fn output(stack: &mut Stack, number: usize, mut frame: Packet) -> PacketDisposition {
    let now = stack.clock.now();
    stack.seen(now, number, &mut frame, PacketDirection::Out);
    stack.interfaces.count_virtual(number, frame.len(), PacketDirection::Out);
    let Some(bridge) = bridge_mut(stack, number) else { return DROPPED };
    let Some(frame) = enter(bridge, None, frame) else { return DROPPED };
    let to = address(frame.packet.open_bytes(), 0);
    match bridge.fdb.get_mut(&(to, frame.vid)).filter(|_| to[0] & 1 == 0) {
        Some(entry) => {
            entry.used = now;
            let port = entry.port;
            forward(stack, number, port, frame)
        }
        None => flood(stack, number, frame, to),
    }
}

/// Determines the VLAN of a frame and takes its tag off; `None` if it is not allowed in (`br_allowed_ingress`).
fn enter(bridge: &Bridge, source: Option<usize>, packet: Packet) -> Option<Bridged> {
    if !bridge.vlan_filtering {
        return Some(Bridged { packet, vid: 0, priority: 0, source });
    }
    let vlans = match source {
        Some(interface) => &bridge.port(interface)?.vlans,
        None => &bridge.vlans,
    };
    let bytes = packet.open_bytes();
    let tag = (bytes.len() >= HEADER_LEN + TAG_LEN
        && bytes[HEADER_LEN - 2..HEADER_LEN] == bridge.vlan_protocol.to_be_bytes())
    .then(|| u16::from_be_bytes([bytes[HEADER_LEN], bytes[HEADER_LEN + 1]]));
    let vid = match tag.map(|tag| tag & VID).filter(|vid| *vid != 0) {
        Some(vid) => Some(vid).filter(|vid| vlans.has(*vid)),
        None => vlans.pvid,
    }?;
    let packet = match tag {
        None => packet,
        Some(_) => changed(packet, |bytes| {
            bytes.drain(HEADER_LEN - 2..HEADER_LEN - 2 + TAG_LEN);
        }),
    };
    Some(Bridged { packet, vid, priority: tag.unwrap_or(0) & !VID, source })
}

/// The packet with other bytes before its network header.
pub(super) fn changed(packet: Packet, change: impl FnOnce(&mut Vec<u8>)) -> Packet {
    let (cookie, checksum, mark) = (packet.cookie(), packet.checksum(), packet.mark());
    let mut bytes = packet.into_bytes();
    change(&mut bytes);
    Packet::with_cookie(bytes, cookie).with_checksum(checksum).with_mark(mark)
}

/// Puts the tag of a frame on, if it leaves with one (`br_handle_vlan`).
fn leave(stack: &Stack, number: usize, port: Option<usize>, frame: Bridged) -> Option<Packet> {
    let bridge = bridge(stack, number)?;
    if !bridge.vlan_filtering {
        return Some(frame.packet);
    }
    let vlans = match port {
        Some(interface) => &bridge.port(interface)?.vlans,
        None => &bridge.vlans,
    };
    if vlans.is_untagged(frame.vid) {
        return Some(frame.packet);
    }
    let ([a, b], [c, d]) = (bridge.vlan_protocol.to_be_bytes(), (frame.vid | frame.priority).to_be_bytes());
    Some(changed(frame.packet, |bytes| {
        bytes.splice(HEADER_LEN - 2..HEADER_LEN - 2, [a, b, c, d]);
    }))
}

/// Delivers a frame to the host (`br_pass_frame_up`).
fn pass_up(stack: &mut Stack, number: usize, frame: Bridged) -> PacketDisposition {
    let Some(bridge) = bridge(stack, number) else { return DROPPED };
    if !stack.interfaces[number].up || bridge.vlan_filtering && !bridge.vlans.has(frame.vid) {
        return DROPPED;
    }
    let Some(packet) = leave(stack, number, None, frame) else { return DROPPED };
    frame_received(stack, number, packet)
}

/// True if a frame leaves by a port (`should_deliver`).
fn delivers(bridge: &Bridge, port: &Port, frame: &Bridged) -> bool {
    let source = frame.source.and_then(|source| bridge.port(source));
    port.state == PortState::Forwarding
        && (port.flags.hairpin || frame.source != Some(port.interface))
        && (!bridge.vlan_filtering || port.vlans.has(frame.vid))
        && !(port.flags.isolated && source.is_some_and(|source| source.flags.isolated))
}

/// Forwards a frame to a port (`br_forward`).
fn forward(stack: &mut Stack, number: usize, port: Option<usize>, frame: Bridged) -> PacketDisposition {
    let Some(bridge) = bridge(stack, number) else { return DROPPED };
    match port.and_then(|port| bridge.port(port)).filter(|port| delivers(bridge, port, &frame)) {
        Some(port) => transmit(stack, number, port.interface, frame),
        None => DROPPED,
    }
}

/// Forwards a frame to all other ports (`br_flood`).
fn flood(stack: &mut Stack, number: usize, frame: Bridged, to: [u8; 6]) -> PacketDisposition {
    let Some(bridge) = bridge(stack, number) else { return DROPPED };
    let own = frame.source.is_none();
    let takes = |port: &&Port| {
        let allowed = match to {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => port.flags.broadcast_flood || own,
            [first, ..] if first & 1 != 0 => port.flags.multicast_flood || own,
            _ => port.flags.unicast_flood,
        };
        allowed && delivers(bridge, port, &frame)
    };
    let ports = bridge.ports.iter().filter(takes).map(|port| Some(port.interface));
    // The host itself comes last.
    let up = (to[0] & 1 != 0 && !own).then_some(None);
    let targets: Vec<Option<usize>> = ports.chain(up).collect();
    let Some((last, others)) = targets.split_last() else { return DROPPED };
    for target in others {
        let Bridged { vid, priority, source, .. } = frame;
        let copied = Bridged { packet: copy(&frame.packet), vid, priority, source };
        let end = deliver(stack, number, *target, copied);
        originate_copy(stack, end);
    }
    deliver(stack, number, *last, frame)
}

/// Delivers a frame to a port or, with `None`, to the host.
fn deliver(stack: &mut Stack, number: usize, target: Option<usize>, frame: Bridged) -> PacketDisposition {
    match target {
        Some(port) => transmit(stack, number, port, frame),
        None => pass_up(stack, number, frame),
    }
}

/// Sends a frame on the interface of a port (`br_dev_queue_push_xmit`).
fn transmit(stack: &mut Stack, number: usize, port: usize, frame: Bridged) -> PacketDisposition {
    let Some(packet) = leave(stack, number, Some(port), frame) else { return DROPPED };
    if !stack.interfaces[port].up {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    }
    if packet.len() > stack.interfaces[port].mtu + HEADER_LEN + TAG_LEN {
        return PacketDisposition::dropped(DropCause::TooBig);
    }
    stack.send_framed(port, packet)
}
