//! Parts of an image by name.

use crate::{Doing, Error, Result};
use belljar_base::Map;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::path::{Component, Path, PathBuf};

/// Maximum size of a document in bytes; typical documents have a few kilobytes.
const LONGEST_DOCUMENT: u64 = 16 << 20;

/// Archive entry.
enum Entry {
    /// Regular file: offset and length of its content.
    File(u64, u64),
    /// Link to another entry. Archives of older programs use links for layers shared by images.
    Link(String),
}

/// Image as a set of named parts.
pub enum Source {
    /// An OCI layout.
    Directory(PathBuf),
    /// An archive.
    Archive(Archive),
}

/// Archive whose entries are read in situ.
pub struct Archive {
    file: File,
    entries: Map<String, Entry>,
}

impl Source {
    /// Opens the image at `path`.
    pub fn open(path: &Path) -> Result<Source> {
        if path.is_dir() {
            return Ok(Source::Directory(path.to_owned()));
        }
        let mut file = belljar_inputs::open(path).doing("it cannot be opened")?;
        let mut magic = Vec::new();
        (&mut file).take(6).read_to_end(&mut magic).doing("it cannot be read")?;
        let packer = match magic.get(..4) {
            Some([0x1f, 0x8b, ..]) => Some("gunzip"),
            Some([0x28, 0xb5, 0x2f, 0xfd]) => Some("unzstd"),
            Some([b'B', b'Z', b'h', _]) => Some("bunzip2"),
            _ if magic == *b"\xfd7zXZ\0" => Some("unxz"),
            _ => None,
        };
        if let Some(packer) = packer {
            return Err(
                Error::new("the archive is compressed as a whole").help(format!("unpack it with {packer}"))
            );
        }
        let entries = index(&mut file)?;
        Ok(Source::Archive(Archive { file, entries }))
    }

    /// True if the part exists.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Source::Directory(folder) => folder.join(name).is_file(),
            Source::Archive(archive) => archive.entries.contains_key(name),
        }
    }

    /// Opens a part.
    pub fn part(&mut self, name: &str) -> Result<Take<File>> {
        // Names come from the image's documents and are untrusted.
        if Path::new(name).components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(Error::new(format!("its part '{name}' is no name of a file in it")));
        }
        match self {
            Source::Directory(folder) => {
                let file = belljar_inputs::open(&folder.join(name))
                    .doing(format!("its part '{name}' cannot be opened"))?;
                let len = file.metadata().doing(format!("its part '{name}' cannot be looked at"))?.len();
                Ok(file.take(len))
            }
            Source::Archive(archive) => {
                let missing = || Error::new(format!("its part '{name}' is missing")).help("save it again");
                let (at, len) = archive.find(name).ok_or_else(missing)?;
                let mut file = archive.file.try_clone().doing("it cannot be read")?;
                file.seek(SeekFrom::Start(at)).doing("it cannot be read")?;
                Ok(file.take(len))
            }
        }
    }

    /// Reads a part into memory.
    pub fn document(&mut self, name: &str) -> Result<Vec<u8>> {
        let mut part = self.part(name)?;
        if part.limit() > LONGEST_DOCUMENT {
            return Err(Error::new(format!("its part '{name}' is too long: {} bytes", part.limit())));
        }
        let mut bytes = Vec::new();
        part.read_to_end(&mut bytes).doing(format!("its part '{name}' cannot be read"))?;
        Ok(bytes)
    }
}

impl Archive {
    fn find(&self, name: &str) -> Option<(u64, u64)> {
        let mut name = name.to_owned();
        // Links may form a cycle.
        for _ in 0..8 {
            match self.entries.get(&name)? {
                Entry::File(at, len) => return Some((*at, *len)),
                Entry::Link(to) => name = beside(&name, to),
            }
        }
        None
    }
}

/// Name to which a link in the folder of `name` refers.
fn beside(name: &str, to: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn index(file: &mut File) -> Result<Map<String, Entry>> {
    file.rewind().doing("it cannot be read")?;
    let mut archive = tar::Archive::new(file);
    let not = |problem| {
        let error: Result<()> = Err(problem).doing("it is no archive in the format of tar");
        error.unwrap_err().help("make one by 'docker save -o FILE IMAGE', or name a directory")
    };
    let mut entries = Map::new();
    for entry in archive.entries_with_seek().map_err(not)? {
        let entry = entry.map_err(not)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
        let kind = entry.header().entry_type();
        let found = match (kind.is_symlink(), entry.link_name_bytes()) {
            (true, Some(to)) => Entry::Link(String::from_utf8_lossy(&to).into_owned()),
            _ if kind.is_file() => Entry::File(entry.raw_file_position(), entry.size()),
            _ => continue,
        };
        entries.insert(name, found);
    }
    Ok(entries)
}
