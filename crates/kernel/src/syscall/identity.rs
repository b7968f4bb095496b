//! Users and groups: credential changes are checked against the caller's capabilities, as on Linux.

use crate::call::Call;
use crate::credentials::{Credentials, capability};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_objects::namespaces::IdKind;

/// Argument that leaves an id unchanged.
const KEEP: u32 = u32::MAX;
/// `NGROUPS_MAX`.
const GROUPS_MAX: i32 = 65_536;

fn credentials<'a>(call: &'a mut Call<'_>) -> &'a mut Credentials {
    &mut call.host.process(call.process).credentials
}

/// Changes the caller's credentials; they remain unchanged if `make` fails.
fn change(call: &mut Call<'_>, make: impl FnOnce(&mut Credentials) -> Result<(), Errno>) -> SysResult {
    let old = credentials(call).clone();
    let mut new = old.clone();
    make(&mut new)?;
    *credentials(call) = new;
    call.host.processes.credentials_changed(call.process, &old);
    let host = &mut *call.host;
    if let Some(rings) = &host.threads[call.thread.0].keyrings {
        host.keys.ids_changed(rings, &host.processes[call.process.0].credentials);
    }
    done(0)
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
    store_three(call, IdKind::User, ids)
}

/// getresgid(2).
pub fn sys_getresgid(call: &mut Call<'_>) -> SysResult {
    let ids = credentials(call);
    let ids = [ids.rgid, ids.egid, ids.sgid];
    store_three(call, IdKind::Group, ids)
}

fn store_three(call: &mut Call<'_>, kind: IdKind, ids: [u32; 3]) -> SysResult {
    for (n, id) in ids.into_iter().enumerate() {
        let shown = call.host.processes.shown_id(call.process, kind, id);
        call.write(call.args[n], &shown)?;
    }
    done(0)
}

/// Argument `n` as a kernel id. `EINVAL` if the caller's user namespace does not map it.
fn id(call: &Call<'_>, n: usize, kind: IdKind) -> Result<u32, Errno> {
    call.host.processes.given_id(call.process, kind, call.uint(n)).ok_or(Errno::EINVAL)
}

fn single_id(call: &Call<'_>, kind: IdKind) -> Result<u32, Errno> {
    if call.uint(0) == KEEP { Err(Errno::EINVAL) } else { id(call, 0, kind) }
}

/// setuid(2).
pub fn sys_setuid(call: &mut Call<'_>) -> SysResult {
    let id = single_id(call, IdKind::User)?;
    change(call, |own| own.set_user(id))
}

/// setgid(2).
pub fn sys_setgid(call: &mut Call<'_>) -> SysResult {
    let id = single_id(call, IdKind::Group)?;
    change(call, |own| own.set_group(id))
}

/// setresuid(2).
pub fn sys_setresuid(call: &mut Call<'_>) -> SysResult {
    let ids = [id(call, 0, IdKind::User)?, id(call, 1, IdKind::User)?, id(call, 2, IdKind::User)?];
    change(call, |own| own.set_users(ids))
}

/// setresgid(2).
pub fn sys_setresgid(call: &mut Call<'_>) -> SysResult {
    let ids = [id(call, 0, IdKind::Group)?, id(call, 1, IdKind::Group)?, id(call, 2, IdKind::Group)?];
    change(call, |own| own.set_three_groups(ids))
}

/// setreuid(2).
pub fn sys_setreuid(call: &mut Call<'_>) -> SysResult {
    let (real, effective) = (id(call, 0, IdKind::User)?, id(call, 1, IdKind::User)?);
    change(call, |own| own.set_real_and_effective_user(real, effective))
}

/// setregid(2).
pub fn sys_setregid(call: &mut Call<'_>) -> SysResult {
    let (real, effective) = (id(call, 0, IdKind::Group)?, id(call, 1, IdKind::Group)?);
    change(call, |own| own.set_real_and_effective_group(real, effective))
}

/// setfsuid(2): returns the previous id, even if the change is not permitted.
pub fn sys_setfsuid(call: &mut Call<'_>) -> SysResult {
    let old = credentials(call).fsuid;
    let id = id(call, 0, IdKind::User).unwrap_or(KEEP);
    change(call, |own| {
        own.set_file_user(id);
        Ok(())
    })?;
    done(u64::from(call.host.processes.shown_id(call.process, IdKind::User, old)))
}

/// setfsgid(2).
pub fn sys_setfsgid(call: &mut Call<'_>) -> SysResult {
    let old = credentials(call).fsgid;
    let id = id(call, 0, IdKind::Group).unwrap_or(KEEP);
    change(call, |own| {
        own.set_file_group(id);
        Ok(())
    })?;
    done(u64::from(call.host.processes.shown_id(call.process, IdKind::Group, old)))
}

/// getgroups(2).
pub fn sys_getgroups(call: &mut Call<'_>) -> SysResult {
    let (room, addr) = (call.int(0), call.args[1]);
    let groups = credentials(call).groups.clone();
    if room < 0 || (room != 0 && (room as usize) < groups.len()) {
        return Err(Errno::EINVAL);
    }
    if room != 0 {
        let shown = |group: &u32| call.host.processes.shown_id(call.process, IdKind::Group, *group);
        let bytes: Vec<u8> = groups.iter().flat_map(|group| shown(group).to_le_bytes()).collect();
        call.write_bytes(addr, &bytes)?;
    }
    done(groups.len() as u64)
}

/// setgroups(2).
pub fn sys_setgroups(call: &mut Call<'_>) -> SysResult {
    let count = call.int(0);
    let namespace = credentials(call).user_namespace;
    let may_set = call.host.processes.namespaces.users.may_set_groups(namespace);
    if !may_set || !credentials(call).has(capability::SETGID) {
        return Err(Errno::EPERM);
    }
    if !(0..=GROUPS_MAX).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let bytes = call.read_vec(call.args[1], count as usize * 4)?;
    let group = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let mut groups: Vec<u32> = bytes.chunks_exact(4).map(group).collect();
    for group in &mut groups {
        let given = call.host.processes.given_id(call.process, IdKind::Group, *group);
        *group = given.filter(|group| *group != KEEP).ok_or(Errno::EINVAL)?;
    }
    groups.sort_unstable();
    credentials(call).groups = groups;
    done(0)
}
