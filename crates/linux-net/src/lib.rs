//! Linux's administrative interfaces to a [`Stack`]: rtnetlink and sock_diag messages, `ioctl` requests on
//! interfaces, the values of socket options, and the texts of `/proc/net`. Inputs and outputs are bytes;
//! programs, descriptors, guest memory and the queues of netlink sockets belong to the caller.
//!
//! # Contract
//!
//! **Reading.** The functions of [`proc`] and [`options`] take a `&Stack` or a socket's key and return a text
//! or a value. They change nothing.
//!
//! **Changing.** An [`Admin`] borrows the stack for one operation, together with its caller's [`Listeners`]:
//! the targets of notifications, and the sockets outside the stack. [`Admin::answer`] takes the bytes that a
//! program has sent to a `NETLINK_ROUTE` socket, [`Admin::answer_diag`] those sent to `NETLINK_SOCK_DIAG`,
//! [`Admin::answer_netfilter`] those sent to `NETLINK_NETFILTER`; all return the datagrams that the socket receives. [`ioctl`] does the same for `SIOC*` requests.
//! [`Admin::set_interface_up`], [`Admin::remove_interface`] and [`Admin::link_changed`] are for callers that
//! change interfaces themselves, as TUN does.
//!
//! After a change, the caller calls [`Stack::flush_network`] and applies the stack's effects. Permissions are
//! checked by the caller: a [`Requester`] states the rights of the socket's owner.

#![forbid(unsafe_code)]

pub mod admin;
pub mod control;
mod counters;
pub mod ethtool;
mod interfaces;
pub mod ioctl;
pub mod link_address;
pub mod netfilter;
pub mod netlink;
pub mod offload;
pub mod options;
pub mod proc;
pub mod ptp;
pub mod timestamps;
pub mod unix;
pub mod unix_address;

pub use admin::{Admin, Listeners, Multicast, NetworkName};
use belljar_netstack::{SocketKey, Stack};
pub use netlink::Requester;

/// Inode number of the first socket; later sockets have consecutive numbers.
const FIRST_INODE: u64 = 20_000;

/// Inode number of a socket in `fstat` and `/proc`.
pub fn socket_inode(stack: &Stack, key: SocketKey) -> u64 {
    FIRST_INODE + u64::from(stack.sockets[key.0].serial)
}
