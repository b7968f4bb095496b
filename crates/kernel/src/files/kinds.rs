use super::devices::Device;
use crate::ids::{EpollKey, InodeKey, PipeKey, SocketKey};
use belljar_objects::landlock::Ruleset;
use belljar_objects::listing::Listing;
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

impl FileKind {
    /// True for files opened through a device node.
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
