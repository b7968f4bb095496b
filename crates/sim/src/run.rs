//! Running a world from its first event to its last.

use crate::manifest;
use crate::metrics;
use crate::outcome;
use crate::world;
use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_engine::{Ending, Engine, Options, Profile, Verdict};
use belljar_kernel::Output;
use belljar_results::{ResultsError, ResultsFolder, Statistics};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How a run differs from what the experiment says.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Where the standard streams of processes lead.
    pub output: Output,
    /// The working directory of all processes, if not their host's folder in the results.
    pub working_directory: Option<PathBuf>,
    /// Paths of this machine that guests see although they lie below a directory that starts empty
    /// on a host, such as `/tmp`: the folder of the experiment file.
    pub exposed: Vec<PathBuf>,
    /// Set from outside, it makes hosts leave their window at once instead of finishing it. The
    /// observer must say [`Verdict::Stop`] then.
    pub interrupt: Arc<AtomicBool>,
}

/// Why a run could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// Results could not be written.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

/// A run that has come to an end.
#[derive(Debug)]
pub struct Finished {
    /// What happened.
    pub statistics: Statistics,
    /// Why it ended.
    pub ending: Ending,
    /// Where the time went, if that was measured.
    pub profile: Option<Profile>,
}

impl Finished {
    /// Whether every process ended as the experiment expects.
    pub fn as_expected(&self) -> bool {
        self.statistics.hosts.values().flat_map(|host| &host.processes).all(|process| process.as_expected)
    }
}

/// Runs `experiment` into `folder`, by workers as `engine` says. `observe` is told before each window
/// the simulated time that has passed and says whether to go on.
pub fn run(
    experiment: &Experiment,
    folder: &ResultsFolder,
    options: &RunOptions,
    engine: &Options<'_>,
    observe: impl Fn(SimTime) -> Verdict + Sync,
) -> Result<Finished, SimError> {
    let failed = Arc::new(AtomicBool::new(false));
    let (mut nodes, fabric) = world::build(experiment, folder, options, &failed);
    metrics::begin(&mut nodes, experiment.belljar.metrics_interval);
    let mut world = Engine::new(nodes, fabric.plan(engine.workers));
    let ending = world.run(experiment.general.stop_time, engine, |committed| {
        if failed.load(Relaxed) { Verdict::Stop } else { observe(committed) }
    });
    let (committed, profile) = (world.committed(), world.profile().cloned());
    let mut nodes = world.into_nodes();
    let mut failure = None;
    for node in &mut nodes {
        node.finish_output();
        failure = failure.or(node.output_error());
    }
    manifest::write(&nodes, folder)?;
    metrics::write(&mut nodes, committed, folder)?;
    let statistics = outcome::statistics(experiment, &nodes, committed);
    folder.write("sim-stats.json", statistics.to_json().as_bytes())?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(Finished { statistics, ending, profile }),
    }
}
