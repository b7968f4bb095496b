//! Hosts, processes and packets that properties are about.

use crate::events::{Event, ProcessRef};
use crate::model::{Experiment, Host, Process};
use crate::properties::{Claim, PacketSet, Property};
use crate::refusal::Refusal;
use belljar_base::{HostId, SimTime};
use belljar_properties::{After, LineClaim, Quantifier};

impl Property {
    /// True if the property is about files or packets of this host.
    pub fn concerns(&self, id: HostId, host: &Host) -> bool {
        match (&self.hosts, self.packets()) {
            (Some(hosts), _) => hosts.binary_search(&id).is_ok(),
            (None, Some(packets)) => host.interface_names().any(|name| packets.is_at(name)),
            (None, None) => self.processes_of(host).next().is_some(),
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
    /// Names of its interfaces before programs make others: `lo`, `eth0` on the graph, and those of links.
    pub fn interface_names(&self) -> impl Iterator<Item = &str> {
        let graph = self.node.map(|_| "eth0");
        let links = self.interfaces.iter().map(|interface| interface.name.as_str());
        ["lo"].into_iter().chain(graph).chain(links)
    }

    /// The experiment's processes, which run in the host's machine if it has one.
    pub fn programs(&self) -> &[Process] {
        self.machine.as_ref().map_or(&self.processes, |machine| &machine.programs)
    }
}

impl Experiment {
    /// Properties about packets of a host.
    pub fn packet_properties(&self, id: HostId) -> impl Iterator<Item = &PacketSet> {
        let host = &self.hosts[id.index()];
        self.properties
            .iter()
            .filter_map(move |property| property.packets().filter(|_| property.concerns(id, host)))
    }

    /// Filter of the packets at an interface that properties are about; `None` if there is no such property, and empty for all packets.
    pub fn judged_packets(&self, id: HostId, interface: &str) -> Option<String> {
        let there = self.packet_properties(id).filter(|packets| packets.is_at(interface));
        let filters: Vec<&str> = there.map(|packets| packets.filter.as_str()).collect();
        match &filters[..] {
            [] => None,
            [only] => Some((*only).to_owned()),
            all if all.contains(&"") => Some(String::new()),
            all => Some(all.iter().map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" or ")),
        }
    }

    /// Properties about packets, as refusals of a backend that captures none.
    pub fn refuse_packet_properties(&self) -> Vec<Refusal> {
        let judged = self.properties.iter().enumerate().filter(|(_, property)| property.packets().is_some());
        let refusals = judged.map(|(number, property)| {
            let message = format!("property '{}': a deployment captures no packets", property.name);
            Refusal::new(
                format!("properties.{number}.packets"),
                message,
                "judge outputs or files, or run an emulation",
            )
        });
        refusals.collect()
    }

    /// Properties that need the simulated times of lines, which only a simulation knows, as refusals of another backend.
    pub fn timed_properties(&self) -> Vec<Refusal> {
        let refusals = self.properties.iter().enumerate().filter_map(|(number, property)| {
            let (path, name) = (format!("properties.{number}.{}", property.claim.key()), &property.name);
            let hosts = self.hosts.iter().enumerate();
            let concerned = hosts.filter(|(n, host)| property.concerns(HostId(*n as u32), host)).count();
            match &property.claim {
                Claim::Lines(LineClaim { quantifier: Quantifier::Eventually { .. }, .. })
                    if property.packets().is_none() =>
                {
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
