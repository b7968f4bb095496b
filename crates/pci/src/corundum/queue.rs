//! Queues in the arena, by pointers of 16 bits that run on: a place is a pointer modulo the length.

/// A queue that the device fills: of events or of completions.
#[derive(Debug)]
pub(super) struct Filled {
    /// Offset of its registers.
    pub registers: u64,
    /// Offset in the arena.
    pub at: usize,
    pub log: u32,
    /// What has been taken.
    pub tail: u16,
}

impl Filled {
    /// Entries that the device says to have filled: none if it says what cannot be.
    pub fn filled(&self, head: u16) -> Option<u16> {
        let count = head.wrapping_sub(self.tail);
        (u32::from(count) <= 1 << self.log).then_some(count)
    }
    /// The place of the entry that a pointer names.
    pub fn place(&self, pointer: u16, entry: usize) -> usize {
        self.at + (usize::from(pointer) & ((1 << self.log) - 1)) * entry
    }
}

/// A ring of descriptors that the driver fills, each with a buffer.
#[derive(Debug)]
pub(super) struct Ring {
    pub registers: u64,
    pub at: usize,
    /// Offset of the first buffer.
    pub buffers: usize,
    pub log: u32,
    /// Up to where the driver has filled it, and up to where it has taken back.
    pub head: u16,
    pub clean: u16,
    /// Up to where the device has read it, when that was last asked.
    pub tail: u16,
    /// Places whose completion has come.
    pub done: Vec<bool>,
}

impl Ring {
    pub fn new(at: usize, buffers: usize, log: u32) -> Ring {
        Ring { registers: 0, at, buffers, log, head: 0, clean: 0, tail: 0, done: vec![false; 1 << log] }
    }
    pub fn len(&self) -> u16 {
        1 << self.log
    }
    pub fn place(&self, pointer: u16) -> usize {
        usize::from(pointer) & (usize::from(self.len()) - 1)
    }
    /// True if the driver has filled this one and not taken it back.
    pub fn is_out(&self, pointer: u16) -> bool {
        pointer.wrapping_sub(self.clean) < self.head.wrapping_sub(self.clean)
            && !self.done[self.place(pointer)]
    }
    /// Takes note of the device's pointer; false if it cannot be.
    pub fn read_up_to(&mut self, tail: u16) -> bool {
        let possible = tail.wrapping_sub(self.clean) <= self.head.wrapping_sub(self.clean);
        if possible {
            self.tail = tail;
        }
        possible
    }
    /// Takes back what the device has read and completed.
    pub fn take_back(&mut self) {
        while self.clean != self.tail && self.done[self.place(self.clean)] {
            let place = self.place(self.clean);
            self.done[place] = false;
            self.clean = self.clean.wrapping_add(1);
        }
    }
    pub fn is_full(&self) -> bool {
        self.head.wrapping_sub(self.clean) >= self.len()
    }
}
