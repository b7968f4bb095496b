//! Settings of the stack as files of `/proc/sys/net`.

use crate::credentials::capability;
use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::Errno;
use belljar_netstack::conf::Scope;
use belljar_netstack::sysctl::Sysctl;
use belljar_objects::namespaces::NamespaceKind;

impl Host {
    /// `EACCES` unless a process may bind a socket to this port: one from `net.ipv4.ip_unprivileged_port_start` on, or by
    /// `CAP_NET_BIND_SERVICE`.
    pub(crate) fn may_bind_port(&self, process: ProcessKey, port: u16) -> Result<(), Errno> {
        if port == 0 || u32::from(port) >= self.net.sysctls.unprivileged_port_start {
            return Ok(());
        }
        let may = self.processes.require_for(process, NamespaceKind::Net, capability::NET_BIND_SERVICE);
        may.map_err(|_| Errno::EACCES)
    }

    /// The text of a setting, as reading it gives.
    pub(crate) fn sysctl(&mut self, which: Sysctl) -> String {
        self.net.sysctls.show(which)
    }

    /// Writes the setting.
    pub(crate) fn set_sysctl(&mut self, which: Sysctl, text: &[u8]) -> Result<(), Errno> {
        self.net.set_sysctl(which, text)
    }

    /// The text of a setting of an interface.
    pub(crate) fn interface_setting(&self, setting: InterfaceFileSetting) -> String {
        let InterfaceFileSetting { v6, setting, scope } = setting;
        format!("{}\n", self.net.interface_setting(v6, setting, scope))
    }

    /// Writes a setting of an interface: one whole number.
    pub(crate) fn set_interface_setting(
        &mut self,
        setting: InterfaceFileSetting,
        text: &[u8],
    ) -> Result<(), Errno> {
        let InterfaceFileSetting { v6, setting, scope } = setting;
        let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        let word = text.split_whitespace().next().ok_or(Errno::EINVAL)?;
        let value = word.trim_end_matches('\0').parse().map_err(|_| Errno::EINVAL)?;
        self.net.set_interface_setting(v6, setting, scope, value)
    }
}

/// A file below `/proc/sys/net/ipv4/conf` or `ipv6/conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceFileSetting {
    /// Of IPv6.
    pub v6: bool,
    /// Its place in the family's table.
    pub setting: usize,
    /// The directory that it is in.
    pub scope: Scope,
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
