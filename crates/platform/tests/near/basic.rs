//! System calls, faults, preemption and memory, without rewriting.

use crate::blob;
use crate::fixture::{Guest, STACK};
use belljar_linux_abi::Errno;
use belljar_machine::{Backing, Exit, GuestMemory, Platform, Prot, Regs};

#[test]
fn a_system_call_comes_back_with_its_arguments_and_takes_a_result() {
    let mut guest = Guest::new(blob!(
        call,
        "mov rdi, 11",
        "mov rsi, 12",
        "mov rdx, 13",
        "mov r10, 14",
        "mov r8, 15",
        "mov r9, 16",
        "mov rbx, 0x1122334455667788",
        "xor eax, eax",
        "mov al, 39",
        "stc",
        "syscall",
        "setc cl",
        "movzx ecx, cl",
        "push rcx",
        "mov rdi, rax",
        "xor eax, eax",
        "mov al, 60",
        "syscall",
    ));
    let thread = guest.thread();
    assert_eq!(guest.syscall(thread), 39);
    let regs = *guest.regs(thread);
    assert_eq!([regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9], [11, 12, 13, 14, 15, 16]);
    assert_eq!(regs.rcx, regs.rip);
    assert_eq!(regs.r11, regs.rflags);
    assert_eq!(regs.rflags & 1, 1, "carry is set");
    assert_eq!(regs.rbx, 0x1122_3344_5566_7788);
    guest.regs(thread).rax = 4711;
    assert_eq!(guest.syscall(thread), 60);
    assert_eq!(guest.regs(thread).rdi, 4711);
    assert_eq!(guest.read_u64(guest.stack - 8), 1, "carry survives the call");
}

#[test]
fn int_0x80_is_told_apart() {
    let mut guest = Guest::new(blob!(compat, "mov eax, 20", "int 0x80", "ud2"));
    let text = guest.text;
    let thread = guest.thread();
    assert_eq!(guest.machine.resume(thread), Exit::CompatSyscall);
    assert_eq!(guest.regs(thread).rax, 20);
    assert_eq!(guest.regs(thread).rip - 7, text);
}

#[test]
fn faults_say_what_a_signal_frame_must() {
    let mut guest = Guest::new(blob!(
        faults,
        "mov rax, [0x10]",
        "nop",
        "ud2",
        "xor ecx, ecx",
        "xor edx, edx",
        "div ecx",
        "int3",
        "mov byte ptr [rip + belljar_test_faults], 1",
    ));
    let thread = guest.thread();
    let mut fault = |expected_offset: u64, skip: u64| {
        let Exit::Fault(fault) = guest.machine.resume(thread) else { panic!("no fault") };
        assert_eq!(guest.regs(thread).rip - guest.text, expected_offset);
        guest.regs(thread).rip += skip;
        fault
    };
    let null = fault(0, 8);
    assert_eq!((null.signal, null.code, null.addr, null.trapno, null.error_code), (11, 1, 0x10, 14, 4));
    assert_eq!(fault(9, 2).signal, libc::SIGILL);
    assert_eq!(fault(15, 2).signal, libc::SIGFPE);
    assert_eq!(fault(18, 0).signal, libc::SIGTRAP);
    let text = fault(18, 0);
    assert_eq!((text.signal, text.code, text.error_code), (libc::SIGSEGV, 2, 7));
    assert_eq!(text.addr, guest.text);
}

#[test]
fn addresses_that_are_no_code_fault_before_the_cpu_sees_them() {
    let mut guest = Guest::new(blob!(nowhere, "nop"));
    for (rip, addr) in
        [(0, 0), (0x7000_0000_0000, 0x7000_0000_0000), (1 << 60, 0), (guest.stack + 8192, guest.stack + 8192)]
    {
        let thread = guest.thread();
        guest.regs(thread).rip = rip;
        let Exit::Fault(fault) = guest.machine.resume(thread) else { panic!("no fault") };
        assert_eq!((fault.signal, fault.addr), (libc::SIGSEGV, addr), "{rip:#x}");
        assert_eq!(guest.regs(thread).rip, rip);
    }
}

#[test]
fn a_jump_to_nowhere_faults_there() {
    let mut guest = Guest::new(blob!(wild, "jmp rax"));
    // Unmapped addresses, and this thread's stack, which is not executable.
    let local = 0u8;
    for target in [0, 0x7000_0000_0000, &raw const local as u64] {
        let thread = guest.thread();
        guest.regs(thread).rax = target;
        let Exit::Fault(fault) = guest.machine.resume(thread) else { panic!("no fault") };
        assert_eq!((fault.signal, fault.addr, guest.regs(thread).rip), (libc::SIGSEGV, target, target));
    }
}

#[test]
fn a_thread_that_a_worker_starts_reads_clocks() {
    let mut guest = Guest::new(blob!(starts, "2:", "xor eax, eax", "syscall", "jmp 2b"));
    let thread = guest.thread();
    guest.syscall(thread);
    std::thread::spawn(|| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` outlives the call.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
        assert!(now.tv_sec + now.tv_nsec > 0);
    })
    .join()
    .unwrap();
    guest.syscall(thread);
}

#[test]
fn the_time_stamp_counter_is_the_kernels() {
    let mut guest = Guest::new(blob!(
        tsc,
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov rbx, rax",
        "rdtscp",
        "mov r12, rcx",
        "xor eax, eax",
        "syscall"
    ));
    let thread = guest.thread();
    assert_eq!(guest.machine.resume(thread), Exit::ReadTsc { aux: false });
    guest.regs(thread).rax = 0x1234;
    guest.regs(thread).rdx = 0x5;
    assert_eq!(guest.machine.resume(thread), Exit::ReadTsc { aux: true });
    guest.regs(thread).rcx = 7;
    guest.syscall(thread);
    assert_eq!(guest.regs(thread).rbx, 0x5_0000_1234);
    assert_eq!(guest.regs(thread).r12, 7);
}

#[test]
fn the_simulator_may_read_its_own_clock_between_resumes() {
    let mut guest = Guest::new(blob!(clock, "2:", "xor eax, eax", "syscall", "rdtsc", "jmp 2b"));
    let thread = guest.thread();
    for _ in 0..3 {
        guest.syscall(thread);
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` outlives the call.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) }, 0);
        assert!(now.tv_sec + now.tv_nsec > 0);
        assert_eq!(guest.machine.resume(thread), Exit::ReadTsc { aux: false });
    }
}

#[test]
fn a_spinning_guest_is_preempted_and_goes_on_with_every_register() {
    let mut guest = Guest::new(blob!(
        spin,
        "mov rcx, 0x1111",
        "mov r11, 0x2222",
        "mov rax, 0x3333",
        "movq xmm3, rax",
        "2:",
        "inc rbx",
        "cmp qword ptr [rsp - 64], 0",
        "je 2b",
        "movq r12, xmm3",
        "mov r13, rcx",
        "mov r14, r11",
        "mov r15, rax",
        "syscall",
    ));
    let thread = guest.thread();
    let mut turns = 0;
    for _ in 0..2 {
        assert_eq!(guest.machine.resume(thread), Exit::Preempted);
        let now = guest.regs(thread).rbx;
        assert!(now > turns);
        turns = now;
    }
    let (space, flag) = (guest.space, guest.stack - 64);
    guest.machine.write(space, flag, &1u64.to_le_bytes()).unwrap();
    guest.syscall(thread);
    let regs = *guest.regs(thread);
    assert_eq!([regs.r12, regs.r13, regs.r14, regs.r15], [0x3333, 0x1111, 0x2222, 0x3333]);
}

#[test]
fn each_thread_has_its_own_fs_and_the_simulator_keeps_its() {
    let mut guest = Guest::new(blob!(tls, "2:", "mov rbx, fs:[0]", "xor eax, eax", "syscall", "jmp 2b"));
    let (space, base) = (guest.space, guest.stack - STACK);
    let threads = [guest.thread(), guest.thread()];
    for (n, &thread) in threads.iter().enumerate() {
        let at = base + n as u64 * 64;
        guest.machine.write(space, at, &(n as u64 + 100).to_le_bytes()).unwrap();
        guest.regs(thread).fs_base = at;
    }
    for _ in 0..3 {
        for (n, &thread) in threads.iter().enumerate() {
            guest.syscall(thread);
            assert_eq!(guest.regs(thread).rbx, n as u64 + 100);
            assert_eq!(guest.regs(thread).fs_base, base + n as u64 * 64);
        }
        // Thread-local state of the simulator itself is intact.
        assert!(std::thread::current().name().is_some());
    }
}

#[test]
fn memory_that_is_not_there_is_efault() {
    let mut guest = Guest::new(blob!(memory, "nop"));
    let (space, range) = (guest.space, guest.machine.space_range(guest.space));
    let stack = guest.stack;
    let m = &mut guest.machine;
    let mut out = [0u8; 600];
    for len in [1, 4, 8, 16, 40, 600] {
        assert_eq!(m.read(space, range.start + (1 << 20), &mut out[..len]), Err(Errno::EFAULT));
        assert_eq!(m.write(space, stack - 1, &out[..len.max(2)]), Err(Errno::EFAULT));
        assert_eq!(m.write(space, range.start, &out[..len]), Err(Errno::EFAULT), "text is read-only");
        m.write(space, stack - len as u64, &out[..len]).unwrap();
    }
    assert_eq!(m.read(space, range.end - 8, &mut out[..16]), Err(Errno::EFAULT));
    assert_eq!(m.read(space, u64::MAX - 3, &mut out[..16]), Err(Errno::EFAULT));
    assert_eq!(m.read(space, &raw const *m as u64, &mut out[..16]), Err(Errno::EFAULT));
    assert_eq!(m.compare_exchange_u32(space, range.start + (1 << 20), 0, 1), Err(Errno::EFAULT));
    assert_eq!(m.compare_exchange_u32(space, stack - 6, 0, 1), Err(Errno::EINVAL));
    assert_eq!(m.compare_exchange_u32(space, stack - 8, 0, 1), Ok(0));
    assert_eq!(m.compare_exchange_u32(space, stack - 8, 0, 2), Ok(1));
    assert_eq!(guest.read_u64(stack - 8) as u32, 1);
}

#[test]
fn mappings_move_and_change_and_go() {
    let mut guest = Guest::new(blob!(maps, "nop"));
    let (space, at) = (guest.space, guest.text + (16 << 20));
    let m = &mut guest.machine;
    let rw = Prot::READ | Prot::WRITE;
    m.map(space, at, 8192, rw, Backing::Anonymous).unwrap();
    m.write(space, at, b"content").unwrap();
    m.relocate(space, at, 8192, at + (1 << 20), 16384).unwrap();
    let mut out = [0; 7];
    assert_eq!(m.read(space, at, &mut out), Err(Errno::EFAULT));
    m.read(space, at + (1 << 20), &mut out).unwrap();
    assert_eq!(&out, b"content");
    m.write(space, at + (1 << 20) + 12288, b"grown").unwrap();
    m.protect(space, at + (1 << 20), 4096, Prot::READ).unwrap();
    assert_eq!(m.write(space, at + (1 << 20), b"x"), Err(Errno::EFAULT));
    m.advise(space, at + (1 << 20), 4096, libc::MADV_DONTNEED).unwrap();
    m.read(space, at + (1 << 20), &mut out).unwrap();
    assert_eq!(out, [0; 7]);
    m.unmap(space, at + (1 << 20), 16384).unwrap();
    assert_eq!(m.read(space, at + (1 << 20), &mut out), Err(Errno::EFAULT));
    assert_eq!(m.map(space, 0x6000_0000_0000, 4096, rw, Backing::Anonymous), Err(Errno::ENOMEM));
    assert_eq!(m.map(space, at + 1, 4096, rw, Backing::Anonymous), Err(Errno::EINVAL));
}

#[test]
fn fixed_addresses_belong_to_one_space_at_a_time() {
    let (mut a, mut b) = (Guest::new(blob!(fixed_a, "nop")), Guest::new(blob!(fixed_b, "nop")));
    let range = 0x5a40_0000..0x5a50_0000;
    a.machine.claim_fixed(a.space, range.clone()).unwrap();
    a.machine.claim_fixed(a.space, 0x5a50_0000..0x5a60_0000).unwrap();
    // The space becomes far: the addresses are free in a process of its own.
    b.machine.claim_fixed(b.space, 0x5a4f_f000..0x5a70_0000).unwrap();
    assert_eq!(a.machine.claim_fixed(a.space, 0x5670_0000_0000..0x5670_0000_1000), Err(Errno::EINVAL));
    a.machine.map(a.space, 0x5a4f_f000, 8192, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
    a.machine.write(a.space, 0x5a4f_fff0, &[1; 64]).unwrap();
    a.machine.destroy_space(a.space);
    b.machine.claim_fixed(b.space, range).unwrap();
    let mut out = [0];
    assert_eq!(b.machine.read(b.space, 0x5a4f_fff0, &mut out), Err(Errno::EFAULT));
}

#[test]
fn two_workers_run_guests_at_the_same_time() {
    let code = blob!(
        count,
        "2:",
        "inc rbx",
        "movq xmm7, rbx",
        "xor eax, eax",
        "mov al, 39",
        "syscall",
        "cmp rax, rbx",
        "jne 3f",
        "movq rcx, xmm7",
        "cmp rcx, rbx",
        "je 2b",
        "3: ud2"
    );
    let workers: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(move || {
                let mut guest = Guest::new(code);
                let thread = guest.thread();
                for n in 1..=50_000 {
                    assert_eq!(guest.syscall(thread), 39);
                    let regs = guest.regs(thread);
                    assert_eq!(regs.rbx, n);
                    regs.rax = n;
                }
                guest
            })
        })
        .collect();
    // A machine moves to another worker between resumes.
    for worker in workers {
        let mut guest = worker.join().unwrap();
        let regs = Regs { rip: guest.text, rsp: guest.stack, ..Regs::default() };
        let thread = guest.machine.create_context(guest.space, &regs);
        assert_eq!(guest.syscall(thread), 39);
    }
}
