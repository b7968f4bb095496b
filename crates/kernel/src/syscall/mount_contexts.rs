//! File-descriptor-based mounts: fsopen(2), fsconfig(2), fsmount(2), fspick(2), open_tree(2), move_mount(2),
//! mount_setattr(2).

use super::mounts::{attach, is_directory, make_system, warn_of};
use super::stat::walk_of;
use crate::call::Call;
use crate::credentials::capability;
use crate::files::Files;
use crate::files::tree::Walk;
use crate::guest::check_extensible;
use crate::ids::{FileKey, MountKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::is_below;
use belljar_objects::mounts::options::{check_options, is_known};
use belljar_objects::mounts::requests::{FlagsChange, flags_of, propagation_of};
use belljar_objects::mounts::{FileSystemContext, MountFlags, Place};
use belljar_objects::namespaces::NamespaceKind;

/// `FSOPEN_CLOEXEC`, `FSMOUNT_CLOEXEC`, `FSPICK_CLOEXEC`.
const CLOSE_ON_EXEC: u32 = 1;
/// `FSPICK_*`.
const PICK_NO_FOLLOW: u32 = 2;
const PICK_EMPTY: u32 = 8;
/// `OPEN_TREE_CLONE`.
const CLONE: i32 = 1;
/// `AT_RECURSIVE`.
const RECURSIVE: i32 = 0x8000;
/// `MOVE_MOUNT_F_*` and `MOVE_MOUNT_T_*`: follow symbolic links and allow empty paths, for source and target.
const FROM_LINKS: u32 = 1;
const FROM_EMPTY: u32 = 4;
const TO_LINKS: u32 = 0x10;
const TO_EMPTY: u32 = 0x40;
const MOVE_KNOWN: u32 = 0x377;
/// `MOVE_MOUNT_SET_GROUP`, `MOVE_MOUNT_BENEATH`.
const SET_GROUP: u32 = 0x100;
const MOVE_BENEATH: u32 = 0x200;
/// Maximum lengths of an option's key and value in bytes.
const KEY: usize = 256;
const VALUE: usize = 256;
/// Maximum total length of the options in bytes.
const OPTIONS: usize = 4_096;

/// `struct mount_attr`: attributes to set, attributes to clear, propagation, and the user namespace of an
/// idmapped mount.
type MountAttributes = [u64; 4];

/// Path walk for calls with their own flags to follow links and to allow an empty path.
fn walk_by(follows: bool, empty: bool) -> Walk {
    let mut walk = Walk::empty();
    walk.set(Walk::FOLLOW, follows);
    walk.set(Walk::EMPTY, empty);
    walk
}

/// Resolves a path of the caller.
fn place_at(call: &mut Call<'_>, dirfd: i32, path: u64, walk: Walk) -> Result<Place, Errno> {
    let path = call.read_path(path)?;
    call.host.resolve(call.process, dirfd, &path, walk)?.place()
}

/// `fsopen(2)`.
pub fn sys_fsopen(call: &mut Call<'_>) -> SysResult {
    call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    if call.uint(1) & !CLOSE_ON_EXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let kind = call.host.read_guest_string(call.process, call.args[0], KEY, Errno::EINVAL)?;
    if !is_known(&kind) {
        warn_of(call, &kind);
        return Err(Errno::ENODEV);
    }
    let close_on_exec = call.uint(1) & CLOSE_ON_EXEC != 0;
    open_context(call, FileSystemContext { kind, ..FileSystemContext::default() }, close_on_exec)
}

fn open_context(call: &mut Call<'_>, context: FileSystemContext, close_on_exec: bool) -> SysResult {
    let number = call.host.files.contexts.insert(context);
    let file = call.host.files.open_file(FileKind::MountContext(number), c::O_RDWR);
    done(call.host.install_fd(call.process, file, close_on_exec, 0)?)
}

/// `fspick(2)`.
pub fn sys_fspick(call: &mut Call<'_>) -> SysResult {
    call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    let flags = call.uint(2);
    if flags & !0xf != 0 {
        return Err(Errno::EINVAL);
    }
    let walk = walk_by(flags & PICK_NO_FOLLOW == 0, flags & PICK_EMPTY != 0);
    let place = place_at(call, call.int(0), call.args[1], walk)?;
    if !call.host.files.is_mount_root(place) || call.host.files.seed_at(place).is_some() {
        return Err(Errno::EINVAL);
    }
    let device = call.host.files.inode(place.1).device;
    let mut context = FileSystemContext { picked: Some(place), ..FileSystemContext::default() };
    if let Some(system) = call.host.files.mounts.system(device) {
        context.kind = system.kind.into();
        context.flags = system.flags & MountFlags::OF_FILE_SYSTEM;
    }
    open_context(call, context, flags & CLOSE_ON_EXEC != 0)
}

/// `fsconfig(2)`.
pub fn sys_fsconfig(call: &mut Call<'_>) -> SysResult {
    let [_, command, key, value, _, _] = call.args;
    let (command, extra) = (command as u32, call.int(4));
    if call.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    let (key_given, value_given) = (key != 0, value != 0);
    let right = match command {
        // Flag, string, binary, path, possibly empty path, descriptor, commands.
        0 => key_given && !value_given && extra == 0,
        1 => key_given && value_given && extra == 0,
        2 => key_given && value_given && extra > 0 && extra <= 1 << 20,
        3 | 4 => key_given && value_given && (extra == c::AT_FDCWD || extra >= 0),
        5 => key_given && !value_given && extra >= 0,
        6..=8 => !key_given && !value_given && extra == 0,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    if !right {
        return Err(Errno::EINVAL);
    }
    let file = call.host.file_of(call.process, call.int(0))?;
    let number = context_of(call, file)?;
    if command >= 6 {
        return run_command(call, number, command);
    }
    let key = call.host.read_guest_string(call.process, key, KEY, Errno::EINVAL)?;
    let value = match command {
        1 => Some(call.host.read_guest_string(call.process, value, VALUE, Errno::EINVAL)?),
        2 => Some(call.read_vec(value, extra as usize)?),
        3 | 4 => Some(call.read_path(value)?),
        5 => call.host.file_of(call.process, extra).map(|_| None)?,
        _ => None,
    };
    if call.host.files.contexts[number].created.is_some() {
        return Err(Errno::EBUSY);
    }
    set_option(&mut call.host.files.contexts[number], &key, value, command == 1)?;
    done(0)
}

/// Sets an option of a context: generic flags, the source, or an option of the file-system type.
fn set_option(
    context: &mut FileSystemContext,
    key: &[u8],
    value: Option<Vec<u8>>,
    is_text: bool,
) -> Result<(), Errno> {
    const FLAGS: [(&[u8], MountFlags); 4] = [
        (b"sync", MountFlags::SYNCHRONOUS),
        (b"dirsync", MountFlags::DIRECTORIES_SYNCHRONOUS),
        (b"lazytime", MountFlags::LAZY_TIME),
        (b"ro", MountFlags::READ_ONLY),
    ];
    if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == key) {
        context.flags |= *flag;
        return Ok(());
    }
    match key {
        b"rw" => context.flags -= MountFlags::READ_ONLY,
        b"async" => context.flags -= MountFlags::SYNCHRONOUS,
        b"nolazytime" => context.flags -= MountFlags::LAZY_TIME,
        b"source" if !is_text || context.source.is_some() => return Err(Errno::EINVAL),
        b"source" => context.source = value,
        b"" => return Err(Errno::EINVAL),
        key => {
            let mut option = key.to_vec();
            if let Some(value) = value {
                option.push(b'=');
                option.extend_from_slice(&value);
            }
            if context.options.len() + option.len() + 1 > OPTIONS || option.contains(&b',') {
                return Err(Errno::EINVAL);
            }
            // Unknown options are rejected at once.
            check_options(&context.kind, &option)?;
            context.options.push(b',');
            context.options.extend_from_slice(&option);
        }
    }
    Ok(())
}

fn run_command(call: &mut Call<'_>, number: usize, command: u32) -> SysResult {
    call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    let context = call.host.files.contexts[number].clone();
    match (command, context.picked) {
        (7, Some(place)) if !call.host.files.mounts.shows(place.0, place.1) => Err(Errno::EINVAL),
        (7, Some(place)) => {
            let flags = context.flags.bits() | c::MS_REMOUNT;
            let wanted = call.host.files.mounts.get(place.0).flags & MountFlags::OF_MOUNT;
            super::mounts::remount(call, place, flags, wanted, &context.options)
        }
        (7, None) | (_, Some(_)) => Err(Errno::EBUSY),
        (_, None) if context.created.is_some() => Err(Errno::EBUSY),
        (_, None) => {
            let made = make_system(call, &context.kind, context.flags.bits(), &context.options)?;
            call.host.files.contexts[number].created = Some(made);
            done(0)
        }
    }
}

fn context_of(call: &mut Call<'_>, file: FileKey) -> Result<usize, Errno> {
    match call.host.files.open(file).kind {
        FileKind::MountContext(number) => Ok(number),
        _ => Err(Errno::EINVAL),
    }
}

/// `fsmount(2)`.
pub fn sys_fsmount(call: &mut Call<'_>) -> SysResult {
    call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    let flags = call.uint(1);
    if flags & !CLOSE_ON_EXEC != 0 {
        return Err(Errno::EINVAL);
    }
    let wanted = flags_of(call.uint(2).into())?;
    let file = call.host.file_of(call.process, call.int(0))?;
    let number = context_of(call, file)?;
    let context = &mut call.host.files.contexts[number];
    let (device, root) = context.created.ok_or(Errno::EINVAL)?;
    if std::mem::replace(&mut context.mounted, true) {
        return Err(Errno::EBUSY);
    }
    let source = context.source.clone().unwrap_or_default();
    let mount = call.host.files.mounts.add(root, device, &source, wanted);
    open_place(call, (mount, root), flags & CLOSE_ON_EXEC != 0)
}

/// Opens an `O_PATH` descriptor of a mount and inode.
fn open_place(call: &mut Call<'_>, place: Place, close_on_exec: bool) -> SysResult {
    let file = call.host.open_inode_file(FileKind::Path(place.1), Some(place.0), place.1, c::O_PATH);
    done(call.host.install_fd(call.process, file, close_on_exec, 0)?)
}

/// `open_tree(2)`.
pub fn sys_open_tree(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(2);
    let known =
        c::AT_EMPTY_PATH | c::AT_NO_AUTOMOUNT | RECURSIVE | c::AT_SYMLINK_NOFOLLOW | CLONE | c::O_CLOEXEC;
    let walk = walk_of(flags, known)?;
    if flags & (RECURSIVE | CLONE) == RECURSIVE {
        return Err(Errno::EINVAL);
    }
    if flags & CLONE != 0 {
        call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    }
    let place = place_at(call, call.int(0), call.args[1], walk)?;
    let close_on_exec = flags & c::O_CLOEXEC != 0;
    if flags & CLONE == 0 {
        return open_place(call, place, close_on_exec);
    }
    if call.host.files.mounts.get(place.0).unbindable {
        return Err(Errno::EINVAL);
    }
    if flags & RECURSIVE == 0 && call.host.files.hides_locked(place) {
        return Err(Errno::EINVAL);
    }
    let copy = call.host.files.copy_mount(place, flags & RECURSIVE != 0);
    open_place(call, (copy, place.1), close_on_exec)
}

/// `move_mount(2)`.
pub fn sys_move_mount(call: &mut Call<'_>) -> SysResult {
    call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    let [_, from, _, to, _, _] = call.args;
    let flags = call.uint(4);
    if flags & !MOVE_KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & SET_GROUP != 0 {
        call.host.warn("move_mount with MOVE_MOUNT_SET_GROUP is not supported");
        return Err(Errno::EINVAL);
    }
    let walk = |links: u32, empty: u32| walk_by(flags & links != 0, flags & empty != 0);
    let from = place_at(call, call.int(0), from, walk(FROM_LINKS, FROM_EMPTY))?;
    let to = place_at(call, call.int(2), to, walk(TO_LINKS, TO_EMPTY))?;
    if flags & MOVE_BENEATH != 0 { move_beneath(call, from, to) } else { move_place(call, from, to) }
}

/// Mounts `from` beneath the mount at `to`, which then covers it.
fn move_beneath(call: &mut Call<'_>, from: Place, to: Place) -> SysResult {
    if call.host.files.mounts.is_within(from.0, to.0) {
        return Err(Errno::EINVAL);
    }
    check_moved(call, from, to)?;
    let Files { mounts, inodes, .. } = &call.host.files;
    let over = mounts.get(to.0);
    let Some(place) = over.at.filter(|_| over.root == to.1) else { return Err(Errno::EINVAL) };
    // The mount would have to propagate to the peers of a shared mount.
    if mounts.get(place.0).group.is_some() {
        call.host.warn("move_mount with MOVE_MOUNT_BENEATH in a shared mount is not supported");
        return Err(Errno::EINVAL);
    }
    if mounts.top(from.0, from.1) != from {
        return Err(Errno::EINVAL);
    }
    mounts.check_room(from.0, place, &|root, point| is_below(inodes, root, point))?;
    let mounts = &mut call.host.files.mounts;
    mounts.detach(from.0);
    mounts.attach_beneath(from.0, to.0);
    call.host.mounts_changed();
    done(0)
}

/// Moves the mount whose root is `from`, or attaches it if it is detached.
pub(super) fn move_place(call: &mut Call<'_>, from: Place, to: Place) -> SysResult {
    check_moved(call, from, to)?;
    let mount = from.0;
    let Files { mounts, inodes, .. } = &call.host.files;
    mounts.check_room(mount, to, &|root, point| is_below(inodes, root, point))?;
    call.host.files.mounts.detach(mount);
    attach(call, mount, to)
}

/// `EINVAL` if `from` is not a mount that can be moved to `to`; `ELOOP` if `to` is inside it.
fn check_moved(call: &mut Call<'_>, from: Place, to: Place) -> Result<(), Errno> {
    let (mount, root) = from;
    let namespace = call.host.process(call.process).mount_namespace;
    let mounts = &call.host.files.mounts;
    let moved = mounts.get(mount);
    let is_root_of_namespace = moved.namespace.is_some() && moved.at.is_none();
    if moved.locked
        || moved.root != root
        || is_root_of_namespace
        || mounts.get(to.0).namespace != Some(namespace)
    {
        return Err(Errno::EINVAL);
    }
    if moved.at.is_some_and(|(parent, _)| mounts.get(parent).group.is_some()) {
        return Err(Errno::EINVAL);
    }
    if mounts.is_within(to.0, mount) {
        return Err(Errno::ELOOP);
    }
    if is_directory(call, root) == is_directory(call, to.1) { Ok(()) } else { Err(Errno::EINVAL) }
}

/// `mount_setattr(2)`.
pub fn sys_mount_setattr(call: &mut Call<'_>) -> SysResult {
    let (flags, size) = (call.int(2), call.args[4]);
    let known = c::AT_EMPTY_PATH | RECURSIVE | c::AT_SYMLINK_NOFOLLOW | c::AT_NO_AUTOMOUNT;
    let walk = walk_of(flags, known)?;
    let least = size_of::<MountAttributes>();
    check_extensible(size, least)?;
    call.host.processes.require_for(call.process, NamespaceKind::Mounts, capability::SYS_ADMIN)?;
    let attributes: MountAttributes = call.read_extensible(call.args[3], size, least)?;
    let [set, cleared, propagation, user_namespace] = attributes;
    if set == 0 && cleared == 0 && propagation == 0 {
        return done(0);
    }
    let propagation = match propagation {
        0 => None,
        flag => Some(propagation_of(flag)?),
    };
    let change = FlagsChange::of(set, cleared, user_namespace)?;
    let place = place_at(call, call.int(0), call.args[1], walk)?;
    if !call.host.files.is_mount_root(place) {
        return Err(Errno::EINVAL);
    }
    let deep = flags & RECURSIVE != 0;
    let (tree, seeds) = call.host.files.mounts_at(place, deep);
    let is_seed = call.host.files.seed_at(place).is_some();
    let mounts = &mut call.host.files.mounts;
    let frees = |mount: &MountKey| {
        let mount = mounts.get(*mount);
        mount.frees_locked(change.applied(mount.flags))
    };
    // In further mount namespaces the initial file systems of a host are ordinary mounts.
    let in_first = call.host.processes[call.process.0].mount_namespace == 0;
    if tree.iter().any(frees) || is_seed && !in_first {
        return Err(Errno::EPERM);
    }
    let fixes = |mount: &MountKey| {
        let mount = mounts.get(*mount);
        let now = change.applied(mount.flags);
        now.contains(MountFlags::READ_ONLY)
            && !mount.flags.contains(MountFlags::READ_ONLY)
            && mount.writers > 0
    };
    if tree.iter().any(fixes) {
        return Err(Errno::EBUSY);
    }
    for mount in tree {
        let mount = mounts.get_mut(mount);
        mount.flags = change.applied(mount.flags);
    }
    mounts.touch(place.0);
    for device in seeds.into_iter().filter(|_| in_first) {
        if let Some(system) = mounts.system_mut(device) {
            system.flags = change.applied(system.flags);
        }
    }
    if let Some(to) = propagation.filter(|_| !is_seed) {
        mounts.set_propagation(place.0, to, deep);
    }
    call.host.mounts_changed();
    done(0)
}
