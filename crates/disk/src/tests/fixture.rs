//! A file system in memory that feeds a [`Disk`], and steps as text.
//!
//! A unit is a sector: `write a 0 3 x` writes three sectors of `x` at the start of `a`. Files are compared by the first
//! byte of each unit.

use crate::{
    Contents, Disk, FileState, InodeId, Operation, PAGE, Profile, SECTOR, Slot, State, Sync, Tearing,
};
use belljar_base::{Map, Stream};

/// Units of a page.
pub const UNITS: usize = (PAGE / SECTOR) as usize;

/// Files by path: the first byte of each unit, `None` for a directory.
pub type Tree = Map<String, Option<Vec<u8>>>;

/// Step of a sequence.
#[derive(Clone, Debug)]
pub enum Step {
    Create(String),
    Mkdir(String),
    Write {
        path: String,
        start: usize,
        len: usize,
        byte: u8,
    },
    Truncate(String, usize),
    Rename(String, String),
    Link(String, String),
    Unlink(String),
    Close(String),
    Fsync(String),
    Fdatasync(String),
    /// Sync that fails.
    Fail(String),
    Sync,
}

/// Steps of a text, separated by semicolons.
pub fn steps(text: &str) -> Vec<Step> {
    let step = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let path = |at: usize| words[at].to_string();
        let number = |at: usize| words[at].parse().unwrap();
        match words[0] {
            "create" => Step::Create(path(1)),
            "mkdir" => Step::Mkdir(path(1)),
            "write" => {
                Step::Write { path: path(1), start: number(2), len: number(3), byte: words[4].as_bytes()[0] }
            }
            "truncate" => Step::Truncate(path(1), number(2)),
            "rename" => Step::Rename(path(1), path(2)),
            "link" => Step::Link(path(1), path(2)),
            "unlink" => Step::Unlink(path(1)),
            "close" => Step::Close(path(1)),
            "fsync" => Step::Fsync(path(1)),
            "fdatasync" => Step::Fdatasync(path(1)),
            "fail" => Step::Fail(path(1)),
            "sync" => Step::Sync,
            other => panic!("unknown step {other}"),
        }
    };
    text.split(';').map(str::trim).filter(|text| !text.is_empty()).map(step).collect()
}

/// Contents of files in memory.
#[derive(Default)]
pub struct Memory(pub Map<InodeId, Vec<u8>>);

impl Contents for Memory {
    fn read(&mut self, inode: InodeId, offset: u64, out: &mut [u8]) {
        let Some(content) = self.0.get(&inode) else { return };
        let rest = content.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
    }
}

/// File system over a disk.
pub struct FileSystem {
    pub disk: Disk,
    pub memory: Memory,
    last_inode: u64,
}

impl FileSystem {
    pub fn new(profile: Profile) -> FileSystem {
        FileSystem { disk: Disk::new(profile), memory: Memory::default(), last_inode: 0 }
    }
    /// Entry of a path; `.` is the root.
    pub fn slot(&self, path: &str) -> Slot {
        match path.rsplit_once('/') {
            Some((directory, name)) => (self.inode(directory), name.as_bytes().into()),
            None => (InodeId(0), path.as_bytes().into()),
        }
    }
    pub fn inode(&self, path: &str) -> InodeId {
        if path == "." {
            return InodeId(0);
        }
        self.disk.lookup(&self.slot(path)).unwrap_or_else(|| panic!("{path} exists"))
    }
    fn create(&mut self, path: &str, is_directory: bool) {
        self.last_inode += 1;
        let inode = InodeId(self.last_inode);
        let slot = self.slot(path);
        self.disk.apply(Operation::Create { slot, inode, is_directory }, &mut self.memory);
        if !is_directory {
            self.memory.0.insert(inode, Vec::new());
        }
    }
    pub fn step(&mut self, step: &Step) {
        let unit = SECTOR as usize;
        match step {
            Step::Create(path) => self.create(path, false),
            Step::Mkdir(path) => self.create(path, true),
            Step::Write { path, start, len, byte } => {
                let inode = self.inode(path);
                let data = vec![*byte; len * unit];
                let offset = (start * unit) as u64;
                self.disk.apply(Operation::Write { inode, offset, data: &data }, &mut self.memory);
                let content = self.memory.0.get_mut(&inode).unwrap();
                content.resize(content.len().max((start + len) * unit), 0);
                content[start * unit..][..len * unit].copy_from_slice(&data);
            }
            Step::Truncate(path, size) => {
                let inode = self.inode(path);
                let size = size * unit;
                self.disk.apply(Operation::Resize { inode, size: size as u64 }, &mut self.memory);
                self.memory.0.get_mut(&inode).unwrap().resize(size, 0);
            }
            Step::Rename(from, to) => {
                let (from, to) = (self.slot(from), self.slot(to));
                self.disk.apply(Operation::Rename { from, to }, &mut self.memory);
            }
            Step::Link(path, new) => {
                let (inode, slot) = (self.inode(path), self.slot(new));
                self.disk.apply(Operation::Link { slot, inode }, &mut self.memory);
            }
            Step::Unlink(path) => {
                let slot = self.slot(path);
                self.disk.apply(Operation::Unlink { slot }, &mut self.memory);
            }
            Step::Close(path) => {
                let inode = self.inode(path);
                self.disk.apply(Operation::Close { inode }, &mut self.memory);
            }
            Step::Fsync(path) => self.disk.sync(Sync::Inode(self.inode(path))),
            Step::Fdatasync(path) => self.disk.sync(Sync::Data(self.inode(path))),
            Step::Fail(path) => self.disk.fail_sync(self.inode(path)),
            Step::Sync => self.disk.sync(Sync::All),
        }
    }

    /// Files after a crash with this outcome.
    pub fn tree(&self, state: &State) -> Tree {
        let mut entries: Map<Slot, InodeId> =
            self.disk.entries().map(|(slot, inode)| (slot.clone(), inode)).collect();
        for (slot, inode) in &state.entries {
            match inode {
                Some(inode) => entries.insert(slot.clone(), *inode),
                None => entries.remove(slot),
            };
        }
        let mut tree = Tree::new();
        self.walk(InodeId(0), "", &entries, state, &mut tree);
        tree
    }
    fn walk(
        &self,
        directory: InodeId,
        prefix: &str,
        entries: &Map<Slot, InodeId>,
        state: &State,
        tree: &mut Tree,
    ) {
        assert!(prefix.len() < 40, "a circle of directories: {prefix}");
        for ((_, name), inode) in entries.iter().filter(|((parent, _), _)| *parent == directory) {
            let path = format!("{prefix}{}", String::from_utf8_lossy(name));
            let content = self.content(*inode, state);
            if content.is_none() {
                self.walk(*inode, &format!("{path}/"), entries, state, tree);
            }
            assert!(tree.insert(path, content).is_none());
        }
    }
    /// Content after a crash, by units; `None` for a directory.
    fn content(&self, inode: InodeId, state: &State) -> Option<Vec<u8>> {
        let content = self.memory.0.get(&inode)?;
        let crashed = state.files.get(&inode).map_or_else(|| content.clone(), |file| patched(content, file));
        Some(crashed.chunks(SECTOR as usize).map(|unit| unit[0]).collect())
    }
    pub fn crash(&self, draw: &mut Stream) -> Tree {
        self.tree(&self.disk.crash(Tearing::None, draw))
    }
}

/// Content with the differences of a state.
pub fn patched(content: &[u8], file: &FileState) -> Vec<u8> {
    let mut content = content.to_vec();
    content.resize(file.size as usize, 0);
    for (offset, part) in file.parts() {
        content[offset as usize..][..part.len()].copy_from_slice(part);
    }
    content
}
