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
            let usable = !own.ip.is_multicast() && !own.ip.is_broadcast() && own.ip.octets()[0] != 0;
            let connected = usable
                && network.address().octets()[0] != 0
                && given.is_routed()
                && (own.len < 32 || given.peer.is_some())
                && self.interfaces.primary_of(number, &own) == own;
            if connected {
                vrf::connect(self, number, (network, given.metric, route));
            }
        }
    }
}
