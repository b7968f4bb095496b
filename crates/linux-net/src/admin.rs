//! A stack borrowed for one administrative operation.

use crate::unix::UnixSocketInfo;
use belljar_linux_abi::Errno;
use belljar_netstack::Stack;

/// A stack with those who are told of changes. The methods are in the modules of what they are about.
pub struct Admin<'a> {
    /// The stack.
    pub net: &'a mut Stack,
    /// Those who are told, and the sockets that are not the stack's.
    pub listeners: &'a mut dyn Listeners,
}

/// A name of a network in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkName {
    /// `IFLA_NET_NS_FD`: a descriptor.
    Descriptor(i32),
    /// `IFLA_NET_NS_PID`: a process that is in it.
    Process(i32),
}

/// The surroundings of a stack that has Linux's interfaces: netlink sockets that listen to changes, and sockets of families that
/// are not the stack's.
pub trait Listeners {
    /// Gives a message to the members of a netlink group, at once.
    fn announce(&mut self, stack: &mut Stack, group: u32, message: &[u8]);
    /// Tells packet sockets that their interface has gone down.
    fn interface_down(&mut self, stack: &mut Stack, interface: usize);
    /// Memberships of packet sockets for which an interface hears what is not for it, and all groups.
    fn memberships(&self, stack: &Stack, interface: usize) -> (u32, u32);
    /// UNIX sockets, for sock_diag.
    fn unix_sockets(&self, stack: &Stack) -> Vec<UnixSocketInfo>;
    /// The number of the network that a process or a descriptor of the caller's names, if the caller administers that one too.
    fn network_named(&self, name: NetworkName) -> Result<u32, Errno>;
    /// True if another network than the stack's has an interface of this name.
    fn has_interface(&self, network: u32, name: &str) -> bool;
    /// Counts something that was asked for and is not supported.
    fn warn(&mut self, text: String);
}

impl Admin<'_> {
    /// Gives a message to the members of a group.
    pub(crate) fn announce(&mut self, group: u32, message: &[u8]) {
        self.listeners.announce(self.net, group, message);
    }
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.listeners.warn(text.into());
    }
}
