//! Copies to and from memory that may be unmapped: a fault between the labels makes the routine return 1
//! instead of ending the process (see [`fixup`]).

// `copy(dst: rdi, src: rsi, len: rdx) -> eax`. `rep movsb` starts slowly, so short copies go by
// vector registers, the last 16 bytes overlapping.
core::arch::global_asm!(
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

/// Address at which execution continues after a fault at `rip`, if `rip` is in one of this file's routines.
pub fn fixup(rip: u64) -> Option<u64> {
    let start = belljar_guest_copy as *const () as u64;
    let end = belljar_guest_access_end as *const () as u64;
    (start..end).contains(&rip).then_some(belljar_guest_access_failed as *const () as u64)
}

/// Copies `len` bytes; false if a part of either range is inaccessible.
///
/// # Safety
/// If `dst` is mapped, the caller must be allowed to write to it. A fault handler must continue at [`fixup`].
#[inline]
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> bool {
    // SAFETY: the caller's obligation.
    unsafe { belljar_guest_copy(dst, src, len) == 0 }
}

/// Replaces the aligned word by `new` if it equals `old`; returns the previous value, or `None` if the word
/// is inaccessible.
///
/// # Safety
/// As for [`copy`].
pub unsafe fn compare_exchange(word: *mut u32, old: u32, new: u32) -> Option<u32> {
    let mut found = 0;
    // SAFETY: `found` outlives the call; the rest is the caller's obligation.
    let failed = unsafe { belljar_guest_compare_exchange(word, old, new, &mut found) };
    (failed == 0).then_some(found)
}
