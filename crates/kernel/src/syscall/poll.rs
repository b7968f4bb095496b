//! `poll` and `ppoll`.

use super::timeout::{Attempt, Timeout, with_mask};
use crate::call::{Call, IfInterrupted, SysResult, done};
use crate::files::FileKind;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use belljar_linux_abi::poll::PollFd;
use belljar_linux_abi::{Errno, c};
use smallvec::{SmallVec, smallvec};
use zerocopy::{FromBytes, IntoBytes};

/// Reported whether asked for or not.
const ALWAYS_REPORTED: u16 = (c::POLLERR | c::POLLHUP) as u16;

/// `poll(2)`.
pub fn sys_poll(call: &mut Call<'_>) -> SysResult {
    let timeout = Timeout::from_millis(call.int(2));
    poll(call, timeout)
}

/// `ppoll(2)`; stores the time not slept, which the C library hides.
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
    let attempt = Attempt::of(call, timeout);
    let mut bytes: SmallVec<[u8; 64]> = smallvec![0; count * size_of::<PollFd>()];
    call.read_bytes(addr, &mut bytes)?;
    let mut ready = 0;
    for raw in bytes.chunks_exact_mut(size_of::<PollFd>()) {
        let mut entry = PollFd::read_from_bytes(raw).expect("the size of one entry");
        entry.revents = match entry.fd {
            ..0 => 0,
            fd => call.host.poll_descriptor(call.process, fd, entry.events),
        };
        ready += u64::from(entry.revents != 0);
        raw.copy_from_slice(entry.as_bytes());
    }
    if ready == 0 && attempt.last && call.host.has_deliverable_signal(call.thread) {
        // Even a call that does not wait is interrupted.
        return attempt.wait(SmallVec::new(), IfInterrupted::RestartNoHandler);
    }
    if ready > 0 || attempt.last {
        call.write_bytes(addr, &bytes)?;
        attempt.store_remaining(call);
        return done(ready);
    }
    let mut queues = SmallVec::new();
    for raw in bytes.chunks_exact(size_of::<PollFd>()) {
        let fd = i32::read_from_prefix(raw).expect("an entry begins with it").0;
        if fd >= 0
            && let Ok(file) = call.host.pollable_file(call.process, fd)
        {
            queues.extend(call.host.wait_queue(file));
        }
    }
    attempt.wait(queues, IfInterrupted::RestartNoHandler)
}

impl Host {
    /// The open file behind a descriptor that can be asked for its readiness; a mere place in the
    /// tree (`O_PATH`) cannot.
    pub(super) fn pollable_file(&self, process: ProcessKey, fd: i32) -> Result<FileKey, Errno> {
        let file = self.present_file_of(process, fd)?;
        match self.files.open[file.0].kind {
            FileKind::Path(_) => Err(Errno::EBADF),
            _ => Ok(file),
        }
    }
    fn poll_descriptor(&mut self, process: ProcessKey, fd: i32, wanted: u16) -> u16 {
        match self.pollable_file(process, fd) {
            Ok(file) => self.readiness(file) as u16 & (wanted | ALWAYS_REPORTED),
            Err(_) => c::POLLNVAL as u16,
        }
    }
}
