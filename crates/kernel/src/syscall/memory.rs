//! mmap(2), munmap(2), mprotect(2), mremap(2), brk(2), madvise(2) and relatives.

use crate::call::Call;
use crate::files::{disk_faults, regular};
use crate::mm::map::MapRequest;
use crate::mm::presence;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_machine::Prot;
use belljar_objects::space::{Marks, PAGE, Vma, VmaKind, page_up};
use std::ops::Range;

/// Advice that `libc` does not list.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Page range from an aligned address and a length in bytes. `EINVAL` if the address is not aligned.
fn pages(addr: u64, len: u64) -> Result<Range<u64>, Errno> {
    if !addr.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = addr.checked_add(page_up(len)?).ok_or(Errno::ENOMEM)?;
    Ok(addr..end)
}

fn protection(bits: u32) -> Result<Prot, Errno> {
    // PROT_GROWSDOWN and PROT_GROWSUP concern stacks, which are mapped completely here.
    let known = bits & !(c::PROT_GROWSDOWN | c::PROT_GROWSUP) as u32;
    Prot::from_bits(known).ok_or(Errno::EINVAL)
}

/// brk(2): returns the end of the heap, unchanged if it could not be moved.
pub fn sys_brk(call: &mut Call<'_>) -> SysResult {
    let (mm, to) = (call.mm(), call.args[0]);
    let end = call.host.mm(mm).brk.end;
    if to > end && call.check_address_limit(page_up(to)?.saturating_sub(page_up(end)?), &(0..0)).is_err() {
        return done(end);
    }
    done(call.host.move_brk(mm, to))
}

/// mmap(2).
pub fn sys_mmap(call: &mut Call<'_>) -> SysResult {
    let [addr, len, prot, flags, fd, offset] = call.args;
    if !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    // The descriptor is checked before the length.
    if flags as i32 & c::MAP_ANONYMOUS == 0 {
        call.host.file_of(call.process, fd as i32)?;
    }
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len)?;
    // Unlike mprotect(2), unknown bits are ignored.
    let prot = Prot::from_bits_truncate(prot as u32);
    done(call.mmap(addr, len, prot, flags as i32, fd as i32, offset)?)
}

/// munmap(2).
pub fn sys_munmap(call: &mut Call<'_>) -> SysResult {
    if call.args[1] == 0 {
        return Err(Errno::EINVAL);
    }
    let range = pages(call.args[0], call.args[1])?;
    call.check_unsealed(&range)?;
    let mm = call.mm();
    call.host.unmap_pages(mm, range)?;
    done(0)
}

/// mseal(2).
pub fn sys_mseal(call: &mut Call<'_>) -> SysResult {
    let [addr, len, flags, ..] = call.args;
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let range = pages(addr, len).map_err(|_| Errno::EINVAL)?;
    call.require_mapped(&range)?;
    let mm = call.mm();
    call.host.mark_pages(mm, &range, Marks::SEALED, Marks::empty());
    done(0)
}

/// mprotect(2).
pub fn sys_mprotect(call: &mut Call<'_>) -> SysResult {
    if call.args[1] == 0 && call.args[0].is_multiple_of(PAGE) {
        return done(0);
    }
    let range = pages(call.args[0], call.args[1])?;
    let prot = protection(call.uint(2))?;
    if !range.is_empty() {
        call.check_unsealed(&range)?;
        let mm = call.mm();
        call.host.protect_pages(mm, range, prot)?;
    }
    done(0)
}

/// pkey_mprotect(2): there are no protection keys, so only key -1 is accepted.
pub fn sys_pkey_mprotect(call: &mut Call<'_>) -> SysResult {
    if call.int(3) != -1 {
        return Err(Errno::EINVAL);
    }
    sys_mprotect(call)
}

/// pkey_alloc(2): `ENOSPC`, since the CPU shown to guests has no protection keys.
pub fn sys_pkey_alloc(call: &mut Call<'_>) -> SysResult {
    const DISABLE: u32 = 3;
    let invalid = call.args[0] != 0 || call.uint(1) & !DISABLE != 0;
    Err(if invalid { Errno::EINVAL } else { Errno::ENOSPC })
}

/// pkey_free(2): `EINVAL`, since no key is ever allocated.
pub fn sys_pkey_free(_: &mut Call<'_>) -> SysResult {
    Err(Errno::EINVAL)
}

/// mremap(2).
pub fn sys_mremap(call: &mut Call<'_>) -> SysResult {
    let [addr, old_len, new_len, flags, target, _] = call.args;
    let old = pages(addr, old_len)?;
    let new_len = page_up(new_len)?;
    if new_len == 0 || flags as i32 & !(c::MREMAP_MAYMOVE | c::MREMAP_FIXED | c::MREMAP_DONTUNMAP) != 0 {
        return Err(Errno::EINVAL);
    }
    call.check_unsealed(&old)?;
    if flags as i32 & c::MREMAP_FIXED != 0 {
        call.check_unsealed(&(target..target.saturating_add(new_len)))?;
    }
    done(call.mremap(old, new_len, flags as i32, target)?)
}

/// remap_file_pages(2): maps other pages of the same file, as mmap(2) would.
pub fn sys_remap_file_pages(call: &mut Call<'_>) -> SysResult {
    let [start, len, prot, page, ..] = call.args;
    let (start, len) = (start & !(PAGE - 1), len & !(PAGE - 1));
    let end = start.checked_add(len).filter(|end| *end > start).ok_or(Errno::EINVAL)?;
    let offset = page.checked_mul(PAGE).filter(|at| at.checked_add(len).is_some()).ok_or(Errno::EINVAL)?;
    let (range, mm) = (start..end, call.mm());
    let vma = call.host.mm(mm).find(start).filter(|vma| vma.shared).cloned().ok_or(Errno::EINVAL)?;
    let file_of = |vma: &Vma| if let VmaKind::File { file, .. } = vma.kind { file } else { None };
    let alike =
        |other: &Vma| file_of(other) == file_of(&vma) && (other.prot, other.marks) == (vma.prot, vma.marks);
    if prot != 0 || call.require_mapped(&range).is_err() || !call.host.mm(mm).overlapping(&range).all(alike) {
        return Err(Errno::EINVAL);
    }
    call.check_unsealed(&range)?;
    let Some(source) = call.source_behind(&vma, offset) else {
        call.host.warn("remap_file_pages of memory without a file is not supported");
        return Err(Errno::EINVAL);
    };
    let Vma { prot, marks, may_write, .. } = vma;
    let request = MapRequest { prot, shared: true, source: Some(source), may_write, label: "" };
    call.host.map_pages(mm, range.clone(), request)?;
    call.host.mark_pages(mm, &range, marks.difference(Marks::GUARD), Marks::all());
    done(0)
}

/// madvise(2). Only advice that changes memory contents is passed to the machine.
pub fn sys_madvise(call: &mut Call<'_>) -> SysResult {
    call.args[0].checked_add(call.args[1]).ok_or(Errno::EINVAL)?;
    let range = pages(call.args[0], call.args[1])?;
    let advice = call.int(2);
    const DISCARDS: [i32; 7] = [
        MADV_GUARD_INSTALL,
        c::MADV_REMOVE,
        c::MADV_DONTNEED,
        c::MADV_DONTNEED_LOCKED,
        c::MADV_FREE,
        c::MADV_DONTFORK,
        c::MADV_WIPEONFORK,
    ];
    if DISCARDS.contains(&advice) {
        // Sealed private anonymous pages that cannot be written cannot be discarded.
        let mm = call.mm();
        let sealed = |vma: &Vma| {
            let anonymous = vma.is_private_anonymous();
            vma.marks.contains(Marks::SEALED) && anonymous && !vma.prot.contains(Prot::WRITE)
        };
        if call.host.mm(mm).overlapping(&range).any(sealed) {
            return Err(Errno::EPERM);
        }
    }
    match advice {
        c::MADV_REMOVE => remove(call, range)?,
        // `EINVAL`, as from a kernel built without KSM.
        c::MADV_MERGEABLE | c::MADV_UNMERGEABLE => return Err(Errno::EINVAL),
        c::MADV_DONTNEED | c::MADV_DONTNEED_LOCKED => {
            let mm = call.mm();
            let locked = |vma: &Vma| vma.marks.contains(Marks::LOCKED);
            if advice == c::MADV_DONTNEED && call.host.mm(mm).overlapping(&range).any(locked) {
                return Err(Errno::EINVAL);
            }
            call.host.discard_pages(mm, range, c::MADV_DONTNEED)?;
        }
        // Lazily freed pages may keep their contents until memory is short, which guests never observe here.
        c::MADV_FREE => {
            let mm = call.mm();
            if !call.host.mm(mm).overlapping(&range).all(Vma::is_private_anonymous) {
                return Err(Errno::EINVAL);
            }
            call.require_mapped(&range)?;
        }
        c::MADV_WIPEONFORK | c::MADV_KEEPONFORK | c::MADV_DONTFORK | c::MADV_DOFORK => {
            let mm = call.mm();
            if advice == c::MADV_WIPEONFORK
                && !call.host.mm(mm).overlapping(&range).all(Vma::is_private_anonymous)
            {
                return Err(Errno::EINVAL);
            }
            let (set, clear) = match advice {
                c::MADV_WIPEONFORK => (Marks::WIPE_ON_FORK, Marks::empty()),
                c::MADV_KEEPONFORK => (Marks::empty(), Marks::WIPE_ON_FORK),
                c::MADV_DONTFORK => (Marks::LEFT_BY_FORK, Marks::empty()),
                _ => (Marks::empty(), Marks::LEFT_BY_FORK),
            };
            // Mapped parts of a range with gaps are marked before the call fails.
            call.host.mark_pages(mm, &range, set, clear);
            call.require_mapped(&range)?;
        }
        c::MADV_NORMAL
        | c::MADV_RANDOM
        | c::MADV_SEQUENTIAL
        | c::MADV_WILLNEED
        | c::MADV_HUGEPAGE
        | c::MADV_NOHUGEPAGE
        | c::MADV_DONTDUMP
        | c::MADV_DODUMP
        | c::MADV_COLD
        | c::MADV_PAGEOUT => call.require_mapped(&range)?,
        c::MADV_POPULATE_READ | c::MADV_POPULATE_WRITE => {
            let mm = call.mm();
            let needs = if advice == c::MADV_POPULATE_READ { Prot::READ } else { Prot::WRITE };
            if call.host.mm(mm).overlapping(&range).any(|vma| !vma.prot.contains(needs)) {
                return Err(Errno::EINVAL);
            }
            if call.host.mm(mm).overlapping(&range).any(|vma| vma.marks.contains(Marks::GUARD)) {
                return Err(Errno::EFAULT);
            }
            call.require_mapped(&range)?;
            call.populate(&range, advice);
        }
        MADV_GUARD_INSTALL | MADV_GUARD_REMOVE => {
            let mm = call.mm();
            let locked = |vma: &Vma| vma.marks.contains(Marks::LOCKED);
            if call.host.mm(mm).overlapping(&range).any(locked) {
                return Err(Errno::EINVAL);
            }
            call.guard_pages(&range, advice == MADV_GUARD_INSTALL)?;
            call.require_mapped(&range)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    done(0)
}

/// `MADV_REMOVE`: discards shared pages and the corresponding range of the file.
fn remove(call: &mut Call<'_>, range: Range<u64>) -> Result<(), Errno> {
    let mm = call.mm();
    let parts: Vec<Vma> = call.host.mm(mm).overlapping(&range).cloned().collect();
    for vma in parts {
        let VmaKind::File { offset, file, .. } = vma.kind else { return Err(Errno::EINVAL) };
        if vma.marks.contains(Marks::LOCKED) {
            return Err(Errno::EINVAL);
        }
        if !vma.shared || !vma.prot.contains(Prot::WRITE) {
            return Err(Errno::EACCES);
        }
        let part = vma.part_in(&range);
        match file {
            Some(file) => {
                let at = offset + part.start - vma.start;
                let mode = c::FALLOC_FL_PUNCH_HOLE | c::FALLOC_FL_KEEP_SIZE;
                call.host.allocate(file, mode, at, at + part.end - part.start)?;
            }
            None => {
                let space = call.host.mm(mm).space;
                call.host.machine.advise(space, part.start, part.end - part.start, c::MADV_REMOVE)?;
            }
        }
    }
    call.require_mapped(&range)
}

/// msync(2): shared mappings are coherent with their file, so it only makes them durable.
pub fn sys_msync(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(2);
    let both = c::MS_SYNC | c::MS_ASYNC;
    if flags & !(both | c::MS_INVALIDATE) != 0 || flags & both == both {
        return Err(Errno::EINVAL);
    }
    let range = pages(call.args[0], call.args[1])?;
    let mm = call.mm();
    let locked = |vma: &Vma| vma.marks.contains(Marks::LOCKED);
    if flags & c::MS_INVALIDATE != 0 && call.host.mm(mm).overlapping(&range).any(locked) {
        return Err(Errno::EBUSY);
    }
    call.require_mapped(&range)?;
    if flags & c::MS_SYNC != 0 {
        let first = regular::first_mapped(call.host, mm, &range);
        if first.is_some()
            && let Some(block) = disk_faults::slow_sync(call, first)
        {
            return block.into();
        }
        regular::sync_mappings(call.host, mm, &range)?;
    }
    done(0)
}

/// Page range of `mlock(2)` and its relatives: `EINVAL` on address overflow.
fn lock_range(call: &Call<'_>) -> Result<Range<u64>, Errno> {
    let start = call.args[0] & !(PAGE - 1);
    let len = page_up(call.args[1].checked_add(call.args[0] - start).ok_or(Errno::EINVAL)?)?;
    Ok(start..start.checked_add(len).ok_or(Errno::EINVAL)?)
}

/// Marks set by `mlock2(2)` and cleared by `munlock(2)`.
const LOCKS: Marks = Marks::LOCKED.union(Marks::ON_FAULT);

/// mlock(2): guest memory is never paged out; locked pages are only accounted and reported.
pub fn sys_mlock(call: &mut Call<'_>) -> SysResult {
    lock(call, Marks::empty())
}

fn lock(call: &mut Call<'_>, how: Marks) -> SysResult {
    let range = lock_range(call)?;
    let mm = call.mm();
    let already = call.host.mm(mm).overlapping(&range).filter(|vma| vma.marks.contains(Marks::LOCKED));
    let already: u64 = already.map(|vma| vma.end.min(range.end) - vma.start.max(range.start)).sum();
    call.check_lock_limit(range.end - range.start - already)?;
    call.require_mapped(&range)?;
    call.host.mark_pages(mm, &range, Marks::LOCKED | how, LOCKS);
    done(0)
}

/// mlock2(2).
pub fn sys_mlock2(call: &mut Call<'_>) -> SysResult {
    const ONFAULT: u32 = 1;
    match call.uint(2) {
        0 => lock(call, Marks::empty()),
        ONFAULT => lock(call, Marks::ON_FAULT),
        _ => Err(Errno::EINVAL),
    }
}

/// munlock(2).
pub fn sys_munlock(call: &mut Call<'_>) -> SysResult {
    let range = lock_range(call)?;
    call.require_mapped(&range)?;
    let mm = call.mm();
    call.host.mark_pages(mm, &range, Marks::empty(), LOCKS);
    done(0)
}

/// mlockall(2).
pub fn sys_mlockall(call: &mut Call<'_>) -> SysResult {
    let known = (c::MCL_CURRENT | c::MCL_FUTURE | c::MCL_ONFAULT) as u32;
    let flags = call.uint(0);
    if flags == 0 || flags & !known != 0 || flags == c::MCL_ONFAULT as u32 {
        return Err(Errno::EINVAL);
    }
    let mm = call.mm();
    let current = flags & c::MCL_CURRENT as u32 != 0;
    let all: u64 = call.host.mm(mm).vmas().map(Vma::counted).sum();
    let locked = call.host.mm(mm).locked_bytes();
    call.check_lock_limit(if current { all.saturating_sub(locked) } else { 0 })?;
    let on_fault = flags & c::MCL_ONFAULT as u32 != 0;
    let locks = Marks::LOCKED | if on_fault { Marks::ON_FAULT } else { Marks::empty() };
    let future = flags & c::MCL_FUTURE as u32 != 0;
    call.host.mm(mm).marks_of_new = if future { locks } else { Marks::empty() };
    if current {
        call.host.mark_pages(mm, &(0..u64::MAX), locks, LOCKS);
    }
    done(0)
}

/// munlockall(2).
pub fn sys_munlockall(call: &mut Call<'_>) -> SysResult {
    let mm = call.mm();
    call.host.mm(mm).marks_of_new = Marks::empty();
    call.host.mark_pages(mm, &(0..u64::MAX), Marks::empty(), LOCKS);
    done(0)
}

/// cachestat(2): all pages of a file are cached, and none are dirty.
pub fn sys_cachestat(call: &mut Call<'_>) -> SysResult {
    let file = call.host.file_of(call.process, call.int(0))?;
    let open = call.host.files.open(file);
    if open.flags & c::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let inode = open.kind.inode();
    let [from, len]: [u64; 2] = call.read(call.args[1])?;
    if call.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let size = inode.map_or(Ok(0), |inode| call.host.size_of(inode))?;
    let end = if len == 0 { u64::MAX } else { from.saturating_add(len) };
    let cached = size.min(end).div_ceil(PAGE).saturating_sub(from / PAGE);
    // Cached, dirty, under writeback, evicted, and recently evicted pages.
    call.write(call.args[2], &[cached, 0, 0, 0, 0])?;
    done(0)
}

/// mincore(2): anonymous pages are resident once they are touched or locked, file pages always.
pub fn sys_mincore(call: &mut Call<'_>) -> SysResult {
    let range = pages(call.args[0], call.args[1])?;
    call.require_mapped(&range)?;
    let mm = call.mm();
    let mut found = presence(call.host, mm, &range)?;
    found.iter_mut().for_each(|page| *page &= 1);
    call.write_bytes(call.args[2], &found)?;
    done(0)
}
