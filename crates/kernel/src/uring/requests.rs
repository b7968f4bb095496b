//! Starting, continuing and cancelling requests.

use super::entry::{
    self, ACCEPT, ASYNC_CANCEL, CQE_SKIP, Entry, FIXED_FILE, IO_HARDLINK, KNOWN_FLAGS, LINK_TIMEOUT, NOP,
    POLL_ADD, POLL_REMOVE, TIMEOUT, TIMEOUT_REMOVE,
};
use super::{Completion, Request};
use crate::call::{Block, Call, CallState, Outcome, Resumed, Wake};
use crate::files::FdEntry;
use crate::files::readiness::{EPOLLERR, EPOLLHUP};
use crate::host::Host;
use crate::ids::{FileKey, ThreadKey};
use crate::syscall::table;
use crate::timer::TimerAction;
use crate::wait::Waiter;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// `IORING_CQE_F_MORE`.
const MORE: u32 = 2;
/// `IORING_POLL_ADD_MULTI`, `IORING_ACCEPT_MULTISHOT`.
const POLL_MULTI: u32 = 1;
const ACCEPT_MULTI: u16 = 1;
/// `IORING_TIMEOUT_ABS`, `IORING_TIMEOUT_UPDATE` and the flags that change nothing here.
const ABSOLUTE: u32 = 1;
const UPDATE: u32 = 2;
const BOOTTIME: u32 = 4;
const ETIME_SUCCESS: u32 = 32;
/// `IORING_ASYNC_CANCEL_*`.
const CANCEL_ALL: u32 = 1;
const CANCEL_FD: u32 = 2;
const CANCEL_ANY: u32 = 4;

/// What starting or continuing a request has come to.
enum Step {
    Ended(i32),
    Waits(Block),
}

/// What a request is continued with.
type Held = (Option<FileKey>, CallState);

fn failure(errno: Errno) -> i32 {
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
            let linked = entry.is_linked();
            chain.push_back(entry);
            if !linked {
                self.start_chain(n, std::mem::take(&mut chain));
            }
        }
        if !chain.is_empty() {
            self.start_chain(n, chain);
        }
        taken
    }

    /// Starts entries one after the other until one waits or fails.
    fn start_chain(&mut self, n: usize, mut chain: VecDeque<Entry>) {
        while let Some(entry) = chain.pop_front() {
            let limit = chain.pop_front_if_timeout();
            let held = match self.file_for(n, &entry) {
                Ok(file) => file,
                Err(errno) => {
                    self.end(n, &entry, failure(errno), chain, limit);
                    return;
                }
            };
            match self.advance_request(n, &entry, (held, CallState::None), None) {
                Step::Waits(block) => {
                    let partner = limit.and_then(|limit| self.start_limit(n, limit));
                    let serial = self.wait_for(n, entry, held, block, chain, partner, None);
                    self.set_partner(n, partner, serial);
                    return;
                }
                Step::Ended(result) => {
                    if let Some(file) = held {
                        self.release_file(file);
                    }
                    if self.breaks_chain(&entry, result) {
                        self.end(n, &entry, result, chain, limit);
                        return;
                    }
                    self.end(n, &entry, result, VecDeque::new(), limit);
                }
            }
        }
    }

    fn breaks_chain(&self, entry: &Entry, result: i32) -> bool {
        let short = matches!(entry.op, 4 | 5 | 22 | 23) && result >= 0 && result as u32 != entry.len;
        entry.flags & IO_HARDLINK == 0 && (result < 0 || short)
    }

    /// Tells of an entry's end, of the end of its time limit, and of those that now never start.
    fn end(&mut self, n: usize, entry: &Entry, result: i32, rest: VecDeque<Entry>, limit: Option<Entry>) {
        if entry.flags & CQE_SKIP == 0 || result < 0 {
            self.tell_completion(n, Completion { user_data: entry.user_data, result, flags: 0 });
        }
        for entry in limit.into_iter().chain(rest) {
            let result = failure(Errno::ECANCELED);
            self.tell_completion(n, Completion { user_data: entry.user_data, result, flags: 0 });
        }
    }

    /// The open file of a request, with a reference of its own.
    fn file_for(&mut self, n: usize, entry: &Entry) -> Result<Option<FileKey>, Errno> {
        if entry.flags & !KNOWN_FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        if !entry.holds_file() {
            return Ok(None);
        }
        let uring = &self.urings.instances[n];
        let file = match entry.flags & FIXED_FILE {
            0 => self.file_of(uring.process, entry.fd)?,
            _ => uring.files.get(entry.fd as usize).copied().flatten().ok_or(Errno::EBADF)?,
        };
        self.retain_file(file);
        Ok(Some(file))
    }

    /// Starts a request, or goes on with it.
    fn advance_request(&mut self, n: usize, entry: &Entry, (file, state): Held, wake: Option<Wake>) -> Step {
        let simple = |result: Result<i32, Errno>| Step::Ended(result.unwrap_or_else(failure));
        match entry.op {
            NOP => Step::Ended(0),
            POLL_ADD => self.advance_poll(n, entry, file, wake),
            POLL_REMOVE if entry.len != 0 => Step::Ended(failure(Errno::EINVAL)),
            POLL_REMOVE => {
                simple(self.cancel(n, |other| other.op == POLL_ADD && other.user_data == entry.addr, false))
            }
            TIMEOUT => self.advance_timeout(n, entry, wake),
            LINK_TIMEOUT => Step::Ended(failure(Errno::EINVAL)),
            TIMEOUT_REMOVE if entry.op_flags & UPDATE != 0 => simple(self.update_timeout(n, entry)),
            TIMEOUT_REMOVE => {
                simple(self.cancel(n, |other| other.op == TIMEOUT && other.user_data == entry.addr, false))
            }
            ASYNC_CANCEL => {
                let (fd, flags) = (entry.fd, entry.op_flags);
                let wanted = |other: &Entry| match flags {
                    _ if flags & CANCEL_ANY != 0 => true,
                    _ if flags & CANCEL_FD != 0 => other.holds_file() && other.fd == fd,
                    _ => other.user_data == entry.addr,
                };
                simple(self.cancel(n, wanted, flags & (CANCEL_ALL | CANCEL_ANY) != 0))
            }
            _ => self.advance_call(n, entry, (file, state), wake),
        }
    }

    fn advance_poll(&mut self, n: usize, entry: &Entry, file: Option<FileKey>, wake: Option<Wake>) -> Step {
        let Some(file) = file else { return Step::Ended(failure(Errno::EBADF)) };
        let wanted = entry.op_flags | EPOLLERR | EPOLLHUP;
        let ready = self.readiness(file) & wanted;
        let multi = entry.len & POLL_MULTI != 0;
        let _ = wake;
        if ready != 0 && !multi {
            return Step::Ended(ready as i32);
        }
        if ready != 0 {
            self.tell_completion(
                n,
                Completion { user_data: entry.user_data, result: ready as i32, flags: MORE },
            );
        }
        match self.wait_queue(file) {
            Some(queue) => Step::Waits(Block::on(queue)),
            None => Step::Ended(ready as i32),
        }
    }

    fn advance_timeout(&mut self, n: usize, entry: &Entry, wake: Option<Wake>) -> Step {
        if wake.is_some() {
            return Step::Ended(failure(Errno::ETIME));
        }
        if entry.len != 1 || entry.op_flags & !(ABSOLUTE | BOOTTIME | ETIME_SUCCESS) != 0 {
            return Step::Ended(failure(Errno::EINVAL));
        }
        match self.point_in_time(n, entry.addr, entry.op_flags) {
            Ok(at) => Step::Waits(Block::until(Some(at))),
            Err(errno) => Step::Ended(failure(errno)),
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

    /// Makes the system call of a request.
    fn advance_call(&mut self, n: usize, entry: &Entry, (file, state): Held, wake: Option<Wake>) -> Step {
        let streams = file.is_some_and(|file| !self.open(file).kind.has_position());
        let multi = entry.op == ACCEPT && entry.ioprio & ACCEPT_MULTI != 0;
        let uring = &self.urings.instances[n];
        let in_buffer = || {
            let (start, len) = uring.buffers.get(usize::from(entry.buffer))?;
            (entry.addr >= *start && entry.addr.checked_add(u64::from(entry.len))? <= start + len)
                .then_some(())
        };
        if entry.has_fixed_buffer() && in_buffer().is_none() {
            return Step::Ended(failure(Errno::EFAULT));
        }
        let places = matches!(entry.op, ACCEPT | 18 | 19 | 28 | 45);
        let (Some((number, mut args)), false) = (entry.call(streams), places && entry.file_index != 0) else {
            return Step::Ended(failure(Errno::EINVAL));
        };
        let process = uring.process;
        let Some(thread) = self.processes[process.0].threads.first().copied() else {
            return Step::Ended(failure(Errno::ECANCELED));
        };
        let fd = if entry.flags & FIXED_FILE != 0 { 0 } else { entry.fd };
        if file.is_some() {
            args[0] = fd as u64;
        }
        let mut resumed = wake.map(|wake| Resumed { state, wake });
        loop {
            let outcome = self.with_file_at(process, fd, file, |host| {
                let call = (number as u32, args);
                host.call_for(thread, call, resumed.take())
            });
            match outcome {
                Ok(Outcome::Done(value)) if multi && (value as i64) >= 0 => {
                    self.tell_completion(
                        n,
                        Completion { user_data: entry.user_data, result: value as i32, flags: MORE },
                    );
                }
                Ok(Outcome::Done(value)) => return Step::Ended(value as i32),
                Ok(Outcome::Block(block)) => return Step::Waits(block),
                Ok(Outcome::Replaced | Outcome::Gone) => return Step::Ended(failure(Errno::EINVAL)),
                Err(errno) => return Step::Ended(failure(errno)),
            }
        }
    }

    fn call_for(
        &mut self,
        thread: ThreadKey,
        (number, args): (u32, [u64; 6]),
        resumed: Option<Resumed>,
    ) -> crate::call::SysResult {
        let process = self.threads[thread.0].process;
        table::dispatch(&mut Call { host: self, thread, process, number, args, resumed, staged: None })
    }

    /// Runs something while `file` stands at the descriptor `fd`.
    fn with_file_at<T>(
        &mut self,
        process: crate::ids::ProcessKey,
        fd: i32,
        file: Option<FileKey>,
        run: impl FnOnce(&mut Host) -> T,
    ) -> T {
        let table = self.processes[process.0].fds;
        let (Some(table), Some(file), Ok(fd)) = (table, file, usize::try_from(fd)) else { return run(self) };
        let entries = &mut self.files.tables[table.0].entries;
        if entries.len() <= fd {
            entries.resize(fd + 1, None);
        }
        let before = entries[fd];
        if before.is_some_and(|entry| entry.file == file) {
            return run(self);
        }
        entries[fd] = Some(FdEntry { file, close_on_exec: false });
        let result = run(self);
        self.files.tables[table.0].entries[fd] = before;
        result
    }

    /// Keeps a request until one of its queues is notified or its time has come; its serial number.
    #[allow(clippy::too_many_arguments)]
    fn wait_for(
        &mut self,
        n: usize,
        entry: Entry,
        file: Option<FileKey>,
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
            file,
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
                Some(self.wait_for(n, entry, None, block, VecDeque::new(), None, None))
            }
            Err(errno) => {
                self.end(n, &entry, failure(errno), VecDeque::new(), None);
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
        if let Some(file) = self.take_request(n, number).file {
            self.release_file(file);
        }
    }

    /// A request has ended: it, its limit and what is linked to it.
    fn finish(&mut self, n: usize, request: Request, result: i32) {
        if let Some(file) = request.file {
            self.release_file(file);
        }
        let limit = request.partner.filter(|_| request.entry.op != LINK_TIMEOUT);
        let limit = limit.and_then(|serial| self.by_serial(n, serial));
        let limit = limit.map(|number| self.take_request(n, number).entry);
        if self.breaks_chain(&request.entry, result) {
            self.end(n, &request.entry, result, request.links, limit);
        } else {
            self.end(n, &request.entry, result, VecDeque::new(), limit);
            self.start_chain(n, request.links);
        }
    }

    /// Cancels the first request (or all) of which `wanted` holds; how many with `all`.
    fn cancel(&mut self, n: usize, wanted: impl Fn(&Entry) -> bool, all: bool) -> Result<i32, Errno> {
        let requests = self.urings.instances[n].requests.iter();
        let mut found: Vec<u64> = requests.filter(|(_, r)| wanted(&r.entry)).map(|(_, r)| r.serial).collect();
        found.sort_unstable();
        if !all {
            found.truncate(1);
        }
        for serial in &found {
            if let Some(number) = self.by_serial(n, *serial) {
                let request = self.take_request(n, number);
                self.finish(n, request, failure(Errno::ECANCELED));
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
                self.finish(n, Request { partner: None, ..target }, failure(Errno::ECANCELED));
            }
            self.finish(n, request, failure(Errno::ETIME));
            return;
        }
        let uring = &self.urings.instances[n];
        let alive = self.processes.get(uring.process.0).is_some_and(|process| {
            process.pid == uring.pid && process.fds.is_some() && !process.threads.is_empty()
        });
        if !alive {
            request.links.clear();
            self.finish(n, request, failure(Errno::ECANCELED));
            return;
        }
        let wake = if due { Wake::Deadline } else { Wake::Notified };
        let held = (request.file, std::mem::take(&mut request.state));
        match self.advance_request(n, &request.entry, held, Some(wake)) {
            Step::Ended(result) => self.finish(n, request, result),
            Step::Waits(block) => {
                let Request { entry, file, links, partner, .. } = request;
                self.wait_for(n, entry, file, block, links, partner, Some(serial));
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
                self.finish(n, request, 0);
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
