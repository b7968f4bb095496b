//! The host's sidecar `files.mtree` after a crash: lines of files that are still there, and of those that came back.

use super::crash::Tree;
use crate::InodeId;
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, OpenHow};
use belljar_objects::mtree::{escaped, parsed};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// File name of the sidecar in the host's folder.
const NAME: &str = "files.mtree";

/// Rewrites the sidecar, which describes the files before the crash, for those after it.
pub(super) fn restore(
    files: &mut dyn HostFiles,
    folder: &Path,
    before: &Tree,
    after: &Tree,
    is_directory: &dyn Fn(&InodeId) -> bool,
    realtime_ns: i64,
) -> Result<(), Errno> {
    let how = OpenHow { write: true, create: Some(0o644), ..OpenHow::default() };
    let file = files.open(&folder.join(NAME), how)?;
    let size = files.stat_file(file)?.size;
    let mut bytes = vec![0; size as usize];
    let read = files.read_at(file, 0, &mut bytes);
    let text = rewritten(&String::from_utf8_lossy(&bytes), before, after, is_directory, realtime_ns);
    let written =
        read.and_then(|_| files.set_len(file, 0)).and_then(|()| files.write_at(file, 0, text.as_bytes()));
    files.close(file);
    written
}

fn rewritten(
    text: &str,
    before: &Tree,
    after: &Tree,
    is_directory: &dyn Fn(&InodeId) -> bool,
    realtime_ns: i64,
) -> String {
    let mut out = String::from("#mtree\n");
    // Keywords of each file, for other names of it.
    let mut described: Map<InodeId, &str> = Map::new();
    let mut kept: Map<PathBuf, ()> = Map::new();
    for line in text.lines() {
        let Some((parts, words)) = parsed(line) else { continue };
        let path: PathBuf = parts.iter().map(|part| OsStr::from_bytes(part)).collect();
        let is_whiteout = words.get("device") == Some(&"linux,0,0") && !words.contains_key("mode");
        let (old, new) = (before.paths.get(&path), after.paths.get(&path));
        if let (Some(inode), Some((_, rest))) = (old, line.trim().split_once(' ')) {
            described.insert(*inode, rest);
        }
        if old == new && !(is_whiteout && new.is_some()) {
            out.push_str(line.trim());
            out.push('\n');
            kept.insert(path, ());
        }
    }
    for (path, inode) in &after.paths {
        if kept.contains_key(path) || before.paths.get(path) == Some(inode) {
            continue;
        }
        let parts: Vec<String> = path.iter().map(|part| escaped(part.as_bytes())).collect();
        let (sec, nsec) = (realtime_ns.div_euclid(1_000_000_000), realtime_ns.rem_euclid(1_000_000_000));
        let plain = match is_directory(inode) {
            true => format!("type=dir mode=0755 uid=0 gid=0 time={sec}.{nsec:09}"),
            false => format!("type=file mode=0644 uid=0 gid=0 time={sec}.{nsec:09}"),
        };
        let words = described.get(inode).map_or(plain, |known| known.to_string());
        out.push_str(&format!("./{} {words}\n", parts.join("/")));
    }
    out
}
