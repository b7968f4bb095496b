//! Execution of trials: each in a process of this program.

use super::store::Store;
use crate::failure::Failure;
use crate::launch;
use belljar_explore::{Finding, ForcedCall, Observed, Symptom, Trial, Verdict};
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

    /// Executes a trial, unless its verdict is known.
    pub fn execute(&self, trial: &Trial) -> Result<Outcome, Failure> {
        let text = trial.experiment().to_yaml();
        let digest = Store::digest(&text);
        if let Some(verdict) = self.store().known(&digest) {
            return Ok(Outcome::Complete(verdict.clone()));
        }
        // Two equal trials may be executed at once.
        let number = self.executed.fetch_add(1, Relaxed);
        let results = self.running.join(format!("{number}.data"));
        let outcome = self.run(&text, &results)?;
        let _ = fs::remove_dir_all(&results);
        if let Outcome::Complete(verdict) = &outcome {
            self.store().keep(&digest, verdict)?;
        }
        Ok(outcome)
    }

    /// Runs an experiment in a process of its own.
    fn run(&self, experiment: &str, results: &Path) -> Result<Outcome, Failure> {
        let file = results.with_extension("yaml");
        let messages = results.with_extension("messages");
        fs::write(&file, experiment).map_err(Failure::run)?;
        let [own, launch] = &self.launcher[..] else {
            return Err(Failure::run("the path of this program is unknown"));
        };
        let mut command = Command::new(own);
        command.arg(launch).arg(std::process::id().to_string()).arg("--").arg(own);
        command.args(["run", "--no-progress", "-o"]).arg(results).arg(&file);
        let errors = File::create(&messages).map_err(Failure::run)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        // Ctrl-C reaches this process alone, which then ends its runs.
        command.process_group(0);
        let child = command.spawn().map_err(Failure::run)?;
        let end = self.wait(child)?;
        let outcome = match end {
            End::Interrupted => Outcome::Interrupted,
            End::Late => Outcome::Complete(late(self.timeout)),
            End::Exited(status) => outcome(status, results, &messages),
        };
        let _ = fs::remove_file(&file);
        let _ = fs::remove_file(&messages);
        Ok(outcome)
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

    /// Writes a finding: its experiment, a test that runs it, and its results.
    pub fn write_finding(&self, finding: &Finding, trial: &Trial) -> Result<(), Failure> {
        let name = slug(&finding.symptom.text);
        let folder = self.store().finding(&name).map_err(Failure::run)?;
        let folder = fs::canonicalize(folder).map_err(Failure::run)?;
        let text = trial.experiment().to_yaml();
        let experiment =
            format!("# {}: {}\n{text}", finding.symptom.text, finding.evidence.replace('\n', " "));
        fs::write(folder.join("experiment.yaml"), experiment).map_err(Failure::run)?;
        let test = format!(
            "import pathlib\n\n\ndef test_{}(belljar):\n    belljar.run(pathlib.Path(__file__).with_name(\"experiment.yaml\"), seed={})\n",
            name.replace('-', "_"),
            trial.seed()
        );
        fs::write(folder.join(format!("test_{}.py", name.replace('-', "_"))), test).map_err(Failure::run)?;
        if !self.stop.load(Relaxed) {
            let results = self.running.join("finding.data");
            self.run(&text, &results)?;
            if results.is_dir() {
                fs::rename(&results, folder.join("results")).map_err(Failure::run)?;
            }
        }
        Ok(())
    }
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
