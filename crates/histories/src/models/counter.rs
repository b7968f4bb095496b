//! Counter: a number that is added to and read.

use super::unknown;
use crate::{Model, Operation, Outcome, Value};

/// Counter that starts at 0.
pub(super) struct Counter;

/// Call on a counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// Read of this value, or of any.
    Read(Option<i128>),
    Add(i128),
}

impl Model for Counter {
    type Call = Call;
    type State = i128;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        let number = |value: &Value| match value {
            Value::Integer(number) => Ok(i128::from(*number)),
            other => Err(format!("the value of \"{}\" is {other}, not a whole number", operation.function)),
        };
        match operation.function.as_str() {
            "read" if operation.outcome == Outcome::Ok => Ok(Call::Read(Some(number(&operation.result)?))),
            "read" => Ok(Call::Read(None)),
            "add" => Ok(Call::Add(number(&operation.argument)?)),
            "increment" => Ok(Call::Add(1)),
            "decrement" => Ok(Call::Add(-1)),
            _ => Err(unknown(operation, "read, add, increment and decrement")),
        }
    }

    fn initial(&self) -> i128 {
        0
    }

    fn step(&self, state: &i128, call: &Call) -> Option<i128> {
        match *call {
            Call::Read(None) => Some(*state),
            Call::Read(Some(value)) => (value == *state).then_some(*state),
            // Fewer than 2^64 summands of 64 bits fit.
            Call::Add(amount) => Some(state.saturating_add(amount)),
        }
    }

    fn is_read(&self, call: &Call) -> bool {
        matches!(call, Call::Read(_) | Call::Add(0))
    }

    fn describe(&self, state: &i128) -> String {
        format!("the counter is {state}")
    }
}
