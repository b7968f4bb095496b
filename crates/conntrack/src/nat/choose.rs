//! Choice of the translated tuple (`get_unique_tuple`).

use super::{Manip, NatFlags, NatRange};
use crate::conn::{Conn, ConnKey, CtStatus, ProtocolState};
use crate::conntrack::{Conntrack, allows_clash};
use crate::event::Reporter;
use crate::jhash::jhash;
use crate::tcp::TcpState;
use crate::tuple::{InetAddress, L3, Tuple, TupleDirection, protocol};
use belljar_base::SimTime;

/// Number of ports that are tried from one starting point (`NF_NAT_MAX_ATTEMPTS`).
const MAX_ATTEMPTS: u32 = 128;
/// Number of last attempts in which a closed TCP connection gives up its port (`NF_NAT_HARDER_THRESH`).
const HARDER: u32 = MAX_ATTEMPTS / 4;

impl Conntrack {
    /// Tuple of the original packets after a translation of `current` into `range`. It may be one that
    /// another connection has, if no free one is found; then [`confirm`](Conntrack::confirm) drops the
    /// packet.
    pub(super) fn unique_tuple(
        &mut self,
        key: ConnKey,
        current: &Tuple,
        range: &NatRange,
        manip: Manip,
        now: SimTime,
    ) -> Tuple {
        let random = range.flags.intersects(NatFlags::PROTO_RANDOM_ALL);
        if manip == Manip::Source && !random {
            if is_in_range(current, range) {
                if !self.is_taken_unchanged(key, current, now) {
                    return *current;
                }
            } else if let Some(mapped) = self.mapping_of_source(key, current, range)
                && !self.is_used(key, &mapped, now)
            {
                return mapped;
            }
        }
        let zone = self.table.get(key).map_or(0, |conn| conn.zone.id);
        let mut tuple = *current;
        choose_address(&mut tuple, range, manip, zone);
        if !random {
            if range.flags.contains(NatFlags::PROTO_SPECIFIED) {
                let fits = !range.flags.contains(NatFlags::PROTO_OFFSET)
                    && port_is_in_range(&tuple, range, manip)
                    && (range.min_port == range.max_port || !self.is_used(key, &tuple, now));
                if fits {
                    return tuple;
                }
            } else if !self.is_used(key, &tuple, now) {
                return tuple;
            }
        }
        self.choose_port(key, &mut tuple, range, manip, now);
        tuple
    }

    /// True if another connection would get the answers to packets of a tuple (`nf_nat_used_tuple`).
    fn is_used(&mut self, key: ConnKey, tuple: &Tuple, now: SimTime) -> bool {
        let taken = tuple.inverse().is_some_and(|reply| self.table.is_taken(key, &reply, now));
        self.statistics.found += u64::from(taken);
        taken
    }

    /// As [`is_used`](Self::is_used), for a tuple without a translation: packets that crossed each other
    /// before either was confirmed do not make it taken (`nf_nat_used_tuple_new`).
    fn is_taken_unchanged(&mut self, key: ConnKey, tuple: &Tuple, now: SimTime) -> bool {
        const TRANSLATED: CtStatus = CtStatus::NAT_MASK.union(CtStatus::SEQ_ADJUST);
        if !self.is_used(key, tuple, now) {
            return false;
        }
        let Some(own) = self.table.get(key) else { return true };
        if !allows_clash(tuple.protocol) || own.status.intersects(TRANSLATED) {
            return true;
        }
        let found = self.table.find(own.zone, tuple, now).or_else(|| {
            let reply = tuple.inverse()?;
            self.table.find(own.zone, &reply, now)
        });
        let Some(other) = found.and_then(|(other, _)| self.table.get(other)) else { return false };
        other.status.intersects(TRANSLATED) || other.original() != own.reply()
    }

    /// Tuple with the source that an earlier connection from the same source got, if that is in the range
    /// (`find_appropriate_src`).
    fn mapping_of_source(&self, key: ConnKey, current: &Tuple, range: &NatRange) -> Option<Tuple> {
        let zone = self.table.get(key)?.zone;
        self.table.same_source(zone, current).find_map(|conn| {
            let earlier = conn.reply().inverse()?;
            let (source, source_port) = (earlier.source, earlier.source_port);
            let mut mapped = Tuple { source, source_port, ..*current };
            if current.is_icmp() {
                mapped.destination_port = current.destination_port;
            }
            is_in_range(&mapped, range).then_some(mapped)
        })
    }

    /// Chooses the port, identifier or key of a tuple (`nf_nat_l4proto_unique_tuple`).
    fn choose_port(&mut self, key: ConnKey, tuple: &mut Tuple, range: &NatRange, manip: Manip, now: SimTime) {
        let specified = range.flags.contains(NatFlags::PROTO_SPECIFIED);
        let given = || {
            let (min, max) = (u32::from(range.min_port), u32::from(range.max_port));
            (min.min(max), min.abs_diff(max) + 1)
        };
        let is_icmp = tuple.is_icmp();
        let (min, size) = match tuple.protocol {
            protocol::ICMP | protocol::ICMPV6 if specified => given(),
            protocol::ICMP | protocol::ICMPV6 => (0, 65_536),
            // The keys of GRE are those of PPTP, whose control connection is not followed.
            protocol::GRE => return,
            protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
                match manip {
                    _ if specified => given(),
                    Manip::Destination => return,
                    // By convention a port below 512 may stand for the rights of its user.
                    Manip::Source => match tuple.source_port {
                        0..512 => (1, 511),
                        512..1024 => (600, 424),
                        1024.. => (1_024, 64_512),
                    },
                }
            }
            _ => return,
        };
        let port = |tuple: &Tuple| match manip {
            Manip::Destination if !is_icmp => tuple.destination_port,
            _ => tuple.source_port,
        };
        let mut offset: u16 = if range.flags.contains(NatFlags::PROTO_OFFSET) {
            port(tuple).wrapping_sub(range.base_port)
        } else if range.flags.intersects(NatFlags::PROTO_RANDOM_ALL) || manip == Manip::Source {
            self.stream.next_u32() as u16
        } else {
            0
        };
        let mut attempts = size.min(MAX_ATTEMPTS);
        loop {
            for n in 0..attempts {
                let chosen = (min + u32::from(offset) % size) as u16;
                match manip {
                    Manip::Destination if !is_icmp => tuple.destination_port = chosen,
                    _ => tuple.source_port = chosen,
                }
                if !self.is_used_harder(key, tuple, attempts - n, now) {
                    return;
                }
                offset = offset.wrapping_add(1);
            }
            if attempts >= size || attempts < 16 {
                return;
            }
            attempts /= 2;
            offset = self.stream.next_u32() as u16;
        }
    }

    /// As [`is_used`](Self::is_used); in the last attempts a closed TCP connection whose sequence numbers the
    /// new one has passed is removed (`nf_nat_used_tuple_harder`).
    fn is_used_harder(&mut self, key: ConnKey, tuple: &Tuple, left: u32, now: SimTime) -> bool {
        let opening = |conn: &Conn| conn.tcp_state() == Some(TcpState::SynSent);
        let Some(own) = self.table.get(key) else { return false };
        if left > HARDER || tuple.protocol != protocol::TCP || !opening(own) {
            return self.is_used(key, tuple, now);
        }
        let Some(reply) = tuple.inverse() else { return false };
        let Some((other, direction)) = self.table.find(own.zone, &reply, now) else { return false };
        let Some(holder) = self.table.get(other) else { return false };
        let (ProtocolState::Tcp(new), ProtocolState::Tcp(old)) = (&own.protocol, &holder.protocol) else {
            return true;
        };
        let may_end = direction == TupleDirection::Reply
            && old.state >= TcpState::TimeWait
            && holder.is(CtStatus::SRC_NAT)
            && !holder.status.intersects(CtStatus::FIXED_TIMEOUT | CtStatus::DYING)
            && new.sides[0].end.wrapping_sub(old.sides[0].end) as i32 > 0;
        !(may_end && self.kill(other, Reporter::default(), now))
    }
}

/// True if the source of a tuple is within a range (`nf_in_range`).
fn is_in_range(tuple: &Tuple, range: &NatRange) -> bool {
    let bounds = range.min_address..=range.max_address;
    (!range.flags.contains(NatFlags::MAP_IPS) || bounds.contains(&tuple.source))
        && (!range.flags.contains(NatFlags::PROTO_SPECIFIED) || port_is_in_range(tuple, range, Manip::Source))
}

/// True if the port of a tuple that a translation changes is within a range (`l4proto_in_range`).
fn port_is_in_range(tuple: &Tuple, range: &NatRange, manip: Manip) -> bool {
    let ports = range.min_port..=range.max_port;
    match tuple.protocol {
        protocol::ICMP | protocol::ICMPV6 => ports.contains(&tuple.source_port),
        protocol::GRE | protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => match manip {
            Manip::Source => ports.contains(&tuple.source_port),
            Manip::Destination => ports.contains(&tuple.destination_port),
        },
        _ => true,
    }
}

/// Chooses the address of a range by the addresses of the packet, so that the same client gets the same
/// address for the same server (`find_best_ips_proto`).
fn choose_address(tuple: &mut Tuple, range: &NatRange, manip: Manip, zone: u16) {
    if !range.flags.contains(NatFlags::MAP_IPS) {
        return;
    }
    let chosen = match range.min_address == range.max_address {
        true => range.min_address,
        false => spread(tuple, range, manip, zone),
    };
    match manip {
        Manip::Source => tuple.source = chosen,
        Manip::Destination => tuple.destination = chosen,
    }
}

/// Address of a range for the addresses of a tuple.
fn spread(tuple: &Tuple, range: &NatRange, manip: Manip, zone: u16) -> InetAddress {
    // Linux hashes the words as the processor reads them from memory.
    let persistent = range.flags.contains(NatFlags::PERSISTENT);
    let last = if tuple.l3 == L3::V4 { 0 } else { 3 };
    let destination = tuple.destination.words().map(u32::swap_bytes);
    let seed = if persistent { 0 } else { destination[last] ^ u32::from(zone) };
    let mut hash = jhash(&tuple.source.0, seed);
    let (least, greatest) = (range.min_address.words(), range.max_address.words());
    let mut words = [0; 4];
    let mut below = false;
    for n in 0..=last {
        let (min, size) = match below {
            false => (least[n], greatest[n].wrapping_sub(least[n]).wrapping_add(1)),
            true => (0, u32::MAX),
        };
        words[n] = min.wrapping_add(((u64::from(hash) * u64::from(size)) >> 32) as u32);
        below |= words[n] != greatest[n];
        if !persistent {
            // The address that is being replaced, as far as it has been.
            hash ^= if manip == Manip::Destination { words[n].swap_bytes() } else { destination[n] };
        }
    }
    InetAddress::from_words(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lookup3 in the words of its author: `mix` and `final` written out.
    fn reference(words: &[u32; 4], seed: u32) -> u32 {
        let start = 0xdead_beef_u32.wrapping_add(16).wrapping_add(seed);
        let [mut a, mut b, mut c] = [start; 3];
        a = a.wrapping_add(words[0]);
        b = b.wrapping_add(words[1]);
        c = c.wrapping_add(words[2]);
        macro_rules! mix {
            ($x:ident, $y:ident, $z:ident, $n:literal) => {
                $x = $x.wrapping_sub($z);
                $x ^= $z.rotate_left($n);
                $z = $z.wrapping_add($y);
            };
        }
        mix!(a, b, c, 4);
        mix!(b, c, a, 6);
        mix!(c, a, b, 8);
        mix!(a, b, c, 16);
        mix!(b, c, a, 19);
        mix!(c, a, b, 4);
        a = a.wrapping_add(words[3]);
        macro_rules! last {
            ($x:ident, $y:ident, $n:literal) => {
                $x ^= $y;
                $x = $x.wrapping_sub($y.rotate_left($n));
            };
        }
        last!(c, b, 14);
        last!(a, c, 11);
        last!(b, a, 25);
        last!(c, b, 16);
        last!(a, c, 4);
        last!(b, a, 14);
        last!(c, b, 24);
        c
    }

    #[test]
    fn the_hash_is_lookup3() {
        for n in 0..100u32 {
            let words = [n, n.wrapping_mul(0x9e37_79b9), !n, n << 7];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(jhash(&bytes, n), reference(&words, n));
        }
    }

    #[test]
    fn addresses_are_spread_over_the_range_alone() {
        let range = NatRange {
            flags: NatFlags::MAP_IPS,
            min_address: InetAddress([10, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            max_address: InetAddress([10, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ..NatRange::default()
        };
        let mut seen = [0; 4];
        for n in 0..400u32 {
            let client = std::net::Ipv4Addr::from(0x0a01_0000 + n).into();
            let server = std::net::Ipv4Addr::from(0x0a02_0000 + n / 7).into();
            let tuple = Tuple::between(protocol::UDP, (client, 1), (server, 2));
            let chosen = spread(&tuple, &range, Manip::Source, 0);
            seen[usize::from(chosen.0[3] - 5)] += 1;
            let elsewhere = Tuple { destination: InetAddress::UNSPECIFIED, ..tuple };
            let persistent = range.with_flags(NatFlags::PERSISTENT);
            assert_eq!(
                spread(&tuple, &persistent, Manip::Source, 0),
                spread(&elsewhere, &persistent, Manip::Source, 0)
            );
        }
        assert!(seen.iter().all(|n| (60..140).contains(n)), "{seen:?}");
    }
}
