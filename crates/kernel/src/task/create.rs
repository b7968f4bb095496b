//! New processes and threads.

use crate::credentials::Credentials;
use crate::host::Host;
use crate::ids::{FdTableKey, MmKey, ProcessKey, ThreadKey};
use crate::process::{Process, ProcessAttributes};
use crate::signal::{ProcessSignals, ThreadSignals};
use crate::thread::{Thread, ThreadState};
use belljar_linux_abi::c;
use belljar_machine::ContextId;
use belljar_objects::open_file::FdTable;
use std::os::unix::ffi::OsStrExt;

/// Initial umask of the experiment's processes.
const DEFAULT_UMASK: u32 = 0o022;

impl Host {
    /// Creates the experiment's process with index `spec`: leader of a session of its own, with an empty
    /// descriptor table, no memory and no thread. The caller provides those
    /// ([`create_thread`](Host::create_thread)) and the names of its image.
    pub(crate) fn create_process(&mut self, spec: usize) -> ProcessKey {
        let pid = self.allocate_pid();
        let fds = FdTableKey(self.files.tables.insert(FdTable { users: 1, entries: Vec::new() }));
        let process = Process {
            pid,
            parent: None,
            children: Vec::new(),
            pgid: pid,
            sid: pid,
            terminal: None,
            mm: None,
            fds: Some(fds),
            threads: Vec::new(),
            signals: ProcessSignals::new(self.waits.create()),
            cwd: self.config.working_directory.as_os_str().as_bytes().to_vec(),
            root: b"/".to_vec(),
            mount_namespace: 0,
            umask: DEFAULT_UMASK,
            exe: Vec::new(),
            watched: 0,
            cmdline: Vec::new(),
            environ: Vec::new(),
            rlimits: Process::default_rlimits(),
            credentials: Credentials::default(),
            restrictions: None,
            ended: None,
            child_changed: self.waits.create(),
            vfork_parent: None,
            exit_signal: c::SIGCHLD,
            spec: Some(spec),
            placement: self.config.processes.get(spec).and_then(|spec| spec.placement),
            has_executed: false,
            started: self.net.clock.now(),
            parted: false,
            shared_fds: None,
            attributes: ProcessAttributes::default(),
        };
        let key = ProcessKey(self.processes.insert(process));
        self.processes.by_pid.insert(pid, key);
        self.files.mounts.enter(0);
        key
    }

    /// Creates a child of `parent` that runs in `mm` with the descriptors `fds`; the child takes over one use
    /// of each. The child has no thread yet and inherits the attributes listed in `fork(2)`.
    pub(crate) fn create_child(
        &mut self,
        parent: ProcessKey,
        mm: MmKey,
        fds: FdTableKey,
        exit_signal: i32,
    ) -> ProcessKey {
        let pid = self.allocate_pid();
        let (arrived, child_changed) = (self.waits.create(), self.waits.create());
        let started = self.net.clock.now();
        let from = self.process(parent);
        let attributes = from.attributes.for_child();
        let process = Process {
            pid,
            parent: Some(parent),
            children: Vec::new(),
            pgid: from.pgid,
            sid: from.sid,
            terminal: from.terminal,
            mm: Some(mm),
            fds: Some(fds),
            threads: Vec::new(),
            signals: from.signals.for_child(arrived),
            cwd: from.cwd.clone(),
            root: from.root.clone(),
            mount_namespace: from.mount_namespace,
            umask: from.umask,
            exe: from.exe.clone(),
            watched: from.watched,
            cmdline: from.cmdline.clone(),
            environ: from.environ.clone(),
            rlimits: from.rlimits,
            credentials: from.credentials.clone(),
            restrictions: from.restrictions.clone(),
            ended: None,
            child_changed,
            vfork_parent: None,
            exit_signal,
            spec: None,
            placement: from.placement,
            has_executed: false,
            started,
            parted: attributes.namespaces.is_parted(),
            shared_fds: None,
            attributes,
        };
        let key = ProcessKey(self.processes.insert(process));
        self.processes.by_pid.insert(pid, key);
        self.process(parent).children.push(key);
        let number = self.processes[key.0].attributes.namespaces.pid;
        self.processes.namespaces.pids.add(number, pid);
        let namespace = self.processes[key.0].mount_namespace;
        self.files.mounts.enter(namespace);
        self.processes.processor_timers_changed(key);
        key
    }

    /// Creates a thread of `process` that runs `context`, at the end of the run queue. The first thread's id
    /// is the process id. The signal mask is empty; the name is that of the oldest thread or, for the first
    /// thread, of the image.
    pub(crate) fn create_thread(&mut self, process: ProcessKey, context: ContextId) -> ThreadKey {
        let (tid, comm) = match self.processes[process.0].threads.first() {
            None => (self.processes[process.0].pid, comm_of(&self.processes[process.0].exe)),
            Some(first) => {
                let comm = self.threads[first.0].comm.clone();
                let tid = self.allocate_pid();
                let number = self.processes[process.0].attributes.namespaces.pid;
                self.processes.namespaces.pids.add(number, tid);
                (tid, comm)
            }
        };
        let key = ThreadKey(self.threads.insert(Thread {
            tid,
            process,
            context,
            state: ThreadState::Runnable,
            continuation: None,
            held: Default::default(),
            trace: None,
            seccomp: None,
            affinity: None,
            signals: ThreadSignals::default(),
            clear_child_tid: 0,
            robust_list: (0, 0),
            comm,
            asked: Vec::new(),
            spin: None,
            computes: false,
            calls: 0,
            own_fds: None,
            asked_ids: 0,
            keyrings: None,
        }));
        self.threads.by_tid.insert(tid, key);
        self.process(process).threads.push(key);
        self.scheduler.ready(key);
        key
    }
}

/// Name of a thread that has executed `path`: the last component, truncated to `TASK_COMM_LEN`.
pub(crate) fn comm_of(path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    name[..name.len().min(15)].to_vec()
}
