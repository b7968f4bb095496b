//! Medium access of a station: transmit queue, backoff and carrier sense.
//!
//! A station with a frame waits until the medium has been idle for DIFS, then counts down its backoff slots
//! while the medium remains idle. No event occurs per slot: the end of the last slot is the *access time* of
//! the station. If the medium becomes busy before, the access time is cancelled and the elapsed slots are
//! subtracted.

use crate::Settings;
use belljar_base::{SimDuration, SimTime, Stream};
use belljar_net::Packet;
use std::collections::VecDeque;

/// Counters of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCounters {
    /// Broadcast and multicast frames sent.
    pub broadcasts: u64,
    /// Unicast frames sent, without retransmissions.
    pub unicasts: u64,
    /// Bytes of the Ethernet frames sent, without retransmissions.
    pub bytes: u64,
    /// Retransmissions after a missing acknowledgement.
    pub retries: u64,
    /// Frames acknowledged.
    pub acknowledged: u64,
    /// Frames dropped after all retransmissions.
    pub given_up: u64,
    /// Frames dropped because the queue was full.
    pub queue_full: u64,
    /// Frames received, addressed to the station.
    pub received: u64,
    /// Duplicate frames received, addressed to the station, after a lost acknowledgement.
    pub duplicates: u64,
    /// Frames in reach, addressed to the station, lost because another frame overlapped them.
    pub collided: u64,
    /// Frames in reach, addressed to the station, lost because the station was sending or down.
    pub deaf: u64,
    /// Frames in reach, addressed to the station, lost by random loss.
    pub lost: u64,
    /// Time spent sending, including acknowledgements.
    pub airtime: SimDuration,
    /// Time during which the station sensed the medium busy, including its own transmissions.
    pub busy: SimDuration,
}

/// State of a station's current frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No frame.
    Idle,
    /// Waiting for access to the medium.
    Contending,
    /// On the air.
    Sending,
    /// Waiting for the acknowledgement.
    Awaiting,
}

/// Frame being received by a station.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) frame: u64,
    pub(crate) power: f64,
    /// True if the signal exceeds the reception threshold.
    pub(crate) in_reach: bool,
    pub(crate) spoilt: Option<Spoilt>,
}

/// Reason why a frame cannot be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoilt {
    /// Another frame overlaps.
    Collided,
    /// The station is sending or down.
    Deaf,
}

#[derive(Debug)]
pub(crate) struct Station {
    queue: VecDeque<Packet>,
    pub(crate) state: State,
    /// Current frame, except while it is on the air.
    pub(crate) frame: Option<Packet>,
    /// Number of retransmissions of the frame.
    retries: u32,
    /// True if the receiver has received the frame.
    pub(crate) delivered: bool,
    /// Attempt number, incremented with each transmission; identifies stale timeouts and acknowledgements.
    pub(crate) attempt: u64,
    /// Remaining backoff slots.
    slots: u32,
    window: u32,
    /// Number of frames on the air that the station senses, including its own.
    heard: u32,
    /// Time since which the medium has been idle, or the end of the reservation if that is later.
    idle_since: SimTime,
    busy_since: SimTime,
    /// End of the medium's reservation by an exchange of other stations (NAV).
    reserved: SimTime,
    pub(crate) access: Option<SimTime>,
    pub(crate) sending: bool,
    pub(crate) down: bool,
    pub(crate) incoming: Vec<Incoming>,
    pub(crate) counters: StationCounters,
    backoff: Stream,
    pub(crate) chance: Stream,
}

impl Station {
    pub(crate) fn new(settings: &Settings, backoff: Stream, chance: Stream) -> Station {
        Station {
            queue: VecDeque::new(),
            state: State::Idle,
            frame: None,
            retries: 0,
            delivered: false,
            attempt: 0,
            slots: 0,
            window: settings.window[0],
            heard: 0,
            idle_since: SimTime::ZERO,
            busy_since: SimTime::ZERO,
            reserved: SimTime::ZERO,
            access: None,
            sending: false,
            down: false,
            incoming: Vec::new(),
            counters: StationCounters::default(),
            backoff,
            chance,
        }
    }

    pub(crate) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Number of frames that wait and have not been delivered: in the queue, or current and not on the air.
    pub(crate) fn undelivered(&self) -> u64 {
        self.queue.len() as u64 + u64::from(self.frame.is_some() && !self.delivered)
    }

    /// Queues a frame.
    pub(crate) fn enqueue(&mut self, now: SimTime, packet: Packet, settings: &Settings) {
        if self.queue.len() >= settings.queue {
            self.counters.queue_full += 1;
            return;
        }
        self.queue.push_back(packet);
        if self.state == State::Idle {
            self.next_frame();
            self.count_slots(now, settings);
            let idle = self.heard == 0 && now >= self.idle_since + settings.difs();
            // A station that finds the medium idle sends without backoff.
            if self.slots == 0 && !idle {
                self.draw();
            }
            self.contend(now, settings);
        }
    }

    fn next_frame(&mut self) {
        self.frame = self.queue.pop_front();
        self.state = if self.frame.is_some() { State::Contending } else { State::Idle };
        (self.retries, self.delivered) = (0, false);
    }

    fn draw(&mut self) {
        self.slots = self.backoff.below(u64::from(self.window) + 1) as u32;
    }

    /// Subtracts the slots elapsed since the medium became idle.
    fn count_slots(&mut self, now: SimTime, settings: &Settings) {
        let start = self.idle_since + settings.difs();
        if self.heard == 0 && now > start {
            let passed = now.since(start).as_picos() / settings.slot.as_picos();
            let counted = passed.min(u64::from(self.slots));
            self.slots -= counted as u32;
            self.idle_since += settings.slot.saturating_mul(counted);
        }
    }

    /// Sets the access time if the station has a frame and the medium is idle.
    fn contend(&mut self, now: SimTime, settings: &Settings) {
        self.access = (self.state == State::Contending && self.heard == 0).then(|| {
            let wait = settings.difs() + settings.slot.saturating_mul(self.slots.into());
            (self.idle_since + wait).max(now)
        });
    }

    /// Start of a sensed frame, including own frames.
    pub(crate) fn hears(&mut self, now: SimTime, settings: &Settings) {
        if self.heard == 0 {
            self.count_slots(now, settings);
            self.busy_since = now;
        }
        self.heard += 1;
        self.access = None;
    }

    /// End of a sensed frame.
    pub(crate) fn hears_no_more(&mut self, now: SimTime, settings: &Settings) {
        self.heard -= 1;
        if self.heard == 0 {
            self.counters.busy += now.since(self.busy_since);
            self.idle_since = now.max(self.reserved);
            self.contend(now, settings);
        }
    }

    /// Reserves the medium until `until`, for an acknowledgement to another station.
    pub(crate) fn reserve(&mut self, until: SimTime) {
        self.reserved = self.reserved.max(until);
    }

    /// True if the frame has not been transmitted before.
    pub(crate) fn is_first_attempt(&self) -> bool {
        self.retries == 0
    }

    /// Starts transmission; the frame is owned by the medium until its end.
    pub(crate) fn begin(&mut self) -> Option<Packet> {
        self.state = State::Sending;
        self.attempt += 1;
        self.access = None;
        self.frame.take()
    }

    /// Handles a missing acknowledgement: schedules a retransmission, or drops the frame and returns it after
    /// the last one.
    pub(crate) fn fail(&mut self, now: SimTime, settings: &Settings) -> Option<Packet> {
        if self.retries >= settings.retries {
            self.counters.given_up += 1;
            let given_up = self.frame.take();
            self.finish(now, settings);
            return given_up;
        }
        self.retries += 1;
        self.counters.retries += 1;
        self.window = (2 * self.window + 1).min(settings.window[1]);
        self.state = State::Contending;
        self.back_off(now, settings);
        None
    }

    /// Completes the current frame and starts with the next.
    pub(crate) fn finish(&mut self, now: SimTime, settings: &Settings) {
        self.attempt += 1;
        self.window = settings.window[0];
        self.next_frame();
        self.back_off(now, settings);
    }

    /// Starts a new backoff.
    fn back_off(&mut self, now: SimTime, settings: &Settings) {
        self.draw();
        self.idle_since = self.idle_since.max(now);
        self.contend(now, settings);
    }

    /// Sets the station down or up. A station that goes down drops its frames, whose number is returned, and
    /// receives none.
    pub(crate) fn set_down(&mut self, down: bool) -> u64 {
        self.down = down;
        if !down {
            return 0;
        }
        let lost = self.queue.len() as u64 + u64::from(self.state != State::Idle);
        self.queue.clear();
        (self.state, self.frame, self.access) = (State::Idle, None, None);
        self.attempt += 1;
        for incoming in &mut self.incoming {
            incoming.spoilt = Some(Spoilt::Deaf);
        }
        lost
    }
}
