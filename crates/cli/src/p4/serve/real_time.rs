//! The real clock, which drives the switch.

use belljar_base::{SimDuration, SimTime};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};

/// Clock that counts from the start of the switch.
pub struct Clock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the switch runs in real time, between real interfaces")]
impl Clock {
    /// Starts the clock at zero.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Current time.
    pub fn now(&self) -> SimTime {
        SimTime::ZERO + duration(self.start.elapsed())
    }

    /// Nanoseconds since the Unix epoch.
    pub fn epoch_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    }

    /// Real time from now until `time`.
    pub fn until(&self, time: SimTime) -> Duration {
        let picos = time.as_picos().saturating_sub(self.now().as_picos());
        // Rounded up: a timer that expires early would have to be set again.
        Duration::from_nanos(picos.div_ceil(1_000))
    }
}

/// Timer with a descriptor that becomes readable at its expiry. Setting it to the same time again costs no
/// system call.
pub struct Alarm {
    timer: OwnedFd,
    at: Option<SimTime>,
}

impl Alarm {
    /// Creates an unarmed timer.
    pub fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, at: None })
    }

    /// Arms the timer for a time.
    pub fn set(&mut self, at: SimTime, clock: &Clock) -> Result<()> {
        if self.at != Some(at) {
            // A duration of zero would disarm it.
            let wait = clock.until(at).max(Duration::from_nanos(1));
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
            timerfd_settime(
                &self.timer,
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval: zero, it_value: value },
            )?;
            self.at = Some(at);
        }
        Ok(())
    }

    /// Acknowledges the expiry. The timer is unarmed afterwards.
    pub fn clear(&mut self) {
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        self.at = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Converts a real duration to the switch's unit.
pub fn duration(real: Duration) -> SimDuration {
    SimDuration::from_nanos(real.as_nanos() as u64)
}
