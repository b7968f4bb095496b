//! Number of arguments of each system call. `syscall(2)` in C loads all six argument registers, so registers
//! beyond the arguments contain stale values, which are not shown.

use belljar_linux_abi::c;

/// Number of arguments of call `name`, for calls without a signature.
pub fn of(name: &str) -> usize {
    match name {
        "munlockall" | "vhangup" | "inotify_init" | "restart_syscall" | "setsid" | "getpmsg" | "putpmsg"
        | "afs_syscall" | "tuxcall" | "security" | "vserver" => 0,
        "shmdt"
        | "setuid"
        | "setgid"
        | "getpgid"
        | "getsid"
        | "setfsuid"
        | "setfsgid"
        | "uselib"
        | "personality"
        | "sched_get_priority_max"
        | "sched_get_priority_min"
        | "sched_getscheduler"
        | "mlockall"
        | "_sysctl"
        | "adjtimex"
        | "acct"
        | "swapoff"
        | "iopl"
        | "get_kernel_syms"
        | "set_thread_area"
        | "get_thread_area"
        | "io_destroy"
        | "timer_getoverrun"
        | "timer_delete"
        | "mq_unlink"
        | "unshare"
        | "inotify_init1"
        | "userfaultfd"
        | "memfd_secret"
        | "pkey_free" => 1,
        "msgget"
        | "getgroups"
        | "setgroups"
        | "setreuid"
        | "setregid"
        | "setpgid"
        | "capget"
        | "capset"
        | "rt_sigpending"
        | "utime"
        | "ustat"
        | "getpriority"
        | "sched_setparam"
        | "sched_getparam"
        | "sched_rr_get_interval"
        | "mlock"
        | "munlock"
        | "pivot_root"
        | "settimeofday"
        | "umount2"
        | "swapon"
        | "sethostname"
        | "setdomainname"
        | "create_module"
        | "delete_module"
        | "removexattr"
        | "lremovexattr"
        | "fremovexattr"
        | "io_setup"
        | "timer_gettime"
        | "clock_settime"
        | "utimes"
        | "mq_notify"
        | "ioprio_get"
        | "inotify_rm_watch"
        | "setns"
        | "clock_adjtime"
        | "fanotify_init"
        | "memfd_create"
        | "pkey_alloc"
        | "pidfd_open"
        | "fsopen"
        | "landlock_restrict_self"
        | "getitimer"
        | "process_mrelease"
        | "io_uring_setup"
        | "arch_prctl" => 2,
        "msync"
        | "mincore"
        | "shmget"
        | "shmat"
        | "shmctl"
        | "setitimer"
        | "semget"
        | "semop"
        | "msgctl"
        | "chown"
        | "fchown"
        | "lchown"
        | "syslog"
        | "setresuid"
        | "getresuid"
        | "setresgid"
        | "getresgid"
        | "rt_sigqueueinfo"
        | "mknod"
        | "sysfs"
        | "setpriority"
        | "sched_setscheduler"
        | "modify_ldt"
        | "ioperm"
        | "init_module"
        | "nfsservctl"
        | "readahead"
        | "listxattr"
        | "llistxattr"
        | "flistxattr"
        | "io_submit"
        | "io_cancel"
        | "lookup_dcookie"
        | "timer_create"
        | "futimesat"
        | "mq_getsetattr"
        | "set_mempolicy"
        | "ioprio_set"
        | "inotify_add_watch"
        | "get_robust_list"
        | "signalfd"
        | "getcpu"
        | "finit_module"
        | "sched_setattr"
        | "seccomp"
        | "bpf"
        | "membarrier"
        | "mlock2"
        | "open_by_handle_at"
        | "pidfd_getfd"
        | "open_tree"
        | "fsmount"
        | "fspick"
        | "landlock_create_ruleset"
        | "lsm_list_modules"
        | "mseal"
        | "map_shadow_stack" => 3,
        "utimensat"
        | "fallocate"
        | "signalfd4"
        | "vmsplice"
        | "tee"
        | "sync_file_range"
        | "fadvise64"
        | "semctl"
        | "msgsnd"
        | "mknodat"
        | "reboot"
        | "quotactl"
        | "quotactl_fd"
        | "ptrace"
        | "semtimedop"
        | "mq_open"
        | "request_key"
        | "migrate_pages"
        | "rt_tgsigqueueinfo"
        | "sendmmsg"
        | "sched_getattr"
        | "pkey_mprotect"
        | "pidfd_send_signal"
        | "openat2"
        | "landlock_add_rule"
        | "set_mempolicy_home_node"
        | "fchmodat2"
        | "futex_wake"
        | "futex_requeue"
        | "removexattrat"
        | "statmount"
        | "listmount"
        | "lsm_get_self_attr"
        | "lsm_set_self_attr"
        | "getxattr"
        | "lgetxattr"
        | "fgetxattr"
        | "epoll_ctl_old"
        | "epoll_wait_old"
        | "kexec_load"
        | "cachestat"
        | "preadv"
        | "pwritev"
        | "io_uring_register" => 4,
        "setxattr" | "lsetxattr" | "fsetxattr" | "io_getevents" | "remap_file_pages" | "mq_timedsend"
        | "mq_timedreceive" | "waitid" | "add_key" | "keyctl" | "fchownat" | "linkat" | "get_mempolicy"
        | "perf_event_open" | "recvmmsg" | "fanotify_mark" | "name_to_handle_at" | "kcmp"
        | "kexec_file_load" | "move_mount" | "fsconfig" | "process_madvise" | "mount_setattr" | "mount"
        | "futex_waitv" | "msgrcv" | "query_module" | "listxattrat" | "open_tree_attr" | "file_getattr"
        | "file_setattr" => 5,
        _ => 6,
    }
}

/// Bit set of the arguments that are present in this call: for some calls it depends on the preceding
/// arguments.
pub fn given(number: u32, args: &[u64; 6]) -> u8 {
    const FIRST: [u8; 7] = [0, 1, 3, 7, 15, 31, 63];
    const ALL: u8 = 63;
    let has = |n: usize, flags: i32| args[n] as i32 & flags != 0;
    let creates = |n: usize| has(n, c::O_CREAT) || args[n] as i32 & c::O_TMPFILE == c::O_TMPFILE;
    match i64::from(number) {
        c::SYS_open if !creates(1) => FIRST[2],
        c::SYS_openat if !creates(2) => FIRST[3],
        c::SYS_fcntl => match args[1] as i32 {
            c::F_GETFD
            | c::F_GETFL
            | c::F_GETOWN
            | F_GETSIG
            | c::F_GETLEASE
            | c::F_GETPIPE_SZ
            | c::F_GET_SEALS => FIRST[2],
            _ => ALL,
        },
        c::SYS_mremap if !has(3, c::MREMAP_FIXED | c::MREMAP_DONTUNMAP) => FIRST[4],
        c::SYS_clone => {
            let parent = u8::from(has(0, c::CLONE_PARENT_SETTID | c::CLONE_PIDFD)) << 2;
            let child = u8::from(has(0, c::CLONE_CHILD_SETTID | c::CLONE_CHILD_CLEARTID)) << 3;
            FIRST[2] | parent | child | u8::from(has(0, c::CLONE_SETTLS)) << 4
        }
        c::SYS_futex => match args[1] as i32 & c::FUTEX_CMD_MASK {
            c::FUTEX_UNLOCK_PI | c::FUTEX_TRYLOCK_PI => FIRST[2],
            c::FUTEX_WAKE => FIRST[3],
            c::FUTEX_WAIT | c::FUTEX_LOCK_PI => FIRST[4],
            c::FUTEX_REQUEUE => FIRST[5],
            // The second address is unused, but the bit set after it is present.
            c::FUTEX_WAIT_BITSET => FIRST[4] | 1 << 5,
            c::FUTEX_WAKE_BITSET => FIRST[3] | 1 << 5,
            _ => ALL,
        },
        c::SYS_prctl => match args[0] as i32 {
            c::PR_GET_DUMPABLE
            | c::PR_GET_KEEPCAPS
            | c::PR_GET_SECCOMP
            | c::PR_GET_SECUREBITS
            | c::PR_GET_TIMERSLACK
            | c::PR_GET_NO_NEW_PRIVS
            | c::PR_GET_THP_DISABLE => FIRST[1],
            c::PR_SET_SECCOMP | c::PR_SET_MM | c::PR_CAP_AMBIENT | c::PR_SET_VMA => ALL,
            _ => FIRST[2],
        },
        c::SYS_semctl => match args[2] as i32 & !IPC_64 {
            c::IPC_RMID | c::GETVAL | c::GETPID | c::GETNCNT | c::GETZCNT => FIRST[3],
            _ => ALL,
        },
        _ => ALL,
    }
}

/// Command of fcntl(2) that libc defines for `_GNU_SOURCE` only.
const F_GETSIG: i32 = 11;
/// Flag that C libraries may add to semctl(2) commands.
const IPC_64: i32 = 0x100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_belongs_to_files_that_are_made() {
        let openat = |flags: i32| given(c::SYS_openat as u32, &[0, 0, flags as u64, 0o644, 9, 9]);
        assert_eq!(openat(c::O_RDONLY | c::O_DIRECTORY), 0b111);
        assert_eq!(openat(c::O_RDWR | c::O_CREAT), 63);
        assert_eq!(openat(c::O_RDWR | c::O_TMPFILE), 63);
    }
}
