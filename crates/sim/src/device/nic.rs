//! Simulated network controller, with its PCI connection at one port and its link at the other.

use super::{Device, DeviceAccount, between_interfaces};
use crate::pci;
use belljar_base::{SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, PCI_PORT};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, DropReason, Nic, NicEvent, Packet};
use belljar_pci::e1000::{Device as Controller, Timing};
use belljar_pci::{Codec, ToDevice};
use belljar_plan::{LinkChange, link_nic};
use belljar_results::Statistics;
use std::collections::VecDeque;

struct NetworkController {
    controller: Controller,
    /// Egress queue to the link.
    nic: Nic,
    /// Indices of the link's port and of the PCI port.
    ports: (usize, usize),
    /// Transactions to be sent to the host.
    leaving: VecDeque<EgressFrame>,
    present: bool,
    /// Number of messages from the host that are no PCIe transactions.
    invalid: u64,
}

/// Builds the controller that these settings describe.
pub fn new(experiment: &Experiment, device: &topology::Device, settings: &topology::Nic) -> Box<dyn Device> {
    let is_pci = |interface: &&topology::Interface| interface.name == PCI_PORT;
    let pci = device.interfaces.iter().position(|interface| is_pci(&interface)).unwrap_or_default();
    let link = device.interfaces.iter().position(|interface| !is_pci(&interface)).unwrap_or_default();
    let timing = Timing {
        fetch: settings.fetch,
        write_back: settings.write_back,
        register: settings.register,
        step: SimDuration::from_nanos(1),
    };
    let own = &device.interfaces[link];
    let mac = settings.mac.unwrap_or_else(|| belljar_plan::mac(experiment, &device.name, own));
    Box::new(NetworkController {
        controller: Controller::new(mac, timing),
        nic: Nic::new(&link_nic(experiment, own)),
        ports: (link, pci),
        leaving: VecDeque::new(),
        present: false,
        invalid: 0,
    })
}

impl NetworkController {
    /// Moves transactions and frames from the controller to the ports.
    fn pump(&mut self, now: SimTime) {
        let (_, pci) = self.ports;
        while let Some(transaction) = self.controller.poll_host() {
            let packet = Packet::new(transaction.to_bytes());
            self.leaving.push_back(EgressFrame { port: pci, at: now, departs: now, packet });
        }
        while let Some(frame) = self.controller.poll_wire() {
            // The queue counts dropped frames.
            let _ = self.nic.send(now, Packet::new(frame));
        }
    }
}

impl Device for NetworkController {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        let (_, pci) = self.ports;
        if port == pci {
            match ToDevice::from_bytes(frame.bytes()) {
                Ok(transaction) => self.controller.handle(now, transaction),
                Err(_) => self.invalid += 1,
            }
        } else if !self.nic.has_carrier() {
            self.nic.count_drop(DropReason::LinkDown);
        } else {
            self.nic.count_received(frame.len());
            self.controller.receive(now, frame.into_bytes());
        }
        self.pump(now);
    }
    fn on_timeout(&mut self, now: SimTime) {
        if !std::mem::replace(&mut self.present, true) {
            let packet = Packet::new(pci::present(&belljar_pci::e1000::info()));
            self.leaving.push_back(EgressFrame { port: self.ports.1, at: now, departs: now, packet });
        }
        self.controller.on_timeout(now);
        self.pump(now);
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        let link = self.ports.0;
        match change {
            LinkChange::Carrier(port, on) if port == link => {
                self.nic.set_carrier(now, on);
                self.controller.set_carrier(now, on);
                self.pump(now);
            }
            LinkChange::Nic(port, change) if port == link => self.nic.change(now, &change),
            _ => {}
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        if let Some(leaving) = self.leaving.pop_front() {
            return Some(leaving);
        }
        while let Some((at, event)) = self.nic.poll(now) {
            if let NicEvent::Transmit { packet, departs } = event {
                return Some(EgressFrame { port: self.ports.0, at, departs, packet });
            }
        }
        None
    }
    fn next_event(&self) -> Option<SimTime> {
        let first = (!self.present).then_some(SimTime::ZERO);
        [first, self.controller.next_event(), self.nic.next_event()].into_iter().flatten().min()
    }
    fn counters(&self, port: usize) -> Counters {
        if port == self.ports.0 { *self.nic.counters() } else { Counters::default() }
    }
    fn queue_len(&self, port: usize) -> usize {
        if port == self.ports.0 { self.nic.egress_queue_len() } else { 0 }
    }
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let controller = between_interfaces(self.controller.packet_account(), [&self.nic].into_iter());
        vec![DeviceAccount::interface(self.ports.0, &self.nic), controller]
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let warnings = [
            (self.controller.missed(), "frames missed: too long, or no room for them"),
            (self.invalid, "messages that are no transactions: ignored"),
        ];
        for (count, what) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            *statistics.warnings.entry(format!("nic '{name}': {what}")).or_default() += count;
        }
    }
}
