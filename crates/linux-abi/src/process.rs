//! Structures of process and system information.

use crate::time::Timeval;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct rusage` of `getrusage(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Rusage {
    pub utime: Timeval,
    pub stime: Timeval,
    /// Maximum resident set size in kilobytes.
    pub maxrss: i64,
    pub ixrss: i64,
    pub idrss: i64,
    pub isrss: i64,
    pub minflt: i64,
    pub majflt: i64,
    pub nswap: i64,
    pub inblock: i64,
    pub oublock: i64,
    pub msgsnd: i64,
    pub msgrcv: i64,
    pub nsignals: i64,
    pub nvcsw: i64,
    pub nivcsw: i64,
}

/// `struct tms` of `times(2)`, in clock ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Tms {
    pub utime: i64,
    pub stime: i64,
    pub cutime: i64,
    pub cstime: i64,
}

/// `struct sysinfo` of `sysinfo(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct SysInfo {
    /// Time since boot in seconds.
    pub uptime: i64,
    /// Load averages times 65,536.
    pub loads: [u64; 3],
    pub totalram: u64,
    pub freeram: u64,
    pub sharedram: u64,
    pub bufferram: u64,
    pub totalswap: u64,
    pub freeswap: u64,
    pub procs: u16,
    pub pad: [u16; 3],
    pub totalhigh: u64,
    pub freehigh: u64,
    /// Unit of the memory sizes in bytes.
    pub mem_unit: u32,
    pub pad2: u32,
}

/// `struct timex` of `adjtimex(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct Timex {
    pub modes: u32,
    pub pad: i32,
    pub offset: i64,
    pub freq: i64,
    pub maxerror: i64,
    pub esterror: i64,
    pub status: i32,
    pub pad2: i32,
    pub constant: i64,
    pub precision: i64,
    pub tolerance: i64,
    pub time: Timeval,
    pub tick: i64,
    pub ppsfreq: i64,
    pub jitter: i64,
    pub shift: i32,
    pub pad3: i32,
    pub stabil: i64,
    pub jitcnt: i64,
    pub calcnt: i64,
    pub errcnt: i64,
    pub stbcnt: i64,
    pub tai: i32,
    pub pad4: [i32; 11],
}

/// `struct sigevent` of `timer_create(2)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, IntoBytes, FromBytes, Immutable, KnownLayout)]
pub struct SigEvent {
    /// `sigev_value`.
    pub value: u64,
    /// `sigev_signo`.
    pub signo: i32,
    /// `SIGEV_*`.
    pub notify: i32,
    /// `sigev_notify_thread_id`.
    pub tid: i32,
    /// Remaining bytes of the union.
    pub pad: [i32; 11],
}

/// `struct pidfd_info` in its first form.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, FromBytes, Immutable, KnownLayout)]
#[allow(missing_docs)]
pub struct PidfdInfo {
    pub mask: u64,
    pub cgroup: u64,
    pub pid: u32,
    pub tgid: u32,
    pub ppid: u32,
    /// Real, effective, saved and file-system user id, each followed by the group id.
    pub ids: [[u32; 2]; 4],
    pub exit_code: i32,
}

/// Bits of [`PidfdInfo::mask`].
pub const PIDFD_INFO_PID: u64 = 1 << 0;
/// See [`PIDFD_INFO_PID`].
pub const PIDFD_INFO_CREDS: u64 = 1 << 1;
/// See [`PIDFD_INFO_PID`].
pub const PIDFD_INFO_CGROUPID: u64 = 1 << 2;
/// See [`PIDFD_INFO_PID`].
pub const PIDFD_INFO_EXIT: u64 = 1 << 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_linux() {
        assert_eq!(size_of::<Rusage>(), size_of::<libc::rusage>());
        assert_eq!(size_of::<Tms>(), size_of::<libc::tms>());
        assert_eq!(size_of::<SysInfo>(), size_of::<libc::sysinfo>());
        assert_eq!(size_of::<Timex>(), size_of::<libc::timex>());
        assert_eq!(size_of::<SigEvent>(), size_of::<libc::sigevent>());
        assert_eq!(size_of::<PidfdInfo>(), 64);
    }
}
