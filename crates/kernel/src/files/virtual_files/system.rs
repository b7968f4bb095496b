//! Content of `/proc`, `/sys` and `/etc` that concerns the whole host.

use super::VirtualFile::{self, Host as Made};
use super::{KernelSetting, network};
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::ipc::attachments;
use belljar_linux_abi::kernel_config::{RELEASE, VERSION};
use belljar_linux_net::proc::{self, InterfaceFile, NetworkFile};
use belljar_linux_net::unix::proc_net_unix;
use belljar_netstack::{ETH0, LO};
use belljar_objects::keys::{KeyCaller, KeyLimit};
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::protected::ProtectedKind;
use belljar_objects::system_files::{SYSTEM_TEXTS, SystemText};
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
    ("/etc/nsswitch.conf", 0o644, VirtualFile::System(SystemText::Text(NSSWITCH))),
    ("/etc/resolv.conf", 0o644, VirtualFile::Network(NetworkFile::Made(proc::resolv_conf))),
    ("/etc/timezone", 0o644, VirtualFile::System(SystemText::Text("Etc/UTC\n"))),
];

/// File system types, none of which needs a device, in the order of `/proc/filesystems`.
pub(crate) const FILE_SYSTEMS: [&str; 6] = ["sysfs", "tmpfs", "proc", "devtmpfs", "ramfs", "devpts"];

/// Virtual files below `/proc` and `/sys`, with their modes, sorted by path. Includes the interfaces `lo` and
/// `eth0` of hosts without links.
static SYSTEM_FILES: LazyLock<Vec<(&str, u32, VirtualFile)>> = LazyLock::new(|| {
    let mut all: Vec<(&str, u32, VirtualFile)> = FIXED_FILES.to_vec();
    all.extend(SYSTEM_TEXTS.iter().map(|(path, mode, text)| (*path, *mode, VirtualFile::System(*text))));
    all.extend(proc::network_files().map(|(path, mode, file)| (path, mode, VirtualFile::Network(file))));
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
    ("/proc/config.gz", 0o444, VirtualFile::Bytes(belljar_linux_abi::kernel_config::config_gz)),
    ("/proc/cpuinfo", 0o444, Made(|host| host.config.processors.info())),
    ("/proc/filesystems", 0o444, Made(kinds)),
    ("/proc/interrupts", 0o444, Made(|host| host.config.processors.interrupts())),
    ("/proc/key-users", 0o444, Made(key_users)),
    ("/proc/keys", 0o444, Made(keys)),
    ("/proc/loadavg", 0o444, Made(load_average)),
    ("/proc/locks", 0o444, Made(locks)),
    ("/proc/net/packet", 0o444, Made(|host| host.own.proc_net_packet(&host.net, host.network_of_caller()))),
    ("/proc/net/sockstat", 0o444, Made(socket_counts)),
    ("/proc/net/unix", 0o444, Made(unix_sockets)),
    ("/proc/stat", 0o444, Made(stat)),
    ("/proc/sys/fs/nr_open", 0o644, VirtualFile::Kernel(KernelSetting::NrOpen)),
    ("/proc/sys/fs/protected_fifos", 0o600, protected(ProtectedKind::Fifos)),
    ("/proc/sys/fs/protected_hardlinks", 0o600, protected(ProtectedKind::Hardlinks)),
    ("/proc/sys/fs/protected_regular", 0o600, protected(ProtectedKind::Regular)),
    ("/proc/sys/fs/protected_symlinks", 0o600, protected(ProtectedKind::Symlinks)),
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
    ("/proc/sys/kernel/ns_last_pid", 0o444, Made(|host| format!("{}\n", host.next_pid - 1))),
    ("/proc/sys/kernel/osrelease", 0o444, Made(release)),
    ("/proc/sys/kernel/random/boot_id", 0o444, Made(boot_id)),
    ("/proc/sys/kernel/random/uuid", 0o444, Made(random_uuid)),
    ("/proc/sys/kernel/sem_next_id", 0o644, ipc_number(IpcNumber::NextSem)),
    ("/proc/sys/kernel/shm_next_id", 0o644, ipc_number(IpcNumber::NextShm)),
    ("/proc/sys/kernel/shmmax", 0o644, ipc_number(IpcNumber::ShmMax)),
    ("/proc/sys/kernel/shmmni", 0o644, ipc_number(IpcNumber::ShmMni)),
    ("/proc/sysvipc/msg", 0o444, Made(|host| sysv(host, &|ipc, reader| ipc.list_messages(reader)))),
    ("/proc/sysvipc/sem", 0o444, Made(|host| sysv(host, &|ipc, reader| ipc.list_semaphores(reader)))),
    ("/proc/sysvipc/shm", 0o444, Made(segments)),
    ("/proc/uptime", 0o444, Made(uptime)),
    ("/proc/version", 0o444, Made(version)),
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

/// Lists System V objects as the calling process sees them.
fn sysv(host: &Host, list: &dyn Fn(&SysvIpc, &IpcReader<'_>) -> String) -> String {
    let (processes, caller) = (&host.processes, host.caller.map(|(_, process)| process));
    let owner = |perm| caller.map_or(perm, |caller| processes.shown_permissions(caller, perm));
    let pid = |pid| caller.map_or(pid, |caller| processes.shown_pid(caller, pid));
    let namespace = caller.map_or(0, |caller| processes.namespace(caller, NamespaceKind::Ipc));
    list(&host.ipc, &IpcReader { namespace, owner: &owner, pid: &pid })
}

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

/// `/proc/locks`. An open file's `flock(2)` lock is shown with the first process that has the file open.
fn locks(host: &mut Host) -> String {
    let holder = |file| {
        let has = |process: &ProcessKey| {
            let entries = host.processes[process.0].fds.map(|table| &host.files.tables[table.0].entries);
            entries.is_some_and(|entries| entries.iter().flatten().any(|entry| entry.file == file))
        };
        host.processes.by_pid.iter().find(|(_, process)| has(process)).map_or(-1, |(pid, _)| *pid)
    };
    let mut lines = Vec::new();
    for (_, inode) in host.files.inodes.iter() {
        if let Some(locks) = &inode.locks {
            let (major, minor) = (inode.device >> 8, inode.device & 0xff);
            lines.extend(locks.lines(&format!("{major:02x}:{minor:02x}:{}", inode.number), holder));
        }
    }
    lines.iter().zip(1..).map(|(line, n)| format!("{n}: {line}\n")).collect()
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
        "{}intr 0\nctxt 0\nbtime {boot}\nprocesses {processes}\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
        host.config.processors.idle_times(idle),
    )
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
        assert_eq!(system_names("/sys"), ["class", "kernel"]);
    }
}
