//! Files that users name.
//!
//! A user may name anything: opening a FIFO without a writer does not return, reading a device does not end, and some
//! regular files of `/proc` block. These functions accept regular files of a bounded size only and never block on
//! them. A shell's process substitution, a pipe that is open below `/dev/fd`, is accepted too.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Size limit of a file that is read into memory.
pub const LARGEST_FILE: u64 = 1 << 30;

const O_NONBLOCK: i32 = 0o4000;

/// Opens a regular file of any size for reading. Other kinds of files are refused at once.
pub fn open(path: &Path) -> io::Result<File> {
    // The kind is checked before the file is opened since opening some devices has effects, and after since another
    // file may have the name by then.
    let is_pipe = is_open(path) && std::fs::metadata(path)?.file_type().is_fifo();
    if is_pipe {
        return File::open(path);
    }
    check(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a file of at most [`LARGEST_FILE`] bytes.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, LARGEST_FILE)
}

/// Reads a file in UTF-8 of at most [`LARGEST_FILE`] bytes.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not text: byte {at} is not UTF-8"))
    })
}

/// Reads a file of at most `limit` bytes.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if file.metadata()?.len() > limit {
        return Err(too_large(limit));
    }
    read_stream(file, limit)
}

/// Reads a stream of at most `limit` bytes to its end.
pub fn read_stream(stream: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// True if a file was refused for its kind.
pub fn is_irregular(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<Irregular>())
}

/// True if the path names an open descriptor of this process.
fn is_open(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Directories pass: reading one fails with the system's message.
fn check(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let other = match () {
        () if kind.is_file() || kind.is_dir() => return Ok(()),
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::other(Irregular(other)))
}

/// Error of a file of another kind.
#[derive(Debug)]
struct Irregular(&'static str);

impl fmt::Display for Irregular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, not a regular file", self.0)
    }
}

impl std::error::Error for Irregular {}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {} MiB", limit >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_end_are_refused() {
        for path in ["/dev/zero", "/dev/null", "/dev/tty"] {
            let error = read(Path::new(path)).unwrap_err().to_string();
            assert_eq!(error, "it is a device, not a regular file", "{path}");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        assert!(read_at_most(Path::new("/proc/self/status"), 1 << 20).is_ok());
        let error = read_at_most(Path::new("/proc/self/status"), 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(read_stream(io::repeat(0), 1 << 20).is_err());
        assert_eq!(read_stream(&b"abc"[..], 3).unwrap(), b"abc");
    }

    #[test]
    fn directories_and_missing_files_keep_the_error_of_the_system() {
        assert_eq!(read(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(Path::new("/no/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
