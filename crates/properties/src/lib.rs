//! Properties: claims about what the programs of a run have written, and their verdicts.
//!
//! A [`LineClaim`] is about lines of text: a [`Pattern`] that each line, no line or some line matches, or one that a line matches
//! within a bound of simulated time; a [`Comparison`] restricts what the pattern has captured. [`LineJudge`] takes the files one
//! by one, or the descriptions of packets. A [`HistoryClaim`] is about a history of operations, which [`judge_history`] merges by [`WriteTimes`] and gives to the
//! checkers of `belljar_histories`. [`AssertionJudge`] takes files in which programs report assertions of their own.
//!
//! A verdict doubts rather than flatters: without a line to judge, a number to compare or the time of a line, the claim fails
//! with that reason. Nothing here knows files, hosts or clocks; callers name their sources.
#![forbid(unsafe_code)]

mod assertions;
mod claim;
mod comparison;
mod contradiction;
mod history;
mod judge;
mod language;
mod pattern;
mod times;
mod verdict;

pub use assertions::{AssertionJudge, AssertionVerdict, SETUP};
pub use belljar_histories::{Level, MODELS, Steps, TransactionKind};
pub use claim::{After, Condition, HistoryClaim, HistoryModel, LineClaim, Quantifier};
pub use comparison::Comparison;
pub use contradiction::contradiction;
pub use history::{HistoryFile, HistoryVerdict, judge_history};
pub use judge::{LineJudge, Window};
pub use pattern::Pattern;
pub use times::WriteTimes;
pub use verdict::{Location, Verdict};
