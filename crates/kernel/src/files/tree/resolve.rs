//! Path resolution, component by component, `path_resolution(7)`.

use crate::files::Files;
use crate::files::permission::EXEC;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey, ProcessKey};
use crate::process::Processes;
use belljar_linux_abi::{Errno, c};
use belljar_objects::inode::{Directory, Node, ROOT};
use belljar_objects::mounts::{MountFlags, Place};
use bitflags::bitflags;

/// Maximum number of symbolic links followed on one path before `ELOOP`.
const MAX_LINKS: u32 = 40;
/// `NAME_MAX`.
const NAME_MAX: usize = 255;

bitflags! {
    /// Flags of a path resolution.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Walk: u32 {
        /// Follow a symbolic link in the last component too.
        const FOLLOW = 1;
        /// An empty path refers to the file of the directory descriptor (`AT_EMPTY_PATH`).
        const EMPTY = 2;
        /// `RESOLVE_NO_SYMLINKS`: fail at any symbolic link.
        const NO_SYMLINKS = 4;
        /// `RESOLVE_NO_MAGICLINKS`: fail at magic links of procfs.
        const NO_MAGICLINKS = 8;
        /// `RESOLVE_BENEATH`: never leave the starting directory.
        const BENEATH = 16;
        /// `RESOLVE_IN_ROOT`: treat the starting directory as the root.
        const IN_ROOT = 32;
        /// `RESOLVE_NO_XDEV`: never cross to another mount or file system.
        const NO_XDEV = 128;
        /// The last component is an entry to be created or removed: neither a symbolic link nor a mount there
        /// is followed, not even before a trailing slash.
        const NAME = 64;
        /// The path is that of a directory that a process holds, as its working or root directory: search
        /// permission is not checked.
        const HELD = 256;
    }
}

/// Target of a resolved path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Inode of the tree.
    Inode(InodeKey),
    /// Open file without an inode, reached by a magic link of procfs or an empty path.
    File(FileKey),
}

/// A resolved path.
#[derive(Clone, Debug)]
pub struct Found {
    /// Directory of the last component.
    pub parent: InodeKey,
    /// Mount of that directory.
    pub mount: MountKey,
    /// Mount of the target, which differs if the target is the root of a mount.
    pub target_mount: MountKey,
    /// Last component; empty for the root, `.` and `..`, which cannot be created or removed.
    pub name: Vec<u8>,
    /// Target, if it exists.
    pub target: Option<Target>,
    /// True if the path ended with a slash, which requires a directory.
    pub slash: bool,
    /// True if the last component was `.`, which `rmdir(2)` and `rename(2)` reject.
    pub dot: bool,
    /// User and group of the calling process, which own files created here.
    pub owner: (u32, u32),
    /// Calling process.
    pub process: ProcessKey,
}

impl Found {
    /// Target; `ENOENT` if it does not exist.
    pub fn target(&self) -> Result<Target, Errno> {
        self.target.ok_or(Errno::ENOENT)
    }
    /// Inode of the target; `ENOENT` if it does not exist, `EINVAL` if it has none.
    pub fn inode(&self) -> Result<InodeKey, Errno> {
        match self.target()? {
            Target::Inode(inode) => Ok(inode),
            Target::File(_) => Err(Errno::EINVAL),
        }
    }
    /// Location of the target; errors as for [`inode`](Self::inode).
    pub fn place(&self) -> Result<Place, Errno> {
        Ok((self.target_mount, self.inode()?))
    }
}

/// State of a path resolution.
struct Walker {
    root: Place,
    at: Place,
    rest: Vec<u8>,
    links: u32,
    how: Walk,
}

impl Files {
    /// Directory above a location, across mount points. The root of the namespace, like that of a detached
    /// mount, is returned unchanged.
    pub(in crate::files) fn place_above(&mut self, place: Place) -> Place {
        let (mount, inode) = self.mounts.under(place.0, place.1);
        if self.mounts.get(mount).root == inode {
            return place;
        }
        let parent = self.directory(inode).parent;
        self.mounts.top(mount, parent)
    }
    pub(in crate::files) fn parent_of(&mut self, inode: InodeKey) -> InodeKey {
        match &self.inode(inode).node {
            Node::Directory(Directory { parent, .. }) => *parent,
            _ => self.inode(inode).links.first().map_or(ROOT, |(parent, _)| *parent),
        }
    }

    /// `EXDEV` if a step crosses to another mount or file system and `NO_XDEV` is set.
    fn check_step(&mut self, how: Walk, from: Place, to: Place) -> Result<(), Errno> {
        let crosses = how.contains(Walk::NO_XDEV)
            && (from.0 != to.0 || self.inode(from.1).device != self.inode(to.1).device);
        if crosses { Err(Errno::EXDEV) } else { Ok(()) }
    }

    /// Root of a process's mount namespace.
    fn top_of(&self, processes: &Processes, process: ProcessKey) -> Place {
        let mount = self.mounts.root_of(processes[process.0].mount_namespace);
        (mount, self.mounts.get(mount).root)
    }

    /// `EACCES` unless the current directory of the resolution can be searched.
    fn check_may_search(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
        walker: &Walker,
    ) -> Result<(), Errno> {
        if walker.how.contains(Walk::HELD) {
            return Ok(());
        }
        self.check_permission(processes, process, walker.at.1, EXEC)
    }
}

impl Host {
    /// Resolves `path` relative to the directory descriptor `dirfd`, or to the working directory for
    /// `AT_FDCWD`.
    pub(crate) fn resolve(
        &mut self,
        process: ProcessKey,
        dirfd: i32,
        path: &[u8],
        how: Walk,
    ) -> Result<Found, Errno> {
        if path.is_empty() {
            return if how.contains(Walk::EMPTY) {
                self.resolve_descriptor(process, dirfd)
            } else {
                Err(Errno::ENOENT)
            };
        }
        let confined = how.intersects(Walk::BENEATH | Walk::IN_ROOT);
        if path[0] == b'/' && how.contains(Walk::BENEATH) {
            return Err(Errno::EXDEV);
        }
        let mut root = self.root_of(process)?;
        let at = if path[0] == b'/' && !confined { root } else { self.start_of(process, dirfd)? };
        if confined {
            root = at;
        }
        self.walk(process, Walker { root, at, rest: path.to_vec(), links: 0, how })
    }
    /// Resolves `path` relative to the working directory.
    pub(crate) fn resolve_here(
        &mut self,
        process: ProcessKey,
        path: &[u8],
        how: Walk,
    ) -> Result<Found, Errno> {
        self.resolve(process, c::AT_FDCWD, path, how)
    }
    /// Location of a directory or file that a process holds, by its absolute path from the root of the mount
    /// namespace, whatever the process's root. Search permission was checked when it was first reached.
    pub(crate) fn resolve_absolute(&mut self, process: ProcessKey, path: &[u8]) -> Result<Place, Errno> {
        let top = self.files.top_of(&self.processes, process);
        let how = Walk::FOLLOW | Walk::HELD;
        let walker = Walker { root: top, at: top, rest: path.to_vec(), links: 0, how };
        self.walk(process, walker)?.place()
    }
    /// Root directory of a process.
    pub(crate) fn root_of(&mut self, process: ProcessKey) -> Result<Place, Errno> {
        if self.processes[process.0].root == b"/" || self.processes[process.0].root.is_empty() {
            return Ok(self.files.top_of(&self.processes, process));
        }
        let root = self.processes[process.0].root.clone();
        self.resolve_absolute(process, &root)
    }
    fn start_of(&mut self, process: ProcessKey, dirfd: i32) -> Result<Place, Errno> {
        if dirfd == c::AT_FDCWD {
            let cwd = self.processes[process.0].cwd.clone();
            return self.resolve_absolute(process, &cwd);
        }
        let file = self.file_of(process, dirfd)?;
        match self.files.open(file).kind.inode() {
            Some(inode) if self.files.inode(inode).node.is_directory() => {
                Ok((self.files.open(file).mount_key(), inode))
            }
            _ => Err(Errno::ENOTDIR),
        }
    }
    fn resolve_descriptor(&mut self, process: ProcessKey, dirfd: i32) -> Result<Found, Errno> {
        let (mount, target) = if dirfd == c::AT_FDCWD {
            let (mount, inode) = self.start_of(process, dirfd)?;
            (mount, Target::Inode(inode))
        } else {
            let file = self.file_of(process, dirfd)?;
            let target = self.files.open(file).kind.inode().map_or(Target::File(file), Target::Inode);
            (self.files.open(file).mount_key(), target)
        };
        let parent = match target {
            Target::Inode(inode) => self.files.parent_of(inode),
            Target::File(_) => ROOT,
        };
        let owner = self.processes.maker_of(process);
        Ok(Found {
            parent,
            mount,
            target_mount: mount,
            name: Vec::new(),
            target: Some(target),
            slash: false,
            dot: false,
            owner,
            process,
        })
    }
    fn walk(&mut self, process: ProcessKey, mut walker: Walker) -> Result<Found, Errno> {
        let owner = self.processes.maker_of(process);
        let mut position = 0;
        loop {
            while walker.rest.get(position) == Some(&b'/') {
                position += 1;
            }
            let end = walker.rest[position..].iter().position(|b| *b == b'/');
            let end = end.map_or(walker.rest.len(), |n| position + n);
            let name = walker.rest[position..end].to_vec();
            let slash = end < walker.rest.len();
            let last = walker.rest[end..].iter().all(|b| *b == b'/');
            position = end;
            if !self.files.inode(walker.at.1).node.is_directory() {
                return Err(Errno::ENOTDIR);
            }
            if matches!(&name[..], b"" | b"." | b"..") {
                if !name.is_empty() {
                    self.files.check_may_search(&self.processes, process, &walker)?;
                }
                if name == b".." {
                    if walker.at != walker.root {
                        let parent = self.files.place_above(walker.at);
                        self.files.check_step(walker.how, walker.at, parent)?;
                        walker.at = parent;
                    } else if walker.how.contains(Walk::BENEATH) {
                        return Err(Errno::EXDEV);
                    }
                }
                if last {
                    let (mount, inode) = walker.at;
                    let (target, parent) = (Some(Target::Inode(inode)), self.files.directory(inode).parent);
                    return Ok(Found {
                        parent,
                        mount,
                        target_mount: mount,
                        name: Vec::new(),
                        target,
                        slash: true,
                        dot: name == b".",
                        owner,
                        process,
                    });
                }
                continue;
            }
            if name.len() > NAME_MAX {
                return Err(Errno::ENAMETOOLONG);
            }
            let (mount, parent) = walker.at;
            self.files.check_may_search(&self.processes, process, &walker)?;
            let found = self.lookup(parent, &name)?;
            let Some(inode) = found else {
                if !last {
                    return Err(Errno::ENOENT);
                }
                return Ok(Found {
                    parent,
                    mount,
                    target_mount: mount,
                    name,
                    target: None,
                    slash,
                    dot: false,
                    owner,
                    process,
                });
            };
            let is_name = last && walker.how.contains(Walk::NAME);
            // An entry to be removed is the one below a mount.
            let place = if is_name { (mount, inode) } else { self.files.mounts.top(mount, inode) };
            let (target_mount, inode) = place;
            self.files.check_step(walker.how, walker.at, place)?;
            let follow = !is_name && (!last || slash || walker.how.contains(Walk::FOLLOW));
            if follow && self.files.inode(inode).node.is_symlink() {
                if last {
                    self.files.check_may_follow_last(&self.processes, process, parent, inode)?;
                }
                match self.follow(process, &mut walker, inode)? {
                    Step::Text(text) => {
                        let mut rest = text;
                        if !last || slash {
                            rest.extend_from_slice(&walker.rest[position..]);
                        }
                        (walker.rest, position) = (rest, 0);
                        if walker.rest.first() == Some(&b'/') {
                            self.files.check_step(walker.how, walker.at, walker.root)?;
                            walker.at = walker.root;
                        }
                    }
                    Step::Target(Target::Inode(inode), mount) if !last || slash => walker.at = (mount, inode),
                    Step::Target(..) if !last => return Err(Errno::ENOTDIR),
                    Step::Target(target, target_mount) => {
                        let target = Some(target);
                        let (dot, slash) = (false, slash);
                        return Ok(Found {
                            parent,
                            mount,
                            target_mount,
                            name,
                            target,
                            slash,
                            dot,
                            owner,
                            process,
                        });
                    }
                }
                continue;
            }
            if last {
                if slash && !is_name && !self.files.inode(inode).node.is_directory() {
                    return Err(Errno::ENOTDIR);
                }
                let (target, dot) = (Some(Target::Inode(inode)), false);
                return Ok(Found { parent, mount, target_mount, name, target, slash, dot, owner, process });
            }
            walker.at = place;
        }
    }

    /// Follows a symbolic link. `ELOOP` if links are not allowed or there were too many.
    fn follow(&mut self, process: ProcessKey, walker: &mut Walker, link: InodeKey) -> Result<Step, Errno> {
        walker.links += 1;
        let refused = walker.how.contains(Walk::NO_SYMLINKS)
            || self.files.mounts.get(walker.at.0).flags.contains(MountFlags::NO_LINKS);
        if walker.links > MAX_LINKS || refused {
            return Err(Errno::ELOOP);
        }
        match &self.files.inode(link).node {
            Node::Symlink { target, .. } => {
                if target.first() == Some(&b'/') && walker.how.contains(Walk::BENEATH) {
                    return Err(Errno::EXDEV);
                }
                Ok(Step::Text(target.clone()))
            }
            Node::Magic(magic) => {
                let magic = *magic;
                if walker.how.intersects(Walk::NO_MAGICLINKS | Walk::BENEATH | Walk::IN_ROOT) {
                    return Err(Errno::ELOOP);
                }
                self.follow_magic(process, magic)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Target of a symbolic link.
pub enum Step {
    /// A path.
    Text(Vec<u8>),
    /// A file, which may have no path, and its mount.
    Target(Target, MountKey),
}
