//! Lifetimes of addresses: those set explicitly (`ip addr add ... valid_lft`, as DHCP clients do), those of
//! addresses configured from router advertisements, and those of temporary addresses (RFC 8981). An address
//! is deprecated when its preferred lifetime expires, and removed when its valid lifetime expires.

use crate::conf::v6;
use crate::{Effect, Stack, StackTimer, TimerId};
use belljar_base::{Map, SimDuration, SimTime};
use belljar_net::{InterfaceAddress, Prefix};
use std::net::Ipv6Addr;

/// A temporary address is regenerated this long before its deprecation (`regen_min_advance` and one probe).
const REGENERATE_BEFORE: SimDuration = SimDuration::from_secs(5);
/// Upper bound, in seconds, of the random reduction of a temporary address's preferred lifetime
/// (`max_desync_factor`).
const DESYNC: u64 = 600;

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

impl Stack {
    /// Sets the lifetime of an address; `None` for an infinite one.
    pub fn set_lifetime(&mut self, interface: usize, own: impl Into<OwnAddress>, lifetime: Option<Lifetime>) {
        let key = (interface, own.into());
        match lifetime {
            None => drop(self.lifetimes.addresses.remove(&key)),
            Some(lifetime) => {
                let told = lifetime.preferred <= self.clock.now();
                let replaced = self.lifetimes.addresses.get(&key).is_some_and(|entry| entry.replaced);
                self.lifetimes.addresses.insert(key, Entry { lifetime, told, replaced });
            }
        }
        self.set_lifetime_timer();
    }
    /// True if an address is valid but no longer preferred.
    pub fn is_deprecated(&self, interface: usize, own: impl Into<OwnAddress>) -> bool {
        self.lifetimes.lifetime(interface, own).is_some_and(|lifetime| lifetime.preferred <= self.clock.now())
    }

    fn set_lifetime_timer(&mut self) {
        let next = self.lifetimes.addresses.values().map(Entry::next).min().filter(|at| *at < SimTime::MAX);
        let next = next.map(|at| at.max(self.clock.now()));
        self.timers.set(&mut self.lifetimes.timer, next, StackTimer::Addresses);
    }

    /// Handles the expiry of lifetimes: deprecates, regenerates or removes addresses.
    pub fn lifetime_timer(&mut self) {
        self.lifetimes.timer = None;
        let now = self.clock.now();
        let due: Vec<_> = self.lifetimes.addresses.iter().filter(|(_, entry)| entry.next() <= now).collect();
        let due: Vec<_> = due.into_iter().map(|(key, entry)| (*key, *entry)).collect();
        for ((interface, own), entry) in due {
            if entry.lifetime.valid <= now {
                self.lifetimes.addresses.remove(&(interface, own));
                let there = match own {
                    OwnAddress::V4(own) => self.interfaces[interface].addresses.contains(&own),
                    OwnAddress::V6(ip) => self.interfaces.has_address(interface, ip.into()),
                };
                if there {
                    self.effects.push(Effect::AddressExpired(interface, own));
                }
                continue;
            }
            let replace = entry.replaced_at().is_some_and(|at| at <= now);
            let told = entry.told || entry.lifetime.preferred <= now;
            let entry_now = Entry { told, replaced: entry.replaced || replace, ..entry };
            self.lifetimes.addresses.insert((interface, own), entry_now);
            if replace && let OwnAddress::V6(ip) = own {
                self.replace_temporary(interface, ip);
            }
            if told && !entry.told {
                self.effects.push(Effect::AddressDeprecated(interface, own));
            }
        }
        self.set_lifetime_timer();
    }

    /// Generates a temporary address in a network, within the lifetime of the address configured from the
    /// router's advertisement.
    pub(crate) fn make_temporary(&mut self, interface: usize, network: Ipv6Addr, within: Lifetime) {
        let now = self.clock.now();
        let seconds = |setting: usize| {
            SimDuration::from_secs(self.interface_settings.of6(setting, interface).max(0) as u64)
        };
        let (valid, preferred) = (seconds(v6::TEMP_VALID), seconds(v6::TEMP_PREFERRED));
        let desync = SimDuration::from_secs(self.v6.draw(DESYNC));
        let valid = now.saturating_add(valid).min(within.valid);
        let preferred = now.saturating_add(preferred.saturating_sub(desync)).min(within.preferred).min(valid);
        // An address that would have to be regenerated at once is not created.
        if preferred <= now + REGENERATE_BEFORE {
            return;
        }
        let identifier = u128::from(self.v6.draw(u64::MAX));
        let ip = Ipv6Addr::from_bits(network.to_bits() >> 64 << 64 | identifier);
        self.new_address6(interface, InterfaceAddress::new(ip, 64), true, false);
        self.set_lifetime(interface, ip, Some(Lifetime { preferred, valid, temporary: true }));
    }

    /// Generates the successor of a temporary address before its deprecation, while routers advertise its
    /// prefix.
    fn replace_temporary(&mut self, interface: usize, old: Ipv6Addr) {
        let network = Prefix::new(old, 64);
        let own = &self.interfaces[interface].addresses6;
        let stable = own.iter().map(|own| own.ip).find(|ip| {
            network.contains(*ip)
                && !self.lifetimes.is_temporary(interface, *ip)
                && self.v6.valid_until(interface, *ip).is_some()
        });
        let Some(stable) = stable.filter(|_| self.interface_settings.of6(v6::USE_TEMPADDR, interface) > 0)
        else {
            return;
        };
        let valid = self.v6.valid_until(interface, stable).unwrap_or(SimTime::MAX);
        let preferred =
            self.lifetimes.lifetime(interface, stable).map_or(valid, |lifetime| lifetime.preferred);
        self.make_temporary(interface, network.address(), Lifetime { preferred, valid, temporary: true });
    }
}

impl Lifetimes {
    /// The lifetime of an address; `None` if it is infinite.
    pub fn lifetime(&self, interface: usize, own: impl Into<OwnAddress>) -> Option<Lifetime> {
        self.addresses.get(&(interface, own.into())).map(|entry| entry.lifetime)
    }

    /// True for a temporary address.
    pub fn is_temporary(&self, interface: usize, own: impl Into<OwnAddress>) -> bool {
        self.lifetime(interface, own).is_some_and(|lifetime| lifetime.temporary)
    }
}
