//! Arguments of waits in `io_uring_enter(2)`.

use crate::buffers::RingMemory;
use crate::instance::Region;
use belljar_linux_abi::Errno;
use belljar_linux_abi::time::Timespec;

/// `sizeof(struct io_uring_getevents_arg)` and `sizeof(struct io_uring_reg_wait)`.
const EXT_ARG_LEN: u64 = 24;
const REG_WAIT_LEN: u64 = 64;
/// `IORING_REG_WAIT_TS`.
const REG_WAIT_TS: u32 = 1;

/// Arguments of a wait: signal mask and its size, time-out, and minimum wait in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitArgument {
    /// Address of the signal mask, or 0.
    pub mask: u64,
    /// Size of the signal mask in bytes.
    pub mask_size: u64,
    /// Time-out.
    pub limit: Option<u64>,
    /// Minimum wait; 0 for none.
    pub least: u64,
}

fn nanos(sec: u64, nsec: u64) -> Result<u64, Errno> {
    Timespec { sec: sec as i64, nsec: nsec as i64 }.to_nanos().ok_or(Errno::EINVAL)
}
fn longs<const N: usize>(memory: &impl RingMemory, at: u64) -> Result<[u64; N], Errno> {
    let mut words = [0; N];
    for (n, word) in words.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        memory.read(at + 8 * n as u64, &mut bytes)?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}

impl WaitArgument {
    /// Reads a `struct io_uring_getevents_arg` of `size` bytes.
    pub fn read(memory: &impl RingMemory, addr: u64, size: u64) -> Result<WaitArgument, Errno> {
        if size != EXT_ARG_LEN {
            return Err(Errno::EINVAL);
        }
        let [mask, sizes, time] = longs(memory, addr)?;
        let limit = match time {
            0 => None,
            _ => {
                let [sec, nsec] = longs(memory, time)?;
                Some(nanos(sec, nsec)?)
            }
        };
        Ok(WaitArgument { mask, mask_size: sizes & 0xffff_ffff, limit, least: (sizes >> 32) * 1_000 })
    }
    /// Reads a `struct io_uring_reg_wait` of `size` bytes at an offset in a registered region.
    pub fn registered(
        memory: &impl RingMemory,
        region: &Region,
        offset: u64,
        size: u64,
    ) -> Result<WaitArgument, Errno> {
        if size != REG_WAIT_LEN {
            return Err(Errno::EINVAL);
        }
        let end = offset.checked_add(REG_WAIT_LEN).filter(|end| *end <= region.len);
        if end.is_none() || !offset.is_multiple_of(8) || !region.has_waits {
            return Err(Errno::EFAULT);
        }
        let [sec, nsec, least, mask, mask_size] = longs(memory, offset)?;
        let (least, flags) = (least as u32, (least >> 32) as u32);
        if flags & !REG_WAIT_TS != 0 {
            return Err(Errno::EINVAL);
        }
        let limit = (flags == REG_WAIT_TS).then(|| nanos(sec, nsec)).transpose()?;
        let least = u64::from(least) * 1_000;
        Ok(WaitArgument { mask, mask_size: mask_size & 0xffff_ffff, limit, least })
    }
}
