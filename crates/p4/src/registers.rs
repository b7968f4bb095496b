use crate::bits::{self, PADDING};
use crate::program;

/// Register array.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    pub bytes: Vec<u8>,
    pub width: u32,
    pub size: u64,
    /// Size of each register in bytes.
    stride: u32,
}

impl Registers {
    pub fn new(array: &program::Registers) -> Registers {
        let stride = array.width.div_ceil(8).max(1);
        let bytes = vec![0; array.size as usize * stride as usize + PADDING];
        Registers { bytes, width: array.width, size: array.size, stride }
    }
    /// Bit offset of a register; `None` if the index is out of range.
    #[inline]
    pub fn place(&self, index: u64) -> Option<u32> {
        (index < self.size).then(|| (index as u32 * self.stride + self.stride) * 8 - self.width)
    }
    pub fn read(&self, index: u64) -> Option<Vec<u8>> {
        let place = self.place(index)?;
        let mut out = vec![0; self.width.div_ceil(8) as usize];
        bits::get_bytes(&self.bytes, place, self.width, &mut out);
        Some(out)
    }
    /// Writes the lowest bits of a big-endian integer to a register; false if the index is out of range.
    pub fn write(&mut self, index: u64, value: &[u8]) -> bool {
        let Some(place) = self.place(index) else { return false };
        bits::set_bytes(&mut self.bytes, place, self.width, value);
        true
    }
    pub fn fill(&mut self, value: &[u8]) {
        for index in 0..self.size {
            self.write(index, value);
        }
    }
}
