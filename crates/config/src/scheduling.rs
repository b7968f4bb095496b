//! Order of threads.

use std::fmt::{self, Display, Formatter};

/// Order of a host's runnable threads, and of the waiters of a lock or a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// First in, first out; a thread runs for up to 200 calls.
    #[default]
    Fifo,
    /// Drawn from the seed, like the number of calls for which a thread runs.
    Random,
    /// Drawn priorities: the thread with the highest one runs, and some threads are preempted within their own code.
    Priorities(Preemption),
}

/// Drawn points at which the running thread is preempted and gets a low priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preemption {
    /// Number of points.
    pub points: u32,
    /// Number of calls after which points may lie, counted while threads wait for the processor.
    pub calls: u32,
    /// Number of instructions after such a call within which points lie.
    pub instructions: u32,
}

impl Preemption {
    /// One point within 1,000 instructions of one of the first 100 calls.
    pub const DEFAULT: Preemption = Preemption { points: 1, calls: 100, instructions: 1_000 };
    /// Largest number of points.
    pub(crate) const MOST_POINTS: u64 = 100;
    /// Largest number of calls.
    pub(crate) const MOST_CALLS: u64 = 1_000_000_000;
    /// Largest number of instructions: single steps after one call.
    pub(crate) const MOST_INSTRUCTIONS: u64 = 1_000_000;
}

impl Scheduling {
    pub(crate) const NAMES: &'static [(&'static str, Scheduling)] = &[
        ("fifo", Scheduling::Fifo),
        ("random", Scheduling::Random),
        ("priorities", Scheduling::Priorities(Preemption::DEFAULT)),
    ];

    /// The name in an experiment file.
    pub fn name(self) -> &'static str {
        match self {
            Scheduling::Fifo => "fifo",
            Scheduling::Random => "random",
            Scheduling::Priorities(_) => "priorities",
        }
    }
}

impl Display for Scheduling {
    /// The value in an experiment file.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Priorities(Preemption { points, calls, instructions }) => write!(
                f,
                "{{ priorities: {{ points: {points}, calls: {calls}, instructions: {instructions} }} }}"
            ),
            other => f.write_str(other.name()),
        }
    }
}
