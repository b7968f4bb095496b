//! Identifications of IPv4 packets (RFC 6864), chosen as by `ip_select_ident_segs` of Linux. A connected
//! socket counts its own packets. An unfragmentable packet has identification 0. Other packets share
//! counters, selected by a hash of addresses and protocol, that advance by random increments.

use belljar_base::{SimTime, Stream};
use std::net::{IpAddr, Ipv4Addr};

/// Binary logarithm of the number of shared counters (2,048).
const COUNTER_BITS: u32 = 11;

/// Selection of a packet's identification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ident {
    /// The next value of a shared counter, or 0 for an unfragmentable packet.
    #[default]
    OfAll,
    /// The next value of a shared counter, even for an unfragmentable packet.
    Shared,
    /// A value of the socket's own counter.
    Own(u16),
}

/// The shared counters of a host.
#[derive(Clone, Debug)]
pub struct Idents {
    stream: Stream,
    key: u32,
    /// Blocks of counters, allocated at first use.
    counters: Vec<Block>,
}

/// A block of consecutive counters.
type Block = Option<Box<[Packed; BLOCK]>>;

/// Number of counters in a block.
const BLOCK: usize = 64;

/// A packed counter; zero if unused. Packets to many hosts use many counters, so a small size saves cache
/// misses.
type Packed = [u8; 8];

/// A shared counter. After `n` ticks without use it advances by a random amount below `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    next: u16,
    /// Low bits of the tick of the last use.
    since: u32,
}

impl Counter {
    fn unpack(packed: Packed) -> Option<Counter> {
        let bits = u64::from_le_bytes(packed);
        (bits != 0).then_some(Counter { next: bits as u16, since: (bits >> 16) as u32 })
    }
    fn pack(self) -> Packed {
        (1 << 48 | u64::from(self.since) << 16 | u64::from(self.next)).to_le_bytes()
    }
}

/// Index of the counter shared by packets with these attributes.
fn number(key: u32, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> usize {
    let mixed = src.to_bits().wrapping_mul(0x85eb_ca6b)
        ^ dst.to_bits().wrapping_mul(0x9e37_79b1)
        ^ u32::from(protocol).wrapping_mul(0xc2b2_ae35)
        ^ key;
    (mixed.wrapping_mul(0x9e37_79b1) >> (u32::BITS - COUNTER_BITS)) as usize
}

impl Idents {
    /// Creates counters with random initial values.
    pub fn new(mut stream: Stream) -> Idents {
        Idents { key: stream.next_u32(), stream, counters: Vec::new() }
    }

    /// A random initial value for a socket's counter.
    pub fn random(&mut self) -> u16 {
        self.stream.next_u32() as u16
    }

    /// Takes the next value of a shared counter.
    pub fn next(&mut self, now: SimTime, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> u16 {
        let number = number(self.key, src, dst, protocol);
        let now = now.jiffies() as u32;
        let Idents { stream, counters, .. } = self;
        if counters.is_empty() {
            counters.resize(1 << COUNTER_BITS >> BLOCK.ilog2(), None);
        }
        let block = counters[number / BLOCK].get_or_insert_with(|| Box::new([Packed::default(); BLOCK]));
        let place = &mut block[number % BLOCK];
        let mut counter =
            Counter::unpack(*place).unwrap_or_else(|| Counter { next: stream.next_u32() as u16, since: now });
        if counter.since != now {
            let unused = now.wrapping_sub(counter.since);
            counter.next = counter.next.wrapping_add(stream.below(u64::from(unused)) as u16);
            counter.since = now;
        }
        let ident = counter.next;
        counter.next = ident.wrapping_add(1);
        *place = counter.pack();
        ident
    }

    /// Evaluates the identification of a packet; `uncut` is true for an unfragmentable one.
    pub fn evaluate(
        &mut self,
        which: Ident,
        now: SimTime,
        (src, dst, protocol): (IpAddr, IpAddr, u8),
        uncut: bool,
    ) -> u16 {
        match (which, src, dst) {
            (Ident::Own(ident), ..) => ident,
            (Ident::OfAll, ..) if uncut => 0,
            (_, IpAddr::V4(src), IpAddr::V4(dst)) => self.next(now, src, dst, protocol),
            _ => 0,
        }
    }

    /// Prefetches the shared counter of a packet that will soon be sent.
    pub fn prefetch(&self, prefetch: fn(&[u8]), src: IpAddr, dst: IpAddr, protocol: u8) {
        if let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, dst)
            && let Some(place) = self.place(src, dst, protocol)
        {
            prefetch(place);
        }
    }

    /// The counter that [`next`](Self::next) would use, if allocated.
    fn place(&self, src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Option<&Packed> {
        let number = number(self.key, src, dst, protocol);
        Some(&self.counters.get(number / BLOCK)?.as_ref()?[number % BLOCK])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    #[test]
    fn packed_counters_are_the_same_again() {
        assert_eq!(Counter::unpack(Packed::default()), None);
        for counter in [
            Counter { next: 0, since: 0 },
            Counter { next: u16::MAX, since: u32::MAX },
            Counter { next: 1, since: 2 },
        ] {
            assert_eq!(Counter::unpack(counter.pack()), Some(counter));
        }
    }

    #[test]
    fn shared_counters_go_on_by_one_at_a_time_and_by_chance_over_time() {
        let mut idents = Idents::new(Seed(1).stream(&["host", "a", "ip-id"]));
        let [a, b, c] = [1, 2, 3].map(|last| Ipv4Addr::new(10, 0, 0, last));
        let second = SimTime::from_secs(1);
        let first = idents.next(second, a, b, 17);
        assert_eq!(idents.next(second, a, b, 17), first.wrapping_add(1));
        assert_ne!(idents.next(second, a, c, 17), first.wrapping_add(2), "another receiver");
        assert_ne!(idents.next(second, a, b, 1), first.wrapping_add(2), "another protocol");
        // 250 ticks later, the counter has advanced by less than 250.
        let later = idents.next(SimTime::from_secs(2), a, b, 17).wrapping_sub(first);
        assert!((2..252).contains(&later), "{later}");
    }
}
