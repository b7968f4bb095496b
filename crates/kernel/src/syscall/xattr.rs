//! Extended attributes, `xattr(7)`.

use crate::call::Call;
use crate::files::tree::Walk;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::mounts::Place;

/// `XATTR_NAME_MAX`.
const NAME_MAX: usize = 255;
/// `XATTR_SIZE_MAX`.
const SIZE_MAX: u64 = 65_536;

/// Resolves argument 0, a path or a descriptor. `EOPNOTSUPP` for files without an inode.
type Named = fn(&mut Call<'_>) -> Result<Place, Errno>;

fn by_path(call: &mut Call<'_>) -> Result<Place, Errno> {
    at_path(call, Walk::FOLLOW)
}
fn by_link(call: &mut Call<'_>) -> Result<Place, Errno> {
    at_path(call, Walk::empty())
}
fn at_path(call: &mut Call<'_>, walk: Walk) -> Result<Place, Errno> {
    let path = call.read_path(call.args[0])?;
    call.host.resolve_here(call.process, &path, walk)?.place()
}
fn by_descriptor(call: &mut Call<'_>) -> Result<Place, Errno> {
    let file = call.host.file_of(call.process, call.int(0))?;
    let open = call.host.files.open(file);
    if open.flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let inode = open.kind.inode().ok_or(Errno::EOPNOTSUPP)?;
    Ok((call.host.files.open(file).mount_key(), inode))
}

fn name_at(call: &mut Call<'_>, addr: u64) -> Result<Vec<u8>, Errno> {
    let name = call.host.read_guest_string(call.process, addr, NAME_MAX, Errno::ERANGE)?;
    if name.is_empty() { Err(Errno::ERANGE) } else { Ok(name) }
}

/// Returns the length of a list or value, and stores it unless the size is 0. `ERANGE` if it does not fit.
fn give(call: &mut Call<'_>, what: &[u8], addr: u64, room: u64) -> SysResult {
    if room != 0 {
        if (what.len() as u64) > room {
            return Err(Errno::ERANGE);
        }
        call.write_bytes(addr, what)?;
    }
    done(what.len() as u64)
}

fn get(call: &mut Call<'_>, named: Named) -> SysResult {
    let (_, inode) = named(call)?;
    let name = name_at(call, call.args[1])?;
    let value = call.host.attribute(call.process, inode, &name)?;
    give(call, &value, call.args[2], call.args[3])
}
fn list(call: &mut Call<'_>, named: Named) -> SysResult {
    let (_, inode) = named(call)?;
    let names = call.host.files.attribute_names(&call.host.processes, call.process, inode);
    give(call, &names, call.args[1], call.args[2])
}
fn set(call: &mut Call<'_>, named: Named) -> SysResult {
    let (flags, len) = (call.int(4), call.args[3]);
    if flags & !(c::XATTR_CREATE | c::XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    let place = named(call)?;
    call.host.files.check_writable(place)?;
    let inode = place.1;
    let name = name_at(call, call.args[1])?;
    if len > SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    let value = call.read_vec(call.args[2], len as usize)?;
    call.host.set_attribute(call.process, inode, name, value, flags)?;
    done(0)
}
fn remove(call: &mut Call<'_>, named: Named) -> SysResult {
    let place = named(call)?;
    call.host.files.check_writable(place)?;
    let inode = place.1;
    let name = name_at(call, call.args[1])?;
    call.host.remove_attribute(call.process, inode, &name)?;
    done(0)
}

/// `getxattr(2)`.
pub fn sys_getxattr(call: &mut Call<'_>) -> SysResult {
    get(call, by_path)
}
/// `lgetxattr(2)`.
pub fn sys_lgetxattr(call: &mut Call<'_>) -> SysResult {
    get(call, by_link)
}
/// `fgetxattr(2)`.
pub fn sys_fgetxattr(call: &mut Call<'_>) -> SysResult {
    get(call, by_descriptor)
}
/// `listxattr(2)`.
pub fn sys_listxattr(call: &mut Call<'_>) -> SysResult {
    list(call, by_path)
}
/// `llistxattr(2)`.
pub fn sys_llistxattr(call: &mut Call<'_>) -> SysResult {
    list(call, by_link)
}
/// `flistxattr(2)`.
pub fn sys_flistxattr(call: &mut Call<'_>) -> SysResult {
    list(call, by_descriptor)
}
/// `setxattr(2)`.
pub fn sys_setxattr(call: &mut Call<'_>) -> SysResult {
    set(call, by_path)
}
/// `lsetxattr(2)`.
pub fn sys_lsetxattr(call: &mut Call<'_>) -> SysResult {
    set(call, by_link)
}
/// `fsetxattr(2)`.
pub fn sys_fsetxattr(call: &mut Call<'_>) -> SysResult {
    set(call, by_descriptor)
}
/// `removexattr(2)`.
pub fn sys_removexattr(call: &mut Call<'_>) -> SysResult {
    remove(call, by_path)
}
/// `lremovexattr(2)`.
pub fn sys_lremovexattr(call: &mut Call<'_>) -> SysResult {
    remove(call, by_link)
}
/// `fremovexattr(2)`.
pub fn sys_fremovexattr(call: &mut Call<'_>) -> SysResult {
    remove(call, by_descriptor)
}
