//! Runtime support of a program without a standard library.

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    belljar_shim::system::exit(134)
}

/// Referenced by the precompiled core library; nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// Functions that the compiler calls for copies and comparisons.
core::arch::global_asm!(
    ".text",
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "lea rdi, [rdi + rcx - 1]",
    "lea rsi, [rsi + rcx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".globl memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "xor ecx, ecx",
    "2:",
    "cmp rcx, rdx",
    "je 3f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 2b",
    "3:",
    "ret",
);
