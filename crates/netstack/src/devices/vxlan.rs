//! VXLAN (RFC 7348): Ethernet frames in UDP datagrams, with a forwarding database of remote tunnel end points (VTEPs).

use super::state::DeviceNews;
use super::tunnel::{Encapsulation, carry_congestion, encapsulate_udp, source_port, take_over};
use super::{copy, of, originate_copy};
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::ip::Inbound;
use crate::{Effect, PacketDirection, Stack};
use belljar_linux_abi::c;
use belljar_net::Packet;
use belljar_net::igmp::SourceFilter;
use belljar_wire::ethernet::HEADER_LEN;
use belljar_wire::udp;
use std::net::IpAddr;

/// Length of the header of VXLAN in bytes.
const VXLAN_LEN: usize = 8;
/// The I flag: the header has a network identifier.
const HAS_VNI: u8 = 0x08;
pub use super::vxlan_state::{ANY, Remote, Vxlan, VxlanEntry};

/// Reports an entry to programs.
pub fn report(stack: &mut Stack, device: usize, mac: [u8; 6], entry: &VxlanEntry, there: bool) {
    let news = DeviceNews::Vxlan { device, mac, entry: entry.clone(), there };
    stack.effects.push(Effect::Device(Box::new(news)));
}

/// Learns the address of the VTEP behind which a station is (`vxlan_snoop`). Returns false if the frame is dropped.
fn learn(stack: &mut Stack, device: usize, mac: [u8; 6], from: IpAddr) -> bool {
    let now = stack.clock.now();
    let Some(vxlan) = of(stack).vxlans.get_mut(&device) else { return false };
    let remote = vxlan.remote_at(from);
    let full = vxlan.limit != 0 && vxlan.fdb.len() >= vxlan.limit as usize;
    let entry = match vxlan.fdb.get_mut(&mac) {
        Some(entry) if entry.remotes[0].ip == from => {
            entry.updated = now;
            return true;
        }
        // A permanent entry does not move.
        Some(entry) if entry.state & (c::NUD_PERMANENT | c::NUD_NOARP) != 0 => return false,
        Some(entry) => {
            entry.remotes[0].ip = from;
            entry.updated = now;
            entry.clone()
        }
        None if full => return true,
        None => {
            let entry = vxlan.new_entry(remote, c::NUD_REACHABLE, c::NTF_SELF, now);
            vxlan.fdb.insert(mac, entry.clone());
            entry
        }
    };
    report(stack, device, mac, &entry, true);
    super::set_timer(stack);
    true
}

/// Receives a datagram for the port of a VXLAN interface; `None` if the port is no such one (`vxlan_rcv`).
pub(super) fn receive(stack: &mut Stack, inbound: &Inbound, port: u16) -> Option<PacketDisposition> {
    let v6 = inbound.header.dst.is_ipv6();
    let devices = stack.devices.as_ref()?;
    let up = |number: &usize| stack.interfaces[*number].up;
    let mut here =
        devices.vxlans.iter().filter(|(number, vxlan)| vxlan.port == port && vxlan.v6 == v6 && up(number));
    here.clone().next()?;
    let payload = inbound.payload().get(udp::HEADER_LEN..).unwrap_or_default();
    let Some((header, frame)) = payload.split_first_chunk::<VXLAN_LEN>() else {
        return Some(PacketDisposition::dropped(DropCause::Malformed));
    };
    let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    let takes = |vxlan: &Vxlan| vxlan.vni == vni && header[0] & HAS_VNI != 0;
    let device = here.find(|(_, vxlan)| takes(vxlan)).map(|(number, vxlan)| (*number, vxlan.learning));
    let Some((device, learning)) = device else { return Some(PacketDisposition::dropped(DropCause::Tunnel)) };
    if frame.len() < HEADER_LEN {
        return Some(PacketDisposition::dropped(DropCause::Malformed));
    }
    let source: [u8; 6] = frame[6..12].try_into().expect("six bytes");
    let own = source == stack.interfaces[device].mac;
    if own || learning && !learn(stack, device, source, inbound.header.src) {
        return Some(PacketDisposition::dropped(DropCause::Tunnel));
    }
    let mut frame = frame.to_vec();
    if !carry_congestion(inbound.header.tos, &mut frame, true) {
        return Some(PacketDisposition::dropped(DropCause::Tunnel));
    }
    let frame = Packet::new(frame).with_mark(inbound.mark);
    stack.interfaces.count_virtual(device, frame.len(), PacketDirection::In);
    let end = stack.frame_input(device, frame);
    stack.account.originate(Origin::Tunnel, end);
    Some(PacketDisposition::consumed(Receiver::Tunnel))
}

/// Sends a frame on a VXLAN interface (`vxlan_xmit`).
pub(super) fn output(stack: &mut Stack, device: usize, mut frame: Packet) -> PacketDisposition {
    const LOST: PacketDisposition = PacketDisposition::dropped(DropCause::Tunnel);
    let now = stack.clock.now();
    stack.seen(now, device, &mut frame, PacketDirection::Out);
    let Some(to) = frame.open_bytes().first_chunk::<6>().copied() else { return LOST };
    let Some(vxlan) = of(stack).vxlans.get_mut(&device) else { return LOST };
    let key = if vxlan.fdb.contains_key(&to) { to } else { ANY };
    let remotes = vxlan.fdb.get_mut(&key).map(|entry| {
        entry.used = now;
        entry.remotes.clone()
    });
    let remotes = remotes.unwrap_or_default();
    let Some((last, others)) = remotes.split_last() else { return LOST };
    for remote in others {
        let copied = copy(&frame);
        let end = send(stack, device, remote, copied);
        originate_copy(stack, end);
    }
    send(stack, device, last, frame)
}

/// Sends a frame to a destination (`vxlan_xmit_one`).
fn send(stack: &mut Stack, device: usize, remote: &Remote, frame: Packet) -> PacketDisposition {
    let Some(vxlan) = of(stack).vxlans.get(&device) else {
        return PacketDisposition::dropped(DropCause::Tunnel);
    };
    let (low, high) = vxlan.source_ports;
    let encapsulation = Encapsulation {
        local: vxlan.local,
        remote: remote.ip,
        link: remote.link.or(vxlan.link),
        ttl: vxlan.ttl,
        ttl_inherit: vxlan.ttl_inherit,
        tos: vxlan.tos,
        df: vxlan.df,
        mark: frame.mark(),
    };
    let checksum = if remote.ip.is_ipv4() { vxlan.udp_csum } else { !vxlan.zero_csum6_tx };
    let mut header = [HAS_VNI, 0, 0, 0, 0, 0, 0, 0];
    header[4..7].copy_from_slice(&remote.vni.to_be_bytes()[1..]);
    let range = if low == 0 && high == 0 {
        stack.sysctls.local_ports.map(|port| port as u16)
    } else {
        [low, high.max(low)]
    };
    let source = source_port(stack, frame.open_bytes(), range);
    let len = frame.len();
    let bytes = take_over(stack, device, frame);
    let sent = encapsulate_udp(stack, &encapsulation, (source, remote.port), (&header, &bytes), checksum);
    match sent {
        true => {
            stack.interfaces.count_virtual(device, len, PacketDirection::Out);
            PacketDisposition::consumed(Receiver::Tunnel)
        }
        false => PacketDisposition::dropped(DropCause::Tunnel),
    }
}

/// Joins or leaves the multicast groups of a VXLAN interface that has come up or gone down, and forgets what it has
/// learned.
pub(super) fn state_changed(stack: &mut Stack, device: usize) {
    let (now, up) = (stack.clock.now(), stack.interfaces[device].up);
    let Some(vxlan) = of(stack).vxlans.get_mut(&device) else { return };
    let gone = if up { Vec::new() } else { vxlan.age(now, true) };
    let group = vxlan.remote.filter(IpAddr::is_multicast).zip(vxlan.link);
    for (mac, entry) in gone {
        report(stack, device, mac, &entry, false);
    }
    match group {
        Some((IpAddr::V4(group), link)) => {
            let filter = if up { SourceFilter::everybody() } else { SourceFilter::nobody() };
            stack.igmp.set(now, link, group, filter);
            stack.flush_igmp();
        }
        Some((IpAddr::V6(group), link)) if up => {
            stack.v6.join_group(link, group);
        }
        Some((IpAddr::V6(group), link)) => {
            stack.v6.leave_group(link, group);
        }
        None => {}
    }
}
