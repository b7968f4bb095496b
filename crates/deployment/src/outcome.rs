//! Outcome of a deployment: its statistics, and the accuracy of its clocks.

use belljar_base::{Map, SimTime};
use belljar_config::Experiment;
use belljar_plan::outcome::{self, End, Observation};
use belljar_results::{HostStatistics, Statistics};
use serde::{Deserialize, Serialize};

/// Clocks and machines of a deployment: `deployment.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    /// Start of the experiment, in seconds since 1970 by this machine's clock.
    pub begin: f64,
    /// Machines by name.
    pub machines: Map<String, MachineReport>,
}

/// Report on one machine of a deployment. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineReport {
    /// Destination in ssh's syntax.
    pub address: String,
    /// Architecture of the machine.
    pub architecture: String,
    /// Hosts that ran on the machine.
    pub hosts: Vec<String>,
    /// Offset of its clock from this machine's at the start; positive if ahead.
    pub clock_offset: f64,
    /// Error bound of that measurement.
    pub clock_uncertainty: f64,
    /// Offset of its clock at the end.
    pub clock_offset_end: f64,
    /// Largest delay of a process's start.
    pub latest_start: f64,
    /// Name resolution for programs on the machine: `its own`, `of the run` or `unknown`.
    pub names: String,
}

/// The end of a process by its shell exit status: statuses above 128 are signals.
pub fn end(status: i32) -> End {
    match status {
        129..=192 => End::Signaled(status - 128),
        _ => End::Exited(u8::try_from(status).unwrap_or(u8::MAX)),
    }
}

/// The statistics of a run that ended at `now`.
pub fn statistics(experiment: &Experiment, observed: &[Vec<Vec<Observation>>], now: SimTime) -> Statistics {
    let mut statistics = Statistics { simulated_seconds: now.as_secs_f64(), ..Statistics::default() };
    for (host, seen) in experiment.hosts.iter().zip(observed) {
        let judged = host.processes.iter().zip(seen);
        let own = HostStatistics {
            address: host.address.to_string(),
            processes: judged
                .map(|(process, seen)| outcome::judge(process, seen.iter().cloned(), now))
                .collect(),
            ..HostStatistics::default()
        };
        statistics.hosts.insert(host.name.clone(), own);
    }
    statistics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_shells_are_exits_and_signals() {
        assert_eq!([0, 3, 128, 255].map(end), [0, 3, 128, 255].map(End::Exited));
        assert_eq!([130, 137, 143].map(end), [2, 9, 15].map(End::Signaled));
    }
}
