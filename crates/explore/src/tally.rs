//! Tallies: what many runs show together.

use crate::faults::Fault;
use crate::verdict::{Symptom, Verdict};
use belljar_base::{Map, Set};
use belljar_config::{Claim, Experiment};

/// A symptom with the runs that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The symptom.
    pub symptom: Symptom,
    /// The first run that shows it.
    pub run: u64,
    /// Evidence in that run.
    pub evidence: String,
    /// Number of runs that show it.
    pub count: u64,
}

/// Sum of runs, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Tally {
    /// Number of runs.
    pub runs: u64,
    /// Findings in the order of their first runs.
    pub findings: Vec<Finding>,
    reached: Set<String>,
    /// Goals that some run has missed: those of the experiment, and those that programs declare.
    missed: Set<String>,
    /// For each kind of fault the number of runs that have one, and of those in which it had an effect.
    kinds: Map<&'static str, (u64, u64)>,
}

/// Reasons for drops, or beginnings of the names of other effects, that show the effect of a kind of fault; empty if nothing does.
fn reasons(kind: &str) -> &'static [&'static str] {
    match kind {
        "calls" => &["calls_"],
        "crash" => &["host_down"],
        "dns" => &["wrong_dns_answers"],
        "disk" => &["slow_syncs", "failed_", "rotten_bits", "no_room"],
        "kill" => &["processes_killed"],
        "lossy" => &["packet_loss"],
        "memory" => &["out_of_memory_kills"],
        "one_way" => &["link_down"],
        "partition" => &["partition"],
        "pause_process" => &["processes_paused"],
        "reset" => &["connection_resets"],
        _ => &[],
    }
}

impl Tally {
    /// Adds the next run, with its faults.
    pub fn add(&mut self, faults: &[Fault], verdict: &Verdict) {
        for observed in &verdict.observed {
            match self.findings.iter_mut().find(|finding| finding.symptom == observed.symptom) {
                Some(finding) => finding.count += 1,
                None => self.findings.push(Finding {
                    symptom: observed.symptom.clone(),
                    run: self.runs,
                    evidence: observed.evidence.clone(),
                    count: 1,
                }),
            }
        }
        self.reached.extend(verdict.reached.iter().cloned());
        self.missed.extend(verdict.missed.iter().cloned());
        let drawn = faults.iter().filter(|fault| fault.is_drawn);
        let kinds: Set<&'static str> = drawn.map(|fault| fault.kind).collect();
        for kind in kinds {
            let is_shown = |effect: &String| reasons(kind).iter().any(|known| effect.starts_with(known));
            let has_dropped = verdict.drops.iter().any(|drop| reasons(kind).contains(&drop.as_str()))
                || verdict.effects.iter().any(is_shown);
            let (runs, dropped) = self.kinds.entry(kind).or_default();
            *runs += 1;
            *dropped += u64::from(has_dropped);
        }
        self.runs += 1;
    }

    /// Properties `sometimes` that no run has reached, and assertions of this kind that programs declare.
    pub fn unreached<'a>(&'a self, experiment: &'a Experiment) -> Vec<&'a str> {
        let goals = experiment.properties.iter().filter(|property| property.claim.key() == "sometimes");
        let mut goals: Vec<&str> = goals.map(|property| property.name.as_str()).collect();
        let declared: Vec<&str> =
            self.missed.iter().map(String::as_str).filter(|name| !goals.contains(name)).collect();
        goals.extend(declared);
        goals.retain(|name| !self.reached.contains(*name));
        goals
    }

    /// Properties that held in every run.
    pub fn held<'a>(&self, experiment: &'a Experiment) -> Vec<&'a str> {
        let claims = experiment.properties.iter().filter(|property| property.claim.key() != "sometimes");
        let failed = |name: &str, claim: &Claim| {
            let (own, of_program) =
                (format!("property {name} ({})", claim.key()), format!("property {name}: "));
            let is_it =
                |text: &String| *text == own || *claim == Claim::Assertions && text.starts_with(&of_program);
            self.findings.iter().any(|finding| is_it(&finding.symptom.text))
        };
        claims
            .filter(|property| !failed(&property.name, &property.claim))
            .map(|property| &*property.name)
            .collect()
    }

    /// Kinds of faults with the number of runs that have one and, where the statistics show the effect, of those in
    /// which it had one.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64, Option<u64>)> {
        let shown = |kind: &str, dropped: u64| (!reasons(kind).is_empty()).then_some(dropped);
        self.kinds.iter().map(move |(kind, (runs, dropped))| (*kind, *runs, shown(kind, *dropped)))
    }
}

/// Upper bound, with a confidence of 95 %, on the probability of a failure that `runs` independent runs have not
/// shown: the rule of three, exact.
pub fn failure_bound(runs: u64) -> f64 {
    match runs {
        0 => 1.0,
        _ => 1.0 - 0.05_f64.powf(1.0 / runs as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::failure_bound;

    #[test]
    fn the_bound_is_the_rule_of_three() {
        assert_eq!(failure_bound(0), 1.0);
        assert!((failure_bound(1) - 0.95).abs() < 1e-12);
        assert!((failure_bound(1_000) - 0.002_991).abs() < 1e-5);
    }
}
