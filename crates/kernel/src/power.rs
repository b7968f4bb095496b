//! Events of the experiment that act on a host: crash, restart, start and signal of processes, clock changes.

use crate::files::{Files, disk_faults, sidecar};
use crate::host::{Host, ProcessReport};
use crate::ids::{InodeKey, ProcessKey};
use crate::net::own::OwnSockets;
use crate::process::WaitStatus;
use crate::upgrade;
use belljar_base::SimTime;
use belljar_linux_abi::c;
use belljar_machine::{CrashFiles, DiskEvent, trees};
use belljar_model_host::Models;
use belljar_netstack::stamping;
use belljar_objects::inode::{DirectorySource, Node, ROOT, join};
use belljar_objects::networks::Networks;
use belljar_objects::open_file::MOST_DESCRIPTORS;
use belljar_objects::protected::Protected;
use belljar_tasks::futexes::FutexTable;

/// Directories whose content is lost at a restart: file systems in memory, and those emptied at boot.
const VOLATILE: [&str; 3] = ["/run", "/dev/shm", "/tmp"];
/// Subdirectory of a volatile directory that is emptied but kept.
const KEPT: &[u8] = b"/run/lock";
/// Name endings of the simulator's own files in the initial working directory of programs.
const OUTPUT: [&str; 4] = ["stdout", "stderr", "strace", "pcap"];

impl Host {
    /// Advances the clock to `to`. Everything before `to` must have been run, unless the host was down:
    /// events due in that interval fire at `to`.
    pub fn advance(&mut self, to: SimTime) {
        self.net.clock.advance(to);
    }

    /// Stops the host at once, as by a loss of power: no process exits in an orderly manner, no connection is
    /// closed, queued packets are lost. `files` says what becomes of the files written by programs.
    pub fn crash(&mut self, files: CrashFiles) {
        if self.net.is_down {
            return;
        }
        disk_faults::crashed(self);
        upgrade::crashed(self);
        self.memory.iter_mut().for_each(|memory| memory.crashed());
        let mut cut = self.net.cut_power();
        self.networks.stacks().for_each(|stack| cut.end_stack(stack));
        let (reports, at) = (self.reports.len(), self.net.clock.now());
        Models::crash(self);
        let running = self.running_specs();
        let processes: Vec<ProcessKey> = self.processes.iter().map(|(key, _)| ProcessKey(key)).collect();
        for process in processes {
            if self.processes.contains(process.0) {
                self.end_process(process, WaitStatus::Signaled(c::SIGKILL));
            }
        }
        crate::attended::crashed(self);
        // Reports caused by closing everything are discarded.
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
        match files {
            CrashFiles::Kept => {}
            CrashFiles::Lost => self.lose_files(),
            CrashFiles::Unsynced { torn } => lose_unsynced(self, torn),
        }
    }

    /// Restarts the host after a crash, and the experiment's processes with it: at once if their start time
    /// has passed.
    pub fn restart(&mut self) {
        if !self.net.is_down {
            return;
        }
        power_on(self, &VOLATILE);
    }

    /// Starts the experiment's process with index `spec`, unless it runs.
    pub fn start_again(&mut self, spec: usize) {
        if !self.net.is_down && !self.running_specs().contains(&spec) {
            self.start_program(spec);
        }
    }

    /// Steps the wall clock by `ns` nanoseconds, forward or back. Waits for an absolute wall-clock time
    /// become shorter or longer, as on Linux.
    pub fn step_clock(&mut self, ns: i64) {
        self.net.clock.step(ns);
        self.wall_clock_stepped(ns);
    }

    /// Sets the drift of the clock from now on, in parts per billion; positive runs fast.
    pub fn set_clock_drift(&mut self, ppb: i64) {
        let before = self.net.clock.clone();
        self.discipline.drift_ppb = ppb;
        stamping::set_oscillator(&mut self.net, ppb);
        self.net.clock.set_drift(self.discipline.ppb());
        self.clock_rate_changed(before);
    }

    /// Removes the host's writable layer and the files that programs wrote in their initial working
    /// directory.
    fn lose_files(&mut self) {
        let number = |inode: InodeKey| self.files.inodes.get(inode.0).map(|inode| inode.number);
        self.write_log.iter_mut().for_each(|log| log.settle(number, |inode| self.files.own_path(inode)));
        self.files = Files::new(&self.config, &self.net.config, &mut *self.machine);
        let directory = self.config.directory.clone();
        trees::remove_tree(&mut *self.machine, &directory.join("fs"));
        for entry in self.machine.read_dir(&directory).unwrap_or_default() {
            let path = join(&directory, &entry.name);
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

    /// Empties a directory, except for directories that exist from the start.
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
            if let Some(path) = self
                .files
                .own_path_in(directory, &entry.name)
                .filter(|_| self.files.inodes[inode.0].node.has_own_name())
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

/// Starts a host that is down, without the content of some directories.
pub(crate) fn power_on(host: &mut Host, emptied: &[&str]) {
    host.discipline.reset();
    host.set_clock_drift(host.discipline.drift_ppb);
    host.net.restore_power();
    host.last_counter = 0;
    let now = host.net.clock.now();
    disk_faults::settle(host);
    host.unmount_all();
    emptied.iter().for_each(|directory| host.empty_directory(directory));
    host.schedule_start(now);
    host.specs_started = host.config.unscheduled();
    host.net.begin_bootstrap();
    host.net.plan_arrivals();
}

/// Brings the files to a state that a crash leaves, by draw: what was synced is there.
fn lose_unsynced(host: &mut Host, torn: bool) {
    let (at, realtime_ns) = (host.net.clock.now(), host.net.clock.realtime_ns() as i64);
    let lost = sidecar::write(host)
        .and_then(|()| host.machine.disk_event(DiskEvent::Crash { torn, at, realtime_ns }));
    // Files that could not be brought to the drawn state may have been changed: what the kernel knows of them is read anew in any case.
    host.files = Files::new(&host.config, &host.net.config, &mut *host.machine);
    let lost = lost.and(host.restore_files());
    while let Some(warning) = host.machine.disk_warning() {
        host.warn(warning);
    }
    let _ = host.machine.remove_file(&host.config.directory.join(sidecar::NAME));
    if let Err(errno) = lost {
        host.warn(format!("files that a crash could not bring to their drawn state: {errno:?}"));
    }
}
