//! Register: a value that is read, written and, in a `cas-register`, compared and set.

use super::unknown;
use crate::symbols::Symbols;
use crate::{Model, Operation, Outcome, Value};

/// Register that starts as null.
pub(super) struct Register {
    symbols: Symbols,
    has_cas: bool,
}

/// Call on a register, its values as symbols.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// Read of this value, or of any.
    Read(Option<u32>),
    Write(u32),
    /// Replacement of the first value by the second.
    Cas(u32, u32),
}

impl Register {
    /// Register with or without `cas`.
    pub fn new(has_cas: bool) -> Register {
        let mut symbols = Symbols::default();
        symbols.number(&Value::Null);
        Register { symbols, has_cas }
    }
}

impl Model for Register {
    type Call = Call;
    type State = u32;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        match operation.function.as_str() {
            "read" => {
                let known = operation.outcome == Outcome::Ok;
                Ok(Call::Read(known.then(|| self.symbols.number(&operation.result))))
            }
            "write" => Ok(Call::Write(self.symbols.number(&operation.argument))),
            "cas" if self.has_cas => match operation.argument.pair() {
                Some((old, new)) => Ok(Call::Cas(self.symbols.number(old), self.symbols.number(new))),
                None => Err(format!("the value of \"cas\" is {}, not [OLD, NEW]", operation.argument)),
            },
            _ if self.has_cas => Err(unknown(operation, "read, write and cas")),
            _ => Err(unknown(operation, "read and write")),
        }
    }

    fn initial(&self) -> u32 {
        0
    }

    fn step(&self, state: &u32, call: &Call) -> Option<u32> {
        match *call {
            Call::Read(None) => Some(*state),
            Call::Read(Some(value)) => (value == *state).then_some(*state),
            Call::Write(value) => Some(value),
            Call::Cas(old, new) => (old == *state).then_some(new),
        }
    }

    fn is_read(&self, call: &Call) -> bool {
        matches!(call, Call::Read(_))
    }

    fn supports(&self, provider: &Call, observer: &Call) -> bool {
        let (Call::Write(written) | Call::Cas(_, written)) = *provider else { return false };
        matches!(*observer, Call::Read(Some(value)) | Call::Cas(value, _) if value == written)
    }

    fn describe(&self, state: &u32) -> String {
        format!("the value is {}", self.symbols.value(*state))
    }
}
