//! Queues in the arena with free-running 16-bit pointers: the index of an entry is its pointer modulo the
//! length.

/// Queue written by the device: an event or completion queue.
#[derive(Debug)]
pub(super) struct Filled {
    /// Offset of the queue's registers.
    pub registers: u64,
    /// Offset of the queue in the arena.
    pub at: usize,
    pub log: u32,
    /// Pointer of the next entry to consume.
    pub tail: u16,
}

impl Filled {
    /// Number of entries filled, by the device's head pointer; `None` if the pointer is invalid.
    pub fn filled(&self, head: u16) -> Option<u16> {
        let count = head.wrapping_sub(self.tail);
        (u32::from(count) <= 1 << self.log).then_some(count)
    }
    /// Arena offset of the entry at a pointer.
    pub fn place(&self, pointer: u16, entry: usize) -> usize {
        self.at + (usize::from(pointer) & ((1 << self.log) - 1)) * entry
    }
}

/// Descriptor ring filled by the driver, with one buffer per descriptor.
#[derive(Debug)]
pub(super) struct Ring {
    pub registers: u64,
    pub at: usize,
    /// Arena offset of the first buffer.
    pub buffers: usize,
    pub log: u32,
    /// Pointers of the next descriptor to fill and of the next to reclaim.
    pub head: u16,
    pub clean: u16,
    /// The device's tail pointer as last read.
    pub tail: u16,
    /// Descriptors whose completion has arrived, by index.
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
    /// True if the descriptor is filled and not completed.
    pub fn is_out(&self, pointer: u16) -> bool {
        pointer.wrapping_sub(self.clean) < self.head.wrapping_sub(self.clean)
            && !self.done[self.place(pointer)]
    }
    /// Updates the device's tail pointer; false if it is invalid.
    pub fn read_up_to(&mut self, tail: u16) -> bool {
        let possible = tail.wrapping_sub(self.clean) <= self.head.wrapping_sub(self.clean);
        if possible {
            self.tail = tail;
        }
        possible
    }
    /// Reclaims descriptors that the device has read and completed; returns their number.
    pub fn take_back(&mut self) -> u64 {
        let first = self.clean;
        while self.clean != self.tail && self.done[self.place(self.clean)] {
            let place = self.place(self.clean);
            self.done[place] = false;
            self.clean = self.clean.wrapping_add(1);
        }
        self.clean.wrapping_sub(first).into()
    }
    pub fn is_full(&self) -> bool {
        self.head.wrapping_sub(self.clean) >= self.len()
    }
}
