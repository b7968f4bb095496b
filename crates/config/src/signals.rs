use std::fmt;

/// A signal, by its number on x86-64 Linux (signal(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signal(i32);

const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

impl Signal {
    /// `SIGTERM`.
    pub const TERM: Signal = Signal(15);

    /// The signal with this number, 1 to 31.
    pub fn from_number(number: i32) -> Option<Signal> {
        (1..=NAMES.len() as i32).contains(&number).then_some(Signal(number))
    }
    /// The signal with this name, such as `SIGTERM`.
    pub fn from_name(name: &str) -> Option<Signal> {
        NAMES.iter().position(|n| *n == name).map(|i| Signal(i as i32 + 1))
    }
    /// Number of the signal.
    pub fn number(self) -> i32 {
        self.0
    }
    /// Name of the signal.
    pub fn name(self) -> &'static str {
        NAMES[self.0 as usize - 1]
    }
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.into_iter()
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
