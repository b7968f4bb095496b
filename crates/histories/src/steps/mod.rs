//! Models given as step functions: from a state and an operation to the state after it, or to the answer that the operation is impossible.

mod memo;
#[cfg(test)]
mod tests;

use crate::linear::check_linearizable;
use crate::{History, HistoryError, Limits, Report, Value};
use memo::{Memo, Stepped};
use std::cell::RefCell;
use std::rc::Rc;

/// Step function of an object. An answer must depend on its question alone: [`check_steps`] keeps answers, and asks some of the questions
/// again after [`Steps::restart`].
pub trait Steps {
    /// First answer: the state before all operations.
    ///
    /// # Errors
    /// The function cannot be asked.
    fn start(&mut self) -> Result<Start, HistoryError>;

    /// State after an operation, or none if it is impossible in this state.
    ///
    /// # Errors
    /// The function gave no answer.
    fn step(&mut self, state: &Value, question: &Question) -> Result<Option<Value>, HistoryError>;

    /// Forgets everything, as far as the function can: it is [started](Steps::start) next.
    fn restart(&mut self);

    /// Error about the function, not about the history.
    fn error(&self, problem: String, remedy: &str) -> HistoryError;
}

/// First answer of a step function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// State before all operations.
    pub state: Value,
    /// Functions that leave every state as it is.
    pub reads: Vec<String>,
    /// True if answers depend on the process.
    pub needs_process: bool,
}

/// Operation that a step function is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Function.
    pub function: String,
    /// Argument, the value of the invocation.
    pub argument: Value,
    /// Result, the value of the completion, if it is known.
    pub result: Option<Value>,
    /// Process, if answers depend on it.
    pub process: Option<Value>,
    /// Lines of the first such operation in the history.
    pub lines: String,
}

/// Judges a history of operations on objects, all of which have this step function. `name` is the model's name in the report.
///
/// # Errors
/// The step function failed, or has given two answers to one question.
pub fn check_steps(
    history: &History,
    name: &str,
    steps: Box<dyn Steps>,
    limits: Limits,
) -> Result<Report, HistoryError> {
    let memo = Rc::new(RefCell::new(Memo::new(steps, limits.bytes)?));
    let report = check_linearizable(history, name, || Stepped::new(&memo), limits)?;
    memo.borrow_mut().finish()?;
    Ok(report)
}
