//! Timers of a host, in order of time and then of creation.

use crate::ids::{ProcessKey, SocketKey, ThreadKey};
use belljar_model_host::ModelTimer;
pub use belljar_netstack::{TimerId, TimerQueue};

/// The action of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// A blocked thread's deadline has come.
    Deadline(ThreadKey),
    /// The experiment starts its process number `n` on this host.
    StartProcess(usize),
    /// The experiment sends process number `n` its shutdown signal.
    ShutdownProcess(usize),
    /// A timer descriptor expires (`files/timerfd.rs`).
    TimerFd(usize),
    /// A timer of `timer_create`, `setitimer` or `alarm` expires (`signal/timers.rs`).
    PosixTimer(ProcessKey, u32),
    /// The time of an io_uring request has come (`uring/`).
    Uring {
        /// The instance.
        instance: usize,
        /// The request within it.
        request: usize,
        /// Tells it from another one at the same place.
        serial: u64,
    },
    /// A block of a packet socket's ring has waited long enough (`net/packet/`).
    PacketBlock(SocketKey),
    /// A timer of the traffic models.
    Model(ModelTimer),
}
