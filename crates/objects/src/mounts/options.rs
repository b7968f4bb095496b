//! Options of file systems, as `mount(2)` and `fsconfig(2)` are given them, and which kinds there are.

use super::Room;
use belljar_linux_abi::Errno;

/// Memory of a host, half of which a tmpfs may take.
const MEMORY: u64 = 4 << 30;
/// Default limits of a tmpfs.
const DEFAULT_BYTES: u64 = MEMORY / 2;
const DEFAULT_FILES: u64 = MEMORY / 4_096 / 2;

/// File systems of Linux that lie on block devices or have a server: none can be mounted.
const OTHERS: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "overlay", "nfs", "9p", "fuse"];

/// The kinds of file systems that can be mounted.
const KNOWN: &[&[u8]] = &[b"tmpfs", b"ramfs", b"proc", b"sysfs", b"devtmpfs", b"devpts"];

/// True if file systems of a kind can be mounted.
pub fn is_known(kind: &[u8]) -> bool {
    KNOWN.contains(&kind)
}

/// True if Linux has file systems of a kind that lie on block devices or have a server.
pub fn is_of_linux(kind: &str) -> bool {
    OTHERS.contains(&kind)
}

/// The owner, mode and limits of a new file system in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryOptions {
    /// Mode of its root.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its limits; `None` for a ramfs.
    pub room: Option<Room>,
    /// Them as `/proc/mounts` shows them.
    pub shown: String,
}

/// `EINVAL` for an option that a kind of file system does not know.
pub fn check_options(kind: &[u8], option: &[u8]) -> Result<(), Errno> {
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

/// Options of a tmpfs or ramfs; `EINVAL` for those that a tmpfs does not know.
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
