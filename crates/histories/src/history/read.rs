//! Reading: lines of JSON become operations, each invocation joined with its completion.

use super::event::{self, Event, Kind};
use super::{History, HistoryError, Operation, Outcome, Value};
use belljar_base::Map;
use std::io::{BufRead, Read};

/// Longest line that is read, in bytes.
const LINE_BYTES: usize = 16 << 20;
/// Largest file that is read, in bytes.
const FILE_BYTES: usize = 256 << 20;
/// Number of operations up to which a history is read.
const OPERATIONS: usize = 4 << 20;
/// Process whose lines report faults, not operations.
const NEMESIS: &str = "nemesis";

/// Reader that takes a history line by line.
#[derive(Default)]
struct Reader {
    history: History,
    /// Operation of each process that has not completed yet.
    open: Map<Value, usize>,
    time: Option<(i64, usize)>,
}

impl History {
    /// Reads a history from JSON lines. Blank lines and lines of the process `nemesis` are skipped.
    ///
    /// # Errors
    /// The first line that is malformed or that does not follow from those above it, or a failure to read.
    pub fn read(mut input: impl BufRead) -> Result<History, HistoryError> {
        let mut reader = Reader::default();
        let mut bytes = 0;
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let line = reader.history.lines + 1;
            let limit = LINE_BYTES as u64 + 1;
            let read = input.by_ref().take(limit).read_until(b'\n', &mut buffer).map_err(|error| {
                HistoryError::new(line, format!("cannot be read: {error}"), "check the file")
            })?;
            if read == 0 {
                return Ok(reader.history);
            }
            bytes += read;
            if read > LINE_BYTES {
                let remedy = "write one event a line";
                return Err(HistoryError::new(line, format!("longer than {LINE_BYTES} bytes"), remedy));
            }
            if bytes > FILE_BYTES {
                let remedy = "check the keys in files of their own";
                return Err(HistoryError::new(
                    line,
                    format!("the history has more than {FILE_BYTES} bytes"),
                    remedy,
                ));
            }
            reader.history.lines = line;
            let text = std::str::from_utf8(&buffer)
                .map_err(|_| HistoryError::new(line, "not valid UTF-8", "write JSON in UTF-8"))?;
            let text = text.trim_end();
            if !text.is_empty() {
                reader.event(event::parse(line, text)?)?;
            }
        }
    }

    /// Reads a history from a text, as [`History::read`] does.
    ///
    /// # Errors
    /// Errors of [`History::read`].
    pub fn from_text(text: &str) -> Result<History, HistoryError> {
        History::read(text.as_bytes())
    }
}

impl Reader {
    /// Takes an event at the current line.
    fn event(&mut self, event: Event) -> Result<(), HistoryError> {
        let line = self.history.lines;
        if let Some(time) = event.time {
            if let Some((before, above)) = self.time
                && time < before
            {
                return Err(HistoryError::new(
                    line,
                    format!("time goes back to {time} ns from {before} ns at line {above}"),
                    "sort the lines by time",
                ));
            }
            self.time = Some((time, line));
        }
        if event.process.text() == Some(NEMESIS) {
            return Ok(());
        }
        match event.kind {
            Kind::Invoke => self.invoke(event),
            Kind::Ok => self.complete(event, Outcome::Ok),
            Kind::Fail => self.complete(event, Outcome::Fail),
            Kind::Info => self.complete(event, Outcome::Info),
        }
    }

    fn invoke(&mut self, event: Event) -> Result<(), HistoryError> {
        let line = self.history.lines;
        if let Some(&open) = self.open.get(&event.process) {
            let above = self.history.operations[open].invoked;
            return Err(HistoryError::new(
                line,
                format!("process {} invokes while its operation of line {above} is open", event.process),
                "complete that operation first, with \"info\" if its outcome is unknown, or use another process",
            ));
        }
        if self.history.operations.len() == OPERATIONS {
            let problem = format!("the history has more than {OPERATIONS} operations");
            return Err(HistoryError::new(line, problem, "check the keys in files of their own"));
        }
        self.open.insert(event.process.clone(), self.history.operations.len());
        self.history.operations.push(Operation {
            process: event.process,
            function: event.function,
            key: event.key,
            argument: event.value,
            result: Value::Null,
            outcome: Outcome::Info,
            invoked: line,
            completed: None,
            invoked_ns: event.time,
            completed_ns: None,
            is_final: event.is_final,
        });
        Ok(())
    }

    fn complete(&mut self, event: Event, outcome: Outcome) -> Result<(), HistoryError> {
        let line = self.history.lines;
        let Some(index) = self.open.remove(&event.process) else {
            return Err(HistoryError::new(
                line,
                format!("process {} completes an operation that it has not invoked", event.process),
                "write a line with \"type\": \"invoke\" for each operation, above its completion",
            ));
        };
        let operation = &mut self.history.operations[index];
        let (invoked, above) = (&operation.function, operation.invoked);
        if event.function != *invoked {
            let problem =
                format!("completes \"{}\", but line {above} has invoked \"{invoked}\"", event.function);
            return Err(HistoryError::new(line, problem, "write the \"f\" of the invocation"));
        }
        if event.key.is_some() && event.key != operation.key {
            return Err(HistoryError::new(
                line,
                format!("\"key\" is not that of the invocation at line {above}"),
                "write the \"key\" of the invocation, or none",
            ));
        }
        operation.outcome = outcome;
        operation.completed = Some(line);
        operation.completed_ns = event.time;
        if outcome == Outcome::Ok {
            operation.result = event.value;
        }
        Ok(())
    }
}
