//! Files that the user who runs the simulator may not read, and their replacements for guests. On Linux, root
//! of a host could read everything; a guest can read only files that the simulator can read.
//!
//! An inaccessible directory appears without the machine's files. Opening an inaccessible file fails with
//! `EACCES`, unless none of its bytes are needed. The shadow password files, which every login needs, are
//! generated. The run's warnings name the first of these directories and files.

use crate::host::Host;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{NativeStat, OpenHow};
use belljar_objects::inode::{Node, ROOT};
use belljar_objects::virtual_files::{Generated, VirtualFile};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum number of paths named in warnings, since a guest may traverse the whole machine.
const NAMED: usize = 3;

/// Path of a lower file as guests see it; `root` is the native root of the host.
fn guest_path<'a>(root: &Path, path: &'a Path) -> &'a [u8] {
    if root == Path::new("/") {
        return path.as_os_str().as_bytes();
    }
    path.as_os_str().as_bytes().strip_prefix(root.as_os_str().as_bytes()).unwrap_or_default()
}

impl Host {
    /// Handles `EACCES` for a lookup of `path`: its directory is inaccessible and appears empty. Dotfiles in
    /// `/root`, which programs look for unprompted, cause no warning.
    pub(super) fn withheld_name(&mut self, path: &Path) {
        if guest_path(&self.files.root, path).starts_with(b"/root/.") {
            return;
        }
        self.withheld_directory(path.parent().unwrap_or(path));
    }

    /// Warns of a directory of the machine that cannot be read.
    pub(super) fn withheld_directory(&mut self, path: &Path) {
        self.warn_of_withheld(path, "directory", "appears empty");
    }

    /// Warns of a file of the machine that cannot be opened.
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
    /// Replacement for an unreadable file of the machine: `shadow(5)` and `gshadow(5)`, without any valid
    /// password.
    pub(super) fn stand_in(&mut self, path: &Path, stat: &NativeStat) -> Option<Node> {
        let which = match guest_path(&self.files.root, path) {
            b"/etc/shadow" => Generated::Shadow,
            b"/etc/gshadow" => Generated::GroupShadow,
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
            Err(_) => Some(Node::Virtual(VirtualFile::Generated(which))),
        }
    }

    /// First fields of the lines of a file in the host's `/etc`; empty if the file does not exist.
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

    /// First fields of the lines of a file in the host's `/etc`, each as a line that ends with `rest`.
    pub(in crate::files) fn names_as(&mut self, file: &[u8], rest: &str) -> String {
        self.names_in(file).unwrap_or_default().iter().map(|name| format!("{name}{rest}")).collect()
    }
}
