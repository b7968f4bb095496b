//! Linux's face of the network stack: the socket calls, netlink, ioctl and `/proc`, and the families of sockets that need no
//! stack. The stack itself is `belljar_netstack`.
//!
//! [`operations`] hands each socket call to the socket's family. The modules of the stack's families read what the call says
//! and copy from and to the program's memory.

mod configure;
mod error_queue;
mod ioctl;
mod ioctl_set;
mod ip_socket;
pub mod message;
pub mod netlink;
pub mod operations;
mod own;
pub mod packet;
pub mod ping;
mod proc;
pub mod raw;
mod snmp;
mod sockopt;
pub mod sysctl;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod tun;
pub mod udp;
pub mod unix;
pub mod v6;

pub use belljar_netstack::socket;
pub use belljar_netstack::{
    Departure, Effect, InitialRoute, InitialRoute6, LO, LinkConfig, PacketDirection, Passed, Resolver, Stack,
    StackConfig, StackCounters, TcpBufferSizes, TcpSample, interface_index,
};
use belljar_netstack::{address, bind, family, filter, interface, ip, mib, multicast, zero_copy};
pub use ioctl::socket_ioctl;
pub use own::{OwnKind, OwnSockets};
pub use sockopt::{get_option, set_option};
