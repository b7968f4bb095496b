//! Time structures of system calls, `time.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const NANOS: i64 = 1_000_000_000;

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct Timespec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds beyond them, 0 to 999,999,999.
    pub nsec: i64,
}

/// `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct Timeval {
    /// Whole seconds.
    pub sec: i64,
    /// Microseconds beyond them.
    pub usec: i64,
}

/// `struct itimerspec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct Itimerspec {
    /// Interval; zero for a one-shot timer.
    pub interval: Timespec,
    /// First expiration; zero for a disarmed timer.
    pub value: Timespec,
}

impl Timespec {
    /// Converts nanoseconds.
    pub fn from_nanos(ns: u64) -> Timespec {
        Timespec { sec: (ns / NANOS as u64) as i64, nsec: (ns % NANOS as u64) as i64 }
    }
    /// Nanoseconds, at most `u64::MAX`; `None` if the time is negative or not normalized, for which calls
    /// return `EINVAL`.
    pub fn to_nanos(self) -> Option<u64> {
        let valid = self.sec >= 0 && (0..NANOS).contains(&self.nsec);
        valid.then(|| (self.sec as u64).saturating_mul(NANOS as u64).saturating_add(self.nsec as u64))
    }
}

impl Timeval {
    /// Converts nanoseconds, rounding down.
    pub fn from_nanos(ns: u64) -> Timeval {
        let spec = Timespec::from_nanos(ns);
        Timeval { sec: spec.sec, usec: spec.nsec / 1_000 }
    }
}
