//! Keys of sessions with a peer: the current ones, those before, and those that the peer has not yet used.

use crate::limits::{REJECT_AFTER_MESSAGES, REJECT_AFTER_TIME};
use crate::primitives::Key;
use crate::replay::ReplayWindow;
use belljar_base::SimTime;

/// Keys of one session.
#[derive(Clone, Debug)]
pub struct Keypair {
    /// Index of this end.
    pub index: u32,
    /// Index of the far end.
    pub remote_index: u32,
    /// True if this end has initiated the handshake.
    pub is_initiator: bool,
    /// Time of the handshake.
    pub born: SimTime,
    /// Key of sent packets.
    pub send_key: Key,
    /// True while packets may be sent.
    pub sends: bool,
    /// Counter of the next sent packet.
    pub counter: u64,
    /// Key of received packets.
    pub receive_key: Key,
    /// True while packets may be received.
    pub receives: bool,
    /// Counters of received packets.
    pub window: ReplayWindow,
}

impl Keypair {
    /// Fresh keys: indices of both ends, keys of sent and received packets.
    pub fn new(indices: (u32, u32), keys: (Key, Key), is_initiator: bool, born: SimTime) -> Keypair {
        Keypair {
            index: indices.0,
            remote_index: indices.1,
            is_initiator,
            born,
            send_key: keys.0,
            sends: true,
            counter: 0,
            receive_key: keys.1,
            receives: true,
            window: ReplayWindow::default(),
        }
    }
    /// True if the keys are too old to be used.
    pub fn has_expired(&self, now: SimTime) -> bool {
        self.born + REJECT_AFTER_TIME <= now
    }
    /// Counter of a packet to send; `None` if the keys may not be used any more.
    pub fn next_counter(&mut self, now: SimTime) -> Option<u64> {
        if !self.sends {
            return None;
        }
        if self.has_expired(now) || self.counter >= REJECT_AFTER_MESSAGES {
            self.sends = false;
            return None;
        }
        self.counter += 1;
        Some(self.counter - 1)
    }
    /// True if packets may be received.
    pub fn may_receive(&mut self, now: SimTime) -> bool {
        self.receives &= !self.has_expired(now) && self.window.next() < REJECT_AFTER_MESSAGES;
        self.receives
    }
}

/// Keys of the sessions with a peer.
#[derive(Clone, Debug, Default)]
pub struct Keypairs {
    /// Keys by which packets are sent.
    pub current: Option<Box<Keypair>>,
    /// Keys before those, by which packets may still arrive.
    pub previous: Option<Box<Keypair>>,
    /// Keys that this end has made as the responder, until the initiator uses them.
    pub next: Option<Box<Keypair>>,
}

impl Keypairs {
    fn all(&mut self) -> [&mut Option<Box<Keypair>>; 3] {
        [&mut self.current, &mut self.previous, &mut self.next]
    }
    /// Keys with this index.
    pub fn with_index(&mut self, index: u32) -> Option<&mut Keypair> {
        self.all().into_iter().flatten().map(|pair| &mut **pair).find(|pair| pair.index == index)
    }
    /// Adds fresh keys (`add_new_keypair`). Returns the indices of those that are given up.
    pub fn add(&mut self, fresh: Keypair) -> Vec<u32> {
        let mut gone = Vec::new();
        if fresh.is_initiator {
            gone.extend(self.previous.take());
            match self.next.take() {
                // Keys that the peer has not confirmed become those before.
                Some(next) => {
                    self.previous = Some(next);
                    gone.extend(self.current.take());
                }
                None => self.previous = self.current.take(),
            }
            self.current = Some(Box::new(fresh));
        } else {
            gone.extend(self.next.replace(Box::new(fresh)));
            gone.extend(self.previous.take());
        }
        gone.into_iter().map(|pair| pair.index).collect()
    }
    /// Makes the next keys current once the peer has used them (`received_with_keypair`). True for those; with the index
    /// of the keys that are given up.
    pub fn confirm(&mut self, index: u32) -> (bool, Option<u32>) {
        if self.next.as_ref().is_none_or(|next| next.index != index) {
            return (false, None);
        }
        let gone = std::mem::replace(&mut self.previous, self.current.take());
        self.current = self.next.take();
        (true, gone.map(|pair| pair.index))
    }
    /// Forgets all keys. Returns their indices.
    pub fn clear(&mut self) -> Vec<u32> {
        self.all().into_iter().filter_map(Option::take).map(|pair| pair.index).collect()
    }
    /// Ends the use of current keys for sending (`wg_noise_expire_current_peer_keypairs`).
    pub fn expire(&mut self) {
        for pair in [&mut self.current, &mut self.next].into_iter().flatten() {
            pair.sends = false;
        }
    }
}
