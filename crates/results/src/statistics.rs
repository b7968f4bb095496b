use crate::packets::LocationAccount;
use belljar_base::{Lateness, Map, SimDuration};
use serde::{Deserialize, Serialize};

/// Statistics of a run: the content of `sim-stats.json`. Except for gateways, it is independent of the
/// machine and of real time, so that equal runs write equal files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Simulated seconds.
    pub simulated_seconds: f64,
    /// Reason for which the run ended early: its results are not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
    /// Events that the seed has drawn, with their times and hosts: the section `events` of an experiment in
    /// which they are not left to the seed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub drawn_events: String,
    /// Effects of the experiment for which the run was too short, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<Unreached>,
    /// Programs that users have run by hand during the run, in order of time. With one, the run cannot be
    /// reproduced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attended: Vec<AttendedProgram>,
    /// Hosts by name.
    pub hosts: Map<String, HostStatistics>,
    /// Properties of the experiment with their verdicts, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<PropertyStatistics>,
    /// Modules of instrumented code, of all hosts together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<CoverageStatistics>,
    /// Traffic models by the name in the experiment, summed over all hosts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub models: Map<String, ModelStatistics>,
    /// Links by "from to to", with the traffic of each direction.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub links: Map<String, Map<String, DirectionStatistics>>,
    /// Routers by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub routers: Map<String, RouterStatistics>,
    /// P4 switches by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub p4_switches: Map<String, P4Statistics>,
    /// Radio channels by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub radios: Map<String, RadioStatistics>,
    /// Gateways by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub gateways: Map<String, GatewayStatistics>,
    /// Accounts of packets by location: interfaces (`host:eth0`), stacks (`host`), links (`link: from to to`),
    /// devices. See [`LocationAccount`].
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub packets: Map<String, LocationAccount>,
    /// System calls of all hosts by name.
    pub syscalls: Map<String, u64>,
    /// Warnings: requests of programs that were not fully served, with their counts.
    pub warnings: Map<String, u64>,
    /// Programs that were preempted by real time: from then on the run is not deterministic.
    pub preempted: Map<String, u64>,
}

/// Effect of the experiment after the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unreached {
    /// Seconds of the experiment at which it would have begun.
    pub time: f64,
    /// The event, or the setting.
    pub what: String,
}

/// Program that a user has run by hand during the run, by `belljar attach` or `belljar prompt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttendedProgram {
    /// Name of the host.
    pub host: String,
    /// Program and arguments, or the change that the user has made.
    pub command: String,
    /// Seconds of the experiment at the start.
    pub started: f64,
    /// Seconds of the experiment at the end; `None` if it still ran at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<f64>,
}

impl AttendedProgram {
    /// Program that has started and not ended.
    pub fn new(host: String, command: String, started: f64) -> AttendedProgram {
        AttendedProgram { host, command, started, ended: None }
    }
}

/// Coverage of a module of code that is instrumented for Antithesis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoverageStatistics {
    /// Name of the module: that of its table of symbols, or the path of an executable or library.
    pub module: String,
    /// Number of edges.
    pub edges: u64,
    /// Number of edges that were reached.
    pub reached: u64,
}

/// Verdict on one property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PropertyStatistics {
    /// Name in the experiment.
    pub name: String,
    /// Kind of the claim: `always`, `never`, `sometimes`, `eventually` or `history`.
    pub kind: String,
    /// True if the property holds.
    pub holds: bool,
    /// Reason for which it does not hold.
    pub reason: Option<String>,
    /// Host of the line that decides: the first violation, or the line that was to appear.
    pub host: Option<String>,
    /// File of that line, relative to the host's folder.
    pub file: Option<String>,
    /// Number of the line, from 1.
    pub line: Option<u64>,
    /// Simulated seconds at which the line was complete, if they are known.
    pub time: Option<f64>,
    /// Text of the line, shortened.
    pub text: Option<String>,
    /// Number of lines judged; of a history, that of its operations.
    pub judged: u64,
}

/// Traffic of one direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DirectionStatistics {
    /// Ethernet frames sent.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Frames dropped at the sender's interface and on the link, by reason: those of their accounts.
    pub drops: Map<String, u64>,
    /// Frames affected by impairments: `ecn_marked` by the queue, `reordered`, `duplicated` or `corrupted` in
    /// transit. Impairments that did not occur are omitted.
    #[serde(default, skip_serializing_if = "Map::is_empty", alias = "mishaps")]
    pub impairments: Map<String, u64>,
}

/// Traffic of one gateway.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatewayStatistics {
    /// Interface of this machine.
    pub interface: String,
    /// Frames received from the interface.
    pub frames_in: u64,
    /// Frames sent to the interface.
    pub frames_out: u64,
    /// Frames lost at the gateway: the interface refused them, they were too long, or the simulation was far
    /// behind.
    pub dropped: u64,
    /// Seconds by which frames were sent later than in the simulation; `None` if no frame was sent.
    pub late: Option<Quantiles>,
}

/// Packets of one router.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RouterStatistics {
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets whose TTL expired.
    pub expired: u64,
    /// Packets without a route.
    pub no_route: u64,
    /// Packets with an unresolved next hop.
    pub unanswered: u64,
    /// Truncated or corrupted packets.
    pub malformed: u64,
}

/// Stations of one radio channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RadioStatistics {
    /// Stations by "host:interface".
    pub stations: Map<String, StationStatistics>,
}

/// Traffic of one station of a radio channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StationStatistics {
    /// Broadcast frames sent.
    pub broadcasts: u64,
    /// Unicast frames sent, each counted once.
    pub unicasts: u64,
    /// Bytes of these Ethernet frames.
    pub bytes: u64,
    /// Number of retransmissions.
    pub retries: u64,
    /// Frames that were acknowledged.
    pub acknowledged: u64,
    /// Frames received that were addressed to the station.
    pub received: u64,
    /// Duplicate frames received that were addressed to the station.
    pub duplicates: u64,
    /// Frames lost, by reason. Frames to be sent: `given_up` after all retries, or `queue_full`. Frames in
    /// range addressed to the station: `collided` with another, sent during its own transmission (`deaf`), or
    /// `lost` at random.
    pub drops: Map<String, u64>,
    /// Seconds of transmission.
    pub airtime_seconds: f64,
    /// Seconds of transmission or of hearing other stations.
    pub busy_seconds: f64,
}

/// Packets and tables of one P4 switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct P4Statistics {
    /// Frames received.
    pub received: u64,
    /// Packets dropped, by reason.
    pub drops: Map<String, u64>,
    /// Digests, messages and idle-timeout notifications sent while no controller was connected.
    pub notifications: u64,
    /// Connections made by controllers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub controllers: u64,
    /// Tables by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub tables: Map<String, P4TableStatistics>,
    /// Ports by the name of their interface.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub ports: Map<String, P4PortStatistics>,
    /// Approximate memory of its entries, arrays and queues, in bytes.
    #[serde(default)]
    pub memory: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Entries and lookups of a table of a P4 switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct P4TableStatistics {
    /// Number of entries at the end.
    pub entries: u64,
    /// Packets that matched an entry.
    pub hits: u64,
    /// Packets that matched no entry.
    pub misses: u64,
}

/// Packets and queues of a port of a P4 switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct P4PortStatistics {
    /// Packets received.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Packets dropped at a full queue.
    pub queue_full: u64,
    /// Largest number of packets in its queues together.
    pub most_queued: u64,
    /// Packets queued at the end.
    pub queued: u64,
}

/// Traffic and processes of one host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostStatistics {
    /// Address of the host.
    pub address: String,
    /// Packets received on all interfaces except `lo`; on links, frames.
    pub packets_in: u64,
    /// Bytes of these packets.
    pub bytes_in: u64,
    /// Packets sent on all interfaces except `lo`.
    pub packets_out: u64,
    /// Bytes of these packets.
    pub bytes_out: u64,
    /// Packets dropped in the host, at its interfaces and on the links and paths from it, by reason: those of
    /// their accounts.
    pub drops: Map<String, u64>,
    /// Processor of the host, if work takes simulated time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    /// Effects of disk faults, call faults and resets of connections, by kind, without those that had none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub faults: Map<String, u64>,
    /// Processes of the experiment, in the order of the file.
    pub processes: Vec<ProcessStatistics>,
}

/// Processor of a host on which work takes simulated time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CpuStatistics {
    /// Busy time as a fraction of the simulated time.
    pub busy: f64,
    /// Seconds of work, by kind: `syscall`, `packet`, `byte`, `interrupt`.
    pub seconds: Map<String, f64>,
    /// Largest number of packets waiting to be received.
    pub longest_backlog: usize,
}

/// One process of the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessStatistics {
    /// File name of the program.
    pub program: String,
    /// Process id; `None` if it never started.
    pub pid: Option<i32>,
    /// Start time in seconds.
    pub started: Option<f64>,
    /// End time in seconds; `None` if it was running at the end.
    pub ended: Option<f64>,
    /// Exit status as a shell reports it: the code, or 128 + the signal's number.
    pub shell_status: Option<u8>,
    /// Final state: `exited 0`, `signaled SIGTERM`, `running`, `not started`, `failed to start`.
    pub state: String,
    /// True if this is the final state that the experiment expects.
    pub as_expected: bool,
    /// Error of its start, or the final state that was expected instead.
    pub problem: Option<String>,
    /// For a process that was running at the end: the calls in which its threads waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_in: Vec<String>,
}

/// Statistics of all models of one name. A flow is a transfer, a request, a query or a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelStatistics {
    /// Number of models.
    pub models: u64,
    /// Flows that completed.
    pub done: u64,
    /// Flows in progress when the model or the simulation was stopped.
    pub cut: u64,
    /// Failed flows, by reason.
    pub failed: Map<String, u64>,
    /// Bytes sent in flows.
    pub bytes_out: u64,
    /// Bytes received in flows.
    pub bytes_in: u64,
    /// Datagrams sent, or received by sinks.
    pub datagrams: u64,
    /// Datagrams that did not arrive at sinks.
    pub lost: u64,
    /// Completion times of completed flows.
    pub completion: Option<Quantiles>,
    /// Models that could not run, with the reasons.
    pub problems: Vec<String>,
}

/// Distribution of a set of times, in seconds. A quantile is the smallest element that is not less than the
/// given share of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl ModelStatistics {
    /// Adds the counts of the models of the same name on other hosts; the completion times must be
    /// recomputed.
    pub fn add(&mut self, other: ModelStatistics) {
        self.models += other.models;
        self.done += other.done;
        self.cut += other.cut;
        add_counts(&mut self.failed, &other.failed);
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.datagrams += other.datagrams;
        self.lost += other.lost;
        self.completion = None;
        self.problems.extend(other.problems);
    }
}

impl Quantiles {
    /// The quantiles of lateness, each at most twice the exact one; `None` without samples.
    pub fn of_lateness(lateness: &Lateness) -> Option<Quantiles> {
        let seconds = |span: SimDuration| span.as_nanos() as f64 / 1e9;
        (lateness.count() > 0).then(|| Quantiles {
            mean: seconds(lateness.mean()),
            median: seconds(lateness.quantile(0.5)),
            p90: seconds(lateness.quantile(0.9)),
            p99: seconds(lateness.quantile(0.99)),
            max: seconds(lateness.max()),
        })
    }

    /// The quantiles of these times; `None` without times.
    pub fn of(mut seconds: Vec<f64>) -> Option<Quantiles> {
        seconds.sort_by(f64::total_cmp);
        let n = seconds.len();
        let at = |percent: usize| seconds[(n * percent).div_ceil(100).max(1) - 1];
        let sum: f64 = seconds.iter().sum();
        (n > 0).then(|| Quantiles {
            mean: sum / n as f64,
            median: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
        })
    }
}

impl PropertyStatistics {
    /// Line that decides, with its time: `server: out.log:12 at 3.200000 s`.
    pub fn location(&self) -> Option<String> {
        let (host, file) = (self.host.as_ref()?, self.file.as_ref()?);
        let line = self.line.map_or(String::new(), |line| format!(":{line}"));
        let time = self.time.map_or(String::new(), |time| format!(" at {time:.6} s"));
        Some(format!("{host}: {file}{line}{time}"))
    }
}

/// Number of unreached effects that a note lists.
const LIST_UNREACHED: usize = 4;

impl Statistics {
    /// Note on the effects that the run did not reach, if there are any.
    pub fn unreached_note(&self) -> Option<String> {
        let all = &self.unreached;
        let listed: Vec<String> = all
            .iter()
            .take(LIST_UNREACHED)
            .map(|one| format!("{} at {} s", crate::summary::plain_text(&one.what), one.time))
            .collect();
        let more = match all.len().saturating_sub(LIST_UNREACHED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let end = self.simulated_seconds;
        let not_reached =
            if all.len() == 1 { "1 effect was" } else { &format!("{} effects were", all.len()) };
        (!all.is_empty()).then(|| {
            format!(
                "{not_reached} not reached, since the run ended at {end:.6} s: {}{more}",
                listed.join(", ")
            )
        })
    }

    /// True if every process ended as the experiment expects, every property holds and every traffic model ran.
    pub fn as_expected(&self) -> bool {
        self.hosts.values().flat_map(|host| &host.processes).all(|process| process.as_expected)
            && self.properties.iter().all(|property| property.holds)
            && self.models.values().all(|model| model.problems.is_empty())
    }

    /// Adds the statistics of another part of the same run.
    pub fn add(&mut self, other: Statistics) {
        self.attended.extend(other.attended);
        self.hosts.extend(other.hosts);
        self.routers.extend(other.routers);
        self.radios.extend(other.radios);
        self.p4_switches.extend(other.p4_switches);
        self.gateways.extend(other.gateways);
        for (link, directions) in other.links {
            self.links.entry(link).or_default().extend(directions);
        }
        for (location, account) in other.packets {
            self.packets.entry(location).or_default().add(&account);
        }
        add_counts(&mut self.syscalls, &other.syscalls);
        add_counts(&mut self.warnings, &other.warnings);
        add_counts(&mut self.preempted, &other.preempted);
    }

    /// The content of the file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be serialised");
        text.push('\n');
        text
    }
}

/// Adds the counts of `part` to those of `total`, key by key.
pub fn add_counts(total: &mut Map<String, u64>, part: &Map<String, u64>) {
    for (what, count) in part {
        *total.entry(what.clone()).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_among_the_times() {
        assert_eq!(Quantiles::of(Vec::new()), None);
        let one = Quantiles::of(vec![3.0]).unwrap();
        assert_eq!((one.mean, one.median, one.p99, one.max), (3.0, 3.0, 3.0, 3.0));
        let all = Quantiles::of((1..=200).rev().map(f64::from).collect()).unwrap();
        assert_eq!((all.mean, all.median, all.p90, all.p99, all.max), (100.5, 100.0, 180.0, 198.0, 200.0));
    }
}
