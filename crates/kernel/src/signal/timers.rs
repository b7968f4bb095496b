//! Timers that send signals: `alarm`, `setitimer`, `timer_create`.

/// The timers of a process.
#[derive(Clone, Debug, Default)]
pub struct ProcessTimers {}
