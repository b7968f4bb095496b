//! [`Report`]: the judgement on a history, as text and as JSON.

use crate::{Operation, Value};
use serde_json::json;
use std::fmt;

/// Judgement on a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The history satisfies the consistency model.
    Valid,
    /// The history cannot occur under the consistency model.
    Invalid,
    /// A limit ended the search, and nothing that was found before excludes the consistency model.
    Unknown,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Judgement.
    pub verdict: Verdict,
    /// Name of the model, such as `cas-register`.
    pub model: String,
    /// Name of the consistency model that was checked, such as `linearizable`.
    pub consistency: String,
    /// Number of operations in the history.
    pub operations: usize,
    /// Number of objects, which are checked one by one where the model allows it.
    pub objects: usize,
    /// Violations.
    pub findings: Vec<Finding>,
    /// Consistency models that the findings exclude, the weakest first.
    pub excluded: Vec<String>,
    /// Reasons for which the search is not complete.
    pub doubts: Vec<String>,
    /// Measurements that do not affect the verdict, such as latencies.
    pub notes: Vec<String>,
}

/// Violation of a consistency model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name, such as `G-single`, or `not linearizable`.
    pub kind: String,
    /// Object whose operations show the violation, if the history names several.
    pub key: Option<Value>,
    /// Explanation in sections.
    pub sections: Vec<Section>,
}

/// Name of a section about something that has not happened by the end of the history.
pub const ABSENCE: &str = "absence";

/// Part of an explanation: a sentence and the operations that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name of the part: `prefix`, `refused`, `window`, `cycle`, `evidence` or [`ABSENCE`].
    pub name: &'static str,
    /// Sentence.
    pub title: String,
    /// Operations or reasons, in their order.
    pub steps: Vec<Step>,
}

/// Operation or reason in an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Lines of the file that it is about.
    pub lines: Vec<usize>,
    /// Text, which names the lines.
    pub text: String,
}

impl Step {
    /// Step that is an operation.
    pub(crate) fn of(operation: &Operation) -> Step {
        let (process, summary) = (&operation.process, operation.summary());
        Step::about([operation], format!("{}: process {process}, {summary}", operation.lines()))
    }

    /// Step about some operations.
    pub(crate) fn about<'a>(operations: impl IntoIterator<Item = &'a Operation>, text: String) -> Step {
        let lines = operations.into_iter().flat_map(|one| std::iter::once(one.invoked).chain(one.completed));
        Step { lines: lines.collect(), text }
    }
}

/// Number of steps of a section that the text shows.
const SHOWN: usize = 12;

impl Report {
    /// Report as JSON, with all steps of each section.
    pub fn to_json(&self) -> serde_json::Value {
        let valid = match self.verdict {
            Verdict::Valid => json!(true),
            Verdict::Invalid => json!(false),
            Verdict::Unknown => json!("unknown"),
        };
        json!({
            "valid": valid,
            "model": self.model,
            "consistency": self.consistency,
            "operations": self.operations,
            "objects": self.objects,
            "excluded": self.excluded,
            "doubts": self.doubts,
            "notes": self.notes,
            "findings": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Finding {
    fn to_json(&self) -> serde_json::Value {
        let sections = self.sections.iter().map(|section| {
            let steps = section.steps.iter().map(|step| json!({"lines": step.lines, "text": step.text}));
            json!({"name": section.name, "title": section.title, "steps": steps.collect::<Vec<_>>()})
        });
        json!({
            "kind": self.kind,
            "key": self.key.as_ref().map(serde_json::Value::from),
            "sections": sections.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Valid => "valid",
            Verdict::Invalid => "invalid",
            Verdict::Unknown => "unknown",
        };
        write!(f, "{verdict}: {}, {}; operations: {}", self.model, self.consistency, self.operations)?;
        if self.objects != 1 {
            write!(f, ", objects: {}", self.objects)?;
        }
        for finding in &self.findings {
            write!(f, "\n\n{}", finding.kind)?;
            if let Some(key) = &finding.key {
                write!(f, ", key {key}")?;
            }
            for section in &finding.sections {
                write!(f, "\n  {}", section.title)?;
                let hidden = section.steps.len().saturating_sub(SHOWN);
                if hidden > 0 {
                    write!(f, "\n    ... {hidden} before")?;
                }
                for step in &section.steps[hidden..] {
                    write!(f, "\n    {}", step.text)?;
                }
            }
        }
        if !self.excluded.is_empty() {
            write!(f, "\n\nexcluded: {}", self.excluded.join(", "))?;
        }
        for doubt in &self.doubts {
            write!(f, "\nnot decided: {doubt}")?;
        }
        for note in &self.notes {
            write!(f, "\n{note}")?;
        }
        Ok(())
    }
}
