//! Keys of the kernel's objects. They index slabs, are reused once free, and are never shown to
//! guests.

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
    /// A queue of waiters.
    WaitQueueId;
    /// A pipe.
    PipeKey;
    /// An epoll instance.
    EpollKey;
    /// A socket.
    SocketKey;
}
