//! A stack borrowed for one administrative operation.

use crate::unix::UnixSocketInfo;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::Stack;

/// Stack with its notification targets, borrowed for one operation. The methods are in the modules of their
/// subjects.
pub struct Admin<'a> {
    /// The stack.
    pub net: &'a mut Stack,
    /// Notification targets, and access to sockets outside the stack.
    pub listeners: &'a mut dyn Listeners,
}

/// Reference to a network namespace in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkName {
    /// `IFLA_NET_NS_FD`: a descriptor.
    Descriptor(i32),
    /// `IFLA_NET_NS_PID`: a process in the namespace.
    Process(i32),
}

/// Netlink multicast group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Protocol of the sockets, `NETLINK_*`.
    pub protocol: i32,
    /// Number of the group, from 1.
    pub group: u32,
}

/// Environment of a stack with Linux's interfaces: netlink sockets subscribed to changes, and sockets of
/// families outside the stack.
pub trait Listeners {
    /// Delivers a message to the members of a netlink multicast group immediately.
    fn announce(&mut self, stack: &mut Stack, to: Multicast, message: &[u8]);
    /// Notifies packet sockets that their interface has gone down.
    fn interface_down(&mut self, stack: &mut Stack, interface: usize);
    /// Numbers of promiscuous and all-multicast memberships that packet sockets hold on an interface.
    fn memberships(&self, stack: &Stack, interface: usize) -> (u32, u32);
    /// UNIX sockets, for sock_diag.
    fn unix_sockets(&self, stack: &Stack) -> Vec<UnixSocketInfo>;
    /// Number of the network namespace that a descriptor or process of the caller refers to. Fails unless the
    /// caller administers that namespace too.
    fn network_named(&self, name: NetworkName) -> Result<u32, Errno>;
    /// True if another network namespace has an interface of this name.
    fn has_interface(&self, network: u32, name: &str) -> bool;
    /// Counts an unsupported request.
    fn warn(&mut self, text: String);
}

impl Admin<'_> {
    /// Multicasts a message to a group of `NETLINK_ROUTE`.
    pub(crate) fn announce(&mut self, group: u32, message: &[u8]) {
        self.listeners.announce(self.net, Multicast { protocol: c::NETLINK_ROUTE, group }, message);
    }
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.listeners.warn(text.into());
    }
}
