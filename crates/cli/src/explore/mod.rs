//! `belljar explore`: the campaign. `belljar-explore` decides what is run, [`executor`] runs it, [`store`] keeps
//! what is known, and [`report`] writes it down.

mod executor;
mod order;
mod report;
mod store;

use crate::failure::Failure;
use crate::{progress, signals};
use belljar_base::SimTime;
use belljar_config::{Claim, Experiment, Exploration, Overrides, Setting};
use belljar_explore::{Explored, Finding, ForcedChoice, Shrunk, Tally, Trial, Verdict, shrink};
use belljar_net::units::format_duration;
use executor::{Executor, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use order::InOrder;
use report::Report;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use store::Store;

/// Runs an experiment many times under drawn faults, and shrinks each failure to the smallest run that shows it.
///
/// A failure is a process that does not end as expected, or a property that does not hold. The section 'explore' of the experiment says
/// which faults are drawn, where and when; without it, all kinds are drawn for the hosts whose processes are expected to run.
///
/// The exit status is 0 if no run failed, 1 if one did.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar explore service.yaml --budget 5min\n  belljar explore service.yaml --budget 2000runs -j 4 -o service.explore\n  belljar explore service.yaml --budget 1h --first\n\nA campaign that was interrupted goes on when the same command is given again: what was run is not run again."
)]
pub struct Arguments {
    /// The experiment file
    file: PathBuf,
    /// How much to run: a time ("10min") or a number of runs ("5000runs")
    #[arg(long, value_name = "TIME|RUNS", default_value = "1min", value_parser = Budget::parse)]
    budget: Budget,
    /// Number of runs at a time [default: the number of processors]. Findings don't depend on it
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// The campaign's folder [default: the file's name with .explore, in the current folder]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Forget an earlier campaign in this folder
    #[arg(long)]
    force: bool,
    /// End at the first failure
    #[arg(long)]
    first: bool,
    /// Largest number of runs for the shrinking of one failure; 0 shrinks nothing
    #[arg(long, value_name = "N", default_value_t = 300)]
    shrink: usize,
    /// Real time after which a run is ended and counted as a failure
    #[arg(long, value_name = "TIME", default_value = "10 min", value_parser = parse_real_time)]
    timeout: Duration,
    /// Seed of run 0, which has no faults; run N has this seed plus N
    #[arg(long, env = "BELLJAR_SEED")]
    seed: Option<u64>,
    /// Set a value of the experiment, whatever the file says, as `belljar run` does
    #[arg(long, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Show no progress line
    #[arg(long)]
    no_progress: bool,
}

/// Size of a campaign.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Budget {
    Time(Duration),
    Runs(u64),
}

impl Budget {
    fn parse(text: &str) -> Result<Budget, String> {
        match text.strip_suffix("runs").or(text.strip_suffix("run")) {
            Some(number) => match number.trim().parse() {
                Ok(0) | Err(_) => Err("give a number of runs, as in 5000runs".to_owned()),
                Ok(runs) => Ok(Budget::Runs(runs)),
            },
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(format!("write {text}runs, {text}s or {text}min"))
            }
            None => parse_real_time(text).map(Budget::Time),
        }
    }
}

/// Parses a real time, not 0.
fn parse_real_time(text: &str) -> Result<Duration, String> {
    let time = belljar_config::parse_time(text)?;
    match time.as_nanos() {
        0 => Err("it must not be 0".to_owned()),
        nanos => Ok(Duration::from_nanos(nanos)),
    }
}

/// A run that has ended.
struct Run {
    number: u64,
    trial: Trial,
    outcome: Result<Outcome, Failure>,
}

/// A campaign.
struct Campaign<'a> {
    arguments: &'a Arguments,
    experiment: &'a Experiment,
    explored: Explored<'a>,
    executor: Executor,
    jobs: usize,
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

/// Loads the experiment, explores it and reports.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let began = progress::now();
    let experiment = load(arguments)?;
    let mut explore = experiment.exploration();
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&arguments.file));
    let store = Store::open(&folder, &experiment, arguments.force)?;
    let stop = Arc::new(AtomicBool::new(false));
    let of_handler = stop.clone();
    signals::handle(move || of_handler.store(true, Relaxed)).map_err(Failure::run)?;
    let executor = Executor::new(store, arguments.timeout, stop.clone())?;
    let jobs = arguments
        .jobs
        .map_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get), NonZeroUsize::get);
    let shows_bar = !arguments.no_progress && std::io::stderr().is_terminal();
    let bar = if shows_bar { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.set_style(
        ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    if experiment.properties.iter().any(|property| property.claim == Claim::Assertions) {
        begin_after_setup(&experiment, &mut explore, &executor)?;
    }
    let explored = Explored::new(&experiment, &explore);
    let campaign = Campaign { arguments, experiment: &experiment, explored, executor, jobs, stop, bar };
    let tally = campaign.explore(began)?;
    let searched = began.elapsed();
    let mut shrunk = Vec::new();
    for finding in &tally.findings {
        shrunk.push(campaign.shrink(finding)?);
    }
    campaign.bar.finish_and_clear();
    let report = Report {
        file: &arguments.file,
        folder: &folder,
        experiment: &experiment,
        tally: &tally,
        shrunk: &shrunk,
        searched,
        jobs,
        executed: campaign.executor.executed(),
        is_interrupted: campaign.stop.load(Relaxed),
    };
    print!("{}", report.text());
    report.write_json()?;
    let status = u8::from(!tally.findings.is_empty() || report.is_interrupted);
    Ok(ExitCode::from(signals::status().unwrap_or(status)))
}

fn load(arguments: &Arguments) -> Result<Experiment, Failure> {
    if arguments.file == Path::new("-") {
        return Err(Failure::usage("a campaign needs a file: it may have to be loaded again"));
    }
    let mut experiment = Experiment::load_with(&arguments.file, &arguments.set).map_err(Failure::input)?;
    experiment.apply_overrides(&Overrides { seed: arguments.seed, ..Overrides::default() });
    for note in &experiment.notes {
        eprintln!("note: {note}");
    }
    if experiment.has_gateways() {
        return Err(Failure::usage(
            "an experiment with 'gateways' depends on the machine's network: no run of it can be repeated",
        ));
    }
    if experiment.exploration().hosts.is_empty() {
        return Err(Failure::usage("no host runs a program, so none can fail"));
    }
    Ok(experiment)
}

fn default_folder(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or(file.as_os_str());
    let mut name = stem.to_owned();
    name.push(".explore");
    name.into()
}

/// Lets faults begin once the programs of run 0 have reported their setup as complete, if they do.
fn begin_after_setup(
    experiment: &Experiment,
    explore: &mut Exploration,
    executor: &Executor,
) -> Result<(), Failure> {
    let trial = Trial::of_run(&Explored::new(experiment, explore), 0);
    let Outcome::Complete(Verdict { setup: Some(setup), .. }) = executor.execute(&trial)? else {
        return Ok(());
    };
    let setup = SimTime::from_nanos((setup * 1e9).ceil() as u64);
    if setup + explore.lasting.0 > explore.between.1 {
        return Err(Failure::usage(format!(
            "the setup is complete at {}, after which no fault fits before the end of 'between', {}",
            format_duration(setup.since(SimTime::ZERO)),
            format_duration(explore.between.1.since(SimTime::ZERO))
        )));
    }
    explore.between.0 = explore.between.0.max(setup);
    Ok(())
}

impl Campaign<'_> {
    /// Executes runs in parallel, and adds them up in the order of their numbers.
    fn explore(&self, began: Instant) -> Result<Tally, Failure> {
        let next = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.jobs {
                let (next, is_over, sender) = (&next, &is_over, sender.clone());
                scope.spawn(move || self.work(began, next, is_over, &sender));
            }
            drop(sender);
            let tally = self.add_up(began, &receiver);
            is_over.store(true, Relaxed);
            tally
        })
    }

    /// Executes runs until the budget is spent or the campaign is over.
    fn work(&self, began: Instant, next: &AtomicU64, is_over: &AtomicBool, ended: &mpsc::Sender<Run>) {
        let (most, time) = match self.arguments.budget {
            Budget::Runs(runs) => (runs, Duration::MAX),
            Budget::Time(time) => (u64::MAX, time),
        };
        loop {
            // Run 0 is executed whatever the budget is.
            let number = next.fetch_add(1, Relaxed);
            let is_late = number >= most || number > 0 && began.elapsed() >= time;
            if is_late || is_over.load(Relaxed) || self.stop.load(Relaxed) {
                return;
            }
            let trial = Trial::of_run(&self.explored, number);
            let outcome = self.executor.execute(&trial);
            if ended.send(Run { number, trial, outcome }).is_err() {
                return;
            }
        }
    }

    /// Adds runs up until all have ended, or one ends the campaign.
    fn add_up(&self, began: Instant, ended: &mpsc::Receiver<Run>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        let mut runs = InOrder::new();
        for run in ended {
            runs.add(run.number, run);
            while let Some(Run { number, trial, outcome }) = runs.next() {
                // What an interruption has cut off is no run.
                let Some(verdict) = self.verdict(number, &trial, outcome?)? else { return Ok(tally) };
                self.add(&mut tally, &trial, &verdict, began);
                // A failure without any fault would be found in every run.
                let fails_alone = tally.runs == 1 && !tally.findings.is_empty();
                if fails_alone || self.arguments.first && !tally.findings.is_empty() {
                    return Ok(tally);
                }
            }
        }
        Ok(tally)
    }

    /// Verdict of a run of the campaign; `None` for one that was cut off.
    fn verdict(&self, run: u64, trial: &Trial, outcome: Outcome) -> Result<Option<Verdict>, Failure> {
        match outcome {
            Outcome::Complete(verdict) => Ok(Some(verdict)),
            Outcome::Interrupted => Ok(None),
            Outcome::Refused(message) => {
                let faults = trial.event_lines().join("\n  ");
                Err(Failure::run(format!("run {run} cannot be executed: {message}\nits events:\n  {faults}")))
            }
        }
    }

    fn add(&self, tally: &mut Tally, trial: &Trial, verdict: &Verdict, began: Instant) {
        let known = tally.findings.len();
        tally.add(&trial.faults, verdict);
        for finding in &tally.findings[known..] {
            let text = format!("run {}: {}: {}", finding.run, finding.symptom.text, finding.evidence);
            self.bar.suspend(|| eprintln!("found in {text}"));
        }
        let rate = tally.runs as f64 / began.elapsed().as_secs_f64().max(1e-9);
        let failing: Vec<String> = tally
            .findings
            .iter()
            .map(|finding| format!("{} x {}", finding.count, finding.symptom.text))
            .collect();
        let failing = if failing.is_empty() { "none failed".to_owned() } else { failing.join(", ") };
        let unreached = tally.unreached(self.experiment);
        let unreached = if unreached.is_empty() {
            String::new()
        } else {
            format!(" | not yet reached: {}", unreached.join(", "))
        };
        self.bar.set_message(format!("{} runs, {rate:.1} a second | {failing}{unreached}", tally.runs));
        self.bar.tick();
    }

    /// Shrinks a finding and writes it down. An interruption leaves it as large as it is by then.
    fn shrink(&self, finding: &Finding) -> Result<Shrunk, Failure> {
        let trial = Trial::of_run(&self.explored, finding.run);
        let forced = match self.executor.execute(&trial)? {
            Outcome::Complete(verdict) => verdict.forced,
            Outcome::Interrupted | Outcome::Refused(_) => Vec::new(),
        };
        let mut shrinking = Shrinking { campaign: self, finding, before: trial.faults.len(), tried: 0 };
        let shrunk = shrink(trial, &finding.symptom, &forced, self.arguments.shrink, &mut shrinking)?;
        self.executor.write_finding(finding, &shrunk.trial)?;
        Ok(shrunk)
    }

    /// Index of the first of these trials that shows the symptom of a finding.
    fn first_that_shows(&self, finding: &Finding, trials: &[Trial]) -> Result<Option<usize>, Failure> {
        let next = AtomicU64::new(0);
        // A trial behind one that is known to show the symptom is not executed.
        let shows =
            |trial: &Trial| self.executor.known(trial).is_some_and(|verdict| verdict.shows(&finding.symptom));
        let best = AtomicU64::new(trials.iter().position(shows).map_or(u64::MAX, |index| index as u64));
        let results: Vec<Result<(), Failure>> = thread::scope(|scope| {
            let work = || -> Result<(), Failure> {
                loop {
                    let index = next.fetch_add(1, Relaxed);
                    let Some(trial) = trials.get(index as usize) else { return Ok(()) };
                    if index > best.load(Relaxed) || self.stop.load(Relaxed) {
                        return Ok(());
                    }
                    // A trial that is refused, or cut off, shows nothing.
                    if let Outcome::Complete(verdict) = self.executor.execute(trial)?
                        && verdict.shows(&finding.symptom)
                    {
                        best.fetch_min(index, Relaxed);
                    }
                }
            };
            let workers: Vec<_> = (0..self.jobs.min(trials.len())).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().expect("workers do not panic")).collect()
        });
        results.into_iter().collect::<Result<(), Failure>>()?;
        let best = best.into_inner();
        // After an interruption, an earlier trial may not have been tried.
        Ok((best != u64::MAX && !self.stop.load(Relaxed)).then_some(best as usize))
    }
}

/// Execution of the trials of one finding's shrinking.
struct Shrinking<'a> {
    campaign: &'a Campaign<'a>,
    finding: &'a Finding,
    /// Number of faults at first.
    before: usize,
    /// Number of trials so far.
    tried: usize,
}

impl Shrinking<'_> {
    fn show(&mut self, trials: usize) {
        self.tried += trials;
        let Shrinking { campaign, finding, before, tried } = self;
        let symptom = &finding.symptom.text;
        campaign.bar.set_message(format!("shrinking {symptom} ({before} faults at first, {tried} runs)"));
        campaign.bar.tick();
    }
}

impl belljar_explore::Executor for Shrinking<'_> {
    type Error = Failure;
    fn first_that_shows(&mut self, trials: &[Trial]) -> Result<Option<usize>, Failure> {
        self.show(trials.len());
        self.campaign.first_that_shows(self.finding, trials)
    }
    fn unusual_choices(&mut self, trial: &Trial) -> Result<Vec<ForcedChoice>, Failure> {
        self.show(1);
        self.campaign.executor.unusual_choices(trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets() {
        assert_eq!(Budget::parse("5000runs"), Ok(Budget::Runs(5_000)));
        assert_eq!(Budget::parse("1 run"), Ok(Budget::Runs(1)));
        assert_eq!(Budget::parse("10min"), Ok(Budget::Time(Duration::from_secs(600))));
        assert!(Budget::parse("10").is_err_and(|message| message.contains("10runs")));
        assert!(Budget::parse("0runs").is_err());
        assert!(Budget::parse("0 s").is_err());
        assert!(Budget::parse("soon").is_err());
    }

    #[test]
    fn the_folder_is_named_after_the_file() {
        assert_eq!(default_folder(Path::new("a/service.yaml")), Path::new("service.explore"));
    }
}
