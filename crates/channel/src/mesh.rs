//! Byte streams between all pairs of a few processes, in shared memory.
//!
//! Each ordered pair has a ring with one writer and one reader: only the writer advances `tail`, only the
//! reader `head`; both count bytes from the start. A process that writes or frees space rings the other's
//! bell, a futex word, if it sleeps.

use crate::futex;
use crate::memory::Mapping;
use std::io::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::Duration;

/// Maximum capacity of a ring in bytes, used with few processes.
const CAPACITY: usize = 256 << 10;
/// Total capacity in bytes of all rings between 32 to 256 processes; the more processes, the smaller each ring.
const TOTAL: usize = 32 * 32 * CAPACITY;
/// Minimum capacity of a ring in bytes.
const LEAST: usize = 4 << 10;

/// Bell of a process, on separate cache lines.
#[repr(C, align(128))]
struct Bell {
    rung: AtomicU32,
    asleep: AtomicU32,
}

/// Header of the mesh, before the bells.
#[repr(C, align(128))]
struct Head {
    flags: AtomicU32,
}

/// Counters of a ring, before its bytes.
#[repr(C, align(128))]
struct Ring {
    tail: AtomicU64,
    apart: [u64; 15],
    head: AtomicU64,
    apart_too: [u64; 15],
}

/// Capacity in bytes of each ring between `count` processes.
fn capacity(count: usize) -> usize {
    let share = TOTAL / (count * count).max(1);
    // Power of two, so that the next ring's counters are on separate cache lines.
    (1 << share.max(LEAST).ilog2()).min(CAPACITY)
}

/// Mesh: the endpoint of one process.
#[derive(Debug)]
pub struct Mesh {
    memory: Mapping,
    file: OwnedFd,
    count: usize,
    me: usize,
    /// Capacity of a ring in bytes.
    capacity: usize,
}

impl Mesh {
    /// Creates the memory for `count` processes; the caller is process 0.
    pub fn create(count: usize) -> Result<Mesh> {
        let (memory, file) = Mapping::create(Mesh::size(count))?;
        Ok(Mesh { memory, file, count, me: 0, capacity: capacity(count) })
    }

    /// Joins as process `me` of `count`, with the file of process 0.
    pub fn join(file: OwnedFd, count: usize, me: usize) -> Result<Mesh> {
        assert!(me < count);
        let memory = Mapping::of(&file, Mesh::size(count))?;
        Ok(Mesh { memory, file, count, me, capacity: capacity(count) })
    }

    /// File by which other processes join.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
    /// Number of this process.
    pub fn me(&self) -> usize {
        self.me
    }
    /// Number of processes.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Writes to process `to` the part of `bytes` that fits; returns its length.
    pub fn write(&self, to: usize, bytes: &[u8]) -> usize {
        let ring = self.ring(self.me, to);
        // SAFETY: the counters are atomics in mapped memory.
        let (tail, head) = unsafe { ((*ring).tail.load(Relaxed), (*ring).head.load(Acquire)) };
        let room = self.capacity.saturating_sub(tail.wrapping_sub(head) as usize);
        let len = bytes.len().min(room);
        let at = tail as usize % self.capacity;
        let first = len.min(self.capacity - at);
        // SAFETY: `at < capacity`, and both parts stay within the ring, where these bytes belong to the
        // writer until it advances the tail; they don't overlap private memory.
        unsafe {
            let data = ring.add(1).cast::<u8>();
            data.add(at).copy_from_nonoverlapping(bytes.as_ptr(), first);
            data.copy_from_nonoverlapping(bytes.as_ptr().add(first), len - first);
            (*ring).tail.store(tail.wrapping_add(len as u64), Release);
        }
        if len > 0 {
            self.ring_bell(to);
        }
        len
    }

    /// Appends the bytes available from process `from` to `bytes`; returns their number.
    pub fn read(&self, from: usize, bytes: &mut Vec<u8>) -> usize {
        let ring = self.ring(from, self.me);
        // SAFETY: the counters are atomics in mapped memory.
        let (head, tail) = unsafe { ((*ring).head.load(Relaxed), (*ring).tail.load(Acquire)) };
        let len = (tail.wrapping_sub(head) as usize).min(self.capacity);
        let at = head as usize % self.capacity;
        let first = len.min(self.capacity - at);
        bytes.reserve(len);
        // SAFETY: both parts lie within the ring and belong to the reader until it advances the head; the
        // vector has capacity for them, and its length is set after they are written.
        unsafe {
            let data = ring.add(1).cast::<u8>();
            let end = bytes.as_mut_ptr().add(bytes.len());
            end.copy_from_nonoverlapping(data.add(at), first);
            end.add(first).copy_from_nonoverlapping(data, len - first);
            bytes.set_len(bytes.len() + len);
            (*ring).head.store(head.wrapping_add(len as u64), Release);
        }
        if len > 0 {
            self.ring_bell(from);
        }
        len
    }

    /// Ring count to pass to [`wait`](Self::wait), read before looking for work.
    pub fn rung(&self) -> u32 {
        self.bell(self.me).rung.load(SeqCst)
    }

    /// Sleeps until another process writes or reads after `seen` was read, or for `timeout`.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        let bell = self.bell(self.me);
        bell.asleep.store(1, SeqCst);
        if bell.rung.load(SeqCst) == seen {
            futex::wait(&bell.rung, seen, timeout);
        }
        bell.asleep.store(0, SeqCst);
    }

    /// Raises flag `n`, below 32, for all processes and wakes them.
    pub fn raise(&self, n: u32) {
        self.head().flags.fetch_or(1 << n, SeqCst);
        (0..self.count).for_each(|whose| self.ring_bell(whose));
    }
    /// True if any process has raised flag `n`.
    pub fn raised(&self, n: u32) -> bool {
        self.head().flags.load(Relaxed) & 1 << n != 0
    }

    fn ring_bell(&self, whose: usize) {
        let bell = self.bell(whose);
        bell.rung.fetch_add(1, SeqCst);
        if bell.asleep.load(SeqCst) != 0 {
            futex::wake(&bell.rung);
        }
    }

    fn size(count: usize) -> usize {
        Mesh::rings(count) + count * count * (size_of::<Ring>() + capacity(count))
    }
    /// Offset of the rings, after the header and the bells.
    fn rings(count: usize) -> usize {
        size_of::<Head>() + count * size_of::<Bell>()
    }
    fn head(&self) -> &Head {
        // SAFETY: the mapping starts with the head, which consists of atomics.
        unsafe { &*self.memory.at().cast::<Head>() }
    }
    fn bell(&self, whose: usize) -> &Bell {
        assert!(whose < self.count);
        // SAFETY: `count` bells, which consist of atomics, follow the head.
        unsafe { &*self.memory.at().add(size_of::<Head>()).cast::<Bell>().add(whose) }
    }
    fn ring(&self, from: usize, to: usize) -> *mut Ring {
        assert!(from < self.count && to < self.count);
        let before = (from * self.count + to) * (size_of::<Ring>() + self.capacity);
        // SAFETY: `count` squared rings with their bytes follow the bells.
        unsafe { self.memory.at().add(Mesh::rings(self.count) + before).cast::<Ring>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_however_large_the_pieces() {
        let here = Mesh::create(3).unwrap();
        let there = Mesh::join(here.file().try_clone_to_owned().unwrap(), 3, 2).unwrap();
        let total = 3 * CAPACITY + 12_345;
        let byte = |n: usize| (n % 251) as u8;
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            while got.len() < total {
                let seen = there.rung();
                if there.read(0, &mut got) == 0 {
                    there.wait(seen, Duration::from_secs(10));
                }
            }
            assert!(got.iter().enumerate().all(|(n, got)| *got == byte(n)));
            there
        });
        let all: Vec<u8> = (0..total).map(byte).collect();
        let mut sent = 0;
        for size in [1, 7, 4_096, CAPACITY + 5].into_iter().cycle() {
            let seen = here.rung();
            let written = here.write(2, &all[sent..total.min(sent + size)]);
            sent += written;
            if sent == total {
                break;
            }
            if written == 0 {
                here.wait(seen, Duration::from_secs(10));
            }
        }
        let there = reader.join().unwrap();
        let mut nothing = Vec::new();
        assert_eq!(here.read(2, &mut nothing) + here.read(1, &mut nothing) + there.read(1, &mut nothing), 0);
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let here = Mesh::create(2).unwrap();
        assert_eq!(here.write(1, &vec![1; CAPACITY + 1]), CAPACITY);
        assert_eq!(here.write(1, &[1]), 0);
    }

    #[test]
    fn many_processes_share_as_much_memory_as_a_few() {
        assert_eq!(
            (capacity(2), capacity(32), capacity(33), capacity(64)),
            (CAPACITY, CAPACITY, CAPACITY / 2, CAPACITY / 4)
        );
        assert_eq!((capacity(256), capacity(1_024)), (LEAST, LEAST));
        let here = Mesh::create(65).unwrap();
        let there = Mesh::join(here.file().try_clone_to_owned().unwrap(), 65, 64).unwrap();
        let all: Vec<u8> = (0..=255).cycle().take(CAPACITY).collect();
        let (mut sent, mut got) = (0, Vec::new());
        while sent < all.len() {
            sent += here.write(64, &all[sent..]);
            there.read(0, &mut got);
            assert_eq!(there.read(63, &mut got) + here.read(64, &mut got), 0);
        }
        assert_eq!(got, all);
    }

    #[test]
    fn flags_are_seen_by_all_and_wake_them() {
        let here = Mesh::create(2).unwrap();
        let there = Mesh::join(here.file().try_clone_to_owned().unwrap(), 2, 1).unwrap();
        let sleeper = std::thread::spawn(move || {
            while !there.raised(3) {
                let seen = there.rung();
                if !there.raised(3) {
                    there.wait(seen, Duration::from_secs(10));
                }
            }
            there.raised(2)
        });
        here.raise(3);
        assert!(!sleeper.join().unwrap());
    }
}
