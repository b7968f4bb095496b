//! File timestamps: those written since the host's time diverged from the machine's are converted to the
//! host's time.

use super::calls::nr;
use super::clock::{Now, SECOND};
use super::error;
use super::memory::{native, read, result, update, write};
use super::waits::Time;

/// Offsets of the times of access, modification and status change in `struct stat`.
const IN_STAT: [u64; 3] = [72, 88, 104];
/// Offsets of the times of access, birth, status change and modification in `struct statx`, where nanoseconds
/// have 32 bits and 32 bits of padding follow.
const IN_STATX: [u64; 4] = [64, 80, 96, 112];
/// Nanosecond values that mean "now" (UTIME_NOW) and "leave unchanged" (UTIME_OMIT).
const SPECIAL: [u64; 2] = [0x3fff_ffff, 0x3fff_fffe];

/// `stat` and related calls.
pub fn stat(number: u64, args: [u64; 6]) -> i64 {
    let done = native(number, args);
    if done != 0 {
        return done;
    }
    let page = Now::read().page;
    let virtual_of = |seconds: u64, ns: u64| -> Time {
        match (seconds as i64) < 0 {
            true => [seconds, ns],
            false => {
                let time = page.wall_of_real(seconds * SECOND + ns);
                [time / SECOND, time % SECOND]
            }
        }
    };
    let at = match number {
        nr::STATX => args[4],
        nr::NEWFSTATAT => args[2],
        _ => args[1],
    };
    let mut written = Ok(());
    if number == nr::STATX {
        for place in IN_STATX {
            let change = |[seconds, ns]: Time| virtual_of(seconds, ns & 0xffff_ffff);
            written = written.and_then(|()| update(at + place, change));
        }
    } else {
        for place in IN_STAT {
            written =
                written.and_then(|()| update(at + place, |[seconds, ns]: Time| virtual_of(seconds, ns)));
        }
    }
    written.err().unwrap_or(0)
}

/// `utimensat` and related calls, if they set times.
pub fn set(number: u64, args: [u64; 6]) -> i64 {
    let page = Now::read().page;
    let real_of = |[seconds, ns]: Time| -> Time {
        match (seconds as i64) < 0 || SPECIAL.contains(&ns) || ns >= SECOND {
            true => [seconds, ns],
            false => {
                let time = page.real_of_wall(seconds.saturating_mul(SECOND).saturating_add(ns));
                [time / SECOND, time % SECOND]
            }
        }
    };
    const AT_FDCWD: u64 = -100i64 as u64;
    result((|| {
        let (directory, path, given, unit) = match number {
            nr::UTIMENSAT => (args[0], args[1], args[2], 1),
            nr::FUTIMESAT => (args[0], args[1], args[2], 1_000),
            nr::UTIMES => (AT_FDCWD, args[0], args[1], 1_000),
            _ => (AT_FDCWD, args[0], args[1], 0),
        };
        let times: [Time; 2] = match unit {
            0 => read::<[u64; 2]>(given)?.map(|seconds| [seconds, 0]),
            _ => read(given)?,
        };
        if unit == 1_000 && times.iter().any(|[_, us]| *us >= 1_000_000) {
            return Err(error::INVAL);
        }
        let times =
            times.map(|[seconds, part]| real_of([seconds, if unit == 1 { part } else { part * unit }]));
        let flags = if number == nr::UTIMENSAT { args[3] } else { 0 };
        Ok(native(nr::UTIMENSAT, [directory, path, times.as_ptr() as u64, flags, 0, 0]))
    })())
}

/// Converts the timestamp at an address from the machine's to the host's wall clock. `unit` is the number of
/// nanoseconds in a unit of its fraction of a second.
pub fn of_packet(at: u64, unit: u64) -> Result<(), i64> {
    let [seconds, part]: Time = read(at)?;
    if [seconds, part] == [0, 0] || (seconds as i64) < 0 {
        return Ok(());
    }
    let time = Now::read().page.wall_of_real(seconds * SECOND + part * unit);
    write(at, [time / SECOND, time % SECOND / unit])
}
