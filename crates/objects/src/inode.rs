//! Inodes of a host's file tree, `inode(7)`, as the kernel keeps them in memory: types, names, content and metadata.

use crate::credentials::Credentials;
use crate::devices::Device;
use crate::extents::Extents;
use crate::file_flags::FileFlags;
use crate::ids::InodeKey;
use crate::locks::FileLocks;
use crate::native_cache::Cached;
use crate::process_files::ProcessFile;
use crate::processors::SystemDirectory;
use crate::virtual_files::{MagicLink, VirtualFile};
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::conf::Scope;
use slab::Slab;
use smallvec::SmallVec;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Root of the tree.
pub const ROOT: InodeKey = InodeKey(0);

/// Device number of the disk, `makedev(3)`.
pub const DISK: u64 = 0x801;
/// Device number of `/dev`, a `devtmpfs`.
pub const DEV: u64 = 0x5;
/// Device number of `/proc`.
pub const PROC: u64 = 0x14;
/// Device number of `/sys`.
pub const SYS: u64 = 0x15;
/// Device number of `/run`, a `tmpfs`.
pub const RUN: u64 = 0x17;
/// Device number of `/dev/shm`, a `tmpfs`.
pub const SHM: u64 = 0x18;
/// Device number of namespaces, `nsfs`.
pub const NAMESPACE: u64 = 0x4;
/// Device number of `memfd_create(2)` files.
pub const MEMORY: u64 = 0x3;
/// Device number of `/dev/pts`.
pub const PTS: u64 = 0x19;

/// An inode: a file of any type, `inode(7)`.
#[derive(Debug)]
pub struct Inode {
    /// Inode number, assigned when the file is first looked up and never reused.
    pub number: u64,
    /// Device number of the file system.
    pub device: u64,
    /// Type-specific content.
    pub node: Node,
    /// Mode, owner and times.
    pub meta: Meta,
    /// Names: directory and name of each hard link. A directory has at most one.
    pub links: SmallVec<[(InodeKey, Box<[u8]>); 1]>,
    /// Number of open files, and of other uses such as bound sockets.
    pub opens: u32,
    /// Record locks and `flock(2)` locks, while there are any.
    pub locks: Option<Box<FileLocks>>,
    /// Extended attributes, `xattr(7)`, if there are any.
    pub attributes: Option<Box<ExtendedAttributes>>,
    /// True if a program created or changed the file, so that the sidecar of the results describes it.
    pub changed: bool,
    /// For a regular file of the machine with several hard links there: its native identity, and the number
    /// of its names that have not been looked up.
    pub lower_links: Option<((u64, u64), u32)>,
    /// Last path of a file that has no name any more.
    pub former_path: Option<Box<[u8]>>,
    /// Former entry of a removed file; for a file created without a name, an entry that never existed. Events
    /// on the file continue to be reported to that directory.
    pub former_entry: Option<FormerEntry>,
}

/// A former directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerEntry {
    /// Directory, valid only while the inode has this number.
    pub directory: (InodeKey, u64),
    /// Name.
    pub name: Box<[u8]>,
}

/// Extended attributes: values by name.
pub type ExtendedAttributes = Map<Box<[u8]>, Box<[u8]>>;

/// File type, with the type-specific content.
#[derive(Debug)]
pub enum Node {
    /// Regular file, whose content is in a native file.
    Regular(Content),
    /// Directory.
    Directory(Directory),
    /// Symbolic link.
    Symlink {
        /// Target path.
        target: Vec<u8>,
        /// True if it exists natively in the host's own layer.
        own: bool,
    },
    /// FIFO.
    Fifo,
    /// UNIX socket node.
    Socket,
    /// Character or block device.
    Device(Device),
    /// Regular file whose content the kernel generates.
    Virtual(VirtualFile),
    /// Magic link of procfs.
    Magic(MagicLink),
}

/// Content of a regular file.
#[derive(Debug)]
pub struct Content {
    /// Native file that stores it.
    pub store: Store,
    /// Size in bytes.
    pub size: u64,
    /// Cached native descriptor, if open.
    pub native: Option<Cached>,
    /// Data extents; the rest are holes.
    pub extents: Extents,
    /// True if other hosts and the machine may change the file: its size is then read anew each time.
    pub shared: bool,
    /// Name and seals of a `memfd_create(2)` file.
    pub memfd: Option<Box<Memfd>>,
    /// Bytes charged to the tmpfs.
    pub charged: u64,
}

/// Name and seals of a `memfd_create(2)` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memfd {
    /// Name given at creation.
    pub name: Vec<u8>,
    /// Seals, `F_SEAL_*`.
    pub seals: i32,
}

impl Content {
    /// Content of `size` bytes, all data, in a native file.
    pub fn new(store: Store, size: u64) -> Content {
        Content {
            store,
            size,
            native: None,
            extents: Extents::Everything,
            shared: false,
            memfd: None,
            charged: 0,
        }
    }
    /// Empty content in a native file of the host's own layer.
    pub fn empty(store: Store) -> Content {
        Content { extents: Extents::none(), ..Content::new(store, 0) }
    }
}

/// Native file that stores the content of a regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// File of the machine at this path; never written.
    Lower(PathBuf),
    /// File in the host's own layer, at the path of the inode's first name.
    Own,
    /// Nameless file, deleted when it is closed: its number in the folder of nameless files.
    Unnamed(u64),
}

impl Store {
    /// True if it is in the host's own layer, which is writable.
    pub fn is_upper(&self) -> bool {
        !matches!(self, Store::Lower(_))
    }
}

/// A directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// Parent directory; the root is its own parent.
    pub parent: InodeKey,
    /// Source of the entries that are not in `entries` yet.
    pub source: DirectorySource,
    /// True if it exists natively in the host's own layer.
    pub own: bool,
    /// Native path of the directory, for the root of a layer.
    pub own_root: Option<PathBuf>,
    /// True for the root of a file system, which has no name in it.
    pub is_root: bool,
    /// Entries that are known.
    pub entries: Map<Box<[u8]>, Child>,
    /// True if `entries` is complete.
    pub complete: bool,
    /// True if it can be looked up but is not listed: a directory on the path to the host's directory, whose
    /// names differ from run to run.
    pub hidden: bool,
    /// True if other hosts and the machine may change the directory: entries are then looked up anew each
    /// time.
    pub shared: bool,
}

/// Source of a directory's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectorySource {
    /// None: all entries are in memory.
    #[default]
    None,
    /// A directory of the machine, which is never changed.
    Lower(PathBuf),
    /// The directory's own native folder.
    Own,
    /// The table of virtual files, below this path.
    Table(&'static str),
    /// Directory at or below `/sys/devices`.
    Devices(SystemDirectory),
    /// `/proc/sys/net/ipv4/conf`, or that of IPv6: a directory for each interface, `all` and `default`.
    InterfaceSettings {
        /// True for IPv6.
        v6: bool,
    },
    /// `/proc/net/bonding`: a file for each bond.
    Bonds,
    /// A directory below `conf`: a file for each setting.
    SettingsOf {
        /// True for IPv6.
        v6: bool,
        /// Interface, `all` or `default`.
        scope: Scope,
    },
    /// `/proc` of a PID namespace: a directory for each process, besides the entries of the table.
    Processes(u32),
    /// `/proc/<pid>`.
    Process(i32),
    /// `/proc/<pid>/task/<tid>`.
    Thread(i32, i32),
    /// `/proc/<pid>/fd` (or `fdinfo`): an entry for each descriptor.
    Descriptors {
        /// Process id.
        pid: i32,
        /// True for `fdinfo`.
        info: bool,
    },
    /// `/proc/<pid>/task`: a directory for each thread.
    Tasks(i32),
    /// `/proc/<pid>/ns`: a link for each kind of namespace.
    Namespaces(i32),
}

/// A directory entry.
#[derive(Debug)]
pub enum Child {
    /// File that has been looked up.
    Known(InodeKey),
    /// File that has only been listed: inode number and `S_IFMT` bits of its mode.
    Listed(u64, u32),
    /// File of the machine at this path, exposed in a directory that otherwise starts empty.
    Lower(PathBuf),
    /// Whiteout: an entry of the source that was removed.
    Whiteout,
}

/// Mode, owner, times and flags of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    /// Permission, set-ID and sticky bits; no `S_IFMT`.
    pub mode: u32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Timestamps.
    pub times: Times,
    /// Flags of `FS_IOC_SETFLAGS`.
    pub flags: FileFlags,
}

/// Timestamps of a file in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Last access.
    pub access: i64,
    /// Last change of content.
    pub modify: i64,
    /// Last change of content or of the inode.
    pub change: i64,
    /// Creation.
    pub birth: i64,
}

impl Meta {
    /// Group and mode of a file created in a directory with this metadata by a process of group `gid`: a
    /// set-group-ID directory passes on its group and, to directories, the bit.
    pub fn inherited(&self, gid: u32, mode: u32, makes_directory: bool) -> (u32, u32) {
        match self.mode & c::S_ISGID {
            0 => (gid, mode),
            bit => (self.gid, if makes_directory { mode | bit } else { mode }),
        }
    }
}

impl Times {
    /// All timestamps equal to `ns`.
    pub fn all(ns: i64) -> Times {
        Times { access: ns, modify: ns, change: ns, birth: ns }
    }
}

impl Node {
    /// `S_IFMT` bits of the mode.
    pub fn format(&self) -> u32 {
        match self {
            Node::Regular(_) | Node::Virtual(_) => c::S_IFREG,
            Node::Directory(_) => c::S_IFDIR,
            Node::Symlink { .. } | Node::Magic(_) => c::S_IFLNK,
            Node::Fifo => c::S_IFIFO,
            Node::Socket => c::S_IFSOCK,
            Node::Device(Device::Block(_)) => c::S_IFBLK,
            Node::Device(_) => c::S_IFCHR,
        }
    }
    /// True for `/proc/<pid>/maps`.
    pub fn is_map(&self) -> bool {
        let Node::Virtual(VirtualFile::Process(_, file) | VirtualFile::Thread(_, _, file)) = self else {
            return false;
        };
        *file == ProcessFile::Maps
    }
    /// True if it has a native counterpart in the own layer that must be moved and removed with its name.
    pub fn has_own_name(&self) -> bool {
        match self {
            Node::Regular(content) => content.store == Store::Own,
            Node::Directory(directory) => directory.own,
            Node::Symlink { own, .. } => *own,
            _ => false,
        }
    }
    /// True if it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self, Node::Directory(_))
    }
    /// Process id of the process whose `/proc/<pid>` has the file; `None` for other files.
    pub fn process(&self) -> Option<i32> {
        match self {
            Node::Directory(directory) => match directory.source {
                DirectorySource::Process(pid)
                | DirectorySource::Thread(pid, _)
                | DirectorySource::Descriptors { pid, .. }
                | DirectorySource::Tasks(pid)
                | DirectorySource::Namespaces(pid) => Some(pid),
                _ => None,
            },
            Node::Virtual(
                VirtualFile::Process(pid, _)
                | VirtualFile::Thread(pid, ..)
                | VirtualFile::DescriptorInfo(pid, _),
            )
            | Node::Magic(
                MagicLink::Executable(pid)
                | MagicLink::WorkingDirectory(pid)
                | MagicLink::Root(pid)
                | MagicLink::Namespace(pid, _)
                | MagicLink::Descriptor(pid, _),
            ) => Some(*pid),
            _ => None,
        }
    }
    /// True if it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        matches!(self, Node::Symlink { .. } | Node::Magic(_))
    }
}

impl Inode {
    /// Creates an inode without a name.
    pub fn new(number: u64, device: u64, node: Node, meta: Meta) -> Inode {
        Inode {
            number,
            device,
            node,
            meta,
            links: SmallVec::new(),
            opens: 0,
            locks: None,
            attributes: None,
            changed: false,
            lower_links: None,
            former_path: None,
            former_entry: None,
        }
    }

    /// The inode's directory; `None` for other types.
    pub fn directory(&self) -> Option<&Directory> {
        match &self.node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }
    /// Content of a regular file; `None` for other types and for virtual files.
    pub fn content(&self) -> Option<&Content> {
        match &self.node {
            Node::Regular(content) => Some(content),
            _ => None,
        }
    }
    /// Mutable content of a regular file; `None` as for [`content`](Self::content).
    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match &mut self.node {
            Node::Regular(content) => Some(content),
            _ => None,
        }
    }
    /// Seals; `EINVAL` if the file does not support seals.
    pub fn seals(&self) -> Result<i32, Errno> {
        let memfd = self.content().and_then(|content| content.memfd.as_deref());
        memfd.map(|memfd| memfd.seals).ok_or(Errno::EINVAL)
    }
    /// Replaces the cached native descriptor of a regular file; returns the former one.
    pub fn set_native(&mut self, cached: Option<Cached>) -> Option<Cached> {
        std::mem::replace(&mut self.content_mut()?.native, cached)
    }
    /// `EPERM` if the file has any of these flags.
    pub fn check_flags(&self, flags: FileFlags) -> Result<(), Errno> {
        if self.meta.flags.intersects(flags) { Err(Errno::EPERM) } else { Ok(()) }
    }
    /// True if the mode bits grant all permissions in `wanted` (`S_IROTH`, `S_IWOTH`, `S_IXOTH`). `owner` is
    /// the file's user and group.
    pub fn allows(&self, who: &Credentials, owner: (u32, u32), wanted: u32) -> bool {
        let mode = self.meta.mode;
        let granted = if who.fsuid == owner.0 {
            mode >> 6
        } else if who.fsgid == owner.1 || who.groups.contains(&owner.1) {
            mode >> 3
        } else {
            mode
        };
        granted & wanted == wanted
    }
    /// `EACCES` for execution of a file without any execute bit, which the superuser is denied too.
    pub fn check_superuser(&self, wanted: u32) -> Result<(), Errno> {
        let executes = wanted & c::S_IXOTH != 0 && !self.node.is_directory();
        if executes && self.meta.mode & 0o111 == 0 { Err(Errno::EACCES) } else { Ok(()) }
    }
    /// True if the inode has no name (any more). The root of a file system does not count, since it needs
    /// none.
    pub fn is_nameless(&self) -> bool {
        self.links.is_empty() && !self.directory().is_some_and(|directory| directory.is_root)
    }
    /// Device and inode number, which identify a file.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.number)
    }
}

/// True if `inode` is `root` or a descendant of it in the same file system.
pub fn is_below(inodes: &Slab<Inode>, root: InodeKey, inode: InodeKey) -> bool {
    let mut at = inode;
    while at != root {
        match inodes[at.0].links.first() {
            Some((parent, _)) => at = *parent,
            None => return false,
        }
    }
    true
}

/// `path/name` for a name in bytes.
pub fn join(path: &Path, name: &[u8]) -> PathBuf {
    path.join(OsStr::from_bytes(name))
}

/// Inode number of a lower file. It depends only on the path below the root, not on earlier lookups. It has
/// 52 bits with the highest set; numbers of new files are smaller.
pub fn path_number(root: &Path, path: &Path) -> u64 {
    let from = if root == Path::new("/") { 0 } else { root.as_os_str().len() };
    let bytes = path.as_os_str().as_bytes();
    // FNV-1a. The path may lie outside the root if a template moved the file here.
    let hash = bytes.get(from..).unwrap_or(bytes).iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ hash >> 52) & ((1 << 51) - 1) | 1 << 51
}
