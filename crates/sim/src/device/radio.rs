//! Radio channel.

use super::Device;
use belljar_base::{HostId, Seed, SimTime};
use belljar_config::Experiment;
use belljar_config::topology::{self, Interface};
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, DropReason, Packet};
use belljar_plan::LinkChange;
use belljar_radio::{Medium, Output};
use belljar_results::{RadioStatistics, StationStatistics, Statistics};
use belljar_wire::ethernet::Address;

/// Radio channel, with one station at each port.
struct Radio {
    medium: Medium,
    names: Vec<String>,
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
    let seed = Seed(experiment.general.seed);
    let medium = Medium::new(settings.settings.clone(), tracks, &stations, seed, &device.name);
    let counters = vec![Counters::default(); stations.len()];
    Box::new(Radio { medium, counters, names: stations.into_iter().map(|(name, _)| name).collect() })
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
    fn change(&mut self, _now: SimTime, change: LinkChange) {
        match change {
            LinkChange::Carrier(port, on) => {
                let lost = self.medium.set_carrier(port, on);
                self.counters[port].add_drops(DropReason::LinkDown, lost);
            }
            // The channel has its own rate, and neither routes nor a spanning tree.
            LinkChange::Nic(..) | LinkChange::Routes(_) | LinkChange::Routes6(_) | LinkChange::Blocked(_) => {
            }
        }
    }
    fn poll(&mut self, now: SimTime) -> Option<EgressFrame> {
        let (port, packet) = match self.medium.poll()? {
            Output::Received { station, packet } => {
                let counters = &mut self.counters[station];
                counters.packets_out += 1;
                counters.bytes_out += packet.len() as u64;
                (station, packet)
            }
            Output::Failed { station, packet } => (station, packet.undelivered()),
        };
        Some(EgressFrame { port, at: now, departs: now, packet })
    }
    fn next_event(&self) -> Option<SimTime> {
        self.medium.next_timeout()
    }
    fn counters(&self, port: usize) -> Counters {
        let mut counters = self.counters[port];
        counters.add_drops(DropReason::EgressFull, self.medium.counters(port).queue_full);
        counters
    }
    fn queue_len(&self, port: usize) -> usize {
        self.medium.queue_len(port)
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
