//! Timers of a peer: see the comment at the head of Linux's `timers.c`.
//!
//! *Retransmission* of an initiation without a response. *Keepalive* after received packets that nothing has answered.
//! *New handshake* if sent packets are not answered. *Zeroing* of keys that have long expired. *Persistent keepalive* by
//! configuration. Times are random by up to a third of a second where both ends could act at once.

use crate::device::{RejectReason, WireguardDevice, WireguardOutput};
use crate::limits::{
    KEEPALIVE_TIMEOUT, MAX_TIMER_HANDSHAKES, REJECT_AFTER_TIME, REKEY_JITTER_TICKS, REKEY_TIMEOUT,
};
use crate::peer::Peer;
use crate::{Key, Now};
use belljar_base::{HZ, SimDuration, SimTime, Stream};

/// Kinds of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Retransmit,
    Keepalive,
    NewHandshake,
    ZeroKeys,
    Persistent,
}

/// Times of a peer's timers, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers([Option<SimTime>; 5]);

impl Timers {
    const ALL: [Kind; 5] =
        [Kind::Retransmit, Kind::Keepalive, Kind::NewHandshake, Kind::ZeroKeys, Kind::Persistent];

    fn at(&mut self, kind: Kind) -> &mut Option<SimTime> {
        &mut self.0[kind as usize]
    }
    pub(crate) fn next(&self) -> Option<SimTime> {
        self.0.iter().flatten().min().copied()
    }
}

fn jitter(random: &mut Stream) -> SimDuration {
    SimDuration::from_nanos(random.below(REKEY_JITTER_TICKS) * 1_000_000_000 / HZ)
}

impl Peer {
    /// Data have been sent.
    pub(crate) fn data_sent(&mut self, now: SimTime, random: &mut Stream) {
        let at = self.timers.at(Kind::NewHandshake);
        if at.is_none() {
            *at = Some(now + KEEPALIVE_TIMEOUT + REKEY_TIMEOUT + jitter(random));
        }
    }
    /// Data have been received.
    pub(crate) fn data_received(&mut self, now: SimTime) {
        let at = self.timers.at(Kind::Keepalive);
        match at {
            None => *at = Some(now + KEEPALIVE_TIMEOUT),
            Some(_) => self.needs_another_keepalive = true,
        }
    }
    /// A message of any kind has been sent.
    pub(crate) fn authenticated_sent(&mut self, now: SimTime) {
        *self.timers.at(Kind::Keepalive) = None;
        self.traversed(now);
    }
    /// An authentic message of any kind has been received.
    pub(crate) fn authenticated_received(&mut self, now: SimTime) {
        *self.timers.at(Kind::NewHandshake) = None;
        self.traversed(now);
    }
    fn traversed(&mut self, now: SimTime) {
        if self.persistent_keepalive != 0 {
            let interval = SimDuration::from_secs(self.persistent_keepalive.into());
            *self.timers.at(Kind::Persistent) = Some(now + interval);
        }
    }
    /// An initiation has been sent.
    pub(crate) fn handshake_initiated(&mut self, now: SimTime, random: &mut Stream) {
        *self.timers.at(Kind::Retransmit) = Some(now + REKEY_TIMEOUT + jitter(random));
    }
    /// The far end has confirmed the keys.
    pub(crate) fn handshake_complete(&mut self, now: Now) {
        *self.timers.at(Kind::Retransmit) = None;
        self.attempts = 0;
        self.sent_lastminute_handshake = false;
        self.last_handshake_ns = Some(now.realtime_ns);
    }
    /// Keys have been made.
    pub(crate) fn session_derived(&mut self, now: SimTime) {
        *self.timers.at(Kind::ZeroKeys) = Some(now + REJECT_AFTER_TIME.saturating_mul(3));
    }
}

impl WireguardDevice {
    /// Time of the next timer.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.peers.values().filter_map(|peer| peer.timers.next()).min()
    }

    /// Handles the timers that are due.
    pub fn on_timeout(&mut self, now: Now) {
        let due = |peer: &Peer| peer.timers.next().is_some_and(|at| at <= now.time);
        let keys: Vec<Key> = self.peers().filter(|(_, peer)| due(peer)).map(|(key, _)| *key).collect();
        for key in keys {
            for kind in Timers::ALL {
                let Some(peer) = self.peer_mut(&key) else { break };
                let at = peer.timers.at(kind);
                if at.is_some_and(|at| at <= now.time) {
                    *at = None;
                    self.expire(&key, kind, now);
                }
            }
        }
    }

    fn expire(&mut self, key: &Key, kind: Kind, now: Now) {
        let Some(peer) = self.peer_mut(key) else { return };
        match kind {
            Kind::Retransmit if peer.attempts > MAX_TIMER_HANDSHAKES => {
                *peer.timers.at(Kind::Keepalive) = None;
                let zero = peer.timers.at(Kind::ZeroKeys);
                if zero.is_none() {
                    *zero = Some(now.time + REJECT_AFTER_TIME.saturating_mul(3));
                }
                self.purge_staged(key, RejectReason::NoSession);
            }
            Kind::Retransmit => {
                peer.attempts += 1;
                peer.clear_source();
                self.initiate(key, true, now);
            }
            Kind::Keepalive => {
                let again = std::mem::take(&mut peer.needs_another_keepalive);
                self.send_keepalive(key, now);
                if let Some(peer) = self.peer_mut(key).filter(|_| again) {
                    *peer.timers.at(Kind::Keepalive) = Some(now.time + KEEPALIVE_TIMEOUT);
                }
            }
            Kind::NewHandshake => {
                peer.clear_source();
                self.initiate(key, false, now);
            }
            Kind::ZeroKeys => {
                let gone = peer.forget_keys();
                self.release(gone);
            }
            Kind::Persistent if peer.persistent_keepalive != 0 => self.send_keepalive(key, now),
            Kind::Persistent => {}
        }
    }

    /// Gives up the packets of a peer that wait for a key.
    pub(crate) fn purge_staged(&mut self, key: &Key, why: RejectReason) {
        let Some(peer) = self.peer_mut(key) else { return };
        let count = peer.staged.iter().filter(|staged| !staged.is_keepalive()).count();
        peer.staged.clear();
        self.outputs.extend((0..count).map(|_| WireguardOutput::Dropped(why)));
    }
}
