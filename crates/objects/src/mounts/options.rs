//! File system types, and their options in `mount(2)` and `fsconfig(2)`.

use super::Room;
use belljar_linux_abi::Errno;

/// Memory of a host in bytes, half of which a tmpfs may use by default.
const MEMORY: u64 = 4 << 30;
/// Default limits of a tmpfs.
const DEFAULT_BYTES: u64 = MEMORY / 2;
const DEFAULT_FILES: u64 = MEMORY / 4_096 / 2;

/// File system types of Linux that need a block device or a server. They cannot be mounted.
const OTHERS: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "overlay", "nfs", "9p", "fuse"];

/// File system types that can be mounted.
const KNOWN: &[&[u8]] = &[b"tmpfs", b"ramfs", b"proc", b"sysfs", b"devtmpfs", b"devpts"];

/// True if the file system type can be mounted.
pub fn is_known(kind: &[u8]) -> bool {
    KNOWN.contains(&kind)
}

/// True if Linux has the file system type but needs a block device or a server for it.
pub fn is_of_linux(kind: &str) -> bool {
    OTHERS.contains(&kind)
}

/// Mount options of a tmpfs or ramfs.
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    /// Mode of the root directory.
    pub mode: u32,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Limits; `None` for a ramfs.
    pub room: Option<Room>,
    /// Options as shown in `/proc/mounts`.
    pub shown: String,
}

/// Checks one option of a file system type: `EINVAL` if it is unknown.
pub fn check_options(kind: &[u8], option: &[u8]) -> Result<(), Errno> {
    match kind {
        b"tmpfs" | b"ramfs" => options_of(kind, option, (0, 0), None).map(drop),
        // Only the default of `hidepid` is supported.
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

/// Parses the options of a tmpfs or ramfs; `EINVAL` for options that a tmpfs does not have.
pub fn options_of(
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
            // A ramfs ignores unknown options, as it always has on Linux.
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

/// Options that differ from the defaults, as shown in `/proc/mounts`.
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

/// Parses a size of tmpfs(5): with a suffix, or in per cent of the memory.
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
