//! Events of the experiment that act on a host: it crashes and starts again, its processes are started and signalled,
//! its clock and its interface change.

use crate::files::tree::{DirectorySource, Node, ROOT};
use crate::files::{Files, MOST_DESCRIPTORS};
use crate::host::{Host, ProcessReport, unscheduled};
use crate::ids::{InodeKey, ProcessKey};
use crate::net::networks::Networks;
use crate::net::own::OwnSockets;
use crate::process::WaitStatus;
use belljar_base::SimTime;
use belljar_linux_abi::c;
use belljar_machine::trees;
use belljar_model_host::Models;
use belljar_objects::protected::Protected;
use belljar_tasks::futexes::FutexTable;
use std::path::{Path, PathBuf};

/// Directories whose content does not survive: file systems in memory, and what is emptied at boot.
const VOLATILE: [&str; 3] = ["/run", "/dev/shm", "/tmp"];
/// A directory that is always there.
const KEPT: &[u8] = b"/run/lock";
/// Name endings of the simulator's own files in the folder that programs start in.
const OUTPUT: [&str; 4] = ["stdout", "stderr", "strace", "pcap"];

impl Host {
    /// Moves the clock on to `to`, before which everything has happened, or the host has stood still: what was due then happens at
    /// `to`.
    pub fn advance(&mut self, to: SimTime) {
        self.net.clock.advance(to);
    }

    /// Stops at once, as by a loss of power: no process ends in an orderly way, no connection is
    /// closed, what is queued is lost. With `lose_files` what programs have written is gone too.
    pub fn crash(&mut self, lose_files: bool) {
        if self.net.is_down {
            return;
        }
        let cut = self.net.cut_power();
        let (reports, at) = (self.reports.len(), self.net.clock.now());
        Models::crash(self);
        let running = self.running_specs();
        let processes: Vec<ProcessKey> = self.processes.iter().map(|(key, _)| ProcessKey(key)).collect();
        for process in processes {
            if self.processes.contains(process.0) {
                self.end_process(process, WaitStatus::Signaled(c::SIGKILL));
            }
        }
        // Nobody is left to see what closing everything has set off.
        self.reports.truncate(reports);
        self.reports.extend(running.into_iter().map(|spec| ProcessReport::Crashed { spec, at }));
        for zombie in self.processes.drain() {
            self.waits.destroy(zombie.child_changed);
            self.waits.destroy(zombie.signals.arrived);
        }
        self.processes.time_namespaces = Default::default();
        self.processes.namespaces = Default::default();
        self.processes.by_pid.clear();
        self.scheduler.clear();
        self.debuggers.forget_threads();
        self.ended_tracees.clear();
        self.timers.clear();
        self.futexes = FutexTable::default();
        self.lose_ipc();
        self.keys.reset();
        (self.files.most_descriptors, self.files.protected) = (MOST_DESCRIPTORS, Protected::default());
        self.carry_out_effects();
        self.waits.forget_sockets();
        self.own = OwnSockets::default();
        self.end_turn();
        (self.networks, self.has_networks) = (Networks::default(), false);
        self.net.lose_state(cut);
        self.specs_started = self.config.processes.len();
        self.last_end = at;
        if lose_files {
            self.lose_files();
        }
    }

    /// Starts again after a crash, and the experiment's processes with it: those whose time has
    /// passed at once.
    pub fn restart(&mut self) {
        if !self.net.is_down {
            return;
        }
        self.discipline.reset();
        self.set_clock_drift(self.discipline.drift_ppb);
        self.net.restore_power();
        self.last_counter = 0;
        let now = self.net.clock.now();
        self.unmount_all();
        VOLATILE.iter().for_each(|directory| self.empty_directory(directory));
        self.schedule_processes(now);
        Models::schedule(self, now);
        self.specs_started = unscheduled(&self.config);
        self.net.begin_bootstrap();
        self.net.plan_arrivals();
    }

    /// Starts the experiment's process number `spec`, unless it runs.
    pub fn start_again(&mut self, spec: usize) {
        if !self.net.is_down && !self.running_specs().contains(&spec) {
            self.start_program(spec);
        }
    }

    /// Sets the wall clock forward by so many nanoseconds, or back. Who waits for a point of the wall
    /// clock waits shorter or longer, as on Linux.
    pub fn step_clock(&mut self, ns: i64) {
        self.net.clock.step(ns);
        self.wall_clock_stepped(ns);
    }

    /// Lets the clock gain so many parts per billion from now on.
    pub fn set_clock_drift(&mut self, ppb: i64) {
        let before = self.net.clock.clone();
        self.discipline.drift_ppb = ppb;
        self.net.clock.set_drift(self.discipline.ppb());
        self.clock_rate_changed(before);
    }

    /// Everything in the host's own layer is gone, and what programs wrote where they started.
    fn lose_files(&mut self) {
        self.files = Files::new(&self.config, &self.net.config, &mut *self.machine);
        let directory = self.config.directory.clone();
        trees::remove_tree(&mut *self.machine, &directory.join("fs"));
        for entry in self.machine.read_dir(&directory).unwrap_or_default() {
            let path = native(&directory, &entry.name);
            let is_output = path.extension().is_some_and(|e| OUTPUT.iter().any(|known| e == *known));
            match entry.kind == c::S_IFDIR {
                true => trees::remove_tree(&mut *self.machine, &path),
                false if is_output => {}
                false => drop(self.machine.remove_file(&path)),
            }
        }
    }

    fn empty_directory(&mut self, path: &str) {
        let mut at = ROOT;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            match self.lookup(at, part.as_bytes()) {
                Ok(Some(next)) => at = next,
                _ => return,
            }
        }
        self.empty(at);
    }

    /// Removes what is in a directory, but for what was there from the beginning.
    fn empty(&mut self, directory: InodeKey) {
        if !self.files.inode(directory).node.is_directory() {
            return;
        }
        for entry in self.list(directory).unwrap_or_default() {
            let Ok(Some(inode)) = self.lookup(directory, &entry.name) else { continue };
            if let Node::Directory(inner) = &self.files.inode(inode).node {
                let given = inner.own_root.is_some() || inner.hidden || inner.source != DirectorySource::None;
                if given {
                    continue;
                }
                self.empty(inode);
                if self.files.path_of(inode).as_deref() == Some(KEPT) {
                    continue;
                }
            }
            if let Some(path) =
                self.files.own_path_in(directory, &entry.name).filter(|_| self.files.has_own_name(inode))
            {
                let is_directory = self.files.inode(inode).node.is_directory();
                let _ = if is_directory {
                    self.machine.remove_dir(&path)
                } else {
                    self.machine.remove_file(&path)
                };
            }
            self.files.remove_name(directory, &entry.name);
            self.forget_if_unused(inode);
        }
    }
}

fn native(directory: &Path, name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    directory.join(std::ffi::OsStr::from_bytes(name))
}
