//! Marks: the events of a subject that a group receives or ignores; `fanotify_mark(2)`.

use super::{Group, Kind, Notify, OF_NAMES, ON_DIRECTORY, Part, Subject};
use crate::ids::FileIdentity;
use crate::ids::InodeKey;
use crate::notify::fanotify::{FILE_HANDLES, FOR_PATHS, PERMISSIONS};
use belljar_linux_abi::{Errno, c};

/// Modifiers in an event mask that are not events themselves.
pub(super) const EVENT_FLAGS: u64 = c::FAN_EVENT_ON_CHILD | c::FAN_ONDIR;
/// Events that a mark can have.
const EVENTS: u64 =
    FOR_PATHS | OF_NAMES | c::FAN_ATTRIB | c::FAN_MOVE_SELF | c::FAN_DELETE_SELF | c::FAN_FS_ERROR;
/// Events and modifiers that apply only to directories, where that is enforced.
const OF_DIRECTORIES: u64 = OF_NAMES | EVENT_FLAGS;

const COMMANDS: u32 = c::FAN_MARK_ADD | c::FAN_MARK_REMOVE | c::FAN_MARK_FLUSH;
const KINDS: u32 = c::FAN_MARK_INODE | c::FAN_MARK_MOUNT | c::FAN_MARK_FILESYSTEM;
const IGNORES: u32 = c::FAN_MARK_IGNORED_MASK | c::FAN_MARK_IGNORE;
const FLAGS: u32 = COMMANDS
    | KINDS
    | IGNORES
    | c::FAN_MARK_DONT_FOLLOW
    | c::FAN_MARK_ONLYDIR
    | c::FAN_MARK_IGNORED_SURV_MODIFY
    | c::FAN_MARK_EVICTABLE;

/// Mark of a group on a subject.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    /// Events to report, in the encoding of the group's kind.
    pub mask: u64,
    /// Events to ignore, which override the masks of all marks.
    pub ignored: u64,
    /// True if the ignore mask survives a modification of the file.
    pub survives_modify: bool,
    /// True if the ignore mask has its own modifiers (`FAN_MARK_IGNORE`).
    pub own_flags: bool,
    /// True if the mark was requested as evictable, which does not pin its inode in memory.
    pub evictable: bool,
    /// Creation number in its group; the watch descriptor of inotify.
    pub number: i32,
}

/// Arguments of `fanotify_mark(2)`: flags and mask.
#[derive(Clone, Copy, Debug)]
pub struct MarkRequest {
    flags: u32,
    mask: u64,
    /// Bits that the request cannot clear.
    kept: u64,
}

/// Subject of a mark, with its properties.
#[derive(Clone, Copy, Debug)]
pub struct MarkedSubject {
    /// Subject.
    pub subject: Subject,
    /// True if the path refers to a directory.
    pub is_directory: bool,
    /// True if the file is on a synthetic file system.
    pub is_made_up: bool,
    /// True if the file is open for writing.
    pub is_written: bool,
}

/// True if a mask selects events on a directory and, for a parent's mark, events on children.
pub(super) fn applies(mask: u64, on_directory: bool, part: Part) -> bool {
    !(on_directory && mask & ON_DIRECTORY == 0 || part == Part::Parent && mask & c::FAN_EVENT_ON_CHILD == 0)
}

impl Mark {
    /// Events that the mark ignores on a directory or on a child.
    pub(super) fn ignored_of(&self, on_directory: bool, part: Part) -> u64 {
        let ignored = match self.own_flags {
            true => self.ignored,
            // Without modifiers of its own: directories always, children if the mask selects them.
            false => self.ignored & !c::FAN_EVENT_ON_CHILD | ON_DIRECTORY | self.mask & c::FAN_EVENT_ON_CHILD,
        };
        if self.ignored != 0 && applies(ignored, on_directory, part) { ignored } else { 0 }
    }
    /// True if the mark concerns the files in its directory.
    pub(super) fn watches_children(&self) -> bool {
        let ignored = if self.own_flags { self.ignored } else { 0 };
        (self.mask | ignored) & c::FAN_EVENT_ON_CHILD != 0
    }
    /// Line of the mark in `/proc/PID/fdinfo`.
    pub(super) fn shown(
        &self,
        subject: Subject,
        kind: &Kind,
        identity: &impl Fn(InodeKey) -> FileIdentity,
    ) -> String {
        let Mark { mask, ignored, number, .. } = self;
        let handle = |ino: u64| {
            let bytes: String = ino.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("fhandle-bytes:8 fhandle-type:1 f_handle:{bytes}")
        };
        let flags = [
            (self.survives_modify, c::FAN_MARK_IGNORED_SURV_MODIFY),
            (self.evictable, c::FAN_MARK_EVICTABLE),
            (self.own_flags, c::FAN_MARK_IGNORE),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag);
        let masks = format!("mflags:{flags:x} mask:{mask:x} ignored_mask:{ignored:x}");
        match (subject, kind) {
            (Subject::Inode(inode), Kind::Inotify(_)) => {
                let (device, ino) = identity(inode);
                let handle = handle(ino);
                format!(
                    "inotify wd:{number:x} ino:{ino:x} sdev:{device:x} mask:{mask:x} ignored_mask:0 {handle}\n"
                )
            }
            (Subject::Inode(inode), Kind::Fanotify(_)) => {
                let (device, ino) = identity(inode);
                format!("fanotify ino:{ino:x} sdev:{device:x} {masks} {}\n", handle(ino))
            }
            (Subject::Mount(mount), _) => format!("fanotify mnt_id:{mount:x} {masks}\n"),
            (Subject::System(device), _) => format!("fanotify sdev:{device:x} {masks}\n"),
        }
    }
}

impl MarkRequest {
    /// Decodes the arguments of a call. `EINVAL` for invalid combinations.
    pub fn new(flags: u32, mask: u64) -> Result<MarkRequest, Errno> {
        let kind = flags & KINDS;
        let only_flush = flags & !(KINDS | c::FAN_MARK_FLUSH) == 0;
        let sound = match flags & COMMANDS {
            c::FAN_MARK_ADD | c::FAN_MARK_REMOVE => mask != 0,
            c::FAN_MARK_FLUSH => only_flush,
            _ => false,
        };
        if mask >> 32 != 0
            || flags & !FLAGS != 0
            || kind == c::FAN_MARK_MOUNT | c::FAN_MARK_FILESYSTEM
            || !sound
            || mask & !(EVENTS | PERMISSIONS | EVENT_FLAGS) != 0
            || flags & IGNORES == IGNORES
        {
            return Err(Errno::EINVAL);
        }
        let old_ignore = flags & IGNORES == c::FAN_MARK_IGNORED_MASK;
        let (mask, kept) = if old_ignore { (mask & !EVENT_FLAGS, EVENT_FLAGS) } else { (mask, 0) };
        Ok(MarkRequest { flags, mask, kept })
    }
    /// True if the request removes all marks of a kind.
    pub fn is_flush(&self) -> bool {
        self.flags & COMMANDS == c::FAN_MARK_FLUSH
    }
    /// True if the flag of `fanotify_mark(2)` is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl Notify {
    /// Checks a request against its group; `privileged` is true if the caller has `CAP_SYS_ADMIN`.
    pub fn check_mark(&self, group: usize, request: &MarkRequest, privileged: bool) -> Result<(), Errno> {
        let group = self.fanotify(group)?;
        let MarkRequest { flags, mask, .. } = *request;
        if (!privileged || group.is_unprivileged()) && flags & KINDS != c::FAN_MARK_INODE {
            return Err(Errno::EPERM);
        }
        let handles = group.flags() & FILE_HANDLES;
        let needs_handles = mask & !(FOR_PATHS | PERMISSIONS | EVENT_FLAGS) != 0;
        if mask & PERMISSIONS != 0 && group.priority() == 0
            || mask & c::FAN_FS_ERROR != 0 && flags & KINDS != c::FAN_MARK_FILESYSTEM
            || flags & c::FAN_MARK_EVICTABLE != 0 && flags & KINDS != c::FAN_MARK_INODE
            || needs_handles && (handles == 0 || flags & KINDS == c::FAN_MARK_MOUNT)
            || mask & c::FAN_RENAME != 0 && handles & c::FAN_REPORT_NAME == 0
        {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
    /// `FAN_MARK_FLUSH`: removes all marks of a kind.
    pub fn flush_marks(&mut self, group: usize, request: &MarkRequest) {
        let gone = |subject: &Subject| match subject {
            Subject::Inode(_) => request.flags & KINDS == c::FAN_MARK_INODE,
            Subject::Mount(_) => request.flags & KINDS == c::FAN_MARK_MOUNT,
            Subject::System(_) => request.flags & KINDS == c::FAN_MARK_FILESYSTEM,
        };
        let subjects: Vec<Subject> = self.groups[group].marks.keys().copied().filter(gone).collect();
        for subject in subjects {
            self.drop_mark(group, subject);
        }
    }
    /// Adds to or removes from a mark; the group may have `limit` more marks. `ENOSPC` if a new one exceeds
    /// that.
    pub fn mark(
        &mut self,
        group: usize,
        request: MarkRequest,
        of: MarkedSubject,
        limit: usize,
    ) -> Result<(), Errno> {
        let adds = request.flags & COMMANDS == c::FAN_MARK_ADD;
        if adds {
            self.check_subject(group, &request, &of)?;
        }
        let MarkRequest { flags, mut mask, mut kept } = request;
        let is_inode = matches!(of.subject, Subject::Inode(_));
        let strict_ignore =
            adds && flags & c::FAN_MARK_IGNORE != 0 && flags & c::FAN_MARK_IGNORED_SURV_MODIFY == 0;
        if strict_ignore && (!is_inode || of.is_directory) {
            return Err(if is_inode { Errno::EISDIR } else { Errno::EINVAL });
        }
        if !is_inode || !of.is_directory {
            mask &= !c::FAN_EVENT_ON_CHILD;
            kept = c::FAN_EVENT_ON_CHILD;
            // Groups that report the parent directory receive events of a file through its directory too.
            if self.fanotify(group)?.flags() & c::FAN_REPORT_DIR_FID != 0 && adds && flags & IGNORES == 0 {
                mask |= c::FAN_EVENT_ON_CHILD;
            }
        }
        let request = MarkRequest { flags, mask, kept };
        if adds {
            self.add_mark(group, request, &of, limit)
        } else {
            self.take_from_mark(group, request, of.subject)
        }
    }
    /// Checks that the events requested are valid for the subject.
    fn check_subject(&self, group: usize, request: &MarkRequest, of: &MarkedSubject) -> Result<(), Errno> {
        let group = self.fanotify(group)?;
        let is_inode = matches!(of.subject, Subject::Inode(_));
        let strict = group.flags() & c::FAN_REPORT_TARGET_FID != 0
            || request.mask & c::FAN_RENAME != 0
            || request.flags & c::FAN_MARK_IGNORE != 0;
        if of.is_made_up && request.mask & PERMISSIONS != 0 {
            return Err(Errno::EINVAL);
        }
        if strict && is_inode && !of.is_directory && request.mask & OF_DIRECTORIES != 0 {
            return Err(Errno::ENOTDIR);
        }
        // File handles of synthetic files cannot be opened; only inode marks may report them.
        if of.is_made_up && !is_inode && group.flags() & FILE_HANDLES != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(())
    }
    fn add_mark(
        &mut self,
        group: usize,
        request: MarkRequest,
        of: &MarkedSubject,
        limit: usize,
    ) -> Result<(), Errno> {
        let MarkRequest { flags, mask, .. } = request;
        let ignores = flags & IGNORES != 0;
        let survives = flags & c::FAN_MARK_IGNORED_SURV_MODIFY != 0;
        // The next modification would clear it.
        if ignores && !survives && of.is_written && !of.is_directory {
            return Ok(());
        }
        let Group { marks, last_mark, .. } = &mut self.groups[group];
        let mut mark = match marks.get(&of.subject).copied() {
            Some(mark) => {
                let evicts = flags & c::FAN_MARK_EVICTABLE != 0 && !mark.evictable;
                let old = flags & c::FAN_MARK_IGNORED_MASK != 0 && mark.own_flags;
                let shorter = flags & c::FAN_MARK_IGNORE != 0 && !survives && mark.survives_modify;
                if evicts || old || shorter {
                    return Err(Errno::EEXIST);
                }
                mark
            }
            None if limit == 0 => return Err(Errno::ENOSPC),
            None => {
                *last_mark += 1;
                Mark { number: *last_mark, evictable: true, ..Mark::default() }
            }
        };
        *(if ignores { &mut mark.ignored } else { &mut mark.mask }) |= mask;
        mark.own_flags |= flags & c::FAN_MARK_IGNORE != 0;
        mark.survives_modify |= ignores && survives;
        mark.evictable &= flags & c::FAN_MARK_EVICTABLE != 0;
        self.set_mark(group, of.subject, mark);
        Ok(())
    }
    fn take_from_mark(&mut self, group: usize, request: MarkRequest, subject: Subject) -> Result<(), Errno> {
        let MarkRequest { flags, mask, kept } = request;
        let mark = self.groups[group].marks.get_mut(&subject).ok_or(Errno::ENOENT)?;
        *(if flags & IGNORES != 0 { &mut mark.ignored } else { &mut mark.mask }) &= !(mask & !kept);
        if (mark.mask | mark.ignored) & !kept == 0 {
            self.drop_mark(group, subject);
        }
        Ok(())
    }
}
