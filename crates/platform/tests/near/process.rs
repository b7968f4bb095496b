//! Effects of the platform on the process around it. Each test runs this program again, with one of the
//! ignored tests below, and checks its exit status.

use crate::blob;
use crate::fixture::Guest;
use belljar_machine::Exit;
use belljar_machine::Platform;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

fn child(before: &str, test: &str) -> ExitStatus {
    let exe = std::env::current_exe().unwrap();
    Command::new("sh")
        .arg("-c")
        .arg(format!("{before}; exec \"$0\" --exact process::{test} --ignored --test-threads=1"))
        .arg(exe)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
}

#[test]
fn a_fault_of_the_simulator_itself_ends_it_as_usual() {
    assert_eq!(child(":", "child_null_read").signal(), Some(libc::SIGSEGV));
    assert_eq!(child(":", "child_trap").signal(), Some(libc::SIGTRAP));
    assert_eq!(child(":", "child_sent").signal(), Some(libc::SIGSEGV));
    // The guard page of the stack: Rust's own handler reports the overflow and aborts.
    assert_eq!(child(":", "child_overflow").signal(), Some(libc::SIGABRT));
}

#[test]
fn an_unlimited_stack_is_no_obstacle() {
    assert!(child("ulimit -s unlimited", "child_runs_a_guest").success());
    assert!(child(":", "child_runs_a_guest").success());
}

fn one_call() {
    let mut guest = Guest::new(blob!(one, "2:", "xor eax, eax", "syscall", "jmp 2b"));
    let thread = guest.thread();
    guest.syscall(thread);
    guest.machine.regs_mut(thread).rip = 0;
    assert!(matches!(guest.machine.resume(thread), Exit::Fault(_)));
}

#[test]
#[ignore = "run by another test"]
fn child_runs_a_guest() {
    one_call();
}

#[test]
#[ignore = "run by another test"]
fn child_null_read() {
    one_call();
    // SAFETY: none; the invalid read is the point of the test and ends the process.
    unsafe { std::ptr::read_volatile(std::hint::black_box(8) as *const u8) };
}

#[test]
#[ignore = "run by another test"]
fn child_trap() {
    one_call();
    // SAFETY: the process ends here.
    unsafe { std::arch::asm!("int3") };
}

#[test]
#[ignore = "run by another test"]
fn child_sent() {
    one_call();
    // SAFETY: the process ends here.
    unsafe { libc::kill(libc::getpid(), libc::SIGSEGV) };
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
#[ignore = "run by another test"]
fn child_overflow() {
    #[expect(unconditional_recursion, reason = "the stack is to overflow")]
    fn deeper(n: u64) -> u64 {
        let page = std::hint::black_box([n; 512]);
        deeper(n + 1) + page[(n % 512) as usize]
    }
    one_call();
    std::hint::black_box(deeper(0));
}
