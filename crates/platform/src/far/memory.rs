//! Guest memory in a far guest's process: read and written from here where that is allowed, else
//! copied through the channel.

use super::Shim;
use belljar_linux_abi::Errno;
use belljar_shim::layout::PAGE;
use belljar_shim::protocol::{self, BUFFER, Channel};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Result as IoResult;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

const BUFFER_OFFSET: u64 = offset_of!(Channel, buffer) as u64;

impl Shim {
    /// Copies from the process's `addr`. `EFAULT` where it has nothing readable.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        if !self.denied.get() {
            let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
            let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: out.len() };
            // SAFETY: `out` is writable; the other side is another process.
            let got = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
            match self.outcome(got, out.len()) {
                Some(outcome) => return outcome,
                None => self.denied.set(true),
            }
        }
        let mut at = addr;
        for part in out.chunks_mut(BUFFER) {
            // `pwrite` to the channel's file: a source that is not there is an error, not a fault.
            let args = [protocol::CHANNEL_FD, at, part.len() as u64, BUFFER_OFFSET, 0, 0];
            if self.call(libc::SYS_pwrite64, args)? != part.len() as u64 {
                return Err(Errno::EFAULT);
            }
            // SAFETY: it is the simulator's turn; nobody else refers to the buffer.
            part.copy_from_slice(unsafe { &(&(*self.channel.get()).buffer)[..part.len()] });
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Copies to the process's `addr`. `EFAULT` where it has nothing writable.
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), Errno> {
        if !self.denied.get() {
            let local = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
            let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: data.len() };
            // SAFETY: `data` is only read; the other side is another process.
            let put = unsafe { libc::process_vm_writev(self.pid, &local, 1, &remote, 1, 0) };
            match self.outcome(put, data.len()) {
                Some(outcome) => return outcome,
                None => self.denied.set(true),
            }
        }
        let mut at = addr;
        for part in data.chunks(BUFFER) {
            // SAFETY: it is the simulator's turn; nobody else refers to the buffer.
            unsafe { (&mut (*self.channel.get()).buffer)[..part.len()].copy_from_slice(part) };
            let args = [protocol::CHANNEL_FD, at, part.len() as u64, BUFFER_OFFSET, 0, 0];
            if self.call(libc::SYS_pread64, args)? != part.len() as u64 {
                return Err(Errno::EFAULT);
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// What `process_vm_readv` or `process_vm_writev` has come to; `None` if it is not allowed.
    fn outcome(&self, moved: isize, wanted: usize) -> Option<Result<(), Errno>> {
        if moved == wanted as isize {
            return Some(Ok(()));
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            _ if moved >= 0 => Some(Err(Errno::EFAULT)),
            Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => None,
            _ => Some(Err(error.into())),
        }
    }

    /// Replaces the word at `addr` by `new` if it is `old`; gives what was there. `EINVAL` if
    /// unaligned. Nothing that has the word runs meanwhile: it is a guest's, or shared by guests of
    /// one host.
    pub fn compare_exchange(&self, addr: u64, old: u32, new: u32) -> Result<u32, Errno> {
        if !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        let mut word = [0; 4];
        self.read(addr, &mut word)?;
        let found = u32::from_le_bytes(word);
        if found == old {
            self.write(addr, &new.to_le_bytes())?;
        }
        Ok(found)
    }

    /// Writes over private executable pages.
    pub fn poke(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        // As a debugger does: no mapping is split.
        if self.with_memory(|memory| memory.write_all_at(bytes, addr)).is_ok() {
            return Ok(());
        }
        let start = addr & !(PAGE - 1);
        let len = (addr + bytes.len() as u64).next_multiple_of(PAGE) - start;
        let protect = |prot: i32| self.call(libc::SYS_mprotect, [start, len, prot as u64, 0, 0, 0]);
        protect(libc::PROT_READ | libc::PROT_WRITE)?;
        self.write(addr, bytes)?;
        protect(libc::PROT_READ | libc::PROT_EXEC).map(|_| ())
    }
}

thread_local! {
    /// The file of the process whose memory this thread wrote to last: a program that starts has it written to
    /// some 20 times.
    static LAST: RefCell<Option<(u64, File)>> = const { RefCell::new(None) };
}

impl Shim {
    /// Does something with the file that is the process's memory.
    fn with_memory(&self, action: impl Fn(&File) -> IoResult<()>) -> IoResult<()> {
        LAST.with_borrow_mut(|last| {
            if last.as_ref().is_none_or(|(number, _)| *number != self.number) {
                let memory = OpenOptions::new().write(true).open(format!("/proc/{}/mem", self.pid))?;
                *last = Some((self.number, memory));
            }
            last.as_ref().map_or(Ok(()), |(_, memory)| action(memory))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where reading another process's memory is forbidden.
    #[test]
    fn memory_is_reached_through_the_channel_as_well() {
        crate::init().expect("this machine can run guests");
        let shim = Shim::spawn().unwrap();
        let at = 0x1000_0000_0000;
        let len = 3 * BUFFER as u64 + PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        shim.mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).unwrap();
        let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        for (write_denied, read_denied) in [(true, false), (false, true), (true, true)] {
            shim.write(at, &vec![0; data.len()]).unwrap();
            shim.denied.set(write_denied);
            shim.write(at, &data).unwrap();
            shim.denied.set(read_denied);
            let mut got = vec![0; data.len()];
            shim.read(at, &mut got).unwrap();
            assert!(got == data);
            assert_eq!(shim.read(at + len - 8, &mut [0; 16]), Err(Errno::EFAULT));
            assert_eq!(shim.write(at + len - 8, &[0; 16]), Err(Errno::EFAULT));
            assert_eq!(shim.read(at + len, &mut [0; 16]), Err(Errno::EFAULT));
        }
    }
}
