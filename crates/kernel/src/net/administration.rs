//! The host's stack borrowed for Linux's administrative interfaces (`belljar_linux_net`).

use crate::host::Host;
use crate::net::own::OwnSockets;
use belljar_base::Map;
use belljar_linux_net::unix::UnixSocketInfo;
use belljar_linux_net::{Admin, Listeners};
use belljar_netstack::Stack;

/// The sockets that are told of changes, and the host's warnings.
struct HostListeners<'a> {
    own: &'a mut OwnSockets,
    warnings: &'a mut Map<String, u64>,
}

impl Listeners for HostListeners<'_> {
    fn announce(&mut self, stack: &mut Stack, group: u32, message: &[u8]) {
        self.own.netlink_announce(stack, group, message);
    }
    fn interface_down(&mut self, stack: &mut Stack, interface: usize) {
        self.own.packet_interface_down(stack, interface);
    }
    fn membership_flags(&self, interface: usize) -> u32 {
        self.own.membership_flags(interface)
    }
    fn unix_sockets(&self, stack: &Stack) -> Vec<UnixSocketInfo> {
        self.own.unix_shown(stack)
    }
    fn warn(&mut self, text: String) {
        *self.warnings.entry(text).or_default() += 1;
    }
}

impl Host {
    /// Carries out an administrative operation on the stack.
    pub(crate) fn administer<T>(&mut self, operation: impl FnOnce(&mut Admin<'_>) -> T) -> T {
        let mut listeners = HostListeners { own: &mut self.own, warnings: &mut self.warnings };
        let result = operation(&mut Admin { net: &mut self.net, listeners: &mut listeners });
        self.net.log_routes();
        result
    }
}
