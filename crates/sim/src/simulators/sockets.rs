//! Folder of the sockets of simulators, and paths that fit into the address of a socket.
//!
//! The folder is in the results: a run that is killed leaves nothing elsewhere. Only on file systems without
//! sockets it is a temporary one, which a later run removes. A path that is longer than an address leads
//! through a descriptor of this process (proc(5), `/proc/PID/fd`), and is void after its end.

use belljar_channel::{SOCKET_PATH_MAX, with_socket_path};
use belljar_results::{ResultsFolder, Scratch};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Name of the folder in the results. Each cell has a folder in it.
const NAME: &str = ".sockets";

/// Folder of the sockets of a cell's simulators, removed when dropped.
#[derive(Debug)]
pub struct Sockets {
    folder: PathBuf,
    /// The folder, if the results cannot have it.
    scratch: Option<Scratch>,
    /// Open folders of sockets with long paths.
    long: Vec<(PathBuf, File)>,
}

impl Sockets {
    /// Creates the folder. `name` is unique among the cells of the run.
    ///
    /// # Errors
    /// If neither the results nor the folder for temporary files can have it.
    pub fn create(results: &ResultsFolder, name: &str) -> io::Result<Sockets> {
        let folder = std::path::absolute(results.path())?.join(NAME).join(name);
        let probe = folder.join("probe");
        let tried = fs::create_dir_all(&folder)
            .and_then(|()| with_socket_path(&probe, |path| UnixListener::bind(path)))
            .and_then(|_| fs::remove_file(&probe));
        let own = Sockets { folder, scratch: None, long: Vec::new() };
        if tried.is_ok() {
            return Ok(own);
        }
        let scratch = Scratch::create(&std::env::temp_dir())?;
        Ok(Sockets { folder: scratch.path().to_owned(), scratch: Some(scratch), long: Vec::new() })
    }

    /// Path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a socket that fits into an address: the same one, or through a descriptor.
    ///
    /// # Errors
    /// If the folder of a long path cannot be opened.
    pub fn short(&mut self, socket: &Path) -> io::Result<PathBuf> {
        if socket.as_os_str().len() <= SOCKET_PATH_MAX {
            return Ok(socket.to_owned());
        }
        let (folder, name) = (socket.parent().unwrap_or(Path::new("/")), socket.file_name());
        if !self.long.iter().any(|(path, _)| path == folder) {
            let flags = (rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY).bits().cast_signed();
            let open = File::options().read(true).custom_flags(flags).open(folder)?;
            self.long.push((folder.to_owned(), open));
        }
        let (_, open) = self.long.iter().find(|(path, _)| path == folder).expect("opened above");
        let through = format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd());
        Ok(Path::new(&through).join(name.unwrap_or_default()))
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        if self.scratch.is_none() {
            // Files that simulators have left are removed too, and the last cell removes the folder of all.
            let _ = fs::remove_dir_all(&self.folder);
            let _ = self.folder.parent().map(fs::remove_dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn long_paths_lead_through_a_descriptor() {
        let parent = std::env::temp_dir().join(format!("sockets-{}", std::process::id()));
        let results = ResultsFolder::create(&parent.join("x".repeat(120)), [].into_iter()).unwrap();
        let mut sockets = Sockets::create(&results, "3").unwrap();
        assert_eq!(sockets.folder(), results.path().join(".sockets/3"));
        let long = sockets.folder().join("3.0");
        let short = sockets.short(&long).unwrap();
        assert!(short.as_os_str().len() < 40 && sockets.short(Path::new("/a")).unwrap() == Path::new("/a"));
        let _listener = UnixListener::bind(&short).unwrap();
        assert!(UnixStream::connect(sockets.short(&long).unwrap()).is_ok());
        assert_eq!(sockets.long.len(), 1);
        drop(sockets);
        assert!(results.path().exists() && !results.path().join(".sockets").exists());
        fs::remove_dir_all(&parent).unwrap();
    }
}
