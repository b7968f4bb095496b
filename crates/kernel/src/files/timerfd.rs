//! Timers that are read, timerfd_create(2).

use super::FileKind;
use super::readiness::EPOLLIN;
use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::FileKey;
use crate::outcome::{Block, SysResult, done};
use crate::timer::TimerAction;
use crate::wall_clock::{Shift, is_wall_clock};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::{Errno, c};
use belljar_objects::timerfd::{TimerFd, TimerState};
use belljar_tasks::waits::WaitTable;

impl Files {
    /// The timer behind an open file; `EINVAL` if it is none.
    pub(crate) fn timerfd_of(&self, file: FileKey) -> Result<usize, Errno> {
        match self.open[file.0].kind {
            FileKind::TimerFd(n) => Ok(n),
            _ => Err(Errno::EINVAL),
        }
    }

    /// True if it was cancelled since this was last asked.
    pub(crate) fn take_timerfd_cancelled(&mut self, n: usize) -> bool {
        let timer = &mut self.timerfds[n];
        timer.cancel_on_set && std::mem::take(&mut timer.cancelled)
    }

    /// A new timer, not set, as an open file.
    pub(crate) fn create_timerfd(&mut self, waits: &mut WaitTable, clock: i32, flags: i32) -> FileKey {
        let queue = waits.create();
        let n = self.timerfds.insert(TimerFd::new(queue, clock));
        self.open_file(FileKind::TimerFd(n), c::O_RDWR | flags)
    }
}

impl Host {
    /// `timerfd_gettime(2)`: the time left, zero if it is not set, and the interval.
    pub(crate) fn timerfd_left(&mut self, n: usize) -> (SimDuration, SimDuration) {
        self.catch_up_timerfd(n);
        self.files.timerfds[n].state.left(self.net.clock.now())
    }
    /// `timerfd_settime(2)`: expires at `next`, not at all if there is none, and then every
    /// `interval` unless that is zero. Gives what [`timerfd_left`](Self::timerfd_left) gave before.
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
    /// The wall clock was set: a timer that waits for a point of it expires sooner or later.
    pub(crate) fn shift_timerfd(&mut self, n: usize, shift: &Shift) {
        let timer = &mut self.files.timerfds[n];
        if shift.concerns(timer.clock, timer.absolute) && !timer.state.expired {
            timer.state.next = timer.state.next.map(|next| shift.of(next));
            self.arm_timerfd(n);
        }
    }
    /// The wall clock was set: timers with `TFD_TIMER_CANCEL_ON_SET` become readable and reading them
    /// gives `ECANCELED`; they run on all the same.
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
    /// A timer descriptor expires.
    pub(crate) fn timerfd_expired(&mut self, n: usize) {
        let timer = &mut self.files.timerfds[n];
        timer.timer = None;
        timer.state.expired = true;
        timer.state.ticks += 1;
        let queue = timer.queue;
        self.notify_events(queue, EPOLLIN);
    }
    /// The last reference to a timer is gone.
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
                // The past is over at once: who polls without waiting must see it.
                self.timerfd_expired(n);
            } else {
                timer.timer = Some(self.timers.insert(self.net.timers.name(next), TimerAction::TimerFd(n)));
            }
        }
    }
}

impl Call<'_> {
    /// `read(2)`: the number of expirations since the last one. `EINVAL` below eight bytes.
    pub(crate) fn read_timerfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) < 8 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        self.host.catch_up_timerfd(n);
        let cancelled = self.host.files.take_timerfd_cancelled(n);
        let timer = &mut self.host.files.timerfds[n];
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
