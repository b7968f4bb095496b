//! Users and groups: what a process may make of itself is decided by its capabilities, as on Linux.

use crate::call::Call;
use crate::credentials::{Credentials, capability};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;

/// "Leave it as it is."
const KEEP: u32 = u32::MAX;
/// `NGROUPS_MAX`.
const GROUPS_MAX: i32 = 65_536;

fn credentials<'a>(call: &'a mut Call<'_>) -> &'a mut Credentials {
    &mut call.host.process(call.process).credentials
}

/// Changes the caller's credentials, or not at all.
fn change(call: &mut Call<'_>, make: impl FnOnce(&mut Credentials) -> SysResult) -> SysResult {
    let old = credentials(call).clone();
    let mut new = old.clone();
    let outcome = make(&mut new)?;
    *credentials(call) = new;
    call.host.processes.credentials_changed(call.process, &old);
    let host = &mut *call.host;
    if let Some(rings) = &host.threads[call.thread.0].keyrings {
        host.keys.ids_changed(rings, &host.processes[call.process.0].credentials);
    }
    Ok(outcome)
}

/// getuid(2).
pub fn sys_getuid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 4))
}

/// geteuid(2).
pub fn sys_geteuid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 5))
}

/// getgid(2).
pub fn sys_getgid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 6))
}

/// getegid(2).
pub fn sys_getegid(call: &mut Call<'_>) -> SysResult {
    done(call.host.asked_id(call.thread, 7))
}

/// getresuid(2).
pub fn sys_getresuid(call: &mut Call<'_>) -> SysResult {
    let ids = credentials(call);
    let ids = [ids.ruid, ids.euid, ids.suid];
    store_three(call, ids)
}

/// getresgid(2).
pub fn sys_getresgid(call: &mut Call<'_>) -> SysResult {
    let ids = credentials(call);
    let ids = [ids.rgid, ids.egid, ids.sgid];
    store_three(call, ids)
}

fn store_three(call: &mut Call<'_>, ids: [u32; 3]) -> SysResult {
    for (n, id) in ids.iter().enumerate() {
        call.write(call.args[n], id)?;
    }
    done(0)
}

/// `EPERM` unless a process that is not root any more may take on `id`.
fn may_be(privileged: bool, own: &[u32], id: u32) -> Result<(), Errno> {
    if privileged || id == KEEP || own.contains(&id) { Ok(()) } else { Err(Errno::EPERM) }
}

/// setuid(2).
pub fn sys_setuid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    change(call, |own| {
        let (old, privileged) = (own.uids(), own.has(capability::SETUID));
        may_be(privileged, &[own.ruid, own.suid], id)?;
        if privileged {
            (own.ruid, own.suid) = (id, id);
        }
        (own.euid, own.fsuid) = (id, id);
        own.uids_changed(old);
        done(0)
    })
}

/// setgid(2).
pub fn sys_setgid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    change(call, |own| {
        let privileged = own.has(capability::SETGID);
        may_be(privileged, &[own.rgid, own.sgid], id)?;
        if privileged {
            (own.rgid, own.sgid) = (id, id);
        }
        (own.egid, own.fsgid) = (id, id);
        done(0)
    })
}

/// setresuid(2).
pub fn sys_setresuid(call: &mut Call<'_>) -> SysResult {
    let new = [call.uint(0), call.uint(1), call.uint(2)];
    change(call, |own| {
        let old = own.uids();
        let mut ids = old;
        replace_ids(own.has(capability::SETUID), &mut ids, new)?;
        // What changes nothing leaves the file system's user id alone.
        if ids != old || new[1] != KEEP && own.fsuid != own.euid {
            [own.ruid, own.euid, own.suid] = ids;
            own.fsuid = own.euid;
            own.uids_changed(old);
        }
        done(0)
    })
}

/// setresgid(2).
pub fn sys_setresgid(call: &mut Call<'_>) -> SysResult {
    let new = [call.uint(0), call.uint(1), call.uint(2)];
    change(call, |own| {
        let old = [own.rgid, own.egid, own.sgid];
        let mut ids = old;
        replace_ids(own.has(capability::SETGID), &mut ids, new)?;
        if ids != old || new[1] != KEEP && own.fsgid != own.egid {
            [own.rgid, own.egid, own.sgid] = ids;
            own.fsgid = own.egid;
        }
        done(0)
    })
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

/// An id that is given, or the one that there is.
fn or(given: u32, own: u32) -> u32 {
    if given == KEEP { own } else { given }
}

/// setreuid(2).
pub fn sys_setreuid(call: &mut Call<'_>) -> SysResult {
    let (real, effective) = (call.uint(0), call.uint(1));
    change(call, |own| {
        let (privileged, old) = (own.has(capability::SETUID), own.uids());
        may_be(privileged, &[own.ruid, own.euid], real)?;
        may_be(privileged, &old, effective)?;
        let saved = real != KEEP || (effective != KEEP && effective != own.ruid);
        (own.ruid, own.euid) = (or(real, own.ruid), or(effective, own.euid));
        (own.suid, own.fsuid) = (if saved { own.euid } else { own.suid }, own.euid);
        own.uids_changed(old);
        done(0)
    })
}

/// setregid(2).
pub fn sys_setregid(call: &mut Call<'_>) -> SysResult {
    let (real, effective) = (call.uint(0), call.uint(1));
    change(call, |own| {
        let privileged = own.has(capability::SETGID);
        may_be(privileged, &[own.rgid, own.egid], real)?;
        may_be(privileged, &[own.rgid, own.egid, own.sgid], effective)?;
        let saved = real != KEEP || (effective != KEEP && effective != own.rgid);
        (own.rgid, own.egid) = (or(real, own.rgid), or(effective, own.egid));
        (own.sgid, own.fsgid) = (if saved { own.egid } else { own.sgid }, own.egid);
        done(0)
    })
}

/// setfsuid(2): gives the old one whatever happens.
pub fn sys_setfsuid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    change(call, |own| {
        let (old, may) =
            (own.fsuid, may_be(own.has(capability::SETUID), &[own.uids(), [own.fsuid; 3]].concat(), id));
        if id != KEEP && may.is_ok() {
            own.fsuid = id;
            own.fsuid_changed(old);
        }
        done(u64::from(old))
    })
}

/// setfsgid(2).
pub fn sys_setfsgid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    change(call, |own| {
        let old = own.fsgid;
        let may = may_be(own.has(capability::SETGID), &[own.rgid, own.egid, own.sgid, own.fsgid], id);
        if id != KEEP && may.is_ok() {
            own.fsgid = id;
        }
        done(u64::from(old))
    })
}

/// getgroups(2).
pub fn sys_getgroups(call: &mut Call<'_>) -> SysResult {
    let (room, addr) = (call.int(0), call.args[1]);
    let groups = credentials(call).groups.clone();
    if room < 0 || (room != 0 && (room as usize) < groups.len()) {
        return Err(Errno::EINVAL);
    }
    if room != 0 {
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_le_bytes()).collect();
        call.write_bytes(addr, &bytes)?;
    }
    done(groups.len() as u64)
}

/// setgroups(2).
pub fn sys_setgroups(call: &mut Call<'_>) -> SysResult {
    let count = call.int(0);
    if !credentials(call).has(capability::SETGID) {
        return Err(Errno::EPERM);
    }
    if !(0..=GROUPS_MAX).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let bytes = call.read_vec(call.args[1], count as usize * 4)?;
    let group = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let mut groups: Vec<u32> = bytes.chunks_exact(4).map(group).collect();
    if groups.contains(&KEEP) {
        return Err(Errno::EINVAL);
    }
    groups.sort_unstable();
    credentials(call).groups = groups;
    done(0)
}
