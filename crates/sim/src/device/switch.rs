//! Learning switch.

use super::{Device, DeviceAccount, between_interfaces};
use crate::fabric::Fabric;
use crate::live::{Rows, Table};
use belljar_base::{HostId, SimTime};
use belljar_config::{Experiment, topology};
use belljar_net::switch::{EgressFrame, Switch};
use belljar_net::{Counters, NicConfig, Packet};
use belljar_plan::{LinkChange, link_nic};

/// Builds the switch that these settings describe.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    device: &topology::Device,
    settings: &topology::Switch,
    fabric: &Fabric,
) -> Box<dyn Device> {
    let ports: Vec<NicConfig> = device.interfaces.iter().map(|port| link_nic(experiment, port)).collect();
    let mut switch = Switch::new(&ports, settings.ageing);
    switch.set_blocked(&fabric.first().blocked[id.index()]);
    Box::new(switch)
}

impl Device for Switch {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        self.receive(now, port, frame);
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Carrier(port, on) => self.set_carrier(now, port, on),
            LinkChange::Nic(port, change) => self.change_port(now, port, &change),
            LinkChange::Blocked(ports) => self.set_blocked(&ports),
            LinkChange::Routes(_) | LinkChange::Routes6(_) => {}
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        self.poll(now)
    }
    fn next_event(&self) -> Option<SimTime> {
        self.next_event()
    }
    fn counters(&self, port: usize) -> Counters {
        *self.counters(port)
    }
    fn queue_len(&self, port: usize) -> usize {
        self.queue_len(port)
    }
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let ports = (0..self.port_count()).map(|port| DeviceAccount::interface(port, self.port(port)));
        let mut accounts: Vec<DeviceAccount> = ports.collect();
        accounts
            .push(between_interfaces(self.packet_account(), (0..self.port_count()).map(|n| self.port(n))));
        accounts
    }
    fn tables(&self, now: SimTime) -> Vec<Table> {
        let mut rows = Rows::new("stations", "hardware address,port,heard");
        for (address, port, heard) in self.stations(now) {
            rows.add(&[&address, &port, &heard]);
        }
        rows.finish().into_iter().collect()
    }
}
