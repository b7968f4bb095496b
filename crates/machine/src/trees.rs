//! Operations on several native files at once.

use crate::{HostFiles, NativeFile};
use belljar_linux_abi::{Errno, c};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;

/// Copies up to `size` bytes from the start of one file to the start of another.
pub fn copy_bytes(
    files: &mut dyn HostFiles,
    from: NativeFile,
    to: NativeFile,
    size: u64,
) -> Result<(), Errno> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK))];
    let mut at = 0;
    while at < size {
        let part = buffer.len().min((size - at) as usize);
        let read = files.read_at(from, at, &mut buffer[..part])?;
        if read == 0 {
            break;
        }
        files.write_at(to, at, &buffer[..read])?;
        at += read as u64;
    }
    Ok(())
}

/// Removes a native directory with all in it; what cannot be removed stays.
pub fn remove_tree(files: &mut dyn HostFiles, directory: &Path) {
    for entry in files.read_dir(directory).unwrap_or_default() {
        let path = directory.join(OsStr::from_bytes(&entry.name));
        match entry.kind == c::S_IFDIR {
            true => remove_tree(files, &path),
            false => drop(files.remove_file(&path)),
        }
    }
    let _ = files.remove_dir(directory);
}

/// Removes all that a native directory contains, except for some of the directories in it, by their paths, with all in them.
pub fn remove_others(files: &mut dyn HostFiles, directory: &Path, kept: &[PathBuf]) {
    for entry in files.read_dir(directory).unwrap_or_default() {
        let path = directory.join(OsStr::from_bytes(&entry.name));
        let is_directory = entry.kind == c::S_IFDIR;
        if is_directory && kept.contains(&path) {
            continue;
        }
        match (is_directory, kept.iter().any(|kept| kept.starts_with(&path))) {
            (true, true) => remove_others(files, &path, kept),
            (true, false) => remove_tree(files, &path),
            (false, _) => drop(files.remove_file(&path)),
        }
    }
}
