//! Instances of io_uring and their blocked requests.

use crate::buffers::{BufferGroup, BufferPlace, mapped};
use crate::entry::SubmissionEntry;
use crate::memory::{Completion, OVERFLOWN, Ring};
use crate::registered::{RingRestrictions, RingTable};
use crate::resources::{FixedBuffer, Retired};
use crate::setup::Setup;
use crate::slots::Slots;
use crate::snapshot::Snapshot;
use belljar_base::{Map, Set, SimTime};
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, NativeFile};
use belljar_netstack::TimerId;
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_objects::credentials::Credentials;
use belljar_objects::ids::{FileKey, ProcessKey, WaitQueueId};
use belljar_tasks::outcome::CallState;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// `IORING_OFF_SQES`.
const ENTRIES_AT: u64 = 0x1000_0000;
/// `IORING_OFF_CQ_RING`.
const COMPLETIONS_AT: u64 = 0x800_0000;
/// `IORING_OFF_PBUF_RING`, `IORING_OFF_PBUF_SHIFT` and `IORING_OFF_MMAP_MASK`.
const BUFFERS_AT: u64 = 0x8000_0000;
const BUFFERS_SHIFT: u32 = 16;
const PART: u64 = 0xf800_0000;
/// `IORING_MAP_OFF_PARAM_REGION`.
pub const REGION_AT: u64 = 0x2000_0000;

/// Memory region of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Memory of the region.
    pub place: BufferPlace,
    /// Length in bytes.
    pub len: u64,
    /// True if it holds arguments of waits (`IORING_MEM_REGION_REG_WAIT_ARG`).
    pub has_waits: bool,
}

impl Region {
    /// Offset of the mapping's offset in `struct io_uring_region_desc`.
    pub const MMAP_OFFSET: u64 = 24;

    /// Region of a `struct io_uring_mem_region_reg` and its `struct io_uring_region_desc`; the place is address 0
    /// if the kernel is to allocate it.
    pub fn parse(asked: [u64; 4], described: [u64; 8], disabled: bool) -> Result<Region, Errno> {
        const WAITS: u64 = 1;
        const USER: u64 = 1;
        let [_, flags, resv @ ..] = asked;
        let [addr, len, kind, offset, more @ ..] = described;
        let (kind, id) = (kind & 0xffff_ffff, kind >> 32);
        if resv != [0; 2] || flags & !WAITS != 0 || flags == WAITS && !disabled {
            return Err(Errno::EINVAL);
        }
        if more != [0; 4] || kind & !USER != 0 {
            return Err(Errno::EINVAL);
        }
        if (kind == USER) != (addr != 0) {
            return Err(Errno::EFAULT);
        }
        if len == 0 || offset != 0 || id != 0 {
            return Err(Errno::EINVAL);
        }
        if len >> 12 > i32::MAX as u64 {
            return Err(Errno::E2BIG);
        }
        if !(addr | len).is_multiple_of(4_096) {
            return Err(Errno::EINVAL);
        }
        Ok(Region { place: BufferPlace::Guest(addr), len, has_waits: flags == WAITS })
    }
}

/// Submitter of an entry. The addresses and descriptors of the entry belong to the submitter.
#[derive(Clone, Copy, Debug)]
pub struct Submitter {
    /// Submitting process.
    pub process: ProcessKey,
    /// Process id; detects reuse of the key by another process.
    pub pid: i32,
}

impl Default for Submitter {
    /// No process.
    fn default() -> Submitter {
        Submitter { process: ProcessKey(usize::MAX), pid: 0 }
    }
}

/// Blocked request.
#[derive(Debug)]
pub struct WaitingRequest {
    /// Submitted entry.
    pub entry: SubmissionEntry,
    /// Open files held by the request.
    pub held: Held,
    /// State from which the call is continued.
    pub state: CallState,
    /// Wait queues in which the request is enqueued.
    pub on: SmallVec<[WaitQueueId; 2]>,
    /// Deadline timer.
    pub deadline: Option<TimerId>,
    /// Entries linked to the request, in order.
    pub links: VecDeque<SubmissionEntry>,
    /// Serial number of the linked time-out, or of the request that this time-out limits.
    pub partner: Option<u64>,
    /// Remaining number of completions of an `IORING_OP_TIMEOUT` with a count.
    pub count: u32,
    /// True if the request is in the work queue.
    pub queued: bool,
    /// Serial number; detects reuse of the slot by another request.
    pub serial: u64,
}

/// Open files of a request; each holds a reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// File that the call operates on.
    pub first: Option<FileKey>,
    /// Second file of the call.
    pub second: Option<FileKey>,
}

/// Instance of io_uring.
#[derive(Debug)]
pub struct Uring {
    /// Wait queue notified of completions.
    pub queue: WaitQueueId,
    /// Shared memory.
    pub ring: Ring,
    /// Process that created the instance, which contains the registered buffers.
    pub process: ProcessKey,
    /// The only thread allowed to submit (`IORING_SETUP_SINGLE_ISSUER`).
    pub issuer: Option<i32>,
    /// True while submission is disabled (`IORING_SETUP_R_DISABLED`).
    pub disabled: bool,
    /// Blocked requests.
    pub requests: Slab<WaitingRequest>,
    /// Slots of requests by serial number.
    by_serial: Map<u64, usize>,
    /// Slots of requests by user data and serial number.
    by_data: Map<(u64, u64), usize>,
    /// Serial numbers of time-outs that count completions.
    counting: Set<u64>,
    /// Serial numbers of requests that blocked since the last submission.
    fresh: Vec<u64>,
    /// Work deferred until its task enters the kernel (`IORING_SETUP_DEFER_TASKRUN`), as in [`Urings::work`].
    pub postponed: VecDeque<(usize, u64, bool)>,
    /// Completions of cancelled requests, posted after the current submission.
    pub late: Option<Vec<Completion>>,
    /// Number of expired time-outs; each ends a wait for completions.
    pub timeouts: u32,
    /// Completions for which the ring had no room.
    pub backlog: VecDeque<Completion>,
    /// Chains of entries that wait for preceding requests.
    pub deferred: VecDeque<VecDeque<SubmissionEntry>>,
    /// True if the latest started request must complete before others start.
    pub draining: bool,
    /// Set-up flags.
    pub setup: Setup,
    /// Registered files, `IORING_REGISTER_FILES`.
    pub slots: Slots,
    /// Provided buffers by group.
    pub groups: Map<u16, BufferGroup>,
    /// Registered buffers, `IORING_REGISTER_BUFFERS`.
    pub buffers: Vec<FixedBuffer>,
    /// Removed resources whose tags are to be posted.
    pub retired: Retired,
    /// Memory region, `IORING_REGISTER_MEM_REGION`.
    pub region: Option<Region>,
    /// Minimum waits in progress by thread id: end, and tail of the completion queue at the start.
    pub least_waits: Map<i32, (SimTime, u32)>,
    /// Limits of worker threads that a program set, `IORING_REGISTER_IOWQ_MAX_WORKERS`.
    pub workers: Option<[u32; 2]>,
    /// Registered eventfd, `IORING_REGISTER_EVENTFD`.
    pub eventfd: Option<FileKey>,
    /// True while the instance signals its eventfd; prevents recursion.
    pub is_signalling: bool,
    /// Registered credentials by id, `IORING_REGISTER_PERSONALITY`.
    pub personalities: Map<u16, Credentials>,
    next_personality: u16,
    /// Restrictions, `IORING_REGISTER_RESTRICTIONS`, in force once the rings are enabled.
    pub restrictions: Option<RingRestrictions>,
}

impl Uring {
    /// Creates an instance without requests.
    pub fn new(queue: WaitQueueId, ring: Ring, (process, tid): (ProcessKey, i32), setup: Setup) -> Uring {
        Uring {
            queue,
            ring,
            process,
            issuer: (setup.single_issuer && !setup.disabled).then_some(tid),
            disabled: setup.disabled,
            requests: Slab::new(),
            by_serial: Map::new(),
            by_data: Map::new(),
            counting: Set::new(),
            fresh: Vec::new(),
            postponed: VecDeque::new(),
            late: None,
            timeouts: 0,
            backlog: VecDeque::new(),
            deferred: VecDeque::new(),
            draining: false,
            setup,
            slots: Slots::default(),
            groups: Map::new(),
            buffers: Vec::new(),
            retired: Retired::default(),
            region: None,
            least_waits: Map::new(),
            workers: None,
            eventfd: None,
            is_signalling: false,
            personalities: Map::new(),
            next_personality: 1,
            restrictions: None,
        }
    }

    /// Memory behind a mapping of `len` bytes at `offset`, and the offset in that memory.
    pub fn mapped(&self, len: u64, offset: u64) -> Result<(NativeFile, u64), Errno> {
        let (memory, start, room) = match offset {
            _ if offset & PART == BUFFERS_AT => {
                let group = ((offset - BUFFERS_AT) >> BUFFERS_SHIFT) as u16;
                let (memory, room) = self.groups.get(&group).and_then(mapped).ok_or(Errno::EINVAL)?;
                (memory, 0, room)
            }
            REGION_AT => match self.region {
                Some(Region { place: BufferPlace::Own(memory), len, .. }) => (memory, 0, len),
                _ => return Err(Errno::EINVAL),
            },
            _ if self.setup.user_memory.is_some() => return Err(Errno::EINVAL),
            0 | COMPLETIONS_AT => (self.ring.memory, 0, self.ring.rings_len()),
            ENTRIES_AT => (self.ring.memory, self.ring.rings_len(), self.ring.entries_len()),
            _ => return Err(Errno::EINVAL),
        };
        if len > room { Err(Errno::EINVAL) } else { Ok((memory, start)) }
    }

    /// Readiness as `EPOLL*` bits.
    pub fn readiness(&self, files: &(impl HostFiles + ?Sized)) -> u32 {
        let mut ready = 0;
        let waits = !self.backlog.is_empty() || !self.postponed.is_empty();
        if waits || self.ring.unread(files) > 0 {
            ready |= READABLE;
        }
        if self.ring.can_submit(files) {
            ready |= WRITABLE;
        }
        ready
    }

    /// True if the completion ring has room.
    pub fn has_room(&self, files: &(impl HostFiles + ?Sized)) -> bool {
        self.backlog.is_empty() && self.ring.unread(files) < self.ring.cq_entries
    }
    /// Posts a completion to the ring, or to the backlog if the ring is full.
    pub fn put_completion(&mut self, files: &mut (impl HostFiles + ?Sized), completion: Completion) {
        if !self.backlog.is_empty() || !self.ring.put(files, &completion) {
            self.backlog.push_back(completion);
            self.ring.set_flag(files, OVERFLOWN, true);
        }
    }
    /// Moves completions from the backlog to the ring.
    pub fn flush_completions(&mut self, files: &mut (impl HostFiles + ?Sized)) {
        if self.backlog.is_empty() {
            return;
        }
        while let Some(completion) = self.backlog.front() {
            if !self.ring.put(files, completion) {
                return;
            }
            self.backlog.pop_front();
        }
        self.ring.set_flag(files, OVERFLOWN, false);
    }

    /// Stores a blocked request; returns its slot.
    pub fn keep(&mut self, request: WaitingRequest) -> usize {
        let (serial, user_data) = (request.serial, request.entry.user_data);
        let (counts, is_fresh) = (request.count > 0, request.entry.snapshot.is_none());
        let number = self.requests.insert(request);
        self.by_serial.insert(serial, number);
        self.by_data.insert((user_data, serial), number);
        if counts {
            self.counting.insert(serial);
        }
        if is_fresh {
            self.fresh.push(serial);
        }
        number
    }
    /// Removes a blocked request.
    pub fn remove(&mut self, number: usize) -> WaitingRequest {
        let request = self.requests.remove(number);
        self.by_serial.remove(&request.serial);
        self.by_data.remove(&(request.entry.user_data, request.serial));
        self.counting.remove(&request.serial);
        request
    }
    /// Slot of the request with a serial number.
    pub fn by_serial(&self, serial: u64) -> Option<usize> {
        self.by_serial.get(&serial).copied()
    }
    /// Oldest request with this user data for which `wanted` holds.
    pub fn find(&self, user_data: u64, wanted: impl Fn(&WaitingRequest) -> bool) -> Option<usize> {
        let mut those = self.by_data.range((user_data, 0)..=(user_data, u64::MAX));
        those.find(|(_, number)| wanted(&self.requests[**number])).map(|(_, number)| *number)
    }
    /// Serial numbers of up to `most` requests for which `wanted` holds, optionally restricted to a user
    /// data.
    pub fn serials(
        &self,
        user_data: Option<u64>,
        wanted: impl Fn(&WaitingRequest) -> bool,
        most: usize,
    ) -> Vec<u64> {
        let holds = |number: &usize| wanted(&self.requests[*number]);
        match user_data {
            Some(data) => {
                let those = self.by_data.range((data, 0)..=(data, u64::MAX));
                those.filter(|(_, number)| holds(number)).map(|((_, serial), _)| *serial).take(most).collect()
            }
            None => {
                let those = self.by_serial.iter();
                those.filter(|(_, number)| holds(number)).map(|(serial, _)| *serial).take(most).collect()
            }
        }
    }
    /// Takes the slots of requests that blocked since the last submission.
    pub fn take_fresh(&mut self) -> Vec<usize> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.iter().filter_map(|serial| self.by_serial.get(serial)).copied().collect()
    }
    /// Counts a completion in all counting time-outs; returns the serial numbers of those that are complete.
    pub fn count_completion(&mut self) -> SmallVec<[u64; 2]> {
        let mut over = SmallVec::new();
        for serial in &self.counting {
            let Some(request) = self.by_serial.get(serial).map(|number| &mut self.requests[*number]) else {
                continue;
            };
            request.count = request.count.saturating_sub(1);
            if request.count == 0 {
                over.push(*serial);
            }
        }
        over
    }

    /// Registers credentials; returns their id.
    pub fn add_personality(&mut self, credentials: Credentials) -> Result<u16, Errno> {
        if self.personalities.len() == usize::from(u16::MAX) {
            return Err(Errno::EBUSY);
        }
        while self.next_personality == 0 || self.personalities.contains_key(&self.next_personality) {
            self.next_personality = self.next_personality.wrapping_add(1);
        }
        let id = self.next_personality;
        self.next_personality = id.wrapping_add(1);
        self.personalities.insert(id, credentials);
        Ok(id)
    }
}

/// All instances of a host.
#[derive(Debug, Default)]
#[repr(C)] // The order puts frequently read fields first: see `belljar_base::Footprint`.
pub struct Urings {
    /// The instances.
    pub instances: Slab<Uring>,
    /// Requests ready to continue: instance, slot, serial number, whether the deadline has expired.
    pub work: VecDeque<(usize, usize, u64, bool)>,
    /// Snapshot of the request being executed.
    pub reading: Option<Arc<Snapshot>>,
    /// Serial number of the latest request.
    pub serial: u64,
    /// True while executing a request that Linux would execute in a kernel worker.
    pub is_worker: bool,
    /// Registered ring descriptors by thread id, `IORING_REGISTER_RING_FDS`.
    pub of_threads: Map<i32, RingTable>,
}

impl Urings {
    /// True if requests are ready to continue.
    #[inline]
    pub fn has_uring_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Sets the partner of a request: its linked time-out, or the request that a time-out limits.
    pub fn set_partner(&mut self, n: usize, of: Option<u64>, serial: u64) {
        let uring = &mut self.instances[n];
        if let Some(number) = of.and_then(|of| uring.by_serial(of)) {
            uring.requests[number].partner = Some(serial);
        }
    }

    /// State of a request that a futex operation wakes or requeues.
    pub fn futex_state_of_request(&mut self, n: usize, number: usize) -> Option<&mut CallState> {
        let uring = self.instances.get_mut(n)?;
        uring.requests.get_mut(number).map(|request| &mut request.state)
    }
}
