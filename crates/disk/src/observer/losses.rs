//! Record of what crashes took away.

use super::crash::{Difference, Tree};
use crate::InodeId;
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, OpenHow};
use serde_json::{Value, json};
use std::path::Path;

/// File name of the record in the host's folder.
const NAME: &str = "crashes.jsonl";

/// Loss of a crash at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Name that does not exist any more, with the size of its file in bytes.
    Name(String, u64),
    /// Name that refers to its former file again, with the size of the lost file in bytes.
    Replacement(String, u64),
    /// Removed name that exists again.
    Removal(String),
    /// The file has other content.
    Data { path: String, bytes: u64, before: u64, after: u64 },
}

/// Losses by path.
pub(super) fn between(
    before: &Tree,
    after: &Tree,
    differences: &Map<InodeId, Difference>,
    is_directory: &dyn Fn(&InodeId) -> bool,
    size: &dyn Fn(InodeId) -> u64,
) -> Vec<Loss> {
    let mut losses = Vec::new();
    for (path, inode) in &before.paths {
        match after.paths.get(path) {
            None => losses.push(Loss::Name(guest_path(path), size(*inode))),
            Some(other) if other != inode => losses.push(Loss::Replacement(guest_path(path), size(*inode))),
            Some(_) => {}
        }
    }
    for (path, inode) in &after.paths {
        if !before.paths.contains_key(path) {
            losses.push(Loss::Removal(guest_path(path)));
        }
        let difference =
            differences.get(inode).filter(|difference| difference.bytes > 0 && !is_directory(inode));
        if let Some(Difference { before, after, bytes }) = difference {
            let (path, bytes) = (guest_path(path), *bytes);
            losses.push(Loss::Data { path, bytes, before: *before, after: *after });
        }
    }
    losses
}

/// Path as programs see it: relative to their first working directory, or absolute.
pub(super) fn guest_path(path: &Path) -> String {
    let absolute = path.strip_prefix(super::LAYER).map(|inside| Path::new("/").join(inside));
    absolute.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

/// Writes the record, a line for each crash; none without crashes.
pub(super) fn write(
    files: &mut dyn HostFiles,
    folder: &Path,
    crashes: &[(SimTime, Vec<Loss>)],
) -> Result<(), Errno> {
    if crashes.is_empty() {
        return Ok(());
    }
    let text: String = crashes.iter().map(|(at, losses)| line(*at, losses) + "\n").collect();
    let how = OpenHow { write: true, create: Some(0o644), truncate: true, exclusive: false };
    let file = files.open(&folder.join(NAME), how)?;
    let written = files.write_at(file, 0, text.as_bytes());
    files.close(file);
    written
}

fn line(at: SimTime, losses: &[Loss]) -> String {
    let lost: Vec<Value> = losses
        .iter()
        .map(|loss| match loss {
            Loss::Name(path, bytes) => json!({"file": path, "lost": "name", "bytes": bytes}),
            Loss::Replacement(path, bytes) => json!({"file": path, "lost": "replacement", "bytes": bytes}),
            Loss::Removal(path) => json!({"file": path, "lost": "removal"}),
            Loss::Data { path, bytes, before, after } => {
                json!({"file": path, "lost": "data", "bytes": bytes, "size": before, "size_after": after})
            }
        })
        .collect();
    json!({"time": at.as_secs_f64(), "lost": lost}).to_string()
}
