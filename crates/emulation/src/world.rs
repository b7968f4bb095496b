//! World: the first process of an emulation's PID namespace, which runs the emulation from setup to
//! results.

use crate::Lateness;
use crate::adapt::Pressure;
use crate::advertise::Advertiser;
use crate::captures::Captures;
use crate::check;
use crate::clock::{ExperimentClock, monotonic_ns};
use crate::control::{self, Dilating};
use crate::error::{Doing, Error, Result};
use crate::files::in_user_namespace;
use crate::gateways::Machine;
use crate::ids;
use crate::load::{self, Links};
use crate::meter::Counted;
use crate::network;
use crate::nodes::{self, HostNews, Node};
use crate::outcome::Outcome;
use crate::p4;
use crate::pool::{self, Pool};
use crate::protocol::{HostSetup, News};
use crate::quanta::{Controlled, Factor};
use crate::resolver::Resolver;
use crate::run::{Ending, KernelTimes, Run};
use crate::senders::Senders;
use crate::stage;
use crate::truth::{FactorChange, Truthfulness, harmless, mean_factor, needed_factor};
use crate::wake::Waker;
use belljar_base::HostId;
use belljar_config::Experiment;
use belljar_plan::Plan;
use belljar_results::{Quantiles, ResultsFolder, names};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Hidden subcommand that runs the world.
pub const WORLD_COMMAND: &str = "emulate-world";
/// Folder in the results that holds mount points during the run.
pub const SCRATCH: &str = belljar_results::names::EMULATION_SCRATCH;
/// Time limit for hosts to become ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Real time between the end of the setup and the beginning, in which all threads reach their waits.
const LEAD_NS: u64 = 20_000_000;

/// Order for an emulation, passed to the world.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Results folder, with the resolved experiment in it.
    pub folder: PathBuf,
    /// Folders that remain visible to hosts below a directory that starts empty.
    pub exposed: Vec<PathBuf>,
    /// Time dilation factor in thousandths, if the hosts' time is dilated.
    pub tdf_milli: Option<u64>,
    /// True if the factor is to follow the load of the machine.
    pub tdf_auto: bool,
    /// Changes of the factor, and factors of single nodes.
    pub factors: Vec<Factor>,
    /// Quantum in virtual nanoseconds, if hosts run in turns; 0 derives it from the shortest latency.
    pub quantum_ns: Option<u64>,
    /// Name of the control group, if one is made.
    pub group: String,
    /// True to end once all processes have ended that are expected to.
    pub until_done: bool,
    /// Process id of the command, which is in the machine's network namespace.
    pub command: u32,
    /// `CLOCK_MONOTONIC` at the start of the command, in nanoseconds.
    pub began_ns: u64,
}

/// Report of the world: a line of its standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// Progress: experiment time in seconds.
    Now(f64),
    /// Failure of the emulation.
    Failed(String),
    /// End of the emulation.
    Done {
        /// True if the emulation was interrupted.
        interrupted: bool,
    },
}

/// Reports to the command. Exits if the command no longer reads.
pub(crate) fn report(report: &Report) {
    let mut line = serde_json::to_vec(report).expect("plain data can be serialised");
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Runs the order in the first line of standard input. Any later line stops the emulation; the end of the
/// input ends it at once.
pub fn main() {
    let mut first = String::new();
    let order = match std::io::stdin().lock().read_line(&mut first) {
        Ok(1..) => serde_json::from_str::<Order>(&first).ok(),
        _ => None,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let of_listener = stop.clone();
    thread::spawn(move || {
        let mut line = String::new();
        while matches!(std::io::stdin().lock().read_line(&mut line), Ok(1..)) {
            of_listener.store(true, Relaxed);
        }
        std::process::exit(1);
    });
    let ran = match order {
        Some(order) => {
            // `settle` hides the processes outside of the namespace.
            let machine = Machine::of(order.command);
            stage::settle().and_then(|()| emulate(&order, &machine, &stop))
        }
        None => Err(Error::new("the emulation was told nothing")),
    };
    report(&match ran {
        Ok(interrupted) => Report::Done { interrupted },
        Err(error) => Report::Failed(error.to_string()),
    });
}

/// Runs an experiment. Returns true if it was interrupted.
fn emulate(order: &Order, machine: &Machine, stop: &AtomicBool) -> Result<bool> {
    let folder = ResultsFolder::open(&order.folder);
    let file = order.folder.join(names::EXPERIMENT);
    let experiment = Experiment::load(&file).map_err(|error| Error::new(error.to_string()))?;
    let plan = Plan::new(&experiment);
    let (news_to, news) = channel();
    let pressure = &Pressure::default();
    let dilating = Dilating::prepare(order, &experiment)?;
    let tdf = order.tdf_milli.map(|tdf| tdf as f64 / 1e3);
    let mut nodes = make_nodes(&experiment, order, &news_to, dilating.as_ref())?;
    let hub_id = HostId(experiment.node_count() as u32);
    let hub_settings = [
        ("net/ipv6/conf/all/disable_ipv6".to_owned(), "1".to_owned()),
        ("net/ipv6/conf/default/disable_ipv6".to_owned(), "1".to_owned()),
    ];
    let mut hub = Node::device(hub_id, "hub", &hub_settings)?;
    let mut network = network::build(&experiment, &plan.schedule, &mut nodes, (&mut hub, machine), tdf)?;
    let (resolver, resolver_down) = Resolver::open(&experiment, &mut nodes)?;
    let of_switches = dilating.as_ref();
    let mut switches = p4::start(
        (&experiment, &plan.schedule),
        &folder,
        &nodes,
        of_switches.map(|d| &d.dilation),
        |node| of_switches.and_then(|dilating| dilating.members_of(node)),
    )?;
    let captures = Captures::open(&experiment, &folder, &nodes)?;
    let advertiser = Advertiser::open(&experiment, &nodes)?;
    let mut notes = std::mem::take(&mut network.notes);
    let counted: Vec<(String, Counted)> =
        control::counted(&nodes, &switches).into_iter().map(|(_, counted)| counted).collect();
    let early = wait_until_ready(&news, &mut notes, experiment.hosts.len())?;

    let begin = monotonic_ns() + LEAD_NS;
    let clock = dilating
        .as_ref()
        .map_or_else(|| ExperimentClock::new(None), |dilating| dilating.dilation.network().clone());
    let clock = &clock.beginning_at(begin);
    let own =
        dilating.as_ref().map_or_else(|| vec![clock.clone(); experiment.node_count()], Dilating::clocks);
    let clocks = &own.into_iter().map(|own| own.beginning_with(clock)).collect::<Vec<_>>();
    let stands = control::is_controlled(order);
    let waker = || stands.then(Waker::new).transpose().doing("making a waker");
    // Links are assigned to threads in rotation.
    let threads = pool::threads(network.relayed.len());
    let of_threads = (0..threads).map(|_| waker()).collect::<Result<Vec<_>>>()?;
    let mut wakers = vec![None; experiment.topology.links.len()];
    for ((relayed, _), of_thread) in network.relayed.iter().zip(of_threads.iter().cycle()) {
        wakers[relayed.link()] = of_thread.as_ref().map(Waker::beside);
    }
    let graph_waker = waker()?;
    let mean_milli = &AtomicU64::new(order.tdf_milli.unwrap_or(1_000));
    let controller = match &dilating {
        None => None,
        Some(dilating) => dilating.controller(
            &experiment,
            (&mut nodes, &switches),
            &network,
            (&wakers, graph_waker.as_ref()),
            (pressure, mean_milli, clock.begin()),
        )?,
    };
    let hosts = nodes.iter().take(experiment.hosts.len()).map(Node::fd);
    let senders = Senders::open(hosts, experiment.belljar.ipv6)?;
    let sampled = (Links::open(&experiment, &nodes, &network.hub_ends)?, senders);
    let mut run = Run::new(&experiment, &plan, &mut nodes, &mut hub, resolver_down, order.until_done);
    for (host, news) in early {
        run.hear(host, news, clock)?;
    }
    run.hub_ends = std::mem::take(&mut network.hub_ends);
    run.p4_orders = p4::take_orders(&mut switches);
    for note in notes {
        run.warn(note);
    }
    if let (Some(told_milli), true) = (order.tdf_milli, controller.is_some()) {
        let buckets = std::mem::take(&mut network.buckets);
        run.kernel = Some(KernelTimes { mean_milli, told_milli, buckets });
    }
    let mut truth = Truthfulness {
        setup_seconds: begin.saturating_sub(order.began_ns) as f64 / 1e9,
        direct_links: network.direct,
        lines: network.relayed.len(),
        differences: check::differences(&experiment, tdf, order.tdf_auto),
        tdf,
        ..Truthfulness::default()
    };
    let dilation = dilating.as_ref().map(|dilating| &dilating.dilation);
    let (over, silent) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let mut dealt: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, (relayed, ports)) in network.relayed.into_iter().enumerate() {
        let link = &experiment.topology.links[relayed.link()];
        let of_ends = [0, 1].map(|end| clocks[link.ends[end].node.index()].clone());
        let waker = wakers[relayed.link()].clone();
        dealt[number % threads].push((relayed.start(ports, of_ends, network.least_latency), waker));
    }
    let pools = dealt.into_iter().map(Pool::new).collect::<Result<Vec<_>>>()?;
    let ended = thread::scope(|scope| {
        let pools: Vec<_> =
            pools.into_iter().map(|pool| scope.spawn(move || pool.run(pressure, over))).collect();
        let graph = network.graph.map(|(mut graph, ports)| {
            graph.set_harmless(harmless(network.least_latency));
            let of_members = graph.hosts().map(|host| clocks[host.index()].clone()).collect();
            scope.spawn(move || graph.run(ports, of_members, graph_waker, pressure, over))
        });
        let captures = (!captures.is_empty()).then(|| scope.spawn(move || captures.run(clocks, silent)));
        scope.spawn(move || resolver.run(clock.clone(), over));
        if !advertiser.is_empty() {
            scope.spawn(move || advertiser.run(clock, over));
        }
        if let Some(dilation) = dilation {
            scope.spawn(move || dilation.run(over));
        }
        let processors = scope.spawn(|| load::watch(&counted, sampled, clock, over));
        let controller = controller.map(|controller| scope.spawn(move || controller.run(over)));
        let ended = run.execute(clock, &news, stop);
        truth.real_seconds = monotonic_ns().saturating_sub(begin) as f64 / 1e9;
        // Captures continue until they have read the packets still queued in the kernel.
        over.store(true, Relaxed);
        // A scope panics if a thread panicked that was not joined.
        let pools: Vec<_> = pools.into_iter().map(|thread| joined(thread, "a thread of the links")).collect();
        let pools: Result<Vec<_>> = pools.into_iter().collect();
        let graph = graph.map(|thread| joined(thread, "the thread of the graph network")).transpose();
        (truth.cpu, truth.load) = processors.join().unwrap_or_default();
        let controlled = controller.map(|thread| joined(thread, "the controller of the clocks")).transpose();
        silent.store(true, Relaxed);
        let missed = captures.map(|thread| thread.join().unwrap_or(Ok(0)));
        ended.and_then(|ending| Ok((ending, pools?, graph?, controlled?, missed.transpose()?.unwrap_or(0))))
    });
    let (Ending { now, interrupted }, pools, graph, controlled, capture_missed) = ended?;
    if let (Some(Controlled { quanta, factors, failed }), Some(dilating)) = (controlled, &dilating) {
        if let Some(error) = failed {
            return Err(error);
        }
        let change = |(at, number, tdf): (f64, Option<usize>, f64)| {
            let node = number.and_then(|number| dilating.name_of(&experiment, number)).map(str::to_owned);
            FactorChange { at, node, tdf }
        };
        truth.tdf_changes = factors.into_iter().map(change).collect();
        (truth.quanta, truth.tdf_auto) = (quanta, order.tdf_auto);
        if order.tdf_auto {
            truth.tdf = Some(truth.real_seconds / now.as_secs_f64().max(1e-9));
        } else if truth.has_changed() {
            truth.tdf = tdf.map(|tdf| mean_factor(tdf, &truth.tdf_changes, now.as_secs_f64()));
        }
    }
    run.finish(&news, clock)?;
    if in_user_namespace() && ids::has_several_users() {
        ids::take_over(&order.folder);
    }
    if let Some(name) = p4::ended(&mut switches) {
        return Err(Error::new(format!(
            "switch '{name}' ended in the middle of the run: switches/{name}/p4-serve.log says why"
        )));
    }
    let at_switches = p4::finish(&mut switches);
    for failure in p4::refused_events(&switches) {
        run.warn(failure);
    }
    truth.frames += at_switches.values().map(|report| report.ports.received).sum::<u64>();
    truth.missed += at_switches.values().map(|report| report.ports.missed).sum::<u64>();
    let mut lateness = Lateness::default();
    truth.cpu.line_seconds += pools.iter().map(|pool| pool.cpu_seconds).sum::<f64>();
    let mut links: Vec<_> = pools.into_iter().flat_map(|pool| pool.links).collect();
    links.sort_by_key(|report| report.link);
    for report in &links {
        lateness.merge(&report.lateness);
        for direction in &report.directions {
            truth.frames += direction.counters.offered;
            truth.missed += direction.missed + direction.counters.overflowed;
        }
    }
    if let Some(graph) = &graph {
        lateness.merge(&graph.lateness);
        truth.cpu.line_seconds += graph.cpu_seconds;
        for member in &graph.members {
            truth.frames += member.nic.packets_out;
            truth.missed += member.missed;
        }
    }
    truth.lateness = Quantiles::of_lateness(&lateness);
    truth.schedule_lateness = Quantiles::of_lateness(run.lateness());
    truth.capture_missed = capture_missed;
    if capture_missed > 0 {
        run.warn(format!("captures missed {capture_missed} packets"));
    }
    truth.cpu.hosts = run.cpu_seconds();
    let attended = run.take_attended();
    let (observed, warnings) = run.take();
    let backlog_dropped = truth.load.dropped;
    let switches =
        at_switches.into_iter().filter_map(|(name, report)| Some((name, report.account?))).collect();
    let outcome =
        Outcome { experiment: &experiment, observed, links, graph, switches, backlog_dropped, warnings, now };
    let (mut statistics, accounts) = outcome.statistics(&mut nodes);
    statistics.attended = attended;
    truth.unaccounted = accounts.unaccounted;
    truth.judge(network.least_latency, needed_factor(&outcome.directions(&statistics), truth.cpu.processors));
    set_epoch(&folder, clock.wall_at_beginning() / 1_000_000_000)?;
    write_json(&folder, names::STATISTICS, &statistics)?;
    write_json(&folder, names::EMULATION, &truth)?;
    Ok(interrupted)
}

/// Joins a thread. If it panicked, the emulation has failed, as results without its contribution are
/// worthless.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>, what: &str) -> Result<T> {
    thread
        .join()
        .map_err(|_| Error::new(format!("{what} failed: standard error has the reason; please report it")))
}

/// Writes the wall-clock time of the beginning to `topology.json`, from which readers of captures take it.
fn set_epoch(folder: &ResultsFolder, epoch_secs: u64) -> Result<()> {
    let text = std::fs::read_to_string(folder.path().join(names::TOPOLOGY)).unwrap_or_default();
    let Some(mut topology) = belljar_results::Topology::from_json(&text) else { return Ok(()) };
    topology.epoch_secs = epoch_secs;
    Ok(folder.write(names::TOPOLOGY, topology.to_json().as_bytes())?)
}

fn write_json<T: Serialize>(folder: &ResultsFolder, name: &str, value: &T) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).expect("plain data can be serialised");
    text.push('\n');
    Ok(folder.write(name, text.as_bytes())?)
}

/// Makes the namespaces of all nodes, and starts the first processes of hosts.
fn make_nodes(
    experiment: &Experiment,
    order: &Order,
    news: &Sender<HostNews>,
    dilating: Option<&Dilating<'_>>,
) -> Result<Vec<Node>> {
    let tdf = order.tdf_milli.map(|tdf| tdf as f64 / 1e3);
    let all_users = ids::has_several_users();
    let folder = ResultsFolder::open(&order.folder);
    let mut nodes = Vec::new();
    let (hosts, mut resolver) = (hosts_file(experiment), String::new());
    resolver += &format!("nameserver {}\n", experiment.belljar.dns_address);
    for (index, host) in experiment.hosts.iter().enumerate() {
        let id = HostId(index as u32);
        let file = |path: &str, content: &str| (path.to_owned(), content.to_owned());
        let setup = HostSetup {
            name: host.name.clone(),
            directory: folder.host(&host.name),
            scratch: order.folder.join(SCRATCH).join(&host.name),
            root: host.root.as_ref().map(|root| root.directory.clone()),
            working_directory: host
                .root
                .as_ref()
                .and_then(|root| root.working_directory.clone())
                .unwrap_or_else(|| folder.host(&host.name)),
            files: vec![
                file("/etc/hosts", &hosts),
                file("/etc/hostname", &format!("{}\n", host.name)),
                file("/etc/resolv.conf", &resolver),
                file("/etc/nsswitch.conf", NSSWITCH),
            ],
            shared: host.options.shared.clone(),
            exposed: order.exposed.clone(),
            sysctls: host.options.sysctls.clone().into_iter().collect(),
            all_users,
            dilated: dilating.map(|dilating| dilating.setup_of(index, &host.name)),
        };
        std::fs::create_dir_all(&setup.scratch).doing(format!("making '{}'", setup.scratch.display()))?;
        let node = Node::host(id, &setup, &nodes::settings(experiment, id, tdf), news.clone());
        nodes.push(node.map_err(|error| Error::new(format!("host '{}': {error}", host.name)))?);
    }
    for (number, device) in experiment.topology.devices.iter().enumerate() {
        let id = HostId((experiment.hosts.len() + number) as u32);
        nodes.push(Node::device(id, &device.name, &nodes::settings(experiment, id, tdf))?);
    }
    Ok(nodes)
}

/// `/etc/nsswitch.conf`: host names are resolved by `/etc/hosts` and the name server, users and groups by
/// files.
const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n\
    services: files\nethers: files\nrpc: files\n";

/// Text of `/etc/hosts`: all hosts and routers of the experiment by name.
fn hosts_file(experiment: &Experiment) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n");
    for (name, address) in experiment.names().filter(|(name, _)| *name != "localhost") {
        text += &format!("{address}\t{name}\n");
    }
    if experiment.belljar.ipv6 {
        text += "::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n";
        for (name, address) in experiment.names6().filter(|(name, _)| *name != "localhost") {
            text += &format!("{address}\t{name}\n");
        }
    }
    text
}

/// Waits until all hosts are ready to start processes. Returns the news of programs that users have attached meanwhile.
fn wait_until_ready(
    news: &Receiver<HostNews>,
    notes: &mut Vec<String>,
    hosts: usize,
) -> Result<Vec<HostNews>> {
    let (mut ready, mut early) = (0, Vec::new());
    while ready < hosts {
        match news.recv_timeout(PATIENCE) {
            Ok((_, News::Ready)) => ready += 1,
            Ok((_, News::Unfit(error))) => return Err(Error::new(error)),
            Ok((_, News::Warning(text))) => notes.push(text),
            Ok(other) => early.push(other),
            Err(_) => {
                return Err(Error::new(
                    "the hosts did not become ready: the machine is too slow for so many",
                ));
            }
        }
    }
    Ok(early)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panicked_is_an_error() {
        let said = thread::scope(|scope| {
            let threads = [false, true, true].map(|fails| scope.spawn(move || assert!(!fails)));
            threads.map(|thread| joined(thread, "a thread of the links").map_err(|error| error.to_string()))
        });
        assert_eq!(said[0], Ok(()));
        assert!(
            said[1..]
                .iter()
                .all(|said| said.as_ref().is_err_and(|e| e.starts_with("a thread of the links failed")))
        );
    }
}
