//! Keeps this process's C library from using AVX-512 registers.

use std::os::unix::process::CommandExt;

const VARIABLE: &str = "GLIBC_TUNABLES";
/// Tunable by which glibc selects its string functions (`glibc.cpu.hwcaps` in its manual).
const TUNABLE: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL";

/// Restarts this program once with string functions without AVX-512, if the CPU has it.
///
/// Near guests run on this process's threads. Values that `memcpy` leaves in AVX-512 registers would have to
/// be cleared before each resume by `xrstor`, then the most expensive part of a system call; AVX2 clears its
/// registers with one instruction. If the restart fails, or the tunable is set already, the run is slower but
/// correct.
pub fn do_without_avx512() {
    let before = std::env::var(VARIABLE).unwrap_or_default();
    if !std::arch::is_x86_feature_detected!("avx512f") || before.contains("glibc.cpu.hwcaps=") {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| program.clone().into());
    let tunables = if before.is_empty() { TUNABLE.to_owned() } else { format!("{before}:{TUNABLE}") };
    // Returns only on an error.
    let _ = std::process::Command::new(program).arg0(name).args(arguments).env(VARIABLE, tunables).exec();
}
