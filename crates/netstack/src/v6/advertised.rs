//! Entries from router advertisements, and addresses subject to duplicate address detection (RFC 4862).

use super::state::{Ipv6, USER_METRIC};
use crate::conf::{InterfaceSettings, Scope, v6};
use crate::interface::{Attachment, Interface};
use crate::interfaces::Interfaces;
use crate::sysctl::Sysctls;
use belljar_base::{SimDuration, SimTime};
use belljar_net::Prefix;
use belljar_net::routes::{NextHop, Route};
use std::net::Ipv6Addr;

/// `router_solicitations`.
pub const ROUTER_SOLICITS: u8 = 3;
/// `router_solicitation_interval`.
pub(super) const SOLICIT_INTERVAL: SimDuration = SimDuration::from_secs(4);
/// Time without a response after which an address is unique (`retrans_time`).
pub(super) const PROBE_TIME: SimDuration = SimDuration::from_secs(1);
/// `RTPROT_RA`: a route from a router advertisement.
pub(super) const RTPROT_RA: u8 = 9;
/// Value of an infinite lifetime.
pub(super) const FOREVER: u32 = u32::MAX;

/// An address subject to duplicate address detection.
#[derive(Clone, Copy, Debug)]
pub struct Tentative {
    pub interface: usize,
    pub ip: Ipv6Addr,
    /// Time of the solicitation or, once that is sent, time at which the address is assigned.
    pub at: SimTime,
    pub(super) asked: bool,
}

/// A default router, on-link prefix or address from a router advertisement, with its lifetime.
#[derive(Clone, Copy, Debug)]
pub struct Advertised {
    pub interface: usize,
    pub(super) what: What,
    /// End of the lifetime.
    pub until: SimTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A default router.
    Router(Ipv6Addr),
    /// An on-link prefix.
    Network(Prefix<Ipv6Addr>),
    /// An autoconfigured address.
    Address(Ipv6Addr),
}

impl Ipv6 {
    /// True if an entry originates from a router advertisement.
    pub(super) fn is_announced(&self, interface: usize, what: What) -> bool {
        self.announced.iter().any(|a| (a.interface, a.what) == (interface, what))
    }

    /// Records an advertised entry that is valid until the time given.
    pub(super) fn announce(&mut self, interface: usize, what: What, until: SimTime) {
        self.announced.retain(|a| (a.interface, a.what) != (interface, what));
        self.announced.push(Advertised { interface, what, until });
    }

    /// Removes and returns the advertised entries whose lifetime has expired.
    pub(super) fn take_expired(&mut self, now: SimTime) -> Vec<Advertised> {
        let (gone, kept) = std::mem::take(&mut self.announced).into_iter().partition(|a| a.until <= now);
        self.announced = kept;
        gone
    }

    /// Removes the routes to a router that is no longer advertised, and chooses another.
    pub(super) fn router_is_gone(&mut self, interface: usize, router: Ipv6Addr) {
        self.routes.retain(|prefix, _, route| {
            let hop = NextHop::new(interface, Some(router));
            !(prefix.is_all() && route.protocol == RTPROT_RA && route.hops.contains(&hop))
        });
        self.choose_router();
    }

    /// Removes the state of an address that is deleted.
    pub(super) fn forget_address(&mut self, interface: usize, ip: Ipv6Addr) {
        self.tentative.retain(|t| (t.interface, t.ip) != (interface, ip));
        self.failed.retain(|failed| *failed != (interface, ip));
        self.announced.retain(|a| a.what != What::Address(ip));
    }

    /// Marks an address as a duplicate. False if it is marked already.
    pub(super) fn mark_duplicate(&mut self, interface: usize, ip: Ipv6Addr) -> bool {
        if self.is_duplicate(interface, ip) {
            return false;
        }
        self.tentative.retain(|t| (t.interface, t.ip) != (interface, ip));
        self.failed.push((interface, ip));
        true
    }

    /// Advances the detection of duplicates: returns the addresses to be asked for now. Those whose detection
    /// has ended are assigned.
    pub(super) fn probes_due(&mut self, now: SimTime) -> Vec<(usize, Ipv6Addr)> {
        let mut ask = Vec::new();
        self.tentative.retain_mut(|t| {
            if t.at > now {
                return true;
            }
            let first = !std::mem::replace(&mut t.asked, true);
            if first {
                t.at = now + PROBE_TIME;
                ask.push((t.interface, t.ip));
            }
            first
        });
        ask
    }

    /// Counts the router solicitations that are due now. Returns their interfaces.
    pub(super) fn solicits_due(&mut self, now: SimTime) -> Vec<usize> {
        let mut due = Vec::new();
        self.solicits.retain(|interface, (left, at)| {
            if *at > now {
                return true;
            }
            due.push(*interface);
            *left -= 1;
            *at = now + SOLICIT_INTERVAL;
            *left > 0
        });
        due
    }
}

impl Ipv6 {
    /// Adds a default route to the first advertised router, unless there is one.
    pub(crate) fn choose_router(&mut self) {
        if self.routes.get(Prefix::ALL, USER_METRIC).is_some() {
            return;
        }
        let router = self.announced.iter().find_map(|a| match a.what {
            What::Router(router) => Some((a.interface, router)),
            _ => None,
        });
        if let Some((interface, router)) = router {
            let route = Route::by(interface, Some(router), RTPROT_RA);
            self.routes.insert(Prefix::ALL, USER_METRIC, route);
        }
    }

    /// End of the lifetime of an autoconfigured address.
    pub fn valid_until(&self, interface: usize, ip: Ipv6Addr) -> Option<SimTime> {
        let about = |a: &&Advertised| a.interface == interface && a.what == What::Address(ip);
        self.announced.iter().find(about).map(|a| a.until)
    }

    /// Removes the route to an advertised prefix that has expired, unless an address of the interface needs
    /// it.
    pub(crate) fn network_is_gone(
        &mut self,
        interfaces: &Interfaces,
        interface: usize,
        network: Prefix<Ipv6Addr>,
    ) {
        let stays = interfaces[interface]
            .addresses6
            .iter()
            .any(|own| own.network() == network && !self.is_announced(interface, What::Address(own.ip)));
        if !stays {
            self.disconnect(interface, network);
        }
    }
}

impl InterfaceSettings {
    /// True if router advertisements are accepted; with `accept_ra` 1 only if the interface does not forward.
    pub(crate) fn accepts_adverts(&self, sysctls: &Sysctls, interface: usize) -> bool {
        match self.of6(v6::ACCEPT_RA, interface) {
            1 => !self.forwards(sysctls, true, interface),
            level => level == 2,
        }
    }

    /// Number of router solicitations.
    pub(crate) fn router_solicits(&self, interface: usize) -> u8 {
        match self.of6(v6::SOLICITATIONS, interface) {
            -1 => ROUTER_SOLICITS,
            count => count.clamp(0, 255) as u8,
        }
    }

    /// True if addresses of an interface are subject to duplicate address detection.
    pub(crate) fn asks_for_duplicates(&self, number: usize, interface: &Interface) -> bool {
        let of_all = self.get(true, v6::ACCEPT_DAD, Scope::All);
        // A dummy has no neighbours.
        if interface.attachment == Attachment::Dummy {
            return false;
        }
        let asked = of_all.max(self.of6(v6::ACCEPT_DAD, number)) >= 1;
        asked && self.of6(v6::DAD_TRANSMITS, number) > 0
    }
}
