use belljar_base::{Lateness, Map, SimDuration};
use serde::{Deserialize, Serialize};

/// Statistics: the content of `sim-stats.json`. But for gateways, nothing in it depends on the machine or on real time, so that
/// equal runs give equal files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Seconds of simulated time that have passed.
    pub simulated_seconds: f64,
    /// Per host in name order.
    pub hosts: Map<String, HostStatistics>,
    /// Traffic models by the name that the experiment gives them, of all hosts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub models: Map<String, ModelStatistics>,
    /// Per link, by "from to to", what each direction has carried.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub links: Map<String, Map<String, DirectionStatistics>>,
    /// Per router.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub routers: Map<String, RouterStatistics>,
    /// Per P4 switch.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub p4_switches: Map<String, P4Statistics>,
    /// Per radio channel.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub radios: Map<String, RadioStatistics>,
    /// Per gateway.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub gateways: Map<String, GatewayStatistics>,
    /// System calls of all hosts by name.
    pub syscalls: Map<String, u64>,
    /// Warnings: requests of programs that were not fully met, with their counts.
    pub warnings: Map<String, u64>,
    /// Programs that had to be preempted natively: from there on the run is not deterministic.
    pub preempted: Map<String, u64>,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DirectionStatistics {
    /// Ethernet frames sent.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames dropped, by reason.
    pub drops: Map<String, u64>,
    /// Frames that something else has happened to: `ecn_marked` by the queue, `reordered`, `duplicated` or
    /// `corrupted` on the way. What did not happen is left out.
    #[serde(default, skip_serializing_if = "Map::is_empty", alias = "mishaps")]
    pub impairments: Map<String, u64>,
}

/// One gateway.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatewayStatistics {
    /// The interface of this machine.
    pub interface: String,
    /// Frames that have come from outside.
    pub frames_in: u64,
    /// Frames given to the interface.
    pub frames_out: u64,
    /// Frames lost between the two worlds: the interface took none, they were too long, or the simulation was far behind.
    pub dropped: u64,
    /// Seconds by which frames left later than in the simulation; `None` if none left.
    pub late: Option<Quantiles>,
}

/// One router.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RouterStatistics {
    /// Packets passed on.
    pub forwarded: u64,
    /// Packets that had made too many hops.
    pub expired: u64,
    /// Packets to which no route led.
    pub no_route: u64,
    /// Packets whose next hop did not answer.
    pub unanswered: u64,
    /// Packets cut short or damaged.
    pub malformed: u64,
}

/// One radio channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RadioStatistics {
    /// Per station, by "host:interface".
    pub stations: Map<String, StationStatistics>,
}

/// One station of a radio channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StationStatistics {
    /// Frames to all that it has sent.
    pub broadcasts: u64,
    /// Frames to one station that it has sent, each counted once.
    pub unicasts: u64,
    /// The bytes of their Ethernet frames.
    pub bytes: u64,
    /// Times that a frame was sent again.
    pub retries: u64,
    /// Frames that were acknowledged.
    pub acknowledged: u64,
    /// Frames for it that it has received.
    pub received: u64,
    /// Frames for it that it has received again.
    pub duplicates: u64,
    /// Frames lost, by reason: frames that it was to send, `given_up` after all retries or `queue_full`; frames in reach that were for
    /// it, `collided` with another, sent while it was sending itself (`deaf`), or `lost` by chance.
    pub drops: Map<String, u64>,
    /// Seconds for which it was sending.
    pub airtime_seconds: f64,
    /// Seconds for which it was sending or heard others.
    pub busy_seconds: f64,
}

/// One P4 switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct P4Statistics {
    /// Frames received.
    pub received: u64,
    /// Packets dropped, by reason.
    pub drops: Map<String, u64>,
    /// Digests, messages and idle entries that were told while no controller listened.
    pub notifications: u64,
    /// Connections that controllers have made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub controllers: u64,
    /// Tables by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub tables: Map<String, P4TableStatistics>,
    /// Ports by the name of their interface.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub ports: Map<String, P4PortStatistics>,
    /// Bytes that its entries, arrays and queues have in memory, about.
    #[serde(default)]
    pub memory: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A table of a P4 switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct P4TableStatistics {
    /// Number of entries at the end.
    pub entries: u64,
    /// Packets that found an entry.
    pub hits: u64,
    /// Packets that found none.
    pub misses: u64,
}

/// A port of a P4 switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct P4PortStatistics {
    /// Packets received.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Packets that found their queue full.
    pub queue_full: u64,
    /// The most packets that have waited in its queues together.
    pub most_queued: u64,
    /// Packets that wait at the end.
    pub queued: u64,
}

/// One host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostStatistics {
    /// Its address.
    pub address: String,
    /// Packets that its interfaces but `lo` have received; on links, frames.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets that they have sent.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets dropped, by reason.
    pub drops: Map<String, u64>,
    /// Its processor, if work takes time there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuStatistics>,
    /// The processes of the experiment, in the order of the file.
    pub processes: Vec<ProcessStatistics>,
}

/// The processor of a host on which work takes time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CpuStatistics {
    /// Its busy time as a share of the simulated time.
    pub busy: f64,
    /// Seconds of work, by kind: `syscall`, `packet`, `byte`, `interrupt`.
    pub seconds: Map<String, f64>,
    /// The most packets that have waited at a time to be received.
    pub longest_backlog: usize,
}

/// One process of the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessStatistics {
    /// The program's file name.
    pub program: String,
    /// Its process id; `None` if it never started.
    pub pid: Option<i32>,
    /// Start time in seconds.
    pub started: Option<f64>,
    /// End time in seconds; `None` if it still ran at the end.
    pub ended: Option<f64>,
    /// The exit status that a shell would report: the code, or 128 + the signal's number.
    pub shell_status: Option<u8>,
    /// Final state: `exited 0`, `signaled SIGTERM`, `running`, `not started`, `failed to start`.
    pub state: String,
    /// True if the experiment expects that state.
    pub as_expected: bool,
    /// The error of its start, or the end that was expected instead.
    pub problem: Option<String>,
    /// If it still ran at the end: the calls that its threads waited in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_in: Vec<String>,
}

/// Statistics of the models of one name. A flow is a transfer, a request, a query, a stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelStatistics {
    /// Number of models.
    pub models: u64,
    /// Flows that came to their end.
    pub done: u64,
    /// Flows that were under way when the model or the simulation was stopped.
    pub cut: u64,
    /// Flows that failed, by the reason.
    pub failed: Map<String, u64>,
    /// Bytes that the models sent in flows.
    pub bytes_out: u64,
    /// Bytes that they received.
    pub bytes_in: u64,
    /// Datagrams that they sent, or received where they are sinks.
    pub datagrams: u64,
    /// Datagrams that sinks have missed.
    pub lost: u64,
    /// The time from beginning to end of the flows that are done.
    pub completion: Option<Quantiles>,
    /// Models that could not run, and why.
    pub problems: Vec<String>,
}

/// Distribution of a set of times, in seconds. A quantile is the least of them that so many are not
/// longer than.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The mean.
    pub mean: f64,
    /// Half of them.
    pub median: f64,
    /// 90 of 100.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl ModelStatistics {
    /// Takes in what models of the same name on other hosts have done; the times must be summed up anew.
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
    /// The quantiles of lateness, each at most twice the exact one; `None` if nothing had a time.
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

    /// The quantiles of these times; `None` if there are none.
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

impl Statistics {
    /// Takes in what another part of the same run has.
    pub fn add(&mut self, other: Statistics) {
        self.hosts.extend(other.hosts);
        self.routers.extend(other.routers);
        self.radios.extend(other.radios);
        self.p4_switches.extend(other.p4_switches);
        self.gateways.extend(other.gateways);
        for (link, directions) in other.links {
            self.links.entry(link).or_default().extend(directions);
        }
        add_counts(&mut self.syscalls, &other.syscalls);
        add_counts(&mut self.warnings, &other.warnings);
        add_counts(&mut self.preempted, &other.preempted);
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be serialised");
        text.push('\n');
        text
    }
}

/// Adds the counts of `part`, by what was counted, to those of `total`.
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
