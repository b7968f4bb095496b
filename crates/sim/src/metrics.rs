//! Time series: samples of each host, each of its TCP connections and each direction of a link, at
//! intervals of simulated time. A row covers all events before its time; rows equal to the previous one are
//! omitted. Columns of drops are read from the accounts of packets: the last row of a host or direction has
//! the drops of its statistics.

use crate::accounts::NodeDrops;
use crate::device::DeviceNode;
use crate::node::HostNode;
use crate::simulated_host::SimulatedHost;
use belljar_base::{Footprint, HostId, Map, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_net::{Counters, DropReason};
use belljar_netstack::TcpSample;
use belljar_netstack::account::DropCause;
use belljar_results::names;
use belljar_results::{ResultsError, ResultsFolder};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Columns of `metrics/tcp.csv`. Counters start with the connection.
pub(crate) const TCP_COLUMNS: &str = "time,host,local,remote,state,cwnd,ssthresh,rtt_us,rto_us,unacked,unsent,unread,\
                           send_window,retransmitted,bytes_acked,bytes_received";

/// Samples of one host or device.
#[derive(Default)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Sampler {
    /// Interval in picoseconds; `None` disables sampling.
    interval: Option<u64>,
    /// Time of the next sample, if an event has occurred since the last one.
    pending: Option<SimTime>,
    hosts: Rows,
    tcp: Rows,
    /// Rows of outgoing directions of links, with the index of the interface.
    links: Vec<(SimTime, usize, String)>,
    last: String,
    last_links: Vec<String>,
    last_tcp: Map<(SocketAddr, SocketAddr), String>,
}

/// Rows with their times; the text omits the time.
type Rows = Vec<(SimTime, String)>;

/// Enables sampling of all hosts and devices at an interval.
pub fn begin(nodes: &mut [HostNode], devices: &mut [DeviceNode], interval: Option<SimDuration>) {
    let samplers = nodes.iter_mut().map(|node| &mut node.sampler);
    for sampler in samplers.chain(devices.iter_mut().map(|device| &mut device.sampler)) {
        *sampler = Sampler { interval: interval.map(SimDuration::as_picos), ..Sampler::default() };
    }
}

/// Samples of the hosts of a run, or of some of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Metrics {
    hosts: HostRows,
    tcp: HostRows,
    /// Rows of directions of links: time in picoseconds, link and end at which the direction begins, text.
    links: Vec<(u64, (u32, u32), String)>,
}

/// Rows with time in picoseconds and host id; the text omits both.
type HostRows = Vec<(u64, u32, String)>;

impl Metrics {
    /// Adds the samples of other hosts.
    pub fn add(&mut self, other: Metrics) {
        self.hosts.extend(other.hosts);
        self.tcp.extend(other.tcp);
        self.links.extend(other.links);
    }
}

/// Collects the samples until `end`.
pub fn collect(
    experiment: &Experiment,
    nodes: &mut [HostNode],
    devices: &mut [DeviceNode],
    end: SimTime,
) -> Metrics {
    let mut metrics = Metrics::default();
    let add_links = |links: &mut Vec<(u64, (u32, u32), String)>, id: HostId, sampler: &mut Sampler| {
        let interfaces = experiment.node_interfaces(id);
        links.extend(std::mem::take(&mut sampler.links).into_iter().map(|(at, port, row)| {
            (at.as_picos(), (interfaces[port].link as u32, interfaces[port].end as u32), row)
        }));
    };
    for device in devices {
        let mut sampler = std::mem::take(&mut device.sampler);
        if let Some(at) = sampler.pending.take() {
            sampler.sample_links(at.min(end), device.link_rows(&NodeDrops::of_device(device)));
        }
        add_links(&mut metrics.links, device.id(), &mut sampler);
    }
    for node in nodes {
        let mut sampler = std::mem::take(&mut node.sampler);
        // No event has occurred on this host since.
        if let Some(at) = sampler.pending.take() {
            let drops = NodeDrops::of_host(node);
            sampler.sample(at.min(end), &node.host, &drops);
            sampler.sample_links(at.min(end), node.link_rows(&drops));
        }
        add_links(&mut metrics.links, node.id(), &mut sampler);
        let host = node.id().0;
        let of_host = |rows: Rows| rows.into_iter().map(move |(at, row)| (at.as_picos(), host, row));
        metrics.hosts.extend(of_host(sampler.hosts));
        metrics.tcp.extend(of_host(sampler.tcp));
    }
    metrics
}

/// Writes the tables to the results.
pub fn write(metrics: Metrics, experiment: &Experiment, folder: &ResultsFolder) -> Result<(), ResultsError> {
    let reasons = host_reasons().collect::<Vec<_>>().join(",");
    let columns = format!(
        "time,host,packets_in,bytes_in,packets_out,bytes_out,{reasons},egress_queue,syscalls,processes"
    );
    if !experiment.topology.links.is_empty() {
        let reasons = link_reasons().collect::<Vec<_>>().join(",");
        let columns = format!("time,link,from,to,frames,bytes,{reasons},queue");
        folder.write(names::LINK_METRICS, links_table(&columns, metrics.links, experiment).as_bytes())?;
    }
    folder.write(names::HOST_METRICS, table(&columns, metrics.hosts, experiment).as_bytes())?;
    folder.write(names::TCP_METRICS, table(TCP_COLUMNS, metrics.tcp, experiment).as_bytes())
}

/// Table of the rows of all hosts, ordered by time, then by host.
fn table(columns: &str, mut rows: HostRows, experiment: &Experiment) -> String {
    rows.sort_by_key(|(at, host, _)| (*at, *host));
    let mut text = format!("{columns}\n");
    for (at, host, row) in &rows {
        let name = &experiment.hosts[*host as usize].name;
        text += &format!("{},{name},{row}\n", SimTime::from_picos(*at));
    }
    text
}

/// Table of the rows of all directions, ordered by time, then by link.
fn links_table(columns: &str, mut rows: Vec<(u64, (u32, u32), String)>, experiment: &Experiment) -> String {
    rows.sort_by_key(|(at, direction, _)| (*at, *direction));
    let mut text = format!("{columns}\n");
    for (at, (link, end), row) in &rows {
        let link = &experiment.topology.links[*link as usize];
        let [from, to] =
            [*end as usize, 1 - *end as usize].map(|end| experiment.node_name(link.ends[end].node));
        text += &format!("{},{},{from},{to},{row}\n", SimTime::from_picos(*at), link.name);
    }
    text
}

/// Reasons of drops at interfaces and on links, in the order of the columns.
fn link_reasons() -> impl Iterator<Item = &'static str> {
    DropReason::ALL.into_iter().map(DropReason::name).chain([DropCause::Backlog.name()])
}

/// Reasons of drops at a host and on its links, in the order of the columns.
fn host_reasons() -> impl Iterator<Item = &'static str> {
    let of_stack = DropCause::ALL.into_iter().map(DropCause::name);
    let others = of_stack.chain(belljar_pci::driver::DROP_REASONS);
    link_reasons().chain(others.filter(|name| !link_reasons().any(|other| other == *name)))
}

/// Columns of drops.
fn columns(drops: &Map<&'static str, u64>, reasons: impl Iterator<Item = &'static str>) -> String {
    let count = |reason: &str| drops.get(reason).copied().unwrap_or_default().to_string();
    let columns: Vec<String> = reasons.map(count).collect();
    columns.join(",")
}

/// Row of a direction of a link: frames carried, dropped and queued.
pub fn link_row(counters: &Counters, drops: &Map<&'static str, u64>, queue: usize) -> String {
    let drops = columns(drops, link_reasons());
    format!("{},{},{drops},{queue}", counters.packets_out, counters.bytes_out)
}

impl Sampler {
    /// Records the memory that each window reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.interval);
        footprint.object(&self.pending);
    }
    /// Adds rows for the links of a node that have changed before `at`; `rows` are in the order of its
    /// interfaces.
    pub fn sample_links(&mut self, at: SimTime, rows: impl Iterator<Item = String>) {
        for (port, row) in rows.enumerate() {
            if self.last_links.len() == port {
                // Initial row: all counters are zero.
                self.last_links.push(row.split(',').map(|_| "0").collect::<Vec<_>>().join(","));
            }
            if self.last_links[port] != row {
                self.last_links[port].clone_from(&row);
                self.links.push((at, port, row));
            }
        }
    }

    /// Time before `limit` at which the caller must stop and [`sample`](Self::sample), if any; `next` is
    /// the time of the host's next event.
    pub fn due(&mut self, limit: SimTime, next: Option<SimTime>) -> Option<SimTime> {
        let interval = self.interval?;
        if self.pending.is_none() {
            let next = next.filter(|next| *next < limit)?;
            let after = (next.as_picos() / interval + 1).saturating_mul(interval);
            self.pending = Some(SimTime::from_picos(after));
        }
        self.pending.take_if(|at| *at <= limit)
    }

    /// Adds rows for changes before `at`.
    pub fn sample(&mut self, at: SimTime, host: &SimulatedHost, drops: &NodeDrops) {
        let row = host_row(host, &drops.all);
        if row != self.last {
            self.last.clone_from(&row);
            self.hosts.push((at, row));
        }
        let before = std::mem::take(&mut self.last_tcp);
        for sample in host.stack().tcp_samples() {
            let (ends, row) = ((sample.local, sample.remote), tcp_row(&sample));
            if before.get(&ends) != Some(&row) {
                self.tcp.push((at, row.clone()));
            }
            self.last_tcp.insert(ends, row);
        }
    }
}

fn host_row(host: &SimulatedHost, drops: &Map<&'static str, u64>) -> String {
    let counters = host.stack().interface_counters();
    format!(
        "{},{},{},{},{},{},{},{}",
        counters.packets_in,
        counters.bytes_in,
        counters.packets_out,
        counters.bytes_out,
        columns(drops, host_reasons()),
        host.stack().egress_queue_len(),
        host.linux().map_or(0, |linux| linux.call_counts().values().sum::<u64>()),
        host.linux().map_or(0, |linux| linux.running_specs().len()),
    )
}

/// Row of a TCP connection.
pub(crate) fn tcp_row(sample: &TcpSample) -> String {
    let info = &sample.info;
    let state = format!("{:?}", info.state).to_lowercase();
    format!(
        "{},{},{state},{},{},{},{},{},{},{},{},{},{},{}",
        sample.local,
        sample.remote,
        info.cwnd,
        info.ssthresh,
        info.rtt.as_nanos() / 1_000,
        info.rto.as_nanos() / 1_000,
        sample.unacknowledged,
        sample.unsent,
        sample.unread,
        info.send_window,
        info.total_retransmitted,
        info.bytes_acked,
        info.bytes_received,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> SimTime {
        SimTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn samples_are_due_after_events_wherever_windows_end() {
        let run = |windows: &[u64]| {
            let mut sampler = Sampler { interval: Some(ms(10).as_picos()), ..Sampler::default() };
            let (mut events, mut due) = (vec![ms(3), ms(10), ms(47)], Vec::new());
            for limit in windows {
                while let Some(at) = sampler.due(ms(*limit), events.first().copied()) {
                    events.retain(|event| *event >= at);
                    due.push(at);
                }
                events.retain(|event| *event >= ms(*limit));
            }
            (due, sampler.pending)
        };
        // An event at the time of a sample is part of the next sample.
        let expected = (vec![ms(10), ms(20), ms(50)], None);
        for windows in [&[100][..], &[1, 4, 10, 11, 49, 50, 51], &[48, 100], &[20, 47, 60]] {
            assert_eq!(run(windows), expected, "{windows:?}");
        }
        assert_eq!(run(&[48]), (vec![ms(10), ms(20)], Some(ms(50))));
    }

    #[test]
    fn nothing_is_due_without_an_interval() {
        assert_eq!(Sampler::default().due(ms(9), Some(ms(1))), None);
    }
}
