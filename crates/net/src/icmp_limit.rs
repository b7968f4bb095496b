//! Rate limits of ICMP messages: a bucket of tokens for each address that gets them, and one for all together.
//!
//! After `icmp_global_allow` and `inet_peer_xrlim_allow` of Linux: errors go to one address six at once and then one in
//! each interval, and to all together so many a second. Time counts in ticks there ([`HZ`]).

use belljar_base::{HZ, Map, SimTime, Stream};
use std::net::IpAddr;

/// `XRLIM_BURST_FACTOR`: so many messages at once.
const BURST: u64 = 6;
/// So many addresses are remembered before it is looked for those that need not be.
const MANY_PEERS: usize = 16_384;
/// Destination unreachable because the packet must not be cut: without it nobody would find a path's MTU.
const TOO_LONG: (u8, u8) = (3, 4);
/// Types of ICMP above this one are never held back.
const LAST_KIND: u8 = 18;

/// Settings of the limits: `icmp_*` of icmp(7), and their like of ICMPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpRates {
    /// `net.ipv4.icmp_ratelimit`: milliseconds between two messages to one address.
    pub interval: u32,
    /// `net.ipv4.icmp_ratemask`: the types that this and the limit for all hold for, a bit each.
    pub kinds: u32,
    /// `net.ipv6.icmp.ratelimit`.
    pub interval6: u32,
    /// `net.ipv6.icmp.ratemask`, 256 bits.
    pub kinds6: [u64; 4],
    /// `net.ipv4.icmp_msgs_per_sec`: to all together, of both versions.
    pub per_second: u32,
    /// `net.ipv4.icmp_msgs_burst`: so many of them at once.
    pub burst: u32,
}

impl Default for IcmpRates {
    fn default() -> IcmpRates {
        IcmpRates {
            interval: 1_000,
            // Unreachable, source quench, time exceeded, parameter problem.
            kinds: 0x1818,
            interval6: 100,
            // All errors but "packet too big".
            kinds6: [!(1 << 2), u64::MAX, 0, 0],
            per_second: 1_000,
            burst: 50,
        }
    }
}

impl IcmpRates {
    /// True if messages like this are counted at all.
    fn hold_for(&self, to: IpAddr, kind: u8, code: u8) -> bool {
        match to {
            IpAddr::V4(_) => kind <= LAST_KIND && (kind, code) != TOO_LONG && self.kinds >> kind & 1 == 1,
            IpAddr::V6(_) => self.kinds6[usize::from(kind / 64)] >> (kind % 64) & 1 == 1,
        }
    }
}

/// The limit that a message would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The limit for all: `OutRateLimitGlobal`.
    Total,
    /// The limit for its receiver: `OutRateLimitHost`.
    Peer,
}

/// A message that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct IcmpMessage {
    /// Its receiver.
    pub to: IpAddr,
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// True if the packet that it is about came from this host itself, by `lo`.
    pub about_loopback: bool,
    /// It leaves by `lo`.
    pub by_loopback: bool,
}

/// Messages that one host has sent of late.
#[derive(Clone, Debug)]
pub struct IcmpLimit {
    stream: Stream,
    /// Number that may go to all together, and the tick of the last gain.
    credit: i64,
    gained: Option<u64>,
    /// Tokens by receiver, and the tick for which they hold.
    peers: Map<IpAddr, (u64, u64)>,
}

impl IcmpLimit {
    /// One that has sent nothing yet. Linux takes a random part of the credit for each message, so that nobody can find
    /// out by counting what it has sent to others.
    pub fn new(stream: Stream) -> IcmpLimit {
        IcmpLimit { stream, credit: 0, gained: None, peers: Map::new() }
    }

    /// Says whether a message may be sent, and counts it if so.
    pub fn take(&mut self, now: SimTime, rates: &IcmpRates, message: &IcmpMessage) -> Result<(), Exceeded> {
        if !rates.hold_for(message.to, message.kind, message.code) {
            return Ok(());
        }
        let now = now.jiffies();
        let counts_for_all = !message.about_loopback;
        if counts_for_all && !self.has_credit(now, rates) {
            return Err(Exceeded::Total);
        }
        if message.by_loopback {
            return Ok(());
        }
        let interval = if message.to.is_ipv4() { rates.interval } else { rates.interval6 };
        let interval = (u64::from(interval) * HZ).div_ceil(1_000);
        if self.peers.len() >= MANY_PEERS {
            self.peers.retain(|_, (tokens, since)| *tokens + (now - *since) < BURST * interval);
        }
        let (tokens, since) = self.peers.entry(message.to).or_insert((BURST * interval, now));
        *tokens = (*tokens + (now - *since)).min(BURST * interval);
        *since = now;
        *tokens = tokens.checked_sub(interval).ok_or(Exceeded::Peer)?;
        if counts_for_all {
            self.credit -= self.stream.below(3) as i64;
        }
        Ok(())
    }

    fn has_credit(&mut self, now: u64, rates: &IcmpRates) -> bool {
        if self.credit > 0 {
            return true;
        }
        let waited = self.gained.map_or(HZ, |since| (now - since).min(HZ));
        let gain = u64::from(rates.per_second) * waited / HZ;
        if waited < HZ / 50 || gain == 0 {
            return false;
        }
        self.gained = Some(now);
        self.credit = (self.credit + gain as i64).min(rates.burst.into());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::{Seed, SimDuration};

    fn limit() -> IcmpLimit {
        IcmpLimit::new(Seed(1).stream(&["host", "a", "icmp"]))
    }

    fn unreachable(to: &str) -> IcmpMessage {
        let to: IpAddr = to.parse().unwrap();
        let (kind, code) = if to.is_ipv4() { (3, 3) } else { (1, 4) };
        IcmpMessage { to, kind, code, about_loopback: false, by_loopback: false }
    }

    /// The times in milliseconds at which messages leave that are wanted every 20 ms.
    fn times(to: &str, until: u64) -> Vec<u64> {
        let (mut limit, rates, message) = (limit(), IcmpRates::default(), unreachable(to));
        let at = |ms: &u64| SimTime::ZERO + SimDuration::from_millis(*ms);
        (0..until).step_by(20).filter(|ms| limit.take(at(ms), &rates, &message).is_ok()).collect()
    }

    #[test]
    fn six_errors_at_once_and_then_one_in_each_interval() {
        // What Linux 6.18 does with a probe every 20 ms, seen through a TUN device.
        assert_eq!(times("10.0.0.2", 4_000), [0, 20, 40, 60, 80, 100, 1_000, 2_000, 3_000]);
        let first = [0, 20, 40, 60, 80, 100, 120, 200, 300, 400];
        assert_eq!(times("fd00::2", 420), first);
    }

    #[test]
    fn all_together_have_a_limit_too() {
        let (mut limit, rates) = (limit(), IcmpRates::default());
        let mut sent = 0;
        for n in 0..1_000 {
            let message = unreachable(&format!("10.0.{}.{}", n / 250, n % 250));
            match limit.take(SimTime::from_secs(1), &rates, &message) {
                Ok(()) => sent += 1,
                Err(why) => assert_eq!(why, Exceeded::Total),
            }
        }
        // 50 credits, of which each message takes 0, 1 or 2.
        assert!((30..90).contains(&sent), "{sent}");
    }

    #[test]
    fn what_is_no_error_and_what_stays_here_is_free() {
        let (mut limit, rates) = (limit(), IcmpRates::default());
        let now = SimTime::from_secs(1);
        let error = unreachable("10.0.0.2");
        let here = IcmpMessage { about_loopback: true, by_loopback: true, ..error };
        for _ in 0..100 {
            let echo_reply = IcmpMessage { kind: 0, code: 0, ..error };
            let too_long = IcmpMessage { code: 4, ..error };
            let too_big = IcmpMessage { kind: 2, code: 0, ..unreachable("fd00::2") };
            for free in [echo_reply, too_long, too_big, here] {
                assert_eq!(limit.take(now, &rates, &free), Ok(()));
            }
        }
    }

    #[test]
    fn who_has_all_tokens_is_forgotten() {
        let (mut limit, rates) = (limit(), IcmpRates::default());
        for n in 0..2 * MANY_PEERS as u32 {
            let to = std::net::Ipv4Addr::from(0x0a00_0000 + n).into();
            let message = IcmpMessage { about_loopback: true, ..unreachable("10.0.0.2") };
            let now = SimTime::ZERO + SimDuration::from_millis(u64::from(n));
            assert_eq!(limit.take(now, &rates, &IcmpMessage { to, ..message }), Ok(()));
        }
        assert!(limit.peers.len() <= MANY_PEERS + 1);
    }
}
