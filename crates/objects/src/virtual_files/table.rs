//! Table of the virtual files that are the same for all hosts, by path.

use super::VirtualFile::{self, Generated as Made};
use super::{Generated, KernelSetting};
use crate::keys::KeyLimit;
use crate::protected::ProtectedKind;
use crate::system_files::{SYSTEM_TEXTS, SystemText};
use crate::sysv::IpcNumber;
use belljar_linux_abi::kernel_config::{RELEASE, VERSION};
use belljar_linux_net::proc::{self, InterfaceFile, NetworkFile};
use belljar_netstack::{ETH0, LO};
use std::sync::LazyLock;

/// Virtual files in `/etc`, among the machine's other files.
pub const ETC_FILES: &[(&str, u32, VirtualFile)] = &[
    ("/etc/hostname", 0o644, Made(Generated::Hostname)),
    ("/etc/hosts", 0o644, VirtualFile::Hosts),
    ("/etc/machine-id", 0o444, Made(Generated::MachineId)),
    ("/etc/nsswitch.conf", 0o644, VirtualFile::System(SystemText::Text(NSSWITCH))),
    ("/etc/resolv.conf", 0o644, VirtualFile::Network(NetworkFile::Made(proc::resolv_conf))),
    ("/etc/timezone", 0o644, VirtualFile::System(SystemText::Text("Etc/UTC\n"))),
];

/// File system types, none of which needs a device, in the order of `/proc/filesystems`.
pub const FILE_SYSTEMS: [&str; 6] = ["sysfs", "tmpfs", "proc", "devtmpfs", "ramfs", "devpts"];

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
    ("/proc/cpuinfo", 0o444, Made(Generated::CpuInfo)),
    ("/proc/filesystems", 0o444, VirtualFile::Bytes(kinds)),
    ("/proc/interrupts", 0o444, Made(Generated::Interrupts)),
    ("/proc/key-users", 0o444, Made(Generated::KeyUsers)),
    ("/proc/keys", 0o444, Made(Generated::Keys)),
    ("/proc/loadavg", 0o444, Made(Generated::LoadAverage)),
    ("/proc/locks", 0o444, Made(Generated::Locks)),
    ("/proc/meminfo", 0o444, Made(Generated::MemoryInfo)),
    ("/proc/net/packet", 0o444, Made(Generated::PacketSockets)),
    ("/proc/net/sockstat", 0o444, Made(Generated::SocketCounts)),
    ("/proc/net/unix", 0o444, Made(Generated::UnixSockets)),
    ("/proc/stat", 0o444, Made(Generated::Statistics)),
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
    ("/proc/sys/kernel/ns_last_pid", 0o444, Made(Generated::LastPid)),
    ("/proc/sys/kernel/osrelease", 0o444, VirtualFile::Bytes(release)),
    ("/proc/sys/kernel/random/boot_id", 0o444, Made(Generated::BootId)),
    ("/proc/sys/kernel/random/uuid", 0o444, Made(Generated::RandomUuid)),
    ("/proc/sys/kernel/sem_next_id", 0o644, ipc_number(IpcNumber::NextSem)),
    ("/proc/sys/kernel/shm_next_id", 0o644, ipc_number(IpcNumber::NextShm)),
    ("/proc/sys/kernel/shmmax", 0o644, ipc_number(IpcNumber::ShmMax)),
    ("/proc/sys/kernel/shmmni", 0o644, ipc_number(IpcNumber::ShmMni)),
    ("/proc/sysvipc/msg", 0o444, Made(Generated::MessageQueues)),
    ("/proc/sysvipc/sem", 0o444, Made(Generated::Semaphores)),
    ("/proc/sysvipc/shm", 0o444, Made(Generated::SharedMemory)),
    ("/proc/uptime", 0o444, Made(Generated::Uptime)),
    ("/proc/version", 0o444, VirtualFile::Bytes(version)),
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
pub enum SystemFile {
    /// File with its mode.
    File(u32, VirtualFile),
    /// Directory, with its path.
    Directory(&'static str),
}

/// Entry `name` of the directory `path` in the table.
pub fn system_file(path: &str, name: &str) -> Option<SystemFile> {
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
pub fn system_names(path: &str) -> Vec<&'static str> {
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

fn kinds() -> Vec<u8> {
    FILE_SYSTEMS.iter().map(|kind| format!("nodev\t{kind}\n")).collect::<String>().into_bytes()
}

fn release() -> Vec<u8> {
    format!("{RELEASE}\n").into_bytes()
}

fn version() -> Vec<u8> {
    format!("Linux version {RELEASE} (belljar@belljar) {VERSION}\n").into_bytes()
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
