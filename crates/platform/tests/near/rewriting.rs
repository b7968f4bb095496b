//! Rewritten call sites, which must be invisible to guests.

use crate::blob;
use crate::fixture::Guest;
use belljar_machine::{Exit, Platform};

/// Runs `code` as file text and as anonymous text and compares every exit. `first` is the first byte of the
/// site, which must have become a jump only in the file text.
fn compare(code: &[u8], rounds: usize, first: u64) {
    let (mut rewritten, mut trapping) = (Guest::new(code), Guest::anonymous(code));
    let (a, b) = (rewritten.thread(), trapping.thread());
    for round in 0..rounds {
        assert_eq!(rewritten.machine.resume(a), trapping.machine.resume(b), "round {round}");
        assert_eq!(rewritten.relative_regs(a), trapping.relative_regs(b), "round {round}");
        let (mut x, mut y) = (Vec::new(), Vec::new());
        rewritten.machine.xstate(a, &mut x);
        trapping.machine.xstate(b, &mut y);
        assert_eq!(x.len(), 832);
        assert_eq!(x, y, "round {round}");
        let result = (round as u64).wrapping_sub(3);
        rewritten.regs(a).rax = result;
        trapping.regs(b).rax = result;
    }
    assert_eq!(rewritten.text_bytes(first, 1), [0xe9]);
    assert_ne!(trapping.text_bytes(first, 1), [0xe9]);
}

#[test]
fn form_a_is_told_apart_by_nothing() {
    compare(
        blob!(
            form_a,
            ".fill 24, 1, 0x90",
            "2:",
            "inc rbx",
            "movq xmm1, rbx",
            "mov r11, 5",
            "cmp rbx, 3",
            "mov eax, 39",
            "syscall",
            "pushfq",
            "pop r12",
            "mov r13, rax",
            "add r14, r13",
            "jmp 2b"
        ),
        8,
        24 + 3 + 5 + 7 + 4,
    );
}

#[test]
fn form_a_takes_the_long_mov_of_go() {
    compare(
        blob!(
            form_a_long,
            ".fill 24, 1, 0x90",
            "2:",
            ".byte 0x48, 0xc7, 0xc0, 39, 0, 0, 0",
            "syscall",
            "add r14, rax",
            "jmp 2b"
        ),
        8,
        24,
    );
}

#[test]
fn form_b_is_told_apart_by_nothing() {
    compare(
        blob!(
            form_b,
            "2:",
            "inc rbx",
            "mov eax, ebx",
            "vpbroadcastb ymm3, xmm2",
            "syscall",
            "cmp rax, -4096",
            "ja 3f",
            "inc r12",
            "jmp 2b",
            "3:",
            "inc r13",
            "jmp 2b"
        ),
        10,
        3 + 2 + 5,
    );
}

#[test]
fn form_b_moves_what_depends_on_its_place() {
    compare(
        blob!(
            form_b_relative,
            "2:",
            "inc rbx",
            "mov eax, ebx",
            "syscall",
            "mov r12, [rip + 4f]",
            "mov eax, ebx",
            "syscall",
            "js 3f",
            "mov r13, [rip + 4f]",
            "jmp 2b",
            "3:",
            "dec r15",
            "jmp 2b",
            "4: .quad 0x1122334455667788"
        ),
        12,
        5,
    );
}

#[test]
fn form_b_is_not_taken_where_a_branch_leads_behind_the_call() {
    let mut guest = Guest::new(blob!(
        into_b,
        "mov eax, ebx",
        "syscall",
        "3:",
        "cmp rax, -4096",
        "inc rbx",
        "test rbx, 1",
        "jnz 3b",
        "jmp belljar_test_into_b"
    ));
    let thread = guest.thread();
    for _ in 0..6 {
        guest.syscall(thread);
    }
    assert_eq!(guest.text_bytes(2, 2), [0x0f, 0x05]);
}

#[test]
fn a_jump_to_the_call_of_form_a_traps() {
    let mut guest = Guest::new(blob!(
        jump_to_call,
        ".fill 24, 1, 0x90",
        "2:",
        "mov eax, 39",
        "3:",
        "syscall",
        "mov eax, 40",
        "test rbx, rbx",
        "jz 2b",
        "jmp 3b"
    ));
    let thread = guest.thread();
    for _ in 0..4 {
        assert_eq!(guest.syscall(thread), 39);
    }
    assert_eq!(guest.text_bytes(24, 1), [0xe9]);
    guest.regs(thread).rbx = 1;
    for _ in 0..4 {
        assert_eq!(guest.syscall(thread), 40);
        assert_eq!(guest.relative_regs(thread).rip, 31);
    }
    assert_eq!(guest.text_bytes(29, 2), [0x0f, 0x05]);
}

#[test]
fn returns_from_signals_are_left_for_unwinders() {
    let mut guest =
        Guest::new(blob!(restorer, "2:", ".byte 0x48, 0xc7, 0xc0, 15, 0, 0, 0", "syscall", "jmp 2b"));
    let thread = guest.thread();
    for _ in 0..4 {
        assert_eq!(guest.syscall(thread), 15);
    }
    assert_eq!(guest.text_bytes(0, 9), [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05]);
}

/// Single steps stop a thread at every address at which it can be interrupted: none of them is in a stub, and
/// the thread resumes correctly from each.
#[test]
fn single_steps_see_no_stub() {
    let code = blob!(
        steps,
        ".fill 24, 1, 0x90",
        "2:",
        "mov eax, 39",
        "syscall",
        "lea eax, [rbx + 1]",
        "syscall",
        "lea r12, [rax + 1]",
        "inc rbx",
        "jmp 2b"
    );
    let mut guest = Guest::new(code);
    let thread = guest.thread();
    let mut calls = Vec::new();
    let mut step = |guest: &mut Guest| {
        calls.extend(guest.step_or_answer(thread));
        let rip = guest.relative_regs(thread).rip;
        assert!(rip <= code.len() as u64, "at {rip:#x}");
    };
    for _ in 0..200 {
        step(&mut guest);
    }
    assert_eq!(guest.text_bytes(24, 1), [0xe9]);
    assert_eq!(guest.text_bytes(34, 1), [0xe9]);
    assert!(calls.len() > 10);
    for (index, pair) in calls.chunks_exact(2).enumerate() {
        assert_eq!(pair, [39, index as u64 + 1]);
    }
}

#[test]
fn a_thread_may_go_on_behind_a_call_that_was_rewritten_meanwhile() {
    let code =
        blob!(behind, "2:", "mov eax, ebx", "syscall", "lea r12, [rax + 1]", "xchg rbx, r12", "jmp 2b");
    let mut guest = Guest::new(code);
    let (early, late) = (guest.thread(), guest.thread());
    guest.syscall(early);
    for _ in 0..3 {
        guest.syscall(late);
    }
    assert_eq!(guest.text_bytes(2, 1), [0xe9]);
    guest.regs(early).rax = 41;
    assert_eq!(guest.syscall(early), 42);
    // A copy, like a new thread, and a return to the address saved in a signal frame.
    let copy = guest.machine.copy_context(late, guest.space);
    guest.regs(copy).rax = 50;
    assert_eq!(guest.syscall(copy), 51);
    let again = guest.thread();
    guest.regs(again).rip = guest.text + 4;
    guest.regs(again).rax = 60;
    assert_eq!(guest.syscall(again), 61);
    // Linux restarts a call by moving RIP back to its instruction.
    guest.regs(again).rip -= 2;
    guest.regs(again).rax = 99;
    assert_eq!(guest.syscall(again), 99);
}

#[test]
fn text_that_is_dropped_or_replaced_starts_anew() {
    let code = blob!(anew, "2:", "mov eax, ebx", "syscall", "lea rbx, [rax + 1]", "jmp 2b");
    let mut guest = Guest::new(code);
    let thread = guest.thread();
    for turn in 0..3 {
        for _ in 0..4 {
            guest.syscall(thread);
            guest.regs(thread).rax = 9;
        }
        assert_eq!(guest.text_bytes(2, 1), [0xe9], "turn {turn}");
        guest.machine.advise(guest.space, guest.text, 4096, libc::MADV_DONTNEED).unwrap();
        assert_eq!(guest.text_bytes(2, 2), [0x0f, 0x05], "turn {turn}");
    }
}

#[test]
fn a_guest_that_spoils_gs_still_makes_its_calls() {
    let mut guest = Guest::new(blob!(
        gs,
        ".fill 24, 1, 0x90",
        "2:",
        "mov eax, 39",
        "syscall",
        "xor ecx, ecx",
        "wrgsbase rcx",
        "jmp 2b"
    ));
    let thread = guest.thread();
    for _ in 0..6 {
        assert_eq!(guest.syscall(thread), 39);
        assert_eq!(guest.relative_regs(thread).rip, 31);
    }
    assert_eq!(guest.text_bytes(24, 1), [0xe9]);
}

#[test]
fn fixed_images_are_rewritten_too() {
    use belljar_machine::{Backing, GuestMemory, HostFiles, OpenHow, Prot, Regs};
    let code = blob!(fixed, ".fill 24, 1, 0x90", "2:", "mov eax, 39", "syscall", "jmp 2b");
    let mut guest = Guest::new(code);
    let path = std::env::temp_dir().join(format!("belljar-near-fixed-{}", std::process::id()));
    let m = &mut guest.machine;
    let how = OpenHow { write: true, create: Some(0o600), exclusive: true, truncate: false };
    let file = m.open(&path, how).unwrap();
    m.remove_file(&path).unwrap();
    m.write_at(file, 0, code).unwrap();
    m.set_len(file, 4096).unwrap();
    let at = 0x6a40_0000;
    m.claim_fixed(guest.space, at..at + 0x1000).unwrap();
    m.map(guest.space, at, 4096, Prot::READ | Prot::EXEC, Backing::PrivateFile { file, offset: 0 }).unwrap();
    m.close(file);
    let thread = m.create_context(guest.space, &Regs { rip: at, rsp: guest.stack, ..Regs::default() });
    for _ in 0..4 {
        assert_eq!(guest.syscall(thread), 39);
        assert_eq!(guest.regs(thread).rip, at + 31);
    }
    let mut first = [0];
    guest.machine.read(guest.space, at + 24, &mut first).unwrap();
    assert_eq!(first, [0xe9]);
}

#[test]
fn the_vdso_makes_system_calls_and_is_rewritten() {
    use belljar_machine::{GuestMemory, Regs};
    let mut guest = Guest::new(blob!(vdso, "2:", "call r15", "jmp 2b"));
    let at = guest.text + (1 << 20);
    assert_eq!(guest.machine.map_vdso(guest.space, at), Ok(4096));
    // Address of the first function, as found by the C library's loader (see the unit test).
    let regs = Regs { rip: guest.text, rsp: guest.stack, r15: at + 0x800, ..Regs::default() };
    let thread = guest.machine.create_context(guest.space, &regs);
    for _ in 0..4 {
        assert_eq!(guest.syscall(thread), libc::SYS_clock_gettime as u64);
        assert_eq!(guest.regs(thread).rip, at + 0x807);
    }
    let mut first = [0];
    guest.machine.read(guest.space, at + 0x800, &mut first).unwrap();
    assert_eq!(first, [0xe9]);
}

#[test]
fn a_fault_in_what_was_displaced_is_told_where_it_was() {
    let code =
        blob!(displaced_fault, "2:", "mov eax, ebx", "syscall", "mov r12, [rax]", "nop", "inc r13", "jmp 2b");
    let mut guest = Guest::new(code);
    let thread = guest.thread();
    for _ in 0..5 {
        guest.syscall(thread);
        guest.regs(thread).rax = guest.stack - 8;
    }
    assert_eq!(guest.text_bytes(2, 1), [0xe9]);
    guest.regs(thread).rax = 0x18;
    let Exit::Fault(fault) = guest.machine.resume(thread) else { panic!("no fault") };
    assert_eq!((fault.signal, fault.addr), (libc::SIGSEGV, 0x18));
    assert_eq!(guest.relative_regs(thread).rip, 4);
    // Handlers of a JVM or of Go repair the fault and resume at the same instruction, or behind it.
    guest.regs(thread).rax = guest.stack - 8;
    guest.syscall(thread);
    assert_eq!(guest.regs(thread).r13, 5);
    guest.regs(thread).rip += 3;
    guest.syscall(thread);
    assert_eq!(guest.regs(thread).r13, 6);
}
