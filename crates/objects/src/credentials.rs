//! Users, groups and capabilities of a process, `credentials(7)` and `capabilities(7)`.
//!
//! Transitions of a process's own credentials follow Linux step by step, since daemons and the tools that
//! start them rely on each. Rights over other processes and the host are checked in `rights.rs`, file
//! permissions in `files/permission.rs`.

use belljar_linux_abi::{Errno, c};

/// Numbers of capabilities, `CAP_*`.
#[allow(missing_docs)]
pub mod capability {
    pub const CHOWN: u32 = 0;
    pub const DAC_OVERRIDE: u32 = 1;
    pub const DAC_READ_SEARCH: u32 = 2;
    pub const FOWNER: u32 = 3;
    pub const FSETID: u32 = 4;
    pub const KILL: u32 = 5;
    pub const SETGID: u32 = 6;
    pub const SETUID: u32 = 7;
    pub const SETPCAP: u32 = 8;
    pub const LINUX_IMMUTABLE: u32 = 9;
    pub const NET_BIND_SERVICE: u32 = 10;
    pub const NET_ADMIN: u32 = 12;
    pub const NET_RAW: u32 = 13;
    pub const IPC_LOCK: u32 = 14;
    pub const IPC_OWNER: u32 = 15;
    pub const SYS_MODULE: u32 = 16;
    pub const SYS_CHROOT: u32 = 18;
    pub const SYS_PTRACE: u32 = 19;
    pub const SYS_ADMIN: u32 = 21;
    pub const SYS_BOOT: u32 = 22;
    pub const SYS_NICE: u32 = 23;
    pub const SYS_RESOURCE: u32 = 24;
    pub const SYS_TIME: u32 = 25;
    pub const SYS_TTY_CONFIG: u32 = 26;
    pub const MKNOD: u32 = 27;
    pub const LEASE: u32 = 28;
    pub const AUDIT_WRITE: u32 = 29;
    pub const SETFCAP: u32 = 31;
    pub const SYSLOG: u32 = 34;
    pub const WAKE_ALARM: u32 = 35;
    pub const CHECKPOINT_RESTORE: u32 = 40;
}

/// Highest capability of Linux, `CAP_CHECKPOINT_RESTORE`.
pub const LAST: u32 = 40;
/// Mask of all capabilities.
pub const ALL: u64 = (1 << (LAST + 1)) - 1;

/// `SECBIT_*`; the next higher bit of each is its lock.
const NOROOT: u32 = 1 << 0;
const NO_SETUID_FIXUP: u32 = 1 << 2;
const KEEP_CAPS: u32 = 1 << 4;
const NO_AMBIENT_RAISE: u32 = 1 << 6;
/// All secure bits, their locks, and the bits that can be changed without `CAP_SETPCAP`.
const SECURE_BITS: u32 = 0x555;
const SECURE_LOCKS: u32 = SECURE_BITS << 1;
const SECURE_UNPRIVILEGED: u32 = 0xf00;
/// `CAP_FS_SET`: file capabilities that follow the file-system user id.
const OF_FILES: u64 = 0x1f | 1 << 9 | 1 << capability::MKNOD | 1 << 32;

/// Credentials of a process.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Credentials {
    pub ruid: u32,
    pub euid: u32,
    pub suid: u32,
    pub fsuid: u32,
    pub rgid: u32,
    pub egid: u32,
    pub sgid: u32,
    pub fsgid: u32,
    pub groups: Vec<u32>,
    pub capabilities: Capabilities,
    /// User namespace of the process, in which its capabilities apply.
    pub user_namespace: u32,
    /// User id of the namespace's root: 0 in the initial namespace, `u32::MAX` if root is not mapped.
    pub root: u32,
}

/// Capability sets; bit n stands for capability n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Capabilities {
    pub effective: u64,
    pub permitted: u64,
    pub inheritable: u64,
    pub bounding: u64,
    pub ambient: u64,
    /// `PR_SET_SECUREBITS`; `SECBIT_KEEP_CAPS` is also `PR_SET_KEEPCAPS`.
    pub secure_bits: u32,
}

impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities {
            effective: ALL,
            permitted: ALL,
            inheritable: 0,
            bounding: ALL,
            ambient: 0,
            secure_bits: 0,
        }
    }
}

impl Capabilities {
    /// True if `PR_SET_KEEPCAPS` is on.
    pub fn kept(&self) -> bool {
        self.secure_bits & KEEP_CAPS != 0
    }
    /// `PR_SET_KEEPCAPS`; `EPERM` if it is locked.
    pub fn keep(&mut self, on: bool) -> Result<(), Errno> {
        if self.secure_bits & KEEP_CAPS << 1 != 0 {
            return Err(Errno::EPERM);
        }
        self.secure_bits = self.secure_bits & !KEEP_CAPS | if on { KEEP_CAPS } else { 0 };
        Ok(())
    }
    /// `PR_SET_SECUREBITS`. `EPERM` for locked or unknown bits, and for a change that needs `CAP_SETPCAP`
    /// without it.
    pub fn set_secure_bits(&mut self, new: u64) -> Result<(), Errno> {
        let (old, known) = (self.secure_bits, u32::try_from(new).ok());
        let known = known.filter(|new| new & !(SECURE_BITS | SECURE_LOCKS) == 0).ok_or(Errno::EPERM)?;
        let changed = old ^ known;
        let locked = (old & SECURE_LOCKS) >> 1 & changed != 0 || old & SECURE_LOCKS & !known != 0;
        let privileged = self.effective >> capability::SETPCAP & 1 != 0;
        // A call that changes nothing needs the capability too.
        let takes_right = changed == 0 || changed & !SECURE_UNPRIVILEGED != 0;
        if locked || takes_right && !privileged {
            return Err(Errno::EPERM);
        }
        self.secure_bits = known;
        Ok(())
    }
}

impl Credentials {
    /// Credentials of a process that a user starts: no capabilities unless the user is root.
    pub fn of_user(uid: u32, gid: u32, groups: Vec<u32>) -> Credentials {
        let mut own = Credentials {
            ruid: uid,
            euid: uid,
            suid: uid,
            fsuid: uid,
            rgid: gid,
            egid: gid,
            sgid: gid,
            fsgid: gid,
            groups,
            ..Credentials::default()
        };
        own.uids_changed([0; 3]);
        own
    }
    /// True if `capability` is in the effective set.
    pub fn has(&self, capability: u32) -> bool {
        self.capabilities.effective >> capability & 1 != 0
    }
    /// Real, effective and saved user id.
    pub fn uids(&self) -> [u32; 3] {
        [self.ruid, self.euid, self.suid]
    }
    /// Adjusts the capability sets after a change of user ids from `old`, capabilities(7), "Effect of user ID
    /// changes on capabilities".
    pub fn uids_changed(&mut self, old: [u32; 3]) {
        let new = self.uids();
        let sets = &mut self.capabilities;
        if sets.secure_bits & NO_SETUID_FIXUP != 0 {
            return;
        }
        let root = self.root;
        if old.contains(&root) && !new.contains(&root) {
            if !sets.kept() {
                (sets.permitted, sets.effective) = (0, 0);
            }
            sets.ambient = 0;
        }
        match (old[1] == root, new[1] == root) {
            (true, false) => sets.effective = 0,
            (false, true) => sets.effective = sets.permitted,
            _ => {}
        }
    }
    /// Adjusts the file capabilities after a change of the file-system user id from `old`.
    pub fn fsuid_changed(&mut self, old: u32) {
        let sets = &mut self.capabilities;
        if sets.secure_bits & NO_SETUID_FIXUP != 0 {
            return;
        }
        match (old == self.root, self.fsuid == self.root) {
            (true, false) => sets.effective &= !OF_FILES,
            (false, true) => sets.effective |= sets.permitted & OF_FILES,
            _ => {}
        }
    }
    /// Credentials for `access(2)`, which checks as the real user (`access_override_creds` in Linux); `None`
    /// if they equal the current ones.
    pub fn of_real_user(&self) -> Option<Credentials> {
        let sets = &self.capabilities;
        let effective = match self.ruid == self.root {
            _ if sets.secure_bits & NO_SETUID_FIXUP != 0 => sets.effective,
            true => sets.permitted,
            false => 0,
        };
        if (self.fsuid, self.fsgid, sets.effective) == (self.ruid, self.rgid, effective) {
            return None;
        }
        let mut real = self.clone();
        (real.fsuid, real.fsgid, real.capabilities.effective) = (self.ruid, self.rgid, effective);
        Some(real)
    }
    /// True if the change from `old` makes the process non-dumpable: another effective or file-system id, or
    /// more permitted capabilities (`commit_creds` in Linux).
    pub fn parts_from(&self, old: &Credentials) -> bool {
        (self.euid, self.egid, self.fsuid, self.fsgid) != (old.euid, old.egid, old.fsuid, old.fsgid)
            || self.capabilities.permitted & !old.capabilities.permitted != 0
    }
    /// Applies the execution of a file without file capabilities: "Transformation of capabilities during
    /// execve()" and "Capabilities and execution of programs by root" of capabilities(7). `uid` and `gid` are
    /// the owners of a set-user-ID and a set-group-ID file. Returns the value of `AT_SECURE`.
    pub fn executed(&mut self, uid: Option<u32>, gid: Option<u32>, no_new_privs: bool) -> bool {
        let (old_euid, old_permitted) = (self.euid, self.capabilities.permitted);
        let groups = std::mem::take(&mut self.groups);
        let is_member = |gid: u32, fsgid: u32| gid == fsgid || groups.binary_search(&gid).is_ok();
        if !no_new_privs {
            (self.euid, self.egid) = (uid.unwrap_or(self.euid), gid.unwrap_or(self.egid));
        }
        let root = self.capabilities.secure_bits & NOROOT == 0;
        let effective = root && self.euid == self.root;
        let by_root = effective || root && self.ruid == self.root;
        let sets = &self.capabilities;
        let mut permitted = if by_root { sets.inheritable | sets.bounding } else { 0 };
        let changed = self.euid != old_euid || !is_member(self.egid, self.fsgid);
        if no_new_privs && (changed || permitted & !old_permitted != 0) {
            // Without the right to gain privileges, the ids revert and the permitted set can only shrink.
            (self.euid, self.egid) = (self.ruid, self.rgid);
            permitted &= old_permitted;
        }
        (self.suid, self.fsuid) = (self.euid, self.euid);
        (self.sgid, self.fsgid) = (self.egid, self.egid);
        let sets = &mut self.capabilities;
        if changed {
            sets.ambient = 0;
        }
        sets.permitted = permitted | sets.ambient;
        sets.effective = if effective { sets.permitted } else { sets.ambient };
        sets.secure_bits &= !KEEP_CAPS;
        let grown = self.ruid != self.root && (effective || sets.permitted & !sets.ambient != 0);
        self.groups = groups;
        changed || self.euid != self.ruid || self.egid != self.rgid || grown
    }
    /// `prctl(PR_CAP_AMBIENT)`; returns the result of the call.
    pub fn ambient(&mut self, operation: i32, capability: u64) -> Result<u64, Errno> {
        let sets = &mut self.capabilities;
        if operation == c::PR_CAP_AMBIENT_CLEAR_ALL {
            sets.ambient = 0;
            return Ok(0);
        }
        let bit = u32::try_from(capability).ok().and_then(|capability| 1u64.checked_shl(capability));
        let bit = bit.filter(|bit| bit & ALL != 0).ok_or(Errno::EINVAL)?;
        match operation {
            c::PR_CAP_AMBIENT_IS_SET => return Ok(u64::from(sets.ambient & bit != 0)),
            c::PR_CAP_AMBIENT_LOWER => sets.ambient &= !bit,
            c::PR_CAP_AMBIENT_RAISE
                if sets.permitted & sets.inheritable & bit == 0
                    || sets.secure_bits & NO_AMBIENT_RAISE != 0 =>
            {
                return Err(Errno::EPERM);
            }
            c::PR_CAP_AMBIENT_RAISE => sets.ambient |= bit,
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }
}

/// Id argument that leaves the id unchanged.
const KEEP: u32 = u32::MAX;

/// Checks that a process can take on `id`: `EPERM` unless it is privileged or `id` is one of its own.
fn may_be(privileged: bool, own: &[u32], id: u32) -> Result<(), Errno> {
    if privileged || id == KEEP || own.contains(&id) { Ok(()) } else { Err(Errno::EPERM) }
}

fn replace_ids(privileged: bool, ids: &mut [u32; 3], new: [u32; 3]) -> Result<(), Errno> {
    let own = *ids;
    for id in new {
        may_be(privileged, &own, id)?;
    }
    for (id, new) in ids.iter_mut().zip(new) {
        *id = or(new, *id);
    }
    Ok(())
}

/// `given`, or `own` if `given` is [`KEEP`].
fn or(given: u32, own: u32) -> u32 {
    if given == KEEP { own } else { given }
}

/// Changes of ids by the process itself, `credentials(7)`. `u32::MAX` leaves an id unchanged.
impl Credentials {
    /// `setuid(2)`.
    pub fn set_user(&mut self, id: u32) -> Result<(), Errno> {
        let (old, privileged) = (self.uids(), self.has(capability::SETUID));
        may_be(privileged, &[self.ruid, self.suid], id)?;
        if privileged {
            (self.ruid, self.suid) = (id, id);
        }
        (self.euid, self.fsuid) = (id, id);
        self.uids_changed(old);
        Ok(())
    }
    /// `setgid(2)`.
    pub fn set_group(&mut self, id: u32) -> Result<(), Errno> {
        let privileged = self.has(capability::SETGID);
        may_be(privileged, &[self.rgid, self.sgid], id)?;
        if privileged {
            (self.rgid, self.sgid) = (id, id);
        }
        (self.egid, self.fsgid) = (id, id);
        Ok(())
    }
    /// `setresuid(2)`.
    pub fn set_users(&mut self, new: [u32; 3]) -> Result<(), Errno> {
        let old = self.uids();
        let mut ids = old;
        replace_ids(self.has(capability::SETUID), &mut ids, new)?;
        // A call that changes no id leaves the file-system user id unchanged.
        if ids != old || new[1] != KEEP && self.fsuid != self.euid {
            [self.ruid, self.euid, self.suid] = ids;
            self.fsuid = self.euid;
            self.uids_changed(old);
        }
        Ok(())
    }
    /// `setresgid(2)`.
    pub fn set_three_groups(&mut self, new: [u32; 3]) -> Result<(), Errno> {
        let old = [self.rgid, self.egid, self.sgid];
        let mut ids = old;
        replace_ids(self.has(capability::SETGID), &mut ids, new)?;
        if ids != old || new[1] != KEEP && self.fsgid != self.egid {
            [self.rgid, self.egid, self.sgid] = ids;
            self.fsgid = self.egid;
        }
        Ok(())
    }
    /// `setreuid(2)`.
    pub fn set_real_and_effective_user(&mut self, real: u32, effective: u32) -> Result<(), Errno> {
        let (privileged, old) = (self.has(capability::SETUID), self.uids());
        may_be(privileged, &[self.ruid, self.euid], real)?;
        may_be(privileged, &old, effective)?;
        let saved = real != KEEP || (effective != KEEP && effective != self.ruid);
        (self.ruid, self.euid) = (or(real, self.ruid), or(effective, self.euid));
        (self.suid, self.fsuid) = (if saved { self.euid } else { self.suid }, self.euid);
        self.uids_changed(old);
        Ok(())
    }
    /// `setregid(2)`.
    pub fn set_real_and_effective_group(&mut self, real: u32, effective: u32) -> Result<(), Errno> {
        let privileged = self.has(capability::SETGID);
        may_be(privileged, &[self.rgid, self.egid], real)?;
        may_be(privileged, &[self.rgid, self.egid, self.sgid], effective)?;
        let saved = real != KEEP || (effective != KEEP && effective != self.rgid);
        (self.rgid, self.egid) = (or(real, self.rgid), or(effective, self.egid));
        (self.sgid, self.fsgid) = (if saved { self.egid } else { self.sgid }, self.egid);
        Ok(())
    }
    /// `setfsuid(2)`: without the permission, the id stays unchanged.
    pub fn set_file_user(&mut self, id: u32) {
        let old = self.fsuid;
        let own = [self.ruid, self.euid, self.suid, old];
        if id != KEEP && may_be(self.has(capability::SETUID), &own, id).is_ok() {
            self.fsuid = id;
            self.fsuid_changed(old);
        }
    }
    /// `setfsgid(2)`.
    pub fn set_file_group(&mut self, id: u32) {
        let own = [self.rgid, self.egid, self.sgid, self.fsgid];
        if id != KEEP && may_be(self.has(capability::SETGID), &own, id).is_ok() {
            self.fsgid = id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn become_user(own: &mut Credentials, uid: u32) {
        let old = own.uids();
        (own.ruid, own.euid, own.suid) = (uid, uid, uid);
        own.uids_changed(old);
    }

    #[test]
    fn giving_up_root_gives_up_what_it_may() {
        let mut own = Credentials::default();
        assert!(own.has(capability::SETGID));
        become_user(&mut own, 1_000);
        assert_eq!((own.capabilities.permitted, own.capabilities.effective), (0, 0));
        assert_eq!(own.capabilities.bounding, ALL);
    }

    #[test]
    fn kept_capabilities_are_permitted_but_not_in_force() {
        let mut own = Credentials::default();
        own.capabilities.keep(true).unwrap();
        become_user(&mut own, 1_000);
        assert_eq!((own.capabilities.permitted, own.capabilities.effective), (ALL, 0));
        assert!(!own.executed(None, None, false));
        assert_eq!(own.capabilities.permitted, 0);
        assert!(!own.capabilities.kept());
    }

    #[test]
    fn locked_bits_stay() {
        let mut sets = Capabilities::default();
        assert_eq!(sets.set_secure_bits(0x20), Ok(()));
        assert_eq!(sets.keep(true), Err(Errno::EPERM));
        assert_eq!([0, 0x30, 0x1020].map(|bits| sets.set_secure_bits(bits)), [Err(Errno::EPERM); 3]);
        sets.effective = 0;
        let set = [0x20, 0x21, 0x120].map(|bits| sets.set_secure_bits(bits));
        assert_eq!(set, [Err(Errno::EPERM), Err(Errno::EPERM), Ok(())]);
    }

    #[test]
    fn a_set_user_id_program_of_root_is_root_unless_there_are_no_new_privileges() {
        let user = Credentials::of_user(1_000, 1_000, Vec::new());
        let mut own = user.clone();
        assert!(own.executed(Some(0), None, false) && own.parts_from(&user));
        assert_eq!((own.euid, own.suid, own.capabilities.effective), (0, 0, ALL));
        let mut own = user.clone();
        assert!(!own.executed(Some(0), None, true) && !own.parts_from(&user));
        assert_eq!((own.euid, own.capabilities.effective), (1_000, 0));
    }

    #[test]
    fn taking_root_back_takes_its_power_back() {
        let mut own = Credentials::default();
        let old = own.uids();
        own.euid = 5;
        own.uids_changed(old);
        assert_eq!((own.capabilities.permitted, own.capabilities.effective), (ALL, 0));
        let old = own.uids();
        own.euid = 0;
        own.uids_changed(old);
        assert_eq!(own.capabilities.effective, ALL);
    }
}
