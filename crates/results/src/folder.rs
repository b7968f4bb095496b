use crate::names;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder that contains all files of a run:
///
/// ```text
/// processed-config.yaml     the resolved experiment; can be run again unchanged
/// sim-stats.json            statistics of the run
/// hosts/<name>/             working directory of the host's processes
/// hosts/<name>/<program>.<pid>.{stdout,stderr,strace}
/// hosts/<name>/<interface>.pcap
/// hosts/<name>/fs/          files that the host's processes wrote elsewhere
/// flows.csv                 flows of traffic models, if any
/// {switches,routers}/<name>/<interface>.pcap
/// metrics/{hosts,tcp}.csv   time series, if the experiment requests them
/// emulation.json            fidelity of an emulated run
/// topology.json             the network as drawn by `belljar report`
/// times/<name>.jsonl        times of writes to the files that properties are about
/// sdk_coverage.json         edges of instrumented programs, also in the folders of hosts
/// packets/<name>/<interface>.pcap  packets that properties are about
/// properties/               histories, and the reports on them
/// manifest.sha256           hashes of the machine's files that the run has read, in the format of sha256sum(1)
/// ```
#[derive(Clone, Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Lock held by the process that created the folder: [`remove_earlier`](ResultsFolder::remove_earlier)
    /// recognizes a run in progress by it.
    _lock: Option<Arc<File>>,
}

/// Reason why results cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The folder exists: results are never mixed with those of another run.
    #[error("the results folder {0} exists already: replace it with --force, or name another one with -o")]
    Exists(PathBuf),
    /// The folder is not one that [`remove_earlier`](ResultsFolder::remove_earlier) removes.
    #[error("{path} is not replaced: {reason}; name another folder with -o")]
    Kept {
        /// The folder.
        path: PathBuf,
        /// Reason why it is kept.
        reason: &'static str,
    },
    /// The folder whose content is to be copied cannot be read.
    #[error("the template_directory {path} cannot be read: {}", plain(error))]
    Template {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A system call failed.
    #[error("cannot write {path}: {}; {}", plain(error), remedy(error))]
    Write {
        /// The file or folder to be written.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The system's error message, without the number that Rust appends.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let mut rest = text.split(" (os error").next().unwrap_or_default().chars();
    rest.next().into_iter().flat_map(char::to_lowercase).chain(rest).collect()
}

/// Advice for the user about an error.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "name a folder that you may write to with -o",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file stands where a folder is needed: remove it, or name another folder with -o"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or name a folder on another disk with -o"
        }
        io::ErrorKind::ReadOnlyFilesystem => "name a folder on a disk that can be written with -o",
        _ => "name another folder with -o",
    }
}

/// `create_dir_all` with the error `NotADirectory` if a file is in the path, for which the original reports
/// only that it exists.
fn make_parents(parent: &Path) -> io::Result<()> {
    let in_the_way = parent.ancestors().find(|path| path.exists());
    match in_the_way {
        Some(path) if !path.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        _ => fs::create_dir_all(parent),
    }
}

/// Locks a folder until the returned file is closed.
fn lock(folder: &Path, operation: FlockOperation) -> io::Result<File> {
    let file = File::open(folder)?;
    flock(&file, operation)?;
    Ok(file)
}

impl ResultsFolder {
    /// Creates the folder, which must not exist yet, and a folder for each host.
    pub fn create<'a>(
        path: &Path,
        hosts: impl Iterator<Item = &'a str>,
    ) -> Result<ResultsFolder, ResultsError> {
        let failed = |path: &Path, error| ResultsError::Write { path: path.to_owned(), error };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            make_parents(parent).map_err(|error| failed(path, error))?;
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(ResultsError::Exists(path.to_owned()));
            }
            made => made.map_err(|error| failed(path, error))?,
        }
        // Guests see these paths: they must not depend on the simulator's working directory.
        let path = path.canonicalize().map_err(|error| failed(path, error))?;
        let held = lock(&path, FlockOperation::LockShared).ok();
        let folder = ResultsFolder { path, _lock: held.map(Arc::new) };
        for host in hosts {
            let path = folder.host(host);
            fs::create_dir_all(&path).map_err(|error| failed(&path, error))?;
        }
        Ok(folder)
    }

    /// Removes a results folder of an earlier run; a path that does not exist is left alone.
    ///
    /// # Errors
    /// [`ResultsError::Kept`] for everything that is not surely the folder of a run that has ended: a folder without
    /// the files that each run begins with, one that contains the working directory or the home directory, one
    /// that another process writes to, one with mount points of an emulation, and a symbolic link.
    pub fn remove_earlier(path: &Path) -> Result<(), ResultsError> {
        let kept = |reason| Err(ResultsError::Kept { path: path.to_owned(), reason });
        let failed = |error| ResultsError::Write { path: path.to_owned(), error };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
            Ok(found) if found.is_symlink() => return kept("it is a symbolic link"),
            Ok(found) if !found.is_dir() => return kept("it is not a folder"),
            Ok(_) => {}
        }
        let real = path.canonicalize().map_err(failed)?;
        let contains = |other: Option<PathBuf>| {
            other.and_then(|other| other.canonicalize().ok()).is_some_and(|other| other.starts_with(&real))
        };
        if contains(std::env::current_dir().ok()) {
            return kept("it contains the working directory");
        }
        if contains(std::env::home_dir()) {
            return kept("it contains the home directory");
        }
        // Hosts with models alone have no folders.
        if ![names::EXPERIMENT, names::TOPOLOGY].iter().all(|name| real.join(name).exists()) {
            return kept("it is not a results folder of Belljar");
        }
        if real.join(names::EMULATION_SCRATCH).exists() {
            return kept("an emulation was killed there: 'belljar emulate --clean' removes its mount points");
        }
        match lock(&real, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => kept("a run writes to it"),
            held => held.and_then(|_held| fs::remove_dir_all(&real)).map_err(failed),
        }
    }

    /// Opens a folder created by another process.
    pub fn open(path: &Path) -> ResultsFolder {
        ResultsFolder { path: path.to_owned(), _lock: None }
    }

    /// Copies the content of `template` into the folder: `general.template_directory`.
    pub fn fill(&self, template: &Path) -> Result<(), ResultsError> {
        copy_tree(template, &self.path)
    }

    /// Absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Absolute path of a host's folder.
    pub fn host(&self, name: &str) -> PathBuf {
        self.path.join("hosts").join(name)
    }
    /// Writes a whole file in the folder.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), ResultsError> {
        let path = self.path.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, content)).map_err(|error| ResultsError::Write { path, error })
    }
    /// Creates a file in the folder, to be written piece by piece.
    pub fn create_file(&self, name: &Path) -> Result<File, ResultsError> {
        let path = self.path.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| File::create(&path)).map_err(|error| ResultsError::Write { path, error })
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), ResultsError> {
    let failed = |error| ResultsError::Template { path: from.to_owned(), error };
    let mut entries =
        fs::read_dir(from).and_then(|all| all.collect::<io::Result<Vec<_>>>()).map_err(failed)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let failed = |error| ResultsError::Write { path: target.clone(), error };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(failed)?;
            copy_tree(&source, &target)?;
            copy_time(&source, &target).map_err(failed)?;
        } else if kind.is_symlink() {
            let leads = fs::read_link(&source).map_err(failed)?;
            std::os::unix::fs::symlink(leads, &target).map_err(failed)?;
        } else {
            // Copying a FIFO would not end.
            let unreadable = |error| ResultsError::Write { path: source.clone(), error };
            belljar_inputs::open(&source).map_err(unreadable)?;
            fs::copy(&source, &target).and_then(|_| copy_time(&source, &target)).map_err(failed)?;
        }
    }
    Ok(())
}

/// Sets a copy's modification time to its original's: guests see it, and the time of copying would make runs
/// differ.
fn copy_time(source: &Path, target: &Path) -> io::Result<()> {
    File::open(target)?.set_modified(fs::metadata(source)?.modified()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_folder_that_exists_and_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let folder = ResultsFolder::create(&path, ["alice"].into_iter()).unwrap();
        assert!(folder.host("alice").is_dir());
        let error = ResultsFolder::create(&path, [].into_iter()).unwrap_err().to_string();
        assert!(error.contains("exists already") && error.contains("-o"), "{error}");
    }

    /// Folder as a run leaves it.
    fn earlier(path: &Path) -> ResultsFolder {
        let folder = ResultsFolder::create(path, ["alice"].into_iter()).unwrap();
        folder.write(names::EXPERIMENT, b"").unwrap();
        folder.write(names::TOPOLOGY, b"").unwrap();
        folder
    }

    #[test]
    fn only_the_folder_of_a_run_that_has_ended_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let refused = |path: &Path| ResultsFolder::remove_earlier(path).unwrap_err().to_string();
        ResultsFolder::remove_earlier(&path).unwrap();
        let running = earlier(&path);
        assert!(refused(&path).contains("a run writes to it"));
        drop(running.clone());
        assert!(refused(&path).contains("a run writes to it"), "the lock is held until the last copy goes");
        drop(running);
        fs::create_dir(path.join(names::EMULATION_SCRATCH)).unwrap();
        assert!(refused(&path).contains("emulate --clean"));
        fs::remove_dir(path.join(names::EMULATION_SCRATCH)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refused(&link).contains("symbolic link"));
        fs::remove_file(path.join(names::TOPOLOGY)).unwrap();
        assert!(refused(&path).contains("not a results folder"));
        fs::write(path.join(names::TOPOLOGY), "").unwrap();
        ResultsFolder::remove_earlier(&path).unwrap();
        assert!(!path.exists());
        assert!(refused(&std::env::current_dir().unwrap()).contains("the working directory"));
        assert!(refused(&std::env::home_dir().unwrap().join("..")).contains("directory"));
        fs::write(&path, "").unwrap();
        assert!(refused(&path).contains("not a folder"));
    }

    #[test]
    fn a_file_in_the_way_is_said_with_the_folder_that_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("plain"), "").unwrap();
        let path = dir.path().join("plain/data");
        let error = ResultsFolder::create(&path, [].into_iter()).unwrap_err().to_string();
        assert!(error.contains("plain/data: not a directory; a file stands where"), "{error}");
    }

    #[test]
    fn a_template_is_copied_with_its_folders_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let template = dir.path().join("template");
        fs::create_dir_all(template.join("hosts/alice")).unwrap();
        fs::write(template.join("hosts/alice/torrc"), "x").unwrap();
        std::os::unix::fs::symlink("torrc", template.join("hosts/alice/link")).unwrap();
        let long_ago = fs::metadata("Cargo.toml").unwrap().modified().unwrap();
        for name in ["hosts/alice/torrc", "hosts/alice"] {
            File::open(template.join(name)).unwrap().set_modified(long_ago).unwrap();
        }
        let folder = ResultsFolder::create(&dir.path().join("data"), ["alice"].into_iter()).unwrap();
        folder.fill(&template).unwrap();
        let missing = folder.fill(&dir.path().join("missing")).unwrap_err().to_string();
        assert!(missing.ends_with("missing cannot be read: no such file or directory"), "{missing}");
        assert_eq!(fs::read_to_string(folder.host("alice").join("link")).unwrap(), "x");
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        for name in ["hosts/alice", "hosts/alice/torrc"] {
            assert_eq!(time(&folder.path().join(name)), time(&template.join(name)), "{name}");
        }
    }
}
