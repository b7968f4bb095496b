//! Text format of mtree(5): lines that describe inodes.

use crate::devices::Device;
use crate::file_flags::FileFlags;
use crate::inode::{Directory, DirectorySource, Inode, Node, Store, Times};
use belljar_base::Map;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// Name encoded for mtree(5): bytes other than visible ASCII become a backslash and three octal digits.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'=') {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text
}

/// Inverse of [`escaped`].
pub fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if bytes[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

/// Keywords of a line and their values.
pub type Words<'a> = Map<&'a str, &'a str>;

/// Path components and keywords of a line; `None` for comments and empty lines.
pub fn parsed(line: &str) -> Option<(Vec<Vec<u8>>, Words<'_>)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let path = words.next()?.strip_prefix("./")?;
    let parts = path.split('/').map(unescaped).collect();
    Some((parts, words.filter_map(|word| word.split_once('=')).collect()))
}

/// Line that describes an inode at a path, which is encoded already.
pub fn line(path: &str, inode: &Inode) -> String {
    let mut text = String::new();
    let kind = match &inode.node {
        Node::Directory(_) => "dir",
        Node::Symlink { .. } => "link",
        Node::Fifo => "fifo",
        Node::Socket => "socket",
        Node::Device(Device::Block(_)) => "block",
        Node::Device(_) => "char",
        _ => "file",
    };
    let meta = &inode.meta;
    let (sec, nsec) =
        (meta.times.modify.div_euclid(1_000_000_000), meta.times.modify.rem_euclid(1_000_000_000));
    let _ = write!(
        text,
        "{path} type={kind} mode={:04o} uid={} gid={} time={sec}.{nsec:09}",
        meta.mode, meta.uid, meta.gid
    );
    if !meta.flags.is_empty() {
        let _ = write!(text, " flags={}", meta.flags.names());
    }
    let origin = match &inode.node {
        Node::Regular(content) => {
            let _ = write!(text, " size={}", content.size);
            match &content.store {
                Store::Lower(origin) => Some(origin),
                _ => None,
            }
        }
        Node::Directory(Directory { source: DirectorySource::Lower(origin), .. }) => Some(origin),
        Node::Symlink { target, .. } => {
            let _ = write!(text, " link={}", escaped(target));
            None
        }
        Node::Device(device) => {
            let number = device.number();
            let _ = write!(text, " device=linux,{},{}", number >> 8, number & 0xff);
            None
        }
        _ => None,
    };
    if let Some(origin) = origin {
        let _ = write!(text, " origin={}", escaped(origin.as_os_str().as_bytes()));
    }
    if !inode.node.is_directory() && inode.links.len() > 1 {
        let _ = write!(text, " nlink={} inode={}", inode.links.len(), inode.number);
    }
    for (name, value) in inode.attributes.iter().flat_map(|all| all.iter()) {
        let _ = write!(text, " xattr.{}={}", escaped(name), escaped(value));
    }
    text.push('\n');
    text
}

/// Device number of `device=linux,MAJOR,MINOR`; `None` for 0, which marks a whiteout.
pub fn device_number(words: &Words<'_>) -> Option<u64> {
    let (major, minor) = words.get("device")?.strip_prefix("linux,")?.split_once(',')?;
    let number = major.parse::<u64>().ok()? << 8 | minor.parse::<u64>().ok()?;
    (number != 0).then_some(number)
}

/// Applies the keywords of a line to an inode.
pub fn apply(inode: &mut Inode, words: &Words<'_>) {
    inode.changed = true;
    for (key, value) in words {
        match *key {
            "mode" => inode.meta.mode = u32::from_str_radix(value, 8).unwrap_or(inode.meta.mode),
            "uid" => inode.meta.uid = value.parse().unwrap_or(0),
            "gid" => inode.meta.gid = value.parse().unwrap_or(0),
            "flags" => inode.meta.flags = FileFlags::of_names(value),
            "time" => {
                let (sec, nsec) = value.split_once('.').unwrap_or((value, "0"));
                let (sec, nsec): (i64, i64) = (sec.parse().unwrap_or(0), nsec.parse().unwrap_or(0));
                inode.meta.times = Times::all(sec.saturating_mul(1_000_000_000).saturating_add(nsec));
            }
            _ => {
                if let Some(name) = key.strip_prefix("xattr.") {
                    let attributes = inode.attributes.get_or_insert_default();
                    attributes.insert(unescaped(name).into(), unescaped(value).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Meta;

    #[test]
    fn names_survive_and_lines_are_read_back() {
        let name = b"a b\\c=#\xff\n";
        assert_eq!(escaped(name), "a\\040b\\134c\\075\\043\\377\\012");
        assert_eq!(unescaped(&escaped(name)), name);
        let (path, words) = parsed("./fs/a\\040b type=file mode=0644 time=1.5").unwrap();
        assert_eq!(path, [b"fs".to_vec(), b"a b".to_vec()]);
        assert_eq!(words, [("type", "file"), ("mode", "0644"), ("time", "1.5")].into());
        assert!(parsed("#mtree").is_none() && parsed("").is_none());
    }

    #[test]
    fn an_inode_is_restored_from_its_line() {
        let meta = Meta { mode: 0o640, uid: 7, gid: 8, times: Times::all(1_500_000_000), ..Meta::default() };
        let inode = |node, meta| Inode { changed: true, ..Inode::new(3, 1, node, meta) };
        let mut written = inode(Node::Device(Device::Null), meta);
        written
            .attributes
            .get_or_insert_default()
            .insert(b"user.a".as_slice().into(), b"=".as_slice().into());
        let line = line("./fs/null", &written);
        let expected = "./fs/null type=char mode=0640 uid=7 gid=8 time=1.500000000 device=linux,1,3 xattr.user.a=\\075\n";
        assert_eq!(line, expected);
        let (_, words) = parsed(&line).unwrap();
        assert_eq!(device_number(&words), Some(Device::Null.number()));
        let mut read = inode(Node::Fifo, Meta::default());
        apply(&mut read, &words);
        assert_eq!((read.meta.mode, read.meta.uid, read.meta.gid), (0o640, 7, 8));
        assert_eq!((read.meta.times.modify, read.attributes), (1_500_000_000, written.attributes));
    }
}
