//! Descriptors, open file descriptions and the objects behind them.

pub(crate) mod attributes;
mod cache;
mod descriptors;
pub(crate) mod devices;
pub(crate) mod directory;
pub mod disk_faults;
mod dispatch;
mod epoll;
mod eventfd;
pub(crate) mod executable;
mod fifo;
mod lease;
mod lifetime;
mod locking;
pub(crate) mod loops;
pub(crate) mod mounts;
mod mqueue;
mod names;
mod notify;
pub(crate) mod open;
mod owner;
pub(crate) mod permission;
mod pidfd;
mod pipe_io;
mod place;
pub(crate) mod pty;
pub(crate) mod readiness;
pub(crate) mod regular;
pub(crate) mod restore;
mod restrictions;
pub(crate) mod sidecar;
mod signalfd;
mod socket_node;
mod streams;
mod takeover;
#[cfg(test)]
mod tests;
mod thread_descriptors;
mod timerfd;
pub(crate) mod transfer;
pub(crate) mod tree;
pub(crate) mod userfault;
pub(crate) mod virtual_files;
#[cfg(test)]
mod waiting_tests;
mod xattr;

use crate::config::HostConfig;
use crate::ids::{EpollKey, FileKey, InodeKey, PipeKey};
use belljar_base::{Map, Set};
use belljar_machine::Machine;
use belljar_netstack::StackConfig;
use belljar_objects::epoll::Epoll;
use belljar_objects::eventfd::EventFd;
use belljar_objects::file_kind::{FilePlace, Unnamed};
use belljar_objects::inode::{Inode, Meta, Node};
use belljar_objects::leases::Leases;
use belljar_objects::loops::Loops;
use belljar_objects::message_queue::MessageQueue;
use belljar_objects::mounts::{FileSystemContext, Mounts};
use belljar_objects::native_cache::NativeCache;
use belljar_objects::notify::Notify;
use belljar_objects::open_file::{FdTable, MOST_DESCRIPTORS, OpenFile};
use belljar_objects::pipe::Pipe;
use belljar_objects::protected::Protected;
use belljar_objects::timerfd::TimerFd;
use belljar_objects::userfault::Userfault;
use belljar_tasks::pidfd::PidFd;
use belljar_tasks::signalfd::SignalFd;
use pty::Pty;
use slab::Slab;
use std::path::PathBuf;

/// File state of a host.
#[repr(C)] // Fields in order of access frequency: see `belljar_base::Footprint`.
pub struct Files {
    /// Open file descriptions.
    pub(crate) open: Slab<OpenFile>,
    /// Descriptor tables.
    pub(crate) tables: Slab<FdTable>,
    /// `fs.nr_open`: ceiling of `RLIMIT_NOFILE` and of the size of descriptor tables.
    pub(crate) most_descriptors: u64,
    /// `fs.protected_*`.
    pub(crate) protected: Protected,
    /// Cache of native descriptors.
    pub(crate) natives: NativeCache,
    /// Inodes of the file tree.
    pub(crate) inodes: Slab<Inode>,
    /// Buffer for transfers between native files and guest memory.
    pub(crate) scratch: Vec<u8>,
    last_inode_number: u64,
    last_shared_identity: u64,
    /// Inodes of the machine's files with several hard links, by native device and inode number.
    pub(crate) lower_links: Map<(u64, u64), InodeKey>,
    /// Native directory that is the root of the lower layer.
    pub(crate) root: PathBuf,
    /// Paths of the machine's files and directories that the simulator was denied access to.
    pub(crate) withheld: Set<PathBuf>,
    pub(crate) last_unnamed: u64,
    /// Pipes and FIFOs.
    pub(crate) pipes: Slab<Pipe>,
    /// Epoll instances.
    pub(crate) epolls: Slab<Epoll>,
    /// Epoll items that watch an open file, by file; they are removed with it.
    pub(crate) watchers: Map<FileKey, Vec<(EpollKey, usize)>>,
    /// Event counters.
    pub(crate) eventfds: Slab<EventFd>,
    /// Descriptors of `userfaultfd(2)`.
    pub(crate) userfaults: Slab<Userfault>,
    /// Timer descriptors.
    pub(crate) timerfds: Slab<TimerFd>,
    pub(crate) mqueues: Slab<MessageQueue>,
    /// Instances and marks of inotify and fanotify.
    pub(crate) notify: Notify,
    last_rename: u32,
    /// Process descriptors.
    pub(crate) pidfds: Slab<PidFd>,
    /// Pseudo-terminals.
    pub(crate) ptys: Slab<Pty>,
    /// Signal descriptors.
    pub(crate) signalfds: Slab<SignalFd>,
    /// Inodes of namespaces, by namespace number.
    pub(crate) namespaces: Map<u32, InodeKey>,
    /// Roots of `/proc` in later PID namespaces, by namespace number.
    pub(crate) proc_roots: Map<u32, InodeKey>,
    /// Inode state of files that are not in the tree.
    pub(crate) unnamed: Map<FilePlace, Unnamed>,
    /// Loop devices.
    pub(crate) loops: Loops,
    /// File system contexts, `fsopen(2)`.
    pub(crate) contexts: Slab<FileSystemContext>,
    /// Mount tables.
    pub(crate) mounts: Mounts,
    /// Leases, `F_SETLEASE`, by inode.
    pub(crate) leases: Map<InodeKey, Leases>,
    /// Pipes of open FIFOs, by the identity of the inode.
    pub(crate) fifos: Map<(u64, u64), PipeKey>,
    /// True if nothing can be allocated on the disk, and how often that was tried.
    pub(crate) disk_is_full: bool,
    pub(crate) no_room: u64,
}

impl Files {
    /// File state of a new host: the tree and its mounts, no open files.
    pub fn new(config: &HostConfig, network: &StackConfig, machine: &mut dyn Machine) -> Files {
        let mut files = Files {
            open: Slab::new(),
            tables: Slab::new(),
            most_descriptors: MOST_DESCRIPTORS,
            protected: Protected::default(),
            inodes: Slab::new(),
            scratch: Vec::new(),
            last_inode_number: 1,
            last_shared_identity: 0,
            natives: NativeCache::default(),
            lower_links: Map::new(),
            root: config.root.clone(),
            withheld: Set::new(),
            last_unnamed: 0,
            pipes: Slab::new(),
            unnamed: Map::new(),
            namespaces: Map::new(),
            proc_roots: Map::new(),
            epolls: Slab::new(),
            watchers: Map::new(),
            eventfds: Slab::new(),
            userfaults: Slab::new(),
            timerfds: Slab::new(),
            mqueues: Slab::new(),
            notify: Notify::default(),
            last_rename: 0,
            pidfds: Slab::new(),
            ptys: Slab::new(),
            signalfds: Slab::new(),
            leases: Map::new(),
            loops: Loops::default(),
            contexts: Slab::new(),
            mounts: Mounts::at_start(),
            fifos: Map::new(),
            disk_is_full: false,
            no_room: 0,
        };
        tree::new_tree(&mut files, config, network, machine);
        files.seed_mounts();
        files
    }
    /// Allocates an inode number, unique in the host.
    pub(crate) fn next_inode_number(&mut self) -> u64 {
        self.last_inode_number += 1;
        self.last_inode_number
    }
    /// Creates an inode without a name.
    pub(crate) fn add_inode(&mut self, device: u64, node: Node, meta: Meta) -> InodeKey {
        let number = self.next_inode_number();
        if let Some(room) = self.mounts.room(device) {
            room.used_files += 1;
        }
        InodeKey(self.inodes.insert(Inode::new(number, device, node, meta)))
    }
}
