//! Guests of a few instructions in native processes of their own, and forks of near and far guests.
#![allow(unsafe_code, missing_docs)]

#[path = "../near/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use belljar_linux_abi::Errno;
use belljar_machine::{Backing, ContextId, Exit, GuestMemory, HostFiles, Placement, Platform, Prot, SpaceId};
use fixture::Guest;

const BOTH: [Placement; 2] = [Placement::Near, Placement::Far];
const READ_WRITE: Prot = Prot::READ.union(Prot::WRITE);

/// Address at which a test may map freely.
fn room(guest: &Guest) -> u64 {
    guest.machine.space_range(guest.space).start + (1 << 20)
}

/// A copy of the thread in a fork of the guest.
fn fork(guest: &mut Guest, thread: ContextId) -> (SpaceId, ContextId) {
    let space = guest.machine.fork_space(guest.space).unwrap();
    (space, guest.machine.copy_context(thread, space))
}

#[test]
fn calls_have_the_same_registers_near_and_far() {
    // Rewritten after the second trap; RAX holds the kernel's answer, RBX a counter.
    let blob = blob!(
        registers,
        ".fill 24, 1, 0x90",
        "xor ebx, ebx",
        "2:",
        "mov edi, 7",
        "mov eax, 39",
        "syscall",
        "cmp rax, -4095",
        "add rbx, rax",
        "jmp 2b"
    );
    let mut seen = Vec::new();
    for placement in BOTH {
        let mut guest = Guest::placed(blob, placement);
        let thread = guest.thread();
        let exits: Vec<_> = (0..6)
            .map(|_| {
                assert_eq!(guest.machine.resume(thread), Exit::Syscall);
                guest.regs(thread).rax = 5;
                guest.relative_regs(thread)
            })
            .collect();
        assert_eq!(exits[5].rbx, 25);
        seen.push(exits);
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn faults_ticks_and_clocks_come_back() {
    let mut guest = Guest::placed(blob!(tsc, "rdtsc", "mov rax, [0x10]"), Placement::Far);
    let thread = guest.thread();
    assert_eq!(guest.machine.resume(thread), Exit::ReadTsc { aux: false });
    match guest.machine.resume(thread) {
        Exit::Fault(fault) => assert_eq!((fault.signal, fault.addr), (libc::SIGSEGV, 0x10)),
        other => panic!("{other:?}"),
    }
    let mut guest = Guest::placed(blob!(spin, "2: jmp 2b"), Placement::Far);
    let thread = guest.thread();
    assert_eq!(guest.machine.resume(thread), Exit::Preempted);
}

#[test]
fn vector_state_survives_an_exit() {
    let blob = blob!(
        vector,
        ".fill 24, 1, 0x90",
        "mov rax, 0x1122334455667788",
        "movq xmm3, rax",
        "pinsrq xmm3, rax, 1",
        "vinsertf128 ymm3, ymm3, xmm3, 1",
        "2:",
        "mov eax, 39",
        "syscall",
        "vextractf128 xmm4, ymm3, 1",
        "movq rdi, xmm4",
        "jmp 2b"
    );
    let mut guest = Guest::placed(blob, Placement::Far);
    let thread = guest.thread();
    for _ in 0..5 {
        guest.syscall(thread);
    }
    assert_eq!(guest.regs(thread).rdi, 0x1122_3344_5566_7788);
}

#[test]
fn a_fork_has_its_own_memory_and_goes_on_where_its_parent_was() {
    let blob = blob!(
        forked,
        ".fill 24, 1, 0x90",
        "2:",
        "inc qword ptr [rsp - 64]",
        "mov rdi, [rsp - 64]",
        "mov eax, 57",
        "syscall",
        "jmp 2b"
    );
    for placement in BOTH {
        let mut guest = Guest::placed(blob, placement);
        let thread = guest.thread();
        for _ in 0..4 {
            guest.syscall(thread);
        }
        let (space, child) = fork(&mut guest, thread);
        for _ in 0..3 {
            assert_eq!(guest.machine.resume(child), Exit::Syscall);
        }
        let in_child = *guest.machine.regs(child);
        assert_eq!(in_child.rdi, 7, "{placement:?}");
        assert_eq!(guest.syscall(thread), 57);
        let in_parent = *guest.regs(thread);
        assert_eq!(in_parent.rdi, 5, "{placement:?}");
        assert_eq!(in_parent.rip, in_child.rip);
        // A fork of the fork.
        let grandchild_space = guest.machine.fork_space(space).unwrap();
        let grandchild = guest.machine.copy_context(child, grandchild_space);
        guest.machine.destroy_context(child);
        guest.machine.destroy_space(space);
        assert_eq!(guest.machine.resume(grandchild), Exit::Syscall);
        assert_eq!(guest.machine.regs(grandchild).rdi, 8);
    }
}

#[test]
fn a_fork_shares_what_is_shared_and_copies_the_rest() {
    let blob = blob!(nothing, "syscall");
    for placement in BOTH {
        let mut guest = Guest::placed(blob, placement);
        let at = room(&guest);
        let space = guest.space;
        let machine = &mut guest.machine;
        let file = machine.shared_memory(8192).unwrap();
        machine.map(space, at, 8192, READ_WRITE, Backing::SharedFile { file, offset: 0 }).unwrap();
        machine.close(file);
        let private = at + 0x10_0000;
        machine.map(space, private, 3 * 4096, READ_WRITE, Backing::Anonymous).unwrap();
        machine.write(space, private + 4096, b"kept").unwrap();
        machine.protect(space, private, 3 * 4096, Prot::empty()).unwrap();
        machine.unmap(space, at, 4096).unwrap();

        let child = machine.fork_space(space).unwrap();
        machine.write(space, at + 4096, b"seen").unwrap();
        let mut bytes = [0; 4];
        machine.read(child, at + 4096, &mut bytes).unwrap();
        assert_eq!(&bytes, b"seen", "{placement:?}");
        assert_eq!(machine.read(child, at, &mut bytes), Err(Errno::EFAULT));
        machine.protect(child, private, 3 * 4096, Prot::READ).unwrap();
        machine.read(child, private + 4096, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept", "{placement:?}");
        assert_eq!(machine.write(child, private, b"no"), Err(Errno::EFAULT));
        assert_eq!(machine.compare_exchange_u32(child, at + 4096, 1, 2), Ok(u32::from_le_bytes(*b"seen")));
    }
}

#[test]
fn mappings_move_and_lose_their_content() {
    let mut guest = Guest::placed(blob!(unused, "syscall"), Placement::Far);
    let (space, at) = (guest.space, room(&guest));
    let machine = &mut guest.machine;
    machine.map(space, at, 4096, READ_WRITE, Backing::Anonymous).unwrap();
    machine.write(space, at + 8, b"moved").unwrap();
    machine.relocate(space, at, 4096, at + 0x1_0000, 8192).unwrap();
    let mut bytes = [0; 5];
    assert_eq!(machine.read(space, at + 8, &mut bytes), Err(Errno::EFAULT));
    machine.read(space, at + 0x1_0008, &mut bytes).unwrap();
    assert_eq!(&bytes, b"moved");
    machine.advise(space, at + 0x1_0000, 8192, libc::MADV_DONTNEED).unwrap();
    machine.read(space, at + 0x1_0008, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 5]);
}

#[test]
fn fixed_addresses_are_each_space_s_own() {
    let blob = blob!(fixed, "syscall");
    let mut guests = [Guest::placed(blob, Placement::Far), Guest::placed(blob, Placement::Far)];
    for (n, guest) in guests.iter_mut().enumerate() {
        guest.machine.claim_fixed(guest.space, 0x40_0000..0x40_1000).unwrap();
        guest.machine.map(guest.space, 0x40_0000, 4096, READ_WRITE, Backing::Anonymous).unwrap();
        guest.machine.write(guest.space, 0x40_0000, &[n as u8 + 1]).unwrap();
    }
    for (n, guest) in guests.iter().enumerate() {
        let mut byte = [0];
        guest.machine.read(guest.space, 0x40_0000, &mut byte).unwrap();
        assert_eq!(byte[0], n as u8 + 1);
    }
}

#[test]
fn a_killed_process_is_told_and_hangs_nobody() {
    let mut guest = Guest::placed(blob!(kill_me, "2:", "mov eax, 39", "syscall", "jmp 2b"), Placement::Far);
    let thread = guest.thread();
    guest.syscall(thread);
    let before = children();
    let pid = *before.iter().max().expect("the guest has a process");
    // SAFETY: an unreaped child of this process.
    unsafe { libc::kill(pid_of(&guest).unwrap_or(pid), libc::SIGKILL) };
    let killed = (0..1000).any(|_| guest.machine.resume(thread) == Exit::Killed);
    assert!(killed);
    assert_eq!(guest.machine.resume(thread), Exit::Killed);
    let (space, at) = (guest.space, room(&guest));
    assert!(guest.machine.map(space, at, 4096, READ_WRITE, Backing::Anonymous).is_err());
    assert!(guest.machine.read(space, guest.text, &mut [0]).is_err());
    assert!(guest.machine.fork_space(space).is_err());
}

/// The process that maps the guest's text: other tests have processes at the same time.
fn pid_of(guest: &Guest) -> Option<i32> {
    let line = format!("{:x}-", guest.text);
    let has_text = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_ok_and(|maps| maps.lines().any(|l| l.starts_with(&line)))
    };
    children().into_iter().find(has_text)
}

fn children() -> Vec<i32> {
    let mut found = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

#[test]
fn nothing_of_the_simulator_leaks_into_the_process() {
    let guest = Guest::placed(blob!(clean, "syscall"), Placement::Far);
    guest.machine.read(guest.space, guest.text, &mut [0]).unwrap();
    let pid = pid_of(&guest).expect("the guest's process");
    assert_eq!(descriptors(pid), 2, "channel and socket");
    let (low, _) = mappings(pid);
    assert_eq!(low.len(), 2, "text and stack: {low:x?}");
}

#[test]
fn nothing_of_the_simulator_is_in_a_fork_of_a_near_guest() {
    let mut other = Guest::new(blob!(beside, "2: mov eax, 39", "syscall", "jmp 2b"));
    let mut guest = Guest::new(blob!(clean_fork, "2: mov eax, 39", "syscall", "jmp 2b"));
    let (thread, besides) = (guest.thread(), other.thread());
    let (space, child) = fork(&mut guest, thread);
    for _ in 0..3 {
        assert_eq!(guest.machine.resume(child), Exit::Syscall);
    }
    let pid = pid_of(&guest).expect("the fork has a process");
    assert_eq!(descriptors(pid), 2, "channel and socket");
    let (low, high) = mappings(pid);
    assert!(low.iter().all(|at| (guest.text >> 36) == (at >> 36)), "not of this slot: {low:x?}");
    // Image, stack, channel and worker only; no libraries or heaps.
    assert!(high.iter().all(|at| belljar_platform::layout::SHIM_AREA.contains(at)), "{high:x?}");
    // Both resume near, the forks of their forks far.
    assert_eq!(guest.machine.resume(thread), Exit::Syscall);
    assert_eq!(other.machine.resume(besides), Exit::Syscall);
    let grandchild = guest.machine.fork_space(space).unwrap();
    let again = guest.machine.copy_context(child, grandchild);
    assert_eq!(guest.machine.resume(again), Exit::Syscall);
    let (_, of_other) = fork(&mut other, besides);
    assert_eq!(other.machine.resume(of_other), Exit::Syscall);
}

fn descriptors(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Start addresses of a process's mappings below and inside the simulator's part.
fn mappings(pid: i32) -> (Vec<u64>, Vec<u64>) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let start = |line: &str| u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    let own = maps.lines().filter(|line| !line.ends_with("[vsyscall]")).map(start);
    own.partition(|at| *at < 0x5000_0000_0000)
}

#[test]
fn a_near_guest_whose_addresses_are_taken_goes_on_far() {
    const FIXED: std::ops::Range<u64> = 0x7_0000_0000..0x7_0001_0000;
    let blob = blob!(
        moved,
        ".fill 24, 1, 0x90",
        "xor ebx, ebx",
        "2:",
        "inc qword ptr [rsp - 64]",
        "inc rbx",
        "mov rdi, [rsp - 64]",
        "mov eax, 39",
        "syscall",
        "jmp 2b"
    );
    let mut first = Guest::new(blob);
    let mut second = Guest::new(blob);
    first.machine.claim_fixed(first.space, FIXED).unwrap();
    let thread = second.thread();
    for _ in 0..4 {
        second.syscall(thread);
    }
    second.machine.claim_fixed(second.space, FIXED).unwrap();
    for (n, guest) in [&mut first, &mut second].into_iter().enumerate() {
        guest.machine.map(guest.space, FIXED.start, 4096, READ_WRITE, Backing::Anonymous).unwrap();
        guest.machine.write(guest.space, FIXED.start, &[n as u8 + 1]).unwrap();
    }
    second.syscall(thread);
    let regs = *second.regs(thread);
    assert_eq!((regs.rbx, regs.rdi), (5, 5), "registers, memory and rewritten sites came along");
    for (n, guest) in [first, second].into_iter().enumerate() {
        let mut byte = [0];
        guest.machine.read(guest.space, FIXED.start, &mut byte).unwrap();
        assert_eq!(byte[0], n as u8 + 1);
        // Only one of them has its text in the far process.
        assert_eq!(pid_of(&guest).is_some(), n == 1);
    }
}

#[test]
fn stepping_shows_one_instruction_at_a_time_and_no_trace_of_it() {
    let blob = blob!(
        stepped,
        "xor eax, eax",
        "inc eax",
        "pushfq",
        "pop rcx",
        "mov eax, 39",
        "syscall",
        "mov rax, [0x10]"
    );
    for placement in BOTH {
        let mut guest = Guest::placed(blob, placement);
        let thread = guest.thread();
        let start = guest.regs(thread).rip;
        for len in [2, 4] {
            assert_eq!(guest.machine.step(thread), Exit::Stepped);
            assert_eq!(guest.regs(thread).rip, start + len);
        }
        // `pushf` would store the trap flag.
        assert_eq!(guest.machine.step(thread), Exit::Preempted);
        assert_eq!(guest.regs(thread).rip, start + 4);
        assert_eq!(guest.machine.resume(thread), Exit::Syscall);
        guest.regs(thread).rip = start + 6;
        assert_eq!(guest.machine.step(thread), Exit::Stepped);
        assert_eq!(guest.machine.step(thread), Exit::Syscall);
        let regs = *guest.regs(thread);
        assert_eq!((regs.rax, regs.rflags & 0x100, regs.r11 & 0x100), (39, 0, 0), "{placement:?}");
        assert!(matches!(guest.machine.step(thread), Exit::Fault(fault) if fault.signal == libc::SIGSEGV));
        assert_eq!(guest.regs(thread).rflags & 0x100, 0);
    }
}

#[test]
fn in_linux_s_layout_rooms_for_stubs_cannot_be_claimed() {
    let mut guest = Guest::placed(blob!(rooms, "syscall"), Placement::Far);
    let space = guest.machine.create_space(1, Placement::Linux).unwrap();
    let low = 0x5555_5500_0000..0x5555_5510_0000;
    for range in [low.clone(), low.end - 4096..low.end + 4096, low.start - 4096..low.start + 4096] {
        assert_eq!(guest.machine.claim_fixed(space, range), Err(Errno::EBUSY));
    }
    let high = 0x7fff_ffef_f000..0x7fff_ffff_f000;
    assert_eq!(guest.machine.claim_fixed(space, high), Err(Errno::EINVAL));
    for range in [low.start - 4096..low.start, low.end..low.end + 4096] {
        guest.machine.claim_fixed(space, range).unwrap();
    }
    guest.machine.destroy_space(space);
}
