//! Start-up time of a program, from loading to exit, with its system calls made natively. Prints the minimum
//! of 100 runs in microseconds, and the same for a native process.
//!
//! `cargo run --release -p belljar-platform --example start -- /bin/true`
#![allow(unsafe_code, missing_docs, dead_code, clippy::disallowed_methods)]

#[path = "../tests/near/fixture.rs"]
mod fixture;
#[path = "../tests/near/loader.rs"]
mod loader;

use std::process::{Command, Stdio};
use std::time::Instant;

const RUNS: u32 = 100;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    assert!(!args.is_empty(), "name a program");
    let near = least(|| drop(loader::Program::run(0, &args)));
    belljar_platform::release_thread();
    let native = least(|| {
        let mut command = Command::new(args[0]);
        command.args(&args[1..]).stdout(Stdio::null()).status().expect("it runs");
    });
    println!("near {near:.0} us, native {native:.0} us");
}

fn least(mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..RUNS).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min)
}
