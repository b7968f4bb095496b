//! `io_uring(7)`: system calls that are asked for through shared memory.
//!
//! A request is the system call that it stands for, made by the kernel on the program's behalf. One that would
//! wait is kept with what it has to be continued from and stands in the same queues as a blocked thread would;
//! when it is notified it goes to a list, which the host works off in order before any thread runs. So
//! completions come in one order, whatever the workers do. A request holds the open file that it was submitted
//! with: while it is being made, that file stands at its descriptor, which may have been closed or given to
//! another since.

mod calls;
mod chains;
mod entry;
mod futexes;
mod provided;
mod registered;
mod requests;
mod slots;
mod snapshot;
mod timeouts;
mod waiting;

pub use belljar_objects::uring_memory::{
    CQ_ENTRIES, CQ_FLAGS, CQ_HEAD, CQ_MASK, CQ_OVERFLOW, CQ_TAIL, CQES, Completion, Ring, SQ_DROPPED,
    SQ_ENTRIES, SQ_FLAGS, SQ_HEAD, SQ_MASK, SQ_TAIL,
};
use belljar_objects::uring_memory::{CQE_LEN, EVENTFD_DISABLED, NEED_WAKEUP, OVERFLOWN, SQE_LEN, TASK_RUN};
pub use entry::{OPS, SubmissionEntry};
pub(crate) use registered::Restrictions;

use crate::credentials::Credentials;
use crate::files::FileKind;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey, ThreadKey, WaitQueueId};
use crate::mm::map::MapSource;
use crate::outcome::CallState;
use crate::timer::TimerId;
use belljar_linux_abi::{Errno, c};
use belljar_machine::NativeFile;
use belljar_netstack::readiness::{READABLE, WRITABLE};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

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

/// The submitter of an entry: the entry's addresses and descriptors are its own.
#[derive(Clone, Copy, Debug)]
pub struct Submitter {
    pub(crate) process: ProcessKey,
    pub(crate) pid: i32,
}

impl Default for Submitter {
    /// Nobody.
    fn default() -> Submitter {
        Submitter { process: ProcessKey(usize::MAX), pid: 0 }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) entry: SubmissionEntry,
    pub(super) held: requests::Held,
    pub(super) state: CallState,
    pub(super) on: SmallVec<[WaitQueueId; 2]>,
    pub(super) deadline: Option<TimerId>,
    /// Entries that are linked to it, in order.
    pub(super) links: VecDeque<SubmissionEntry>,
    /// The serial number of the request that limits its time, or whose time this one limits.
    pub(super) partner: Option<u64>,
    /// For `IORING_OP_TIMEOUT` with a count: completions that are still to come.
    pub(super) count: u32,
    /// True if it is in the list of what can go on.
    pub(super) queued: bool,
    pub(super) serial: u64,
}

/// Flags of `io_uring_setup(2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// True if the submission queue uses the index array (no `IORING_SETUP_NO_SQARRAY`).
    pub has_array: bool,
    /// `IORING_SETUP_R_DISABLED`.
    pub disabled: bool,
    /// `IORING_SETUP_SQPOLL`.
    pub polled: bool,
    /// `IORING_SETUP_SUBMIT_ALL`.
    pub submits_all: bool,
    /// `IORING_SETUP_SINGLE_ISSUER`.
    pub single_issuer: bool,
    /// `IORING_SETUP_DEFER_TASKRUN`.
    pub defers: bool,
    /// `IORING_SETUP_TASKRUN_FLAG`.
    pub tells_of_work: bool,
    /// `IORING_SETUP_IOPOLL`.
    pub polls_io: bool,
    /// `IORING_SETUP_SQE128`, `IORING_SETUP_CQE32`.
    pub large: (bool, bool),
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
    pub(crate) issuer: Option<i32>,
    /// True if nothing can be submitted yet (`IORING_SETUP_R_DISABLED`).
    pub disabled: bool,
    pub(crate) requests: Slab<Request>,
    /// Where the request of a serial number is.
    by_serial: BTreeMap<u64, usize>,
    /// The same by user data and serial number.
    by_data: BTreeMap<(u64, u64), usize>,
    /// Requests that count completions, by serial number.
    counting: BTreeSet<u64>,
    /// Serial numbers of requests that wait since entries were last submitted.
    fresh: Vec<u64>,
    /// Work that goes on once its task looks (`IORING_SETUP_DEFER_TASKRUN`), as in [`Urings::work`].
    pub(crate) postponed: VecDeque<(usize, u64, bool)>,
    /// Completions of what has been cancelled, which follow once all entries have been submitted.
    late: Option<Vec<Completion>>,
    /// Number of time-outs that have run out: each ends waiting.
    pub(crate) timeouts: u32,
    /// Completions for which there was no room.
    pub(crate) backlog: VecDeque<Completion>,
    /// Entries that wait for those before them, chain by chain.
    pub(crate) deferred: VecDeque<VecDeque<SubmissionEntry>>,
    /// True if what was started last has to end before others start.
    pub(crate) draining: bool,
    pub(crate) setup: Setup,
    /// `IORING_REGISTER_FILES`.
    pub(crate) slots: slots::Slots,
    /// GuestBuffers to choose from, by group.
    pub(crate) groups: BTreeMap<u16, provided::Group>,
    /// `IORING_REGISTER_BUFFERS`: address and length of each.
    pub(crate) buffers: Vec<(u64, u64)>,
    /// `IORING_REGISTER_EVENTFD`.
    pub(crate) eventfd: Option<FileKey>,
    is_signalling: bool,
    /// `IORING_REGISTER_PERSONALITY`: by number.
    pub(crate) personalities: BTreeMap<u16, Credentials>,
    /// The number of the next.
    pub(crate) next_personality: u16,
    /// `IORING_REGISTER_RESTRICTIONS`, in force once the rings are enabled.
    pub(crate) restrictions: Option<Restrictions>,
}

/// All instances of a host.
#[derive(Debug, Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Urings {
    pub(crate) instances: Slab<Uring>,
    /// Requests that can go on: instance, number, serial number, whether its time is over.
    pub(crate) work: VecDeque<(usize, usize, u64, bool)>,
    /// Memory that the request which is being made named when it was submitted.
    pub(crate) reading: Option<Arc<snapshot::Snapshot>>,
    pub(crate) serial: u64,
    /// True if a request is being made that a thread of the kernel makes on Linux.
    pub(crate) is_worker: bool,
    /// `IORING_REGISTER_RING_FDS`, by thread id.
    pub(crate) of_threads: BTreeMap<i32, registered::RingTable>,
}

impl Urings {
    /// The source of an `mmap(2)` of an instance.
    pub(crate) fn uring_source(&self, n: usize, len: u64, offset: u64) -> Result<MapSource, Errno> {
        let path = b"anon_inode:[io_uring]".as_slice().into();
        let identity = (DEVICE, n as u64);
        if offset & PART == BUFFERS_AT {
            let group = ((offset - BUFFERS_AT) >> BUFFERS_SHIFT) as u16;
            let (memory, room) =
                self.instances[n].groups.get(&group).and_then(provided::mapped).ok_or(Errno::EINVAL)?;
            if len > room {
                return Err(Errno::EINVAL);
            }
            return Ok(MapSource { native: memory, offset: 0, path, identity, file: None, may_write: true });
        }
        let ring = self.instances[n].ring;
        let rings = ring.rings_len();
        let (start, room) = match offset {
            0 | COMPLETIONS_AT => (0, rings),
            ENTRIES_AT => (rings, ring.entries_len()),
            _ => return Err(Errno::EINVAL),
        };
        if len > room {
            return Err(Errno::EINVAL);
        }
        Ok(MapSource { native: ring.memory, offset: start, path, identity, file: None, may_write: true })
    }
}

impl Host {
    /// The submitter behind `thread`.
    pub(crate) fn submitter(&self, thread: ThreadKey) -> Submitter {
        let process = self.threads[thread.0].process;
        Submitter { process, pid: self.processes[process.0].pid }
    }

    /// A new instance as an open file.
    pub(crate) fn create_uring(
        &mut self,
        thread: ThreadKey,
        (sq_entries, cq_entries): (u32, u32),
        setup: Setup,
    ) -> Result<FileKey, Errno> {
        let (sqe_len, cqe_len) = (SQE_LEN << u32::from(setup.large.0), CQE_LEN << u32::from(setup.large.1));
        let has_array = setup.has_array;
        let mut ring = Ring { memory: NativeFile(-1), sq_entries, cq_entries, has_array, sqe_len, cqe_len };
        ring.memory = self.machine.shared_memory(ring.rings_len() + ring.entries_len())?;
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
            process: self.threads[thread.0].process,
            issuer: (setup.single_issuer && !setup.disabled).then(|| self.threads[thread.0].tid),
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
            slots: slots::Slots::default(),
            groups: BTreeMap::new(),
            buffers: Vec::new(),
            eventfd: None,
            is_signalling: false,
            personalities: BTreeMap::new(),
            next_personality: 1,
            restrictions: None,
        };
        let n = self.urings.instances.insert(uring);
        Ok(self.files.open_file(FileKind::Uring(n), c::O_RDWR))
    }

    /// The readiness of an instance.
    pub(crate) fn uring_readiness(&self, n: usize) -> u32 {
        let uring = &self.urings.instances[n];
        let mut ready = 0;
        let waits = !uring.backlog.is_empty() || !uring.postponed.is_empty();
        if waits || uring.ring.unread(&*self.machine) > 0 {
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

    /// Tells the program of a completion, which time-outs count.
    pub(crate) fn tell_completion(&mut self, n: usize, completion: Completion) {
        self.put_completion(n, completion);
        self.count_completion(n);
    }
    /// The same, but it is a time-out's own, and they do not count each other.
    pub(super) fn put_completion(&mut self, n: usize, completion: Completion) {
        let uring = &mut self.urings.instances[n];
        if !uring.backlog.is_empty() || !uring.ring.put(&mut *self.machine, &completion) {
            uring.backlog.push_back(completion);
            uring.ring.set_flag(&mut *self.machine, OVERFLOWN, true);
        }
        let queue = uring.queue;
        self.signal_completion(n);
        self.notify_events(queue, READABLE);
    }
    /// Tells of something that was cancelled with another: as work of the task, after what is being submitted.
    pub(super) fn tell_late(&mut self, n: usize, completion: Completion) {
        match &mut self.urings.instances[n].late {
            Some(late) => late.push(completion),
            None => self.tell_completion(n, completion),
        }
    }
    /// Tells of a completion after which its request goes on; false if there is no room for it: then the request ends.
    pub(super) fn tell_more(&mut self, n: usize, completion: Completion) -> bool {
        let has_room = self.has_room(n);
        if has_room {
            self.tell_completion(n, completion);
        }
        has_room
    }
    pub(super) fn has_room(&self, n: usize) -> bool {
        let uring = &self.urings.instances[n];
        uring.backlog.is_empty() && uring.ring.unread(&*self.machine) < uring.ring.cq_entries
    }
    /// Counts up the eventfd of an instance, unless the program has turned that off.
    fn signal_completion(&mut self, n: usize) {
        let uring = &mut self.urings.instances[n];
        // Not for what that itself brings about: a request may wait for the very eventfd.
        if let Some(file) = uring.eventfd
            && !uring.is_signalling
            && uring.ring.word(&*self.machine, CQ_FLAGS) & EVENTFD_DISABLED == 0
        {
            uring.is_signalling = true;
            self.signal_eventfd(file);
            self.urings.instances[n].is_signalling = false;
        }
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
}
