//! The two directions of a link between two ports, in the time of a clock.
//!
//! Sleeping until a frame is due is late by a wake-up; spinning is not, and takes a processor. So [`Relay::turn`]
//! sleeps until shortly before the next event and returns at once from there on: a caller that calls it in a loop
//! spins for that last span alone.

use crate::Line;
use belljar_base::{SimDuration, SimTime};
use belljar_packetio::{Port, Result, Sent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::num::NonZeroU64;
use std::time::Duration;

/// Frames received in one go from a port.
const BATCH: usize = 64;

/// The clock that a relay's lines go by.
pub trait Clock {
    /// The present time. It does not go back.
    fn now(&mut self) -> SimTime;

    /// The real time that `span` of this clock takes: its product with the dilation factor. A clock that stands still
    /// until something else moves it gives zero.
    fn real(&self, span: SimDuration) -> Duration;
}

/// Two ports and the lines between them.
pub struct Relay {
    ends: [End; 2],
    spin: Duration,
}

struct End {
    port: Box<dyn Port>,
    /// The line from this end to the other.
    line: Line,
    /// Frames that the other end's port had no room for.
    refused: u64,
}

impl Relay {
    /// A relay between ports, each with the line that leads away from it. `spin` is the real time before an event in
    /// which it does not sleep: about the lateness of a wake-up (50 us), or zero to spare the processor.
    pub fn new(a: (Box<dyn Port>, Line), b: (Box<dyn Port>, Line), spin: Duration) -> Relay {
        let end = |(port, line)| End { port, line, refused: 0 };
        Relay { ends: [end(a), end(b)], spin }
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

    /// Sends what is due and takes in what has arrived. If there was nothing to do, sleeps until there may be, for
    /// `at_most` of real time. Returns the number of frames that were moved.
    ///
    /// A frame's delay counts from the call that takes it in.
    pub fn turn(&mut self, clock: &mut dyn Clock, at_most: Duration) -> Result<usize> {
        let moved = self.work(clock)?;
        if moved > 0 {
            return Ok(moved);
        }
        let next = self.ends.iter().filter_map(|end| end.line.next_event()).min();
        let wait = match next {
            Some(at) => {
                let now = clock.now();
                clock.real(at.since(now)).saturating_sub(self.spin).min(at_most)
            }
            None => at_most,
        };
        if !wait.is_zero() {
            self.sleep(wait);
        }
        Ok(0)
    }

    fn work(&mut self, clock: &mut dyn Clock) -> Result<usize> {
        let mut moved = 0;
        for from in [0, 1] {
            let [first, second] = &mut self.ends;
            let (near, far) = if from == 0 { (first, second) } else { (second, first) };
            let now = clock.now();
            let line = &mut near.line;
            moved += near.port.receive(BATCH, &mut |frame| line.offer(now, frame.bytes))?;
            let mut failed = None;
            let delivered = line.deliver(now, |frame, _| match far.port.send(frame) {
                Ok(Sent::Queued) => {}
                Ok(Sent::Full) => near.refused += 1,
                Err(e) => failed = Some(e),
            });
            moved += delivered;
            if let Some(e) = failed {
                return Err(e);
            }
            if delivered > 0 {
                far.port.flush()?;
            }
        }
        Ok(moved)
    }

    /// Sleeps until a port is readable, or `wait` is over.
    fn sleep(&self, wait: Duration) {
        let [a, b] = &self.ends;
        let mut fds = [&a.port, &b.port].map(|port| PollFd::from_borrowed_fd(port.fd(), PollFlags::IN));
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        // An interrupted sleep is a short one, which is in order.
        let _ = poll(&mut fds, Some(&timeout));
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
