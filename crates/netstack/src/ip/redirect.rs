//! ICMP redirects (RFC 792): sent to hosts whose packets are forwarded on the link of their arrival, and
//! accepted according to the settings (`ip_rt_send_redirect` and `__ip_do_redirect` of Linux).

use super::{Inbound, icmp};
use crate::Stack;
use crate::conf::v4;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_net::forward;
use belljar_net::routes::NextHop;
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
    /// Removes the redirects accepted on an interface that goes down.
    pub fn forget(&mut self, interface: usize) {
        self.learnt.retain(|_, learnt| learnt.interface != interface);
    }
    /// True if another redirect to a host is due.
    fn is_due(&mut self, host: Ipv4Addr, now: SimTime) -> bool {
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

impl Stack {
    /// Sends a redirect to the source of a packet that is forwarded on the link of its arrival.
    pub fn tell_better_router(&mut self, interface: usize, hop: &NextHop, packet: &[u8]) {
        let from = forward::source(packet);
        let on_link = self.interfaces[interface].addresses.iter().any(|own| own.network().contains(from));
        if hop.gateway6.is_some()
            || !on_link
            || !self.interface_settings.either(v4::SEND_REDIRECTS, interface)
            || !self.redirects.is_due(from, self.clock.now())
        {
            return;
        }
        let better = hop.gateway.unwrap_or_else(|| forward::destination(packet));
        let Some(mut message) = forward::redirect_message(packet, better) else { return };
        let Ok(route) = self.route(from.into(), None, None) else { return };
        self.send_icmp_by(route, false, icmp::ERROR_TOS, &mut message);
    }

    /// Processes a received redirect. It is accepted if the route uses its sender, and if the new gateway is
    /// a known neighbour on the link.
    pub fn redirected(&mut self, inbound: &Inbound) {
        let (interface, settings) = (inbound.interface, &self.interface_settings);
        let accepted = match self.interface_settings.forwards(&self.sysctls, false, interface) {
            true => settings.both(v4::ACCEPT_REDIRECTS, interface),
            false => settings.either(v4::ACCEPT_REDIRECTS, interface),
        };
        let [_, _, _, _, a, b, c, d, quoted @ ..] = inbound.payload() else { return };
        let (gateway, IpAddr::V4(instead_of)) = (Ipv4Addr::new(*a, *b, *c, *d), inbound.header.src) else {
            return;
        };
        if !accepted
            || quoted.len() < 20
            || gateway == instead_of
            || self.interfaces.is_multipoint(gateway.into())
        {
            return;
        }
        let (from, to) = (forward::source(quoted), forward::destination(quoted));
        let Ok(route) = self.route(to.into(), Some(from.into()), None) else { return };
        let own = self.is_local(from.into()) && !self.is_local(gateway.into());
        if !own || route.interface != interface || route.gateway != Some(instead_of.into()) {
            return;
        }
        let now = self.clock.now();
        match self.neighbours.get(interface, gateway).is_some_and(|known| known.state.is_valid()) {
            true => drop(self.redirects.learnt.insert(to, Learnt { interface, instead_of, gateway })),
            // Accepted once the gateway is resolved.
            false => self.neighbours.make_use(now, interface, gateway),
        }
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
