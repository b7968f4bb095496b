//! Faults of a host's disk that last: what they do to syncs and reads, drawn from a stream for each fault.

use crate::ids::FileKey;
use belljar_base::{SimDuration, Stream, matches_wildcard};
use belljar_machine::DiskFault;

/// Effect of the disk on a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyRead {
    /// The read fails.
    Error,
    /// A bit of this byte of the read, by number, is wrong.
    Rotten {
        /// Position of the byte in the read.
        byte: u64,
        /// Mask of the bit.
        mask: u8,
    },
}

/// Number of effects of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaultCounts {
    /// Syncs that took time.
    pub slow_syncs: u64,
    /// Syncs that failed.
    pub failed_syncs: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Bits that became wrong.
    pub rotten_bits: u64,
    /// Writes and new files for which there was no room.
    pub no_room: u64,
}

impl DiskFaultCounts {
    /// Names and values, without those that are 0.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("slow_syncs", self.slow_syncs),
            ("failed_syncs", self.failed_syncs),
            ("failed_reads", self.failed_reads),
            ("rotten_bits", self.rotten_bits),
            ("no_room", self.no_room),
        ];
        all.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// Fault that lasts.
#[derive(Debug)]
struct Active {
    /// Number of the event.
    event: u32,
    fault: DiskFault,
    draw: Stream,
}

/// Faults of one disk.
#[derive(Debug, Default)]
pub struct DiskFaults {
    active: Vec<Active>,
    /// Open files that have yet to report that a sync of their file failed.
    unreported: Vec<FileKey>,
    /// Effects so far.
    pub counts: DiskFaultCounts,
}

impl DiskFaults {
    /// Adds the fault of an event; an earlier one of the same event ends.
    pub fn begin(&mut self, event: u32, fault: DiskFault, draw: Stream) {
        self.end(Some(event));
        self.active.push(Active { event, fault, draw });
    }
    /// Ends the fault of an event, or all faults.
    pub fn end(&mut self, event: Option<u32>) {
        self.active.retain(|active| event.is_some_and(|event| active.event != event));
    }
    /// True if nothing can be allocated.
    pub fn is_full(&self) -> bool {
        self.active.iter().any(|active| active.fault.full)
    }
    /// True if a fault concerns some files only.
    pub fn knows_paths(&self) -> bool {
        self.active.iter().any(|active| active.fault.path.is_some())
    }

    /// Time that a sync takes. `path` is that of the file; `None` where all files are synced.
    pub fn sync_time(&mut self, path: Option<&[u8]>) -> Option<SimDuration> {
        let mut longest = None;
        for active in &mut self.active {
            let Some((least, most)) = active.fault.sync_time else { continue };
            if path.is_none_or(|path| concerns(&active.fault, path)) {
                let room = most.as_nanos() - least.as_nanos();
                let time = least.as_nanos() + active.draw.below(room.saturating_add(1));
                longest = longest.max(Some(SimDuration::from_nanos(time)));
            }
        }
        self.counts.slow_syncs += u64::from(longest.is_some());
        longest
    }
    /// True if a sync of the file at `path`, by an open file, fails. `others` are further open files of the same file, which
    /// report the failure at their next sync.
    pub fn fails_sync(
        &mut self,
        path: &[u8],
        file: FileKey,
        others: impl Iterator<Item = FileKey>,
    ) -> SyncFate {
        for active in &mut self.active {
            if active.fault.sync_errors > 0 && concerns(&active.fault, path) {
                active.fault.sync_errors -= 1;
                self.counts.failed_syncs += 1;
                self.forget(file);
                self.unreported.extend(others);
                return SyncFate::Lost;
            }
        }
        match self.forget(file) {
            true => SyncFate::Reported,
            false => SyncFate::Done,
        }
    }
    /// Forgets an open file, which was closed; true if it had a failure to report.
    pub fn forget(&mut self, file: FileKey) -> bool {
        let before = self.unreported.len();
        self.unreported.retain(|other| *other != file);
        self.unreported.len() < before
    }
    /// Forgets all open files.
    pub fn forget_files(&mut self) {
        self.unreported.clear();
    }
    /// Effect on a read of `len` bytes of the file at `path`; `is_own` says that it belongs to the host's own layer.
    pub fn read(&mut self, path: &[u8], is_own: bool, len: u64) -> Option<FaultyRead> {
        for active in &mut self.active {
            let is_concerned =
                if active.fault.path.is_some() { concerns(&active.fault, path) } else { is_own };
            if !is_concerned || len == 0 {
                continue;
            }
            if active.draw.chance(active.fault.read_errors) {
                self.counts.failed_reads += 1;
                return Some(FaultyRead::Error);
            }
            if active.draw.chance(active.fault.bit_rot) {
                self.counts.rotten_bits += 1;
                let (byte, bit) = (active.draw.below(len), active.draw.below(8));
                return Some(FaultyRead::Rotten { byte, mask: 1 << bit });
            }
        }
        None
    }
}

/// End of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFate {
    /// The data is on the disk.
    Done,
    /// The data counts as written and is not on the disk: `EIO`.
    Lost,
    /// An earlier sync through another open file failed, which this one reports: `EIO`.
    Reported,
}

/// True if a fault concerns the file at a path.
fn concerns(fault: &DiskFault, path: &[u8]) -> bool {
    fault.path.as_ref().is_none_or(|pattern| matches_wildcard(pattern, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    fn faults(fault: DiskFault) -> DiskFaults {
        let mut faults = DiskFaults::default();
        faults.begin(1, fault, Seed(1).stream(&["test"]));
        faults
    }

    #[test]
    fn a_failed_sync_is_reported_once_by_each_open_file() {
        let mut faults = faults(DiskFault { sync_errors: 1, ..DiskFault::default() });
        let (one, other) = (FileKey(1), FileKey(2));
        assert_eq!(faults.fails_sync(b"/a", one, [other].into_iter()), SyncFate::Lost);
        assert_eq!(faults.fails_sync(b"/a", one, [other].into_iter()), SyncFate::Done);
        assert_eq!(faults.fails_sync(b"/a", other, [one].into_iter()), SyncFate::Reported);
        assert_eq!(faults.fails_sync(b"/a", other, [one].into_iter()), SyncFate::Done);
        assert_eq!(faults.counts.by_name().collect::<Vec<_>>(), [("failed_syncs", 1)]);
    }

    #[test]
    fn faults_concern_files_by_path_and_end() {
        let path = Some("/var/*.log".to_owned());
        let mut faults = faults(DiskFault { read_errors: 1.0, path, ..DiskFault::default() });
        assert_eq!(faults.read(b"/var/lib/a.log", false, 9), Some(FaultyRead::Error));
        assert_eq!(faults.read(b"/var/lib/a.txt", true, 9), None);
        assert_eq!(faults.read(b"/var/lib/a.log", true, 0), None);
        faults.end(Some(2));
        assert!(faults.knows_paths());
        faults.end(Some(1));
        assert_eq!(faults.read(b"/var/lib/a.log", true, 9), None);
    }

    #[test]
    fn rates_and_times_are_kept() {
        let sync_time = Some((SimDuration::from_millis(2), SimDuration::from_millis(5)));
        let mut faults = faults(DiskFault { sync_time, bit_rot: 0.1, ..DiskFault::default() });
        for _ in 0..100 {
            let time = faults.sync_time(None).expect("a time");
            assert!((2_000_000..=5_000_000).contains(&time.as_nanos()), "{time}");
        }
        let rotten = (0..10_000).filter(|_| faults.read(b"/a", true, 4).is_some()).count();
        assert!((800..1_200).contains(&rotten), "{rotten}");
        assert_eq!(faults.read(b"/a", false, 4), None);
    }
}
