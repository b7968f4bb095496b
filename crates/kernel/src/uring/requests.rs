//! Starting, continuing and cancelling requests.

use super::entry::{
    self, ASYNC_CANCEL, CQE_SKIP, Entry, FILES_UPDATE, FIXED_FD_INSTALL, FIXED_FILE, IO_DRAIN, IO_HARDLINK,
    LINK_TIMEOUT, MSG_RING, NOP, POLL_ADD, POLL_REMOVE, PROVIDE_BUFFERS, REMOVE_BUFFERS, TIMEOUT,
    TIMEOUT_REMOVE,
};
use super::{Completion, MORE, Request};
use crate::call::{Block, Resumed, Wake};
use crate::files::FileKind;
use crate::files::readiness::{EPOLLERR, EPOLLHUP};
use crate::host::Host;
use crate::ids::FileKey;
use crate::timer::TimerAction;
use crate::wait::Waiter;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// `IORING_POLL_ADD_MULTI`.
const POLL_MULTI: u32 = 1;
/// `IORING_CQE_F_NOTIF`; `IORING_SEND_ZC_REPORT_USAGE` and its answer, `IORING_NOTIF_USAGE_ZC_COPIED`.
const NOTIFICATION: u32 = 8;
const REPORT_USAGE: u16 = 8;
const COPIED: i32 = i32::MIN;
/// `IORING_MSG_SEND_FD`, `IORING_MSG_RING_CQE_SKIP` and `IORING_MSG_RING_FLAGS_PASS`.
const MSG_SEND_FD: u64 = 1;
const MSG_SKIP: u32 = 1;
const MSG_PASS_FLAGS: u32 = 2;
/// `IORING_TIMEOUT_ABS`, `IORING_TIMEOUT_UPDATE` and the flags that change nothing here.
const ABSOLUTE: u32 = 1;
const UPDATE: u32 = 2;
const BOOTTIME: u32 = 4;
const ETIME_SUCCESS: u32 = 32;
/// `IORING_ASYNC_CANCEL_*`.
const CANCEL_ALL: u32 = 1;
const CANCEL_FD: u32 = 2;
const CANCEL_ANY: u32 = 4;
const CANCEL_FD_FIXED: u32 = 8;
const CANCEL_OP: u32 = 32;

/// What starting or continuing a request has come to.
pub(super) enum Step {
    /// Its result and the flags of its completion.
    Ended(i32, u32),
    Waits(Block),
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

/// The open files of a request, each with a reference of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(super) first: Option<FileKey>,
    pub(super) second: Option<FileKey>,
}

pub(super) fn failure(errno: Errno) -> i32 {
    -i32::from(errno.0)
}

impl Host {
    /// Takes up to `most` entries and starts them; how many there were.
    pub(crate) fn submit(&mut self, n: usize, most: u32) -> u32 {
        let mut taken = 0;
        let mut chain = VecDeque::new();
        while taken < most {
            let ring = self.urings.instances[n].ring;
            let Some(bytes) = ring.take_entry(&mut *self.machine) else { break };
            taken += 1;
            let entry = Entry::parse(&bytes);
            let uring = &self.urings.instances[n];
            let ends = !uring.setup.submits_all && entry.prepare().is_err();
            chain.push_back(entry);
            if !entry.is_linked() {
                self.admit(n, std::mem::take(&mut chain));
            }
            // One that cannot be prepared is the last that is taken.
            if ends {
                break;
            }
        }
        if !chain.is_empty() {
            self.admit(n, chain);
        }
        taken
    }

    /// Starts entries, or has them wait: with `IOSQE_IO_DRAIN` until all before them have ended, and behind such.
    fn admit(&mut self, n: usize, chain: VecDeque<Entry>) {
        let uring = &mut self.urings.instances[n];
        uring.deferred.push_back(chain);
        self.start_deferred(n);
    }
    fn start_deferred(&mut self, n: usize) {
        loop {
            let uring = &mut self.urings.instances[n];
            let Some(chain) = uring.deferred.front() else { return };
            let drains = chain.iter().any(|entry| entry.flags & IO_DRAIN != 0);
            if !uring.requests.is_empty() && (drains || uring.draining) {
                return;
            }
            let Some(chain) = uring.deferred.pop_front() else { return };
            self.start_chain(n, chain);
            let uring = &mut self.urings.instances[n];
            uring.draining = drains && !uring.requests.is_empty();
        }
    }

    /// Starts entries one after the other until one waits or fails.
    fn start_chain(&mut self, n: usize, mut chain: VecDeque<Entry>) {
        while let Some(entry) = chain.pop_front() {
            let limit = chain.pop_front_if_timeout();
            if let Err(errno) = entry.prepare() {
                self.end(n, &entry, (failure(errno), 0), chain, limit);
                return;
            }
            let held = match self.files_for(n, &entry) {
                Ok(held) => held,
                Err(errno) => {
                    self.end(n, &entry, (failure(errno), entry.more()), chain, limit);
                    return;
                }
            };
            match self.advance_request(n, &entry, held, None) {
                Step::Waits(block) => {
                    let partner = limit.and_then(|limit| self.start_limit(n, limit));
                    let serial = self.wait_for(n, (entry, held), block, chain, partner, None);
                    self.set_partner(n, partner, serial);
                    return;
                }
                Step::Ended(result, flags) => {
                    self.release(held);
                    if self.breaks_chain(&entry, result) {
                        self.end(n, &entry, (result, flags), chain, limit);
                        return;
                    }
                    self.end(n, &entry, (result, flags), VecDeque::new(), limit);
                }
            }
        }
    }

    fn breaks_chain(&self, entry: &Entry, result: i32) -> bool {
        let short = matches!(entry.op, 4 | 5 | 22 | 23 | entry::SPLICE | entry::TEE)
            && result >= 0
            && result as u32 != entry.len;
        entry.flags & IO_HARDLINK == 0 && (result < 0 || short)
    }

    /// Tells of an entry's end, of the end of its time limit, and of those that now never start.
    fn end(
        &mut self,
        n: usize,
        entry: &Entry,
        (result, flags): (i32, u32),
        rest: VecDeque<Entry>,
        limit: Option<Entry>,
    ) {
        if entry.flags & CQE_SKIP == 0 || result < 0 {
            self.tell_completion(n, Completion { user_data: entry.user_data, result, flags });
        }
        if flags & MORE != 0 && entry.is_zero_copy() {
            // What is sent has been copied.
            let result = if entry.ioprio & REPORT_USAGE != 0 { COPIED } else { 0 };
            self.tell_completion(n, Completion { user_data: entry.user_data, result, flags: NOTIFICATION });
        }
        for entry in limit.into_iter().chain(rest) {
            let result = failure(Errno::ECANCELED);
            self.tell_completion(n, Completion { user_data: entry.user_data, result, flags: 0 });
        }
    }

    /// The open files of a request, with references of its own.
    fn files_for(&mut self, n: usize, entry: &Entry) -> Result<Held, Errno> {
        let mut held = Held::default();
        if entry.holds_file() {
            held.first = Some(self.file_named(n, entry.fd, entry.flags & FIXED_FILE != 0)?);
        }
        if let Some((fd, fixed)) = entry.second_file() {
            held.second = Some(self.file_named(n, fd, fixed)?);
        }
        for file in [held.first, held.second].into_iter().flatten() {
            self.retain_file(file);
        }
        Ok(held)
    }
    fn file_named(&self, n: usize, fd: i32, fixed: bool) -> Result<FileKey, Errno> {
        match fixed {
            true => self.file_in_slot(n, fd),
            false => self.file_of(self.urings.instances[n].process, fd),
        }
    }
    fn release(&mut self, held: Held) {
        for file in [held.first, held.second].into_iter().flatten() {
            self.release_file(file);
        }
    }

    /// Starts a request, or goes on with it.
    fn advance_request(&mut self, n: usize, entry: &Entry, held: Held, resumed: Option<Resumed>) -> Step {
        let wake = resumed.as_ref().map(|resumed| resumed.wake);
        match entry.op {
            NOP => Step::Ended(0, 0),
            POLL_ADD => self.advance_poll(n, entry, held.first),
            POLL_REMOVE => {
                let wanted =
                    |other: &Request| other.entry.op == POLL_ADD && other.entry.user_data == entry.addr;
                self.cancel(n, wanted, false).into()
            }
            TIMEOUT => self.advance_timeout(n, entry, wake),
            TIMEOUT_REMOVE if entry.op_flags & UPDATE != 0 => self.update_timeout(n, entry).into(),
            TIMEOUT_REMOVE => {
                let wanted =
                    |other: &Request| other.entry.op == TIMEOUT && other.entry.user_data == entry.addr;
                self.cancel(n, wanted, false).into()
            }
            ASYNC_CANCEL => {
                let what = (entry.op_flags, entry.addr, entry.fd, entry.len as u8);
                self.cancel_matching(n, what).into()
            }
            FILES_UPDATE => self.update_slots(n, entry).into(),
            PROVIDE_BUFFERS => self.provide_buffers(n, entry).into(),
            REMOVE_BUFFERS => self.remove_buffers(n, entry).into(),
            MSG_RING => self.send_to_ring(n, entry, held.first).into(),
            FIXED_FD_INSTALL => {
                held.first.ok_or(Errno::EBADF).and_then(|file| self.install_slot(n, entry, file)).into()
            }
            _ => self.advance_call(n, entry, held, resumed),
        }
    }

    /// Cancels what `IORING_ASYNC_CANCEL_*` flags, user data, descriptor and operation describe.
    pub(crate) fn cancel_matching(
        &mut self,
        n: usize,
        (flags, user_data, fd, op): (u32, u64, i32, u8),
    ) -> Result<i32, Errno> {
        let file = match flags & CANCEL_FD {
            0 => None,
            _ => Some(self.file_named(n, fd, flags & CANCEL_FD_FIXED != 0)?),
        };
        let wanted = |other: &Request| {
            let of_file = file.is_none_or(|file| other.held.first == Some(file));
            let of_op = flags & CANCEL_OP == 0 || other.entry.op == op;
            let by_data = flags & (CANCEL_ANY | CANCEL_FD | CANCEL_OP) == 0 || flags & 16 != 0;
            of_file && of_op && (!by_data || other.entry.user_data == user_data)
        };
        self.cancel(n, wanted, flags & (CANCEL_ALL | CANCEL_ANY) != 0)
    }

    /// `IORING_OP_MSG_RING`: a completion, or a registered file, for another instance.
    fn send_to_ring(&mut self, n: usize, entry: &Entry, file: Option<FileKey>) -> Result<i32, Errno> {
        let FileKind::Uring(target) = self.open(file.ok_or(Errno::EBADF)?).kind else {
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
            let sent = self.file_in_slot(n, entry.addr3 as i32)?;
            self.retain_file(sent);
            let place = self.put_in_slot(target, sent, entry.file_index)?;
            if entry.op_flags & MSG_SKIP == 0 {
                self.tell_completion(target, Completion { user_data, result: place, flags: 0 });
            }
            return Ok(place);
        }
        if entry.addr != 0 || entry.addr3 != 0 || (entry.file_index != 0 && !passes) {
            return Err(Errno::EINVAL);
        }
        let (result, flags) = (entry.len as i32, entry.file_index);
        self.tell_completion(target, Completion { user_data, result, flags });
        Ok(0)
    }

    fn advance_poll(&mut self, n: usize, entry: &Entry, file: Option<FileKey>) -> Step {
        let Some(file) = file else { return Step::failed(Errno::EBADF) };
        let wanted = entry.op_flags | EPOLLERR | EPOLLHUP;
        let ready = (self.readiness(file) & wanted) as i32;
        if ready != 0 && entry.len & POLL_MULTI == 0 {
            return Step::Ended(ready, 0);
        }
        if ready != 0 {
            self.tell_completion(n, Completion { user_data: entry.user_data, result: ready, flags: MORE });
        }
        match self.wait_queue(file) {
            Some(queue) => Step::Waits(Block::on(queue)),
            None => Step::Ended(ready, 0),
        }
    }

    fn advance_timeout(&mut self, n: usize, entry: &Entry, wake: Option<Wake>) -> Step {
        if wake.is_some() {
            return Step::failed(Errno::ETIME);
        }
        if entry.len != 1 || entry.op_flags & !(ABSOLUTE | BOOTTIME | ETIME_SUCCESS) != 0 {
            return Step::failed(Errno::EINVAL);
        }
        match self.point_in_time(n, entry.addr, entry.op_flags) {
            Ok(at) => Step::Waits(Block::until(Some(at))),
            Err(errno) => Step::failed(errno),
        }
    }

    fn point_in_time(&mut self, n: usize, addr: u64, flags: u32) -> Result<SimTime, Errno> {
        let process = self.urings.instances[n].process;
        let mut bytes = [0; 16];
        self.read_guest(process, addr, &mut bytes)?;
        let [sec, nsec] =
            [0, 8].map(|at| i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes")));
        let mut nanos = Timespec { sec, nsec }.to_nanos().ok_or(Errno::EINVAL)?;
        if flags & ABSOLUTE != 0 {
            nanos = nanos.saturating_sub(self.clock.monotonic_ns());
        }
        Ok(self.clock.after(SimDuration::from_nanos(nanos)))
    }

    fn update_timeout(&mut self, n: usize, entry: &Entry) -> Result<i32, Errno> {
        let at = self.point_in_time(n, entry.off, entry.op_flags)?;
        let requests = &self.urings.instances[n].requests;
        let found = requests.iter().find(|(_, other)| {
            other.entry.op == TIMEOUT && other.entry.user_data == entry.addr && !other.queued
        });
        let (number, serial) = found.map(|(number, other)| (number, other.serial)).ok_or(Errno::ENOENT)?;
        let action = TimerAction::Uring { instance: n, request: number, serial };
        let timer = self.timers.add(at, action);
        if let Some(old) = self.urings.instances[n].requests[number].deadline.replace(timer) {
            self.timers.cancel(old);
        }
        Ok(0)
    }

    /// Keeps a request until one of its queues is notified or its time has come; its serial number.
    fn wait_for(
        &mut self,
        n: usize,
        (entry, held): (Entry, Held),
        block: Block,
        links: VecDeque<Entry>,
        partner: Option<u64>,
        serial: Option<u64>,
    ) -> u64 {
        let serial = serial.unwrap_or_else(|| {
            self.urings.serial += 1;
            self.urings.serial
        });
        let count = if entry.op == TIMEOUT { entry.off.min(u64::from(u32::MAX)) as u32 } else { 0 };
        let request = Request {
            entry,
            held,
            state: block.state,
            on: block.on,
            deadline: None,
            links,
            partner,
            count,
            queued: false,
            serial,
        };
        let number = self.urings.instances[n].requests.insert(request);
        let timer = block
            .deadline
            .map(|at| self.timers.add(at, TimerAction::Uring { instance: n, request: number, serial }));
        let request = &mut self.urings.instances[n].requests[number];
        request.deadline = timer;
        for queue in request.on.clone() {
            self.waits.enter(queue, Waiter::Uring { instance: n, request: number });
        }
        serial
    }

    /// Starts the clock of `IORING_OP_LINK_TIMEOUT`.
    fn start_limit(&mut self, n: usize, entry: Entry) -> Option<u64> {
        match self.point_in_time(n, entry.addr, entry.op_flags) {
            Ok(at) => {
                let block = Block::until(Some(at));
                Some(self.wait_for(n, (entry, Held::default()), block, VecDeque::new(), None, None))
            }
            Err(errno) => {
                self.end(n, &entry, (failure(errno), 0), VecDeque::new(), None);
                None
            }
        }
    }
    fn set_partner(&mut self, n: usize, of: Option<u64>, serial: u64) {
        if let Some(number) = of.and_then(|of| self.by_serial(n, of)) {
            self.urings.instances[n].requests[number].partner = Some(serial);
        }
    }
    fn by_serial(&self, n: usize, serial: u64) -> Option<usize> {
        self.urings.instances[n].requests.iter().find(|(_, r)| r.serial == serial).map(|(number, _)| number)
    }

    /// Takes a request out of everything that it waits for.
    fn take_request(&mut self, n: usize, number: usize) -> Request {
        let mut request = self.urings.instances[n].requests.remove(number);
        for queue in std::mem::take(&mut request.on) {
            self.waits.leave(queue, Waiter::Uring { instance: n, request: number });
        }
        if let Some(timer) = request.deadline.take() {
            self.timers.cancel(timer);
        }
        request
    }
    /// Forgets a request without a completion.
    pub(crate) fn drop_request(&mut self, n: usize, number: usize) {
        let held = self.take_request(n, number).held;
        self.release(held);
    }

    /// A request has ended: it, its limit and what is linked to it.
    fn finish(&mut self, n: usize, request: Request, result: i32, flags: u32) {
        self.release(request.held);
        let limit = request.partner.filter(|_| request.entry.op != LINK_TIMEOUT);
        let limit = limit.and_then(|serial| self.by_serial(n, serial));
        let limit = limit.map(|number| self.take_request(n, number).entry);
        if self.breaks_chain(&request.entry, result) {
            self.end(n, &request.entry, (result, flags), request.links, limit);
        } else {
            self.end(n, &request.entry, (result, flags), VecDeque::new(), limit);
            self.start_chain(n, request.links);
        }
        self.start_deferred(n);
    }

    /// Cancels the first request (or all) of which `wanted` holds; how many with `all`.
    fn cancel(&mut self, n: usize, wanted: impl Fn(&Request) -> bool, all: bool) -> Result<i32, Errno> {
        let requests = self.urings.instances[n].requests.iter();
        let mut found: Vec<u64> = requests.filter(|(_, r)| wanted(r)).map(|(_, r)| r.serial).collect();
        found.sort_unstable();
        if !all {
            found.truncate(1);
        }
        for serial in &found {
            if let Some(number) = self.by_serial(n, *serial) {
                let request = self.take_request(n, number);
                self.finish(n, request, failure(Errno::ECANCELED), 0);
            }
        }
        match (found.len(), all) {
            (0, false) => Err(Errno::ENOENT),
            (count, true) => Ok(count as i32),
            _ => Ok(0),
        }
    }

    /// Goes on with the next request that can.
    pub(crate) fn run_next_request(&mut self) {
        let Some((n, number, serial, due)) = self.urings.work.pop_front() else { return };
        let request = self.urings.instances.get(n).and_then(|uring| uring.requests.get(number));
        if request.is_none_or(|request| request.serial != serial) {
            return;
        }
        let mut request = self.take_request(n, number);
        if request.entry.op == LINK_TIMEOUT {
            let target = request.partner.and_then(|serial| self.by_serial(n, serial));
            if let Some(target) = target {
                let target = self.take_request(n, target);
                self.finish(n, Request { partner: None, ..target }, failure(Errno::ECANCELED), 0);
            }
            self.finish(n, request, failure(Errno::ETIME), 0);
            return;
        }
        let uring = &self.urings.instances[n];
        let alive = self.processes.get(uring.process.0).is_some_and(|process| {
            process.pid == uring.pid && process.fds.is_some() && !process.threads.is_empty()
        });
        if !alive {
            request.links.clear();
            self.finish(n, request, failure(Errno::ECANCELED), 0);
            return;
        }
        let wake = if due { Wake::Deadline } else { Wake::Notified };
        let resumed = Resumed { state: std::mem::take(&mut request.state), wake };
        match self.advance_request(n, &request.entry, request.held, Some(resumed)) {
            Step::Ended(result, flags) => self.finish(n, request, result, flags),
            Step::Waits(block) => {
                let Request { entry, held, links, partner, .. } = request;
                self.wait_for(n, (entry, held), block, links, partner, Some(serial));
            }
        }
    }

    /// A completion was told of: timeouts that count them.
    pub(super) fn count_completion(&mut self, n: usize) {
        let mut over: SmallVec<[u64; 2]> = SmallVec::new();
        for (_, request) in &mut self.urings.instances[n].requests {
            if request.entry.op == TIMEOUT && request.count > 0 {
                request.count -= 1;
                if request.count == 0 {
                    over.push(request.serial);
                }
            }
        }
        for serial in over {
            if let Some(number) = self.by_serial(n, serial) {
                let request = self.take_request(n, number);
                self.finish(n, request, 0, 0);
            }
        }
    }
}

/// Takes the entry at the front if it limits the time of the one before.
trait PopLimit {
    fn pop_front_if_timeout(&mut self) -> Option<Entry>;
}
impl PopLimit for VecDeque<Entry> {
    fn pop_front_if_timeout(&mut self) -> Option<Entry> {
        self.front().is_some_and(|entry| entry.op == entry::LINK_TIMEOUT).then(|| self.pop_front()).flatten()
    }
}
