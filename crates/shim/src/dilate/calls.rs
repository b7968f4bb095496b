//! System calls that involve time: their numbers, the conditions under which the shim intercepts them, and
//! their handlers.

use super::memory::native;
use super::{error, exec, interruptible, rings, signals, sockets, stamps, timeouts, usage, waits};
use super::{timer_descriptors, timer_thread, timers};

/// Numbers of system calls.
#[allow(missing_docs)]
pub mod nr {
    pub const READ: u64 = 0;
    pub const WRITE: u64 = 1;
    pub const OPEN: u64 = 2;
    pub const CLOSE: u64 = 3;
    pub const STAT: u64 = 4;
    pub const FSTAT: u64 = 5;
    pub const LSTAT: u64 = 6;
    pub const POLL: u64 = 7;
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const MADVISE: u64 = 28;
    pub const RT_SIGACTION: u64 = 13;
    pub const RT_SIGPROCMASK: u64 = 14;
    pub const IOCTL: u64 = 16;
    pub const READV: u64 = 19;
    pub const WRITEV: u64 = 20;
    pub const PREAD64: u64 = 17;
    pub const SELECT: u64 = 23;
    pub const MREMAP: u64 = 25;
    pub const NANOSLEEP: u64 = 35;
    pub const GETITIMER: u64 = 36;
    pub const ALARM: u64 = 37;
    pub const SETITIMER: u64 = 38;
    pub const GETPID: u64 = 39;
    pub const CONNECT: u64 = 42;
    pub const ACCEPT: u64 = 43;
    pub const SENDTO: u64 = 44;
    pub const RECVFROM: u64 = 45;
    pub const SENDMSG: u64 = 46;
    pub const RECVMSG: u64 = 47;
    pub const SETSOCKOPT: u64 = 54;
    pub const GETSOCKOPT: u64 = 55;
    pub const CLONE: u64 = 56;
    pub const EXECVE: u64 = 59;
    pub const KILL: u64 = 62;
    pub const CHDIR: u64 = 80;
    pub const EXIT_GROUP: u64 = 231;
    pub const WAIT4: u64 = 61;
    pub const SEMOP: u64 = 65;
    pub const UNAME: u64 = 63;
    pub const FCNTL: u64 = 72;
    pub const READLINK: u64 = 89;
    pub const GETTIMEOFDAY: u64 = 96;
    pub const GETRUSAGE: u64 = 98;
    pub const SYSINFO: u64 = 99;
    pub const TIMES: u64 = 100;
    pub const RT_SIGPENDING: u64 = 127;
    pub const RT_SIGTIMEDWAIT: u64 = 128;
    pub const RT_SIGSUSPEND: u64 = 130;
    pub const UTIME: u64 = 132;
    pub const PRCTL: u64 = 157;
    pub const ADJTIMEX: u64 = 159;
    pub const SETTIMEOFDAY: u64 = 164;
    pub const TIME: u64 = 201;
    pub const FUTEX: u64 = 202;
    pub const IO_GETEVENTS: u64 = 208;
    pub const SEMTIMEDOP: u64 = 220;
    pub const GETDENTS64: u64 = 217;
    pub const TIMER_CREATE: u64 = 222;
    pub const TIMER_SETTIME: u64 = 223;
    pub const TIMER_GETTIME: u64 = 224;
    pub const TIMER_DELETE: u64 = 226;
    pub const CLOCK_SETTIME: u64 = 227;
    pub const CLOCK_GETTIME: u64 = 228;
    pub const CLOCK_GETRES: u64 = 229;
    pub const CLOCK_NANOSLEEP: u64 = 230;
    pub const EPOLL_WAIT: u64 = 232;
    pub const TGKILL: u64 = 234;
    pub const UTIMES: u64 = 235;
    pub const MQ_TIMEDSEND: u64 = 242;
    pub const MQ_TIMEDRECEIVE: u64 = 243;
    pub const WAITID: u64 = 247;
    pub const FUTIMESAT: u64 = 261;
    pub const NEWFSTATAT: u64 = 262;
    pub const OPENAT: u64 = 257;
    pub const PSELECT6: u64 = 270;
    pub const PPOLL: u64 = 271;
    pub const UTIMENSAT: u64 = 280;
    pub const EPOLL_PWAIT: u64 = 281;
    pub const TIMERFD_SETTIME: u64 = 286;
    pub const TIMERFD_GETTIME: u64 = 287;
    pub const ACCEPT4: u64 = 288;
    pub const SIGNALFD4: u64 = 289;
    pub const RECVMMSG: u64 = 299;
    pub const CLOCK_ADJTIME: u64 = 305;
    pub const SENDMMSG: u64 = 307;
    pub const GETCPU: u64 = 309;
    pub const GETTID: u64 = 186;
    pub const SECCOMP: u64 = 317;
    pub const EXECVEAT: u64 = 322;
    pub const STATX: u64 = 332;
    pub const IO_PGETEVENTS: u64 = 333;
    pub const IO_URING_SETUP: u64 = 425;
    pub const CLONE3: u64 = 435;
    pub const FACCESSAT2: u64 = 439;
    pub const EPOLL_PWAIT2: u64 = 441;
    pub const FUTEX_WAITV: u64 = 449;
    pub const FUTEX_WAIT: u64 = 455;
}

/// Condition under which a call is intercepted.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Unconditionally.
    Always,
    /// The call fails: the kernel appears to lack it.
    Never,
    /// At least one of these arguments is not zero.
    Given(&'static [u8]),
    /// The first argument, a number of milliseconds, is positive, or the second one is not zero.
    Milliseconds(u8, Option<u8>),
    /// The argument has one of these values.
    OneOf(u8, &'static [u32]),
    /// A futex wait with a timeout.
    Futex,
    /// The call blocks signals.
    Blocks,
    /// A socket option with a time value; names at the levels SOL_SOCKET, IPPROTO_TCP and SOL_PACKET.
    Option(&'static [u32], &'static [u32], &'static [u32]),
}

use When::{Always, Blocks, Futex, Given, Milliseconds, Never, OneOf};

/// Intercepted calls, the frequent ones first.
pub const CALLS: &[(u64, When)] = &[
    (nr::FUTEX, Futex),
    (nr::EPOLL_WAIT, Milliseconds(3, None)),
    (nr::EPOLL_PWAIT, Milliseconds(3, Some(4))),
    (nr::POLL, Milliseconds(2, None)),
    (nr::PPOLL, Given(&[2, 3])),
    (nr::CLOCK_GETTIME, Always),
    (nr::SELECT, Given(&[4])),
    (nr::PSELECT6, Given(&[4, 5])),
    (nr::EPOLL_PWAIT2, Given(&[3, 4])),
    (nr::RT_SIGPROCMASK, Blocks),
    (nr::RT_SIGACTION, Always),
    (nr::FSTAT, Always),
    (nr::NEWFSTATAT, Always),
    (nr::STAT, Always),
    (nr::LSTAT, Always),
    (nr::STATX, Always),
    (nr::NANOSLEEP, Always),
    (nr::CLOCK_NANOSLEEP, Always),
    (nr::GETTIMEOFDAY, Always),
    (nr::TIME, Always),
    (nr::SETSOCKOPT, When::Option(sockets::TIMES, sockets::TCP_TIMES, &[rings::RX_RING])),
    (nr::GETSOCKOPT, When::Option(sockets::TIMES, sockets::TCP_TIMES, &[])),
    (nr::RECVMMSG, Given(&[4])),
    (nr::IOCTL, OneOf(1, &[sockets::SIOCGSTAMP, sockets::SIOCGSTAMPNS])),
    (nr::TIMERFD_SETTIME, Always),
    (nr::TIMERFD_GETTIME, Always),
    (nr::TIMER_CREATE, Always),
    (nr::TIMER_SETTIME, Always),
    (nr::TIMER_GETTIME, Always),
    (nr::TIMER_DELETE, Always),
    (nr::SETITIMER, Always),
    (nr::GETITIMER, Always),
    (nr::ALARM, Always),
    (nr::EXECVE, Always),
    (nr::EXECVEAT, Always),
    (nr::WAIT4, Given(&[3])),
    (nr::WAITID, Given(&[4])),
    (nr::GETRUSAGE, Always),
    (nr::TIMES, Always),
    (nr::SYSINFO, Always),
    (nr::RT_SIGTIMEDWAIT, Given(&[2])),
    (nr::RT_SIGSUSPEND, Always),
    (nr::SEMTIMEDOP, Given(&[3])),
    (nr::MQ_TIMEDSEND, Given(&[4])),
    (nr::MQ_TIMEDRECEIVE, Given(&[4])),
    (nr::IO_GETEVENTS, Given(&[4])),
    (nr::IO_PGETEVENTS, Given(&[4, 5])),
    (nr::FUTEX_WAITV, Given(&[3])),
    (nr::FUTEX_WAIT, Given(&[4])),
    (nr::UTIMENSAT, Given(&[2])),
    (nr::UTIMES, Given(&[1])),
    (nr::UTIME, Given(&[1])),
    (nr::FUTIMESAT, Given(&[2])),
    (nr::PRCTL, OneOf(0, &[usage::PR_GET_TSC, usage::PR_SET_TSC])),
    (nr::ADJTIMEX, Always),
    (nr::CLOCK_ADJTIME, Always),
    (nr::SETTIMEOFDAY, Always),
    (nr::CLOCK_SETTIME, Always),
    // clone3 can reset signal handlers (CLONE_CLEAR_SIGHAND): C libraries fall back to clone.
    (nr::CLONE3, Never),
    (nr::IO_URING_SETUP, Never),
];

/// Calls also intercepted once a process has requested packet timestamps.
pub const OF_PACKETS: &[(u64, When)] = &[(nr::RECVMSG, Always), (nr::RECVMMSG, Always)];

/// Calls also intercepted in a host that is frozen in turns: freezing ends them with EINTR.
pub const OF_FROZEN: &[(u64, When)] = &[
    (nr::EPOLL_WAIT, Given(&[3])),
    (nr::EPOLL_PWAIT, Given(&[3])),
    (nr::EPOLL_PWAIT2, Always),
    (nr::RT_SIGTIMEDWAIT, Always),
    (nr::SEMOP, Always),
    (nr::SEMTIMEDOP, Always),
    (nr::IO_GETEVENTS, Always),
];

/// Calls also intercepted in a host whose processes are stopped by signals: the stops must be invisible.
pub const OF_STOPPED: &[(u64, When)] = &[(nr::WAIT4, Always), (nr::WAITID, Always)];

/// Handles a call. `mask` is the set of signals that the guest blocks, which a call may change.
pub fn answer(number: u64, args: [u64; 6], mask: &mut u64) -> i64 {
    match number {
        nr::FUTEX => waits::futex(args),
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => waits::epoll(number, args),
        nr::POLL | nr::PPOLL => rings::poll(number, args),
        nr::MMAP => rings::map(args),
        nr::SELECT | nr::PSELECT6 => waits::select(number, args),
        nr::CLOCK_GETTIME => usage::clock_gettime(args),
        nr::GETTIMEOFDAY => usage::gettimeofday(args),
        nr::TIME => usage::time(args),
        nr::RT_SIGPROCMASK => signals::block(args, mask),
        nr::RT_SIGACTION => signals::action(args),
        nr::RT_SIGSUSPEND => signals::suspend(args),
        nr::FSTAT | nr::NEWFSTATAT | nr::STAT | nr::LSTAT | nr::STATX => stamps::stat(number, args),
        nr::UTIMENSAT | nr::UTIMES | nr::UTIME | nr::FUTIMESAT => stamps::set(number, args),
        nr::NANOSLEEP | nr::CLOCK_NANOSLEEP => waits::sleep(number, args),
        nr::SETSOCKOPT => sockets::set_option(args),
        nr::GETSOCKOPT => sockets::get_option(args),
        nr::READ | nr::READV | nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG | nr::ACCEPT | nr::ACCEPT4 => {
            timeouts::answer(number, args)
        }
        nr::WRITE | nr::WRITEV | nr::SENDTO | nr::SENDMSG | nr::SENDMMSG | nr::CONNECT => {
            timeouts::answer(number, args)
        }
        nr::IOCTL => sockets::last_stamp(args),
        nr::TIMERFD_SETTIME => timer_descriptors::set(args),
        nr::TIMERFD_GETTIME => timer_descriptors::get(args),
        nr::TIMER_CREATE => timers::create(args),
        nr::TIMER_SETTIME => timers::set(args),
        nr::TIMER_GETTIME => timers::get(args),
        nr::TIMER_DELETE => timers::delete(args),
        nr::SETITIMER => timers::set_interval(args),
        nr::GETITIMER => timers::get_interval(args),
        nr::ALARM => timers::alarm(args),
        nr::EXIT_GROUP => timer_descriptors::end(args),
        nr::GETDENTS64 => timer_thread::list(args),
        nr::EXECVE | nr::EXECVEAT => exec::execute(number, args),
        nr::WAIT4 | nr::WAITID | nr::GETRUSAGE => usage::of_process(number, args),
        nr::TIMES => usage::times(args),
        nr::SYSINFO => usage::sysinfo(args),
        nr::RT_SIGTIMEDWAIT => interruptible::signal(args),
        nr::SEMOP | nr::SEMTIMEDOP => interruptible::semaphores(number, args),
        nr::MQ_TIMEDSEND | nr::MQ_TIMEDRECEIVE => waits::queue(number, args),
        nr::IO_GETEVENTS | nr::IO_PGETEVENTS => interruptible::io_events(number, args),
        nr::FUTEX_WAITV | nr::FUTEX_WAIT => waits::futexes(number, args),
        nr::PRCTL => usage::counter(args),
        nr::ADJTIMEX | nr::CLOCK_ADJTIME => usage::adjust(number, args),
        // The experiment controls the host's clock.
        nr::SETTIMEOFDAY | nr::CLOCK_SETTIME => error::PERM,
        nr::CLONE3 | nr::IO_URING_SETUP => error::NOSYS,
        // A filter of the guest's own may have trapped the call.
        _ => native(number, args),
    }
}
