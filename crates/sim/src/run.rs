//! Running a world from its first event to its last.

use crate::outcome;
use crate::world;
use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_engine::{Ending, Engine, Verdict};
use belljar_kernel::Output;
use belljar_results::{ResultsError, ResultsFolder, Statistics};
use std::path::PathBuf;

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
}

impl Finished {
    /// Whether every process ended as the experiment expects.
    pub fn as_expected(&self) -> bool {
        self.statistics.hosts.values().flat_map(|host| &host.processes).all(|process| process.as_expected)
    }
}

/// Runs `experiment` into `folder`. `observe` is told the simulated time after each window and says
/// whether to go on.
pub fn run(
    experiment: &Experiment,
    folder: &ResultsFolder,
    options: &RunOptions,
    mut observe: impl FnMut(SimTime) -> Verdict,
) -> Result<Finished, SimError> {
    let (nodes, fabric) = world::build(experiment, folder, options);
    let lookahead = fabric.least_latency();
    let mut engine = Engine::new(nodes, lookahead);
    let mut failure = None;
    let ending = engine.run(experiment.general.stop_time, |engine| {
        failure = engine.nodes_mut().iter_mut().find_map(|node| node.output_error());
        if failure.is_some() { Verdict::Stop } else { observe(engine.committed()) }
    });
    for node in engine.nodes_mut() {
        node.finish_output();
        failure = failure.or(node.output_error());
    }
    let statistics = outcome::statistics(experiment, engine.nodes(), engine.committed());
    folder.write("sim-stats.json", statistics.to_json().as_bytes())?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(Finished { statistics, ending }),
    }
}
