//! The report of a campaign.

use super::executor::slug;
use super::store::{CHOICES, FINDINGS, REPORT};
use crate::failure::Failure;
use belljar_config::{Experiment, Scheduling};
use belljar_explore::{Shrunk, Tally, failure_bound};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A campaign at its end.
pub struct Report<'a> {
    /// The experiment file.
    pub file: &'a Path,
    /// The campaign's folder.
    pub folder: &'a Path,
    pub experiment: &'a Experiment,
    pub tally: &'a Tally,
    /// The findings of the tally, shrunk.
    pub shrunk: &'a [Shrunk],
    /// Real time of the search, without shrinking.
    pub searched: Duration,
    /// Number of runs at a time.
    pub jobs: usize,
    /// Number of runs executed, those of shrinking included.
    pub executed: u64,
    pub is_interrupted: bool,
}

impl Report<'_> {
    /// The report for the terminal.
    pub fn text(&self) -> String {
        let Tally { runs, findings, .. } = self.tally;
        let mut out = String::new();
        for (finding, shrunk) in findings.iter().zip(self.shrunk) {
            let folder = self.folder.join(FINDINGS).join(slug(&finding.symptom.text));
            let _ = writeln!(
                out,
                "FOUND {}: {} of {runs} runs, first in run {}",
                finding.symptom.text, finding.count, finding.run
            );
            let _ = writeln!(out, "    {}", finding.evidence);
            let mut events = shrunk.trial.event_lines();
            match shrunk.trial.scheduling {
                Scheduling::Fifo => {}
                Scheduling::Random => {
                    events.push("threads in random order (host_options.scheduling)".to_owned());
                }
                Scheduling::Priorities(_) => {
                    events.push("threads by priorities, preempted (host_options.scheduling)".to_owned());
                }
            }
            if shrunk.trial.choices.is_some() {
                events.push("these choices, with all others at their default:".to_owned());
                events.extend(shrunk.trial.choice_lines().iter().map(|line| format!("  {line}")));
            }
            match (finding.run, events.is_empty()) {
                (0, true) => out.push_str("    without any drawn fault\n"),
                (_, true) => out.push_str("    no fault is needed, but another seed than that of run 0\n"),
                (run, false) => {
                    let note =
                        if shrunk.is_minimal { "" } else { " (there may be a smaller run: more --shrink)" };
                    let head = if run == 0 { "without any drawn fault, needs" } else { "needs" };
                    let _ = writeln!(out, "    {head}{note}:");
                    for line in events {
                        let _ = writeln!(out, "      {line}");
                    }
                }
            }
            let _ = write!(out, "    replay: belljar run {}", folder.join("experiment.yaml").display());
            if shrunk.trial.choices.is_some() {
                let _ = write!(out, " --choices {}", folder.join(CHOICES).display());
            }
            out.push('\n');
        }
        if findings.is_empty() {
            let _ = writeln!(out, "no failure in {runs} runs");
        }
        let held = self.tally.held(self.experiment);
        if !held.is_empty() && *runs > 0 {
            let bound = 100.0 * failure_bound(*runs);
            let _ = writeln!(
                out,
                "held: {}: with 95 % confidence each fails in less than {} % of runs with such faults",
                held.join(", "),
                significant(bound)
            );
        }
        for name in self.tally.unreached(self.experiment) {
            let _ = writeln!(out, "never reached: {name}");
        }
        for (kind, drawn, dropped) in self.tally.kinds() {
            if dropped == Some(0) {
                let what = match kind {
                    "calls" => "no call had another result",
                    "disk" => "no sync, read or write met it",
                    "dns" => "no host asked for such a name",
                    "kill" | "pause_process" => "no such process ran",
                    "memory" => "no host used more than its limit",
                    "reset" => "there was no connection to reset",
                    _ => "no packet was dropped by it",
                };
                let _ = writeln!(out, "no effect: {kind} was drawn in {drawn} runs, and {what}");
            }
        }
        let seconds = self.searched.as_secs_f64();
        let _ = writeln!(
            out,
            "{runs} runs in {seconds:.1} s, {} at a time; {} executed, shrinking included | {}",
            self.jobs,
            self.executed,
            self.folder.display()
        );
        if self.is_interrupted {
            let _ = writeln!(out, "interrupted: the same command goes on from here");
        }
        out
    }

    /// Writes the report as JSON. It has no real time, so that equal campaigns write equal files.
    pub fn write_json(&self) -> Result<(), Failure> {
        let findings: Vec<Value> = self.tally.findings.iter().zip(self.shrunk).map(|(finding, shrunk)| {
            json!({
                "symptom": finding.symptom.text,
                "safety": finding.symptom.is_safety,
                "runs": finding.count,
                "first": finding.run,
                "evidence": finding.evidence,
                "seed": shrunk.trial.seed(),
                "minimal": shrunk.is_minimal,
                "scheduling": shrunk.trial.scheduling.name(),
                "stop_time": shrunk.trial.stop.as_secs_f64(),
                "idle": shrunk.trial.idle.iter().map(|id| self.experiment.node_name(*id)).collect::<Vec<_>>(),
                "events": shrunk.trial.event_lines(),
                "choices": shrunk.trial.choices.as_ref().map(|_| shrunk.trial.choice_lines()),
                "folder": Path::new(FINDINGS).join(slug(&finding.symptom.text)),
            })
        }).collect();
        let kinds: Vec<Value> = self
            .tally
            .kinds()
            .map(|(kind, runs, dropped)| json!({"kind": kind, "runs": runs, "dropping": dropped}))
            .collect();
        let report = json!({
            "file": self.file,
            "runs": self.tally.runs,
            "findings": findings,
            "held": self.tally.held(self.experiment),
            "failure_bound": failure_bound(self.tally.runs),
            "unreached": self.tally.unreached(self.experiment),
            "kinds": kinds,
            "interrupted": self.is_interrupted,
        });
        let text = serde_json::to_vec_pretty(&report).map_err(Failure::run)?;
        let path = self.folder.join(REPORT);
        fs::write(&path, text)
            .map_err(|error| Failure::run(format!("{} cannot be written: {error}", path.display())))
    }
}

/// A number with two significant digits.
fn significant(value: f64) -> String {
    let digits = (1.0 - value.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}
