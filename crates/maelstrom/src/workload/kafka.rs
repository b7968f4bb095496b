//! Clients of logs: each polls the keys that it has assigned itself from where it has come to, and commits what it has read.

use super::Operation;
use super::keys::Keys;
use belljar_base::{Map, Stream};
use serde_json::{Value, json};

/// Number of polls with which a client reads the logs at the end.
const FINAL_POLLS: u32 = 50;

/// Position of a client in the logs: the next offset of each key that is assigned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    next: Map<String, i64>,
    /// Offsets that were read and not committed yet.
    unsaved: Map<String, i64>,
    /// True once a poll of the end has returned nothing.
    caught_up: bool,
}

impl Position {
    /// Next operation: a commit of what was read, or one that is drawn.
    pub fn operation(
        &mut self,
        keys: &mut Keys,
        message: impl FnOnce() -> i64,
        random: &mut Stream,
    ) -> Operation {
        if !self.unsaved.is_empty() {
            let offsets = object(&std::mem::take(&mut self.unsaved));
            return Operation::new(
                "commit",
                offsets.clone(),
                json!({"type": "commit_offsets", "offsets": offsets}),
            );
        }
        match random.below(10) {
            0 => self.assignment(keys, random),
            1..=4 if !self.next.is_empty() => self.poll(),
            _ => {
                let (key, message) = (keys.any(random).to_string(), message());
                let body = json!({"type": "send", "key": key, "msg": message});
                Operation::new("send", json!([key, message]), body)
            }
        }
    }

    fn assignment(&self, keys: &Keys, random: &mut Stream) -> Operation {
        let mut chosen: Vec<String> =
            keys.all().filter(|_| random.below(2) == 0).map(|key| key.to_string()).collect();
        if chosen.is_empty() {
            chosen.push(keys.any(random).to_string());
        }
        Operation::new("assign", json!(chosen), json!({"type": "list_committed_offsets", "keys": chosen}))
    }

    pub(super) fn poll(&self) -> Operation {
        let offsets = object(&self.next);
        Operation::new("poll", offsets.clone(), json!({"type": "poll", "offsets": offsets}))
    }

    /// Operation at the end: polls from the beginning until there is nothing more.
    pub fn catch_up(&mut self, keys: &Keys, step: u32) -> Option<Operation> {
        if step == 0 {
            self.next = keys.all().map(|key| (key.to_string(), 0)).collect();
            self.caught_up = false;
        }
        (!self.caught_up && step < FINAL_POLLS).then(|| self.poll())
    }

    /// Takes the committed offsets of the keys that are now assigned.
    pub fn assigned(&mut self, chosen: &Value, committed: &Value) {
        let keys = chosen.as_array().into_iter().flatten().filter_map(Value::as_str);
        let next = keys.map(|key| {
            let from = self.next.get(key).copied().or_else(|| committed[key].as_i64()).unwrap_or(0);
            (key.to_owned(), from)
        });
        self.next = next.collect();
    }

    /// Takes the records of a poll.
    pub fn polled(&mut self, records: &Value) {
        self.caught_up = true;
        for (key, list) in records.as_object().into_iter().flatten() {
            let offsets = list.as_array().into_iter().flatten().filter_map(|record| record[0].as_i64());
            if let Some(last) = offsets.max() {
                self.caught_up = false;
                let next = self.next.entry(key.clone()).or_default();
                *next = (*next).max(last.saturating_add(1));
                self.unsaved.insert(key.clone(), last);
            }
        }
    }
}

fn object(offsets: &Map<String, i64>) -> Value {
    offsets.iter().map(|(key, offset)| (key.clone(), json!(offset))).collect()
}
