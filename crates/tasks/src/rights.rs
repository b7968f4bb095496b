//! Permission checks on other processes, the host and System V IPC objects, `capabilities(7)`. Every call
//! that Linux denies to some users asks here; file permissions are in `kernel/src/files/permission.rs`.

use crate::process::Processes;
use belljar_linux_abi::ipc::IpcPerm;
use belljar_linux_abi::landlock::SCOPE_SIGNAL;
use belljar_linux_abi::{Errno, c};
use belljar_objects::credentials::{Credentials, capability};
use belljar_objects::ids::ProcessKey;
use belljar_objects::namespaces::{IdKind, NamespaceKind};

/// Credentials of the accessing process, `ptrace(2)` "Ptrace access mode checking".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessIds {
    /// File-system ids (`PTRACE_MODE_FSCREDS`), for `/proc`.
    File,
    /// Real ids (`PTRACE_MODE_REALCREDS`), for system calls.
    Real,
}

impl Processes {
    fn who(&self, process: ProcessKey) -> &Credentials {
        &self[process.0].credentials
    }

    /// True if the process has a capability, one of [`capability`], in the initial user namespace.
    #[inline]
    pub fn is_capable(&self, process: ProcessKey, capability: u32) -> bool {
        self.namespaces.users.allows(self.who(process), 0, capability)
    }

    /// Checks that the process has a capability in a user namespace: `EPERM`.
    pub fn require_in(&self, process: ProcessKey, namespace: u32, capability: u32) -> Result<(), Errno> {
        let allowed = self.namespaces.users.allows(self.who(process), namespace, capability);
        if allowed { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks that the process has a capability in the owning user namespace of its namespace of this kind:
    /// `EPERM`.
    pub fn require_for(
        &self,
        process: ProcessKey,
        kind: NamespaceKind,
        capability: u32,
    ) -> Result<(), Errno> {
        let number = self.namespace(process, kind);
        self.require_in(process, self.namespaces.owner(kind, number).unwrap_or(0), capability)
    }

    /// True if a capability overrides the mode bits of a file with this owner and group. Both ids must be
    /// mapped in the process's user namespace.
    #[inline]
    pub fn overrides(&self, process: ProcessKey, capability: u32, owner: (u32, u32)) -> bool {
        let who = self.who(process);
        who.has(capability) && self.namespaces.users.knows_owner(who.user_namespace, owner)
    }
    /// True if a process may keep the set-group-ID bit of a file with this owner and group: the process is in
    /// the group, or has `CAP_FSETID` for the file.
    pub fn may_set_group(&self, process: ProcessKey, owner: (u32, u32)) -> bool {
        self.overrides(process, capability::FSETID, owner) || self.is_in_group(process, owner.1)
    }

    /// Checks that the process may change the owner or group of a file: `EPERM`. `u32::MAX` keeps an id and
    /// is always allowed; an owner may choose another of its groups.
    pub fn check_may_give(
        &self,
        process: ProcessKey,
        owner: (u32, u32),
        uid: u32,
        gid: u32,
    ) -> Result<(), Errno> {
        if self.overrides(process, capability::CHOWN, owner) {
            return Ok(());
        }
        let mine = owner.0 == self.who(process).fsuid;
        let same_user = uid == u32::MAX || mine && uid == owner.0;
        let own_group = gid == u32::MAX || mine && (gid == owner.1 || self.is_in_group(process, gid));
        if same_user && own_group { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks that the process has a capability in its own user namespace: `EPERM`.
    pub fn require_own(&self, process: ProcessKey, capability: u32) -> Result<(), Errno> {
        if self.who(process).has(capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks that the process has a capability in the initial user namespace: `EPERM`.
    #[inline]
    pub fn require(&self, process: ProcessKey, capability: u32) -> Result<(), Errno> {
        if self.is_capable(process, capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks that the process is not in a `chroot(2)`, from which a user namespace might let it escape:
    /// `EPERM`.
    pub fn check_not_confined(&self, process: ProcessKey) -> Result<(), Errno> {
        if self[process.0].root == b"/" { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// Checks that the process has one of two capabilities over its network namespace: `EPERM`.
    pub fn require_either(&self, process: ProcessKey, one: u32, other: u32) -> Result<(), Errno> {
        let require = |capability| self.require_for(process, NamespaceKind::Net, capability);
        require(one).or_else(|_| require(other))
    }

    /// Checks that the process may send a signal (0 for any) to another: same user, `CAP_KILL`, or `SIGCONT`
    /// within a session. `EPERM` otherwise.
    pub fn may_signal(&self, sender: ProcessKey, target: ProcessKey, signal: i32) -> Result<(), Errno> {
        let (own, other) = (self.who(sender), self.who(target));
        let same_user = [own.euid, own.ruid].iter().any(|id| [other.suid, other.ruid].contains(id));
        let same_session = self[sender.0].sid == self[target.0].sid;
        let allowed = sender == target || same_user || signal == c::SIGCONT && same_session;
        if !allowed {
            self.require_in(sender, other.user_namespace, capability::KILL)?;
        }
        match &self[sender.0].restrictions {
            Some(domain) if sender != target => {
                domain.check_scope(self[target.0].restrictions.as_deref(), SCOPE_SIGNAL)
            }
            _ => Ok(()),
        }
    }

    /// Checks that the process may send a signal to pid 1, which belongs to root and ignores all signals:
    /// `EPERM`.
    pub fn may_signal_init(&self, sender: ProcessKey) -> Result<(), Errno> {
        let own = self.who(sender);
        if own.ruid == 0 || own.euid == 0 { Ok(()) } else { self.require(sender, capability::KILL) }
    }

    /// Checks that the process may inspect and trace another: its user and groups match and it is dumpable,
    /// or `CAP_SYS_PTRACE`. `EPERM` otherwise.
    pub fn may_access(&self, process: ProcessKey, target: ProcessKey, ids: AccessIds) -> Result<(), Errno> {
        let (own, other) = (self.who(process), self.who(target));
        let (uid, gid) = match ids {
            AccessIds::File => (own.fsuid, own.fsgid),
            AccessIds::Real => (own.ruid, own.rgid),
        };
        let own_sets = match ids {
            AccessIds::File => own.capabilities.effective,
            AccessIds::Real => own.capabilities.permitted,
        };
        let same = [other.ruid, other.euid, other.suid].iter().all(|id| *id == uid)
            && [other.rgid, other.egid, other.sgid].iter().all(|id| *id == gid)
            && self[target.0].attributes.dumpable == 1;
        if process == target {
            return Ok(());
        }
        if !same || !self.namespaces.users.covers(own, own_sets, other) {
            self.require_in(process, other.user_namespace, capability::SYS_PTRACE)?;
        }
        let other = self[target.0].restrictions.as_deref();
        self[process.0].restrictions.as_ref().map_or(Ok(()), |domain| domain.check_trace(other))
    }

    /// Checks that the process may change mounts: `CAP_SYS_ADMIN`, and no Landlock rules on files. `EPERM`
    /// otherwise.
    pub fn may_mount(&self, process: ProcessKey) -> Result<(), Errno> {
        self.require_for(process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
        let restricted = self[process.0].restrictions.as_ref().is_some_and(|domain| domain.handles_files());
        if restricted { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Checks that the process may change another's scheduling: same user, or `CAP_SYS_NICE`. `EPERM`
    /// otherwise.
    pub fn may_schedule(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        if !self.shares_user(process, target) {
            self.require(process, capability::SYS_NICE)?;
        }
        self.may_tune(process, target)
    }

    /// Checks that the target of a scheduling change has no capabilities beyond those of the process
    /// (`cap_safe_nice` in Linux): `EPERM`.
    pub fn may_tune(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        let beyond = self.who(target).capabilities.permitted & !self.who(process).capabilities.permitted;
        if beyond == 0 {
            return Ok(());
        }
        self.require_in(process, self.who(target).user_namespace, capability::SYS_NICE)
    }

    /// Checks that the process may set another's I/O priority: the target's real user is its real or
    /// effective user, or `CAP_SYS_NICE`. `EPERM` otherwise.
    pub fn may_set_io_priority(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        let own = self.who(process);
        if ![own.euid, own.ruid].contains(&self.who(target).ruid) {
            self.require(process, capability::SYS_NICE)?;
        }
        self.may_tune(process, target)
    }

    /// True if the process's effective user is the real or effective user of the target.
    pub fn shares_user(&self, process: ProcessKey, target: ProcessKey) -> bool {
        let (own, other) = (self.who(process), self.who(target));
        [other.euid, other.ruid].contains(&own.euid)
    }

    /// Checks that the process may set a nice value: not below the current one, within `RLIMIT_NICE`, or
    /// `CAP_SYS_NICE`. `EACCES` otherwise.
    pub fn may_set_nice(&self, process: ProcessKey, target: ProcessKey, nice: i32) -> Result<(), Errno> {
        let of = &self[target.0];
        let limit = of.rlimits[c::RLIMIT_NICE as usize].soft;
        let allowed = nice >= of.attributes.nice || (20 - nice) as u64 <= limit;
        if allowed { Ok(()) } else { self.require(process, capability::SYS_NICE).map_err(|_| Errno::EACCES) }
    }

    /// Checks that the process may set a policy and static priority, `sched(7)` "Privileges and resource
    /// limits": `EPERM`.
    pub fn may_set_policy(
        &self,
        process: ProcessKey,
        target: ProcessKey,
        (policy, priority): (i32, i32),
    ) -> Result<(), Errno> {
        const RESET_ON_FORK: i32 = 0x4000_0000;
        const DEADLINE: i32 = 6;
        let of = &self[target.0];
        let (old_policy, old_priority) = of.attributes.scheduling;
        let limit = of.rlimits[c::RLIMIT_RTPRIO as usize].soft;
        let real = matches!(policy, c::SCHED_FIFO | c::SCHED_RR);
        let refused = real
            && (policy != old_policy & !RESET_ON_FORK && limit == 0
                || priority > old_priority && priority as u64 > limit)
            || policy == DEADLINE
            // Leaving SCHED_IDLE raises the priority.
            || old_policy & !RESET_ON_FORK == c::SCHED_IDLE
                && policy != c::SCHED_IDLE
                && (20 - of.attributes.nice) as u64 > of.rlimits[c::RLIMIT_NICE as usize].soft;
        if refused {
            self.require(process, capability::SYS_NICE)?;
        }
        self.may_schedule(process, target)
    }

    /// Checks that the process may read and change another's limits: all ids of the target equal its own, or
    /// `CAP_SYS_RESOURCE`. `EPERM` otherwise.
    pub fn may_limit(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        let (own, other) = (self.who(process), self.who(target));
        let same = [other.ruid, other.euid, other.suid].iter().all(|id| *id == own.ruid)
            && [other.rgid, other.egid, other.sgid].iter().all(|id| *id == own.rgid);
        if process == target || same {
            return Ok(());
        }
        self.require_in(process, other.user_namespace, capability::SYS_RESOURCE)
    }

    /// Ownership and mode of an IPC object created by the process.
    pub fn new_permissions(&mut self, process: ProcessKey, key: i32, flags: i32) -> IpcPerm {
        let own = &self[process.0].credentials;
        let (uid, gid) = (own.euid, own.egid);
        let unused = [u64::from(self.namespace(process, NamespaceKind::Ipc)), 0];
        let mode = flags as u32 & 0o777;
        IpcPerm { key, uid, gid, cuid: uid, cgid: gid, mode, unused, ..IpcPerm::default() }
    }

    /// Ownership and mode of an IPC object as reported to the process.
    pub fn shown_permissions(&self, process: ProcessKey, perm: IpcPerm) -> IpcPerm {
        let [uid, cuid] = [perm.uid, perm.cuid].map(|id| self.shown_id(process, IdKind::User, id));
        let [gid, cgid] = [perm.gid, perm.cgid].map(|id| self.shown_id(process, IdKind::Group, id));
        IpcPerm { uid, gid, cuid, cgid, unused: [0; 2], ..perm }
    }

    /// Owner that the process sets on an IPC object. `EINVAL` for ids that are unmapped in its user
    /// namespace.
    pub fn given_owner(&self, process: ProcessKey, perm: &IpcPerm) -> Result<(u32, u32), Errno> {
        let uid = self.given_id(process, IdKind::User, perm.uid).ok_or(Errno::EINVAL)?;
        Ok((uid, self.given_id(process, IdKind::Group, perm.gid).ok_or(Errno::EINVAL)?))
    }

    /// Checks that an IPC object is in the process's IPC namespace: `EINVAL`.
    fn check_namespace(&self, process: ProcessKey, perm: &IpcPerm) -> Result<(), Errno> {
        let own = u64::from(self.namespace(process, NamespaceKind::Ipc));
        if perm.unused[0] == own { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Checks access to an IPC object, `ipcperms` in Linux: `EACCES`. `wanted` has mode bits of any class.
    pub fn ipc_check(&self, process: ProcessKey, perm: IpcPerm, wanted: u32) -> Result<(), Errno> {
        self.check_namespace(process, &perm)?;
        let who = &self[process.0].credentials;
        let is_member = |gid: u32| who.egid == gid || who.groups.contains(&gid);
        let wanted = wanted >> 6 | wanted >> 3 | wanted;
        let granted = if [perm.cuid, perm.uid].contains(&who.euid) {
            perm.mode >> 6
        } else if is_member(perm.cgid) || is_member(perm.gid) {
            perm.mode >> 3
        } else {
            perm.mode
        };
        if wanted & !granted & 7 == 0 {
            return Ok(());
        }
        self.require_for(process, NamespaceKind::Ipc, capability::IPC_OWNER).map_err(|_| Errno::EACCES)
    }

    /// Checks that the process is the owner or creator of an IPC object: `EPERM`.
    pub fn ipc_check_owner(&self, process: ProcessKey, perm: IpcPerm) -> Result<(), Errno> {
        let who = &self[process.0].credentials;
        self.check_namespace(process, &perm)?;
        if [perm.cuid, perm.uid].contains(&who.euid) {
            return Ok(());
        }
        self.require_for(process, NamespaceKind::Ipc, capability::SYS_ADMIN)
    }
}
