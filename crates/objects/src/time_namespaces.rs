//! Time namespaces, `time_namespaces(7)`: constant offsets of the monotonic and boot-time clocks from the
//! host's. They can be changed until the first process enters the namespace.

use belljar_linux_abi::Errno;

const SECOND: i64 = 1_000_000_000;
/// Maximum time of a clock in seconds, half of `KTIME_SEC_MAX`.
const LATEST: i64 = i64::MAX / SECOND / 2;
/// Maximum number of lines processed per write.
const LINES: usize = 2;

/// Clock offsets of a namespace in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeOffsets {
    /// Offset of `CLOCK_MONOTONIC` and its raw and coarse variants.
    pub monotonic: i64,
    /// Offset of `CLOCK_BOOTTIME`.
    pub boottime: i64,
}

/// Time namespaces of a process, by number; 0 is the initial one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeMembership {
    /// Namespace of the process.
    pub own: u32,
    /// Namespace of its children, and of the process from its next `execve(2)` on.
    pub of_children: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct TimeNamespace {
    offsets: TimeOffsets,
    /// True once a process has entered: the offsets are fixed.
    entered: bool,
}

/// Time namespaces of a host except the initial one.
#[derive(Debug, Default)]
pub struct TimeNamespaces(Vec<TimeNamespace>);

impl TimeNamespaces {
    /// Offsets of a namespace.
    #[inline]
    pub fn offsets(&self, number: u32) -> TimeOffsets {
        match (number as usize).checked_sub(1) {
            None => TimeOffsets::default(),
            Some(at) => self.0.get(at).map_or(TimeOffsets::default(), |namespace| namespace.offsets),
        }
    }
    /// Creates a namespace with the offsets of another.
    pub fn copy(&mut self, number: u32) -> u32 {
        self.0.push(TimeNamespace { offsets: self.offsets(number), entered: false });
        self.0.len() as u32
    }
    /// True if the namespace exists.
    pub fn contains(&self, number: u32) -> bool {
        number as usize <= self.0.len()
    }
    /// Records that a process has entered the namespace.
    pub fn enter(&mut self, number: u32) {
        if let Some(namespace) = self.get(number) {
            namespace.entered = true;
        }
    }
    fn get(&mut self, number: u32) -> Option<&mut TimeNamespace> {
        self.0.get_mut((number as usize).checked_sub(1)?)
    }
    /// Text of `/proc/PID/timens_offsets`.
    pub fn shown(&self, number: u32) -> String {
        let TimeOffsets { monotonic, boottime } = self.offsets(number);
        let line = |name, ns: i64| {
            format!("{name:<10} {:>10} {:>9}\n", ns.div_euclid(SECOND), ns.rem_euclid(SECOND))
        };
        line("monotonic", monotonic) + &line("boottime", boottime)
    }
    /// Handles a write to that file; `now` is the host's clock in nanoseconds. Returns the number of bytes
    /// consumed. `EINVAL`; `ERANGE` if a clock would become negative or too large; `EACCES` once a process
    /// has entered the namespace.
    pub fn write(&mut self, number: u32, text: &[u8], now: u64) -> Result<usize, Errno> {
        let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        let lines: Vec<&str> = text.split_inclusive('\n').take(LINES).collect();
        let parsed = lines.iter().map(|line| parse(line)).collect::<Option<Vec<_>>>().ok_or(Errno::EINVAL)?;
        let mut offsets = self.offsets(number);
        for (boottime, seconds, nanoseconds) in parsed {
            let now = (now / SECOND as u64) as i64;
            if seconds.unsigned_abs() > (i64::MAX / SECOND) as u64 || !(0..=LATEST).contains(&(now + seconds))
            {
                return Err(Errno::ERANGE);
            }
            let offset = if boottime { &mut offsets.boottime } else { &mut offsets.monotonic };
            *offset = seconds * SECOND + nanoseconds;
        }
        match self.get(number).filter(|namespace| !namespace.entered) {
            None => Err(Errno::EACCES),
            Some(namespace) => {
                namespace.offsets = offsets;
                Ok(lines.iter().map(|line| line.len()).sum())
            }
        }
    }
}

/// Parses a line: true for the boot-time clock, seconds and nanoseconds.
fn parse(line: &str) -> Option<(bool, i64, i64)> {
    let mut words = line.split_whitespace();
    let boottime = match words.next()? {
        "monotonic" | "1" => false,
        "boottime" | "7" => true,
        _ => return None,
    };
    let (seconds, nanoseconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (0..SECOND).contains(&nanoseconds).then_some((boottime, seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 85_000_000_000_000;

    #[test]
    fn offsets_are_written_until_somebody_is_there() {
        let mut all = TimeNamespaces::default();
        let first = all.copy(0);
        assert_eq!(all.write(first, b"monotonic 100 5\n 7 -2 999999999\nmonotonic 1 0\n", NOW), Ok(32));
        let offsets = TimeOffsets { monotonic: 100 * SECOND + 5, boottime: -SECOND - 1 };
        assert_eq!(all.offsets(first), offsets);
        assert_eq!(all.shown(first), "monotonic         100         5\nboottime           -2 999999999\n");
        let second = all.copy(first);
        assert_eq!((all.offsets(second), all.offsets(0)), (offsets, TimeOffsets::default()));
        all.enter(second);
        assert_eq!(all.write(second, b"1 0 0", NOW), Err(Errno::EACCES));
        assert_eq!(all.write(0, b"1 0 0", NOW), Err(Errno::EACCES));
        assert!(all.contains(second) && !all.contains(second + 1));
    }

    #[test]
    fn offsets_that_are_none_or_lead_too_far() {
        let mut all = TimeNamespaces::default();
        let number = all.copy(0);
        for text in ["realtime 1 0", "0 1 0", "monotonic 1", "monotonic 1 1000000000", "\n"] {
            assert_eq!(all.write(number, text.as_bytes(), NOW), Err(Errno::EINVAL), "{text}");
        }
        for seconds in ["-9223372036854775808", "-85001", "9223372036", "99999999999999"] {
            assert_eq!(all.write(number, format!("1 {seconds} 0").as_bytes(), NOW), Err(Errno::ERANGE));
        }
        for text in ["1 -85000 0", "1 4000000000 0", "  monotonic 1 0", "monotonic 1 0 x"] {
            assert_eq!(all.write(number, text.as_bytes(), NOW), Ok(text.len()));
        }
    }
}
