//! Backends: what an experiment runs on. [`conduct`] is the course of every run: load, refuse, run, sum up.

use crate::experiment_options;
use crate::failure::Failure;
use crate::log::Log;
use crate::paint::info;
use crate::signals;
use belljar_base::SimTime;
use belljar_config::{Experiment, Refusal, Setting};
use belljar_plan::{collect_coverage, cut_windows, drawn_events, judge_properties};
use belljar_results::{ProcessStatistics, ResultsFolder, Scratch, Statistics, Summary, Unreached, names};
use std::path::Path;
use std::time::{Duration, Instant};

/// A backend with the options of its command.
pub trait Backend {
    /// Settings of a run, checked against the experiment.
    type Settings;

    /// Options that all backends share.
    fn options(&self) -> &experiment_options::Arguments;
    /// Loads the experiment, and refuses one that this backend cannot run as the options ask.
    fn prepare(&self) -> Result<(Experiment, Self::Settings), Failure>;
    /// True if this process reports on the run; other ranks of the same run do not.
    fn reports(&self) -> bool {
        true
    }
    /// True if standard output has something else than the summary.
    fn has_output(&self) -> bool {
        false
    }
    /// Note on what differs from a simulation.
    fn note(&self, _experiment: &Experiment, _settings: &Self::Settings) -> Option<String> {
        None
    }
    /// Makes the results folder.
    fn create_folder(&self, experiment: &Experiment) -> Result<ResultsFolder, Failure> {
        let hosts = experiment.hosts.iter().map(|host| host.name.as_str());
        self.options().create_folder(experiment, hosts)
    }
    /// Runs the experiment and leaves its results in the folder.
    fn run(&self, job: &Job, settings: Self::Settings) -> Result<Outcome, Failure>;
}

/// A run that begins.
pub struct Job<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Results folder of the run.
    pub folder: &'a ResultsFolder,
    /// The log in Shadow's format.
    pub log: &'a Log,
    /// Start of the command.
    pub began: Instant,
}

/// End of a run.
pub enum Outcome {
    /// This process ran a part; another process reports. The value is the exit status.
    Part(u8),
    /// The run is complete.
    Complete(Box<Complete>),
}

/// Results of a complete run.
pub struct Complete {
    /// Statistics of the run.
    pub statistics: Statistics,
    /// Duration of the run in real time.
    pub real_time: Duration,
    /// Reason of an early end.
    pub interrupted: Option<&'static str>,
    /// True if the run was in real time on a real kernel.
    pub emulated: bool,
    /// Text printed after the summary.
    pub appendix: String,
}

impl Outcome {
    /// Outcome of a run on a real kernel.
    pub fn of_real(job: &Job, statistics: Statistics, interrupted: bool, appendix: String) -> Outcome {
        Outcome::Complete(Box::new(Complete {
            statistics,
            real_time: job.began.elapsed(),
            interrupted: interrupted.then_some("interrupted"),
            emulated: true,
            appendix,
        }))
    }
}

/// Runs an experiment on a backend. The exit status is 0 only if every process ended as expected and every property holds.
/// `began` is the start of the command.
pub fn conduct(backend: &impl Backend, began: Instant) -> Result<u8, Failure> {
    Scratch::sweep(&std::env::temp_dir());
    let (experiment, settings) = backend.prepare()?;
    let options = backend.options();
    if backend.reports() {
        let notes = [cut_windows(&experiment), experiment.idle_notes()].concat();
        for note in experiment.notes.iter().chain(&notes) {
            note_on(options, note);
        }
        if let Some(note) = backend.note(&experiment, &settings) {
            note_on(options, &note);
        }
    }
    let log = if backend.reports() { options.log(&experiment) } else { Log::new(false, &experiment) };
    let folder = backend.create_folder(&experiment)?;
    if options.is_verbose() && backend.reports() {
        info(&size(&experiment));
        info(&format!("results in {}", folder.path().display()));
    }
    let job = Job { experiment: &experiment, folder: &folder, log: &log, began };
    let mut complete = match backend.run(&job, settings)? {
        Outcome::Part(status) => return Ok(status),
        Outcome::Complete(complete) => complete,
    };
    complete.statistics.interrupted = complete.interrupted.map(str::to_owned);
    complete.statistics.drawn_events = experiment.events_yaml(&drawn_events(&experiment));
    complete.statistics.properties =
        judge_properties(&experiment, &folder, &complete.statistics).map_err(Failure::run)?;
    complete.statistics.coverage = collect_coverage(&experiment, &folder).map_err(Failure::run)?;
    complete.statistics.unreached = unreached(&experiment, complete.statistics.simulated_seconds);
    let Statistics { drawn_events, properties, unreached, .. } = &complete.statistics;
    let is_added = !drawn_events.is_empty() || !properties.is_empty() || !unreached.is_empty();
    if complete.interrupted.is_some() || is_added {
        folder.write(names::STATISTICS, complete.statistics.to_json().as_bytes()).map_err(Failure::run)?;
    }
    let summary = Summary {
        statistics: &complete.statistics,
        real_time: complete.real_time,
        results: options.results(&experiment),
        interrupted: complete.interrupted,
        emulated: complete.emulated,
    };
    log.finished(&complete.statistics);
    if options.is_verbose() {
        endings(&complete.statistics).iter().for_each(|line| info(line));
    }
    if !options.is_quiet() {
        let text = format!("{summary}\n{}", complete.appendix);
        match backend.has_output() {
            true => eprint!("{text}"),
            false => print!("{text}"),
        }
    }
    match complete.interrupted {
        Some(_) => Ok(signals::status().unwrap_or(1)),
        None => Ok(u8::from(!complete.statistics.as_expected())),
    }
}

/// Size of an experiment in a line.
fn size(experiment: &Experiment) -> String {
    let count = |number: usize, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}s")),
    };
    let hosts = &experiment.hosts;
    let parts = [
        count(hosts.len(), "host"),
        count(experiment.topology.devices.len(), "device"),
        count(experiment.topology.links.len(), "link"),
        count(hosts.iter().map(|host| host.programs().len()).sum(), "program"),
        count(hosts.iter().map(|host| host.models.len()).sum(), "model"),
        count(experiment.events.len(), "event"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!(
        "{}; seed {}, until {} s",
        parts.join(", "),
        experiment.general.seed,
        experiment.general.stop_time.as_secs_f64()
    )
}

/// End of each process, in a line each.
fn endings(statistics: &Statistics) -> Vec<String> {
    let of_hosts =
        statistics.hosts.iter().flat_map(|(name, host)| host.processes.iter().map(move |p| (name, p)));
    let line = |(name, process): (&String, &ProcessStatistics)| {
        let at = process.ended.map_or(String::new(), |at| format!(" at {at} s"));
        let pid = process.pid.map_or(String::new(), |pid| format!(".{pid}"));
        format!("host '{name}': {}{pid} {}{at}", process.program, process.state)
    };
    of_hosts.map(line).collect()
}

/// Events and settings of an experiment that act only after the end of its run.
fn unreached(experiment: &Experiment, end: f64) -> Vec<Unreached> {
    let end = SimTime::from_nanos((end * 1e9).round() as u64);
    let stop = experiment.general.stop_time;
    if end >= stop {
        return Vec::new();
    }
    let events = belljar_plan::unreached(experiment, end).into_iter();
    let mut all: Vec<(SimTime, String)> =
        events.map(|(at, event)| (at, format!("event {{ {} }}", experiment.event_text(event)))).collect();
    let bootstrap = experiment.general.bootstrap_end_time;
    let sample = experiment.belljar.metrics_interval.map(|interval| SimTime::ZERO + interval);
    let settings = [
        (Some(bootstrap), "bootstrap_end_time, before which no rate and no loss of the network applies"),
        (sample, "the first sample of the metrics"),
    ];
    for (at, what) in settings {
        // Times that no run reaches are in the notes of the experiment.
        all.extend(at.filter(|at| *at > end && *at < stop).map(|at| (at, what.to_owned())));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(at, what)| Unreached { time: at.as_secs_f64(), what }).collect()
}

/// Prints a note, unless the run is quiet.
fn note_on(options: &experiment_options::Arguments, note: &str) {
    if !options.is_quiet() {
        crate::paint::note(note);
    }
}

/// Refuses an experiment for all the reasons that a backend has, each at its position in the file, or in the settings of the command line.
pub fn refuse(file: &Path, settings: &[Setting], refusals: &[Refusal]) -> Result<(), Failure> {
    if refusals.is_empty() {
        return Ok(());
    }
    let errors = Refusal::locate(refusals, file, settings);
    Err(Failure::input(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}
