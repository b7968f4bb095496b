//! Waiting requests: their wait queues, continuation and cancellation.

use super::Step;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::outcome::{Block, Resumed, Wake};
use crate::timer::TimerAction;
use belljar_linux_abi::Errno;
use belljar_netstack::readiness::READABLE;
use belljar_objects::file_kind::FileKind;
use belljar_tasks::waits::Waiter;
use belljar_uring::entry::{
    FUTEX_WAIT, FUTEX_WAITV, LINK_TIMEOUT, SubmissionEntry, TIMEOUT, WAITID, failure,
};
use belljar_uring::instance::{Held, WaitingRequest};
use belljar_uring::memory::{Completion, TASK_RUN};
use std::collections::VecDeque;

/// Queues a request that lets others go on first.
pub(super) fn yielded(host: &mut Host, n: usize, serial: u64) {
    if let Some(at) = host.urings.instances[n].by_serial(serial) {
        host.request_changed(n, at);
    }
}

impl Host {
    /// Keeps a request until one of its queues is notified or its deadline passes; returns its serial number.
    pub(super) fn wait_for(
        &mut self,
        n: usize,
        (entry, held): (SubmissionEntry, Held),
        block: Block,
        links: VecDeque<SubmissionEntry>,
        partner: Option<u64>,
        serial: Option<u64>,
    ) -> u64 {
        let serial = serial.unwrap_or_else(|| {
            self.urings.serial += 1;
            self.urings.serial
        });
        let count = entry.counted_completions();
        let request = WaitingRequest {
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
        let number = self.urings.instances[n].keep(request);
        let timer = block
            .deadline
            .map(|at| self.set_timer(at, TimerAction::Uring { instance: n, request: number, serial }));
        let request = &mut self.urings.instances[n].requests[number];
        request.deadline = timer;
        self.carry_out_effects();
        let request = &mut self.urings.instances[n].requests[number];
        for queue in request.on.clone() {
            self.waits.enter(queue, Waiter::Uring { instance: n, request: number });
        }
        self.enter_futexes(n, number);
        serial
    }

    /// Removes a request from all queues and timers that it waits for, and from the instance.
    pub(super) fn take_request(&mut self, n: usize, number: usize) -> WaitingRequest {
        self.leave_futexes(n, number);
        let mut request = self.urings.instances[n].remove(number);
        for queue in std::mem::take(&mut request.on) {
            self.waits.leave(queue, Waiter::Uring { instance: n, request: number });
        }
        if let Some(timer) = request.deadline.take() {
            self.timers.cancel(timer);
        }
        request
    }
    /// Drops a request without a completion.
    pub(crate) fn drop_request(&mut self, n: usize, number: usize) {
        let held = self.take_request(n, number).held;
        self.release(held);
    }

    /// Ends a request with `result`, together with its link timeout; then starts or cancels the rest of its
    /// chain.
    pub(super) fn finish(&mut self, n: usize, request: WaitingRequest, result: i32, flags: u32) {
        let tags = self.urings.instances[n].retired.end_use(request.serial);
        self.release(request.held);
        let limit = request.partner.filter(|_| request.entry.op != LINK_TIMEOUT);
        let limit = limit.and_then(|serial| self.urings.instances[n].by_serial(serial));
        let limit = limit.map(|number| self.take_request(n, number).entry);
        if request.entry.breaks_chain(result) {
            self.end(n, &request.entry, (result, flags), request.links, limit);
        } else {
            self.end(n, &request.entry, (result, flags), VecDeque::new(), limit);
            self.start_chain(n, request.links);
        }
        for tag in tags {
            self.tell_completion(n, Completion::new(tag, 0, 0));
        }
        self.start_deferred(n);
    }

    /// Cancels the first request that satisfies `wanted`, or all, restricted to `user_data` if given; returns
    /// their number with `all`.
    pub(super) fn cancel(
        &mut self,
        n: usize,
        user_data: Option<u64>,
        wanted: impl Fn(&WaitingRequest) -> bool,
        all: bool,
    ) -> Result<i32, Errno> {
        let most = if all { usize::MAX } else { 1 };
        let found = self.urings.instances[n].serials(user_data, wanted, most);
        let mut of_futex = false;
        for serial in &found {
            if let Some(number) = self.urings.instances[n].by_serial(*serial) {
                let request = self.take_request(n, number);
                of_futex = matches!(request.entry.op, WAITID | FUTEX_WAIT | FUTEX_WAITV);
                self.finish(n, request, failure(Errno::ECANCELED), 0);
            }
        }
        match (found.len(), all) {
            (0, false) => Err(Errno::ENOENT),
            (count, true) => Ok(count as i32),
            // Linux counts requests for futexes and children in any case.
            _ => Ok(i32::from(of_futex)),
        }
    }

    /// Cancels the requests of a process that executes a new image (`all`) or ends. For a process that ends,
    /// only requests that wait for an instance, and those linked to them, are cancelled: others complete by
    /// themselves.
    pub(crate) fn cancel_requests_of(&mut self, process: ProcessKey, all: bool) {
        for n in self.urings.instances.iter().map(|(n, _)| n).collect::<Vec<_>>() {
            let Some(uring) = self.urings.instances.get(n) else { continue };
            let waits_for_ring = |request: &WaitingRequest| {
                let file = request.held.first.map(|file| &self.files.open[file.0].kind);
                matches!(file, Some(FileKind::Uring(_)))
            };
            let wanted = |request: &WaitingRequest| {
                request.entry.by.process == process && (all || waits_for_ring(request))
            };
            for serial in uring.serials(None, wanted, usize::MAX) {
                if let Some(number) = self.urings.instances.get(n).and_then(|uring| uring.by_serial(serial)) {
                    let request = self.take_request(n, number);
                    self.finish(n, request, failure(Errno::ECANCELED), 0);
                }
            }
        }
    }

    /// Queues a request that was notified for continuation.
    pub(crate) fn request_changed(&mut self, n: usize, at: usize) {
        let request = &mut self.urings.instances[n].requests[at];
        if !request.queued {
            request.queued = true;
            let serial = request.serial;
            self.can_go_on(n, (at, serial, false));
        }
    }
    /// Queues a request whose deadline has passed for continuation.
    pub(crate) fn request_due(&mut self, n: usize, at: usize, serial: u64) {
        if self.urings.instances.contains(n) {
            self.can_go_on(n, (at, serial, true));
        }
    }
    /// Queues a request for continuation; with `IORING_SETUP_DEFER_TASKRUN`, until the submitting task runs
    /// its work.
    fn can_go_on(&mut self, n: usize, work: (usize, u64, bool)) {
        let uring = &mut self.urings.instances[n];
        if !uring.setup.defers {
            let (at, serial, due) = work;
            self.urings.work.push_back((n, at, serial, due));
            return;
        }
        uring.postponed.push_back(work);
        let (first, queue) = (uring.postponed.len() == 1, uring.queue);
        if first && uring.setup.tells_of_work {
            uring.ring.set_flag(&mut *self.machine, TASK_RUN, true);
        }
        if first {
            self.signal_completion(n);
        }
        self.notify_events(queue, READABLE);
    }
    /// Continues the postponed requests of an instance.
    pub(crate) fn run_postponed(&mut self, n: usize) {
        let uring = &mut self.urings.instances[n];
        if uring.setup.tells_of_work && !uring.postponed.is_empty() {
            uring.ring.set_flag(&mut *self.machine, TASK_RUN, false);
        }
        for (at, serial, due) in std::mem::take(&mut uring.postponed) {
            self.run_request(n, at, serial, due);
        }
    }
    /// Continues the next queued request.
    #[inline(never)]
    pub(crate) fn run_next_request(&mut self) {
        if let Some((n, number, serial, due)) = self.urings.work.pop_front() {
            self.run_request(n, number, serial, due);
        }
    }

    fn run_request(&mut self, n: usize, number: usize, serial: u64, due: bool) {
        let request = self.urings.instances.get(n).and_then(|uring| uring.requests.get(number));
        if request.is_none_or(|request| request.serial != serial) {
            return;
        }
        let mut request = self.take_request(n, number);
        if request.entry.op == LINK_TIMEOUT {
            let target = request.partner.and_then(|serial| self.urings.instances[n].by_serial(serial));
            let mut result = failure(Errno::ETIME);
            if let Some(target) = target {
                let target = self.take_request(n, target);
                // For these, the result is the number of cancelled requests.
                if matches!(target.entry.op, WAITID | FUTEX_WAIT | FUTEX_WAITV) {
                    result = 1;
                }
                self.finish(n, WaitingRequest { partner: None, ..target }, failure(Errno::ECANCELED), 0);
            }
            self.finish(n, request, result, 0);
            return;
        }
        let by = request.entry.by;
        let alive = self.processes.get(by.process.0).is_some_and(|process| {
            process.pid == by.pid && process.fds.is_some() && !process.threads.is_empty()
        });
        if !alive && request.entry.op != TIMEOUT {
            request.links.clear();
            self.finish(n, request, failure(Errno::ECANCELED), 0);
            return;
        }
        let wake = if due { Wake::Deadline } else { Wake::Notified };
        let resumed = Resumed { state: std::mem::take(&mut request.state), wake };
        match self.advance_resumed(n, &mut request.entry, request.held, resumed) {
            Step::Ended(result, flags) => self.finish(n, request, result, flags),
            Step::Waits(block) => {
                let WaitingRequest { entry, held, links, partner, .. } = request;
                self.wait_for(n, (entry, held), block, links, partner, Some(serial));
            }
            Step::Yields => {
                let WaitingRequest { entry, held, links, partner, .. } = request;
                self.wait_for(n, (entry, held), Block::until(None), links, partner, Some(serial));
                yielded(self, n, serial);
            }
        }
    }

    /// Counts a completion for the timeouts that wait for a number of completions.
    pub(super) fn count_completion(&mut self, n: usize) {
        for serial in self.urings.instances[n].count_completion() {
            if let Some(number) = self.urings.instances[n].by_serial(serial) {
                self.urings.instances[n].timeouts += 1;
                let request = self.take_request(n, number);
                self.finish(n, request, 0, 0);
            }
        }
    }
}
