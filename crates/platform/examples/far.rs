//! Cost of far guests: a system call against native futex hand-overs between two processes, guest
//! memory, a start, a fork. Minima of several runs.
//!
//! `cargo run --release -p belljar-platform --example far`
#![allow(unsafe_code, missing_docs, clippy::disallowed_methods)]

#[path = "../tests/near/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use belljar_channel::{SharedMemory, futex};
use belljar_machine::{Backing, GuestMemory, Placement, Platform, Prot};
use fixture::Guest;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 20_000;
const RUNS: u32 = 7;

fn main() {
    belljar_platform::init().expect("this machine can run guests");
    let handover = futex_round_trip();
    println!("two native futex hand-overs   {handover:9.0} ns");
    let report = |what: &str, ns: f64| println!("{what:29} {ns:9.0} ns  {:6.2} x", ns / handover);

    let blob = blob!(call, ".fill 24, 1, 0x90", "2:", "mov eax, 39", "syscall", "jmp 2b");
    let mut guest = Guest::placed(blob, Placement::Far);
    let thread = guest.thread();
    report("system call, rewritten", minimum(|| guest.syscall(thread)));
    let mut trapping = Guest::anonymous_placed(blob, Placement::Far);
    let trapped = trapping.thread();
    report("system call, trapped", minimum(|| trapping.syscall(trapped)));

    let (space, stack) = (guest.space, guest.stack);
    for len in [8, 4096, 65536] {
        let mut data = vec![1; len];
        let at = stack - len as u64;
        report(&format!("write {len} bytes"), minimum(|| guest.machine.write(space, at, &data)));
        report(&format!("read {len} bytes"), minimum(|| guest.machine.read(space, at, &mut data)));
    }
    let at = guest.machine.space_range(space).start + (64 << 20);
    let map =
        |g: &mut Guest, len| g.machine.map(space, at, len, Prot::READ | Prot::WRITE, Backing::Anonymous);
    report(
        "mmap and munmap",
        minimum(|| {
            map(&mut guest, 4096).unwrap();
            guest.machine.unmap(space, at, 4096).unwrap();
        }),
    );

    let content = vec![1u8; 20 << 20];
    map(&mut guest, content.len() as u64).unwrap();
    guest.machine.write(space, at, &content).unwrap();
    report(
        "fork far, 20 MiB",
        few(|| {
            let copy = guest.machine.fork_space(space).unwrap();
            guest.machine.read(copy, at, &mut [0; 8]).unwrap();
            guest.machine.destroy_space(copy);
        }),
    );
    let mut near = Guest::new(blob);
    let space = near.space;
    let at = near.machine.space_range(space).start + (64 << 20);
    let prot = Prot::READ | Prot::WRITE;
    near.machine.map(space, at, content.len() as u64, prot, Backing::Anonymous).unwrap();
    near.machine.write(space, at, &content).unwrap();
    report(
        "fork near, 20 MiB",
        few(|| {
            let copy = near.machine.fork_space(space).unwrap();
            near.machine.read(copy, at, &mut [0; 8]).unwrap();
            near.machine.destroy_space(copy);
        }),
    );
    report(
        "start",
        few(|| {
            let (mut guest, mut byte) = (Guest::placed(blob, Placement::Far), [0]);
            guest.machine.read(guest.space, guest.stack - 8, &mut byte).unwrap();
            guest.machine.destroy_space(guest.space);
        }),
    );
}

fn minimum<T>(mut action: impl FnMut() -> T) -> f64 {
    (0..RUNS).map(|_| time(ROUNDS, &mut action)).fold(f64::MAX, f64::min)
}
fn few<T>(mut action: impl FnMut() -> T) -> f64 {
    (0..RUNS).map(|_| time(5, &mut action)).fold(f64::MAX, f64::min)
}
fn time<T>(rounds: u32, action: &mut impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        action();
    }
    start.elapsed().as_nanos() as f64 / f64::from(rounds)
}

/// Two processes on one processor pass a turn back and forth.
fn futex_round_trip() -> f64 {
    let (shared, _file) = SharedMemory::<AtomicU32>::create().unwrap();
    // SAFETY: mapped as long as `shared` lives, and only accessed atomically.
    let turn = unsafe { &*shared.get() };
    let pass = |to: u32| {
        turn.store(to, Ordering::Release);
        futex::wake(turn);
        while turn.load(Ordering::Acquire) == to {
            futex::wait(turn, to, Duration::from_secs(1));
        }
    };
    // SAFETY: the child accesses nothing but the shared word and its own stack; the set is plain.
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        let mut one = all;
        libc::sched_getaffinity(0, size_of_val(&all), &mut all);
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            while turn.load(Ordering::Acquire) != 1 {
                futex::wait(turn, 0, Duration::from_secs(1));
            }
            loop {
                pass(0);
            }
        }
        let ns = minimum(|| pass(1));
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
        libc::sched_setaffinity(0, size_of_val(&all), &all);
        ns
    }
}
