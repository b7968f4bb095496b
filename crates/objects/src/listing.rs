//! Directory entries in the format of `getdents(2)`.

/// Directory entry as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Name.
    pub name: Box<[u8]>,
    /// Inode number.
    pub number: u64,
    /// `S_IFMT` bits of the mode.
    pub format: u32,
}

/// Snapshot of a directory, taken when reading starts. Whether later changes are visible is unspecified, as
/// `readdir(3)` allows; a cookie is an index into the snapshot and stays valid.
#[derive(Debug)]
pub struct Listing {
    /// The entries, `.` and `..` first.
    pub entries: Vec<ListedEntry>,
}

/// Record layout of `getdents` and `getdents64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirentLayout {
    /// `struct linux_dirent`: the type is the record's last byte.
    Old,
    /// `struct linux_dirent64`.
    New,
}

/// Appends the record of an entry; `cookie` is the position after it.
pub fn put_entry(out: &mut Vec<u8>, entry: &ListedEntry, cookie: u64, layout: DirentLayout) {
    let ListedEntry { name, number, format } = entry;
    let header = 18 + usize::from(layout == DirentLayout::New);
    let terminators = if layout == DirentLayout::New { 1 } else { 2 };
    let length = (header + name.len() + terminators).next_multiple_of(8);
    let start = out.len();
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&cookie.to_le_bytes());
    out.extend_from_slice(&(length as u16).to_le_bytes());
    // `DT_*` constants are the `S_IFMT` bits shifted right by 12.
    let kind = (format >> 12) as u8;
    if layout == DirentLayout::New {
        out.push(kind);
    }
    out.extend_from_slice(name);
    out.resize(start + length, 0);
    if layout == DirentLayout::Old {
        out[start + length - 1] = kind;
    }
}
