//! Timer descriptors, timerfd_create(2).

use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::FileKey;
use crate::outcome::{Block, SysResult, done};
use crate::timer::TimerAction;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::EPOLLIN;
use belljar_objects::file_kind::FileKind;
use belljar_objects::timerfd::{TimerFd, TimerState};
use belljar_tasks::clock_shift::{ClockShift, is_wall_clock};
use belljar_tasks::waits::WaitTable;

impl Files {
    /// Creates a disarmed timer and its open file.
    pub(crate) fn create_timerfd(&mut self, waits: &mut WaitTable, clock: i32, flags: i32) -> FileKey {
        let queue = waits.create();
        let n = self.timerfds.insert(TimerFd::new(queue, clock));
        self.open_file(FileKind::TimerFd(n), c::O_RDWR | flags)
    }
}

impl Host {
    /// `timerfd_gettime(2)`: the time left, zero if the timer is disarmed, and the interval.
    pub(crate) fn timerfd_left(&mut self, n: usize) -> (SimDuration, SimDuration) {
        self.catch_up_timerfd(n);
        self.files.timerfds[n].state.left(self.net.clock.now())
    }
    /// `timerfd_settime(2)`: arms the timer to expire at `next` and then every `interval`, unless that is
    /// zero; `None` disarms it. Returns the result of [`timerfd_left`](Self::timerfd_left) before the change.
    pub(crate) fn set_timerfd(
        &mut self,
        n: usize,
        next: Option<SimTime>,
        interval: SimDuration,
    ) -> (SimDuration, SimDuration) {
        let before = self.timerfd_left(n);
        self.files.timerfds[n].state = TimerState { next, interval, expired: false, ticks: 0 };
        self.arm_timerfd(n);
        before
    }
    /// Shifts the expiration of an absolute timer on the wall clock after that clock was set.
    pub(crate) fn shift_timerfd(&mut self, n: usize, shift: &ClockShift) {
        let timer = &mut self.files.timerfds[n];
        if shift.concerns(timer.clock, timer.absolute) && !timer.state.expired {
            timer.state.next = timer.state.next.map(|next| shift.of(next));
            self.arm_timerfd(n);
        }
    }
    /// Cancels timers with `TFD_TIMER_CANCEL_ON_SET` after the wall clock was set: they become readable and
    /// the read fails with `ECANCELED`. They continue to run.
    pub(crate) fn cancel_timerfds(&mut self) {
        let mut told = Vec::new();
        for (_, timer) in &mut self.files.timerfds {
            if timer.cancel_on_set && timer.absolute && is_wall_clock(timer.clock) {
                timer.cancelled = true;
                timer.state.ticks += 1;
                told.push(timer.queue);
            }
        }
        told.into_iter().for_each(|queue| self.notify_events(queue, EPOLLIN));
    }
    /// Handles the expiration of a timer descriptor.
    pub(crate) fn timerfd_expired(&mut self, n: usize) {
        let timer = &mut self.files.timerfds[n];
        timer.timer = None;
        timer.state.expired = true;
        timer.state.ticks += 1;
        let queue = timer.queue;
        self.notify_events(queue, EPOLLIN);
    }
    /// Destroys a timer after its last reference was released.
    pub(super) fn close_timerfd(&mut self, n: usize) {
        let timer = self.files.timerfds.remove(n);
        if let Some(id) = timer.timer {
            self.timers.cancel(id);
        }
        self.waits.destroy(timer.queue);
    }

    fn catch_up_timerfd(&mut self, n: usize) {
        let timer = &mut self.files.timerfds[n];
        if timer.state.expired {
            timer.state.catch_up(&self.net.clock);
            self.arm_timerfd(n);
        }
    }
    fn arm_timerfd(&mut self, n: usize) {
        let timer = &mut self.files.timerfds[n];
        if let Some(id) = timer.timer.take() {
            self.timers.cancel(id);
        }
        if let Some(next) = timer.state.next.filter(|_| !timer.state.expired) {
            if next <= self.net.clock.now() {
                // A time in the past expires at once, so that a poll that does not block sees it.
                self.timerfd_expired(n);
            } else {
                self.files.timerfds[n].timer = Some(self.set_timer(next, TimerAction::TimerFd(n)));
            }
        }
    }
}

impl Call<'_> {
    /// `read(2)`: the number of expirations since the last read, in eight bytes. `EINVAL` if the buffers are
    /// smaller, `ECANCELED` after a change of the clock; blocks, or `EAGAIN`, without an expiration.
    pub(crate) fn read_timerfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) < 8 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        self.host.catch_up_timerfd(n);
        let timer = &mut self.host.files.timerfds[n];
        let cancelled = timer.take_cancelled();
        let ticks = std::mem::take(&mut timer.state.ticks);
        if cancelled {
            return Err(Errno::ECANCELED);
        }
        if ticks == 0 {
            return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(timer.queue).into() };
        }
        self.scatter(buffers, &ticks.to_le_bytes())?;
        done(8)
    }
}
