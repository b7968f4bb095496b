//! Routes to the networks of interfaces' addresses.

use crate::Stack;
use crate::devices::vrf;
use belljar_net::routes::{Route, protocol};

impl Stack {
    /// Adds routes to the networks of an interface's addresses.
    pub fn add_connected(&mut self, number: usize) {
        for own in self.interfaces[number].addresses.clone() {
            let route = Route { source: Some(own.ip), ..Route::by(number, None, protocol::KERNEL) };
            let (network, given) = (
                self.interfaces.address_network(number, &own),
                self.interfaces.address_attributes(number, &own),
            );
            let usable = !own.ip.is_multicast() && !own.ip.is_broadcast() && !own.ip.is_unspecified();
            let connected = usable
                && !network.address().is_unspecified()
                && given.is_routed()
                && (own.len < 32 || given.peer.is_some())
                && self.interfaces.primary_of(number, &own) == own;
            if connected {
                vrf::connect(self, number, (network, given.metric, route));
            }
        }
    }
}
