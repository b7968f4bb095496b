//! Watch: the state of a channel for observers on other threads, such as a progress display.

use belljar_base::SimTime;
use belljar_channel::SlotRing;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// State of a channel at its owner's last access.
#[derive(Debug)]
pub struct Watch {
    outgoing: SlotRing,
    /// Offset of the owner byte in a slot, and the bit that marks the consumer as the owner.
    owner: (usize, u8),
    last_sent: AtomicUsize,
    horizon: AtomicU64,
    waited_for: AtomicBool,
    /// Number of updates of `waited_for`.
    said: AtomicU64,
}

impl Watch {
    pub(crate) fn new(outgoing: SlotRing, owner: (usize, u8)) -> Watch {
        Watch {
            outgoing,
            owner,
            last_sent: AtomicUsize::new(usize::MAX),
            horizon: AtomicU64::new(0),
            waited_for: AtomicBool::new(false),
            said: AtomicU64::new(0),
        }
    }
    pub(crate) fn sent(&self, slot: usize) {
        self.last_sent.store(slot, Relaxed);
    }
    pub(crate) fn heard(&self, horizon: SimTime) {
        self.horizon.store(horizon.as_picos(), Relaxed);
    }
    /// Records whether the channel's owner can advance only after the peer.
    pub fn set_waited_for(&self, waited_for: bool) {
        self.waited_for.store(waited_for, Relaxed);
        self.said.store(self.said.load(Relaxed) + 1, Relaxed);
    }

    /// True if the channel's owner waits for the peer.
    pub fn is_waited_for(&self) -> bool {
        self.waited_for.load(Relaxed)
    }
    /// A counter that changes whenever the owner polls: an owner that is busy elsewhere does not wait.
    pub fn looks(&self) -> u64 {
        self.said.load(Relaxed)
    }
    /// True if the peer has consumed the last message sent to it: it can advance only after further messages,
    /// unless it still works at that time.
    pub fn peer_has_taken_all(&self) -> bool {
        let slot = self.last_sent.load(Relaxed);
        slot != usize::MAX && self.outgoing.owner(slot, self.owner.0) & self.owner.1 == 0
    }
    /// The horizon of the channel.
    pub fn horizon(&self) -> SimTime {
        SimTime::from_picos(self.horizon.load(Relaxed))
    }
}
