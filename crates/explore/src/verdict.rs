//! Verdicts: what the statistics of a run show.

use belljar_config::{CallResult, FAULTY_CALLS, ForcedResult};
use belljar_results::Statistics;
use serde::{Deserialize, Serialize};

/// What goes wrong in a run, without the details that differ from run to run. Runs with the same symptom are taken for one failure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Symptom {
    /// The property, or the program and its end.
    pub text: String,
    /// True if it has happened at a time, so that nothing later can undo it; false if something did not happen
    /// in time, which a shorter run shows as well.
    pub is_safety: bool,
}

/// A symptom in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The symptom.
    pub symptom: Symptom,
    /// Where it was seen, and the reason.
    pub evidence: String,
}

/// Call of a run that a fault gave a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForcedCall {
    /// Name of the host.
    pub host: String,
    /// Beginning of the fault in seconds.
    pub since: f64,
    /// Process id.
    pub pid: i32,
    /// Name of the system call.
    pub call: String,
    /// Number of the call.
    pub number: u64,
    /// Name of the result.
    pub result: String,
}

impl ForcedCall {
    /// Reads the lines of a host's record of such calls.
    pub fn of_host(host: &str, record: &str) -> Vec<ForcedCall> {
        #[derive(Deserialize)]
        struct Line {
            since: f64,
            pid: i32,
            call: String,
            number: u64,
            result: String,
        }
        let lines = record.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let with_host = |Line { since, pid, call, number, result }| ForcedCall {
            host: host.to_owned(),
            since,
            pid,
            call,
            number,
            result,
        };
        lines.map(with_host).collect()
    }
    /// The call with its result, if both are known.
    pub(crate) fn result(&self) -> Option<ForcedResult> {
        let (call, _) = FAULTY_CALLS.iter().find(|(name, _)| *name == self.call)?;
        let (_, result) = CallResult::NAMES.iter().find(|(name, _)| *name == self.result)?;
        Some(ForcedResult { pid: self.pid, call, number: self.number, result: *result })
    }
}

/// What one run shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Symptoms, each once, sorted.
    pub observed: Vec<Observed>,
    /// Properties `sometimes` that were reached.
    pub reached: Vec<String>,
    /// Those that were not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// Time in seconds at which programs report their setup as complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<f64>,
    /// Reasons for which packets were dropped.
    pub drops: Vec<String>,
    /// Effects of faults other than drops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
    /// Calls that a fault gave a result, of a run that shows a symptom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<ForcedCall>,
}

impl Verdict {
    /// Verdict on a complete run. A property `sometimes` that one run does not reach is no symptom.
    pub fn of(statistics: &Statistics) -> Verdict {
        let mut verdict = Verdict::default();
        for property in &statistics.properties {
            match (property.kind.as_str(), property.holds) {
                ("setup", _) => {
                    let times = [verdict.setup, property.time];
                    verdict.setup = times.into_iter().flatten().reduce(f64::max);
                }
                ("sometimes", true) => verdict.reached.push(property.name.clone()),
                ("sometimes", false) => verdict.missed.push(property.name.clone()),
                (_, true) => {}
                (kind, false) => {
                    let is_safety = property.line.is_some() && matches!(kind, "always" | "never" | "history");
                    let text = format!("property {} ({kind})", property.name);
                    let reason = property.reason.as_deref().unwrap_or_default();
                    let at = match (&property.host, &property.file, property.line) {
                        (Some(host), Some(file), Some(line)) => format!("{host}: {file}:{line}: "),
                        _ => String::new(),
                    };
                    let shown = property.text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                    verdict.observe(text, is_safety, format!("{at}{reason}{shown}"));
                }
            }
        }
        for (name, host) in &statistics.hosts {
            for process in host.processes.iter().filter(|process| !process.as_expected) {
                let text = format!("{} {}", process.program, process.state);
                let problem = process.problem.as_deref().unwrap_or_default();
                let evidence = format!("{name}: {} {}, {problem}", process.program, process.state);
                verdict.observe(text, process.ended.is_some(), evidence);
            }
            verdict.effects.extend(host.faults.keys().cloned());
            verdict
                .drops
                .extend(host.drops.iter().filter(|(_, count)| **count > 0).map(|(name, _)| name.clone()));
        }
        let directions = statistics.links.values().flat_map(|directions| directions.values());
        let drops = directions.flat_map(|direction| direction.drops.iter());
        verdict.drops.extend(drops.filter(|(_, count)| **count > 0).map(|(name, _)| name.clone()));
        verdict.drops.sort();
        verdict.drops.dedup();
        verdict.effects.sort();
        verdict.effects.dedup();
        verdict.observed.sort_by(|a, b| a.symptom.cmp(&b.symptom));
        verdict
    }

    fn observe(&mut self, text: String, is_safety: bool, evidence: String) {
        let symptom = Symptom { text, is_safety };
        if !self.shows(&symptom) {
            self.observed.push(Observed { symptom, evidence });
        }
    }

    /// True if the run shows a symptom.
    pub fn shows(&self, symptom: &Symptom) -> bool {
        self.observed.iter().any(|observed| observed.symptom == *symptom)
    }
}
