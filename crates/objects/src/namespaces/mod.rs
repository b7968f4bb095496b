//! Namespaces, `namespaces(7)`: kinds, numbers, ownership, and the memberships of a process. Mount namespaces
//! are in [`mounts`](crate::mounts), time namespaces in [`time_namespaces`](crate::time_namespaces).
//!
//! A namespace is identified by its kind and a number; 0 is the initial one. Numbers are not reused, so the
//! names in `/proc/PID/ns` are the same in each run.

mod pids;
mod users;

pub use pids::{PidNamespaces, translated};
pub use users::{IdKind, OVERFLOW_ID, UserNamespaces};

use crate::credentials::{Credentials, capability};
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};

/// Maximum nesting depth of user and PID namespaces.
const MAX_LEVEL: u32 = 32;

/// Requests of `ioctl_ns(2)`.
pub const NS_GET_USERNS: u64 = 0xb701;
/// See [`NS_GET_USERNS`].
pub const NS_GET_PARENT: u64 = 0xb702;
/// See [`NS_GET_USERNS`].
pub const NS_GET_NSTYPE: u64 = 0xb703;
/// See [`NS_GET_USERNS`].
pub const NS_GET_OWNER_UID: u64 = 0xb704;

/// Kind of namespace, with its name in `/proc/PID/ns` and its `clone(2)` flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum NamespaceKind {
    Cgroup,
    Ipc,
    Mounts,
    Net,
    Pid,
    Time,
    User,
    Uts,
}

/// Kinds with their names, their flags and the inode number of the initial namespace.
const KINDS: [(NamespaceKind, &str, i32, u32); 8] = [
    (NamespaceKind::Cgroup, "cgroup", c::CLONE_NEWCGROUP, 0xefff_fffb),
    (NamespaceKind::Ipc, "ipc", c::CLONE_NEWIPC, 0xefff_ffff),
    (NamespaceKind::Mounts, "mnt", c::CLONE_NEWNS, 0xefff_fff8),
    (NamespaceKind::Net, "net", c::CLONE_NEWNET, 0xefff_fff9),
    (NamespaceKind::Pid, "pid", c::CLONE_NEWPID, 0xefff_fffc),
    (NamespaceKind::Time, "time", c::CLONE_NEWTIME, 0xefff_fffa),
    (NamespaceKind::User, "user", c::CLONE_NEWUSER, 0xefff_fffd),
    (NamespaceKind::Uts, "uts", c::CLONE_NEWUTS, 0xefff_fffe),
];
/// First inode number of later namespaces, and the distance between kinds.
const LATER: u32 = 0xf000_0000;
const APART: u32 = 0x0100_0000;

/// Flags of all kinds.
pub const ALL_KINDS: i32 = c::CLONE_NEWCGROUP
    | c::CLONE_NEWIPC
    | c::CLONE_NEWNS
    | c::CLONE_NEWNET
    | c::CLONE_NEWPID
    | c::CLONE_NEWTIME
    | c::CLONE_NEWUSER
    | c::CLONE_NEWUTS;

impl NamespaceKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = NamespaceKind> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }
    /// Name of the kind.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }
    /// `clone(2)` flag of the kind.
    pub fn flag(self) -> i32 {
        KINDS[self as usize].2
    }
    /// Inode number of a namespace.
    pub fn shown(self, number: u32) -> u32 {
        if number == 0 { KINDS[self as usize].3 } else { LATER + self as u32 * APART + number }
    }
}

/// Links in `/proc/PID/ns` and the kinds of their targets.
pub const LINKS: [(&str, NamespaceKind); 10] = [
    ("cgroup", NamespaceKind::Cgroup),
    ("ipc", NamespaceKind::Ipc),
    ("mnt", NamespaceKind::Mounts),
    ("net", NamespaceKind::Net),
    ("pid", NamespaceKind::Pid),
    ("pid_for_children", NamespaceKind::Pid),
    ("time", NamespaceKind::Time),
    ("time_for_children", NamespaceKind::Time),
    ("user", NamespaceKind::User),
    ("uts", NamespaceKind::Uts),
];

/// Namespaces of a process, except mount, time and user namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NamespaceMembership {
    pub cgroup: u32,
    pub ipc: u32,
    pub net: u32,
    pub pid: u32,
    /// PID namespace of children created from now on.
    pub pid_of_children: u32,
    pub uts: u32,
}

impl NamespaceMembership {
    /// True if calls need translation: the process is in another PID or network namespace than the initial
    /// one.
    pub fn is_parted(self) -> bool {
        self.pid != 0 || self.net != 0
    }
    /// Membership of a child, which is created in `pid_of_children`.
    pub fn for_child(self) -> NamespaceMembership {
        NamespaceMembership { pid: self.pid_of_children, ..self }
    }
}

/// Namespace without state except its owner and, for UTS namespaces, names.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    /// User namespace that owns it.
    pub owner: u32,
    /// Host and domain name, where programs have set them.
    pub names: [Option<Vec<u8>>; 2],
}

/// Owners of namespaces, and the state of UTS namespaces; user namespace 0 owns the initial one of each kind.
#[derive(Debug, Default)]
pub struct PlainNamespaces {
    first: Plain,
    later: Map<(NamespaceKind, u32), Plain>,
    /// Last number assigned, by kind.
    last: [u32; KINDS.len()],
}

impl PlainNamespaces {
    /// Namespace by kind and number.
    pub fn get(&self, kind: NamespaceKind, number: u32) -> &Plain {
        self.later.get(&(kind, number)).unwrap_or(&self.first)
    }
    /// Mutable namespace by kind and number.
    pub fn get_mut(&mut self, kind: NamespaceKind, number: u32) -> &mut Plain {
        self.later.get_mut(&(kind, number)).unwrap_or(&mut self.first)
    }
    /// Records the owner of a namespace whose state is kept elsewhere.
    pub fn made(&mut self, kind: NamespaceKind, number: u32, owner: u32) {
        self.later.insert((kind, number), Plain { owner, ..Plain::default() });
    }
    /// Creates a namespace with the names of another.
    pub fn copy(&mut self, kind: NamespaceKind, from: u32, owner: u32) -> u32 {
        let copy = Plain { owner, ..self.get(kind, from).clone() };
        self.last[kind as usize] += 1;
        let number = self.last[kind as usize];
        self.later.insert((kind, number), copy);
        number
    }
}

/// Namespaces of a host. Mount and time namespaces have only their owners here.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Namespaces {
    pub users: UserNamespaces,
    pub pids: PidNamespaces,
    pub plain: PlainNamespaces,
}

impl Namespaces {
    /// User namespace that owns a namespace; for a user namespace its parent, if it has one.
    pub fn owner(&self, kind: NamespaceKind, number: u32) -> Option<u32> {
        match kind {
            NamespaceKind::User => self.users.parent(number),
            NamespaceKind::Pid => Some(self.pids.owner(number)),
            _ => Some(self.plain.get(kind, number).owner),
        }
    }
    /// Result of `NS_GET_USERNS` or `NS_GET_PARENT` for a process: `EPERM` if the namespace is out of its
    /// scope, `EINVAL` for a kind without parents.
    pub fn related(
        &self,
        who: (&Credentials, NamespaceMembership),
        kind: NamespaceKind,
        number: u32,
        request: u64,
    ) -> Result<(NamespaceKind, u32), Errno> {
        let own = who.0.user_namespace;
        match (request, kind) {
            (NS_GET_PARENT, NamespaceKind::Pid) => {
                let parent =
                    self.pids.parent(number).filter(|parent| self.pids.is_within(*parent, who.1.pid));
                parent.map(|parent| (kind, parent)).ok_or(Errno::EPERM)
            }
            (NS_GET_PARENT, kind) if kind != NamespaceKind::User => Err(Errno::EINVAL),
            _ => {
                let owner = self.owner(kind, number).filter(|owner| self.users.is_within(*owner, own));
                owner.map(|owner| (NamespaceKind::User, owner)).ok_or(Errno::EPERM)
            }
        }
    }
    /// Moves a process to new namespaces of the kinds in the `clone(2)` flags, except mount, time and user
    /// namespaces. Its user namespace owns them.
    pub fn unshare(&mut self, flags: i32, of: &mut NamespaceMembership, owner: u32) -> Result<(), Errno> {
        if flags & c::CLONE_NEWPID != 0 {
            // `EINVAL` if the process has chosen a namespace for its children and not created one yet.
            if of.pid != of.pid_of_children || !self.users.is_within(owner, self.pids.owner(of.pid)) {
                return Err(Errno::EINVAL);
            }
            of.pid_of_children = self.pids.create(of.pid, owner)?;
        }
        let plain = [
            (NamespaceKind::Cgroup, &mut of.cgroup),
            (NamespaceKind::Ipc, &mut of.ipc),
            (NamespaceKind::Net, &mut of.net),
            (NamespaceKind::Uts, &mut of.uts),
        ];
        for (kind, number) in plain {
            if flags & kind.flag() != 0 {
                *number = self.plain.copy(kind, *number, owner);
            }
        }
        Ok(())
    }
    /// Checks the right of a process to enter a namespace by `setns(2)`. `EINVAL` for its current user
    /// namespace.
    pub fn may_enter(&self, who: &Credentials, kind: NamespaceKind, number: u32) -> Result<(), Errno> {
        let admin = |namespace| self.users.allows(who, namespace, capability::SYS_ADMIN);
        let allowed = match kind {
            NamespaceKind::User if number == who.user_namespace => return Err(Errno::EINVAL),
            NamespaceKind::User => admin(number),
            NamespaceKind::Mounts if !who.has(capability::SYS_CHROOT) => false,
            _ => who.has(capability::SYS_ADMIN) && admin(self.owner(kind, number).unwrap_or(0)),
        };
        if allowed { Ok(()) } else { Err(Errno::EPERM) }
    }
    /// Moves a process to a namespace of a kind other than mount, time and user, `setns(2)`. `EINVAL` for a
    /// PID namespace that is not its own or a descendant.
    pub fn enter(&self, kind: NamespaceKind, number: u32, of: &mut NamespaceMembership) -> Result<(), Errno> {
        match kind {
            NamespaceKind::Cgroup => of.cgroup = number,
            NamespaceKind::Ipc => of.ipc = number,
            NamespaceKind::Net => of.net = number,
            NamespaceKind::Uts => of.uts = number,
            NamespaceKind::Pid if self.pids.is_within(number, of.pid) => of.pid_of_children = number,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Set;

    #[test]
    fn namespaces_are_told_apart_by_their_numbers() {
        let shown: Set<u32> =
            NamespaceKind::all().flat_map(|kind| [0, 1, 2].map(|number| kind.shown(number))).collect();
        assert_eq!(shown.len(), 24);
        assert_eq!(NamespaceKind::Uts.name(), "uts");
        assert_eq!(NamespaceKind::User.flag(), c::CLONE_NEWUSER);
        assert_eq!(LINKS.iter().map(|(_, kind)| kind.flag()).fold(0, |all, flag| all | flag), ALL_KINDS);
    }

    #[test]
    fn a_copy_has_names_of_its_own() {
        let mut all = PlainNamespaces::default();
        all.get_mut(NamespaceKind::Uts, 0).names[0] = Some(b"one".to_vec());
        let copy = all.copy(NamespaceKind::Uts, 0, 3);
        all.get_mut(NamespaceKind::Uts, copy).names[0] = Some(b"other".to_vec());
        assert_eq!(all.get(NamespaceKind::Uts, 0).names[0].as_deref(), Some(&b"one"[..]));
        assert_eq!((all.get(NamespaceKind::Uts, copy).owner, all.get(NamespaceKind::Uts, 0).owner), (3, 0));
    }
}
