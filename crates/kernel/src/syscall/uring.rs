//! `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.

use super::timeout::with_mask;
use crate::call::Call;
use crate::ids::FileKey;
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;
use belljar_objects::file_kind::FileKind;
use belljar_objects::space::Access;
use belljar_uring::entry;
use belljar_uring::registered::RingRestrictions;
use belljar_uring::setup::{PARAMS_LEN, SetupRequest};

/// `IORING_ENTER_*`.
const GETEVENTS: u32 = 1;
const EXT_ARG: u32 = 8;
const REGISTERED_RING: u32 = 16;
const ABS_TIMER: u32 = 32;
/// `IORING_REGISTER_USE_REGISTERED_RING`.
const USE_REGISTERED: u32 = 1 << 31;
/// `sizeof(struct io_uring_getevents_arg)`.
const EXT_ARG_LEN: u64 = 24;

/// Instance of a descriptor, or with `is_registered` of an index that the thread has registered: `EOPNOTSUPP`
/// if the file is not an io_uring instance.
fn instance(call: &mut Call<'_>, is_registered: bool) -> Result<usize, Errno> {
    let file = match is_registered {
        true => call.host.urings.registered_ring(call.host.threads[call.thread.0].tid, call.int(0))?,
        false => call.host.file_of(call.process, call.int(0))?,
    };
    uring_of(call, file).ok_or(Errno::EOPNOTSUPP)
}
fn uring_of(call: &Call<'_>, file: FileKey) -> Option<usize> {
    match call.host.files.open[file.0].kind {
        FileKind::Uring(n) => Some(n),
        _ => None,
    }
}
/// True if the instance has `IORING_SETUP_SINGLE_ISSUER` and the caller is not its issuer.
fn is_others(call: &Call<'_>, n: usize) -> bool {
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
    done(call.host.install_fd(call.process, file, true, 0)?)
}

/// `io_uring_enter(2)`.
pub fn sys_io_uring_enter(call: &mut Call<'_>) -> SysResult {
    let (flags, [.., argument, size]) = (call.uint(3), call.args);
    if flags & !(GETEVENTS | 2 | 4 | EXT_ARG | REGISTERED_RING | ABS_TIMER) != 0 {
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
    let (mut mask, mut mask_size, mut limit) = (argument, size, None);
    if flags & EXT_ARG != 0 {
        if size != EXT_ARG_LEN {
            return Err(Errno::EINVAL);
        }
        let [set, sizes, time]: [u64; 3] = call.read(argument)?;
        (mask, mask_size) = (set, sizes & 0xffff_ffff);
        if time != 0 {
            limit = Some(call.read::<Timespec>(time)?.to_nanos().ok_or(Errno::EINVAL)?);
        }
    }
    let ends_at = |call: &Call<'_>, nanos: u64| match flags & ABS_TIMER {
        0 => call.after(SimDuration::from_nanos(nanos)),
        _ => call.host.net.clock.at_monotonic(nanos),
    };
    let (submitted, deadline, timeouts) = match call.resumed.as_ref().map(|resumed| &resumed.state) {
        Some(CallState::Uring(submitted, deadline, timeouts)) => (*submitted, *deadline, *timeouts),
        _ => {
            let submitted = submit(call, n);
            let deadline = limit.map(|limit| ends_at(call, limit));
            (submitted, deadline, call.host.urings.instances[n].timeouts)
        }
    };
    if flags & GETEVENTS == 0 {
        return done(u64::from(submitted));
    }
    with_mask(call, mask, mask_size, |call| wait(call, n, (submitted, deadline, timeouts)))
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
    (submitted, deadline, timeouts): (u32, Option<SimTime>, u32),
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
    // Fewer completions than requested are not an error.
    let some = submitted > 0 || unread > 0;
    if call.deadline_passed() {
        return if some { done(u64::from(submitted)) } else { Err(Errno::ETIME) };
    }
    let interrupted = if some { IfInterrupted::Value(u64::from(submitted)) } else { IfInterrupted::Eintr };
    let state = CallState::Uring(submitted, deadline, timeouts);
    Block::on(uring.queue).with_deadline(deadline).with_state(state).interrupted(interrupted).into()
}

/// `io_uring_register(2)`.
pub fn sys_io_uring_register(call: &mut Call<'_>) -> SysResult {
    const BUFFERS: u32 = 0;
    const NO_BUFFERS: u32 = 1;
    const FILES: u32 = 2;
    const NO_FILES: u32 = 3;
    const EVENTFD: u32 = 4;
    const NO_EVENTFD: u32 = 5;
    const FILES_UPDATE: u32 = 6;
    const EVENTFD_ASYNC: u32 = 7;
    const PROBE: u32 = 8;
    const PERSONALITY: u32 = 9;
    const NO_PERSONALITY: u32 = 10;
    const RESTRICTIONS: u32 = 11;
    const ENABLE_RINGS: u32 = 12;
    const FILES2: u32 = 13;
    const FILES_UPDATE2: u32 = 14;
    const BUFFERS2: u32 = 15;
    const MAX_WORKERS: u32 = 19;
    const RING_FDS: u32 = 20;
    const NO_RING_FDS: u32 = 21;
    const BUFFER_RING: u32 = 22;
    const NO_BUFFER_RING: u32 = 23;
    const SYNC_CANCEL: u32 = 24;
    const FILE_RANGE: u32 = 25;
    const BUFFER_STATUS: u32 = 26;
    /// `IORING_REGISTER_LAST` of Linux 6.18.
    const LAST: u32 = 36;
    let operation = call.uint(1) & !USE_REGISTERED;
    if operation >= LAST {
        return Err(Errno::EINVAL);
    }
    let n = instance(call, call.uint(1) & USE_REGISTERED != 0)?;
    let (addr, count) = (call.args[2], call.uint(3));
    let uring = &call.host.urings.instances[n];
    if is_others(call, n) {
        return Err(Errno::EEXIST);
    }
    if let Some(allowed) = &uring.restrictions
        && !uring.disabled
        && !allowed.allow_register(operation)
    {
        return Err(Errno::EACCES);
    }
    match operation {
        BUFFERS => register_buffers(call, n, addr, count)?,
        BUFFERS2 => {
            let [nr, flags, resv, data, tags] = register_args(call, addr, count)?;
            if flags != 0 || resv != 0 || tags != 0 {
                return Err(Errno::EINVAL);
            }
            register_buffers(call, n, data, nr as u32)?;
        }
        NO_BUFFERS if call.host.urings.instances[n].buffers.is_empty() => return Err(Errno::ENXIO),
        NO_BUFFERS => call.host.urings.instances[n].buffers.clear(),
        FILES => register_files(call, n, Some(addr), count)?,
        FILES2 => {
            const SPARSE: u64 = 1;
            let [nr, flags, resv, data, tags] = register_args(call, addr, count)?;
            if flags & !SPARSE != 0 || resv != 0 || tags != 0 || (flags == SPARSE && data != 0) {
                return Err(Errno::EINVAL);
            }
            register_files(call, n, (flags == 0).then_some(data), nr as u32)?;
        }
        NO_FILES if call.host.urings.instances[n].slots.files.is_empty() => return Err(Errno::ENXIO),
        NO_FILES => call.host.drop_slots(n),
        FILES_UPDATE => {
            let [offset, fds]: [u64; 2] = call.read(addr)?;
            let fds = read_fds(call, fds, count)?;
            return done(call.host.set_slots(n, call.process, offset as u32, &fds)?);
        }
        FILES_UPDATE2 => {
            // `struct io_uring_rsrc_update2`: offset, descriptors, tags, count.
            if count != 32 {
                return Err(Errno::EINVAL);
            }
            let [offset, fds, tags, nr]: [u64; 4] = call.read(addr)?;
            if tags != 0 {
                return Err(Errno::EINVAL);
            }
            let fds = read_fds(call, fds, nr as u32)?;
            return done(call.host.set_slots(n, call.process, offset as u32, &fds)?);
        }
        FILE_RANGE => {
            let [start, len, resv, _]: [u32; 4] = call.read(addr)?;
            if resv != 0 || count != 0 {
                return Err(Errno::EINVAL);
            }
            call.host.urings.limit_slots(n, start, len)?;
        }
        BUFFER_RING if count != 1 => return Err(Errno::EINVAL),
        BUFFER_RING => {
            const MAPPED: u64 = 1;
            let [ring, what, resv @ ..]: [u64; 5] = call.read(addr)?;
            let (entries, group, flags) = (what as u32, (what >> 32) as u16, what >> 48);
            if resv != [0; 3] || flags & !MAPPED != 0 {
                return Err(Errno::EINVAL);
            }
            call.host.register_buffer_ring(n, group, (ring, entries), flags == MAPPED)?;
        }
        NO_BUFFER_RING if count != 1 => return Err(Errno::EINVAL),
        NO_BUFFER_RING => {
            let [ring, what, resv @ ..]: [u64; 5] = call.read(addr)?;
            if resv != [0; 3] || ring != 0 || what as u32 != 0 || what >> 48 != 0 {
                return Err(Errno::EINVAL);
            }
            call.host.unregister_buffer_ring(n, (what >> 32) as u16)?;
        }
        BUFFER_STATUS if count != 1 => return Err(Errno::EINVAL),
        BUFFER_STATUS => {
            let group: u32 = call.read(addr)?;
            let head = call.host.urings.buffer_ring_head(n, group as u16)?;
            call.write(addr + 4, &head)?;
        }
        SYNC_CANCEL if count != 1 => return Err(Errno::EINVAL),
        SYNC_CANCEL => {
            // `struct io_uring_sync_cancel_reg`; cancellation is immediate, so the time-out is ignored.
            let [user_data, what, _, _, op]: [u64; 5] = call.read(addr)?;
            let by = crate::uring::submitter(&call.host.threads, &call.host.processes, call.thread);
            let cancelled =
                call.host.cancel_matching(n, by, ((what >> 32) as u32, user_data, what as i32, op as u8))?;
            return done(cancelled as u64);
        }
        // There are no worker threads to limit.
        MAX_WORKERS if count != 2 => return Err(Errno::EINVAL),
        MAX_WORKERS => call.write(addr, &[0u32; 2])?,
        EVENTFD | EVENTFD_ASYNC if count != 1 => return Err(Errno::EINVAL),
        EVENTFD | EVENTFD_ASYNC if call.host.urings.instances[n].eventfd.is_some() => {
            return Err(Errno::EBUSY);
        }
        EVENTFD | EVENTFD_ASYNC => {
            let fd: i32 = call.read(addr)?;
            let file = call.host.file_of(call.process, fd)?;
            if !matches!(call.host.files.open(file).kind, FileKind::EventFd(_)) {
                return Err(Errno::EINVAL);
            }
            call.host.files.retain_file(file);
            call.host.urings.instances[n].eventfd = Some(file);
        }
        NO_EVENTFD => {
            let file = call.host.urings.instances[n].eventfd.take().ok_or(Errno::ENXIO)?;
            call.host.release_file(file);
        }
        PROBE => {
            let answer = entry::probe(count);
            call.write_bytes(addr, &answer)?;
        }
        PERSONALITY if addr != 0 || count != 0 => return Err(Errno::EINVAL),
        PERSONALITY => return done(call.host.register_personality(n, call.process)?),
        NO_PERSONALITY if addr != 0 => return Err(Errno::EINVAL),
        NO_PERSONALITY => {
            let known = &mut call.host.urings.instances[n].personalities;
            u16::try_from(count).ok().and_then(|id| known.remove(&id)).ok_or(Errno::EINVAL)?;
        }
        RESTRICTIONS if !uring.disabled => return Err(Errno::EBADFD),
        RESTRICTIONS if uring.restrictions.is_some() => return Err(Errno::EBUSY),
        RESTRICTIONS => {
            let bytes = call.read_vec(addr, count.min(256) as usize * 16)?;
            call.host.urings.instances[n].restrictions = Some(RingRestrictions::parse(&bytes)?);
        }
        RING_FDS | NO_RING_FDS => return register_rings(call, operation == RING_FDS, addr, count),
        ENABLE_RINGS if !uring.disabled => return Err(Errno::EBADFD),
        ENABLE_RINGS => {
            let tid = call.host.threads[call.thread.0].tid;
            let uring = &mut call.host.urings.instances[n];
            uring.disabled = false;
            uring.issuer = uring.setup.single_issuer.then_some(tid);
        }
        _ => return Err(Errno::EINVAL),
    }
    done(0)
}

/// `IORING_REGISTER_RING_FDS` and `IORING_UNREGISTER_RING_FDS`: returns the number of entries processed, or
/// the error of the first.
fn register_rings(call: &mut Call<'_>, registers: bool, addr: u64, count: u32) -> SysResult {
    if !(1..=16).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let tid = call.host.threads[call.thread.0].tid;
    for at in 0..count {
        // `struct io_uring_rsrc_update`: index, reserved, descriptor.
        let entry = addr + 16 * u64::from(at);
        let one = call.read(entry).and_then(|[place, fd]: [u64; 2]| {
            if place >> 32 != 0 || (!registers && fd != 0) {
                return Err(Errno::EINVAL);
            }
            if !registers {
                return call.host.unregister_ring(tid, place as u32);
            }
            let file = call.host.file_of(call.process, fd as i32)?;
            let place = call.host.register_ring(tid, place as u32, file)?;
            call.write(entry, &place)
        });
        match one {
            Err(errno) if at == 0 => return Err(errno),
            Err(_) => return done(u64::from(at)),
            Ok(()) => {}
        }
    }
    done(u64::from(count))
}

/// Reads a `struct io_uring_rsrc_register`: count, flags, reserved, address, tags.
fn register_args(call: &Call<'_>, addr: u64, size: u32) -> Result<[u64; 5], Errno> {
    if size != 32 {
        return Err(Errno::EINVAL);
    }
    let [counts, resv, data, tags]: [u64; 4] = call.read(addr)?;
    Ok([counts & 0xffff_ffff, counts >> 32, resv, data, tags])
}

fn register_buffers(call: &mut Call<'_>, n: usize, addr: u64, count: u32) -> Result<(), Errno> {
    /// Maximum length of a buffer in bytes.
    const MOST_BYTES: u64 = 1 << 30;
    if !call.host.urings.instances[n].buffers.is_empty() {
        return Err(Errno::EBUSY);
    }
    if !(1..=16_384).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let bytes = call.read_vec(addr, count as usize * 16)?;
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let buffers: Vec<(u64, u64)> =
        bytes.chunks_exact(16).map(|entry| (word(&entry[..8]), word(&entry[8..]))).collect();
    for (start, len) in buffers.iter().copied().filter(|buffer| *buffer != (0, 0)) {
        if start == 0 || len == 0 || len > MOST_BYTES {
            return Err(Errno::EFAULT);
        }
        start.checked_add(len).ok_or(Errno::EOVERFLOW)?;
        let mm = call.host.processes[call.process.0].mm.ok_or(Errno::ESRCH)?;
        call.host.spaces[mm.0].check(start, len, Access::Write)?;
    }
    call.host.urings.instances[n].buffers = buffers;
    Ok(())
}

fn read_fds(call: &Call<'_>, addr: u64, count: u32) -> Result<Vec<i32>, Errno> {
    let bytes = call.read_vec(addr, count as usize * 4)?;
    Ok(bytes.chunks_exact(4).map(|fd| i32::from_ne_bytes(fd.try_into().expect("four bytes"))).collect())
}

/// Registers the descriptors at `addr`, or `count` empty slots without an address.
fn register_files(call: &mut Call<'_>, n: usize, addr: Option<u64>, count: u32) -> Result<(), Errno> {
    call.host.urings.make_slots(n, count as usize)?;
    let Some(addr) = addr else { return Ok(()) };
    let registered =
        read_fds(call, addr, count).and_then(|fds| call.host.set_slots(n, call.process, 0, &fds));
    if let Err(errno) = registered {
        call.host.drop_slots(n);
        return Err(errno);
    }
    Ok(())
}
