//! Program of a far guest's process: [`belljar_shim::far`] and the runtime support of a program without a
//! standard library. The build script of `belljar-platform` compiles it.
#![no_std]
#![no_main]

mod support;

core::arch::global_asm!(
    ".text",
    ".globl _start",
    "_start:",
    // Linux starts a program with all registers zero. The simulator, which maps the program too, calls (1,
    // stack, channel, socket) to fork itself; the call returns the child's process id.
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
    // SAFETY: the initial stack has been replaced.
    unsafe { belljar_shim::far::main() }
}

extern "C" fn born(channel: u64, socket: u64) -> ! {
    // SAFETY: the process has just been forked from the simulator.
    unsafe { belljar_shim::far::born(channel, socket) }
}
