//! Descriptor rings in host memory.

use crate::e1000::registers::DESCRIPTOR;
use crate::fields::get_u64;
use std::collections::VecDeque;

/// Size of the descriptor cache.
const CACHE: usize = 64;

/// Descriptor with its index in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    pub index: u32,
    pub bytes: [u8; DESCRIPTOR],
}

impl Descriptor {
    /// Buffer address.
    pub fn address(&self) -> u64 {
        get_u64(&self.bytes, 0)
    }
}

/// Descriptor ring.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    pub base: u64,
    /// Length in descriptors.
    pub len: u32,
    pub head: u32,
    pub tail: u32,
    /// Index of the next descriptor to fetch.
    pub next: u32,
    pub fetching: bool,
    pub cache: VecDeque<Descriptor>,
    /// Number of restarts; identifies fetches from before a restart.
    pub epoch: u32,
}

impl Ring {
    /// Restarts the ring at a head. The tail is kept: drivers may write it before the head.
    pub fn restart(&mut self, head: u32) {
        *self = Ring {
            base: self.base,
            len: self.len,
            tail: self.tail,
            epoch: self.epoch + 1,
            head,
            next: head,
            ..Ring::default()
        };
    }
    /// Next contiguous range to fetch, if any: index and number.
    pub fn wanted(&self) -> Option<(u32, u32)> {
        if self.fetching || self.next >= self.len || self.tail >= self.len {
            return None;
        }
        let end = if self.tail >= self.next { self.tail } else { self.len };
        let room = CACHE.saturating_sub(self.cache.len()) as u32;
        let count = (end - self.next).min(room);
        (count > 0).then_some((self.next, count))
    }
    /// Bus address of a descriptor.
    pub fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * DESCRIPTOR as u64)
    }
    /// Returns a descriptor to the host: the head advances past it.
    pub fn pass(&mut self, index: u32) {
        self.head = if index + 1 >= self.len { 0 } else { index + 1 };
    }
    /// Number of descriptors between head and tail.
    pub fn left(&self) -> u32 {
        (self.tail + self.len - self.head.min(self.len)) % self.len.max(1)
    }
}
