//! `struct statmount`, the binary description of a mount.

use super::MountFlags;
use super::text::MountLine;
use belljar_linux_abi::{Errno, c};

/// Offset of unique mount ids, `STATX_MNT_ID_UNIQUE`, from mount ids.
pub const UNIQUE: u64 = 1 << 31;
/// Length of `struct statmount` without its strings, in bytes.
pub const STATMOUNT_LEN: usize = 512;

/// Parts of `struct statmount` that can be requested, `STATMOUNT_*`.
mod part {
    pub const SYSTEM: u64 = 0x1;
    pub const MOUNT: u64 = 0x2;
    pub const PROPAGATE_FROM: u64 = 0x4;
    pub const ROOT: u64 = 0x8;
    pub const POINT: u64 = 0x10;
    pub const KIND: u64 = 0x20;
    pub const NAMESPACE: u64 = 0x40;
    pub const OPTIONS: u64 = 0x80;
    pub const SUBTYPE: u64 = 0x100;
    pub const SOURCE: u64 = 0x200;
    pub const OPTION_ARRAY: u64 = 0x400;
    pub const SECURITY_ARRAY: u64 = 0x800;
    pub const SUPPORTED: u64 = 0x1000;
    pub const ID_MAPS: u64 = 0x6000;
    /// Parts that are strings.
    pub const STRINGS: u64 =
        ROOT | POINT | KIND | OPTIONS | SUBTYPE | SOURCE | OPTION_ARRAY | SECURITY_ARRAY | ID_MAPS;
    pub const ALL: u64 = SYSTEM | MOUNT | PROPAGATE_FROM | NAMESPACE | SUPPORTED | STRINGS;
}

/// Builder of a `struct statmount`: the fixed part and the strings.
struct Answer {
    fixed: [u8; STATMOUNT_LEN],
    strings: Vec<u8>,
    mask: u64,
    room: usize,
}

impl Answer {
    fn put32(&mut self, at: usize, value: u32) {
        self.fixed[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    fn put64(&mut self, at: usize, value: u64) {
        self.fixed[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    /// Adds a string and stores its offset at `at`; an empty string is omitted. `EOVERFLOW` if the buffer is
    /// too small.
    fn put_string(&mut self, part: u64, at: usize, text: &[u8]) -> Result<(), Errno> {
        if text.is_empty() {
            return Ok(());
        }
        let start = self.strings.len();
        self.strings.extend_from_slice(text);
        if STATMOUNT_LEN + self.strings.len() >= self.room {
            return Err(Errno::EOVERFLOW);
        }
        self.strings.push(0);
        self.mask |= part;
        self.put32(at, start as u32);
        Ok(())
    }
}

impl MountLine<'_> {
    /// Unique mount id.
    pub fn unique_id(&self) -> u64 {
        UNIQUE + u64::from(self.id)
    }
    /// `MOUNT_ATTR_*`.
    fn attributes(&self) -> u64 {
        const STRICT_ACCESS_TIME: u64 = 0x20;
        const NAMES: [(MountFlags, u64); 7] = [
            (MountFlags::READ_ONLY, 0x1),
            (MountFlags::NO_SUID, 0x2),
            (MountFlags::NO_DEVICES, 0x4),
            (MountFlags::NO_EXEC, 0x8),
            (MountFlags::NO_ACCESS_TIME, 0x10),
            (MountFlags::NO_DIRECTORY_ACCESS_TIME, 0x80),
            (MountFlags::NO_LINKS, 0x20_0000),
        ];
        let loose = self.flags.intersects(MountFlags::NO_ACCESS_TIME | MountFlags::RELATIVE_ACCESS_TIME);
        let set = NAMES.iter().filter(|(flag, _)| self.flags.contains(*flag));
        set.fold(if loose { 0 } else { STRICT_ACCESS_TIME }, |all, (_, bit)| all | bit)
    }
    /// Propagation flags, `MS_SHARED` and related ones.
    fn propagation(&self) -> u64 {
        let kinds = [
            (self.group.is_some(), c::MS_SHARED),
            (self.master.is_some(), c::MS_SLAVE),
            (self.unbindable, c::MS_UNBINDABLE),
        ];
        match kinds.iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag) {
            0 => c::MS_PRIVATE,
            kinds => kinds,
        }
    }
    /// Encodes the parts of `mask` for a buffer of `room` bytes, as Linux's `do_statmount` does. `magic` is
    /// the magic number of the file system, `namespace` the id of the mount namespace.
    pub fn statmount(&self, mask: u64, room: usize, magic: u64, namespace: u64) -> Result<Vec<u8>, Errno> {
        if mask & part::STRINGS != 0 && room == STATMOUNT_LEN {
            return Err(Errno::EOVERFLOW);
        }
        let mut answer = Answer { fixed: [0; STATMOUNT_LEN], strings: Vec::new(), mask: 0, room };
        let fixed = part::SYSTEM | part::MOUNT | part::PROPAGATE_FROM | part::NAMESPACE | part::SUPPORTED;
        answer.mask = mask & fixed;
        if mask & part::SYSTEM != 0 {
            answer.put32(16, c::major(self.device));
            answer.put32(20, c::minor(self.device));
            answer.put64(24, magic);
            let own = MountFlags::OF_FILE_SYSTEM - MountFlags::MANDATORY_LOCKS;
            answer.put32(32, (self.system.flags & own).bits() as u32);
        }
        if mask & part::MOUNT != 0 {
            answer.put64(40, self.unique_id());
            let parent = if self.parent == 0 { self.id } else { self.parent };
            answer.put64(48, UNIQUE + u64::from(parent));
            answer.put32(56, self.id);
            answer.put32(60, parent);
            answer.put64(64, self.attributes());
            answer.put64(72, self.propagation());
            answer.put64(80, self.group.map_or(0, u64::from));
            answer.put64(88, self.master.map_or(0, u64::from));
        }
        if mask & part::PROPAGATE_FROM != 0 {
            answer.put64(96, self.master.map_or(0, u64::from));
        }
        if mask & part::NAMESPACE != 0 {
            answer.put64(112, namespace);
        }
        let options = self.system.options.trim_start_matches(',').as_bytes();
        let source: &[u8] = if self.source.is_empty() { b"none" } else { self.source };
        let strings: [(u64, usize, &[u8]); 5] = [
            (part::KIND, 36, self.system.kind.as_bytes()),
            (part::ROOT, 104, &self.root[..]),
            (part::POINT, 108, &self.path[..]),
            (part::OPTIONS, 4, options),
            (part::SOURCE, 124, source),
        ];
        for (part, at, text) in strings {
            if mask & part != 0 {
                answer.put_string(part, at, text)?;
            }
        }
        if mask & part::OPTION_ARRAY != 0 && !options.is_empty() {
            let array: Vec<u8> = options.iter().map(|byte| if *byte == b',' { 0 } else { *byte }).collect();
            answer.put32(128, array.split(|byte| *byte == 0).count() as u32);
            answer.put_string(part::OPTION_ARRAY, 132, &array)?;
        }
        if mask & part::SUPPORTED != 0 {
            answer.put64(144, part::ALL);
        }
        let copied = room.min(STATMOUNT_LEN);
        let (written, size) = (answer.mask, copied + answer.strings.len());
        answer.put64(8, written);
        answer.put32(0, size as u32);
        Ok([&answer.fixed[..copied], &answer.strings].concat())
    }
}
