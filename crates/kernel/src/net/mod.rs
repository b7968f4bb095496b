//! Linux's interface of the network stack: socket calls, netlink, ioctl and `/proc`, and the socket families
//! that need no stack. The stack itself is `belljar_netstack`. `belljar_linux_net` implements rtnetlink,
//! option values and the texts of `/proc/net`; [`administration`] gives it access to the stack.
//!
//! [`operations`] dispatches each socket call to the socket's family. The modules of the stack's families
//! decode the arguments and copy from and to guest memory.

mod administration;
mod error_queue;
mod ioctl;
mod ip_socket;
pub mod message;
pub mod netlink;
pub(crate) mod networks;
pub mod operations;
pub mod own;
pub mod packet;
pub mod ping;
pub mod raw;
mod sockopt;
pub mod sysctl;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod tun;
pub mod udp;
pub mod unix;

pub use ioctl::socket_ioctl;
pub use sockopt::{get_option, set_option};
