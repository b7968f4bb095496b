//! Processes (thread groups): the state that their threads share.

use belljar_base::{Map, SimTime};
use belljar_linux_abi::c;
use belljar_machine::Placement;
pub use belljar_objects::attributes::{ProcessAttributes, Rlimit, WaitStatus};
use belljar_objects::credentials::Credentials;
use belljar_objects::ids::{FdTableKey, MmKey, ProcessKey, ThreadKey, WaitQueueId};
use belljar_objects::landlock::Domain;
use belljar_objects::namespaces::{NamespaceKind, NamespaceMembership, Namespaces};
use belljar_objects::signals::{ProcessSignals, ProcessorAlarm};
use belljar_objects::time_namespaces::{TimeNamespaces, TimeOffsets};
use slab::Slab;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Process.
#[derive(Debug)]
#[repr(C)] // Frequently read fields first: see `belljar_base::Footprint`.
pub struct Process {
    /// Descriptor table; `None` after exit.
    pub fds: Option<FdTableKey>,
    /// Address space; `None` after exit.
    pub mm: Option<MmKey>,
    /// Living threads, oldest first.
    pub threads: Vec<ThreadKey>,
    /// Wait status after exit; the process is a zombie until it is waited for.
    pub ended: Option<WaitStatus>,
    /// Number of the program on the activity board; 0 before it has one.
    pub watched: u32,
    /// Process id.
    pub pid: i32,
    /// True if calls must translate ids or names because of the process's namespaces.
    pub parted: bool,
    /// Signal dispositions, process-wide pending signals and timers.
    pub signals: ProcessSignals,
    /// Parent; `None` for processes started by the experiment (their parent is pid 1) and for orphans.
    pub parent: Option<ProcessKey>,
    /// Children in order of creation, zombies included.
    pub children: Vec<ProcessKey>,
    /// Process group id.
    pub pgid: i32,
    /// Session id.
    pub sid: i32,
    /// Controlling terminal, an index of `Files::ptys`.
    pub terminal: Option<usize>,
    /// Working directory, an absolute guest path.
    pub cwd: Vec<u8>,
    /// Root directory, an absolute guest path.
    pub root: Vec<u8>,
    /// Mount namespace, a number of `Files::mounts`.
    pub mount_namespace: u32,
    /// File mode creation mask.
    pub umask: u32,
    /// Absolute guest path of the executable.
    pub exe: Vec<u8>,
    /// Arguments as in `/proc/.../cmdline`, each NUL-terminated.
    pub cmdline: Vec<u8>,
    /// Initial environment, each string NUL-terminated.
    pub environ: Vec<u8>,
    /// Resource limits, indexed by `RLIMIT_*`.
    pub rlimits: [Rlimit; 16],
    /// Users, groups and capabilities; those of root unless the experiment sets others.
    pub credentials: Credentials,
    /// Landlock domain of the process, inherited or its own: `landlock(7)`.
    pub restrictions: Option<Arc<Domain>>,
    /// Wait queue, notified when a child exits, stops or continues.
    pub child_changed: WaitQueueId,
    /// Thread of the parent that waits in `vfork` for this process to execute or exit.
    pub vfork_parent: Option<ThreadKey>,
    /// Signal sent to the parent on exit (`SIGCHLD` for fork).
    pub exit_signal: i32,
    /// Index of the process in the experiment on this host, if the experiment started it.
    pub spec: Option<usize>,
    /// Placement of its code as set in the experiment; `None` for near, where that is possible.
    pub placement: Option<Placement>,
    /// True if it has executed a program since the fork; `setpgid` then refuses.
    pub has_executed: bool,
    /// Start time.
    pub started: SimTime,
    /// Descriptor table of the threads without a private one, once a thread has one.
    pub shared_fds: Option<FdTableKey>,
    /// `prctl(2)` attributes and accounting.
    pub attributes: ProcessAttributes,
}

impl Process {
    /// Sets the namespaces.
    pub fn set_namespaces(&mut self, namespaces: NamespaceMembership) {
        self.attributes.namespaces = namespaces;
        self.parted = namespaces.is_parted();
    }
    /// True if the process was killed by a core-dumping signal and `RLIMIT_CORE` permits a core file. The
    /// wait status reports a core dump, although no file is written.
    pub fn dumps_core(&self) -> bool {
        const LEAST: u64 = 4_096;
        let Some(WaitStatus::Signaled(signal)) = self.ended else { return false };
        let leaves = matches!(
            signal,
            c::SIGQUIT
                | c::SIGILL
                | c::SIGTRAP
                | c::SIGABRT
                | c::SIGBUS
                | c::SIGFPE
                | c::SIGSEGV
                | c::SIGXCPU
                | c::SIGXFSZ
                | c::SIGSYS
        );
        leaves && self.rlimits[c::RLIMIT_CORE as usize].soft >= LEAST && self.attributes.dumpable == 1
    }
}

/// Living processes or threads by id.
pub type PidMap<K> = Map<i32, K>;

/// Processes of a host, zombies included. The methods depend on processes only: permission checks
/// (`rights.rs`), limits, namespaces.
#[derive(Debug, Default)]
pub struct Processes {
    all: Slab<Process>,
    /// Process keys by process id.
    pub by_pid: PidMap<ProcessKey>,
    /// Time namespaces.
    pub time_namespaces: TimeNamespaces,
    /// Other namespaces.
    pub namespaces: Namespaces,
}

impl Processes {
    /// Changes the credentials for the execution of a file with this owner, set-user-ID and set-group-ID
    /// bits. `readable` is true if the process may read the file.
    pub fn take_on_ids(
        &mut self,
        process: ProcessKey,
        owner: (u32, u32),
        taken: (Option<u32>, Option<u32>),
        readable: bool,
    ) {
        let old = self[process.0].credentials.clone();
        // Ids that are unmapped in the user namespace are ignored.
        let known = self.namespaces.users.knows_owner(old.user_namespace, owner);
        let (uid, gid) = if known { taken } else { (None, None) };
        let changed = &mut self[process.0];
        let secure = changed.credentials.executed(uid, gid, changed.attributes.no_new_privs);
        let dumpable = readable && (old.euid, old.egid) == (old.ruid, old.rgid);
        changed.attributes.dumpable = u64::from(dumpable);
        changed.attributes.secure = secure;
        if secure {
            changed.attributes.parent_death_signal = 0;
        }
        self.credentials_changed(process, &old);
    }

    /// Handles a change of credentials. If they no longer match the old ones, the process becomes
    /// non-dumpable and loses its parent-death signal.
    pub fn credentials_changed(&mut self, process: ProcessKey, old: &Credentials) {
        let changed = &mut self[process.0];
        if changed.credentials.parts_from(old) {
            (changed.attributes.dumpable, changed.attributes.parent_death_signal) = (0, 0);
        }
    }

    /// Updates the paths of a namespace's processes after `pivot_root`: directories are kept and their paths
    /// change; processes at the old root move to the new one. The paths are the root's, the former path of
    /// the new root, and the new path of the old root.
    pub fn change_root(&mut self, namespace: u32, [root_at, new_at, old_at]: [&[u8]; 3]) {
        let prefix = |at: &[u8]| if at == b"/" { Vec::new() } else { at.to_vec() };
        let rest = |path: &[u8], at: &[u8]| {
            let rest = path.strip_prefix(&prefix(at)[..])?;
            (rest.is_empty() || rest[0] == b'/').then(|| rest.to_vec())
        };
        let joined = |at: &[u8], rest: &[u8]| match [&prefix(at)[..], rest].concat() {
            path if path.is_empty() => b"/".to_vec(),
            path => path,
        };
        let moved = |path: &[u8]| match (rest(path, new_at), rest(path, root_at)) {
            _ if path == root_at => path.to_vec(),
            (Some(rest), _) => joined(root_at, &rest),
            (None, Some(rest)) if old_at != root_at => joined(old_at, &rest),
            _ => path.to_vec(),
        };
        for (_, process) in self.all.iter_mut() {
            if process.mount_namespace == namespace {
                process.cwd = moved(&process.cwd);
                process.root = moved(&process.root);
            }
        }
    }

    /// Pid of a process's parent; 1 if it has none.
    pub fn parent_pid(&self, process: ProcessKey) -> i32 {
        self[process.0].parent.map_or(1, |parent| self[parent.0].pid)
    }
    /// `CLONE_PARENT`: makes the child a sibling of the caller.
    pub fn adopt_by_grandparent(&mut self, parent: ProcessKey, child: ProcessKey) {
        let grandparent = self[parent.0].parent;
        self[parent.0].children.retain(|c| *c != child);
        self[child.0].parent = grandparent;
        if let Some(grandparent) = grandparent {
            self[grandparent.0].children.push(child);
        }
    }

    /// Owner and group of files that the process creates.
    #[inline]
    pub fn maker_of(&self, process: ProcessKey) -> (u32, u32) {
        let who = &self[process.0].credentials;
        (who.fsuid, who.fsgid)
    }
    /// True if the process is a member of the group.
    #[inline]
    pub fn is_in_group(&self, process: ProcessKey, group: u32) -> bool {
        let who = &self[process.0].credentials;
        who.fsgid == group || who.groups.contains(&group)
    }

    /// Sets a timer of `timer_create` on a CPU-time clock.
    pub fn set_processor_timer(&mut self, process: ProcessKey, id: i32, alarm: ProcessorAlarm) {
        if let Some(timer) = self[process.0].signals.timers.posix.get_mut(&id) {
            (timer.processor_alarm, timer.missed, timer.overrun) = (alarm, 0, 0);
        }
        self.processor_timers_changed(process);
    }

    /// Updates the flag for CPU-time timers after one has been set or cleared.
    pub fn processor_timers_changed(&mut self, process: ProcessKey) {
        let limited = self[process.0].rlimits[c::RLIMIT_CPU as usize].soft != u64::MAX;
        let timers = &mut self[process.0].signals.timers;
        timers.count_processor_time = limited
            || timers.processor.iter().any(|alarm| alarm.at != 0)
            || timers.posix.values().any(|timer| timer.processor_alarm.at != 0);
    }

    /// Clock offsets of the process's time namespace.
    #[inline]
    pub fn time_offsets(&self, process: ProcessKey) -> TimeOffsets {
        self.time_namespaces.offsets(self[process.0].attributes.time.own)
    }
    /// `CLONE_NEWTIME`: creates a time namespace for the process's future children.
    pub fn unshare_time(&mut self, process: ProcessKey) {
        let new = self.time_namespaces.copy(self[process.0].attributes.time.of_children);
        self[process.0].attributes.time.of_children = new;
        let owner = self[process.0].credentials.user_namespace;
        self.namespaces.plain.made(NamespaceKind::Time, new, owner);
    }
    /// Moves a process to the time namespace of its children.
    pub fn enter_time(&mut self, process: ProcessKey) {
        let time = &mut self.all[process.0].attributes.time;
        time.own = time.of_children;
        self.time_namespaces.enter(time.own);
    }
}

impl Deref for Processes {
    type Target = Slab<Process>;
    #[inline]
    fn deref(&self) -> &Slab<Process> {
        &self.all
    }
}

impl DerefMut for Processes {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slab<Process> {
        &mut self.all
    }
}
