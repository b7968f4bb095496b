//! Keys of the kernel's objects. They index slabs, are reused once free, and are never shown to
//! guests.

pub use belljar_netstack::SocketKey;

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub usize);
    )*};
}

keys! {
    /// A thread.
    ThreadKey;
    /// A process (thread group).
    ProcessKey;
    /// An address space, shared by the processes between `vfork` and `execve`.
    MmKey;
    /// A descriptor table, shared by threads.
    FdTableKey;
    /// An open file description, shared by duplicated descriptors.
    FileKey;
    /// An inode of the tree of files.
    InodeKey;
    /// A pipe.
    PipeKey;
    /// An epoll instance.
    EpollKey;
    /// A mount.
    MountKey;
}

/// A queue of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitQueueId {
    /// One that an object has made for itself.
    Own(u32),
    /// The queue of a socket.
    Socket(u32),
    /// The queue of a program's end of an interface (`/dev/net/tun`).
    Tun(u32),
    /// The queue of those who watch the tables of mounts.
    Mounts,
}

/// Device and inode number of a file.
pub type FileIdentity = (u64, u64);

impl From<SocketKey> for WaitQueueId {
    fn from(key: SocketKey) -> WaitQueueId {
        WaitQueueId::Socket(key.0 as u32)
    }
}

impl Default for WaitQueueId {
    fn default() -> WaitQueueId {
        WaitQueueId::Own(0)
    }
}
