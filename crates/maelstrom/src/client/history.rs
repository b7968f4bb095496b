//! The history: a file with one line for each invocation and each completion.

use crate::clock::Clock;
use crate::workload::Operation;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;

/// Numbers of operations by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ok: u64,
    pub fail: u64,
    pub info: u64,
}

/// Outcome of an operation.
pub enum Outcome {
    Ok(Value),
    /// It did not happen, for this reason.
    Fail(Value),
    /// It may have happened.
    Info(Value),
}

/// File of a history.
pub struct History {
    file: File,
    name: String,
    clock: Clock,
    pub counts: Counts,
}

impl History {
    /// Creates the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(name: &str, clock: Clock) -> Result<History, String> {
        let file = File::create(name).map_err(|error| format!("{name} cannot be written: {error}"))?;
        Ok(History { file, name: name.to_owned(), clock, counts: Counts::default() })
    }

    pub fn invoke(&mut self, process: u64, operation: &Operation, is_final: bool) -> Result<(), String> {
        let mut line = event(process, "invoke", operation, &operation.value);
        if is_final {
            line["final"] = json!(true);
        }
        self.write(line)
    }

    pub fn complete(&mut self, process: u64, operation: &Operation, outcome: Outcome) -> Result<(), String> {
        let (kind, value, error) = match outcome {
            Outcome::Ok(value) => ("ok", value, None),
            Outcome::Fail(reason) => ("fail", operation.value.clone(), Some(reason)),
            Outcome::Info(reason) => ("info", operation.value.clone(), Some(reason)),
        };
        match kind {
            "ok" => self.counts.ok += 1,
            "fail" => self.counts.fail += 1,
            _ => self.counts.info += 1,
        }
        let mut line = event(process, kind, operation, &value);
        if let Some(error) = error {
            line["error"] = error;
        }
        self.write(line)
    }

    fn write(&mut self, mut line: Value) -> Result<(), String> {
        line["time"] = json!(self.clock.now().as_nanos() as u64);
        writeln!(self.file, "{line}").map_err(|error| format!("{} cannot be written: {error}", self.name))
    }
}

fn event(process: u64, kind: &str, operation: &Operation, value: &Value) -> Value {
    let mut line = json!({"time": 0, "process": process, "type": kind, "f": operation.function});
    if let Some(key) = &operation.key {
        line["key"] = key.clone();
    }
    line["value"] = value.clone();
    line
}
