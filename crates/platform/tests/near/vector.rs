//! Vector and floating-point state belongs to the guest thread, regardless of the simulator's use of the
//! registers in between.

use crate::blob;
use crate::fixture::Guest;
use belljar_machine::{ContextId, GuestMemory, Platform};
use std::arch::asm;

/// Loads 32 registers of 64 bytes from RDI, calls, stores them to RSI, calls; endlessly.
fn all_registers(avx512: bool) -> &'static [u8] {
    if avx512 {
        blob!(
            zmm,
            ".fill 24, 1, 0x90",
            "2:",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "vmovups zmm\\n, [rdi + 64 * \\n]",
            ".endr",
            "kmovq k1, [rdi]",
            "kmovq k7, [rdi + 8]",
            "mov eax, 39",
            "syscall",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "vmovups [rsi + 64 * \\n], zmm\\n",
            ".endr",
            "kmovq r14, k1",
            "kmovq r15, k7",
            "vzeroall",
            "mov eax, 40",
            "syscall",
            "jmp 2b"
        )
    } else {
        blob!(
            ymm,
            ".fill 24, 1, 0x90",
            "2:",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "vmovups ymm\\n, [rdi + 64 * \\n]",
            ".endr",
            "mov eax, 39",
            "syscall",
            ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "vmovups [rsi + 64 * \\n], ymm\\n",
            ".endr",
            "vzeroupper",
            "mov eax, 40",
            "syscall",
            "jmp 2b"
        )
    }
}

/// Clobbers the registers as the simulator may between two resumes.
fn spoil(avx512: bool) {
    // SAFETY: the features have been checked; everything is declared clobbered.
    unsafe {
        if avx512 {
            asm!(
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
                "vpternlogd zmm\\n, zmm\\n, zmm\\n, 255",
                ".endr",
                "kxnorq k1, k1, k1",
                "kxnorq k7, k7, k7",
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        } else {
            asm!(
                ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vpcmpeqd ymm\\n, ymm\\n, ymm\\n",
                ".endr",
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        }
    }
}

fn survives(mut guest: Guest, avx512: bool) {
    let width = if avx512 { 64 } else { 32 };
    let registers = if avx512 { 32 } else { 16 };
    let (space, from, to) = (guest.space, guest.stack - 4096, guest.stack - 8192);
    let threads: Vec<ContextId> = (0..2).map(|_| guest.thread()).collect();
    // Cases: all registers in use, none beyond XMM, one upper half only.
    for round in 0..12u64 {
        for (index, &thread) in threads.iter().enumerate() {
            let seed = round * 2 + index as u64;
            let mut content: Vec<u8> = (0..2048u64).map(|i| ((i * 31 + seed * 7) % 251 + 1) as u8).collect();
            for (at, byte) in content.iter_mut().enumerate() {
                let (register, within) = (at / 64, at % 64);
                let kept = match round % 4 {
                    0 => true,
                    1 => register < 16 && within < 16,
                    2 => register == 5 && within >= 16,
                    _ => register == 20 || register < 2,
                };
                if !kept {
                    *byte = 0;
                }
            }
            guest.machine.write(space, from, &content).unwrap();
            guest.regs(thread).rdi = from;
            guest.regs(thread).rsi = to;
            assert_eq!(guest.syscall(thread), 39);
            spoil(avx512);
            if round % 3 == 2 {
                let (mut shown, mut again) = (Vec::new(), Vec::new());
                guest.machine.xstate(thread, &mut shown);
                for register in 0..16 {
                    let at = register * 64;
                    assert_eq!(shown[160 + register * 16..][..16], content[at..][..16], "xmm{register}");
                    assert_eq!(shown[576 + register * 16..][..16], content[at + 16..][..16], "ymm{register}");
                }
                if !avx512 {
                    guest.machine.set_xstate(thread, &shown);
                    guest.machine.xstate(thread, &mut again);
                    assert_eq!(shown, again);
                }
            }
            assert_eq!(guest.syscall(thread), 40);
            let mut out = vec![0; 2048];
            guest.machine.read(space, to, &mut out).unwrap();
            for register in 0..registers {
                let at = register * 64;
                assert_eq!(
                    out[at..at + width],
                    content[at..at + width],
                    "round {round}, register {register}"
                );
            }
            if avx512 {
                let word = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
                assert_eq!([guest.regs(thread).r14, guest.regs(thread).r15], [word(0), word(8)]);
            }
            spoil(avx512);
        }
    }
}

#[test]
fn all_of_avx_survives_trapped_and_rewritten_calls() {
    survives(Guest::anonymous(all_registers(false)), false);
    survives(Guest::new(all_registers(false)), false);
}

#[test]
fn all_of_avx512_survives_where_the_cpu_has_it() {
    if std::arch::is_x86_feature_detected!("avx512bw") {
        survives(Guest::anonymous(all_registers(true)), true);
        survives(Guest::new(all_registers(true)), true);
    }
}

/// With 1 in RDI fills registers of AVX-512, else stores one of each kind to RSI and the in-use mask to RSI +
/// 128; calls; endlessly.
fn fills_or_looks() -> &'static [u8] {
    blob!(
        fills_or_looks,
        ".fill 24, 1, 0x90",
        "2:",
        "cmp rdi, 1",
        "jne 3f",
        ".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vpternlogd zmm\\n, zmm\\n, zmm\\n, 255",
        ".endr",
        "kxnorq k1, k1, k1",
        "jmp 4f",
        "3:",
        "mov ecx, 1",
        "xgetbv",
        "mov [rsi + 128], rax",
        "vmovups [rsi], zmm20",
        "kmovq r14, k1",
        "mov [rsi + 64], r14",
        "4:",
        "mov eax, 39",
        "syscall",
        "jmp 2b"
    )
}

#[test]
fn what_one_guest_leaves_in_registers_the_next_does_not_find() {
    if !std::arch::is_x86_feature_detected!("avx512bw") {
        return;
    }
    // Once more in a new process with a C library that avoids these registers: then the CPU is not queried.
    let tunables = "GLIBC_TUNABLES";
    if std::env::var_os(tunables).is_none() {
        let this = "vector::what_one_guest_leaves_in_registers_the_next_does_not_find";
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this])
            .env(tunables, "glibc.cpu.hwcaps=-AVX512F,-AVX512VL")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{said}");
    }
    for make in [Guest::anonymous, Guest::new] {
        let mut guest = make(fills_or_looks());
        let (space, to) = (guest.space, guest.stack - 8192);
        let (fills, looks) = (guest.thread(), guest.thread());
        guest.regs(fills).rdi = 1;
        guest.regs(looks).rdi = 0;
        guest.regs(looks).rsi = to;
        // By traps at first, then by a stub if the site can be rewritten.
        for round in 0..6 {
            assert_eq!(guest.syscall(fills), 39);
            for _ in 0..2 {
                guest.machine.write(space, to, &[0x55; 136]).unwrap();
                assert_eq!(guest.syscall(looks), 39);
                let mut found = [0; 136];
                guest.machine.read(space, to, &mut found).unwrap();
                assert_eq!(found[..72], [0; 72], "round {round}: registers");
                let in_use = found[128];
                // Mask registers, and vector registers above 15.
                assert_eq!(in_use & 0xa0, 0, "round {round}: {in_use:#x}");
            }
        }
    }
}

#[test]
fn rounding_modes_and_the_x87_stack_survive() {
    for as_file in [false, true] {
        let code = blob!(
            x87,
            ".fill 24, 1, 0x90",
            "2:",
            "fld1",
            "fadd st(0), st(0)",
            "fld1",
            "fldcw [rdi]",
            "ldmxcsr [rdi + 4]",
            "mov eax, 39",
            "syscall",
            "fstp qword ptr [rsp - 8]",
            "fstp qword ptr [rsp - 16]",
            "fstcw [rsp - 24]",
            "stmxcsr [rsp - 32]",
            "mov eax, 40",
            "syscall",
            "jmp 2b"
        );
        let mut guest = if as_file { Guest::new(code) } else { Guest::anonymous(code) };
        let (thread, space, at) = (guest.thread(), guest.space, guest.stack - 4096);
        // x87 rounds up, SSE down.
        guest.machine.write(space, at, &[0x7f, 0x0b, 0, 0, 0x80, 0x3f, 0, 0]).unwrap();
        guest.regs(thread).rdi = at;
        for _ in 0..5 {
            assert_eq!(guest.syscall(thread), 39);
            let third = std::hint::black_box(1.0f64) / std::hint::black_box(3.0);
            assert_eq!(third.to_bits(), 0x3fd5_5555_5555_5555, "the simulator rounds to nearest");
            assert_eq!(guest.syscall(thread), 40);
            assert_eq!(f64::from_bits(guest.read_u64(guest.stack - 8)), 1.0);
            assert_eq!(f64::from_bits(guest.read_u64(guest.stack - 16)), 2.0);
            assert_eq!(guest.read_u64(guest.stack - 24) as u16, 0xb7f);
            assert_eq!(guest.read_u64(guest.stack - 32) as u32 & !0x3f, 0x3f80);
        }
    }
}

#[test]
fn state_from_a_signal_frame_is_repaired_before_the_cpu_sees_it() {
    let mut guest = Guest::new(blob!(
        frame,
        "2:",
        "xor eax, eax",
        "syscall",
        "vmovups [rsp - 32], ymm3",
        "stmxcsr [rsp - 40]",
        "jmp 2b"
    ));
    let thread = guest.thread();
    guest.syscall(thread);
    let mut state = Vec::new();
    guest.machine.xstate(thread, &mut state);
    assert_eq!(state.len(), 832);
    assert_eq!(state[24..32], [0x80, 0x1f, 0, 0, 0xff, 0xff, 0, 0]);
    state[160 + 48..][..16].fill(0x11);
    state[576 + 48..][..16].fill(0x22);
    // Reserved MXCSR bits, components that do not exist, reserved header bytes, compacted form.
    state[24..28].fill(0xff);
    state[512..576].fill(0xff);
    guest.machine.set_xstate(thread, &state);
    guest.syscall(thread);
    assert_eq!(guest.read_u64(guest.stack - 32), 0x1111_1111_1111_1111);
    assert_eq!(guest.read_u64(guest.stack - 16), 0x2222_2222_2222_2222);
    assert_eq!(guest.read_u64(guest.stack - 40) as u32, 0xffff);
    // A plain FXSAVE image: the upper halves become zero.
    state[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
    guest.machine.set_xstate(thread, &state[..512]);
    guest.syscall(thread);
    assert_eq!(guest.read_u64(guest.stack - 32), 0x1111_1111_1111_1111);
    assert_eq!(guest.read_u64(guest.stack - 16), 0);
    assert_eq!(guest.read_u64(guest.stack - 40) as u32, 0x1f80);
    for len in [0, 1, 100, 600] {
        guest.machine.set_xstate(thread, &vec![0xff; len]);
        guest.syscall(thread);
    }
}
