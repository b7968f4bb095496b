//! UNIX socket paths that exceed the length of a socket address.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum length in bytes of a path in a socket address.
pub const SOCKET_PATH_MAX: usize = 107;
/// Maximum length in bytes of the last component of any path: the rest of the address names the directory by
/// its descriptor.
pub const SOCKET_NAME_MAX: usize = 64;

/// True if the path, which may exceed an address, can be used for a socket.
pub fn is_socket_path(path: &Path) -> bool {
    fits(path) || path.file_name().is_some_and(|name| name.len() <= SOCKET_NAME_MAX)
}

/// Calls `call` with a path of the same socket that fits into an address: a long path is replaced by one
/// through its directory's descriptor.
///
/// # Errors
/// Errors of the call and of opening the directory, and `InvalidInput` for a path that [`is_socket_path`]
/// rejects.
pub fn with_socket_path<T>(path: &Path, call: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    if fits(path) {
        return call(path);
    }
    let (Some(folder), Some(name), true) = (path.parent(), path.file_name(), is_socket_path(path)) else {
        let reason = format!(
            "the path of a socket with more than {SOCKET_PATH_MAX} bytes ends in at most {SOCKET_NAME_MAX}"
        );
        return Err(Error::new(ErrorKind::InvalidInput, reason));
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder)?;
    call(&PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= SOCKET_PATH_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_long_path_is_reached_both_ways() {
        let folder =
            std::env::temp_dir().join(format!("socket-path-{}-{}", std::process::id(), "x".repeat(150)));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("y".repeat(SOCKET_NAME_MAX));
        let listener = with_socket_path(&path, |path| UnixListener::bind(path)).unwrap();
        assert!(path.exists());
        with_socket_path(&path, |path| UnixStream::connect(path)).unwrap();
        listener.accept().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let gone = with_socket_path(&path, |path| UnixStream::connect(path)).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        let name = folder.join("z".repeat(SOCKET_NAME_MAX + 1));
        assert_eq!(with_socket_path(&name, |_| Ok(())).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(!is_socket_path(&name) && is_socket_path(&path));
    }

    #[test]
    fn a_short_path_is_used_as_it_is() {
        let path = Path::new("/tmp/a");
        let used = with_socket_path(path, |used| Ok(used.to_path_buf())).unwrap();
        assert_eq!(used, path);
    }
}
