//! Names of flags and values.

use super::text::{Text, push_hex};
use belljar_linux_abi::c;

/// Values with their names.
pub type ValueNames = &'static [(u64, &'static str)];

macro_rules! names {
    ($($(#[$doc:meta])* $list:ident: $($name:ident)*;)*) => {$(
        $(#[$doc])*
        pub const $list: ValueNames = &[$((c::$name as u32 as u64, stringify!($name))),*];
    )*};
}

names! {
    /// open(2)
    OPEN: O_WRONLY O_RDWR O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC O_DIRECT
        O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH;
    /// The `AT_*` flags.
    AT: AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH;
    /// access(2)
    ACCESS: R_OK W_OK X_OK;
    /// lseek(2)
    SEEK: SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE;
    /// mmap(2)
    PROT: PROT_READ PROT_WRITE PROT_EXEC;
    /// mmap(2)
    MAP: MAP_SHARED MAP_PRIVATE MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN MAP_DENYWRITE MAP_NORESERVE
        MAP_POPULATE MAP_STACK MAP_FIXED_NOREPLACE;
    /// ioctl(2)
    IOCTL: TCGETS TIOCGWINSZ FIONREAD FIONBIO FIOCLEX FIONCLEX TIOCGPGRP TIOCSPGRP;
    /// fcntl(2)
    FCNTL: F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_DUPFD_CLOEXEC F_SETPIPE_SZ
        F_GETPIPE_SZ;
    /// wait(2)
    WAIT: WNOHANG WUNTRACED WCONTINUED __WALL;
    /// clone(2)
    CLONE: CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_VFORK CLONE_THREAD CLONE_SYSVSEM
        CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_CHILD_SETTID;
    /// sigprocmask(2)
    SIGMASK: SIG_BLOCK SIG_UNBLOCK SIG_SETMASK;
    /// clock_gettime(2)
    CLOCK: CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
        CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME;
    /// The types of files.
    FILE_TYPE: S_IFREG S_IFDIR S_IFLNK S_IFCHR S_IFBLK S_IFIFO S_IFSOCK;
    /// getrlimit(2)
    RESOURCE: RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC
        RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE
        RLIMIT_RTPRIO RLIMIT_RTTIME;
    /// socket(2)
    FAMILY: AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET;
    /// socket(2)
    SOCKET_TYPE: SOCK_STREAM SOCK_DGRAM SOCK_CLOEXEC SOCK_NONBLOCK;
    /// send(2), recv(2)
    MSG: MSG_OOB MSG_PEEK MSG_TRUNC MSG_DONTWAIT MSG_WAITALL MSG_NOSIGNAL MSG_MORE MSG_ERRQUEUE
        MSG_CMSG_CLOEXEC;
    /// setsockopt(2)
    LEVEL: SOL_SOCKET SOL_TCP SOL_IP SOL_IPV6 SOL_UDP;
    /// epoll_ctl(2)
    EPOLL_CTL: EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD;
    /// poll(2)
    POLL: POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL POLLRDHUP;
    /// epoll_ctl(2)
    EPOLL: EPOLLIN EPOLLPRI EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDHUP EPOLLEXCLUSIVE EPOLLONESHOT EPOLLET;
    /// signal(7)
    SIGNAL: SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE
        SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ
        SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS;
}

/// Commands of futex(2), without `FUTEX_PRIVATE_FLAG`.
pub const FUTEX: ValueNames = &[
    (0, "FUTEX_WAIT"),
    (1, "FUTEX_WAKE"),
    (3, "FUTEX_REQUEUE"),
    (4, "FUTEX_CMP_REQUEUE"),
    (5, "FUTEX_WAKE_OP"),
    (6, "FUTEX_LOCK_PI"),
    (7, "FUTEX_UNLOCK_PI"),
    (9, "FUTEX_WAIT_BITSET"),
    (10, "FUTEX_WAKE_BITSET"),
    (128, "FUTEX_WAIT_PRIVATE"),
    (129, "FUTEX_WAKE_PRIVATE"),
    (132, "FUTEX_CMP_REQUEUE_PRIVATE"),
    (133, "FUTEX_WAKE_OP_PRIVATE"),
    (137, "FUTEX_WAIT_BITSET_PRIVATE"),
    (138, "FUTEX_WAKE_BITSET_PRIVATE"),
    (393, "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME"),
];

/// sigaction(2)
pub const SIGACTION: ValueNames = &[
    // Set by the C library, not by programs.
    (0x0400_0000, "SA_RESTORER"),
    (c::SA_NOCLDSTOP as u32 as u64, "SA_NOCLDSTOP"),
    (c::SA_NOCLDWAIT as u32 as u64, "SA_NOCLDWAIT"),
    (c::SA_SIGINFO as u32 as u64, "SA_SIGINFO"),
    (c::SA_ONSTACK as u32 as u64, "SA_ONSTACK"),
    (c::SA_RESTART as u32 as u64, "SA_RESTART"),
    (c::SA_NODEFER as u32 as u64, "SA_NODEFER"),
    (c::SA_RESETHAND as u32 as u64, "SA_RESETHAND"),
];

/// Name of `value`, or the number.
pub fn one_of(names: ValueNames, value: u64) -> String {
    let value = u64::from(value as u32);
    names.iter().find(|(v, _)| *v == value).map_or_else(|| format!("{value:#x}"), |(_, name)| (*name).into())
}

/// Names of all bits of `value`; unnamed bits in hexadecimal.
pub fn flags(names: ValueNames, value: u64) -> String {
    let mut text = Text::default();
    push_flags(&mut text, names, value);
    text.into_string()
}

/// Appends the names of all bits of `value`; unnamed bits in hexadecimal.
pub fn push_flags(out: &mut Text, names: ValueNames, value: u64) {
    if value as u32 == 0 {
        return out.push('0');
    }
    let begin = out.len();
    let mut rest = u64::from(value as u32);
    for (bits, name) in names {
        if rest == 0 {
            break;
        }
        if *bits != 0 && rest & bits == *bits {
            if out.len() > begin {
                out.push('|');
            }
            out.push_str(name);
            rest &= !bits;
        }
    }
    if rest != 0 {
        if out.len() > begin {
            out.push('|');
        }
        push_hex(out, rest);
    }
}

/// Name of a signal.
pub fn signal(number: i32) -> String {
    match SIGNAL.iter().find(|(v, _)| *v == number as u64) {
        Some((_, name)) => (*name).into(),
        None if number >= 32 => format!("SIGRT_{}", number - 32),
        None => number.to_string(),
    }
}
