//! Replicas of a map that answer independently and are merged now and then. Writes have the time of a Lamport clock, and the later one wins.

use super::kv::Operation;
use belljar_base::{Map, Stream};
use serde_json::Value;

/// Number of replicas.
const REPLICAS: usize = 2;

/// Replica: its clock, and each key's value with the time of its write.
#[derive(Clone, Default)]
struct Replica {
    clock: u64,
    values: Map<String, (u64, Value)>,
}

/// All replicas.
pub struct Replicas([Replica; REPLICAS]);

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas(std::array::from_fn(|_| Replica::default()))
    }
}

impl Replicas {
    /// Merges a replica into another, both drawn, then carries out an operation at one that is drawn.
    pub fn apply(&mut self, operation: &Operation, random: &mut Stream) -> Value {
        let mut draw = || random.below(REPLICAS as u64) as usize;
        let (from, into, at) = (draw(), draw(), draw());
        if from != into {
            let other = self.0[from].clone();
            self.0[into].merge(other);
        }
        let replica = &mut self.0[at];
        let key = operation.key();
        let (answer, written) = operation.step(replica.values.get(key).map(|(_, value)| value));
        if let Some(value) = written {
            replica.values.insert(key.to_owned(), (replica.clock, value));
            replica.clock += 1;
        }
        answer
    }
}

impl Replica {
    fn merge(&mut self, other: Replica) {
        self.clock = self.clock.max(other.clock);
        for (key, (time, value)) in other.values {
            if self.values.get(&key).is_none_or(|(own, _)| *own < time) {
                self.values.insert(key, (time, value));
            }
        }
    }
}
