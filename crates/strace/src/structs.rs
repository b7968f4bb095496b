//! Structures in guest memory, abbreviated as by strace(1).

use super::format::{Formatter, address};
use super::names;
use belljar_linux_abi::c;

/// Permission bits of a mode, including set-user-ID, set-group-ID and sticky.
const PERMISSIONS: u32 = 0o7777;

/// Structure in guest memory.
#[derive(Clone, Copy, Debug)]
pub enum Struct {
    /// `struct stat`.
    Stat,
    /// `struct statx`.
    Statx,
    /// The kernel's `struct sigaction`.
    Sigaction,
    /// A signal set.
    Signals,
    /// `struct rlimit`.
    Rlimit,
    /// `struct timeval`.
    Timeval,
    /// `struct itimerspec`.
    Itimerspec,
    /// Status stored by wait(2).
    WaitStatus,
    /// A 32-bit number in decimal.
    Number,
    /// `struct sysinfo`, of which only the first word, the uptime, is shown.
    Uptime,
}

impl Formatter<'_> {
    /// Formats the structure at `addr`; the address if unreadable.
    pub fn structure(&self, what: Struct, addr: u64) -> String {
        let text = match what {
            Struct::Stat => self.stat(addr, (24, 4), 48),
            Struct::Statx => self.stat(addr, (28, 2), 40),
            Struct::Sigaction => self.sigaction(addr),
            Struct::Signals => Some(self.signal_set(addr)),
            Struct::Rlimit => self.rlimit(addr),
            Struct::Timeval => self.pair(addr, "tv_sec", "tv_usec"),
            Struct::Itimerspec => self.itimerspec(addr),
            Struct::WaitStatus => self.word(addr).map(wait_status),
            Struct::Number => self.word(addr).map(|word| format!("[{}]", word as i32)),
            Struct::Uptime => self.long(addr).map(|seconds| format!("{{uptime={seconds}, ...}}")),
        };
        text.unwrap_or_else(|| address(addr))
    }

    /// Main fields of a file's status; `mode` is the offset and length of the mode field.
    fn stat(&self, addr: u64, mode: (u64, usize), size: u64) -> Option<String> {
        let mut bytes = self.bytes(addr + mode.0, mode.1)?;
        bytes.resize(4, 0);
        let mode = u32::from_le_bytes(bytes[..].try_into().ok()?);
        let size = self.long(addr + size)?;
        let kind = names::one_of(names::FILE_TYPE, u64::from(mode & c::S_IFMT));
        Some(format!("{{st_mode={kind}|{:#o}, st_size={size}, ...}}", mode & PERMISSIONS))
    }

    fn sigaction(&self, addr: u64) -> Option<String> {
        let (handler, flags, mask) = (self.long(addr)?, self.long(addr + 8)?, addr + 24);
        let handler = match handler as usize {
            c::SIG_DFL => "SIG_DFL".to_owned(),
            c::SIG_IGN => "SIG_IGN".to_owned(),
            _ => address(handler),
        };
        let flags = names::flags(names::SIGACTION, flags);
        Some(format!("{{sa_handler={handler}, sa_mask={}, sa_flags={flags}}}", self.signal_set(mask)))
    }

    fn rlimit(&self, addr: u64) -> Option<String> {
        let limit = |value: u64| match value {
            u64::MAX => "RLIM64_INFINITY".to_owned(),
            value if value >= 1_024 && value.is_multiple_of(1_024) => format!("{}*1024", value / 1_024),
            value => value.to_string(),
        };
        Some(format!("{{rlim_cur={}, rlim_max={}}}", limit(self.long(addr)?), limit(self.long(addr + 8)?)))
    }

    fn pair(&self, addr: u64, first: &str, second: &str) -> Option<String> {
        Some(format!("{{{first}={}, {second}={}}}", self.long(addr)? as i64, self.long(addr + 8)?))
    }

    fn itimerspec(&self, addr: u64) -> Option<String> {
        let interval = self.pair(addr, "tv_sec", "tv_nsec")?;
        Some(format!("{{it_interval={interval}, it_value={}}}", self.pair(addr + 16, "tv_sec", "tv_nsec")?))
    }

    /// Formats a `struct msghdr` with `filled` bytes of its buffers; all of them if `None`.
    pub fn message(&self, addr: u64, filled: Option<u64>) -> String {
        let read = || {
            let [name, vector, count, control] = [0, 16, 24, 40].map(|at| self.long(addr + at));
            let (name_len, flags) = (self.word(addr + 8)?, self.word(addr + 48)?);
            let name = match name? {
                0 => "NULL".to_owned(),
                name => self.socket_address(name, name_len.into()),
            };
            let buffers = self.vector(vector?, count?, filled.unwrap_or(u64::MAX));
            Some(format!(
                "{{msg_name={name}, msg_namelen={name_len}, msg_iov={buffers}, msg_iovlen={}, msg_controllen={}, \
                 msg_flags={}}}",
                count?,
                control?,
                names::flags(names::MSG, flags.into()),
            ))
        };
        read().unwrap_or_else(|| address(addr))
    }

    /// Formats a descriptor set of select(2), with descriptors below `count`.
    pub fn fd_set(&self, addr: u64, count: u64) -> String {
        let len = (count.min(1_024) as usize).div_ceil(8);
        let Some(bits) = self.bytes(addr, len) else { return address(addr) };
        let is_set = |fd: &usize| bits[fd / 8] >> (fd % 8) & 1 != 0;
        let set: Vec<String> =
            (0..count.min(1_024) as usize).filter(is_set).map(|fd| fd.to_string()).collect();
        format!("[{}]", set.join(" "))
    }

    /// Formats the value of a socket option: as a number if it has the length of one.
    pub fn option_value(&self, addr: u64, len: u64) -> String {
        match len {
            4 => self.structure(Struct::Number, addr),
            _ => self.buffer(addr, len),
        }
    }
}

/// Formats a wait(2) status by its macros.
fn wait_status(status: u32) -> String {
    let signal = (status & 0x7f) as i32;
    match signal {
        0 => format!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {}}}]", status >> 8 & 0xff),
        0x7f if status == 0xffff => "[{WIFCONTINUED(s)}]".into(),
        0x7f => {
            format!("[{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}]", names::signal((status >> 8 & 0xff) as i32))
        }
        _ if status & 0x80 != 0 => {
            format!("[{{WIFSIGNALED(s) && WTERMSIG(s) == {} && WCOREDUMP(s)}}]", names::signal(signal))
        }
        _ => format!("[{{WIFSIGNALED(s) && WTERMSIG(s) == {}}}]", names::signal(signal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_by_the_macros_of_wait() {
        assert_eq!(wait_status(0x0300), "[{WIFEXITED(s) && WEXITSTATUS(s) == 3}]");
        assert_eq!(wait_status(9), "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}]");
        assert_eq!(wait_status(0x137f), "[{WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP}]");
        assert_eq!(wait_status(0xffff), "[{WIFCONTINUED(s)}]");
    }
}
