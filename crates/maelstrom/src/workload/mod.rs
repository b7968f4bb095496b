//! Workloads: the operations of clients, drawn one at a time, their requests, and the results of replies.

mod kafka;
mod keys;
mod reply;
#[cfg(test)]
mod tests;

pub use kafka::Position;
pub use reply::result;

use crate::Workload;
use crate::cli::Client;
use belljar_base::Stream;
use keys::Keys;
use serde_json::{Value, json};

/// Operation of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Function, as the history has it.
    pub function: &'static str,
    /// Object of the operation, if there are several.
    pub key: Option<Value>,
    /// Argument, as the history has it.
    pub value: Value,
    /// Request to the node.
    pub body: Value,
}

impl Operation {
    fn new(function: &'static str, value: Value, body: Value) -> Operation {
        Operation { function, key: None, value, body }
    }

    /// True if the operation changes nothing, so that one without an answer has failed.
    pub fn is_read(&self) -> bool {
        ["read", "poll", "assign"].contains(&self.function)
    }
}

/// Generator of operations.
pub struct Generator {
    workload: Workload,
    keys: Keys,
    max_txn_length: u64,
    /// Number of values that were drawn, of which each is used once.
    next: i64,
}

impl Generator {
    pub fn new(options: &Client) -> Generator {
        let (keys, writes) = match options.workload {
            // The search for an order of operations is exponential in those of a key that are concurrent.
            Workload::LinKv => (options.key_count.unwrap_or(3), 30),
            Workload::Kafka => (options.key_count.unwrap_or(3), u32::MAX),
            _ => (options.key_count.unwrap_or(10), options.max_writes_per_key),
        };
        Generator {
            workload: options.workload,
            keys: Keys::new(keys, writes),
            max_txn_length: u64::from(options.max_txn_length),
            next: 0,
        }
    }

    /// Next operation of a client, whose position in the logs is given.
    pub fn operation(&mut self, position: &mut Position, random: &mut Stream) -> Operation {
        let reads = random.below(2) == 0;
        match self.workload {
            Workload::Echo => {
                let text = json!(format!("Please echo {}", random.below(128)));
                Operation::new("echo", text.clone(), json!({"type": "echo", "echo": text}))
            }
            Workload::UniqueIds => Operation::new("generate", Value::Null, json!({"type": "generate"})),
            Workload::LinKv => self.register(random),
            Workload::TxnListAppend => self.transaction("append", random),
            Workload::TxnRwRegister => self.transaction("w", random),
            Workload::Kafka => position.operation(&mut self.keys, || next(&mut self.next), random),
            Workload::Broadcast | Workload::GSet | Workload::GCounter | Workload::PnCounter if reads => {
                self.read()
            }
            Workload::Broadcast => {
                let message = next(&mut self.next);
                Operation::new("broadcast", json!(message), json!({"type": "broadcast", "message": message}))
            }
            Workload::GSet => {
                let element = next(&mut self.next);
                Operation::new("add", json!(element), json!({"type": "add", "element": element}))
            }
            Workload::GCounter => add(random.below(5) as i64),
            Workload::PnCounter => add(random.below(10) as i64 - 5),
        }
    }

    /// Operation after the faults and the rest, if the workload has any: `step` counts those of the client.
    pub fn last(&mut self, position: &mut Position, step: u32) -> Option<Operation> {
        match self.workload {
            Workload::Broadcast | Workload::GSet | Workload::GCounter | Workload::PnCounter => {
                (step == 0).then(|| self.read())
            }
            Workload::Kafka => position.catch_up(&self.keys, step),
            _ => None,
        }
    }

    fn read(&self) -> Operation {
        Operation::new("read", Value::Null, json!({"type": "read"}))
    }

    fn register(&mut self, random: &mut Stream) -> Operation {
        let (key, value, other) = (self.keys.used(random), random.below(5), random.below(5));
        let (function, value, body) = match random.below(3) {
            0 => ("read", Value::Null, json!({"type": "read", "key": key})),
            1 => ("write", json!(value), json!({"type": "write", "key": key, "value": value})),
            _ => {
                ("cas", json!([value, other]), json!({"type": "cas", "key": key, "from": value, "to": other}))
            }
        };
        Operation { function, key: Some(json!(key)), value, body }
    }

    fn transaction(&mut self, write: &str, random: &mut Stream) -> Operation {
        let length = 1 + random.below(self.max_txn_length);
        let parts: Vec<Value> = (0..length)
            .map(|_| match random.below(2) {
                0 => json!(["r", self.keys.any(random), null]),
                _ => {
                    let (key, value) = self.keys.written(random);
                    json!([write, key, value])
                }
            })
            .collect();
        Operation::new("txn", json!(parts), json!({"type": "txn", "txn": parts}))
    }
}

/// Next of the values that are used once.
fn next(counter: &mut i64) -> i64 {
    *counter += 1;
    *counter - 1
}

fn add(delta: i64) -> Operation {
    Operation::new("add", json!(delta), json!({"type": "add", "delta": delta}))
}
