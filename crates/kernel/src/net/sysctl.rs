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

#[cfg(test)]
mod tests {
    use crate::files::virtual_files::tunable;
    use belljar_linux_abi::sysctl::{SETTINGS, Values};
    use belljar_netstack::sysctl::Sysctls;

    #[test]
    fn what_an_experiment_can_set_is_there_and_takes_the_values_that_are_said() {
        for (name, values) in SETTINGS {
            let which = tunable(name).unwrap_or_else(|| panic!("no {name}"));
            let mut sysctls = Sysctls::default();
            let (good, bad) = match values {
                Values::Number { least, greatest } => {
                    (vec![least.to_string(), greatest.to_string()], "-1".to_owned())
                }
                Values::Whole => (vec!["0".to_owned(), "7".to_owned()], "x".to_owned()),
                Values::Sizes => (vec!["4096 8192 16384".to_owned()], "0 1 2".to_owned()),
                Values::OneOf(words) => {
                    (words.iter().map(|word| (*word).to_owned()).collect(), "none".into())
                }
            };
            for value in good {
                assert_eq!(sysctls.set(which, value.as_bytes()), Ok(()), "{name} {value}");
                assert_eq!(
                    sysctls.show(which).split_whitespace().collect::<Vec<_>>().join(" "),
                    value,
                    "{name}"
                );
            }
            assert!(sysctls.set(which, bad.as_bytes()).is_err(), "{name} {bad}");
        }
    }
}
