//! Asynchronous I/O, io_setup(2) and its relatives.
//!
//! Operations never wait here, so each is complete when `io_submit(2)` returns; the context only queues the
//! completion events. As on Linux a context id is the address of a mapped page: libaio looks for the kernel's
//! ring there, does not find one and makes the system call.

use super::timeout::{TimedWait, Timeout};
use crate::call::Call;
use crate::guest::GuestBuffers;
use crate::ids::FileKey;
use crate::mm::map::MapRequest;
use crate::outcome::{IfInterrupted, Outcome, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_machine::Prot;
use belljar_objects::aio::AioContext;
use belljar_objects::file_kind::FileKind;
use belljar_objects::space::PAGE;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Upper bound on the number of events of a context; more is `EINVAL`.
const LARGEST: u32 = 0x40_0000;
/// `fs.aio-max-nr`.
const MOST_EVENTS: u32 = 65_536;
/// Operations, `IOCB_CMD_*`.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const POLL: u16 = 5;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;
/// `IOCB_FLAG_RESFD`, `IOCB_FLAG_IOPRIO`.
const FLAG_RESFD: u32 = 1;
const FLAG_IOPRIO: u32 = 2;
/// `sizeof(struct iocb)`, `sizeof(struct io_event)`.
const IOCB_LEN: usize = 64;
const EVENT_LEN: u64 = 32;

/// io_setup(2).
pub fn sys_io_setup(call: &mut Call<'_>) -> SysResult {
    let (events, at) = (call.uint(0), call.args[1]);
    let before: u64 = call.read(at)?;
    if before != 0 || events == 0 || events > LARGEST {
        return Err(Errno::EINVAL);
    }
    if events > MOST_EVENTS {
        return Err(Errno::EAGAIN);
    }
    let mm = call.mm();
    let address = call.host.place_mapping(mm, 0, PAGE, 0)?;
    let request = MapRequest::anonymous(Prot::READ | Prot::WRITE, "/[aio] (deleted)");
    call.host.map_pages(mm, address..address + PAGE, request)?;
    let queue = call.host.waits.create();
    let context = AioContext { queue, limit: events as usize, events: VecDeque::new() };
    call.host.mm(mm).aio.insert(address, context);
    if let Err(fault) = call.write(at, &address) {
        forget(call, address);
        return Err(fault);
    }
    done(0)
}

fn forget(call: &mut Call<'_>, address: u64) -> bool {
    let mm = call.mm();
    let Some(context) = call.host.mm(mm).aio.remove(&address) else { return false };
    call.host.notify(context.queue);
    call.host.waits.destroy(context.queue);
    let _ = call.host.unmap_pages(mm, address..address + PAGE);
    true
}

/// io_destroy(2).
pub fn sys_io_destroy(call: &mut Call<'_>) -> SysResult {
    if forget(call, call.args[0]) { done(0) } else { Err(Errno::EINVAL) }
}

/// io_submit(2): returns the number of requests submitted, or the error of the first request.
pub fn sys_io_submit(call: &mut Call<'_>) -> SysResult {
    let [address, count, list, ..] = call.args;
    let count = i64::try_from(count).map_err(|_| Errno::EINVAL)? as u64;
    let mm = call.mm();
    let limit = call.host.mm(mm).aio.get(&address).ok_or(Errno::EINVAL)?.limit;
    let mut submitted = 0;
    while submitted < count {
        let one = list.checked_add(submitted * 8).ok_or(Errno::EFAULT).and_then(|at| call.read::<u64>(at));
        let full = call.host.mm(mm).aio.get(&address).is_none_or(|context| context.events.len() >= limit);
        let begun = match one {
            _ if full => Err(Errno::EAGAIN),
            Err(fault) => Err(fault),
            Ok(request) => submit(call, address, request),
        };
        match begun {
            Ok(()) => submitted += 1,
            Err(errno) if submitted == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    done(submitted)
}

/// Executes the `struct iocb` at `request` and queues its completion event.
fn submit(call: &mut Call<'_>, address: u64, request: u64) -> Result<(), Errno> {
    let mut bytes = [0; IOCB_LEN];
    call.read_bytes(request, &mut bytes)?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (data, operation) = (word(0), u16::from_le_bytes([bytes[16], bytes[17]]));
    let (buffer, len, offset) = (word(24), word(32), word(40));
    let (reserved, flags) = (word(48), half(56));
    if reserved != 0 || flags & !(FLAG_RESFD | FLAG_IOPRIO) != 0 || len > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    // RWF_HIPRI, RWF_DSYNC, RWF_SYNC and RWF_NOWAIT have no effect, since no operation waits.
    if half(12) & !0xf != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let file = call.host.file_of(call.process, half(20) as i32)?;
    let told = match flags & FLAG_RESFD {
        0 => None,
        _ => {
            let told = call.host.file_of(call.process, half(60) as i32)?;
            if !matches!(call.host.files.open(told).kind, FileKind::EventFd(_)) {
                return Err(Errno::EINVAL);
            }
            Some(told)
        }
    };
    let open = call.host.files.open(file);
    let reads = matches!(operation, PREAD | PREADV);
    match operation {
        PREAD | PREADV if !open.is_readable() => return Err(Errno::EBADF),
        PWRITE | PWRITEV if !open.is_writable() => return Err(Errno::EBADF),
        PREAD | PREADV | PWRITE | PWRITEV if (offset as i64) < 0 => return Err(Errno::EINVAL),
        POLL => {
            call.host.warn("asynchronous polling (io_submit with IOCB_CMD_POLL) is not supported");
            return Err(Errno::EINVAL);
        }
        PREAD | PREADV | PWRITE | PWRITEV | FSYNC | FDSYNC => {}
        _ => return Err(Errno::EINVAL),
    }
    let result = match operation {
        FSYNC | FDSYNC => Ok(0),
        _ => {
            let buffers = match operation {
                PREADV | PWRITEV => call.read_iovecs(buffer, len)?,
                _ => Call::one_buffer(buffer, len),
            };
            moved(call, file, &buffers, offset, reads)
        }
    };
    let result = result.unwrap_or_else(|errno| -i64::from(errno.0));
    let mm = call.mm();
    if let Some(context) = call.host.mm(mm).aio.get_mut(&address) {
        context.events.push_back([data, request, result as u64, 0]);
        let queue = context.queue;
        call.host.notify(queue);
    }
    if let Some(file) = told {
        call.host.signal_eventfd(file);
    }
    Ok(())
}

/// Reads or writes without waiting: `EAGAIN` if there is no data or no room.
fn moved(
    call: &mut Call<'_>,
    file: FileKey,
    buffers: &GuestBuffers,
    offset: u64,
    reads: bool,
) -> Result<i64, Errno> {
    let open = call.host.files.open(file);
    let flags = open.flags;
    let at = open.kind.has_position().then_some(offset);
    open.flags |= c::O_NONBLOCK;
    let outcome = if reads { call.file_read(file, buffers, at) } else { call.file_write(file, buffers, at) };
    call.host.files.open(file).flags = flags;
    match outcome? {
        Outcome::Done(count) => Ok(count as i64),
        _ => {
            call.host
                .warn("asynchronous input and output (io_submit) on what has to be waited for is EAGAIN");
            Err(Errno::EAGAIN)
        }
    }
}

/// io_getevents(2).
pub fn sys_io_getevents(call: &mut Call<'_>) -> SysResult {
    let [address, least, most, at, timeout, _] = call.args;
    get_events(call, address, (least as i64, most as i64), at, timeout)
}

/// io_pgetevents(2): io_getevents(2) with a temporary signal mask.
pub fn sys_io_pgetevents(call: &mut Call<'_>) -> SysResult {
    let [address, least, most, at, timeout, mask] = call.args;
    let (set, size) = if mask == 0 { (0, 0) } else { (call.read(mask)?, call.read(mask + 8)?) };
    super::timeout::with_mask(call, set, size, |call| {
        get_events(call, address, (least as i64, most as i64), at, timeout)
    })
}

fn get_events(
    call: &mut Call<'_>,
    address: u64,
    (least, most): (i64, i64),
    at: u64,
    timeout: u64,
) -> SysResult {
    let mut timeout = Timeout::from_timespec(call, timeout)?;
    timeout.remaining = None;
    let mm = call.mm();
    if !call.host.mm(mm).aio.contains_key(&address) || least < 0 || least > most {
        return Err(Errno::EINVAL);
    }
    let attempt = TimedWait::of(call, timeout);
    let context = &call.host.mm(mm).aio[&address];
    let (there, queue) = (context.events.len() as i64, context.queue);
    if there < least && !attempt.last {
        return attempt.wait(SmallVec::from_slice(&[queue]), IfInterrupted::Eintr);
    }
    let mut taken = 0;
    while taken < most as u64 {
        let Some(event) =
            call.host.mm(mm).aio.get_mut(&address).and_then(|context| context.events.pop_front())
        else {
            break;
        };
        if let Err(fault) = call.write(at + taken * EVENT_LEN, &event) {
            if let Some(context) = call.host.mm(mm).aio.get_mut(&address) {
                context.events.push_front(event);
            }
            return if taken == 0 { Err(fault) } else { done(taken) };
        }
        taken += 1;
    }
    done(taken)
}

/// io_cancel(2): operations are never in progress, so a valid context gives `EAGAIN`.
pub fn sys_io_cancel(call: &mut Call<'_>) -> SysResult {
    let _: u32 = call.read(call.args[1].checked_add(8).ok_or(Errno::EFAULT)?)?;
    let mm = call.mm();
    let known = call.host.mm(mm).aio.contains_key(&call.args[0]);
    Err(if known { Errno::EAGAIN } else { Errno::EINVAL })
}
