//! What guests are told of the CPU, where it can be made to trap `cpuid`.

use belljar_kernel::machine::Regs;
use std::arch::x86_64::__cpuid_count;

const ARCH_CPUID_SET: i64 = 0x1012;

/// Makes `cpuid` fault on this thread, or not. Without effect where the CPU cannot: guests then
/// see the machine's own answers. Async-signal-safe.
pub fn set_faulting(on: bool) {
    // SAFETY: the argument is a plain number.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_SET, i64::from(!on)) };
}

/// Answers a `cpuid` with EAX and ECX as in `regs`.
pub fn answer(regs: &mut Regs) {
    let leaf = __cpuid_count(regs.rax as u32, regs.rcx as u32);
    regs.rax = u64::from(leaf.eax);
    regs.rbx = u64::from(leaf.ebx);
    regs.rcx = u64::from(leaf.ecx);
    regs.rdx = u64::from(leaf.edx);
}
