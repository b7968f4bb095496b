//! Memory of a host in another simulator: its transactions, and a memory model.

use crate::fields::{Header, get_u16, get_u64, put};
use crate::transaction::{BodyLen, Codec, unknown};
use belljar_base::Map;

/// Transaction from a host to a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToMemory {
    /// Read request; completed by [`FromMemory::ReadDone`].
    Read {
        /// Request id, returned in the completion.
        id: u64,
        /// Address space.
        space: u64,
        /// Address in the address space.
        address: u64,
        /// Number of bytes.
        len: u16,
    },
    /// Write request; completed by [`FromMemory::WriteDone`] unless posted.
    Write {
        /// Request id, returned in the completion.
        id: u64,
        /// Address space.
        space: u64,
        /// Address in the address space.
        address: u64,
        /// True if no completion is expected.
        posted: bool,
        /// Data to write.
        data: Vec<u8>,
    },
}

/// Completion from a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromMemory {
    /// Completion of [`ToMemory::Read`].
    ReadDone {
        /// Request id.
        id: u64,
        /// Data read.
        data: Vec<u8>,
    },
    /// Completion of [`ToMemory::Write`].
    WriteDone {
        /// Request id.
        id: u64,
    },
}

const READ: u8 = 0x60;
const WRITE: u8 = 0x61;
const WRITE_POSTED: u8 = 0x62;
const READ_DONE: u8 = 0x40;
const WRITE_DONE: u8 = 0x41;

impl Codec for ToMemory {
    const NAME: &'static str = "memory from the host";

    fn body_len(kind: u8, header: &Header) -> Result<BodyLen, String> {
        match kind {
            READ => Ok(BodyLen::Bytes(0)),
            WRITE | WRITE_POSTED => Ok(BodyLen::Bytes(get_u16(header, 24).into())),
            _ => Err(unknown(kind, Self::NAME)),
        }
    }
    fn decode(kind: u8, header: &Header, data: Vec<u8>) -> Result<ToMemory, String> {
        let (id, space, address) = (get_u64(header, 0), get_u64(header, 8), get_u64(header, 16));
        Ok(match kind {
            READ => ToMemory::Read { id, space, address, len: get_u16(header, 24) },
            WRITE => ToMemory::Write { id, space, address, posted: false, data },
            WRITE_POSTED => ToMemory::Write { id, space, address, posted: true, data },
            _ => return Err(unknown(kind, Self::NAME)),
        })
    }
    fn encode(&self, header: &mut Header) -> (u8, &[u8]) {
        let mut access = |id: u64, space: u64, address: u64, len: u16| {
            put(header, 0, &id.to_le_bytes());
            put(header, 8, &space.to_le_bytes());
            put(header, 16, &address.to_le_bytes());
            put(header, 24, &len.to_le_bytes());
        };
        match self {
            ToMemory::Read { id, space, address, len } => {
                access(*id, *space, *address, *len);
                (READ, &[])
            }
            ToMemory::Write { id, space, address, posted, data } => {
                access(*id, *space, *address, data.len() as u16);
                (if *posted { WRITE_POSTED } else { WRITE }, data)
            }
        }
    }
    fn awaits_data(&self) -> Option<(u64, u16)> {
        match self {
            ToMemory::Read { id, len, .. } => Some((*id, *len)),
            ToMemory::Write { .. } => None,
        }
    }
}

impl Codec for FromMemory {
    const NAME: &'static str = "memory to the host";

    fn body_len(kind: u8, header: &Header) -> Result<BodyLen, String> {
        match kind {
            READ_DONE => Ok(BodyLen::OfRequest(get_u64(header, 0))),
            WRITE_DONE => Ok(BodyLen::Bytes(0)),
            _ => Err(unknown(kind, Self::NAME)),
        }
    }
    fn decode(kind: u8, header: &Header, data: Vec<u8>) -> Result<FromMemory, String> {
        let id = get_u64(header, 0);
        match kind {
            READ_DONE => Ok(FromMemory::ReadDone { id, data }),
            WRITE_DONE => Ok(FromMemory::WriteDone { id }),
            _ => Err(unknown(kind, Self::NAME)),
        }
    }
    fn encode(&self, header: &mut Header) -> (u8, &[u8]) {
        match self {
            FromMemory::ReadDone { id, data } => {
                put(header, 0, &id.to_le_bytes());
                (READ_DONE, data)
            }
            FromMemory::WriteDone { id } => {
                put(header, 0, &id.to_le_bytes());
                (WRITE_DONE, &[])
            }
        }
    }
    fn awaits_data(&self) -> Option<(u64, u16)> {
        None
    }
}

const PAGE: u64 = 4_096;

/// Memory of `size` bytes shared by all address spaces. Only written parts are allocated. Reads beyond the
/// end return ones; writes there are counted and dropped.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    size: u64,
    pages: Map<u64, Vec<u8>>,
    outside: u64,
}

impl Memory {
    /// Creates a zeroed memory of `size` bytes.
    pub fn new(size: u64) -> Memory {
        Memory { size, ..Memory::default() }
    }

    /// Executes a transaction; returns its completion.
    pub fn access(&mut self, transaction: ToMemory) -> Option<FromMemory> {
        match transaction {
            ToMemory::Read { id, address, len, .. } => {
                let data = self.read(address, len.into());
                Some(FromMemory::ReadDone { id, data })
            }
            ToMemory::Write { id, address, posted, data, .. } => {
                self.write(address, &data);
                (!posted).then_some(FromMemory::WriteDone { id })
            }
        }
    }

    fn read(&mut self, address: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0xff; len];
        if !self.has(address, len) {
            return data;
        }
        for (at, byte) in (address..).zip(&mut data) {
            *byte = self.pages.get(&(at / PAGE)).map_or(0, |page| page[(at % PAGE) as usize]);
        }
        data
    }

    fn write(&mut self, address: u64, data: &[u8]) {
        if !self.has(address, data.len()) {
            return;
        }
        for (at, byte) in (address..).zip(data) {
            self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize])[(at % PAGE) as usize] =
                *byte;
        }
    }

    fn has(&mut self, address: u64, len: usize) -> bool {
        let inside = address.checked_add(len as u64).is_some_and(|end| end <= self.size);
        self.outside += u64::from(!inside);
        inside
    }

    /// Number of accesses beyond the end.
    pub fn outside(&self) -> u64 {
        self.outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_read_as_they_were_written() {
        let write = |posted| ToMemory::Write { id: 1, space: 2, address: 3, posted, data: vec![4; 5] };
        for one in [write(true), write(false), ToMemory::Read { id: 9, space: 8, address: 7, len: 6 }] {
            assert_eq!(ToMemory::from_bytes(&one.to_bytes()).unwrap(), one);
        }
        for one in [FromMemory::WriteDone { id: 5 }, FromMemory::ReadDone { id: 5, data: vec![1] }] {
            assert_eq!(FromMemory::from_bytes(&one.to_bytes()).unwrap(), one);
        }
    }

    #[test]
    fn what_was_written_is_read_across_pages_and_never_beyond() {
        let mut memory = Memory::new(3 * PAGE);
        let data: Vec<u8> = (0..100).collect();
        let write =
            ToMemory::Write { id: 1, space: 0, address: PAGE - 50, posted: false, data: data.clone() };
        assert_eq!(memory.access(write), Some(FromMemory::WriteDone { id: 1 }));
        let mut read = |address, len| match memory.access(ToMemory::Read { id: 2, space: 0, address, len }) {
            Some(FromMemory::ReadDone { id: 2, data }) => data,
            other => panic!("{other:?}"),
        };
        assert_eq!(read(PAGE - 50, 100), data);
        assert_eq!(read(0, 4), [0; 4]);
        assert_eq!(read(3 * PAGE - 2, 4), [0xff; 4]);
        assert_eq!(read(u64::MAX, 2), [0xff; 2]);
        assert_eq!(memory.outside(), 2);
    }
}
