//! Queue: first in, first out.

use super::{listed, unknown};
use crate::symbols::Symbols;
use crate::{Model, Operation, Outcome};

/// Queue that starts empty.
#[derive(Default)]
pub(super) struct Queue {
    symbols: Symbols,
}

/// Call on a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Enqueue(u32),
    Dequeue(u32),
    /// Dequeue whose result is null: the queue was empty.
    Empty,
    /// Dequeue of whatever was first.
    Unknown,
}

impl Model for Queue {
    type Call = Call;
    type State = Vec<u32>;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        match operation.function.as_str() {
            "enqueue" if operation.argument.is_null() => {
                Err("the value of \"enqueue\" is null, which is the result of \"dequeue\" on an empty queue"
                    .to_string())
            }
            "enqueue" => Ok(Call::Enqueue(self.symbols.number(&operation.argument))),
            "dequeue" if operation.outcome != Outcome::Ok => Ok(Call::Unknown),
            "dequeue" if operation.result.is_null() => Ok(Call::Empty),
            "dequeue" => Ok(Call::Dequeue(self.symbols.number(&operation.result))),
            _ => Err(unknown(operation, "enqueue and dequeue")),
        }
    }

    fn initial(&self) -> Vec<u32> {
        Vec::new()
    }

    fn step(&self, state: &Vec<u32>, call: &Call) -> Option<Vec<u32>> {
        match *call {
            Call::Enqueue(element) => {
                let mut after = Vec::with_capacity(state.len() + 1);
                after.extend_from_slice(state);
                after.push(element);
                Some(after)
            }
            Call::Dequeue(element) => match state.split_first() {
                Some((&first, rest)) if first == element => Some(rest.to_vec()),
                _ => None,
            },
            Call::Empty => state.is_empty().then(Vec::new),
            Call::Unknown => Some(state.get(1..).unwrap_or_default().to_vec()),
        }
    }

    fn is_read(&self, call: &Call) -> bool {
        matches!(call, Call::Empty)
    }

    fn supports(&self, provider: &Call, observer: &Call) -> bool {
        match (*provider, *observer) {
            (Call::Enqueue(element), Call::Dequeue(other))
            | (Call::Dequeue(element), Call::Enqueue(other)) => element == other,
            (Call::Unknown, _) => true,
            (Call::Dequeue(_), Call::Empty) => true,
            _ => false,
        }
    }

    fn bytes(&self, state: &Vec<u32>) -> usize {
        size_of::<Vec<u32>>() + state.len() * 4
    }

    fn describe(&self, state: &Vec<u32>) -> String {
        let elements = &mut state.iter().map(|&one| self.symbols.value(one).to_string());
        format!("the queue is [{}]", listed(elements))
    }
}
