//! Execution of trials: each in a process of this program.

use super::store::{CHOICES, Store};
use crate::choices;
use crate::failure::Failure;
use crate::launch;
use belljar_base::choices::{ChoiceFile, ChoiceReport};
use belljar_explore::{Finding, ForcedCall, ForcedChoice, Observed, Symptom, Trial, Verdict};
use belljar_results::{Statistics, names};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Interval at which a waiting thread looks whether the campaign is interrupted.
const LOOK: Duration = Duration::from_millis(200);
/// Time in which an interrupted run ends.
const GRACE: Duration = Duration::from_secs(10);
/// Largest number of lines that are kept of the message of a run.
const LAST_LINES: usize = 20;

/// How a trial ended.
#[derive(Debug)]
pub enum Outcome {
    /// The run is complete.
    Complete(Verdict),
    /// The campaign was interrupted.
    Interrupted,
    /// The run was refused, or failed to run. The text is its message.
    Refused(String),
}

/// Files of a run beside its results.
struct Files {
    experiment: PathBuf,
    messages: PathBuf,
    /// Forced choices, if there are any.
    choices: Option<PathBuf>,
    /// File for the choices of the run, if they are to be recorded.
    record: Option<PathBuf>,
}

/// Executor of trials.
pub struct Executor {
    store: Mutex<Store>,
    running: PathBuf,
    launcher: Vec<OsString>,
    timeout: Duration,
    stop: Arc<AtomicBool>,
    executed: AtomicU64,
}

/// End of a process.
enum End {
    /// With this status; `None` if a signal killed it.
    Exited(Option<i32>),
    Late,
    Interrupted,
}

impl Executor {
    pub fn new(store: Store, timeout: Duration, stop: Arc<AtomicBool>) -> Result<Executor, Failure> {
        // Absolute, since the experiments in it are loaded from another folder.
        let running = fs::canonicalize(store.running()).map_err(Failure::run)?;
        let launcher = launch::launcher();
        Ok(Executor {
            store: Mutex::new(store),
            running,
            launcher,
            timeout,
            stop,
            executed: AtomicU64::new(0),
        })
    }

    /// Number of runs executed by this process; those known from before are not among them.
    pub fn executed(&self) -> u64 {
        self.executed.load(Relaxed)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verdict of a trial that was executed before.
    pub fn known(&self, trial: &Trial) -> Option<Verdict> {
        self.store().known(&Store::digest(&described(trial))).cloned()
    }

    /// Executes a trial, unless its verdict is known.
    pub fn execute(&self, trial: &Trial) -> Result<Outcome, Failure> {
        let digest = Store::digest(&described(trial));
        if let Some(verdict) = self.store().known(&digest) {
            return Ok(Outcome::Complete(verdict.clone()));
        }
        // Two equal trials may be executed at once.
        let number = self.executed.fetch_add(1, Relaxed);
        let results = self.running.join(format!("{number}.data"));
        let outcome = self.run(trial, &results, None)?;
        let _ = fs::remove_dir_all(&results);
        if let Outcome::Complete(verdict) = &outcome {
            self.store().keep(&digest, verdict)?;
        }
        Ok(outcome)
    }

    /// Choices of a trial's run other than their defaults. The trial is executed for them, whatever is known of it.
    pub fn unusual_choices(&self, trial: &Trial) -> Result<Vec<ForcedChoice>, Failure> {
        let number = self.executed.fetch_add(1, Relaxed);
        let results = self.running.join(format!("{number}.data"));
        let record = results.with_extension("recorded");
        let outcome = self.run(trial, &results, Some(&record))?;
        let _ = fs::remove_dir_all(&results);
        let text = fs::read_to_string(&record).unwrap_or_default();
        let _ = fs::remove_file(&record);
        let read = |(stream, index, value)| ForcedChoice { stream, index, value };
        match outcome {
            Outcome::Complete(_) => Ok(ChoiceReport::unusual(&text).into_iter().map(read).collect()),
            Outcome::Interrupted | Outcome::Refused(_) => Ok(Vec::new()),
        }
    }

    /// Runs a trial in a process of its own. The choices of the run are written to `record`.
    fn run(&self, trial: &Trial, results: &Path, record: Option<&Path>) -> Result<Outcome, Failure> {
        let experiment = results.with_extension("yaml");
        let messages = results.with_extension("messages");
        fs::write(&experiment, trial.experiment().to_yaml()).map_err(Failure::run)?;
        let choices = choice_text(trial).map(|text| (results.with_extension("choices"), text));
        if let Some((path, text)) = &choices {
            fs::write(path, text).map_err(Failure::run)?;
        }
        let choices = choices.map(|(path, _)| path);
        let files = Files { experiment, messages, choices, record: record.map(Path::to_owned) };
        let outcome = self.run_files(&files, results);
        for path in [Some(files.experiment), Some(files.messages), files.choices].into_iter().flatten() {
            let _ = fs::remove_file(path);
        }
        outcome
    }

    /// Runs the experiment of these files.
    fn run_files(&self, files: &Files, results: &Path) -> Result<Outcome, Failure> {
        let [own, launch] = &self.launcher[..] else {
            return Err(Failure::run("the path of this program is unknown"));
        };
        let mut command = Command::new(own);
        command.arg(launch).arg(std::process::id().to_string()).arg("--").arg(own);
        command.args(["run", "--no-progress", "-o"]).arg(results).arg(&files.experiment);
        for (option, path) in [("--choices", &files.choices), ("--record-choices", &files.record)] {
            if let Some(path) = path {
                command.arg(option).arg(path);
            }
        }
        let errors = File::create(&files.messages).map_err(Failure::run)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        // Ctrl-C reaches this process alone, which then ends its runs.
        command.process_group(0);
        let child = command.spawn().map_err(Failure::run)?;
        let end = self.wait(child)?;
        Ok(match end {
            End::Interrupted => Outcome::Interrupted,
            End::Late => Outcome::Complete(late(self.timeout)),
            End::Exited(status) => outcome(status, results, &files.messages),
        })
    }

    /// Waits for the end of a run, and ends it at its timeout or when the campaign is interrupted.
    fn wait(&self, mut child: Child) -> Result<End, Failure> {
        let id = Pid::from_child(&child);
        let handle = pidfd_open(id, PidfdFlags::empty()).map_err(Failure::run)?;
        let ends_within = |time: Duration| {
            let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
            matches!(poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&time)), Ok(1))
        };
        let mut left = self.timeout;
        let ended = loop {
            if ends_within(LOOK.min(left)) {
                break None;
            }
            left = left.saturating_sub(LOOK);
            if self.stop.load(Relaxed) {
                break Some(End::Interrupted);
            }
            if left.is_zero() {
                break Some(End::Late);
            }
        };
        if ended.is_some() {
            let _ = kill_process(id, Signal::TERM);
            if !ends_within(GRACE) {
                let _ = kill_process(id, Signal::KILL);
            }
        }
        let status = child.wait().map_err(Failure::run)?;
        Ok(ended.unwrap_or(End::Exited(status.code())))
    }

    /// Writes a finding: its experiment, its forced choices, a test that runs it, and its results.
    pub fn write_finding(&self, finding: &Finding, trial: &Trial) -> Result<(), Failure> {
        let name = slug(&finding.symptom.text);
        let folder = self.store().finding(&name).map_err(Failure::run)?;
        let folder = fs::canonicalize(folder).map_err(Failure::run)?;
        let text = trial.experiment().to_yaml();
        let experiment =
            format!("# {}: {}\n{text}", finding.symptom.text, finding.evidence.replace('\n', " "));
        fs::write(folder.join("experiment.yaml"), experiment).map_err(Failure::run)?;
        let choices = choice_text(trial);
        if let Some(text) = &choices {
            fs::write(folder.join(CHOICES), text).map_err(Failure::run)?;
        }
        let test = test(&name.replace('-', "_"), trial.seed(), choices.is_some());
        fs::write(folder.join(format!("test_{}.py", name.replace('-', "_"))), test).map_err(Failure::run)?;
        if !self.stop.load(Relaxed) {
            let results = self.running.join("finding.data");
            self.run(trial, &results, None)?;
            if results.is_dir() {
                fs::rename(&results, folder.join("results")).map_err(Failure::run)?;
            }
        }
        Ok(())
    }
}

/// What distinguishes a trial from others: its experiment, and its forced choices.
fn described(trial: &Trial) -> String {
    trial.experiment().to_yaml() + &choice_text(trial).unwrap_or_default()
}

/// Text of a trial's file of choices, if choices are not drawn.
fn choice_text(trial: &Trial) -> Option<String> {
    let experiment = Some(choices::digest(&trial.experiment()));
    Some(ChoiceFile { experiment, ..trial.choice_file()? }.text())
}

/// A test that runs a finding.
fn test(name: &str, seed: u64, has_choices: bool) -> String {
    let choices = if has_choices { format!(", choices=folder / \"{CHOICES}\"") } else { String::new() };
    format!(
        "import pathlib\n\n\ndef test_{name}(belljar):\n    folder = pathlib.Path(__file__).parent\n    \
         belljar.run(folder / \"experiment.yaml\", seed={seed}{choices})\n"
    )
}

/// Name of a finding's folder.
pub fn slug(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let all: String = text.chars().map(fit).collect();
    all.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// Verdict on a run that did not end.
fn late(timeout: Duration) -> Verdict {
    let symptom = Symptom { text: "the run does not end".to_owned(), is_safety: false };
    let evidence = format!("it was ended after {} s of real time", timeout.as_secs());
    Verdict { observed: vec![Observed { symptom, evidence }], ..Verdict::default() }
}

/// Calls that faults of a run gave results.
fn forced_calls(results: &Path, statistics: &Statistics) -> Vec<ForcedCall> {
    let mut forced = Vec::new();
    for name in statistics.hosts.keys() {
        if let Ok(record) = fs::read_to_string(results.join("hosts").join(name).join(names::CALL_FAULTS)) {
            forced.extend(ForcedCall::of_host(name, &record));
        }
    }
    forced
}

fn outcome(status: Option<i32>, results: &Path, messages: &Path) -> Outcome {
    let said = || {
        let text = fs::read_to_string(messages).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("note: ")).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    };
    let statistics = fs::read(results.join(names::STATISTICS)).ok();
    let statistics: Option<Statistics> = statistics.and_then(|text| serde_json::from_slice(&text).ok());
    match (status, statistics) {
        (Some(0 | 1), Some(statistics)) if statistics.interrupted.is_none() => {
            let mut verdict = Verdict::of(&statistics);
            if !verdict.observed.is_empty() {
                verdict.forced = forced_calls(results, &statistics);
            }
            Outcome::Complete(verdict)
        }
        (Some(0 | 1), Some(_)) => Outcome::Interrupted,
        (Some(_), _) => Outcome::Refused(said()),
        (None, _) => Outcome::Refused(format!("it was killed by a signal\n{}", said())),
    }
}
