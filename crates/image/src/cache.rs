//! Cache of unpacked images: one immutable directory per image, named by its id.
//!
//! An image is unpacked under a temporary name and renamed on completion, under a lock per image, so that of
//! two concurrent runs the second waits. A killed run leaves an incomplete directory, which the next run that
//! unpacks an image removes.

use crate::layer::Tree;
use crate::manifest::Image;
use crate::source::Source;
use crate::{Doing, Error, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the unpacked format; incremented when unpacking changes.
const VERSION: &str = "1";

/// Cache directory of the current user: `$BELLJAR_CACHE`, otherwise `belljar` in the user's cache directory.
pub fn default_cache() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    given("BELLJAR_CACHE")
        .map(|path| std::env::current_dir().unwrap_or_default().join(path))
        .or_else(|| given("XDG_CACHE_HOME").filter(absolute).map(|cache| cache.join("belljar")))
        .or_else(|| given("HOME").filter(absolute).map(|home| home.join(".cache/belljar")))
}

/// Directory of an unpacked image; unpacks the image if necessary.
pub fn unpacked(source: &mut Source, image: &Image, cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("images");
    let owners = keeps_owners();
    // With file owners, an image is unpacked to a directory of its own.
    let name = format!("{}-{VERSION}{}", image.id, if owners { "-owners" } else { "" });
    let place = folder.join(&name);
    if place.is_dir() {
        return Ok(place);
    }
    let making = |error: std::io::Error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_owned();
        Error::new(format!("the image cannot be unpacked below '{}': {text}", folder.display()))
            .help("set BELLJAR_CACHE to a directory that you may write to, with room for it")
    };
    fs::create_dir_all(&folder).map_err(making)?;
    // Images contain set-user-ID programs, which other users must not be able to run.
    let private = Mode::from_bits_truncate(0o700);
    rustix::fs::chmod(&folder, private).map_err(|errno| making(errno.into()))?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = rustix::fs::open(folder.join(format!("{name}.lock")), flags, Mode::from_bits_truncate(0o600))
        .map_err(|errno| making(errno.into()))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .doing("waiting for another run that unpacks it")?;
    if place.is_dir() {
        return Ok(place);
    }
    sweep(&folder);
    let partial = folder.join(format!("{name}.partial"));
    remove(&partial).map_err(making)?;
    fs::create_dir(&partial).map_err(making)?;
    let done =
        unpack(source, image, &partial, owners).and_then(|()| fs::rename(&partial, &place).map_err(making));
    if done.is_err() {
        // The error of unpacking takes precedence.
        let _ = remove(&partial);
    }
    done.map(|()| place)
}

fn unpack(source: &mut Source, image: &Image, at: &Path, owners: bool) -> Result<()> {
    let mut tree = Tree::new(at, owners)?;
    for (number, (name, digest)) in image.layers.iter().enumerate() {
        let failed =
            |error: Error| Error { message: format!("layer {}: {}", number + 1, error.message), ..error };
        let part = source.part(name)?;
        tree.put(part, digest).map_err(failed)?;
    }
    tree.finish()
}

/// Removes the incomplete directories of images that no run unpacks any more: their locks are free.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".partial")) else { continue };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(folder.join(format!("{name}.lock")), flags, Mode::empty());
        let Ok(lock) = lock else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // What cannot be removed now is removed another time.
            let _ = remove(&entry.path());
        }
    }
}

fn remove(directory: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// True if files can be given any owner: as root in a user namespace with all users.
fn keeps_owners() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    all && rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_images_of_killed_runs_are_swept_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.join("usr")).unwrap();
            path
        };
        let (left, used, whole) = (make("a-1.partial"), make("b-1.partial"), make("c-1"));
        let locks = ["a-1.lock", "b-1.lock"].map(|name| fs::File::create(folder.path().join(name)).unwrap());
        rustix::fs::flock(&locks[1], FlockOperation::NonBlockingLockExclusive).unwrap();
        sweep(folder.path());
        assert!(!left.exists() && used.join("usr").exists() && whole.join("usr").exists());
    }
}
