//! Groups of `fanotify(7)`: events reported with an open file or with file handles, merged while unread, and
//! permission requests.
//!
//! A permission request is an event in the queue of a group. The requesting thread waits and calls
//! [`Notify::ask`] again when the group has answered, until all groups have. A group that is closed, or whose
//! queue is full, allows everything.

use super::marks::{EVENT_FLAGS, applies};
use super::{Happening, Kind, Notify, NotifyEffect, OF_NAMES, ON_DIRECTORY, Part};
use crate::ids::FileIdentity;
use crate::ids::{FileKey, InodeKey, WaitQueueId};
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// Events that can be reported with an open file.
pub(super) const FOR_PATHS: u64 = c::FAN_ACCESS
    | c::FAN_MODIFY
    | c::FAN_CLOSE_WRITE
    | c::FAN_CLOSE_NOWRITE
    | c::FAN_OPEN
    | c::FAN_OPEN_EXEC;
/// Permission events.
pub(super) const PERMISSIONS: u64 = c::FAN_OPEN_PERM | c::FAN_ACCESS_PERM | c::FAN_OPEN_EXEC_PERM;
/// Flags of groups that report file handles instead of open files.
pub(super) const FILE_HANDLES: u32 =
    c::FAN_REPORT_FID | c::FAN_REPORT_DIR_FID | c::FAN_REPORT_NAME | c::FAN_REPORT_TARGET_FID;
const CLASSES: u32 = c::FAN_CLASS_CONTENT | c::FAN_CLASS_PRE_CONTENT;
/// Flags available to unprivileged users, and flags that need `CAP_SYS_ADMIN`.
const FOR_ALL: u32 = FILE_HANDLES | c::FAN_CLOEXEC | c::FAN_NONBLOCK;
const FOR_ROOT: u32 =
    CLASSES | c::FAN_REPORT_TID | c::FAN_REPORT_PIDFD | c::FAN_UNLIMITED_QUEUE | c::FAN_UNLIMITED_MARKS;
/// Allowed flags of the files opened for readers.
const FILE_FLAGS: i32 =
    c::O_ACCMODE | c::O_APPEND | c::O_NONBLOCK | c::O_SYNC | c::O_CLOEXEC | LARGE_FILE | c::O_NOATIME;
/// `O_LARGEFILE` of the kernel; the C library defines it as 0.
const LARGE_FILE: i32 = 0o100000;

/// Size of `struct fanotify_event_metadata` in bytes, and its version.
pub const METADATA: usize = 24;
const VERSION: u8 = 3;
/// Sizes in bytes of a file handle record without handle and name, of a handle, and of a pidfd record.
const HANDLE_RECORD: usize = 20;
const HANDLE: usize = 8;
const PIDFD_RECORD: usize = 8;

/// Permission request: thread id, inode and permission event.
pub type PermissionRequest = (i32, InodeKey, u64);

/// Pending permission request.
#[derive(Clone, Debug)]
pub(super) struct Permission {
    /// Group being asked.
    group: usize,
    answer: Option<bool>,
    /// Groups that have allowed it.
    passed: Vec<usize>,
}

/// Progress of an `execve(2)` through its permission requests and notifications, counted in steps for each
/// file it opens.
#[derive(Debug, Default)]
pub struct ExecPermission {
    /// Steps completed before the call blocked.
    pub before: u64,
    /// Steps reached in this attempt.
    pub steps: u64,
    /// Wait queue of the last step, if it must wait.
    pub waits: Option<WaitQueueId>,
}

impl ExecPermission {
    /// Counts a step; true if it has not been done yet.
    pub fn is_next(&mut self) -> bool {
        self.steps += 1;
        self.steps > self.before
    }
}

/// Limits of a group.
#[derive(Clone, Copy, Debug)]
pub struct FanotifyLimits {
    /// Maximum number of queued events.
    pub events: usize,
    /// Maximum number of groups of a user.
    pub groups: usize,
}

/// Fanotify group.
#[derive(Debug)]
pub struct Fanotify {
    flags: u32,
    file_flags: i32,
    /// User that created the group, and true if it lacked `CAP_SYS_ADMIN`.
    user: u32,
    unprivileged: bool,
    limit: usize,
    /// Wait queue of the threads that wait for the group's permission.
    permission_queue: WaitQueueId,
    events: VecDeque<FanotifyEvent>,
    /// Number of events removed from the queue.
    taken: u64,
    /// Events available for merging, by absolute index: `taken` plus the index in the queue.
    merging: Map<MergeKey, u64>,
    /// Permission events read but not answered, by the descriptor passed with each.
    asked: Vec<(i32, PermissionRequest)>,
}

/// Unread event.
#[derive(Clone, Debug)]
pub struct FanotifyEvent {
    mask: u64,
    pid: i32,
    about: About,
    /// Permission request to answer.
    request: Option<PermissionRequest>,
    /// Open file, held for the reader.
    file: Option<FileKey>,
}

/// Object of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    /// Queue overflow: events were lost.
    Overflow,
    /// File to be opened for the reader, by inode and mount.
    Path(InodeKey, u32),
    /// Files identified by handles.
    Handles {
        directory: Option<FileIdentity>,
        name: Option<Box<[u8]>>,
        moved: Option<(FileIdentity, Box<[u8]>)>,
        object: Option<FileIdentity>,
    },
}

/// Merge key: events of the same object, thread or process, and distinguishing flags are merged.
type MergeKey = (About, i32, u64);

/// Descriptors reported with an event.
#[derive(Clone, Copy, Debug)]
pub struct EventDescriptors {
    /// Descriptor of the file, or `FAN_NOFD`.
    pub file: i32,
    /// Pidfd of the process, or `FAN_NOPIDFD`.
    pub process: i32,
}

impl FanotifyEvent {
    /// Id of the process or thread that caused the event; 0 for an overflow.
    pub fn pid(&self) -> i32 {
        self.pid
    }
    /// File to be reopened for the reader.
    pub fn file(&self) -> Option<FileKey> {
        self.file
    }
    /// Thread that waits for the answer.
    pub fn waiter(&self) -> Option<i32> {
        self.request.map(|(tid, ..)| tid)
    }
    /// File handle records: type, file and name.
    fn records(&self, flags: u32) -> Vec<(u8, FileIdentity, &[u8])> {
        let About::Handles { directory, name, moved, object } = &self.about else { return Vec::new() };
        let mut records = Vec::new();
        if let Some(directory) = directory {
            let kind = match name {
                _ if self.mask & c::FAN_RENAME != 0 => c::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME,
                Some(_) => c::FAN_EVENT_INFO_TYPE_DFID_NAME,
                None => c::FAN_EVENT_INFO_TYPE_DFID,
            };
            records.push((kind, *directory, name.as_deref().unwrap_or_default()));
        }
        if let Some((directory, name)) = moved {
            records.push((c::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME, *directory, &name[..]));
        }
        if let Some(object) = object {
            let (kind, name) = if flags & FILE_HANDLES == c::FAN_REPORT_FID || !records.is_empty() {
                (c::FAN_EVENT_INFO_TYPE_FID, &b""[..])
            } else if flags & c::FAN_REPORT_NAME != 0 && self.mask & ON_DIRECTORY != 0 {
                (c::FAN_EVENT_INFO_TYPE_DFID_NAME, &b"."[..])
            } else if self.mask & (OF_NAMES | ON_DIRECTORY) != 0 {
                (c::FAN_EVENT_INFO_TYPE_DFID, &b""[..])
            } else {
                (c::FAN_EVENT_INFO_TYPE_FID, &b""[..])
            };
            records.push((kind, *object, name));
        }
        records
    }
    fn len(&self, flags: u32) -> usize {
        let records = self.records(flags).into_iter().map(|(_, _, name)| record_len(name)).sum::<usize>();
        METADATA + records + if flags & c::FAN_REPORT_PIDFD != 0 { PIDFD_RECORD } else { 0 }
    }
    fn merge_key(&self) -> MergeKey {
        (self.about.clone(), self.pid, self.mask & (ON_DIRECTORY | c::FAN_RENAME))
    }
    fn is_merged(&self) -> bool {
        self.mask & PERMISSIONS == 0 && self.about != About::Overflow
    }
}

/// Length in bytes of a file handle record with a name.
fn record_len(name: &[u8]) -> usize {
    let name = if name.is_empty() { 0 } else { name.len() + 1 };
    (HANDLE_RECORD + HANDLE + name).next_multiple_of(4)
}

impl Fanotify {
    pub(super) fn flags(&self) -> u32 {
        self.flags
    }
    pub(super) fn is_unprivileged(&self) -> bool {
        self.unprivileged
    }
    pub(super) fn priority(&self) -> u8 {
        match self.flags & CLASSES {
            c::FAN_CLASS_PRE_CONTENT => 2,
            c::FAN_CLASS_CONTENT => 1,
            _ => 0,
        }
    }
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
    pub(super) fn queued_bytes(&self) -> usize {
        self.events.len() * METADATA
    }
    /// First line of the group's `/proc/PID/fdinfo`.
    pub(super) fn shown(&self) -> String {
        format!("fanotify flags:{:x} event-flags:{:x}\n", self.flags, self.file_flags)
    }
    pub(super) fn held_files(self) -> Vec<FileKey> {
        self.events.into_iter().filter_map(|event| event.file).collect()
    }
    /// Queues an event; false if it was merged or lost.
    fn push(&mut self, event: FanotifyEvent) -> bool {
        if self.events.len() >= self.limit {
            if self.events.len() == self.limit {
                let (mask, about) = (c::FAN_Q_OVERFLOW, About::Overflow);
                self.events.push_back(FanotifyEvent { mask, pid: 0, about, request: None, file: None });
            }
            return false;
        }
        if event.is_merged() {
            let place = self.taken + self.events.len() as u64;
            let at = *self.merging.entry(event.merge_key()).or_insert(place);
            if at != place {
                self.events[(at - self.taken) as usize].mask |= event.mask;
                return false;
            }
        }
        self.events.push_back(event);
        true
    }
}

impl Notify {
    /// Checks the arguments of `fanotify_init(2)`: `EPERM`, `EINVAL`, or `EMFILE` if the user has too many
    /// groups.
    pub fn check_fanotify(
        &self,
        flags: u32,
        file_flags: i32,
        (user, privileged): (u32, bool),
        limits: FanotifyLimits,
    ) -> Result<(), Errno> {
        if !privileged && (flags & FOR_ROOT != 0 || flags & FILE_HANDLES == 0) {
            return Err(Errno::EPERM);
        }
        let handles = flags & FILE_HANDLES;
        let without_directory = handles & c::FAN_REPORT_NAME != 0 && handles & c::FAN_REPORT_DIR_FID == 0;
        let for_targets = c::FAN_REPORT_NAME | c::FAN_REPORT_FID;
        let without_name = handles & c::FAN_REPORT_TARGET_FID != 0 && handles & for_targets != for_targets;
        if flags & !(FOR_ALL | FOR_ROOT | c::FAN_ENABLE_AUDIT) != 0
            || flags & c::FAN_REPORT_PIDFD != 0 && flags & c::FAN_REPORT_TID != 0
            || file_flags & !FILE_FLAGS != 0
            || file_flags & c::O_ACCMODE == c::O_ACCMODE
            || handles != 0 && flags & CLASSES != 0
            || without_directory
            || without_name
            || flags & CLASSES == CLASSES
        {
            return Err(Errno::EINVAL);
        }
        let own = self
            .groups
            .iter()
            .filter(|(_, group)| matches!(&group.kind, Kind::Fanotify(group) if group.user == user));
        if own.count() >= limits.groups { Err(Errno::EMFILE) } else { Ok(()) }
    }
    /// Creates a group with checked arguments; the first queue is for readers, the second for permission
    /// requests.
    pub fn add_fanotify(
        &mut self,
        flags: u32,
        file_flags: i32,
        (user, privileged): (u32, bool),
        limits: FanotifyLimits,
        (queue, permission_queue): (WaitQueueId, WaitQueueId),
    ) -> usize {
        let limit = if flags & c::FAN_UNLIMITED_QUEUE != 0 { usize::MAX } else { limits.events };
        self.add_group(
            queue,
            Kind::Fanotify(Fanotify {
                flags,
                file_flags: file_flags | LARGE_FILE,
                user,
                unprivileged: !privileged,
                limit,
                permission_queue,
                events: VecDeque::new(),
                taken: 0,
                merging: Map::new(),
                asked: Vec::new(),
            }),
        )
    }
    /// Number of marks that can still be added to a group under the user's limit.
    pub fn marks_left(&self, group: usize, limit: usize) -> Result<usize, Errno> {
        let (group, mut used) = (self.fanotify(group)?, 0);
        if group.flags & c::FAN_UNLIMITED_MARKS != 0 {
            return Ok(usize::MAX);
        }
        for (_, other) in &self.groups {
            if let Kind::Fanotify(of) = &other.kind
                && of.user == group.user
                && of.flags & c::FAN_UNLIMITED_MARKS == 0
            {
                used += other.marks.len();
            }
        }
        Ok(limit.saturating_sub(used))
    }
    /// Wait queue of a group's permission requests.
    pub fn permission_queue(&self, group: usize) -> Option<WaitQueueId> {
        self.fanotify(group).ok().map(|group| group.permission_queue)
    }
    /// Flags of the files opened for a group's readers, and true if a pidfd is reported too.
    pub fn file_flags(&self, group: usize) -> Result<(i32, bool), Errno> {
        let group = self.fanotify(group)?;
        Ok((group.file_flags, group.flags & c::FAN_REPORT_PIDFD != 0))
    }

    /// Events of a happening that a group receives, and the roles of the subjects whose marks select them.
    fn wanted(&self, group: usize, happening: &Happening) -> (u64, Vec<Part>) {
        let (mut wanted, mut ignored, mut parts) = (0, 0, Vec::new());
        let Ok(fanotify) = self.fanotify(group) else { return (0, parts) };
        let (on_directory, handles) = (happening.is_of_directory(), fanotify.flags & FILE_HANDLES);
        let can_be_told = match handles {
            0 => happening.mount.is_some() && happening.openable,
            _ => handles & c::FAN_REPORT_FID != 0 || happening.entry.is_some() || on_directory,
        };
        if !can_be_told {
            return (0, parts);
        }
        for (part, subject) in happening.subjects() {
            let Some(mark) = self.groups[group].marks.get(&subject) else { continue };
            ignored |= mark.ignored_of(on_directory, part);
            if applies(mark.mask, on_directory, part) {
                wanted |= mark.mask;
                parts.push(part);
            }
        }
        let told = happening.mask & wanted & !ignored;
        match handles {
            _ if told & !EVENT_FLAGS == 0 => (0, parts),
            0 => (told & !EVENT_FLAGS, parts),
            _ => (told, parts),
        }
    }
    /// Queues a happening for a group; false if no new event was queued.
    pub(super) fn tell_fanotify(
        &mut self,
        n: usize,
        happening: &Happening,
        request: Option<PermissionRequest>,
        effects: &mut Vec<NotifyEffect>,
    ) -> bool {
        let (mask, parts) = self.wanted(n, happening);
        let queue = self.groups[n].queue;
        let Ok(group) = self.fanotify_mut(n) else { return false };
        if mask == 0 || (mask & PERMISSIONS != 0) != request.is_some() {
            return false;
        }
        let handles = group.flags & FILE_HANDLES;
        let about = match happening.mount.filter(|_| handles == 0) {
            Some(mount) => About::Path(happening.file.inode, mount),
            None => About::of(happening, mask, handles, &parts),
        };
        let pid = if group.flags & c::FAN_REPORT_TID != 0 { happening.tid } else { happening.pid };
        let before = group.events.len();
        let is_path = handles == 0;
        let queued = group.push(FanotifyEvent { mask, pid, about, request, file: None });
        if group.events.len() > before {
            let with_file = queued && is_path;
            effects.push(if with_file {
                NotifyEffect::QueuedFile(n, queue)
            } else {
                NotifyEffect::Queued(queue)
            });
        }
        queued
    }
    /// Attaches the reader's open file to the newest event of a group.
    pub fn hold(&mut self, group: usize, file: FileKey) {
        if let Some(event) = self.fanotify_mut(group).ok().and_then(|group| group.events.back_mut()) {
            event.file = Some(file);
        }
    }

    /// Asks the groups for permission one after the other. `EPERM` if one denies it; the wait queue while one
    /// has not answered.
    pub fn ask(
        &mut self,
        happening: &Happening,
        effects: &mut Vec<NotifyEffect>,
    ) -> Result<Option<WaitQueueId>, Errno> {
        let id = (happening.tid, happening.file.inode, happening.mask & PERMISSIONS);
        let mut passed = match self.requests.remove(&id) {
            None => Vec::new(),
            Some(Permission { answer: Some(false), .. }) => return Err(Errno::EPERM),
            Some(Permission { answer: Some(true), group, mut passed }) => {
                passed.push(group);
                passed
            }
            Some(waiting) => {
                let queue = self.permission_queue(waiting.group);
                self.requests.insert(id, waiting);
                return Ok(queue);
            }
        };
        for group in self.concerned(happening) {
            if !passed.contains(&group) && self.tell_fanotify(group, happening, Some(id), effects) {
                let passed = std::mem::take(&mut passed);
                self.requests.insert(id, Permission { group, answer: None, passed });
                return Ok(self.permission_queue(group));
            }
        }
        Ok(None)
    }
    /// Allows all requests pending at a group that is closed.
    pub(super) fn allow_all(&mut self, group: usize) {
        for request in self.requests.values_mut().filter(|request| request.group == group) {
            request.answer.get_or_insert(true);
        }
    }
    /// Answers the request of an event that could not be delivered to its reader.
    pub fn answer(&mut self, event: &FanotifyEvent, allows: bool) {
        if let Some(request) = event.request.and_then(|id| self.requests.get_mut(&id)) {
            request.answer = Some(allows);
        }
    }
    /// Handles a `struct fanotify_response` written by a reader. `ENOENT` if no event was reported with the
    /// descriptor, `EINVAL`.
    pub fn respond(&mut self, group: usize, fd: i32, response: u32) -> Result<(), Errno> {
        let group = self.fanotify_mut(group)?;
        let audits = group.flags & c::FAN_ENABLE_AUDIT != 0;
        let answer = response & !(c::FAN_AUDIT | c::FAN_INFO);
        if !matches!(answer, c::FAN_ALLOW | c::FAN_DENY)
            || response & c::FAN_INFO != 0
            || response & c::FAN_AUDIT != 0 && !audits
            || fd < 0
        {
            return Err(Errno::EINVAL);
        }
        let at = group.asked.iter().position(|(of, _)| *of == fd).ok_or(Errno::ENOENT)?;
        let (_, id) = group.asked.remove(at);
        if let Some(request) = self.requests.get_mut(&id) {
            request.answer = Some(answer == c::FAN_ALLOW);
        }
        Ok(())
    }

    /// Takes the next event; `None` if there is none, `EINVAL` if it does not fit into `room` bytes.
    pub fn take_event(&mut self, group: usize, room: usize) -> Result<Option<FanotifyEvent>, Errno> {
        let group = self.fanotify_mut(group)?;
        match group.events.front() {
            None => return Ok(None),
            Some(event) if event.len(group.flags) > room => return Err(Errno::EINVAL),
            Some(event) if event.is_merged() => {
                let key = event.merge_key();
                group.merging.remove(&key);
            }
            Some(_) => {}
        }
        group.taken += 1;
        Ok(group.events.pop_front())
    }
    /// Encodes an event for `reader`. A permission event can then be answered by its descriptor.
    pub fn told(
        &mut self,
        group: usize,
        event: &FanotifyEvent,
        (reader, pid): (i32, i32),
        descriptors: EventDescriptors,
    ) -> Result<Vec<u8>, Errno> {
        let group = self.fanotify_mut(group)?;
        if let Some(request) = event.request {
            group.asked.push((descriptors.file, request));
        }
        let hidden = group.unprivileged && event.pid != reader;
        let pid = if hidden { 0 } else { pid };
        let mut out = Vec::new();
        out.extend_from_slice(&(event.len(group.flags) as u32).to_le_bytes());
        out.extend_from_slice(&[VERSION, 0]);
        out.extend_from_slice(&(METADATA as u16).to_le_bytes());
        out.extend_from_slice(&event.mask.to_le_bytes());
        out.extend_from_slice(&descriptors.file.to_le_bytes());
        out.extend_from_slice(&pid.to_le_bytes());
        for (kind, (device, number), name) in event.records(group.flags) {
            let end = out.len() + record_len(name);
            out.extend_from_slice(&[kind, 0]);
            out.extend_from_slice(&(record_len(name) as u16).to_le_bytes());
            out.extend_from_slice(&device.to_le_bytes());
            out.extend_from_slice(&(HANDLE as u32).to_le_bytes());
            out.extend_from_slice(&1u32.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(name);
            out.resize(end, 0);
        }
        if group.flags & c::FAN_REPORT_PIDFD != 0 {
            out.extend_from_slice(&[c::FAN_EVENT_INFO_TYPE_PIDFD, 0]);
            out.extend_from_slice(&(PIDFD_RECORD as u16).to_le_bytes());
            out.extend_from_slice(&descriptors.process.to_le_bytes());
        }
        Ok(out)
    }
}

impl About {
    /// Files and names that a group with these flags reports for a happening.
    fn of(happening: &Happening, mask: u64, handles: u32, parts: &[Part]) -> About {
        let entry = happening.entry.as_ref();
        let is_of_names = mask & OF_NAMES != 0;
        let on_directory = happening.is_of_directory();
        let parent = entry.map(|entry| entry.directory.identity);
        let file = Some(happening.file.identity);
        let mut object = if is_of_names && handles & c::FAN_REPORT_TARGET_FID == 0 { parent } else { file };
        let of_directory = if !is_of_names && on_directory { file } else { parent };
        let (mut directory, mut name, mut moved) = (None, None, None);
        if handles & c::FAN_REPORT_DIR_FID != 0 && of_directory.is_some() {
            let with_child = match is_of_names {
                true => handles & c::FAN_REPORT_TARGET_FID != 0,
                false => handles & c::FAN_REPORT_FID != 0 && !on_directory,
            };
            let child = object.filter(|id| with_child && Some(*id) != of_directory);
            let with_name = handles & c::FAN_REPORT_NAME != 0 && (is_of_names || !on_directory);
            directory = of_directory;
            name = entry.filter(|_| with_name).map(|entry| entry.name.clone());
            if mask & c::FAN_RENAME != 0 {
                let wants = |part| parts.contains(&part) || parts.contains(&Part::System);
                if !wants(Part::Itself) {
                    (directory, name) = (None, None);
                }
                let new = happening.moved.as_ref().filter(|_| wants(Part::NewDirectory));
                moved = new.map(|new| (new.directory.identity, new.name.clone()));
            }
            object = child;
            if name.is_none() && moved.is_none() && child.is_none() {
                // A single record, whose type marks it as that of a directory.
                (directory, object) = (None, of_directory);
            }
        }
        About::Handles { directory, name, moved, object }
    }
}
