//! Worker: a client with its node, its open operation and what became of it.

use super::history::{History, Outcome};
use crate::message::{Message, is_definite};
use crate::workload::{Operation, Position, result};
use serde_json::{Value, json};
use std::time::Duration;

/// Client of a node.
pub struct Worker {
    /// Number of its process in the history.
    pub process: u64,
    /// Position in the logs of the workload `kafka`.
    pub position: Position,
    /// Number of operations of the end.
    pub final_steps: u32,
    /// Number of workers, by which the next process differs.
    stride: u64,
    node: String,
    number: u64,
    open: Option<Open>,
}

/// Operation without an answer yet.
struct Open {
    operation: Operation,
    deadline: Duration,
}

impl Worker {
    pub fn new(process: u64, stride: u64, node: &str) -> Worker {
        let (node, position) = (node.to_owned(), Position::default());
        Worker { process, position, final_steps: 0, stride, node, number: 0, open: None }
    }

    pub fn is_free(&self) -> bool {
        self.open.is_none()
    }

    pub fn deadline(&self) -> Option<Duration> {
        self.open.as_ref().map(|open| open.deadline)
    }

    fn name(&self) -> String {
        format!("c{}", self.process + 1)
    }

    /// Begins an operation: its request.
    pub fn request(&mut self, operation: Operation, deadline: Duration) -> Message {
        self.number += 1;
        let mut body = operation.body.clone();
        body["msg_id"] = json!(self.number);
        self.open = Some(Open { operation, deadline });
        Message::new(&self.name(), &self.node, body)
    }

    /// True for the answer to the open operation.
    pub fn awaits(&self, message: &Message) -> bool {
        self.open.is_some() && message.dest == self.name() && message.body["in_reply_to"] == self.number
    }

    /// Ends the operation by its answer.
    ///
    /// # Errors
    /// The answer has another form than the protocol's.
    pub fn answered(&mut self, message: &Message, history: &mut History) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let operation = &open.operation;
        if message.kind() == "error" {
            let code = message.body["code"].as_i64().unwrap_or(13);
            let reason = json!([code, message.body["text"]]);
            return self.failed(operation, is_definite(code), reason, history);
        }
        let value = match result(operation, &message.body) {
            Ok(value) => value,
            Err(problem) => {
                history.complete(self.process, operation, Outcome::Info(json!("malformed reply")))?;
                let (node, request, reply) = (&message.src, &operation.body["type"], &message.body);
                return Err(format!("{node} answered {request} with {reply}: {problem}"));
            }
        };
        let shown = match operation.function {
            "assign" => {
                self.position.assigned(&operation.value, &value);
                operation.value.clone()
            }
            "poll" => {
                self.position.polled(&value);
                value
            }
            "generate" | "echo" | "read" | "txn" | "send" => value,
            _ => operation.value.clone(),
        };
        history.complete(self.process, operation, Outcome::Ok(shown))
    }

    /// Ends the operation without an answer.
    pub fn timed_out(&mut self, history: &mut History) -> Result<(), String> {
        match self.open.take() {
            Some(open) => self.failed(&open.operation, false, json!("timeout"), history),
            None => Ok(()),
        }
    }

    fn failed(
        &mut self,
        operation: &Operation,
        is_definite: bool,
        reason: Value,
        history: &mut History,
    ) -> Result<(), String> {
        if is_definite || operation.is_read() {
            return history.complete(self.process, operation, Outcome::Fail(reason));
        }
        history.complete(self.process, operation, Outcome::Info(reason))?;
        self.process += self.stride;
        self.position = Position::default();
        Ok(())
    }
}
