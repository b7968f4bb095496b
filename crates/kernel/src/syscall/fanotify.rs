//! fanotify_init(2), fanotify_mark(2).

use crate::call::Call;
use crate::credentials::capability;
use crate::files::permission::READ;
use crate::files::tree::Walk;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::PROC;
use belljar_objects::mounts::Place;
use belljar_objects::notify::fanotify::FanotifyLimits;
use belljar_objects::notify::{MarkRequest, MarkedSubject, Subject};

/// Value of a setting in `/proc/sys/fs/fanotify`.
fn limit(call: &mut Call<'_>, name: &str) -> usize {
    call.host.setting(&format!("sys/fs/fanotify/{name}")).unwrap_or(0) as usize
}

/// fanotify_init(2).
pub fn sys_fanotify_init(call: &mut Call<'_>) -> SysResult {
    let (flags, file_flags) = (call.uint(0), call.int(1));
    let (events, groups) = (limit(call, "max_queued_events"), limit(call, "max_user_groups"));
    let limits = FanotifyLimits { events, groups };
    let privileged = call.host.processes.is_capable(call.process, capability::SYS_ADMIN);
    let who = (call.host.processes[call.process.0].credentials.ruid, privileged);
    call.host.files.notify.check_fanotify(flags, file_flags, who, limits)?;
    if flags & c::FAN_ENABLE_AUDIT != 0 {
        call.host.processes.require(call.process, capability::AUDIT_WRITE)?;
    }
    let queues = (call.host.waits.create(), call.host.waits.create());
    let n = call.host.files.notify.add_fanotify(flags, file_flags, who, limits, queues);
    let nonblocking = if flags & c::FAN_NONBLOCK != 0 { c::O_NONBLOCK } else { 0 };
    let file = call.host.files.open_file(FileKind::Notify(n), c::O_RDWR | nonblocking);
    done(call.host.install_fd(call.process, file, flags & c::FAN_CLOEXEC != 0, 0)?)
}

/// fanotify_mark(2).
pub fn sys_fanotify_mark(call: &mut Call<'_>) -> SysResult {
    let request = MarkRequest::new(call.uint(1), call.args[2])?;
    let file = call.host.pollable_file(call.process, call.int(0))?;
    let n = call.host.files.notify_of(file, true)?;
    let privileged = call.host.processes.is_capable(call.process, capability::SYS_ADMIN);
    call.host.files.notify.check_mark(n, &request, privileged)?;
    if request.is_flush() {
        call.host.files.notify.flush_marks(n, &request);
        return done(0);
    }
    let place = marked_place(call, &request)?;
    let inode = call.host.files.inode(place.1);
    let (device, is_directory) = (inode.device, inode.node.is_directory());
    let subject = if request.has(c::FAN_MARK_MOUNT) {
        Subject::Mount(call.host.files.shown_mount(place))
    } else if request.has(c::FAN_MARK_FILESYSTEM) {
        Subject::System(device)
    } else {
        Subject::Inode(place.1)
    };
    let (is_made_up, is_written) = (device == PROC, call.host.files.is_written(place.1));
    let most = limit(call, "max_user_marks");
    let left = call.host.files.notify.marks_left(n, most)?;
    let of = MarkedSubject { subject, is_directory, is_made_up, is_written };
    call.host.files.notify.mark(n, request, of, left)?;
    done(0)
}

/// File or directory to be marked: a path or, without one, a descriptor. `EACCES` unless the caller can read
/// it.
fn marked_place(call: &mut Call<'_>, request: &MarkRequest) -> Result<Place, Errno> {
    let dirfd = call.int(3);
    let place = if call.args[4] == 0 {
        let file = call.host.file_of(call.process, dirfd)?;
        // A file outside any file system cannot be marked.
        let inode = call.host.files.open(file).kind.inode().ok_or(Errno::EINVAL)?;
        (call.host.files.open(file).mount_key(), inode)
    } else {
        let path = call.read_path(call.args[4])?;
        let walk = if request.has(c::FAN_MARK_DONT_FOLLOW) { Walk::empty() } else { Walk::FOLLOW };
        call.host.resolve(call.process, dirfd, &path, walk)?.place()?
    };
    if request.has(c::FAN_MARK_ONLYDIR) && !call.host.files.inode(place.1).node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    call.host.files.check_permission(&call.host.processes, call.process, place.1, READ)?;
    Ok(place)
}
