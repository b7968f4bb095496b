//! Content of `/proc`, `/sys` and `/etc` that concerns the whole host.

use super::VirtualFile::{self, Host as Made, Network, Setting, Text, Tunable};
use super::{KernelSetting, network};
use crate::host::Host;
use crate::ipc::attachments;
use belljar_linux_abi::c;
use belljar_linux_abi::kernel_config::{RELEASE, VERSION};
use belljar_linux_net::proc::{self, InterfaceFile};
use belljar_linux_net::unix::proc_net_unix;
use belljar_netstack::sysctl::Sysctl;
use belljar_netstack::udp::Protocol;
use belljar_netstack::{ETH0, LO, Stack};
use belljar_objects::keys::{KeyCaller, KeyLimit};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::protected::ProtectedKind;
use belljar_objects::sysv::{IpcNumber, IpcReader, SysvIpc};
use std::fmt::Write;
use std::sync::LazyLock;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Length of a `USER_HZ` tick in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// Virtual files in `/etc`, among the machine's other files.
pub const ETC_FILES: &[(&str, u32, VirtualFile)] = &[
    ("/etc/hostname", 0o644, Made(hostname)),
    ("/etc/hosts", 0o644, Made(network::hosts)),
    ("/etc/machine-id", 0o444, Made(machine_id)),
    ("/etc/nsswitch.conf", 0o644, Text(NSSWITCH)),
    ("/etc/resolv.conf", 0o644, Network(proc::resolv_conf)),
    ("/etc/timezone", 0o644, Text("Etc/UTC\n")),
];

/// File system types, none of which needs a device, in the order of `/proc/filesystems`.
pub(crate) const FILE_SYSTEMS: [&str; 6] = ["sysfs", "tmpfs", "proc", "devtmpfs", "ramfs", "devpts"];

/// Virtual files below `/proc` and `/sys`, with their modes, sorted by path. Includes the interfaces `lo` and
/// `eth0` of hosts without links.
static SYSTEM_FILES: LazyLock<Vec<(&str, u32, VirtualFile)>> = LazyLock::new(|| {
    let mut all: Vec<(&str, u32, VirtualFile)> = FIXED_FILES.to_vec();
    for (name, number) in [("lo", LO), ("eth0", ETH0)] {
        let path = |file| -> &str { format!("/sys/class/net/{name}/{file}").leak() };
        all.extend(
            InterfaceFile::all()
                .map(|(file, kind)| (path(file), 0o444, VirtualFile::Interface(number, kind))),
        );
    }
    all.sort_by_key(|(path, ..)| *path);
    all
});

/// Virtual files below `/proc` and `/sys` that are the same for all hosts, sorted by path.
const FIXED_FILES: &[(&str, u32, VirtualFile)] = &[
    ("/proc/cmdline", 0o444, Text("quiet\n")),
    ("/proc/config.gz", 0o444, VirtualFile::Bytes(belljar_linux_abi::kernel_config::config_gz)),
    ("/proc/cpuinfo", 0o444, Text(CPUINFO)),
    ("/proc/devices", 0o444, Text("Character devices:\n  1 mem\n  5 /dev/tty\n\nBlock devices:\n  8 sd\n")),
    ("/proc/filesystems", 0o444, Made(kinds)),
    ("/proc/key-users", 0o444, Made(key_users)),
    ("/proc/keys", 0o444, Made(keys)),
    ("/proc/loadavg", 0o444, Made(load_average)),
    ("/proc/meminfo", 0o444, Text(MEMINFO)),
    ("/proc/modules", 0o444, Text("")),
    ("/proc/net/arp", 0o444, Network(proc::proc_net_arp)),
    ("/proc/net/dev", 0o444, Network(proc::proc_net_dev)),
    ("/proc/net/dev_mcast", 0o444, Network(Stack::proc_net_dev_mcast)),
    ("/proc/net/if_inet6", 0o444, Network(proc::proc_if_inet6)),
    ("/proc/net/igmp", 0o444, Network(Stack::proc_net_igmp)),
    ("/proc/net/igmp6", 0o444, Network(proc::proc_igmp6)),
    ("/proc/net/ipv6_route", 0o444, Network(proc::proc_ipv6_route)),
    ("/proc/net/netstat", 0o444, Network(proc::proc_net_netstat)),
    ("/proc/net/packet", 0o444, Made(|host| host.own.proc_net_packet(&host.net, host.network_of_caller()))),
    ("/proc/net/raw", 0o444, Network(proc::proc_net_raw)),
    ("/proc/net/route", 0o444, Network(proc::proc_net_route)),
    ("/proc/net/snmp", 0o444, Network(proc::proc_net_snmp)),
    ("/proc/net/snmp6", 0o444, Network(proc::proc_snmp6)),
    ("/proc/net/sockstat", 0o444, Made(socket_counts)),
    ("/proc/net/sockstat6", 0o444, Network(proc::proc_net_sockstat6)),
    ("/proc/net/tcp", 0o444, Network(|net| proc::proc_net_tcp(net, c::AF_INET))),
    ("/proc/net/tcp6", 0o444, Network(|net| proc::proc_net_tcp(net, c::AF_INET6))),
    ("/proc/net/udp", 0o444, Network(|net| proc::proc_net_udp(net, c::AF_INET, Protocol::Udp))),
    ("/proc/net/udp6", 0o444, Network(|net| proc::proc_net_udp(net, c::AF_INET6, Protocol::Udp))),
    ("/proc/net/udplite", 0o444, Network(|net| proc::proc_net_udp(net, c::AF_INET, Protocol::Lite))),
    ("/proc/net/udplite6", 0o444, Network(|net| proc::proc_net_udp(net, c::AF_INET6, Protocol::Lite))),
    ("/proc/net/unix", 0o444, Made(unix_sockets)),
    ("/proc/partitions", 0o444, Text("major minor  #blocks  name\n\n   8        1   67108864 sda1\n")),
    ("/proc/stat", 0o444, Made(stat)),
    ("/proc/swaps", 0o444, Text("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")),
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
    ("/proc/sys/fs/nr_open", 0o644, VirtualFile::Kernel(KernelSetting::NrOpen)),
    ("/proc/sys/fs/pipe-max-size", 0o644, Setting("1048576\n")),
    ("/proc/sys/fs/pipe-user-pages-hard", 0o644, Setting("0\n")),
    ("/proc/sys/fs/pipe-user-pages-soft", 0o644, Setting("16384\n")),
    ("/proc/sys/fs/protected_fifos", 0o600, protected(ProtectedKind::Fifos)),
    ("/proc/sys/fs/protected_hardlinks", 0o600, protected(ProtectedKind::Hardlinks)),
    ("/proc/sys/fs/protected_regular", 0o600, protected(ProtectedKind::Regular)),
    ("/proc/sys/fs/protected_symlinks", 0o600, protected(ProtectedKind::Symlinks)),
    ("/proc/sys/kernel/cap_last_cap", 0o444, Text("40\n")),
    ("/proc/sys/kernel/core_pattern", 0o644, Setting("core\n")),
    ("/proc/sys/kernel/domainname", 0o644, VirtualFile::Kernel(KernelSetting::Name(1))),
    ("/proc/sys/kernel/hostname", 0o644, VirtualFile::Kernel(KernelSetting::Name(0))),
    ("/proc/sys/kernel/keys/gc_delay", 0o644, key_limit(KeyLimit::GcDelay)),
    ("/proc/sys/kernel/keys/maxbytes", 0o644, key_limit(KeyLimit::MaxBytes)),
    ("/proc/sys/kernel/keys/maxkeys", 0o644, key_limit(KeyLimit::MaxKeys)),
    ("/proc/sys/kernel/keys/persistent_keyring_expiry", 0o644, key_limit(KeyLimit::PersistentExpiry)),
    ("/proc/sys/kernel/keys/root_maxbytes", 0o644, key_limit(KeyLimit::RootMaxBytes)),
    ("/proc/sys/kernel/keys/root_maxkeys", 0o644, key_limit(KeyLimit::RootMaxKeys)),
    ("/proc/sys/kernel/msg_next_id", 0o644, ipc_number(IpcNumber::NextMsg)),
    ("/proc/sys/kernel/msgmax", 0o644, ipc_number(IpcNumber::MsgMax)),
    ("/proc/sys/kernel/msgmnb", 0o644, ipc_number(IpcNumber::MsgMnb)),
    ("/proc/sys/kernel/msgmni", 0o644, ipc_number(IpcNumber::MsgMni)),
    ("/proc/sys/kernel/ngroups_max", 0o444, Text("65536\n")),
    ("/proc/sys/kernel/osrelease", 0o444, Made(release)),
    ("/proc/sys/kernel/ostype", 0o444, Text("Linux\n")),
    ("/proc/sys/kernel/overflowgid", 0o644, Text("65534\n")),
    ("/proc/sys/kernel/overflowuid", 0o644, Text("65534\n")),
    ("/proc/sys/kernel/perf_event_paranoid", 0o644, Text("3\n")),
    ("/proc/sys/kernel/pid_max", 0o644, Setting("4194304\n")),
    ("/proc/sys/kernel/printk", 0o644, Setting("4\t4\t1\t7\n")),
    ("/proc/sys/kernel/random/boot_id", 0o444, Made(boot_id)),
    ("/proc/sys/kernel/random/entropy_avail", 0o444, Text("256\n")),
    ("/proc/sys/kernel/random/poolsize", 0o444, Text("256\n")),
    ("/proc/sys/kernel/random/uuid", 0o444, Made(random_uuid)),
    ("/proc/sys/kernel/randomize_va_space", 0o644, Setting("2\n")),
    (
        "/proc/sys/kernel/seccomp/actions_avail",
        0o444,
        Text("kill_process kill_thread trap errno log allow\n"),
    ),
    ("/proc/sys/kernel/sem", 0o644, Setting("32000\t1024000000\t500\t32000\n")),
    ("/proc/sys/kernel/sem_next_id", 0o644, ipc_number(IpcNumber::NextSem)),
    ("/proc/sys/kernel/shm_next_id", 0o644, ipc_number(IpcNumber::NextShm)),
    ("/proc/sys/kernel/shmall", 0o644, Setting("18446744073692774399\n")),
    ("/proc/sys/kernel/shmmax", 0o644, ipc_number(IpcNumber::ShmMax)),
    ("/proc/sys/kernel/shmmni", 0o644, ipc_number(IpcNumber::ShmMni)),
    ("/proc/sys/kernel/tainted", 0o644, Text("0\n")),
    ("/proc/sys/kernel/threads-max", 0o644, Setting("31732\n")),
    ("/proc/sys/kernel/version", 0o444, Text("#1 SMP Belljar\n")),
    ("/proc/sys/kernel/yama/ptrace_scope", 0o644, Text("0\n")),
    ("/proc/sys/net/core/rmem_default", 0o644, Tunable(Sysctl::RmemDefault)),
    ("/proc/sys/net/core/rmem_max", 0o644, Tunable(Sysctl::RmemMax)),
    ("/proc/sys/net/core/somaxconn", 0o644, Tunable(Sysctl::Somaxconn)),
    ("/proc/sys/net/core/wmem_default", 0o644, Tunable(Sysctl::WmemDefault)),
    ("/proc/sys/net/core/wmem_max", 0o644, Tunable(Sysctl::WmemMax)),
    ("/proc/sys/net/ipv4/fib_multipath_hash_policy", 0o644, Tunable(Sysctl::FibMultipathHashPolicy)),
    ("/proc/sys/net/ipv4/icmp_msgs_burst", 0o644, Tunable(Sysctl::IcmpMsgsBurst)),
    ("/proc/sys/net/ipv4/icmp_msgs_per_sec", 0o644, Tunable(Sysctl::IcmpMsgsPerSec)),
    ("/proc/sys/net/ipv4/icmp_ratelimit", 0o644, Tunable(Sysctl::IcmpRateLimit)),
    ("/proc/sys/net/ipv4/icmp_ratemask", 0o644, Tunable(Sysctl::IcmpRateMask)),
    ("/proc/sys/net/ipv4/ip_default_ttl", 0o644, Tunable(Sysctl::IpDefaultTtl)),
    ("/proc/sys/net/ipv4/ip_forward", 0o644, Tunable(Sysctl::IpForward)),
    ("/proc/sys/net/ipv4/ip_local_port_range", 0o644, Text("32768\t60999\n")),
    ("/proc/sys/net/ipv4/ip_unprivileged_port_start", 0o644, Tunable(Sysctl::IpUnprivilegedPortStart)),
    ("/proc/sys/net/ipv4/ipfrag_time", 0o644, Tunable(Sysctl::IpFragTime)),
    ("/proc/sys/net/ipv4/ping_group_range", 0o644, Text("0\t2147483647\n")),
    ("/proc/sys/net/ipv4/tcp_abort_on_overflow", 0o644, Tunable(Sysctl::TcpAbortOnOverflow)),
    ("/proc/sys/net/ipv4/tcp_allowed_congestion_control", 0o644, Made(|_| proc::congestion_algorithms())),
    ("/proc/sys/net/ipv4/tcp_available_congestion_control", 0o444, Made(|_| proc::congestion_algorithms())),
    ("/proc/sys/net/ipv4/tcp_base_mss", 0o644, Tunable(Sysctl::TcpBaseMss)),
    ("/proc/sys/net/ipv4/tcp_comp_sack_delay_ns", 0o644, Tunable(Sysctl::TcpCompSackDelay)),
    ("/proc/sys/net/ipv4/tcp_comp_sack_nr", 0o644, Tunable(Sysctl::TcpCompSackNr)),
    ("/proc/sys/net/ipv4/tcp_congestion_control", 0o644, Tunable(Sysctl::TcpCongestionControl)),
    ("/proc/sys/net/ipv4/tcp_ecn", 0o644, Tunable(Sysctl::TcpEcn)),
    ("/proc/sys/net/ipv4/tcp_fastopen", 0o644, Tunable(Sysctl::TcpFastopen)),
    ("/proc/sys/net/ipv4/tcp_fastopen_blackhole_timeout_sec", 0o644, Tunable(Sysctl::TcpFastopenBlackhole)),
    ("/proc/sys/net/ipv4/tcp_fastopen_key", 0o600, Tunable(Sysctl::TcpFastopenKey)),
    ("/proc/sys/net/ipv4/tcp_fin_timeout", 0o644, Tunable(Sysctl::TcpFinTimeout)),
    ("/proc/sys/net/ipv4/tcp_frto", 0o644, Tunable(Sysctl::TcpFrto)),
    ("/proc/sys/net/ipv4/tcp_keepalive_intvl", 0o644, Tunable(Sysctl::TcpKeepaliveInterval)),
    ("/proc/sys/net/ipv4/tcp_keepalive_probes", 0o644, Tunable(Sysctl::TcpKeepaliveProbes)),
    ("/proc/sys/net/ipv4/tcp_keepalive_time", 0o644, Tunable(Sysctl::TcpKeepaliveTime)),
    ("/proc/sys/net/ipv4/tcp_limit_output_bytes", 0o644, Tunable(Sysctl::TcpLimitOutputBytes)),
    ("/proc/sys/net/ipv4/tcp_max_syn_backlog", 0o644, Tunable(Sysctl::TcpMaxSynBacklog)),
    ("/proc/sys/net/ipv4/tcp_min_snd_mss", 0o644, Tunable(Sysctl::TcpMinSndMss)),
    ("/proc/sys/net/ipv4/tcp_mtu_probe_floor", 0o644, Tunable(Sysctl::TcpMtuProbeFloor)),
    ("/proc/sys/net/ipv4/tcp_mtu_probing", 0o644, Tunable(Sysctl::TcpMtuProbing)),
    ("/proc/sys/net/ipv4/tcp_orphan_retries", 0o644, Tunable(Sysctl::TcpOrphanRetries)),
    ("/proc/sys/net/ipv4/tcp_probe_interval", 0o644, Tunable(Sysctl::TcpProbeInterval)),
    ("/proc/sys/net/ipv4/tcp_probe_threshold", 0o644, Tunable(Sysctl::TcpProbeThreshold)),
    ("/proc/sys/net/ipv4/tcp_retries1", 0o644, Tunable(Sysctl::TcpRetries1)),
    ("/proc/sys/net/ipv4/tcp_retries2", 0o644, Tunable(Sysctl::TcpRetries2)),
    ("/proc/sys/net/ipv4/tcp_rmem", 0o644, Tunable(Sysctl::TcpRmem)),
    ("/proc/sys/net/ipv4/tcp_sack", 0o644, Tunable(Sysctl::TcpSack)),
    ("/proc/sys/net/ipv4/tcp_slow_start_after_idle", 0o644, Tunable(Sysctl::TcpSlowStartAfterIdle)),
    ("/proc/sys/net/ipv4/tcp_syn_linear_timeouts", 0o644, Tunable(Sysctl::TcpSynLinearTimeouts)),
    ("/proc/sys/net/ipv4/tcp_syn_retries", 0o644, Tunable(Sysctl::TcpSynRetries)),
    ("/proc/sys/net/ipv4/tcp_synack_retries", 0o644, Tunable(Sysctl::TcpSynackRetries)),
    ("/proc/sys/net/ipv4/tcp_syncookies", 0o644, Tunable(Sysctl::TcpSyncookies)),
    ("/proc/sys/net/ipv4/tcp_timestamps", 0o644, Tunable(Sysctl::TcpTimestamps)),
    ("/proc/sys/net/ipv4/tcp_window_scaling", 0o644, Tunable(Sysctl::TcpWindowScaling)),
    ("/proc/sys/net/ipv4/tcp_wmem", 0o644, Tunable(Sysctl::TcpWmem)),
    ("/proc/sys/net/ipv6/bindv6only", 0o644, Tunable(Sysctl::Ip6BindV6Only)),
    ("/proc/sys/net/ipv6/icmp/ratelimit", 0o644, Tunable(Sysctl::Icmp6RateLimit)),
    ("/proc/sys/net/ipv6/icmp/ratemask", 0o644, Tunable(Sysctl::Icmp6RateMask)),
    ("/proc/sys/net/ipv6/ip6frag_time", 0o644, Tunable(Sysctl::Ip6FragTime)),
    ("/proc/sys/vm/max_map_count", 0o644, Setting("65530\n")),
    ("/proc/sys/vm/mmap_min_addr", 0o644, Text("65536\n")),
    ("/proc/sys/vm/overcommit_memory", 0o644, Setting("1\n")),
    ("/proc/sys/vm/overcommit_ratio", 0o644, Setting("50\n")),
    ("/proc/sys/vm/swappiness", 0o644, Setting("60\n")),
    ("/proc/sys/vm/vfs_cache_pressure", 0o644, Setting("100\n")),
    ("/proc/sysvipc/msg", 0o444, Made(|host| sysv(host, &|ipc, reader| ipc.list_messages(reader)))),
    ("/proc/sysvipc/sem", 0o444, Made(|host| sysv(host, &|ipc, reader| ipc.list_semaphores(reader)))),
    ("/proc/sysvipc/shm", 0o444, Made(segments)),
    ("/proc/uptime", 0o444, Made(uptime)),
    ("/proc/version", 0o444, Made(version)),
    (
        "/proc/vmstat",
        0o444,
        Text("nr_free_pages 917504\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\n"),
    ),
    ("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", 0o444, Text("64\n")),
    ("/sys/devices/system/cpu/cpu0/cache/index0/level", 0o444, Text("1\n")),
    ("/sys/devices/system/cpu/cpu0/cache/index0/size", 0o444, Text("32K\n")),
    ("/sys/devices/system/cpu/cpu0/cache/index0/type", 0o444, Text("Data\n")),
    ("/sys/devices/system/cpu/cpu0/topology/core_id", 0o444, Text("0\n")),
    ("/sys/devices/system/cpu/cpu0/topology/core_siblings_list", 0o444, Text("0\n")),
    ("/sys/devices/system/cpu/cpu0/topology/physical_package_id", 0o444, Text("0\n")),
    ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", 0o444, Text("0\n")),
    ("/sys/devices/system/cpu/kernel_max", 0o444, Text("8191\n")),
    ("/sys/devices/system/cpu/offline", 0o444, Text("\n")),
    ("/sys/devices/system/cpu/online", 0o444, Text("0\n")),
    ("/sys/devices/system/cpu/possible", 0o444, Text("0\n")),
    ("/sys/devices/system/cpu/present", 0o444, Text("0\n")),
    ("/sys/devices/system/node/node0/cpulist", 0o444, Text("0\n")),
    ("/sys/devices/system/node/online", 0o444, Text("0\n")),
    ("/sys/devices/system/node/possible", 0o444, Text("0\n")),
    ("/sys/kernel/mm/transparent_hugepage/enabled", 0o644, Text("always madvise [never]\n")),
    ("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", 0o444, Text("2097152\n")),
    ("/sys/kernel/mm/transparent_hugepage/shmem_enabled", 0o644, Text("always within_size advise [never]\n")),
];

const fn key_limit(limit: KeyLimit) -> VirtualFile {
    VirtualFile::Kernel(KernelSetting::Keys(limit))
}

const fn ipc_number(number: IpcNumber) -> VirtualFile {
    VirtualFile::Kernel(KernelSetting::Ipc(number))
}

const fn protected(which: ProtectedKind) -> VirtualFile {
    VirtualFile::Kernel(KernelSetting::Protected(which))
}

/// Entry of a directory in the table.
pub(super) enum SystemFile {
    /// File with its mode.
    File(u32, VirtualFile),
    /// Directory, with its path.
    Directory(&'static str),
}

/// Entry `name` of the directory `path` in the table.
pub(super) fn system_file(path: &str, name: &str) -> Option<SystemFile> {
    let path = format!("{path}/{name}");
    let at = SYSTEM_FILES.partition_point(|(p, ..)| *p < path.as_str());
    let (found, mode, file) = SYSTEM_FILES.get(at)?;
    if **found == *path {
        return Some(SystemFile::File(*mode, file.clone()));
    }
    // The entry found may only begin with `name`, and entries below `name` sort after some of those.
    let below = format!("{path}/");
    let at = SYSTEM_FILES.partition_point(|(p, ..)| *p < below.as_str());
    let (found, ..) = SYSTEM_FILES.get(at).filter(|(p, ..)| p.starts_with(&below))?;
    Some(SystemFile::Directory(&found[..path.len()]))
}

/// Names in the directory `path` of the table.
pub(super) fn system_names(path: &str) -> Vec<&'static str> {
    let below = format!("{path}/");
    let from = SYSTEM_FILES.partition_point(|(p, ..)| *p < below.as_str());
    let mut names: Vec<&str> = SYSTEM_FILES[from..]
        .iter()
        .take_while(|(p, ..)| p.starts_with(&below))
        .map(|(p, ..)| p[below.len()..].split('/').next().unwrap_or_default())
        .collect();
    names.dedup();
    names
}

/// Symbolic links: path and target.
pub const LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/etc/localtime", "/usr/share/zoneinfo/Etc/UTC"),
    ("/etc/mtab", "/proc/self/mounts"),
    ("/proc/mounts", "self/mounts"),
];

const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
    protocols: files\nservices: files\nethers: files\nrpc: files\n";

const CPUINFO: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 60\n\
    model name\t: Belljar CPU\nstepping\t: 1\ncpu MHz\t\t: 1000.000\ncache size\t: 8192 KB\n\
    physical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\napicid\t\t: 0\nfpu\t\t: yes\n\
    fpu_exception\t: yes\ncpuid level\t: 13\nwp\t\t: yes\nflags\t\t: fpu tsc cx8 cmov mmx fxsr sse sse2 \
    syscall nx rdtscp lm constant_tsc nonstop_tsc pni ssse3 cx16 sse4_1 sse4_2 popcnt\nbogomips\t: \
    2000.00\nclflush size\t: 64\ncache_alignment\t: 64\naddress sizes\t: 48 bits physical, 48 bits \
    virtual\npower management:\n\n";

/// Lists System V objects as the calling process sees them.
fn sysv(host: &Host, list: &dyn Fn(&SysvIpc, &IpcReader<'_>) -> String) -> String {
    let (processes, caller) = (&host.processes, host.caller.map(|(_, process)| process));
    let owner = |perm| caller.map_or(perm, |caller| processes.shown_permissions(caller, perm));
    let pid = |pid| caller.map_or(pid, |caller| processes.shown_pid(caller, pid));
    let namespace = caller.map_or(0, |caller| processes.namespace(caller, NamespaceKind::Ipc));
    list(&host.ipc, &IpcReader { namespace, owner: &owner, pid: &pid })
}

/// Memory statistics of a machine with 4 GiB.
const MEMINFO: &str = "MemTotal:        4194304 kB\nMemFree:         3670016 kB\nMemAvailable:    3932160 kB\n\
    Buffers:               0 kB\nCached:           262144 kB\nSwapCached:            0 kB\n\
    Active:           131072 kB\nInactive:         131072 kB\nSwapTotal:             0 kB\n\
    SwapFree:              0 kB\nDirty:                 0 kB\nWriteback:             0 kB\n\
    AnonPages:        131072 kB\nMapped:            65536 kB\nShmem:                 0 kB\n\
    KReclaimable:          0 kB\nSlab:                  0 kB\nCommitLimit:     2097152 kB\n\
    Committed_AS:     262144 kB\nVmallocTotal:   34359738367 kB\nVmallocUsed:           0 kB\n\
    HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugePages_Surp:        0\n\
    Hugepagesize:       2048 kB\nHugetlb:               0 kB\n";

fn segments(host: &mut Host) -> String {
    let ids = host.ipc.segments.iter().map(|(id, _)| id).collect::<Vec<_>>();
    let attached: Vec<u64> = ids.into_iter().map(|id| attachments(&host.spaces, id)).collect();
    sysv(host, &|ipc, reader| ipc.list_segments(reader, &attached))
}

fn keys(host: &mut Host) -> String {
    of_caller(host, |keys| keys.list())
}

fn key_users(host: &mut Host) -> String {
    of_caller(host, |keys| keys.list_users())
}

/// Lists keys as the calling process sees them; empty without a caller.
fn of_caller(host: &mut Host, list: fn(KeyCaller<'_>) -> String) -> String {
    host.caller.map_or_else(String::new, |(thread, process)| list(host.keys_of(thread, process)))
}

fn socket_counts(host: &mut Host) -> String {
    let network = host.network_of_caller();
    proc::proc_net_sockstat(host.stack(network), host.sockets_in(network))
}

fn unix_sockets(host: &mut Host) -> String {
    proc_net_unix(&host.own.unix_shown(&host.net, host.network_of_caller()))
}

fn hostname(host: &mut Host) -> String {
    format!("{}\n", host.net.config.name)
}

/// Version 4 UUID from 128 bits.
fn uuid(mut bytes: [u8; 16]) -> String {
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

fn seeded(host: &Host, what: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    host.net.config.seed.stream(&["host", &host.net.config.name, what]).fill(&mut bytes);
    bytes
}

fn machine_id(host: &mut Host) -> String {
    uuid(seeded(host, "machine-id")).replace('-', "") + "\n"
}

fn boot_id(host: &mut Host) -> String {
    uuid(seeded(host, "boot-id")) + "\n"
}

fn random_uuid(host: &mut Host) -> String {
    let mut bytes = [0; 16];
    host.random.fill(&mut bytes);
    uuid(bytes) + "\n"
}

fn hundredths(ns: u64) -> String {
    format!("{}.{:02}", ns / SECOND, ns % SECOND / TICK_NS)
}

fn uptime(host: &mut Host) -> String {
    let up = hundredths(host.boottime_ns());
    format!("{up} {up}\n")
}

fn kinds(_: &mut Host) -> String {
    FILE_SYSTEMS.iter().map(|kind| format!("nodev\t{kind}\n")).collect()
}

fn release(_: &mut Host) -> String {
    format!("{RELEASE}\n")
}

fn version(_: &mut Host) -> String {
    format!("Linux version {RELEASE} (belljar@belljar) {VERSION}\n")
}

fn load_average(host: &mut Host) -> String {
    let (runnable, threads) = (host.scheduler.ready_count() + 1, host.threads.len());
    let last = host.next_pid - 1;
    format!("0.00 0.00 0.00 {runnable}/{threads} {last}\n")
}

fn stat(host: &mut Host) -> String {
    let idle = host.net.clock.monotonic_ns() / TICK_NS;
    let boot = host.net.clock.realtime_ns().saturating_sub(host.boottime_ns()) / SECOND;
    let processes = host.next_pid;
    format!(
        "cpu  0 0 0 {idle} 0 0 0 0 0 0\ncpu0 0 0 0 {idle} 0 0 0 0 0 0\nintr 0\nctxt 0\nbtime {boot}\n\
         processes {processes}\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n"
    )
}

/// Network setting with this name of sysctl(8); `None` for other settings.
pub fn tunable(name: &str) -> Option<Sysctl> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let (.., file) = SYSTEM_FILES.get(SYSTEM_FILES.binary_search_by(|entry| entry.0.cmp(&path)).ok()?)?;
    match file {
        Tunable(which) => Some(*which),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_finds_files_and_directories() {
        assert!(SYSTEM_FILES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(matches!(system_file("/proc", "sys"), Some(SystemFile::Directory("/proc/sys"))));
        assert!(matches!(system_file("/proc/net", "tcp"), Some(SystemFile::File(0o444, _))));
        assert!(matches!(system_file("/proc", "stat"), Some(SystemFile::File(..))));
        assert!(system_file("/proc", "sy").is_none() && system_file("/sys", "zz").is_none());
        assert_eq!(system_names("/sys"), ["class", "devices", "kernel"]);
    }
}
