use crate::{Comparison, Pattern};
use belljar_base::{SimDuration, SimTime};
use belljar_histories::Level;

/// Claim about lines of text. A line *satisfies* it if the condition holds and all comparisons are true.
#[derive(Clone, Debug, PartialEq)]
pub struct LineClaim {
    /// Lines that must satisfy it.
    pub quantifier: Quantifier,
    /// Condition of a satisfying line.
    pub condition: Condition,
    /// Pattern of the lines that are judged; `None` for all lines.
    pub lines: Option<Pattern>,
    /// Comparisons of what both patterns have captured.
    pub comparisons: Vec<Comparison>,
}

/// Condition of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The pattern matches in it.
    Matches(Pattern),
    /// It describes a packet that passes this filter, which callers evaluate.
    Passes(String),
}

impl Condition {
    /// Names of the pattern's groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let pattern = match self {
            Condition::Matches(pattern) => Some(pattern),
            Condition::Passes(_) => None,
        };
        pattern.into_iter().flat_map(Pattern::names)
    }
}

/// Lines that must satisfy a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// Each judged line; there must be one.
    Always,
    /// No judged line.
    Never,
    /// At least one.
    Sometimes,
    /// At least one that is written in a window of simulated time.
    Eventually {
        /// Length of the window.
        within: SimDuration,
        /// Start of the window.
        after: After,
    },
}

/// Start of a window of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Last fault of the run, or its end if it lasts.
    Faults,
    /// Fixed time.
    Time(SimTime),
}

impl Quantifier {
    /// Key in an experiment file.
    pub fn key(self) -> &'static str {
        match self {
            Quantifier::Always => "always",
            Quantifier::Never => "never",
            Quantifier::Sometimes => "sometimes",
            Quantifier::Eventually { .. } => "eventually",
        }
    }
}

/// Model that a history is judged by.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryModel {
    /// One of [`MODELS`](crate::MODELS).
    Named(String),
    /// Step function of a program, with its path.
    Program(String),
}

/// Claim that a history of operations satisfies a consistency model.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryClaim {
    /// Model of the objects.
    pub model: HistoryModel,
    /// Isolation level that transactions are held to; `None` for the strongest.
    pub consistency: Option<Level>,
}
