//! Radio channel.

use super::{Device, DeviceAccount};
use belljar_base::{HostId, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, Interface};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, DropReason, NicConfig, Packet, Ports};
use belljar_plan::{LinkChange, link_nic};
use belljar_radio::{Medium, Output};
use belljar_results::{RadioStatistics, StationStatistics, Statistics};
use belljar_wire::ethernet::Address;

/// Radio channel, with one station at each port.
struct Radio {
    medium: Medium,
    names: Vec<String>,
    /// Egress queues into the links to the stations.
    ports: Ports,
    /// Frames from the stations, and frames that the channel has lost.
    counters: Vec<Counters>,
}

/// Builds the channel that these settings describe, with the tracks of its stations.
pub fn new(
    experiment: &Experiment,
    id: HostId,
    device: &topology::Device,
    settings: &topology::Radio,
) -> Box<dyn Device> {
    let station = |port: &Interface| {
        let end = &experiment.topology.links[port.link].ends[1 - port.end];
        let (node, interface) =
            (experiment.node_name(end.node), &experiment.node_interfaces(end.node)[end.port]);
        (format!("{node}:{}", interface.name), Address(belljar_plan::mac(experiment, node, interface)))
    };
    let stations: Vec<(String, Address)> = device.interfaces.iter().map(station).collect();
    let tracks = belljar_plan::tracks(experiment, id);
    let seed = experiment.seed();
    let medium = Medium::new(settings.settings.clone(), tracks, &stations, seed, &device.name);
    let counters = vec![Counters::default(); stations.len()];
    let queues: Vec<NicConfig> = device.interfaces.iter().map(|port| link_nic(experiment, port)).collect();
    let ports = Ports::new(queues.iter());
    Box::new(Radio { medium, ports, counters, names: stations.into_iter().map(|(name, _)| name).collect() })
}

impl Device for Radio {
    fn receive(&mut self, now: SimTime, port: usize, frame: Packet) {
        let counters = &mut self.counters[port];
        counters.packets_in += 1;
        counters.bytes_in += frame.len() as u64;
        if !self.medium.send(now, port, frame) {
            self.counters[port].add_drops(DropReason::LinkDown, 1);
        }
    }
    fn on_timeout(&mut self, now: SimTime) {
        self.medium.on_timeout(now);
    }
    fn change(&mut self, now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Carrier(port, on) => {
                self.ports.set_carrier(now, port, on);
                let lost = self.medium.set_carrier(port, on);
                self.counters[port].add_drops(DropReason::LinkDown, lost);
            }
            LinkChange::Nic(port, change) => self.ports.change(now, port, &change),
            // A channel has neither routes nor a spanning tree.
            LinkChange::Routes(_) | LinkChange::Routes6(_) | LinkChange::Blocked(_) => {}
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        loop {
            if let Some(leaving) = self.ports.poll(now) {
                return Some(leaving);
            }
            match self.medium.poll()? {
                Output::Received { station, packet } => self.ports.send(now, station, packet),
                // A report to the station, which takes no time.
                Output::Failed { station: port, packet } => {
                    return Some(EgressFrame { port, at: now, departs: now, packet: packet.undelivered() });
                }
            }
        }
    }
    fn next_event(&self) -> Option<SimTime> {
        self.medium.next_timeout().into_iter().chain(self.ports.next_event()).min()
    }
    fn counters(&self, port: usize) -> Counters {
        let mut counters = *self.ports.counters(port);
        counters.add(&self.counters[port]);
        counters.add_drops(DropReason::EgressFull, self.medium.counters(port).queue_full);
        counters
    }
    fn queue_len(&self, port: usize) -> usize {
        self.medium.queue_len(port) + self.ports.queue_len(port)
    }
    fn packet_accounts(&self) -> Vec<DeviceAccount> {
        let mut account = self.medium.packet_account();
        (0..self.ports.len()).for_each(|port| account.include(&self.ports.nic(port).packet_account()));
        vec![DeviceAccount::whole(account)]
    }
    fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        let stations = self.names.iter().enumerate().map(|(n, name)| {
            let counters = self.medium.counters(n);
            let station = StationStatistics {
                broadcasts: counters.broadcasts,
                unicasts: counters.unicasts,
                bytes: counters.bytes,
                retries: counters.retries,
                acknowledged: counters.acknowledged,
                received: counters.received,
                duplicates: counters.duplicates,
                drops: [
                    ("given_up", counters.given_up),
                    ("queue_full", counters.queue_full),
                    ("collided", counters.collided),
                    ("deaf", counters.deaf),
                    ("lost", counters.lost),
                ]
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| (reason.to_owned(), count))
                .collect(),
                airtime_seconds: counters.airtime.as_secs_f64(),
                busy_seconds: counters.busy.as_secs_f64(),
            };
            (name.clone(), station)
        });
        statistics.radios.insert(name.to_owned(), RadioStatistics { stations: stations.collect() });
    }
}
