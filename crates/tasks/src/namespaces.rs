//! Processes in namespaces, `namespaces(7)`: which ones they are in, and users, groups and processes as they name them.

use crate::process::Processes;
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::credentials::capability;
use belljar_objects::ids::ProcessKey;
use belljar_objects::namespaces::{IdKind, NamespaceKind};

impl Processes {
    /// The namespace of a kind that a process is in.
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

    /// An id of a user or group as a process is shown it.
    pub fn shown_id(&self, process: ProcessKey, kind: IdKind, id: u32) -> u32 {
        self.namespaces.users.shown(self[process.0].credentials.user_namespace, kind, id)
    }
    /// The id that a process means, `u32::MAX` left as it is; `None` if its user namespace does not have it.
    pub fn given_id(&self, process: ProcessKey, kind: IdKind, id: u32) -> Option<u32> {
        self.namespaces.users.given(self[process.0].credentials.user_namespace, kind, id)
    }
    /// A process or thread as another process is shown it: 0 if it has no number there.
    pub fn shown_pid(&self, process: ProcessKey, pid: i32) -> i32 {
        self.namespaces.pids.shown(self[process.0].attributes.namespaces.pid, pid)
    }
    /// The same of a file's owner, which may be a group by its negative number.
    pub fn shown_owner(&self, process: ProcessKey, id: i32) -> i32 {
        if id < 0 { -self.shown_pid(process, id.wrapping_neg()) } else { self.shown_pid(process, id) }
    }
    /// The process or thread, or by its negative number the group, that a process means by a number; one that nobody has if there
    /// is none.
    pub fn meant_pid(&self, process: ProcessKey, pid: i32) -> i32 {
        let number = self[process.0].attributes.namespaces.pid;
        match pid {
            _ if number == 0 || matches!(pid, 0 | i32::MIN) => pid,
            1.. => self.namespaces.pids.sought(number, pid),
            _ => -self.namespaces.pids.sought(number, -pid),
        }
    }
    /// A process or thread of a namespace is no more: its number is nobody's, unless a group or session has it.
    pub fn forget_number(&mut self, namespace: u32, pid: i32) {
        if namespace != 0 && !self.iter().any(|(_, other)| other.pgid == pid || other.sid == pid) {
            self.namespaces.pids.forget(namespace, pid);
        }
    }
    /// Process, user and group as another process is shown them; the invalid ids stay what they are.
    pub fn shown_credentials(
        &self,
        process: ProcessKey,
        (pid, uid, gid): (i32, u32, u32),
    ) -> (i32, u32, u32) {
        let shown = |kind, id| if id == u32::MAX { id } else { self.shown_id(process, kind, id) };
        (self.shown_pid(process, pid), shown(IdKind::User, uid), shown(IdKind::Group, gid))
    }
    /// Writes a map of ids of a process's user namespace.
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
    /// Writes whether processes of a process's user namespace may drop groups.
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

    /// A signal with its sender as the receiver's namespaces have it.
    pub fn info_for(&self, process: ProcessKey, info: SigInfo) -> SigInfo {
        match info.sender() {
            Some((pid, uid)) if !self.namespaces.users.is_empty() || !self.namespaces.pids.is_empty() => {
                info.with_sender(self.shown_pid(process, pid), self.shown_id(process, IdKind::User, uid))
            }
            _ => info,
        }
    }
    /// True if a signal does nothing to process 1 of a namespace: one that it has no handler for, but for faults and those that
    /// cannot be caught and come from outside.
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
