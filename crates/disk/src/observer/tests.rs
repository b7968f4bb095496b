//! Native files after random operations and a crash are those of the drawn state.

use super::*;
use crate::FileState;
use belljar_base::Seed;
use belljar_linux_abi::c;
use belljar_machine::{NativeDirEntry, NativeStat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Native file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(u64),
    Directory,
    Symlink(Vec<u8>),
}

/// Native files in memory.
#[derive(Debug, Default)]
struct MemoryFiles {
    paths: Map<PathBuf, Node>,
    contents: Map<u64, Vec<u8>>,
    open: Map<i32, u64>,
    last: u64,
}

impl MemoryFiles {
    fn content(&mut self, file: NativeFile) -> &mut Vec<u8> {
        self.contents.get_mut(&self.open[&file.0]).unwrap()
    }
    fn add(&mut self, path: &Path, node: Node) -> Result<(), Errno> {
        if self.paths.contains_key(path) {
            return Err(Errno::EEXIST);
        }
        if self.paths.get(path.parent().unwrap()) != Some(&Node::Directory) {
            return Err(Errno::ENOENT);
        }
        self.paths.insert(path.into(), node);
        Ok(())
    }
    fn inside(&self, path: &Path) -> Vec<PathBuf> {
        self.paths.keys().filter(|inside| inside.starts_with(path) && *inside != path).cloned().collect()
    }
}

impl HostFiles for MemoryFiles {
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        if how.create.is_some() && !self.paths.contains_key(path) {
            self.last += 1;
            self.add(path, Node::File(self.last))?;
            self.contents.insert(self.last, Vec::new());
        }
        let Some(Node::File(file)) = self.paths.get(path) else { return Err(Errno::ENOENT) };
        let free = self.open.last_key_value().map_or(0, |(last, _)| last + 1);
        self.open.insert(free, *file);
        if how.truncate {
            self.contents.insert(*file, Vec::new());
        }
        Ok(NativeFile(free))
    }
    fn close(&mut self, file: NativeFile) {
        self.open.remove(&file.0);
    }
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let rest = self.content(file).get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let (start, end) = (offset as usize, offset as usize + data.len());
        let content = self.content(file);
        content.resize(content.len().max(end), 0);
        content[start..end].copy_from_slice(data);
        Ok(())
    }
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno> {
        Ok(NativeStat { size: self.content(file).len() as u64, ..NativeStat::default() })
    }
    fn set_len(&mut self, file: NativeFile, len: u64) -> Result<(), Errno> {
        self.content(file).resize(len as usize, 0);
        Ok(())
    }
    fn stat(&mut self, path: &Path) -> Result<NativeStat, Errno> {
        let (mode, size) = match self.paths.get(path).ok_or(Errno::ENOENT)? {
            Node::File(file) => (c::S_IFREG, self.contents[file].len() as u64),
            Node::Directory => (c::S_IFDIR, 0),
            Node::Symlink(_) => (c::S_IFLNK, 0),
        };
        let node = &self.paths[path];
        let (ino, nlink) = match node {
            Node::File(file) => (*file, self.paths.values().filter(|other| *other == node).count() as u64),
            _ => (0, 1),
        };
        Ok(NativeStat { mode, size, ino, nlink, ..NativeStat::default() })
    }
    fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno> {
        match self.paths.get(path) {
            Some(Node::Symlink(target)) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }
    fn read_dir(&mut self, path: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
        let entry = |inside: &PathBuf| {
            let kind = if self.paths[inside] == Node::Directory { c::S_IFDIR } else { c::S_IFREG };
            NativeDirEntry { name: inside.file_name().unwrap().as_bytes().into(), kind }
        };
        Ok(self.inside(path).iter().filter(|inside| inside.parent() == Some(path)).map(entry).collect())
    }
    fn create_dir(&mut self, path: &Path, _: u32) -> Result<(), Errno> {
        self.add(path, Node::Directory)
    }
    fn create_symlink(&mut self, target: &[u8], path: &Path) -> Result<(), Errno> {
        self.add(path, Node::Symlink(target.into()))
    }
    fn create_link(&mut self, existing: &Path, path: &Path) -> Result<(), Errno> {
        let node = self.paths.get(existing).cloned().ok_or(Errno::ENOENT)?;
        self.add(path, node)
    }
    fn remove_file(&mut self, path: &Path) -> Result<(), Errno> {
        self.paths.remove(path).map(drop).ok_or(Errno::ENOENT)
    }
    fn remove_dir(&mut self, path: &Path) -> Result<(), Errno> {
        if !self.inside(path).is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove_file(path)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        if self.paths.get(to.parent().unwrap()) != Some(&Node::Directory) {
            return Err(Errno::ENOENT);
        }
        let node = self.paths.remove(from).ok_or(Errno::ENOENT)?;
        for inside in self.inside(from) {
            let node = self.paths.remove(&inside).unwrap();
            self.paths.insert(to.join(inside.strip_prefix(from).unwrap()), node);
        }
        self.paths.insert(to.into(), node);
        Ok(())
    }
    fn set_mode(&mut self, _: &Path, _: u32) -> Result<(), Errno> {
        Ok(())
    }
    fn shared_memory(&mut self, _: u64) -> Result<NativeFile, Errno> {
        Err(Errno::ENOSYS)
    }
    fn read_stream(&mut self, _: u8, _: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::ENOSYS)
    }
    fn write_stream(&mut self, _: u8, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOSYS)
    }
}

/// A host's files with their observer, driven as the kernel drives [`Observed`](crate::Observed).
struct Fixture {
    files: MemoryFiles,
    observer: Observer,
    last_unnamed: u64,
}

const FOLDER: &str = "/h";

impl Fixture {
    fn new(profile: Profile, seed: u64) -> Fixture {
        let mut files = MemoryFiles::default();
        for path in [FOLDER, "/h/fs", "/h/fs/.unnamed", "/h/fs/old"] {
            files.paths.insert(path.into(), Node::Directory);
        }
        files.contents.insert(1_000_000, b"before".to_vec());
        files.paths.insert("/h/fs/old/file".into(), Node::File(1_000_000));
        let observer = Observer::new(FOLDER.into(), profile, Seed(seed).stream(&["disk"]));
        Fixture { files, observer, last_unnamed: 0 }
    }
    fn path(&self, path: &str) -> PathBuf {
        Path::new(FOLDER).join(path)
    }
    fn event(&mut self, event: DiskEvent<'_>) {
        self.observer.event(&mut self.files, event).unwrap();
    }
    fn with_file(&mut self, path: &str, create: bool, work: impl FnOnce(&mut Fixture, NativeFile)) {
        let (path, how) =
            (self.path(path), OpenHow { write: true, create: create.then_some(0o644), ..OpenHow::default() });
        let found = self.observer.find(&mut self.files, &path);
        let file = self.files.open(&path, how).unwrap();
        self.observer.opened(found.unwrap(), &path, how, file);
        work(self, file);
        self.observer.closed(file);
        self.files.close(file);
    }
    fn write(&mut self, path: &str, create: bool, offset: u64, data: &[u8]) {
        self.with_file(path, create, |fixture, file| {
            fixture.observer.writing(&mut fixture.files, file, offset, data);
            fixture.files.write_at(file, offset, data).unwrap();
        });
    }
    fn resize(&mut self, path: &str, size: u64) {
        self.with_file(path, false, |fixture, file| {
            fixture.observer.resizing(&mut fixture.files, file, size);
            fixture.files.set_len(file, size).unwrap();
        });
    }
    fn mkdir(&mut self, path: &str) {
        let path = self.path(path);
        let slot = self.observer.free_entry(&mut self.files, &path).unwrap();
        self.files.create_dir(&path, 0o755).unwrap();
        self.observer.created_directory(slot);
    }
    fn symlink(&mut self, path: &str) {
        let path = self.path(path);
        let slot = self.observer.free_entry(&mut self.files, &path).unwrap();
        self.files.create_symlink(b"target", &path).unwrap();
        self.observer.created_symlink(slot, b"target");
    }
    fn link(&mut self, from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        let slot = self.observer.free_entry(&mut self.files, &to).unwrap();
        self.files.create_link(&from, &to).unwrap();
        self.observer.linked(&mut self.files, &from, slot);
    }
    fn remove(&mut self, path: &Path) {
        match self.observer.removing(&mut self.files, path) {
            Some(kept) => self.files.rename(path, &kept).unwrap(),
            None => self.files.remove_file(path).unwrap(),
        }
    }
    fn rmdir(&mut self, path: &str) {
        let path = self.path(path);
        let slot = self.observer.known_entry(&mut self.files, &path);
        self.files.remove_dir(&path).unwrap();
        self.observer.removed_directory(slot.unwrap());
    }
    fn rename(&mut self, from: &Path, to: &Path) {
        self.observer.renaming(&mut self.files, from, to);
        self.files.rename(from, to).unwrap();
    }
    /// Paths of files or directories, as the kernel's layer has them.
    fn known(&self, directories: bool) -> Vec<String> {
        let own = |path: &&PathBuf| !path.starts_with("/h/fs/.unnamed") && !path.starts_with("/h/fs/.kept");
        let of_kind = |path: &&PathBuf| (self.files.paths[*path] == Node::Directory) == directories;
        let found =
            self.files.paths.keys().filter(|path| path.starts_with(FOLDER)).filter(own).filter(of_kind);
        let relative = found.map(|path| path.strip_prefix(FOLDER).unwrap().to_string_lossy().into_owned());
        relative.filter(|path| !path.is_empty() && path != "fs" && path != "files.mtree").collect()
    }
    /// One random operation.
    fn step(&mut self, draw: &mut Stream) {
        let (files, directories) = (self.known(false), self.known(true));
        let pick = |among: &[String], draw: &mut Stream| {
            among.get(draw.below(among.len().max(1) as u64) as usize).cloned()
        };
        let is_symlink = |fixture: &Fixture, path: &str| {
            matches!(fixture.files.paths[&fixture.path(path)], Node::Symlink(_))
        };
        let parent = match draw.below(3) {
            0 => "fs".to_string(),
            1 => String::new(),
            _ => pick(&directories, draw).unwrap_or_default(),
        };
        let name = ["a", "b", "c", "d"][draw.below(4) as usize];
        let new = Path::new(&parent).join(name).to_string_lossy().into_owned();
        let is_free = !self.files.paths.contains_key(&self.path(&new));
        let file = pick(&files, draw);
        match (draw.below(14), file) {
            (0 | 1, _) if is_free => self.write(&new, true, 0, &[b'0' + draw.below(10) as u8; 100]),
            (2, _) if is_free => self.mkdir(&new),
            (3, _) if is_free => self.symlink(&new),
            (4..=6, Some(file)) if !is_symlink(self, &file) => {
                let data = vec![b'a' + draw.below(26) as u8; 1 + draw.below(6_000) as usize];
                self.write(&file, false, draw.below(9_000), &data);
            }
            (7, Some(file)) if !is_symlink(self, &file) => self.resize(&file, draw.below(10_000)),
            (8, Some(file)) if is_free && !is_symlink(self, &file) => self.link(&file, &new),
            (9, Some(file)) => {
                let path = self.path(&file);
                let inode = self.inode(&file);
                // A file in use is set aside first.
                if draw.below(2) == 0 && !is_symlink(self, &file) && self.observer.disk.links(inode) == 1 {
                    self.last_unnamed += 1;
                    let aside = self.path(&format!("fs/.unnamed/{}", self.last_unnamed));
                    self.rename(&path, &aside);
                    self.remove(&aside);
                } else {
                    self.remove(&path);
                }
            }
            (10, Some(file)) => {
                let (from, to) = (self.path(&file), self.path(&new));
                match self.files.paths.get(&to).cloned() {
                    Some(Node::Directory) => {}
                    Some(_) if from != to && self.inode(&file) != self.inode(&new) => {
                        self.event(DiskEvent::Replacing);
                        self.remove(&to);
                        self.rename(&from, &to);
                    }
                    Some(_) => {}
                    None => self.rename(&from, &to),
                }
            }
            (11, _) => {
                let Some(directory) = pick(&directories, draw) else { return };
                let (from, to) = (self.path(&directory), self.path(&new));
                if is_free && !to.starts_with(&from) {
                    self.rename(&from, &to);
                } else if self.files.inside(&from).is_empty() {
                    self.rmdir(&directory);
                }
            }
            (12, Some(file)) => self.event(DiskEvent::Synced { path: &self.path(&file), data_only: false }),
            (13, _) => match draw.below(3) {
                0 => self.event(DiskEvent::SyncedAll),
                _ => {
                    let directory = pick(&directories, draw).unwrap_or_default();
                    self.event(DiskEvent::Synced { path: &self.path(&directory), data_only: false });
                }
            },
            _ => {}
        }
    }
    fn inode(&mut self, path: &str) -> InodeId {
        match self.observer.find(&mut self.files, &Path::new(FOLDER).join(path)) {
            Some(Found::Inode(inode)) => inode,
            other => panic!("{path}: {other:?}"),
        }
    }
    /// Contents of files by path; `None` for what is no file.
    fn contents(&self) -> Map<String, Option<Vec<u8>>> {
        let content = |path: &String| match &self.files.paths[&Path::new(FOLDER).join(path)] {
            Node::File(file) => Some(self.files.contents[file].clone()),
            _ => None,
        };
        let all = [self.known(true), self.known(false)].concat();
        all.into_iter().map(|path| (path.clone(), content(&path))).collect()
    }
}

/// Contents of inodes before a crash, wherever their native files are.
fn before(fixture: &mut Fixture) -> Map<InodeId, Vec<u8>> {
    let mut contents = Map::new();
    for path in fixture.known(false) {
        let inode = fixture.inode(&path);
        if let Node::File(file) = &fixture.files.paths[&fixture.path(&path)] {
            contents.insert(inode, fixture.files.contents[file].clone());
        }
    }
    for inode in fixture.observer.kept.keys() {
        if let Some(Node::File(file)) = fixture.files.paths.get(&fixture.observer.kept_path(*inode)) {
            contents.insert(*inode, fixture.files.contents[file].clone());
        }
    }
    contents
}

/// Files that a drawn state has, by path.
fn expected(fixture: &mut Fixture) -> Map<String, Option<Vec<u8>>> {
    let contents = before(fixture);
    let tearing =
        if fixture.observer.disk.profile() == Profile::Any { Tearing::Byte } else { Tearing::Sector };
    let state = fixture.observer.disk.crash(tearing, &mut fixture.observer.draw.clone());
    let mut names: Map<Slot, InodeId> =
        fixture.observer.disk.entries().map(|(slot, inode)| (slot.clone(), inode)).collect();
    for (slot, inode) in &state.entries {
        match inode {
            Some(inode) => names.insert(slot.clone(), *inode),
            None => names.remove(slot),
        };
    }
    let mut found = Map::new();
    let mut work = vec![(InodeId(0), PathBuf::new())];
    while let Some((directory, at)) = work.pop() {
        for ((_, name), inode) in names.iter().filter(|((parent, _), _)| *parent == directory) {
            let path = at.join(OsStr::from_bytes(name));
            let patched = |file: &FileState| crate::tests::patched(&contents[inode], file);
            let content =
                contents.get(inode).map(|old| state.files.get(inode).map_or_else(|| old.clone(), patched));
            let text = path.to_string_lossy().into_owned();
            if text != "fs" {
                found.insert(text, content);
            }
            work.push((*inode, path));
        }
    }
    found
}

#[test]
fn native_files_are_those_of_the_drawn_state() {
    for profile in [Profile::Ordered, Profile::Any] {
        for seed in 0..400 {
            let mut draw = Seed(seed).stream(&["steps"]);
            let mut fixture = Fixture::new(profile, seed);
            fixture.inode("fs/old/file");
            for _ in 0..2 {
                (0..40).for_each(|_| fixture.step(&mut draw));
                // Files that are first seen at the crash are on disk.
                for path in [fixture.known(true), fixture.known(false)].concat() {
                    fixture.inode(&path);
                }
                let expected = expected(&mut fixture);
                let at = SimTime::from_nanos(7);
                fixture.event(DiskEvent::Crash { torn: true, at, realtime_ns: 5_000_000_001 });
                fixture.files.remove_file(&fixture.path("files.mtree")).unwrap();
                fixture.files.paths.insert("/h/fs/.unnamed".into(), Node::Directory);
                let found = fixture.contents();
                let paths = |all: &Map<String, _>| all.keys().cloned().collect::<Vec<_>>();
                assert_eq!(paths(&found), paths(&expected), "{profile:?} {seed}");
                for (path, content) in &found {
                    let (old, new) = (
                        expected[path].as_deref().unwrap_or_default(),
                        content.as_deref().unwrap_or_default(),
                    );
                    let at = old.iter().zip(new).position(|(old, new)| old != new);
                    assert!(
                        old == new,
                        "{profile:?} {seed}: {path} differs at {at:?}, {} and {} bytes",
                        old.len(),
                        new.len()
                    );
                }
                assert!(fixture.files.open.is_empty());
            }
        }
    }
}

#[test]
fn an_exchange_in_three_renames_is_one_step() {
    let mut seen = Vec::new();
    for seed in 0..30 {
        let mut fixture = Fixture::new(Profile::Any, seed);
        fixture.write("one", true, 0, b"1");
        fixture.write("two", true, 0, b"2");
        fixture.event(DiskEvent::SyncedAll);
        let [one, two, aside] = ["one", "two", EXCHANGE].map(|path| fixture.path(path));
        fixture.rename(&one, &aside);
        fixture.rename(&two, &one);
        fixture.rename(&aside, &two);
        fixture.event(DiskEvent::Crash { torn: false, at: SimTime::ZERO, realtime_ns: 0 });
        let contents = fixture.contents();
        seen.push((contents["one"].clone().unwrap(), contents["two"].clone().unwrap()));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, [(b"1".to_vec(), b"2".to_vec()), (b"2".to_vec(), b"1".to_vec())]);
}

#[test]
fn writes_to_a_mapping_are_found_and_lost() {
    let mut lost = 0;
    for seed in 0..40 {
        let mut fixture = Fixture::new(Profile::Any, seed);
        fixture.write("a", true, 0, &[1; 8192]);
        fixture.event(DiskEvent::SyncedAll);
        let (space, range) = (SpaceId(1), 0x10_0000..0x10_2000);
        fixture.with_file("a", false, |Fixture { observer, files, .. }, file| {
            // Every other time the mapping may be written to only later, in a child.
            if seed % 2 == 0 {
                return observer.mapping(files, (space, range.clone()), Prot::READ | Prot::WRITE, Some(file));
            }
            observer.mapping(files, (space, range.clone()), Prot::READ, Some(file));
            assert!(observer.mapped.is_empty());
            observer.forked(space, SpaceId(2));
            observer.ended(space);
            observer.protecting(files, SpaceId(2), &range, Prot::READ);
            assert!(observer.mapped.is_empty());
            observer.protecting(files, SpaceId(2), &range, Prot::READ | Prot::WRITE);
        });
        let store = |fixture: &mut Fixture, at: usize, byte| {
            let Node::File(file) = fixture.files.paths[&fixture.path("a")] else { panic!("no file") };
            fixture.files.contents.get_mut(&file).unwrap()[at] = byte;
        };
        store(&mut fixture, 5, 2);
        fixture.event(DiskEvent::Synced { path: &fixture.path("a"), data_only: true });
        store(&mut fixture, 5000, 3);
        fixture.event(DiskEvent::Crash { torn: false, at: SimTime::ZERO, realtime_ns: 0 });
        let content = fixture.contents()["a"].clone().unwrap();
        assert_eq!((content[5], content.len()), (2, 8192));
        assert!(content[5000] == 1 || content[5000] == 3);
        lost += usize::from(content[5000] == 1);
        assert!(fixture.files.open.is_empty());
    }
    assert!((5..35).contains(&lost), "{lost}");
}

#[test]
fn a_host_without_a_layer_keeps_replaced_and_removed_files() {
    let mut seen = Vec::new();
    for seed in 0..40 {
        let mut fixture = Fixture::new(Profile::Any, seed);
        fixture.files.paths.retain(|path, _| !path.starts_with("/h/fs"));
        fixture.write("a", true, 0, b"old");
        fixture.write("b", true, 0, b"removed");
        fixture.event(DiskEvent::SyncedAll);
        fixture.write("a.new", true, 0, b"new");
        let [new, old, removed] = ["a.new", "a", "b"].map(|path| fixture.path(path));
        fixture.event(DiskEvent::Replacing);
        fixture.remove(&old);
        fixture.rename(&new, &old);
        fixture.remove(&removed);
        fixture.event(DiskEvent::Crash { torn: false, at: SimTime::ZERO, realtime_ns: 0 });
        let contents = fixture.contents();
        seen.push((contents["a"].as_deref() == Some(b"old"), contents.contains_key("b")));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, [(false, false), (false, true), (true, false), (true, true)]);
}

#[test]
fn the_record_and_the_sidecar_follow_the_files() {
    // The name is not synced: with some seed it is lost.
    let lost = (0..50).find_map(|seed| {
        let mut fixture = Fixture::new(Profile::Any, seed);
        fixture.write("fs/old/new", true, 0, b"12345");
        fixture.event(DiskEvent::Synced { path: &fixture.path("fs/old/new"), data_only: false });
        let sidecar = "#mtree\n./fs/old/new type=file mode=0600 uid=7 gid=7 time=1.0 size=5\n./pipe type=fifo mode=0644 uid=0 gid=0 time=1.0\n";
        fixture.files.contents.insert(2_000_000, sidecar.as_bytes().to_vec());
        fixture.files.paths.insert("/h/files.mtree".into(), Node::File(2_000_000));
        fixture.event(DiskEvent::Crash { torn: false, at: SimTime::from_nanos(2_500_000_000), realtime_ns: 0 });
        let text = String::from_utf8(fixture.files.contents[&2_000_000].clone()).unwrap();
        let is_lost = !fixture.contents().contains_key("fs/old/new");
        assert_eq!(text.contains("mode=0600"), !is_lost);
        assert!(text.contains("./pipe type=fifo"));
        fixture.event(DiskEvent::Finished);
        let Node::File(record) = fixture.files.paths[&fixture.path("crashes.jsonl")] else { panic!("no record") };
        is_lost.then(|| String::from_utf8(fixture.files.contents[&record].clone()).unwrap())
    });
    let line = "{\"time\":2.5,\"lost\":[{\"file\":\"/old/new\",\"lost\":\"name\",\"bytes\":5}]}\n";
    assert_eq!(lost.as_deref(), Some(line));
}
