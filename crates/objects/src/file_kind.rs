//! Kinds of open files, and the identity of the inode behind each: locks and changed attributes belong to it.

use crate::devices::Device;
use crate::ids::{EpollKey, InodeKey, PipeKey, SocketKey};
use crate::inode::Meta;
use crate::landlock::Ruleset;
use crate::listing::Listing;
use crate::locks::FileLocks;
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// The object that an open file description refers to, one variant for each kind.
#[derive(Clone, Debug)]
pub enum FileKind {
    /// Read end of a pipe.
    PipeReader(PipeKey),
    /// Write end of a pipe.
    PipeWriter(PipeKey),
    /// Both ends: a FIFO opened with `O_RDWR`.
    PipeBoth(PipeKey),
    /// Socket of any family.
    Socket(SocketKey),
    /// Epoll instance.
    Epoll(EpollKey),
    /// `eventfd(2)` counter: index in `Files::eventfds`.
    EventFd(usize),
    /// `userfaultfd(2)` descriptor: index in `Files::userfaults`.
    Userfault(usize),
    /// `timerfd_create(2)` timer: index in `Files::timerfds`.
    TimerFd(usize),
    /// `signalfd(2)` view of pending signals: index in `Files::signalfds`.
    SignalFd(usize),
    /// POSIX message queue: index in `Files::mqueues`.
    MessageQueue(usize),
    /// Regular file.
    Regular(InodeKey),
    /// Directory.
    Directory {
        /// Inode of the directory.
        inode: InodeKey,
        /// Entries as of when reading started.
        listing: Option<Arc<Listing>>,
    },
    /// Character or block device.
    Device {
        /// Inode of the device node.
        inode: InodeKey,
        /// Device.
        device: Device,
    },
    /// Virtual file, whose content the kernel generates.
    Virtual {
        /// Inode.
        inode: InodeKey,
        /// Content as of when reading started.
        content: Option<Arc<[u8]>>,
        /// For a file that lists mounts: its mount namespace and the number of changes already reported to
        /// pollers.
        mounts: Option<(u32, u64)>,
    },
    /// Instance of inotify or fanotify: index in `Files::notify`.
    Notify(usize),
    /// File system context, `fsopen(2)`: index in `Files::contexts`.
    MountContext(usize),
    /// Rule set of `landlock_create_ruleset(2)`.
    Ruleset(Arc<Ruleset>),
    /// Process descriptor: index in `Files::pidfds`.
    PidFd(usize),
    /// io_uring instance: index in `Host::urings`.
    Uring(usize),
    /// Master of a pseudo-terminal.
    PtyMaster {
        /// Inode of `/dev/ptmx`.
        inode: InodeKey,
        /// Index in `Files::ptys`.
        pty: usize,
    },
    /// File of a TUN/TAP interface.
    Tun {
        /// Inode of `/dev/net/tun`.
        inode: InodeKey,
        /// Index in `Stack::tuns`.
        tun: usize,
    },
    /// Terminal: the slave of a pseudo-terminal.
    Terminal {
        /// Inode in `/dev/pts`.
        inode: InodeKey,
        /// Index in `Files::ptys`.
        pty: usize,
    },
    /// Location in the tree only, opened with `O_PATH`.
    Path(InodeKey),
    /// Standard input, output or error of the simulator itself: 0, 1 or 2.
    NativeStream(u8),
}

/// Identity of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilePlace {
    /// Inode of the tree.
    Inode(InodeKey),
    /// Pipe, or a FIFO while it is open.
    Pipe(PipeKey),
    /// Socket.
    Socket(SocketKey),
    /// The inode shared by all files of `epoll_create(2)`, `eventfd(2)`, `signalfd(2)` and the like.
    Shared,
}

/// Inode state of a file that is not in the tree.
#[derive(Debug, Default)]
pub struct Unnamed {
    /// Locks.
    pub locks: Option<Box<FileLocks>>,
    /// Mode, owner and times, once changed.
    pub meta: Option<Meta>,
}

impl FileKind {
    /// Index of a timer descriptor; `EINVAL` for other files.
    pub fn timerfd(&self) -> Result<usize, Errno> {
        if let FileKind::TimerFd(n) = self { Ok(*n) } else { Err(Errno::EINVAL) }
    }
    /// Index of a signal descriptor; `EINVAL` for other files.
    pub fn signalfd(&self) -> Result<usize, Errno> {
        if let FileKind::SignalFd(n) = self { Ok(*n) } else { Err(Errno::EINVAL) }
    }
    /// Key of an epoll instance; `EINVAL` for other files.
    #[inline]
    pub fn epoll(&self) -> Result<EpollKey, Errno> {
        if let FileKind::Epoll(key) = self { Ok(*key) } else { Err(Errno::EINVAL) }
    }
    /// Key of a socket; `None` for other files.
    #[inline]
    pub fn socket(&self) -> Option<SocketKey> {
        if let FileKind::Socket(key) = self { Some(*key) } else { None }
    }
    /// Index of a pseudo-terminal, and true for its master; `None` for other files.
    pub fn terminal(&self) -> Option<(usize, bool)> {
        match self {
            FileKind::PtyMaster { pty, .. } => Some((*pty, true)),
            FileKind::Terminal { pty, .. } => Some((*pty, false)),
            _ => None,
        }
    }
    /// True for files opened through a device node.
    pub fn is_device(&self) -> bool {
        matches!(
            self,
            FileKind::Device { .. }
                | FileKind::PtyMaster { .. }
                | FileKind::Tun { .. }
                | FileKind::Terminal { .. }
        )
    }
    /// Inode of the file; `None` for kinds outside the tree.
    #[inline]
    pub fn inode(&self) -> Option<InodeKey> {
        match self {
            FileKind::Regular(inode)
            | FileKind::Directory { inode, .. }
            | FileKind::Device { inode, .. }
            | FileKind::Virtual { inode, .. }
            | FileKind::PtyMaster { inode, .. }
            | FileKind::Tun { inode, .. }
            | FileKind::Terminal { inode, .. }
            | FileKind::Path(inode) => Some(*inode),
            _ => None,
        }
    }
    /// Identity of the inode of an open file.
    #[inline]
    pub fn place(&self) -> FilePlace {
        match self {
            FileKind::PipeReader(pipe) | FileKind::PipeWriter(pipe) | FileKind::PipeBoth(pipe) => {
                FilePlace::Pipe(*pipe)
            }
            FileKind::Socket(socket) => FilePlace::Socket(*socket),
            kind => kind.inode().map_or(FilePlace::Shared, FilePlace::Inode),
        }
    }
    /// True if the file supports `O_ASYNC`.
    pub fn can_signal(&self) -> bool {
        matches!(
            self,
            FileKind::PipeReader(_)
                | FileKind::PipeWriter(_)
                | FileKind::PipeBoth(_)
                | FileKind::Socket(_)
                | FileKind::Terminal { .. }
                | FileKind::PtyMaster { .. }
                | FileKind::Tun { .. }
                | FileKind::Notify(_)
        )
    }
    /// True if it is the master or the slave of a pseudo-terminal.
    #[inline]
    pub fn is_terminal(&self) -> bool {
        matches!(self, FileKind::PtyMaster { .. } | FileKind::Terminal { .. })
    }
    /// True if `lseek(2)` succeeds without an effect (`noop_llseek`).
    pub fn has_idle_position(&self) -> bool {
        matches!(
            self,
            FileKind::Epoll(_)
                | FileKind::EventFd(_)
                | FileKind::Userfault(_)
                | FileKind::TimerFd(_)
                | FileKind::SignalFd(_)
                | FileKind::Notify(_)
        )
    }
    /// True if the file is seekable: reads and writes happen at an offset.
    #[inline]
    pub fn has_position(&self) -> bool {
        self.inode().is_some() && !self.is_terminal() && !matches!(self, FileKind::Tun { .. })
    }
    /// True if `splice(2)` and `sendfile(2)` can read from it. Pipes are handled by the caller.
    pub fn can_be_spliced_from(&self) -> bool {
        match self {
            FileKind::Device { device, .. } => {
                matches!(device, Device::Zero | Device::Full | Device::Random | Device::Urandom)
            }
            FileKind::Regular(_)
            | FileKind::Virtual { .. }
            | FileKind::Socket(_)
            | FileKind::Terminal { .. }
            | FileKind::PtyMaster { .. }
            | FileKind::NativeStream(_) => true,
            _ => false,
        }
    }
    /// True if `splice(2)` and `sendfile(2)` can write to it.
    pub fn can_be_spliced_to(&self) -> bool {
        match self {
            FileKind::Device { device, .. } => {
                matches!(device, Device::Null | Device::Zero | Device::Random | Device::Urandom)
            }
            _ => self.can_be_spliced_from(),
        }
    }
}
