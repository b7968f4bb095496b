//! `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register(2)`.

use super::timeout::with_mask;
use crate::call::{Block, Call, CallState, IfInterrupted, SysResult, done};
use crate::files::FileKind;
use crate::uring::{self, Entry};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;

/// `IORING_MAX_ENTRIES`; twice that for completions.
const MAX_ENTRIES: u32 = 32_768;
/// `IORING_SETUP_*`.
const SQPOLL: u32 = 2;
const CQSIZE: u32 = 8;
const CLAMP: u32 = 16;
const R_DISABLED: u32 = 64;
const NO_SQARRAY: u32 = 1 << 16;
/// Attached work queues, submitting all, and how the work of tasks is run: nothing that would differ here.
const WITHOUT_EFFECT: u32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 12 | 1 << 13;
/// `IORING_FEAT_*`: one mapping for both rings, nothing dropped, stable submission, current positions, the
/// submitter's personality, polling, 32-bit polling, extended arguments, native workers, skipped completions,
/// linked files.
const FEATURES: u32 = 1 | 2 | 4 | 8 | 16 | 32 | 64 | 256 | 512 | 2_048 | 4_096;
/// `IORING_ENTER_*`.
const GETEVENTS: u32 = 1;
const EXT_ARG: u32 = 8;
/// `sizeof(struct io_uring_getevents_arg)`.
const EXT_ARG_LEN: u64 = 24;

/// The instance behind a descriptor: `EOPNOTSUPP` if it is something else.
fn instance(call: &Call<'_>) -> Result<usize, Errno> {
    let file = call.host.file_of(call.process, call.int(0))?;
    match call.host.files.open[file.0].kind {
        FileKind::Uring(n) => Ok(n),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// `io_uring_setup(2)`.
pub fn sys_io_uring_setup(call: &mut Call<'_>) -> SysResult {
    let (entries, addr) = (call.uint(0), call.args[1]);
    let mut params = call.read_vec(addr, 120)?;
    let word = |at: usize| u32::from_ne_bytes([params[at], params[at + 1], params[at + 2], params[at + 3]]);
    let (wanted, flags) = (word(4), word(8));
    let reserved = (28..40).step_by(4).any(|at| word(at) != 0);
    if flags & SQPOLL != 0 {
        call.host.warn("io_uring with IORING_SETUP_SQPOLL is not supported: a thread of the kernel that polls would take all time");
        return Err(Errno::EPERM);
    }
    if reserved || flags & !(CQSIZE | CLAMP | R_DISABLED | NO_SQARRAY | WITHOUT_EFFECT) != 0 {
        return Err(Errno::EINVAL);
    }
    let round = |entries: u32, most: u32| match entries {
        0 => Err(Errno::EINVAL),
        n if n > most && flags & CLAMP == 0 => Err(Errno::EINVAL),
        n => Ok(n.min(most).next_power_of_two()),
    };
    let sq_entries = round(entries, MAX_ENTRIES)?;
    let cq_entries = match flags & CQSIZE {
        0 => 2 * sq_entries,
        _ => round(wanted, 2 * MAX_ENTRIES)?,
    };
    if cq_entries < sq_entries {
        return Err(Errno::EINVAL);
    }
    let has_array = flags & NO_SQARRAY == 0;
    let file =
        call.host.create_uring(call.process, (sq_entries, cq_entries), has_array, flags & R_DISABLED != 0)?;
    let FileKind::Uring(n) = call.host.open(file).kind else { return Err(Errno::EINVAL) };
    let array = if has_array { call.host.urings.instances[n].ring.array() } else { 0 };
    let mut put = |at: usize, value: u32| params[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    put(0, sq_entries);
    put(4, cq_entries);
    put(20, FEATURES);
    let sq = [
        uring::SQ_HEAD,
        uring::SQ_TAIL,
        uring::SQ_MASK,
        uring::SQ_ENTRIES,
        uring::SQ_FLAGS,
        uring::SQ_DROPPED,
        array,
    ];
    let cq = [
        uring::CQ_HEAD,
        uring::CQ_TAIL,
        uring::CQ_MASK,
        uring::CQ_ENTRIES,
        uring::CQ_OVERFLOW,
        uring::CQES,
        uring::CQ_FLAGS,
    ];
    for (start, offsets) in [(40, sq), (80, cq)] {
        offsets.into_iter().enumerate().for_each(|(at, offset)| put(start + 4 * at, offset));
    }
    if let Err(errno) = call.write_bytes(addr, &params) {
        call.host.release_file(file);
        return Err(errno);
    }
    done(call.host.install_fd(call.process, file, true, 0)?)
}

/// `io_uring_enter(2)`.
pub fn sys_io_uring_enter(call: &mut Call<'_>) -> SysResult {
    let n = instance(call)?;
    let (flags, [.., argument, size]) = (call.uint(3), call.args);
    if flags & !(GETEVENTS | 2 | 4 | EXT_ARG) != 0 {
        return Err(Errno::EINVAL);
    }
    if call.host.urings.instances[n].disabled {
        return Err(Errno::EBADFD);
    }
    let (mut mask, mut mask_size, mut limit) = (argument, size, None);
    if flags & EXT_ARG != 0 {
        if size != EXT_ARG_LEN {
            return Err(Errno::EINVAL);
        }
        let [set, sizes, time]: [u64; 3] = call.read(argument)?;
        (mask, mask_size) = (set, sizes & 0xffff_ffff);
        if time != 0 {
            let nanos = call.read::<Timespec>(time)?.to_nanos().ok_or(Errno::EINVAL)?;
            limit = Some(SimDuration::from_nanos(nanos));
        }
    }
    let (submitted, deadline) = match call.resumed.as_ref().map(|resumed| &resumed.state) {
        Some(CallState::Uring(submitted, deadline)) => (*submitted, *deadline),
        _ => (call.host.submit(n, call.uint(1)), limit.map(|limit| call.after(limit))),
    };
    if flags & GETEVENTS == 0 {
        return done(u64::from(submitted));
    }
    with_mask(call, mask, mask_size, |call| wait(call, n, submitted, deadline))
}

/// Waits for as many completions as are asked for.
fn wait(call: &mut Call<'_>, n: usize, submitted: u32, deadline: Option<SimTime>) -> SysResult {
    // What can go on at once does so before anybody waits.
    while call.host.has_uring_work() {
        call.host.run_next_request();
    }
    call.host.flush_completions(n);
    let uring = &call.host.urings.instances[n];
    let wanted = call.uint(2).min(uring.ring.cq_entries);
    if uring.ring.unread(&*call.host.machine) >= wanted {
        return done(u64::from(submitted));
    }
    if call.deadline_passed() {
        return if submitted > 0 { done(u64::from(submitted)) } else { Err(Errno::ETIME) };
    }
    let interrupted =
        if submitted > 0 { IfInterrupted::Value(u64::from(submitted)) } else { IfInterrupted::Eintr };
    let state = CallState::Uring(submitted, deadline);
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
    const ENABLE_RINGS: u32 = 12;
    let n = instance(call)?;
    let (operation, addr, count) = (call.uint(1), call.args[2], call.uint(3));
    match operation {
        BUFFERS if !call.host.urings.instances[n].buffers.is_empty() => return Err(Errno::EBUSY),
        BUFFERS if !(1..=16_384).contains(&count) => return Err(Errno::EINVAL),
        BUFFERS => {
            let bytes = call.read_vec(addr, count as usize * 16)?;
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
            let buffers =
                bytes.chunks_exact(16).map(|entry| (word(&entry[..8]), word(&entry[8..]))).collect();
            call.host.urings.instances[n].buffers = buffers;
        }
        NO_BUFFERS if call.host.urings.instances[n].buffers.is_empty() => return Err(Errno::ENXIO),
        NO_BUFFERS => call.host.urings.instances[n].buffers.clear(),
        FILES if !call.host.urings.instances[n].files.is_empty() => return Err(Errno::EBUSY),
        FILES if !(1..=32_768).contains(&count) => return Err(Errno::EINVAL),
        FILES => {
            call.host.urings.instances[n].files = vec![None; count as usize];
            if let Err(errno) = set_files(call, n, 0, addr, count) {
                drop_files(call, n);
                return Err(errno);
            }
        }
        NO_FILES if call.host.urings.instances[n].files.is_empty() => return Err(Errno::ENXIO),
        NO_FILES => drop_files(call, n),
        FILES_UPDATE => {
            let [offset, fds]: [u64; 2] = call.read(addr)?;
            return done(set_files(call, n, offset as u32, fds, count)?);
        }
        EVENTFD | EVENTFD_ASYNC if count != 1 => return Err(Errno::EINVAL),
        EVENTFD | EVENTFD_ASYNC if call.host.urings.instances[n].eventfd.is_some() => {
            return Err(Errno::EBUSY);
        }
        EVENTFD | EVENTFD_ASYNC => {
            let fd: i32 = call.read(addr)?;
            let file = call.host.file_of(call.process, fd)?;
            if !matches!(call.host.open(file).kind, FileKind::EventFd(_)) {
                return Err(Errno::EINVAL);
            }
            call.host.retain_file(file);
            call.host.urings.instances[n].eventfd = Some(file);
        }
        NO_EVENTFD => {
            let file = call.host.urings.instances[n].eventfd.take().ok_or(Errno::ENXIO)?;
            call.host.release_file(file);
        }
        PROBE => {
            // `struct io_uring_probe` and behind it one entry of eight bytes for each operation.
            let listed = count.min(u32::from(uring::OPS)) as u8;
            let mut answer = vec![0; 16 + 8 * usize::from(listed)];
            (answer[0], answer[1]) = (uring::OPS - 1, listed);
            for op in 0..listed {
                let at = 16 + 8 * usize::from(op);
                (answer[at], answer[at + 2]) = (op, u8::from(Entry::is_supported(op)));
            }
            call.write_bytes(addr, &answer)?;
        }
        ENABLE_RINGS if !call.host.urings.instances[n].disabled => return Err(Errno::EBADFD),
        ENABLE_RINGS => call.host.urings.instances[n].disabled = false,
        _ => return Err(Errno::EINVAL),
    }
    done(0)
}

/// Registers descriptors from a place on; how many. -1 leaves a place empty, -2 as it is.
fn set_files(call: &mut Call<'_>, n: usize, from: u32, addr: u64, count: u32) -> Result<u64, Errno> {
    let places = call.host.urings.instances[n].files.len();
    if places == 0 {
        return Err(Errno::ENXIO);
    }
    if u64::from(from) + u64::from(count) > places as u64 {
        return Err(Errno::EINVAL);
    }
    let bytes = call.read_vec(addr, count as usize * 4)?;
    for (at, fd) in bytes.chunks_exact(4).enumerate() {
        let fd = i32::from_ne_bytes(fd.try_into().expect("four bytes"));
        if fd == -2 {
            continue;
        }
        let file = if fd == -1 { None } else { Some(call.host.file_of(call.process, fd)?) };
        // An instance of its own would never be closed.
        if let Some(file) = file {
            if matches!(call.host.open(file).kind, FileKind::Uring(_)) {
                return Err(Errno::EBADF);
            }
            call.host.retain_file(file);
        }
        let old = std::mem::replace(&mut call.host.urings.instances[n].files[from as usize + at], file);
        if let Some(old) = old {
            call.host.release_file(old);
        }
    }
    Ok(u64::from(count))
}

fn drop_files(call: &mut Call<'_>, n: usize) {
    for file in std::mem::take(&mut call.host.urings.instances[n].files).into_iter().flatten() {
        call.host.release_file(file);
    }
}
