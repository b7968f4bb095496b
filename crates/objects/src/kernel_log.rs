//! The kernel's log, syslog(2): lines with their levels and times.

use std::collections::VecDeque;

/// Size of the buffer in bytes (`CONFIG_LOG_BUF_SHIFT`); older lines make room for newer ones.
pub const BUFFER: usize = 1 << 18;
/// Facility of the kernel's own lines, `LOG_KERN`.
const FACILITY: u8 = 0;

/// The kernel's log.
#[derive(Debug, Default)]
pub struct KernelLog {
    lines: VecDeque<Vec<u8>>,
    len: usize,
    /// Number of lines before which syslog(2) has been told to clear.
    cleared: usize,
}

impl KernelLog {
    /// Appends a line of this level, at a time of `CLOCK_MONOTONIC`.
    pub fn push(&mut self, level: u8, monotonic_ns: u64, text: &str) {
        let micros = monotonic_ns / 1_000;
        let (secs, micros) = (micros / 1_000_000, micros % 1_000_000);
        let line = format!("<{}>[{secs:5}.{micros:06}] {text}\n", FACILITY << 3 | level & 7).into_bytes();
        self.len += line.len();
        self.lines.push_back(line);
        while self.len > BUFFER {
            self.len -= self.lines.pop_front().map_or(self.len, |line| line.len());
            self.cleared = self.cleared.saturating_sub(1);
        }
    }
    /// The last whole lines that fit into `room` bytes (`SYSLOG_ACTION_READ_ALL`).
    pub fn read_all(&self, room: usize) -> Vec<u8> {
        let mut first = self.lines.len();
        let mut len = 0;
        while first > self.cleared && len + self.lines[first - 1].len() <= room {
            first -= 1;
            len += self.lines[first].len();
        }
        self.lines.iter().skip(first).flatten().copied().collect()
    }
    /// Hides the present lines from [`read_all`](Self::read_all) (`SYSLOG_ACTION_CLEAR`).
    pub fn clear(&mut self) {
        self.cleared = self.lines.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_that_fit_are_read() {
        let mut log = KernelLog::default();
        log.push(4, 1_500_000_000, "first");
        log.push(6, 61_000_001_000, "second");
        assert_eq!(log.read_all(1_000), b"<4>[    1.500000] first\n<6>[   61.000001] second\n");
        assert_eq!(log.read_all(30), b"<6>[   61.000001] second\n");
        log.clear();
        log.push(4, 0, "third");
        assert_eq!(log.read_all(1_000), b"<4>[    0.000000] third\n");
        for _ in 0..BUFFER {
            log.push(4, 0, "x");
        }
        assert!(log.len <= BUFFER);
    }
}
