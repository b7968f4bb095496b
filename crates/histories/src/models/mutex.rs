//! Mutex: a lock that one process has at a time.

use super::unknown;
use crate::symbols::Symbols;
use crate::{Model, Operation};

/// Mutex that starts free.
pub(super) struct Mutex {
    symbols: Symbols,
    is_owned: bool,
}

/// Call on a mutex, with the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Acquire(u32),
    Release(u32),
}

impl Mutex {
    /// Mutex that any process can release, or only its owner.
    pub fn new(is_owned: bool) -> Mutex {
        Mutex { symbols: Symbols::default(), is_owned }
    }
}

impl Model for Mutex {
    type Call = Call;
    type State = Option<u32>;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        let process = if self.is_owned { self.symbols.number(&operation.process) } else { 0 };
        match operation.function.as_str() {
            "acquire" => Ok(Call::Acquire(process)),
            "release" => Ok(Call::Release(process)),
            _ => Err(unknown(operation, "acquire and release")),
        }
    }

    fn initial(&self) -> Option<u32> {
        None
    }

    fn step(&self, state: &Option<u32>, call: &Call) -> Option<Option<u32>> {
        match (*call, *state) {
            (Call::Acquire(process), None) => Some(Some(process)),
            (Call::Release(process), Some(owner)) if process == owner => Some(None),
            _ => None,
        }
    }

    fn supports(&self, provider: &Call, observer: &Call) -> bool {
        let (Call::Acquire(one) | Call::Release(one)) = *provider;
        let (Call::Acquire(other) | Call::Release(other)) = *observer;
        // A release also lets other processes acquire.
        one == other || matches!((provider, observer), (Call::Release(_), Call::Acquire(_)))
    }

    fn describe(&self, state: &Option<u32>) -> String {
        match state {
            None => "the mutex is free".to_string(),
            Some(owner) if self.is_owned => format!("process {} has the mutex", self.symbols.value(*owner)),
            Some(_) => "the mutex is held".to_string(),
        }
    }
}
