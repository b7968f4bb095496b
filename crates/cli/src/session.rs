//! Runs a simulation on a thread of its own, while this thread handles signals and displays progress.

use crate::bug;
use crate::control;
use crate::failure::Failure;
use crate::live;
use crate::log::Log;
use crate::profile::WorkerTimes;
use crate::progress::{self, Display, Progress};
use crate::signals;
use crate::tty;
use crate::waits::Lookout;
use crate::workers::{Workers, thread_time_ns};
use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_engine::{Ending, Options, Verdict};
use belljar_results::ResultsFolder;
use belljar_sim::{CellExchange, Part, RunOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Interval between updates of the progress display, in real time.
const REFRESH: Duration = Duration::from_millis(100);

/// State shared between the simulating thread and the watching one.
#[derive(Default)]
struct Shared {
    committed_ps: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Shared {
    fn committed(&self) -> SimTime {
        SimTime::from_picos(self.committed_ps.load(Relaxed))
    }
}

/// Runs the experiment, or one cell's part of it. The first Ctrl-C (or SIGTERM, SIGHUP) ends the run in order
/// and keeps its results; the second one ends it at once. Returns the part, and the workers' sampled
/// activities if they are watched.
pub fn run(
    experiment: &Experiment,
    folder: &ResultsFolder,
    options: &RunOptions,
    workers: &Workers,
    log: &Log,
    display: Display,
    exchange: Option<&CellExchange>,
) -> Result<(Part, Option<WorkerTimes>), Failure> {
    belljar_platform::init().map_err(Failure::run)?;
    let shared = Arc::new(Shared::default());
    let of_handler = shared.clone();
    // Another rank may have been interrupted first; the launcher's signal is then this rank's first.
    let signalled = AtomicBool::new(false);
    signals::handle(move || {
        if signalled.swap(true, Relaxed) {
            live::restore_terminal();
            tty::restore();
            signals::exit();
        }
        of_handler.stop.store(true, Relaxed);
    })
    .map_err(Failure::run)?;
    bug::watch();
    let progress = Progress::new(display, experiment.general.stop_time);
    let place = |worker| workers.place(worker);
    let engine = Options {
        workers: workers.count,
        stealing: workers.stealing,
        spinning: workers.spinning,
        waiters: workers.waiters(),
        sleeping: workers.sleeping,
        on_start: Some(&place),
        watched: None,
        clock: Some(&thread_time_ns),
        profiled: workers.profile,
        fetch: None,
    };
    let options = RunOptions { interrupt: shared.stop.clone(), ..options.clone() };
    let (of_control, stop) = (shared.clone(), experiment.general.stop_time);
    let reached = Arc::new(move || (of_control.committed(), stop));
    let _control = control::Control::open(folder, exchange.map_or(0, |m| m.me() as usize), &options, reached);
    let watcher = thread::current();
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let simulation = thread::Builder::new().name("worker-0".into());
        let simulation = simulation.spawn_scoped(scope, || {
            let result =
                belljar_sim::run_part(experiment, folder, &options, &engine, exchange, &|committed| {
                    shared.committed_ps.store(committed.as_picos(), Relaxed);
                    log.heartbeat(committed);
                    if shared.stop.load(Relaxed) { Verdict::Stop } else { Verdict::Continue }
                });
            watcher.unpark();
            result
        });
        let simulation = simulation.map_err(Failure::run)?;
        let outlook = &*options.simulators.outlook;
        let watching = options
            .watched
            .as_deref()
            .map(|board| scope.spawn(move || WorkerTimes::watch(board, outlook, over)));
        let mut lookout = Lookout::default();
        while !simulation.is_finished() {
            if let Some(exchange) = exchange {
                if shared.stop.load(Relaxed) {
                    exchange.interrupt();
                } else if exchange.interrupted() {
                    shared.stop.store(true, Relaxed);
                }
            }
            let is_paused = options.live.as_ref().is_some_and(|live| live.position().0.is_paused);
            // During a pause, waiting for a simulator is not a delay of the run.
            let notes = if is_paused { Vec::new() } else { lookout.look(outlook, progress::now()) };
            for note in notes {
                progress.note(&note);
                options.live.iter().for_each(|live| live.note(&note));
            }
            progress.show(shared.committed(), is_paused, lookout.most());
            thread::park_timeout(REFRESH);
        }
        progress.finish();
        let ended = simulation.join();
        over.store(true, Relaxed);
        let seen = watching.and_then(|watching| watching.join().ok());
        ended.map(|part| (part, seen)).map_err(|_| bug::failure())
    })
}

/// Reason for an early end of a run, for the summary.
pub fn interruption(ending: Ending) -> Option<&'static str> {
    (ending == Ending::Stopped).then_some("interrupted")
}
