//! Virtual files of procfs, sysfs and `/etc`, whose content the kernel generates: their sources ([`VirtualFile`]),
//! the [`table`] of those that every host has, and the [`entries`] of their directories.

pub mod entries;
pub mod table;

pub use belljar_linux_net::proc::InterfaceFile;

use crate::keys::KeyLimit;
use crate::namespaces::NamespaceKind;
use crate::process_files::ProcessFile;
use crate::processors::SystemDeviceFile;
use crate::protected::ProtectedKind;
use crate::system_files::SystemText;
use crate::sysv::IpcNumber;
use belljar_linux_net::proc::NetworkFile;
use belljar_netstack::conf::InterfaceFileSetting;

/// Source of a virtual file's content, which is generated each time that a reader starts at offset 0.
#[derive(Clone, Debug)]
pub enum VirtualFile {
    /// Constant text, or a setting stored as text.
    System(SystemText),
    /// Text generated from the state of the kernel.
    Generated(Generated),
    /// File of the network stack of the reader.
    Network(NetworkFile),
    /// File of `/sys/devices/system`.
    Device(SystemDeviceFile),
    /// Constant bytes.
    Bytes(fn() -> Vec<u8>),
    /// `/etc/hosts`, which is the same on all hosts.
    Hosts,
    /// Setting of a kernel subsystem.
    Kernel(KernelSetting),
    /// Setting of an interface.
    InterfaceSetting(InterfaceFileSetting),
    /// File of `/sys/class/net/<interface>`, by interface index.
    Interface(usize, InterfaceFile),
    /// `/proc/net/bonding/<bond>`, by the number of the interface.
    Bond(usize),
    /// Text last written to a setting.
    Written(Vec<u8>),
    /// File of `/proc/<pid>`.
    Process(i32, ProcessFile),
    /// File of `/proc/<pid>/task/<tid>`.
    Thread(i32, i32, ProcessFile),
    /// `/proc/<pid>/fdinfo/<fd>`.
    DescriptorInfo(i32, i32),
    /// Target of `/proc/<pid>/ns/<kind>`, which has no content.
    Namespace(NamespaceKind, u32),
}

/// Magic links of procfs, which refer to files rather than paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MagicLink {
    /// `/proc/self`, with the PID namespace that `/proc` shows.
    Own(u32),
    /// `/proc/thread-self`, with the PID namespace that `/proc` shows.
    OwnThread(u32),
    /// `exe`.
    Executable(i32),
    /// `cwd`.
    WorkingDirectory(i32),
    /// `root`.
    Root(i32),
    /// `fd/<n>`.
    Descriptor(i32, i32),
    /// `ns/<link>`.
    Namespace(i32, &'static str),
}

/// Files whose text the kernel generates from its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// `/etc/hostname`.
    Hostname,
    /// `/etc/machine-id`.
    MachineId,
    /// `/etc/shadow` without passwords.
    Shadow,
    /// `/etc/gshadow` without passwords.
    GroupShadow,
    /// `/proc/cpuinfo`.
    CpuInfo,
    /// `/proc/interrupts`.
    Interrupts,
    /// `/proc/key-users`.
    KeyUsers,
    /// `/proc/keys`.
    Keys,
    /// `/proc/loadavg`.
    LoadAverage,
    /// `/proc/locks`.
    Locks,
    /// `/proc/meminfo`.
    MemoryInfo,
    /// `/proc/net/packet`.
    PacketSockets,
    /// `/proc/net/sockstat`.
    SocketCounts,
    /// `/proc/net/unix`.
    UnixSockets,
    /// `/proc/stat`.
    Statistics,
    /// `/proc/sys/kernel/ns_last_pid`.
    LastPid,
    /// `/proc/sys/kernel/random/boot_id`.
    BootId,
    /// `/proc/sys/kernel/random/uuid`.
    RandomUuid,
    /// `/proc/sysvipc/msg`.
    MessageQueues,
    /// `/proc/sysvipc/sem`.
    Semaphores,
    /// `/proc/sysvipc/shm`.
    SharedMemory,
    /// `/proc/uptime`.
    Uptime,
}

/// A setting, by the subsystem that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KernelSetting {
    /// Node name (0) or domain name (1) of `uname(2)`.
    Name(usize),
    Keys(KeyLimit),
    Ipc(IpcNumber),
    NrOpen,
    Protected(ProtectedKind),
}
