//! Relay: both directions of a link between two ports, in the time of a clock.
//!
//! A relay does not sleep: it moves the frames that are due ([`Relay::work`]) and computes for how long
//! there is nothing to do ([`Relay::rest`]), so that one thread can drive many relays. Frames that are due
//! within a short span (`slack`) may be sent together.
//!
//! Frames with a time stamp of the kernel enter their line at that time, however late they are received. In
//! a dense flow their port need not wake the thread for each further frame: an unseen frame is due one
//! latency later at the earliest. A frame thus costs one wakeup, to send it on time. The longer a port is
//! not polled, the more slots its ring needs, so the interval between polls grows from a short one while
//! few frames arrive, and a sparse flow causes wakeups as before. On a line with a rate, arrivals keep to
//! the rate in the long run: the longest interval is then one of the line's clock, which may be dilated.

use crate::Line;
use belljar_base::{SimDuration, SimTime};
use belljar_packetio::{Frame, Port, Result, Sent, Timestamp};
use std::num::NonZeroU64;
use std::time::Duration;

/// Maximum number of frames received from a port at a time.
const BATCH: usize = 64;
/// Minimum number of frames in flight or queued that make a flow.
const FLOW: u32 = 2;
/// Initial and longest interval between polls of a port, per slot of its ring. A processor sends at most
/// one frame in 250 ns; full-size frames at 3.6 Gbit/s are 3.3 us apart, by the line's clock if the line
/// has a rate.
const LOOK: [Duration; 2] = [Duration::from_nanos(250), Duration::from_nanos(3_300)];
/// A poll that finds at most 1/16 of the ring filled lengthens the interval.
const FEW: usize = 16;
/// A poll that finds more than 1/8 of the ring filled resets the interval.
const MANY: usize = 8;
/// A poll counts as on time if at most 1/16 of the interval is missing, because clocks round.
const ROUNDING: u32 = 16;

/// Clock of a relay's lines.
pub trait Clock {
    /// Returns the current time, which never decreases.
    fn now(&self) -> SimTime;

    /// Returns the real time that `span` of this clock takes: its product with the dilation factor. A clock
    /// that is set manually returns zero. A clock that stops within `span`, and notifies a [`Waker`] when
    /// it continues, returns [`Duration::MAX`].
    fn real(&self, span: SimDuration) -> Duration;

    /// Returns the real time that `span` of this clock takes while the clock runs, even if it will stop
    /// before.
    fn real_while_going(&self, span: SimDuration) -> Duration {
        self.real(span)
    }

    /// Returns the time of this clock at a time stamp of the kernel, if it is known.
    fn shown_at(&self, _stamp: Timestamp) -> Option<SimTime> {
        None
    }
}

/// Receives the frames queued at a port at `now`, at most [`BATCH`]. `each` is called with the arrival time
/// of each frame, which is its time stamp if it has one. Arrival times do not decrease. `seen` is advanced
/// to the time up to which all frames have been received.
pub(crate) fn take_in(
    port: &mut dyn Port,
    clock: &dyn Clock,
    now: SimTime,
    seen: &mut SimTime,
    mut each: impl FnMut(SimTime, Frame<'_>),
) -> Result<usize> {
    let (before, mut last) = (*seen, *seen);
    let received = port.receive(BATCH, &mut |frame| {
        let stamped = frame.time.and_then(|stamp| clock.shown_at(stamp));
        // The machine's wall clock may have been set meanwhile.
        last = stamped.map_or(now, |at| at.max(before).min(now)).max(last);
        each(last, frame);
    });
    // Frames that are still queued at the port arrived after the last one.
    *seen = if matches!(received, Ok(BATCH..)) { last } else { now };
    received
}

/// Frames moved by a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Number of frames received and delivered.
    pub frames: usize,
    /// True if a port may have further frames.
    pub more: bool,
}

/// Time for which a relay has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Time until the relay must be called at the latest.
    pub wait: Duration,
    /// Time from which on the relay can be called usefully.
    pub early: Duration,
    /// Ports that must wake the thread when they are readable.
    pub awake: [bool; 2],
}

/// Frames that a port did not accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Frames for which the port had no room.
    pub full: u64,
    /// Frames that were too long for the port, or found its interface down or gone.
    pub unfit: u64,
}

/// Two ports and the lines between them.
pub(crate) struct Relay {
    ends: [End; 2],
}

struct End {
    port: Box<dyn Port>,
    /// Line from this end to the other.
    line: Line,
    /// Frames that the other end's port did not accept.
    refused: Refused,
    /// Time of this end up to which all frames have been received.
    seen: SimTime,
    /// True if the last frame had a time stamp.
    is_stamped: bool,
    /// Interval between polls of the port; zero without a flow.
    look: Duration,
    /// Interval planned at the last poll; zero if the port was to wake the thread.
    alone: Duration,
    /// Start of that interval, by this end's clock.
    alone_since: SimTime,
}

impl End {
    /// Initial and longest interval between polls; `near` is the clock of this end.
    fn looks(&self, near: &dyn Clock) -> [Duration; 2] {
        let room = u32::try_from(self.port.room()).unwrap_or(u32::MAX);
        let [first, longest] = LOOK.map(|span| span.saturating_mul(room));
        let is_slow = self.line.is_limited();
        let slow = near.real_while_going(SimDuration::from_nanos(longest.as_nanos() as u64));
        [first, if is_slow { longest.max(slow) } else { longest }]
    }

    /// True while frames are dense enough for polling the port at intervals; the arguments are the clocks
    /// of the ends.
    fn has_flow(&self, near: &dyn Clock, far: &dyn Clock) -> bool {
        let pending = u32::try_from(self.line.pending()).unwrap_or(u32::MAX);
        let [_, longest] = self.looks(near);
        self.is_stamped
            && pending >= FLOW
            && far.real(self.line.least_latency()) <= longest.saturating_mul(pending)
    }

    /// Adapts the interval after a poll at `now` of the clock `near` that found `received` frames.
    fn looked(&mut self, received: usize, now: SimTime, near: &dyn Clock) {
        let planned = std::mem::take(&mut self.alone);
        if planned.is_zero() {
            return;
        }
        // The poll may have been early, because a frame was due: it only covers the time that has passed.
        let alone = planned.min(near.real_while_going(now.since(self.alone_since)));
        let [first, longest] = self.looks(near);
        if received >= BATCH || received * MANY > self.port.room() {
            self.look = first;
        } else if alone >= self.look - self.look / ROUNDING && received * FEW <= self.port.room() {
            self.look = self.look.saturating_mul(2).min(longest);
        }
    }
}

impl Relay {
    /// Creates a relay between two ports, each with the line that leads away from it.
    pub fn new(a: (Box<dyn Port>, Line), b: (Box<dyn Port>, Line)) -> Relay {
        let end = |(port, line)| End {
            port,
            line,
            refused: Refused::default(),
            seen: SimTime::ZERO,
            is_stamped: false,
            look: Duration::ZERO,
            alone: Duration::ZERO,
            alone_since: SimTime::ZERO,
        };
        Relay { ends: [end(a), end(b)] }
    }

    /// Line that leads away from port 0 or 1.
    pub fn line(&mut self, from: usize) -> &mut Line {
        &mut self.ends[from].line
    }

    /// Returns port 0 or 1.
    pub fn port(&mut self, at: usize) -> &mut dyn Port {
        &mut *self.ends[at].port
    }

    /// Number of frames from port 0 or 1 that the other port did not accept after the line.
    pub fn refused(&self, from: usize) -> Refused {
        self.ends[from].refused
    }

    /// Returns the time for which there is nothing to do, at most `at_most`. Frames may be late by `slack`,
    /// in the time of the clock of their destination's end.
    pub(crate) fn rest(&mut self, clocks: [&dyn Clock; 2], at_most: Duration, slack: SimDuration) -> Rest {
        let mut rest = Rest { wait: at_most, early: at_most, awake: [true; 2] };
        let now = clocks.map(|clock| clock.now());
        let until = |of: usize, at: SimTime| clocks[of].real(at.since(now[of]));
        for near in [0, 1] {
            let far = 1 - near;
            let end = &mut self.ends[near];
            let line = &end.line;
            let mut due = |at: SimTime, least: Duration| {
                rest.early = rest.early.min(least.max(until(far, at)));
                rest.wait = rest.wait.min(least.max(until(far, at + slack)));
            };
            if let Some(at) = line.next_arrival() {
                due(at, Duration::ZERO);
            }
            // A frame that leaves the queue is due one latency later; its departure need not be processed
            // before.
            if let Some(at) = line.next_departure() {
                due(at + line.least_latency(), until(near, at));
            }
            if !end.has_flow(clocks[near], clocks[far]) {
                end.look = Duration::ZERO;
                continue;
            }
            let at = end.seen + line.least_latency();
            if !until(far, at).is_zero() {
                due(at, Duration::ZERO);
                end.look = end.look.max(end.looks(clocks[near])[0]);
                rest.wait = rest.wait.min(end.look);
                rest.awake[near] = false;
            }
        }
        rest.early = rest.early.min(rest.wait);
        for (near, end) in self.ends.iter_mut().enumerate() {
            end.alone = if rest.awake[near] { Duration::ZERO } else { rest.wait };
            end.alone_since = now[near];
        }
        rest
    }

    /// Sends the frames that are due and receives those that have arrived.
    ///
    /// Each end has a clock. A frame enters its line by the clock of the near end, and leaves by that of
    /// the far end. Its delay counts from its time stamp, or from the call that receives it.
    pub(crate) fn work(&mut self, clocks: [&dyn Clock; 2]) -> Result<Moved> {
        let mut moved = Moved::default();
        for from in [0, 1] {
            let [first, second] = &mut self.ends;
            let (near, far) = if from == 0 { (first, second) } else { (second, first) };
            let now = clocks[from].now();
            let End { port, line, seen, is_stamped, .. } = near;
            let received = take_in(&mut **port, clocks[from], now, seen, |at, frame| {
                *is_stamped = frame.time.is_some();
                line.offer(at, frame.bytes);
            })?;
            near.looked(received, now, clocks[from]);
            moved.frames += received;
            moved.more |= received >= BATCH;
            let End { line, refused, seen, .. } = near;
            let mut failed = None;
            // The line must not advance beyond frames that are still queued at the port.
            let delivered =
                line.deliver_by(*seen, clocks[1 - from].now(), |frame, _| match far.port.send(frame) {
                    Ok(Sent::Queued) => {}
                    Ok(Sent::Full) => refused.full += 1,
                    Err(e) => {
                        refused.unfit += 1;
                        failed = Some(e);
                    }
                });
            moved.frames += delivered;
            if let Some(e) = failed {
                return Err(e);
            }
            if delivered > 0 {
                far.port.flush()?;
            }
        }
        Ok(moved)
    }
}

/// Makes the calling thread's sleeps end on time: by default Linux may delay their end by 50 us (timer
/// slack).
pub fn precise_waits() -> std::io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Raises the priority of the calling thread above that of programs, if the user may do so: a frame that is
/// due must not wait.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, -20);
}

#[cfg(test)]
mod tests;
