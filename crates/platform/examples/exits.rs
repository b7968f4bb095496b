//! Cost of an exit from a guest and a resume: prints nanoseconds and ratios to a native system call, minima
//! of several runs.
//!
//! `cargo run --release -p belljar-platform --example exits`
#![allow(unsafe_code, missing_docs, clippy::disallowed_methods)]

#[path = "../tests/near/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use belljar_machine::{ContextId, GuestMemory, Platform};
use fixture::Guest;
use std::time::Instant;

const ROUNDS: u32 = 200_000;
const RUNS: u32 = 7;

fn main() {
    belljar_platform::init().expect("this machine can run guests");
    let native = minimum(|| {
        // SAFETY: a call without arguments.
        unsafe { libc::syscall(libc::SYS_getppid) };
    });
    println!("native system call        {native:7.1} ns");
    let report = |what: &str, ns: f64| println!("{what:25} {ns:7.1} ns  {:5.2} x native", ns / native);

    let sse = blob!(sse, ".fill 24, 1, 0x90", "2:", "mov eax, 39", "syscall", "jmp 2b");
    let ymm = blob!(
        ymm,
        ".fill 24, 1, 0x90",
        "vpcmpeqd ymm1, ymm1, ymm1",
        "2:",
        "mov eax, 39",
        "syscall",
        "jmp 2b"
    );
    report("trapped", round_trip(Guest::anonymous(sse)));
    report("rewritten", round_trip(Guest::new(sse)));
    report("rewritten, ymm in use", round_trip(Guest::new(ymm)));
    if std::arch::is_x86_feature_detected!("avx512vl") {
        let high = blob!(
            high,
            ".fill 24, 1, 0x90",
            "vpternlogd ymm16, ymm16, ymm16, 255",
            "2:",
            "mov eax, 39",
            "syscall",
            "jmp 2b"
        );
        report("rewritten, ymm16 in use", round_trip(Guest::new(high)));
    }
    report("switch, rewritten", switch(sse));
    report("rdtsc", {
        let mut guest = Guest::new(blob!(tsc, "2:", "rdtsc", "jmp 2b"));
        let thread = guest.thread();
        time_of(|| {
            guest.machine.resume(thread);
        })
    });
    let start = now();
    let count = 200;
    for _ in 0..count {
        let mut guest = Guest::new(sse);
        let thread = guest.thread();
        guest.syscall(thread);
    }
    let each = (now() - start).as_nanos() as f64 / f64::from(count);
    println!("space made, run, dropped   {:6.1} us", each / 1e3);
    let mut guest = Guest::new(sse);
    let mut buffer = [1u8; 1024];
    for len in [8, 64, 1024] {
        let (space, at) = (guest.space, guest.stack - 2048);
        let ns = time_of(|| {
            guest.machine.write(space, at, &buffer[..len]).unwrap();
            guest.machine.read(space, at, &mut buffer[..len]).unwrap();
        });
        println!("copy {len:4} bytes out and in  {ns:6.1} ns");
    }
}

fn round_trip(mut guest: Guest) -> f64 {
    let thread = guest.thread();
    for _ in 0..4 {
        guest.syscall(thread);
    }
    time_of(|| {
        guest.machine.resume(thread);
    })
}

/// Two guests of one host by turns: the least cost of a message from one to the other.
fn switch(code: &[u8]) -> f64 {
    let mut guests = [Guest::new(code), Guest::new(code)];
    let threads: Vec<ContextId> = guests.iter_mut().map(Guest::thread).collect();
    for _ in 0..4 {
        for (guest, &thread) in guests.iter_mut().zip(&threads) {
            guest.syscall(thread);
        }
    }
    let pair = time_of(|| {
        for (guest, &thread) in guests.iter_mut().zip(&threads) {
            guest.machine.resume(thread);
        }
    });
    pair / 2.0
}

fn minimum(mut work: impl FnMut()) -> f64 {
    time_of(&mut work)
}

/// Nanoseconds for each round, the minimum of several runs.
fn time_of(mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let start = now();
        for _ in 0..ROUNDS {
            work();
        }
        (now() - start).as_nanos() as f64 / f64::from(ROUNDS)
    };
    (0..RUNS).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min)
}

fn now() -> Instant {
    Instant::now()
}
