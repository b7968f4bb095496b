//! Faults that an experiment brings upon a host: of its disk, and of the results of system calls.

use belljar_base::SimDuration;
use belljar_linux_abi::Errno;

/// Fault of a host's disk, as long as it lasts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskFault {
    /// Least and largest time that a sync takes.
    pub sync_time: Option<(SimDuration, SimDuration)>,
    /// Number of syncs that fail with `EIO`; their data never reaches the disk.
    pub sync_errors: u32,
    /// True if nothing can be allocated: `ENOSPC`.
    pub full: bool,
    /// Probability that a read fails with `EIO`.
    pub read_errors: f64,
    /// Probability that a read finds a wrong bit, which stays wrong.
    pub bit_rot: f64,
    /// Files that are concerned: a path in which `*` stands for any characters. `None` for all files of the host's own layer.
    pub path: Option<String>,
}

/// Result that a system call may have at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallResult {
    /// Fewer bytes of a stream than asked for.
    Short,
    /// A signal handler ran while the call waited.
    Interrupted,
    /// Nothing to read, or no room to write, by now.
    Again,
    /// No memory.
    NoMemory,
    /// Too many files of the process.
    ProcessFiles,
    /// Too many files of the system.
    SystemFiles,
    /// The connection was reset.
    Reset,
    /// The connection timed out.
    TimedOut,
}

impl CallResult {
    /// Results with their names in experiments and results.
    pub const NAMES: &'static [(&'static str, CallResult)] = &[
        ("short", CallResult::Short),
        ("EINTR", CallResult::Interrupted),
        ("EAGAIN", CallResult::Again),
        ("ENOMEM", CallResult::NoMemory),
        ("EMFILE", CallResult::ProcessFiles),
        ("ENFILE", CallResult::SystemFiles),
        ("ECONNRESET", CallResult::Reset),
        ("ETIMEDOUT", CallResult::TimedOut),
    ];

    /// Name in experiments and results.
    pub fn name(self) -> &'static str {
        let found = CallResult::NAMES.iter().find(|(_, result)| *result == self);
        found.map_or("", |(name, _)| name)
    }
    /// Error number; `None` for a short transfer.
    pub fn errno(self) -> Option<Errno> {
        match self {
            CallResult::Short => None,
            CallResult::Interrupted => Some(Errno::EINTR),
            CallResult::Again => Some(Errno::EAGAIN),
            CallResult::NoMemory => Some(Errno::ENOMEM),
            CallResult::ProcessFiles => Some(Errno::EMFILE),
            CallResult::SystemFiles => Some(Errno::ENFILE),
            CallResult::Reset => Some(Errno::ECONNRESET),
            CallResult::TimedOut => Some(Errno::ETIMEDOUT),
        }
    }
}

/// Fault of the results of a host's system calls, as long as it lasts.
#[derive(Clone, Debug, PartialEq)]
pub enum CallFault {
    /// Each call that may have one of the results has one with this probability.
    Drawn {
        /// Results, not empty.
        results: Vec<CallResult>,
        /// Probability for each call.
        rate: f64,
    },
    /// One call has a result.
    One(ForcedResult),
}

/// Call that is to have a result, by its number among the calls of a process since the fault began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedResult {
    /// Process id on the host.
    pub pid: i32,
    /// Name of the system call.
    pub call: &'static str,
    /// Number of the call among those with this name, from 1.
    pub number: u64,
    /// Its result.
    pub result: CallResult,
}

/// System calls whose results a fault may change, with their numbers: see [`CallResult`].
pub const FAULTY_CALLS: &[(&str, u32)] = &[
    ("read", 0),
    ("write", 1),
    ("open", 2),
    ("poll", 7),
    ("mmap", 9),
    ("readv", 19),
    ("writev", 20),
    ("pipe", 22),
    ("select", 23),
    ("mremap", 25),
    ("dup", 32),
    ("pause", 34),
    ("nanosleep", 35),
    ("socket", 41),
    ("connect", 42),
    ("accept", 43),
    ("sendto", 44),
    ("recvfrom", 45),
    ("sendmsg", 46),
    ("recvmsg", 47),
    ("socketpair", 53),
    ("clone", 56),
    ("fork", 57),
    ("vfork", 58),
    ("wait4", 61),
    ("semop", 65),
    ("msgsnd", 69),
    ("msgrcv", 70),
    ("flock", 73),
    ("creat", 85),
    ("rt_sigsuspend", 130),
    ("futex", 202),
    ("epoll_create", 213),
    ("semtimedop", 220),
    ("clock_nanosleep", 230),
    ("epoll_wait", 232),
    ("mq_timedsend", 242),
    ("mq_timedreceive", 243),
    ("waitid", 247),
    ("inotify_init", 253),
    ("openat", 257),
    ("pselect6", 270),
    ("ppoll", 271),
    ("epoll_pwait", 281),
    ("signalfd", 282),
    ("timerfd_create", 283),
    ("eventfd", 284),
    ("accept4", 288),
    ("signalfd4", 289),
    ("eventfd2", 290),
    ("epoll_create1", 291),
    ("pipe2", 293),
    ("inotify_init1", 294),
    ("recvmmsg", 299),
    ("sendmmsg", 307),
    ("memfd_create", 319),
    ("clone3", 435),
    ("openat2", 437),
    ("epoll_pwait2", 441),
];

impl CallResult {
    /// True if Linux may give this result to a call with this number, for some object.
    pub fn suits(self, number: u32) -> bool {
        let name = FAULTY_CALLS.iter().find(|(_, known)| *known == number).map_or("", |(name, _)| name);
        let is_among = |names: &[&str]| names.contains(&name);
        match self {
            CallResult::Short => {
                is_among(&["read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg"])
            }
            CallResult::Again => {
                let moves = ["read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg"];
                is_among(&moves) || is_among(&["accept", "accept4"])
            }
            CallResult::Interrupted => {
                let never =
                    ["open", "openat", "openat2", "creat", "mmap", "mremap", "dup", "socket", "socketpair"];
                let makers = ["pipe", "pipe2", "clone", "clone3", "fork", "vfork", "memfd_create"];
                let events =
                    ["epoll_create", "epoll_create1", "eventfd", "eventfd2", "signalfd", "signalfd4"];
                let others = ["timerfd_create", "inotify_init", "inotify_init1", ""];
                !(is_among(&never) || is_among(&makers) || is_among(&events) || is_among(&others))
            }
            CallResult::NoMemory => is_among(&["mmap", "mremap", "clone", "clone3", "fork", "vfork"]),
            CallResult::ProcessFiles => Self::makes_files(name),
            CallResult::SystemFiles => name != "dup" && Self::makes_files(name),
            CallResult::Reset | CallResult::TimedOut => {
                is_among(&["read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg"])
            }
        }
    }

    /// True for calls that give new descriptors.
    fn makes_files(name: &str) -> bool {
        let open = ["open", "openat", "openat2", "creat", "memfd_create", "pipe", "pipe2", "dup"];
        let sockets = ["socket", "socketpair", "accept", "accept4"];
        let events = ["epoll_create", "epoll_create1", "eventfd", "eventfd2", "signalfd", "signalfd4"];
        let others = ["timerfd_create", "inotify_init", "inotify_init1"];
        open.contains(&name) || sockets.contains(&name) || events.contains(&name) || others.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_suit_calls() {
        let number = |name| FAULTY_CALLS.iter().find(|(known, _)| *known == name).expect("a call").1;
        assert!(CallResult::Short.suits(number("read")) && !CallResult::Short.suits(number("open")));
        assert!(
            CallResult::ProcessFiles.suits(number("dup")) && !CallResult::SystemFiles.suits(number("dup"))
        );
        assert!(CallResult::Interrupted.suits(number("epoll_wait")) && !CallResult::Interrupted.suits(3));
        for (name, result) in CallResult::NAMES {
            assert_eq!(result.name(), *name);
            assert!(FAULTY_CALLS.iter().any(|(_, number)| result.suits(*number)), "{name}");
        }
        assert!(FAULTY_CALLS.is_sorted_by_key(|(_, number)| number));
    }
}
