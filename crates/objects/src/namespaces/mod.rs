//! Namespaces, `namespaces(7)`: the kinds of them, their numbers, and which of them a process is in. Those of mounts are in
//! [`mounts`](crate::mounts), those of time in [`time_namespaces`](crate::time_namespaces).
//!
//! A namespace is a number of its kind; 0 is the one that a host starts with. Numbers are never given again, so what a
//! namespace is called in `/proc/PID/ns` is the same in each run.

mod pids;
mod users;

pub use pids::{PidNamespaces, translated};
pub use users::{IdKind, OVERFLOW_ID, UserNamespaces};

use crate::credentials::{Credentials, capability};
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};

/// The most namespaces of users, or of processes, that may lie in each other.
const MAX_LEVEL: u32 = 32;

/// The requests of `ioctl_ns(2)`.
pub const NS_GET_USERNS: u64 = 0xb701;
/// See [`NS_GET_USERNS`].
pub const NS_GET_PARENT: u64 = 0xb702;
/// See [`NS_GET_USERNS`].
pub const NS_GET_NSTYPE: u64 = 0xb703;
/// See [`NS_GET_USERNS`].
pub const NS_GET_OWNER_UID: u64 = 0xb704;

/// A kind of namespace: its names in `/proc/PID/ns`, and its flag of `clone(2)`.
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

/// Kinds with their names, their flags and the number of the first one of each as `/proc` shows it.
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
/// Shown numbers of later namespaces begin here, those of each kind so far apart.
const LATER: u32 = 0xf000_0000;
const APART: u32 = 0x0100_0000;

/// The flags of all kinds.
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
    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].1
    }
    /// Its flag of `clone(2)`.
    pub fn flag(self) -> i32 {
        KINDS[self as usize].2
    }
    /// The inode number of one of its namespaces.
    pub fn shown(self, number: u32) -> u32 {
        if number == 0 { KINDS[self as usize].3 } else { LATER + self as u32 * APART + number }
    }
}

/// The links of `/proc/PID/ns`, and the kinds that they lead to.
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

/// The namespaces that a process is in, but for those of mounts, time and users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NamespaceMembership {
    pub cgroup: u32,
    pub ipc: u32,
    pub net: u32,
    pub pid: u32,
    /// That of the children that it makes from now on.
    pub pid_of_children: u32,
    pub uts: u32,
}

impl NamespaceMembership {
    /// True if calls of a process have to heed them.
    pub fn is_parted(self) -> bool {
        self.pid != 0 || self.net != 0
    }
    /// That of a child: its process namespace is the one that its parent has chosen.
    pub fn for_child(self) -> NamespaceMembership {
        NamespaceMembership { pid: self.pid_of_children, ..self }
    }
}

/// A namespace that has nothing but an owner, and in one of names those.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    /// The user namespace that owns it.
    pub owner: u32,
    /// The node and domain name that programs have set there.
    pub names: [Option<Vec<u8>>; 2],
}

/// Owners of namespaces, and the names of those that have no more than names; user namespace 0 owns the first of each kind.
#[derive(Debug, Default)]
pub struct PlainNamespaces {
    first: Plain,
    later: Map<(NamespaceKind, u32), Plain>,
    /// The last number that was given, by kind.
    last: [u32; KINDS.len()],
}

impl PlainNamespaces {
    /// A namespace of a kind.
    pub fn get(&self, kind: NamespaceKind, number: u32) -> &Plain {
        self.later.get(&(kind, number)).unwrap_or(&self.first)
    }
    /// The same, to be changed.
    pub fn get_mut(&mut self, kind: NamespaceKind, number: u32) -> &mut Plain {
        self.later.get_mut(&(kind, number)).unwrap_or(&mut self.first)
    }
    /// A namespace that is kept elsewhere has been made.
    pub fn made(&mut self, kind: NamespaceKind, number: u32, owner: u32) {
        self.later.insert((kind, number), Plain { owner, ..Plain::default() });
    }
    /// A new namespace with the names of another.
    pub fn copy(&mut self, kind: NamespaceKind, from: u32, owner: u32) -> u32 {
        let copy = Plain { owner, ..self.get(kind, from).clone() };
        self.last[kind as usize] += 1;
        let number = self.last[kind as usize];
        self.later.insert((kind, number), copy);
        number
    }
}

/// All namespaces of a host but those of mounts and time, which have their owners here: they are made together.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Namespaces {
    pub users: UserNamespaces,
    pub pids: PidNamespaces,
    pub plain: PlainNamespaces,
}

impl Namespaces {
    /// The user namespace that owns one; that of a user namespace is its parent, if it has one.
    pub fn owner(&self, kind: NamespaceKind, number: u32) -> Option<u32> {
        match kind {
            NamespaceKind::User => self.users.parent(number),
            NamespaceKind::Pid => Some(self.pids.owner(number)),
            _ => Some(self.plain.get(kind, number).owner),
        }
    }
    /// The namespace that `NS_GET_USERNS` or `NS_GET_PARENT` gives for another to a process: `EPERM` for one out of its reach, `EINVAL` for
    /// a kind without parents.
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
    /// Moves a process to new namespaces of the kinds that `flags` of `clone(2)` names, but for those of mounts, time and users;
    /// the user namespace that it is in owns them.
    pub fn unshare(&mut self, flags: i32, of: &mut NamespaceMembership, owner: u32) -> Result<(), Errno> {
        if flags & c::CLONE_NEWPID != 0 {
            // One that has chosen another for its children has to make one first.
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
    /// Checks the rights of a process that `setns(2)` is to move to a namespace: `EINVAL` for the user namespace that it is in.
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
    /// Moves a process to a namespace of another kind than mounts, time and users: `setns(2)`. `EINVAL` for one of processes that is
    /// not its own or within it.
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

    #[test]
    fn namespaces_are_told_apart_by_their_numbers() {
        let shown: std::collections::BTreeSet<u32> =
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
