//! Rate limits of ICMP messages: a token bucket for each destination, and a global one.
//!
//! Modelled on `icmp_global_allow` and `inet_peer_xrlim_allow` of Linux: a destination gets a burst of six
//! errors and then one per interval; all destinations together get a limited number per second. Time is
//! counted in jiffies ([`HZ`]).

use belljar_base::{HZ, Map, SimTime, Stream};
use std::net::IpAddr;

/// Burst of messages to one destination, `XRLIM_BURST_FACTOR`.
const BURST: u64 = 6;
/// Number of destinations from which on those with full buckets are removed.
const MANY_PEERS: usize = 16_384;
/// Type and code of "fragmentation needed", which is exempt because path MTU discovery depends on it.
const TOO_LONG: (u8, u8) = (3, 4);
/// Largest ICMP type that is limited.
const LAST_KIND: u8 = 18;

/// Settings of the rate limits: `icmp_*` of icmp(7), and the corresponding ones of ICMPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpRates {
    /// `net.ipv4.icmp_ratelimit`: minimum interval in milliseconds between two messages to one destination.
    pub interval: u32,
    /// `net.ipv4.icmp_ratemask`: bit mask of the types to which this and the global limit apply.
    pub kinds: u32,
    /// `net.ipv6.icmp.ratelimit`: minimum interval in milliseconds between two messages to one destination.
    pub interval6: u32,
    /// `net.ipv6.icmp.ratemask`: bit mask of the ICMPv6 types, 256 bits.
    pub kinds6: [u64; 4],
    /// `net.ipv4.icmp_msgs_per_sec`: global limit, for both versions together.
    pub per_second: u32,
    /// `net.ipv4.icmp_msgs_burst`: burst of the global limit.
    pub burst: u32,
}

impl Default for IcmpRates {
    fn default() -> IcmpRates {
        IcmpRates {
            interval: 1_000,
            // Destination unreachable, source quench, time exceeded, parameter problem.
            kinds: 0x1818,
            interval6: 100,
            // All errors except "packet too big".
            kinds6: [!(1 << 2), u64::MAX, 0, 0],
            per_second: 1_000,
            burst: 50,
        }
    }
}

impl IcmpRates {
    /// True if the limits apply to a message.
    fn hold_for(&self, to: IpAddr, kind: u8, code: u8) -> bool {
        match to {
            IpAddr::V4(_) => kind <= LAST_KIND && (kind, code) != TOO_LONG && self.kinds >> kind & 1 == 1,
            IpAddr::V6(_) => self.kinds6[usize::from(kind / 64)] >> (kind % 64) & 1 == 1,
        }
    }
}

/// Limit that a message would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// Global limit, counted as `OutRateLimitGlobal`.
    Total,
    /// Limit of the destination, counted as `OutRateLimitHost`.
    Peer,
}

/// ICMP message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct IcmpMessage {
    /// Destination.
    pub to: IpAddr,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// True if the packet that caused the message was received from `lo`.
    pub about_loopback: bool,
    /// True if the message is sent over `lo`.
    pub by_loopback: bool,
}

/// Rate limiter of the ICMP messages of one host.
#[derive(Clone, Debug)]
pub struct IcmpLimit {
    stream: Stream,
    /// Credit of the global limit, and the jiffy at which it was last increased.
    credit: i64,
    gained: Option<u64>,
    /// Tokens by destination, and the jiffy for which they are valid.
    peers: Map<IpAddr, (u64, u64)>,
}

impl IcmpLimit {
    /// Creates a limiter that has sent nothing. `stream` is drawn from for the credit that each message
    /// takes, which Linux randomises to prevent side channels about the messages to other hosts.
    pub fn new(stream: Stream) -> IcmpLimit {
        IcmpLimit { stream, credit: 0, gained: None, peers: Map::new() }
    }

    /// Counts a message that may be sent, or returns the limit that it would exceed.
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

    /// Times in milliseconds at which messages are sent that are requested every 20 ms.
    fn times(to: &str, until: u64) -> Vec<u64> {
        let (mut limit, rates, message) = (limit(), IcmpRates::default(), unreachable(to));
        let at = |ms: &u64| SimTime::ZERO + SimDuration::from_millis(*ms);
        (0..until).step_by(20).filter(|ms| limit.take(at(ms), &rates, &message).is_ok()).collect()
    }

    #[test]
    fn six_errors_at_once_and_then_one_in_each_interval() {
        // Results of Linux 6.18 with a probe every 20 ms, observed through a TUN device.
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
        // Each message takes 0, 1 or 2 of 50 credits.
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
