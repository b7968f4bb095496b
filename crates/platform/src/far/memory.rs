//! Guest memory in a far process: accessed from the simulator by `process_vm_readv` and `process_vm_writev`
//! if permitted, otherwise copied through the channel.
//!
//! Each access costs at least one native call. The process therefore stages the memory that a guest's call is
//! certain to read before it passes the turn ([`belljar_shim::staging`]), and carries out answers, the writes
//! deferred to it, before anything else. All other accesses to the same memory are ordered as if staging and
//! answers had happened at once.

use super::Shim;
use belljar_linux_abi::Errno;
use belljar_shim::layout::{CHANNEL, PAGE};
use belljar_shim::pieces::MAX_PIECES;
use belljar_shim::protocol::{self, BUFFER, Channel};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Result as IoResult;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

const BUFFER_OFFSET: u64 = offset_of!(Channel, buffer) as u64;

impl Shim {
    /// Copies from staged memory, including answers written since; false if the range is not staged. The
    /// caller must know that no other process has changed the memory since it was staged.
    pub fn read_staged(&self, addr: u64, out: &mut [u8]) -> bool {
        if self.wait().is_err() {
            return false;
        }
        // SAFETY: it is the simulator's turn.
        let staged = unsafe { &(*self.channel.get()).staged };
        match staged.find(addr, out.len()) {
            Some(found) => out.copy_from_slice(found),
            None => return false,
        }
        true
    }

    /// Defers the write of `data` to `addr` to the process. The memory must be private to the process and
    /// known to be writable. False if the answer buffer is full.
    pub fn answer(&self, addr: u64, data: &[u8]) -> bool {
        if self.wait().is_err() {
            return false;
        }
        // SAFETY: it is the simulator's turn.
        let (staged, answers) = unsafe {
            let block = self.channel.get();
            (&mut (*block).staged, &mut (*block).answers)
        };
        let Some(room) = answers.room(addr, data.len()) else { return false };
        room.copy_from_slice(data);
        answers.keep(addr, data.len());
        staged.lay_over(addr, data);
        true
    }

    /// Writes all pending answers now.
    fn give_answers(&self) -> Result<(), Errno> {
        self.wait()?;
        // SAFETY: it is the simulator's turn.
        let answers = unsafe { &mut (*self.channel.get()).answers };
        if !self.denied.get() {
            let part = |at: *const u8, len| libc::iovec { iov_base: at.cast_mut().cast(), iov_len: len };
            let mut local = [part(std::ptr::null(), 0); MAX_PIECES];
            let mut remote = local;
            let (mut count, mut all) = (0, 0);
            for (addr, bytes) in answers.iter() {
                local[count] = part(bytes.as_ptr(), bytes.len());
                remote[count] = part(addr as *const u8, bytes.len());
                count += 1;
                all += bytes.len() as isize;
            }
            let count = count as libc::c_ulong;
            // SAFETY: the bytes are only read; the destination is another process.
            let put = unsafe {
                libc::process_vm_writev(self.pid, local.as_ptr(), count, remote.as_ptr(), count, 0)
            };
            if put == all {
                answers.clear();
                return Ok(());
            }
        }
        // The process carries out pending answers before its native calls, here none.
        Ok(self.no_calls()?)
    }

    /// Writes pending answers first if they overlap the range that the simulator is about to access.
    fn give_answers_at(&self, addr: u64, len: usize) -> Result<(), Errno> {
        self.wait()?;
        // SAFETY: it is the simulator's turn.
        let answers = unsafe { &(*self.channel.get()).answers };
        if !answers.is_empty() && answers.overlaps(addr, len) { self.give_answers() } else { Ok(()) }
    }

    /// Copies from the process's memory at `addr`. `EFAULT` if a byte is unreadable.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.give_answers_at(addr, out.len())?;
        if !self.denied.get() {
            let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
            let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: out.len() };
            // SAFETY: `out` is writable; the source is another process.
            let got = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
            match self.outcome(got, out.len()) {
                Some(outcome) => return outcome,
                None => self.denied.set(true),
            }
        }
        let mut at = addr;
        for part in out.chunks_mut(BUFFER) {
            // `pwrite` to the channel's file: an unmapped source is an error, not a fault.
            let args = [protocol::CHANNEL_FD, at, part.len() as u64, BUFFER_OFFSET, 0, 0];
            if self.call(libc::SYS_pwrite64, args)? != part.len() as u64 {
                return Err(Errno::EFAULT);
            }
            // SAFETY: it is the simulator's turn; no other reference to the buffer exists.
            part.copy_from_slice(unsafe { &(&(*self.channel.get()).buffer)[..part.len()] });
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Copies to the process's memory at `addr`. `EFAULT` if a byte is not writable.
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.give_answers_at(addr, data.len())?;
        // A failing write may have written a part.
        self.forget_staged();
        if !self.denied.get() {
            let local = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
            let remote = libc::iovec { iov_base: addr as *mut libc::c_void, iov_len: data.len() };
            // SAFETY: `data` is only read; the destination is another process.
            let put = unsafe { libc::process_vm_writev(self.pid, &local, 1, &remote, 1, 0) };
            match self.outcome(put, data.len()) {
                Some(outcome) => return outcome,
                None => self.denied.set(true),
            }
        }
        let mut at = addr;
        for part in data.chunks(BUFFER) {
            // SAFETY: it is the simulator's turn; no other reference to the buffer exists.
            unsafe { (&mut (*self.channel.get()).buffer)[..part.len()].copy_from_slice(part) };
            let args = [protocol::CHANNEL_FD, at, part.len() as u64, BUFFER_OFFSET, 0, 0];
            if self.call(libc::SYS_pread64, args)? != part.len() as u64 {
                return Err(Errno::EFAULT);
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// `mincore(2)` of whole pages.
    pub fn mincore(&self, addr: u64, pages: &mut [u8]) -> Result<(), Errno> {
        let mut at = addr;
        for part in pages.chunks_mut(BUFFER) {
            let len = part.len() as u64 * PAGE;
            self.call(libc::SYS_mincore, [at, len, CHANNEL + BUFFER_OFFSET, 0, 0, 0])?;
            // SAFETY: it is the simulator's turn; no other reference to the buffer exists.
            part.copy_from_slice(unsafe { &(&(*self.channel.get()).buffer)[..part.len()] });
            at += len;
        }
        Ok(())
    }

    fn forget_staged(&self) {
        // SAFETY: the caller has waited for the simulator's turn.
        unsafe { (*self.channel.get()).staged.clear() };
    }

    /// Result of `process_vm_readv` or `process_vm_writev`; `None` if the call is not permitted.
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

    /// Overwrites private executable pages.
    pub fn poke(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.give_answers_at(addr, bytes.len())?;
        self.forget_staged();
        // As a debugger does, through `/proc/PID/mem`, which splits no mapping.
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
    /// `/proc/PID/mem` of the process that this thread wrote to last: a starting program is written to some
    /// 20 times.
    static LAST: RefCell<Option<(u64, File)>> = const { RefCell::new(None) };
}

impl Shim {
    /// Calls `action` with the process's `/proc/PID/mem`.
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

    /// Access on a machine that forbids reading another process's memory.
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

    /// A process with one writable page.
    fn with_a_page() -> (Shim, u64) {
        crate::init().expect("this machine can run guests");
        let shim = Shim::spawn().unwrap();
        let at = 0x1000_0000_0000;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        shim.mmap(at, PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0).unwrap();
        (shim, at)
    }

    fn read<const N: usize>(shim: &Shim, addr: u64) -> [u8; N] {
        let mut out = [0; N];
        shim.read(addr, &mut out).unwrap();
        out
    }

    #[test]
    fn answers_come_before_what_follows_them() {
        let (shim, at) = with_a_page();
        for denied in [false, true] {
            shim.denied.set(denied);
            shim.write(at, &[0; 16]).unwrap();
            // The simulator reads pending answers.
            assert!(shim.answer(at, b"abcd") && shim.answer(at + 2, b"XY"));
            assert_eq!(&read::<5>(&shim, at), b"abXY\0");
            // The simulator overwrites a pending answer.
            assert!(shim.answer(at, b"older"));
            shim.write(at + 1, b"new").unwrap();
            assert_eq!(&read::<5>(&shim, at), b"onewr");
            // The process writes the answers before it carries out a command.
            assert!(shim.answer(at + 8, b"kept"));
            let child = shim.fork().unwrap();
            child.denied.set(denied);
            assert_eq!(&read::<4>(&child, at + 8), b"kept");
            assert_eq!(&read::<4>(&shim, at + 8), b"kept");
            assert!(shim.answer(at, b"lost"));
            let mut pages = [7];
            shim.mincore(at, &mut pages).unwrap();
            assert_eq!(pages[0] & 1, 1);
            shim.call(libc::SYS_madvise, [at, PAGE, libc::MADV_DONTNEED as u64, 0, 0, 0]).unwrap();
            shim.mincore(at, &mut pages).unwrap();
            assert_eq!(pages[0] & 1, 0);
            assert_eq!(&read::<4>(&shim, at), &[0; 4]);
        }
        // One answer more than the buffer holds.
        assert!((0..MAX_PIECES as u64).all(|n| shim.answer(at + 8 * n, &[n as u8; 8])));
        assert!(!shim.answer(at, b"x"));
        shim.write(at, b"direct").unwrap();
        assert_eq!(&read::<8>(&shim, at), b"direct\0\0");
        assert_eq!(read::<1>(&shim, at + 8 * (MAX_PIECES as u64 - 1)), [MAX_PIECES as u8 - 1]);
        assert!(shim.answer(at, b"again"));
    }

    /// The simulator does not wait for a killed process, at either side's turn.
    #[test]
    fn one_that_is_killed_is_noticed() {
        let (shim, at) = with_a_page();
        // SAFETY: plain numbers; the process is this test's own.
        unsafe { libc::kill(shim.pid, libc::SIGKILL) };
        let mut word = [0; 4];
        while shim.read(at, &mut word).is_ok() {}
        assert_eq!(shim.call(libc::SYS_getppid, [0; 6]), Err(Errno::ESRCH));
        assert!(!shim.answer(at, b"x") && shim.read(at, &mut word).is_err());
        let (shim, at) = with_a_page();
        let pid = shim.pid;
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            // SAFETY: as above.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        });
        // The process is killed while it sleeps with the turn.
        shim.write(at, &[10u64, 0].map(u64::to_le_bytes).concat()).unwrap();
        assert_eq!(shim.call(libc::SYS_nanosleep, [at, 0, 0, 0, 0, 0]), Err(Errno::ESRCH));
        killer.join().unwrap();
    }
}
