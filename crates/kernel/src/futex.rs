//! Futexes: who sleeps on which word of memory.

/// The table of all futexes of a host.
#[derive(Debug, Default)]
pub struct FutexTable {}

/// A futex wait under way.
#[derive(Clone, Debug)]
pub struct FutexWait {}
