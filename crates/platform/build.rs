//! Compiles the programs that far guests and dilated processes run, from the crate `belljar-shim`: static
//! binaries without a standard library, linked to a fixed address above the guests; and the library that Antithesis' SDKs load.
//! The Rust toolchain suffices; if it comes without a linker, the C compiler links.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let shim = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../shim");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    // Relative to the package: moving or copying a checkout together with its target folder triggers no
    // recompilation.
    println!("cargo::rerun-if-changed=../shim/src");
    println!("cargo::rerun-if-changed=../shim/program");

    let library = out.join("libbelljar_shim.rlib");
    let mut compile = rustc(&shim);
    compile.args(["--crate-type", "rlib", "--crate-name", "belljar_shim"]);
    run(compile.arg(shim.join("src/lib.rs")).arg("-o").arg(&library))
        .unwrap_or_else(|error| panic!("{error}"));

    let base = format!("--image-base={:#x}", far_image(&shim));
    for (source, name) in [("main.rs", "far"), ("dilate.rs", "dilate")] {
        link(&shim, source, &library, &base, &out.join(name));
    }
    link_sdk_library(&shim, &out.join("voidstar.so"));
}

/// Compiles the library that Antithesis' SDKs load, which depends on no other.
fn link_sdk_library(shim: &Path, to: &Path) {
    let name = "-soname=libvoidstar.so";
    let with_lld = (
        ["-Clinker=rust-lld", "-Clinker-flavor=ld.lld"],
        format!("-Clink-args={name} -z now -z noexecstack"),
    );
    let of_cc = format!("-Clink-args=-nostartfiles -nostdlib -Wl,{name} -Wl,-z,now -Wl,-z,noexecstack");
    let with_cc = (["-Clinker=cc", "-Clinker-flavor=gcc"], of_cc);
    let attempts = [with_lld, with_cc];
    let errors: Vec<String> = attempts
        .iter()
        .map_while(|(linker, arguments)| {
            let mut link = rustc(shim);
            link.args(["--crate-type", "cdylib", "--crate-name", "voidstar", "-Cstrip=symbols"]);
            link.args(linker).arg(arguments);
            run(link.arg(shim.join("program/voidstar.rs")).arg("-o").arg(to)).err()
        })
        .collect();
    assert!(errors.len() < attempts.len(), "libvoidstar.so cannot be linked:\n{}", errors.join("\n"));
}

/// Links a program at the address given by `base`, a linker option.
fn link(shim: &Path, source: &str, library: &Path, base: &str, to: &Path) {
    let source = shim.join("program").join(source);
    let with_lld =
        ["-Clinker=rust-lld", "-Clinker-flavor=ld.lld", "-Clink-args=--no-pie --no-dynamic-linker"];
    let with_cc =
        ["-Clinker=cc", "-Clinker-flavor=gcc", "-Clink-args=-static -no-pie -nostartfiles -nostdlib"];
    let of_cc = format!("-Wl,{}", base.replace("--image-base", "-Ttext-segment"));
    let attempts = [(with_lld, base), (with_cc, &of_cc)];
    let errors: Vec<String> = attempts
        .iter()
        .map_while(|(linker, base)| {
            let mut link = rustc(shim);
            link.args(["--crate-type", "bin", "--crate-name", "belljar_program", "-Cstrip=symbols"]);
            link.args(linker).arg(format!("-Clink-args={base} -z noexecstack"));
            link.arg("--extern").arg(format!("belljar_shim={}", library.display()));
            run(link.arg(&source).arg("-o").arg(to)).err()
        })
        .collect();
    assert!(errors.len() < attempts.len(), "{} cannot be linked:\n{}", source.display(), errors.join("\n"));
}

/// The compiler with the options common to both crates: position-independent code, so that every reference is
/// relative to the instruction pointer at any link address, and remapped source paths, so that the output is
/// independent of the location of the sources.
fn rustc(shim: &Path) -> Command {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "-Copt-level=2", "-Cpanic=abort", "-Crelocation-model=pic"]);
    rustc.args(["--target", &env::var("TARGET").expect("set by cargo")]);
    let mut remap = OsString::from("--remap-path-prefix=");
    remap.push(shim);
    remap.push("=shim");
    rustc.arg(remap);
    // Flags of the workspace's own build (coverage, sanitizers) do not apply to a freestanding program.
    rustc.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    rustc
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// `FAR_IMAGE`, read from the shim's `layout.rs`, its only definition.
fn far_image(shim: &Path) -> u64 {
    let source = fs::read_to_string(shim.join("src/layout.rs")).expect("the layout is there");
    let value =
        source.lines().find_map(|line| line.strip_prefix("pub const FAR_IMAGE: u64 = 0x")?.strip_suffix(';'));
    u64::from_str_radix(&value.expect("it names FAR_IMAGE").replace('_', ""), 16).expect("a number")
}
