//! Hosts and times that are explored unless the experiment says otherwise.

use crate::exploration::{Exploration, FaultKind};
use crate::model::{Experiment, FinalState, Host};
use crate::scheduling::Scheduling;
use belljar_base::{HostId, SimDuration, SimTime};

impl Exploration {
    /// Distribution that suits a service of a few hosts: faults of all kinds at the hosts with a process that is expected to run
    /// until the end, or at all hosts with programs if there are none, from a tenth to seven tenths of the simulated time.
    pub fn of(hosts: &[Host], stop: SimTime) -> Exploration {
        let chosen = |wanted: &dyn Fn(&Host) -> bool| -> Vec<HostId> {
            let found = hosts.iter().enumerate().filter(|(_, host)| wanted(host));
            found.map(|(index, _)| HostId(index as u32)).collect()
        };
        let serves = |host: &Host| {
            host.programs().iter().any(|process| process.expected_final_state == FinalState::Running)
        };
        let servers = chosen(&serves);
        let hosts = match servers.is_empty() {
            true => chosen(&|host| !host.programs().is_empty()),
            false => servers,
        };
        let whole = stop.since(SimTime::ZERO).as_nanos();
        let part = |tenths: u64| SimTime::ZERO + SimDuration::from_nanos(whole / 10 * tenths);
        let longest = SimDuration::from_nanos((whole / 5).max(1));
        let shortest = SimDuration::from_millis(100).min(longest);
        Exploration {
            hosts,
            between: (part(1), part(7)),
            faults: (1, 5),
            lasting: (shortest, longest),
            scheduling: vec![Scheduling::Fifo, Scheduling::Random],
            kinds: FaultKind::defaults(),
        }
    }
}

impl Experiment {
    /// The distribution of faults: that of section `explore`, or the [default](Exploration::of).
    pub fn exploration(&self) -> Exploration {
        self.explore.clone().unwrap_or_else(|| Exploration::of(&self.hosts, self.general.stop_time))
    }
}
