//! Settings of `/proc/sys` that kernel subsystems hold.

use crate::credentials::capability;
use crate::host::Host;
use belljar_linux_abi::Errno;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::virtual_files::KernelSetting;
use std::ops::RangeInclusive;

/// Maximum length of the names of `uname(2)` in bytes.
const NAME_MAX: usize = 64;
/// Range of `fs.nr_open`. Linux permits values up to 2^31, but such a descriptor table would not fit into
/// memory.
const NR_OPEN: RangeInclusive<u64> = 64..=4_194_304;

impl Host {
    /// Text of a setting.
    pub(super) fn kernel_setting(&mut self, which: KernelSetting) -> String {
        let name = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned() + "\n";
        match which {
            KernelSetting::Name(which) => name(self.node_names()[which].clone()),
            KernelSetting::Keys(limit) => format!("{}\n", self.keys.limit(limit)),
            KernelSetting::Ipc(number) => self.ipc.number(number),
            KernelSetting::NrOpen => format!("{}\n", self.files.most_descriptors),
            KernelSetting::Protected(which) => format!("{}\n", self.files.protected.get(which)),
        }
    }
    /// Handles a write of a setting. `EINVAL` for invalid values.
    pub(super) fn set_kernel_setting(&mut self, which: KernelSetting, text: &[u8]) -> Result<(), Errno> {
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let number = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse::<u64>().ok());
        match which {
            KernelSetting::Name(which) => {
                let process = self.caller.ok_or(Errno::EPERM)?.1;
                self.processes.require_for(process, NamespaceKind::Uts, capability::SYS_ADMIN)?;
                let uts = self.processes.namespace(process, NamespaceKind::Uts);
                let names = &mut self.processes.namespaces.plain.get_mut(NamespaceKind::Uts, uts).names;
                names[which] = Some(line[..line.len().min(NAME_MAX)].to_vec());
            }
            KernelSetting::Keys(limit) => {
                let number = number.and_then(|number| i32::try_from(number).ok());
                *self.keys.limit(limit) = number.ok_or(Errno::EINVAL)?.into();
            }
            KernelSetting::Ipc(which) => self.ipc.set_number(which, number.ok_or(Errno::EINVAL)?)?,
            KernelSetting::NrOpen => {
                let number = number.filter(|number| NR_OPEN.contains(number));
                self.files.most_descriptors = number.ok_or(Errno::EINVAL)?;
            }
            KernelSetting::Protected(which) => {
                self.files.protected.set(which, number.ok_or(Errno::EINVAL)?)?;
            }
        }
        Ok(())
    }
}
