//! Settings of `/proc/sys` that a part of the kernel keeps.

use crate::host::Host;
use belljar_linux_abi::Errno;
use belljar_objects::keys::KeyLimit;
use belljar_objects::sysv::IpcNumber;
use std::ops::RangeInclusive;

/// The length of the longest name that `uname(2)` tells.
const NAME_MAX: usize = 64;
/// The values of `fs.nr_open`; Linux takes up to 2^31, of which a table of descriptors would not fit into memory.
const NR_OPEN: RangeInclusive<u64> = 64..=4_194_304;

/// A setting, by whom it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KernelSetting {
    HostName,
    DomainName,
    Keys(KeyLimit),
    Ipc(IpcNumber),
    NrOpen,
}

impl Host {
    /// Its text.
    pub(super) fn kernel_setting(&mut self, which: KernelSetting) -> String {
        let name = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned() + "\n";
        match which {
            KernelSetting::HostName => name(self.node_name()),
            KernelSetting::DomainName => name(self.domain_name()),
            KernelSetting::Keys(limit) => format!("{}\n", self.keys.limit(limit)),
            KernelSetting::Ipc(number) => self.ipc.number(number),
            KernelSetting::NrOpen => format!("{}\n", self.files.most_descriptors),
        }
    }
    /// It has been written. `EINVAL` for what it cannot be.
    pub(super) fn set_kernel_setting(&mut self, which: KernelSetting, text: &[u8]) -> Result<(), Errno> {
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let name = || Some(line[..line.len().min(NAME_MAX)].to_vec());
        let number = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse::<u64>().ok());
        match which {
            KernelSetting::HostName => self.set_names[0] = name(),
            KernelSetting::DomainName => self.set_names[1] = name(),
            KernelSetting::Keys(limit) => {
                let number = number.and_then(|number| i32::try_from(number).ok());
                *self.keys.limit(limit) = number.ok_or(Errno::EINVAL)?.into();
            }
            KernelSetting::Ipc(which) => self.ipc.set_number(which, number.ok_or(Errno::EINVAL)?)?,
            KernelSetting::NrOpen => {
                let number = number.filter(|number| NR_OPEN.contains(number));
                self.files.most_descriptors = number.ok_or(Errno::EINVAL)?;
            }
        }
        Ok(())
    }
}
