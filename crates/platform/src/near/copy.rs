//! Access to guest memory that may not be there: a fault between the labels makes the routine
//! return 1 instead of crashing the simulator (see [`fixup`]).

use belljar_linux_abi::Errno;

// `copy(dst: rdi, src: rsi, len: rdx) -> eax`. `rep movsb` starts slowly, so short copies go by
// vector registers, the last 16 bytes overlapping.
std::arch::global_asm!(
    ".text",
    ".p2align 4",
    ".globl belljar_guest_copy",
    ".hidden belljar_guest_copy",
    "belljar_guest_copy:",
    "cmp rdx, 16",
    "jb 3f",
    "cmp rdx, 512",
    "ja 6f",
    "movups xmm1, [rsi + rdx - 16]",
    "lea r8, [rdi + rdx - 16]",
    "2:",
    "movups xmm0, [rsi]",
    "movups [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "cmp rdi, r8",
    "jb 2b",
    "movups [r8], xmm1",
    "xor eax, eax",
    "ret",
    "3:",
    "test dl, 8",
    "jz 4f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "4:",
    "test dl, 4",
    "jz 5f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "5:",
    "test dl, dl",
    "jz 7f",
    "movzx eax, byte ptr [rsi]",
    "movzx ecx, byte ptr [rsi + rdx - 1]",
    "test dl, 2",
    "jz 8f",
    "movzx r8d, byte ptr [rsi + 1]",
    "mov [rdi + 1], r8b",
    "8:",
    "mov [rdi], al",
    "mov [rdi + rdx - 1], cl",
    "7:",
    "xor eax, eax",
    "ret",
    "6:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // compare_exchange(word: rdi, old: esi, new: edx, found: rcx) -> eax
    ".p2align 4",
    ".globl belljar_guest_compare_exchange",
    ".hidden belljar_guest_compare_exchange",
    "belljar_guest_compare_exchange:",
    "mov eax, esi",
    "lock cmpxchg [rdi], edx",
    "mov [rcx], eax",
    "xor eax, eax",
    "ret",
    ".globl belljar_guest_access_end",
    ".hidden belljar_guest_access_end",
    "belljar_guest_access_end:",
    ".globl belljar_guest_access_failed",
    ".hidden belljar_guest_access_failed",
    "belljar_guest_access_failed:",
    "mov eax, 1",
    "ret",
);

unsafe extern "C" {
    fn belljar_guest_copy(dst: *mut u8, src: *const u8, len: usize) -> u32;
    fn belljar_guest_compare_exchange(word: *mut u32, old: u32, new: u32, found: *mut u32) -> u32;
    fn belljar_guest_access_end();
    fn belljar_guest_access_failed();
}

/// Where a fault at `rip` continues, if it happened in one of this file's routines.
pub fn fixup(rip: u64) -> Option<u64> {
    let start = belljar_guest_copy as *const () as u64;
    let end = belljar_guest_access_end as *const () as u64;
    (start..end).contains(&rip).then_some(belljar_guest_access_failed as *const () as u64)
}

/// Copies from guest memory.
///
/// # Safety
/// `addr..addr + out.len()` must not be memory of the simulator's own.
pub unsafe fn read(addr: u64, out: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: `out` is writable; a fault at the source is fixed up.
    match unsafe { belljar_guest_copy(out.as_mut_ptr(), addr as *const u8, out.len()) } {
        0 => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Copies to guest memory.
///
/// # Safety
/// As for [`read`].
pub unsafe fn write(addr: u64, data: &[u8]) -> Result<(), Errno> {
    // SAFETY: `data` is readable; a fault at the target is fixed up.
    match unsafe { belljar_guest_copy(addr as *mut u8, data.as_ptr(), data.len()) } {
        0 => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Replaces the word at `addr` by `new` if it is `old`; gives what was there. `EINVAL` if unaligned.
///
/// # Safety
/// As for [`read`].
pub unsafe fn compare_exchange(addr: u64, old: u32, new: u32) -> Result<u32, Errno> {
    if !addr.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let mut found = 0;
    // SAFETY: `found` outlives the call; a fault at the word is fixed up.
    match unsafe { belljar_guest_compare_exchange(addr as *mut u32, old, new, &mut found) } {
        0 => Ok(found),
        _ => Err(Errno::EFAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_are_exact() {
        let source: Vec<u8> = (0..2000u32).map(|i| (i * 7 + 3) as u8).collect();
        for len in (0..70).chain([127, 128, 255, 256, 511, 512, 513, 514, 1999]) {
            let mut out = vec![0xee; len + 2];
            // SAFETY: both sides are memory of this test.
            unsafe { read(source[1..].as_ptr() as u64, &mut out[1..=len.min(1998)]) }.unwrap();
            let len = len.min(1998);
            assert_eq!(out[1..=len], source[1..=len], "{len}");
            assert_eq!(out[0], 0xee);
            assert_eq!(out[len + 1], 0xee, "{len}");
        }
    }
}
