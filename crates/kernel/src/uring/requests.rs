//! Starting and continuing requests.

use super::futexes;
use crate::host::Host;
use crate::ids::FileKey;
use crate::outcome::{Block, Resumed};
use belljar_linux_abi::Errno;
use belljar_netstack::readiness::{EPOLLERR, EPOLLHUP};
use belljar_objects::file_kind::FileKind;
use belljar_uring::entry::{
    ASYNC_CANCEL, FILES_UPDATE, FIXED_FD_INSTALL, FUTEX_WAIT, FUTEX_WAITV, FUTEX_WAKE, MORE, MSG_RING, NOP,
    NOP_LARGE, POLL_ADD, POLL_MULTI, POLL_REMOVE, POLL_UPDATE_DATA, POLL_UPDATE_EVENTS, PROVIDE_BUFFERS,
    REMOVE_BUFFERS, SubmissionEntry, TIMEOUT, TIMEOUT_REMOVE, failure,
};
use belljar_uring::instance::{Held, Submitter, Uring, WaitingRequest};
use belljar_uring::memory::Completion;
use belljar_uring::timeouts::{LINK_UPDATE, UPDATE};

/// `IORING_MSG_SEND_FD`, `IORING_MSG_RING_CQE_SKIP` and `IORING_MSG_RING_FLAGS_PASS`.
const MSG_SEND_FD: u64 = 1;
const MSG_SKIP: u32 = 1;
const MSG_PASS_FLAGS: u32 = 2;
/// `IORING_NOP_INJECT_RESULT`.
const NOP_RESULT: u32 = 1;
/// `IORING_ASYNC_CANCEL_*`.
const CANCEL_ALL: u32 = 1;
const CANCEL_FD: u32 = 2;
const CANCEL_ANY: u32 = 4;
const CANCEL_FD_FIXED: u32 = 8;
const CANCEL_DATA: u32 = 16;
const CANCEL_OP: u32 = 32;

/// Result of starting or continuing a request.
pub(super) enum Step {
    /// Result and flags of the completion.
    Ended(i32, u32),
    Waits(Block),
    /// The request can go on, after others that can.
    Yields,
}

impl Step {
    pub(super) fn failed(errno: Errno) -> Step {
        Step::Ended(failure(errno), 0)
    }
}
impl From<Result<i32, Errno>> for Step {
    fn from(result: Result<i32, Errno>) -> Step {
        Step::Ended(result.unwrap_or_else(failure), 0)
    }
}

fn nop(uring: &Uring, entry: &SubmissionEntry) -> Step {
    if entry.op_flags & NOP_LARGE != 0 && !uring.setup.has_large_completions() {
        return Step::failed(Errno::EINVAL);
    }
    let buffer = uring.buffers.get(usize::from(entry.buffer));
    if entry.has_fixed_buffer() && buffer.is_none_or(|buffer| buffer.len == 0) {
        return Step::failed(Errno::EFAULT);
    }
    Step::Ended(if entry.op_flags & NOP_RESULT != 0 { entry.len as i32 } else { 0 }, 0)
}

/// True if the events of a multishot poll are reported only once the task runs its work.
fn defers_poll(host: &mut Host, n: usize, entry: &SubmissionEntry, file: Option<FileKey>) -> bool {
    let wanted = entry.op_flags | EPOLLERR | EPOLLHUP;
    host.urings.instances[n].setup.defers
        && entry.len & POLL_MULTI != 0
        && file.is_some_and(|file| host.polled(file) & wanted != 0)
}

impl Host {
    /// Open files of a request, with an additional reference each.
    pub(super) fn files_for(&mut self, n: usize, entry: &SubmissionEntry) -> Result<Held, Errno> {
        let mut held = Held::default();
        if entry.holds_file() {
            held.first = Some(self.file_named(n, entry.by, entry.fd, entry.uses_fixed_file())?);
        }
        if let Some((fd, fixed)) = entry.second_file() {
            held.second = Some(self.file_named(n, entry.by, fd, fixed)?);
        }
        for file in [held.first, held.second].into_iter().flatten() {
            self.files.retain_file(file);
        }
        Ok(held)
    }
    fn file_named(&self, n: usize, by: Submitter, fd: i32, fixed: bool) -> Result<FileKey, Errno> {
        if fixed { self.urings.file_in_slot(n, fd) } else { self.file_of(by.process, fd) }
    }
    pub(super) fn release(&mut self, held: Held) {
        for file in [held.first, held.second].into_iter().flatten() {
            self.release_file(file);
        }
    }

    /// Starts a request.
    pub(super) fn advance_request(
        &mut self,
        n: usize,
        entry: &mut SubmissionEntry,
        held: Held,
        resumed: Option<Resumed>,
    ) -> Step {
        match entry.op {
            NOP => nop(&self.urings.instances[n], entry),
            POLL_ADD if resumed.is_none() && defers_poll(self, n, entry, held.first) => Step::Yields,
            POLL_ADD => self.advance_poll(n, entry, held.first),
            POLL_REMOVE => self.change_poll(n, entry).into(),
            TIMEOUT => self.advance_timeout(n, entry, None),
            TIMEOUT_REMOVE if entry.op_flags & (UPDATE | LINK_UPDATE) != 0 => {
                self.update_timeout(n, entry).into()
            }
            TIMEOUT_REMOVE => {
                self.cancel(n, Some(entry.addr), |other| other.entry.op == TIMEOUT, false).into()
            }
            ASYNC_CANCEL => {
                let what = (entry.op_flags, entry.addr, entry.fd, entry.len as u8);
                self.cancel_matching(n, entry.by, what).into()
            }
            FILES_UPDATE => self.update_slots(n, entry).into(),
            PROVIDE_BUFFERS => self.urings.provide_buffers(n, entry).into(),
            REMOVE_BUFFERS => self.urings.remove_buffers(n, entry).into(),
            MSG_RING => self.send_to_ring(n, entry, held.first).into(),
            FIXED_FD_INSTALL => {
                held.first.ok_or(Errno::EBADF).and_then(|file| self.install_slot(entry, file)).into()
            }
            FUTEX_WAIT | FUTEX_WAITV => self.start_futex_wait(entry),
            FUTEX_WAKE => self.wake_by_request(entry).into(),
            _ => self.advance_call(n, entry, held, resumed),
        }
    }
    /// Continues a request.
    pub(super) fn advance_resumed(
        &mut self,
        n: usize,
        entry: &mut SubmissionEntry,
        held: Held,
        resumed: Resumed,
    ) -> Step {
        match entry.op {
            TIMEOUT => self.advance_timeout(n, entry, Some(resumed.wake)),
            FUTEX_WAIT | FUTEX_WAITV => futexes::resume_futex_wait(resumed.state),
            _ => self.advance_request(n, entry, held, Some(resumed)),
        }
    }

    /// Cancels requests selected by `IORING_ASYNC_CANCEL_*` flags, user data, descriptor and operation.
    pub(crate) fn cancel_matching(
        &mut self,
        n: usize,
        by: Submitter,
        (flags, user_data, fd, op): (u32, u64, i32, u8),
    ) -> Result<i32, Errno> {
        let file = match flags & CANCEL_FD {
            0 => None,
            _ => Some(self.file_named(n, by, fd, flags & CANCEL_FD_FIXED != 0)?),
        };
        let wanted = |other: &WaitingRequest| {
            let of_file = file.is_none_or(|file| other.held.first == Some(file));
            of_file && (flags & CANCEL_OP == 0 || other.entry.op == op)
        };
        let by_data = flags & (CANCEL_ANY | CANCEL_FD | CANCEL_OP) == 0 || flags & CANCEL_DATA != 0;
        self.cancel(n, by_data.then_some(user_data), wanted, flags & (CANCEL_ALL | CANCEL_ANY) != 0)
    }

    /// `IORING_OP_POLL_REMOVE`: removes a poll, or updates its events and user data.
    fn change_poll(&mut self, n: usize, entry: &SubmissionEntry) -> Result<i32, Errno> {
        let is_poll = |other: &WaitingRequest| other.entry.op == POLL_ADD;
        if entry.len == 0 {
            return self.cancel(n, Some(entry.addr), is_poll, false);
        }
        let number = self.urings.instances[n].find(entry.addr, is_poll).ok_or(Errno::ENOENT)?;
        let mut poll = self.take_request(n, number);
        if entry.len & POLL_UPDATE_EVENTS != 0 {
            poll.entry.op_flags = entry.op_flags;
        }
        if entry.len & POLL_UPDATE_DATA != 0 {
            poll.entry.user_data = entry.off;
        }
        match self.advance_poll(n, &poll.entry, poll.held.first) {
            Step::Ended(result, flags) => self.finish(n, poll, result, flags),
            Step::Waits(block) => {
                let WaitingRequest { entry, held, links, partner, serial, .. } = poll;
                self.wait_for(n, (entry, held), block, links, partner, Some(serial));
            }
            Step::Yields => {}
        }
        Ok(0)
    }

    /// `IORING_OP_MSG_RING`: posts a completion, or a registered file, to another instance.
    pub(crate) fn send_to_ring(
        &mut self,
        n: usize,
        entry: &SubmissionEntry,
        file: Option<FileKey>,
    ) -> Result<i32, Errno> {
        let FileKind::Uring(target) = self.files.open(file.ok_or(Errno::EBADF)?).kind else {
            return Err(Errno::EBADFD);
        };
        if self.urings.instances[target].disabled {
            return Err(Errno::EBADFD);
        }
        if entry.op_flags & !(MSG_SKIP | MSG_PASS_FLAGS) != 0 || entry.buffer != 0 {
            return Err(Errno::EINVAL);
        }
        let (user_data, passes) = (entry.off, entry.op_flags & MSG_PASS_FLAGS != 0);
        if entry.addr == MSG_SEND_FD {
            if target == n || passes {
                return Err(Errno::EINVAL);
            }
            let sent = self.urings.file_in_slot(n, entry.addr3 as i32)?;
            self.files.retain_file(sent);
            let place = self.put_in_slot(target, sent, entry.file_index)?;
            if entry.op_flags & MSG_SKIP == 0 {
                self.tell_completion(target, Completion::new(user_data, place, 0));
            }
            return Ok(place);
        }
        if entry.addr != 0 || entry.addr3 != 0 || (entry.file_index != 0 && !passes) {
            return Err(Errno::EINVAL);
        }
        let (result, flags) = (entry.len as i32, entry.file_index);
        self.tell_completion(target, Completion::new(user_data, result, flags));
        Ok(0)
    }

    fn advance_poll(&mut self, n: usize, entry: &SubmissionEntry, file: Option<FileKey>) -> Step {
        let Some(file) = file else { return Step::failed(Errno::EBADF) };
        let wanted = entry.op_flags | EPOLLERR | EPOLLHUP;
        let ready = (self.polled(file) & wanted) as i32;
        if ready != 0 && entry.len & POLL_MULTI == 0 {
            return Step::Ended(ready, 0);
        }
        let completion = Completion::new(entry.user_data, ready, MORE);
        if ready != 0 && !self.tell_more(n, completion) {
            return Step::Ended(ready, 0);
        }
        match self.wait_queue(file) {
            Some(queue) => Step::Waits(Block::on(queue)),
            None => Step::Ended(ready, 0),
        }
    }
}
