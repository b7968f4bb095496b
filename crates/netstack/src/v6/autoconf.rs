//! Address autoconfiguration: duplicate address detection, and router advertisements (RFC 4862,
//! `net/ipv6/addrconf.c` of Linux).

use super::ADDRCONF_METRIC;
use super::addresses::is_permanent;
use super::advertised::{Advertised, FOREVER, PROBE_TIME, What};
use crate::conf::v6;
use crate::devices::ipvlan;
use crate::interface::Attachment;
use crate::lifetimes::Lifetime;
use crate::routing::wake_hops;
use crate::{LO, Stack};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::c;
use belljar_net::InterfaceAddress;
use belljar_net::routes::Prefix;
use belljar_wire::ethernet::Address;
use belljar_wire::icmpv6::{Discovery, PrefixInformation};
use belljar_wire::ipv6;
use std::net::Ipv6Addr;

impl Stack {
    /// Configures an interface that has come up: assigns its link-local address and schedules router
    /// solicitations.
    pub fn interface_is_up6(&mut self, interface: usize) {
        let there = &self.interfaces[interface];
        // Ports of bonds have no addresses.
        if there.lasting_flags() & c::IFF_SLAVE as u32 != 0 {
            return;
        }
        let needs_carrier = match there.attachment {
            Attachment::Veth { .. } | Attachment::Vlan { .. } => true,
            Attachment::Made(kind) => kind.has_carrier(),
            _ => false,
        };
        let without = needs_carrier && !there.carrier;
        let waits = without || there.settings.held_state != 0;
        // `lo` has IPv6 even where other interfaces have none.
        if !self.v6.on && interface != LO || !super::is_possible(self, interface) {
            return;
        }
        // Addresses may have been added while the interface was down. The networks of permanent ones are routed now
        // (`addrconf_permanent_addr`), peers once their addresses are usable.
        let own = self.interfaces[interface].addresses6.clone();
        let permanent =
            own.iter().filter(|own| is_permanent(self, interface, own.ip)).copied().collect::<Vec<_>>();
        self.v6.add_networks(interface, &permanent);
        if waits {
            return;
        }
        wake_hops::<Ipv6Addr>(self, interface);
        self.v6.add_peers(interface, &own);
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
        let ip = ipvlan::eui64(self, interface, ipv6::LINK_LOCAL);
        let own = InterfaceAddress::new(ip, 64);
        self.v6.set_origin(interface, own.ip, super::ORIGIN_LINK_LOCAL);
        self.new_address6(interface, own, true, true);
        self.v6.replace_computed(&self.interfaces, &self.config.routes6);
        let solicits = self.interface_settings.router_solicits(interface);
        if !self.interface_settings.forwards(&self.sysctls, true, interface) && solicits > 0 {
            // After duplicate address detection.
            let at = self.v6.delay(self.clock.now() + PROBE_TIME + PROBE_TIME);
            self.v6.solicits.insert(interface, (solicits, at));
        }
        self.v6.set_timer(&mut self.timers, self.clock.now());
    }

    /// Sends the due solicitations of tentative addresses, and assigns those whose detection has ended.
    pub fn probe_tentative(&mut self, now: SimTime) {
        for (interface, target) in self.v6.probes_due(now) {
            let question = Discovery::NeighbourSolicit { target, source: None };
            let to = ipv6::solicited_node(target);
            self.send_discovery(interface, Ipv6Addr::UNSPECIFIED, to, None, &question);
        }
    }

    /// Sends the router solicitations that are due, and schedules their repetitions.
    pub fn solicit_routers(&mut self, now: SimTime) {
        for interface in self.v6.solicits_due(now) {
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
        self.v6.set_timer(&mut self.timers, self.clock.now());
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
            let ip = ipvlan::eui64(self, interface, prefix.prefix);
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
        self.v6.announce(interface, what, until);
        if seconds == 0 {
            self.forget_announced(self.clock.now());
        }
    }

    /// Removes advertised entries whose lifetime has expired.
    pub fn forget_announced(&mut self, now: SimTime) {
        for Advertised { interface, what, .. } in self.v6.take_expired(now) {
            match what {
                What::Router(router) => self.v6.router_is_gone(interface, router),
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
