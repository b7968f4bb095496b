//! Pipes and FIFOs, pipe(7): sixteen pages of data between readers and writers.
//!
//! Capacity is counted in pages as Linux does, not in bytes: what a write adds goes to the page
//! begun by the last write only if it fits there whole, and a page is free again when its last
//! byte has been read. That is also what makes writes of up to `PIPE_BUF` bytes atomic.

use crate::ids::{InodeKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_netstack::readiness::{EPOLLERR, EPOLLHUP, READABLE, WRITABLE};
use std::collections::VecDeque;

/// The size of a page, and `PIPE_BUF`.
pub const PAGE: usize = 4_096;
/// The number of pages of a new pipe: 64 KiB.
const DEFAULT_PAGES: usize = 16;
/// The most that `F_SETPIPE_SZ` accepts, from Linux's `round_pipe_size`.
const MAX_CAPACITY: u64 = 1 << 31;

/// Some bytes of one write or of several small ones.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Bytes not yet read.
    len: usize,
    /// Where in the page they end.
    end: usize,
    /// True if more may be appended: what `splice(2)` brought refers to a page of something else.
    merges: bool,
    /// A packet of its own (`O_DIRECT`): a read takes no more than it.
    packet: bool,
}

/// Data that `splice(2)` moves from pipe to pipe: the pages, and their bytes.
#[derive(Debug)]
pub struct Moved {
    pages: Vec<Page>,
    bytes: Vec<u8>,
}

impl Moved {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Copies of the pages, to which nothing is appended, for `tee(2)`.
    pub fn unmerged(mut self) -> Moved {
        self.pages.iter_mut().for_each(|page| page.merges = false);
        self
    }
}

/// State of a FIFO beside that of its pipe: calls of `open(2)` that wait for the other end.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    /// Device and inode number.
    pub identity: (u64, u64),
    /// Its inode, which stays while it is open.
    pub inode: Option<InodeKey>,
    /// Notified when somebody has opened it for writing.
    pub opening_readers: WaitQueueId,
    /// Notified when somebody has opened it for reading.
    pub opening_writers: WaitQueueId,
}

/// A pipe or an open FIFO.
#[derive(Debug)]
pub struct Pipe {
    /// Notified when data or room appears and when an end closes.
    pub queue: WaitQueueId,
    /// Open files that read.
    pub readers: u32,
    /// Open files that write.
    pub writers: u32,
    /// Number of times that it was opened for writing. A FIFO's reader that was opened before any writer remembers the
    /// number, and sees no hang-up until it has changed.
    pub writer_generation: u64,
    /// State of a FIFO beside that of its pipe.
    pub fifo: Option<Fifo>,
    data: VecDeque<u8>,
    pages: VecDeque<Page>,
    max_pages: usize,
}

impl Pipe {
    /// An empty pipe with both ends open.
    pub fn new(queue: WaitQueueId) -> Pipe {
        Pipe {
            queue,
            readers: 1,
            writers: 1,
            writer_generation: 1,
            fifo: None,
            data: VecDeque::new(),
            pages: VecDeque::new(),
            max_pages: DEFAULT_PAGES,
        }
    }

    /// Bytes that can be read: `FIONREAD`.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// True if nothing can be read.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// True if every page is in use.
    pub fn is_full(&self) -> bool {
        self.pages.len() >= self.max_pages
    }

    /// Number of pages that are free.
    pub fn free_pages(&self) -> usize {
        self.max_pages.saturating_sub(self.pages.len())
    }
    /// Number of bytes of a write of `len` that can be taken now.
    pub fn room(&self, len: usize) -> usize {
        (self.mergeable(len) + self.free_pages() * PAGE).min(len)
    }
    /// Number of `len` bytes that go to the page begun by the last write: the bytes over whole pages, if they fit.
    fn mergeable(&self, len: usize) -> usize {
        let odd = len % PAGE;
        match self.pages.back() {
            Some(page) if page.merges && page.end + odd <= PAGE => odd,
            _ => 0,
        }
    }
    /// Takes the first `data.len()` bytes, at most [`room`](Self::room), of a write of `len`.
    pub fn push(&mut self, data: &[u8], len: usize, packet: bool) {
        let merged = self.mergeable(len).min(data.len());
        if merged > 0 {
            let page = self.pages.back_mut().expect("there is a page to merge with");
            page.len += merged;
            page.end += merged;
        }
        for part in data[merged..].chunks(PAGE) {
            self.pages.push_back(Page { len: part.len(), end: part.len(), merges: !packet, packet });
        }
        self.data.extend(data);
    }
    /// Takes bytes of pages of something else, of which the first begins `offset` bytes into its page; gives
    /// how many there was room for.
    pub fn push_pages(&mut self, data: &[u8], offset: u64) -> usize {
        let mut taken = 0;
        let mut part = PAGE - (offset % PAGE as u64) as usize;
        while taken < data.len() && !self.is_full() {
            let len = part.min(data.len() - taken);
            self.pages.push_back(Page { len, end: len, merges: false, packet: false });
            self.data.extend(&data[taken..taken + len]);
            taken += len;
            part = PAGE;
        }
        taken
    }
    /// Copies of the first pages, at most so many of them and of their bytes.
    pub fn copy_pages(&self, len: usize, pages: usize) -> Moved {
        let (mut moved, mut left) = (Vec::new(), len);
        for page in self.pages.iter().take(pages) {
            if left == 0 {
                break;
            }
            let part = page.len.min(left);
            moved.push(Page { len: part, merges: page.merges && part == page.len, ..*page });
            left -= part;
        }
        Moved { pages: moved, bytes: self.front(len - left) }
    }
    /// Takes pages of another pipe, for which there is room.
    pub fn append(&mut self, moved: Moved) {
        self.pages.extend(moved.pages);
        self.data.extend(moved.bytes);
    }
    fn front(&self, len: usize) -> Vec<u8> {
        let (first, second) = self.data.as_slices();
        let from_first = len.min(first.len());
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&first[..from_first]);
        out.extend_from_slice(&second[..len - from_first]);
        out
    }
    /// The first bytes, `len` at most, packets or not.
    pub fn peek_bytes(&self, len: usize) -> Vec<u8> {
        self.front(len.min(self.data.len()))
    }
    /// The bytes that a read of `len` would get, left in the pipe: they end behind a packet.
    pub fn peek(&self, len: usize) -> Vec<u8> {
        let mut end = 0;
        for page in &self.pages {
            end += page.len;
            if page.packet || end >= len {
                break;
            }
        }
        self.front(len.min(end))
    }
    /// Takes `len` bytes that [`peek`](Self::peek) gave; what is left of a packet is lost. Gives
    /// whether a full pipe has room now.
    pub fn consume(&mut self, len: usize) -> bool {
        self.take(len, true)
    }
    /// Takes `len` bytes as `splice(2)` does: what is left of a packet stays. Gives whether a full pipe has
    /// room now.
    pub fn consume_bytes(&mut self, len: usize) -> bool {
        self.take(len, false)
    }
    fn take(&mut self, len: usize, whole_packets: bool) -> bool {
        let was_full = self.is_full();
        let mut left = len;
        while left > 0 {
            let page = self.pages.front_mut().expect("bytes lie in pages");
            let part = left.min(page.len);
            page.len -= part;
            left -= part;
            if page.packet && whole_packets {
                self.data.drain(len..len + page.len);
                page.len = 0;
            }
            if page.len == 0 {
                self.pages.pop_front();
            }
        }
        self.data.drain(..len);
        was_full && !self.is_full()
    }

    /// `F_GETPIPE_SZ`: its capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.max_pages * PAGE
    }
    /// `F_SETPIPE_SZ`: rounds up to a power of two of pages. `EBUSY` if more is in use.
    pub fn set_capacity(&mut self, bytes: u64) -> Result<usize, Errno> {
        if bytes > MAX_CAPACITY {
            return Err(Errno::EINVAL);
        }
        let pages = (bytes as usize).div_ceil(PAGE).max(1).next_power_of_two();
        if pages < self.pages.len() {
            return Err(Errno::EBUSY);
        }
        self.max_pages = pages;
        Ok(self.capacity())
    }

    /// Readiness of a reading end; `opened_at` is the writers' generation that it remembers.
    pub fn reader_readiness(&self, opened_at: u64) -> u32 {
        let mut events = 0;
        if !self.is_empty() {
            events |= READABLE;
        }
        if self.writers == 0 && opened_at != self.writer_generation {
            events |= EPOLLHUP;
        }
        events
    }
    /// Readiness of a writing end.
    pub fn writer_readiness(&self) -> u32 {
        let mut events = 0;
        if !self.is_full() {
            events |= WRITABLE;
        }
        if self.readers == 0 {
            events |= EPOLLERR;
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> Pipe {
        Pipe::new(WaitQueueId::default())
    }
    fn write(pipe: &mut Pipe, data: &[u8]) -> usize {
        let room = pipe.room(data.len());
        pipe.push(&data[..room], data.len(), false);
        room
    }
    fn read(pipe: &mut Pipe, len: usize) -> Vec<u8> {
        let data = pipe.peek(len);
        pipe.consume(data.len());
        data
    }

    #[test]
    fn small_writes_share_pages() {
        let mut p = pipe();
        (0..65_536).for_each(|_| assert_eq!(write(&mut p, b"x"), 1));
        assert!(p.is_full());
        assert_eq!(write(&mut p, b"x"), 0);
        assert_eq!(read(&mut p, 100_000).len(), 65_536);
    }

    #[test]
    fn writes_that_do_not_fit_a_page_take_the_next() {
        // As measured on Linux: sixteen writes of 3,000 bytes, although 17,536 bytes are free.
        let mut p = pipe();
        let mut total = 0;
        while write(&mut p, &[1; 3_000]) == 3_000 {
            total += 3_000;
        }
        assert_eq!(total, 48_000);
        assert_eq!(p.len(), 48_000);
    }

    #[test]
    fn a_small_write_is_all_or_nothing_and_a_long_one_is_not() {
        let mut p = pipe();
        assert_eq!(write(&mut p, &[0; 65_536]), 65_536);
        assert!(
            !{
                p.peek(1);
                p.consume(1)
            },
            "a page is freed whole"
        );
        assert_eq!(write(&mut p, &[0; 1]), 0);
        assert!(p.consume(4_095));
        assert_eq!(write(&mut p, &[0; 10_000]), 4_096);
    }

    #[test]
    fn packets_keep_their_bounds() {
        let mut p = pipe();
        p.push(b"first", 5, true);
        p.push(b"second", 6, true);
        assert_eq!(read(&mut p, 3), b"fir");
        assert_eq!(read(&mut p, 100), b"second");
        assert!(p.is_empty());
        assert_eq!(p.len(), 0, "what was left of the packet is gone");
    }

    #[test]
    fn capacity_is_rounded_up_and_not_below_what_is_used() {
        let mut p = pipe();
        assert_eq!(p.set_capacity(0), Ok(4_096), "a page is the least");
        assert_eq!(p.set_capacity(100_000), Ok(131_072));
        write(&mut p, &[0; 20_000]);
        assert_eq!(p.set_capacity(4_096), Err(Errno::EBUSY));
        assert_eq!(p.set_capacity(0), Err(Errno::EBUSY));
        assert_eq!(p.set_capacity((1 << 31) + 1), Err(Errno::EINVAL));
        assert_eq!(p.set_capacity(32_768), Ok(32_768));
    }
}
