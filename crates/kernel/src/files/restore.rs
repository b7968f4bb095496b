//! Restores the files of a host whose folder is not empty: files of an earlier run that a template provides,
//! or of a host that restarts. `fs/` holds the host's own layer; `files.mtree` holds the metadata that native
//! files cannot.

use super::sidecar;
use crate::host::Host;
use crate::ids::InodeKey;
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use belljar_machine::{NativeStat, OpenHow};
use belljar_objects::devices::Device;
use belljar_objects::inode::{Child, Content, Directory, DirectorySource, Meta, Node, ROOT, Store, Times};
use belljar_objects::mtree::{self, Words, parsed, unescaped};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Inodes with several hard links, by inode number in the sidecar.
type Linked = Map<u64, InodeKey>;

impl Host {
    /// Restores the files that the host's folder holds.
    pub(crate) fn restore_files(&mut self) -> Result<(), Errno> {
        let layer = self.config.directory.join("fs");
        if sidecar::exists(self, &layer)? {
            self.files.directory(ROOT).own = true;
            self.adopt(ROOT, &layer, &mut Map::new())?;
        }
        let path = self.config.directory.join(sidecar::NAME);
        if !sidecar::exists(self, &path)? {
            return Ok(());
        }
        let file = self.open_native(&path, OpenHow::default())?;
        let size = self.machine.stat_file(file)?.size;
        let mut bytes = vec![0; size as usize];
        let read = self.machine.read_at(file, 0, &mut bytes);
        self.machine.close(file);
        read?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let own = self.own_folder()?;
        let mut linked = Linked::new();
        for line in text.lines() {
            let Some((mut path, words)) = parsed(line) else { continue };
            let mut start = own;
            if path.first().is_some_and(|first| first == b"fs") {
                path.remove(0);
                start = Some(ROOT);
            }
            if let (Some(start), Some(name)) = (start, path.pop()) {
                self.restore_line(start, &path, &name, &words, &mut linked)?;
            }
        }
        Ok(())
    }

    /// Adds the files of a native folder of the own layer to the directory that it belongs to.
    fn adopt(
        &mut self,
        at: InodeKey,
        native: &Path,
        linked: &mut Map<(u64, u64), InodeKey>,
    ) -> Result<(), Errno> {
        for entry in self.machine.read_dir(native)? {
            let name = entry.name;
            let path = native.join(OsStr::from_bytes(&name));
            let stat = self.machine.stat(&path)?;
            match stat.mode & c::S_IFMT {
                c::S_IFDIR if at == ROOT && name == b".unnamed" => {}
                c::S_IFDIR => {
                    let there = self.lookup(at, &name)?;
                    let inside = match there.filter(|inode| self.files.inode(*inode).node.is_directory()) {
                        Some(inode) => inode,
                        None => {
                            let node = Node::Directory(Directory { parent: at, ..Directory::default() });
                            self.place(at, &name, node, &stat)
                        }
                    };
                    self.files.directory(inside).own = true;
                    self.adopt(inside, &path, linked)?;
                }
                c::S_IFLNK => {
                    let target = self.machine.read_link(&path)?;
                    self.place(at, &name, Node::Symlink { target, own: true }, &stat);
                }
                c::S_IFREG => match linked.get(&(stat.dev, stat.ino)) {
                    Some(known) => {
                        let known = *known;
                        self.take_place(at, &name);
                        self.files.add_name(at, &name, known);
                    }
                    None => {
                        let content = Content::new(Store::Own, stat.size);
                        let inode = self.place(at, &name, Node::Regular(content), &stat);
                        linked.insert((stat.dev, stat.ino), inode);
                    }
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Creates an inode under this name, replacing any previous entry.
    fn place(&mut self, at: InodeKey, name: &[u8], node: Node, stat: &NativeStat) -> InodeKey {
        self.take_place(at, name);
        let meta = Meta {
            mode: stat.mode & 0o7777,
            uid: 0,
            gid: 0,
            times: Times::all(stat.mtime_ns),
            ..Meta::default()
        };
        let device = self.files.inode(at).device;
        let inode = self.files.add_inode(device, node, meta);
        put(self, at, name, inode);
        inode
    }
    pub(crate) fn take_place(&mut self, at: InodeKey, name: &[u8]) {
        if let Some(Child::Known(old)) = self.files.directory(at).entries.remove(name) {
            self.files.inode(old).links.retain(|(parent, n)| *parent != at || &n[..] != name);
            self.forget_if_unused(old);
        }
    }

    fn restore_line(
        &mut self,
        start: InodeKey,
        path: &[Vec<u8>],
        name: &[u8],
        words: &Words<'_>,
        linked: &mut Linked,
    ) -> Result<(), Errno> {
        let mut at = start;
        for part in path {
            match self.lookup(at, part)?.filter(|inode| self.files.inode(*inode).node.is_directory()) {
                Some(inode) => at = inode,
                // Its directory no longer exists, so the file does not either.
                None => return Ok(()),
            }
        }
        let word = |key: &str| words.get(key).copied().unwrap_or_default();
        let kind = word("type");
        if (kind, word("device")) == ("char", "linux,0,0") && !words.contains_key("mode") {
            self.take_place(at, name);
            self.files.directory(at).entries.insert(name.into(), Child::Whiteout);
            return Ok(());
        }
        let number: Option<u64> = word("inode").parse().ok();
        if let Some(known) = number.and_then(|number| linked.get(&number)).copied() {
            if self.lookup(at, name)? != Some(known) {
                self.take_place(at, name);
                self.files.add_name(at, name, known);
            }
            return Ok(());
        }
        let origin = words.get("origin").map(|text| PathBuf::from(OsStr::from_bytes(&unescaped(text))));
        let Some(inode) = self.restored(at, name, kind, origin, words)? else { return Ok(()) };
        if let Some(number) = number {
            linked.insert(number, inode);
        }
        mtree::apply(self.files.inode(inode), words);
        Ok(())
    }

    /// Inode that a line describes, created if there is no native file for it.
    fn restored(
        &mut self,
        at: InodeKey,
        name: &[u8],
        kind: &str,
        origin: Option<PathBuf>,
        words: &Words<'_>,
    ) -> Result<Option<InodeKey>, Errno> {
        let there = self.lookup(at, name)?;
        let node = match (kind, origin) {
            ("file", None) => return Ok(there),
            ("dir", origin) => {
                let source = origin.map_or(DirectorySource::None, DirectorySource::Lower);
                if let Some(inode) = there
                    && let Node::Directory(directory) = &mut self.files.inode(inode).node
                {
                    if matches!(directory.source, DirectorySource::Lower(_) | DirectorySource::None) {
                        directory.source = source;
                    }
                    return Ok(Some(inode));
                }
                Node::Directory(Directory { parent: at, source, ..Directory::default() })
            }
            ("file", Some(origin)) => match self.machine.stat(&origin) {
                Ok(stat) => Node::Regular(Content::new(Store::Lower(origin), stat.size)),
                Err(_) => return Ok(None),
            },
            ("link", _) => match there {
                Some(inode) if self.files.inode(inode).node.is_symlink() => return Ok(Some(inode)),
                _ => Node::Symlink {
                    target: unescaped(words.get("link").copied().unwrap_or_default()),
                    own: false,
                },
            },
            ("fifo", _) => Node::Fifo,
            ("socket", _) => Node::Socket,
            (kind @ ("char" | "block"), _) => match mtree::device_number(words) {
                Some(number) if kind == "block" => Node::Device(Device::Block(number)),
                Some(number) => Node::Device(Device::of_number(number)),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        // Only its owner, mode or times may have changed.
        if let (Some(inode), Node::Regular(Content { store: Store::Lower(origin), .. })) = (there, &node)
            && self.files.inode(inode).content().is_some_and(|c| c.store == Store::Lower(origin.clone()))
        {
            return Ok(Some(inode));
        }
        Ok(Some(self.place(at, name, node, &NativeStat::default())))
    }
}

/// Gives an inode a name, which nothing else has.
pub(crate) fn put(host: &mut Host, at: InodeKey, name: &[u8], inode: InodeKey) {
    host.files.inode(inode).changed = true;
    host.files.add_name(at, name, inode);
}
