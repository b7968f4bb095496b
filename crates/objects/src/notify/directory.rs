//! Directory notification, `F_NOTIFY` of `fcntl(2)`: signals about events in an open directory.

use super::{Happening, Notify, NotifyEffect};
use crate::ids::{FdTableKey, FileKey, InodeKey};
use belljar_linux_abi::c;

/// Flags of `F_NOTIFY`.
const DN_ACCESS: u32 = 1;
const DN_MODIFY: u32 = 2;
const DN_CREATE: u32 = 4;
const DN_DELETE: u32 = 8;
const DN_RENAME: u32 = 16;
const DN_ATTRIB: u32 = 32;
/// `DN_MULTISHOT`: the watch persists after the first event.
pub const DN_MULTISHOT: u32 = 1 << 31;
/// `DN_MULTISHOT` in a watch's mask.
const STAYS: u64 = 1 << 32;

/// Watch on an open directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryWatch {
    /// Descriptor table through which it was requested.
    table: FdTableKey,
    file: FileKey,
    fd: i32,
    mask: u64,
}

/// Events that `F_NOTIFY` flags request.
fn events(flags: u32) -> u64 {
    [
        (DN_ACCESS, c::FAN_ACCESS),
        (DN_MODIFY, c::FAN_MODIFY),
        (DN_CREATE, c::FAN_CREATE | c::FAN_MOVED_TO),
        (DN_DELETE, c::FAN_DELETE | c::FAN_MOVED_FROM),
        (DN_RENAME, c::FAN_RENAME),
        (DN_ATTRIB, c::FAN_ATTRIB),
        (DN_MULTISHOT, STAYS),
    ]
    .into_iter()
    .filter(|(flag, _)| flags & *flag != 0)
    .fold(0, |mask, (_, event)| mask | event)
}

impl Notify {
    /// `F_NOTIFY` with events: adds them to the watch of the same descriptor table and open file.
    pub fn watch_directory(
        &mut self,
        inode: InodeKey,
        (table, file): (FdTableKey, FileKey),
        fd: i32,
        flags: u32,
    ) {
        let watches = self.directories.entry(inode).or_default();
        let mask = events(flags);
        match watches.iter_mut().find(|watch| (watch.table, watch.file) == (table, file)) {
            Some(watch) => (watch.fd, watch.mask) = (fd, watch.mask | mask),
            None => watches.insert(0, DirectoryWatch { table, file, fd, mask }),
        }
    }
    /// Removes a watch: `F_NOTIFY` without events, or the descriptor is closed.
    pub fn unwatch_directory(&mut self, inode: InodeKey, (table, file): (FdTableKey, FileKey)) {
        let Some(watches) = self.directories.get_mut(&inode) else { return };
        watches.retain(|watch| (watch.table, watch.file) != (table, file));
        if watches.is_empty() {
            self.directories.remove(&inode);
        }
    }

    /// Signals the owners of the open directories.
    pub(super) fn tell_directories(&mut self, happening: &Happening, effects: &mut Vec<NotifyEffect>) {
        if self.directories.is_empty() {
            return;
        }
        let mut mask = happening.mask;
        let moved = happening.moved.as_ref().map(|moved| moved.directory);
        if moved.is_some() && moved != happening.entry.as_ref().map(|entry| entry.directory) {
            // Renames are reported only within one directory.
            mask &= !c::FAN_RENAME;
        }
        let parent = happening.entry.as_ref().map(|entry| entry.directory.inode);
        let itself =
            (happening.is_of_directory() && !happening.is_of_names()).then_some(happening.file.inode);
        for inode in [parent, itself].into_iter().flatten() {
            let Some(watches) = self.directories.get_mut(&inode) else { continue };
            watches.retain(|watch| {
                let told = watch.mask & mask != 0;
                if told {
                    effects.push(NotifyEffect::Signal(watch.file, watch.fd));
                }
                !told || watch.mask & STAYS != 0
            });
            if watches.is_empty() {
                self.directories.remove(&inode);
            }
        }
    }
}
