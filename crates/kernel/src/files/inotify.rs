//! Watching files for events, `inotify(7)`.
//!
//! Whoever does something to a file says so with [`Host::file_event`] (the file itself and, with
//! its name, the directory that it is in) or [`Host::name_event`] (a name in a directory). Both
//! cost one comparison while nobody watches anything.

use super::FileKind;
use super::readiness::READABLE;
use super::tree::FormerEntry;
use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, WaitQueueId};
use crate::outcome::{Block, SysResult, done};
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// `fs.inotify.max_queued_events`.
const MAX_QUEUED: usize = 16_384;
/// The bytes of `struct inotify_event` without its name.
const HEADER: usize = 16;

/// An inotify instance.
#[derive(Debug)]
pub struct Inotify {
    /// Notified when an event is queued.
    pub queue: WaitQueueId,
    watches: Map<i32, Watch>,
    last_watch: i32,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    inode: InodeKey,
    mask: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    watch: i32,
    mask: u32,
    cookie: u32,
    name: Vec<u8>,
}

impl Event {
    /// Its size as it is read: names are padded with zeroes.
    fn len(&self) -> usize {
        HEADER + if self.name.is_empty() { 0 } else { (self.name.len() + 1).next_multiple_of(HEADER) }
    }
    fn put(&self, out: &mut Vec<u8>) {
        let padded = self.len() - HEADER;
        for word in [self.watch as u32, self.mask, self.cookie, padded as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.name);
        out.resize(out.len() + padded - self.name.len(), 0);
    }
}

impl Inotify {
    /// Its readiness.
    pub fn readiness(&self) -> u32 {
        if self.events.is_empty() { 0 } else { READABLE }
    }
    /// The bytes that `FIONREAD` tells.
    pub fn queued_bytes(&self) -> usize {
        self.events.iter().map(Event::len).sum()
    }
    /// Queues an event unless it repeats the last one.
    fn push(&mut self, event: Event) {
        if self.events.back() == Some(&event) {
            return;
        }
        let overflow = Event { watch: -1, mask: c::IN_Q_OVERFLOW, cookie: 0, name: Vec::new() };
        match self.events.len() {
            0..MAX_QUEUED => self.events.push_back(event),
            MAX_QUEUED => self.events.push_back(overflow),
            _ => {}
        }
    }
}

impl Files {
    /// The instance behind an open file. `EINVAL` if it is none.
    pub(crate) fn inotify_of(&self, file: FileKey) -> Result<usize, Errno> {
        match self.open[file.0].kind {
            FileKind::Inotify(n) => Ok(n),
            _ => Err(Errno::EINVAL),
        }
    }

    /// True if somebody watches the file or the directory.
    pub(crate) fn is_watched(&self, inode: InodeKey) -> bool {
        self.watched.contains_key(&inode)
    }

    /// The directory and the name of an entry that is no more, if the directory is still there.
    fn present(&self, former: FormerEntry) -> Option<(InodeKey, Box<[u8]>)> {
        let (directory, number) = former.directory;
        let there = self.inodes.get(directory.0).is_some_and(|inode| inode.number == number);
        there.then_some((directory, former.name))
    }

    /// A number that ties the two events of a rename together.
    pub(crate) fn next_rename_cookie(&mut self) -> u32 {
        self.last_rename = self.last_rename.wrapping_add(1);
        self.last_rename
    }

    /// The watches of an instance as `/proc/PID/fdinfo` shows them.
    pub(crate) fn shown_watches(&self, n: usize) -> String {
        let line = |(number, watch): (&i32, &Watch)| {
            let (ino, mask) = (self.inodes[watch.inode.0].number, watch.mask);
            let device = self.inodes[watch.inode.0].device;
            format!("inotify wd:{number:x} ino:{ino:x} sdev:{device:x} mask:{mask:x} ignored_mask:0\n")
        };
        self.inotifies[n].watches.iter().map(line).collect()
    }

    /// Watches a file, or changes what is watched of it; gives the watch's number.
    pub(crate) fn add_watch(&mut self, n: usize, inode: InodeKey, mask: u32) -> Result<i32, Errno> {
        if mask & c::IN_ONLYDIR != 0 && !self.inode(inode).node.is_directory() {
            return Err(Errno::ENOTDIR);
        }
        let kept = mask & (c::IN_ALL_EVENTS | c::IN_ONESHOT | c::IN_EXCL_UNLINK);
        let instance = &mut self.inotifies[n];
        let existing = instance.watches.iter_mut().find(|(_, watch)| watch.inode == inode);
        if let Some((number, watch)) = existing {
            if mask & c::IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            watch.mask = if mask & c::IN_MASK_ADD != 0 { watch.mask | kept } else { kept };
            return Ok(*number);
        }
        instance.last_watch += 1;
        let number = instance.last_watch;
        instance.watches.insert(number, Watch { inode, mask: kept });
        self.watched.entry(inode).or_default().push((n, number));
        Ok(number)
    }
}

impl Host {
    /// A new instance as an open file.
    pub(crate) fn create_inotify(&mut self, flags: i32) -> FileKey {
        let queue = self.waits.create();
        let instance = Inotify { queue, watches: Map::new(), last_watch: 0, events: VecDeque::new() };
        let n = self.files.inotifies.insert(instance);
        self.files.open_file(FileKind::Inotify(n), c::O_RDONLY | flags)
    }

    /// `inotify_rm_watch(2)`. `EINVAL` if there is no such watch.
    pub(crate) fn remove_watch(&mut self, n: usize, number: i32) -> Result<(), Errno> {
        let instance = &mut self.files.inotifies[n];
        let watch = instance.watches.remove(&number).ok_or(Errno::EINVAL)?;
        instance.push(Event { watch: number, mask: c::IN_IGNORED, cookie: 0, name: Vec::new() });
        let queue = instance.queue;
        if let Some(watchers) = self.files.watched.get_mut(&watch.inode) {
            watchers.retain(|watcher| *watcher != (n, number));
            if watchers.is_empty() {
                self.files.watched.remove(&watch.inode);
            }
        }
        self.notify_events(queue, READABLE);
        Ok(())
    }

    /// The last open file of an instance is closed.
    pub(super) fn close_inotify(&mut self, n: usize) {
        let gone = self.files.inotifies.remove(n);
        self.waits.destroy(gone.queue);
        self.files.watched.retain(|_, watchers| {
            watchers.retain(|(instance, _)| *instance != n);
            !watchers.is_empty()
        });
    }

    /// Something has happened to a file: its directory learns it with the file's name, then those
    /// who watch the file itself.
    pub(crate) fn file_event(&mut self, inode: InodeKey, mask: u32) {
        if self.files.watched.is_empty() {
            return;
        }
        let Some(found) = self.files.inodes.get(inode.0) else { return };
        let entry = found.links.first().cloned();
        let former = found.former_entry.clone();
        let unlinked = entry.is_none();
        let entry = entry.or_else(|| former.and_then(|former| self.files.present(former)));
        self.tell_both(entry, unlinked, inode, mask);
    }

    /// The same for what is done by an open file.
    pub(crate) fn open_file_event(&mut self, file: FileKey, inode: InodeKey, mask: u32) {
        if !self.files.watched.is_empty() {
            let unnamed = self.files.open(file).unnamed.clone();
            self.file_event_under(unnamed, inode, mask);
        }
    }

    /// The same by the entry of [`OpenFile::unnamed`](super::OpenFile::unnamed).
    pub(super) fn file_event_under(&mut self, unnamed: Option<FormerEntry>, inode: InodeKey, mask: u32) {
        match unnamed {
            None => self.file_event(inode, mask),
            Some(former) => {
                let entry = self.files.present(former);
                self.tell_both(entry, true, inode, mask);
            }
        }
    }

    /// Tells a file's directory, then the file itself. Of a file that has lost its name the directory hears where it has asked for
    /// that (no `IN_EXCL_UNLINK`).
    fn tell_both(
        &mut self,
        entry: Option<(InodeKey, Box<[u8]>)>,
        unlinked: bool,
        inode: InodeKey,
        mask: u32,
    ) {
        let directory = self.files.inode(inode).node.is_directory();
        let mask = if directory { mask | c::IN_ISDIR } else { mask };
        if let Some((parent, name)) = entry {
            let deaf = if unlinked { c::IN_EXCL_UNLINK } else { 0 };
            self.tell_watchers_but(deaf, parent, mask, 0, &name);
        }
        self.tell_watchers(inode, mask, 0, b"");
    }

    /// Something has happened to the file itself that its directory does not learn.
    pub(crate) fn self_event(&mut self, inode: InodeKey, mask: u32) {
        if !self.files.watched.is_empty() {
            self.tell_watchers(inode, mask, 0, b"");
        }
    }

    /// A name in a directory has come or gone, that of another directory if `is_directory`.
    pub(crate) fn name_event(
        &mut self,
        directory: InodeKey,
        name: &[u8],
        is_directory: bool,
        mask: u32,
        cookie: u32,
    ) {
        if self.files.watched.is_empty() {
            return;
        }
        let kind = if is_directory { c::IN_ISDIR } else { 0 };
        self.tell_watchers(directory, mask | kind, cookie, name);
    }

    /// An inode goes: its watches go with it.
    pub(crate) fn forget_watches(&mut self, inode: InodeKey) {
        self.end_watches(inode, c::IN_DELETE_SELF);
    }

    /// The file system of a file that may be watched has gone.
    pub(crate) fn unmounted_watches(&mut self, inode: InodeKey) {
        self.end_watches(inode, c::IN_UNMOUNT);
    }

    fn end_watches(&mut self, inode: InodeKey, why: u32) {
        if self.files.watched.is_empty() || !self.files.is_watched(inode) {
            return;
        }
        self.tell_watchers(inode, why, 0, b"");
        for (n, number) in self.files.watched.get(&inode).cloned().unwrap_or_default() {
            let _ = self.remove_watch(n, number);
        }
    }

    fn tell_watchers(&mut self, inode: InodeKey, mask: u32, cookie: u32, name: &[u8]) {
        self.tell_watchers_but(0, inode, mask, cookie, name);
    }

    /// Tells those who watch a file, but for watches with a flag of `deaf`.
    fn tell_watchers_but(&mut self, deaf: u32, inode: InodeKey, mask: u32, cookie: u32, name: &[u8]) {
        let Some(watchers) = self.files.watched.get(&inode) else { return };
        for (n, number) in watchers.clone() {
            let instance = &mut self.files.inotifies[n];
            let Some(watch) = instance.watches.get(&number).copied() else { continue };
            let asked = mask == c::IN_UNMOUNT || watch.mask & mask & c::IN_ALL_EVENTS != 0;
            if !asked || watch.mask & deaf != 0 {
                continue;
            }
            instance.push(Event { watch: number, mask, cookie, name: name.to_vec() });
            let queue = instance.queue;
            if watch.mask & c::IN_ONESHOT != 0 {
                let _ = self.remove_watch(n, number);
            }
            self.notify_events(queue, READABLE);
        }
    }
}

impl Call<'_> {
    /// `read(2)`: as many whole events as fit. `EINVAL` if not even the first one does.
    pub(crate) fn read_inotify(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let room = total_len(buffers) as usize;
        let instance = &mut self.host.files.inotifies[n];
        let mut data = Vec::new();
        while let Some(event) = instance.events.front() {
            if data.len() + event.len() > room {
                break;
            }
            event.put(&mut data);
            instance.events.pop_front();
        }
        if !data.is_empty() {
            self.scatter(buffers, &data)?;
            return done(data.len() as u64);
        }
        if !instance.events.is_empty() {
            return Err(Errno::EINVAL);
        }
        if nonblocking { Err(Errno::EAGAIN) } else { Block::on(instance.queue).into() }
    }
}
