//! An experiment's connectivity over time as `belljar inspect --routing` reads it.

use crate::topology::{addresses, radios};
use belljar_base::{HostId, SimTime};
use belljar_config::topology::{DeviceKind, Link, LinkEnd};
use belljar_config::{Experiment, HostSet};
use belljar_plan::{LinkChange, Schedule, link_loss, mac, partitions};
use belljar_results::{
    Connectivity, ConnectivityLink, ConnectivityNode, ConnectivityPartition, ConnectivityRadio,
};

/// Returns the nodes, links, radio channels and partitions with all their changes.
pub fn connectivity(experiment: &Experiment) -> Connectivity {
    let schedule = Schedule::new(experiment);
    let names = |groups: &HostSet| {
        let hosts = experiment.hosts.iter().zip(0..);
        hosts.filter(|(_, n)| groups.may_hold(HostId(*n))).map(|(host, _)| host.name.clone()).collect()
    };
    let partition = |each: belljar_plan::Partition| ConnectivityPartition {
        from: each.from.as_secs_f64(),
        until: each.until.map(SimTime::as_secs_f64),
        groups: each.groups.iter().map(names).collect(),
    };
    Connectivity {
        nodes: (0..experiment.node_count() as u32).map(|n| node(experiment, HostId(n))).collect(),
        links: (0..experiment.topology.links.len()).map(|n| link(experiment, &schedule, n)).collect(),
        radios: channels(experiment),
        partitions: partitions(&schedule.network).into_iter().map(partition).collect(),
    }
}

fn node(experiment: &Experiment, id: HostId) -> ConnectivityNode {
    let name = experiment.node_name(id).to_owned();
    let host = experiment.hosts.get(id.index());
    let own = host.map(|host| {
        let main = host.address.to_string();
        let others = addresses(host).into_iter().filter(|other| *other != main);
        std::iter::once(main.clone()).chain(others).collect()
    });
    let interfaces = experiment.node_interfaces(id);
    let text = |mac: [u8; 6]| mac.map(|octet| format!("{octet:02x}")).join(":");
    let hardware = interfaces.iter().map(|own| text(mac(experiment, &name, own)));
    ConnectivityNode {
        kind: experiment.device(id).map_or("host", |device| device.kind.noun().0).to_owned(),
        addresses: own.unwrap_or_default(),
        hardware_addresses: hardware.collect(),
        name,
    }
}

fn link(experiment: &Experiment, schedule: &Schedule, number: usize) -> ConnectivityLink {
    let link = &experiment.topology.links[number];
    let end = |end: &LinkEnd| {
        let interface = experiment.node_interfaces(end.node)[end.port].name.clone();
        (experiment.node_name(end.node).to_owned(), interface)
    };
    let loss = |end| {
        let changes = link_loss(experiment, &schedule.network, number, end).into_iter();
        changes.map(|change| (change.at.as_secs_f64(), change.loss)).collect()
    };
    ConnectivityLink {
        ends: [end(&link.ends[0]), end(&link.ends[1])],
        loss: [loss(0), loss(1)],
        unused: unused(schedule, link),
    }
}

/// Intervals in which a link is down or excluded by the spanning tree.
fn unused(schedule: &Schedule, link: &Link) -> Vec<(f64, Option<f64>)> {
    // A link goes down at both ends at once; the spanning tree may block either end.
    let [a, b] = &link.ends;
    let blocked = |end: &LinkEnd| schedule.first.blocked[end.node.index()].contains(&end.port);
    let mut blocked = [blocked(a), blocked(b)];
    let mut down = false;
    let of_end = |n: usize| {
        let end = &link.ends[n];
        schedule.of_links(end.node).filter_map(move |(at, change)| match change {
            LinkChange::Carrier(port, up) if *port == end.port => Some((at, n, Some(!up), None)),
            LinkChange::Blocked(ports) => Some((at, n, None, Some(ports.contains(&end.port)))),
            _ => None,
        })
    };
    let mut changes: Vec<_> = of_end(0).chain(of_end(1)).collect();
    changes.sort_by_key(|(at, ..)| *at);
    let mut intervals: Vec<(SimTime, Option<SimTime>)> = Vec::new();
    let mut enter = |at: SimTime, is_unused: bool| match (is_unused, intervals.last_mut()) {
        (true, Some((_, Some(until)))) if *until == at => intervals.last_mut().expect("as above").1 = None,
        (true, None | Some((_, Some(_)))) => intervals.push((at, None)),
        (false, Some((_, until @ None))) => *until = Some(at),
        _ => {}
    };
    enter(SimTime::ZERO, blocked.contains(&true));
    for (at, end, carrier, port) in changes {
        down = carrier.unwrap_or(down);
        blocked[end] = port.unwrap_or(blocked[end]);
        enter(at, down || blocked.contains(&true));
    }
    let seconds = |(from, until): &(SimTime, Option<SimTime>)| {
        (from.as_secs_f64(), until.as_ref().map(|until| until.as_secs_f64()))
    };
    intervals.iter().filter(|(from, until)| *until != Some(*from)).map(seconds).collect()
}

/// The radio channels, with the share of unicast frames that random loss takes.
fn channels(experiment: &Experiment) -> Vec<ConnectivityRadio> {
    let losses = experiment.topology.devices.iter().filter_map(|device| match &device.kind {
        DeviceKind::Radio(radio) => Some(radio.settings.unicast_loss()),
        _ => None,
    });
    let channels = radios(experiment).into_iter().zip(losses);
    channels.map(|(channel, loss)| ConnectivityRadio { channel, loss }).collect()
}
