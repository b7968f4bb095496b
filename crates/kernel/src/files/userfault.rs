//! User fault descriptors, `userfaultfd(2)`. Missing pages in a registered range are protected natively
//! against all access. A thread that touches one is scheduled like a loop without system calls, until the
//! page is provided.

use crate::call::Call;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, MmKey, ThreadKey};
use crate::mm::{arm_missing, presence};
use crate::outcome::{Block, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_machine::Prot;
use belljar_netstack::readiness::EPOLLIN;
use belljar_objects::file_kind::FileKind;
use belljar_objects::space::{Marks, PAGE, Vma};
use belljar_objects::userfault::{MESSAGE, Userfault};
use belljar_tasks::spin::Spin;
use std::ops::Range;

/// Requests of `ioctl_userfaultfd(2)`.
const API: u64 = 0xc018_aa3f;
const REGISTER: u64 = 0xc020_aa00;
const UNREGISTER: u64 = 0x8010_aa01;
const WAKE: u64 = 0x8010_aa02;
const COPY: u64 = 0xc028_aa03;
const ZEROPAGE: u64 = 0xc020_aa04;
const MOVE: u64 = 0xc028_aa05;
/// `UFFDIO_REGISTER_MODE_MISSING`.
const MISSING: u64 = 1;
/// `UFFDIO_COPY_MODE_DONTWAKE` and its equivalents.
const DONT_WAKE: u64 = 1;
/// `UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES`.
const ALLOW_HOLES: u64 = 2;
/// Bit mask of the requests supported for a range.
const RANGE_REQUESTS: u64 = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;

/// Creates a descriptor for an address space and its open file.
pub(crate) fn create(host: &mut Host, mm: MmKey, flags: i32) -> FileKey {
    let queue = host.waits.create();
    let space = host.spaces[mm.0].space;
    let n = host.files.userfaults.insert(Userfault::new(queue, space));
    host.files.open_file(FileKind::Userfault(n), c::O_RDONLY | flags)
}

/// Handles an access fault of a thread. Returns true if the page is missing in a registered range: the
/// descriptor gets a message, and the thread waits for the page.
pub(crate) fn fault(host: &mut Host, key: ThreadKey, addr: u64, error_code: u64) -> bool {
    const WRITE: u64 = 2;
    const FETCH: u64 = 16;
    let process = host.threads[key.0].process;
    let Some(mm) = host.processes[process.0].mm else { return false };
    let needs = match error_code {
        code if code & FETCH != 0 => Prot::EXEC,
        code if code & WRITE != 0 => Prot::WRITE,
        _ => Prot::READ | Prot::WRITE,
    };
    let space = host.spaces[mm.0].space;
    let may = |vma: &&Vma| vma.marks.contains(Marks::WATCHED) && vma.prot.intersects(needs);
    if host.spaces[mm.0].find(addr).filter(may).is_none() {
        return false;
    }
    let page = addr & !(PAGE - 1);
    if presence(host, mm, &(page..page + PAGE)).is_ok_and(|there| there[0] & 1 != 0) {
        return false;
    }
    let tid = host.threads[key.0].tid;
    let of_range = |(_, found): &(usize, &mut Userfault)| found.space == Some(space) && found.has(addr);
    let Some((_, found)) = host.files.userfaults.iter_mut().find(of_range) else { return false };
    let (tells, queue) = (found.fault(key, tid, addr, error_code & WRITE != 0), found.queue);
    let regs = *host.machine.regs(host.threads[key.0].context);
    host.threads[key.0].spin = Some(Box::new(Spin::new(regs, 1, host.scheduler.progress())));
    if tells {
        host.notify_events(queue, EPOLLIN);
    }
    true
}

/// Address space of a descriptor, if it still exists.
fn space_of(host: &Host, n: usize) -> Option<MmKey> {
    let space = host.files.userfaults[n].space?;
    host.spaces.iter().find(|(_, mm)| mm.space == space).map(|(key, _)| MmKey(key))
}

/// Wakes the threads that wait for pages in a range.
fn wake(host: &mut Host, n: usize, range: &Range<u64>) {
    for thread in host.files.userfaults[n].wake(range) {
        if let Some(thread) = host.threads.get_mut(thread.0) {
            thread.spin = None;
        }
    }
}

/// Unregisters a range: restores the native protection of its pages and wakes the waiting threads.
fn release(host: &mut Host, n: usize, range: &Range<u64>) -> Result<(), Errno> {
    host.files.userfaults[n].unregister(range);
    if let Some(mm) = space_of(host, n) {
        let space = host.spaces[mm.0].space;
        let watched = |vma: &&Vma| vma.marks.contains(Marks::WATCHED);
        let parts: Vec<Vma> = host.spaces[mm.0].overlapping(range).filter(watched).cloned().collect();
        for vma in parts {
            let part = vma.part_in(range);
            host.machine.protect(space, part.start, part.end - part.start, vma.prot)?;
            host.mark_pages(mm, &part, Marks::empty(), Marks::WATCHED);
        }
    }
    wake(host, n, range);
    Ok(())
}

/// Destroys a descriptor after its last reference was released.
pub(super) fn close(host: &mut Host, n: usize) {
    for range in host.files.userfaults[n].ranges() {
        // A range that cannot be restored has been unmapped.
        let _ = release(host, n, &range);
    }
    wake(host, n, &(0..u64::MAX));
    let gone = host.files.userfaults.remove(n);
    host.waits.destroy(gone.queue);
}

/// Page range of `len` bytes at `start`. `EINVAL` unless aligned, nonempty and in user space.
fn pages(start: u64, len: u64) -> Result<Range<u64>, Errno> {
    let end = start.checked_add(len).filter(|end| *end <= belljar_machine::USER_END);
    let end = end.ok_or(Errno::EINVAL)?;
    let whole = start.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len > 0;
    if whole { Ok(start..end) } else { Err(Errno::EINVAL) }
}

impl Call<'_> {
    /// `read(2)`: as many messages of 32 bytes as fit. `EINVAL` if not even one fits.
    pub(super) fn read_userfault(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let found = &mut self.host.files.userfaults[n];
        found.check()?;
        let room = total_len(buffers) as usize / MESSAGE;
        if room == 0 {
            return Err(Errno::EINVAL);
        }
        let (queue, messages) = (found.queue, found.take(room));
        if messages.is_empty() {
            return if nonblocking { Err(Errno::EAGAIN) } else { Block::on(queue).into() };
        }
        let bytes: Vec<u8> = messages.iter().flatten().flat_map(|word| word.to_ne_bytes()).collect();
        self.scatter(buffers, &bytes)?;
        done(bytes.len() as u64)
    }

    /// `ioctl_userfaultfd(2)`.
    pub(super) fn userfault_ioctl(&mut self, n: usize, request: u64, argument: u64) -> SysResult {
        if request == API {
            let asked: [u64; 3] = self.read(argument)?;
            let answer = self.host.files.userfaults[n].negotiate(asked);
            self.write(argument, &answer.unwrap_or_default())?;
            return answer.and_then(|_| done(0));
        }
        self.host.files.userfaults[n].check()?;
        match request {
            REGISTER => self.register_missing(n, argument),
            UNREGISTER => {
                let [start, len]: [u64; 2] = self.read(argument)?;
                let range = pages(start, len)?;
                release(self.host, n, &range)?;
                done(0)
            }
            WAKE => {
                let [start, len]: [u64; 2] = self.read(argument)?;
                wake(self.host, n, &pages(start, len)?);
                done(0)
            }
            COPY => {
                let [to, from, len, mode]: [u64; 4] = self.read(argument)?;
                let range = pages(to, len)?;
                if mode & !DONT_WAKE != 0 || from.checked_add(len).is_none() {
                    return Err(Errno::EINVAL);
                }
                let filled = self.fill(n, &range, |call, at| call.read_vec(from + (at - to), PAGE as usize));
                self.filled(n, &range, mode, filled, argument + 32)
            }
            ZEROPAGE => {
                let [to, len, mode]: [u64; 3] = self.read(argument)?;
                let range = pages(to, len)?;
                if mode & !DONT_WAKE != 0 {
                    return Err(Errno::EINVAL);
                }
                let filled = self.fill(n, &range, |_, _| Ok(vec![0; PAGE as usize]));
                self.filled(n, &range, mode, filled, argument + 24)
            }
            MOVE => {
                let [to, from, len, mode]: [u64; 4] = self.read(argument)?;
                let (range, source) = (pages(to, len)?, pages(from, len)?);
                if mode & !(DONT_WAKE | ALLOW_HOLES) != 0
                    || range.start < source.end && source.start < range.end
                {
                    return Err(Errno::EINVAL);
                }
                let filled = self.fill(n, &range, |call, at| {
                    let source = from + (at - to)..from + (at - to) + PAGE;
                    let mm = call.mm();
                    call.require_mapped(&source).map_err(|_| Errno::ENOENT)?;
                    if presence(call.host, mm, &source)?[0] & 1 == 0 && mode & ALLOW_HOLES == 0 {
                        return Err(Errno::ENOENT);
                    }
                    let bytes = call.read_vec(source.start, PAGE as usize)?;
                    call.host.discard_pages(mm, source, c::MADV_DONTNEED)?;
                    Ok(bytes)
                });
                self.filled(n, &range, mode, filled, argument + 32)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn register_missing(&mut self, n: usize, argument: u64) -> SysResult {
        let [start, len, mode]: [u64; 3] = self.read(argument)?;
        if mode == 0 || mode & !7 != 0 {
            return Err(Errno::EINVAL);
        }
        let range = pages(start, len)?;
        let mm = space_of(self.host, n).ok_or(Errno::ENOMEM)?;
        let parts: Vec<Vma> = self.host.spaces[mm.0].overlapping(&range).cloned().collect();
        if mode != MISSING || !parts.iter().all(Vma::is_private_anonymous) {
            self.host.warn("userfaultfd is only supported for missing pages of private anonymous memory");
            return Err(Errno::EINVAL);
        }
        if parts.is_empty() {
            return Err(Errno::EINVAL);
        }
        let own = self.host.files.userfaults[n].ranges();
        let by_others = |vma: &Vma| {
            let at = vma.part_in(&range).start;
            vma.marks.contains(Marks::WATCHED) && !own.iter().any(|range| range.contains(&at))
        };
        if parts.iter().any(by_others) {
            return Err(Errno::EBUSY);
        }
        for vma in parts {
            let part = vma.part_in(&range);
            self.host.mark_pages(mm, &part, Marks::WATCHED, Marks::empty());
        }
        arm_missing(self.host, mm, &range)?;
        self.host.files.userfaults[n].register(range);
        self.write(argument + 24, &RANGE_REQUESTS)?;
        done(0)
    }

    /// Fills missing pages of a range with `content`. Returns the bytes filled, or the error of the first
    /// page.
    fn fill(
        &mut self,
        n: usize,
        range: &Range<u64>,
        mut content: impl FnMut(&mut Self, u64) -> Result<Vec<u8>, Errno>,
    ) -> Result<u64, Errno> {
        let mm = space_of(self.host, n).ok_or(Errno::ESRCH)?;
        let mut at = range.start;
        while at < range.end {
            let page = at..at + PAGE;
            let result = self.fill_page(mm, &page, &mut content);
            match result {
                Ok(()) => at = page.end,
                Err(errno) if at == range.start => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(at - range.start)
    }
    fn fill_page(
        &mut self,
        mm: MmKey,
        page: &Range<u64>,
        content: &mut impl FnMut(&mut Self, u64) -> Result<Vec<u8>, Errno>,
    ) -> Result<(), Errno> {
        let watched = |vma: &&Vma| vma.marks.contains(Marks::WATCHED);
        let prot = self.host.spaces[mm.0].find(page.start).filter(watched).ok_or(Errno::ENOENT)?.prot;
        if presence(self.host, mm, page)?[0] & 1 != 0 {
            return Err(Errno::EEXIST);
        }
        let bytes = content(self, page.start)?;
        let space = self.host.spaces[mm.0].space;
        self.host.machine.protect(space, page.start, PAGE, Prot::READ | Prot::WRITE)?;
        self.host.machine.write(space, page.start, &bytes)?;
        self.host.machine.protect(space, page.start, PAGE, prot)
    }
    /// Stores the number of bytes filled, or the negated error, at `told_at`, and wakes the waiting threads.
    /// `EAGAIN` if only a part was filled.
    fn filled(
        &mut self,
        n: usize,
        range: &Range<u64>,
        mode: u64,
        filled: Result<u64, Errno>,
        told_at: u64,
    ) -> SysResult {
        let told = filled.map_or_else(|errno| -i64::from(errno.0), |len| len as i64);
        self.write(told_at, &told)?;
        let len = filled?;
        if mode & DONT_WAKE == 0 {
            wake(self.host, n, &(range.start..range.start + len));
        }
        if len == range.end - range.start { done(0) } else { Err(Errno::EAGAIN) }
    }
}
