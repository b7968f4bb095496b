//! Hosts and processes that properties are about.

use crate::events::{Event, ProcessRef};
use crate::model::{Experiment, Host, Process};
use crate::properties::{Claim, Property};
use crate::refusal::Refusal;
use belljar_base::{HostId, SimTime};
use belljar_properties::{After, LineClaim, Quantifier};

impl Property {
    /// True if the property is about files of this host.
    pub fn concerns(&self, id: HostId, host: &Host) -> bool {
        match &self.hosts {
            Some(hosts) => hosts.binary_search(&id).is_ok(),
            None => self.processes_of(host).next().is_some(),
        }
    }

    /// Processes of a host whose outputs are judged, with their indices.
    pub fn processes_of<'a>(&'a self, host: &'a Host) -> impl Iterator<Item = (usize, &'a Process)> {
        host.programs().iter().enumerate().filter(|(number, process)| match &self.process {
            None => true,
            Some(ProcessRef::Number(wanted)) => wanted == number,
            Some(ProcessRef::Program(name)) => process.program_name() == *name,
        })
    }
}

impl Host {
    /// The experiment's processes, which run in the host's machine if it has one.
    pub fn programs(&self) -> &[Process] {
        self.machine.as_ref().map_or(&self.processes, |machine| &machine.programs)
    }
}

impl Experiment {
    /// Properties that need the simulated times of lines, which only a simulation knows, as refusals of another backend.
    pub fn timed_properties(&self) -> Vec<Refusal> {
        let refusals = self.properties.iter().enumerate().filter_map(|(number, property)| {
            let (path, name) = (format!("properties.{number}.{}", property.claim.key()), &property.name);
            let hosts = self.hosts.iter().enumerate();
            let concerned = hosts.filter(|(n, host)| property.concerns(HostId(*n as u32), host)).count();
            match &property.claim {
                Claim::Lines(LineClaim { quantifier: Quantifier::Eventually { .. }, .. }) => {
                    let message = format!("property '{name}': the times of lines are recorded in simulations alone");
                    Some(Refusal::new(path, message, "write 'sometimes', which needs no time, or run a simulation"))
                }
                Claim::History(_) if concerned > 1 => {
                    let message =
                        format!("property '{name}': the order of lines in files of {concerned} hosts is known in simulations alone");
                    Some(Refusal::new(path, message, "write the history on one host and name it in 'hosts', or run a simulation"))
                }
                _ => None,
            }
        });
        refusals.collect()
    }

    /// Lets properties that count from the last fault count from the start if no fault is left.
    pub fn settle_properties(&mut self) {
        if self.events.iter().any(Event::is_fault) {
            return;
        }
        for property in &mut self.properties {
            if let Claim::Lines(LineClaim {
                quantifier: Quantifier::Eventually { after: after @ After::Faults, .. },
                ..
            }) = &mut property.claim
            {
                *after = After::Time(SimTime::ZERO);
            }
        }
    }
}
