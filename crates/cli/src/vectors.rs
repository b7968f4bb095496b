//! Keeps the C library of this process from the registers of AVX-512.

use std::os::unix::process::CommandExt;

const VARIABLE: &str = "GLIBC_TUNABLES";
/// The tunable that glibc selects its string functions by (`glibc.cpu.hwcaps` in its manual).
const TUNABLE: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL";

/// Starts this program over with string functions that do without AVX-512, once, where the CPU has it.
///
/// Near guests run on this process's threads. What `memcpy` leaves in those registers would have to be cleared before each
/// resume, by `xrstor`, the dearest part of a system call then: AVX2 clears what it used with one instruction. Where
/// nothing can be started, or somebody has set that tunable, things only take longer.
pub fn do_without_avx512() {
    let before = std::env::var(VARIABLE).unwrap_or_default();
    if !std::arch::is_x86_feature_detected!("avx512f") || before.contains("glibc.cpu.hwcaps=") {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| program.clone().into());
    let tunables = if before.is_empty() { TUNABLE.to_owned() } else { format!("{before}:{TUNABLE}") };
    // Gives an error or does not come back.
    let _ = std::process::Command::new(program).arg0(name).args(arguments).env(VARIABLE, tunables).exec();
}
