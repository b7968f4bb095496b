//! Instances of `inotify(7)`: watch descriptors and an event queue.

use super::{Group, Happening, Kind, Mark, Notify, NotifyEffect, Subject};
use crate::ids::{InodeKey, WaitQueueId};
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// `fs.inotify.max_queued_events`.
const MAX_QUEUED: usize = 16_384;
/// Size of `struct inotify_event` without its name, in bytes.
const HEADER: usize = 16;
/// Mask bits that an event can report.
const SHOWN: u32 = c::IN_ALL_EVENTS | c::IN_ISDIR | c::IN_UNMOUNT | c::IN_IGNORED | c::IN_Q_OVERFLOW;

/// Unread events of an instance.
#[derive(Debug, Default)]
pub struct Inotify {
    events: VecDeque<InotifyEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct InotifyEvent {
    watch: i32,
    mask: u32,
    cookie: u32,
    name: Box<[u8]>,
}

impl InotifyEvent {
    /// Encoded length in bytes; names are padded with zeros.
    fn len(&self) -> usize {
        HEADER + if self.name.is_empty() { 0 } else { (self.name.len() + 1).next_multiple_of(HEADER) }
    }
    fn put(&self, out: &mut Vec<u8>) {
        let padded = self.len() - HEADER;
        for word in [self.watch as u32, self.mask & SHOWN, self.cookie, padded as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.name);
        out.resize(out.len() + padded - self.name.len(), 0);
    }
}

impl Inotify {
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
    pub(super) fn queued_bytes(&self) -> usize {
        self.events.iter().map(InotifyEvent::len).sum()
    }
    /// Queues an event unless it equals the last one.
    fn push(&mut self, watch: i32, mask: u32, cookie: u32, name: &[u8]) {
        let event = InotifyEvent { watch, mask, cookie, name: name.into() };
        if self.events.back() == Some(&event) {
            return;
        }
        let overflow = InotifyEvent { watch: -1, mask: c::IN_Q_OVERFLOW, cookie: 0, name: Box::default() };
        match self.events.len() {
            0..MAX_QUEUED => self.events.push_back(event),
            MAX_QUEUED => self.events.push_back(overflow),
            _ => {}
        }
    }
}

impl Notify {
    /// Creates an instance; `queue` is the wait queue of its readers.
    pub fn add_inotify(&mut self, queue: WaitQueueId) -> usize {
        self.add_group(queue, Kind::Inotify(Inotify::default()))
    }
    /// Adds or changes the watch of a file; returns its watch descriptor.
    pub fn add_watch(
        &mut self,
        group: usize,
        inode: InodeKey,
        is_directory: bool,
        mask: u32,
    ) -> Result<i32, Errno> {
        if mask & c::IN_ONLYDIR != 0 && !is_directory {
            return Err(Errno::ENOTDIR);
        }
        let kept = u64::from(mask & (c::IN_ALL_EVENTS | c::IN_ONESHOT | c::IN_EXCL_UNLINK));
        let Group { marks, last_mark, .. } = &mut self.groups[group];
        if let Some(mark) = marks.get_mut(&Subject::Inode(inode)) {
            if mask & c::IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            mark.mask = if mask & c::IN_MASK_ADD != 0 { mark.mask | kept } else { kept };
            return Ok(mark.number);
        }
        *last_mark += 1;
        let number = *last_mark;
        self.set_mark(group, Subject::Inode(inode), Mark { mask: kept, number, ..Mark::default() });
        Ok(number)
    }
    /// `inotify_rm_watch(2)`. `EINVAL` if there is no such watch.
    pub fn remove_watch(&mut self, group: usize, number: i32) -> Result<NotifyEffect, Errno> {
        let mut marks = self.groups[group].marks.iter();
        let subject = *marks.find(|(_, mark)| mark.number == number).ok_or(Errno::EINVAL)?.0;
        self.end_watch(group, subject).ok_or(Errno::EINVAL)
    }
    /// Removes the watch of a subject and queues `IN_IGNORED`.
    pub(super) fn end_watch(&mut self, group: usize, subject: Subject) -> Option<NotifyEffect> {
        let Group { marks, kind: Kind::Inotify(instance), queue, .. } = &mut self.groups[group] else {
            return None;
        };
        let (number, queue) = (marks.get(&subject)?.number, *queue);
        instance.push(number, c::IN_IGNORED, 0, b"");
        self.drop_mark(group, subject);
        Some(NotifyEffect::Queued(queue))
    }

    /// Queues a happening for an instance: for the watch of the directory with the file's name, then for the
    /// watch of the file itself. Events of an unlinked file are reported to the directory unless it has
    /// `IN_EXCL_UNLINK`.
    pub(super) fn tell_inotify(
        &mut self,
        group: usize,
        happening: &Happening,
        effects: &mut Vec<NotifyEffect>,
    ) {
        let mut mask = happening.mask as u32;
        if mask & (c::IN_DELETE_SELF | c::IN_MOVE_SELF) != 0 {
            // Linux does not report `IN_ISDIR` with these events.
            mask &= !c::IN_ISDIR;
        }
        let itself = (!happening.is_of_names()).then_some((happening.file.inode, &b""[..], false));
        let entry = happening.entry.as_ref();
        let entry = entry.map(|entry| (entry.directory.inode, &entry.name[..], happening.unlinked));
        for (inode, name, deaf) in [entry, itself].into_iter().flatten() {
            let Group { marks, kind: Kind::Inotify(instance), queue, .. } = &mut self.groups[group] else {
                return;
            };
            let Some(mark) = marks.get(&Subject::Inode(inode)) else { continue };
            let wanted = mark.mask as u32;
            let asked = mask & c::IN_UNMOUNT != 0 || wanted & mask & c::IN_ALL_EVENTS != 0;
            if !asked || deaf && wanted & c::IN_EXCL_UNLINK != 0 {
                continue;
            }
            let number = mark.number;
            instance.push(number, mask, happening.cookie, name);
            effects.push(NotifyEffect::Queued(*queue));
            if wanted & c::IN_ONESHOT != 0 {
                self.end_watch(group, Subject::Inode(inode));
            }
        }
    }

    /// Takes the events that fit into `room` bytes, encoded; `None` if there are none. `EINVAL` if the first
    /// does not fit.
    pub fn take_inotify_events(&mut self, group: usize, room: usize) -> Result<Option<Vec<u8>>, Errno> {
        let Kind::Inotify(instance) = &mut self.groups[group].kind else { return Err(Errno::EINVAL) };
        let mut data = Vec::new();
        while let Some(event) = instance.events.front() {
            if data.len() + event.len() > room {
                return if data.is_empty() { Err(Errno::EINVAL) } else { Ok(Some(data)) };
            }
            event.put(&mut data);
            instance.events.pop_front();
        }
        Ok((!data.is_empty()).then_some(data))
    }
}
