//! Table of all x86-64 Linux system calls: number, name, support level, handler, and a note on missing parts.
//! `docs/syscalls.md` is generated from it.
//!
//! A missing number is a compile-time error.

use super::*;
use crate::call::Call;
use crate::outcome::SysResult;
use belljar_linux_abi::Errno;

/// Support level of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Equivalent to Linux as far as programs can observe; covered by a guest test.
    Full,
    /// The parts named in the note are missing.
    Partial,
    /// Accepted; the effect does not exist on a simulated host.
    NoEffect,
    /// Fails with `ENOSYS`, or the error in the note, with a warning that the summary counts.
    Unsupported,
}

/// Entry of one system call.
pub struct SyscallEntry {
    /// System call number.
    pub number: u32,
    /// Name.
    pub name: &'static str,
    /// Support level.
    pub support: Support,
    /// Missing parts.
    pub note: &'static str,
    handler: fn(&mut Call<'_>) -> SysResult,
}

macro_rules! table {
    ($($number:literal $name:ident = $support:ident, $handler:path, $note:literal;)*) => {
        /// All system calls in ascending order of number.
        pub const ENTRIES: &[SyscallEntry] = &[$(SyscallEntry {
            number: $number,
            name: stringify!($name),
            support: Support::$support,
            note: $note,
            handler: $handler,
        }),*];
    };
}

/// Numbers that x86-64 Linux has never assigned.
const GAP: std::ops::Range<u32> = 335..424;

/// Index into [`ENTRIES`] by number. Compilation fails if the table is out of order or has gaps.
const INDEX: [u16; ENTRIES[ENTRIES.len() - 1].number as usize + 1] = {
    let mut index = [u16::MAX; ENTRIES[ENTRIES.len() - 1].number as usize + 1];
    let (mut at, mut expected) = (0, 0);
    while at < ENTRIES.len() {
        assert!(ENTRIES[at].number == expected, "a system call is missing or out of order");
        index[expected as usize] = at as u16;
        at += 1;
        expected += 1;
        if expected == GAP.start {
            expected = GAP.end;
        }
    }
    index
};

/// Entry of a system call; `None` for an unassigned number.
#[inline]
pub fn entry(number: u32) -> Option<&'static SyscallEntry> {
    ENTRIES.get(usize::from(*INDEX.get(number as usize)?))
}

/// Exclusive upper bound on system call numbers.
pub fn limit() -> u32 {
    INDEX.len() as u32
}

/// Runs the handler of the call's number.
#[inline(always)]
pub fn dispatch(call: &mut Call<'_>) -> SysResult {
    let outcome = match entry(call.number) {
        Some(entry) => (entry.handler)(call),
        // A tracer has set the number to -1 to skip the call.
        None if call.number == u32::MAX => Err(Errno::ENOSYS),
        None => {
            call.host.warn(format!("unknown system call {}", call.number));
            Err(Errno::ENOSYS)
        }
    };
    call.host.carry_out_effects();
    outcome
}

/// Handler of unsupported calls: returns `ENOSYS` and counts a warning for the summary.
fn unsupported(call: &mut Call<'_>) -> SysResult {
    let name = entry(call.number).map_or("?", |entry| entry.name);
    call.host.warn(format!("system call {name} is not supported"));
    Err(Errno::ENOSYS)
}

table! {
    0 read = Full, files::sys_read, "";
    1 write = Full, files::sys_write, "";
    2 open = Full, files::sys_open, "";
    3 close = Full, descriptors::sys_close, "";
    4 stat = Full, stat::sys_stat, "";
    5 fstat = Full, stat::sys_fstat, "";
    6 lstat = Full, stat::sys_lstat, "";
    7 poll = Full, poll::sys_poll, "";
    8 lseek = Full, files::sys_lseek, "";
    9 mmap = Partial, memory::sys_mmap, "what grows downwards grows by what programs touch, not by what calls read or write there; MAP_HUGETLB is ENOMEM; RLIMIT_DATA is not enforced";
    10 mprotect = Partial, memory::sys_mprotect, "PROT_GROWSDOWN and PROT_GROWSUP have no effect, PROT_SEM is EINVAL; where a part of the range is not mapped nothing changes, not even what lies before it";
    11 munmap = Partial, memory::sys_munmap, "a range beyond the addresses of user space succeeds where nothing is mapped in it; no limit on the number of mappings";
    12 brk = Partial, memory::sys_brk, "RLIMIT_DATA is not enforced; the heap ends at the next mapping or with the addresses of its process";
    13 rt_sigaction = Full, signal::sys_rt_sigaction, "";
    14 rt_sigprocmask = Full, signal::sys_rt_sigprocmask, "";
    15 rt_sigreturn = Full, signal::sys_rt_sigreturn, "";
    16 ioctl = Partial, descriptors::sys_ioctl, "close-on-exec, FIONBIO, FIONREAD, flags of files and the requests of terminals, TUN devices, namespaces and sockets; all others are ENOTTY or EINVAL";
    17 pread64 = Full, files::sys_pread64, "";
    18 pwrite64 = Full, files::sys_pwrite64, "";
    19 readv = Full, vectors::sys_readv, "";
    20 writev = Full, vectors::sys_writev, "";
    21 access = Full, stat::sys_access, "";
    22 pipe = Full, pipes::sys_pipe, "";
    23 select = Full, select::sys_select, "";
    24 sched_yield = Full, sched::sys_sched_yield, "";
    25 mremap = Partial, memory::sys_mremap, "MREMAP_DONTUNMAP and growing in place only of private anonymous memory";
    26 msync = Partial, memory::sys_msync, "checks its arguments only, as a shared mapping is the file itself";
    27 mincore = Partial, memory::sys_mincore, "pages of files are always resident; a page that this machine has swapped out is not";
    28 madvise = Partial, memory::sys_madvise, "MADV_FREE frees nothing; no MADV_COLLAPSE, MADV_HWPOISON or MADV_SOFT_OFFLINE";
    29 shmget = Full, shm::sys_shmget, "";
    30 shmat = Full, shm::sys_shmat, "";
    31 shmctl = Full, shm::sys_shmctl, "";
    32 dup = Full, descriptors::sys_dup, "";
    33 dup2 = Full, descriptors::sys_dup2, "";
    34 pause = Full, signal::sys_pause, "";
    35 nanosleep = Full, time::sys_nanosleep, "";
    36 getitimer = Partial, timers::sys_getitimer, "processor time counts calls, a microsecond each";
    37 alarm = Full, timers::sys_alarm, "";
    38 setitimer = Partial, timers::sys_setitimer, "processor time counts calls, a microsecond each";
    39 getpid = Full, process::sys_getpid, "";
    40 sendfile = Full, transfer::sys_sendfile, "";
    41 socket = Partial, socket::sys_socket, "families INET, INET6, UNIX, PACKET and NETLINK (route, sock_diag, generic without families)";
    42 connect = Full, socket::sys_connect, "";
    43 accept = Full, socket::sys_accept, "";
    44 sendto = Partial, socket_io::sys_sendto, "no MSG_OOB on UNIX sockets; MSG_ZEROCOPY copies, and says when Linux would";
    45 recvfrom = Partial, socket_io::sys_recvfrom, "no MSG_OOB on UNIX sockets";
    46 sendmsg = Partial, socket_io::sys_sendmsg, "no MSG_OOB on UNIX sockets; MSG_ZEROCOPY copies, and says when Linux would";
    47 recvmsg = Partial, socket_io::sys_recvmsg, "no MSG_OOB on UNIX sockets";
    48 shutdown = Full, socket::sys_shutdown, "";
    49 bind = Full, socket::sys_bind, "";
    50 listen = Full, socket::sys_listen, "";
    51 getsockname = Full, socket::sys_getsockname, "";
    52 getpeername = Full, socket::sys_getpeername, "";
    53 socketpair = Full, socket::sys_socketpair, "";
    54 setsockopt = Partial, sockopt::sys_setsockopt, "filters on TCP and UNIX sockets have no effect";
    55 getsockopt = Partial, sockopt::sys_getsockopt, "filters on TCP and UNIX sockets have no effect";
    56 clone = Partial, clone::sys_clone, "no new namespaces for one of several threads";
    57 fork = Full, clone::sys_fork, "";
    58 vfork = Full, clone::sys_vfork, "";
    59 execve = Partial, exec::sys_execve, "x86-64 ELF images and scripts; no binfmt_misc, no file capabilities; RLIMIT_STACK does not bound arguments, 2 MiB do";
    60 exit = Full, process::sys_exit, "";
    61 wait4 = Full, wait::sys_wait4, "";
    62 kill = Full, signal::sys_kill, "";
    63 uname = Full, misc::sys_uname, "";
    64 semget = Full, sem::sys_semget, "";
    65 semop = Full, sem::sys_semop, "";
    66 semctl = Full, sem::sys_semctl, "";
    67 shmdt = Full, shm::sys_shmdt, "";
    68 msgget = Full, msg::sys_msgget, "";
    69 msgsnd = Full, msg::sys_msgsnd, "";
    70 msgrcv = Full, msg::sys_msgrcv, "";
    71 msgctl = Full, msg::sys_msgctl, "";
    72 fcntl = Full, descriptors::sys_fcntl, "";
    73 flock = Full, descriptors::sys_flock, "";
    74 fsync = NoEffect, files::sys_fsync, "the machine keeps what was written, but for crashes with `files: unsynced`";
    75 fdatasync = NoEffect, files::sys_fdatasync, "the machine keeps what was written, but for crashes with `files: unsynced`";
    76 truncate = Full, files::sys_truncate, "";
    77 ftruncate = Full, files::sys_ftruncate, "";
    78 getdents = Full, directories::sys_getdents, "";
    79 getcwd = Full, directories::sys_getcwd, "";
    80 chdir = Full, directories::sys_chdir, "";
    81 fchdir = Full, directories::sys_fchdir, "";
    82 rename = Full, paths::sys_rename, "";
    83 mkdir = Full, paths::sys_mkdir, "";
    84 rmdir = Full, paths::sys_rmdir, "";
    85 creat = Full, files::sys_creat, "";
    86 link = Full, paths::sys_link, "";
    87 unlink = Full, paths::sys_unlink, "";
    88 symlink = Full, paths::sys_symlink, "";
    89 readlink = Full, paths::sys_readlink, "";
    90 chmod = Full, paths::sys_chmod, "";
    91 fchmod = Full, paths::sys_fchmod, "";
    92 chown = Full, paths::sys_chown, "";
    93 fchown = Full, paths::sys_fchown, "";
    94 lchown = Full, paths::sys_lchown, "";
    95 umask = Full, process::sys_umask, "";
    96 gettimeofday = Full, time::sys_gettimeofday, "";
    97 getrlimit = Partial, limits::sys_getrlimit, "only those of addresses, descriptors, processes, queued signals, message queues and processor time are enforced";
    98 getrusage = Partial, limits::sys_getrusage, "processor time counts calls, a microsecond each; all that is mapped counts as in memory";
    99 sysinfo = Full, misc::sys_sysinfo, "";
    100 times = Partial, limits::sys_times, "processor time counts calls, a microsecond each";
    101 ptrace = Partial, ptrace::sys_ptrace, "no SYSEMU or seccomp stops, no watchpoints of reads; hardware breakpoints and watchpoints single-step; a tracer is a process";
    102 getuid = Full, identity::sys_getuid, "";
    103 syslog = Partial, misc::sys_syslog, "lines of netfilter rules; SYSLOG_ACTION_READ returns none";
    104 getgid = Full, identity::sys_getgid, "";
    105 setuid = Full, identity::sys_setuid, "";
    106 setgid = Full, identity::sys_setgid, "";
    107 geteuid = Full, identity::sys_geteuid, "";
    108 getegid = Full, identity::sys_getegid, "";
    109 setpgid = Full, process::sys_setpgid, "";
    110 getppid = Full, process::sys_getppid, "";
    111 getpgrp = Full, process::sys_getpgrp, "";
    112 setsid = Full, process::sys_setsid, "";
    113 setreuid = Full, identity::sys_setreuid, "";
    114 setregid = Full, identity::sys_setregid, "";
    115 getgroups = Full, identity::sys_getgroups, "";
    116 setgroups = Full, identity::sys_setgroups, "";
    117 setresuid = Full, identity::sys_setresuid, "";
    118 getresuid = Full, identity::sys_getresuid, "";
    119 setresgid = Full, identity::sys_setresgid, "";
    120 getresgid = Full, identity::sys_getresgid, "";
    121 getpgid = Full, process::sys_getpgid, "";
    122 setfsuid = Full, identity::sys_setfsuid, "";
    123 setfsgid = Full, identity::sys_setfsgid, "";
    124 getsid = Full, process::sys_getsid, "";
    125 capget = Full, capabilities::sys_capget, "";
    126 capset = Full, capabilities::sys_capset, "";
    127 rt_sigpending = Full, signal::sys_rt_sigpending, "";
    128 rt_sigtimedwait = Full, signal::sys_rt_sigtimedwait, "";
    129 rt_sigqueueinfo = Full, signal::sys_rt_sigqueueinfo, "";
    130 rt_sigsuspend = Full, signal::sys_rt_sigsuspend, "";
    131 sigaltstack = Full, signal::sys_sigaltstack, "";
    132 utime = Full, paths::sys_utime, "";
    133 mknod = Partial, paths::sys_mknod, "block devices, and character devices that hosts do not have, cannot be opened";
    134 uselib = Unsupported, unsupported, "";
    135 personality = NoEffect, process::sys_personality, "kept and shown";
    136 ustat = Full, stat::sys_ustat, "";
    137 statfs = Partial, stat::sys_statfs, "sizes of file systems are made up";
    138 fstatfs = Partial, stat::sys_fstatfs, "sizes of file systems are made up";
    139 sysfs = Full, stat::sys_sysfs, "";
    140 getpriority = NoEffect, sched::sys_getpriority, "kept and shown";
    141 setpriority = NoEffect, sched::sys_setpriority, "kept and shown";
    142 sched_setparam = NoEffect, sched::sys_sched_setparam, "kept and shown";
    143 sched_getparam = NoEffect, sched::sys_sched_getparam, "kept and shown";
    144 sched_setscheduler = NoEffect, sched::sys_sched_setscheduler, "kept and shown";
    145 sched_getscheduler = NoEffect, sched::sys_sched_getscheduler, "kept and shown";
    146 sched_get_priority_max = NoEffect, sched::sys_sched_get_priority_max, "kept and shown";
    147 sched_get_priority_min = NoEffect, sched::sys_sched_get_priority_min, "kept and shown";
    148 sched_rr_get_interval = NoEffect, sched::sys_sched_rr_get_interval, "kept and shown";
    149 mlock = NoEffect, memory::sys_mlock, "counted, limited and shown";
    150 munlock = NoEffect, memory::sys_munlock, "counted, limited and shown";
    151 mlockall = NoEffect, memory::sys_mlockall, "counted, limited and shown";
    152 munlockall = NoEffect, memory::sys_munlockall, "counted, limited and shown";
    153 vhangup = Partial, misc::sys_vhangup, "files of the terminal stay usable";
    154 modify_ldt = Unsupported, unsupported, "";
    155 pivot_root = Full, mounts::sys_pivot_root, "";
    156 _sysctl = Unsupported, unsupported, "";
    157 prctl = Partial, process::sys_prctl, "names, death signal, dumpable, no_new_privs, subreaper and the like; the rest is EINVAL";
    158 arch_prctl = Partial, process::sys_arch_prctl, "no CPUID faulting, no shadow stacks; once a GS base is set, every call traps, which costs more";
    159 adjtimex = Partial, time::sys_adjtimex, "offsets are made up for at once";
    160 setrlimit = Partial, limits::sys_setrlimit, "only those of addresses, descriptors, processes, queued signals, message queues and processor time are enforced";
    161 chroot = Full, directories::sys_chroot, "";
    162 sync = NoEffect, files::sys_sync, "the machine keeps what was written, but for crashes with `files: unsynced`";
    163 acct = Unsupported, misc::sys_not_permitted, "EPERM";
    164 settimeofday = Partial, time::sys_settimeofday, "the time zone has no effect";
    165 mount = Partial, mounts::sys_mount, "tmpfs, ramfs, proc, sysfs, devtmpfs, devpts, bind mounts; ENODEV for others";
    166 umount2 = Full, mounts::sys_umount2, "";
    167 swapon = Unsupported, misc::sys_not_permitted, "EPERM";
    168 swapoff = Unsupported, misc::sys_not_permitted, "EPERM";
    169 reboot = Partial, misc::sys_reboot, "EPERM: the experiment ends hosts";
    170 sethostname = Full, misc::sys_sethostname, "";
    171 setdomainname = Full, misc::sys_setdomainname, "";
    172 iopl = Unsupported, misc::sys_iopl, "EPERM";
    173 ioperm = Unsupported, misc::sys_ioperm, "EPERM";
    174 create_module = Unsupported, unsupported, "";
    175 init_module = Unsupported, misc::sys_not_permitted, "EPERM";
    176 delete_module = Partial, misc::sys_delete_module, "no module is loaded";
    177 get_kernel_syms = Unsupported, unsupported, "";
    178 query_module = Unsupported, unsupported, "";
    179 quotactl = Unsupported, misc::sys_not_permitted, "EPERM";
    180 nfsservctl = Unsupported, unsupported, "";
    181 getpmsg = Unsupported, unsupported, "";
    182 putpmsg = Unsupported, unsupported, "";
    183 afs_syscall = Unsupported, unsupported, "";
    184 tuxcall = Unsupported, unsupported, "";
    185 security = Unsupported, unsupported, "";
    186 gettid = Full, process::sys_gettid, "";
    187 readahead = NoEffect, files::sys_readahead, "the machine keeps what was written";
    188 setxattr = Partial, xattr::sys_setxattr, "no access control lists (system.*), no capabilities of files";
    189 lsetxattr = Partial, xattr::sys_lsetxattr, "no access control lists (system.*), no capabilities of files";
    190 fsetxattr = Partial, xattr::sys_fsetxattr, "no access control lists (system.*), no capabilities of files";
    191 getxattr = Full, xattr::sys_getxattr, "";
    192 lgetxattr = Full, xattr::sys_lgetxattr, "";
    193 fgetxattr = Full, xattr::sys_fgetxattr, "";
    194 listxattr = Full, xattr::sys_listxattr, "";
    195 llistxattr = Full, xattr::sys_llistxattr, "";
    196 flistxattr = Full, xattr::sys_flistxattr, "";
    197 removexattr = Full, xattr::sys_removexattr, "";
    198 lremovexattr = Full, xattr::sys_lremovexattr, "";
    199 fremovexattr = Full, xattr::sys_fremovexattr, "";
    200 tkill = Full, signal::sys_tkill, "";
    201 time = Full, time::sys_time, "";
    202 futex = Full, futex::sys_futex, "";
    203 sched_setaffinity = NoEffect, sched::sys_sched_setaffinity, "kept and shown";
    204 sched_getaffinity = Full, sched::sys_sched_getaffinity, "";
    205 set_thread_area = Unsupported, unsupported, "";
    206 io_setup = Full, aio::sys_io_setup, "";
    207 io_destroy = Full, aio::sys_io_destroy, "";
    208 io_getevents = Full, aio::sys_io_getevents, "";
    209 io_submit = Partial, aio::sys_io_submit, "no IOCB_CMD_POLL; on pipes and sockets what would have to wait is EAGAIN";
    210 io_cancel = Partial, aio::sys_io_cancel, "nothing is ever under way: EAGAIN";
    211 get_thread_area = Unsupported, unsupported, "";
    212 lookup_dcookie = Unsupported, unsupported, "";
    213 epoll_create = Full, epoll::sys_epoll_create, "";
    214 epoll_ctl_old = Unsupported, unsupported, "";
    215 epoll_wait_old = Unsupported, unsupported, "";
    216 remap_file_pages = Partial, memory::sys_remap_file_pages, "EINVAL for memory without a file";
    217 getdents64 = Full, directories::sys_getdents64, "";
    218 set_tid_address = Full, process::sys_set_tid_address, "";
    219 restart_syscall = Unsupported, unsupported, "";
    220 semtimedop = Full, sem::sys_semtimedop, "";
    221 fadvise64 = NoEffect, files::sys_fadvise64, "";
    222 timer_create = Partial, timers::sys_timer_create, "not on another process's processor time";
    223 timer_settime = Full, timers::sys_timer_settime, "";
    224 timer_gettime = Full, timers::sys_timer_gettime, "";
    225 timer_getoverrun = Full, timers::sys_timer_getoverrun, "";
    226 timer_delete = Full, timers::sys_timer_delete, "";
    227 clock_settime = Full, time::sys_clock_settime, "";
    228 clock_gettime = Full, time::sys_clock_gettime, "";
    229 clock_getres = Full, time::sys_clock_getres, "";
    230 clock_nanosleep = Partial, time::sys_clock_nanosleep, "not on processor time";
    231 exit_group = Full, process::sys_exit_group, "";
    232 epoll_wait = Full, epoll::sys_epoll_wait, "";
    233 epoll_ctl = Full, epoll::sys_epoll_ctl, "";
    234 tgkill = Full, signal::sys_tgkill, "";
    235 utimes = Full, paths::sys_utimes, "";
    236 vserver = Unsupported, unsupported, "";
    237 mbind = NoEffect, numa::sys_mbind, "one node";
    238 set_mempolicy = NoEffect, numa::sys_set_mempolicy, "one node; the default policy is shown";
    239 get_mempolicy = Full, numa::sys_get_mempolicy, "";
    240 mq_open = Full, mqueue::sys_mq_open, "";
    241 mq_unlink = Full, mqueue::sys_mq_unlink, "";
    242 mq_timedsend = Full, mqueue::sys_mq_timedsend, "";
    243 mq_timedreceive = Full, mqueue::sys_mq_timedreceive, "";
    244 mq_notify = Full, mqueue::sys_mq_notify, "";
    245 mq_getsetattr = Full, mqueue::sys_mq_getsetattr, "";
    246 kexec_load = Unsupported, misc::sys_not_permitted, "EPERM";
    247 waitid = Full, wait::sys_waitid, "";
    248 add_key = Partial, keys::sys_add_key, "keys of the types keyring, user, logon and big_key";
    249 request_key = Partial, keys::sys_request_key, "no program makes keys, as without /sbin/request-key";
    250 keyctl = Partial, keys::sys_keyctl, "no Diffie-Hellman, public-key operations, watches and instantiation: EOPNOTSUPP or EPERM";
    251 ioprio_set = NoEffect, sched::sys_ioprio_set, "kept and shown";
    252 ioprio_get = NoEffect, sched::sys_ioprio_get, "kept and shown";
    253 inotify_init = Full, inotify::sys_inotify_init, "";
    254 inotify_add_watch = Full, inotify::sys_inotify_add_watch, "";
    255 inotify_rm_watch = Full, inotify::sys_inotify_rm_watch, "";
    256 migrate_pages = Unsupported, unsupported, "";
    257 openat = Full, files::sys_openat, "";
    258 mkdirat = Full, paths::sys_mkdirat, "";
    259 mknodat = Partial, paths::sys_mknodat, "as mknod";
    260 fchownat = Full, paths::sys_fchownat, "";
    261 futimesat = Full, paths::sys_futimesat, "";
    262 newfstatat = Full, stat::sys_newfstatat, "";
    263 unlinkat = Full, paths::sys_unlinkat, "";
    264 renameat = Full, paths::sys_renameat, "";
    265 linkat = Full, paths::sys_linkat, "";
    266 symlinkat = Full, paths::sys_symlinkat, "";
    267 readlinkat = Full, paths::sys_readlinkat, "";
    268 fchmodat = Full, paths::sys_fchmodat, "";
    269 faccessat = Full, stat::sys_faccessat, "";
    270 pselect6 = Full, select::sys_pselect6, "";
    271 ppoll = Full, poll::sys_ppoll, "";
    272 unshare = Partial, clone::sys_unshare, "mounts are unshared for the whole process; no other namespaces for one of several threads";
    273 set_robust_list = Full, futex::sys_set_robust_list, "";
    274 get_robust_list = Full, futex::sys_get_robust_list, "";
    275 splice = Full, transfer::sys_splice, "";
    276 tee = Full, transfer::sys_tee, "";
    277 sync_file_range = NoEffect, files::sys_sync_file_range, "the machine keeps what was written";
    278 vmsplice = Full, transfer::sys_vmsplice, "";
    279 move_pages = Unsupported, unsupported, "";
    280 utimensat = Full, paths::sys_utimensat, "";
    281 epoll_pwait = Full, epoll::sys_epoll_pwait, "";
    282 signalfd = Full, events::sys_signalfd, "";
    283 timerfd_create = Full, events::sys_timerfd_create, "";
    284 eventfd = Full, events::sys_eventfd, "";
    285 fallocate = Full, files::sys_fallocate, "";
    286 timerfd_settime = Full, events::sys_timerfd_settime, "";
    287 timerfd_gettime = Full, events::sys_timerfd_gettime, "";
    288 accept4 = Full, socket::sys_accept4, "";
    289 signalfd4 = Full, events::sys_signalfd4, "";
    290 eventfd2 = Full, events::sys_eventfd2, "";
    291 epoll_create1 = Full, epoll::sys_epoll_create1, "";
    292 dup3 = Full, descriptors::sys_dup3, "";
    293 pipe2 = Full, pipes::sys_pipe2, "";
    294 inotify_init1 = Full, inotify::sys_inotify_init1, "";
    295 preadv = Full, vectors::sys_preadv, "";
    296 pwritev = Full, vectors::sys_pwritev, "";
    297 rt_tgsigqueueinfo = Full, signal::sys_rt_tgsigqueueinfo, "";
    298 perf_event_open = Unsupported, misc::sys_not_permitted, "EPERM";
    299 recvmmsg = Partial, socket_io::sys_recvmmsg, "no MSG_OOB on UNIX sockets";
    300 fanotify_init = Partial, fanotify::sys_fanotify_init, "no audit records of answers, no FAN_REPORT_FD_ERROR and FAN_REPORT_MNT";
    301 fanotify_mark = Partial, fanotify::sys_fanotify_mark, "no FAN_PRE_ACCESS, no marks of mount namespaces and of pipes";
    302 prlimit64 = Partial, limits::sys_prlimit64, "only those of addresses, descriptors, processes, queued signals, message queues and processor time are enforced";
    303 name_to_handle_at = Full, handles::sys_name_to_handle_at, "";
    304 open_by_handle_at = Partial, handles::sys_open_by_handle_at, "files that have a name";
    305 clock_adjtime = Partial, time::sys_clock_adjtime, "offsets are made up for at once";
    306 syncfs = NoEffect, files::sys_syncfs, "the machine keeps what was written, but for crashes with `files: unsynced`";
    307 sendmmsg = Partial, socket_io::sys_sendmmsg, "no MSG_OOB on UNIX sockets; MSG_ZEROCOPY copies, and says when Linux would";
    308 setns = Partial, clone::sys_setns, "not for one of several threads";
    309 getcpu = Partial, sched::sys_getcpu, "the lowest CPU of the thread's affinity";
    310 process_vm_readv = Full, ptrace::sys_process_vm_readv, "";
    311 process_vm_writev = Full, ptrace::sys_process_vm_writev, "";
    312 kcmp = Partial, misc::sys_kcmp, "only KCMP_FILE, KCMP_VM and KCMP_FILES compare; the rest tells processes apart";
    313 finit_module = Unsupported, misc::sys_not_permitted, "EPERM";
    314 sched_setattr = NoEffect, sched::sys_sched_setattr, "kept and shown";
    315 sched_getattr = NoEffect, sched::sys_sched_getattr, "kept and shown";
    316 renameat2 = Full, paths::sys_renameat2, "";
    317 seccomp = Partial, seccomp::sys_seccomp, "filters cannot ask a tracer or a supervisor: neither SECCOMP_FILTER_FLAG_NEW_LISTENER nor SECCOMP_GET_NOTIF_SIZES; SECCOMP_RET_LOG logs nothing";
    318 getrandom = Full, misc::sys_getrandom, "";
    319 memfd_create = Partial, files::sys_memfd_create, "no huge pages";
    320 kexec_file_load = Unsupported, misc::sys_not_permitted, "EPERM";
    321 bpf = Unsupported, misc::sys_not_permitted, "EPERM";
    322 execveat = Partial, exec::sys_execveat, "as execve";
    323 userfaultfd = Partial, events::sys_userfaultfd, "missing pages of private anonymous memory, without events; EFAULT for calls that read or write such pages; no /dev/userfaultfd";
    324 membarrier = NoEffect, misc::sys_membarrier, "threads of a host never run at the same time";
    325 mlock2 = NoEffect, memory::sys_mlock2, "counted, limited and shown";
    326 copy_file_range = Full, transfer::sys_copy_file_range, "";
    327 preadv2 = Full, vectors::sys_preadv2, "";
    328 pwritev2 = Full, vectors::sys_pwritev2, "";
    329 pkey_mprotect = Partial, memory::sys_pkey_mprotect, "as on a CPU without protection keys";
    330 pkey_alloc = Partial, memory::sys_pkey_alloc, "as on a CPU without protection keys: ENOSPC";
    331 pkey_free = Partial, memory::sys_pkey_free, "as on a CPU without protection keys";
    332 statx = Full, stat::sys_statx, "";
    333 io_pgetevents = Full, aio::sys_io_pgetevents, "";
    334 rseq = Unsupported, misc::sys_rseq, "ENOSYS, silently";
    424 pidfd_send_signal = Full, pidfd::sys_pidfd_send_signal, "";
    425 io_uring_setup = Partial, uring::sys_io_uring_setup, "the thread of SQPOLL always sleeps, so submitting is a call; rings in a program's memory (NO_MMAP) replace the memory there by shared memory";
    426 io_uring_enter = Partial, uring::sys_io_uring_enter, "IORING_REGISTER_PROBE names the operations: commands of sockets alone, and of these no timestamps; no receiving without copies";
    427 io_uring_register = Partial, uring_register::sys_io_uring_register, "no zero-copy receive, no busy polling of interfaces; no tags of files that a message brings";
    428 open_tree = Full, mount_contexts::sys_open_tree, "";
    429 move_mount = Partial, mount_contexts::sys_move_mount, "no MOVE_MOUNT_SET_GROUP, nor MOVE_MOUNT_BENEATH in a shared mount";
    430 fsopen = Partial, mount_contexts::sys_fsopen, "the file systems of mount";
    431 fsconfig = Full, mount_contexts::sys_fsconfig, "";
    432 fsmount = Full, mount_contexts::sys_fsmount, "";
    433 fspick = Full, mount_contexts::sys_fspick, "";
    434 pidfd_open = Full, pidfd::sys_pidfd_open, "";
    435 clone3 = Partial, clone::sys_clone3, "no set_tid and no cgroup; no new namespaces for one of several threads";
    436 close_range = Full, descriptors::sys_close_range, "";
    437 openat2 = Full, files::sys_openat2, "";
    438 pidfd_getfd = Full, pidfd::sys_pidfd_getfd, "";
    439 faccessat2 = Full, stat::sys_faccessat2, "";
    440 process_madvise = Unsupported, unsupported, "";
    441 epoll_pwait2 = Full, epoll::sys_epoll_pwait2, "";
    442 mount_setattr = Partial, mount_contexts::sys_mount_setattr, "no idmapped mounts";
    443 quotactl_fd = Unsupported, unsupported, "";
    444 landlock_create_ruleset = Full, landlock::sys_landlock_create_ruleset, "";
    445 landlock_add_rule = Full, landlock::sys_landlock_add_rule, "";
    446 landlock_restrict_self = Partial, landlock::sys_landlock_restrict_self, "all threads of a process are restricted, not the caller alone";
    447 memfd_secret = Unsupported, unsupported, "";
    448 process_mrelease = Unsupported, unsupported, "";
    449 futex_waitv = Full, futex::sys_futex_waitv, "";
    450 set_mempolicy_home_node = Unsupported, unsupported, "";
    451 cachestat = Partial, memory::sys_cachestat, "all pages of a file are cached, and none is dirty";
    452 fchmodat2 = Full, paths::sys_fchmodat2, "";
    453 map_shadow_stack = Unsupported, unsupported, "";
    454 futex_wake = Unsupported, unsupported, "";
    455 futex_wait = Unsupported, unsupported, "";
    456 futex_requeue = Unsupported, unsupported, "";
    457 statmount = Partial, mount_queries::sys_statmount, "mounts of the caller's own namespace";
    458 listmount = Partial, mount_queries::sys_listmount, "mounts of the caller's own namespace";
    459 lsm_get_self_attr = Unsupported, unsupported, "";
    460 lsm_set_self_attr = Unsupported, unsupported, "";
    461 lsm_list_modules = Full, landlock::sys_lsm_list_modules, "";
    462 mseal = Partial, memory::sys_mseal, "brk and shmat are not refused";
    463 setxattrat = Unsupported, unsupported, "";
    464 getxattrat = Unsupported, unsupported, "";
    465 listxattrat = Unsupported, unsupported, "";
    466 removexattrat = Unsupported, unsupported, "";
    467 open_tree_attr = Unsupported, unsupported, "";
    468 file_getattr = Full, file_flags::sys_file_getattr, "";
    469 file_setattr = Full, file_flags::sys_file_setattr, "";
}
