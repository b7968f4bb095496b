//! Temporary folders outside of the results, which a process that is killed leaves behind.
//!
//! A process holds a lock on each of its folders as long as it lives (flock(2) on the folder itself, which the
//! kernel releases however the process ends). [`Scratch::sweep`] removes those of this user whose lock is
//! free. The prefix of their names is theirs alone: no other folder is touched.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Start of the names of temporary folders. The process id and a number follow.
pub const PREFIX: &str = "belljar-scratch-";

/// Locks a folder that this process has just created. `None` if another process has swept it before.
///
/// # Errors
/// Errors of open(2).
pub fn lock_new(path: &Path) -> io::Result<Option<File>> {
    let folder = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // A process that sweeps it holds the lock until it is removed.
    let _ = flock(&folder, FlockOperation::LockExclusive);
    let is_there = path.metadata().is_ok_and(|there| {
        folder.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
    });
    Ok(is_there.then_some(folder))
}

/// Temporary folder of this process, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The folder, with the lock.
    _folder: File,
}

impl Scratch {
    /// Creates a folder, which only this user can open, in `parent`.
    ///
    /// # Errors
    /// Errors of mkdir(2) and open(2).
    pub fn create(parent: &Path) -> io::Result<Scratch> {
        for number in 0.. {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            let locked = lock_new(&path).inspect_err(|_| drop(fs::remove_dir(&path)))?;
            if let Some(folder) = locked {
                return Ok(Scratch { path, _folder: folder });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folders in `parent` that killed processes of this user have left.
    pub fn sweep(parent: &Path) {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(folder) = open(entry.path(), flags, Mode::empty()).map(File::from) else { continue };
            let is_own = folder.metadata().is_ok_and(|status| status.uid() == geteuid().as_raw());
            if is_own && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
                // What cannot be removed now is removed another time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn folders_of_killed_processes_are_swept_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        // As after a kill: with content, and without a lock.
        let left = at("belljar-scratch-1-0");
        fs::create_dir_all(left.join("results/hosts")).unwrap();
        fs::write(left.join("results/file"), "").unwrap();
        let elsewhere = at("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "").unwrap();
        symlink(&elsewhere, at("belljar-scratch-2-0")).unwrap();
        fs::create_dir(at("belljar-other")).unwrap();
        fs::write(at("belljar-scratch-3-0"), "a file").unwrap();
        let used = Scratch::create(dir.path()).unwrap();
        let second = Scratch::create(dir.path()).unwrap();
        fs::write(used.path().join("file"), "").unwrap();
        Scratch::sweep(dir.path());
        assert!(!left.exists());
        assert!(used.path().join("file").exists() && second.path().exists() && second.path() != used.path());
        assert!(elsewhere.join("file").exists() && at("belljar-other").exists());
        assert!(at("belljar-scratch-2-0").is_symlink() && at("belljar-scratch-3-0").exists());
        assert_eq!(used.path().metadata().unwrap().mode() & 0o777, 0o700);
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn the_number_of_a_folder_that_was_left_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let name = |n: u32| dir.path().join(format!("{PREFIX}{}-{n}", std::process::id()));
        fs::create_dir(name(0)).unwrap();
        assert_eq!(Scratch::create(dir.path()).unwrap().path(), name(1));
        assert!(Scratch::create(&dir.path().join("nowhere")).is_err());
    }
}
