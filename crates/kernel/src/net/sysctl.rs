//! Settings of the stack, `/proc/sys/net`, that the kernel consults.

use crate::credentials::capability;
use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::Errno;
use belljar_objects::namespaces::NamespaceKind;

impl Host {
    /// `EACCES` unless a process may bind a socket to `port`: the port is 0, not below
    /// `net.ipv4.ip_unprivileged_port_start`, or the process has `CAP_NET_BIND_SERVICE`.
    pub(crate) fn may_bind_port(&self, process: ProcessKey, port: u16) -> Result<(), Errno> {
        let network = self.processes.namespace(process, NamespaceKind::Net);
        if port == 0 || u32::from(port) >= self.stack(network).sysctls.unprivileged_port_start {
            return Ok(());
        }
        let may = self.processes.require_for(process, NamespaceKind::Net, capability::NET_BIND_SERVICE);
        may.map_err(|_| Errno::EACCES)
    }
}
