//! Notification of file events: what `fsnotify` of Linux is to `inotify(7)`, `fanotify(7)` and `F_NOTIFY` of `fcntl(2)`.
//!
//! A *group* is an instance of inotify or fanotify. A *mark* of a group says which events of a [`Subject`] it wants: of an
//! inode, of everything in a mount, of everything in a file system. Directory notification has no groups: a
//! directory has a list of open files whose owners get a signal.
//!
//! Whoever does something to a file makes a [`Happening`] of it and calls [`Notify::tell`], or [`Notify::ask`] before
//! something that a group may forbid. Both answer with what is to be done outside ([`NotifyEffect`]): queues to wake,
//! signals to send. Whoever removes an inode calls [`Notify::end_inode`], whoever ends a mount or a file system
//! [`Notify::end_subject`].
//!
//! An event is told to groups by priority (pre-content, content, the others), among equals to the oldest group first. A
//! group hears of an event once, whatever marks of it match; inotify alone, whose marks are watches with
//! numbers, hears of it for the directory and for the file.

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

/// `FAN_ONDIR`, which is `IN_ISDIR` too: the event is about a directory.
const ON_DIRECTORY: u64 = c::FAN_ONDIR;
/// Events of a name in a directory rather than of a file.
const OF_NAMES: u64 = c::FAN_CREATE | c::FAN_DELETE | c::FAN_MOVED_FROM | c::FAN_MOVED_TO | c::FAN_RENAME;

/// Subject of a mark: the object whose events a group wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A file, or a directory and with it perhaps its files.
    Inode(InodeKey),
    /// All that is reached by a mount, by its number in `mountinfo`.
    Mount(u32),
    /// All files of a file system, by its device.
    System(u64),
}

/// A file as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifiedFile {
    /// The inode.
    pub inode: InodeKey,
    /// Its identity, which file handles have.
    pub identity: FileIdentity,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifiedName {
    /// The directory.
    pub directory: NotifiedFile,
    /// The name.
    pub name: Box<[u8]>,
}

/// Something that happens to a file or to a name.
#[derive(Clone, Debug)]
pub struct Happening {
    /// `IN_*` and `FAN_*`, which are the same bits, with `FAN_ONDIR` if the file is a directory.
    pub mask: u64,
    /// The file.
    pub file: NotifiedFile,
    /// Its directory and its name there, if the directory may hear of it.
    pub entry: Option<NotifiedName>,
    /// The new directory and name, for `FAN_RENAME`.
    pub moved: Option<NotifiedName>,
    /// The mount by which the file was reached, for what was done by an open file or a path; 0 for one that is in none.
    pub mount: Option<u32>,
    /// True if the file can be opened for whoever hears of it: a regular file or a directory.
    pub openable: bool,
    /// True if the file has lost the name that `entry` says.
    pub unlinked: bool,
    /// The number that ties both halves of a rename together.
    pub cookie: u32,
    /// The process that does it.
    pub pid: i32,
    /// The thread that does it.
    pub tid: i32,
}

/// The part that a marked subject has in a happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The file itself, or the directory that a name comes into or goes from.
    Itself,
    /// The directory that a name is moved to.
    NewDirectory,
    /// The directory of the file that it happens to.
    Parent,
    Mount,
    System,
}

/// What is to be done for groups that have been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyEffect {
    /// Those who wait in the queue can go on: there is an event.
    Queued(WaitQueueId),
    /// The same, and the last event of this group is to be opened by its reader: it needs an open file to
    /// [hold](Notify::hold).
    QueuedFile(usize, WaitQueueId),
    /// The owner of an open file is to be told by a signal that names this descriptor.
    Signal(FileKey, i32),
}

/// An instance of inotify or fanotify.
#[derive(Debug)]
struct Group {
    /// Those who wait for events.
    queue: WaitQueueId,
    marks: Map<Subject, Mark>,
    /// The number of the last mark: they count from 1 and never come again.
    last_mark: i32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Inotify(Inotify),
    Fanotify(Fanotify),
}

/// Everything that wants to hear of file events.
#[derive(Debug, Default)]
pub struct Notify {
    groups: Slab<Group>,
    /// The groups with a mark on a subject.
    marked: Map<Subject, Vec<usize>>,
    /// Open directories that `F_NOTIFY` was asked for, by inode.
    directories: Map<InodeKey, Vec<DirectoryWatch>>,
    /// What somebody waits to be allowed.
    requests: Map<PermissionRequest, Permission>,
}

impl Happening {
    /// True if it is about a name.
    fn is_of_names(&self) -> bool {
        self.mask & OF_NAMES != 0
    }
    fn is_of_directory(&self) -> bool {
        self.mask & ON_DIRECTORY != 0
    }
    /// The subjects whose marks count, each with its part.
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
    /// True if nobody wants to hear anything.
    pub fn is_idle(&self) -> bool {
        self.marked.is_empty() && self.directories.is_empty()
    }
    /// True if a group may forbid something, or somebody has still to hear what one has answered.
    pub fn may_forbid(&self) -> bool {
        !self.requests.is_empty() || self.groups.iter().any(|(_, group)| group.priority() > 0)
    }
    /// A thread has ended: nobody waits for what it has asked.
    pub fn forget_thread(&mut self, tid: i32) {
        self.requests.retain(|(of, ..), _| *of != tid);
    }
    /// True if a group or a directory's watcher has marked a file.
    pub fn is_marked(&self, inode: InodeKey) -> bool {
        self.marked.contains_key(&Subject::Inode(inode)) || self.directories.contains_key(&inode)
    }
    fn add_group(&mut self, queue: WaitQueueId, kind: Kind) -> usize {
        self.groups.insert(Group { queue, marks: Map::new(), last_mark: 0, kind })
    }
    /// The queue of those who wait for a group's events.
    pub fn queue(&self, group: usize) -> WaitQueueId {
        self.groups[group].queue
    }
    /// True if a group has events.
    pub fn has_events(&self, group: usize) -> bool {
        match &self.groups[group].kind {
            Kind::Inotify(group) => group.has_events(),
            Kind::Fanotify(group) => group.has_events(),
        }
    }
    /// The number that `FIONREAD` tells of a group.
    pub fn queued_bytes(&self, group: usize) -> usize {
        match &self.groups[group].kind {
            Kind::Inotify(group) => group.queued_bytes(),
            Kind::Fanotify(group) => group.queued_bytes(),
        }
    }
    /// True if a group is one of fanotify.
    pub fn is_fanotify(&self, group: usize) -> bool {
        matches!(self.groups[group].kind, Kind::Fanotify(_))
    }
    /// The marks of a group as `/proc/PID/fdinfo` shows them, the newest first; `identity` knows files.
    pub fn shown_marks(&self, group: usize, identity: impl Fn(InodeKey) -> FileIdentity) -> String {
        let Group { marks, kind, .. } = &self.groups[group];
        let mut marks: Vec<(&Subject, &Mark)> = marks.iter().collect();
        marks.sort_by_key(|(_, mark)| Reverse(mark.number));
        let head = if let Kind::Fanotify(group) = kind { group.shown() } else { String::new() };
        marks.into_iter().fold(head, |text, (subject, mark)| text + &mark.shown(*subject, kind, &identity))
    }

    /// Tells everybody who wants to hear of a happening.
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
    /// The groups with a mark on something that has a part in a happening, in the order in which they are told.
    fn concerned(&self, happening: &Happening) -> Vec<usize> {
        let marked = happening.subjects().filter_map(|(_, subject)| self.marked.get(&subject));
        let mut groups: Vec<usize> = marked.flatten().copied().collect();
        groups.sort_by_key(|group| (Reverse(self.groups[*group].priority()), *group));
        groups.dedup();
        groups
    }

    /// A group is closed; the open files that its events held.
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

    /// A file has gone, and its marks with it: for `IN_DELETE_SELF`, or for `IN_UNMOUNT`, of which inotify alone hears.
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
    /// A mount or a file system has gone, and its marks with it.
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
    /// A file has been changed: marks ignore its events no longer, unless they were made to.
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
