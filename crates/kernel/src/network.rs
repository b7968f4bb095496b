//! The simulation's access to a host's network: queries and changes.

use crate::host::Host;
use belljar_net::NicChange;
use belljar_netstack::{InitialRoute, InitialRoute6, Stack};

impl Host {
    /// Its network stack.
    pub fn stack(&self) -> &Stack {
        &self.net
    }
    /// A link loses its carrier, and with it its neighbours, or finds it.
    pub fn set_carrier(&mut self, link: usize, carrier: bool) {
        self.net.set_carrier(link, carrier);
        if !self.net.is_down {
            let interface = self.net.link_interface(link);
            self.administer(|admin| admin.link_changed(interface));
            self.net.flush_network();
            self.carry_out_effects();
        }
    }
    /// Changes how a link sends.
    pub fn change_nic(&mut self, link: usize, change: &NicChange) {
        self.net.change_nic(link, change);
        self.carry_out_effects();
    }
    /// Replaces the routes that the experiment has computed for this host.
    pub fn set_routes(&mut self, routes: Vec<InitialRoute>) {
        self.net.set_routes(routes);
    }
    /// Replaces the IPv6 routes that the experiment has computed for this host.
    pub fn set_routes6(&mut self, routes: Vec<InitialRoute6>) {
        self.net.set_routes6(routes);
    }
    /// The name server answers this host no longer, or again. What is on its way arrives.
    pub fn set_resolver_down(&mut self, down: bool) {
        self.net.set_resolver_down(down);
    }
}
