//! The host's stack borrowed for Linux's administrative interfaces (`belljar_linux_net`).

use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::net::networks::Networks;
use crate::net::own::OwnSockets;
use crate::process::{PidMap, Processes};
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_linux_net::unix::UnixSocketInfo;
use belljar_linux_net::{Admin, Listeners, NetworkName};
use belljar_netstack::Stack;
use belljar_objects::namespaces::NamespaceKind;

/// The sockets that are told of changes, and the host's warnings.
struct HostListeners<'a> {
    own: &'a mut OwnSockets,
    warnings: &'a mut Map<String, u64>,
    processes: &'a Processes,
    pids: &'a PidMap<ProcessKey>,
    files: &'a Files,
    networks: &'a Networks,
    caller: Option<ProcessKey>,
}

impl Listeners for HostListeners<'_> {
    fn announce(&mut self, stack: &mut Stack, group: u32, message: &[u8]) {
        self.own.netlink_announce(stack, group, message);
    }
    fn interface_down(&mut self, stack: &mut Stack, interface: usize) {
        self.own.packet_interface_down(stack, interface);
    }
    fn memberships(&self, stack: &Stack, interface: usize) -> (u32, u32) {
        self.own.memberships(stack, interface)
    }
    fn unix_sockets(&self, stack: &Stack) -> Vec<UnixSocketInfo> {
        self.own.unix_shown(stack)
    }
    fn network_named(&self, name: NetworkName) -> Result<u32, Errno> {
        let caller = self.caller.ok_or(Errno::EINVAL)?;
        let number = match name {
            NetworkName::Descriptor(fd) => {
                let table = self.processes[caller.0].fds.ok_or(Errno::EINVAL)?;
                let entry =
                    usize::try_from(fd).ok().and_then(|fd| self.files.tables[table.0].entries.get(fd));
                let file = entry.and_then(Option::as_ref).ok_or(Errno::EINVAL)?.file;
                match self.files.namespace_of(file) {
                    Some((NamespaceKind::Net, number)) => number,
                    _ => return Err(Errno::EINVAL),
                }
            }
            NetworkName::Process(pid) => {
                let process = self.pids.get(&self.processes.meant_pid(caller, pid)).ok_or(Errno::ESRCH)?;
                self.processes.namespace(*process, NamespaceKind::Net)
            }
        };
        if !self.networks.has(number) {
            return Err(Errno::EINVAL);
        }
        let owner = self.processes.namespaces.owner(NamespaceKind::Net, number).unwrap_or(0);
        self.processes.require_in(caller, owner, capability::NET_ADMIN)?;
        Ok(number)
    }
    fn has_interface(&self, network: u32, name: &str) -> bool {
        let stack = self.networks.resting(network);
        stack.is_some_and(|stack| stack.interface_by_name(name.as_bytes()).is_some())
    }
    fn warn(&mut self, text: String) {
        *self.warnings.entry(text).or_default() += 1;
    }
}

impl Host {
    /// Carries out an administrative operation on the stack.
    pub(crate) fn administer<T>(&mut self, operation: impl FnOnce(&mut Admin<'_>) -> T) -> T {
        let mut listeners = HostListeners {
            own: &mut self.own,
            warnings: &mut self.warnings,
            processes: &self.processes,
            pids: &self.pids,
            files: &self.files,
            networks: &self.networks,
            caller: self.caller.map(|(_, process)| process),
        };
        let result = operation(&mut Admin { net: &mut self.net, listeners: &mut listeners });
        self.net.log_routes();
        result
    }
}
