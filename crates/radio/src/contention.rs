//! A station at the channel: its queue, its backoff, and what it hears.
//!
//! A station that has a frame waits until the medium has been idle for DIFS, and then counts down the slots that it has drawn
//! while the medium stays so. Nothing is done for each slot: the time at which the last one ends is the station's *access*
//! time, which is taken back when the medium becomes busy before, with the slots that are over.

use crate::Settings;
use belljar_base::{SimDuration, SimTime, Stream};
use belljar_net::Packet;
use std::collections::VecDeque;

/// Counts of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCounters {
    /// Frames to all that it has sent.
    pub broadcasts: u64,
    /// Frames to one station that it has sent, each counted once.
    pub unicasts: u64,
    /// The bytes of their Ethernet frames.
    pub bytes: u64,
    /// Times that a frame was sent again because no acknowledgement came.
    pub retries: u64,
    /// Frames that were acknowledged.
    pub acknowledged: u64,
    /// Frames given up after all retries.
    pub given_up: u64,
    /// Frames lost because its queue was full.
    pub queue_full: u64,
    /// Frames for it that it has received.
    pub received: u64,
    /// Frames for it that it had received before: the acknowledgement was lost.
    pub duplicates: u64,
    /// Frames for it, in reach, that were lost because another one overlapped them.
    pub collided: u64,
    /// Frames for it, in reach, that were lost because it was sending.
    pub deaf: u64,
    /// Frames for it, in reach, that were lost by chance.
    pub lost: u64,
    /// The time for which it was sending, acknowledgements included.
    pub airtime: SimDuration,
    /// The time for which it was sending or heard others.
    pub busy: SimDuration,
}

/// The state of a station's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none.
    Idle,
    /// It waits for the medium.
    Contending,
    /// It is being sent.
    Sending,
    /// Its acknowledgement is due.
    Awaiting,
}

/// A frame that comes in at a station.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) frame: u64,
    pub(crate) power: f64,
    /// It is strong enough to be received.
    pub(crate) in_reach: bool,
    pub(crate) spoilt: Option<Spoilt>,
}

/// The reason why a frame cannot be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoilt {
    /// Another overlaps it.
    Collided,
    /// The station sends, or is down.
    Deaf,
}

#[derive(Debug)]
pub(crate) struct Station {
    queue: VecDeque<Packet>,
    pub(crate) state: State,
    /// The frame, unless it is on the air.
    pub(crate) frame: Option<Packet>,
    /// Times that the frame has been sent again.
    retries: u32,
    /// The receiver has the frame already.
    pub(crate) delivered: bool,
    /// Changes with each attempt, so that what belongs to an earlier one is known.
    pub(crate) attempt: u64,
    /// Slots still to count.
    slots: u32,
    window: u32,
    /// Frames on the air that it hears, its own included.
    heard: u32,
    /// When the medium became idle, or will be if nothing comes between.
    idle_since: SimTime,
    busy_since: SimTime,
    /// Other stations' exchange keeps the medium reserved until then.
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
            // Who comes to an idle medium sends at once.
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

    /// Takes off the slots that have passed since the medium became idle.
    fn count_slots(&mut self, now: SimTime, settings: &Settings) {
        let start = self.idle_since + settings.difs();
        if self.heard == 0 && now > start {
            let passed = now.since(start).as_picos() / settings.slot.as_picos();
            let counted = passed.min(u64::from(self.slots));
            self.slots -= counted as u32;
            self.idle_since += settings.slot.saturating_mul(counted);
        }
    }

    /// Sets the time at which it may send, if it has a frame and the medium is idle.
    fn contend(&mut self, now: SimTime, settings: &Settings) {
        self.access = (self.state == State::Contending && self.heard == 0).then(|| {
            let wait = settings.difs() + settings.slot.saturating_mul(self.slots.into());
            (self.idle_since + wait).max(now)
        });
    }

    /// Another frame is on the air that it hears, be it its own.
    pub(crate) fn hears(&mut self, now: SimTime, settings: &Settings) {
        if self.heard == 0 {
            self.count_slots(now, settings);
            self.busy_since = now;
        }
        self.heard += 1;
        self.access = None;
    }

    /// One of the frames that it hears ends.
    pub(crate) fn hears_no_more(&mut self, now: SimTime, settings: &Settings) {
        self.heard -= 1;
        if self.heard == 0 {
            self.counters.busy += now.since(self.busy_since);
            self.idle_since = now.max(self.reserved);
            self.contend(now, settings);
        }
    }

    /// Keeps quiet until then, for other stations' acknowledgement.
    pub(crate) fn reserve(&mut self, until: SimTime) {
        self.reserved = self.reserved.max(until);
    }

    /// True if its frame has not been on the air yet.
    pub(crate) fn is_first_attempt(&self) -> bool {
        self.retries == 0
    }

    /// Begins to send its frame, which it gives away until it has ended.
    pub(crate) fn begin(&mut self) -> Option<Packet> {
        self.state = State::Sending;
        self.attempt += 1;
        self.access = None;
        self.frame.take()
    }

    /// No acknowledgement has come. Gives the frame back once it has been sent often enough.
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

    /// Is done with the frame: on to the next one.
    pub(crate) fn finish(&mut self, now: SimTime, settings: &Settings) {
        self.attempt += 1;
        self.window = settings.window[0];
        self.next_frame();
        self.back_off(now, settings);
    }

    /// Counts new slots from now on, after whatever it has sent.
    fn back_off(&mut self, now: SimTime, settings: &Settings) {
        self.draw();
        self.idle_since = self.idle_since.max(now);
        self.contend(now, settings);
    }

    /// Loses its frames, and receives nothing until it is up again. Gives the number of lost frames.
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
