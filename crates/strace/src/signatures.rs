//! Signatures of system calls: the types of their arguments.

use super::names::{self, ValueNames};
use super::structs::Struct::{
    self, Itimerspec, Number, Rlimit, Sigaction, Signals, Stat, Statx, Timeval, Uptime,
};
use super::text::Short;

/// Type of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A file descriptor.
    Fd,
    /// A directory file descriptor, or `AT_FDCWD`.
    DirFd,
    /// A signed number.
    Int,
    /// An unsigned number.
    Size,
    /// An address, or another value shown in hexadecimal.
    Hex,
    /// Flags of open(2): an access mode and named bits.
    OpenFlags,
    /// A file mode in octal.
    Mode,
    /// A zero-terminated string.
    Path,
    /// A buffer read by the call; the argument with this index is its length.
    In(usize),
    /// A buffer written by the call; the result is its length.
    Out,
    /// A vector of buffers read by the call; the argument with this index is their number.
    InVector(usize),
    /// A vector of buffers written by the call; the argument with this index is their number.
    OutVector(usize),
    /// Named bits.
    Flags(ValueNames),
    /// One of several named values.
    OneOf(ValueNames),
    /// A signal number.
    Signal,
    /// A socket address; the argument with this index is its length.
    Address(usize),
    /// A socket address written by the call; the argument with this index points to its length.
    AddressOut(usize),
    /// A `struct timespec`.
    Timespec,
    /// A `struct timespec` written by the call.
    TimespecOut,
    /// A zero-terminated vector of strings.
    Strings,
    /// An array of `struct pollfd`; the argument with this index is its length.
    PollFds(usize),
    /// Two file descriptors written by the call.
    FdPair,
    /// A structure read by the call.
    Struct(Struct),
    /// A structure written by the call.
    StructOut(Struct),
    /// A child's status, stored by wait(2).
    StatusOut,
    /// A `struct msghdr` to be sent.
    Message,
    /// A `struct msghdr` filled by the call.
    MessageOut,
    /// A descriptor set; the first argument is the number of descriptors.
    FdSet,
    /// An option value; the argument with this index is its length.
    Option(usize),
    /// An option value stored by the call; the argument with this index points to its length.
    OptionOut(usize),
    /// A signal set.
    SignalSet,
    /// A `struct epoll_event`.
    EpollEvent,
    /// An array of `struct epoll_event` written by the call; the result is its length.
    EpollEventsOut,
    /// Address of a futex word, whose value is not shown.
    Word,
}

use Arg::{Struct as Read, StructOut as Store, *};

/// Signature of a call.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Name and opening parenthesis.
    pub head: Short<24>,
    /// Argument types.
    pub arguments: &'static [Arg],
}

/// Signatures of all calls, indexed by number: a search by name would cost more than the formatting.
#[derive(Debug)]
pub struct Signatures(Vec<std::option::Option<Signature>>);

impl Signatures {
    /// Signatures of the calls below `limit`, with names from `name_of`.
    pub fn new(limit: u32, name_of: impl Fn(u32) -> std::option::Option<&'static str>) -> Signatures {
        let signature = |name: &'static str| Signature {
            head: Short::new(format!("{name}(").as_bytes()).expect("no name is longer"),
            arguments: by_name(name),
        };
        Signatures((0..limit).map(|number| name_of(number).map(signature)).collect())
    }
    /// Signature of a call by its number.
    pub fn of(&self, number: u32) -> std::option::Option<&Signature> {
        self.0.get(number as usize)?.as_ref()
    }
}

/// True if the arguments of a call are untyped and shown in hexadecimal.
pub fn is_plain(name: &str) -> bool {
    described(name).is_none()
}

/// Argument types of call `name`. Calls without a description show their arguments in hexadecimal.
fn by_name(name: &str) -> &'static [Arg] {
    const PLAIN: &[Arg] = &[Hex; 6];
    described(name).unwrap_or_else(|| &PLAIN[..super::arity::of(name)])
}

fn described(name: &str) -> std::option::Option<&'static [Arg]> {
    let arguments: &'static [Arg] = match name {
        "read" => &[Fd, Out, Size],
        "write" => &[Fd, In(2), Size],
        "pread64" => &[Fd, Out, Size, Int],
        "pwrite64" => &[Fd, In(2), Size, Int],
        "readv" => &[Fd, OutVector(2), Size],
        "writev" => &[Fd, InVector(2), Size],
        "open" => &[Path, OpenFlags, Mode],
        "openat" => &[DirFd, Path, OpenFlags, Mode],
        "creat" | "mkdir" | "chmod" => &[Path, Mode],
        "close" | "fsync" | "fdatasync" | "dup" | "fchdir" | "syncfs" => &[Fd],
        "close_range" => &[Fd, Fd, Hex],
        "stat" | "lstat" => &[Path, Store(Stat)],
        "statfs" => &[Path, Hex],
        "fstat" => &[Fd, Store(Stat)],
        "fstatfs" => &[Fd, Hex],
        "newfstatat" => &[DirFd, Path, Store(Stat), Flags(names::AT)],
        "statx" => &[DirFd, Path, Flags(names::AT), Hex, Store(Statx)],
        "access" => &[Path, Flags(names::ACCESS)],
        "faccessat" | "faccessat2" => &[DirFd, Path, Flags(names::ACCESS), Flags(names::AT)],
        "lseek" => &[Fd, Int, OneOf(names::SEEK)],
        "mmap" => &[Hex, Size, Flags(names::PROT), Flags(names::MAP), Fd, Int],
        "mprotect" => &[Hex, Size, Flags(names::PROT)],
        "munmap" => &[Hex, Size],
        "mremap" => &[Hex, Size, Size, Hex, Hex],
        "madvise" => &[Hex, Size, Int],
        "brk" => &[Hex],
        "ioctl" => &[Fd, OneOf(names::IOCTL), Hex],
        "fcntl" => &[Fd, OneOf(names::FCNTL), Hex],
        "dup2" => &[Fd, Fd],
        "dup3" => &[Fd, Fd, Flags(names::OPEN)],
        "pipe" => &[FdPair],
        "pipe2" => &[FdPair, Flags(names::OPEN)],
        "getcwd" | "getrandom" => &[Out, Size],
        "chdir" | "rmdir" | "unlink" | "chroot" => &[Path],
        "rename" | "link" | "symlink" => &[Path, Path],
        "renameat" => &[DirFd, Path, DirFd, Path],
        "renameat2" => &[DirFd, Path, DirFd, Path, Hex],
        "unlinkat" => &[DirFd, Path, Flags(names::AT)],
        "mkdirat" => &[DirFd, Path, Mode],
        "readlink" => &[Path, Out, Size],
        "readlinkat" => &[DirFd, Path, Out, Size],
        "symlinkat" => &[Path, DirFd, Path],
        "ftruncate" => &[Fd, Int],
        "truncate" => &[Path, Int],
        "fchmod" => &[Fd, Mode],
        "fchmodat" => &[DirFd, Path, Mode],
        "getdents64" | "getdents" => &[Fd, Hex, Size],
        "sendfile" => &[Fd, Fd, Hex, Size],
        "flock" => &[Fd, Int],
        "execve" => &[Path, Strings, Hex],
        "execveat" => &[DirFd, Path, Strings, Hex, Flags(names::AT)],
        "exit" | "exit_group" | "umask" => &[Int],
        "wait4" => &[Int, StatusOut, Flags(names::WAIT), Hex],
        "clone" => &[Flags(names::CLONE), Hex, Hex, Hex, Hex],
        "clone3" => &[Hex, Size],
        "kill" | "tkill" => &[Int, Signal],
        "tgkill" => &[Int, Int, Signal],
        "rt_sigaction" => &[Signal, Read(Sigaction), Store(Sigaction), Size],
        "rt_sigprocmask" => &[OneOf(names::SIGMASK), SignalSet, Store(Signals), Size],
        "rt_sigsuspend" => &[SignalSet, Size],
        "rt_sigtimedwait" => &[SignalSet, Hex, Timespec, Size],
        "sigaltstack" => &[Hex, Hex],
        "futex" => &[Word, OneOf(names::FUTEX), Int, Hex, Hex, Hex],
        "nanosleep" => &[Timespec, Hex],
        "clock_nanosleep" => &[OneOf(names::CLOCK), Int, Timespec, Hex],
        "clock_gettime" | "clock_getres" => &[OneOf(names::CLOCK), TimespecOut],
        "gettimeofday" => &[Store(Timeval), Hex],
        "socket" => &[OneOf(names::FAMILY), Flags(names::SOCKET_TYPE), Int],
        "socketpair" => &[OneOf(names::FAMILY), Flags(names::SOCKET_TYPE), Int, FdPair],
        "bind" | "connect" => &[Fd, Address(2), Size],
        "listen" | "shutdown" => &[Fd, Int],
        "accept" | "getsockname" | "getpeername" => &[Fd, AddressOut(2), Hex],
        "accept4" => &[Fd, AddressOut(2), Hex, Flags(names::SOCKET_TYPE)],
        "sendto" => &[Fd, In(2), Size, Flags(names::MSG), Address(5), Size],
        "recvfrom" => &[Fd, Out, Size, Flags(names::MSG), AddressOut(5), Hex],
        "sendmsg" => &[Fd, Message, Flags(names::MSG)],
        "recvmsg" => &[Fd, MessageOut, Flags(names::MSG)],
        "setsockopt" => &[Fd, OneOf(names::LEVEL), Int, Option(4), Size],
        "getsockopt" => &[Fd, OneOf(names::LEVEL), Int, OptionOut(4), Store(Number)],
        "poll" => &[PollFds(1), Size, Int],
        "ppoll" => &[PollFds(1), Size, Timespec, SignalSet, Size],
        "select" => &[Int, FdSet, FdSet, FdSet, Read(Timeval)],
        "pselect6" => &[Int, FdSet, FdSet, FdSet, Timespec, Hex],
        "epoll_create" => &[Int],
        "epoll_create1" => &[Flags(names::OPEN)],
        "epoll_ctl" => &[Fd, OneOf(names::EPOLL_CTL), Fd, EpollEvent],
        "epoll_wait" => &[Fd, EpollEventsOut, Int, Int],
        "epoll_pwait" => &[Fd, EpollEventsOut, Int, Int, SignalSet, Size],
        "eventfd2" => &[Int, Flags(names::OPEN)],
        "timerfd_create" => &[OneOf(names::CLOCK), Flags(names::OPEN)],
        "timerfd_settime" => &[Fd, Int, Read(Itimerspec), Store(Itimerspec)],
        "timerfd_gettime" => &[Fd, Store(Itimerspec)],
        "timer_settime" => &[Int, Int, Read(Itimerspec), Store(Itimerspec)],
        "eventfd" => &[Int],
        "prctl" => &[Hex, Hex, Hex],
        "set_tid_address" | "uname" | "times" => &[Hex],
        "sysinfo" => &[Store(Uptime)],
        "set_robust_list" | "rseq" => &[Hex, Size],
        "prlimit64" => &[Int, OneOf(names::RESOURCE), Read(Rlimit), Store(Rlimit)],
        "getrlimit" => &[OneOf(names::RESOURCE), Store(Rlimit)],
        "setrlimit" => &[OneOf(names::RESOURCE), Read(Rlimit)],
        "getrusage" => &[Int, Hex],
        "sched_getaffinity" | "sched_setaffinity" => &[Int, Size, Hex],
        "getpid" | "gettid" | "getppid" | "getuid" | "geteuid" | "getgid" | "getegid" | "sched_yield"
        | "pause" | "getpgrp" | "sync" | "rt_sigreturn" | "fork" | "vfork" => &[],
        "time" | "alarm" => &[Hex],
        _ => return None,
    };
    Some(arguments)
}
