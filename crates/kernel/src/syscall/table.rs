//! The table of all system calls of x86-64 Linux: number, name, level of support, handler and a
//! note on what falls short. `docs/syscalls.md` is generated from it.
//!
//! A number that is missing from the table does not compile.

use super::*;
use crate::call::{Call, SysResult};
use belljar_linux_abi::Errno;

/// How far a system call is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As on Linux, as far as programs can tell; held to it by a guest test.
    Full,
    /// The part that its note names is missing.
    Partial,
    /// Accepted without an effect that a simulated host could have.
    NoEffect,
    /// Answered with `ENOSYS` (or what the note says), a warning and a line in the summary.
    Unsupported,
}

/// One system call.
pub struct Entry {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// How far it is supported.
    pub support: Support,
    /// What falls short.
    pub note: &'static str,
    handler: fn(&mut Call<'_>) -> SysResult,
}

macro_rules! table {
    ($($number:literal $name:ident = $support:ident, $handler:path, $note:literal;)*) => {
        /// All system calls in order of their numbers.
        pub const ENTRIES: &[Entry] = &[$(Entry {
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

/// For each number the place in [`ENTRIES`]; the construction fails to compile if the table is not
/// in order or has holes.
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

/// The entry of a number; `None` for one that Linux has not assigned.
pub fn entry(number: u32) -> Option<&'static Entry> {
    ENTRIES.get(usize::from(*INDEX.get(number as usize)?))
}

/// Runs the handler of the call's number.
pub fn dispatch(call: &mut Call<'_>) -> SysResult {
    match entry(call.number) {
        Some(entry) => (entry.handler)(call),
        None => {
            call.host.warn(format!("unknown system call {}", call.number));
            Err(Errno::ENOSYS)
        }
    }
}

/// Fails loudly: the right errno to the guest, a counted warning for the summary.
fn unsupported(call: &mut Call<'_>) -> SysResult {
    let name = entry(call.number).map_or("?", |entry| entry.name);
    call.host.warn(format!("system call {name} is not supported"));
    Err(Errno::ENOSYS)
}

table! {
    0 read = Unsupported, unsupported, "";
    1 write = Unsupported, unsupported, "";
    2 open = Unsupported, unsupported, "";
    3 close = Unsupported, unsupported, "";
    4 stat = Unsupported, unsupported, "";
    5 fstat = Unsupported, unsupported, "";
    6 lstat = Unsupported, unsupported, "";
    7 poll = Unsupported, unsupported, "";
    8 lseek = Unsupported, unsupported, "";
    9 mmap = Unsupported, unsupported, "";
    10 mprotect = Unsupported, unsupported, "";
    11 munmap = Unsupported, unsupported, "";
    12 brk = Unsupported, unsupported, "";
    13 rt_sigaction = Unsupported, unsupported, "";
    14 rt_sigprocmask = Unsupported, unsupported, "";
    15 rt_sigreturn = Unsupported, unsupported, "";
    16 ioctl = Unsupported, unsupported, "";
    17 pread64 = Unsupported, unsupported, "";
    18 pwrite64 = Unsupported, unsupported, "";
    19 readv = Unsupported, unsupported, "";
    20 writev = Unsupported, unsupported, "";
    21 access = Unsupported, unsupported, "";
    22 pipe = Unsupported, unsupported, "";
    23 select = Unsupported, unsupported, "";
    24 sched_yield = Unsupported, unsupported, "";
    25 mremap = Unsupported, unsupported, "";
    26 msync = Unsupported, unsupported, "";
    27 mincore = Unsupported, unsupported, "";
    28 madvise = Unsupported, unsupported, "";
    29 shmget = Unsupported, unsupported, "";
    30 shmat = Unsupported, unsupported, "";
    31 shmctl = Unsupported, unsupported, "";
    32 dup = Unsupported, unsupported, "";
    33 dup2 = Unsupported, unsupported, "";
    34 pause = Unsupported, unsupported, "";
    35 nanosleep = Unsupported, unsupported, "";
    36 getitimer = Unsupported, unsupported, "";
    37 alarm = Unsupported, unsupported, "";
    38 setitimer = Unsupported, unsupported, "";
    39 getpid = Unsupported, unsupported, "";
    40 sendfile = Unsupported, unsupported, "";
    41 socket = Unsupported, unsupported, "";
    42 connect = Unsupported, unsupported, "";
    43 accept = Unsupported, unsupported, "";
    44 sendto = Unsupported, unsupported, "";
    45 recvfrom = Unsupported, unsupported, "";
    46 sendmsg = Unsupported, unsupported, "";
    47 recvmsg = Unsupported, unsupported, "";
    48 shutdown = Unsupported, unsupported, "";
    49 bind = Unsupported, unsupported, "";
    50 listen = Unsupported, unsupported, "";
    51 getsockname = Unsupported, unsupported, "";
    52 getpeername = Unsupported, unsupported, "";
    53 socketpair = Unsupported, unsupported, "";
    54 setsockopt = Unsupported, unsupported, "";
    55 getsockopt = Unsupported, unsupported, "";
    56 clone = Unsupported, unsupported, "";
    57 fork = Unsupported, unsupported, "";
    58 vfork = Unsupported, unsupported, "";
    59 execve = Unsupported, unsupported, "";
    60 exit = Unsupported, unsupported, "";
    61 wait4 = Unsupported, unsupported, "";
    62 kill = Unsupported, unsupported, "";
    63 uname = Unsupported, unsupported, "";
    64 semget = Unsupported, unsupported, "";
    65 semop = Unsupported, unsupported, "";
    66 semctl = Unsupported, unsupported, "";
    67 shmdt = Unsupported, unsupported, "";
    68 msgget = Unsupported, unsupported, "";
    69 msgsnd = Unsupported, unsupported, "";
    70 msgrcv = Unsupported, unsupported, "";
    71 msgctl = Unsupported, unsupported, "";
    72 fcntl = Unsupported, unsupported, "";
    73 flock = Unsupported, unsupported, "";
    74 fsync = Unsupported, unsupported, "";
    75 fdatasync = Unsupported, unsupported, "";
    76 truncate = Unsupported, unsupported, "";
    77 ftruncate = Unsupported, unsupported, "";
    78 getdents = Unsupported, unsupported, "";
    79 getcwd = Unsupported, unsupported, "";
    80 chdir = Unsupported, unsupported, "";
    81 fchdir = Unsupported, unsupported, "";
    82 rename = Unsupported, unsupported, "";
    83 mkdir = Unsupported, unsupported, "";
    84 rmdir = Unsupported, unsupported, "";
    85 creat = Unsupported, unsupported, "";
    86 link = Unsupported, unsupported, "";
    87 unlink = Unsupported, unsupported, "";
    88 symlink = Unsupported, unsupported, "";
    89 readlink = Unsupported, unsupported, "";
    90 chmod = Unsupported, unsupported, "";
    91 fchmod = Unsupported, unsupported, "";
    92 chown = Unsupported, unsupported, "";
    93 fchown = Unsupported, unsupported, "";
    94 lchown = Unsupported, unsupported, "";
    95 umask = Unsupported, unsupported, "";
    96 gettimeofday = Unsupported, unsupported, "";
    97 getrlimit = Unsupported, unsupported, "";
    98 getrusage = Unsupported, unsupported, "";
    99 sysinfo = Unsupported, unsupported, "";
    100 times = Unsupported, unsupported, "";
    101 ptrace = Unsupported, unsupported, "";
    102 getuid = Unsupported, unsupported, "";
    103 syslog = Unsupported, unsupported, "";
    104 getgid = Unsupported, unsupported, "";
    105 setuid = Unsupported, unsupported, "";
    106 setgid = Unsupported, unsupported, "";
    107 geteuid = Unsupported, unsupported, "";
    108 getegid = Unsupported, unsupported, "";
    109 setpgid = Unsupported, unsupported, "";
    110 getppid = Unsupported, unsupported, "";
    111 getpgrp = Unsupported, unsupported, "";
    112 setsid = Unsupported, unsupported, "";
    113 setreuid = Unsupported, unsupported, "";
    114 setregid = Unsupported, unsupported, "";
    115 getgroups = Unsupported, unsupported, "";
    116 setgroups = Unsupported, unsupported, "";
    117 setresuid = Unsupported, unsupported, "";
    118 getresuid = Unsupported, unsupported, "";
    119 setresgid = Unsupported, unsupported, "";
    120 getresgid = Unsupported, unsupported, "";
    121 getpgid = Unsupported, unsupported, "";
    122 setfsuid = Unsupported, unsupported, "";
    123 setfsgid = Unsupported, unsupported, "";
    124 getsid = Unsupported, unsupported, "";
    125 capget = Unsupported, unsupported, "";
    126 capset = Unsupported, unsupported, "";
    127 rt_sigpending = Unsupported, unsupported, "";
    128 rt_sigtimedwait = Unsupported, unsupported, "";
    129 rt_sigqueueinfo = Unsupported, unsupported, "";
    130 rt_sigsuspend = Unsupported, unsupported, "";
    131 sigaltstack = Unsupported, unsupported, "";
    132 utime = Unsupported, unsupported, "";
    133 mknod = Unsupported, unsupported, "";
    134 uselib = Unsupported, unsupported, "";
    135 personality = Unsupported, unsupported, "";
    136 ustat = Unsupported, unsupported, "";
    137 statfs = Unsupported, unsupported, "";
    138 fstatfs = Unsupported, unsupported, "";
    139 sysfs = Unsupported, unsupported, "";
    140 getpriority = Unsupported, unsupported, "";
    141 setpriority = Unsupported, unsupported, "";
    142 sched_setparam = Unsupported, unsupported, "";
    143 sched_getparam = Unsupported, unsupported, "";
    144 sched_setscheduler = Unsupported, unsupported, "";
    145 sched_getscheduler = Unsupported, unsupported, "";
    146 sched_get_priority_max = Unsupported, unsupported, "";
    147 sched_get_priority_min = Unsupported, unsupported, "";
    148 sched_rr_get_interval = Unsupported, unsupported, "";
    149 mlock = Unsupported, unsupported, "";
    150 munlock = Unsupported, unsupported, "";
    151 mlockall = Unsupported, unsupported, "";
    152 munlockall = Unsupported, unsupported, "";
    153 vhangup = Unsupported, unsupported, "";
    154 modify_ldt = Unsupported, unsupported, "";
    155 pivot_root = Unsupported, unsupported, "";
    156 _sysctl = Unsupported, unsupported, "";
    157 prctl = Unsupported, unsupported, "";
    158 arch_prctl = Unsupported, unsupported, "";
    159 adjtimex = Unsupported, unsupported, "";
    160 setrlimit = Unsupported, unsupported, "";
    161 chroot = Unsupported, unsupported, "";
    162 sync = Unsupported, unsupported, "";
    163 acct = Unsupported, unsupported, "";
    164 settimeofday = Unsupported, unsupported, "";
    165 mount = Unsupported, unsupported, "";
    166 umount2 = Unsupported, unsupported, "";
    167 swapon = Unsupported, unsupported, "";
    168 swapoff = Unsupported, unsupported, "";
    169 reboot = Unsupported, unsupported, "";
    170 sethostname = Unsupported, unsupported, "";
    171 setdomainname = Unsupported, unsupported, "";
    172 iopl = Unsupported, unsupported, "";
    173 ioperm = Unsupported, unsupported, "";
    174 create_module = Unsupported, unsupported, "";
    175 init_module = Unsupported, unsupported, "";
    176 delete_module = Unsupported, unsupported, "";
    177 get_kernel_syms = Unsupported, unsupported, "";
    178 query_module = Unsupported, unsupported, "";
    179 quotactl = Unsupported, unsupported, "";
    180 nfsservctl = Unsupported, unsupported, "";
    181 getpmsg = Unsupported, unsupported, "";
    182 putpmsg = Unsupported, unsupported, "";
    183 afs_syscall = Unsupported, unsupported, "";
    184 tuxcall = Unsupported, unsupported, "";
    185 security = Unsupported, unsupported, "";
    186 gettid = Unsupported, unsupported, "";
    187 readahead = Unsupported, unsupported, "";
    188 setxattr = Unsupported, unsupported, "";
    189 lsetxattr = Unsupported, unsupported, "";
    190 fsetxattr = Unsupported, unsupported, "";
    191 getxattr = Unsupported, unsupported, "";
    192 lgetxattr = Unsupported, unsupported, "";
    193 fgetxattr = Unsupported, unsupported, "";
    194 listxattr = Unsupported, unsupported, "";
    195 llistxattr = Unsupported, unsupported, "";
    196 flistxattr = Unsupported, unsupported, "";
    197 removexattr = Unsupported, unsupported, "";
    198 lremovexattr = Unsupported, unsupported, "";
    199 fremovexattr = Unsupported, unsupported, "";
    200 tkill = Unsupported, unsupported, "";
    201 time = Unsupported, unsupported, "";
    202 futex = Unsupported, unsupported, "";
    203 sched_setaffinity = Unsupported, unsupported, "";
    204 sched_getaffinity = Unsupported, unsupported, "";
    205 set_thread_area = Unsupported, unsupported, "";
    206 io_setup = Unsupported, unsupported, "";
    207 io_destroy = Unsupported, unsupported, "";
    208 io_getevents = Unsupported, unsupported, "";
    209 io_submit = Unsupported, unsupported, "";
    210 io_cancel = Unsupported, unsupported, "";
    211 get_thread_area = Unsupported, unsupported, "";
    212 lookup_dcookie = Unsupported, unsupported, "";
    213 epoll_create = Unsupported, unsupported, "";
    214 epoll_ctl_old = Unsupported, unsupported, "";
    215 epoll_wait_old = Unsupported, unsupported, "";
    216 remap_file_pages = Unsupported, unsupported, "";
    217 getdents64 = Unsupported, unsupported, "";
    218 set_tid_address = Unsupported, unsupported, "";
    219 restart_syscall = Unsupported, unsupported, "";
    220 semtimedop = Unsupported, unsupported, "";
    221 fadvise64 = Unsupported, unsupported, "";
    222 timer_create = Unsupported, unsupported, "";
    223 timer_settime = Unsupported, unsupported, "";
    224 timer_gettime = Unsupported, unsupported, "";
    225 timer_getoverrun = Unsupported, unsupported, "";
    226 timer_delete = Unsupported, unsupported, "";
    227 clock_settime = Unsupported, unsupported, "";
    228 clock_gettime = Unsupported, unsupported, "";
    229 clock_getres = Unsupported, unsupported, "";
    230 clock_nanosleep = Unsupported, unsupported, "";
    231 exit_group = Unsupported, unsupported, "";
    232 epoll_wait = Unsupported, unsupported, "";
    233 epoll_ctl = Unsupported, unsupported, "";
    234 tgkill = Unsupported, unsupported, "";
    235 utimes = Unsupported, unsupported, "";
    236 vserver = Unsupported, unsupported, "";
    237 mbind = Unsupported, unsupported, "";
    238 set_mempolicy = Unsupported, unsupported, "";
    239 get_mempolicy = Unsupported, unsupported, "";
    240 mq_open = Unsupported, unsupported, "";
    241 mq_unlink = Unsupported, unsupported, "";
    242 mq_timedsend = Unsupported, unsupported, "";
    243 mq_timedreceive = Unsupported, unsupported, "";
    244 mq_notify = Unsupported, unsupported, "";
    245 mq_getsetattr = Unsupported, unsupported, "";
    246 kexec_load = Unsupported, unsupported, "";
    247 waitid = Unsupported, unsupported, "";
    248 add_key = Unsupported, unsupported, "";
    249 request_key = Unsupported, unsupported, "";
    250 keyctl = Unsupported, unsupported, "";
    251 ioprio_set = Unsupported, unsupported, "";
    252 ioprio_get = Unsupported, unsupported, "";
    253 inotify_init = Unsupported, unsupported, "";
    254 inotify_add_watch = Unsupported, unsupported, "";
    255 inotify_rm_watch = Unsupported, unsupported, "";
    256 migrate_pages = Unsupported, unsupported, "";
    257 openat = Unsupported, unsupported, "";
    258 mkdirat = Unsupported, unsupported, "";
    259 mknodat = Unsupported, unsupported, "";
    260 fchownat = Unsupported, unsupported, "";
    261 futimesat = Unsupported, unsupported, "";
    262 newfstatat = Unsupported, unsupported, "";
    263 unlinkat = Unsupported, unsupported, "";
    264 renameat = Unsupported, unsupported, "";
    265 linkat = Unsupported, unsupported, "";
    266 symlinkat = Unsupported, unsupported, "";
    267 readlinkat = Unsupported, unsupported, "";
    268 fchmodat = Unsupported, unsupported, "";
    269 faccessat = Unsupported, unsupported, "";
    270 pselect6 = Unsupported, unsupported, "";
    271 ppoll = Unsupported, unsupported, "";
    272 unshare = Unsupported, unsupported, "";
    273 set_robust_list = Unsupported, unsupported, "";
    274 get_robust_list = Unsupported, unsupported, "";
    275 splice = Unsupported, unsupported, "";
    276 tee = Unsupported, unsupported, "";
    277 sync_file_range = Unsupported, unsupported, "";
    278 vmsplice = Unsupported, unsupported, "";
    279 move_pages = Unsupported, unsupported, "";
    280 utimensat = Unsupported, unsupported, "";
    281 epoll_pwait = Unsupported, unsupported, "";
    282 signalfd = Unsupported, unsupported, "";
    283 timerfd_create = Unsupported, unsupported, "";
    284 eventfd = Unsupported, unsupported, "";
    285 fallocate = Unsupported, unsupported, "";
    286 timerfd_settime = Unsupported, unsupported, "";
    287 timerfd_gettime = Unsupported, unsupported, "";
    288 accept4 = Unsupported, unsupported, "";
    289 signalfd4 = Unsupported, unsupported, "";
    290 eventfd2 = Unsupported, unsupported, "";
    291 epoll_create1 = Unsupported, unsupported, "";
    292 dup3 = Unsupported, unsupported, "";
    293 pipe2 = Unsupported, unsupported, "";
    294 inotify_init1 = Unsupported, unsupported, "";
    295 preadv = Unsupported, unsupported, "";
    296 pwritev = Unsupported, unsupported, "";
    297 rt_tgsigqueueinfo = Unsupported, unsupported, "";
    298 perf_event_open = Unsupported, unsupported, "";
    299 recvmmsg = Unsupported, unsupported, "";
    300 fanotify_init = Unsupported, unsupported, "";
    301 fanotify_mark = Unsupported, unsupported, "";
    302 prlimit64 = Unsupported, unsupported, "";
    303 name_to_handle_at = Unsupported, unsupported, "";
    304 open_by_handle_at = Unsupported, unsupported, "";
    305 clock_adjtime = Unsupported, unsupported, "";
    306 syncfs = Unsupported, unsupported, "";
    307 sendmmsg = Unsupported, unsupported, "";
    308 setns = Unsupported, unsupported, "";
    309 getcpu = Unsupported, unsupported, "";
    310 process_vm_readv = Unsupported, unsupported, "";
    311 process_vm_writev = Unsupported, unsupported, "";
    312 kcmp = Unsupported, unsupported, "";
    313 finit_module = Unsupported, unsupported, "";
    314 sched_setattr = Unsupported, unsupported, "";
    315 sched_getattr = Unsupported, unsupported, "";
    316 renameat2 = Unsupported, unsupported, "";
    317 seccomp = Unsupported, unsupported, "";
    318 getrandom = Unsupported, unsupported, "";
    319 memfd_create = Unsupported, unsupported, "";
    320 kexec_file_load = Unsupported, unsupported, "";
    321 bpf = Unsupported, unsupported, "";
    322 execveat = Unsupported, unsupported, "";
    323 userfaultfd = Unsupported, unsupported, "";
    324 membarrier = Unsupported, unsupported, "";
    325 mlock2 = Unsupported, unsupported, "";
    326 copy_file_range = Unsupported, unsupported, "";
    327 preadv2 = Unsupported, unsupported, "";
    328 pwritev2 = Unsupported, unsupported, "";
    329 pkey_mprotect = Unsupported, unsupported, "";
    330 pkey_alloc = Unsupported, unsupported, "";
    331 pkey_free = Unsupported, unsupported, "";
    332 statx = Unsupported, unsupported, "";
    333 io_pgetevents = Unsupported, unsupported, "";
    334 rseq = Unsupported, unsupported, "";
    424 pidfd_send_signal = Unsupported, unsupported, "";
    425 io_uring_setup = Unsupported, unsupported, "";
    426 io_uring_enter = Unsupported, unsupported, "";
    427 io_uring_register = Unsupported, unsupported, "";
    428 open_tree = Unsupported, unsupported, "";
    429 move_mount = Unsupported, unsupported, "";
    430 fsopen = Unsupported, unsupported, "";
    431 fsconfig = Unsupported, unsupported, "";
    432 fsmount = Unsupported, unsupported, "";
    433 fspick = Unsupported, unsupported, "";
    434 pidfd_open = Unsupported, unsupported, "";
    435 clone3 = Unsupported, unsupported, "";
    436 close_range = Unsupported, unsupported, "";
    437 openat2 = Unsupported, unsupported, "";
    438 pidfd_getfd = Unsupported, unsupported, "";
    439 faccessat2 = Unsupported, unsupported, "";
    440 process_madvise = Unsupported, unsupported, "";
    441 epoll_pwait2 = Unsupported, unsupported, "";
    442 mount_setattr = Unsupported, unsupported, "";
    443 quotactl_fd = Unsupported, unsupported, "";
    444 landlock_create_ruleset = Unsupported, unsupported, "";
    445 landlock_add_rule = Unsupported, unsupported, "";
    446 landlock_restrict_self = Unsupported, unsupported, "";
    447 memfd_secret = Unsupported, unsupported, "";
    448 process_mrelease = Unsupported, unsupported, "";
    449 futex_waitv = Unsupported, unsupported, "";
    450 set_mempolicy_home_node = Unsupported, unsupported, "";
    451 cachestat = Unsupported, unsupported, "";
    452 fchmodat2 = Unsupported, unsupported, "";
    453 map_shadow_stack = Unsupported, unsupported, "";
    454 futex_wake = Unsupported, unsupported, "";
    455 futex_wait = Unsupported, unsupported, "";
    456 futex_requeue = Unsupported, unsupported, "";
    457 statmount = Unsupported, unsupported, "";
    458 listmount = Unsupported, unsupported, "";
    459 lsm_get_self_attr = Unsupported, unsupported, "";
    460 lsm_set_self_attr = Unsupported, unsupported, "";
    461 lsm_list_modules = Unsupported, unsupported, "";
    462 mseal = Unsupported, unsupported, "";
}
