//! `PACKET_FANOUT`: sockets that share what passes an interface, each packet going to one of them (packet(7)).

use super::tap::TappedFrame;
use super::{Host, SocketKey};
use crate::net::own::OwnKind;
use belljar_linux_abi::{Errno, c};
use belljar_objects::packet_sockets::{Fanout, FanoutChoice as Choice};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// `PACKET_FANOUT_FLAG_*`: one that is full gives to the next, the number is chosen for the program, what is sent does
/// not count, fragments are put together first (packets come to the sockets one by one; they keep their flow's place).
const FLAG_ROLLOVER: u16 = 0x1000;
const FLAG_UNIQUE: u16 = 0x2000;
const FLAG_IGNORE_OUTGOING: u16 = 0x4000;
const FLAG_DEFRAG: u16 = 0x8000;
/// `PACKET_FANOUT_MAX`.
const MAX_MEMBERS: usize = 1 << 16;
/// Default for the greatest number of a group's members (`fanout_add`).
const USUAL_MEMBERS: usize = 256;

impl Host {
    /// Makes a socket one of a group: the option's value has the group's number, how it chooses, and perhaps how many
    /// it takes. `fanout_add` of Linux.
    pub(super) fn join_fanout(&mut self, key: SocketKey, value: u32, max: u32) -> Result<(), Errno> {
        let (mut id, kind) = (value as u16, (value >> 16) as u16);
        let flags = kind & (FLAG_ROLLOVER | FLAG_UNIQUE | FLAG_IGNORE_OUTGOING | FLAG_DEFRAG);
        let Some(choice) = Choice::from_number(kind & !flags) else {
            self.warn("PACKET_FANOUT by programs (CBPF, EBPF) is not supported");
            return Err(Errno::EINVAL);
        };
        if choice == Choice::Rollover && flags & FLAG_ROLLOVER != 0 {
            return Err(Errno::EINVAL);
        }
        let packet = self.own.packet(key);
        if packet.fanout.is_some() {
            return Err(Errno::EALREADY);
        }
        let hears = (packet.protocol, packet.interface);
        if flags & FLAG_UNIQUE != 0 {
            if id != 0 {
                return Err(Errno::EINVAL);
            }
            let taken = |id: u16| self.own.fanouts.iter().any(|group| group.id == id);
            id = (0..=u16::MAX).find(|id| !taken(*id)).ok_or(Errno::ENOMEM)?;
        }
        // The flag is about how the group was made.
        let flags = flags & !FLAG_UNIQUE;
        if hears.0 == 0 {
            return Err(Errno::EINVAL);
        }
        let at = match self.own.fanouts.iter().position(|group| group.id == id) {
            Some(at) => at,
            None => {
                let max = match max as usize {
                    0 => USUAL_MEMBERS,
                    max if max > MAX_MEMBERS => return Err(Errno::EINVAL),
                    max => max,
                };
                self.own.fanouts.push(Fanout { id, choice, flags, max, hears, members: Vec::new(), turn: 0 });
                self.own.fanouts.len() - 1
            }
        };
        let group = &mut self.own.fanouts[at];
        if (group.choice, group.flags, group.hears) != (choice, flags, hears) {
            return Err(Errno::EINVAL);
        }
        if group.members.len() >= group.max {
            return Err(Errno::ENOSPC);
        }
        group.members.push(key);
        self.own.packet(key).fanout = Some(id);
        Ok(())
    }

    /// The socket is closed.
    pub(super) fn leave_fanout(&mut self, key: SocketKey) {
        let Some(id) = self.own.packet(key).fanout.take() else { return };
        for group in self.own.fanouts.iter_mut().filter(|group| group.id == id) {
            // As Linux does: the last one takes its place.
            if let Some(at) = group.members.iter().position(|member| *member == key) {
                group.members.swap_remove(at);
            }
        }
        self.own.fanouts.retain(|group| !group.members.is_empty());
    }

    /// The value of the socket option.
    pub(super) fn fanout_value(&mut self, key: SocketKey) -> u32 {
        let Some(id) = self.own.packet(key).fanout else { return 0 };
        let group = self.own.fanouts.iter().find(|group| group.id == id);
        group.map_or(0, |group| u32::from(group.id) | u32::from(group.choice as u16 | group.flags) << 16)
    }

    /// The sockets that hear a frame for their groups, one of each.
    pub(super) fn chosen_of_fanouts(&mut self, seen: &TappedFrame<'_>) -> Vec<SocketKey> {
        let mut chosen = Vec::new();
        for at in 0..self.own.fanouts.len() {
            let group = &self.own.fanouts[at];
            let first = group.members.first().and_then(|first| self.own.get(*first));
            let Some(OwnKind::Packet(packet)) = first else { continue };
            let outgoing = seen.from.packet_type == c::PACKET_OUTGOING;
            if !packet.hears(seen.direction, seen.from.protocol, seen.interface)
                || outgoing && group.flags & FLAG_IGNORE_OUTGOING != 0
            {
                continue;
            }
            let (count, choice, flags) = (group.members.len() as u64, group.choice, group.flags);
            let n = match choice {
                Choice::Hash => (flow_hash(self.net.flow_key, seen.payload) * count) >> 32,
                Choice::LoadBalance => {
                    let group = &mut self.own.fanouts[at];
                    group.turn = group.turn.wrapping_add(1);
                    u64::from(group.turn) % count
                }
                Choice::Random => self.net.filter_random.below(count),
                Choice::Cpu | Choice::Queue | Choice::Rollover => 0,
            };
            let members = &self.own.fanouts[at].members;
            let mut n = n as usize;
            if choice == Choice::Rollover || flags & FLAG_ROLLOVER != 0 {
                let room = |n: &usize| self.packet_has_room(members[*n]);
                n = (n..members.len()).chain(0..n).find(room).unwrap_or(n);
            }
            chosen.push(members[n]);
        }
        chosen
    }
}

/// A number of 32 bits by which both directions of a flow are known.
fn flow_hash(key: u64, packet: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0xfa);
    let (addresses, protocol, transport) = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
            let start = if fragment { packet.len() } else { usize::from(packet[0] & 0xf) * 4 };
            (&packet[12..20], packet[9], start)
        }
        Some(6) if packet.len() >= 40 => (&packet[8..40], packet[6], 40),
        _ => {
            hasher.write(packet.get(..14.min(packet.len())).unwrap_or_default());
            return hasher.finish() >> 32;
        }
    };
    let ports = match i32::from(protocol) {
        c::IPPROTO_TCP | c::IPPROTO_UDP | c::IPPROTO_UDPLITE => {
            packet.get(transport..transport + 4).unwrap_or_default()
        }
        _ => &[],
    };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let (from, to) = ports.split_at(ports.len() / 2);
    let mut ends = [(source, from), (destination, to)];
    ends.sort();
    for (address, port) in ends {
        hasher.write(address);
        hasher.write(port);
    }
    hasher.write_u8(protocol);
    hasher.finish() >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_of_a_flow_have_the_same_hash() {
        let packet = |source: [u8; 4], destination: [u8; 4], from: u16, to: u16| {
            let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
            packet.extend(source.into_iter().chain(destination));
            packet.extend(from.to_be_bytes().into_iter().chain(to.to_be_bytes()));
            flow_hash(7, &packet)
        };
        let (one, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert_eq!(packet(one, other, 5, 6), packet(other, one, 6, 5));
        assert_ne!(packet(one, other, 5, 6), packet(one, other, 5, 7));
        assert!(packet(one, other, 5, 6) < 1 << 32);
    }
}
