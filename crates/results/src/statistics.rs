use belljar_base::Map;
use serde::{Deserialize, Serialize};

/// What `sim-stats.json` holds. Nothing in it depends on the machine or on real time, so that equal
/// runs give equal files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Seconds of simulated time that have passed.
    pub simulated_seconds: f64,
    /// Per host in name order.
    pub hosts: Map<String, HostStatistics>,
    /// System calls of all hosts by name.
    pub syscalls: Map<String, u64>,
    /// What programs asked for and did not fully get, with how often.
    pub warnings: Map<String, u64>,
    /// Programs that had to be preempted natively: from there on the run is not deterministic.
    pub preempted: Map<String, u64>,
}

/// One host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostStatistics {
    /// Its address.
    pub address: String,
    /// IP packets that `eth0` has received.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// IP packets that `eth0` has sent.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets dropped, by reason.
    pub drops: Map<String, u64>,
    /// The processes of the experiment, in the order of the file.
    pub processes: Vec<ProcessStatistics>,
}

/// One process of the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessStatistics {
    /// The program's file name.
    pub program: String,
    /// Its process id; `None` if it never started.
    pub pid: Option<i32>,
    /// When it started, in seconds.
    pub started: Option<f64>,
    /// When it ended, in seconds; `None` if it still ran at the end.
    pub ended: Option<f64>,
    /// The exit status that a shell would report: the code, or 128 + the signal's number.
    pub shell_status: Option<u8>,
    /// How it ended: `exited 0`, `signaled SIGTERM`, `running`, `not started`, `failed to start`.
    pub state: String,
    /// Whether that is what the experiment expects.
    pub as_expected: bool,
    /// Why it could not start, or what was expected instead.
    pub problem: Option<String>,
}

impl Statistics {
    /// Takes in what another part of the same run has.
    pub fn add(&mut self, other: Statistics) {
        self.hosts.extend(other.hosts);
        let counts = [
            (&mut self.syscalls, other.syscalls),
            (&mut self.warnings, other.warnings),
            (&mut self.preempted, other.preempted),
        ];
        for (total, part) in counts {
            for (what, count) in part {
                *total.entry(what).or_default() += count;
            }
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be serialised");
        text.push('\n');
        text
    }
}
