//! Files and socket options that programs ask for in vain, which the summary names: the first suspects when a
//! program works on a machine and not in a simulation.

use crate::call::Call;
use crate::ids::SocketKey;
use crate::outcome::SysResult;
use belljar_linux_abi::socket_options::option_name;
use belljar_linux_abi::{Errno, c};

/// Number of different warnings of a host above which further files are not listed.
const WARNINGS: usize = 200;
/// Trees that every machine has, in whose files programs look for what the kernel is like.
const NOTED: [&[u8]; 2] = [b"/proc/sys/", b"/sys/"];
/// Trees for hardware and for mounts that many machines do not have.
const ABSENT: [&[u8]; 4] = [b"/sys/bus/", b"/sys/firmware/", b"/sys/fs/cgroup/", b"/sys/hypervisor/"];

impl Call<'_> {
    /// Result of opening `path`; a missing file of `/proc/sys` or `/sys` is noted.
    pub(crate) fn note_missing<T>(&mut self, path: &[u8], opened: Result<T, Errno>) -> Result<T, Errno> {
        let is_below = |trees: &[&[u8]]| trees.iter().any(|tree| path.starts_with(tree));
        if matches!(opened, Err(Errno::ENOENT)) && is_below(&NOTED) && !is_below(&ABSENT) {
            self.note(|program| format!("{program} found no {}", String::from_utf8_lossy(path)));
        }
        opened
    }
    /// Result of a call for an option of a level; an unknown option is noted, but for a level that sockets of the domain do
    /// not have on Linux either.
    pub(crate) fn note_option(
        &mut self,
        key: SocketKey,
        (level, option): (i32, i32),
        result: SysResult,
    ) -> SysResult {
        let is_foreign = match self.host.socket(key).domain {
            c::AF_INET => level == c::IPPROTO_IPV6,
            c::AF_UNIX => level != c::SOL_SOCKET,
            _ => false,
        };
        if let Err(errno @ (Errno::ENOPROTOOPT | Errno::EOPNOTSUPP)) = result
            && !is_foreign
        {
            let (level, option) = option_name(level, option);
            self.note(|program| format!("{program} got {errno} for the option {option} of {level}"));
        }
        result
    }
    #[cold]
    fn note(&mut self, what: impl FnOnce(&str) -> String) {
        if self.host.warnings().len() < WARNINGS {
            let name = self.host.thread(self.thread).comm.clone();
            self.host.warn(what(&String::from_utf8_lossy(&name)));
        }
    }
}
