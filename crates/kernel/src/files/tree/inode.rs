use crate::files::devices::Device;
use crate::files::virtual_files::{MagicLink, VirtualFile};
use crate::ids::InodeKey;
use belljar_base::Map;
use belljar_linux_abi::c;
use belljar_netstack::conf::Scope;
use belljar_objects::extents::Extents;
use belljar_objects::file_flags::FileFlags;
use belljar_objects::locks::FileLocks;
use belljar_objects::native_cache::Cached;
use belljar_objects::processors::SystemDirectory;
use smallvec::SmallVec;
use std::path::PathBuf;

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
    /// True if it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self, Node::Directory(_))
    }
    /// True if it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        matches!(self, Node::Symlink { .. } | Node::Magic(_))
    }
}

impl Inode {
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
