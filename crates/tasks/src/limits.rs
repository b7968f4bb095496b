//! Resource limits of processes, `getrlimit(2)`.

use crate::process::{Process, Processes, Rlimit};
use belljar_linux_abi::{Errno, c};
use belljar_objects::ids::ProcessKey;
use std::fmt::Write;

/// Names, resource numbers and units, in the order of `/proc/<pid>/limits`.
const LIMITS: &[(&str, u32, &str)] = &[
    ("Max cpu time", c::RLIMIT_CPU, "seconds"),
    ("Max file size", c::RLIMIT_FSIZE, "bytes"),
    ("Max data size", c::RLIMIT_DATA, "bytes"),
    ("Max stack size", c::RLIMIT_STACK, "bytes"),
    ("Max core file size", c::RLIMIT_CORE, "bytes"),
    ("Max resident set", c::RLIMIT_RSS, "bytes"),
    ("Max processes", c::RLIMIT_NPROC, "processes"),
    ("Max open files", c::RLIMIT_NOFILE, "files"),
    ("Max locked memory", c::RLIMIT_MEMLOCK, "bytes"),
    ("Max address space", c::RLIMIT_AS, "bytes"),
    ("Max file locks", c::RLIMIT_LOCKS, "locks"),
    ("Max pending signals", c::RLIMIT_SIGPENDING, "signals"),
    ("Max msgqueue size", c::RLIMIT_MSGQUEUE, "bytes"),
    ("Max nice priority", c::RLIMIT_NICE, ""),
    ("Max realtime priority", c::RLIMIT_RTPRIO, ""),
    ("Max realtime timeout", c::RLIMIT_RTTIME, "us"),
];

impl Process {
    /// Initial limits of an experiment's processes: the defaults of Linux.
    pub fn default_rlimits() -> [Rlimit; 16] {
        const INFINITE: u64 = u64::MAX;
        let mut limits = [Rlimit { soft: INFINITE, hard: INFINITE }; 16];
        let mut set = |resource: u32, soft, hard| limits[resource as usize] = Rlimit { soft, hard };
        set(c::RLIMIT_STACK, 8 << 20, INFINITE);
        set(c::RLIMIT_CORE, 0, INFINITE);
        set(c::RLIMIT_NPROC, 16_384, 16_384);
        set(c::RLIMIT_NOFILE, 1_024, 1_048_576);
        set(c::RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
        set(c::RLIMIT_SIGPENDING, 16_384, 16_384);
        set(c::RLIMIT_MSGQUEUE, 819_200, 819_200);
        set(c::RLIMIT_NICE, 0, 0);
        set(c::RLIMIT_RTPRIO, 0, 0);
        limits
    }
}

impl Processes {
    /// Checks `RLIMIT_NPROC`: `EAGAIN` if the user has that many threads; root is exempt.
    pub fn check_task_limit(&self, process: ProcessKey) -> Result<(), Errno> {
        let own = &self[process.0];
        let (user, limit) = (own.credentials.ruid, own.rlimits[c::RLIMIT_NPROC as usize].soft);
        if user == 0 || limit == u64::MAX {
            return Ok(());
        }
        let of_user = self.iter().filter(|(_, other)| other.credentials.ruid == user);
        let count: usize = of_user.map(|(_, other)| other.threads.len().max(1)).sum();
        if count as u64 >= limit { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// Text of `/proc/<pid>/limits`.
    pub fn limits_text(&self, key: ProcessKey) -> String {
        let show = |value: u64| if value == u64::MAX { "unlimited".into() } else { value.to_string() };
        let mut text = format!("{:<26}{:<21}{:<21}{:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
        for (name, resource, unit) in LIMITS {
            let limit = self[key.0].rlimits[*resource as usize];
            let _ = writeln!(text, "{name:<26}{:<21}{:<21}{unit:<10}", show(limit.soft), show(limit.hard));
        }
        text
    }
}
