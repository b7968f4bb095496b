//! Timer descriptors, timerfd_create(2).
//!
//! As in Linux, a periodic timer fires once and is rearmed when it is read or queried, so a tick of one
//! nanosecond that the program does not read costs nothing.

use crate::ids::WaitQueueId;
use belljar_base::{SimDuration, SimTime};
use belljar_netstack::TimerId;
use belljar_netstack::clock::Clock;
use belljar_netstack::readiness::EPOLLIN;

/// A timer descriptor.
#[derive(Debug)]
pub struct TimerFd {
    /// Wait queue, notified on expiration.
    pub queue: WaitQueueId,
    /// Clock, a `CLOCK_*`.
    pub clock: i32,
    /// True if it was set to an absolute time.
    pub absolute: bool,
    /// True if a step of the wall clock cancels it (`TFD_TIMER_CANCEL_ON_SET`).
    pub cancel_on_set: bool,
    /// True if it was cancelled and the cancellation has not been reported.
    pub cancelled: bool,
    /// Expiration state.
    pub state: TimerState,
    /// Host timer.
    pub timer: Option<TimerId>,
}

/// Expiration state of a timer.
#[derive(Debug, Default)]
pub struct TimerState {
    /// Next expiration, or the last one if the timer has not been rearmed; `None` if disarmed.
    pub next: Option<SimTime>,
    /// Interval; zero for a one-shot timer.
    pub interval: SimDuration,
    /// True if the timer has fired and not been rearmed.
    pub expired: bool,
    /// Unread expirations.
    pub ticks: u64,
}

impl TimerState {
    /// Counts the expirations that a fired periodic timer has missed and rearms it.
    pub fn catch_up(&mut self, clock: &Clock) {
        let Some(next) = self.next.filter(|_| self.expired && !self.interval.is_zero()) else { return };
        let interval = clock.simulated(self.interval);
        let missed = clock.now().since(next).as_picos() / interval.as_picos();
        self.ticks += missed;
        self.next = Some(next.saturating_add(interval.saturating_mul(missed + 1)));
        self.expired = false;
    }
    /// Time to expiration, and the interval.
    pub fn left(&self, now: SimTime) -> (SimDuration, SimDuration) {
        let left = self.next.filter(|_| !self.expired).map_or(SimDuration::ZERO, |next| next.since(now));
        (left, self.interval)
    }
}

impl TimerFd {
    /// True if the timer was cancelled since the last call (`TFD_TIMER_CANCEL_ON_SET`).
    pub fn take_cancelled(&mut self) -> bool {
        self.cancel_on_set && std::mem::take(&mut self.cancelled)
    }
    /// Creates a disarmed timer on a `CLOCK_*`.
    pub fn new(queue: WaitQueueId, clock: i32) -> TimerFd {
        TimerFd {
            queue,
            clock,
            absolute: false,
            cancel_on_set: false,
            cancelled: false,
            state: TimerState::default(),
            timer: None,
        }
    }
    /// Readiness mask, `EPOLL*`.
    pub fn readiness(&self) -> u32 {
        if self.state.ticks > 0 { EPOLLIN } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_netstack::clock::CpuModel;

    /// Exact clock at `time`.
    fn at(time: SimTime) -> Clock {
        let mut clock = Clock::new(0, CpuModel::default());
        clock.advance(time);
        clock
    }

    #[test]
    fn missed_periods_are_counted_and_the_phase_is_kept() {
        let ms = |n| SimTime::ZERO + SimDuration::from_millis(n);
        let mut state = TimerState {
            next: Some(ms(10)),
            interval: SimDuration::from_millis(10),
            expired: true,
            ticks: 1,
        };
        state.catch_up(&at(ms(55)));
        assert_eq!((state.ticks, state.next, state.expired), (5, Some(ms(60)), false));
        assert_eq!(state.left(ms(55)).0, SimDuration::from_millis(5));
        state.catch_up(&at(ms(58)));
        assert_eq!(state.ticks, 5, "only what has fired is caught up");
    }

    #[test]
    fn a_timer_that_fired_once_has_no_time_left() {
        let mut state =
            TimerState { next: Some(SimTime::from_secs(1)), expired: true, ticks: 1, ..Default::default() };
        state.catch_up(&at(SimTime::from_secs(9)));
        assert_eq!((state.ticks, state.left(SimTime::from_secs(9)).0), (1, SimDuration::ZERO));
    }
}
