//! DMA memory of a host: the rings and buffers of one driver, the only memory that its device can access.

/// Range of bus addresses backed by memory. Accesses outside behave as behind an IOMMU: reads return ones,
/// writes are dropped.
#[derive(Clone, Debug)]
pub struct Arena {
    base: u64,
    bytes: Vec<u8>,
    outside: u64,
}

impl Arena {
    /// Allocates `len` zeroed bytes at bus address `base`.
    pub fn new(base: u64, len: usize) -> Arena {
        Arena { base, bytes: vec![0; len], outside: 0 }
    }

    /// Bus address of an offset.
    pub fn address(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    /// DMA read by the device.
    pub fn dma_read(&mut self, address: u64, len: usize) -> Vec<u8> {
        match self.place(address, len) {
            Some(at) => self.bytes[at..at + len].to_vec(),
            None => vec![0xff; len],
        }
    }

    /// DMA write by the device.
    pub fn dma_write(&mut self, address: u64, data: &[u8]) {
        if let Some(at) = self.place(address, data.len()) {
            self.bytes[at..at + data.len()].copy_from_slice(data);
        }
    }

    fn place(&mut self, address: u64, len: usize) -> Option<usize> {
        let at = address.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| at.checked_add(len).is_some_and(|end| end <= self.bytes.len()));
        self.outside += u64::from(at.is_none());
        at
    }

    /// The driver's view of `len` bytes at an offset.
    pub fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        &self.bytes[offset..offset + len]
    }
    /// The driver's mutable view of `len` bytes at an offset.
    pub fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[offset..offset + len]
    }
    /// Number of device accesses outside the arena.
    pub fn outside(&self) -> u64 {
        self.outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_reach_it_and_nothing_else() {
        let mut arena = Arena::new(1 << 20, 4_096);
        arena.dma_write((1 << 20) + 10, b"frame");
        assert_eq!(arena.bytes(10, 5), b"frame");
        assert_eq!(arena.dma_read(arena.address(11), 4), b"rame");
        for (address, len) in [(0, 4), ((1 << 20) - 1, 4), ((1 << 20) + 4_093, 4), (u64::MAX - 1, 4)] {
            assert_eq!(arena.dma_read(address, len), vec![0xff; len]);
            arena.dma_write(address, &vec![7; len]);
        }
        assert_eq!(arena.outside(), 8);
        assert!(arena.bytes(0, 10).iter().chain(arena.bytes(15, 4_081)).all(|byte| *byte == 0));
    }
}
