//! Programs of this machine print the same under the platform as natively.

use crate::fixture::FIRST_PROGRAM_HOST;
use crate::loader::Program;
use belljar_machine::Platform;
use std::path::Path;
use std::process::Command;

fn same(index: u32, args: &[&str]) {
    if !Path::new(args[0]).exists() {
        eprintln!("skipped: no {} here", args[0]);
        return;
    }
    // The previous round made this thread a worker.
    belljar_platform::release_thread();
    let native = Command::new(args[0])
        .args(&args[1..])
        .env_clear()
        .env("LANG", "C")
        .env("PATH", "/usr/bin:/bin")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let (program, status) = Program::run(FIRST_PROGRAM_HOST + index, args);
    assert!(program.output == native.stdout, "{args:?} printed {}", String::from_utf8_lossy(&program.output));
    assert_eq!(Some(status), native.status.code());
    let counts = program.machine.call_ways(program.space);
    assert_eq!(counts.trapped + counts.rewritten, program.calls);
    // A site traps at most twice unless it cannot be rewritten.
    eprintln!("{}: {counts:?}", args[0]);
}

#[test]
fn busybox_static() {
    same(0, &["/bin/busybox", "sort", "-r", "/etc/passwd"]);
}

#[test]
fn ls_dynamic() {
    same(1, &["/bin/ls", "-laR", "/etc/apt", "/usr/lib/locale"]);
}

#[test]
fn sha256sum_of_a_large_file() {
    same(2, &["/usr/bin/sha256sum", "/bin/bash", "/bin/ls"]);
}

#[test]
fn bash_loops() {
    same(
        3,
        &[
            "/bin/bash",
            "-c",
            "n=0; for i in {1..20000}; do n=$((n + i)); done; echo $n; printf '%.3f\\n' 2.5",
        ],
    );
}

#[test]
fn perl_computes() {
    same(
        4,
        &["/usr/bin/perl", "-e", "my %h; $h{$_ % 97} += sqrt($_) for 1..50000; printf(\"%.9f\\n\", $h{13})"],
    );
}

#[test]
fn python_computes() {
    let program = "import math, json, hashlib, decimal; \
        print(sum(math.sin(i) for i in range(20000)), json.dumps({'a': [1, 2.5]}), \
        hashlib.sha256(b'x' * 100000).hexdigest(), decimal.Decimal(2).sqrt())";
    same(5, &["/usr/bin/python3", "-I", "-c", program]);
}

#[test]
fn programs_run_on_two_workers_at_once() {
    let worker = |first: u32| {
        move || {
            for n in 0..10 {
                same(first + n % 2, &["/bin/ls", "-la", "/usr/bin"]);
            }
        }
    };
    let threads = [std::thread::spawn(worker(10)), std::thread::spawn(worker(12))];
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// The loader reports the baseline CPU, both with CPUID faulting and with replaced instructions.
#[test]
fn the_loader_finds_the_baseline() {
    let loader = "/lib64/ld-linux-x86-64.so.2";
    if !Path::new(loader).exists() {
        eprintln!("skipped: no glibc here");
        return;
    }
    let (program, status) = Program::run(FIRST_PROGRAM_HOST + 14, &[loader, "--help"]);
    let help = String::from_utf8(program.output).unwrap();
    assert_eq!(status, 0, "{help}");
    belljar_platform::release_thread();
    let native = Command::new(loader).arg("--help").output().unwrap();
    let native = String::from_utf8(native.stdout).unwrap();
    let supported = |help: &str, level: &str| help.contains(&format!("{level} (supported"));
    assert!(supported(&help, "x86-64-v2"), "{help}");
    assert_eq!(supported(&help, "x86-64-v3"), supported(&native, "x86-64-v3"), "{help}");
    assert!(!supported(&help, "x86-64-v4"), "{help}");
}
