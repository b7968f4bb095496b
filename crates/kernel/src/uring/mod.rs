//! `io_uring(7)`: system calls requested through shared memory.
//!
//! A request is the system call that it stands for, made by the kernel on the program's behalf. A request
//! that would block is kept with its continuation state and waits in the same queues as a blocked thread
//! would; when notified it is queued on a work list, which the host processes in order before any thread
//! runs. The order of completions therefore does not depend on the workers. A request holds the open file
//! with which it was submitted: while the request is being made, that file is installed at its descriptor,
//! which may have been closed or reused since.

mod calls;
mod chains;
mod commands;
mod futexes;
mod provided;
pub(crate) mod regions;
mod registered;
mod requests;
pub(crate) mod resources;
mod slots;
mod snapshot;
mod timeouts;
mod waiting;

use crate::call::Call;
use crate::process::Processes;
use belljar_tasks::threads::Threads;
pub(crate) use provided::PlaceMemory;
use requests::Step;

use crate::host::Host;
use crate::ids::{FileKey, ThreadKey};
use crate::mm::map::MapSource;
use belljar_linux_abi::{Errno, c};
use belljar_machine::NativeFile;
use belljar_netstack::readiness::READABLE;
use belljar_objects::file_kind::FileKind;
use belljar_uring::buffers::BufferGroup;
use belljar_uring::instance::{Submitter, Uring, Urings};
use belljar_uring::memory::{CQ_FLAGS, Completion, EVENTFD_DISABLED, Ring};
use belljar_uring::setup::Setup;

/// Device number of ring mappings in `/proc/.../maps`.
const DEVICE: u64 = 0x0f;

/// Source of an `mmap(2)` of an instance.
pub(crate) fn map_source(urings: &Urings, n: usize, len: u64, offset: u64) -> Result<MapSource, Errno> {
    let (native, offset) = urings.instances[n].mapped(len, offset)?;
    Ok(source(native, offset, n))
}
fn source(native: NativeFile, offset: u64, n: usize) -> MapSource {
    let path = b"anon_inode:[io_uring]".as_slice().into();
    MapSource { native, offset, path, identity: (DEVICE, n as u64), file: None, may_write: true }
}

/// Instance of a descriptor, or with `is_registered` of an index that the thread has registered: `EOPNOTSUPP`
/// if the file is not an io_uring instance.
pub(crate) fn registered_ring(call: &Call<'_>, fd: i32, is_registered: bool) -> Result<usize, Errno> {
    let file = match is_registered {
        true => call.host.urings.registered_ring(call.host.threads[call.thread.0].tid, fd)?,
        false => call.host.file_of(call.process, fd)?,
    };
    match call.host.files.open[file.0].kind {
        FileKind::Uring(n) => Ok(n),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

impl Host {
    /// Creates an instance as an open file.
    pub(crate) fn create_uring(
        &mut self,
        thread: ThreadKey,
        sizes: (u32, u32),
        setup: Setup,
    ) -> Result<FileKey, Errno> {
        let ring = Ring::make(&mut *self.machine, sizes, &setup)?;
        let process = self.threads[thread.0].process;
        if let Some(addrs) = setup.user_memory
            && let Err(errno) = regions::map_rings(self, process, &ring, addrs)
        {
            self.machine.close(ring.memory);
            return Err(errno);
        }
        let maker = (self.threads[thread.0].process, self.threads[thread.0].tid);
        let uring = Uring::new(self.waits.create(), ring, maker, setup);
        let n = self.urings.instances.insert(uring);
        Ok(self.files.open_file(FileKind::Uring(n), c::O_RDWR))
    }

    /// Destroys an instance when its last descriptor is closed; its waiting requests are dropped.
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
            if let BufferGroup::Ring(ring) = group {
                provided::forget_place(&mut *self.machine, ring.place);
            }
        }
        if let Some(region) = uring.region {
            provided::forget_place(&mut *self.machine, region.place);
        }
        self.machine.close(uring.ring.memory);
    }

    /// Posts a completion and counts it for timeouts.
    pub(crate) fn tell_completion(&mut self, n: usize, completion: Completion) {
        self.put_completion(n, completion);
        self.count_completion(n);
    }
    /// Posts a completion without counting it, as for timeouts, which do not count each other.
    pub(super) fn put_completion(&mut self, n: usize, completion: Completion) {
        let uring = &mut self.urings.instances[n];
        uring.put_completion(&mut *self.machine, completion);
        let queue = uring.queue;
        self.signal_completion(n);
        self.notify_events(queue, READABLE);
    }
    /// Posts the completion of a request cancelled along with another: during a submission, only at its end.
    pub(super) fn tell_late(&mut self, n: usize, completion: Completion) {
        match &mut self.urings.instances[n].late {
            Some(late) => late.push(completion),
            None => self.tell_completion(n, completion),
        }
    }
    /// Posts a completion whose request continues; false if the completion queue is full, whereupon the
    /// request ends.
    pub(super) fn tell_more(&mut self, n: usize, completion: Completion) -> bool {
        let has_room = self.urings.instances[n].has_room(&*self.machine);
        if has_room {
            self.tell_completion(n, completion);
        }
        has_room
    }
    /// Signals the eventfd of an instance, unless the program has disabled it.
    fn signal_completion(&mut self, n: usize) {
        let uring = &mut self.urings.instances[n];
        // A completion caused by the signal itself is not signalled: a request may wait for this eventfd.
        if let Some(file) = uring.eventfd
            && !uring.is_signalling
            && uring.ring.word(&*self.machine, CQ_FLAGS) & EVENTFD_DISABLED == 0
        {
            uring.is_signalling = true;
            self.signal_eventfd(file);
            self.urings.instances[n].is_signalling = false;
        }
    }
}

/// Submitter identity of `thread`.
pub(crate) fn submitter(threads: &Threads, processes: &Processes, thread: ThreadKey) -> Submitter {
    let process = threads[thread.0].process;
    Submitter { process, pid: processes[process.0].pid }
}
