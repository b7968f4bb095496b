//! Files and folders of the machine in the file system of a host: binds of Containerlab, volumes and folders
//! of Kathara.

use super::draft::At;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Folders that are empty in each host at its start.
const EMPTY: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// A file or folder that appears in a host's file system.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub(super) at: At,
    /// The file or folder; `None` for an empty folder.
    pub(super) source: Option<PathBuf>,
    pub(super) target: String,
    pub(super) kind: MountKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountKind {
    ReadWrite,
    ReadOnly,
    /// The content of a folder is copied into the target.
    Copy,
}

impl Mount {
    /// The directory that the host must share with the machine to see the source.
    pub(super) fn shared(&self) -> Option<String> {
        let source = self.source.as_deref().filter(|source| is_hidden(source))?;
        let directory = if source.is_dir() { source } else { source.parent()? };
        Some(directory.display().to_string())
    }

    /// Note on what is written to the target, if that differs from the imported lab.
    pub(super) fn note(&self) -> Option<String> {
        let target = &self.target;
        self.source.as_ref().filter(|_| self.kind == MountKind::ReadWrite)?;
        Some(match self.shared() {
            Some(shared) => format!("what hosts write to '{target}' goes to {shared} of this machine"),
            None => format!("what a host writes to '{target}' stays in its folder of the results"),
        })
    }

    /// Shell commands that make the source appear.
    pub(super) fn commands(&self) -> String {
        let quoted = |text: &str| shell_words::quote(text).into_owned();
        let target = quoted(&self.target);
        let mut out = String::new();
        let Some(source) = &self.source else { return format!("mkdir -p {target}\n") };
        let from = quoted(&source.display().to_string());
        if self.kind == MountKind::Copy {
            return format!("cp -R {from}/. {target}\n");
        }
        // A file that is there already, at the same path, needs nothing.
        if source == Path::new(&self.target) && self.kind == MountKind::ReadWrite {
            return out;
        }
        let _ = match (source.is_dir(), Path::new(&self.target).parent()) {
            (true, _) => writeln!(out, "mkdir -p {target}"),
            (false, Some(folder)) => {
                let folder = quoted(&folder.display().to_string());
                writeln!(out, "mkdir -p {folder}\ntest -e {target} || touch {target}")
            }
            (false, None) => writeln!(out, "touch {target}"),
        };
        let read_only = if self.kind == MountKind::ReadOnly { " -o ro" } else { "" };
        let _ = writeln!(out, "mount --bind{read_only} {from} {target}");
        out
    }
}

/// True if hosts do not see the file where it is.
fn is_hidden(path: &Path) -> bool {
    EMPTY.iter().any(|folder| path.starts_with(folder))
}
