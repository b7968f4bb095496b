//! System calls: the table and one thin file per family. A handler decodes, validates, calls a
//! subsystem and copies out; the logic lives in the subsystem.

pub mod capabilities;
pub mod clone;
pub mod descriptors;
pub mod directories;
pub mod epoll;
pub mod events;
pub mod exec;
pub mod files;
pub mod futex;
pub mod identity;
pub mod inotify;
pub mod limits;
pub mod memory;
pub mod misc;
pub mod paths;
pub mod pidfd;
pub mod pipes;
pub mod poll;
pub mod process;
pub mod sched;
pub mod select;
pub mod sem;
pub mod shm;
pub mod signal;
pub mod socket;
pub mod socket_io;
pub mod sockopt;
pub mod stat;
pub mod table;
pub mod time;
pub mod timeout;
pub mod timers;
pub mod transfer;
pub mod wait;
pub mod xattr;
