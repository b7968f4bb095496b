//! Instances and the requests that wait in them.

use crate::buffers::{BufferGroup, mapped};
use crate::entry::SubmissionEntry;
use crate::memory::{Completion, OVERFLOWN, Ring};
use crate::registered::{RingRestrictions, RingTable};
use crate::setup::Setup;
use crate::slots::Slots;
use crate::snapshot::Snapshot;
use belljar_linux_abi::Errno;
use belljar_machine::{HostFiles, NativeFile};
use belljar_netstack::TimerId;
use belljar_netstack::readiness::{READABLE, WRITABLE};
use belljar_objects::credentials::Credentials;
use belljar_objects::ids::{FileKey, ProcessKey, WaitQueueId};
use belljar_tasks::outcome::CallState;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// `IORING_OFF_SQES`.
const ENTRIES_AT: u64 = 0x1000_0000;
/// `IORING_OFF_CQ_RING`.
const COMPLETIONS_AT: u64 = 0x800_0000;
/// `IORING_OFF_PBUF_RING`, `IORING_OFF_PBUF_SHIFT` and `IORING_OFF_MMAP_MASK`.
const BUFFERS_AT: u64 = 0x8000_0000;
const BUFFERS_SHIFT: u32 = 16;
const PART: u64 = 0xf800_0000;

/// The submitter of an entry: the entry's addresses and descriptors are its own.
#[derive(Clone, Copy, Debug)]
pub struct Submitter {
    /// The process.
    pub process: ProcessKey,
    /// Its number: another process may have its place later.
    pub pid: i32,
}

impl Default for Submitter {
    /// Nobody.
    fn default() -> Submitter {
        Submitter { process: ProcessKey(usize::MAX), pid: 0 }
    }
}

/// A request that waits.
#[derive(Debug)]
pub struct WaitingRequest {
    /// What was submitted.
    pub entry: SubmissionEntry,
    /// Its open files.
    pub held: Held,
    /// The state that its call is continued from.
    pub state: CallState,
    /// The queues it stands in.
    pub on: SmallVec<[WaitQueueId; 2]>,
    /// The timer of its deadline.
    pub deadline: Option<TimerId>,
    /// Entries that are linked to it, in order.
    pub links: VecDeque<SubmissionEntry>,
    /// The serial number of the request that limits its time, or whose time this one limits.
    pub partner: Option<u64>,
    /// For `IORING_OP_TIMEOUT` with a count: completions that are still to come.
    pub count: u32,
    /// True if it is in the list of what can go on.
    pub queued: bool,
    /// Tells it from others at the same place.
    pub serial: u64,
}

/// The open files of a request, each with a reference of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// The one that its call works on.
    pub first: Option<FileKey>,
    /// The one that it also names.
    pub second: Option<FileKey>,
}

/// One instance.
#[derive(Debug)]
pub struct Uring {
    /// Notified when something completes.
    pub queue: WaitQueueId,
    /// Its shared memory.
    pub ring: Ring,
    /// The process that made it: registered buffers are in its memory.
    pub process: ProcessKey,
    /// The thread that alone may submit (`IORING_SETUP_SINGLE_ISSUER`).
    pub issuer: Option<i32>,
    /// True if nothing can be submitted yet (`IORING_SETUP_R_DISABLED`).
    pub disabled: bool,
    /// Requests that wait.
    pub requests: Slab<WaitingRequest>,
    /// Where the request of a serial number is.
    by_serial: BTreeMap<u64, usize>,
    /// The same by user data and serial number.
    by_data: BTreeMap<(u64, u64), usize>,
    /// Requests that count completions, by serial number.
    counting: BTreeSet<u64>,
    /// Serial numbers of requests that wait since entries were last submitted.
    fresh: Vec<u64>,
    /// Work that goes on once its task looks (`IORING_SETUP_DEFER_TASKRUN`), as in [`Urings::work`].
    pub postponed: VecDeque<(usize, u64, bool)>,
    /// Completions of what has been cancelled, which follow once all entries have been submitted.
    pub late: Option<Vec<Completion>>,
    /// Number of time-outs that have run out: each ends waiting.
    pub timeouts: u32,
    /// Completions for which there was no room.
    pub backlog: VecDeque<Completion>,
    /// Entries that wait for those before them, chain by chain.
    pub deferred: VecDeque<VecDeque<SubmissionEntry>>,
    /// True if what was started last has to end before others start.
    pub draining: bool,
    /// How it was set up.
    pub setup: Setup,
    /// `IORING_REGISTER_FILES`.
    pub slots: Slots,
    /// Buffers to choose from, by group.
    pub groups: BTreeMap<u16, BufferGroup>,
    /// `IORING_REGISTER_BUFFERS`: address and length of each.
    pub buffers: Vec<(u64, u64)>,
    /// `IORING_REGISTER_EVENTFD`.
    pub eventfd: Option<FileKey>,
    /// True while it counts its eventfd up.
    pub is_signalling: bool,
    /// `IORING_REGISTER_PERSONALITY`: by number.
    pub personalities: BTreeMap<u16, Credentials>,
    next_personality: u16,
    /// `IORING_REGISTER_RESTRICTIONS`, in force once the rings are enabled.
    pub restrictions: Option<RingRestrictions>,
}

impl Uring {
    /// An instance with nothing submitted.
    pub fn new(queue: WaitQueueId, ring: Ring, (process, tid): (ProcessKey, i32), setup: Setup) -> Uring {
        Uring {
            queue,
            ring,
            process,
            issuer: (setup.single_issuer && !setup.disabled).then_some(tid),
            disabled: setup.disabled,
            requests: Slab::new(),
            by_serial: BTreeMap::new(),
            by_data: BTreeMap::new(),
            counting: BTreeSet::new(),
            fresh: Vec::new(),
            postponed: VecDeque::new(),
            late: None,
            timeouts: 0,
            backlog: VecDeque::new(),
            deferred: VecDeque::new(),
            draining: false,
            setup,
            slots: Slots::default(),
            groups: BTreeMap::new(),
            buffers: Vec::new(),
            eventfd: None,
            is_signalling: false,
            personalities: BTreeMap::new(),
            next_personality: 1,
            restrictions: None,
        }
    }

    /// The memory behind `len` bytes of a mapping at this offset, and where in it they start.
    pub fn mapped(&self, len: u64, offset: u64) -> Result<(NativeFile, u64), Errno> {
        let (memory, start, room) = match offset {
            _ if offset & PART == BUFFERS_AT => {
                let group = ((offset - BUFFERS_AT) >> BUFFERS_SHIFT) as u16;
                let (memory, room) = self.groups.get(&group).and_then(mapped).ok_or(Errno::EINVAL)?;
                (memory, 0, room)
            }
            0 | COMPLETIONS_AT => (self.ring.memory, 0, self.ring.rings_len()),
            ENTRIES_AT => (self.ring.memory, self.ring.rings_len(), self.ring.entries_len()),
            _ => return Err(Errno::EINVAL),
        };
        if len > room { Err(Errno::EINVAL) } else { Ok((memory, start)) }
    }

    /// Its readiness.
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

    /// True if there is room for another completion.
    pub fn has_room(&self, files: &(impl HostFiles + ?Sized)) -> bool {
        self.backlog.is_empty() && self.ring.unread(files) < self.ring.cq_entries
    }
    /// Puts a completion into the ring, or keeps it until there is room.
    pub fn put_completion(&mut self, files: &mut (impl HostFiles + ?Sized), completion: Completion) {
        if !self.backlog.is_empty() || !self.ring.put(files, &completion) {
            self.backlog.push_back(completion);
            self.ring.set_flag(files, OVERFLOWN, true);
        }
    }
    /// Moves completions that waited for room into the ring.
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

    /// Keeps a request that waits; its place.
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
    /// Removes a request.
    pub fn remove(&mut self, number: usize) -> WaitingRequest {
        let request = self.requests.remove(number);
        self.by_serial.remove(&request.serial);
        self.by_data.remove(&(request.entry.user_data, request.serial));
        self.counting.remove(&request.serial);
        request
    }
    /// The place of the request of a serial number.
    pub fn by_serial(&self, serial: u64) -> Option<usize> {
        self.by_serial.get(&serial).copied()
    }
    /// The oldest request of this user data of which `wanted` holds.
    pub fn find(&self, user_data: u64, wanted: impl Fn(&WaitingRequest) -> bool) -> Option<usize> {
        let mut those = self.by_data.range((user_data, 0)..=(user_data, u64::MAX));
        those.find(|(_, number)| wanted(&self.requests[**number])).map(|(_, number)| *number)
    }
    /// The serial numbers of up to `most` requests of which `wanted` holds, among those of this user data if that is given.
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
    /// The places of requests that wait since entries were last submitted.
    pub fn take_fresh(&mut self) -> Vec<usize> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.iter().filter_map(|serial| self.by_serial.get(serial)).copied().collect()
    }
    /// Counts a completion in the time-outs that count them; the serial numbers of those that are over.
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

    /// Keeps an identity to act under; its number.
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
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Urings {
    /// The instances.
    pub instances: Slab<Uring>,
    /// Requests that can go on: instance, number, serial number, whether its time is over.
    pub work: VecDeque<(usize, usize, u64, bool)>,
    /// Memory that the request which is being made named when it was submitted.
    pub reading: Option<Arc<Snapshot>>,
    /// The serial number of the last request.
    pub serial: u64,
    /// True if a request is being made that a thread of the kernel makes on Linux.
    pub is_worker: bool,
    /// `IORING_REGISTER_RING_FDS`, by thread id.
    pub of_threads: BTreeMap<i32, RingTable>,
}

impl Urings {
    /// True if requests can go on.
    #[inline]
    pub fn has_uring_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// The request that another one limits, or is limited by.
    pub fn set_partner(&mut self, n: usize, of: Option<u64>, serial: u64) {
        let uring = &mut self.instances[n];
        if let Some(number) = of.and_then(|of| uring.by_serial(of)) {
            uring.requests[number].partner = Some(serial);
        }
    }

    /// The state of a request that a futex wakes or is moved from.
    pub fn futex_state_of_request(&mut self, n: usize, number: usize) -> Option<&mut CallState> {
        let uring = self.instances.get_mut(n)?;
        uring.requests.get_mut(number).map(|request| &mut request.state)
    }
}
