//! Lifetimes of addresses: those set explicitly (`ip addr add ... valid_lft`, as DHCP clients do), those of
//! addresses configured from router advertisements, and those of temporary addresses (RFC 8981). An address
//! is deprecated when its preferred lifetime expires, and removed when its valid lifetime expires.

use crate::{StackTimer, TimerId, TimerQueue};
use belljar_base::{Map, SimDuration, SimTime};
use belljar_net::InterfaceAddress;
use std::net::Ipv6Addr;

/// A temporary address is regenerated this long before its deprecation (`regen_min_advance` and one probe).
pub const REGENERATE_BEFORE: SimDuration = SimDuration::from_secs(5);

/// Lifetime of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// End of the preferred lifetime; `MAX` for an infinite one.
    pub preferred: SimTime,
    /// End of the valid lifetime.
    pub valid: SimTime,
    /// True for a temporary address.
    pub temporary: bool,
}

/// Address of an interface, as far as its lifetime is concerned. An interface has an IPv6 address once, an IPv4
/// address in several networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnAddress {
    /// IPv4 address with its network.
    V4(InterfaceAddress),
    /// IPv6 address.
    V6(Ipv6Addr),
}

impl From<InterfaceAddress> for OwnAddress {
    fn from(own: InterfaceAddress) -> OwnAddress {
        OwnAddress::V4(own)
    }
}

impl From<Ipv6Addr> for OwnAddress {
    fn from(ip: Ipv6Addr) -> OwnAddress {
        OwnAddress::V6(ip)
    }
}

/// The addresses with a finite lifetime.
#[derive(Debug, Default)]
pub struct Lifetimes {
    addresses: Map<(usize, OwnAddress), Entry>,
    timer: Option<TimerId>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    lifetime: Lifetime,
    /// True if the deprecation has been reported.
    told: bool,
    /// True if a successor of the temporary address has been generated.
    replaced: bool,
}

impl Entry {
    fn replaced_at(&self) -> Option<SimTime> {
        let temporary = self.lifetime.temporary && !self.replaced && self.lifetime.preferred < SimTime::MAX;
        temporary.then(|| {
            let left = self.lifetime.preferred.since(SimTime::ZERO).saturating_sub(REGENERATE_BEFORE);
            SimTime::ZERO + left
        })
    }
    fn next(&self) -> SimTime {
        let preferred = if self.told { SimTime::MAX } else { self.lifetime.preferred };
        preferred.min(self.lifetime.valid).min(self.replaced_at().unwrap_or(SimTime::MAX))
    }
}

/// Result of a timeout for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The valid lifetime has expired.
    Expired,
    /// The address is still valid.
    Valid {
        /// True if it is now deprecated.
        deprecated: bool,
        /// True if the successor of a temporary address is due.
        replace: bool,
    },
}

impl Lifetimes {
    /// Sets the lifetime of an address; `None` for an infinite one. The caller then invokes
    /// [`set_timer`](Self::set_timer).
    pub fn set(
        &mut self,
        interface: usize,
        own: impl Into<OwnAddress>,
        lifetime: Option<Lifetime>,
        now: SimTime,
    ) {
        let key = (interface, own.into());
        match lifetime {
            None => drop(self.addresses.remove(&key)),
            Some(lifetime) => {
                let told = lifetime.preferred <= now;
                let replaced = self.addresses.get(&key).is_some_and(|entry| entry.replaced);
                self.addresses.insert(key, Entry { lifetime, told, replaced });
            }
        }
    }

    /// Schedules the next timeout.
    pub fn set_timer(&mut self, timers: &mut TimerQueue<StackTimer>, now: SimTime) {
        let next = self.addresses.values().map(Entry::next).min().filter(|at| *at < SimTime::MAX);
        timers.set(&mut self.timer, next.map(|at| at.max(now)), StackTimer::Addresses);
    }

    /// Handles the timer: the addresses with a timeout at `now`, to be passed to
    /// [`on_timeout`](Self::on_timeout) one by one.
    pub fn due(&mut self, now: SimTime) -> Vec<(usize, OwnAddress)> {
        self.timer = None;
        self.addresses.iter().filter(|(_, entry)| entry.next() <= now).map(|(key, _)| *key).collect()
    }

    /// Handles the timeout of an address; `None` if it has no lifetime.
    pub fn on_timeout(&mut self, interface: usize, own: OwnAddress, now: SimTime) -> Option<Timeout> {
        let key = (interface, own);
        let entry = self.addresses.get_mut(&key)?;
        if entry.lifetime.valid <= now {
            self.addresses.remove(&key);
            return Some(Timeout::Expired);
        }
        let replace = entry.replaced_at().is_some_and(|at| at <= now);
        let deprecated = !entry.told && entry.lifetime.preferred <= now;
        (entry.told, entry.replaced) = (entry.told || deprecated, entry.replaced || replace);
        Some(Timeout::Valid { deprecated, replace })
    }

    /// True if an address is valid but no longer preferred.
    pub fn is_deprecated(&self, interface: usize, own: impl Into<OwnAddress>, now: SimTime) -> bool {
        self.lifetime(interface, own).is_some_and(|lifetime| lifetime.preferred <= now)
    }

    /// The lifetime of an address; `None` if it is infinite.
    pub fn lifetime(&self, interface: usize, own: impl Into<OwnAddress>) -> Option<Lifetime> {
        self.addresses.get(&(interface, own.into())).map(|entry| entry.lifetime)
    }

    /// True for a temporary address.
    pub fn is_temporary(&self, interface: usize, own: impl Into<OwnAddress>) -> bool {
        self.lifetime(interface, own).is_some_and(|lifetime| lifetime.temporary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_deprecated_then_expire() {
        let (mut lifetimes, mut timers) = (Lifetimes::default(), TimerQueue::default());
        let (at, ip) = (SimTime::from_secs, Ipv6Addr::LOCALHOST);
        let lifetime = Lifetime { preferred: at(10), valid: at(20), temporary: false };
        lifetimes.set(1, ip, Some(lifetime), at(0));
        lifetimes.set_timer(&mut timers, at(0));
        assert_eq!(timers.next(), Some(at(10)));
        assert!(!lifetimes.is_deprecated(1, ip, at(9)) && lifetimes.is_deprecated(1, ip, at(10)));
        assert_eq!(lifetimes.due(at(10)), [(1, ip.into())]);
        let deprecated = Timeout::Valid { deprecated: true, replace: false };
        assert_eq!(lifetimes.on_timeout(1, ip.into(), at(10)), Some(deprecated));
        assert_eq!(lifetimes.due(at(19)), []);
        assert_eq!(lifetimes.due(at(20)), [(1, ip.into())]);
        assert_eq!(lifetimes.on_timeout(1, ip.into(), at(20)), Some(Timeout::Expired));
        assert_eq!(lifetimes.on_timeout(1, ip.into(), at(20)), None);
    }

    #[test]
    fn temporary_addresses_are_replaced_once_before_their_deprecation() {
        let mut lifetimes = Lifetimes::default();
        let (at, ip) = (SimTime::from_secs, Ipv6Addr::LOCALHOST);
        let lifetime = Lifetime { preferred: at(100), valid: at(200), temporary: true };
        lifetimes.set(1, ip, Some(lifetime), at(0));
        assert_eq!(lifetimes.due(at(94)), []);
        let replace = Timeout::Valid { deprecated: false, replace: true };
        assert_eq!(lifetimes.on_timeout(1, ip.into(), at(95)), Some(replace));
        assert_eq!(lifetimes.due(at(99)), []);
        let deprecated = Timeout::Valid { deprecated: true, replace: false };
        assert_eq!(lifetimes.on_timeout(1, ip.into(), at(100)), Some(deprecated));
    }
}
