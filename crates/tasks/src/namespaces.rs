//! Namespaces of processes, `namespaces(7)`: memberships, and translation of user, group and process ids.

use crate::process::Processes;
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::credentials::capability;
use belljar_objects::ids::ProcessKey;
use belljar_objects::namespaces::{IdKind, LINKS, NamespaceKind};
use belljar_objects::process_files::INIT;

impl Processes {
    /// Number of the process's namespace of a kind.
    pub fn namespace(&self, process: ProcessKey, kind: NamespaceKind) -> u32 {
        let of = &self[process.0];
        match kind {
            NamespaceKind::Mounts => of.mount_namespace,
            NamespaceKind::Time => of.attributes.time.own,
            NamespaceKind::User => of.credentials.user_namespace,
            NamespaceKind::Cgroup => of.attributes.namespaces.cgroup,
            NamespaceKind::Ipc => of.attributes.namespaces.ipc,
            NamespaceKind::Net => of.attributes.namespaces.net,
            NamespaceKind::Pid => of.attributes.namespaces.pid,
            NamespaceKind::Uts => of.attributes.namespaces.uts,
        }
    }

    /// Kind and number of the namespace that a link of a process refers to. `ENOENT` for the PID namespace of
    /// its children while that has no process.
    pub fn namespace_behind(&self, pid: i32, link: &str) -> Result<(NamespaceKind, u32), Errno> {
        let (_, kind) = LINKS.iter().find(|(name, _)| *name == link).ok_or(Errno::ENOENT)?;
        if pid == INIT {
            return Ok((*kind, 0));
        }
        let process = self.numbered(pid).ok_or(Errno::ENOENT)?;
        let of = &self[process.0].attributes;
        Ok(match link {
            "time_for_children" => (*kind, of.time.of_children),
            "pid_for_children" => {
                let number = of.namespaces.pid_of_children;
                let has_init = number == 0 || self.namespaces.pids.init(number).is_some();
                (*kind, has_init.then_some(number).ok_or(Errno::ENOENT)?)
            }
            _ => (*kind, self.namespace(process, *kind)),
        })
    }
    /// Process id in a PID namespace; `ENOENT` if the process is not visible there.
    pub fn shown_in(&self, namespace: u32, pid: i32) -> Result<String, Errno> {
        let shown = self.namespaces.pids.shown(namespace, pid);
        if shown == 0 { Err(Errno::ENOENT) } else { Ok(shown.to_string()) }
    }
    /// True if `/proc` has a directory for this process.
    pub fn is_shown(&self, pid: i32) -> bool {
        pid == INIT || self.numbered(pid).is_some()
    }

    /// User or group id as reported to a process.
    pub fn shown_id(&self, process: ProcessKey, kind: IdKind, id: u32) -> u32 {
        self.namespaces.users.shown(self[process.0].credentials.user_namespace, kind, id)
    }
    /// Kernel id of an id given by a process; `u32::MAX` is kept. `None` if the id is unmapped in its user
    /// namespace.
    pub fn given_id(&self, process: ProcessKey, kind: IdKind, id: u32) -> Option<u32> {
        self.namespaces.users.given(self[process.0].credentials.user_namespace, kind, id)
    }
    /// Pid of a process or thread as reported to another process; 0 if it is not visible there.
    pub fn shown_pid(&self, process: ProcessKey, pid: i32) -> i32 {
        self.namespaces.pids.shown(self[process.0].attributes.namespaces.pid, pid)
    }
    /// File owner (`F_GETOWN`) as reported to a process; a negative id is a process group.
    pub fn shown_owner(&self, process: ProcessKey, id: i32) -> i32 {
        if id < 0 { -self.shown_pid(process, id.wrapping_neg()) } else { self.shown_pid(process, id) }
    }
    /// Global pid of a pid given by a process; a negative id is a process group. An unused pid if it does not
    /// exist in its PID namespace.
    pub fn meant_pid(&self, process: ProcessKey, pid: i32) -> i32 {
        let number = self[process.0].attributes.namespaces.pid;
        match pid {
            _ if number == 0 || matches!(pid, 0 | i32::MIN) => pid,
            1.. => self.namespaces.pids.sought(number, pid),
            _ => -self.namespaces.pids.sought(number, -pid),
        }
    }
    /// Releases the pid of an ended task in a namespace, unless it is still a group or session id.
    pub fn forget_number(&mut self, namespace: u32, pid: i32) {
        if namespace != 0 && !self.iter().any(|(_, other)| other.pgid == pid || other.sid == pid) {
            self.namespaces.pids.forget(namespace, pid);
        }
    }
    /// Pid, uid and gid as reported to a process; ids of `u32::MAX` are kept.
    pub fn shown_credentials(
        &self,
        process: ProcessKey,
        (pid, uid, gid): (i32, u32, u32),
    ) -> (i32, u32, u32) {
        let shown = |kind, id| if id == u32::MAX { id } else { self.shown_id(process, kind, id) };
        (self.shown_pid(process, pid), shown(IdKind::User, uid), shown(IdKind::Group, gid))
    }
    /// Writes an id map of a process's user namespace.
    pub fn write_id_map(
        &mut self,
        writer: ProcessKey,
        process: ProcessKey,
        kind: IdKind,
        text: &[u8],
    ) -> Result<(), Errno> {
        let number = self[process.0].credentials.user_namespace;
        let who = self[writer.0].credentials.clone();
        self.namespaces.users.write_map(number, kind, &who, text)?;
        if let Some(root) = self.namespaces.users.to_kernel(number, IdKind::User, 0) {
            let members = self.iter_mut().filter(|(_, other)| other.credentials.user_namespace == number);
            members.for_each(|(_, member)| member.credentials.root = root);
        }
        Ok(())
    }
    /// Writes the `setgroups` setting of a process's user namespace.
    pub fn write_setgroups(
        &mut self,
        writer: ProcessKey,
        process: ProcessKey,
        text: &[u8],
    ) -> Result<(), Errno> {
        let number = self[process.0].credentials.user_namespace;
        self.require_in(writer, number, capability::SYS_ADMIN).map_err(|_| Errno::EACCES)?;
        self.namespaces.users.write_setgroups(number, text)
    }

    /// Siginfo with the sender's ids translated to the receiver's namespaces.
    pub fn info_for(&self, process: ProcessKey, info: SigInfo) -> SigInfo {
        match info.sender() {
            Some((pid, uid)) if !self.namespaces.users.is_empty() || !self.namespaces.pids.is_empty() => {
                info.with_sender(self.shown_pid(process, pid), self.shown_id(process, IdKind::User, uid))
            }
            _ => info,
        }
    }
    /// True if a signal is discarded because the target is the init process of a PID namespace and has no
    /// handler for it. Exceptions are hardware faults, and `SIGKILL` and `SIGSTOP` from an ancestor
    /// namespace.
    pub fn spares_init(&self, process: ProcessKey, info: &SigInfo) -> bool {
        let target = &self[process.0];
        let is_init = self.namespaces.pids.is_init(target.attributes.namespaces.pid, target.pid);
        let by_kernel = info.code > 0;
        let is_fault =
            matches!(info.signo, c::SIGSEGV | c::SIGBUS | c::SIGFPE | c::SIGILL | c::SIGTRAP | c::SIGSYS);
        is_init
            && !(by_kernel && is_fault)
            && target.signals.action(info.signo).handler == c::SIG_DFL as u64
            && !(matches!(info.signo, c::SIGKILL | c::SIGSTOP)
                && (by_kernel || info.sender().is_none_or(|(pid, _)| pid == 0)))
    }
}
