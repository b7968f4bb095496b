/// A thread's signal mask, pending signals and alternate stack.
#[derive(Clone, Debug, Default)]
pub struct ThreadSignals {}

/// What the threads of a process share: dispositions, pending signals, timers.
#[derive(Clone, Debug, Default)]
pub struct ProcessSignals {}
