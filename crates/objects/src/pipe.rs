//! Pipes and FIFOs, pipe(7): a queue of pages between readers and writers, by default sixteen.
//!
//! Capacity is counted in pages as in Linux, not in bytes: a write is merged into the last page only if it
//! fits there whole, and a page is free again when its last byte has been read. This also makes writes of up
//! to `PIPE_BUF` bytes atomic.

use crate::ids::{InodeKey, WaitQueueId};
use belljar_linux_abi::Errno;
use belljar_netstack::readiness::{EPOLLERR, EPOLLHUP, READABLE, WRITABLE};
use std::collections::VecDeque;

/// Page size and `PIPE_BUF`, in bytes.
pub const PAGE: usize = 4_096;
/// Pages of a new pipe: 64 KiB.
const DEFAULT_PAGES: usize = 16;
/// Maximum of `F_SETPIPE_SZ` in bytes, from Linux's `round_pipe_size`.
const MAX_CAPACITY: u64 = 1 << 31;

/// Page with bytes of one write or of several small ones.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Unread bytes.
    len: usize,
    /// Offset in the page at which they end.
    end: usize,
    /// True if later writes may be merged; false for pages spliced from other objects.
    merges: bool,
    /// True for a packet (`O_DIRECT`), at whose end a read stops.
    packet: bool,
}

/// Pages that `splice(2)` moves between pipes, with their data.
#[derive(Debug)]
pub struct Moved {
    pages: Vec<Page>,
    bytes: Vec<u8>,
}

impl Moved {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// The pages without merging of later writes, for `tee(2)`.
    pub fn unmerged(mut self) -> Moved {
        self.pages.iter_mut().for_each(|page| page.merges = false);
        self
    }
}

/// State specific to a FIFO: `open(2)` calls that wait for the other end.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    /// Device and inode number.
    pub identity: (u64, u64),
    /// Inode, pinned while the FIFO is open.
    pub inode: Option<InodeKey>,
    /// Wait queue of readers' `open(2)` calls, notified when a writer opens the FIFO.
    pub opening_readers: WaitQueueId,
    /// Wait queue of writers' `open(2)` calls, notified when a reader opens the FIFO.
    pub opening_writers: WaitQueueId,
}

/// Pipe or open FIFO.
#[derive(Debug)]
pub struct Pipe {
    /// Wait queue, notified when data or room becomes available and when an end is closed.
    pub queue: WaitQueueId,
    /// Open files for reading.
    pub readers: u32,
    /// Open files for writing.
    pub writers: u32,
    /// Number of opens for writing. A FIFO reader opened before any writer records it, and sees no hang-up
    /// until it has changed.
    pub writer_generation: u64,
    /// State specific to a FIFO.
    pub fifo: Option<Fifo>,
    data: VecDeque<u8>,
    pages: VecDeque<Page>,
    max_pages: usize,
}

impl Pipe {
    /// Creates an empty pipe with both ends open.
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

    /// Bytes available to read, `FIONREAD`.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// True if no data is available.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// True if all pages are in use.
    pub fn is_full(&self) -> bool {
        self.pages.len() >= self.max_pages
    }

    /// Number of free pages.
    pub fn free_pages(&self) -> usize {
        self.max_pages.saturating_sub(self.pages.len())
    }
    /// Number of bytes of a `len`-byte write that fit now.
    pub fn room(&self, len: usize) -> usize {
        (self.mergeable(len) + self.free_pages() * PAGE).min(len)
    }
    /// Number of bytes of a `len`-byte write that are merged into the last page: the remainder modulo the
    /// page size, if it fits.
    fn mergeable(&self, len: usize) -> usize {
        let odd = len % PAGE;
        match self.pages.back() {
            Some(page) if page.merges && page.end + odd <= PAGE => odd,
            _ => 0,
        }
    }
    /// Appends the first `data.len()` bytes of a `len`-byte write; at most [`room`](Self::room).
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
    /// Appends bytes of foreign pages, of which the first starts at `offset` in its file; returns the number
    /// of bytes that fit.
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
    /// Copies the first pages, at most `pages` of them and `len` bytes.
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
    /// Appends pages of another pipe, which must fit.
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
    /// First bytes, at most `len`, regardless of packets.
    pub fn peek_bytes(&self, len: usize) -> Vec<u8> {
        self.front(len.min(self.data.len()))
    }
    /// Bytes that a read of `len` would return, up to the end of a packet; they stay in the pipe.
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
    /// Removes `len` bytes returned by [`peek`](Self::peek) and the rest of a packet. True if a full pipe has
    /// room now.
    pub fn consume(&mut self, len: usize) -> bool {
        self.take(len, true)
    }
    /// Removes `len` bytes as `splice(2)` does, keeping the rest of a packet. True if a full pipe has room
    /// now.
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

    /// Capacity in bytes, `F_GETPIPE_SZ`.
    pub fn capacity(&self) -> usize {
        self.max_pages * PAGE
    }
    /// Sets the capacity, rounded up to a power of two of pages: `F_SETPIPE_SZ`. `EBUSY` if more is in use.
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

    /// Readiness of a read end; `opened_at` is the writer generation that it recorded.
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
    /// Readiness of a write end.
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
