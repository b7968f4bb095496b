//! File systems that a host has mounted from the start.

use crate::inode::{DEV, DISK, PROC, PTS, RUN, SHM, SYS};

/// File systems mounted from the start: mount point, device number, type and source.
pub const SEEDS: &[(&str, u64, &str, &str)] = &[
    ("/", DISK, "ext4", "/dev/sda1"),
    ("/dev", DEV, "devtmpfs", "devtmpfs"),
    ("/dev/pts", PTS, "devpts", "devpts"),
    ("/dev/shm", SHM, "tmpfs", "tmpfs"),
    ("/proc", PROC, "proc", "proc"),
    ("/run", RUN, "tmpfs", "tmpfs"),
    ("/sys", SYS, "sysfs", "sysfs"),
];
