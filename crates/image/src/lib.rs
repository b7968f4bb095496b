//! Root file systems for hosts: an existing directory, or a container image, which is unpacked into a cache
//! first.
//!
//! * `source`: parts of an image by name, in an archive of `docker save` or an OCI layout (a directory or an
//!   archive).
//! * `manifest`: the documents of an image, and its configuration ([`Settings`]).
//! * `layer`: unpacking of a layer into a tree. Paths are resolved within the tree by the kernel.
//! * `cache`: unpacked images, by the digest of their configuration, which contains the digests of all
//!   layers.
//!
//! [`Root::open`] is the entry point. Images are untrusted data: a layer whose content does not match its
//! digest, or a path that leads out of the image, is an error.
#![forbid(unsafe_code)]

mod cache;
mod layer;
mod manifest;
mod source;
#[cfg(test)]
mod tests;

pub use cache::default_cache;
pub use manifest::Settings;

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Error of opening a root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Description of the problem.
    pub message: String,
    /// Suggested remedy, if any.
    pub help: Option<String>,
}

impl Error {
    fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), help: None }
    }
    fn help(self, help: impl Into<String>) -> Error {
        Error { help: Some(help.into()), ..self }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(f, ": {help}"))
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Adds the failed operation to a system error.
trait Doing<T> {
    /// Formats the error as `operation: error`.
    fn doing(self, operation: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, operation: impl fmt::Display) -> Result<T> {
        self.map_err(|error| {
            let text = error.into().to_string();
            Error::new(format!("{operation}: {}", text.split(" (os error").next().unwrap_or_default()))
        })
    }
}

/// Root file system in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Path of the directory.
    pub directory: PathBuf,
    /// Settings of the image; empty for a plain directory.
    pub settings: Settings,
}

impl Root {
    /// Opens the root at `path`: a directory, an OCI layout, or an archive of `docker save`. Images are
    /// unpacked below `cache`.
    pub fn open(path: &Path, cache: Option<&Path>) -> Result<Root> {
        let found = std::fs::metadata(path).doing("it cannot be looked at")?;
        if found.is_dir() && !path.join("oci-layout").is_file() {
            let directory = path.canonicalize().doing("it cannot be looked at")?;
            if directory == Path::new("/") {
                return Err(
                    Error::new("this machine's root is what hosts have anyway").help("leave 'root' out")
                );
            }
            return Ok(Root { directory, settings: Settings::default() });
        }
        if !found.is_dir() && !found.is_file() {
            return Err(Error::new("it is neither a directory nor a file"));
        }
        let mut source = source::Source::open(path)?;
        let image = manifest::read(&mut source)?;
        let Some(cache) = cache else {
            return Err(Error::new(
                "there is no place for the unpacked image: neither HOME nor XDG_CACHE_HOME is set",
            )
            .help("set BELLJAR_CACHE to a directory"));
        };
        let directory = cache::unpacked(&mut source, &image, cache)?;
        Ok(Root { directory, settings: image.settings })
    }

    /// File at a path of the root, with links resolved inside the root; `None` if it does not exist.
    pub fn find(&self, path: &Path) -> Option<Stat> {
        let top = open_directory(&self.directory).ok()?;
        let file = open_within(&top, path, OFlags::PATH).ok()?;
        rustix::fs::fstat(file).ok()
    }
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a path with `top` as its root: neither `..` nor a link leads out of it.
fn open_within(top: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(top, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}
