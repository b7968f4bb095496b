//! User-space page fault handling, userfaultfd(2): registered ranges, and threads that wait for missing
//! pages.

use crate::ids::{ThreadKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_machine::SpaceId;
use belljar_netstack::readiness::{EPOLLERR, EPOLLIN};
use std::collections::VecDeque;
use std::ops::Range;

/// `UFFD_API`.
const API: u64 = 0xaa;
/// `UFFD_FEATURE_THREAD_ID`, `UFFD_FEATURE_EXACT_ADDRESS`, `UFFD_FEATURE_MOVE`.
const THREAD_ID: u64 = 1 << 8;
const EXACT_ADDRESS: u64 = 1 << 11;
const MOVE: u64 = 1 << 16;
/// `UFFD_EVENT_PAGEFAULT`, and the flag of a write fault.
const PAGE_FAULT: u64 = 0x12;
const WRITE: u64 = 1;
/// Bits of `UFFDIO_API`, `UFFDIO_REGISTER` and `UFFDIO_UNREGISTER`.
const CALLS: u64 = 1 << 0x3f | 3;
const PAGE: u64 = 4_096;

/// Size of a message, `struct uffd_msg`, in bytes.
pub const MESSAGE: usize = 32;

/// Userfault descriptor, `userfaultfd(2)`.
#[derive(Debug)]
pub struct Userfault {
    /// Wait queue, notified when a message is queued.
    pub queue: WaitQueueId,
    /// Address space whose faults it reports, while that exists.
    pub space: Option<SpaceId>,
    /// Features negotiated by `UFFDIO_API`; `None` before.
    features: Option<u64>,
    ranges: Vec<Range<u64>>,
    /// Waiting threads, each with its page.
    waiting: Vec<(u64, ThreadKey)>,
    messages: VecDeque<[u64; MESSAGE / 8]>,
}

impl Userfault {
    /// Creates a descriptor before `UFFDIO_API`.
    pub fn new(queue: WaitQueueId, space: SpaceId) -> Userfault {
        let (waiting, messages) = (Vec::new(), VecDeque::new());
        Userfault { queue, space: Some(space), features: None, ranges: Vec::new(), waiting, messages }
    }
    /// `UFFDIO_API`: negotiates the features. `EINVAL` for another version, unknown features, and if it was
    /// called before.
    pub fn negotiate(&mut self, [api, features, _]: [u64; 3]) -> Result<[u64; 3], Errno> {
        let known = THREAD_ID | EXACT_ADDRESS | MOVE;
        if api != API || features & !known != 0 || self.features.is_some() {
            return Err(Errno::EINVAL);
        }
        self.features = Some(features);
        Ok([API, known, CALLS])
    }
    /// Checks that the features have been negotiated: `EINVAL`.
    pub fn check(&self) -> Result<(), Errno> {
        if self.features.is_some() { Ok(()) } else { Err(Errno::EINVAL) }
    }
    /// Readiness mask; a blocking descriptor cannot be polled.
    pub fn readiness(&self, nonblocking: bool) -> u32 {
        match (self.features, nonblocking) {
            (None, _) | (_, false) => EPOLLERR,
            _ if self.messages.is_empty() => 0,
            _ => EPOLLIN,
        }
    }
    /// Takes up to `most` messages.
    pub fn take(&mut self, most: usize) -> Vec<[u64; MESSAGE / 8]> {
        let count = most.min(self.messages.len());
        self.messages.drain(..count).collect()
    }
    /// True if the address is in a registered range.
    pub fn has(&self, addr: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&addr))
    }
    /// Registers a range.
    pub fn register(&mut self, range: Range<u64>) {
        self.unregister(&range);
        self.ranges.push(range);
    }
    /// Unregisters a range.
    pub fn unregister(&mut self, gone: &Range<u64>) {
        let rest = |range: &Range<u64>| {
            let below = range.start..range.end.min(gone.start);
            let above = range.start.max(gone.end)..range.end;
            [below, above].into_iter().filter(|part| part.start < part.end)
        };
        self.ranges = self.ranges.iter().flat_map(rest).collect();
    }
    /// Registered ranges.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.ranges.clone()
    }
    /// Records the fault of a thread on a missing page; true if a message was queued for readers.
    pub fn fault(&mut self, thread: ThreadKey, tid: i32, addr: u64, writes: bool) -> bool {
        let page = addr & !(PAGE - 1);
        if self.waiting.contains(&(page, thread)) {
            return false;
        }
        self.waiting.retain(|(_, other)| *other != thread);
        self.waiting.push((page, thread));
        let features = self.features.unwrap_or(0);
        let shown = if features & EXACT_ADDRESS != 0 { addr } else { page };
        let tid = if features & THREAD_ID != 0 { tid as u64 } else { 0 };
        self.messages.push_back([PAGE_FAULT, if writes { WRITE } else { 0 }, shown, tid]);
        true
    }
    /// Takes the threads that wait for pages in a range, and drops their unread messages.
    pub fn wake(&mut self, range: &Range<u64>) -> Vec<ThreadKey> {
        let (woken, waiting) = self.waiting.drain(..).partition(|(page, _)| range.contains(page));
        self.waiting = waiting;
        self.messages.retain(|[_, _, addr, _]| !range.contains(addr));
        let woken: Vec<(u64, ThreadKey)> = woken;
        woken.into_iter().map(|(_, thread)| thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_once() {
        let mut u = Userfault::new(WaitQueueId::default(), SpaceId(0));
        assert_eq!(u.negotiate([1, 0, 0]), Err(Errno::EINVAL));
        assert_eq!(u.readiness(true), EPOLLERR);
        assert!(u.negotiate([API, THREAD_ID, 0]).is_ok() && u.negotiate([API, 0, 0]).is_err());
        u.register(0x1000..0x5000);
        u.unregister(&(0x2000..0x3000));
        assert_eq!(u.ranges(), [0x1000..0x2000, 0x3000..0x5000]);
        assert!(u.has(0x1fff) && !u.has(0x2000));
        assert!(u.fault(ThreadKey(1), 7, 0x3123, true) && !u.fault(ThreadKey(1), 7, 0x3124, true));
        assert!(u.fault(ThreadKey(2), 8, 0x4000, false));
        assert_eq!((u.readiness(true), u.readiness(false)), (EPOLLIN, EPOLLERR));
        assert_eq!(u.take(1), [[PAGE_FAULT, WRITE, 0x3000, 7]]);
        assert_eq!(u.wake(&(0x3000..0x4000)), [ThreadKey(1)]);
        assert_eq!(u.take(5), [[PAGE_FAULT, 0, 0x4000, 8]]);
    }
}
