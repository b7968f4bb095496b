//! Access to a host's network stacks for Linux's administrative interfaces (`belljar_linux_net`).

use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::net::own::OwnSockets;
use crate::process::Processes;
use belljar_base::Map;
use belljar_linux_abi::Errno;
use belljar_linux_net::unix::UnixSocketInfo;
use belljar_linux_net::{Admin, Listeners, Multicast, NetworkName};
use belljar_netstack::Stack;
use belljar_objects::namespaces::NamespaceKind;

/// Host state that administrative operations read and notify: sockets, namespaces and warnings.
struct HostListeners<'a> {
    own: &'a mut OwnSockets,
    /// Number of the network whose stack is administered.
    network: u32,
    /// The first stack, which holds the sockets of the host's own families, if another stack is administered.
    first: Option<&'a mut Stack>,
    /// Further stacks that are not administered, by network number.
    others: Vec<(u32, &'a Stack)>,
    warnings: &'a mut Map<String, u64>,
    processes: &'a Processes,
    files: &'a Files,
    caller: Option<ProcessKey>,
}

impl Listeners for HostListeners<'_> {
    fn announce(&mut self, stack: &mut Stack, to: Multicast, message: &[u8]) {
        let keeper = self.first.as_deref_mut().unwrap_or(stack);
        self.own.netlink_announce(keeper, self.network, to, message);
    }
    fn interface_down(&mut self, stack: &mut Stack, interface: usize) {
        let keeper = self.first.as_deref_mut().unwrap_or(stack);
        self.own.packet_interface_down(keeper, (self.network, interface));
    }
    fn memberships(&self, stack: &Stack, interface: usize) -> (u32, u32) {
        self.own.memberships(self.first.as_deref().unwrap_or(stack), (self.network, interface))
    }
    fn unix_sockets(&self, stack: &Stack) -> Vec<UnixSocketInfo> {
        self.own.unix_shown(self.first.as_deref().unwrap_or(stack), self.network)
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
                let process =
                    self.processes.by_pid.get(&self.processes.meant_pid(caller, pid)).ok_or(Errno::ESRCH)?;
                self.processes.namespace(*process, NamespaceKind::Net)
            }
        };
        if number != self.network && self.other(number).is_none() {
            return Err(Errno::EINVAL);
        }
        let owner = self.processes.namespaces.owner(NamespaceKind::Net, number).unwrap_or(0);
        self.processes.require_in(caller, owner, capability::NET_ADMIN)?;
        Ok(number)
    }
    fn has_interface(&self, network: u32, name: &str) -> bool {
        self.other(network).is_some_and(|stack| stack.interfaces.by_name(name.as_bytes()).is_some())
    }
    fn warn(&mut self, text: String) {
        *self.warnings.entry(text).or_default() += 1;
    }
}

impl HostListeners<'_> {
    /// Stack of a network other than the administered one.
    fn other(&self, network: u32) -> Option<&Stack> {
        if network == 0 {
            return self.first.as_deref();
        }
        self.others.iter().find(|(number, _)| *number == network).map(|(_, stack)| *stack)
    }
}

impl Host {
    /// Runs an administrative operation on the stack of a network.
    pub(crate) fn administer<T>(&mut self, network: u32, operation: impl FnOnce(&mut Admin<'_>) -> T) -> T {
        // Addressing the stack brings its clock to the host's time.
        self.stack_mut(network);
        let (mut further, mut others) = (None, Vec::new());
        for (number, stack) in &mut self.networks.further {
            match *number == network {
                true => further = Some(&mut **stack),
                false => others.push((*number, &**stack)),
            }
        }
        let (net, first) = match further {
            Some(stack) => (stack, Some(&mut self.net)),
            None => (&mut self.net, None),
        };
        let mut listeners = HostListeners {
            own: &mut self.own,
            warnings: &mut self.warnings,
            processes: &self.processes,
            files: &self.files,
            network,
            first,
            others,
            caller: self.caller.map(|(_, process)| process),
        };
        let result = operation(&mut Admin { net, listeners: &mut listeners });
        net.log_routes();
        result
    }
}
