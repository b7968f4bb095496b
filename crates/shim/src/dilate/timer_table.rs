//! Table of a process's timers: their expiries and intervals in virtual time. The program's threads and the timer thread
//! ([`timer_thread`](super::timer_thread)) share it.
//!
//! The table is at a fixed address. It is empty in a forked child (`MADV_WIPEONFORK`), which does not inherit timers. A `vfork`ed
//! child shares its parent's and must not use it: see [`Content::claim`]. All signals are blocked while the table is locked, so
//! that no handler leaves the lock behind by `longjmp`. The guest's memory must not be accessed meanwhile: its faults are signals.

use super::calls::nr;
use super::layout;
use super::memory::native;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

/// Capacity of the table.
const MOST: usize = 1_000;
const FUTEX_WAIT_PRIVATE: u64 = 128;
const FUTEX_WAKE_PRIVATE: u64 = 129;

/// Kind of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// No timer: an entry that is free.
    None = 0,
    /// `ITIMER_REAL`, which `setitimer` and `alarm` set.
    Alarm,
    /// A POSIX timer.
    Posix,
    /// A `timerfd`.
    Descriptor,
}

/// A timer in virtual time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Timer {
    /// Kind.
    pub kind: Kind,
    /// Id of a POSIX timer, or descriptor.
    pub id: u32,
    /// Clock of a POSIX timer.
    pub clock: u32,
    /// Signal of a POSIX timer.
    pub signal: u32,
    /// Thread to which a POSIX timer sends its signal; 0 for the process.
    pub thread: u32,
    /// 1 if the timer has expired since it was set.
    pub has_expired: u32,
    /// Next expiry, as virtual `CLOCK_MONOTONIC` in nanoseconds; 0 if the timer is disarmed.
    pub expiry: u64,
    /// Interval in nanoseconds; 0 for a timer that expires once.
    pub interval: u64,
    /// Expiries that a `timerfd` holds, or overruns of the signal that is pending.
    pub count: u64,
    /// Number of expiries passed to the kernel while the signal was pending.
    pub requeued: u64,
    /// Real time at which the thread looks at the pending signal again; 0 if it need not.
    pub review: u64,
    /// Interval with which the kernel's `timerfd` is set.
    pub mark: u64,
}

impl Timer {
    /// A disarmed timer.
    pub const fn new(kind: Kind, id: u32) -> Timer {
        Timer {
            kind,
            id,
            clock: 0,
            signal: 0,
            thread: 0,
            has_expired: 0,
            expiry: 0,
            interval: 0,
            count: 0,
            requeued: 0,
            review: 0,
            mark: 0,
        }
    }

    /// Arms the timer; an expiry of 0 disarms it.
    pub fn arm(&mut self, expiry: u64, interval: u64) {
        let interval = if expiry == 0 { 0 } else { interval };
        *self = Timer { expiry, interval, has_expired: 0, count: 0, requeued: 0, review: 0, ..*self };
    }

    /// The number of expiries until `now`, a virtual time; continues with the next one.
    pub fn expire(&mut self, now: u64) -> u64 {
        if self.expiry == 0 || now < self.expiry {
            return 0;
        }
        if self.interval == 0 {
            self.expiry = 0;
            return 1;
        }
        let count = 1 + (now - self.expiry) / self.interval;
        self.expiry = self.expiry.saturating_add(count.saturating_mul(self.interval));
        count
    }

    /// The time until the next expiry; 0 if the timer is disarmed.
    pub fn left(&self, now: u64) -> u64 {
        match now.checked_sub(self.expiry) {
            _ if self.expiry == 0 => 0,
            None => self.expiry - now,
            // It expires at this moment.
            Some(_) if self.interval == 0 => 1,
            Some(after) => self.interval - after % self.interval,
        }
    }
}

/// Content of the table, accessible while it is [`Locked`].
#[repr(C)]
pub struct Content {
    /// Process that uses the table; 0 if there is none yet.
    process: u32,
    /// Id of the timer thread; 0 if there is none yet.
    pub thread: u32,
    /// Number of marks given to `timerfd`s.
    pub marks: u64,
    /// Number of entries that have been used.
    used: u64,
    timers: [Timer; MOST],
}

#[repr(C)]
struct Table {
    lock: AtomicU32,
    /// Number of changes, for which the thread waits.
    changes: AtomicU32,
    content: UnsafeCell<Content>,
}

const _: () = assert!(size_of::<Table>() as u64 <= layout::TIMERS_LEN);

fn table() -> &'static Table {
    // SAFETY: the table is mapped before the program starts, and a zero is a valid value of every field.
    unsafe { &*(layout::TIMERS as *const Table) }
}

fn futex(word: &AtomicU32, operation: u64, value: u32, timeout: u64) -> i64 {
    native(nr::FUTEX, [word.as_ptr() as u64, operation, u64::from(value), timeout, 0, 0])
}

/// The table, locked.
pub struct Locked {
    /// The signals that the thread blocked before.
    mask: u64,
}

impl Locked {
    /// Locks the table.
    pub fn take() -> Locked {
        const SIG_SETMASK: u64 = 2;
        let (all, mut mask) = (u64::MAX, 0u64);
        native(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const all as u64, &raw mut mask as u64, 8, 0, 0]);
        let lock = &table().lock;
        // 1 is locked, 2 locked with waiters.
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while lock.swap(2, Ordering::Acquire) != 0 {
                futex(lock, FUTEX_WAIT_PRIVATE, 2, 0);
            }
        }
        Locked { mask }
    }

    /// Wakes the timer thread to consider a change.
    pub fn wake_thread(&self) {
        table().changes.fetch_add(1, Ordering::Relaxed);
        futex(&table().changes, FUTEX_WAKE_PRIVATE, 1, 0);
    }

    /// Unlocks the table and waits for the next change, or `timeout`, a `struct timespec`.
    pub fn wait(self, timeout: Option<[u64; 2]>) {
        let seen = table().changes.load(Ordering::Relaxed);
        drop(self);
        let at = timeout.as_ref().map_or(0, |timeout| timeout.as_ptr() as u64);
        futex(&table().changes, FUTEX_WAIT_PRIVATE, seen, at);
    }
}

impl Deref for Locked {
    type Target = Content;
    fn deref(&self) -> &Content {
        // SAFETY: the lock is held.
        unsafe { &*table().content.get() }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Content {
        // SAFETY: the lock is held, by this value alone.
        unsafe { &mut *table().content.get() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        const SIG_SETMASK: u64 = 2;
        if table().lock.swap(0, Ordering::Release) == 2 {
            futex(&table().lock, FUTEX_WAKE_PRIVATE, 1, 0);
        }
        native(nr::RT_SIGPROCMASK, [SIG_SETMASK, &raw const self.mask as u64, 0, 8, 0, 0]);
    }
}

impl Content {
    /// True if this process uses the table.
    pub fn is_own(&self) -> bool {
        self.process != 0 && self.process == native(nr::GETPID, [0; 6]) as u32
    }

    /// Makes this process the user of the table, unless another live process is its user (the parent of a `vfork`ed child).
    /// Returns true on success.
    pub fn claim(&mut self) -> bool {
        const ESRCH: i64 = -3;
        let is_free = |user: u32| user == 0 || native(nr::KILL, [u64::from(user), 0, 0, 0, 0, 0]) == ESRCH;
        if !self.is_own() && is_free(self.process) {
            (self.process, self.thread, self.used) = (native(nr::GETPID, [0; 6]) as u32, 0, 0);
        }
        self.is_own()
    }

    /// All entries that have been used, free ones included.
    pub fn timers(&mut self) -> &mut [Timer] {
        let used = (self.used as usize).min(MOST);
        &mut self.timers[..used]
    }

    /// The timer of a kind with an id.
    pub fn find(&mut self, kind: Kind, id: u32) -> Option<&mut Timer> {
        self.timers().iter_mut().find(|timer| timer.kind == kind && timer.id == id)
    }

    /// The `timerfd` with a mark.
    pub fn find_marked(&mut self, mark: u64) -> Option<&mut Timer> {
        self.timers().iter_mut().find(|timer| timer.kind == Kind::Descriptor && timer.mark == mark)
    }

    /// True if there is no free entry.
    pub fn is_full(&mut self) -> bool {
        self.used as usize >= MOST && self.timers().iter().all(|timer| timer.kind != Kind::None)
    }

    /// Adds a timer; `None` if the table is full.
    pub fn add(&mut self, timer: Timer) -> Option<&mut Timer> {
        let free = self.timers().iter().position(|timer| timer.kind == Kind::None);
        let at = free.unwrap_or(self.used as usize);
        let entry = self.timers.get_mut(at)?;
        self.used = self.used.max(at as u64 + 1);
        *entry = timer;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_once() {
        let mut timer = Timer::new(Kind::Alarm, 0);
        assert_eq!((timer.left(5), timer.expire(5)), (0, 0));
        timer.arm(100, 0);
        assert_eq!((timer.left(40), timer.expire(99)), (60, 0));
        assert_eq!(timer.left(100), 1, "an armed timer never reads as a disarmed one");
        assert_eq!((timer.expire(150), timer.expire(200), timer.left(200)), (1, 0, 0));
    }

    #[test]
    fn an_interval_keeps_its_grid() {
        let mut timer = Timer::new(Kind::Alarm, 0);
        timer.arm(100, 30);
        assert_eq!((timer.expire(100), timer.expiry), (1, 130));
        assert_eq!((timer.left(195), timer.expire(195), timer.expiry), (25, 3, 220));
        timer.arm(0, 30);
        assert_eq!((timer.expire(u64::MAX), timer.interval), (0, 0));
        timer.arm(u64::MAX, 7);
        assert_eq!((timer.expire(u64::MAX), timer.expiry), (1, u64::MAX));
    }
}
