//! A run as data: the derived information that every backend (simulation, emulation, deployment) needs,
//! computed once before the run.
//!
//! [`Plan::new`] takes a loaded experiment with assigned names and addresses and computes the rest: hardware
//! addresses ([`mac`]), shortest-path routes and the spanning tree ([`routing`]), the environment of each
//! process ([`ProcessPlan`]), the schedule of all changes with all random choices made ([`Schedule`]), the
//! tracks of radio stations ([`tracks()`]), and the set-up of [whole machines](machine()).
//! [`with_fixed_events`] converts the schedule back to an experiment, [`drawn_events`] the part of it that the
//! seed has drawn. After a run, [`outcome::judge`]
//! compares the end of a process with the experiment's expectation, and [`judge_properties`] the files of the results with its
//! properties, independent of the backend.
//!
//! This crate does not depend on the engine, the kernel or the platform.
#![forbid(unsafe_code)]

mod coverage;
mod judged_packets;
mod machine;
mod network;
mod new_root;
mod occurrences;
pub mod outcome;
mod process;
mod properties;
pub mod routing;
mod schedule;
mod tracks;

pub use coverage::collect_coverage;
pub use machine::{machine, machine_names};
pub use network::{
    Direction, NetChange, Partition, concerns_host, least_latency, link_direction, link_loss, link_nic,
    partitions,
};
pub use new_root::NewRoot;
pub use occurrences::{Occurrence, all as occurrences, drawn_events, unreached, with_fixed_events};
pub use process::{CLEAN_ENVIRONMENT, ProcessPlan};
pub use properties::{cut_windows, judge_properties};
pub use routing::{PlannedRoute, RoutingState};
pub use schedule::{DeviceChange, HostChange, LinkChange, Schedule};
pub use tracks::tracks;

use belljar_base::HostId;
use belljar_config::Experiment;
use belljar_config::topology::Interface;

/// The plan of a run. See the [crate](self).
pub struct Plan {
    /// Processes of each host, in the order of the file.
    pub processes: Vec<Vec<ProcessPlan>>,
    /// Changes during the run, and the state of routing at its start.
    pub schedule: Schedule,
}

impl Plan {
    /// Computes the plan of an experiment.
    pub fn new(experiment: &Experiment) -> Plan {
        let schedule = Schedule::new(experiment);
        let processes = experiment.hosts.iter().enumerate().map(|(n, host)| {
            match machine(experiment, HostId(n as u32), &schedule.first) {
                Some(setup) => vec![machine::machine_process(&setup)],
                None => host.processes.iter().map(ProcessPlan::new).collect(),
            }
        });
        Plan { processes: processes.collect(), schedule }
    }
}

/// The hardware address of an interface: specified in the file, or drawn from the seed and the names (locally
/// administered, unicast).
pub fn mac(experiment: &Experiment, node: &str, interface: &Interface) -> [u8; 6] {
    interface.mac.unwrap_or_else(|| {
        let mut mac = [0; 6];
        experiment.seed().stream(&["interface", node, &interface.name, "mac"]).fill(&mut mac);
        mac[0] = mac[0] & 0xfc | 0x02;
        mac
    })
}
