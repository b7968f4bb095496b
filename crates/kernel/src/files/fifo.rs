//! FIFOs: pipes with a name, fifo(7). The inode belongs to the file tree; while the FIFO is open, the
//! identity of the inode maps to its pipe.

use crate::files::Files;
use crate::host::Host;
use crate::ids::{InodeKey, PipeKey, WaitQueueId};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::{FileKind, FilePlace};
use belljar_objects::pipe::{Fifo, Pipe};
use belljar_tasks::waits::WaitTable;

/// Result of a successful attempt to open a FIFO.
#[derive(Debug)]
pub(crate) enum FifoOpen {
    /// Opened: the kind for [`Files::open_file`](super::Files::open_file), and the initial value of
    /// [`OpenFile::offset`](super::OpenFile::offset).
    Opened(FileKind, u64),
    /// The other end is not open: block on this queue, and when notified call again with `again`.
    Wait(WaitQueueId),
}

impl Files {
    /// Pipe of a FIFO, created if the FIFO is not open.
    fn fifo_of(&mut self, waits: &mut WaitTable, inode: InodeKey, identity: (u64, u64)) -> PipeKey {
        if let Some(key) = self.fifos.get(&identity) {
            return *key;
        }
        let mut pipe = Pipe::new(waits.create());
        (pipe.readers, pipe.writers) = (0, 0);
        let (opening_readers, opening_writers) = (waits.create(), waits.create());
        let inode = self.inodes.get_mut(inode.0).map(|found| {
            found.opens += 1;
            inode
        });
        pipe.fifo = Some(Fifo { identity, inode, opening_readers, opening_writers });
        let key = PipeKey(self.pipes.insert(pipe));
        self.fifos.insert(identity, key);
        key
    }
}

impl Host {
    /// Opens the FIFO with this inode and identity by the rules of fifo(7). `again` is set for the attempt
    /// that follows a notification of the queue returned by the first. `ENXIO` for a nonblocking open for
    /// writing without a reader.
    pub(crate) fn open_fifo(
        &mut self,
        (inode, identity): (InodeKey, (u64, u64)),
        flags: i32,
        again: bool,
    ) -> Result<FifoOpen, Errno> {
        let key = self.files.fifo_of(&mut self.waits, inode, identity);
        let fifo = self.files.pipes[key.0].fifo.expect("found among the FIFOs");
        let waits = flags & c::O_NONBLOCK == 0;
        match flags & c::O_ACCMODE {
            c::O_RDONLY => {
                let mut generation = 0;
                if !again {
                    let awaited = self.queue_len(fifo.opening_writers);
                    let pipe = &mut self.files.pipes[key.0];
                    if pipe.writers == 0 && awaited == 0 {
                        if waits {
                            return Ok(FifoOpen::Wait(fifo.opening_readers));
                        }
                        generation = pipe.writer_generation;
                    }
                    // The waiting writers count as having the FIFO open from now on, before they run again.
                    pipe.readers += 1;
                    pipe.writers += awaited;
                    pipe.writer_generation += u64::from(awaited);
                    self.notify(fifo.opening_writers);
                }
                Ok(FifoOpen::Opened(FileKind::PipeReader(key), generation))
            }
            c::O_WRONLY => {
                if !again {
                    let awaited = self.queue_len(fifo.opening_readers);
                    let pipe = &mut self.files.pipes[key.0];
                    if pipe.readers == 0 && awaited == 0 {
                        let refused =
                            if waits { Ok(FifoOpen::Wait(fifo.opening_writers)) } else { Err(Errno::ENXIO) };
                        self.drop_unused_fifo(key, waits);
                        return refused;
                    }
                    pipe.readers += awaited;
                    pipe.writers += 1;
                    pipe.writer_generation += 1;
                    self.notify(fifo.opening_readers);
                }
                Ok(FifoOpen::Opened(FileKind::PipeWriter(key), 0))
            }
            c::O_RDWR => {
                let readers = self.queue_len(fifo.opening_readers);
                let writers = self.queue_len(fifo.opening_writers);
                let pipe = &mut self.files.pipes[key.0];
                pipe.readers += 1 + readers;
                pipe.writers += 1 + writers;
                pipe.writer_generation += 1 + u64::from(writers);
                self.notify(fifo.opening_readers);
                self.notify(fifo.opening_writers);
                Ok(FifoOpen::Opened(FileKind::PipeBoth(key), 0))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn queue_len(&self, queue: WaitQueueId) -> u32 {
        self.waits.waiters(queue).count() as u32
    }

    fn drop_unused_fifo(&mut self, key: PipeKey, awaited: bool) {
        let pipe = &self.files.pipes[key.0];
        if !awaited && pipe.readers == 0 && pipe.writers == 0 {
            self.remove_pipe(key);
        }
    }

    /// Removes a pipe without open ends, unless it is a FIFO with an open in progress.
    pub(super) fn remove_pipe(&mut self, key: PipeKey) {
        self.files.unnamed.remove(&FilePlace::Pipe(key));
        if let Some(fifo) = self.files.pipes[key.0].fifo {
            if self.queue_len(fifo.opening_readers) + self.queue_len(fifo.opening_writers) > 0 {
                return;
            }
            self.files.fifos.remove(&fifo.identity);
            self.waits.destroy(fifo.opening_readers);
            self.waits.destroy(fifo.opening_writers);
            if let Some(inode) = fifo.inode {
                self.release_inode(inode);
            }
        }
        let pipe = self.files.pipes.remove(key.0);
        self.waits.destroy(pipe.queue);
    }
}
