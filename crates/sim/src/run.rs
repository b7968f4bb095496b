//! Execution of a run, from building the nodes to writing the results.

use crate::cells::{self, CellExchange};
use crate::fabric::Fabric;
use crate::flows;
use crate::gateways::{Gateways, PacedClock};
use crate::live::BUSY_STEP;
use crate::manifest;
use crate::metrics;
use crate::node::HostNode;
use crate::options::RunOptions;
use crate::outcome;
use crate::sdk;
use crate::simulators::Simulators;
use crate::world;
use crate::world_node::WorldNode;
use belljar_base::activity::{Activity, Phase};
use belljar_base::choices::ChoiceReport;
use belljar_base::{HostId, Set, SimTime};
use belljar_config::Experiment;
use belljar_engine::{Cell, Ending, Engine, Options, Profile, Verdict};
use belljar_plan::Plan;
use belljar_results::names;
use belljar_results::{ResultsError, ResultsFolder, Statistics, UNFORCED, Writer};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Reason for which a run could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Results could not be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Output of hosts could not be written: the text of a [`ResultsError`].
    #[error("{0}")]
    Output(String),
}

/// Result of one cell's part of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part {
    statistics: Statistics,
    files_read: Set<OsString>,
    written: Vec<PathBuf>,
    metrics: metrics::Metrics,
    flows: flows::Flows,
    choices: ChoiceReport,
    failure: Option<String>,
    /// Reason of the end; the same in all cells, so that only the first cell's is used.
    #[serde(skip, default = "stopped")]
    ending: Ending,
    #[serde(skip)]
    profile: Option<Profile>,
}

impl Part {
    /// Files of the machine that hosts have read.
    pub fn files_read(&self) -> &Set<OsString> {
        &self.files_read
    }
    /// Files and folders of the cell's hosts and devices, relative to the results; some may not exist.
    pub fn written(&self) -> &[PathBuf] {
        &self.written
    }
    /// Prefixes a failure with the location at which it occurred.
    pub fn failed_on(&mut self, place: &str) {
        if let Some(failure) = &mut self.failure {
            *failure = format!("{place}: {failure}");
        }
    }
}

fn stopped() -> Ending {
    Ending::Stopped
}

/// Result of a run.
#[derive(Debug)]
pub struct Finished {
    /// Statistics of the run.
    pub statistics: Statistics,
    /// Reason of the end.
    pub ending: Ending,
    /// Profile of the engine, if measured.
    pub profile: Option<Profile>,
    /// Recorded choices.
    pub choices: ChoiceReport,
}

/// Runs the part of `experiment` assigned to one cell, or all of it without an exchange, with workers as
/// `engine` defines. `observe` is called before each window with the simulated time reached, and decides
/// how the run proceeds. [`conclude`] writes the results.
pub fn run_part(
    experiment: &Experiment,
    folder: &ResultsFolder,
    options: &RunOptions,
    engine: &Options<'_>,
    exchange: Option<&CellExchange>,
    observe: &(dyn Fn(SimTime) -> Verdict + Sync),
) -> Part {
    // The writer's thread inherits the CPU affinity: it must be created before this thread is pinned.
    let writer = Arc::new(Writer::new(options.idle_processor));
    let doing = |phase| options.watched.iter().for_each(|board| board.doing(Activity::of_all(phase)));
    doing(Phase::Building);
    let Plan { processes, schedule } = Plan::new(experiment);
    let fabric = Arc::new(Fabric::new(experiment, schedule.network, schedule.graphs, schedule.first));
    let grouping = fabric.plan(exchange.map_or(engine.workers, CellExchange::workers));
    let dealt = exchange.map(|exchange| (exchange, cells::deal(&grouping, exchange.count())));
    let cell =
        dealt.as_ref().map(|(exchange, of_group)| Cell { me: exchange.me(), of_group, exchange: *exchange });
    let mine = |id: HostId| cell.is_none_or(|cell| cell.of_group[grouping.group_of(id)] == cell.me);
    let installed = sdk::install(experiment, mine, folder);
    let mut nodes =
        world::hosts(experiment, processes, schedule.hosts, &fabric, mine, folder, options, &writer);
    let mut simulators = Simulators::start(experiment, mine, folder, options);
    let foreign_failure = simulators.failure();
    if let Err(error) = installed {
        let _ = foreign_failure.set(error.to_string());
    }
    if let Err(error) = machines(experiment, &fabric, mine, folder) {
        let _ = foreign_failure.set(error);
    }
    let clock = options.real_clock.map(PacedClock::new);
    let mut gateways = Gateways::open(experiment, mine, options, clock.as_ref(), &foreign_failure);
    let mut devices = world::devices(
        experiment,
        schedule.devices,
        &fabric,
        mine,
        folder,
        options,
        &writer,
        &mut simulators,
        &mut gateways,
    );
    metrics::begin(&mut nodes, &mut devices, experiment.belljar.metrics_interval);
    nodes.iter_mut().for_each(|node| node.live.clone_from(&options.live));
    devices.iter_mut().for_each(|device| device.live.clone_from(&options.live));
    if let Some(first) = nodes.first_mut().filter(|node| node.id() == HostId(0)) {
        begin_attended(first, options, experiment.general.stop_time);
    }
    options.attach.complete();
    let hosts = nodes.into_iter().map(|node| (node.id(), WorldNode::Host(Box::new(node))));
    let devices = devices.into_iter().map(|device| (device.id(), WorldNode::Device(Box::new(device))));
    let mut world = Engine::of_cell(hosts.chain(devices), grouping);
    let engine =
        &Options { watched: options.watched.as_deref(), fetch: Some(belljar_platform::fetch), ..*engine };
    let pace = clock.filter(|_| options.paced);
    let observe = |committed| {
        if let Some(clock) = &pace {
            clock.wait_for(committed, || options.interrupt.load(Relaxed) || options.attach.is_wanted());
        }
        let is_failing = || writer.has_failed() || foreign_failure.get().is_some();
        let verdict = match (observe(committed), &options.live) {
            (Verdict::Continue, Some(live)) => {
                let is_called = || {
                    let is_wanted = options.debug.is_wanted() || options.attach.is_wanted();
                    options.interrupt.load(Relaxed) || is_wanted || is_failing()
                };
                live.pass(committed, is_called, || options.attach.is_busy_at(committed))
            }
            // Input and output do not wait for the end of a long window.
            (Verdict::Continue, None) if options.attach.is_busy() => Verdict::Until(committed + BUSY_STEP),
            (verdict, _) => verdict,
        };
        match verdict {
            _ if is_failing() => Verdict::Stop,
            _ if options.interrupt.load(Relaxed) => Verdict::Stop,
            Verdict::Continue | Verdict::Until(_) if options.debug.take_wanted() => Verdict::Attend,
            Verdict::Continue | Verdict::Until(_) if options.attach.take_wanted(committed, pace.as_ref()) => {
                Verdict::Attend
            }
            verdict => verdict,
        }
    };
    let stop = experiment.general.stop_time;
    let ending = world.run_in(cell, stop, engine, observe);
    options.live.iter().for_each(|live| live.end());
    doing(Phase::Writing);
    let (committed, profile) = (world.committed(), world.profile().cloned());
    let (mut nodes, mut devices) = (Vec::new(), Vec::new());
    for (_, node) in world.into_nodes() {
        match node {
            WorldNode::Host(host) => nodes.push(*host),
            WorldNode::Device(device) => devices.push(*device),
        }
    }
    writer.close();
    let mut failure = None;
    for device in &mut devices {
        device.finish_output(committed);
        failure = failure.or(device.output.error.take());
    }
    for node in &mut nodes {
        node.finish_output();
        failure = failure.or(node.output_error());
    }
    if let Err(error) = sdk::finish(experiment, nodes.iter().map(HostNode::id), folder) {
        let _ = foreign_failure.set(error.to_string());
    }
    simulators.judge_apart();
    let mut part = Part {
        files_read: manifest::files_read(&nodes, folder),
        written: outcome::written(experiment, &nodes, &devices),
        metrics: metrics::collect(experiment, &mut nodes, &mut devices, committed),
        flows: flows::collect(experiment, &nodes),
        choices: experiment.choices.report(),
        statistics: outcome::statistics(experiment, &nodes, &devices, committed),
        failure: foreign_failure.get().cloned().or(failure.map(|error| error.to_string())),
        ending,
        profile,
    };
    // Dropping the devices closes the channels.
    drop(devices);
    let was_interrupted = options.interrupt.load(Relaxed);
    for warning in simulators.end(ending, &options.interrupt) {
        *part.statistics.warnings.entry(warning).or_default() += 1;
    }
    part.failure = part.failure.or(foreign_failure.get().cloned());
    if options.interrupt.load(Relaxed) && !was_interrupted {
        part.ending = Ending::Stopped;
    }
    doing(Phase::Waiting);
    part
}

/// Prepares the first host of a run that stands, or whose process has a terminal.
fn begin_attended(first: &mut HostNode, options: &RunOptions, stop: SimTime) {
    if !options.attach.stands() {
        return;
    }
    let last = SimTime::from_picos(stop.as_picos().saturating_sub(1));
    first.keep_running(last);
    if options.console.is_none() {
        options.attach.keep_until(last);
    }
    if let Some((stream, command)) = options.console.as_deref()
        && let Ok(stream) = stream.try_clone()
    {
        first.begin_console(stream, command.clone());
    }
}

/// Writes the files of the virtual machines that are `mine`. The error is one sentence.
fn machines(
    experiment: &Experiment,
    fabric: &Fabric,
    mine: impl Fn(HostId) -> bool,
    folder: &ResultsFolder,
) -> Result<(), String> {
    let ids = (0..experiment.hosts.len() as u32).map(HostId).filter(|id| mine(*id));
    for setup in ids.filter_map(|id| belljar_plan::machine(experiment, id, fabric.first())) {
        let name = &setup.host.name;
        let written = setup.write(&folder.host(name), &belljar_plan::machine_names(experiment));
        written.map_err(|error| format!("the machine of host '{name}' cannot be made: {error}"))?;
    }
    Ok(())
}

/// Merges the parts of a run, the `first` cell's and the others', and writes the results.
pub fn conclude(
    experiment: &Experiment,
    folder: &ResultsFolder,
    first: Part,
    others: impl IntoIterator<Item = Part>,
) -> Result<Finished, SimError> {
    let mut all = first;
    for part in others {
        all.statistics.add(part.statistics);
        all.files_read.extend(part.files_read);
        all.metrics.add(part.metrics);
        all.flows.add(part.flows);
        all.choices.merge(part.choices);
        all.failure = all.failure.or(part.failure);
    }
    match &all.failure {
        // The parts of the run ended at different times: packets between them are in no account.
        Some(failure) => all.statistics.interrupted = Some(failure.clone()),
        None => all.statistics.check_accounts(),
    }
    for problem in experiment.choices.forced().map(|forced| all.choices.problems(forced)).unwrap_or_default()
    {
        all.statistics.warnings.insert(format!("{UNFORCED}{problem}"), 1);
    }
    manifest::write(&all.files_read, &all.statistics.attended, folder)?;
    if experiment.belljar.metrics_interval.is_some() {
        metrics::write(all.metrics, experiment, folder)?;
    }
    all.statistics.models = flows::write(all.flows, experiment, folder)?;
    folder.write(names::STATISTICS, all.statistics.to_json().as_bytes())?;
    match all.failure {
        Some(error) => Err(SimError::Output(error)),
        None => Ok(Finished {
            statistics: all.statistics,
            ending: all.ending,
            profile: all.profile,
            choices: all.choices,
        }),
    }
}
