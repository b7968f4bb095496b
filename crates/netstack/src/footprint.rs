//! The memory that the network stack reads when a packet arrives and the answer departs: see
//! `belljar_base::Footprint`.

use super::socket::{Socket, SocketKind};
use super::{ETH0, Stack};
use belljar_base::Footprint;

impl Socket {
    /// Lists the memory of the socket that the arrival of a packet reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(self);
        if let SocketKind::Udp(udp) = &self.kind {
            footprint.object(&**udp);
            footprint.start(udp.queue.as_slices().0.as_ptr(), 1);
        }
    }
}

impl Stack {
    /// Lists the memory of the stack that the arrival of a packet reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.clock);
        footprint.object(&self.arrivals);
        self.arrivals.footprint(footprint);
        footprint.object(&self.inbox);
        footprint.object(&self.timers);
        self.timers.footprint(footprint);
        self.effects.footprint(footprint);
        footprint.object(&self.departures);
        footprint.start(self.departures.as_ptr(), 1);
        self.captured.footprint(footprint);
        footprint.object(&self.eth0);
        self.eth0.nic.footprint(footprint);
        self.account.footprint(footprint);
        footprint.start(self.interfaces.as_ptr(), self.interfaces.len().min(ETH0 + 1));
        for interface in self.interfaces.iter().take(ETH0 + 1) {
            footprint.start(interface.addresses.as_ptr(), 1);
        }
        self.counters.ip[0].footprint(footprint);
        footprint.object(&self.counters.udp[0][0]);
        for ports in &self.udp_ports {
            if let Some((port, sockets)) = ports.0.first_key_value() {
                footprint.object(port);
                footprint.object(sockets);
            }
        }
        footprint.object(&self.udp_ports);
        footprint.object(&self.lo);
        footprint.object(&self.path_mtus);
        footprint.object(&self.arrived_as_one);
        footprint.object(&self.sockets);
        footprint.object(&self.interfaces);
        footprint.object(&self.routes);
        self.routes.footprint(footprint);
        footprint.object(&self.policy);
        footprint.object(&self.sysctls.default_ttl);
        footprint.object(&self.hooks);
        footprint.object(&self.raw_sockets);
        footprint.object(&self.watchers);
        footprint.object(&self.idents);
        footprint.object(&self.config.resolver);
        footprint.object(&self.config.capture);
    }
}
