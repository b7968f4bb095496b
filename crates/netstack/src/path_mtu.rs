//! Path MTU discovery for IPv4 (RFC 1191): the MTUs reported by routers.

use belljar_base::{Map, SimDuration, SimTime};
use belljar_linux_abi::c;
use std::net::Ipv4Addr;

/// Lifetime of a reported MTU (`net.ipv4.route.mtu_expires`).
const EXPIRES: SimDuration = SimDuration::from_secs(600);
/// Minimum path MTU in bytes (`net.ipv4.route.min_pmtu`). A path with a smaller reported MTU uses packets of
/// this size without the DF flag.
const LEAST: usize = 552;
/// Maximum number of paths stored.
const PATHS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug)]
struct Known {
    mtu: usize,
    /// True if packets are sent without the DF flag.
    locked: bool,
    until: SimTime,
}

/// Path MTUs by destination.
#[derive(Debug, Default)]
pub struct PathMtus(Map<Ipv4Addr, Known>);

impl PathMtus {
    #[inline(always)]
    fn get(&self, to: Ipv4Addr, now: SimTime) -> Option<Known> {
        if self.0.is_empty() { None } else { self.find(to, now) }
    }

    fn find(&self, to: Ipv4Addr, now: SimTime) -> Option<Known> {
        self.0.get(&to).copied().filter(|known| now < known.until)
    }

    /// The MTU of the path to a destination, if a router has reported one.
    #[inline]
    pub fn mtu(&self, to: Ipv4Addr, now: SimTime) -> Option<usize> {
        self.get(to, now).map(|known| known.mtu)
    }

    /// True if packets to a destination are sent without the DF flag, since its reported MTU is too small.
    #[inline]
    pub fn is_locked(&self, to: Ipv4Addr, now: SimTime) -> bool {
        self.get(to, now).is_some_and(|known| known.locked)
    }

    /// Records a router's report that the MTU of the path to `to` is `mtu` bytes, where `usual` bytes were
    /// used so far (`__ip_rt_update_pmtu`). Returns the path MTU that applies from now on.
    pub fn learn(&mut self, to: Ipv4Addr, mtu: usize, usual: usize, now: SimTime) -> usize {
        let before = self.get(to, now).map_or(usual, |known| known.mtu.min(usual));
        if before < mtu {
            return before;
        }
        let paths = &mut self.0;
        let locked = mtu < LEAST;
        let mtu = if locked { before.min(LEAST) } else { mtu };
        if paths.len() >= PATHS_MAX && !paths.contains_key(&to) {
            paths.retain(|_, known| now < known.until);
            let soonest = paths.iter().min_by_key(|(_, known)| known.until).map(|(to, _)| *to);
            soonest.filter(|_| paths.len() >= PATHS_MAX).and_then(|soonest| paths.remove(&soonest));
        }
        paths.insert(to, Known { mtu, locked, until: now + EXPIRES });
        mtu
    }
}

/// True if a socket with this `IP_MTU_DISCOVER` uses path MTUs (`ip_sk_use_pmtu`), false if it uses the
/// interface's MTU alone.
pub fn heeds_routers(discover: i32) -> bool {
    discover < c::IP_PMTUDISC_PROBE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_are_believed_for_ten_minutes_and_not_too_much() {
        let mut paths = PathMtus::default();
        let (to, other) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let at = SimTime::from_secs;
        assert_eq!(paths.learn(to, 1400, 1500, at(0)), 1400);
        assert_eq!(paths.learn(to, 1450, 1500, at(1)), 1400, "nobody can make it longer");
        assert_eq!(paths.get(to, at(599)).map(|known| (known.mtu, known.locked)), Some((1400, false)));
        assert!(paths.get(to, at(600)).is_none());
        assert_eq!(paths.learn(other, 68, 1500, at(0)), LEAST);
        assert!(paths.get(other, at(0)).expect("known").locked);
        for n in 0..2 * PATHS_MAX as u32 {
            paths.learn(Ipv4Addr::from(n), 1000, 1500, at(2));
        }
        assert!(paths.0.len() <= PATHS_MAX);
    }
}
