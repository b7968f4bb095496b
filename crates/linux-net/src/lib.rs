//! Linux's administrative interfaces to a [`Stack`]: rtnetlink and sock_diag messages, `ioctl` requests on interfaces, the values
//! of socket options, and the texts of `/proc/net`. Everything is bytes in and bytes out; programs, descriptors, guest memory
//! and the queues of netlink sockets are the caller's.
//!
//! # Contract
//!
//! **Reading.** The functions of [`proc`] and [`options`] take a `&Stack` or a socket's key and give a text or a value. They
//! change nothing.
//!
//! **Changing.** An [`Admin`] borrows the stack for one operation, together with its caller's [`Listeners`]: those who are told of
//! changes, and the sockets that are not the stack's. [`Admin::answer`] takes the bytes that a program has sent to a
//! `NETLINK_ROUTE` socket, [`Admin::answer_diag`] those for `NETLINK_SOCK_DIAG`; both give the datagrams that the socket
//! receives. [`ioctl`] does the same for `SIOC*` requests. [`Admin::set_interface_up`], [`Admin::remove_interface`] and
//! [`Admin::link_changed`] are for callers that change interfaces themselves, as TUN does.
//!
//! Whoever has changed something ends with [`Stack::flush_network`] and carries out the stack's effects. Permissions are the
//! caller's to check: a [`Requester`] says what its owner may do.

#![forbid(unsafe_code)]

pub mod admin;
pub mod control;
mod counters;
pub mod ethtool;
mod interfaces;
pub mod ioctl;
pub mod link_address;
pub mod netlink;
pub mod offload;
pub mod options;
pub mod proc;
pub mod unix;
pub mod unix_address;

pub use admin::{Admin, Listeners, NetworkName};
use belljar_netstack::{SocketKey, Stack};
pub use netlink::Requester;

/// The inode number of the first socket; those of later ones follow.
const FIRST_INODE: u64 = 20_000;

/// The inode number that a socket shows in `fstat` and below `/proc`.
pub fn socket_inode(stack: &Stack, key: SocketKey) -> u64 {
    FIRST_INODE + u64::from(stack.sockets[key.0].serial)
}
