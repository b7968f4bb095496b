//! Order of threads.

/// Order of a host's runnable threads, and of the waiters of a lock or a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// First in, first out; a thread runs for up to 200 calls.
    #[default]
    Fifo,
    /// Drawn from the seed, like the number of calls for which a thread runs.
    Random,
}

impl Scheduling {
    pub(crate) const NAMES: &'static [(&'static str, Scheduling)] =
        &[("fifo", Scheduling::Fifo), ("random", Scheduling::Random)];

    /// The name in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            Scheduling::Fifo => "fifo",
            Scheduling::Random => "random",
        }
    }
}
