//! Program that processes in dilated time execute: [`belljar_shim::dilate`].
#![no_std]
#![no_main]

mod support;

core::arch::global_asm!(
    ".text",
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main,
);

extern "C" fn main(sp: u64) -> ! {
    // SAFETY: the kernel has just started the program.
    unsafe { belljar_shim::dilate::load::main(sp) }
}
