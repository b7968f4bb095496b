//! pidfd_open(2), pidfd_send_signal(2), pidfd_getfd(2).

use crate::call::Call;
use crate::ids::ProcessKey;
use crate::outcome::{SysResult, done};
use crate::rights::AccessIds;
use belljar_linux_abi::signal::SigInfo;
use belljar_linux_abi::{Errno, c};
use belljar_objects::process_files::INIT;

/// pidfd_open(2). `EINVAL` for a thread id that is not a process id.
pub fn sys_pidfd_open(call: &mut Call<'_>) -> SysResult {
    let (pid, flags) = (call.int(0), call.uint(1));
    if flags & !(c::O_NONBLOCK as u32) != 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    let Some(process) = call.host.processes.by_pid.get(&pid).copied() else {
        return Err(if call.host.threads.by_tid.contains_key(&pid) { Errno::EINVAL } else { Errno::ESRCH });
    };
    let file = call.host.create_pidfd(process, flags as i32);
    done(call.host.install_fd(call.process, file, true, 0)?)
}

/// Process of pidfd `fd`. `EBADF` if `fd` is not a pidfd, `ESRCH` if the process no longer exists.
fn process_of(call: &Call<'_>, fd: i32) -> Result<ProcessKey, Errno> {
    let file = call.host.file_of(call.process, fd)?;
    let pid = call.host.files.pidfd_pid(file)?;
    call.host.processes.by_pid.get(&pid).copied().ok_or(Errno::ESRCH)
}

/// Process of a pidfd or of a `/proc/<pid>` directory, for sending signals.
fn signalled_by(call: &Call<'_>, fd: i32) -> Result<ProcessKey, Errno> {
    let file = call.host.file_of(call.process, fd)?;
    match call.host.files.process_directory(file) {
        Some(pid) => call.host.processes.by_pid.get(&pid).copied().ok_or(Errno::ESRCH),
        None => process_of(call, fd),
    }
}

/// pidfd_send_signal(2).
pub fn sys_pidfd_send_signal(call: &mut Call<'_>) -> SysResult {
    let (signal, info, flags) = (call.int(1), call.args[2], call.uint(3));
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let named = call.host.file_of(call.process, call.int(0))?;
    if call.host.files.process_directory(named) == Some(INIT) {
        call.host.processes.may_signal_init(call.process)?;
        return done(0);
    }
    let target = signalled_by(call, call.int(0))?;
    let (own, inner) = (&call.host.processes[call.process.0], &call.host.processes[target.0]);
    let [own, inner] = [own, inner].map(|process| process.attributes.namespaces.pid);
    if !call.host.processes.namespaces.pids.is_within(inner, own) {
        return Err(Errno::EINVAL);
    }
    if !(0..=belljar_linux_abi::signal::NSIG).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    let info = if info == 0 {
        let own = &call.host.processes[call.process.0];
        SigInfo::user(signal, c::SI_USER, own.pid, own.credentials.ruid)
    } else {
        let given = call.read(info)?;
        let given = super::signal::meant_info(call, given);
        if given.signo != signal {
            return Err(Errno::EINVAL);
        }
        if target != call.process && (given.code >= 0 || given.code == c::SI_TKILL) {
            return Err(Errno::EPERM);
        }
        given
    };
    call.host.processes.may_signal(call.process, target, signal)?;
    if signal != 0 {
        call.host.send_signal(target, info);
    }
    done(0)
}

/// pidfd_getfd(2).
pub fn sys_pidfd_getfd(call: &mut Call<'_>) -> SysResult {
    if call.uint(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let target = process_of(call, call.int(0))?;
    if call.host.processes[target.0].ended.is_some() {
        return Err(Errno::ESRCH);
    }
    call.host.processes.may_access(call.process, target, AccessIds::Real)?;
    let file = call.host.file_of(target, call.int(1))?;
    call.host.files.retain_file(file);
    done(call.host.install_fd(call.process, file, true, 0)?)
}
