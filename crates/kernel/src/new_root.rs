//! Restart of a host with another root: its files are those of the new root, except for the folders that stay.

use crate::files::restore::put;
use crate::files::{Files, sidecar};
use crate::host::Host;
use crate::ids::InodeKey;
use crate::power::power_on;
use belljar_linux_abi::Errno;
use belljar_machine::{CrashFiles, DiskEvent, trees};
use belljar_objects::inode::{Directory, Meta, Node, ROOT};
use belljar_objects::mtree::escaped;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Another root of a host.
#[derive(Clone, Debug)]
pub struct NewRoot {
    /// Native directory of the root.
    pub directory: PathBuf,
    /// Initial working directory of processes; `None` for the host's folder in the results.
    pub working_directory: Option<PathBuf>,
    /// Folders that stay as they are, by absolute paths without links.
    pub keep: Vec<PathBuf>,
    /// Programs of the experiment's processes in the root, in their order.
    pub programs: Vec<RootProgram>,
}

/// Program of a process of the experiment.
#[derive(Clone, Debug)]
pub struct RootProgram {
    /// Absolute guest path.
    pub path: String,
    /// Arguments, `argv[0]` included.
    pub args: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// User; `None` for root.
    pub user: Option<String>,
}

/// Stops the host at once, unless it is down, and starts it with another root.
pub fn restart_with(host: &mut Host, new: NewRoot) {
    host.crash(CrashFiles::Kept);
    if let Err(errno) = replace(host, &new) {
        host.warn(format!("files that a restart with another root could not keep: {errno:?}"));
    }
    host.config.working_directory = new.working_directory.unwrap_or_else(|| host.config.directory.clone());
    for (process, program) in host.config.processes.iter_mut().zip(new.programs) {
        let RootProgram { path, args, environment, user } = program;
        (process.path, process.args) = (path, args);
        (process.environment, process.user) = (environment, user);
    }
    // What the root has in `/run` and `/tmp` is there, as at the first start.
    power_on(host, &[]);
}

/// Folder that stays.
struct Kept<'a> {
    path: &'a Path,
    inode: InodeKey,
    /// The folder itself, without what it contains.
    folder: (u64, Directory, Meta),
}

/// Replaces the root and all files but those of the folders that stay.
fn replace(host: &mut Host, new: &NewRoot) -> Result<(), Errno> {
    let mut kept = Vec::new();
    for path in &new.keep {
        match find(host, path)? {
            Some(found) => kept.push(found),
            None => host.warn(format!(
                "folders that a restart with another root was to keep and that are not there: {}",
                path.display()
            )),
        }
    }
    let described: Vec<(InodeKey, String)> =
        kept.iter().map(|kept| (kept.inode, format!("./fs{}", escaped_path(kept.path)))).collect();
    let sidecar_path = host.config.directory.join(sidecar::NAME);
    // That of an earlier run, if the host has started with its files.
    let _ = host.machine.remove_file(&sidecar_path);
    let written = sidecar::write_of(host, &described);
    let layer = host.config.directory.join("fs");
    let stays: Vec<PathBuf> = kept.iter().map(|kept| below(&layer, kept.path)).collect();
    trees::remove_others(&mut *host.machine, &layer, &stays);
    host.config.root.clone_from(&new.directory);
    host.files = Files::new(&host.config, &host.net.config, &mut *host.machine);
    for folder in kept {
        place(host, folder)?;
    }
    host.restore_files()?;
    let _ = host.machine.remove_file(&sidecar_path);
    // The files of a root are on the disk from the start.
    host.machine.disk_event(DiskEvent::SyncedAll)?;
    written
}

/// Folder at a path without links.
fn find<'a>(host: &mut Host, path: &'a Path) -> Result<Option<Kept<'a>>, Errno> {
    let mut at = ROOT;
    for part in path.components().skip(1) {
        match host.lookup(at, part.as_os_str().as_bytes())? {
            Some(next) if host.files.inode(next).node.is_directory() => at = next,
            _ => return Ok(None),
        }
    }
    let inode = host.files.inode(at);
    let Node::Directory(directory) = &inode.node else { return Ok(None) };
    let empty = Directory { source: directory.source.clone(), own: directory.own, ..Directory::default() };
    Ok(Some(Kept { path, inode: at, folder: (inode.device, empty, inode.meta) }))
}

/// Puts a folder that stays into the tree of the new root; it hides what that root has there.
fn place(host: &mut Host, kept: Kept<'_>) -> Result<(), Errno> {
    let mut at = ROOT;
    let parts: Vec<&[u8]> = kept.path.components().skip(1).map(|part| part.as_os_str().as_bytes()).collect();
    let (device, mut folder, meta) = kept.folder;
    let (name, parents) = parts.split_last().expect("a folder below the root");
    for part in parents {
        at = match host.lookup(at, part)?.filter(|inode| host.files.inode(*inode).node.is_directory()) {
            Some(inode) => inode,
            None => {
                let node = Node::Directory(Directory { parent: at, ..Directory::default() });
                let inode = host.files.add_inode(device, node, Meta { mode: 0o755, ..meta });
                host.take_place(at, part);
                put(host, at, part, inode);
                inode
            }
        };
    }
    folder.parent = at;
    let inode = host.files.add_inode(device, Node::Directory(folder), meta);
    host.take_place(at, name);
    put(host, at, name, inode);
    Ok(())
}

/// Guest path below a native directory.
fn below(directory: &Path, path: &Path) -> PathBuf {
    directory.join(path.strip_prefix("/").unwrap_or(path))
}

/// Path as in the sidecar.
fn escaped_path(path: &Path) -> String {
    let parts = path.components().skip(1).map(|part| format!("/{}", escaped(part.as_os_str().as_bytes())));
    parts.collect()
}
