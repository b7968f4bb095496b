//! A run as data, before anything runs: what every backend (simulation, emulation, deployment) needs of an experiment
//! and none of them should work out for itself.
//!
//! [`Plan::new`] takes a loaded experiment, in which names and addresses are assigned already, and works out the rest:
//! hardware addresses ([`mac`]), the routes of shortest paths and the spanning tree ([`routing`]), the environment of
//! each process ([`ProcessPlan`]), and the schedule of all changes, with everything that the seed decides drawn
//! ([`Schedule`]), and the ways of radio stations ([`tracks()`]), and what [whole machines](machine()) are told. [`with_fixed_events`] turns the drawn schedule back into an experiment. When a run is over,
//! [`outcome::judge`] says whether a process ended as the experiment expects, whoever ran it.
//!
//! Nothing here knows of the engine, the kernel or the platform.
#![forbid(unsafe_code)]

mod machine;
mod network;
mod occurrences;
pub mod outcome;
mod process;
pub mod routing;
mod schedule;
mod tracks;

pub use machine::{machine, machine_names};
pub use network::{Direction, NetChange, PathState, concerns_host, least_delay, least_latency};
pub use occurrences::with_fixed_events;
pub use process::{ProcessPlan, program_name};
pub use routing::{PlannedRoute, RoutingState};
pub use schedule::{DeviceChange, HostChange, LinkChange, Schedule};
pub use tracks::tracks;

use belljar_base::{HostId, Seed};
use belljar_config::Experiment;
use belljar_config::topology::Interface;

/// A run as data. See the [crate](self).
pub struct Plan {
    /// The processes of each host, by host and then in the order of the file.
    pub processes: Vec<Vec<ProcessPlan>>,
    /// The changes of the run, and the state of routing at its start.
    pub schedule: Schedule,
}

impl Plan {
    /// Works out the plan of an experiment.
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

/// The hardware address of an interface: that of the file, or one drawn from the seed and the names (locally
/// administered, no group address).
pub fn mac(experiment: &Experiment, node: &str, interface: &Interface) -> [u8; 6] {
    interface.mac.unwrap_or_else(|| {
        let mut mac = [0; 6];
        Seed(experiment.general.seed).stream(&["interface", node, &interface.name, "mac"]).fill(&mut mac);
        mac[0] = mac[0] & 0xfc | 0x02;
        mac
    })
}
