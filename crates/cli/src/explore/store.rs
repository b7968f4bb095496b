//! The campaign's folder: what belongs to it, the verdicts of all runs that were executed, and the findings.
//!
//! A verdict is stored under the digest of its experiment. A campaign that is begun again takes the same course,
//! and finds in the store what it has executed before.

use crate::failure::Failure;
use belljar_base::{Map, hex};
use belljar_config::Experiment;
use belljar_explore::Verdict;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What belongs to the campaign; the file that marks its folder.
const CAMPAIGN: &str = "campaign.json";
/// Verdicts, one a line.
const VERDICTS: &str = "verdicts.jsonl";
/// The report of the last end.
pub const REPORT: &str = "report.json";
/// Runs in progress.
const RUNNING: &str = "running";
/// Shrunk failures.
pub const FINDINGS: &str = "findings";
/// Forced choices of a finding, in its folder.
pub const CHOICES: &str = "choices.txt";
/// Lock of the campaign that uses the folder.
const LOCK: &str = "lock";

/// The experiment and programs of a campaign.
#[derive(Serialize, Deserialize, PartialEq)]
struct Header {
    /// Version of Belljar.
    belljar: String,
    /// The experiment with everything resolved.
    experiment: String,
    /// Files of the machine that processes run or are given as arguments: path, bytes, and nanoseconds of the last change.
    files: Vec<(String, u64, i128)>,
}

/// A line of the file of verdicts.
#[derive(Serialize, Deserialize)]
struct Line {
    digest: String,
    verdict: Verdict,
}

/// The open folder of a campaign.
pub struct Store {
    folder: PathBuf,
    known: Map<String, Verdict>,
    log: File,
    /// Keeps other campaigns out.
    _lock: Flock<File>,
}

impl Store {
    /// Opens the folder of a campaign, or makes it. `force` forgets what an earlier campaign has left.
    pub fn open(folder: &Path, experiment: &Experiment, force: bool) -> Result<Store, Failure> {
        let shown = folder.display();
        let header = Header::of(experiment);
        let marker = folder.join(CAMPAIGN);
        if folder.exists() && !marker.is_file() && !is_empty(folder) {
            return Err(Failure::usage(format!(
                "{shown} exists, and is not the folder of a campaign: name another one with -o"
            )));
        }
        let failed = |error: io::Error| Failure::run(format!("{shown} cannot be used: {error}"));
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK)).map_err(failed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| Failure::usage(format!("another campaign is using {shown}")))?;
        if marker.is_file() {
            let before: Option<Header> =
                fs::read(&marker).ok().and_then(|text| serde_json::from_slice(&text).ok());
            if force {
                for path in [VERDICTS, REPORT] {
                    remove(&folder.join(path)).map_err(failed)?;
                }
                remove(&folder.join(FINDINGS)).map_err(failed)?;
            } else if before.as_ref() != Some(&header) {
                let what = before.map_or("it cannot be read", |before| before.difference(&header));
                return Err(Failure::usage(format!(
                    "{shown} belongs to another campaign: {what}. --force forgets it, -o names another folder"
                )));
            }
        }
        let text = serde_json::to_vec_pretty(&header).map_err(Failure::run)?;
        fs::write(&marker, text).map_err(failed)?;
        // What a killed campaign was running.
        remove(&folder.join(RUNNING)).map_err(failed)?;
        fs::create_dir(folder.join(RUNNING)).map_err(failed)?;
        let verdicts = folder.join(VERDICTS);
        let known = read(&verdicts).map_err(failed)?;
        let mut log = OpenOptions::new().append(true).create(true).open(&verdicts).map_err(failed)?;
        // A line that was cut off by a kill ends here.
        if fs::read(&verdicts).map_err(failed)?.last().is_some_and(|last| *last != b'\n') {
            log.write_all(b"\n").map_err(failed)?;
        }
        Ok(Store { folder: folder.to_owned(), known, log, _lock: lock })
    }

    /// Name under which the verdict of an experiment is stored.
    pub fn digest(experiment: &str) -> String {
        hex(&Sha256::digest(experiment.as_bytes())[..16])
    }

    /// The verdict of an experiment that was executed before.
    pub fn known(&self, digest: &str) -> Option<&Verdict> {
        self.known.get(digest)
    }

    /// Keeps a verdict.
    pub fn keep(&mut self, digest: &str, verdict: &Verdict) -> Result<(), Failure> {
        let line = Line { digest: digest.to_owned(), verdict: verdict.clone() };
        let mut text = serde_json::to_vec(&line).map_err(Failure::run)?;
        text.push(b'\n');
        let failed = |error| {
            Failure::run(format!("{} cannot be written: {error}", self.folder.join(VERDICTS).display()))
        };
        self.log.write_all(&text).map_err(failed)?;
        self.known.insert(line.digest, line.verdict);
        Ok(())
    }

    /// Folder of runs in progress.
    pub fn running(&self) -> PathBuf {
        self.folder.join(RUNNING)
    }

    /// Folder of a finding, made empty.
    pub fn finding(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(FINDINGS).join(name);
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

impl Header {
    fn of(experiment: &Experiment) -> Header {
        let mut paths: Vec<PathBuf> = Vec::new();
        for host in &experiment.hosts {
            for process in host.programs() {
                paths.push(process.path.clone());
                paths.extend(process.args.iter().map(PathBuf::from).filter(|path| path.is_absolute()));
            }
        }
        paths.sort();
        paths.dedup();
        let described = |path: &PathBuf| {
            let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
            let changed = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
            Some((path.to_string_lossy().into_owned(), about.len(), changed))
        };
        Header {
            belljar: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: experiment.to_yaml(),
            files: paths.iter().filter_map(described).collect(),
        }
    }

    fn difference(&self, now: &Header) -> &'static str {
        if self.experiment != now.experiment {
            "the experiment is another one"
        } else if self.files != now.files {
            "a program has changed since"
        } else {
            "it is of another version of Belljar"
        }
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a file or folder, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// The verdicts of a file. A line that was cut off is left out: its run is executed again.
fn read(path: &Path) -> io::Result<Map<String, Verdict>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        opened => opened?,
    };
    let mut known = Map::new();
    for line in BufReader::new(file).lines() {
        if let Ok(Line { digest, verdict }) = serde_json::from_str(&line?) {
            known.insert(digest, verdict);
        }
    }
    Ok(known)
}
