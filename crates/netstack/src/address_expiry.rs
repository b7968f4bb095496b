//! Expiry of the lifetimes of addresses, and the temporary addresses that succeed each other (RFC 8981).

use crate::conf::v6;
use crate::lifetimes::{Lifetime, OwnAddress, REGENERATE_BEFORE, Timeout};
use crate::{Effect, Stack};
use belljar_base::{SimDuration, SimTime};
use belljar_net::InterfaceAddress;
use belljar_net::routes::Prefix;
use std::net::Ipv6Addr;

/// Upper bound, in seconds, of the random reduction of a temporary address's preferred lifetime
/// (`max_desync_factor`).
const DESYNC: u64 = 600;

impl Stack {
    /// Sets the lifetime of an address; `None` for an infinite one.
    pub fn set_lifetime(&mut self, interface: usize, own: impl Into<OwnAddress>, lifetime: Option<Lifetime>) {
        let now = self.clock.now();
        self.lifetimes.set(interface, own, lifetime, now);
        self.lifetimes.set_timer(&mut self.timers, now);
    }

    /// Handles the expiry of lifetimes: deprecates, regenerates or removes addresses.
    pub fn lifetime_timer(&mut self) {
        let now = self.clock.now();
        for (interface, own) in self.lifetimes.due(now) {
            match self.lifetimes.on_timeout(interface, own, now) {
                Some(Timeout::Expired) => {
                    let there = match own {
                        OwnAddress::V4(own) => self.interfaces[interface].addresses.contains(&own),
                        OwnAddress::V6(ip) => self.interfaces.has_address(interface, ip.into()),
                    };
                    if there {
                        self.effects.push(Effect::AddressExpired(interface, own));
                    }
                }
                Some(Timeout::Valid { deprecated, replace }) => {
                    if replace && let OwnAddress::V6(ip) = own {
                        self.replace_temporary(interface, ip);
                    }
                    if deprecated {
                        self.effects.push(Effect::AddressDeprecated(interface, own));
                    }
                }
                None => {}
            }
        }
        self.lifetimes.set_timer(&mut self.timers, now);
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
