//! `IORING_REGISTER_QUERY`: a chain of queries about the features of io_uring.

use crate::buffers::RingMemory;
use crate::entry::{KNOWN_FLAGS, OPS};
use crate::setup::{FEATURES, KNOWN};
use belljar_linux_abi::Errno;

/// `sizeof(struct io_uring_query_hdr)`.
const HEADER_LEN: usize = 40;
/// `sizeof(struct io_uring_query_opcode)`.
const OPCODE_LEN: usize = 48;
/// Maximum number of queries in a chain.
const MOST: usize = 1_000;
/// `IORING_REGISTER_LAST` of Linux 6.18.
pub const REGISTER_OPS: u32 = 36;
/// All flags of `io_uring_enter(2)`.
pub const ENTER_FLAGS: u32 = 0xff;

/// Answer to `IO_URING_QUERY_OPCODES`, `struct io_uring_query_opcode`.
fn opcodes() -> [u8; OPCODE_LEN] {
    let mut answer = [0; OPCODE_LEN];
    answer[..4].copy_from_slice(&u32::from(OPS).to_ne_bytes());
    answer[4..8].copy_from_slice(&REGISTER_OPS.to_ne_bytes());
    let flags = [FEATURES, KNOWN, ENTER_FLAGS, u32::from(KNOWN_FLAGS)];
    for (at, flags) in flags.into_iter().enumerate() {
        answer[8 + 8 * at..16 + 8 * at].copy_from_slice(&u64::from(flags).to_ne_bytes());
    }
    // One kind of query is known, `IO_URING_QUERY_OPCODES`.
    answer[40..44].copy_from_slice(&1u32.to_ne_bytes());
    answer
}

/// Answers the chain of queries that starts at address `at`. `ERANGE` for a chain that is too long.
pub fn answer(memory: &mut impl RingMemory, mut at: u64) -> Result<(), Errno> {
    for _ in 0..MOST {
        if at == 0 {
            return Ok(());
        }
        at = answer_one(memory, at)?;
    }
    Err(Errno::ERANGE)
}

/// Answers one query; returns the address of the next.
fn answer_one(memory: &mut impl RingMemory, at: u64) -> Result<u64, Errno> {
    let mut header = [0; HEADER_LEN];
    memory.read(at, &mut header)?;
    let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let (next, data, op, size) = (long(0), long(8), word(16), word(20));
    let reserved = (24..HEADER_LEN).step_by(4).any(|at| word(at) != 0);
    let (result, len) = match op {
        0 if reserved || size == 0 => (Errno::EINVAL.0, 0),
        0 => (0, OPCODE_LEN.min(size as usize)),
        _ => (Errno::EOPNOTSUPP.0, 0),
    };
    if len > 0 {
        memory.write(data, &opcodes()[..len])?;
        // The rest of a longer buffer is cleared.
        memory.write(data + len as u64, &vec![0; (size as usize - len).min(1 << 16)])?;
    }
    header[20..24].copy_from_slice(&(len as u32).to_ne_bytes());
    header[24..28].copy_from_slice(&(-i32::from(result)).to_ne_bytes());
    memory.write(at, &header)?;
    Ok(next)
}
