//! Objects of a host's kernel as state machines: their state and the operations on it. The crate is
//! independent of hosts, guest memory and system calls, and wakes no threads: an object that can be waited
//! for holds the id of its wait queue, and the kernel notifies that queue after a change.
//!
//! - [`ids`]: object keys; [`call_counts`]: system call statistics.
//! - Files: [`inode`], [`file_kind`], [`open_file`], [`file_owner`], [`devices`], [`virtual_files`], [`leases`],
//!   [`epoll`], [`message_queue`], [`pipe`], [`eventfd`], [`timerfd`], [`locks`], [`extents`], [`file_flags`], [`listing`],
//!   [`mounts`], [`notify`], [`loops`], [`native_cache`], [`write_log`] and [`mtree`].
//! - Sockets: [`networks`], [`unix_sockets`], [`netlink_sockets`], [`packet_sockets`], [`packet_fanout`] and [`packet_ring`].
//! - Memory: [`space`], [`maps`], [`native_reads`], [`aio`] and [`userfault`].
//! - Clock: [`discipline`] and [`time_namespaces`].
//! - Processes: [`credentials`], [`namespaces`], [`accounts`], [`attributes`], [`process_files`],
//!   [`signals`], [`tracees`], the keyrings in [`keys`], and the self-imposed restrictions in [`landlock`]
//!   and [`seccomp`].
//! - Machine: [`processors`], [`speculation`] and [`system_files`].
//! - System V message queues, semaphores and shared memory: [`sysv`].
#![forbid(unsafe_code)]

pub mod accounts;
pub mod aio;
pub mod attributes;
pub mod call_counts;
pub mod call_faults;
pub mod credentials;
pub mod debug_registers;
pub mod devices;
pub mod discipline;
pub mod disk_faults;
pub mod epoll;
pub mod eventfd;
pub mod extents;
pub mod file_flags;
pub mod file_kind;
pub mod file_owner;
pub mod ids;
pub mod inode;
pub mod kernel_log;
pub mod keys;
pub mod landlock;
pub mod leases;
pub mod listing;
pub mod locks;
pub mod loops;
pub mod maps;
pub mod memory_limit;
pub mod message_queue;
pub mod mounts;
pub mod mtree;
pub mod namespaces;
pub mod native_cache;
pub mod native_reads;
pub mod netlink_sockets;
pub mod networks;
pub mod notify;
pub mod open_file;
pub mod outside;
pub mod packet_fanout;
pub mod packet_ring;
pub mod packet_sockets;
pub mod pipe;
pub mod process_files;
pub mod processors;
pub mod protected;
pub mod sdk;
pub mod seccomp;
pub mod signals;
pub mod space;
pub mod speculation;
pub mod system_files;
pub mod sysv;
pub mod time_namespaces;
pub mod timerfd;
pub mod tracees;
pub mod unix_sockets;
pub mod upgrades;
pub mod userfault;
pub mod virtual_files;
pub mod write_log;
