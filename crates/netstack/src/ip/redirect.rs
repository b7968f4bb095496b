//! ICMP redirects (RFC 792): sent to hosts whose packets are forwarded on the link of their arrival, and
//! accepted according to the settings (`ip_rt_send_redirect` and `__ip_do_redirect` of Linux).

use belljar_base::{Map, SimDuration, SimTime};
use std::net::{IpAddr, Ipv4Addr};

/// `redirect_number`: number of redirects after which an unresponsive host is sent no further ones.
const UNHEEDED: u8 = 9;
/// `redirect_load`: after n redirects, the next one is sent no earlier than 2^n times this interval later.
const LOAD: SimDuration = SimDuration::from_millis(20);
/// `redirect_silence`: interval without redirects after which the count of a host restarts.
const SILENCE: SimDuration = SimDuration::from_millis(20 << 10);

/// Redirects accepted from routers, and those sent to hosts.
#[derive(Debug, Default)]
pub struct Redirects {
    /// Accepted redirects by destination.
    learnt: Map<Ipv4Addr, Learnt>,
    /// Sent redirects by host: the number, and the time of the last one.
    told: Map<Ipv4Addr, (u8, SimTime)>,
}

#[derive(Clone, Copy, Debug)]
struct Learnt {
    interface: usize,
    /// The router that sent the redirect, which applies while routes use that router.
    instead_of: Ipv4Addr,
    gateway: Ipv4Addr,
}

impl Redirects {
    /// The gateway for packets to `to`: that of an accepted redirect, or else the route's.
    #[inline]
    pub fn gateway(&self, to: Ipv4Addr, interface: usize, route: Option<IpAddr>) -> Option<IpAddr> {
        if self.learnt.is_empty() {
            return route;
        }
        match self.learnt.get(&to) {
            Some(learnt) if learnt.interface == interface && route == Some(learnt.instead_of.into()) => {
                Some(learnt.gateway.into())
            }
            _ => route,
        }
    }
    /// Accepts a redirect for packets to `to`, which use `gateway` instead of `instead_of` from now on.
    pub fn accept(&mut self, to: Ipv4Addr, interface: usize, instead_of: Ipv4Addr, gateway: Ipv4Addr) {
        self.learnt.insert(to, Learnt { interface, instead_of, gateway });
    }
    /// Removes the redirects accepted on an interface that goes down.
    pub fn forget(&mut self, interface: usize) {
        self.learnt.retain(|_, learnt| learnt.interface != interface);
    }
    /// True if another redirect to a host is due.
    pub fn is_due(&mut self, host: Ipv4Addr, now: SimTime) -> bool {
        self.told.retain(|_, (_, last)| now < *last + SILENCE);
        let Some((count, last)) = self.told.get_mut(&host) else {
            self.told.insert(host, (1, now));
            return true;
        };
        if *count >= UNHEEDED {
            *last = now;
            return false;
        }
        if now <= *last + LOAD.saturating_mul(1 << *count) {
            return false;
        }
        (*count, *last) = (*count + 1, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_does_not_heed_is_told_ever_more_rarely() {
        let mut redirects = Redirects::default();
        let host = Ipv4Addr::new(10, 0, 0, 1);
        let mut told = Vec::new();
        for ms in 0..15_000 {
            if redirects.is_due(host, SimTime::ZERO + SimDuration::from_millis(ms)) {
                told.push(ms);
            }
        }
        assert_eq!(told, [0, 41, 122, 283, 604, 1_245, 2_526, 5_087, 10_208]);
        let later = SimTime::ZERO + SimDuration::from_millis(15_000) + SILENCE;
        assert!(redirects.is_due(host, later), "and from the beginning after a silence");
    }
}
