use super::devices::Device;
use crate::ids::{EpollKey, InodeKey, PipeKey, SocketKey};
use belljar_objects::landlock::Ruleset;
use belljar_objects::listing::Listing;
use std::sync::Arc;

/// The object behind an open file. Each subsystem adds its own variants.
#[derive(Clone, Debug)]
pub enum FileKind {
    /// The reading end of a pipe.
    PipeReader(PipeKey),
    /// The writing end of a pipe.
    PipeWriter(PipeKey),
    /// Both ends: a FIFO opened with `O_RDWR`.
    PipeBoth(PipeKey),
    /// A socket of any family.
    Socket(SocketKey),
    /// An epoll instance.
    Epoll(EpollKey),
    /// An `eventfd(2)` counter: its place in `Files::eventfds`.
    EventFd(usize),
    /// A descriptor of `userfaultfd(2)`: its place in `Files::userfaults`.
    Userfault(usize),
    /// A `timerfd_create(2)` timer: its place in `Files::timerfds`.
    TimerFd(usize),
    /// A `signalfd(2)` view of pending signals: its place in `Files::signalfds`.
    SignalFd(usize),
    /// A POSIX message queue: its place in `Files::mqueues`.
    MessageQueue(usize),
    /// A regular file.
    Regular(InodeKey),
    /// A directory and, once it is read, what was in it when reading started.
    Directory {
        /// The directory.
        inode: InodeKey,
        /// Its entries.
        listing: Option<Arc<Listing>>,
    },
    /// A character device.
    Device {
        /// Its inode.
        inode: InodeKey,
        /// The device.
        device: Device,
    },
    /// A file that the kernel makes up, with its bytes as of when reading started.
    Virtual {
        /// Its inode.
        inode: InodeKey,
        /// Its bytes.
        content: Option<Arc<[u8]>>,
        /// Of a table of mounts: its namespace and the number of changes that whoever polls it has been told of.
        mounts: Option<(u32, u64)>,
    },
    /// An instance of inotify or fanotify: its place in `Files::notify`.
    Notify(usize),
    /// A file system that is being made: its place in `Files::contexts`.
    MountContext(usize),
    /// Rules of `landlock_create_ruleset(2)`.
    Ruleset(Arc<Ruleset>),
    /// A process descriptor: its place in `Files::pidfds`.
    PidFd(usize),
    /// An io_uring instance: its place in `Host::urings`.
    Uring(usize),
    /// The master of a pseudo-terminal: its place in `Files::ptys`.
    PtyMaster {
        /// The inode of `/dev/ptmx`.
        inode: InodeKey,
        /// The pair.
        pty: usize,
    },
    /// A program's end of an interface: its place in `Stack::tuns`.
    Tun {
        /// The inode of `/dev/net/tun`.
        inode: InodeKey,
        /// The end.
        tun: usize,
    },
    /// A terminal: the slave of a pseudo-terminal.
    Terminal {
        /// Its inode in `/dev/pts`.
        inode: InodeKey,
        /// The pair.
        pty: usize,
    },
    /// A mere place in the tree: opened with `O_PATH`.
    Path(InodeKey),
    /// Standard input, output or error of the simulator itself: 0, 1 or 2.
    NativeStream(u8),
}

impl FileKind {
    /// True for what was opened by the name of a device.
    pub(crate) fn is_device(&self) -> bool {
        matches!(
            self,
            FileKind::Device { .. }
                | FileKind::PtyMaster { .. }
                | FileKind::Tun { .. }
                | FileKind::Terminal { .. }
        )
    }
}
