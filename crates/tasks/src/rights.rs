//! Who may do what to other processes and to the host, `capabilities(7)`: every call that Linux keeps from some users asks
//! here, and what those to System V objects are. Rights to files are in `kernel/src/files/permission.rs`.

use crate::process::Processes;
use belljar_linux_abi::ipc::IpcPerm;
use belljar_linux_abi::landlock::SCOPE_SIGNAL;
use belljar_linux_abi::{Errno, c};
use belljar_objects::credentials::{Credentials, capability};
use belljar_objects::ids::ProcessKey;
use belljar_objects::namespaces::{IdKind, NamespaceKind};

/// Which ids of a process stand for it when it looks into another, `ptrace(2)` "Ptrace access mode checking".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessIds {
    /// Those that it uses files with: `/proc`.
    File,
    /// The real ones: system calls.
    Real,
}

impl Processes {
    fn who(&self, process: ProcessKey) -> &Credentials {
        &self[process.0].credentials
    }

    /// True if a capability, one of [`capability`], is in force for a process, for what is the host's.
    #[inline]
    pub fn is_capable(&self, process: ProcessKey, capability: u32) -> bool {
        self.namespaces.users.allows(self.who(process), 0, capability)
    }

    /// `EPERM` unless a capability is in force for a process, for what belongs to a user namespace.
    pub fn require_in(&self, process: ProcessKey, namespace: u32, capability: u32) -> Result<(), Errno> {
        let allowed = self.namespaces.users.allows(self.who(process), namespace, capability);
        if allowed { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// The same for what belongs to the owner of one of its own namespaces.
    pub fn require_for(
        &self,
        process: ProcessKey,
        kind: NamespaceKind,
        capability: u32,
    ) -> Result<(), Errno> {
        let number = self.namespace(process, kind);
        self.require_in(process, self.namespaces.owner(kind, number).unwrap_or(0), capability)
    }

    /// True if a capability puts a process above the mode bits of a file of this user and group: not for an owner who has no number
    /// in its user namespace.
    #[inline]
    pub fn overrides(&self, process: ProcessKey, capability: u32, owner: (u32, u32)) -> bool {
        let who = self.who(process);
        who.has(capability) && self.namespaces.users.knows_owner(who.user_namespace, owner)
    }

    /// `EPERM` unless a process may give a file of this user and group to others (`u32::MAX`: to stay as they are, which anybody may ask
    /// for): owners may choose another group of their own.
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

    /// `EPERM` unless a capability is in force for a process in its own user namespace.
    pub fn require_own(&self, process: ProcessKey, capability: u32) -> Result<(), Errno> {
        if self.who(process).has(capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// `EPERM` unless a capability is in force for a process.
    #[inline]
    pub fn require(&self, process: ProcessKey, capability: u32) -> Result<(), Errno> {
        if self.is_capable(process, capability) { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// `EPERM` for a process that sees but a part of its files: in a user namespace it might get out.
    pub fn check_not_confined(&self, process: ProcessKey) -> Result<(), Errno> {
        if self[process.0].root == b"/" { Ok(()) } else { Err(Errno::EPERM) }
    }

    /// `EPERM` unless one of two capabilities is in force for a process, for its network.
    pub fn require_either(&self, process: ProcessKey, one: u32, other: u32) -> Result<(), Errno> {
        let require = |capability| self.require_for(process, NamespaceKind::Net, capability);
        require(one).or_else(|_| require(other))
    }

    /// `EPERM` unless a process may send another this signal (0: any): one of the same user, `CAP_KILL`, or `SIGCONT` within
    /// a session.
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

    /// The same of process 1, which is root's and not there: nothing hurts it.
    pub fn may_signal_init(&self, sender: ProcessKey) -> Result<(), Errno> {
        let own = self.who(sender);
        if own.ruid == 0 || own.euid == 0 { Ok(()) } else { self.require(sender, capability::KILL) }
    }

    /// Checks that a process may look at another's memory, files and descriptors, and trace it: one of its own user and
    /// groups that may be dumped, or by `CAP_SYS_PTRACE`. `EPERM` otherwise.
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

    /// `EPERM` unless a process may change what is mounted where: `CAP_SYS_ADMIN`, and no rules about files.
    pub fn may_mount(&self, process: ProcessKey) -> Result<(), Errno> {
        self.require_for(process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
        let restricted = self[process.0].restrictions.as_ref().is_some_and(|domain| domain.handles_files());
        if restricted { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// `EPERM` unless a process may change how another is scheduled: one of the same user, or by `CAP_SYS_NICE`.
    pub fn may_schedule(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        if !self.shares_user(process, target) {
            self.require(process, capability::SYS_NICE)?;
        }
        self.may_tune(process, target)
    }

    /// `EPERM` if a process that is to be scheduled otherwise has capabilities that this one has not (`cap_safe_nice` of Linux).
    pub fn may_tune(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        let beyond = self.who(target).capabilities.permitted & !self.who(process).capabilities.permitted;
        if beyond == 0 {
            return Ok(());
        }
        self.require_in(process, self.who(target).user_namespace, capability::SYS_NICE)
    }

    /// `EPERM` unless a process may give another an I/O priority: one of its real or effective user, or by `CAP_SYS_NICE`.
    pub fn may_set_io_priority(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        let own = self.who(process);
        if ![own.euid, own.ruid].contains(&self.who(target).ruid) {
            self.require(process, capability::SYS_NICE)?;
        }
        self.may_tune(process, target)
    }

    /// True if a process acts as a user that another is.
    pub fn shares_user(&self, process: ProcessKey, target: ProcessKey) -> bool {
        let (own, other) = (self.who(process), self.who(target));
        [other.euid, other.ruid].contains(&own.euid)
    }

    /// `EACCES` unless a process may give itself or another this nice value: one no lower than it is, one that
    /// `RLIMIT_NICE` allows, or by `CAP_SYS_NICE`.
    pub fn may_set_nice(&self, process: ProcessKey, target: ProcessKey, nice: i32) -> Result<(), Errno> {
        let of = &self[target.0];
        let limit = of.rlimits[c::RLIMIT_NICE as usize].soft;
        let allowed = nice >= of.attributes.nice || (20 - nice) as u64 <= limit;
        if allowed { Ok(()) } else { self.require(process, capability::SYS_NICE).map_err(|_| Errno::EACCES) }
    }

    /// `EPERM` unless a process may give this policy and static priority, `sched(7)` "Privileges and resource limits".
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
            // Leaving SCHED_IDLE raises the process.
            || old_policy & !RESET_ON_FORK == c::SCHED_IDLE
                && policy != c::SCHED_IDLE
                && (20 - of.attributes.nice) as u64 > of.rlimits[c::RLIMIT_NICE as usize].soft;
        if refused {
            self.require(process, capability::SYS_NICE)?;
        }
        self.may_schedule(process, target)
    }

    /// `EPERM` unless a process may see and change another's limits: one all of whose ids are its own, or by
    /// `CAP_SYS_RESOURCE`.
    pub fn may_limit(&self, process: ProcessKey, target: ProcessKey) -> Result<(), Errno> {
        let (own, other) = (self.who(process), self.who(target));
        let same = [other.ruid, other.euid, other.suid].iter().all(|id| *id == own.ruid)
            && [other.rgid, other.egid, other.sgid].iter().all(|id| *id == own.rgid);
        if process == target || same {
            return Ok(());
        }
        self.require_in(process, other.user_namespace, capability::SYS_RESOURCE)
    }

    /// The owner and mode of an object that a process makes.
    pub fn new_permissions(&mut self, process: ProcessKey, key: i32, flags: i32) -> IpcPerm {
        let own = &self[process.0].credentials;
        let (uid, gid) = (own.euid, own.egid);
        let unused = [u64::from(self.namespace(process, NamespaceKind::Ipc)), 0];
        let mode = flags as u32 & 0o777;
        IpcPerm { key, uid, gid, cuid: uid, cgid: gid, mode, unused, ..IpcPerm::default() }
    }

    /// Owner and mode as a process is shown them.
    pub fn shown_permissions(&self, process: ProcessKey, perm: IpcPerm) -> IpcPerm {
        let [uid, cuid] = [perm.uid, perm.cuid].map(|id| self.shown_id(process, IdKind::User, id));
        let [gid, cgid] = [perm.gid, perm.cgid].map(|id| self.shown_id(process, IdKind::Group, id));
        IpcPerm { uid, gid, cuid, cgid, unused: [0; 2], ..perm }
    }

    /// The owner that a process gives an object. `EINVAL` for ids that its user namespace does not have.
    pub fn given_owner(&self, process: ProcessKey, perm: &IpcPerm) -> Result<(u32, u32), Errno> {
        let uid = self.given_id(process, IdKind::User, perm.uid).ok_or(Errno::EINVAL)?;
        Ok((uid, self.given_id(process, IdKind::Group, perm.gid).ok_or(Errno::EINVAL)?))
    }

    /// `EINVAL` for an object of another namespace.
    fn check_namespace(&self, process: ProcessKey, perm: &IpcPerm) -> Result<(), Errno> {
        let own = u64::from(self.namespace(process, NamespaceKind::Ipc));
        if perm.unused[0] == own { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// `EACCES` unless a process has the rights that `wanted` names, for whomever they are: `ipcperms` of Linux.
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

    /// `EPERM` unless a process owns an object, or made it.
    pub fn ipc_check_owner(&self, process: ProcessKey, perm: IpcPerm) -> Result<(), Errno> {
        let who = &self[process.0].credentials;
        self.check_namespace(process, &perm)?;
        if [perm.cuid, perm.uid].contains(&who.euid) {
            return Ok(());
        }
        self.require_for(process, NamespaceKind::Ipc, capability::SYS_ADMIN)
    }
}
