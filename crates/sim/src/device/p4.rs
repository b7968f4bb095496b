//! The P4 switch.

use super::Device;
use crate::fabric::Fabric;
use crate::world::nic;
use belljar_base::{HostId, Seed, SimTime};
use belljar_config::{Experiment, topology};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, DropReason, NicChange, Packet};
use belljar_p4::switch::Drop;
use belljar_p4::{Switch, SwitchConfig};
use belljar_plan::LinkChange;
use belljar_results::{P4Statistics, Statistics};

/// A P4 switch whose ports are the ends of links.
struct P4Switch {
    switch: Switch,
    /// P4 port of each interface.
    ports: Vec<u16>,
    /// Interface of each P4 port.
    interfaces: Vec<Option<usize>>,
    /// Messages and digests that nobody took.
    told: u64,
}

/// Builds the switch that these settings describe, with its entries.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    device: &topology::Device,
    settings: &topology::P4Switch,
    _fabric: &Fabric,
) -> Box<dyn Device> {
    let ports: Vec<u16> = device
        .interfaces
        .iter()
        .map(|interface| topology::P4Switch::port(&interface.name).unwrap_or(0))
        .collect();
    let count = ports.iter().max().map_or(0, |port| port + 1);
    let mut interfaces = vec![None; usize::from(count)];
    for (interface, port) in ports.iter().enumerate() {
        interfaces[usize::from(*port)] = Some(interface);
    }
    let config = SwitchConfig {
        name: experiment.node_name(id).to_owned(),
        seed: Seed(experiment.general.seed),
        ports: count,
        ..settings.config.clone()
    };
    let mut switch = settings.switch(config);
    for (port, interface) in ports.iter().zip(&device.interfaces) {
        let nic = nic(experiment, interface);
        switch.set_port(*port, nic.bandwidth_up, nic.overhead);
    }
    for (port, interface) in interfaces.iter().enumerate() {
        // A port between those that links end at leads nowhere.
        if interface.is_none() {
            switch.set_carrier(SimTime::ZERO, port as u16, false);
        }
    }
    Box::new(P4Switch { switch, ports, interfaces, told: 0 })
}

impl Device for P4Switch {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        self.switch.receive(now, self.ports[port], frame.into_bytes());
    }
    fn on_timeout(&mut self, _now: SimTime) {
        while self.switch.notification().is_some() {
            self.told += 1;
        }
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Carrier(port, on) => self.switch.set_carrier(now, self.ports[port], on),
            LinkChange::Nic(port, NicChange::Rate(rate)) => {
                self.switch.set_port_rate(now, self.ports[port], rate)
            }
            // Its queues are its own.
            LinkChange::Nic(..) | LinkChange::Blocked(_) | LinkChange::Routes(_) | LinkChange::Routes6(_) => {
            }
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        let leaving = self.switch.poll(now)?;
        while self.switch.notification().is_some() {
            self.told += 1;
        }
        let port = self.interfaces.get(usize::from(leaving.port)).copied().flatten()?;
        let packet = Packet::new(leaving.packet);
        Some(EgressFrame { port, at: leaving.at, departs: leaving.departs, packet })
    }
    fn next_event(&self) -> Option<SimTime> {
        self.switch.next_event()
    }
    fn counters(&self, port: usize) -> Counters {
        let port = self.switch.port_counters(self.ports[port]).copied().unwrap_or_default();
        let mut counters = Counters::default();
        (counters.packets_in, counters.bytes_in) = (port.packets_in, port.bytes_in);
        (counters.packets_out, counters.bytes_out) = (port.packets_out, port.bytes_out);
        counters.add_drops(DropReason::EgressFull, port.queue_full);
        counters.add_drops(DropReason::LinkDown, port.link_down);
        counters
    }
    fn queue_len(&self, port: usize) -> usize {
        self.switch.queue_len(self.ports[port])
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let drops = Drop::ALL.iter().map(|reason| (reason.name().to_owned(), self.switch.dropped(*reason)));
        let p4 = P4Statistics {
            received: self.switch.received(),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
            notifications: self.told,
        };
        statistics.p4_switches.insert(name.to_owned(), p4);
    }
}
