//! The program in a far guest's process: [`belljar_shim::far`] and what a program without a
//! standard library needs besides. The build script of `belljar-platform` compiles it.
#![no_std]
#![no_main]

core::arch::global_asm!(
    ".text",
    ".globl _start",
    "_start:",
    // Linux starts a program with all registers zero. The simulator, in which the program lies too,
    // calls (1, stack, channel, socket) for a fork of itself, and gets the child's process id.
    "test rdi, rdi",
    "jnz 2f",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {map_stack}",
    "mov rsp, rax",
    "call {main}",
    "ud2",
    "2:",
    "push r12",
    "push r13",
    "mov r12, rdx",
    "mov r13, rcx",
    "mov eax, {clone}",
    "mov edi, {sigchld}",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test rax, rax",
    "jz 3f",
    "pop r13",
    "pop r12",
    "ret",
    "3:",
    "mov rdi, r12",
    "mov rsi, r13",
    "xor ebp, ebp",
    "call {born}",
    "ud2",
    map_stack = sym map_stack,
    main = sym main,
    born = sym born,
    clone = const belljar_shim::system::nr::CLONE,
    sigchld = const belljar_shim::far::SIGCHLD,
);

extern "C" fn map_stack() -> u64 {
    // SAFETY: the kernel has just started the program.
    unsafe { belljar_shim::far::map_stack() }
}

extern "C" fn main() -> ! {
    // SAFETY: the stack of a program just started has been replaced.
    unsafe { belljar_shim::far::main() }
}

extern "C" fn born(channel: u64, socket: u64) -> ! {
    // SAFETY: the process has just been forked from the simulator.
    unsafe { belljar_shim::far::born(channel, socket) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    belljar_shim::system::exit(134)
}

/// The precompiled core library names it; nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// What the compiler calls for copies and comparisons.
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
