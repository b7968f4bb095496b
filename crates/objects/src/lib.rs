//! Objects of a host's kernel as state machines: what each keeps and what an operation does to it. They know no host, no
//! guest memory and no system calls, and wake nobody: an object that can be waited for has the name of its queue, and the kernel
//! notifies it after a change.
//!
//! [`ids`] names objects, [`call_counts`] counts calls. [`pipe`], [`eventfd`], [`timerfd`], [`locks`], [`extents`], [`file_flags`], [`listing`],
//! [`mounts`], [`notify`], [`loops`], [`native_cache`] and [`mtree`] belong to files, [`packet_sockets`], [`packet_fanout`] and [`packet_ring`] to
//! sockets, [`space`], [`maps`], [`aio`] and [`userfault`] to memory, [`discipline`] and [`time_namespaces`] to the clock, [`credentials`],
//! [`namespaces`], [`accounts`], [`attributes`], [`process_files`], [`signals`] and [`tracees`] to processes; [`keys`] is their keyrings, [`landlock`] and [`seccomp`] the restrictions that they
//! put on themselves, and [`sysv`] is System V's message queues, semaphores and shared memory.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod aio;
pub mod attributes;
pub mod call_counts;
pub mod credentials;
pub mod discipline;
pub mod eventfd;
pub mod extents;
pub mod file_flags;
pub mod ids;
pub mod keys;
pub mod landlock;
pub mod listing;
pub mod locks;
pub mod loops;
pub mod maps;
pub mod mounts;
pub mod mtree;
pub mod namespaces;
pub mod native_cache;
pub mod notify;
pub mod packet_fanout;
pub mod packet_ring;
pub mod packet_sockets;
pub mod pipe;
pub mod process_files;
pub mod protected;
pub mod seccomp;
pub mod signals;
pub mod space;
pub mod sysv;
pub mod time_namespaces;
pub mod timerfd;
pub mod tracees;
pub mod userfault;
