//! Keys of kernel objects: slab indices, reused after an object is freed and never visible to guests.

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
    /// An address space; a `vfork` child shares its parent's until `execve`.
    MmKey;
    /// A descriptor table, shared between threads.
    FdTableKey;
    /// An open file description, shared between duplicated descriptors.
    FileKey;
    /// An inode of the file tree.
    InodeKey;
    /// A pipe.
    PipeKey;
    /// An epoll instance.
    EpollKey;
    /// A mount.
    MountKey;
}

/// Identifier of a wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitQueueId {
    /// Queue allocated for another object.
    Own(u32),
    /// Queue of a socket.
    Socket(u32),
    /// Queue of the program's end of a TUN or TAP interface (`/dev/net/tun`).
    Tun(u32),
    /// Queue of the watchers of the mount tables.
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
