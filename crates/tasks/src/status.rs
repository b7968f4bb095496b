//! `/proc/<pid>/stat` and `/proc/<pid>/status`, proc(5): a process or thread as other processes see it.

use crate::process::Processes;
use crate::thread::ThreadState;
use crate::threads::Threads;
use belljar_linux_abi::c;
use belljar_linux_abi::signal::{NSIG, sig_bit};
use belljar_objects::ids::{ProcessKey, ThreadKey};
use belljar_objects::maps::{MemoryUse, TextBytes};
use belljar_objects::namespaces::IdKind;
use belljar_objects::processors::Processors;
use belljar_objects::seccomp::Seccomp;
use belljar_objects::space::{AddressSpace, PAGE};
use slab::Slab;
use std::fmt::Write;

/// System calls accounted as a tick of CPU time, a hundredth of a second.
pub(crate) const CALLS_PER_TICK: u64 = 10_000;

/// A process or one of its threads, as a reader in a PID namespace sees it.
pub struct ShownTask<'a> {
    /// Processes.
    pub processes: &'a Processes,
    /// Threads.
    pub threads: &'a Threads,
    /// Process.
    pub process: ProcessKey,
    /// Thread id, if it is a thread that is shown.
    pub tid: Option<i32>,
    /// PID namespace of the reader.
    pub namespace: u32,
    /// Memory of the process, unless it has exited.
    pub space: Option<&'a AddressSpace>,
}

impl Processes {
    /// Updates the peak resident set size of a process; called before its memory shrinks and when the peak is
    /// read.
    pub fn note_resident(&mut self, spaces: &Slab<AddressSpace>, process: ProcessKey) {
        let mm = self[process.0].mm;
        let resident = MemoryUse::of(mm.map(|mm| &spaces[mm.0])).resident;
        let attributes = &mut self[process.0].attributes;
        attributes.peak_resident = attributes.peak_resident.max(resident);
    }
}

impl ShownTask<'_> {
    fn thread(&self) -> Option<ThreadKey> {
        self.threads.thread_of(self.processes, self.process, self.tid)
    }
    /// Name of the thread.
    pub fn comm(&self) -> Vec<u8> {
        self.thread().map_or_else(Vec::new, |key| self.threads[key.0].comm.clone())
    }
    /// State letter, such as `R`, `S`, `T` or `Z`, and its name.
    fn state(&self) -> (char, &'static str) {
        let process = &self.processes[self.process.0];
        match self.thread().map(|key| &self.threads[key.0].state) {
            _ if process.ended.is_some() => ('Z', "zombie"),
            Some(ThreadState::Traced) => ('t', "tracing stop"),
            _ if process.signals.job.stopped_by.is_some() => ('T', "stopped"),
            Some(ThreadState::Runnable) => ('R', "running"),
            _ => ('S', "sleeping"),
        }
    }
    /// Signal sets in the format of `/proc/<pid>/status`.
    fn signal_sets(&self) -> String {
        let process = &self.processes[self.process.0];
        let signals = &process.signals;
        let thread = self.thread().map(|key| &self.threads[key.0].signals);
        let set =
            |which: &dyn Fn(i32) -> bool| (1..=NSIG).filter(|n| which(*n)).fold(0, |set, n| set | sig_bit(n));
        let ignored = set(&|n| signals.action(n).handler == c::SIG_IGN as u64);
        let caught = set(&|n| signals.catches(n));
        let queued = signals.pending.len() + thread.map_or(0, |thread| thread.pending.len());
        format!(
            "SigQ:\t{queued}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{ignored:016x}\n\
             SigCgt:\t{caught:016x}\n",
            process.rlimits[c::RLIMIT_SIGPENDING as usize].soft,
            thread.map_or(0, |thread| thread.pending.set),
            signals.pending.set,
            thread.map_or(0, |thread| thread.blocked),
        )
    }

    /// `/proc/<pid>/stat`. `started` is the time of the start in ticks since boot, `terminal` the device number
    /// of the terminal with its foreground process group.
    pub fn stat(&self, started: u64, (terminal, foreground): (u64, i32)) -> Vec<u8> {
        let (key, tid) = (self.process, self.tid);
        let process = &self.processes[key.0];
        let (state, _) = self.state();
        let MemoryUse { size, resident, .. } = MemoryUse::of(self.space);
        let own = |pid| self.processes.namespaces.pids.shown(self.namespace, pid);
        let mut text = format!("{} (", own(tid.unwrap_or(process.pid))).into_bytes();
        text.extend_from_slice(&self.comm());
        let [ppid, pgid, sid] = [self.processes.parent_pid(key), process.pgid, process.sid].map(own);
        let foreground = if foreground < 0 { foreground } else { own(foreground) };
        let threads = process.threads.len();
        let calls = match tid.and_then(|tid| self.threads.by_tid.get(&tid)) {
            Some(thread) => self.threads[thread.0].calls,
            None => self.threads.calls_of(self.processes, key),
        };
        let of_children = process.attributes.children_calls;
        let ticks = |calls: u64| calls / CALLS_PER_TICK;
        let (user, system) = (ticks(calls - calls / 2), ticks(calls / 2));
        let (child_user, child_system) = (ticks(of_children - of_children / 2), ticks(of_children / 2));
        let nice = process.attributes.nice;
        let (policy, real_time) = process.attributes.scheduling;
        let priority = if real_time > 0 { -1 - real_time } else { 20 + nice };
        let policy = policy & 0xff;
        let (pages, limit) = (resident / PAGE, process.rlimits[c::RLIMIT_RSS as usize].soft);
        let stack = self.space.map_or(0, |space| space.stack.end);
        let thread = self.thread();
        let processor = thread.map_or(0, |thread| self.threads[thread.0].processor());
        let _ = writeln!(
            TextBytes(&mut text),
            ") {state} {ppid} {pgid} {sid} {terminal} {foreground} 4194304 0 0 0 0 {user} {system} {child_user} \
             {child_system} {priority} {nice} {threads} 0 {started} {size} {pages} {limit} 0 0 {stack} 0 0 0 0 0 0 0 0 0 17 {processor} \
             {real_time} {policy} 0 0 0 0 0 0 0 0 0 0 0"
        );
        text
    }

    /// `/proc/<pid>/status`. `reader` is the user namespace of the reader, `fds` the size of the descriptor table.
    pub fn status(&self, reader: u32, fds: usize, processors: Processors) -> Vec<u8> {
        let (key, tid, namespace) = (self.process, self.tid, self.namespace);
        let process = &self.processes[key.0];
        let (state, state_name) = self.state();
        let MemoryUse { size, resident, stack } = MemoryUse::of(self.space);
        let (kib, resident) = (size / 1_024, resident / 1_024);
        let mut text = b"Name:\t".to_vec();
        text.extend_from_slice(&self.comm());
        let who = &process.credentials;
        let namespaces = &self.processes.namespaces;
        let uid = |id| namespaces.users.shown(reader, IdKind::User, id);
        let gid = |id| namespaces.users.shown(reader, IdKind::Group, id);
        let own = |pid| namespaces.pids.shown(namespace, pid);
        let all = |pid| namespaces.pids.all_shown(namespace, process.attributes.namespaces.pid, pid);
        let groups: String = who.groups.iter().map(|group| format!("{} ", gid(*group))).collect();
        let thread = self.thread();
        let seccomp = thread.and_then(|thread| self.threads[thread.0].seccomp.as_deref());
        let allowed = thread.map_or(processors.all(), |thread| self.threads[thread.0].allowed(processors));
        let fds = if process.fds.is_some() { fds.max(64) } else { 0 };
        let _ = write!(
            TextBytes(&mut text),
            "\nUmask:\t{:04o}\nState:\t{state} ({state_name})\nTgid:\t{pid}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{ppid}\n\
             TracerPid:\t{tracer}\nUid:\t{}\t{}\t{}\t{}\nGid:\t{}\t{}\t{}\t{}\nFDSize:\t{fds}\nGroups:\t{groups}\n\
             NStgid:{}\nNSpid:{}\nNSpgid:{}\nNSsid:{}\nVmPeak:\t{kib:>8} kB\nVmSize:\t{kib:>8} kB\n\
             VmLck:\t{locked:>8} kB\nVmPin:\t       0 kB\nVmHWM:\t{resident:>8} kB\nVmRSS:\t{resident:>8} kB\n\
             VmData:\t{kib:>8} kB\nVmStk:\t{:>8} kB\nVmSwap:\t       0 kB\nThreads:\t{}\n{}\
             CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\n\
             NoNewPrivs:\t{}\nSeccomp:\t{}\nSeccomp_filters:\t{}\n{}voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n",
            process.umask,
            uid(who.ruid),
            uid(who.euid),
            uid(who.suid),
            uid(who.fsuid),
            gid(who.rgid),
            gid(who.egid),
            gid(who.sgid),
            gid(who.fsgid),
            all(process.pid),
            all(tid.unwrap_or(process.pid)),
            all(process.pgid),
            all(process.sid),
            stack / 1_024,
            process.threads.len(),
            self.signal_sets(),
            who.capabilities.inheritable,
            who.capabilities.permitted,
            who.capabilities.effective,
            who.capabilities.bounding,
            who.capabilities.ambient,
            u8::from(process.attributes.no_new_privs),
            seccomp.map_or(0, Seccomp::mode),
            seccomp.map_or(0, Seccomp::filters),
            processors.status(allowed),
            locked = self.space.map_or(0, |space| space.locked_bytes()) / 1_024,
            pid = own(process.pid),
            tid = own(tid.unwrap_or(process.pid)),
            ppid = own(self.processes.parent_pid(key)),
            tracer = own(thread.map_or(0, |thread| self.threads.tracer_pid(self.processes, thread))),
        );
        text
    }
}
