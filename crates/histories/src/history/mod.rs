//! [`History`]: the operations that concurrent clients invoked and what became of each.

mod edn;
mod error;
mod event;
mod read;
#[cfg(test)]
mod tests;
mod value;

pub use error::HistoryError;
pub use value::Value;

/// Operations of a run, in the order of their invocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Operations, ordered by the lines that invoke them.
    pub operations: Vec<Operation>,
    /// Number of lines of the file.
    pub lines: usize,
}

/// Operation of a client: its invocation joined with its completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Client that invoked the operation; a process has one operation at a time.
    pub process: Value,
    /// Function, such as `read`.
    pub function: String,
    /// Object that the operation is about, if the history has several.
    pub key: Option<Value>,
    /// Value of the invocation.
    pub argument: Value,
    /// Value of the completion; null if the operation did not complete with `ok`.
    pub result: Value,
    /// Outcome that the client observed.
    pub outcome: Outcome,
    /// Line of the invocation, counted from 1.
    pub invoked: usize,
    /// Line of the completion, if the file has one.
    pub completed: Option<usize>,
    /// Time of the invocation in nanoseconds, if the line has one.
    pub invoked_ns: Option<i64>,
    /// Time of the completion in nanoseconds, if there is one.
    pub completed_ns: Option<i64>,
    /// True for an operation after which nothing changes any more, and whose result must be up to date.
    pub is_final: bool,
}

/// Outcome of an operation, as far as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The operation took effect between its invocation and its completion.
    Ok,
    /// The operation did not take effect.
    Fail,
    /// The operation may have taken effect at any time after its invocation, or never.
    Info,
}

impl Operation {
    /// Line after which the operation cannot take effect any more: that of its completion with `ok`.
    pub fn returned(&self) -> Option<usize> {
        match self.outcome {
            Outcome::Ok => self.completed,
            Outcome::Fail | Outcome::Info => None,
        }
    }

    /// Lines of the operation in the file, such as `lines 3-7`.
    pub fn lines(&self) -> String {
        match self.completed {
            Some(completed) => format!("lines {}-{completed}", self.invoked),
            None => format!("line {}", self.invoked),
        }
    }

    /// True for functions whose null is an answer.
    fn answers(&self) -> bool {
        self.argument.is_null() && ["read", "get", "dequeue"].contains(&self.function.as_str())
    }

    /// Function, argument and result in words, such as `read -> 5`.
    pub fn summary(&self) -> String {
        let mut text = self.function.clone();
        if !self.argument.is_null() {
            text.push_str(&format!(" {}", self.argument));
        }
        match self.outcome {
            Outcome::Ok if self.result != self.argument || self.answers() => {
                text.push_str(&format!(" -> {}", self.result))
            }
            Outcome::Ok => {}
            Outcome::Fail => text.push_str(" (failed)"),
            Outcome::Info => text.push_str(" (outcome unknown)"),
        }
        text
    }
}
