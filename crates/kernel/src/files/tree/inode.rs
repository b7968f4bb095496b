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
use smallvec::SmallVec;
use std::path::PathBuf;

/// A file of any type, `inode(7)`.
#[derive(Debug)]
pub struct Inode {
    /// Its number, given at first sight and never given again.
    pub number: u64,
    /// The device it lies on.
    pub device: u64,
    /// Its kind, with its content.
    pub node: Node,
    /// Mode, owner and times.
    pub meta: Meta,
    /// Its names: the directory and the name in it. A directory has at most one.
    pub links: SmallVec<[(InodeKey, Box<[u8]>); 1]>,
    /// Open files that refer to it.
    pub opens: u32,
    /// Record locks and `flock(2)` locks, while there are any.
    pub locks: Option<Box<FileLocks>>,
    /// Extended attributes, `xattr(7)`, if there are any.
    pub attributes: Option<Box<ExtendedAttributes>>,
    /// True if a program has made or changed it, so that the results must tell.
    pub changed: bool,
    /// A regular file of the machine that has other names there: its identity, and how many of its
    /// names have not been seen here.
    pub lower_links: Option<((u64, u64), u32)>,
    /// Its last name, if it has none any more.
    pub former_path: Option<Box<[u8]>>,
    /// The directory entry that this was, of an unnamed file one that it never had: inotify goes on telling the directory
    /// of what happens to the file.
    pub former_entry: Option<FormerEntry>,
}

/// A directory entry that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerEntry {
    /// The directory, if it still has this number.
    pub directory: (InodeKey, u64),
    /// The name.
    pub name: Box<[u8]>,
}

/// Extended attributes: values by name.
pub type ExtendedAttributes = Map<Box<[u8]>, Box<[u8]>>;

/// The kind of a file, with its content.
#[derive(Debug)]
pub enum Node {
    /// A regular file whose bytes the machine keeps.
    Regular(Content),
    /// A directory.
    Directory(Directory),
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: Vec<u8>,
        /// True if it exists natively in the host's own layer.
        own: bool,
    },
    /// A FIFO.
    Fifo,
    /// The name of a UNIX socket.
    Socket,
    /// A character device.
    Device(Device),
    /// A regular file whose bytes the kernel makes up.
    Virtual(VirtualFile),
    /// A symbolic link of procfs.
    Magic(MagicLink),
}

/// Where a regular file's bytes are.
#[derive(Debug)]
pub struct Content {
    /// The native file they are in.
    pub store: Store,
    /// Their number.
    pub size: u64,
    /// The native file while it is open.
    pub native: Option<Cached>,
    /// The parts of them that are data rather than holes.
    pub extents: Extents,
    /// True if other hosts and the machine may change it too: it is asked anew each time.
    pub shared: bool,
    /// Name and seals of a file of `memfd_create(2)`.
    pub memfd: Option<Box<Memfd>>,
    /// Bytes that it is known to take of the room of its tmpfs.
    pub charged: u64,
}

/// Name and seals of a file of `memfd_create(2)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memfd {
    /// The name that it was given.
    pub name: Vec<u8>,
    /// Its seals, `F_SEAL_*`.
    pub seals: i32,
}

impl Content {
    /// All `size` bytes of a native file.
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
    /// No bytes in a file of the host's own.
    pub fn empty(store: Store) -> Content {
        Content { extents: Extents::none(), ..Content::new(store, 0) }
    }
}

/// The native file that holds a regular file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// One of the machine's, at this path; only ever read.
    Lower(PathBuf),
    /// One in the host's own layer, at the path that the inode's first name gives.
    Own,
    /// One without a name, which goes when it is closed: by its number in the folder of those.
    Unnamed(u64),
}

impl Store {
    /// True if it is in the host's own layer, where it can be written.
    pub fn is_upper(&self) -> bool {
        !matches!(self, Store::Lower(_))
    }
}

/// A directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// Where it is in the tree; the root is its own parent.
    pub parent: InodeKey,
    /// Where entries come from that are not in `entries` yet.
    pub source: DirectorySource,
    /// True if it exists natively in the host's own layer.
    pub own: bool,
    /// The native directory that it *is*, for the root of a layer.
    pub own_root: Option<PathBuf>,
    /// True if it is the root of a file system, which has no name in it.
    pub is_root: bool,
    /// The entries seen so far.
    pub entries: Map<Box<[u8]>, Child>,
    /// True if `entries` is all there is.
    pub complete: bool,
    /// True if it can be reached but is not listed: the way to the host's directory, whose names
    /// differ from run to run.
    pub hidden: bool,
    /// True if other hosts and the machine may change it too: entries are looked up anew each time.
    pub shared: bool,
}

/// Where a directory's entries come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectorySource {
    /// From nowhere: all are in memory.
    #[default]
    None,
    /// From a directory of the machine, which stays as it is.
    Lower(PathBuf),
    /// From the directory's own native folder: it is passed through.
    Own,
    /// From the table of made-up files, under this path.
    Table(&'static str),
    /// `/proc/sys/net/ipv4/conf`, or that of IPv6: one directory for each interface, `all` and `default`.
    InterfaceSettings {
        /// Of IPv6.
        v6: bool,
    },
    /// One of these directories: a file for each setting.
    SettingsOf {
        /// Of IPv6.
        v6: bool,
        /// The interface, or all.
        scope: Scope,
    },
    /// `/proc` of a process namespace: one directory for each process, besides what the table has.
    Processes(u32),
    /// `/proc/<pid>`.
    Process(i32),
    /// `/proc/<pid>/task/<tid>`.
    Thread(i32, i32),
    /// `/proc/<pid>/fd` (or `fdinfo`): one entry for each descriptor.
    Descriptors {
        /// The process.
        pid: i32,
        /// True if this is `fdinfo`.
        info: bool,
    },
    /// `/proc/<pid>/task`: one directory for each thread.
    Tasks(i32),
    /// `/proc/<pid>/ns`: one link for each kind of namespace.
    Namespaces(i32),
}

/// A directory's entry.
#[derive(Debug)]
pub enum Child {
    /// A file that has been looked up.
    Known(InodeKey),
    /// One that has been listed only: its number and the `S_IFMT` bits of its mode.
    Listed(u64, u32),
    /// A file of the machine at this path, in a directory that otherwise starts empty.
    Lower(PathBuf),
    /// One that the directory's source has and this directory no longer has.
    Whiteout,
}

/// Mode, owner and times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    /// Permission bits, set-user-id and so on; no `S_IFMT`.
    pub mode: u32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// When.
    pub times: Times,
    /// `FS_IOC_SETFLAGS`.
    pub flags: FileFlags,
}

/// Times of a file in nanoseconds since 1970.
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
    /// All the same.
    pub fn all(ns: i64) -> Times {
        Times { access: ns, modify: ns, change: ns, birth: ns }
    }
}

impl Node {
    /// The `S_IFMT` bits of its mode.
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
    /// It as a directory.
    pub fn directory(&self) -> Option<&Directory> {
        match &self.node {
            Node::Directory(directory) => Some(directory),
            _ => None,
        }
    }
    /// It as a regular file with bytes of its own.
    pub fn content(&self) -> Option<&Content> {
        match &self.node {
            Node::Regular(content) => Some(content),
            _ => None,
        }
    }
    /// The same to change.
    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match &mut self.node {
            Node::Regular(content) => Some(content),
            _ => None,
        }
    }
    /// True if it has no name any more, or has not had one: the root of a file system needs none.
    pub fn is_nameless(&self) -> bool {
        self.links.is_empty() && !self.directory().is_some_and(|directory| directory.is_root)
    }
    /// Device and inode number: what tells files apart.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.number)
    }
}
