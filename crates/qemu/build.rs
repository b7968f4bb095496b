//! Compiles the library that QEMU loads from `crates/shim/program/qemu.rs`, without the standard library, so
//! that only the Rust toolchain is needed. If the toolchain has no linker, the C compiler's is used.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let source =
        Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../shim/program/qemu.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("clock.so");
    println!("cargo::rerun-if-changed=../shim/program/qemu.rs");
    let with_lld: &[&str] = &["-Clinker=rust-lld", "-Clinker-flavor=ld.lld"];
    let with_cc: &[&str] = &["-Clinker=cc", "-Clinker-flavor=gcc", "-Clink-args=-nostartfiles -nostdlib"];
    let mut errors = Vec::new();
    for linker in [with_lld, with_cc] {
        match compile(&source, linker, &out) {
            Ok(()) => return,
            Err(error) => errors.push(error),
        }
    }
    panic!("{} cannot be linked:\n{}", source.display(), errors.join("\n"));
}

fn compile(source: &Path, linker: &[&str], out: &Path) -> Result<(), String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "-Copt-level=2", "-Cpanic=abort", "-Cstrip=symbols"]);
    rustc.args(["--crate-type", "cdylib", "--crate-name", "belljar_clock"]);
    rustc.args(["--target", &env::var("TARGET").expect("set by cargo")]).args(linker);
    rustc.arg(format!("--remap-path-prefix={}=shim", source.parent().expect("a folder").display()));
    // Flags of the workspace's build (coverage, sanitizers) do not apply.
    rustc.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output =
        rustc.arg(source).arg("-o").arg(out).output().map_err(|error| format!("{rustc:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{rustc:?}\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}
