//! `io_uring(7)`: system calls that are asked for through shared memory.
//!
//! A request is the system call that it stands for, made by the kernel on the program's behalf. One that would
//! wait is kept with what it has to be continued from and stands in the same queues as a blocked thread would;
//! when it is notified it goes to a list, which the host works off in order before any thread runs. So
//! completions come in one order, whatever the workers do. A request holds the open file that it was submitted
//! with: while it is being made, that file stands at its descriptor, which may have been closed or given to
//! another since.

mod calls;
mod entry;
mod provided;
mod requests;
mod ring;
mod slots;

pub use entry::{Entry, OPS};
pub use ring::{
    CQ_ENTRIES, CQ_FLAGS, CQ_HEAD, CQ_MASK, CQ_OVERFLOW, CQ_TAIL, CQES, Completion, Ring, SQ_DROPPED,
    SQ_ENTRIES, SQ_FLAGS, SQ_HEAD, SQ_MASK, SQ_TAIL, SQE_LEN,
};
use ring::{NEED_WAKEUP, OVERFLOWN};

use crate::call::CallState;
use crate::files::FileKind;
use crate::files::readiness::{READABLE, WRITABLE};
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, WaitQueueId};
use crate::mm::MapSource;
use crate::timer::TimerId;
use belljar_linux_abi::{Errno, c};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// `IORING_OFF_SQES`.
const ENTRIES_AT: u64 = 0x1000_0000;
/// `IORING_OFF_CQ_RING`.
const COMPLETIONS_AT: u64 = 0x800_0000;
/// The device that mappings of rings show in `/proc/.../maps`.
const DEVICE: u64 = 0x0f;
/// `IORING_OFF_PBUF_RING`, `IORING_OFF_PBUF_SHIFT` and `IORING_OFF_MMAP_MASK`.
const BUFFERS_AT: u64 = 0x8000_0000;
const BUFFERS_SHIFT: u32 = 16;
const PART: u64 = 0xf800_0000;
/// `IORING_CQE_F_MORE`.
const MORE: u32 = 2;

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) entry: Entry,
    pub(super) held: requests::Held,
    pub(super) state: CallState,
    pub(super) on: SmallVec<[WaitQueueId; 2]>,
    pub(super) deadline: Option<TimerId>,
    /// Entries that are linked to it, in order.
    pub(super) links: VecDeque<Entry>,
    /// The serial number of the request that limits its time, or whose time this one limits.
    pub(super) partner: Option<u64>,
    /// For `IORING_OP_TIMEOUT` with a count: completions that are still to come.
    pub(super) count: u32,
    /// Whether it is in the list of what can go on.
    pub(super) queued: bool,
    pub(super) serial: u64,
}

/// How an instance was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Whether the ring of submissions is an array of places of entries.
    pub has_array: bool,
    /// `IORING_SETUP_R_DISABLED`.
    pub disabled: bool,
    /// `IORING_SETUP_SQPOLL`.
    pub polled: bool,
    /// `IORING_SETUP_SUBMIT_ALL`.
    pub submits_all: bool,
}

/// One instance.
#[derive(Debug)]
pub struct Uring {
    /// Notified when something completes.
    pub queue: WaitQueueId,
    /// Its shared memory.
    pub ring: Ring,
    /// Who made it: the process whose memory and descriptors requests mean.
    pub process: ProcessKey,
    pub(crate) pid: i32,
    /// Whether nothing can be submitted yet (`IORING_SETUP_R_DISABLED`).
    pub disabled: bool,
    pub(crate) requests: Slab<Request>,
    /// Completions for which there was no room.
    pub(crate) backlog: VecDeque<Completion>,
    /// Entries that wait for those before them, chain by chain.
    pub(crate) deferred: VecDeque<VecDeque<Entry>>,
    /// Whether what was started last has to end before others start.
    pub(crate) draining: bool,
    pub(crate) setup: Setup,
    /// `IORING_REGISTER_FILES`.
    pub(crate) slots: slots::Slots,
    /// Buffers to choose from, by group.
    pub(crate) groups: BTreeMap<u16, provided::Group>,
    /// `IORING_REGISTER_BUFFERS`: address and length of each.
    pub(crate) buffers: Vec<(u64, u64)>,
    /// `IORING_REGISTER_EVENTFD`.
    pub(crate) eventfd: Option<FileKey>,
}

/// All instances of a host.
#[derive(Debug, Default)]
pub struct Urings {
    pub(crate) instances: Slab<Uring>,
    /// Requests that can go on: instance, number, serial number, whether its time is over.
    pub(crate) work: VecDeque<(usize, usize, u64, bool)>,
    pub(crate) serial: u64,
}

impl Host {
    /// A new instance as an open file.
    pub(crate) fn create_uring(
        &mut self,
        process: ProcessKey,
        (sq_entries, cq_entries): (u32, u32),
        setup: Setup,
    ) -> Result<FileKey, Errno> {
        let len = Ring::rings_len(cq_entries, sq_entries) + u64::from(sq_entries) * SQE_LEN;
        let memory = self.machine.shared_memory(len.next_multiple_of(4_096))?;
        let ring = Ring { memory, sq_entries, cq_entries, has_array: setup.has_array };
        for (at, value) in [
            (SQ_MASK, sq_entries - 1),
            (SQ_ENTRIES, sq_entries),
            (CQ_MASK, cq_entries - 1),
            (CQ_ENTRIES, cq_entries),
        ] {
            ring.set_word(&mut *self.machine, at, value);
        }
        if setup.polled {
            ring.set_flag(&mut *self.machine, NEED_WAKEUP, true);
        }
        let uring = Uring {
            queue: self.waits.create(),
            ring,
            process,
            pid: self.processes[process.0].pid,
            disabled: setup.disabled,
            requests: Slab::new(),
            backlog: VecDeque::new(),
            deferred: VecDeque::new(),
            draining: false,
            setup,
            slots: slots::Slots::default(),
            groups: BTreeMap::new(),
            buffers: Vec::new(),
            eventfd: None,
        };
        let n = self.urings.instances.insert(uring);
        Ok(self.open_file(FileKind::Uring(n), c::O_RDWR))
    }

    /// What `mmap(2)` of an instance maps.
    pub(crate) fn uring_source(&self, n: usize, len: u64, offset: u64) -> Result<MapSource, Errno> {
        let path = b"anon_inode:[io_uring]".as_slice().into();
        let identity = (DEVICE, n as u64);
        if offset & PART == BUFFERS_AT {
            let group = ((offset - BUFFERS_AT) >> BUFFERS_SHIFT) as u16;
            let (memory, room) = self.urings.instances[n]
                .groups
                .get(&group)
                .and_then(provided::mapped)
                .ok_or(Errno::EINVAL)?;
            if len > room {
                return Err(Errno::EINVAL);
            }
            return Ok(MapSource { native: memory, offset: 0, path, identity, file: None });
        }
        let ring = self.urings.instances[n].ring;
        let rings = ring.entries_offset();
        let (start, room) = match offset {
            0 | COMPLETIONS_AT => (0, rings),
            ENTRIES_AT => (rings, (u64::from(ring.sq_entries) * SQE_LEN).next_multiple_of(4_096)),
            _ => return Err(Errno::EINVAL),
        };
        if len > room {
            return Err(Errno::EINVAL);
        }
        Ok(MapSource { native: ring.memory, offset: start, path, identity, file: None })
    }

    /// What an instance is ready for.
    pub(crate) fn uring_readiness(&self, n: usize) -> u32 {
        let uring = &self.urings.instances[n];
        let mut ready = 0;
        if uring.ring.unread(&*self.machine) > 0 || !uring.backlog.is_empty() {
            ready |= READABLE;
        }
        if uring.ring.can_submit(&*self.machine) {
            ready |= WRITABLE;
        }
        ready
    }

    /// The last descriptor is closed: what waits is dropped.
    pub(crate) fn close_uring(&mut self, n: usize) {
        let numbers: Vec<usize> = self.urings.instances[n].requests.iter().map(|(at, _)| at).collect();
        for at in numbers {
            self.drop_request(n, at);
        }
        let uring = self.urings.instances.remove(n);
        self.waits.destroy(uring.queue);
        for file in uring.slots.files.into_iter().flatten().chain(uring.eventfd) {
            self.release_file(file);
        }
        for group in uring.groups.into_values() {
            if let provided::Group::Ring { place, .. } = group {
                self.forget_place(place);
            }
        }
        self.machine.close(uring.ring.memory);
    }

    /// Tells the program of a completion.
    pub(crate) fn tell_completion(&mut self, n: usize, completion: Completion) {
        let uring = &mut self.urings.instances[n];
        if !uring.backlog.is_empty() || !uring.ring.put(&mut *self.machine, &completion) {
            uring.backlog.push_back(completion);
            uring.ring.set_flag(&mut *self.machine, OVERFLOWN, true);
        }
        let (queue, eventfd) = (uring.queue, uring.eventfd);
        if let Some(file) = eventfd {
            self.signal_eventfd(file);
        }
        self.notify_events(queue, READABLE);
        self.count_completion(n);
    }

    /// Moves completions that waited for room into the ring.
    pub(crate) fn flush_completions(&mut self, n: usize) {
        let uring = &mut self.urings.instances[n];
        if uring.backlog.is_empty() {
            return;
        }
        while let Some(completion) = uring.backlog.front() {
            if !uring.ring.put(&mut *self.machine, completion) {
                return;
            }
            uring.backlog.pop_front();
        }
        uring.ring.set_flag(&mut *self.machine, OVERFLOWN, false);
    }

    /// Puts a request that was notified into the list of what can go on.
    pub(crate) fn request_changed(&mut self, n: usize, at: usize) {
        let request = &mut self.urings.instances[n].requests[at];
        if !request.queued {
            request.queued = true;
            self.urings.work.push_back((n, at, request.serial, false));
        }
    }
    /// The time of a request has come.
    pub(crate) fn request_due(&mut self, n: usize, at: usize, serial: u64) {
        self.urings.work.push_back((n, at, serial, true));
    }
    /// Whether requests can go on.
    pub(crate) fn has_uring_work(&self) -> bool {
        !self.urings.work.is_empty()
    }
}
