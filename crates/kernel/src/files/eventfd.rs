//! Event counters, eventfd(2).

use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::FileKey;
use crate::outcome::{Block, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{EPOLLERR, EPOLLIN, EPOLLOUT};
use belljar_objects::eventfd::EventFd;
use belljar_objects::file_kind::FileKind;
use belljar_tasks::waits::WaitTable;

impl Files {
    /// Creates a counter and its open file.
    pub(crate) fn create_eventfd(
        &mut self,
        waits: &mut WaitTable,
        count: u64,
        semaphore: bool,
        flags: i32,
    ) -> FileKey {
        let queue = waits.create();
        let n = self.eventfds.insert(EventFd::new(queue, count, semaphore));
        self.open_file(FileKind::EventFd(n), c::O_RDWR | flags)
    }
}

impl Host {
    /// Adds one to the counter from within the kernel (`eventfd_signal`).
    pub(crate) fn signal_eventfd(&mut self, file: FileKey) {
        let FileKind::EventFd(n) = self.files.open(file).kind else { return };
        let event = &mut self.files.eventfds[n];
        event.signal();
        let (queue, ready) = (event.queue, event.readiness() & (EPOLLIN | EPOLLERR));
        self.notify_events(queue, ready);
    }
}

impl Call<'_> {
    /// `read(2)` of eight bytes. `EINVAL` if the buffers are smaller; blocks, or `EAGAIN`, while the counter
    /// is 0.
    pub(crate) fn read_eventfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) < 8 {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let event = &mut self.host.files.eventfds[n];
        let queue = event.queue;
        let Some(value) = event.take() else {
            return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        };
        self.host.notify_events(queue, EPOLLOUT);
        self.scatter(buffers, &value.to_le_bytes())?;
        done(8)
    }
    /// `write(2)` of exactly eight bytes, which are added to the counter. Blocks, or `EAGAIN`, while the sum
    /// would overflow.
    pub(crate) fn write_eventfd(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) != 8 {
            return Err(Errno::EINVAL);
        }
        let bytes = self.gather(buffers, 0, 8)?;
        let value = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        if value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let event = &mut self.host.files.eventfds[n];
        let queue = event.queue;
        if !event.add(value) {
            return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        }
        self.host.notify_events(queue, EPOLLIN);
        done(8)
    }
}
