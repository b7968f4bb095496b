//! Files of `/proc/<pid>`, `proc(5)`.

use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use belljar_linux_abi::Errno;
use belljar_objects::maps::{MemoryUse, maps_text};
use belljar_objects::mounts::text::MountsForm;
use belljar_objects::process_files::{INIT, ProcessFile, init_text};
use belljar_objects::space::PAGE;
use belljar_tasks::status::ShownTask;

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
            ProcessFile::Comm => [&self.shown_task(namespace, key, tid).comm()[..], b"\n"].concat(),
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

    /// A process or one of its threads, as a reader in a PID namespace sees it.
    fn shown_task(&self, namespace: u32, process: ProcessKey, tid: Option<i32>) -> ShownTask<'_> {
        let space = self.processes[process.0].mm.map(|mm| &self.spaces[mm.0]);
        ShownTask { processes: &self.processes, threads: &self.threads, process, tid, namespace, space }
    }
    fn stat_text(&self, namespace: u32, key: ProcessKey, tid: Option<i32>) -> Vec<u8> {
        // A time namespace may show less time since boot than the age of the process.
        let age = self.net.clock.now().since(self.processes[key.0].started).as_nanos();
        let started = self.boottime_ns().saturating_sub(age) / 10_000_000;
        let terminal = self.files.terminal_numbers(&self.processes, key);
        self.shown_task(namespace, key, tid).stat(started, terminal)
    }
    fn status_text(&self, namespace: u32, key: ProcessKey, tid: Option<i32>) -> Vec<u8> {
        let reader = self.caller.map_or(0, |(_, of)| self.processes[of.0].credentials.user_namespace);
        let table = self.processes[key.0].fds;
        let fds = table.map_or(0, |table| self.files.tables[table.0].entries.len());
        self.shown_task(namespace, key, tid).status(reader, fds, self.config.processors)
    }
}
