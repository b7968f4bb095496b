//! Map of keys to values, and its operations.

use crate::message::{MALFORMED, NO_KEY, NOT_SUPPORTED, PRECONDITION, error};
use belljar_base::Map;
use serde_json::{Value, json};

/// Request of a client. Keys are known by their JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    Read { key: String },
    Write { key: String, value: Value },
    Cas { key: String, from: Value, to: Value, creates: bool },
}

impl Operation {
    /// Reads a request.
    ///
    /// # Errors
    /// The body of the error that the client is to get.
    pub fn parse(body: &Value) -> Result<Operation, Value> {
        let kind = body["type"].as_str().unwrap_or_default();
        let member = |name: &str| {
            body.get(name).cloned().ok_or_else(|| error(MALFORMED, format!("\"{kind}\" lacks \"{name}\"")))
        };
        let key = || member("key").map(|key| key.to_string());
        match kind {
            "read" => Ok(Operation::Read { key: key()? }),
            "write" => Ok(Operation::Write { key: key()?, value: member("value")? }),
            "cas" => Ok(Operation::Cas {
                key: key()?,
                from: member("from")?,
                to: member("to")?,
                creates: body["create_if_not_exists"] == true,
            }),
            _ => Err(error(
                NOT_SUPPORTED,
                format!("the requests are \"read\", \"write\" and \"cas\", not {}", body["type"]),
            )),
        }
    }

    /// Key of the operation.
    pub fn key(&self) -> &str {
        match self {
            Operation::Read { key } | Operation::Write { key, .. } | Operation::Cas { key, .. } => key,
        }
    }

    /// Answer where the key has this value or none, and the value that the operation writes.
    pub fn step(&self, current: Option<&Value>) -> (Value, Option<Value>) {
        match (self, current) {
            (Operation::Read { .. }, Some(value)) => (json!({"type": "read_ok", "value": value}), None),
            (Operation::Write { value, .. }, _) => (json!({"type": "write_ok"}), Some(value.clone())),
            (Operation::Cas { to, creates: true, .. }, None) => (json!({"type": "cas_ok"}), Some(to.clone())),
            (Operation::Cas { from, to, .. }, Some(value)) if from == value => {
                (json!({"type": "cas_ok"}), Some(to.clone()))
            }
            (Operation::Cas { from, .. }, Some(value)) => {
                (error(PRECONDITION, format!("current value {value} is not {from}")), None)
            }
            (Operation::Read { .. } | Operation::Cas { .. }, None) => {
                (error(NO_KEY, "key does not exist"), None)
            }
        }
    }
}

/// Map of keys to values.
#[derive(Clone, Default)]
pub struct Pairs(Map<String, Value>);

impl Pairs {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    /// Carries out an operation.
    pub fn apply(&mut self, operation: &Operation) -> Value {
        let (answer, written) = operation.step(self.get(operation.key()));
        if let Some(value) = written {
            self.set(operation.key(), value);
        }
        answer
    }
}
