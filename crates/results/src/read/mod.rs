//! Reads the results of a run, for the commands that show, compare and convert them.

mod capture;
mod series;
mod strace;

use crate::Statistics;
use crate::folder::plain;
use crate::names;
pub use capture::{CapturedPacket, each_packet, packets};
pub use series::{Series, series};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
pub use strace::{Call, calls, time_of_line, written_to};

/// The results of a completed run.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    /// Content of `sim-stats.json`.
    pub statistics: Statistics,
}

/// Reason why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path does not exist or is not a folder.
    #[error("there is no results folder {0}: belljar run EXPERIMENT -o {0} makes one")]
    Missing(PathBuf),
    /// The folder does not contain the results of a completed run.
    #[error("{0} is not the results of a run that has ended: it has no sim-stats.json")]
    NotResults(PathBuf),
    /// A file is unreadable or malformed.
    #[error("{path} cannot be read: {reason}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Fault of the file.
        reason: String,
    },
}

impl ReadError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> ReadError {
        ReadError::File { path: path.to_owned(), reason: plain(error) }
    }
}

impl Results {
    /// Opens the results in `path`.
    pub fn open(path: &Path) -> Result<Results, ReadError> {
        if !path.is_dir() {
            return Err(ReadError::Missing(path.to_owned()));
        }
        let file = path.join(names::STATISTICS);
        let text = match belljar_inputs::read_text(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::NotResults(path.to_owned()));
            }
            other => other.map_err(|error| ReadError::io(&file, &error))?,
        };
        let statistics = serde_json::from_str(&text)
            .map_err(|error| ReadError::File { path: file, reason: error.to_string() })?;
        Ok(Results { path: path.to_owned(), statistics })
    }

    /// Path of the results folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Path of a host's folder.
    pub fn host(&self, name: &str) -> PathBuf {
        self.path.join("hosts").join(name)
    }
    /// The text of a file in the folder, if it exists.
    pub fn text(&self, name: &str) -> Option<String> {
        let bytes = belljar_inputs::read(&self.path.join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
    /// Paths of a host's files with the extension `kind`, with their stems, sorted.
    pub fn files(&self, host: &str, kind: &str) -> Vec<(String, PathBuf)> {
        files(&self.host(host), kind)
    }
    /// Hosts, switches and routers by name, each with its folder, which may not exist.
    pub fn nodes(&self) -> Vec<(String, PathBuf)> {
        let hosts = self.statistics.hosts.keys().map(|name| (name.clone(), self.host(name)));
        let mut all: Vec<_> = hosts.collect();
        for kind in ["switches", "routers", "simulators", "radios", "gateways"] {
            let entries = fs::read_dir(self.path.join(kind)).into_iter().flatten().flatten();
            let mut found: Vec<_> = entries
                .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
                .collect();
            found.sort();
            all.extend(found);
        }
        all
    }
}

/// Paths of a folder's files with the extension `kind`, with their stems, sorted.
pub(crate) fn files(folder: &Path, kind: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let stem = name.strip_suffix(kind)?.strip_suffix('.')?.to_owned();
            Some((stem, entry.path()))
        })
        .collect();
    found.sort();
    found
}
