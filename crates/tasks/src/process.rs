//! A guest process (thread group) and what its threads share.

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

/// One process.
#[derive(Debug)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Process {
    /// Its descriptors; `None` once it has ended.
    pub fds: Option<FdTableKey>,
    /// Its address space; `None` once it has ended.
    pub mm: Option<MmKey>,
    /// Its living threads, the oldest first.
    pub threads: Vec<ThreadKey>,
    /// Its wait status, once it has ended; it is a zombie until waited for.
    pub ended: Option<WaitStatus>,
    /// Its program's number on the activity board; 0 before it has one.
    pub watched: u32,
    /// Its process id.
    pub pid: i32,
    /// Preemption ticks that its threads may compute for without a call, see `run.rs`.
    pub patience: u32,
    /// Its namespaces are others than the first ones in a way that each of its calls has to heed.
    pub parted: bool,
    /// Signal dispositions, process-wide pending signals and timers.
    pub signals: ProcessSignals,
    /// Its parent; `None` for those that the experiment started (their parent is pid 1) and orphans.
    pub parent: Option<ProcessKey>,
    /// Its children, ended ones that have not been waited for included, in order of creation.
    pub children: Vec<ProcessKey>,
    /// Its process group.
    pub pgid: i32,
    /// Its session.
    pub sid: i32,
    /// Its controlling terminal: its place in `Files::ptys`.
    pub terminal: Option<usize>,
    /// Its working directory as an absolute guest path.
    pub cwd: Vec<u8>,
    /// Its root directory as an absolute guest path.
    pub root: Vec<u8>,
    /// Its mount namespace, by its number in `Files::mounts`.
    pub mount_namespace: u32,
    /// Its file-mode creation mask.
    pub umask: u32,
    /// Absolute guest path of the image it runs.
    pub exe: Vec<u8>,
    /// Its arguments as `/proc/.../cmdline` shows them: each ended by a zero byte.
    pub cmdline: Vec<u8>,
    /// Its initial environment in the same form.
    pub environ: Vec<u8>,
    /// Its resource limits by `RLIMIT_*`.
    pub rlimits: [Rlimit; 16],
    /// Users, groups and capabilities; root's unless the experiment says otherwise.
    pub credentials: Credentials,
    /// The restrictions that it has put on itself, or a maker of it: `landlock(7)`.
    pub restrictions: Option<Arc<Domain>>,
    /// Notified when a child ends, stops or continues.
    pub child_changed: WaitQueueId,
    /// The vfork parent's thread that waits for this process to execute or end.
    pub vfork_parent: Option<ThreadKey>,
    /// The signal that the parent gets when it ends (`SIGCHLD` for fork).
    pub exit_signal: i32,
    /// The experiment's process number on this host, for those that it started.
    pub spec: Option<usize>,
    /// Where its code is to run, as the experiment asks for; `None`: near where that is possible.
    pub placement: Option<Placement>,
    /// True if it has executed since it was forked (`setpgid` refuses then).
    pub has_executed: bool,
    /// When it started.
    pub started: SimTime,
    /// The descriptors of its threads that have none of their own, once any has.
    pub shared_fds: Option<FdTableKey>,
    /// Attributes of `prctl(2)` and accounting.
    pub attributes: ProcessAttributes,
}

impl Process {
    /// Puts it into other namespaces.
    pub fn set_namespaces(&mut self, namespaces: NamespaceMembership) {
        self.attributes.namespaces = namespaces;
        self.parted = namespaces.is_parted();
    }
    /// True if a signal that leaves a core has ended it, and `RLIMIT_CORE` lets it: who waits for it is told, though no file is
    /// written here.
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

/// Numbers of living processes and threads.
pub type PidMap<K> = Map<i32, K>;

/// The processes of a host, ended ones that nobody has waited for included. Its methods answer what follows from processes alone:
/// who may do what to whom (`rights.rs`), and what one is allowed.
#[derive(Debug, Default)]
pub struct Processes {
    all: Slab<Process>,
    /// The time namespaces that they may be in.
    pub time_namespaces: TimeNamespaces,
    /// Their other namespaces.
    pub namespaces: Namespaces,
}

impl Processes {
    /// Changes a process's users, groups and capabilities as the execution of a file does of this owner that has these set-user-ID and
    /// set-group-ID bits, and that it may read if `readable`.
    pub fn take_on_ids(
        &mut self,
        process: ProcessKey,
        owner: (u32, u32),
        taken: (Option<u32>, Option<u32>),
        readable: bool,
    ) {
        let old = self[process.0].credentials.clone();
        // Ids that have no number in the user namespace are not taken on.
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

    /// A process has other credentials: one that its former equals must not look into cannot be dumped, and does not end with its
    /// parent.
    pub fn credentials_changed(&mut self, process: ProcessKey, old: &Credentials) {
        let changed = &mut self[process.0];
        if changed.credentials.parts_from(old) {
            (changed.attributes.dumpable, changed.attributes.parent_death_signal) = (0, 0);
        }
    }

    /// The mount at a process's root has become another: processes keep their places, which have other paths now. Those at the
    /// root are at the new one. The paths are that of the root, the one that the new root had, and the one that the old root has.
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

    /// The number of a process's parent.
    pub fn parent_pid(&self, process: ProcessKey) -> i32 {
        self[process.0].parent.map_or(1, |parent| self[parent.0].pid)
    }
    /// `CLONE_PARENT`: the child is the caller's sibling.
    pub fn adopt_by_grandparent(&mut self, parent: ProcessKey, child: ProcessKey) {
        let grandparent = self[parent.0].parent;
        self[parent.0].children.retain(|c| *c != child);
        self[child.0].parent = grandparent;
        if let Some(grandparent) = grandparent {
            self[grandparent.0].children.push(child);
        }
    }

    /// User and group of the files that a process makes.
    #[inline]
    pub fn maker_of(&self, process: ProcessKey) -> (u32, u32) {
        let who = &self[process.0].credentials;
        (who.fsuid, who.fsgid)
    }
    /// True if a process is in a group.
    #[inline]
    pub fn is_in_group(&self, process: ProcessKey, group: u32) -> bool {
        let who = &self[process.0].credentials;
        who.fsgid == group || who.groups.contains(&group)
    }

    /// Sets a timer of `timer_create` on a clock of processor time.
    pub fn set_processor_timer(&mut self, process: ProcessKey, id: i32, alarm: ProcessorAlarm) {
        if let Some(timer) = self[process.0].signals.timers.posix.get_mut(&id) {
            (timer.processor_alarm, timer.missed, timer.overrun) = (alarm, 0, 0);
        }
        self.processor_timers_changed(process);
    }

    /// Notes whether a process has timers of processor time, after one has been set or cleared.
    pub fn processor_timers_changed(&mut self, process: ProcessKey) {
        let limited = self[process.0].rlimits[c::RLIMIT_CPU as usize].soft != u64::MAX;
        let timers = &mut self[process.0].signals.timers;
        timers.count_processor_time = limited
            || timers.processor.iter().any(|alarm| alarm.at != 0)
            || timers.posix.values().any(|timer| timer.processor_alarm.at != 0);
    }

    /// The offsets of the clocks that a process sees.
    #[inline]
    pub fn time_offsets(&self, process: ProcessKey) -> TimeOffsets {
        self.time_namespaces.offsets(self[process.0].attributes.time.own)
    }
    /// `CLONE_NEWTIME`: the children of a process will be in a new time namespace.
    pub fn unshare_time(&mut self, process: ProcessKey) {
        let new = self.time_namespaces.copy(self[process.0].attributes.time.of_children);
        self[process.0].attributes.time.of_children = new;
        let owner = self[process.0].credentials.user_namespace;
        self.namespaces.plain.made(NamespaceKind::Time, new, owner);
    }
    /// A process is in the time namespace of its children from now on.
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
