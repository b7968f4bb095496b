//! Files of `/proc/<pid>`, `proc(5)`.

use super::{INIT, ProcessFile};
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use crate::mm::PAGE;
use crate::process::Processes;
use crate::thread::ThreadState;
use belljar_linux_abi::{Errno, c};
use belljar_objects::maps::{MemoryUse, TextBytes, maps_text};
use belljar_objects::mounts::text::MountsForm;
use belljar_objects::namespaces::IdKind;
use belljar_objects::process_files::init_text;
use belljar_objects::seccomp::Seccomp;
use belljar_tasks::threads::Threads;
use std::fmt::Write;

/// System calls accounted as a tick of CPU time, a hundredth of a second.
const CALLS_PER_TICK: u64 = 10_000;

impl Host {
    /// Content of a file of `/proc/<pid>`, or of its thread `tid`.
    pub(super) fn process_file(
        &mut self,
        namespace: u32,
        pid: i32,
        tid: Option<i32>,
        file: ProcessFile,
    ) -> Result<Vec<u8>, Errno> {
        if pid == INIT {
            return Ok(match MountsForm::of(file) {
                Some(form) => self.files.mounts_text(0, b"/", form),
                None => init_text(file).into(),
            });
        }
        let key = *self.processes.by_pid.get(&pid).ok_or(Errno::ESRCH)?;
        let process = &self.processes[key.0];
        let maps = |mm: Option<MmKey>, details| {
            mm.map_or_else(Vec::new, |mm| maps_text(self.spaces[mm.0].vmas(), details))
        };
        let text = match file {
            ProcessFile::Auxv => process.mm.map_or_else(Vec::new, |mm| self.spaces[mm.0].auxv.clone()),
            ProcessFile::Cgroup => b"0::/\n".to_vec(),
            ProcessFile::Cmdline => process.cmdline.clone(),
            ProcessFile::Environ => process.environ.clone(),
            ProcessFile::Comm => [&comm_of(&self.threads, &self.processes, key, tid)[..], b"\n"].concat(),
            ProcessFile::Io => b"rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\n\
                cancelled_write_bytes: 0\n"
                .to_vec(),
            ProcessFile::Limits => self.processes.limits_text(key).into_bytes(),
            ProcessFile::Loginuid => b"4294967295".to_vec(),
            ProcessFile::TimeOffsets => {
                let shown = self.processes[key.0].attributes.time.of_children;
                self.processes.time_namespaces.shown(shown).into_bytes()
            }
            ProcessFile::Maps => maps(process.mm, false),
            ProcessFile::Smaps => maps(process.mm, true),
            ProcessFile::SmapsRollup => {
                let kib = MemoryUse::of(process.mm.map(|mm| &self.spaces[mm.0])).resident / 1_024;
                format!("Rss: {kib:>15} kB\nPss: {kib:>15} kB\n").into_bytes()
            }
            // These are read through `read_memory` and `read_pagemap`.
            ProcessFile::Mem | ProcessFile::Pagemap => Vec::new(),
            ProcessFile::Mounts | ProcessFile::Mountinfo | ProcessFile::Mountstats => {
                let text = |form| self.files.mounts_text(process.mount_namespace, &process.root, form);
                MountsForm::of(file).map_or_else(Vec::new, text)
            }
            // Score of a process with hardly any memory, shifted by its adjustment.
            ProcessFile::OomScore => {
                format!("{}\n", (666 + process.attributes.oom_score_adjustment * 2 / 3).max(0)).into_bytes()
            }
            ProcessFile::OomAdj => format!("{}\n", process.attributes.oom_adj()).into_bytes(),
            ProcessFile::OomScoreAdj => format!("{}\n", process.attributes.oom_score_adjustment).into_bytes(),
            ProcessFile::Personality => format!("{:08x}\n", process.attributes.personality).into_bytes(),
            ProcessFile::TimerSlack => format!("{}\n", process.attributes.timer_slack).into_bytes(),
            ProcessFile::CoredumpFilter => {
                format!("{:08x}\n", process.attributes.coredump_filter).into_bytes()
            }
            ProcessFile::SetGroups => {
                let users = &self.processes.namespaces.users;
                users.shown_setgroups(process.credentials.user_namespace).as_bytes().to_vec()
            }
            ProcessFile::IdMap(kind) => {
                let reader = self.caller.map_or(0, |(_, of)| self.processes[of.0].credentials.user_namespace);
                let users = &self.processes.namespaces.users;
                users.shown_map(process.credentials.user_namespace, kind, reader).into_bytes()
            }
            ProcessFile::Cpuset => b"/\n".to_vec(),
            ProcessFile::Timers => {
                let shown = self.processes.namespaces.pids.shown(namespace, process.pid);
                process.signals.timers.text(shown).into_bytes()
            }
            ProcessFile::Stat => self.stat_text(namespace, key, tid),
            ProcessFile::Statm => {
                let MemoryUse { size, resident, stack } =
                    MemoryUse::of(process.mm.map(|mm| &self.spaces[mm.0]));
                format!("{} {} 0 0 0 {} 0\n", size / PAGE, resident / PAGE, stack / PAGE).into_bytes()
            }
            ProcessFile::Status => self.status_text(namespace, key, tid),
            ProcessFile::Wchan => b"0".to_vec(),
        };
        Ok(text)
    }

    /// Updates the peak resident set size of a process; called before its memory shrinks and when the peak is
    /// read.
    pub(crate) fn note_resident(&mut self, process: ProcessKey) {
        let mm = self.processes[process.0].mm;
        let resident = MemoryUse::of(mm.map(|mm| &self.spaces[mm.0])).resident;
        let attributes = &mut self.processes[process.0].attributes;
        attributes.peak_resident = attributes.peak_resident.max(resident);
    }
    fn stat_text(&self, namespace: u32, key: ProcessKey, tid: Option<i32>) -> Vec<u8> {
        let process = &self.processes[key.0];
        let (state, _) = state_of(&self.threads, &self.processes, key, tid);
        let MemoryUse { size, resident, .. } = MemoryUse::of(process.mm.map(|mm| &self.spaces[mm.0]));
        // A time namespace may show less time since boot than the age of the process.
        let age = self.net.clock.now().since(process.started).as_nanos();
        let started = self.boottime_ns().saturating_sub(age) / 10_000_000;
        let own = |pid| self.processes.namespaces.pids.shown(namespace, pid);
        let mut text = format!("{} (", own(tid.unwrap_or(process.pid))).into_bytes();
        text.extend_from_slice(&comm_of(&self.threads, &self.processes, key, tid));
        let (terminal, foreground) = self.files.terminal_numbers(&self.processes, key);
        let [ppid, pgid, sid] = [self.processes.parent_pid(key), process.pgid, process.sid].map(own);
        let foreground = if foreground < 0 { foreground } else { own(foreground) };
        let threads = process.threads.len();
        let calls = match tid.and_then(|tid| self.threads.by_tid.get(&tid)) {
            Some(thread) => self.threads[thread.0].calls,
            None => self.threads.calls_of(&self.processes, key),
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
        let stack = process.mm.map_or(0, |mm| self.spaces[mm.0].stack.end);
        let thread = self.threads.thread_of(&self.processes, key, tid);
        let processor = thread.map_or(0, |thread| self.threads[thread.0].processor());
        let _ = writeln!(
            TextBytes(&mut text),
            ") {state} {ppid} {pgid} {sid} {terminal} {foreground} 4194304 0 0 0 0 {user} {system} {child_user} \
             {child_system} {priority} {nice} {threads} 0 {started} {size} {pages} {limit} 0 0 {stack} 0 0 0 0 0 0 0 0 0 17 {processor} \
             {real_time} {policy} 0 0 0 0 0 0 0 0 0 0 0"
        );
        text
    }

    fn status_text(&self, namespace: u32, key: ProcessKey, tid: Option<i32>) -> Vec<u8> {
        let process = &self.processes[key.0];
        let (state, state_name) = state_of(&self.threads, &self.processes, key, tid);
        let MemoryUse { size, resident, stack } = MemoryUse::of(process.mm.map(|mm| &self.spaces[mm.0]));
        let (kib, resident) = (size / 1_024, resident / 1_024);
        let mut text = b"Name:\t".to_vec();
        text.extend_from_slice(&comm_of(&self.threads, &self.processes, key, tid));
        let who = &process.credentials;
        let reader = self.caller.map_or(0, |(_, of)| self.processes[of.0].credentials.user_namespace);
        let namespaces = &self.processes.namespaces;
        let uid = |id| namespaces.users.shown(reader, IdKind::User, id);
        let gid = |id| namespaces.users.shown(reader, IdKind::Group, id);
        let own = |pid| namespaces.pids.shown(namespace, pid);
        let all = |pid| namespaces.pids.all_shown(namespace, process.attributes.namespaces.pid, pid);
        let groups: String = who.groups.iter().map(|group| format!("{} ", gid(*group))).collect();
        let thread = self.threads.thread_of(&self.processes, key, tid);
        let seccomp = thread.and_then(|thread| self.threads[thread.0].seccomp.as_deref());
        let processors = self.config.processors;
        let allowed = thread.map_or(processors.all(), |thread| self.threads[thread.0].allowed(processors));
        let fds = process.fds.map_or(0, |table| self.files.tables[table.0].entries.len().max(64));
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
            signal_sets(&self.threads, &self.processes, key, tid),
            who.capabilities.inheritable,
            who.capabilities.permitted,
            who.capabilities.effective,
            who.capabilities.bounding,
            who.capabilities.ambient,
            u8::from(process.attributes.no_new_privs),
            seccomp.map_or(0, Seccomp::mode),
            seccomp.map_or(0, Seccomp::filters),
            processors.status(allowed),
            locked = process.mm.map_or(0, |mm| self.spaces[mm.0].locked_bytes()) / 1_024,
            pid = own(process.pid),
            tid = own(tid.unwrap_or(process.pid)),
            ppid = own(self.processes.parent_pid(key)),
            tracer = own(thread.map_or(0, |thread| self.threads.tracer_pid(&self.processes, thread))),
        );
        text
    }
}

/// Signal sets in the format of `/proc/<pid>/status`.
fn signal_sets(threads: &Threads, processes: &Processes, process: ProcessKey, tid: Option<i32>) -> String {
    let signals = &processes[process.0].signals;
    let thread = threads.thread_of(processes, process, tid).map(|key| &threads[key.0].signals);
    let numbers = 1..=belljar_linux_abi::signal::NSIG;
    let set = |which: &dyn Fn(i32) -> bool| {
        numbers.clone().filter(|n| which(*n)).fold(0, |set, n| set | belljar_linux_abi::signal::sig_bit(n))
    };
    let ignored = set(&|n| signals.action(n).handler == c::SIG_IGN as u64);
    let caught = set(&|n| signals.catches(n));
    let queued = signals.pending.len() + thread.map_or(0, |thread| thread.pending.len());
    format!(
        "SigQ:\t{queued}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{ignored:016x}\n\
         SigCgt:\t{caught:016x}\n",
        processes[process.0].rlimits[c::RLIMIT_SIGPENDING as usize].soft,
        thread.map_or(0, |thread| thread.pending.set),
        signals.pending.set,
        thread.map_or(0, |thread| thread.blocked),
    )
}

/// State letter of a thread, such as `R`, `S`, `T` or `Z`, and its name.
fn state_of(
    threads: &Threads,
    processes: &Processes,
    process: ProcessKey,
    tid: Option<i32>,
) -> (char, &'static str) {
    match threads.thread_of(processes, process, tid).map(|key| &threads[key.0].state) {
        _ if processes[process.0].ended.is_some() => ('Z', "zombie"),
        Some(ThreadState::Traced) => ('t', "tracing stop"),
        _ if processes[process.0].signals.job.stopped_by.is_some() => ('T', "stopped"),
        Some(ThreadState::Runnable) => ('R', "running"),
        _ => ('S', "sleeping"),
    }
}

fn comm_of(threads: &Threads, processes: &Processes, process: ProcessKey, tid: Option<i32>) -> Vec<u8> {
    threads.thread_of(processes, process, tid).map_or_else(Vec::new, |key| threads[key.0].comm.clone())
}
