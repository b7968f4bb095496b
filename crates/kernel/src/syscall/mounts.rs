//! Mounts: mount(2), umount2(2), pivot_root(2).

use super::mount_contexts::move_place;
use crate::call::Call;
use crate::files::Files;
use crate::files::mounts::{MemoryOptions, is_below};
use crate::files::tree::{Node, Place, Walk};
use crate::guest::PATH_MAX;
use crate::ids::{InodeKey, MountKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::mounts::{MountFlags, Propagation, Room};

/// The upper half of the flags that older programs pass, `MS_MGC_VAL`.
const MAGIC: u64 = 0xc0ed_0000;
const MAGIC_MASK: u64 = 0xffff_0000;
/// `MS_NOUSER`, which only the kernel itself uses.
const NO_USER: u64 = 1 << 31;
/// `MS_SILENT`.
const SILENT: u64 = 1 << 15;
/// The bytes of options that are read.
const DATA: usize = 4_095;
/// Memory of a host, half of which a tmpfs may take.
const MEMORY: u64 = 4 << 30;
/// Default limits of a tmpfs.
const DEFAULT_BYTES: u64 = MEMORY / 2;
const DEFAULT_FILES: u64 = MEMORY / 4_096 / 2;

/// File systems of Linux that lie on block devices or have a server: none can be mounted.
const OTHERS: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "overlay", "nfs", "9p", "fuse"];

/// Which change of mounts a call of `mount(2)` asks for.
enum Change {
    RemountBind,
    Remount,
    Bind,
    Propagation(Propagation),
    Move,
    New,
}

/// `mount(2)`.
pub fn sys_mount(call: &mut Call<'_>) -> SysResult {
    let [source, target, kind, flags, data, _] = call.args;
    let kind = text_at(call, kind)?;
    let source = text_at(call, source)?;
    let data = match data {
        0 => Vec::new(),
        addr => call.host.read_guest_string(call.process, addr, DATA, Errno::EINVAL)?,
    };
    let flags = if flags & MAGIC_MASK == MAGIC { flags & !MAGIC_MASK } else { flags };
    let target = call.read_path(target)?;
    let place = call.host.resolve_here(call.process, &target, Walk::FOLLOW)?.place()?;
    if flags & NO_USER != 0 {
        return Err(Errno::EINVAL);
    }
    call.host.processes.may_mount(call.process)?;
    let wanted = wanted_flags(call, place, flags);
    match change_of(flags)? {
        Change::RemountBind => remount_bind(call, place, wanted),
        Change::Remount => remount(call, place, flags, wanted, &data),
        Change::Bind => bind(call, place, source.as_deref(), flags & c::MS_REC != 0),
        Change::Propagation(to) => propagate(call, place, to, flags & c::MS_REC != 0),
        Change::Move => move_mount(call, place, source.as_deref()),
        Change::New => {
            let kind = kind.ok_or(Errno::EINVAL)?;
            mount_new(call, place, &kind, source.as_deref().unwrap_or_default(), flags, wanted, &data)
        }
    }
}

/// A string argument that may be left out.
fn text_at(call: &mut Call<'_>, addr: u64) -> Result<Option<Vec<u8>>, Errno> {
    match addr {
        0 => Ok(None),
        addr => call.host.read_guest_string(call.process, addr, PATH_MAX, Errno::EINVAL).map(Some),
    }
}

const SHARING: [(u64, Propagation); 4] = [
    (c::MS_SHARED, Propagation::Shared),
    (c::MS_PRIVATE, Propagation::Private),
    (c::MS_SLAVE, Propagation::Slave),
    (c::MS_UNBINDABLE, Propagation::Unbindable),
];

/// The propagation that a flag stands for. `EINVAL` for anything but one of those flags.
pub(super) fn propagation_of(flag: u64) -> Result<Propagation, Errno> {
    SHARING.iter().find(|(known, _)| *known == flag).map(|(_, to)| *to).ok_or(Errno::EINVAL)
}

/// Which change flags ask for, in Linux's order.
fn change_of(flags: u64) -> Result<Change, Errno> {
    if flags & c::MS_REMOUNT != 0 {
        return Ok(if flags & c::MS_BIND != 0 { Change::RemountBind } else { Change::Remount });
    }
    if flags & c::MS_BIND != 0 {
        return Ok(Change::Bind);
    }
    if SHARING.iter().any(|(flag, _)| flags & flag != 0) {
        return propagation_of(flags & !(c::MS_REC | SILENT)).map(Change::Propagation);
    }
    Ok(if flags & c::MS_MOVE != 0 { Change::Move } else { Change::New })
}

/// The flags of the mount that a call asks for: access times are kept relatively unless it says otherwise, and a remount
/// that does not speak of them leaves them.
fn wanted_flags(call: &mut Call<'_>, place: Place, flags: u64) -> MountFlags {
    let mut wanted = MountFlags::from_bits_truncate(flags);
    if !wanted.contains(MountFlags::NO_ACCESS_TIME) {
        wanted |= MountFlags::RELATIVE_ACCESS_TIME;
    }
    if flags & c::MS_STRICTATIME != 0 {
        wanted &= !(MountFlags::NO_ACCESS_TIME | MountFlags::RELATIVE_ACCESS_TIME);
    }
    let speaks = flags & (MountFlags::ACCESS_TIMES.bits() | c::MS_STRICTATIME) != 0;
    if flags & c::MS_REMOUNT != 0 && !speaks {
        let now = call.host.files.mount_flags(place);
        wanted = wanted & !MountFlags::ACCESS_TIMES | now & MountFlags::ACCESS_TIMES;
    }
    wanted
}

/// A new file system, or one of those that a host has once, at another place.
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
    // Each mount of proc is one of its own, the others are the same wherever they are.
    let there = call.host.files.mounts.get(place.0);
    let is_there = there.root == place.1 && there.device == device;
    if kind != b"proc" && (is_there || call.host.files.seed_at(place) == Some(device)) {
        return Err(Errno::EBUSY);
    }
    let mount = call.host.files.mounts.add(root, device, source, wanted);
    attach(call, mount, place)
}

/// The kinds of file systems that can be mounted.
const KNOWN: &[&[u8]] = &[b"tmpfs", b"ramfs", b"proc", b"sysfs", b"devtmpfs", b"devpts"];

/// True if file systems of a kind can be mounted.
pub(super) fn is_known(kind: &[u8]) -> bool {
    KNOWN.contains(&kind)
}

/// A kind that Linux has and hosts do not is asked for: the run's warnings say so.
pub(super) fn warn_of(call: &mut Call<'_>, kind: &[u8]) {
    let name = String::from_utf8_lossy(kind);
    if OTHERS.contains(&&*name) {
        call.host.warn(format!("file systems of kind {name} cannot be mounted: mount gives ENODEV"));
    }
}

/// `EINVAL` for an option that a kind of file system does not know.
pub(super) fn check_options(kind: &[u8], option: &[u8]) -> Result<(), Errno> {
    match kind {
        b"tmpfs" | b"ramfs" => options_of(kind, option, (0, 0), None).map(drop),
        // How processes of others are hidden has one answer here.
        b"proc" if option == b"hidepid=0" => Ok(()),
        b"devpts"
            if [&b"newinstance"[..], b"ptmxmode", b"mode", b"gid"]
                .iter()
                .any(|known| option.starts_with(known)) =>
        {
            Ok(())
        }
        b"devtmpfs" => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// The device and root of a file system of a kind: a new one in memory, or the host's own.
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
        other => {
            let name = String::from_utf8_lossy(other).into_owned();
            let device = call.host.files.mounts.device_of_kind(&name).ok_or(Errno::ENODEV)?;
            let root =
                call.host.files.mounts.system(device).map(|system| system.root).ok_or(Errno::ENODEV)?;
            return Ok((device, root));
        }
    };
    call.host.make_memory_system(name, options, MountFlags::from_bits_truncate(flags))
}

/// Attaches a new mount, or ends it if it cannot be.
pub(super) fn attach(call: &mut Call<'_>, mount: MountKey, place: Place) -> SysResult {
    let Files { mounts, inodes, .. } = &mut call.host.files;
    if let Err(errno) = mounts.attach(mount, place, &|root, point| is_below(inodes, root, point)) {
        let gone = call.host.files.mounts.take_down(mount);
        call.host.end_mounts(gone);
        return Err(errno);
    }
    done(0)
}

/// Options of a file system as the caller mounts it. `now` is the room of one that is mounted already.
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
    let who = &call.host.process(call.process).credentials;
    options_of(kind, data, (who.fsuid, who.fsgid), now)
}

/// Options of a tmpfs or ramfs; `EINVAL` for those that a tmpfs does not know.
fn options_of(
    kind: &[u8],
    data: &[u8],
    (uid, gid): (u32, u32),
    now: Option<Room>,
) -> Result<MemoryOptions, Errno> {
    let is_tmpfs = kind == b"tmpfs";
    let mut options = match is_tmpfs {
        true => MemoryOptions { mode: 0o1777, uid, gid, ..MemoryOptions::default() },
        false => MemoryOptions { mode: 0o755, ..MemoryOptions::default() },
    };
    let mut room = now.unwrap_or(Room { bytes: DEFAULT_BYTES, files: DEFAULT_FILES, ..Room::default() });
    let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
    for option in text.split(',').filter(|option| !option.is_empty()) {
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let number =
            |radix| value.and_then(|value| u32::from_str_radix(value, radix).ok()).ok_or(Errno::EINVAL);
        match name {
            "mode" => options.mode = number(8)? & 0o7777,
            // Whatever else it is given, it has always passed over.
            _ if !is_tmpfs => {}
            "uid" => options.uid = number(10)?,
            "gid" => options.gid = number(10)?,
            "size" => room.bytes = size(value)?.checked_next_multiple_of(4_096).ok_or(Errno::EINVAL)?,
            "nr_blocks" => room.bytes = size(value)?.saturating_mul(4_096),
            "nr_inodes" => room.files = size(value)?,
            "huge" if value == Some("never") => {}
            "inode64" | "noswap" if value.is_none() => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    if is_tmpfs {
        let full = |limit: u64, used: u64| limit != 0 && used > limit;
        if full(room.bytes, room.used_bytes) || full(room.files, room.used_files) {
            return Err(Errno::EINVAL);
        }
        options.room = Some(room);
    }
    options.shown = shown(&options);
    Ok(options)
}

/// Options as `/proc/mounts` shows them: those that are not the default.
fn shown(options: &MemoryOptions) -> String {
    let Some(room) = options.room else {
        return if options.mode == 0o755 { String::new() } else { format!(",mode={:o}", options.mode) };
    };
    let parts = [
        (room.bytes != DEFAULT_BYTES, format!(",size={}k", room.bytes / 1_024)),
        (room.files != DEFAULT_FILES, format!(",nr_inodes={}", room.files)),
        (options.mode != 0o1777, format!(",mode={:03o}", options.mode)),
        (options.uid != 0, format!(",uid={}", options.uid)),
        (options.gid != 0, format!(",gid={}", options.gid)),
        (true, ",inode64".to_owned()),
    ];
    parts.into_iter().filter_map(|(is_set, text)| is_set.then_some(text)).collect()
}

/// A size as tmpfs(5) writes it: with a suffix, or in per cent of the memory.
fn size(value: Option<&str>) -> Result<u64, Errno> {
    let value = value.ok_or(Errno::EINVAL)?;
    let digits = value.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number: u64 = digits.parse().map_err(|_| Errno::EINVAL)?;
    let scaled = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(number),
        "k" => number.checked_mul(1 << 10),
        "m" => number.checked_mul(1 << 20),
        "g" => number.checked_mul(1 << 30),
        "t" => number.checked_mul(1 << 40),
        "%" => number.checked_mul(MEMORY / 100),
        _ => None,
    };
    scaled.ok_or(Errno::EINVAL)
}

/// The place of a path that `mount(2)` names as its source.
fn source_place(call: &mut Call<'_>, source: Option<&[u8]>) -> Result<Place, Errno> {
    let path = source.filter(|path| !path.is_empty()).ok_or(Errno::EINVAL)?.to_vec();
    call.host.resolve_here(call.process, &path, Walk::FOLLOW)?.place()
}

/// `MS_BIND`: shows a file or directory at another place too.
fn bind(call: &mut Call<'_>, place: Place, source: Option<&[u8]>, deep: bool) -> SysResult {
    let (mount, root) = source_place(call, source)?;
    if call.host.files.mounts.get(mount).unbindable {
        return Err(Errno::EINVAL);
    }
    if is_directory(call, root) != is_directory(call, place.1) {
        return Err(Errno::ENOTDIR);
    }
    let copy = call.host.copy_mount((mount, root), deep);
    attach(call, copy, place)
}

pub(super) fn is_directory(call: &mut Call<'_>, inode: InodeKey) -> bool {
    matches!(call.host.files.inode(inode).node, Node::Directory(_))
}

/// `MS_REMOUNT | MS_BIND`: other flags of a mount.
fn remount_bind(call: &mut Call<'_>, place: Place, wanted: MountFlags) -> SysResult {
    if !call.host.files.is_mount_root(place) {
        return Err(Errno::EINVAL);
    }
    let wanted = wanted & MountFlags::OF_MOUNT;
    if let Some(device) = call.host.files.seed_at(place) {
        if let Some(system) = call.host.files.mounts.system_mut(device) {
            system.flags = wanted;
        }
        return done(0);
    }
    let mount = call.host.files.mounts.get_mut(place.0);
    let becomes_fixed =
        wanted.contains(MountFlags::READ_ONLY) && !mount.flags.contains(MountFlags::READ_ONLY);
    if becomes_fixed && mount.writers > 0 {
        return Err(Errno::EBUSY);
    }
    mount.flags = wanted;
    done(0)
}

/// `MS_REMOUNT`: other flags and options of a file system and of this mount of it.
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
    done(0)
}

/// `MS_SHARED` and its relatives.
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
    if found.namespace != Some(namespace) {
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
        // What a host has from the start is always in use.
        return Err(Errno::EBUSY);
    }
    let gone = call.host.files.mounts.take_down(mount);
    call.host.end_mounts(gone);
    done(0)
}

/// `pivot_root(2)`: another mount becomes the root of the namespace, and the former root is mounted in it.
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
    if mounts.get(root.0).root != root.1
        || mounts.get(root.0).at.is_some()
        || mounts.get(new.0).root != new.1
        || !mounts.is_within(put_old.0, new.0)
        || shared(put_old.0)
        || parent_shared
    {
        return Err(Errno::EINVAL);
    }
    let namespace = call.host.process(call.process).mount_namespace;
    let new_at = call.host.files.path_of_place(new).ok_or(Errno::ENOENT)?;
    call.host.files.mounts.detach(new.0);
    call.host.files.mounts.set_root(namespace, new.0);
    attach(call, root.0, put_old)?;
    let old_at = call.host.files.path_of_place(root).ok_or(Errno::ENOENT)?;
    call.host.move_processes(namespace, &new_at, &old_at);
    done(0)
}
