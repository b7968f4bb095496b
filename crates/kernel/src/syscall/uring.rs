//! `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.

use super::timeout::with_mask;
use crate::call::Call;
use crate::ids::FileKey;
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use crate::uring::{PlaceMemory, registered_ring};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_objects::file_kind::FileKind;
use belljar_uring::memory::CQ_TAIL;
use belljar_uring::query::ENTER_FLAGS;
use belljar_uring::setup::{PARAMS_LEN, SetupRequest};
use belljar_uring::waits::WaitArgument;

/// `IORING_ENTER_*`.
const GETEVENTS: u32 = 1;
const EXT_ARG: u32 = 8;
const REGISTERED_RING: u32 = 16;
const ABS_TIMER: u32 = 32;
const EXT_ARG_REG: u32 = 64;

/// Instance of a descriptor, or with `is_registered` of an index that the thread has registered: `EOPNOTSUPP`
/// if the file is not an io_uring instance.
pub(super) fn instance(call: &mut Call<'_>, is_registered: bool) -> Result<usize, Errno> {
    registered_ring(call, call.int(0), is_registered)
}
fn uring_of(call: &Call<'_>, file: FileKey) -> Option<usize> {
    match call.host.files.open[file.0].kind {
        FileKind::Uring(n) => Some(n),
        _ => None,
    }
}
/// True if the instance has `IORING_SETUP_SINGLE_ISSUER` and the caller is not its issuer.
pub(super) fn is_others(call: &Call<'_>, n: usize) -> bool {
    let tid = call.host.threads[call.thread.0].tid;
    call.host.urings.instances[n].issuer.is_some_and(|issuer| issuer != tid)
}

/// `io_uring_setup(2)`.
pub fn sys_io_uring_setup(call: &mut Call<'_>) -> SysResult {
    let (entries, addr) = (call.uint(0), call.args[1]);
    let mut params = call.read_vec(addr, PARAMS_LEN)?;
    let asked = SetupRequest::parse(&params)?;
    if let Some(other) = asked.attached_to {
        let file = call.host.file_of(call.process, other).map_err(|_| Errno::ENXIO)?;
        let shared = uring_of(call, file).ok_or(Errno::EINVAL)?;
        if asked.setup.polled && !call.host.urings.instances[shared].setup.polled {
            return Err(Errno::EINVAL);
        }
    }
    let sizes = asked.sizes(entries)?;
    let file = call.host.create_uring(call.thread, sizes, asked.setup)?;
    let FileKind::Uring(n) = call.host.files.open(file).kind else { return Err(Errno::EINVAL) };
    call.host.urings.instances[n].ring.describe(&mut params);
    if let Err(errno) = call.write_bytes(addr, &params) {
        call.host.release_file(file);
        return Err(errno);
    }
    if asked.registered_only {
        let tid = call.host.threads[call.thread.0].tid;
        let place = call.host.register_ring(tid, u32::MAX, file);
        call.host.release_file(file);
        return done(u64::from(place?));
    }
    done(call.host.install_fd(call.process, file, true, 0)?)
}

/// `io_uring_enter(2)`.
pub fn sys_io_uring_enter(call: &mut Call<'_>) -> SysResult {
    let (flags, [.., argument, size]) = (call.uint(3), call.args);
    if flags & !ENTER_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let n = instance(call, flags & REGISTERED_RING != 0)?;
    let uring = &call.host.urings.instances[n];
    if uring.disabled {
        return Err(Errno::EBADFD);
    }
    let looks = flags & GETEVENTS != 0 && uring.setup.defers;
    if is_others(call, n) && !uring.setup.polled && (call.uint(1) > 0 || looks) {
        return Err(Errno::EEXIST);
    }
    let WaitArgument { mask, mask_size, limit, least } = wait_argument(call, n, flags, argument, size)?;
    let ends_at = |call: &Call<'_>, nanos: u64| match flags & ABS_TIMER {
        0 => call.after(SimDuration::from_nanos(nanos)),
        _ => call.host.net.clock.at_monotonic(nanos),
    };
    let (submitted, deadline, timeouts) = match call.resumed.as_ref().map(|resumed| &resumed.state) {
        Some(CallState::Uring(submitted, deadline, timeouts)) => (*submitted, *deadline, *timeouts),
        _ => {
            let submitted = submit(call, n);
            let deadline = limit.map(|limit| ends_at(call, limit));
            if least > 0 && flags & GETEVENTS != 0 {
                let until = call.after(SimDuration::from_nanos(least));
                let tid = call.host.threads[call.thread.0].tid;
                let uring = &mut call.host.urings.instances[n];
                let tail = uring.ring.word(&*call.host.machine, CQ_TAIL);
                uring.least_waits.insert(tid, (until, tail));
            }
            (submitted, deadline, call.host.urings.instances[n].timeouts)
        }
    };
    if flags & GETEVENTS == 0 {
        return done(u64::from(submitted));
    }
    with_mask(call, mask, mask_size, |call| wait(call, n, (submitted, deadline, timeouts)))
}

fn wait_argument(
    call: &mut Call<'_>,
    n: usize,
    flags: u32,
    argument: u64,
    size: u64,
) -> Result<WaitArgument, Errno> {
    if flags & EXT_ARG == 0 {
        return Ok(WaitArgument { mask: argument, mask_size: size, ..WaitArgument::default() });
    }
    if flags & EXT_ARG_REG == 0 {
        let memory = PlaceMemory::of(call.host, call.process);
        return WaitArgument::read(&memory, argument, size);
    }
    let region = call.host.urings.instances[n].region.ok_or(Errno::EFAULT)?;
    let process = call.host.urings.instances[n].process;
    let memory = PlaceMemory { host: call.host, process, place: region.place };
    WaitArgument::registered(&memory, &region, argument, size)
}

/// Submits up to the requested number of entries; returns the number submitted.
///
/// With `IORING_SETUP_SQPOLL` the kernel's polling thread is always asleep, which `IORING_SQ_NEED_WAKEUP`
/// reports. The call that a program makes to wake it submits all entries, so the result does not depend on
/// the timing of a polling thread. As on Linux this call returns the requested number.
fn submit(call: &mut Call<'_>, n: usize) -> u32 {
    if !call.host.urings.instances[n].setup.polled {
        return call.host.submit(n, call.uint(1), call.thread);
    }
    call.host.submit(n, u32::MAX, call.thread);
    call.uint(1)
}

/// Waits until the requested number of completions is available or a time-out expires.
fn wait(
    call: &mut Call<'_>,
    n: usize,
    (submitted, limit, timeouts): (u32, Option<SimTime>, u32),
) -> SysResult {
    // Requests that can make progress run before the caller blocks.
    while call.host.urings.has_uring_work() {
        call.host.run_next_request();
    }
    call.host.run_postponed(n);
    call.host.urings.instances[n].flush_completions(&mut *call.host.machine);
    let uring = &call.host.urings.instances[n];
    let wanted = call.uint(2).min(uring.ring.cq_entries);
    // With `IORING_SETUP_IOPOLL` the call does not wait if no request is in progress.
    let nothing_to_come = uring.setup.polls_io && uring.requests.is_empty();
    let ends = nothing_to_come || uring.timeouts != timeouts;
    let unread = uring.ring.unread(&*call.host.machine);
    if ends || unread >= wanted {
        return done(u64::from(submitted));
    }
    // After a minimum wait, any completion since its start ends the wait.
    let tid = call.host.threads[call.thread.0].tid;
    let (mut deadline, mut is_over) = (limit, call.deadline_passed());
    if let Some((until, tail)) = uring.least_waits.get(&tid).copied() {
        if call.now() >= until && uring.ring.word(&*call.host.machine, CQ_TAIL) != tail {
            return done(u64::from(submitted));
        }
        if call.now() < until && deadline.is_none_or(|deadline| until < deadline) {
            (deadline, is_over) = (Some(until), false);
        } else {
            is_over &= deadline.is_some_and(|deadline| call.now() >= deadline);
        }
    }
    // Fewer completions than requested are not an error.
    let some = submitted > 0 || unread > 0;
    if is_over {
        return if some { done(u64::from(submitted)) } else { Err(Errno::ETIME) };
    }
    let interrupted = if some { IfInterrupted::Value(u64::from(submitted)) } else { IfInterrupted::Eintr };
    let state = CallState::Uring(submitted, limit, timeouts);
    Block::on(uring.queue).with_deadline(deadline).with_state(state).interrupted(interrupted).into()
}
