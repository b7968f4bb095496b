//! Address autoconfiguration: duplicate address detection, and router advertisements (RFC 4862,
//! `net/ipv6/addrconf.c` of Linux).

use super::{ADDRCONF_METRIC, Ipv6, USER_METRIC, insert_address};
use crate::conf::InterfaceSettings;
use crate::conf::{Scope, v6};
use crate::interface::Attachment;
use crate::interfaces::Interfaces;
use crate::lifetimes::Lifetime;
use crate::sysctl::Sysctls;
use crate::{LO, Stack};
use belljar_base::{SimDuration, SimTime};
use belljar_net::Prefix;
use belljar_net::routes::{InterfaceAddress, NextHop, Route};
use belljar_wire::ethernet::Address;
use belljar_wire::icmpv6::{Discovery, PrefixInformation};
use belljar_wire::ipv6;
use std::net::Ipv6Addr;

/// `router_solicitations`.
pub const ROUTER_SOLICITS: u8 = 3;
/// `router_solicitation_interval`.
const SOLICIT_INTERVAL: SimDuration = SimDuration::from_secs(4);
/// Time without a response after which an address is unique (`retrans_time`).
const PROBE_TIME: SimDuration = SimDuration::from_secs(1);
/// `RTPROT_RA`: a route from a router advertisement.
const RTPROT_RA: u8 = 9;
/// Value of an infinite lifetime.
const FOREVER: u32 = u32::MAX;

/// An address subject to duplicate address detection.
#[derive(Clone, Copy, Debug)]
pub struct Tentative {
    pub interface: usize,
    pub ip: Ipv6Addr,
    /// Time of the solicitation or, once that is sent, time at which the address is assigned.
    pub at: SimTime,
    asked: bool,
}

/// A default router, on-link prefix or address from a router advertisement, with its lifetime.
#[derive(Clone, Copy, Debug)]
pub struct Advertised {
    pub interface: usize,
    what: What,
    /// End of the lifetime.
    pub until: SimTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A default router.
    Router(Ipv6Addr),
    /// An on-link prefix.
    Network(Prefix<Ipv6Addr>),
    /// An autoconfigured address.
    Address(Ipv6Addr),
}

impl Stack {
    /// Adds an address to an interface. With `ask` it is subject to duplicate address detection.
    pub fn new_address6(
        &mut self,
        interface: usize,
        own: InterfaceAddress<Ipv6Addr>,
        ask: bool,
        route: bool,
    ) {
        insert_address(&mut self.interfaces[interface].addresses6, own);
        if route {
            self.v6.connect_address(interface, own);
        }
        self.report_group(interface, ipv6::solicited_node(own.ip), true);
        let alone = !self.interfaces[interface].is_link() || !self.interfaces[interface].asks_neighbours();
        let there = &self.interfaces[interface];
        let asks = ask && !alone && self.asks_for_duplicates(interface);
        if asks && !(there.up && self.v6.is_configured(interface)) {
            self.v6.tentative.push(Tentative { interface, ip: own.ip, at: SimTime::MAX, asked: false });
        } else if asks {
            let at = self.v6.delay(self.clock.now());
            self.v6.tentative.push(Tentative { interface, ip: own.ip, at, asked: false });
        }
        self.set_timer6();
    }

    /// Configures an interface that has come up: assigns its link-local address and schedules router
    /// solicitations.
    pub fn interface_is_up6(&mut self, interface: usize) {
        let there = &self.interfaces[interface];
        let waits = matches!(there.attachment, Attachment::Veth { .. }) && !there.carrier;
        // `lo` has IPv6 even where other interfaces have none.
        if !self.v6.on && interface != LO || !super::is_possible(self, interface) {
            return;
        }
        // Addresses may have been added while the interface was down. Peers are routed once they are usable.
        self.v6.add_networks(&self.interfaces, interface);
        if waits {
            return;
        }
        self.v6.add_connected(&self.interfaces, interface);
        if !self.interfaces[interface].is_link() {
            if let Some(ip) = self.config.address6.filter(|_| interface == crate::ETH0) {
                self.new_address6(
                    interface,
                    InterfaceAddress::new(ip, super::super::interface::GRAPH_PREFIX6),
                    false,
                    false,
                );
                self.v6.add_everywhere(&self.interfaces, interface);
                self.v6.add_connected(&self.interfaces, interface);
            }
            return;
        }
        self.v6.configured.insert(interface);
        self.v6.route_groups(interface);
        // Addresses that were added before wait no longer.
        self.v6.tentative.retain(|t| (t.interface, t.at) != (interface, SimTime::MAX));
        let own = super::link_local(self.interfaces[interface].mac);
        self.v6.set_origin(interface, own.ip, super::ORIGIN_LINK_LOCAL);
        self.new_address6(interface, own, true, true);
        self.replace_computed6();
        let solicits = self.interface_settings.router_solicits(interface);
        if !self.interface_settings.forwards(&self.sysctls, true, interface) && solicits > 0 {
            // After duplicate address detection.
            let at = self.v6.delay(self.clock.now() + PROBE_TIME + PROBE_TIME);
            self.v6.solicits.insert(interface, (solicits, at));
        }
        self.set_timer6();
    }

    /// Sends the due solicitations of tentative addresses, and assigns those whose detection has ended.
    pub fn probe_tentative(&mut self, now: SimTime) {
        let mut tentative = std::mem::take(&mut self.v6.tentative);
        let mut ask = Vec::new();
        tentative.retain_mut(|t| {
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
        self.v6.tentative = tentative;
        for (interface, target) in ask {
            let question = Discovery::NeighbourSolicit { target, source: None };
            let to = ipv6::solicited_node(target);
            self.send_discovery(interface, Ipv6Addr::UNSPECIFIED, to, None, &question);
        }
    }

    /// Marks an address of this host as a duplicate, because another host uses it. The address is kept but
    /// never used.
    pub fn address_is_taken(&mut self, interface: usize, ip: Ipv6Addr) {
        if self.v6.is_duplicate(interface, ip) {
            return;
        }
        self.v6.tentative.retain(|t| (t.interface, t.ip) != (interface, ip));
        self.v6.failed.push((interface, ip));
        let name = self.interfaces[interface].name.clone();
        self.effects.note(format!("IPv6 address {ip} of {name} is used by another net on the link"));
    }

    /// Sends the router solicitations that are due, and schedules their repetitions.
    pub fn solicit_routers(&mut self, now: SimTime) {
        let due = |(_, (_, at)): &(&usize, &(u8, SimTime))| *at <= now;
        let due: Vec<usize> = self.v6.solicits.iter().filter(due).map(|(number, _)| *number).collect();
        for interface in due {
            let Some((left, at)) = self.v6.solicits.get_mut(&interface) else { continue };
            *left -= 1;
            *at = now + SOLICIT_INTERVAL;
            if *left == 0 {
                self.v6.solicits.remove(&interface);
            }
            let Some(src) = self.source_for(ipv6::ALL_ROUTERS, interface) else { continue };
            let own = Address(self.interfaces[interface].mac);
            let question = Discovery::RouterSolicit { source: Some(own) };
            self.send_discovery(interface, src, ipv6::ALL_ROUTERS, None, &question);
        }
    }

    /// Processes a router advertisement: `ndisc_router_discovery` of Linux.
    pub fn router_advert(&mut self, interface: usize, router: Ipv6Addr, advert: Discovery) {
        let Discovery::RouterAdvert { hop_limit, lifetime, source, mtu, prefixes, .. } = advert else {
            return;
        };
        if !router.is_unicast_link_local()
            || !self.interface_settings.accepts_adverts(&self.sysctls, interface)
        {
            return;
        }
        let set = |setting: usize| self.interface_settings.of6(setting, interface) != 0;
        let (of_routers, of_mtus) = (set(v6::ACCEPT_RA_DEFRTR), set(v6::ACCEPT_RA_MTU));
        let of_prefixes = set(v6::ACCEPT_RA_PINFO);
        let now = self.clock.now();
        self.v6.solicits.remove(&interface);
        if let Some(address) = source {
            self.v6.neighbours.learn(now, interface, router, address, false, true);
        }
        if hop_limit != 0 {
            self.v6.hop_limits.insert(interface, hop_limit);
        }
        if of_routers {
            self.announced(interface, What::Router(router), u32::from(lifetime));
            self.v6.choose_router();
        }
        if let Some(mtu) = mtu.map(|mtu| mtu as usize).filter(|_| of_mtus)
            && (ipv6::MIN_MTU..self.interfaces.mtu(interface)).contains(&mtu)
        {
            self.v6.link_mtus.insert(interface, mtu);
        }
        for prefix in prefixes.into_iter().filter(|_| of_prefixes) {
            self.prefix_announced(interface, prefix);
        }
        self.set_timer6();
    }

    fn prefix_announced(&mut self, interface: usize, prefix: PrefixInformation) {
        let network = Prefix::new(prefix.prefix, prefix.len);
        if prefix.prefix.is_multicast()
            || prefix.prefix.is_unicast_link_local()
            || prefix.preferred > prefix.valid
        {
            return;
        }
        if prefix.on_link {
            let ours = self.v6.is_announced(interface, What::Network(network));
            // A router advertisement cannot remove a route that belongs to an address of the administrator.
            if ours || prefix.valid > 0 && self.v6.connect(interface, network, ADDRCONF_METRIC) {
                self.announced(interface, What::Network(network), prefix.valid);
            }
        }
        let settings = &self.interface_settings;
        let most = usize::try_from(settings.of6(v6::MAX_ADDRESSES, interface)).unwrap_or(0);
        let temporary = settings.of6(v6::USE_TEMPADDR, interface) > 0;
        if prefix.autonomous && prefix.len == 64 && settings.of6(v6::AUTOCONF, interface) != 0 {
            let ip = ipv6::eui64(prefix.prefix, self.interfaces[interface].mac);
            let there = self.interfaces[interface].addresses6.iter().any(|own| own.ip == ip);
            let room = self.interfaces[interface].addresses6.len() < most || most == 0;
            if !there && !room {
                return;
            }
            if !there && prefix.valid > 0 {
                self.new_address6(interface, InterfaceAddress::new(ip, 64), true, false);
            }
            let ours = self.v6.is_announced(interface, What::Address(ip));
            // At least two hours, lest a forged message removes addresses (RFC 4862, section 5.5.3).
            let valid = if prefix.valid > 7_200 || !ours { prefix.valid } else { 7_200 };
            if !there || ours {
                self.announced(interface, What::Address(ip), valid);
                let forever = prefix.preferred == FOREVER;
                let preferred = SimDuration::from_secs(u64::from(prefix.preferred));
                let preferred =
                    if forever { SimTime::MAX } else { self.clock.now().saturating_add(preferred) };
                let lifetime = Lifetime { preferred, valid: SimTime::MAX, temporary: false };
                self.set_lifetime(interface, ip, Some(lifetime).filter(|_| !forever && valid > 0));
                if !there && prefix.valid > 0 && temporary {
                    let valid = self.v6.valid_until(interface, ip).unwrap_or(SimTime::MAX);
                    self.make_temporary(interface, prefix.prefix, Lifetime { valid, ..lifetime });
                }
            }
        }
    }

    /// Records an advertised entry with its lifetime in seconds; 0 expires it now.
    fn announced(&mut self, interface: usize, what: What, seconds: u32) {
        let until = match seconds {
            FOREVER => SimTime::MAX,
            seconds => self.clock.now() + SimDuration::from_secs(u64::from(seconds)),
        };
        self.v6.announced.retain(|a| (a.interface, a.what) != (interface, what));
        self.v6.announced.push(Advertised { interface, what, until });
        if seconds == 0 {
            self.forget_announced(self.clock.now());
        }
    }

    /// Removes advertised entries whose lifetime has expired.
    pub fn forget_announced(&mut self, now: SimTime) {
        let (gone, kept) = std::mem::take(&mut self.v6.announced).into_iter().partition(|a| a.until <= now);
        let _: &Vec<Advertised> = &gone;
        self.v6.announced = kept;
        for Advertised { interface, what, .. } in gone {
            match what {
                What::Router(router) => {
                    self.v6.routes.retain(|prefix, _, route| {
                        let hop = NextHop::new(interface, Some(router));
                        !(prefix.is_all() && route.protocol == RTPROT_RA && route.hops.contains(&hop))
                    });
                    self.v6.choose_router();
                }
                What::Network(network) => self.v6.network_is_gone(&self.interfaces, interface, network),
                What::Address(ip) => {
                    self.interfaces[interface].addresses6.retain(|own| own.ip != ip);
                    self.set_lifetime(interface, ip, None);
                    self.report_group(interface, ipv6::solicited_node(ip), false);
                }
            }
        }
    }
}

/// Forgets the state of an address that is removed.
pub(super) fn forget_address(net: &mut Stack, interface: usize, ip: Ipv6Addr) {
    net.v6.tentative.retain(|t| (t.interface, t.ip) != (interface, ip));
    net.v6.failed.retain(|failed| *failed != (interface, ip));
    net.v6.announced.retain(|a| a.what != What::Address(ip));
    net.report_group(interface, ipv6::solicited_node(ip), false);
}

impl Ipv6 {
    /// True if an entry originates from a router advertisement.
    fn is_announced(&self, interface: usize, what: What) -> bool {
        self.announced.iter().any(|a| (a.interface, a.what) == (interface, what))
    }
}

impl Stack {
    /// True if addresses of an interface are subject to duplicate address detection.
    fn asks_for_duplicates(&self, interface: usize) -> bool {
        let settings = &self.interface_settings;
        let of_all = settings.get(true, v6::ACCEPT_DAD, Scope::All);
        // A dummy has no neighbours.
        if self.interfaces[interface].attachment == Attachment::Dummy {
            return false;
        }
        let asked = of_all.max(settings.of6(v6::ACCEPT_DAD, interface)) >= 1;
        asked && settings.of6(v6::DAD_TRANSMITS, interface) > 0
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
}
