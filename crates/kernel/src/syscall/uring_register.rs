//! `io_uring_register(2)`.

use super::uring::{instance, is_others};
use crate::call::Call;
use crate::outcome::{SysResult, done};
use crate::uring::{PlaceMemory, regions, resources, submitter};
use belljar_linux_abi::io_uring::register::*;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_uring::entry::{self, MSG_RING, SubmissionEntry};
use belljar_uring::query::{self, REGISTER_OPS};
use belljar_uring::registered::RingRestrictions;

/// `IORING_REGISTER_USE_REGISTERED_RING`.
const USE_REGISTERED: u32 = 1 << 31;
/// `io_uring_register(2)`.
pub fn sys_io_uring_register(call: &mut Call<'_>) -> SysResult {
    let operation = call.uint(1) & !USE_REGISTERED;
    if operation >= REGISTER_OPS {
        return Err(Errno::EINVAL);
    }
    if call.int(0) == -1 {
        return register_without_ring(call, operation);
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
        BUFFERS if addr == 0 => return Err(Errno::EFAULT),
        BUFFERS => resources::register_buffers(call, n, addr, count, 0)?,
        NO_BUFFERS if addr != 0 || count != 0 => return Err(Errno::EINVAL),
        NO_BUFFERS => resources::drop_buffers(call.host, n)?,
        FILES if addr == 0 => return Err(Errno::EFAULT),
        FILES => resources::register_files(call, n, Some(addr), count, 0)?,
        BUFFERS2 | FILES2 => register_resources(call, n, operation, addr, count)?,
        NO_FILES if addr != 0 || count != 0 => return Err(Errno::EINVAL),
        NO_FILES if call.host.urings.instances[n].slots.files.is_empty() => return Err(Errno::ENXIO),
        NO_FILES => call.host.drop_slots(n),
        FILES_UPDATE => {
            let [offset, fds]: [u64; 2] = call.read(addr)?;
            return resources::update_files(call, n, offset as u32, (fds, 0, count));
        }
        FILES_UPDATE2 | BUFFERS_UPDATE => {
            // `struct io_uring_rsrc_update2`: offset, data, tags, count.
            if count != 32 {
                return Err(Errno::EINVAL);
            }
            let [offset, data, tags, nr]: [u64; 4] = call.read(addr)?;
            if nr >> 32 != 0 || offset >> 32 != 0 || nr == 0 {
                return Err(Errno::EINVAL);
            }
            let what = (data, tags, nr as u32);
            return match operation {
                FILES_UPDATE2 => resources::update_files(call, n, offset as u32, what),
                _ => resources::update_buffers(call, n, offset as u32, what),
            };
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
            const INCREMENTAL: u64 = 2;
            let [ring, what, resv @ ..]: [u64; 5] = call.read(addr)?;
            let (entries, group, flags) = (what as u32, (what >> 32) as u16, what >> 48);
            if resv != [0; 3] || flags & !(MAPPED | INCREMENTAL) != 0 {
                return Err(Errno::EINVAL);
            }
            let kind = (flags & MAPPED != 0, flags & INCREMENTAL != 0);
            call.host.register_buffer_ring(n, group, (ring, entries), kind)?;
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
            let by = submitter(&call.host.threads, &call.host.processes, call.thread);
            let cancelled =
                call.host.cancel_matching(n, by, ((what >> 32) as u32, user_data, what as i32, op as u8))?;
            return done(cancelled as u64);
        }
        MAX_WORKERS if addr == 0 || count != 2 => return Err(Errno::EINVAL),
        MAX_WORKERS => limit_workers(call, n, addr)?,
        // There are no worker threads that a set of processors would hold.
        WORKER_CPUS if addr == 0 || count == 0 => return Err(Errno::EINVAL),
        WORKER_CPUS => drop(call.read_vec(addr, count.min(128) as usize)?),
        NO_WORKER_CPUS if addr != 0 || count != 0 => return Err(Errno::EINVAL),
        NO_WORKER_CPUS => {}
        NAPI | NO_NAPI if count != 1 => return Err(Errno::EINVAL),
        // Interfaces have no queue that could be polled: the settings are always none.
        NAPI => {
            let [_, flags, resv @ ..]: [u32; 4] = call.read(addr)?;
            if flags >> 8 != 0 || resv != [0; 2] {
                return Err(Errno::EINVAL);
            }
            call.write(addr, &[0u64; 2])?;
        }
        NO_NAPI if addr != 0 => call.write(addr, &[0u64; 2])?,
        NO_NAPI => {}
        CLOCK => {
            let [clock, resv @ ..]: [u32; 4] = call.read(addr)?;
            let known = [c::CLOCK_MONOTONIC as u32, c::CLOCK_BOOTTIME as u32].contains(&clock);
            if count != 0 || resv != [0; 3] || !known {
                return Err(Errno::EINVAL);
            }
        }
        CLONE_BUFFERS | RESIZE_RINGS | MEMORY_REGION | ZERO_COPY_RECEIVE if addr == 0 || count != 1 => {
            return Err(Errno::EINVAL);
        }
        CLONE_BUFFERS => resources::clone_buffers(call, n, addr)?,
        RESIZE_RINGS => regions::resize(call, n, addr)?,
        MEMORY_REGION => regions::register(call, n, addr)?,
        ZERO_COPY_RECEIVE => {
            let setup = &call.host.urings.instances[n].setup;
            let can = setup.defers && setup.has_large_completions();
            return Err(if can { Errno::EOPNOTSUPP } else { Errno::EINVAL });
        }
        QUERY => return register_without_ring(call, QUERY),
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

/// `io_uring_register(2)` with descriptor -1.
fn register_without_ring(call: &mut Call<'_>, operation: u32) -> SysResult {
    let (addr, count, process) = (call.args[2], call.uint(3), call.process);
    match operation {
        QUERY if count == 0 => {
            query::answer(&mut PlaceMemory::of(call.host, process), addr)?;
            done(0)
        }
        SEND_MSG_RING if addr != 0 && count == 1 => {
            let bytes: [u8; 64] = call.read(addr)?;
            let by = submitter(&call.host.threads, &call.host.processes, call.thread);
            let entry = SubmissionEntry::parse(&bytes, by);
            // Only data can be sent: there are no registered files.
            if entry.flags != 0 || entry.op != MSG_RING || entry.addr != 0 {
                return Err(Errno::EINVAL);
            }
            let file = call.host.file_of(process, entry.fd)?;
            done(call.host.send_to_ring(usize::MAX, &entry, Some(file))? as u64)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `IORING_REGISTER_BUFFERS2` and `IORING_REGISTER_FILES2`.
fn register_resources(
    call: &mut Call<'_>,
    n: usize,
    operation: u32,
    addr: u64,
    size: u32,
) -> Result<(), Errno> {
    const SPARSE: u64 = 1;
    if size != 32 {
        return Err(Errno::EINVAL);
    }
    let [counts, resv, data, tags]: [u64; 4] = call.read(addr)?;
    let (count, flags) = (counts as u32, counts >> 32);
    if flags & !SPARSE != 0 || resv != 0 || count == 0 || flags == SPARSE && (data != 0 || tags != 0) {
        return Err(Errno::EINVAL);
    }
    match operation {
        FILES2 => resources::register_files(call, n, (flags == 0).then_some(data), count, tags),
        _ => resources::register_buffers(call, n, data, count, tags),
    }
}

/// `IORING_REGISTER_IOWQ_MAX_WORKERS`: returns the limits of worker threads and sets those that are not 0.
/// There are no worker threads to limit.
fn limit_workers(call: &mut Call<'_>, n: usize, addr: u64) -> Result<(), Errno> {
    let asked: [u32; 2] = call.read(addr)?;
    let entries = call.host.urings.instances[n].ring.sq_entries;
    let processes = call.host.processes[call.process.0].rlimits[c::RLIMIT_NPROC as usize].soft;
    let limits = &mut call.host.urings.instances[n].workers;
    let before = limits.unwrap_or([entries.min(4), processes.min(i32::MAX as u64) as u32]);
    *limits = Some([0, 1].map(|at| if asked[at] == 0 { before[at] } else { asked[at] }));
    call.write(addr, &before)
}
