use super::fanotify::{EventDescriptors, FanotifyLimits};
use super::*;
use crate::ids::FdTableKey;

const FILE: NotifiedFile = NotifiedFile { inode: InodeKey(1), identity: (7, 101) };
const DIRECTORY: NotifiedFile = NotifiedFile { inode: InodeKey(2), identity: (7, 102) };
const OTHER: NotifiedFile = NotifiedFile { inode: InodeKey(3), identity: (7, 103) };
const LIMITS: FanotifyLimits = FanotifyLimits { events: 4, groups: 2 };
const ROOT: (u32, bool) = (0, true);

fn queue(n: u32) -> WaitQueueId {
    WaitQueueId::Own(n)
}
fn name(directory: NotifiedFile, name: &[u8]) -> Option<NotifiedName> {
    Some(NotifiedName { directory, name: name.into() })
}
/// Event of process 5 on the file through mount 9.
fn done_to_file(mask: u64) -> Happening {
    Happening {
        mask,
        file: FILE,
        entry: name(DIRECTORY, b"f"),
        moved: None,
        mount: Some(9),
        openable: true,
        unlinked: false,
        cookie: 0,
        pid: 5,
        tid: 6,
    }
}
/// Event of process 5 on the file's directory entry.
fn done_to_name(mask: u64) -> Happening {
    Happening { mount: None, ..done_to_file(mask) }
}
fn fanotify(notify: &mut Notify, flags: u32) -> usize {
    notify.check_fanotify(flags, c::O_RDONLY, ROOT, LIMITS).unwrap();
    notify.add_fanotify(flags, c::O_RDONLY, ROOT, LIMITS, (queue(1), queue(2)))
}
fn mark(notify: &mut Notify, group: usize, flags: u32, mask: u64, subject: Subject) -> Result<(), Errno> {
    let request = MarkRequest::new(flags, mask)?;
    notify.check_mark(group, &request, true)?;
    let is_directory = subject == Subject::Inode(DIRECTORY.inode);
    let of = MarkedSubject { subject, is_directory, is_made_up: false, is_written: false };
    notify.mark(group, request, of, 10)
}
fn of_file() -> Subject {
    Subject::Inode(FILE.inode)
}
/// Mask and trailing bytes after the metadata of the next event.
fn next(notify: &mut Notify, group: usize) -> Option<(u64, Vec<u8>)> {
    let event = notify.take_event(group, 4_096).unwrap()?;
    let fds = EventDescriptors { file: 3, process: 4 };
    let bytes = notify.told(group, &event, (5, event.pid()), fds).unwrap();
    let (head, records) = bytes.split_at(fanotify::METADATA);
    assert_eq!(u32::from_le_bytes(head[..4].try_into().unwrap()) as usize, bytes.len());
    assert_eq!(head[4..8], [3, 0, 24, 0]);
    Some((u64::from_le_bytes(head[8..16].try_into().unwrap()), records.to_vec()))
}
fn record(kind: u8, file: NotifiedFile, name: &[u8]) -> Vec<u8> {
    let len = (28 + if name.is_empty() { 0 } else { name.len() + 1 }).next_multiple_of(4);
    let mut out = vec![kind, 0, len as u8, 0];
    out.extend(file.identity.0.to_le_bytes());
    out.extend([8, 0, 0, 0, 1, 0, 0, 0]);
    out.extend(file.identity.1.to_le_bytes());
    out.extend(name);
    out.resize(len, 0);
    out
}

#[test]
fn a_group_hears_of_files_directories_mounts_and_systems_once() {
    for subject in [of_file(), Subject::Mount(9), Subject::System(7)] {
        let mut notify = Notify::default();
        let group = fanotify(&mut notify, 0);
        mark(&mut notify, group, c::FAN_MARK_ADD | kind(subject), c::FAN_OPEN, subject).unwrap();
        assert_eq!(notify.tell(&done_to_file(c::FAN_OPEN)), [NotifyEffect::QueuedFile(group, queue(1))]);
        assert_eq!(notify.tell(&done_to_file(c::FAN_ACCESS)), []);
        assert_eq!(next(&mut notify, group), Some((c::FAN_OPEN, vec![])));
    }
    let mut notify = Notify::default();
    let group = fanotify(&mut notify, 0);
    let directory = Subject::Inode(DIRECTORY.inode);
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN, directory).unwrap();
    assert_eq!(notify.tell(&done_to_file(c::FAN_OPEN)), []);
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_EVENT_ON_CHILD, directory).unwrap();
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN, of_file()).unwrap();
    assert_eq!(notify.tell(&done_to_file(c::FAN_OPEN)).len(), 1);
    // An event without an open file cannot be reported with one.
    assert_eq!(notify.tell(&done_to_name(c::FAN_OPEN)), []);
}
fn kind(subject: Subject) -> u32 {
    match subject {
        Subject::Inode(_) => c::FAN_MARK_INODE,
        Subject::Mount(_) => c::FAN_MARK_MOUNT,
        Subject::System(_) => c::FAN_MARK_FILESYSTEM,
    }
}

#[test]
fn equal_events_are_one_until_they_are_read() {
    let mut notify = Notify::default();
    let group = fanotify(&mut notify, 0);
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN | c::FAN_ACCESS, of_file()).unwrap();
    notify.tell(&done_to_file(c::FAN_OPEN));
    assert_eq!(notify.tell(&done_to_file(c::FAN_ACCESS)), [], "merged");
    notify.tell(&Happening { pid: 8, ..done_to_file(c::FAN_OPEN) });
    assert_eq!(next(&mut notify, group).unwrap().0, c::FAN_OPEN | c::FAN_ACCESS);
    notify.tell(&done_to_file(c::FAN_ACCESS));
    assert_eq!(next(&mut notify, group).unwrap().0, c::FAN_OPEN, "of the other process");
    assert_eq!(next(&mut notify, group).unwrap().0, c::FAN_ACCESS);
    assert_eq!(next(&mut notify, group), None);
    assert!(!notify.has_events(group));
}

#[test]
fn a_full_queue_says_so_once() {
    let mut notify = Notify::default();
    let group = fanotify(&mut notify, 0);
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN, of_file()).unwrap();
    let told = (0..8).map(|pid| notify.tell(&Happening { pid, ..done_to_file(c::FAN_OPEN) }).len());
    assert_eq!(told.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 0, 0, 0]);
    assert_eq!(notify.queued_bytes(group), 5 * 24);
    let masks: Vec<u64> = std::iter::from_fn(|| next(&mut notify, group)).map(|(mask, _)| mask).collect();
    assert_eq!(masks[3..], [c::FAN_OPEN, c::FAN_Q_OVERFLOW]);
}

#[test]
fn handles_and_names_follow_the_flags_of_the_group() {
    let names = c::FAN_REPORT_DIR_FID | c::FAN_REPORT_NAME;
    let all = names | c::FAN_REPORT_FID;
    let cases: [(u32, Happening, Vec<Vec<u8>>); 8] = [
        (c::FAN_REPORT_FID, done_to_file(c::FAN_OPEN), vec![record(1, FILE, b"")]),
        // The record type does not mark it as that of the directory.
        (c::FAN_REPORT_DIR_FID, done_to_file(c::FAN_OPEN), vec![record(1, DIRECTORY, b"")]),
        (all, done_to_file(c::FAN_OPEN), vec![record(2, DIRECTORY, b"f"), record(1, FILE, b"")]),
        (c::FAN_REPORT_FID, done_to_name(c::FAN_CREATE), vec![record(1, DIRECTORY, b"")]),
        (names, done_to_name(c::FAN_CREATE), vec![record(2, DIRECTORY, b"f")]),
        (all, done_to_name(c::FAN_CREATE), vec![record(2, DIRECTORY, b"f")]),
        (
            all | c::FAN_REPORT_TARGET_FID,
            done_to_name(c::FAN_CREATE),
            vec![record(2, DIRECTORY, b"f"), record(1, FILE, b"")],
        ),
        (all, Happening { entry: None, ..done_to_name(c::FAN_ATTRIB) }, vec![record(1, FILE, b"")]),
    ];
    for (flags, happening, records) in cases {
        let mut notify = Notify::default();
        let group = fanotify(&mut notify, flags);
        mark(
            &mut notify,
            group,
            c::FAN_MARK_ADD | c::FAN_MARK_FILESYSTEM,
            happening.mask,
            Subject::System(7),
        )
        .unwrap();
        notify.tell(&happening);
        assert_eq!(next(&mut notify, group), Some((happening.mask, records.concat())), "flags {flags:x}");
    }
    // A directory is reported with the name `.`.
    let mut notify = Notify::default();
    let group = fanotify(&mut notify, names);
    let directory = Subject::Inode(DIRECTORY.inode);
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN | c::FAN_ONDIR, directory).unwrap();
    let opened = Happening { file: DIRECTORY, entry: None, ..done_to_file(c::FAN_OPEN | c::FAN_ONDIR) };
    notify.tell(&opened);
    assert_eq!(next(&mut notify, group), Some((c::FAN_OPEN | c::FAN_ONDIR, record(2, DIRECTORY, b"."))));
}

#[test]
fn a_rename_tells_the_ends_that_are_marked() {
    let renamed = Happening { moved: name(OTHER, b"g"), ..done_to_name(c::FAN_RENAME) };
    let (old, new) = (record(10, DIRECTORY, b"f"), record(12, OTHER, b"g"));
    let cases = [
        (Subject::Inode(DIRECTORY.inode), old.clone()),
        (Subject::Inode(OTHER.inode), new.clone()),
        (Subject::System(7), [old, new].concat()),
    ];
    for (subject, records) in cases {
        let mut notify = Notify::default();
        let group = fanotify(&mut notify, c::FAN_REPORT_DIR_FID | c::FAN_REPORT_NAME);
        let request = MarkRequest::new(c::FAN_MARK_ADD | kind(subject), c::FAN_RENAME).unwrap();
        let of = MarkedSubject { subject, is_directory: true, is_made_up: false, is_written: false };
        notify.mark(group, request, of, 1).unwrap();
        notify.tell(&renamed);
        assert_eq!(next(&mut notify, group), Some((c::FAN_RENAME, records)));
    }
}

#[test]
fn ignored_events_come_again_when_the_file_is_changed() {
    let mut notify = Notify::default();
    let group = fanotify(&mut notify, 0);
    let ignore = c::FAN_MARK_ADD | c::FAN_MARK_IGNORED_MASK;
    mark(&mut notify, group, c::FAN_MARK_ADD | c::FAN_MARK_MOUNT, c::FAN_OPEN, Subject::Mount(9)).unwrap();
    mark(&mut notify, group, ignore, c::FAN_OPEN, of_file()).unwrap();
    assert_eq!(notify.tell(&done_to_file(c::FAN_OPEN)), []);
    notify.tell(&done_to_file(c::FAN_MODIFY));
    assert_eq!(notify.tell(&done_to_file(c::FAN_OPEN)).len(), 1);
    mark(&mut notify, group, ignore | c::FAN_MARK_IGNORED_SURV_MODIFY, c::FAN_OPEN, of_file()).unwrap();
    notify.tell(&done_to_file(c::FAN_MODIFY));
    assert_eq!(notify.tell(&Happening { pid: 9, ..done_to_file(c::FAN_OPEN) }), []);
    // The ignore mask of a directory survives a modification of a file in it.
    let directory = Subject::Inode(DIRECTORY.inode);
    mark(&mut notify, group, ignore, c::FAN_OPEN, directory).unwrap();
    notify.tell(&done_to_file(c::FAN_MODIFY));
    assert!(
        notify.shown_marks(group, |_| (7, 0x102)).contains("ino:102 sdev:7 mflags:0 mask:0 ignored_mask:20")
    );
}

#[test]
fn permission_is_asked_of_one_group_after_the_other() {
    let mut notify = Notify::default();
    let (content, first) =
        (fanotify(&mut notify, c::FAN_CLASS_CONTENT), fanotify(&mut notify, c::FAN_CLASS_PRE_CONTENT));
    for group in [content, first] {
        mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN_PERM, of_file()).unwrap();
    }
    let opens = done_to_file(c::FAN_OPEN_PERM);
    let mut effects = Vec::new();
    for group in [first, content] {
        assert_eq!(notify.ask(&opens, &mut effects), Ok(Some(queue(2))));
        assert_eq!(notify.ask(&opens, &mut effects), Ok(Some(queue(2))), "no answer yet");
        assert_eq!(next(&mut notify, group), Some((c::FAN_OPEN_PERM, vec![])));
        assert_eq!(notify.respond(group, 9, c::FAN_ALLOW), Err(Errno::ENOENT));
        assert_eq!(notify.respond(group, 3, 7), Err(Errno::EINVAL));
        notify.respond(group, 3, c::FAN_ALLOW).unwrap();
    }
    assert_eq!(effects.len(), 2);
    assert_eq!(notify.ask(&opens, &mut effects), Ok(None));
    // After one group denies, the other is not asked; a closed group denies nothing.
    assert_eq!(notify.ask(&opens, &mut effects), Ok(Some(queue(2))));
    next(&mut notify, first).unwrap();
    notify.respond(first, 3, c::FAN_DENY).unwrap();
    assert_eq!(notify.ask(&opens, &mut effects), Err(Errno::EPERM));
    assert!(!notify.has_events(content));
    notify.close(first);
    assert_eq!(notify.ask(&opens, &mut effects), Ok(Some(queue(2))));
    notify.close(content);
    assert_eq!(notify.ask(&opens, &mut effects), Ok(None));
    assert!(notify.is_idle());
}

#[test]
fn marks_are_added_to_and_taken_from() {
    let mut notify = Notify::default();
    let group = fanotify(&mut notify, 0);
    assert_eq!(mark(&mut notify, group, c::FAN_MARK_REMOVE, c::FAN_OPEN, of_file()), Err(Errno::ENOENT));
    for (flags, mask) in [
        (0, c::FAN_OPEN),
        (c::FAN_MARK_ADD, 0),
        (c::FAN_MARK_ADD, 1 << 40),
        (c::FAN_MARK_FLUSH | c::FAN_MARK_ADD, c::FAN_OPEN),
    ] {
        assert_eq!(mark(&mut notify, group, flags, mask, of_file()), Err(Errno::EINVAL));
    }
    for mask in [c::FAN_CREATE, c::FAN_OPEN_PERM, c::FAN_RENAME] {
        assert_eq!(mark(&mut notify, group, c::FAN_MARK_ADD, mask, of_file()), Err(Errno::EINVAL));
    }
    mark(&mut notify, group, c::FAN_MARK_ADD, c::FAN_OPEN | c::FAN_ACCESS, of_file()).unwrap();
    mark(&mut notify, group, c::FAN_MARK_REMOVE, c::FAN_OPEN, of_file()).unwrap();
    let shown = notify.shown_marks(group, |_| FILE.identity);
    let line = "fanotify ino:65 sdev:7 mflags:0 mask:1 ignored_mask:0 fhandle-bytes:8 fhandle-type:1 f_handle:6500000000000000";
    assert_eq!(shown, format!("fanotify flags:0 event-flags:8000\n{line}\n"));
    mark(&mut notify, group, c::FAN_MARK_REMOVE, c::FAN_ACCESS, of_file()).unwrap();
    assert!(notify.is_idle());
    let request = |flags| MarkRequest::new(flags, c::FAN_OPEN).unwrap();
    let of = MarkedSubject { subject: of_file(), is_directory: false, is_made_up: false, is_written: false };
    assert_eq!(notify.mark(group, request(c::FAN_MARK_ADD), of, 0), Err(Errno::ENOSPC));
}

#[test]
fn groups_are_for_privileged_users_but_for_handles() {
    let notify = Notify::default();
    let check =
        |flags, file_flags, privileged| notify.check_fanotify(flags, file_flags, (1, privileged), LIMITS);
    assert_eq!(check(0, 0, false), Err(Errno::EPERM));
    assert_eq!(check(c::FAN_REPORT_FID, 0, false), Ok(()));
    assert_eq!(check(c::FAN_REPORT_FID | c::FAN_UNLIMITED_QUEUE, 0, false), Err(Errno::EPERM));
    for flags in [
        1 << 20,
        c::FAN_CLASS_CONTENT | c::FAN_REPORT_FID,
        c::FAN_REPORT_NAME,
        12,
        c::FAN_REPORT_PIDFD | c::FAN_REPORT_TID,
    ] {
        assert_eq!(check(flags, 0, true), Err(Errno::EINVAL), "{flags:x}");
    }
    assert_eq!(check(0, c::O_CREAT, true), Err(Errno::EINVAL));
    assert_eq!(check(0, c::O_ACCMODE, true), Err(Errno::EINVAL));
    let mut notify = Notify::default();
    fanotify(&mut notify, 0);
    fanotify(&mut notify, 0);
    assert_eq!(notify.check_fanotify(0, 0, ROOT, LIMITS), Err(Errno::EMFILE));
}

#[test]
fn a_directory_tells_its_owner_once_or_always() {
    let mut notify = Notify::default();
    let by = (FdTableKey(1), FileKey(4));
    notify.watch_directory(DIRECTORY.inode, by, 8, 1);
    assert_eq!(notify.tell(&done_to_file(c::FAN_MODIFY)), []);
    assert_eq!(notify.tell(&done_to_file(c::FAN_ACCESS)), [NotifyEffect::Signal(FileKey(4), 8)]);
    assert!(notify.is_idle());
    notify.watch_directory(DIRECTORY.inode, by, 8, DN_MULTISHOT | 16);
    let to_other = Happening { moved: name(OTHER, b"g"), ..done_to_name(c::FAN_RENAME) };
    let within = Happening { moved: name(DIRECTORY, b"g"), ..to_other.clone() };
    assert_eq!(notify.tell(&to_other), []);
    for _ in 0..2 {
        assert_eq!(notify.tell(&within), [NotifyEffect::Signal(FileKey(4), 8)]);
    }
    notify.unwatch_directory(DIRECTORY.inode, by);
    assert!(notify.is_idle());
}

#[test]
fn inotify_hears_by_watch_and_loses_what_does_not_fit() {
    let mut notify = Notify::default();
    let group = notify.add_inotify(queue(1));
    assert_eq!(notify.add_watch(group, FILE.inode, false, c::IN_ONLYDIR | c::IN_OPEN), Err(Errno::ENOTDIR));
    assert_eq!(notify.add_watch(group, FILE.inode, false, c::IN_OPEN), Ok(1));
    assert_eq!(notify.add_watch(group, DIRECTORY.inode, true, c::IN_OPEN | c::IN_ONESHOT), Ok(2));
    assert_eq!(notify.tell(&done_to_file(c::FAN_OPEN)), [NotifyEffect::Queued(queue(1)); 2]);
    assert_eq!(notify.take_inotify_events(group, 8), Err(Errno::EINVAL));
    let first = notify.take_inotify_events(group, 40).unwrap().unwrap();
    assert_eq!((first[0], first[4], first[12], first[16], first.len()), (2, 0x20, 16, b'f', 32));
    assert_eq!(notify.queued_bytes(group), 32, "its end, and the file's own");
    assert!(notify.is_marked(FILE.inode) && !notify.is_marked(DIRECTORY.inode));
    assert_eq!(notify.remove_watch(group, 2), Err(Errno::EINVAL));
    let gone = Happening { mask: c::FAN_DELETE_SELF, entry: None, ..done_to_name(0) };
    notify.end_inode(&gone);
    assert!(notify.is_idle());
}
