//! Registry of the fixed addresses claimed by spaces. It is the only state that all machines of a process
//! share, because they share one set of low addresses.

use crate::layout::{self, FIXED_AREA, PAGE, SHIM_AREA, USER_END};
use belljar_linux_abi::Errno;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

static CLAIMS: Mutex<Vec<Claim>> = Mutex::new(Vec::new());

struct Claim {
    range: Range<u64>,
    /// Start of the claiming space's slot.
    owner: u64,
}

fn claims() -> MutexGuard<'static, Vec<Claim>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Claims a slot for one machine. `EBUSY` if another machine of this process has claimed it.
pub fn take_slot(slot: &Range<u64>) -> Result<(), Errno> {
    let mut claims = claims();
    if claims.iter().any(|c| layout::overlap(&c.range, slot)) {
        return Err(Errno::EBUSY);
    }
    claims.push(Claim { range: slot.clone(), owner: slot.start });
    Ok(())
}

/// Claims `range` for the near space whose slot starts at `owner`. `EINVAL` outside [`FIXED_AREA`]; `EBUSY`
/// if another space has claimed a part of it or another mapping exists there.
pub fn claim(owner: u64, range: &Range<u64>) -> Result<(), Errno> {
    if !layout::contains(&FIXED_AREA, range) {
        return Err(Errno::EINVAL);
    }
    let mut claims = claims();
    let mut own = false;
    for claim in claims.iter().filter(|c| layout::overlap(&c.range, range)) {
        if claim.owner != owner {
            return Err(Errno::EBUSY);
        }
        own = true;
    }
    if !own && !is_unmapped(range) {
        return Err(Errno::EBUSY);
    }
    claims.push(Claim { range: range.clone(), owner });
    Ok(())
}

/// `EINVAL` for a range that the space with this slot may not claim, near or far: one not in whole pages, or
/// one that overlaps the slot or the shim.
pub fn check_claim(slot: &Range<u64>, range: &Range<u64>) -> Result<(), Errno> {
    let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
    let there = range.start >= FIXED_AREA.start && range.end <= USER_END;
    let taken = layout::overlap(slot, range) || layout::overlap(&SHIM_AREA, range);
    if aligned && !range.is_empty() && there && !taken { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Releases all claims of the space whose slot starts at `owner`.
pub fn release(owner: u64) {
    claims().retain(|c| c.owner != owner);
}

/// Finds and claims `len` bytes for stubs in `within`, from its end downwards; returns their start.
pub fn claim_stubs(within: Range<u64>, len: u64) -> Option<u64> {
    let mut claims = claims();
    let mut start = within.end.checked_sub(len)?;
    while start >= within.start {
        let range = start..start + len;
        if claims.iter().all(|c| !layout::overlap(&c.range, &range)) && is_unmapped(&range) {
            // The owner is not a space: even the space that the stubs serve must not map there.
            claims.push(Claim { range, owner: start });
            return Some(start);
        }
        start -= len;
    }
    None
}

/// Releases the range claimed by [`claim_stubs`] at `start`.
pub fn release_stubs(start: u64) {
    release(start);
}

fn is_unmapped(range: &Range<u64>) -> bool {
    let len = (range.end - range.start) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE leaves existing mappings alone; the new mapping is removed at once.
    unsafe {
        let at = libc::mmap(range.start as *mut libc::c_void, len, libc::PROT_NONE, flags, -1, 0);
        at != libc::MAP_FAILED && libc::munmap(at, len) == 0
    }
}
