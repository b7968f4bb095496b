//! What a host will do at points of simulated time, in order of time and then of creation.

use crate::ids::{ProcessKey, SocketKey, ThreadKey};
use belljar_base::{Map, SimTime};

/// Names a pending timer so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: SimTime,
    sequence: u64,
}

/// What happens when a timer fires.
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
    /// A socket's protocol asked to be called again (`net/`).
    Socket(SocketKey),
    /// An interface has something to do (`net/`).
    Interface(usize),
    /// The name server has something to do (`net/`).
    Resolver,
    /// A neighbour must be asked again, or given up (`net/`).
    Neighbours,
    /// A report of multicast groups is due (`net/`).
    Igmp,
    /// A block of a packet socket's ring has waited long enough (`net/packet/`).
    PacketBlock(SocketKey),
    /// IPv6 has something to do (`net/v6`).
    Ipv6,
    /// Bandwidths are limited from now on (`net/`).
    BootstrapEnd,
    /// The experiment starts a traffic model (`model/`).
    StartModel(u32),
    /// The experiment stops it.
    StopModel(u32),
    /// A model asked to be woken.
    WakeModel {
        /// Its number in the configuration.
        model: u32,
        /// Tells it from another one of the same number, before a crash.
        generation: u32,
        /// What it gave.
        token: u64,
    },
}

/// The pending timers of one host.
#[derive(Debug, Default)]
pub struct TimerQueue {
    pending: Map<TimerId, TimerAction>,
    sequence: u64,
}

impl TimerQueue {
    /// Fires `action` at `at`.
    pub fn add(&mut self, at: SimTime, action: TimerAction) -> TimerId {
        self.sequence += 1;
        let id = TimerId { at, sequence: self.sequence };
        self.pending.insert(id, action);
        id
    }
    /// Takes a timer back; one that has fired is no error.
    pub fn cancel(&mut self, id: TimerId) {
        self.pending.remove(&id);
    }
    /// Has `action` fire at `at` instead of when `slot` says, or not at all.
    pub fn set(&mut self, slot: &mut Option<TimerId>, at: Option<SimTime>, action: TimerAction) {
        if slot.map(TimerId::at) != at {
            if let Some(timer) = slot.take() {
                self.cancel(timer);
            }
            *slot = at.map(|at| self.add(at, action));
        }
    }
    /// Takes all back.
    pub fn clear(&mut self) {
        self.pending.clear();
    }
    /// When the next one fires.
    pub fn next(&self) -> Option<SimTime> {
        self.pending.first_key_value().map(|(id, _)| id.at)
    }
    /// The next one that is due at `now`, removed.
    pub fn pop_due(&mut self, now: SimTime) -> Option<TimerAction> {
        let entry = self.pending.first_entry()?;
        (entry.key().at <= now).then(|| entry.remove())
    }
}

impl TimerId {
    /// When it fires.
    pub fn at(self) -> SimTime {
        self.at
    }
}
