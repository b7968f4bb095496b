//! Mounts: mount(2), umount2(2), pivot_root(2).

use super::mount_contexts::move_place;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::Files;
use crate::files::tree::Walk;
use crate::guest::PATH_MAX;
use crate::ids::{InodeKey, MountKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::inode::{Node, is_below};
use belljar_objects::mounts::options::{MemoryOptions, check_options, is_known, is_of_linux, options_of};
use belljar_objects::mounts::requests::{MountChange, NO_USER, wanted_flags, without_magic};
use belljar_objects::mounts::{MountFlags, Place, Propagation, Room};
use belljar_objects::namespaces::{IdKind, NamespaceKind};
use belljar_objects::virtual_files::{MagicLink, VirtualFile};

/// Maximum length of the options in bytes.
const DATA: usize = 4_095;
/// `mount(2)`.
pub fn sys_mount(call: &mut Call<'_>) -> SysResult {
    let [source, target, kind, flags, data, _] = call.args;
    let kind = text_at(call, kind)?;
    let source = text_at(call, source)?;
    let data = match data {
        0 => Vec::new(),
        addr => call.host.read_guest_string(call.process, addr, DATA, Errno::EINVAL)?,
    };
    let flags = without_magic(flags);
    let target = call.read_path(target)?;
    let place = call.host.resolve_here(call.process, &target, Walk::FOLLOW)?.place()?;
    if flags & NO_USER != 0 {
        return Err(Errno::EINVAL);
    }
    call.host.processes.may_mount(call.process)?;
    let wanted = wanted_flags(flags, call.host.files.mount_flags(place));
    match MountChange::of(flags)? {
        MountChange::RemountBind => remount_bind(call, place, wanted),
        MountChange::Remount => remount(call, place, flags, wanted, &data),
        MountChange::Bind => bind(call, place, source.as_deref(), flags & c::MS_REC != 0),
        MountChange::Propagation(to) => propagate(call, place, to, flags & c::MS_REC != 0),
        MountChange::Move => move_mount(call, place, source.as_deref()),
        MountChange::New => {
            let kind = kind.ok_or(Errno::EINVAL)?;
            mount_new(call, place, &kind, source.as_deref().unwrap_or_default(), flags, wanted, &data)
        }
    }
}

/// Reads an optional string argument.
fn text_at(call: &mut Call<'_>, addr: u64) -> Result<Option<Vec<u8>>, Errno> {
    match addr {
        0 => Ok(None),
        addr => call.host.read_guest_string(call.process, addr, PATH_MAX, Errno::EINVAL).map(Some),
    }
}

/// Mounts a new file system, or one of the host's existing ones.
fn mount_new(
    call: &mut Call<'_>,
    place: Place,
    kind: &[u8],
    source: &[u8],
    flags: u64,
    wanted: MountFlags,
    data: &[u8],
) -> SysResult {
    if !is_known(kind) {
        warn_of(call, kind);
        return Err(Errno::ENODEV);
    }
    let (device, root) = match is_directory(call, place.1) {
        true => make_system(call, kind, flags, data)?,
        false => {
            memory_options(call, kind, data, None)?;
            return Err(Errno::ENOTDIR);
        }
    };
    // Proc may be mounted several times on the same directory, other file systems may not.
    let there = call.host.files.mounts.get(place.0);
    let is_there = there.root == place.1 && there.device == device;
    // In further mount namespaces the directories of the initial file systems are ordinary directories.
    let is_first = call.host.process(call.process).mount_namespace == 0;
    let seed = call.host.files.seed_at(place).filter(|_| is_first);
    if kind != b"proc" && (is_there || seed == Some(device)) {
        return Err(Errno::EBUSY);
    }
    let mount = call.host.files.mounts.add(root, device, source, wanted);
    attach(call, mount, place)
}

/// Warns that a file-system type of Linux is not supported.
pub(super) fn warn_of(call: &mut Call<'_>, kind: &[u8]) {
    let name = String::from_utf8_lossy(kind);
    if is_of_linux(&name) {
        call.host.warn(format!("file systems of kind {name} cannot be mounted: mount gives ENODEV"));
    }
}

/// Device and root of a file system of a type: a new in-memory one, or the host's existing one.
pub(super) fn make_system(
    call: &mut Call<'_>,
    kind: &[u8],
    flags: u64,
    data: &[u8],
) -> Result<(u64, InodeKey), Errno> {
    let options = memory_options(call, kind, data, None)?;
    let name = match kind {
        b"tmpfs" => "tmpfs",
        b"ramfs" => "ramfs",
        b"proc" => {
            call.host.processes.require_for(call.process, NamespaceKind::Pid, capability::SYS_ADMIN)?;
            let device = call.host.files.mounts.device_of_kind("proc").ok_or(Errno::ENODEV)?;
            let root = match call.host.processes.namespace(call.process, NamespaceKind::Pid) {
                0 => call.host.files.mounts.system(device).map(|system| system.root).ok_or(Errno::ENODEV)?,
                inside => {
                    let now = call.host.net.clock.realtime_ns() as i64;
                    call.host.files.proc_root(inside, now)
                }
            };
            return Ok((device, root));
        }
        other => {
            match other {
                b"sysfs" => call.host.processes.require_for(
                    call.process,
                    NamespaceKind::Net,
                    capability::SYS_ADMIN,
                )?,
                b"devpts" => {}
                _ => call.host.processes.require(call.process, capability::SYS_ADMIN)?,
            }
            let name = String::from_utf8_lossy(other).into_owned();
            let device = call.host.files.mounts.device_of_kind(&name).ok_or(Errno::ENODEV)?;
            let root =
                call.host.files.mounts.system(device).map(|system| system.root).ok_or(Errno::ENODEV)?;
            return Ok((device, root));
        }
    };
    call.host.make_memory_system(name, options, MountFlags::from_bits_truncate(flags))
}

/// Attaches a new mount, or destroys it if that fails.
pub(super) fn attach(call: &mut Call<'_>, mount: MountKey, place: Place) -> SysResult {
    let Files { mounts, inodes, .. } = &mut call.host.files;
    let attached = match inodes[place.1.0].node {
        // Entries of /proc/<pid>/fd and fdinfo disappear with their descriptors.
        Node::Magic(MagicLink::Descriptor(..)) | Node::Virtual(VirtualFile::DescriptorInfo(..)) => {
            Err(Errno::ENOENT)
        }
        _ => mounts.attach(mount, place, &|root, point| is_below(inodes, root, point)),
    };
    if let Err(errno) = attached {
        let gone = call.host.files.mounts.take_down(mount);
        call.host.end_mounts(gone);
        return Err(errno);
    }
    call.host.mounts_changed();
    done(0)
}

/// Parses the mount options of a file system. `now` is the present capacity for a remount.
fn memory_options(
    call: &mut Call<'_>,
    kind: &[u8],
    data: &[u8],
    now: Option<Room>,
) -> Result<MemoryOptions, Errno> {
    if !matches!(kind, b"tmpfs" | b"ramfs") {
        for option in data.split(|byte| *byte == b',').filter(|option| !option.is_empty()) {
            check_options(kind, option)?;
        }
        return Ok(MemoryOptions::default());
    }
    let who = &call.host.processes[call.process.0].credentials;
    let processes = &call.host.processes;
    let own = processes.shown_credentials(call.process, (0, who.fsuid, who.fsgid));
    let mut options = options_of(kind, data, (own.1, own.2), now)?;
    let given = |kind, id| processes.given_id(call.process, kind, id).ok_or(Errno::EINVAL);
    (options.uid, options.gid) = (given(IdKind::User, options.uid)?, given(IdKind::Group, options.gid)?);
    Ok(options)
}

/// Resolves the source path of `mount(2)`.
fn source_place(call: &mut Call<'_>, source: Option<&[u8]>) -> Result<Place, Errno> {
    let path = source.filter(|path| !path.is_empty()).ok_or(Errno::EINVAL)?.to_vec();
    call.host.resolve_here(call.process, &path, Walk::FOLLOW)?.place()
}

/// `MS_BIND`: mounts a file or directory on another one.
fn bind(call: &mut Call<'_>, place: Place, source: Option<&[u8]>, deep: bool) -> SysResult {
    let (mount, root) = source_place(call, source)?;
    if call.host.files.mounts.get(mount).unbindable {
        return Err(Errno::EINVAL);
    }
    if is_directory(call, root) != is_directory(call, place.1) {
        return Err(Errno::ENOTDIR);
    }
    if !deep && call.host.files.hides_locked((mount, root)) {
        return Err(Errno::EINVAL);
    }
    let copy = call.host.files.copy_mount((mount, root), deep);
    attach(call, copy, place)
}

pub(super) fn is_directory(call: &mut Call<'_>, inode: InodeKey) -> bool {
    matches!(call.host.files.inode(inode).node, Node::Directory(_))
}

/// `MS_REMOUNT | MS_BIND`: changes the flags of a mount.
fn remount_bind(call: &mut Call<'_>, place: Place, wanted: MountFlags) -> SysResult {
    if !call.host.files.is_mount_root(place) {
        return Err(Errno::EINVAL);
    }
    let wanted = wanted & MountFlags::OF_MOUNT;
    if let Some(device) = call.host.files.seed_at(place) {
        if call.host.process(call.process).mount_namespace != 0 {
            return Err(Errno::EINVAL);
        }
        if let Some(system) = call.host.files.mounts.system_mut(device) {
            system.flags = wanted;
        }
        return done(0);
    }
    let mount = call.host.files.mounts.get_mut(place.0);
    if mount.frees_locked(wanted) {
        return Err(Errno::EPERM);
    }
    let becomes_fixed =
        wanted.contains(MountFlags::READ_ONLY) && !mount.flags.contains(MountFlags::READ_ONLY);
    if becomes_fixed && mount.writers > 0 {
        return Err(Errno::EBUSY);
    }
    mount.flags = wanted;
    call.host.files.mounts.touch(place.0);
    call.host.mounts_changed();
    done(0)
}

/// `MS_REMOUNT`: changes the flags and options of a file system, and the flags of this mount.
pub(super) fn remount(
    call: &mut Call<'_>,
    place: Place,
    flags: u64,
    wanted: MountFlags,
    data: &[u8],
) -> SysResult {
    if !call.host.files.is_mount_root(place) {
        return Err(Errno::EINVAL);
    }
    if call.host.files.seed_at(place).is_some() {
        return remount_bind(call, place, wanted);
    }
    let device = call.host.files.mounts.get(place.0).device;
    let Some(system) = call.host.files.mounts.system(device).cloned() else { return Err(Errno::EINVAL) };
    // The initial file systems belong to the initial user namespace, others to the one that mounted them.
    let maker = if system.seed { 0 } else { system.owner };
    call.host.processes.require_in(call.process, maker, capability::SYS_ADMIN)?;
    let new = MountFlags::from_bits_truncate(flags) & MountFlags::OF_FILE_SYSTEM;
    let options = match system.room {
        Some(room) => Some(memory_options(call, b"tmpfs", data, Some(room))?),
        None => None,
    };
    let becomes_fixed = new.contains(MountFlags::READ_ONLY) && !system.flags.contains(MountFlags::READ_ONLY);
    if becomes_fixed && call.host.files.mounts.writers_of(device) > 0 {
        return Err(Errno::EBUSY);
    }
    if let Some(system) = call.host.files.mounts.system_mut(device) {
        system.flags = if system.seed { wanted & MountFlags::OF_MOUNT } else { new };
        if let Some(options) = options {
            system.room = options.room;
            system.options = options.shown;
        }
    }
    call.host.files.mounts.get_mut(place.0).flags = wanted & MountFlags::OF_MOUNT;
    call.host.files.mounts.touch(place.0);
    call.host.mounts_changed();
    done(0)
}

/// `MS_SHARED` and its relatives: changes the propagation type.
fn propagate(call: &mut Call<'_>, place: Place, to: Propagation, deep: bool) -> SysResult {
    if !call.host.files.is_mount_root(place) {
        return Err(Errno::EINVAL);
    }
    if call.host.files.seed_at(place).is_none() {
        call.host.files.mounts.set_propagation(place.0, to, deep);
    }
    done(0)
}

/// `MS_MOVE`.
fn move_mount(call: &mut Call<'_>, place: Place, source: Option<&[u8]>) -> SysResult {
    let from = source_place(call, source)?;
    if call.host.files.mounts.get(from.0).at.is_none() {
        return Err(Errno::EINVAL);
    }
    move_place(call, from, place)
}

/// `umount2(2)`.
pub fn sys_umount2(call: &mut Call<'_>) -> SysResult {
    const KNOWN: i32 = c::MNT_FORCE | c::MNT_DETACH | c::MNT_EXPIRE | c::UMOUNT_NOFOLLOW;
    let flags = call.int(1);
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let path = call.read_path(call.args[0])?;
    let walk = if flags & c::UMOUNT_NOFOLLOW == 0 { Walk::FOLLOW } else { Walk::empty() };
    let (mount, inode) = call.host.resolve_here(call.process, &path, walk)?.place()?;
    let place = call.host.files.mounts.top(mount, inode);
    call.host.processes.may_mount(call.process)?;
    if !call.host.files.is_mount_root(place) {
        return Err(Errno::EINVAL);
    }
    let namespace = call.host.process(call.process).mount_namespace;
    let (mount, seed) = (place.0, call.host.files.seed_at(place).is_some());
    let found = call.host.files.mounts.get(mount);
    if found.namespace != Some(namespace) || found.locked {
        return Err(Errno::EINVAL);
    }
    let is_first = seed || found.at.is_none();
    if flags & c::MNT_EXPIRE != 0 {
        if is_first || flags & (c::MNT_FORCE | c::MNT_DETACH) != 0 {
            return Err(Errno::EINVAL);
        }
        if call.host.is_mount_busy(mount) {
            return Err(Errno::EBUSY);
        }
        if !std::mem::replace(&mut call.host.files.mounts.get_mut(mount).expiring, true) {
            return Err(Errno::EAGAIN);
        }
    } else if is_first || flags & c::MNT_DETACH == 0 && call.host.is_mount_busy(mount) {
        // The initial file systems are always busy.
        return Err(Errno::EBUSY);
    }
    let gone = call.host.files.mounts.take_down(mount);
    call.host.end_mounts(gone);
    done(0)
}

/// pivot_root(2): makes another mount the root of the namespace and mounts the former root in it.
pub fn sys_pivot_root(call: &mut Call<'_>) -> SysResult {
    call.host.processes.may_mount(call.process)?;
    let new_path = call.read_path(call.args[0])?;
    let new = call.host.resolve_here(call.process, &new_path, Walk::FOLLOW)?.place()?;
    let old_path = call.read_path(call.args[1])?;
    let put_old = call.host.resolve_here(call.process, &old_path, Walk::FOLLOW)?.place()?;
    if !is_directory(call, new.1) || !is_directory(call, put_old.1) {
        return Err(Errno::ENOTDIR);
    }
    let root = call.host.root_of(call.process)?;
    let mounts = &call.host.files.mounts;
    if new.0 == root.0 || put_old.0 == root.0 {
        return Err(Errno::EBUSY);
    }
    let shared = |mount| mounts.get(mount).group.is_some();
    let parent_shared = mounts.get(new.0).at.is_some_and(|(parent, _)| shared(parent));
    // After `chroot(2)`, the root of a process may be any mount.
    let place = mounts.get(root.0).at;
    if mounts.get(root.0).root != root.1
        || mounts.get(new.0).root != new.1
        || !mounts.is_within(new.0, root.0)
        || !mounts.is_within(put_old.0, new.0)
        || shared(put_old.0)
        || parent_shared
        || place.is_some_and(|(parent, _)| shared(parent))
    {
        return Err(Errno::EINVAL);
    }
    let namespace = call.host.process(call.process).mount_namespace;
    let [root_at, new_at] = [root, new].map(|place| call.host.files.path_of_place(place));
    let (root_at, new_at) = (root_at.ok_or(Errno::ENOENT)?, new_at.ok_or(Errno::ENOENT)?);
    call.host.files.mounts.detach(new.0);
    match place {
        Some(place) => {
            call.host.files.mounts.detach(root.0);
            attach(call, new.0, place)?;
        }
        None => call.host.files.mounts.set_root(namespace, new.0),
    };
    attach(call, root.0, put_old)?;
    let old_at = call.host.files.path_of_place(root).ok_or(Errno::ENOENT)?;
    call.host.processes.change_root(namespace, [&root_at, &new_at, &old_at]);
    done(0)
}
