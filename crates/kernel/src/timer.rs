//! Timers of a host, ordered by time and then by creation.

use crate::ids::{ProcessKey, SocketKey, ThreadKey};
use belljar_model_host::ModelTimer;
pub use belljar_netstack::{TimerId, TimerQueue};

/// Action of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAction {
    /// The deadline of a blocked thread has passed.
    Deadline(ThreadKey),
    /// The experiment starts its process with this index on the host.
    StartProcess(usize),
    /// The experiment sends the process with this index its shutdown signal.
    ShutdownProcess(usize),
    /// A timer descriptor expires (`files/timerfd.rs`).
    TimerFd(usize),
    /// A timer of `timer_create`, `setitimer` or `alarm` expires (`signal/timers.rs`).
    PosixTimer(ProcessKey, u32),
    /// An io_uring request is due (`uring/`).
    Uring {
        /// Index of the instance.
        instance: usize,
        /// Index of the request within the instance.
        request: usize,
        /// Serial number that distinguishes requests with the same index.
        serial: u64,
    },
    /// A block of a packet socket's ring has reached its retire timeout (`net/packet/`).
    PacketBlock(SocketKey),
    /// A timer of a traffic model.
    Model(ModelTimer),
}
