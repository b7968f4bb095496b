//! Histories of concurrent operations, and the checkers that judge them.
//!
//! A [`History`] is what the clients of a system observed: operations with the line of their invocation, the line of their
//! completion and an outcome. [`check_linearizable`] judges one against a [`Model`] of an object (a register, a queue, ...),
//! or against a step function ([`check_steps`]);
//! [`check_transactions`] judges histories of transactions by Adya's anomalies, and [`check`] does either by a model's name, or holds
//! a service to a weaker promise, such as that no identifier is given twice.
//! Every judgement is a [`Report`], whose [`Verdict`] is [`Verdict::Unknown`] where a limit ended the search: a doubt is never reported as valid.
//!
//! Real time is the order of the lines. The checkers know no files, clocks or random numbers: the same history gives the same report.
#![forbid(unsafe_code)]

mod history;
mod linear;
mod models;
#[cfg(test)]
mod mutation_tests;
mod report;
mod services;
mod sort;
mod steps;
mod symbols;
mod transactions;

pub use history::{History, HistoryError, Operation, Outcome, Value};
pub use linear::{Limits, Model, check_linearizable};
pub use models::{MODELS, check};
pub use report::{ABSENCE, Finding, Report, Section, Step, Verdict};
pub use steps::{Question, Start, Steps, check_steps};
pub use transactions::{Anomaly, Kind as TransactionKind, Level, check_transactions};
