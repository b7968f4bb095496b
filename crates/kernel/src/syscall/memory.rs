//! mmap(2), munmap(2), mprotect(2), mremap(2), brk(2), madvise(2) and relatives.

use crate::call::{Call, SysResult, done};
use crate::machine::Prot;
use crate::mm::{PAGE, Vma, VmaKind, page_up};
use belljar_linux_abi::{Errno, c};

/// Whole pages from an aligned address and a length that is not zero.
fn pages(addr: u64, len: u64) -> Result<std::ops::Range<u64>, Errno> {
    if !addr.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = addr.checked_add(page_up(len)?).ok_or(Errno::ENOMEM)?;
    Ok(addr..end)
}

fn protection(bits: u32) -> Result<Prot, Errno> {
    // PROT_GROWSDOWN and PROT_GROWSUP concern stacks, which are mapped whole here.
    let known = bits & !(c::PROT_GROWSDOWN | c::PROT_GROWSUP) as u32;
    Prot::from_bits(known).ok_or(Errno::EINVAL)
}

/// brk(2): gives the heap's end, which has moved if it could.
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
    // The file is looked at before the length is.
    if flags as i32 & c::MAP_ANONYMOUS == 0 {
        call.host.file_of(call.process, fd as i32)?;
    }
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let len = page_up(len)?;
    // Unlike mprotect(2) it passes over bits that it does not know.
    let prot = Prot::from_bits_truncate(prot as u32);
    done(call.mmap(addr, len, prot, flags as i32, fd as i32, offset)?)
}

/// munmap(2).
pub fn sys_munmap(call: &mut Call<'_>) -> SysResult {
    if call.args[1] == 0 {
        return Err(Errno::EINVAL);
    }
    let range = pages(call.args[0], call.args[1])?;
    let mm = call.mm();
    call.host.unmap_pages(mm, range)?;
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
        let mm = call.mm();
        call.host.protect_pages(mm, range, prot)?;
    }
    done(0)
}

/// pkey_mprotect(2) on a CPU without protection keys: only without a key.
pub fn sys_pkey_mprotect(call: &mut Call<'_>) -> SysResult {
    if call.int(3) != -1 {
        return Err(Errno::EINVAL);
    }
    sys_mprotect(call)
}

/// pkey_alloc(2) on a CPU without protection keys, which guests are shown: "the processor or the operating system does
/// not support protection keys".
pub fn sys_pkey_alloc(call: &mut Call<'_>) -> SysResult {
    const DISABLE: u32 = 3;
    let invalid = call.args[0] != 0 || call.uint(1) & !DISABLE != 0;
    Err(if invalid { Errno::EINVAL } else { Errno::ENOSPC })
}

/// pkey_free(2): there is no key to be given back.
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
    done(call.mremap(old, new_len, flags as i32, target)?)
}

/// madvise(2). Only advice that changes content reaches the machine.
pub fn sys_madvise(call: &mut Call<'_>) -> SysResult {
    let range = pages(call.args[0], call.args[1])?;
    let advice = call.int(2);
    match advice {
        c::MADV_DONTNEED | c::MADV_REMOVE | c::MADV_DONTNEED_LOCKED => {
            let mm = call.mm();
            call.host.discard_pages(mm, range, c::MADV_DONTNEED)?;
        }
        // Lazily freed pages may keep their content until memory is short, which never happens
        // here in a way that guests could see.
        c::MADV_FREE => {
            let mm = call.mm();
            let is_anonymous = |vma: &Vma| !vma.shared && matches!(vma.kind, VmaKind::Anonymous(_));
            if !call.host.mm(mm).overlapping(&range).all(is_anonymous) {
                return Err(Errno::EINVAL);
            }
            call.require_mapped(&range)?;
        }
        c::MADV_NORMAL
        | c::MADV_RANDOM
        | c::MADV_SEQUENTIAL
        | c::MADV_WILLNEED
        | c::MADV_HUGEPAGE
        | c::MADV_NOHUGEPAGE
        | c::MADV_MERGEABLE
        | c::MADV_UNMERGEABLE
        | c::MADV_DONTDUMP
        | c::MADV_DODUMP
        | c::MADV_DONTFORK
        | c::MADV_DOFORK
        | c::MADV_WIPEONFORK
        | c::MADV_KEEPONFORK
        | c::MADV_COLD
        | c::MADV_PAGEOUT
        | c::MADV_POPULATE_READ
        | c::MADV_POPULATE_WRITE => call.require_mapped(&range)?,
        _ => return Err(Errno::EINVAL),
    }
    done(0)
}

/// msync(2): what is mapped shared is the file already.
pub fn sys_msync(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(2);
    let both = c::MS_SYNC | c::MS_ASYNC;
    if flags & !(both | c::MS_INVALIDATE) != 0 || flags & both == both {
        return Err(Errno::EINVAL);
    }
    let range = pages(call.args[0], call.args[1])?;
    call.require_mapped(&range)?;
    done(0)
}

/// mlock(2), munlock(2) and mlock2(2): simulated memory is never paged out.
pub fn sys_mlock(call: &mut Call<'_>) -> SysResult {
    let start = call.args[0] & !(PAGE - 1);
    let len = page_up(call.args[1].checked_add(call.args[0] - start).ok_or(Errno::EINVAL)?)?;
    call.require_mapped(&(start..start.checked_add(len).ok_or(Errno::EINVAL)?))?;
    done(0)
}

/// mlockall(2) and munlockall(2): simulated memory is never paged out.
pub fn sys_mlockall(call: &mut Call<'_>) -> SysResult {
    let known = (c::MCL_CURRENT | c::MCL_FUTURE | c::MCL_ONFAULT) as u32;
    let flags = call.uint(0);
    if call.number == c::SYS_mlockall as u32 && (flags == 0 || flags & !known != 0) {
        return Err(Errno::EINVAL);
    }
    done(0)
}

/// mincore(2): every mapped page is resident.
pub fn sys_mincore(call: &mut Call<'_>) -> SysResult {
    let range = pages(call.args[0], call.args[1])?;
    call.require_mapped(&range)?;
    let count = ((range.end - range.start) / PAGE) as usize;
    call.write_bytes(call.args[2], &vec![1; count])?;
    done(0)
}
