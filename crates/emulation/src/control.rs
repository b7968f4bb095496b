//! Dilated time of a run: assignment of clocks to nodes, the freezers, and the wakers of threads that wait
//! for a clock.

use crate::adapt::{Adapter, Pressure};
use crate::clock::ExperimentClock;
use crate::dilation::{Dilated, Dilation};
use crate::error::{Error, Result};
use crate::freeze::{Freezer, Groups};
use crate::meter::Counted;
use crate::network::Network;
use crate::nodes::Node;
use crate::p4::{self, Served};
use crate::protocol::{DilatedSetup, Freezing};
use crate::quanta::{Control, Controller, Member};
use crate::truth::harmless;
use crate::wake::Waker;
use crate::world::{Order, SCRATCH};
use belljar_base::{Map, SimDuration};
use belljar_config::Experiment;
use belljar_platform::dilate::clock::{BY_FREEZER, BY_SIGNALS, NOT_FROZEN};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// Bounds of the quantum (time between two barriers) when it is derived from the experiment's latencies.
const QUANTUM: [SimDuration; 2] = [SimDuration::from_micros(200), SimDuration::from_millis(10)];
/// Share of the harmless lateness to which `--tdf auto` keeps.
const SHARE: f64 = 0.5;

/// Dilated clocks of a run, before it begins.
pub struct Dilating<'a> {
    order: &'a Order,
    /// The clocks.
    pub dilation: Dilation,
    /// Index of the clock, by node.
    numbers: Vec<usize>,
    groups: Option<Groups>,
    /// Membership file of the control group (`cgroup.procs`) and its freezer, by node.
    frozen: RefCell<Map<usize, (PathBuf, Freezer)>>,
}

impl<'a> Dilating<'a> {
    /// Creates the clocks of a run, if its time is dilated.
    pub fn prepare(order: &'a Order, experiment: &Experiment) -> Result<Option<Dilating<'a>>> {
        let Some(tdf_milli) = order.tdf_milli else { return Ok(None) };
        // A process enters a group by executing this program, which may be unable to run on a host's own
        // root.
        let own_files = experiment.hosts.iter().any(|host| host.root.is_some());
        let groups = order.quantum_ns.filter(|_| !own_files).and_then(|_| Groups::make(&order.group));
        let freezes = match (order.quantum_ns, &groups) {
            (None, _) => NOT_FROZEN,
            (Some(_), Some(_)) => BY_FREEZER,
            (Some(_), None) => BY_SIGNALS,
        };
        let changes = order.tdf_auto || order.factors.iter().any(|factor| factor.at_ns > 0);
        let settings = Dilated { tdf_milli, changes, apart: is_controlled(order), freezes };
        let hosts: Vec<&str> = experiment.hosts.iter().map(|host| &*host.name).collect();
        let switches = p4::names(experiment);
        let numbers = experiment.topology.devices.iter().map(|device| {
            let switch = switches.iter().position(|name| *name == device.name);
            hosts.len() + switch.unwrap_or(switches.len())
        });
        let numbers = (0..hosts.len()).chain(numbers).collect();
        let dilation = Dilation::prepare(&order.folder.join(SCRATCH), &hosts, &switches, settings)?;
        let frozen = RefCell::default();
        let dilating = Dilating { order, dilation, numbers, groups, frozen };
        if let Some(groups) = &dilating.groups {
            let network = hosts.len() + switches.len();
            for (node, _) in dilating.numbers.iter().enumerate().filter(|(_, clock)| **clock < network) {
                let (members, freezer) = groups.add(node)?;
                dilating.frozen.borrow_mut().insert(node, (members, freezer));
            }
        }
        Ok(Some(dilating))
    }

    /// Dilation settings of a host, for its first process.
    pub fn setup_of(&self, node: usize, name: &str) -> DilatedSetup {
        let freezing = match (self.order.quantum_ns, self.members_of(node)) {
            (None, _) => Freezing::Never,
            (Some(_), Some(members)) => Freezing::Group(members),
            (Some(_), None) => Freezing::Signals,
        };
        DilatedSetup { folder: self.dilation.of_host(name), freezing }
    }

    /// Membership file of a node's control group.
    pub fn members_of(&self, node: usize) -> Option<PathBuf> {
        self.frozen.borrow().get(&node).map(|(members, _)| members.clone())
    }

    /// Clocks of all nodes, by node.
    pub fn clocks(&self) -> Vec<ExperimentClock> {
        self.numbers.iter().map(|number| self.dilation.all[*number].clock.clone()).collect()
    }

    /// Creates the controller of the clocks; `None` if the clocks run at a constant rate. `wakers` are those
    /// of each link, and that of the graph network.
    pub fn controller<'b>(
        &'b self,
        experiment: &Experiment,
        (nodes, served): (&mut [Node], &[Served]),
        network: &Network,
        wakers: (&[Option<Waker>], Option<&Waker>),
        (pressure, mean_milli, begin): (&'b Pressure, &'b AtomicU64, u64),
    ) -> Result<Option<Controller<'b>>> {
        if !is_controlled(self.order) {
            return Ok(None);
        }
        let mut members = Vec::new();
        for (node, (_, counted)) in counted(nodes, served) {
            let by_signals = self.order.quantum_ns.is_some().then(|| match counted {
                Counted::Process(pid) => Some(Freezer::Process(pid)),
                Counted::Host(_) => nodes[node].freezer.take(),
            });
            let freezer =
                self.frozen.borrow_mut().remove(&node).map(|(_, freezer)| freezer).or(by_signals.flatten());
            members.push((node, Member::new(counted, freezer, Vec::new())));
        }
        members.sort_by_key(|(node, _)| self.numbers[*node]);
        let mut members: Vec<Member> = members.into_iter().map(|(_, member)| member).collect();
        // Lines and all other parts of the network are threads of this process.
        members.push(Member::new(Counted::Process(std::process::id()), None, Vec::new()));
        for (link, waker) in experiment.topology.links.iter().zip(wakers.0) {
            for (end, waker) in link.ends.iter().zip(waker.iter().cycle()) {
                members[self.numbers[end.node.index()]].wakers.push(waker.clone());
            }
        }
        for host in network.graph.iter().flat_map(|(graph, _)| graph.hosts()) {
            members[host.index()].wakers.extend(wakers.1.cloned());
        }
        let named =
            |name: &str| experiment.node_names().position(|own| own == name).map(|node| self.numbers[node]);
        let mut changes = Vec::new();
        for factor in &self.order.factors {
            let member = match &factor.node {
                None => None,
                Some(name) => match named(name).filter(|member| *member + 1 < members.len()) {
                    None => {
                        return Err(Error::new(format!(
                            "'{name}' is no host and no P4 switch of the experiment"
                        )));
                    }
                    member => member,
                },
            };
            changes.push((factor.at_ns, member, factor.tdf_milli));
        }
        let tdf_milli = self.order.tdf_milli.unwrap_or(1_000);
        let limit = harmless(network.least_latency).as_nanos() as f64 * SHARE;
        let quantum = self.order.quantum_ns.map(|quantum| match quantum {
            0 => network.least_latency.unwrap_or(QUANTUM[1]).clamp(QUANTUM[0], QUANTUM[1]).as_nanos(),
            quantum => quantum,
        });
        Ok(Some(Controller::new(Control {
            dilation: &self.dilation,
            members,
            quantum,
            tdf_milli,
            changes,
            adapter: self
                .order
                .tdf_auto
                .then(|| Adapter::new(tdf_milli, limit, network.longest_path.saturating_mul(2))),
            pressure,
            mean_milli,
            by_groups: self.groups.is_some(),
            begin,
        })))
    }

    /// Name of the node that has a clock; none for the clock of the network.
    pub fn name_of<'e>(&self, experiment: &'e Experiment, number: usize) -> Option<&'e str> {
        let node = self.numbers.iter().position(|own| *own == number)?;
        Some(experiment.node_name(belljar_base::HostId(node as u32)))
    }
}

/// True if a controller governs the clocks: the factor changes, or hosts run in quanta.
pub fn is_controlled(order: &Order) -> bool {
    order.tdf_auto || !order.factors.is_empty() || order.quantum_ns.is_some()
}

/// Nodes that have processes: index, name and processes of each.
pub fn counted(nodes: &[Node], served: &[Served]) -> Vec<(usize, (String, Counted))> {
    let hosts = nodes
        .iter()
        .enumerate()
        .filter_map(|(node, own)| Some((node, (own.name.clone(), Counted::Host(own.first?)))));
    let switches =
        served.iter().map(|switch| (switch.node, (switch.name.clone(), Counted::Process(switch.child.id()))));
    hosts.chain(switches).collect()
}
