//! Pool of threads that move the frames of all links: one per processor, each with a share of the links.
//!
//! A thread sleeps until the first of its links has work, and then serves all links that have. A wakeup
//! costs about as much as moving two frames. So if several frames are expected within the harmless lateness
//! ([`RunningLink::slack`]), the thread waits until the first of them has been due for that time, and then
//! moves all of them. At low load each frame thus leaves exactly on time; at high load one wakeup serves
//! many frames. Dilation stretches this span of real time by the factor, and with it the number of frames
//! per wakeup.

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

/// Longest sleep, which bounds the time until the end of the run is noticed; and longest interval between
/// visits of an idle link.
const NAP: Duration = Duration::from_millis(20);
const LONG_NAP: Duration = Duration::from_secs(1);
/// Real time over which the frame rate is measured.
const WINDOW_NS: u64 = 10_000_000;
/// Number of frames, received and delivered within the harmless lateness, from which on frames are batched.
const TOGETHER: u64 = 4;
/// Maximum number of events taken from epoll at once.
const EVENTS: usize = 256;
/// Epoll data of the waker.
const WAKER: u64 = u64::MAX;

/// Link of a thread.
struct Place {
    link: RunningLink,
    waker: Option<Waker>,
    /// `CLOCK_MONOTONIC` at which the link must be served at the latest, and from which on it can be.
    next: u64,
    early: u64,
    /// True if a port has become readable.
    ready: bool,
    /// Epoll interest in each port: readable, errors only, or none if it is not registered.
    awaited: [Option<bool>; 2],
}

/// Links of one thread.
pub struct Pool {
    epoll: OwnedFd,
    waker: Option<Waker>,
    places: Vec<Place>,
    /// Frames moved since `counted_since`.
    counted: u64,
    counted_since: u64,
    /// Recent frame rate, per second of real time.
    rate: u64,
}

/// Final report of a thread's links.
pub struct PoolReport {
    /// Reports of the links.
    pub links: Vec<LinkReport>,
    /// Processor time of the thread, in seconds.
    pub cpu_seconds: f64,
}

impl Pool {
    /// Creates the pool of one thread, from links with a waker each if clocks may stop; these wakers are
    /// [beside](Waker::beside) each other.
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
        // Without it sleeps end about 50 us late, which the verdict then shows.
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

    /// Updates the frame rate.
    fn measure(&mut self, now: u64) {
        let passed = now.saturating_sub(self.counted_since);
        if passed >= WINDOW_NS {
            let moved = u128::from(std::mem::take(&mut self.counted)) * 1_000_000_000 / u128::from(passed);
            self.rate = u64::try_from(moved).unwrap_or(u64::MAX);
            self.counted_since = now;
        }
    }

    /// Serves one link, and schedules its next service.
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
                // The link remains for its statistics.
                (place.next, place.early) = (u64::MAX, u64::MAX);
                [None; 2]
            }
        };
        for end in [0, 1] {
            self.await_port(number, end, awake[end]);
        }
    }

    /// Changes the epoll interest in a port: readable, errors only, or none.
    fn await_port(&mut self, number: usize, end: usize, awake: Option<bool>) {
        let place = &mut self.places[number];
        let before = std::mem::replace(&mut place.awaited[end], awake);
        if before == awake {
            return;
        }
        let link = &mut place.link;
        let data = epoll::EventData::new_u64((number * 2 + end) as u64);
        let flags = |awake| if awake { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        // A port that epoll does not support is polled whenever the link is served.
        let _ = match (before, awake) {
            (None, Some(awake)) => epoll::add(&self.epoll, link.fd(end), data, flags(awake)),
            (Some(_), Some(awake)) => epoll::modify(&self.epoll, link.fd(end), data, flags(awake)),
            (_, None) => epoll::delete(&self.epoll, link.fd(end)),
        };
    }

    /// Sleeps until a port is readable, a stopped clock continues, or `wait` has passed.
    fn wait(&mut self, wait: Duration) {
        // The timeout of epoll has a resolution of milliseconds. An interrupted sleep only ends early.
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

/// Number of threads for a number of links.
pub fn threads(links: usize) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    processors.min(links)
}

#[cfg(test)]
mod tests;
