//! Entries of directories as `getdents(2)` gives them.

/// An entry of a directory as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name.
    pub name: Box<[u8]>,
    /// Its inode number.
    pub number: u64,
    /// The `S_IFMT` bits of its mode.
    pub format: u32,
}

/// The content of a directory when its reading started. Entries that come or go meanwhile are seen or not, as
/// `readdir(3)` allows; a cookie is a place in this list and stays valid.
#[derive(Debug)]
pub struct Listing {
    /// The entries, `.` and `..` first.
    pub entries: Vec<ListedEntry>,
}

/// Layout of entries from `getdents` and `getdents64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirentLayout {
    /// `struct linux_dirent`: the type is the record's last byte.
    Old,
    /// `struct linux_dirent64`.
    New,
}

/// Appends the record of an entry: `cookie` is the position behind it.
pub fn put_entry(out: &mut Vec<u8>, entry: &ListedEntry, cookie: u64, layout: DirentLayout) {
    let ListedEntry { name, number, format } = entry;
    let header = 18 + usize::from(layout == DirentLayout::New);
    let terminators = if layout == DirentLayout::New { 1 } else { 2 };
    let length = (header + name.len() + terminators).next_multiple_of(8);
    let start = out.len();
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&cookie.to_le_bytes());
    out.extend_from_slice(&(length as u16).to_le_bytes());
    // The `DT_*` constants are the `S_IFMT` bits moved down.
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
