//! Content of the virtual files that concern the whole host.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::ipc::attachments;
use crate::memory;
use belljar_linux_net::proc;
use belljar_linux_net::unix::proc_net_unix;
use belljar_objects::keys::KeyCaller;
use belljar_objects::namespaces::NamespaceKind;
use belljar_objects::system_files::uuid;
use belljar_objects::sysv::{IpcReader, SysvIpc};
use belljar_objects::virtual_files::Generated;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Length of a `USER_HZ` tick in nanoseconds.
const TICK_NS: u64 = 10_000_000;

impl Host {
    /// Text of a file that is generated from the state of the host.
    pub(super) fn generated(&mut self, which: Generated) -> String {
        match which {
            Generated::Hostname => format!("{}\n", self.net.config.name),
            Generated::MachineId => uuid(seeded(self, "machine-id")).replace('-', "") + "\n",
            Generated::Shadow => self.names_as(b"passwd", ":*:::::::\n"),
            Generated::GroupShadow => self.names_as(b"group", ":*::\n"),
            Generated::CpuInfo => self.config.processors.info(),
            Generated::Interrupts => self.config.processors.interrupts(),
            Generated::KeyUsers => of_caller(self, |keys| keys.list_users()),
            Generated::Keys => of_caller(self, |keys| keys.list()),
            Generated::LoadAverage => load_average(self),
            Generated::Locks => locks(self),
            Generated::MemoryInfo => memory::info(self),
            Generated::PacketSockets => self.own.proc_net_packet(&self.net, self.network_of_caller()),
            Generated::SocketCounts => {
                let network = self.network_of_caller();
                proc::proc_net_sockstat(self.stack(network), self.networks.sockets_in(&self.net, network))
            }
            Generated::UnixSockets => {
                proc_net_unix(&self.own.unix_shown(&self.net, self.network_of_caller()))
            }
            Generated::Statistics => stat(self),
            Generated::LastPid => format!("{}\n", self.next_pid - 1),
            Generated::BootId => uuid(seeded(self, "boot-id")) + "\n",
            Generated::RandomUuid => {
                let mut bytes = [0; 16];
                self.random.fill(&mut bytes);
                uuid(bytes) + "\n"
            }
            Generated::MessageQueues => sysv(self, &|ipc, reader| ipc.list_messages(reader)),
            Generated::Semaphores => sysv(self, &|ipc, reader| ipc.list_semaphores(reader)),
            Generated::SharedMemory => segments(self),
            Generated::Uptime => {
                let up = hundredths(self.boottime_ns());
                format!("{up} {up}\n")
            }
        }
    }
}

/// Lists System V objects as the calling process sees them.
fn sysv(host: &Host, list: &dyn Fn(&SysvIpc, &IpcReader<'_>) -> String) -> String {
    let (processes, caller) = (&host.processes, host.caller.map(|(_, process)| process));
    let owner = |perm| caller.map_or(perm, |caller| processes.shown_permissions(caller, perm));
    let pid = |pid| caller.map_or(pid, |caller| processes.shown_pid(caller, pid));
    let namespace = caller.map_or(0, |caller| processes.namespace(caller, NamespaceKind::Ipc));
    list(&host.ipc, &IpcReader { namespace, owner: &owner, pid: &pid })
}

fn segments(host: &Host) -> String {
    let ids = host.ipc.segments.iter().map(|(id, _)| id).collect::<Vec<_>>();
    let attached: Vec<u64> = ids.into_iter().map(|id| attachments(&host.spaces, id)).collect();
    sysv(host, &|ipc, reader| ipc.list_segments(reader, &attached))
}

/// Lists keys as the calling process sees them; empty without a caller.
fn of_caller(host: &mut Host, list: fn(KeyCaller<'_>) -> String) -> String {
    host.caller.map_or_else(String::new, |(thread, process)| list(host.keys_of(thread, process)))
}

/// `/proc/locks`. An open file's `flock(2)` lock is shown with the first process that has the file open.
fn locks(host: &Host) -> String {
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

fn seeded(host: &Host, what: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    host.net.config.seed.stream(&["host", &host.net.config.name, what]).fill(&mut bytes);
    bytes
}

fn hundredths(ns: u64) -> String {
    format!("{}.{:02}", ns / SECOND, ns % SECOND / TICK_NS)
}

fn load_average(host: &Host) -> String {
    let (runnable, threads) = (host.scheduler.ready_count() + 1, host.threads.len());
    let last = host.next_pid - 1;
    format!("0.00 0.00 0.00 {runnable}/{threads} {last}\n")
}

fn stat(host: &Host) -> String {
    let idle = host.net.clock.monotonic_ns() / TICK_NS;
    let boot = host.net.clock.realtime_ns().saturating_sub(host.boottime_ns()) / SECOND;
    let processes = host.next_pid;
    format!(
        "{}intr 0\nctxt 0\nbtime {boot}\nprocesses {processes}\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
        host.config.processors.idle_times(idle),
    )
}
