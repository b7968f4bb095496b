//! `poll` and `ppoll`.

use super::timeout::{TimedWait, Timeout, with_mask};
use crate::call::Call;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use crate::outcome::{IfInterrupted, SysResult, done};
use belljar_linux_abi::poll::PollFd;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use smallvec::{SmallVec, smallvec};
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};

/// Events reported even if not requested.
const ALWAYS_REPORTED: u16 = (c::POLLERR | c::POLLHUP) as u16;

/// Offset of `revents` in an entry.
const REVENTS: usize = offset_of!(PollFd, revents);

/// `poll(2)`.
pub fn sys_poll(call: &mut Call<'_>) -> SysResult {
    let timeout = Timeout::from_millis(call.int(2));
    poll(call, timeout)
}

/// `ppoll(2)`; stores the remaining time, which the C library's wrapper hides.
pub fn sys_ppoll(call: &mut Call<'_>) -> SysResult {
    let [_, _, time, mask, size, _] = call.args;
    let timeout = match call.resumed {
        Some(_) => Timeout::default(),
        None => Timeout::from_timespec(call, time)?,
    };
    with_mask(call, mask, size, |call| poll(call, timeout))
}

fn poll(call: &mut Call<'_>, timeout: Timeout) -> SysResult {
    let [addr, count, ..] = call.args;
    let count = count as u32 as usize;
    let limit = call.host.process(call.process).rlimits[c::RLIMIT_NOFILE as usize].soft;
    if count as u64 > limit {
        return Err(Errno::EINVAL);
    }
    let mut asked = call.take_asked();
    if call.resumed.is_none() {
        asked.resize(count * size_of::<PollFd>(), 0);
        call.read_bytes(addr, &mut asked)?;
    }
    let outcome = poll_asked(call, timeout, &mut asked);
    call.host.threads[call.thread.0].asked = asked;
    outcome
}

/// Polls the entries read at the start of the call: as on Linux, later changes of the array are ignored.
fn poll_asked(call: &mut Call<'_>, timeout: Timeout, asked: &mut [u8]) -> SysResult {
    let attempt = TimedWait::of(call, timeout);
    let mut ready = 0;
    for raw in asked.chunks_exact_mut(size_of::<PollFd>()) {
        let mut entry = PollFd::read_from_bytes(raw).expect("the size of one entry");
        entry.revents = match entry.fd {
            ..0 => 0,
            fd => call.host.poll_descriptor(call.process, fd, entry.events),
        };
        ready += u64::from(entry.revents != 0);
        raw.copy_from_slice(entry.as_bytes());
    }
    if ready == 0
        && attempt.last
        && call.host.threads.has_deliverable_signal(&call.host.processes, call.thread)
    {
        // A pending signal interrupts even a call that does not wait.
        return attempt.wait(SmallVec::new(), IfInterrupted::RestartNoHandler);
    }
    if ready > 0 || attempt.last {
        store_found(call, asked)?;
        attempt.store_remaining(call);
        return done(ready);
    }
    let mut queues = SmallVec::new();
    for raw in asked.chunks_exact(size_of::<PollFd>()) {
        let fd = i32::read_from_prefix(raw).expect("an entry begins with it").0;
        if fd >= 0
            && let Ok(file) = call.host.pollable_file(call.process, fd)
            && let Some(queue) = call.host.wait_queue(file)
        {
            queues.push(queue);
        }
    }
    attempt.wait(queues, IfInterrupted::RestartNoHandler)
}

/// Stores the `revents` fields in the guest's array, leaving the other fields unchanged.
fn store_found(call: &mut Call<'_>, found: &[u8]) -> Result<(), Errno> {
    let addr = call.args[0];
    if found.len() == size_of::<PollFd>() {
        return call.write_bytes(addr + REVENTS as u64, &found[REVENTS..]);
    }
    let mut present: SmallVec<[u8; 64]> = smallvec![0; found.len()];
    call.read_bytes(addr, &mut present)?;
    let entries = present.chunks_exact_mut(size_of::<PollFd>()).zip(found.chunks_exact(size_of::<PollFd>()));
    for (present, found) in entries {
        present[REVENTS..].copy_from_slice(&found[REVENTS..]);
    }
    call.write_bytes(addr, &present)
}

impl Call<'_> {
    /// Descriptors or sets read at the start of the call, to be stored again by the caller; empty for a new
    /// call.
    pub(super) fn take_asked(&mut self) -> Vec<u8> {
        let mut asked = std::mem::take(&mut self.host.threads[self.thread.0].asked);
        if self.resumed.is_none() {
            asked.clear();
        }
        asked
    }
}

impl Host {
    /// Open file of a descriptor that can be polled; `EBADF` for an `O_PATH` descriptor.
    pub(super) fn pollable_file(&self, process: ProcessKey, fd: i32) -> Result<FileKey, Errno> {
        let file = self.present_file_of(process, fd)?;
        match self.files.open[file.0].kind {
            FileKind::Path(_) => Err(Errno::EBADF),
            _ => Ok(file),
        }
    }
    fn poll_descriptor(&mut self, process: ProcessKey, fd: i32, wanted: u16) -> u16 {
        match self.pollable_file(process, fd) {
            Ok(file) => self.polled(file) as u16 & (wanted | ALWAYS_REPORTED),
            Err(_) => c::POLLNVAL as u16,
        }
    }
}
