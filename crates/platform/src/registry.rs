//! Registry of the fixed addresses that spaces hold: the one thing that all machines of a process share,
//! because low addresses exist only once.

use crate::layout::{self, FIXED_AREA, PAGE, SHIM_AREA, USER_END};
use belljar_linux_abi::Errno;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

static CLAIMS: Mutex<Vec<Claim>> = Mutex::new(Vec::new());

struct Claim {
    range: Range<u64>,
    /// The start of the claiming space's slot.
    owner: u64,
}

fn claims() -> MutexGuard<'static, Vec<Claim>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a slot to one machine. `EBUSY` if another one of this process has it.
pub fn take_slot(slot: &Range<u64>) -> Result<(), Errno> {
    let mut claims = claims();
    if claims.iter().any(|c| layout::overlap(&c.range, slot)) {
        return Err(Errno::EBUSY);
    }
    claims.push(Claim { range: slot.clone(), owner: slot.start });
    Ok(())
}

/// Gives `range` to the near space whose slot starts at `owner`. `EINVAL` outside [`FIXED_AREA`];
/// `EBUSY` if another space holds a part of it or something else is mapped there.
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

/// `EINVAL` for a range that the space with this slot may not claim, near or far: not in whole pages, or with
/// a part of the slot or of the shim in it.
pub fn check_claim(slot: &Range<u64>, range: &Range<u64>) -> Result<(), Errno> {
    let aligned = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
    let there = range.start >= FIXED_AREA.start && range.end <= USER_END;
    let taken = layout::overlap(slot, range) || layout::overlap(&SHIM_AREA, range);
    if aligned && !range.is_empty() && there && !taken { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Frees everything that the space whose slot starts at `owner` holds.
pub fn release(owner: u64) {
    claims().retain(|c| c.owner != owner);
}

/// Finds and takes `len` bytes for stubs inside `within`, from its end downwards; gives their start.
pub fn claim_stubs(within: Range<u64>, len: u64) -> Option<u64> {
    let mut claims = claims();
    let mut start = within.end.checked_sub(len)?;
    while start >= within.start {
        let range = start..start + len;
        if claims.iter().all(|c| !layout::overlap(&c.range, &range)) && is_unmapped(&range) {
            // An owner that no space is: even the space that the stubs serve must not map there.
            claims.push(Claim { range, owner: start });
            return Some(start);
        }
        start -= len;
    }
    None
}

/// Frees what [`claim_stubs`] gave at `start`.
pub fn release_stubs(start: u64) {
    release(start);
}

fn is_unmapped(range: &Range<u64>) -> bool {
    let len = (range.end - range.start) as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE touches nothing that is mapped; what it maps is unmapped again at once.
    unsafe {
        let at = libc::mmap(range.start as *mut libc::c_void, len, libc::PROT_NONE, flags, -1, 0);
        at != libc::MAP_FAILED && libc::munmap(at, len) == 0
    }
}
