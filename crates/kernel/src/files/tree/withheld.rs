//! Files that the user who runs the simulator may not read, and their stand-ins for guests. A guest may be root of its
//! host, who can read everything on Linux, but it reads only files that the simulator can read.
//!
//! A directory that cannot be looked into is empty of the machine's files. A file that cannot be opened is
//! `EACCES`, unless none of its bytes are asked for. The lists of passwords, which every login needs, are
//! made up. The run's warnings name the first of these directories and files.

use super::lookup::ROOT;
use crate::files::Files;
use crate::files::tree::Node;
use crate::files::virtual_files::VirtualFile;
use crate::host::Host;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{NativeStat, OpenHow};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// So many are named; a guest may well walk over the whole machine.
const NAMED: usize = 3;

impl Files {
    /// The path that guests know a lower file by.
    fn guest_path<'a>(&self, path: &'a Path) -> &'a [u8] {
        match &*self.root {
            root if root == Path::new("/") => path.as_os_str().as_bytes(),
            root => path.as_os_str().as_bytes().strip_prefix(root.as_os_str().as_bytes()).unwrap_or_default(),
        }
    }
}

impl Host {
    /// A lookup of `path` says that its directory is kept from the simulator: it is empty. What programs
    /// look for in a home without being told to is no reason to warn.
    pub(super) fn withheld_name(&mut self, path: &Path) {
        if self.files.guest_path(path).starts_with(b"/root/.") {
            return;
        }
        self.withheld_directory(path.parent().unwrap_or(path));
    }

    /// A directory of the machine that cannot be looked into.
    pub(super) fn withheld_directory(&mut self, path: &Path) {
        self.warn_of_withheld(path, "directory", "appears empty");
    }

    /// A file of the machine that cannot be opened.
    pub(crate) fn withheld_file(&mut self, path: &Path) {
        self.warn_of_withheld(path, "file", "cannot be read");
    }

    fn warn_of_withheld(&mut self, path: &Path, what: &str, how: &str) {
        let known = &mut self.files.withheld;
        if !known.contains(path) && known.len() == NAMED {
            self.warn("more files of the machine are kept from the user who runs belljar");
            return;
        }
        known.insert(path.to_owned());
        self.warn(format!(
            "the machine's {what} {} is kept from the user who runs belljar and {how}: run belljar as root, or let guests \
             bring what they need",
            path.display()
        ));
    }
}

impl Host {
    /// A stand-in for a file of the machine that cannot be read: the lists of passwords, `shadow(5)` and `gshadow(5)`,
    /// by which nobody can log in with one.
    pub(super) fn stand_in(&mut self, path: &Path, stat: &NativeStat) -> Option<Node> {
        let make = match self.files.guest_path(path) {
            b"/etc/shadow" => shadow,
            b"/etc/gshadow" => group_shadow,
            _ => return None,
        };
        if stat.mode & c::S_IFMT != c::S_IFREG {
            return None;
        }
        match self.open_native(path, OpenHow::default()) {
            Ok(file) => {
                self.machine.close(file);
                None
            }
            Err(_) => Some(Node::Virtual(VirtualFile::Host(make))),
        }
    }

    /// The first fields of the lines of a file of the host's `/etc`; none if it cannot be read.
    fn names_in(&mut self, file: &[u8]) -> Result<Vec<String>, Errno> {
        let Some(etc) = self.lookup(ROOT, b"etc")? else { return Ok(Vec::new()) };
        let Some(inode) = self.lookup(etc, file)? else { return Ok(Vec::new()) };
        let size = self.files.inode(inode).content().map_or(0, |content| content.size);
        let native = self.native_of(inode)?;
        let mut bytes = vec![0; size as usize];
        let read = self.machine.read_at(native, 0, &mut bytes)?;
        let text = String::from_utf8_lossy(&bytes[..read]);
        let names = text.lines().filter_map(|line| line.split_once(':').map(|(name, _)| name.to_owned()));
        Ok(names.collect())
    }
}

fn shadow(host: &mut Host) -> String {
    host.names_in(b"passwd").unwrap_or_default().iter().map(|name| format!("{name}:*:::::::\n")).collect()
}

fn group_shadow(host: &mut Host) -> String {
    host.names_in(b"group").unwrap_or_default().iter().map(|name| format!("{name}:*::\n")).collect()
}
