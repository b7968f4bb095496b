//! Watch: the state of a channel for who looks on from another thread, such as a progress display.

use belljar_base::SimTime;
use belljar_channel::SlotRing;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A channel as it was when its owner used it last.
#[derive(Debug)]
pub struct Watch {
    outgoing: SlotRing,
    /// Where the owner byte is in a slot, and the bit by which it is the consumer's.
    owner: (usize, u8),
    last_sent: AtomicUsize,
    horizon: AtomicU64,
    waited_for: AtomicBool,
    /// Number of times that this was said.
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
    /// Says that the channel's owner can only go on when the peer does, or that it need not wait any more.
    pub fn set_waited_for(&self, waited_for: bool) {
        self.waited_for.store(waited_for, Relaxed);
        self.said.store(self.said.load(Relaxed) + 1, Relaxed);
    }

    /// True if the channel's owner waits for the peer.
    pub fn is_waited_for(&self) -> bool {
        self.waited_for.load(Relaxed)
    }
    /// A number that changes whenever the owner looks: one that has other things to do does not wait.
    pub fn looks(&self) -> u64 {
        self.said.load(Relaxed)
    }
    /// True if the peer has come to the time of the last message sent to it: it can go on only when it hears more, unless it
    /// still works at that time.
    pub fn peer_has_taken_all(&self) -> bool {
        let slot = self.last_sent.load(Relaxed);
        slot != usize::MAX && self.outgoing.owner(slot, self.owner.0) & self.owner.1 == 0
    }
    /// The time up to which the peer has been heard.
    pub fn horizon(&self) -> SimTime {
        SimTime::from_picos(self.horizon.load(Relaxed))
    }
}
