//! Mount queries: statmount(2), listmount(2).

use crate::call::Call;
use crate::credentials::capability;
use crate::guest::check_extensible;
use crate::outcome::{SysResult, done};
use belljar_base::{Map, Set};
use belljar_linux_abi::Errno;
use belljar_objects::mounts::statmount::{STATMOUNT_LEN, UNIQUE};
use belljar_objects::mounts::text::MountLine;
use belljar_objects::namespaces::NamespaceKind;

/// `struct mnt_id_req`: size and namespace descriptor, mount id, parameter, namespace id.
type Request = [u64; 4];

/// `LSMT_ROOT`: the root of the caller.
const CALLERS_ROOT: u64 = u64::MAX;

fn request(call: &Call<'_>) -> Result<Request, Errno> {
    /// Size of the first version of the structure in bytes.
    const LEAST: usize = 24;
    let size: u32 = call.read(call.args[0])?;
    check_extensible(size.into(), LEAST)?;
    let request: Request = call.read_extensible(call.args[0], size.into(), LEAST)?;
    if request[1] <= UNIQUE { Err(Errno::EINVAL) } else { Ok(request) }
}

/// `ENOENT` for a mount namespace other than the caller's; `EBADF` or `EINVAL` for an invalid descriptor.
fn check_namespace(call: &mut Call<'_>, [first, .., number]: Request) -> Result<(), Errno> {
    let fd = (first >> 32) as i32;
    let own = call.host.process(call.process).mount_namespace;
    if fd != 0 {
        let file = call.host.file_of(call.process, fd)?;
        let named = call.host.files.mount_namespace_of(file).ok_or(Errno::EINVAL)?;
        return if named == own { Ok(()) } else { Err(Errno::ENOENT) };
    }
    if number == 0 || number == u64::from(own) + 1 { Ok(()) } else { Err(Errno::ENOENT) }
}

/// Mounts of the caller's namespace visible below `root`, by mount id.
fn sorted<'a>(call: &'a Call<'_>, root: &[u8]) -> Vec<MountLine<'a>> {
    let namespace = call.host.processes[call.process.0].mount_namespace;
    let mut all = call.host.files.shown_mounts(namespace, root);
    all.sort_by_key(|mount| mount.id);
    all
}

/// statmount(2).
pub fn sys_statmount(call: &mut Call<'_>) -> SysResult {
    let [_, buffer, room, flags, ..] = call.args;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let request = request(call)?;
    check_namespace(call, request)?;
    let privileged =
        call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN);
    let privileged = privileged.is_ok();
    let process = &call.host.processes[call.process.0];
    let namespace = u64::from(process.mount_namespace) + 1;
    let is_it = |mount: &MountLine<'_>| mount.unique_id() == request[1];
    let mut seen = sorted(call, &process.root);
    let found = match seen.iter().position(is_it) {
        Some(at) => seen.swap_remove(at),
        None => {
            let mut found = sorted(call, b"/").into_iter().find(is_it).ok_or(Errno::ENOENT)?;
            if !privileged {
                return Err(Errno::EPERM);
            }
            // The mount point is outside the caller's root and is not reported.
            found.path = Vec::new();
            found
        }
    };
    let magic = call.host.files.file_system_kind(found.device) as u64;
    let bytes = found.statmount(request[2], room.min(1 << 20) as usize, magic, namespace)?;
    let (fixed, strings) = bytes.split_at(bytes.len().min(STATMOUNT_LEN));
    call.write_bytes(buffer.wrapping_add(STATMOUNT_LEN as u64), strings)?;
    call.write_bytes(buffer, fixed)?;
    done(0)
}

/// listmount(2).
pub fn sys_listmount(call: &mut Call<'_>) -> SysResult {
    const REVERSE: u64 = 1;
    const MOST: u64 = 1_000_000;
    let [_, list, room, flags, ..] = call.args;
    if flags & !REVERSE != 0 {
        return Err(Errno::EINVAL);
    }
    if room > MOST {
        return Err(Errno::EOVERFLOW);
    }
    let request = request(call)?;
    let [_, parent, last, _] = request;
    if last != 0 && last <= UNIQUE {
        return Err(Errno::EINVAL);
    }
    check_namespace(call, request)?;
    let privileged =
        call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN);
    let privileged = privileged.is_ok();
    let root = &call.host.processes[call.process.0].root;
    let seen = sorted(call, root);
    let mut found: Vec<u64> = if parent == CALLERS_ROOT {
        seen.iter().map(MountLine::unique_id).collect()
    } else {
        let all = sorted(call, b"/");
        let top = all.iter().find(|mount| mount.unique_id() == parent).ok_or(Errno::ENOENT)?;
        if !privileged && !seen.iter().any(|mount| mount.unique_id() == parent) {
            return Err(Errno::EPERM);
        }
        let mut children: Map<_, Vec<&MountLine<'_>>> = Map::new();
        for mount in &all {
            children.entry(mount.parent).or_default().push(mount);
        }
        // The children of each mount are visited once, even if the parent ids form a cycle.
        let mut below = Set::new();
        let mut left = children.remove(&top.id).unwrap_or_default();
        while let Some(mount) = left.pop() {
            if mount.id != top.id && below.insert(mount.unique_id()) {
                left.extend(children.remove(&mount.id).unwrap_or_default());
            }
        }
        below.into_iter().collect()
    };
    if flags & REVERSE != 0 {
        found.reverse();
        found.retain(|id| last == 0 || *id < last);
    } else {
        found.retain(|id| *id > last);
    }
    found.truncate(room as usize);
    let bytes: Vec<u8> = found.iter().flat_map(|id| id.to_ne_bytes()).collect();
    call.write_bytes(list, &bytes)?;
    done(found.len() as u64)
}
