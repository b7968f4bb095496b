//! File event notification: the counterpart of Linux's `fsnotify` for `inotify(7)`, `fanotify(7)` and
//! `F_NOTIFY` of `fcntl(2)`.
//!
//! A *group* is an instance of inotify or fanotify. A *mark* selects the events of a [`Subject`] for a group:
//! of an inode, of all files in a mount, or of all files in a file system. Directory notification has no
//! groups: a directory has a list of open files whose owners get a signal.
//!
//! Code that changes a file passes a [`Happening`] to [`Notify::tell`], or to [`Notify::ask`] before an
//! operation that a group may deny. Both return the effects for the caller to apply ([`NotifyEffect`]):
//! queues to wake, signals to send. Code that removes an inode calls [`Notify::end_inode`], code that removes
//! a mount or a file system [`Notify::end_subject`].
//!
//! An event is queued to groups in order of priority (pre-content, content, notification), then of age. A
//! group receives an event once however many of its marks match; only inotify, whose marks are numbered
//! watches, receives it for the directory and for the file.

mod directory;
pub mod fanotify;
mod inotify;
mod marks;
#[cfg(test)]
mod tests;

pub use directory::DN_MULTISHOT;
pub use marks::{MarkRequest, MarkedSubject};

use crate::ids::{FileIdentity, FileKey, InodeKey, WaitQueueId};
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use directory::DirectoryWatch;
use fanotify::{Fanotify, Permission, PermissionRequest};
use inotify::Inotify;
use marks::Mark;
use slab::Slab;
use std::cmp::Reverse;

/// `FAN_ONDIR`, equal to `IN_ISDIR`: the event is about a directory.
const ON_DIRECTORY: u64 = c::FAN_ONDIR;
/// Events about a directory entry rather than a file.
const OF_NAMES: u64 = c::FAN_CREATE | c::FAN_DELETE | c::FAN_MOVED_FROM | c::FAN_MOVED_TO | c::FAN_RENAME;

/// Subject of a mark: the object whose events a group receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A file, or a directory and optionally its files.
    Inode(InodeKey),
    /// All files reached through a mount, by its mount id.
    Mount(u32),
    /// All files of a file system, by device number.
    System(u64),
}

/// File of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifiedFile {
    /// Inode.
    pub inode: InodeKey,
    /// Device and inode number, as in file handles.
    pub identity: FileIdentity,
}

/// Directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifiedName {
    /// Directory.
    pub directory: NotifiedFile,
    /// Name.
    pub name: Box<[u8]>,
}

/// Event on a file or a directory entry.
#[derive(Clone, Debug)]
pub struct Happening {
    /// `IN_*` and `FAN_*` events, which have the same bits, and `FAN_ONDIR` if the file is a directory.
    pub mask: u64,
    /// File.
    pub file: NotifiedFile,
    /// Directory entry of the file, if its directory may be notified.
    pub entry: Option<NotifiedName>,
    /// New directory entry, for `FAN_RENAME`.
    pub moved: Option<NotifiedName>,
    /// Mount through which the file was reached, for an operation on an open file or path; 0 for a file in no
    /// mount.
    pub mount: Option<u32>,
    /// True if the file can be opened for a reader: a regular file or a directory.
    pub openable: bool,
    /// True if the entry has been unlinked.
    pub unlinked: bool,
    /// Cookie that connects both halves of a rename.
    pub cookie: u32,
    /// Process that caused the event.
    pub pid: i32,
    /// Thread that caused the event.
    pub tid: i32,
}

/// Role of a marked subject in a happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The file itself, or the directory in which an entry is added or removed.
    Itself,
    /// The target directory of a rename.
    NewDirectory,
    /// The directory of the file.
    Parent,
    Mount,
    System,
}

/// Effect to be applied by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyEffect {
    /// An event is available: wake the wait queue.
    Queued(WaitQueueId),
    /// An event of this group is available and reports an open file, which the caller passes to
    /// [`hold`](Notify::hold).
    QueuedFile(usize, WaitQueueId),
    /// Signal to the owner of an open file, for this descriptor.
    Signal(FileKey, i32),
}

/// Instance of inotify or fanotify.
#[derive(Debug)]
struct Group {
    /// Wait queue of the readers.
    queue: WaitQueueId,
    marks: Map<Subject, Mark>,
    /// Number of the newest mark; numbers start at 1 and are not reused.
    last_mark: i32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Inotify(Inotify),
    Fanotify(Fanotify),
}

/// Groups, marks and directory watches of a host.
#[derive(Debug, Default)]
pub struct Notify {
    groups: Slab<Group>,
    /// Groups with a mark on a subject, by subject.
    marked: Map<Subject, Vec<usize>>,
    /// Directory watches by inode, `F_NOTIFY`.
    directories: Map<InodeKey, Vec<DirectoryWatch>>,
    /// Pending permission requests.
    requests: Map<PermissionRequest, Permission>,
}

impl Happening {
    /// True if the event is about a directory entry.
    fn is_of_names(&self) -> bool {
        self.mask & OF_NAMES != 0
    }
    fn is_of_directory(&self) -> bool {
        self.mask & ON_DIRECTORY != 0
    }
    /// Subjects whose marks apply, with their roles.
    fn subjects(&self) -> impl Iterator<Item = (Part, Subject)> + use<> {
        let directory = self.entry.as_ref().map(|entry| entry.directory);
        let (itself, parent) =
            if self.is_of_names() { (directory, None) } else { (Some(self.file), directory) };
        let new = self.moved.as_ref().map(|moved| moved.directory.inode);
        let device = itself.map(|file| file.identity.0);
        let inode = |part| move |inode| (part, Subject::Inode(inode));
        [
            itself.map(|file| file.inode).map(inode(Part::Itself)),
            new.map(inode(Part::NewDirectory)),
            parent.map(|file| file.inode).map(inode(Part::Parent)),
            self.mount.map(|mount| (Part::Mount, Subject::Mount(mount))),
            device.map(|device| (Part::System, Subject::System(device))),
        ]
        .into_iter()
        .flatten()
    }
}

impl Group {
    fn priority(&self) -> u8 {
        match &self.kind {
            Kind::Inotify(_) => 0,
            Kind::Fanotify(group) => group.priority(),
        }
    }
}

impl Notify {
    /// True if there are no marks and no directory watches.
    pub fn is_idle(&self) -> bool {
        self.marked.is_empty() && self.directories.is_empty()
    }
    /// True if a group may deny operations, or an answer has not been collected.
    pub fn may_forbid(&self) -> bool {
        !self.requests.is_empty() || self.groups.iter().any(|(_, group)| group.priority() > 0)
    }
    /// Drops the permission requests of a thread that has exited.
    pub fn forget_thread(&mut self, tid: i32) {
        self.requests.retain(|(of, ..), _| *of != tid);
    }
    /// True if a file has a mark or a directory watch.
    pub fn is_marked(&self, inode: InodeKey) -> bool {
        self.marked.contains_key(&Subject::Inode(inode)) || self.directories.contains_key(&inode)
    }
    fn add_group(&mut self, queue: WaitQueueId, kind: Kind) -> usize {
        self.groups.insert(Group { queue, marks: Map::new(), last_mark: 0, kind })
    }
    /// Wait queue of a group's readers.
    pub fn queue(&self, group: usize) -> WaitQueueId {
        self.groups[group].queue
    }
    /// True if a group has unread events.
    pub fn has_events(&self, group: usize) -> bool {
        match &self.groups[group].kind {
            Kind::Inotify(group) => group.has_events(),
            Kind::Fanotify(group) => group.has_events(),
        }
    }
    /// Value of `FIONREAD` for a group, in bytes.
    pub fn queued_bytes(&self, group: usize) -> usize {
        match &self.groups[group].kind {
            Kind::Inotify(group) => group.queued_bytes(),
            Kind::Fanotify(group) => group.queued_bytes(),
        }
    }
    /// True if a group belongs to fanotify.
    pub fn is_fanotify(&self, group: usize) -> bool {
        matches!(self.groups[group].kind, Kind::Fanotify(_))
    }
    /// Marks of a group for `/proc/PID/fdinfo`, newest first; `identity` maps inodes to file identities.
    pub fn shown_marks(&self, group: usize, identity: impl Fn(InodeKey) -> FileIdentity) -> String {
        let Group { marks, kind, .. } = &self.groups[group];
        let mut marks: Vec<(&Subject, &Mark)> = marks.iter().collect();
        marks.sort_by_key(|(_, mark)| Reverse(mark.number));
        let head = if let Kind::Fanotify(group) = kind { group.shown() } else { String::new() };
        marks.into_iter().fold(head, |text, (subject, mark)| text + &mark.shown(*subject, kind, &identity))
    }

    /// Queues a happening to all groups and directory watches that select it.
    pub fn tell(&mut self, happening: &Happening) -> Vec<NotifyEffect> {
        let mut effects = Vec::new();
        for group in self.concerned(happening) {
            if happening.mask & c::FAN_MODIFY != 0 {
                self.end_ignoring(group, happening);
            }
            match self.groups[group].kind {
                Kind::Inotify(_) => self.tell_inotify(group, happening, &mut effects),
                Kind::Fanotify(_) => {
                    self.tell_fanotify(group, happening, None, &mut effects);
                }
            }
        }
        self.tell_directories(happening, &mut effects);
        effects
    }
    /// Groups with a mark on a subject of the happening, in order of notification.
    fn concerned(&self, happening: &Happening) -> Vec<usize> {
        let marked = happening.subjects().filter_map(|(_, subject)| self.marked.get(&subject));
        let mut groups: Vec<usize> = marked.flatten().copied().collect();
        groups.sort_by_key(|group| (Reverse(self.groups[*group].priority()), *group));
        groups.dedup();
        groups
    }

    /// Closes a group; returns the open files held by its events.
    pub fn close(&mut self, group: usize) -> Vec<FileKey> {
        let closed = self.groups.remove(group);
        self.marked.retain(|_, groups| {
            groups.retain(|of| *of != group);
            !groups.is_empty()
        });
        match closed.kind {
            Kind::Inotify(_) => Vec::new(),
            Kind::Fanotify(closed) => {
                self.allow_all(group);
                closed.held_files()
            }
        }
    }

    /// Reports the removal of a file and drops its marks: `IN_DELETE_SELF`, or `IN_UNMOUNT`, which only
    /// inotify reports.
    pub fn end_inode(&mut self, happening: &Happening) -> Vec<NotifyEffect> {
        let mut effects = self.tell(happening);
        let inode = happening.file.inode;
        for group in self.marked.get(&Subject::Inode(inode)).cloned().unwrap_or_default() {
            match self.groups[group].kind {
                Kind::Inotify(_) => effects.extend(self.end_watch(group, Subject::Inode(inode))),
                Kind::Fanotify(_) => self.drop_mark(group, Subject::Inode(inode)),
            }
        }
        self.directories.remove(&inode);
        effects
    }
    /// Drops the marks on a mount or a file system that is removed.
    pub fn end_subject(&mut self, subject: Subject) {
        for group in self.marked.get(&subject).cloned().unwrap_or_default() {
            self.drop_mark(group, subject);
        }
    }

    fn set_mark(&mut self, group: usize, subject: Subject, mark: Mark) {
        if self.groups[group].marks.insert(subject, mark).is_none() {
            self.marked.entry(subject).or_default().push(group);
        }
    }
    fn drop_mark(&mut self, group: usize, subject: Subject) {
        self.groups[group].marks.remove(&subject);
        if let Some(groups) = self.marked.get_mut(&subject) {
            groups.retain(|of| *of != group);
            if groups.is_empty() {
                self.marked.remove(&subject);
            }
        }
    }
    /// Clears the ignore masks after a modification of the file, except those that survive it.
    fn end_ignoring(&mut self, group: usize, happening: &Happening) {
        for (part, subject) in happening.subjects() {
            let Some(mark) = self.groups[group].marks.get_mut(&subject) else { continue };
            if !mark.survives_modify && (part != Part::Parent || mark.watches_children()) {
                mark.ignored = 0;
            }
        }
    }
    fn fanotify(&self, group: usize) -> Result<&Fanotify, Errno> {
        match self.groups.get(group).map(|group| &group.kind) {
            Some(Kind::Fanotify(group)) => Ok(group),
            _ => Err(Errno::EINVAL),
        }
    }
    fn fanotify_mut(&mut self, group: usize) -> Result<&mut Fanotify, Errno> {
        match self.groups.get_mut(group).map(|group| &mut group.kind) {
            Some(Kind::Fanotify(group)) => Ok(group),
            _ => Err(Errno::EINVAL),
        }
    }
}
