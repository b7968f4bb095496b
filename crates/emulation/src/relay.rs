//! The two directions of a link between two ports, in the time of a clock.
//!
//! A relay does not sleep: it moves what is due ([`Relay::work`]) and says how long there is nothing to do ([`Relay::rest`]), so that one
//! thread can drive many. Frames of one short span may leave together: `slack`.
//!
//! Frames that the kernel stamps enter their line by the stamp, however late they are taken in. In a dense flow their port need
//! not wake this thread for each further one: what has not been seen yet is due a latency later at the earliest. So a frame
//! costs one wake-up, for sending it at its time. The longer nobody looks at a port the more room its ring needs, so the time
//! until the next look grows from a short one on while little comes, and a flow that is not dense wakes as before. Where the line has
//! a rate, what comes keeps to it in the long run: then the longest time is one of the clock, which may go slowly.

use crate::Line;
use belljar_base::{SimDuration, SimTime};
use belljar_packetio::{Frame, Port, Result, Sent, Timestamp};
use std::num::NonZeroU64;
use std::time::Duration;

/// Frames received in one go from a port.
const BATCH: usize = 64;
/// The least number of frames under way, or waiting for their turn, that are a flow.
const FLOW: u32 = 2;
/// Time without a look at a port for each frame that its ring has room for: the first, and the longest. A processor sends no more
/// than a frame in 250 ns; 3.6 Gbit/s are a frame of full length in 3.3 us, by the line's clock where the line has a rate.
const LOOK: [Duration; 2] = [Duration::from_nanos(250), Duration::from_nanos(3_300)];
/// No more frames in one look than one part of so many of its room let the next one come later.
const FEW: usize = 16;
/// More than one part of so many let it come soon.
const MANY: usize = 8;
/// A look is as late as it was to be if no more than one part of so many of the time is missing: clocks round.
const ROUNDING: u32 = 16;

/// The clock that a relay's lines go by.
pub trait Clock {
    /// The present time. It does not go back.
    fn now(&self) -> SimTime;

    /// The real time that `span` of this clock takes: its product with the dilation factor. A clock that is moved by hand
    /// gives zero, one that stands until it is let go on, and tells a [`Waker`] then, more than there is.
    fn real(&self, span: SimDuration) -> Duration;

    /// The real time that `span` of this clock takes while it goes, also where it is to stand before.
    fn real_while_going(&self, span: SimDuration) -> Duration {
        self.real(span)
    }

    /// The time that it showed at a stamp of the kernel's, if it can tell.
    fn shown_at(&self, _stamp: Timestamp) -> Option<SimTime> {
        None
    }
}

/// Takes in what waits in a port at `now`, at most [`BATCH`] frames: `each` is given the time at which a frame has come, by its stamp
/// where it has one. `seen`, the time up to which all frames have been taken in, goes on; their times do not go back.
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
    // What still waits in the port has come after the last one.
    *seen = if matches!(received, Ok(BATCH..)) { last } else { now };
    received
}

/// Frames that a relay has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Frames taken in and handed out.
    pub frames: usize,
    /// A port may have further frames.
    pub more: bool,
}

/// The time for which a relay has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// When it has to work next at the latest.
    pub wait: Duration,
    /// When it can.
    pub early: Duration,
    /// The ports that end that time when they are readable.
    pub awake: [bool; 2],
}

/// Two ports and the lines between them.
pub(crate) struct Relay {
    ends: [End; 2],
}

struct End {
    port: Box<dyn Port>,
    /// The line from this end to the other.
    line: Line,
    /// Frames that the other end's port had no room for.
    refused: u64,
    /// This end's time up to which all frames have been taken in.
    seen: SimTime,
    /// The last frame had a stamp.
    is_stamped: bool,
    /// The time for which the port may be left alone; zero where no flow has begun.
    look: Duration,
    /// The time for which it was to be left alone since the last look; zero if it was not.
    alone: Duration,
    /// When that began, by this end's clock.
    alone_since: SimTime,
}

impl End {
    /// The first and the longest time without a look; the end goes by `near`.
    fn looks(&self, near: &dyn Clock) -> [Duration; 2] {
        let room = u32::try_from(self.port.room()).unwrap_or(u32::MAX);
        let [first, longest] = LOOK.map(|span| span.saturating_mul(room));
        let is_slow = self.line.is_limited();
        let slow = near.real_while_going(SimDuration::from_nanos(longest.as_nanos() as u64));
        [first, if is_slow { longest.max(slow) } else { longest }]
    }

    /// True while frames come densely enough that the port may be left alone; the ends go by these clocks.
    fn has_flow(&self, near: &dyn Clock, far: &dyn Clock) -> bool {
        let pending = u32::try_from(self.line.pending()).unwrap_or(u32::MAX);
        let [_, longest] = self.looks(near);
        self.is_stamped
            && pending >= FLOW
            && far.real(self.line.least_latency()) <= longest.saturating_mul(pending)
    }

    /// Makes the time until the next look longer or shorter after one at `now` by the clock `near`, which found `received` frames.
    fn looked(&mut self, received: usize, now: SimTime, near: &dyn Clock) {
        let planned = std::mem::take(&mut self.alone);
        if planned.is_zero() {
            return;
        }
        // The look may have come early, when a frame was due: it tells of no more than the time that has passed.
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
    /// A relay between ports, each with the line that leads away from it.
    pub fn new(a: (Box<dyn Port>, Line), b: (Box<dyn Port>, Line)) -> Relay {
        let end = |(port, line)| End {
            port,
            line,
            refused: 0,
            seen: SimTime::ZERO,
            is_stamped: false,
            look: Duration::ZERO,
            alone: Duration::ZERO,
            alone_since: SimTime::ZERO,
        };
        Relay { ends: [end(a), end(b)] }
    }

    /// The line that leads away from port 0 or 1.
    pub fn line(&mut self, from: usize) -> &mut Line {
        &mut self.ends[from].line
    }

    /// Port 0 or 1.
    pub fn port(&mut self, at: usize) -> &mut dyn Port {
        &mut *self.ends[at].port
    }

    /// Frames from port 0 or 1 that came out of the line and found no room in the other port.
    pub fn refused(&self, from: usize) -> u64 {
        self.ends[from].refused
    }

    /// The time for which there is nothing to do, at most `at_most`. Frames that are due may wait for `slack` of the clock of the end to which
    /// they go.
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
            // A frame that leaves the queue is due a latency later. Until then nobody asks whether it has left.
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

    /// Sends what is due and takes in what has arrived.
    ///
    /// Each end has a clock. A frame enters its line by that of the end where it comes from, and leaves by that of the other. A
    /// frame's delay counts from its stamp, or from the call that takes it in.
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
            // The line goes no further before what still waits in the port is taken in.
            let delivered =
                line.deliver_by(*seen, clocks[1 - from].now(), |frame, _| match far.port.send(frame) {
                    Ok(Sent::Queued) => {}
                    Ok(Sent::Full) => *refused += 1,
                    Err(e) => failed = Some(e),
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

/// Makes the calling thread's sleeps end when they are to: by default Linux lets them last up to 50 us longer.
pub fn precise_waits() -> std::io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Lets the calling thread go before programs, where the user may do that: a frame that is due waits for nobody.
pub fn go_first() {
    let _ = rustix::process::setpriority_process(None, -20);
}

#[cfg(test)]
mod tests;
