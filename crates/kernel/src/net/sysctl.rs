//! Settings of the stack as files of `/proc/sys/net`.

use crate::host::Host;
use belljar_linux_abi::Errno;
use belljar_netstack::sysctl::Sysctl;

impl Host {
    /// The text of a setting, as reading it gives.
    pub(crate) fn sysctl(&mut self, which: Sysctl) -> String {
        self.net.sysctls.show(which)
    }

    /// Writes the setting.
    pub(crate) fn set_sysctl(&mut self, which: Sysctl, text: &[u8]) -> Result<(), Errno> {
        self.net.sysctls.set(which, text)
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
