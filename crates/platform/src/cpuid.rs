//! `cpuid` results for guests: the host CPU's own, reduced to a baseline with AVX2, without clocks and
//! hardware random numbers, and with one logical processor. If the CPU cannot make `cpuid` fault, or only at
//! the cost of a VM exit, the instructions in images are replaced (see `rewrite`). A `cpuid` that the
//! rewriter misses, in JIT code above all, faults or returns the host CPU's own values; in the second case the
//! run's warnings name it.
//!
//! AVX-512 is hidden, but leaf 0xd still describes its state: XCR0 cannot be hidden, and glibc sizes its
//! `xsavec` areas by that leaf.

use crate::near::worker::{self, Worker};
use belljar_base::Map;
use belljar_shim::context::Regs;
use belljar_shim::protocol::{CpuidAnswer, MAX_CPUID, has_subleaves};
use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

const ARCH_CPUID_GET: i64 = 0x1011;
const ARCH_CPUID_SET: i64 = 0x1012;

/// EAX, EBX, ECX, EDX.
type Leaf = [u32; 4];
type Table = Map<(u32, u32), Leaf>;

const LAST_BASIC: u32 = 0xd;
const LAST_EXTENDED: u32 = 0x8000_0008;

/// Leaf 1 ECX without MONITOR, DTES64, DS-CPL, VMX, SMX, EIST, TM2, SDBG, xTPR, PDCM, PCID, DCA,
/// x2APIC, TSC-deadline, RDRAND and the hypervisor bit.
const FEATURES_1_ECX: u32 = 0x3ed8_3203;
/// Leaf 1 ECX: running under a hypervisor.
const HYPERVISOR_1_ECX: u32 = 1 << 31;
/// Leaf 0x80000008 EBX: RDPRU.
const RDPRU_8_8_EBX: u32 = 1 << 4;
/// Leaf 1 EDX without debug store, ACPI, HTT, thermal monitor and pending-break enable.
const FEATURES_1_EDX: u32 = 0x0f9f_ffff;
/// Leaf 7 EBX: BMI1, AVX2, BMI2, ERMS, ADX, CLFLUSHOPT, CLWB, SHA.
const FEATURES_7_EBX: u32 = 1 << 3 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 19 | 1 << 23 | 1 << 24 | 1 << 29;
/// Leaf 7 ECX: GFNI, VAES, VPCLMULQDQ.
const FEATURES_7_ECX: u32 = 1 << 8 | 1 << 9 | 1 << 10;
/// Leaf 7 EDX: FSRM.
const FEATURES_7_EDX: u32 = 1 << 4;
/// Leaf 0xd, 1 EAX: XSAVEOPT, XSAVEC, XGETBV(1).
const FEATURES_D1_EAX: u32 = 0b111;
/// Leaf 0x80000001 ECX: LAHF, LZCNT, PREFETCHW.
const FEATURES_8_1_ECX: u32 = 1 << 0 | 1 << 5 | 1 << 8;

/// Turns faulting of `cpuid` on this thread on or off, and returns the previous setting. No effect on a CPU
/// without CPUID faulting. Async-signal-safe.
pub fn set_faulting(on: bool) -> bool {
    // SAFETY: the arguments are plain numbers.
    unsafe {
        let was_native = libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_GET);
        libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_SET, i64::from(!on));
        was_native == 0
    }
}

/// Properties of `cpuid` on this machine.
struct Properties {
    can_fault: bool,
    is_virtual: bool,
    has_rdpru: bool,
}

fn properties() -> &'static Properties {
    static PROPERTIES: OnceLock<Properties> = OnceLock::new();
    PROPERTIES.get_or_init(|| {
        // SAFETY: the arguments are plain numbers; `cpuid` executes natively until the previous setting is
        // restored.
        unsafe {
            let was_native = libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_GET);
            let can_fault = libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_SET, 1) == 0;
            let features = __cpuid_count(1, 0).ecx;
            let has_sizes = __cpuid_count(0x8000_0000, 0).eax >= LAST_EXTENDED;
            let has_rdpru = has_sizes && __cpuid_count(LAST_EXTENDED, 0).ebx & RDPRU_8_8_EBX != 0;
            libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_SET, was_native);
            Properties { can_fault, is_virtual: features & HYPERVISOR_1_ECX != 0, has_rdpru }
        }
    })
}

/// True if this machine has CPUID faulting.
pub fn can_fault() -> bool {
    properties().can_fault
}

/// True if this machine has RDPRU, which is hidden from guests.
pub fn has_rdpru() -> bool {
    properties().has_rdpru
}

/// True if `cpuid` instructions in images are to be replaced: on CPUs without CPUID faulting, and in virtual
/// machines, where each `cpuid` exits to the hypervisor before it faults (some 10 us).
pub fn is_better_replaced() -> bool {
    let Properties { can_fault, is_virtual, .. } = *properties();
    !can_fault || is_virtual
}

/// The host CPU's own `cpuid` results, read once.
fn table(worker: &mut Worker) -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        worker::set_traps_native(worker);
        native_table()
    })
}

/// Emulates a `cpuid` with EAX and ECX from `regs`.
pub fn answer(regs: &mut Regs, worker: &mut Worker) {
    let [eax, ebx, ecx, edx] = shown(table(worker), regs.rax as u32, regs.rcx as u32);
    regs.rax = u64::from(eax);
    regs.rbx = u64::from(ebx);
    regs.rcx = u64::from(ecx);
    regs.rdx = u64::from(edx);
}

/// The nonzero `cpuid` results, for the far process's own table.
pub fn answers(worker: &mut Worker) -> Vec<CpuidAnswer> {
    let table = table(worker);
    // Topology leaf 0xb is the same on every machine.
    let levels = [(0xb, 0), (0xb, 1)];
    let keys = table.keys().copied().filter(|(leaf, _)| *leaf != 0xb).chain(levels);
    let answer = |(leaf, subleaf)| CpuidAnswer { leaf, subleaf, registers: shown(table, leaf, subleaf) };
    keys.map(answer).take(MAX_CPUID).collect()
}

fn native_table() -> Table {
    let mut table = Table::new();
    for (first, last) in [(0, LAST_BASIC), (0x8000_0000, LAST_EXTENDED)] {
        let last = __cpuid_count(first, 0).eax.min(last);
        for leaf in first..=last {
            let subleaves = match leaf {
                4 => 8,
                0xd => 32,
                _ => 1,
            };
            for subleaf in 0..subleaves {
                let r = __cpuid_count(leaf, subleaf);
                table.insert((leaf, subleaf), [r.eax, r.ebx, r.ecx, r.edx]);
            }
        }
    }
    table
}

/// The baseline's result for `leaf` and `subleaf`; zeros for leaves outside the baseline.
fn shown(table: &Table, leaf: u32, subleaf: u32) -> Leaf {
    // Most leaves ignore the subleaf.
    let key = if leaf != 0xb && has_subleaves(leaf) { subleaf } else { 0 };
    let Some(&[eax, ebx, ecx, edx]) = table.get(&(leaf, key)) else { return [0; 4] };
    match leaf {
        0 => [eax.min(LAST_BASIC), ebx, ecx, edx],
        // One logical processor, APIC id 0.
        1 => [eax, ebx & 0xffff | 1 << 16, ecx & FEATURES_1_ECX, edx & FEATURES_1_EDX],
        // Caches private to one thread.
        4 => [eax & 0x3fff, ebx, ecx, edx],
        // MWAIT, thermal management, cache access, performance monitoring.
        5 | 6 | 9 | 0xa => [0; 4],
        7 => [0, ebx & FEATURES_7_EBX, ecx & FEATURES_7_ECX, edx & FEATURES_7_EDX],
        // One thread of one core: both levels hold one processor.
        0xb => match subleaf {
            0 => [0, 1, 1 << 8, 0],
            1 => [0, 1, 2 << 8 | 1, 0],
            _ => [0, 0, subleaf & 0xff, 0],
        },
        0xd if subleaf == 1 => [eax & FEATURES_D1_EAX, ebx, 0, 0],
        0x8000_0000 => [eax.min(LAST_EXTENDED), ebx, ecx, edx],
        0x8000_0001 => [eax, ebx, ecx & FEATURES_8_1_ECX, edx],
        // No invariant time-stamp counter: programs are to ask the kernel for the time.
        0x8000_0007 => [0; 4],
        // Address widths, but neither the core count nor RDPRU.
        0x8000_0008 => [eax, 0, 0, 0],
        _ => [eax, ebx, ecx, edx],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_shows_one_processor_without_clocks_or_random_numbers() {
        let table = native_table();
        let [_, ebx, ecx, edx] = shown(&table, 1, 0);
        assert_eq!(ebx >> 16, 1);
        assert_eq!(ecx & (1 << 30 | 1 << 24 | 1 << 31), 0, "RDRAND, TSC deadline, hypervisor");
        assert_ne!(ecx & (1 << 27), 0, "OSXSAVE");
        assert_ne!(ecx & (1 << 28), 0, "AVX");
        assert_eq!(edx & (1 << 28), 0, "HTT");
        let [max, ebx, ecx, _] = shown(&table, 7, 0);
        assert_eq!(max, 0);
        assert_eq!(ebx & (1 << 16 | 1 << 18 | 1 << 11 | 1), 0, "AVX-512, RDSEED, RTM, FSGSBASE");
        assert_eq!(ecx & (1 << 22), 0, "RDPID");
        assert_eq!(shown(&table, 7, 1), [0; 4]);
        assert_eq!(shown(&table, 0xb, 0)[1], 1);
        assert_eq!(shown(&table, 0x4000_0000, 0), [0; 4]);
        assert_eq!(shown(&table, 0x15, 0), [0; 4]);
        // glibc sizes its save areas by leaf 0xd, so it must match `xsavec`.
        assert_eq!(shown(&table, 0xd, 0), table[&(0xd, 0)]);
        assert_eq!(shown(&table, 0xd, 2), table[&(0xd, 2)]);
    }
}
