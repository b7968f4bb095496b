//! The parts of the stack specific to IPv6: addresses of interfaces (RFC 4291), source address selection (RFC
//! 6724), neighbour discovery (RFC 4861), autoconfiguration (RFC 4862), multicast groups (RFC 3810), and path
//! MTUs (RFC 8201).
//!
//! The initial addresses of a host skip duplicate address detection, since the host is assumed to have used
//! them for a while. Those added later are tentative until the detection ends, as on Linux.

mod addresses;
mod advertised;
mod autoconf;
mod discovery;
mod given;
mod groups;
mod mld;
pub mod source;
mod state;

pub use addresses::modify_address;
pub use given::{AddressAttributes6, ORIGIN_LOOPBACK};
pub use groups::ALL_NODES_HERE;
pub use state::{ADDRCONF_METRIC, InitialRoute6, Ipv6, USER_METRIC, device_for, insert_address, link_local};

use crate::interface::Attachment;
use crate::{LO, Stack};
use belljar_base::SimTime;
use belljar_wire::ipv6;
use given::ORIGIN_LINK_LOCAL;
use std::net::Ipv6Addr;

impl Stack {
    /// Starts IPv6: adds the routes to the networks of the addresses, and those of the experiment.
    pub fn start_v6(&mut self) {
        if !self.v6.on {
            return;
        }
        for number in 1..self.interfaces.len() {
            match self.interfaces[number].attachment {
                Attachment::Link(_) if !self.interface_settings.disables6(number) => {
                    let own = link_local(self.interfaces[number].mac);
                    insert_address(&mut self.interfaces[number].addresses6, own);
                    self.v6.set_origin(number, own.ip, ORIGIN_LINK_LOCAL);
                    self.v6.configured.insert(number);
                    self.v6.route_groups(number);
                    self.v6.add_connected(&self.interfaces, number);
                    let solicits = self.interface_settings.router_solicits(number);
                    if !self.interface_settings.forwards(&self.sysctls, true, number) && solicits > 0 {
                        let at = self.v6.delay(SimTime::ZERO);
                        self.v6.solicits.insert(number, (solicits, at));
                    }
                }
                Attachment::Graph => self.v6.add_everywhere(&self.interfaces, number),
                // Interfaces of programs are created later.
                _ => {}
            }
        }
        self.v6.replace_computed(&self.interfaces, &self.config.routes6);
    }

    /// Handles an interface that goes down: Linux removes its addresses (`keep_addr_on_down` is 0).
    pub fn interface_is_down6(&mut self, number: usize) {
        for own in std::mem::take(&mut self.interfaces[number].addresses6) {
            self.set_lifetime(number, own.ip, None);
        }
        self.v6.forget_interface(number);
        self.drop_hops::<Ipv6Addr>(|hop| hop.interface == number && !hop.dead);
        self.v6.neighbours.flush(number, true);
    }
}

/// Handles a change of an interface's MTU in bytes: below the least one of IPv6 the interface has none.
pub fn mtu_changed(net: &mut Stack, number: usize, before: usize) {
    let mtu = net.interfaces[number].mtu;
    if mtu < ipv6::MIN_MTU && before >= ipv6::MIN_MTU {
        net.interface_is_down6(number);
        net.v6.loopback_stopped |= number == LO;
    } else if mtu >= ipv6::MIN_MTU && before < ipv6::MIN_MTU && number != LO && net.interfaces[number].up {
        net.interface_is_up6(number);
    } else if mtu >= ipv6::MIN_MTU {
        adapt_route_mtus(net, number, before);
    }
}

/// Sets the MTU of the routes by an interface to the interface's new one, where it is larger or was the interface's
/// (`rt6_mtu_change`).
fn adapt_route_mtus(net: &mut Stack, number: usize, before: usize) {
    let mtu = net.interfaces[number].mtu as u32;
    net.retain_routes::<Ipv6Addr>(|route| {
        let over = route.hops.iter().any(|hop| hop.interface == number);
        let metrics = &mut route.metrics;
        let adapts = metrics.mtu.is_some_and(|own| own >= mtu || own as usize == before);
        if over && adapts && !metrics.mtu_locked {
            metrics.mtu = Some(mtu);
        }
        true
    });
}

/// Handles a new carrier of an interface: one that has waited for it gets its link-local address.
pub fn carrier_changed(net: &mut Stack, number: usize) {
    if net.interfaces[number].is_running() && !net.v6.is_configured(number) {
        net.interface_is_up6(number);
    }
}

/// True if an interface may have IPv6 addresses.
pub fn is_possible(net: &Stack, number: usize) -> bool {
    let off = !net.v6.on || net.interface_settings.disables6(number);
    number == LO || !off && net.interfaces[number].mtu >= ipv6::MIN_MTU
}

impl Stack {
    /// Handles the timer of IPv6: performs all work that is due.
    pub fn timer6(&mut self) {
        let now = self.clock.now();
        self.v6.timer = None;
        self.v6.neighbours.on_timeout(now);
        self.send_reports(now);
        self.probe_tentative(now);
        self.solicit_routers(now);
        self.forget_announced(now);
        self.flush_network();
    }
}
