//! Sequentially consistent map: an operation that changes nothing may see an older state, though none older than the one that its
//! client saw before. A change is made to the newest state.

use super::kv::{Operation, Pairs};
use belljar_base::{Map, Stream};
use serde_json::Value;
use std::collections::VecDeque;

/// Number of states that may be seen.
const STATES: usize = 32;

/// States of the map, and how far each client has seen them.
#[derive(Default)]
pub struct Sequential {
    /// Changes that lead from the oldest state that may be seen to the newest, each a key with its value.
    changes: VecDeque<(String, Value)>,
    oldest: Pairs,
    /// Number of changes before the oldest state.
    forgotten: u64,
    /// Number of changes that each client has seen.
    clients: Map<String, u64>,
}

impl Sequential {
    /// Carries out an operation of a client.
    pub fn apply(&mut self, client: &str, operation: &Operation, random: &mut Stream) -> Value {
        let newest = self.forgotten + self.changes.len() as u64;
        let seen = self.clients.get(client).copied().unwrap_or(0).max(self.forgotten);
        let at = seen + random.below(newest - seen + 1);
        let value = self.value(operation.key(), at);
        let (answer, written) = operation.step(value);
        // A write of the value that is there changes nothing.
        let (answer, at) = match written {
            Some(written) if value != Some(&written) => {
                let (answer, written) = operation.step(self.value(operation.key(), newest));
                (answer, written.map_or(newest, |value| self.change(operation.key(), value)))
            }
            _ => (answer, at),
        };
        self.clients.insert(client.to_owned(), at);
        answer
    }

    /// Value of a key after a number of changes.
    fn value(&self, key: &str, at: u64) -> Option<&Value> {
        let changes = self.changes.iter().take((at - self.forgotten) as usize);
        changes
            .rev()
            .find(|(changed, _)| changed == key)
            .map(|(_, value)| value)
            .or_else(|| self.oldest.get(key))
    }

    /// Changes the newest state; returns the number of changes so far.
    fn change(&mut self, key: &str, value: Value) -> u64 {
        self.changes.push_back((key.to_owned(), value));
        if self.changes.len() >= STATES
            && let Some((key, value)) = self.changes.pop_front()
        {
            self.oldest.set(&key, value);
            self.forgotten += 1;
        }
        self.forgotten + self.changes.len() as u64
    }
}
