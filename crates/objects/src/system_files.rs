//! Files of `/proc` and `/sys` whose content is a text that no object holds, and settings that are kept as they
//! are written.

use std::fmt::Write;

/// Content of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemText {
    /// Constant text.
    Text(&'static str),
    /// Setting stored as text: initially this one, replaced by writes.
    Setting(&'static str),
    /// `/proc/sys/vm/overcommit_memory`, until it is written.
    Overcommit,
}

use SystemText::{Overcommit, Setting, Text};

/// The files, with their modes.
pub const SYSTEM_TEXTS: &[(&str, u32, SystemText)] = &[
    ("/proc/cmdline", 0o444, Text("quiet\n")),
    ("/proc/devices", 0o444, Text("Character devices:\n  1 mem\n  5 /dev/tty\n\nBlock devices:\n  8 sd\n")),
    ("/proc/modules", 0o444, Text("")),
    ("/proc/partitions", 0o444, Text("major minor  #blocks  name\n\n   8        1   67108864 sda1\n")),
    ("/proc/swaps", 0o444, Text("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")),
    ("/proc/sys/fs/aio-max-nr", 0o644, Text("65536\n")),
    ("/proc/sys/fs/dir-notify-enable", 0o644, Setting("1\n")),
    ("/proc/sys/fs/epoll/max_user_watches", 0o644, Setting("1048576\n")),
    ("/proc/sys/fs/fanotify/max_queued_events", 0o644, Setting("16384\n")),
    ("/proc/sys/fs/fanotify/max_user_groups", 0o644, Setting("128\n")),
    ("/proc/sys/fs/fanotify/max_user_marks", 0o644, Setting("8192\n")),
    ("/proc/sys/fs/file-max", 0o644, Setting("9223372036854775807\n")),
    ("/proc/sys/fs/file-nr", 0o444, Text("1024\t0\t9223372036854775807\n")),
    ("/proc/sys/fs/inotify/max_queued_events", 0o644, Setting("16384\n")),
    ("/proc/sys/fs/inotify/max_user_instances", 0o644, Setting("128\n")),
    ("/proc/sys/fs/inotify/max_user_watches", 0o644, Setting("65536\n")),
    ("/proc/sys/fs/lease-break-time", 0o644, Setting("45\n")),
    ("/proc/sys/fs/pipe-max-size", 0o644, Setting("1048576\n")),
    ("/proc/sys/fs/pipe-user-pages-hard", 0o644, Setting("0\n")),
    ("/proc/sys/fs/pipe-user-pages-soft", 0o644, Setting("16384\n")),
    ("/proc/sys/kernel/cap_last_cap", 0o444, Text("40\n")),
    ("/proc/sys/kernel/core_pattern", 0o644, Setting("core\n")),
    ("/proc/sys/kernel/ngroups_max", 0o444, Text("65536\n")),
    ("/proc/sys/kernel/ostype", 0o444, Text("Linux\n")),
    ("/proc/sys/kernel/overflowgid", 0o644, Text("65534\n")),
    ("/proc/sys/kernel/overflowuid", 0o644, Text("65534\n")),
    ("/proc/sys/kernel/perf_event_paranoid", 0o644, Text("3\n")),
    ("/proc/sys/kernel/pid_max", 0o644, Setting("4194304\n")),
    ("/proc/sys/kernel/printk", 0o644, Setting("4\t4\t1\t7\n")),
    ("/proc/sys/kernel/random/entropy_avail", 0o444, Text("256\n")),
    ("/proc/sys/kernel/random/poolsize", 0o444, Text("256\n")),
    ("/proc/sys/kernel/randomize_va_space", 0o644, Setting("2\n")),
    (
        "/proc/sys/kernel/seccomp/actions_avail",
        0o444,
        Text("kill_process kill_thread trap errno log allow\n"),
    ),
    ("/proc/sys/kernel/sem", 0o644, Setting("32000\t1024000000\t500\t32000\n")),
    ("/proc/sys/kernel/shmall", 0o644, Setting("18446744073692774399\n")),
    ("/proc/sys/kernel/tainted", 0o644, Text("0\n")),
    ("/proc/sys/kernel/threads-max", 0o644, Setting("31732\n")),
    ("/proc/sys/kernel/version", 0o444, Text("#1 SMP Belljar\n")),
    ("/proc/sys/kernel/yama/ptrace_scope", 0o644, Text("0\n")),
    ("/proc/sys/vm/max_map_count", 0o644, Setting("65530\n")),
    ("/proc/sys/vm/mmap_min_addr", 0o644, Text("65536\n")),
    ("/proc/sys/vm/overcommit_memory", 0o644, Overcommit),
    ("/proc/sys/vm/overcommit_ratio", 0o644, Setting("50\n")),
    ("/proc/sys/vm/swappiness", 0o644, Setting("60\n")),
    ("/proc/sys/vm/vfs_cache_pressure", 0o644, Setting("100\n")),
    (
        "/proc/vmstat",
        0o444,
        Text("nr_free_pages 917504\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\n"),
    ),
    ("/sys/kernel/mm/transparent_hugepage/enabled", 0o644, Text("always madvise [never]\n")),
    ("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", 0o444, Text("2097152\n")),
    ("/sys/kernel/mm/transparent_hugepage/shmem_enabled", 0o644, Text("always within_size advise [never]\n")),
];

/// `/proc/meminfo` of a host without a limit of its memory: statistics of a machine with 4 GiB.
pub const MEMINFO: &str = "MemTotal:        4194304 kB\nMemFree:         3670016 kB\nMemAvailable:    3932160 kB\n\
    Buffers:               0 kB\nCached:           262144 kB\nSwapCached:            0 kB\n\
    Active:           131072 kB\nInactive:         131072 kB\nSwapTotal:             0 kB\n\
    SwapFree:              0 kB\nDirty:                 0 kB\nWriteback:             0 kB\n\
    AnonPages:        131072 kB\nMapped:            65536 kB\nShmem:                 0 kB\n\
    KReclaimable:          0 kB\nSlab:                  0 kB\nCommitLimit:     2097152 kB\n\
    Committed_AS:     262144 kB\nVmallocTotal:   34359738367 kB\nVmallocUsed:           0 kB\n\
    HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugePages_Surp:        0\n\
    Hugepagesize:       2048 kB\nHugetlb:               0 kB\n";

/// `/proc/meminfo` of a host with so many bytes of memory, of which programs use `used` bytes.
pub fn memory_info(total: u64, used: u64) -> String {
    let (total, used) = (total / 1_024, used.min(total) / 1_024);
    let free = total - used;
    let changed = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Cached", 0),
        ("Active", used),
        ("Inactive", 0),
        ("AnonPages", used),
        ("Mapped", 0),
        ("CommitLimit", total / 2),
        ("Committed_AS", used),
    ];
    let mut text = String::new();
    for line in MEMINFO.lines() {
        let name = line.split(':').next().unwrap_or_default();
        match changed.iter().find(|(known, _)| *known == name) {
            Some((_, kib)) => {
                let _ = writeln!(text, "{:<15}{kib:>9} kB", format!("{name}:"));
            }
            None => text = text + line + "\n",
        }
    }
    text
}

/// `/sys/devices/system/node/node0/meminfo`: all memory is that of one node. `info` is `/proc/meminfo`.
pub fn node_memory(info: &str) -> String {
    let value = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next() == Some(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or_default()
    };
    let line = |name: &str, kib: u64| format!("Node 0 {:<15}{kib:>8} kB\n", format!("{name}:"));
    let (total, free) = (value("MemTotal"), value("MemFree"));
    let mut text = line("MemTotal", total) + &line("MemFree", free) + &line("MemUsed", total - free);
    let same = ["SwapCached", "Active", "Inactive", "Dirty", "Writeback", "Mapped", "AnonPages", "Shmem"];
    same.iter().for_each(|name| text += &line(name, value(name)));
    text += "Node 0 HugePages_Total:     0\nNode 0 HugePages_Free:      0\nNode 0 HugePages_Surp:      0\n";
    text
}

/// Version 4 UUID from 128 bits.
pub fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::new();
    for (n, byte) in bytes.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_memory_is_shown_in_the_lines_of_an_unlimited_one() {
        let text = memory_info(512 << 20, 100 << 20);
        let names = |text: &str| {
            text.lines().map(|line| line.split(':').next().map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(names(&text), names(MEMINFO));
        assert!(
            text.starts_with(
                "MemTotal:         524288 kB\nMemFree:          421888 kB\nMemAvailable:     421888 kB\n"
            ),
            "{text}"
        );
        assert!(
            text.lines()
                .all(|line| line.len() == 27 || line.contains("Vmalloc") || line.contains("HugePages_")),
            "{text}"
        );
        assert!(node_memory(&text).contains("Node 0 MemUsed:         102400 kB\n"), "{}", node_memory(&text));
        assert!(memory_info(1 << 20, 9 << 20).contains("MemFree:               0 kB\n"));
    }
}
