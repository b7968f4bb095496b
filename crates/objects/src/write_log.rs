//! Log of writes to a host's files, by simulated time.

use crate::ids::InodeKey;
use belljar_base::{Map, SimTime};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Files whose writes are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedFiles {
    /// Standard output and standard error of the experiment's processes.
    Outputs,
    /// All files in the host's folder.
    All,
}

/// Bytes that were written, with the time.
pub type LoggedWrite = (Range<u64>, SimTime);

/// Log of the writes to a host's regular files. Files are known by their inodes until [`settle`](Self::settle) finds the paths
/// that they have then, so that renamed files are found.
#[derive(Debug)]
pub struct WriteLog {
    files: TimedFiles,
    /// Writes by inode, with its number; `None` for a file that is not logged.
    writes: Map<(InodeKey, u64), Option<Vec<LoggedWrite>>>,
    /// Writes by path.
    settled: Map<PathBuf, Vec<LoggedWrite>>,
}

impl WriteLog {
    /// Empty log of these files.
    pub fn new(files: TimedFiles) -> WriteLog {
        WriteLog { files, writes: Map::new(), settled: Map::new() }
    }

    /// Logs a write of these bytes. `path` gives the native path of the file.
    #[cold]
    #[inline(never)]
    pub fn record(
        &mut self,
        inode: (InodeKey, u64),
        bytes: Range<u64>,
        at: SimTime,
        path: impl FnOnce() -> Option<PathBuf>,
    ) {
        let is_logged = || match self.files {
            TimedFiles::All => true,
            TimedFiles::Outputs => path().is_some_and(|path| is_output(&path)),
        };
        let Some(writes) = self.writes.entry(inode).or_insert_with(|| is_logged().then(Vec::new)) else {
            return;
        };
        match writes.last_mut() {
            Some((last, time)) if (last.end, *time) == (bytes.start, at) => last.end = bytes.end,
            _ => writes.push((bytes, at)),
        }
    }

    /// Assigns all writes to the paths that their files have now, as `path` gives them. Files are gone if they have no path, or if
    /// `number_of` their inode is another one.
    pub fn settle(
        &mut self,
        number_of: impl Fn(InodeKey) -> Option<u64>,
        path: impl Fn(InodeKey) -> Option<PathBuf>,
    ) {
        for ((inode, number), writes) in std::mem::take(&mut self.writes) {
            let Some(writes) = writes.filter(|_| number_of(inode) == Some(number)) else { continue };
            if let Some(path) = path(inode) {
                self.settled.insert(path, writes);
            }
        }
    }

    /// Settled writes by path, each in its order.
    pub fn settled(&self) -> impl Iterator<Item = (&Path, &[LoggedWrite])> {
        self.settled.iter().map(|(path, writes)| (path.as_path(), writes.as_slice()))
    }
}

/// True for the output of a process.
fn is_output(path: &Path) -> bool {
    path.extension().is_some_and(|kind| [OsStr::new("stdout"), OsStr::new("stderr")].contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> SimTime {
        SimTime::from_nanos(ns)
    }

    #[test]
    fn writes_have_the_paths_of_the_end() {
        let mut log = WriteLog::new(TimedFiles::All);
        let path = |name: &'static str| move || Some(PathBuf::from(name));
        log.record((InodeKey(1), 7), 0..5, at(1), path("a.tmp"));
        log.record((InodeKey(1), 7), 5..6, at(1), path("a.tmp"));
        log.record((InodeKey(1), 7), 6..9, at(2), path("a.tmp"));
        log.record((InodeKey(2), 8), 0..3, at(3), path("removed"));
        // The slot of a removed inode may have another one.
        log.record((InodeKey(3), 9), 0..3, at(3), path("nameless"));
        let number_of = |inode: InodeKey| [None, Some(7), Some(10), Some(9)][inode.0];
        log.settle(number_of, |inode| (inode == InodeKey(1)).then(|| "a".into()));
        let found: Vec<_> = log.settled().collect();
        assert_eq!(found, [(Path::new("a"), &[(0..6, at(1)), (6..9, at(2))][..])]);
        log.settle(|_| panic!("nothing is left to settle"), |_| None);
    }

    #[test]
    fn a_log_of_outputs_leaves_out_other_files() {
        let mut log = WriteLog::new(TimedFiles::Outputs);
        for (inode, name) in ["sh.1000.stdout", "data", "sh.1000.stderr"].into_iter().enumerate() {
            log.record((InodeKey(inode), 1), 0..1, at(1), || Some(name.into()));
            log.record((InodeKey(inode), 1), 1..2, at(2), || panic!("the path is asked for once"));
        }
        log.settle(|_| Some(1), |inode| Some(inode.0.to_string().into()));
        assert_eq!(
            log.settled().map(|(path, writes)| (path.to_str(), writes.len())).collect::<Vec<_>>(),
            [(Some("0"), 2), (Some("2"), 2)]
        );
    }
}
