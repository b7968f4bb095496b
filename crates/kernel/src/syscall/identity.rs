//! Users, groups and capabilities. Guests are root; what they make of themselves is kept and shown
//! but decides nothing.

use crate::call::{Call, SysResult, done};
use crate::process::Credentials;
use belljar_linux_abi::Errno;

/// "Leave it as it is."
const KEEP: u32 = u32::MAX;
/// `NGROUPS_MAX`.
const GROUPS_MAX: i32 = 65_536;
/// `_LINUX_CAPABILITY_VERSION_3` and its predecessors.
const CAPABILITY_VERSION_1: u32 = 0x1998_0330;
const CAPABILITY_VERSION_2: u32 = 0x2007_1026;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
/// All capabilities up to `CAP_CHECKPOINT_RESTORE`.
const ALL_CAPABILITIES: u64 = (1 << 41) - 1;

fn credentials<'a>(call: &'a mut Call<'_>) -> &'a mut Credentials {
    &mut call.host.process(call.process).credentials
}

/// getuid(2).
pub fn sys_getuid(call: &mut Call<'_>) -> SysResult {
    done(u64::from(credentials(call).ruid))
}

/// geteuid(2).
pub fn sys_geteuid(call: &mut Call<'_>) -> SysResult {
    done(u64::from(credentials(call).euid))
}

/// getgid(2).
pub fn sys_getgid(call: &mut Call<'_>) -> SysResult {
    done(u64::from(credentials(call).rgid))
}

/// getegid(2).
pub fn sys_getegid(call: &mut Call<'_>) -> SysResult {
    done(u64::from(credentials(call).egid))
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

/// Whether a process that is not root any more may take on `id`.
fn may_be(privileged: bool, own: [u32; 3], id: u32) -> Result<(), Errno> {
    if privileged || id == KEEP || own.contains(&id) { Ok(()) } else { Err(Errno::EPERM) }
}

/// setuid(2).
pub fn sys_setuid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    let own = credentials(call);
    may_be(own.euid == 0, [own.ruid, own.suid, own.suid], id)?;
    if own.euid == 0 {
        (own.ruid, own.suid) = (id, id);
    }
    (own.euid, own.fsuid) = (id, id);
    done(0)
}

/// setgid(2).
pub fn sys_setgid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    let own = credentials(call);
    may_be(own.euid == 0, [own.rgid, own.sgid, own.sgid], id)?;
    if own.euid == 0 {
        (own.rgid, own.sgid) = (id, id);
    }
    (own.egid, own.fsgid) = (id, id);
    done(0)
}

/// setresuid(2).
pub fn sys_setresuid(call: &mut Call<'_>) -> SysResult {
    let new = [call.uint(0), call.uint(1), call.uint(2)];
    let own = credentials(call);
    let privileged = own.euid == 0;
    let mut ids = [own.ruid, own.euid, own.suid];
    replace_ids(privileged, &mut ids, new)?;
    [own.ruid, own.euid, own.suid] = ids;
    own.fsuid = own.euid;
    done(0)
}

/// setresgid(2).
pub fn sys_setresgid(call: &mut Call<'_>) -> SysResult {
    let new = [call.uint(0), call.uint(1), call.uint(2)];
    let own = credentials(call);
    let privileged = own.euid == 0;
    let mut ids = [own.rgid, own.egid, own.sgid];
    replace_ids(privileged, &mut ids, new)?;
    [own.rgid, own.egid, own.sgid] = ids;
    own.fsgid = own.egid;
    done(0)
}

fn replace_ids(privileged: bool, ids: &mut [u32; 3], new: [u32; 3]) -> Result<(), Errno> {
    let own = *ids;
    for id in new {
        may_be(privileged, own, id)?;
    }
    for (id, new) in ids.iter_mut().zip(new).filter(|(_, new)| *new != KEEP) {
        *id = new;
    }
    Ok(())
}

/// setreuid(2).
pub fn sys_setreuid(call: &mut Call<'_>) -> SysResult {
    let (real, effective) = (call.uint(0), call.uint(1));
    let own = credentials(call);
    let saved = if real != KEEP || (effective != KEEP && effective != own.ruid) {
        if effective == KEEP { own.euid } else { effective }
    } else {
        own.suid
    };
    let mut ids = [own.ruid, own.euid, own.suid];
    replace_ids(own.euid == 0, &mut ids, [real, effective, KEEP])?;
    [own.ruid, own.euid, _] = ids;
    (own.suid, own.fsuid) = (saved, own.euid);
    done(0)
}

/// setregid(2).
pub fn sys_setregid(call: &mut Call<'_>) -> SysResult {
    let (real, effective) = (call.uint(0), call.uint(1));
    let own = credentials(call);
    let saved = if real != KEEP || (effective != KEEP && effective != own.rgid) {
        if effective == KEEP { own.egid } else { effective }
    } else {
        own.sgid
    };
    let mut ids = [own.rgid, own.egid, own.sgid];
    replace_ids(own.euid == 0, &mut ids, [real, effective, KEEP])?;
    [own.rgid, own.egid, _] = ids;
    (own.sgid, own.fsgid) = (saved, own.egid);
    done(0)
}

/// setfsuid(2): gives the old one whatever happens.
pub fn sys_setfsuid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    let own = credentials(call);
    let old = own.fsuid;
    if id != KEEP && may_be(own.euid == 0, [own.ruid, own.euid, own.suid], id).is_ok() {
        own.fsuid = id;
    }
    done(u64::from(old))
}

/// setfsgid(2).
pub fn sys_setfsgid(call: &mut Call<'_>) -> SysResult {
    let id = call.uint(0);
    let own = credentials(call);
    let old = own.fsgid;
    if id != KEEP && may_be(own.euid == 0, [own.rgid, own.egid, own.sgid], id).is_ok() {
        own.fsgid = id;
    }
    done(u64::from(old))
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
    if credentials(call).euid != 0 {
        return Err(Errno::EPERM);
    }
    if !(0..=GROUPS_MAX).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let bytes = call.read_vec(call.args[1], count as usize * 4)?;
    let group = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let mut groups: Vec<u32> = bytes.chunks_exact(4).map(group).collect();
    groups.sort_unstable();
    credentials(call).groups = groups;
    done(0)
}

/// How many pairs of 32-bit sets the header at `addr` asks for; an unknown version is answered with
/// the newest one.
fn capability_words(call: &mut Call<'_>, addr: u64) -> Result<usize, Errno> {
    match call.read::<u32>(addr)? {
        CAPABILITY_VERSION_1 => Ok(1),
        CAPABILITY_VERSION_2 | CAPABILITY_VERSION_3 => Ok(2),
        _ => {
            call.write(addr, &CAPABILITY_VERSION_3)?;
            Err(Errno::EINVAL)
        }
    }
}

/// capget(2): root has them all, others none.
pub fn sys_capget(call: &mut Call<'_>) -> SysResult {
    let [header, data, ..] = call.args;
    let words = match capability_words(call, header) {
        // Asking for the version alone is no error.
        Err(Errno::EINVAL) if data == 0 => return done(0),
        words => words?,
    };
    let pid: i32 = call.read(header + 4)?;
    let target = call.host.find_thread(call.thread, pid)?;
    let process = call.host.thread(target).process;
    let all = if call.host.process(process).credentials.euid == 0 { ALL_CAPABILITIES } else { 0 };
    if data == 0 {
        return done(0);
    }
    for word in 0..words {
        // Effective, permitted, inheritable.
        let part = (all >> (32 * word)) as u32;
        call.write(data + 12 * word as u64, &[part, part, 0])?;
    }
    done(0)
}

/// capset(2): accepted without an effect.
pub fn sys_capset(call: &mut Call<'_>) -> SysResult {
    let [header, data, ..] = call.args;
    let words = capability_words(call, header)?;
    call.read_vec(data, 12 * words)?;
    done(0)
}
