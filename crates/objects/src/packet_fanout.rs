//! `PACKET_FANOUT`: groups of packet sockets that share the traffic of an interface, each packet going to one
//! member (packet(7)).

use crate::packet_sockets::PacketSocket;
use belljar_base::Stream;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::SocketKey;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// `PACKET_FANOUT_FLAG_*`: a full member passes packets on, the kernel chooses the group id, sent packets are
/// ignored, fragments are reassembled first (without effect here: every packet is delivered by itself, to the
/// member of its flow).
const FLAG_ROLLOVER: u16 = 0x1000;
const FLAG_UNIQUE: u16 = 0x2000;
const FLAG_IGNORE_OUTGOING: u16 = 0x4000;
const FLAG_DEFRAG: u16 = 0x8000;
const FLAGS: u16 = FLAG_ROLLOVER | FLAG_UNIQUE | FLAG_IGNORE_OUTGOING | FLAG_DEFRAG;
/// `PACKET_FANOUT_MAX`.
const MAX_MEMBERS: usize = 1 << 16;
/// Default maximum of members (`fanout_add`).
const USUAL_MEMBERS: usize = 256;

/// Algorithm that selects a member, `PACKET_FANOUT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanoutChoice {
    /// Flow hash, symmetric in both directions.
    Hash,
    /// Round robin.
    LoadBalance,
    /// CPU number; a host shows one CPU.
    Cpu,
    /// First member with room.
    Rollover,
    /// Random.
    Random,
    /// Interface queue; an interface has one.
    Queue,
}

impl FanoutChoice {
    /// Algorithm in a socket option's value; `None` for the BPF algorithms and unknown ones.
    pub fn of_value(value: u32) -> Option<FanoutChoice> {
        use FanoutChoice::{Cpu, Hash, LoadBalance, Queue, Random, Rollover};
        let number = (value >> 16) as u16 & !FLAGS;
        [Hash, LoadBalance, Cpu, Rollover, Random, Queue].into_iter().find(|choice| *choice as u16 == number)
    }
}

/// Fanout group.
#[derive(Debug)]
pub struct Fanout {
    /// Group id and network namespace.
    id: (u16, u32),
    choice: FanoutChoice,
    /// `PACKET_FANOUT_FLAG_*`.
    flags: u16,
    /// Maximum number of members.
    max: usize,
    /// Protocol and interface bound by all members.
    hears: (u16, Option<usize>),
    members: Vec<SocketKey>,
    /// Round-robin counter.
    turn: u32,
}

impl Fanout {
    /// First member, which stands for the group; `None` if the group is in another network namespace, or
    /// ignores sent packets and `outgoing` is set.
    pub fn listener(&self, network: u32, outgoing: bool) -> Option<SocketKey> {
        let concerned = self.id.1 == network && !(outgoing && self.flags & FLAG_IGNORE_OUTGOING != 0);
        self.members.first().copied().filter(|_| concerned)
    }

    /// Selects the member that receives a packet, by flow hash, random draw or free room, as the algorithm
    /// demands.
    pub fn choose(
        &mut self,
        packet: &[u8],
        flow_key: u64,
        random: &mut Stream,
        has_room: impl Fn(SocketKey) -> bool,
    ) -> SocketKey {
        let count = self.members.len();
        let n = match self.choice {
            FanoutChoice::Hash => (flow_hash(flow_key, packet) * count as u64) >> 32,
            FanoutChoice::LoadBalance => {
                self.turn = self.turn.wrapping_add(1);
                u64::from(self.turn) % count as u64
            }
            FanoutChoice::Random => random.below(count as u64),
            FanoutChoice::Cpu | FanoutChoice::Queue | FanoutChoice::Rollover => 0,
        };
        let mut n = n as usize;
        if self.choice == FanoutChoice::Rollover || self.flags & FLAG_ROLLOVER != 0 {
            n = (n..count).chain(0..n).find(|n| has_room(self.members[*n])).unwrap_or(n);
        }
        self.members[n]
    }
}

/// Fanout groups of a host.
#[derive(Debug, Default)]
pub struct Fanouts {
    /// Groups in order of creation.
    pub groups: Vec<Fanout>,
}

impl Fanouts {
    /// Adds a socket to a group. The option's value holds the group id, the algorithm and flags; `max` limits
    /// the members. `fanout_add` in Linux.
    pub fn join(
        &mut self,
        network: u32,
        (key, packet): (SocketKey, &mut PacketSocket),
        value: u32,
        max: u32,
    ) -> Result<(), Errno> {
        let (mut id, flags) = (value as u16, (value >> 16) as u16 & FLAGS);
        let choice = FanoutChoice::of_value(value).ok_or(Errno::EINVAL)?;
        if choice == FanoutChoice::Rollover && flags & FLAG_ROLLOVER != 0 {
            return Err(Errno::EINVAL);
        }
        if packet.fanout.is_some() {
            return Err(Errno::EALREADY);
        }
        let hears = (packet.protocol, packet.interface);
        if flags & FLAG_UNIQUE != 0 {
            if id != 0 {
                return Err(Errno::EINVAL);
            }
            let taken = |id: u16| self.groups.iter().any(|group| group.id == (id, network));
            id = (0..=u16::MAX).find(|id| !taken(*id)).ok_or(Errno::ENOMEM)?;
        }
        // The flag applies only to the creation of a group.
        let flags = flags & !FLAG_UNIQUE;
        if hears.0 == 0 {
            return Err(Errno::EINVAL);
        }
        let at = match self.groups.iter().position(|group| group.id == (id, network)) {
            Some(at) => at,
            None => {
                let max = match max as usize {
                    0 => USUAL_MEMBERS,
                    max if max > MAX_MEMBERS => return Err(Errno::EINVAL),
                    max => max,
                };
                let id = (id, network);
                self.groups.push(Fanout { id, choice, flags, max, hears, members: Vec::new(), turn: 0 });
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[at];
        if (group.choice, group.flags, group.hears) != (choice, flags, hears) {
            return Err(Errno::EINVAL);
        }
        if group.members.len() >= group.max {
            return Err(Errno::ENOSPC);
        }
        group.members.push(key);
        packet.fanout = Some(group.id);
        Ok(())
    }

    /// Removes a closed socket from its group, if it is in one.
    pub fn leave(&mut self, key: SocketKey, packet: &mut PacketSocket) {
        let Some(id) = packet.fanout.take() else { return };
        for group in self.groups.iter_mut().filter(|group| group.id == id) {
            // As in Linux, the last member moves to the free index.
            if let Some(at) = group.members.iter().position(|member| *member == key) {
                group.members.swap_remove(at);
            }
        }
        self.groups.retain(|group| !group.members.is_empty());
    }

    /// Value of the socket option.
    pub fn value(&self, packet: &PacketSocket) -> u32 {
        let group = self.groups.iter().find(|group| Some(group.id) == packet.fanout);
        group.map_or(0, |group| u32::from(group.id.0) | u32::from(group.choice as u16 | group.flags) << 16)
    }
}

/// 32-bit hash of a flow, equal in both directions.
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

    #[test]
    fn a_group_is_one_of_its_network() {
        let sockets = [SocketKey(1), SocketKey(2), SocketKey(3)];
        let mut states = [(); 3].map(|()| PacketSocket { protocol: 3, ..PacketSocket::default() });
        let mut fanouts = Fanouts::default();
        let value = 7 | (FanoutChoice::LoadBalance as u32) << 16;
        for (n, network) in [0, 0, 1].into_iter().enumerate() {
            fanouts.join(network, (sockets[n], &mut states[n]), value, 0).unwrap();
            assert_eq!(fanouts.value(&states[n]), value);
        }
        assert_eq!(fanouts.join(0, (sockets[0], &mut states[0]), value, 0), Err(Errno::EALREADY));
        let listeners = |fanouts: &Fanouts, network| {
            let listeners = fanouts.groups.iter().filter_map(|group| group.listener(network, false));
            listeners.collect::<Vec<_>>()
        };
        assert_eq!((listeners(&fanouts, 0), listeners(&fanouts, 1)), (vec![sockets[0]], vec![sockets[2]]));
        let mut random = belljar_base::Seed(1).stream(&["random"]);
        let mut turn = || fanouts.groups[0].choose(&[], 1, &mut random, |_| true);
        assert_eq!([turn(), turn(), turn()], [sockets[1], sockets[0], sockets[1]]);
        fanouts.leave(sockets[0], &mut states[0]);
        assert_eq!(listeners(&fanouts, 0), [sockets[1]]);
        fanouts.leave(sockets[1], &mut states[1]);
        assert!(listeners(&fanouts, 0).is_empty() && fanouts.groups.len() == 1);
    }
}
