//! Changes of the carriers of interfaces. A change reaches the neighbours and next hops of the interface, the bridge whose
//! port it is, and the VLANs on it.

use crate::devices::state::DeviceNews;
use crate::{Effect, Stack, devices, v6};

impl Stack {
    /// Sets the carrier of a link. The caller then announces the link and invokes
    /// [`flush_network`](Self::flush_network).
    pub fn set_carrier(&mut self, link: usize, carrier: bool) {
        let interface = self.interfaces.at_link(link);
        self.config.links[link].carrier = carrier;
        self.links[link].nic.set_carrier(self.clock.now(), carrier);
        self.interfaces[interface].set_carrier(carrier);
        self.route_log.carrier(self.clock.now(), &self.interfaces[interface]);
        if !self.is_down {
            changed(self, interface);
        }
        self.log_routes();
    }
}

/// Handles a change of the carrier of an interface. One that has lost it loses its neighbours and next-hop
/// objects (`neigh_carrier_down`, `nexthop_flush_dev`).
pub fn changed(stack: &mut Stack, number: usize) {
    let carrier = stack.interfaces[number].carrier;
    if carrier {
        v6::carrier_changed(stack, number);
    } else {
        stack.neighbours.flush(number, false);
        stack.v6.neighbours.flush(number, false);
        stack.flush_nexthops(number);
    }
    devices::state_changed(stack, number);
    for vlan in stack.interfaces.vlans_of(number) {
        pass_carrier(stack, vlan, carrier);
    }
}

/// Sets the carrier of an interface that depends on others, and announces a change.
pub(crate) fn pass_carrier(stack: &mut Stack, number: usize, carrier: bool) {
    if stack.interfaces[number].carrier != carrier {
        stack.interfaces[number].set_carrier(carrier);
        stack.effects.push(Effect::Device(Box::new(DeviceNews::Link(number))));
        changed(stack, number);
    }
}
