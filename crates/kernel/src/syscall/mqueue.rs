//! mq_open(2), mq_unlink(2), mq_timedsend(2), mq_timedreceive(2), mq_notify(2), mq_getsetattr(2).

use crate::call::Call;
use crate::ids::FileKey;
use crate::outcome::{Block, CallState, SysResult, done};
use belljar_base::SimTime;
use belljar_linux_abi::ipc::MqAttr;
use belljar_linux_abi::process::SigEvent;
use belljar_linux_abi::signal::NSIG;
use belljar_linux_abi::time::Timespec;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::message_queue::{COOKIE_LEN, Notice};
use belljar_objects::namespaces::NamespaceKind;

/// Maximum length of a name in bytes.
const NAME_MAX: usize = 255;
/// `MQ_PRIO_MAX`.
const PRIORITIES: u64 = 32_768;
/// Message count and message size in bytes: default without `mq_attr`, and the limits for users and for root.
const DEFAULT: (usize, usize) = (10, 8_192);
const MOST: (i64, i64) = (10, 8_192);
const MOST_OF_ROOT: (i64, i64) = (65_536, 16_777_216);

fn name(call: &Call<'_>, addr: u64) -> Result<Vec<u8>, Errno> {
    let name = call.host.read_guest_string(call.process, addr, NAME_MAX, Errno::ENAMETOOLONG)?;
    match name {
        name if name.is_empty() => Err(Errno::ENOENT),
        name if name.contains(&b'/') || name == b"." || name == b".." => Err(Errno::EACCES),
        name => Ok(name),
    }
}

/// Message queue of a descriptor. `EBADF` for other files.
fn queue(call: &mut Call<'_>) -> Result<(FileKey, usize), Errno> {
    let file = call.host.file_of(call.process, call.int(0))?;
    match call.host.files.open(file).kind {
        FileKind::MessageQueue(n) => Ok((file, n)),
        _ => Err(Errno::EBADF),
    }
}

/// mq_open(2).
pub fn sys_mq_open(call: &mut Call<'_>) -> SysResult {
    let (flags, attributes) = (call.int(1), call.args[3]);
    let name = name(call, call.args[0])?;
    let namespace = call.host.processes.namespace(call.process, NamespaceKind::Ipc);
    let n = match call.host.files.find_mqueue(namespace, &name) {
        Some(_) if flags & (c::O_CREAT | c::O_EXCL) == c::O_CREAT | c::O_EXCL => return Err(Errno::EEXIST),
        Some(n) => {
            call.host.files.check_mqueue(&call.host.processes, call.process, n, flags)?;
            n
        }
        None if flags & c::O_CREAT == 0 => return Err(Errno::ENOENT),
        None => {
            let limits = if attributes == 0 { DEFAULT } else { limits(call, attributes)? };
            let mode = call.uint(2) & !call.host.process(call.process).umask;
            let perm = call.host.processes.new_permissions(call.process, 0, mode as i32);
            call.host.files.create_mqueue(&mut call.host.waits, name, limits, perm)
        }
    };
    let file = call.host.files.open_mqueue(n, flags);
    done(call.host.install_fd(call.process, file, true, 0)?)
}

fn limits(call: &Call<'_>, addr: u64) -> Result<(usize, usize), Errno> {
    let MqAttr { maxmsg, msgsize, .. } = call.read(addr)?;
    let root = call.host.processes[call.process.0].credentials.euid == 0;
    let most = if root { MOST_OF_ROOT } else { MOST };
    if !(1..=most.0).contains(&maxmsg) || !(1..=most.1).contains(&msgsize) {
        return Err(Errno::EINVAL);
    }
    let bytes = maxmsg.saturating_mul(msgsize + 96) as u64;
    if bytes > call.host.processes[call.process.0].rlimits[c::RLIMIT_MSGQUEUE as usize].soft {
        return Err(Errno::EMFILE);
    }
    Ok((maxmsg as usize, msgsize as usize))
}

/// mq_unlink(2).
pub fn sys_mq_unlink(call: &mut Call<'_>) -> SysResult {
    let name = name(call, call.args[0])?;
    call.host.unlink_mqueue(call.process, &name)?;
    done(0)
}

/// Deadline of a call, given as wall-clock time.
fn deadline(call: &mut Call<'_>, addr: u64) -> Result<Option<SimTime>, Errno> {
    if let CallState::Deadline(deadline) = call.take_state() {
        return Ok(deadline);
    }
    if addr == 0 {
        return Ok(None);
    }
    let ns = call.read::<Timespec>(addr)?.to_nanos().ok_or(Errno::EINVAL)?;
    Ok(Some(call.host.net.clock.at_realtime(ns)))
}

/// Waits for a change of the queue. `EAGAIN` with `O_NONBLOCK`, `ETIMEDOUT` after the deadline.
fn wait(
    call: &mut Call<'_>,
    file: FileKey,
    on: crate::ids::WaitQueueId,
    deadline: Option<SimTime>,
) -> SysResult {
    if call.host.files.open(file).is_nonblocking() {
        return Err(Errno::EAGAIN);
    }
    if call.deadline_passed() || deadline.is_some_and(|at| at <= call.now()) {
        return Err(Errno::ETIMEDOUT);
    }
    Block::on(on).with_deadline(deadline).with_state(CallState::Deadline(deadline)).into()
}

/// mq_timedsend(2).
pub fn sys_mq_timedsend(call: &mut Call<'_>) -> SysResult {
    let [_, addr, len, priority, timeout, _] = call.args;
    if priority & 0xffff_ffff >= PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let deadline = deadline(call, timeout)?;
    let (file, n) = queue(call)?;
    if !call.host.files.open(file).is_writable() {
        return Err(Errno::EBADF);
    }
    if len > call.host.files.mqueues[n].limits.1 as u64 {
        return Err(Errno::EMSGSIZE);
    }
    let text = call.read_vec(addr, len as usize)?;
    match call.host.mqueue_send(call.process, n, priority as u32, &text)? {
        None => done(0),
        Some(on) => wait(call, file, on, deadline),
    }
}

/// mq_timedreceive(2).
pub fn sys_mq_timedreceive(call: &mut Call<'_>) -> SysResult {
    let [_, addr, room, priority, timeout, _] = call.args;
    let deadline = deadline(call, timeout)?;
    let (file, n) = queue(call)?;
    if !call.host.files.open(file).is_readable() {
        return Err(Errno::EBADF);
    }
    match call.host.mqueue_receive(n, room)? {
        Ok((urgency, text)) => {
            call.write_bytes(addr, &text)?;
            if priority != 0 {
                call.write(priority, &urgency)?;
            }
            done(text.len() as u64)
        }
        Err(on) => wait(call, file, on, deadline),
    }
}

/// mq_notify(2).
pub fn sys_mq_notify(call: &mut Call<'_>) -> SysResult {
    let how = match call.args[1] {
        0 => None,
        addr => {
            let event: SigEvent = call.read(addr)?;
            match event.notify {
                c::SIGEV_NONE => Some(Notice::None),
                c::SIGEV_SIGNAL if (1..=NSIG).contains(&event.signo) => {
                    Some(Notice::Signal(event.signo, event.value))
                }
                c::SIGEV_THREAD => {
                    let cookie: [u8; COOKIE_LEN] = call.read(event.value)?;
                    let file = call.host.file_of(call.process, event.signo)?;
                    let FileKind::Socket(key) = call.host.files.open(file).kind else {
                        return Err(Errno::ENOTSOCK);
                    };
                    if call.host.socket(key).domain != c::AF_NETLINK {
                        return Err(Errno::EINVAL);
                    }
                    Some(Notice::Cookie(file, cookie))
                }
                _ => return Err(Errno::EINVAL),
            }
        }
    };
    let (_, n) = queue(call)?;
    call.host.mqueue_notify(call.process, n, how)?;
    done(0)
}

/// mq_getsetattr(2).
pub fn sys_mq_getsetattr(call: &mut Call<'_>) -> SysResult {
    let [_, new, old, ..] = call.args;
    let nonblocking = i64::from(c::O_NONBLOCK);
    let wanted = match new {
        0 => None,
        addr => Some(call.read::<MqAttr>(addr)?.flags),
    };
    if wanted.is_some_and(|flags| flags & !nonblocking != 0) {
        return Err(Errno::EINVAL);
    }
    let (file, n) = queue(call)?;
    let flags = i64::from(call.host.files.open(file).flags) & nonblocking;
    let mqueue = &call.host.files.mqueues[n];
    let attributes = MqAttr {
        flags,
        maxmsg: mqueue.limits.0 as i64,
        msgsize: mqueue.limits.1 as i64,
        curmsgs: mqueue.len() as i64,
        ..MqAttr::default()
    };
    if let Some(flags) = wanted {
        let open = call.host.files.open(file);
        open.flags = open.flags & !c::O_NONBLOCK | flags as i32;
    }
    if old != 0 {
        call.write(old, &attributes)?;
    }
    done(0)
}
