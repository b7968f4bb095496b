//! Submission of entries. Linked entries form a chain, in which each entry starts once its predecessor has
//! succeeded.

use super::Step;
use super::waiting::yielded;
use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::Block;
use belljar_linux_abi::Errno;
use belljar_uring::entry::{self, CQE_SKIP, IO_DRAIN, LINK_TIMEOUT, MORE, SubmissionEntry, failure};
use belljar_uring::memory::Completion;
use std::collections::VecDeque;

/// `IORING_CQE_F_NOTIF`; `IORING_SEND_ZC_REPORT_USAGE` and its result, `IORING_NOTIF_USAGE_ZC_COPIED`.
const NOTIFICATION: u32 = 8;
const REPORT_USAGE: u16 = 8;
const COPIED: i32 = i32::MIN;

impl Host {
    /// Takes up to `most` entries and starts them; returns the number taken.
    pub(crate) fn submit(&mut self, n: usize, most: u32, thread: ThreadKey) -> u32 {
        let by = crate::uring::submitter(&self.threads, &self.processes, thread);
        self.urings.instances[n].late = Some(Vec::new());
        let mut taken = 0;
        let mut chain: VecDeque<SubmissionEntry> = VecDeque::new();
        while taken < most {
            let ring = self.urings.instances[n].ring;
            let Some(bytes) = ring.take_entry(&mut *self.machine) else { break };
            taken += 1;
            let mut entry = SubmissionEntry::parse(&bytes, by);
            entry.refused = self.check_entry(n, &entry, chain.back()).err();
            let (linked, refused) = (entry.is_linked(), entry.refused.is_some());
            chain.push_back(entry);
            if linked {
                continue;
            }
            self.admit(n, std::mem::take(&mut chain));
            // Submission ends at an entry that fails preparation, once its chain is complete.
            if refused && !self.urings.instances[n].setup.submits_all {
                break;
            }
        }
        if !chain.is_empty() {
            self.admit(n, chain);
        }
        self.snapshot_waiting(n);
        for completion in self.urings.instances[n].late.take().into_iter().flatten() {
            self.tell_completion(n, completion);
        }
        taken
    }

    /// Validates an entry without looking up its objects; `before` is the entry that it is linked to.
    fn check_entry(
        &self,
        n: usize,
        entry: &SubmissionEntry,
        before: Option<&SubmissionEntry>,
    ) -> Result<(), Errno> {
        let uring = &self.urings.instances[n];
        entry.prepare()?;
        if uring.setup.polls_io && !entry.can_poll_io() {
            return Err(Errno::EINVAL);
        }
        let restricted = uring.restrictions.as_ref();
        if restricted.is_some_and(|allowed| !allowed.allow_entry(entry)) {
            return Err(Errno::EACCES);
        }
        if entry.personality != 0 && !uring.personalities.contains_key(&entry.personality) {
            return Err(Errno::EINVAL);
        }
        match entry.op {
            entry::TIMEOUT => self.check_timeout(entry),
            // A link timeout needs a preceding request that is not a link timeout.
            LINK_TIMEOUT if before.is_none_or(|before| before.op == LINK_TIMEOUT) => Err(Errno::EINVAL),
            LINK_TIMEOUT => self.check_timeout(entry),
            entry::FUTEX_WAITV => self.futexes_of(entry).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Queues a chain and starts deferred ones. `IOSQE_IO_DRAIN` defers a chain, and those after it, until
    /// all earlier requests have ended. If one entry of a chain is refused, none starts.
    fn admit(&mut self, n: usize, mut chain: VecDeque<SubmissionEntry>) {
        if chain.iter().any(|entry| entry.refused.is_some()) {
            if let Some(head) = chain.pop_front() {
                let result = failure(head.refused.unwrap_or(Errno::ECANCELED));
                self.tell_end(n, &head, (result, 0), true);
                self.tell_cancelled(n, chain, head.flags & CQE_SKIP != 0);
            }
            return;
        }
        self.urings.instances[n].deferred.push_back(chain);
        self.start_deferred(n);
    }
    pub(super) fn start_deferred(&mut self, n: usize) {
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

    /// Starts entries one after another until one waits or fails.
    pub(super) fn start_chain(&mut self, n: usize, mut chain: VecDeque<SubmissionEntry>) {
        while let Some(mut entry) = chain.pop_front() {
            let limit = match chain.front() {
                Some(next) if next.op == LINK_TIMEOUT => chain.pop_front(),
                _ => None,
            };
            let held = match self.files_for(n, &entry) {
                Ok(held) => held,
                Err(errno) => {
                    self.end(n, &entry, (failure(errno), entry.more()), chain, limit);
                    return;
                }
            };
            let step = self.advance_request(n, &mut entry, held, None);
            let yields = matches!(step, Step::Yields);
            match step {
                Step::Waits(_) | Step::Yields => {
                    let block = if let Step::Waits(block) = step { block } else { Block::until(None) };
                    let partner = limit.and_then(|limit| self.start_limit(n, limit));
                    let serial = self.wait_for(n, (entry, held), block, chain, partner, None);
                    self.urings.set_partner(n, partner, serial);
                    if yields {
                        yielded(self, n, serial);
                    }
                    return;
                }
                Step::Ended(result, flags) => {
                    self.release(held);
                    if entry.breaks_chain(result) {
                        self.end(n, &entry, (result, flags), chain, limit);
                        return;
                    }
                    self.end(n, &entry, (result, flags), VecDeque::new(), limit);
                }
            }
        }
    }

    /// Posts the completions of an ended entry, of its link timeout, and of the rest of its chain, which is
    /// cancelled.
    pub(super) fn end(
        &mut self,
        n: usize,
        entry: &SubmissionEntry,
        (result, flags): (i32, u32),
        rest: VecDeque<SubmissionEntry>,
        limit: Option<SubmissionEntry>,
    ) {
        let failed = entry.has_failed(result);
        self.tell_end(n, entry, (result, flags), failed);
        if let Some(limit) = limit.filter(|limit| limit.flags & CQE_SKIP == 0) {
            let result = failure(Errno::ECANCELED);
            self.tell_late(n, Completion::new(limit.user_data, result, 0));
        }
        self.tell_cancelled(n, rest, entry.flags & CQE_SKIP != 0);
    }
    /// Posts the completion of an entry. `IOSQE_CQE_SKIP_SUCCESS` suppresses it unless the entry failed.
    fn tell_end(&mut self, n: usize, entry: &SubmissionEntry, (result, flags): (i32, u32), failed: bool) {
        let user_data = entry.user_data;
        if entry.flags & CQE_SKIP == 0 || failed {
            let is_large = entry.op == entry::NOP && entry.op_flags & entry::NOP_LARGE != 0;
            let extra = (is_large && result >= 0).then_some([entry.off, entry.addr]);
            let completion = Completion { user_data, result, flags, extra };
            match entry.op {
                entry::TIMEOUT if result == 0 || result == failure(Errno::ETIME) => {
                    self.put_completion(n, completion);
                }
                // A cancelled timeout completes after the request that cancels it.
                entry::TIMEOUT if result == failure(Errno::ECANCELED) => self.tell_late(n, completion),
                _ => self.tell_completion(n, completion),
            }
        }
        if flags & MORE != 0 && entry.is_zero_copy() {
            // Sent data has been copied.
            let result = if entry.ioprio & REPORT_USAGE != 0 { COPIED } else { 0 };
            self.tell_completion(n, Completion::new(user_data, result, NOTIFICATION));
        }
    }
    fn tell_cancelled(&mut self, n: usize, entries: VecDeque<SubmissionEntry>, silently: bool) {
        for entry in entries.into_iter().filter(|_| !silently) {
            let result = failure(entry.refused.unwrap_or(Errno::ECANCELED));
            self.tell_late(n, Completion::new(entry.user_data, result, 0));
        }
    }
}
