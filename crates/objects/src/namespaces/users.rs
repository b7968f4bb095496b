//! User namespaces, `user_namespaces(7)`: mappings of user and group ids, and the scope of capabilities.
//!
//! The kernel holds ids of the initial namespace. They are translated at the boundary to programs, as Linux's
//! `make_kuid` and `from_kuid` do.

use super::MAX_LEVEL;
use crate::credentials::{Credentials, capability};
use belljar_linux_abi::Errno;

/// Id reported for an unmapped id, `/proc/sys/kernel/overflowuid`.
pub const OVERFLOW_ID: u32 = 65_534;
/// Invalid id.
const INVALID: u32 = u32::MAX;
/// Maximum number of lines of a map.
const MAX_LINES: usize = 340;
/// Page size in bytes; a write must be shorter.
const PAGE: usize = 4_096;

/// Kind of id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IdKind {
    User,
    Group,
}

/// Range of ids in a namespace and the corresponding ids of the initial namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    inside: u32,
    outside: u32,
    count: u32,
}

impl Extent {
    fn maps(start: u32, count: u32, id: u32) -> bool {
        id >= start && id - start < count
    }
}

#[derive(Clone, Debug)]
struct UserNamespace {
    parent: u32,
    level: u32,
    /// User and group id of the creator in the initial namespace.
    owner: (u32, u32),
    /// Maps by [`IdKind`]; empty until written.
    maps: [Vec<Extent>; 2],
    setgroups: bool,
    /// True if the creator had `CAP_SETFCAP` in the parent namespace.
    maker_could_set_capabilities: bool,
}

/// User namespaces of a host except the initial one.
#[derive(Debug, Default)]
pub struct UserNamespaces(Vec<UserNamespace>);

impl UserNamespaces {
    fn get(&self, number: u32) -> Option<&UserNamespace> {
        self.0.get((number as usize).checked_sub(1)?)
    }
    /// True if only the initial namespace exists, so that no id needs translation.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Parent namespace; `None` for the initial one.
    pub fn parent(&self, number: u32) -> Option<u32> {
        self.get(number).map(|found| found.parent)
    }
    /// User id of a namespace's creator, in the initial namespace.
    pub fn owner(&self, number: u32) -> u32 {
        self.get(number).map_or(0, |found| found.owner.0)
    }
    /// True if a namespace is `outer` or a descendant of it.
    pub fn is_within(&self, number: u32, outer: u32) -> bool {
        let mut at = Some(number);
        while let Some(number) = at {
            if number == outer {
                return true;
            }
            at = self.parent(number);
        }
        false
    }
    /// Creates a namespace below that of its creator, which enters it with all capabilities. `ENOSPC` beyond
    /// the maximum depth, `EPERM` if the creator's ids are not mapped in the parent.
    pub fn create(&mut self, maker: &mut Credentials) -> Result<u32, Errno> {
        let parent = maker.user_namespace;
        let level = self.get(parent).map_or(0, |found| found.level) + 1;
        if level > MAX_LEVEL + 1 {
            return Err(Errno::ENOSPC);
        }
        let known = |kind, id| self.from_kernel(parent, kind, id).is_some();
        if !known(IdKind::User, maker.euid) || !known(IdKind::Group, maker.egid) {
            return Err(Errno::EPERM);
        }
        let setgroups = self.get(parent).is_none_or(|found| found.setgroups);
        self.0.push(UserNamespace {
            parent,
            level,
            owner: (maker.euid, maker.egid),
            maps: Default::default(),
            setgroups,
            maker_could_set_capabilities: maker.has(capability::SETFCAP),
        });
        let number = self.0.len() as u32;
        self.enter(maker, number);
        Ok(number)
    }
    /// Moves a process to a namespace with all capabilities there: `set_cred_user_ns` in Linux.
    pub fn enter(&self, who: &mut Credentials, number: u32) {
        who.capabilities = Default::default();
        who.user_namespace = number;
        who.root = self.to_kernel(number, IdKind::User, 0).unwrap_or(INVALID);
    }
    /// True if a process has a capability over a namespace: its own, a child whose owner it is, or a
    /// descendant of such a child (`cap_capable`).
    pub fn allows(&self, who: &Credentials, target: u32, capability: u32) -> bool {
        let mut at = target;
        loop {
            if at == who.user_namespace {
                return who.has(capability);
            }
            let Some(found) = self.get(at) else { return false };
            if found.parent == who.user_namespace && found.owner.0 == who.euid {
                return true;
            }
            at = found.parent;
        }
    }
    /// True if `sets` covers all permitted capabilities of `other`, in the same namespace
    /// (`ptrace_may_access` compares sets only within a namespace).
    pub fn covers(&self, who: &Credentials, sets: u64, other: &Credentials) -> bool {
        other.user_namespace == who.user_namespace && other.capabilities.permitted & !sets == 0
    }
    /// Kernel id of an id in a namespace.
    pub fn to_kernel(&self, number: u32, kind: IdKind, id: u32) -> Option<u32> {
        let Some(found) = self.get(number) else { return (id != INVALID).then_some(id) };
        let extent = found.maps[kind as usize].iter().find(|e| Extent::maps(e.inside, e.count, id))?;
        Some(extent.outside + (id - extent.inside))
    }
    /// Id in a namespace of a kernel id.
    #[allow(clippy::wrong_self_convention)]
    pub fn from_kernel(&self, number: u32, kind: IdKind, id: u32) -> Option<u32> {
        let Some(found) = self.get(number) else { return (id != INVALID).then_some(id) };
        let extent = found.maps[kind as usize].iter().find(|e| Extent::maps(e.outside, e.count, id))?;
        Some(extent.inside + (id - extent.outside))
    }
    /// Id in a namespace of a kernel id as system calls report it, [`OVERFLOW_ID`] if unmapped.
    pub fn shown(&self, number: u32, kind: IdKind, id: u32) -> u32 {
        match number {
            0 => id,
            _ => self.from_kernel(number, kind, id).unwrap_or(OVERFLOW_ID),
        }
    }
    /// Kernel id of a system call's argument; `u32::MAX` is kept; `None` if the id is unmapped.
    pub fn given(&self, number: u32, kind: IdKind, id: u32) -> Option<u32> {
        if number == 0 || id == INVALID { Some(id) } else { self.to_kernel(number, kind, id) }
    }
    /// True if user and group of a file are mapped in a namespace (`privileged_wrt_inode_uidgid`).
    pub fn knows_owner(&self, number: u32, (uid, gid): (u32, u32)) -> bool {
        number == 0
            || self.from_kernel(number, IdKind::User, uid).is_some()
                && self.from_kernel(number, IdKind::Group, gid).is_some()
    }
    /// True if processes in the namespace may call `setgroups(2)`.
    pub fn may_set_groups(&self, number: u32) -> bool {
        self.get(number).is_none_or(|found| found.setgroups && !found.maps[IdKind::Group as usize].is_empty())
    }
    /// Text of `/proc/PID/setgroups`.
    pub fn shown_setgroups(&self, number: u32) -> &'static str {
        if self.get(number).is_none_or(|found| found.setgroups) { "allow\n" } else { "deny\n" }
    }
    /// Writes `/proc/PID/setgroups`: `deny` is possible until the groups are mapped, and permanent.
    pub fn write_setgroups(&mut self, number: u32, text: &[u8]) -> Result<(), Errno> {
        let text = if text.len() < 8 { text } else { return Err(Errno::EINVAL) };
        let allow = match std::str::from_utf8(text).map(str::trim_end) {
            Ok("allow") => true,
            Ok("deny") => false,
            _ => return Err(Errno::EINVAL),
        };
        let Some(found) = self.0.get_mut((number as usize).wrapping_sub(1)) else {
            return if allow { Ok(()) } else { Err(Errno::EPERM) };
        };
        if allow {
            return if found.setgroups { Ok(()) } else { Err(Errno::EPERM) };
        }
        if !found.maps[IdKind::Group as usize].is_empty() {
            return Err(Errno::EPERM);
        }
        found.setgroups = false;
        Ok(())
    }
    /// Text of `/proc/PID/uid_map` or `gid_map` for a reader in a namespace.
    pub fn shown_map(&self, number: u32, kind: IdKind, reader: u32) -> String {
        let first = [Extent { inside: 0, outside: 0, count: INVALID }];
        let (extents, parent) =
            self.get(number).map_or((&first[..], 0), |found| (&found.maps[kind as usize][..], found.parent));
        let below = if reader == number { parent } else { reader };
        let line = |extent: &Extent| {
            let outside = self.from_kernel(below, kind, extent.outside).unwrap_or(INVALID);
            format!("{:>10} {outside:>10} {:>10}\n", extent.inside, extent.count)
        };
        extents.iter().map(line).collect()
    }
    /// Writes `/proc/PID/uid_map` or `gid_map` at offset 0, once: Linux's `map_write`, with its checks in the
    /// same order.
    pub fn write_map(
        &mut self,
        number: u32,
        kind: IdKind,
        who: &Credentials,
        text: &[u8],
    ) -> Result<(), Errno> {
        let Some(found) = self.get(number) else { return Err(Errno::EPERM) };
        let (parent, opened_in) = (found.parent, who.user_namespace);
        if opened_in != number && opened_in != parent {
            return Err(Errno::EPERM);
        }
        if text.len() >= PAGE {
            return Err(Errno::EINVAL);
        }
        if !found.maps[kind as usize].is_empty() || !self.allows(who, number, capability::SYS_ADMIN) {
            return Err(Errno::EPERM);
        }
        let mut extents = parse(text)?;
        if !self.may_map(number, kind, who, &extents) {
            return Err(Errno::EPERM);
        }
        for extent in &mut extents {
            // Each range must lie within one range of the parent.
            let last = extent.outside + (extent.count - 1);
            let ends = [extent.outside, last].map(|id| self.to_kernel(parent, kind, id));
            let (Some(first), Some(end)) = (ends[0], ends[1]) else { return Err(Errno::EPERM) };
            if end.wrapping_sub(first) != extent.count - 1 {
                return Err(Errno::EPERM);
            }
            extent.outside = first;
        }
        self.0[number as usize - 1].maps[kind as usize] = extents;
        Ok(())
    }
    /// Permission to write a map, `new_idmap_permitted` in Linux.
    fn may_map(&self, number: u32, kind: IdKind, who: &Credentials, extents: &[Extent]) -> bool {
        let Some(found) = self.get(number) else { return false };
        let parent = found.parent;
        let maps_root = extents.iter().any(|extent| extent.outside == 0);
        if kind == IdKind::User && maps_root {
            let may = match who.user_namespace == number {
                true => found.maker_could_set_capabilities,
                false => self.allows(who, parent, capability::SETFCAP),
            };
            if !may {
                return false;
            }
        }
        if let [one] = extents
            && one.count == 1
            && found.owner.0 == who.euid
        {
            let (own, free) = match kind {
                IdKind::User => (who.euid, true),
                IdKind::Group => (who.egid, !found.setgroups),
            };
            if free && self.to_kernel(parent, kind, one.outside) == Some(own) {
                return true;
            }
        }
        let needed = if kind == IdKind::User { capability::SETUID } else { capability::SETGID };
        self.allows(who, parent, needed)
    }
}

/// Parses the lines of a map: first id inside, first id in the parent, count.
fn parse(text: &[u8]) -> Result<Vec<Extent>, Errno> {
    let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
    let text = text.split('\0').next().unwrap_or_default();
    let mut extents: Vec<Extent> = Vec::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [inside, outside, count] = words[..] else { return Err(Errno::EINVAL) };
        let number = |word: &str| word.parse::<u32>().map_err(|_| Errno::EINVAL);
        let new = Extent { inside: number(inside)?, outside: number(outside)?, count: number(count)? };
        let ends = [new.inside, new.outside].map(|first| first.checked_add(new.count));
        if new.count == 0 || ends.contains(&None) || [new.inside, new.outside].contains(&INVALID) {
            return Err(Errno::EINVAL);
        }
        let meet = |a: u32, b: u32, count| a <= b + (new.count - 1) && b <= a + (count - 1);
        let overlaps = |old: &Extent| {
            meet(old.inside, new.inside, old.count) || meet(old.outside, new.outside, old.count)
        };
        if extents.iter().any(overlaps) || extents.len() == MAX_LINES {
            return Err(Errno::EINVAL);
        }
        extents.push(new);
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> Credentials {
        Credentials::of_user(uid, uid, Vec::new())
    }

    #[test]
    fn a_user_is_root_inside() {
        let (mut all, mut own) = (UserNamespaces::default(), user(1_000));
        let number = all.create(&mut own).unwrap();
        assert!(own.has(capability::SYS_ADMIN) && all.allows(&own, number, capability::SYS_ADMIN));
        assert!(!all.allows(&own, 0, capability::SYS_ADMIN) && !all.allows(&user(1_001), number, 0));
        // The owner outside has all capabilities in it.
        assert!(all.allows(&user(1_000), number, capability::SYS_ADMIN));
        assert_eq!(all.shown(number, IdKind::User, 1_000), OVERFLOW_ID);
        assert_eq!(all.write_map(number, IdKind::User, &own, b"0 1001 1\n"), Err(Errno::EPERM));
        assert_eq!(all.write_map(number, IdKind::User, &own, b"0 1000 2\n"), Err(Errno::EPERM));
        assert_eq!(all.write_map(number, IdKind::User, &own, b"0 1000 1\n"), Ok(()));
        assert_eq!(all.write_map(number, IdKind::User, &own, b"0 1000 1\n"), Err(Errno::EPERM));
        assert_eq!(all.shown(number, IdKind::User, 1_000), 0);
        assert_eq!(all.given(number, IdKind::User, 0), Some(1_000));
        assert_eq!(all.given(number, IdKind::User, 1), None);
        assert_eq!(all.shown_map(number, IdKind::User, number), "         0       1000          1\n");
    }

    #[test]
    fn groups_are_mapped_by_a_user_who_cannot_drop_some() {
        let (mut all, mut own) = (UserNamespaces::default(), user(1_000));
        let number = all.create(&mut own).unwrap();
        assert_eq!(all.write_map(number, IdKind::Group, &own, b"0 1000 1"), Err(Errno::EPERM));
        assert_eq!(all.write_setgroups(number, b"denied"), Err(Errno::EINVAL));
        assert_eq!(all.write_setgroups(number, b"deny\n"), Ok(()));
        assert_eq!(all.write_setgroups(number, b"allow"), Err(Errno::EPERM));
        assert_eq!(all.write_map(number, IdKind::Group, &own, b"0 1000 1"), Ok(()));
        assert!(!all.may_set_groups(number) && all.may_set_groups(0));
        assert_eq!(all.shown_setgroups(number), "deny\n");
    }

    #[test]
    fn the_superuser_maps_ranges() {
        let mut all = UserNamespaces::default();
        let (outside, mut own) = (Credentials::default(), Credentials::default());
        let number = all.create(&mut own).unwrap();
        let map = b"0 100000 1000\n2000 5 1\n";
        assert_eq!(all.write_map(number, IdKind::User, &outside, map), Ok(()));
        assert_eq!(all.from_kernel(number, IdKind::User, 100_999), Some(999));
        assert_eq!(all.to_kernel(number, IdKind::User, 2_000), Some(5));
        let inner = all.create(&mut Credentials { user_namespace: number, euid: 100_000, ..own.clone() });
        // The group is not mapped there.
        assert_eq!(inner, Err(Errno::EPERM));
    }

    #[test]
    fn maps_that_are_none() {
        let mut all = UserNamespaces::default();
        let (outside, mut own) = (Credentials::default(), Credentials::default());
        let number = all.create(&mut own).unwrap();
        let long = "0 0 1\n".repeat(341);
        for text in [
            "",
            "\n",
            "0 0",
            "0 0 0",
            "0 0 1 1",
            "a 0 1",
            "0 4294967295 1",
            "0 0 1\n0 5 1",
            "1 0 4294967295",
            &long,
        ] {
            assert_eq!(
                all.write_map(number, IdKind::User, &outside, text.as_bytes()),
                Err(Errno::EINVAL),
                "{text}"
            );
        }
        assert_eq!(all.write_map(0, IdKind::User, &outside, b"0 0 1"), Err(Errno::EPERM));
    }

    #[test]
    fn namespaces_lie_in_each_other_only_so_deep() {
        let (mut all, mut own) = (UserNamespaces::default(), Credentials::default());
        let mut outer = own.clone();
        for _ in 0..=MAX_LEVEL {
            let number = all.create(&mut own).unwrap();
            for kind in [IdKind::User, IdKind::Group] {
                all.write_map(number, kind, &outer, b"0 0 10").unwrap();
            }
            outer = own.clone();
            assert!(all.is_within(number, 1) && !all.is_within(0, number));
        }
        assert_eq!(all.create(&mut own), Err(Errno::ENOSPC));
    }
}
