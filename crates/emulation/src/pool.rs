//! The threads that move the frames of all links: as many as there are processors, each for its share of the links.
//!
//! A thread sleeps until the first of its links has something to do, and then works for all that have. Waking up costs about as much as
//! moving two frames. So where several frames are due within the time by which a frame may be late ([`RunningLink::slack`]), the thread
//! waits until the first of them has been due for that time, and then moves all: with few frames each leaves exactly at its time,
//! with many a wake-up is for many. In dilated time that span is as much longer as the clock is slower, and so is the number.

use crate::adapt::Pressure;
use crate::clock::monotonic_ns;
use crate::error::{Doing, Result};
use crate::relayed_link::{LinkReport, Next, RunningLink, thread_seconds};
use crate::wake::{Waker, timespec};
use crate::{go_first, precise_waits};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The longest sleep: how soon the end of the run is noticed. A link is looked at more seldom while nothing is to be done for it.
const NAP: Duration = Duration::from_millis(20);
const LONG_NAP: Duration = Duration::from_secs(1);
/// Real time over which frames are counted.
const WINDOW_NS: u64 = 10_000_000;
/// Frames taken in and handed out within the span by which they may be late, from which on they wait for each other.
const TOGETHER: u64 = 4;
/// Descriptors that are asked for at once.
const EVENTS: usize = 256;
/// The number of the waker among the descriptors.
const WAKER: u64 = u64::MAX;

/// A link of a thread.
struct Place {
    link: RunningLink,
    waker: Option<Waker>,
    /// `CLOCK_MONOTONIC` when it has to work next at the latest, and when it can.
    next: u64,
    early: u64,
    /// A port was readable.
    ready: bool,
    /// The kind of readiness that is waited for at each port; none if it is not waited for at all.
    awaited: [Option<bool>; 2],
}

/// The links of one thread.
pub struct Pool {
    epoll: OwnedFd,
    waker: Option<Waker>,
    places: Vec<Place>,
    /// Frames moved since `counted_since`.
    counted: u64,
    counted_since: u64,
    /// Frames in a second of the machine, lately.
    rate: u64,
}

/// Counts of a thread's links, in the end.
pub struct PoolReport {
    /// The links.
    pub links: Vec<LinkReport>,
    /// Seconds of processor time.
    pub cpu_seconds: f64,
}

impl Pool {
    /// A thread's links, each with a waker if clocks may stand: those of one thread are [beside](Waker::beside) each other.
    pub fn new(links: Vec<(RunningLink, Option<Waker>)>) -> Result<Pool> {
        let doing = "waiting for frames";
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing(doing)?;
        let waker = links.iter().find_map(|(_, waker)| waker.clone());
        if let Some(waker) = &waker {
            epoll::add(&epoll, waker.fd(), epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)
                .doing(doing)?;
        }
        let place =
            |(link, waker)| Place { link, waker, next: 0, early: 0, ready: false, awaited: [None; 2] };
        let places = links.into_iter().map(place).collect();
        Ok(Pool { epoll, waker, places, counted: 0, counted_since: monotonic_ns(), rate: 0 })
    }

    /// Moves frames until `stop` is set.
    pub fn run(mut self, pressure: &Pressure, stop: &AtomicBool) -> PoolReport {
        // Without it sleeps end some 50 us later, which the verdict then shows.
        let _ = precise_waits();
        go_first();
        while !stop.load(Relaxed) {
            let now = monotonic_ns();
            let wait =
                self.places.iter().map(|place| place.next).min().unwrap_or(u64::MAX).saturating_sub(now);
            self.wait(Duration::from_nanos(wait).min(NAP));
            let now = monotonic_ns();
            self.measure(now);
            for number in 0..self.places.len() {
                let place = &mut self.places[number];
                let ready = std::mem::take(&mut place.ready);
                if ready || place.early <= now {
                    self.work(number, pressure);
                }
            }
        }
        let links = self.places.into_iter().map(|place| place.link.report()).collect();
        PoolReport { links, cpu_seconds: thread_seconds() }
    }

    /// Counts frames.
    fn measure(&mut self, now: u64) {
        let passed = now.saturating_sub(self.counted_since);
        if passed >= WINDOW_NS {
            let moved = u128::from(std::mem::take(&mut self.counted)) * 1_000_000_000 / u128::from(passed);
            self.rate = u64::try_from(moved).unwrap_or(u64::MAX);
            self.counted_since = now;
        }
    }

    /// Works for one link.
    fn work(&mut self, number: usize, pressure: &Pressure) {
        let place = &mut self.places[number];
        let link = &mut place.link;
        let slack = link.slack().as_nanos();
        let together = u128::from(self.rate) * slack >= u128::from(TOGETHER) * 1_000_000_000;
        let (frames, next) = link.work(LONG_NAP, together, pressure);
        self.counted += frames as u64;
        let now = monotonic_ns();
        let after = |wait: Duration| now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        let awake = match next {
            Next::More => {
                (place.next, place.early) = (now, now);
                return;
            }
            Next::Rest(rest) => {
                (place.next, place.early) = (after(rest.wait), after(rest.early));
                rest.awake.map(Some)
            }
            Next::Pause(pause) => {
                (place.next, place.early) = (after(pause), after(pause));
                [None; 2]
            }
            Next::Gone => {
                // It stays for its counts.
                (place.next, place.early) = (u64::MAX, u64::MAX);
                [None; 2]
            }
        };
        for end in [0, 1] {
            self.await_port(number, end, awake[end]);
        }
    }

    /// Waits for a port from now on, or only for its errors, or not at all.
    fn await_port(&mut self, number: usize, end: usize, awake: Option<bool>) {
        let place = &mut self.places[number];
        let before = std::mem::replace(&mut place.awaited[end], awake);
        if before == awake {
            return;
        }
        let link = &mut place.link;
        let data = epoll::EventData::new_u64((number * 2 + end) as u64);
        let flags = |awake| if awake { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        // A port that cannot be waited for is looked at each time that the link has something to do.
        let _ = match (before, awake) {
            (None, Some(awake)) => epoll::add(&self.epoll, link.fd(end), data, flags(awake)),
            (Some(_), Some(awake)) => epoll::modify(&self.epoll, link.fd(end), data, flags(awake)),
            (_, None) => epoll::delete(&self.epoll, link.fd(end)),
        };
    }

    /// Sleeps until a port is readable, a clock goes on that stood, or `wait` is over.
    fn wait(&mut self, wait: Duration) {
        // The descriptor's own wait counts milliseconds. An interrupted sleep is a short one, which is in order.
        let mut all = [PollFd::new(&self.epoll, PollFlags::IN)];
        if !wait.is_zero() && poll(&mut all, Some(&timespec(wait))) == Ok(0) {
            return;
        }
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&timespec(Duration::ZERO))) else {
            return;
        };
        let mut rings = false;
        for event in events {
            match event.data.u64() {
                WAKER => rings = true,
                port => self.places[(port / 2) as usize].ready = true,
            }
        }
        if let Some(waker) = self.waker.as_ref().filter(|_| rings) {
            waker.clear();
            for place in &mut self.places {
                place.ready |= place.waker.as_ref().is_some_and(Waker::take_told);
            }
        }
    }
}

/// The number of threads for so many links.
pub fn threads(links: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    processors.min(links)
}

#[cfg(test)]
mod tests;
