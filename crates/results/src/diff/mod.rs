//! Comparison of two runs: compares the files of their results, orders the differences by simulated time, and
//! shows the first one with its context in both.
//!
//! Options that do not affect the simulated results (worker threads, the folder's name) are ignored.

mod files;
mod show;

use crate::names;
use crate::read::{ReadError, Results};
use belljar_base::{Set, SimTime};
use std::fs;
use std::path::{Path, PathBuf};

/// All differences of two results folders.
#[derive(Debug)]
pub struct Comparison {
    /// Sorted by simulated time; differences without a time come last.
    pub differences: Vec<Difference>,
    /// Number of files compared.
    pub files: usize,
    pub(crate) names: [String; 2],
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the file, relative to the results folder.
    pub file: PathBuf,
    /// Simulated time of the first difference, if known.
    pub at: Option<SimTime>,
    /// Position of the difference: `system call 7`, `packet 3`, `line 12`.
    pub place: String,
    /// Lines before the difference, equal in both.
    pub before: Vec<String>,
    /// Lines from the difference on, for each run.
    pub sides: [Vec<String>; 2],
    pub(crate) kind: Kind,
}

/// Kind of a file; orders differences at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The resolved experiment.
    Experiment,
    /// Hashes of the machine's files that were read.
    Manifest,
    Strace,
    /// Decisions of a P4 switch.
    Decisions,
    Capture,
    Output,
    Series,
    Other,
    Statistics,
}

impl Kind {
    fn of(file: &Path) -> Kind {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let in_host = file.starts_with("hosts");
        let in_node = in_host
            || ["switches", "routers", "simulators", "radios"].iter().any(|kind| file.starts_with(kind));
        let depth = file.components().count();
        match &*name {
            names::EXPERIMENT if depth == 1 => Kind::Experiment,
            names::MANIFEST if depth == 1 => Kind::Manifest,
            names::STATISTICS if depth == 1 => Kind::Statistics,
            _ if file.starts_with("metrics") => Kind::Series,
            name if in_host && depth == 3 && name.ends_with(".strace") => Kind::Strace,
            "trace.log" if in_node && depth == 3 => Kind::Decisions,
            name if in_node && depth == 3 && name.ends_with(".pcap") => Kind::Capture,
            name if in_host && (name.ends_with(".stdout") || name.ends_with(".stderr")) => Kind::Output,
            _ => Kind::Other,
        }
    }
}

/// Compares two results folders.
pub fn compare(a: &Path, b: &Path) -> Result<Comparison, ReadError> {
    let results = [Results::open(a)?, Results::open(b)?];
    let sides = [files::Side::new(&results[0]), files::Side::new(&results[1])];
    let mut names = Set::new();
    for side in &results {
        list(side.path(), side.path(), &mut names)?;
    }
    // Files that are derived from others or describe the machine.
    for derived in [names::TOPOLOGY, names::REPORT, names::TRACE, names::ALL_CAPTURES, names::PROFILE] {
        names.remove(Path::new(derived));
    }
    let mut differences = Vec::new();
    for file in &names {
        differences.extend(files::difference(file, Kind::of(file), &sides)?);
    }
    differences.sort_by(|x, y| {
        let order = |d: &Difference| (d.kind > Kind::Manifest, d.at.is_none(), d.at, d.kind, d.file.clone());
        order(x).cmp(&order(y))
    });
    let names_of = [a, b].map(|path| path.display().to_string());
    Ok(Comparison { differences, files: names.len(), names: names_of })
}

/// The paths of all regular files below `dir`, relative to `root`.
fn list(root: &Path, dir: &Path, found: &mut Set<PathBuf>) -> Result<(), ReadError> {
    let entries = fs::read_dir(dir).map_err(|error| ReadError::io(dir, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| ReadError::io(dir, &error))?;
        let kind = entry.file_type().map_err(|error| ReadError::io(&entry.path(), &error))?;
        if kind.is_dir() {
            list(root, &entry.path(), found)?;
        } else if kind.is_file() {
            found.extend(entry.path().strip_prefix(root).map(Path::to_owned));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
