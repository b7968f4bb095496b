//! Clock of a host: a page that a controller writes and all processes of the host read.
//!
//! Virtual time is a piecewise linear function of the machine's `CLOCK_MONOTONIC`. An emulation whose time
//! dilation factor changes, or whose hosts are frozen in turns, writes a new piece for each change and each
//! turn. A piece may have a limit at which the clock stops. The page begins with a sequence number, which is
//! odd during an update and changes with each update.
//!
//! The kernel's own timeouts, of TCP for instance, continue while a host is frozen: they are converted at the
//! mean rate ([`Page::kernel`]).
//!
//! Conversions round so that a virtual time converted to a real one and back is unchanged.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;
/// Rate of a clock that is not slowed.
pub const FULL_RATE: u64 = 1 << 32;

/// A linear piece of a clock. `repr(C)`: the layout of the page's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pace {
    /// `CLOCK_MONOTONIC` at the start of the piece, in nanoseconds.
    pub real: u64,
    /// Virtual `CLOCK_MONOTONIC` at the start of the piece, in nanoseconds.
    pub start: u64,
    /// Virtual nanoseconds per real nanosecond, times 2^32; not 0.
    pub rate: u64,
    /// Virtual time at which the clock stops.
    pub limit: u64,
}

impl Pace {
    /// The rate for a time dilation factor in thousandths.
    pub fn rate_of(tdf_milli: u64) -> u64 {
        ((u128::from(FULL_RATE) * 1_000).div_ceil(u128::from(tdf_milli.max(1)))) as u64
    }

    /// The virtual time at a real time.
    pub fn at(&self, real: u64) -> u64 {
        let passed = self.virtual_span(real.saturating_sub(self.real));
        self.start.saturating_add(passed).min(self.limit)
    }

    /// The virtual nanoseconds in a span of real ones, rounded down.
    pub fn virtual_span(&self, real: u64) -> u64 {
        saturated((u128::from(real) * u128::from(self.rate)) >> 32)
    }

    /// The least number of real nanoseconds in which `span` virtual ones pass.
    pub fn real_span(&self, span: u64) -> u64 {
        saturated((u128::from(span) << 32).div_ceil(u128::from(self.rate.max(1))))
    }

    /// The earliest real time at which the clock shows a virtual time, ignoring the limit; before the start
    /// of the piece both advance at the same rate.
    pub fn real_at(&self, time: u64) -> u64 {
        match time.checked_sub(self.start) {
            Some(after) => self.real.saturating_add(self.real_span(after)),
            None => self.real.saturating_sub(self.start - time),
        }
    }
}

fn saturated(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Content of the page. All fields but the sequence number are valid only if the number was even before they
/// were read and has not changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Page {
    /// Sequence number; odd during an update.
    pub sequence: u64,
    /// The current piece.
    pub pace: Pace,
    /// The previous piece: events during it are often converted later, such as a packet that waited while the
    /// host was frozen.
    pub before: Pace,
    /// All earlier pieces in one, at their mean rate, since the host's time diverged from the machine's; it
    /// converts timestamps of that period.
    pub past: Pace,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC` in nanoseconds, on the machine when the host's time began, and
    /// on the host.
    pub wall: u64,
    /// `CLOCK_BOOTTIME` less `CLOCK_MONOTONIC`.
    pub boot: u64,
    /// `CLOCK_TAI` less `CLOCK_REALTIME`.
    pub tai: u64,
    /// Increments of the time stamp counter per virtual nanosecond, times 2^32.
    pub counter_rate: u64,
    /// Longest wait that relies on the current rate, in real nanoseconds; 0 for no limit.
    pub nap: u64,
    /// Nonzero if packet rings are to show the host's times.
    pub rings: u64,
    /// Mean number of virtual nanoseconds per real one, times 2^32; for a host frozen in turns it is below
    /// the rate.
    pub mean_rate: u64,
    /// Method by which the host is frozen: [`NOT_FROZEN`], [`BY_FREEZER`] or [`BY_SIGNALS`].
    pub freezes: u64,
}

/// The host is never frozen.
pub const NOT_FROZEN: u64 = 0;
/// The host's processes are frozen by a control group.
pub const BY_FREEZER: u64 = 1;
/// The host's processes are stopped by signals.
pub const BY_SIGNALS: u64 = 2;
/// Lower bound on the intervals, in nanoseconds, that mark a `timerfd` as one that the shim itself drives.
pub const MARKED_INTERVAL: u64 = 1 << 61;
/// Offset of [`Page::freezes`] in the page.
pub const FREEZES_AT: u64 = 20 * 8;
const _: () = assert!(core::mem::offset_of!(Page, freezes) as u64 == FREEZES_AT);

impl Page {
    /// The page as bytes, in the layout of the mapped file.
    pub fn to_bytes(&self) -> [u8; size_of::<Page>()] {
        let Page {
            sequence,
            pace,
            before,
            past,
            wall,
            boot,
            tai,
            counter_rate,
            nap,
            rings,
            mean_rate,
            freezes,
        } = *self;
        let words = [
            sequence,
            pace.real,
            pace.start,
            pace.rate,
            pace.limit,
            before.real,
            before.start,
            before.rate,
            before.limit,
            past.real,
            past.start,
            past.rate,
            past.limit,
            wall,
            boot,
            tai,
            counter_rate,
            nap,
            rings,
            mean_rate,
            freezes,
        ];
        let mut bytes = [0; size_of::<Page>()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// A consistent copy of the mapped page.
    pub fn load() -> Page {
        let page = super::layout::CLOCK as *const Page;
        // SAFETY: the page is mapped as long as this code is; the writer is another process.
        let sequence = unsafe { &*page.cast::<AtomicU64>() };
        loop {
            let before = sequence.load(Ordering::Acquire);
            // SAFETY: as above; a copy torn by a writer is discarded.
            let copy = unsafe { page.read_volatile() };
            fence(Ordering::Acquire);
            if before & 1 == 0 && sequence.load(Ordering::Relaxed) == before {
                return copy;
            }
            core::hint::spin_loop();
        }
    }

    /// True if the clock's rate may change, or the clock may stop: the kernel's timers cannot follow it.
    pub fn varies(&self) -> bool {
        self.freezes != NOT_FROZEN || self.nap != 0
    }

    /// The piece by which the kernel's own timers are converted.
    pub fn kernel(&self) -> Pace {
        Pace { rate: self.mean_rate, ..self.pace }
    }

    /// Converts a wall-clock time of the machine, of a file or a packet, to the host's.
    pub fn wall_of_real(&self, wall: u64) -> u64 {
        match wall.checked_sub(self.wall) {
            Some(real) if real >= self.pace.real => self.wall + self.pace.at(real),
            Some(real) if real >= self.before.real => self.wall + self.before.at(real),
            Some(real) if real >= self.past.real => self.wall + self.past.at(real),
            // Both clocks agreed before that.
            _ => wall,
        }
    }

    /// Converts a wall-clock time of the host to the machine's.
    pub fn real_of_wall(&self, wall: u64) -> u64 {
        match wall.checked_sub(self.wall) {
            Some(time) if time >= self.pace.start => self.wall.saturating_add(self.pace.real_at(time)),
            Some(time) if time >= self.before.start => self.wall + self.before.real_at(time),
            Some(time) if time >= self.past.start => self.wall + self.past.real_at(time),
            _ => wall,
        }
    }
}

/// A consistent reading of the page and of the machine's clock.
#[derive(Clone, Copy)]
pub struct Now {
    /// The page.
    pub page: Page,
    /// The machine's `CLOCK_MONOTONIC` in nanoseconds.
    pub real: u64,
    /// The host's `CLOCK_MONOTONIC` in nanoseconds.
    pub time: u64,
}

impl Now {
    /// Reads the current time.
    pub fn read() -> Now {
        let (mut page, mut real) = (Page::load(), monotonic());
        loop {
            // A change of pieces between the two readings could make the clock run backwards.
            let after = Page::load();
            if after.sequence == page.sequence {
                return Now { page, real, time: page.pace.at(real) };
            }
            (page, real) = (after, monotonic());
        }
    }

    /// The time of a clock by its number; `None` for a clock of processor time.
    pub fn of(&self, clock: u64) -> Option<u64> {
        let Page { wall, boot, tai, .. } = self.page;
        Some(match clock {
            id::REALTIME | id::REALTIME_COARSE | id::REALTIME_ALARM => self.time + wall,
            id::MONOTONIC | id::MONOTONIC_RAW | id::MONOTONIC_COARSE => self.time,
            id::BOOTTIME | id::BOOTTIME_ALARM => self.time + boot,
            id::TAI => self.time + wall + tai,
            _ => return None,
        })
    }
}

/// Numbers of clocks.
#[allow(missing_docs)]
pub mod id {
    pub const REALTIME: u64 = 0;
    pub const MONOTONIC: u64 = 1;
    pub const MONOTONIC_RAW: u64 = 4;
    pub const REALTIME_COARSE: u64 = 5;
    pub const MONOTONIC_COARSE: u64 = 6;
    pub const BOOTTIME: u64 = 7;
    pub const REALTIME_ALARM: u64 = 8;
    pub const BOOTTIME_ALARM: u64 = 9;
    pub const TAI: u64 = 11;
}

/// The machine's `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic() -> u64 {
    machine(id::MONOTONIC)
}

/// A clock of the machine in nanoseconds.
pub fn machine(clock: u64) -> u64 {
    let mut time = [0u64; 2];
    super::memory::native(super::calls::nr::CLOCK_GETTIME, [clock, time.as_mut_ptr() as u64, 0, 0, 0, 0]);
    time[0] * SECOND + time[1]
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
