//! Futexes: threads and requests that sleep on words of memory, `futex(2)`. The table is in
//! `belljar_tasks::futexes`.

pub(crate) mod priority;
pub(crate) mod robust;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::Errno;
use belljar_machine::USER_END;
use belljar_objects::space::{Access, VmaKind};
use belljar_tasks::futexes::FutexKey;

impl Host {
    /// Key of the word at `addr`. `EINVAL` if `addr` is not aligned; `EFAULT` if the futex may be shared and
    /// the word is not mapped.
    pub(crate) fn futex_key(
        &self,
        process: ProcessKey,
        addr: u64,
        is_private: bool,
    ) -> Result<FutexKey, Errno> {
        if !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        let key = self.processes[process.0].mm.ok_or(Errno::ESRCH)?;
        let mm = &self.spaces[key.0];
        if is_private {
            // A private key is only an address; the memory need not be mapped.
            return if addr < USER_END { Ok(FutexKey::Private(key, addr)) } else { Err(Errno::EFAULT) };
        }
        mm.check(addr, 4, Access::Read)?;
        if let Some(vma) = mm.find(addr).filter(|vma| vma.shared)
            && let VmaKind::File { identity: (device, inode), offset, .. } = vma.kind
        {
            // The file may have been truncated below its mapping.
            self.read_futex_word(process, addr)?;
            return Ok(FutexKey::Shared(device, inode, offset + (addr - vma.start)));
        }
        Ok(FutexKey::Private(key, addr))
    }

    pub(crate) fn read_futex_word(&self, process: ProcessKey, addr: u64) -> Result<u32, Errno> {
        let mut word = [0; 4];
        self.read_guest(process, addr, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    pub(crate) fn write_futex_word(
        &mut self,
        process: ProcessKey,
        addr: u64,
        word: u32,
    ) -> Result<(), Errno> {
        self.write_guest(process, addr, &word.to_le_bytes())
    }
}
