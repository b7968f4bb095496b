//! Functions that a guest finds instead of the kernel's vDSO. The object itself is created elsewhere, once
//! for all processes of a host; it jumps through [`layout::TABLE`].

use super::calls::nr;
use super::layout;
use super::memory::{native, write};
use super::usage;

/// A function in the vDSO's table.
type Function = extern "C" fn(u64, u64, u64) -> i64;

/// The names of the functions, in the order of the table.
pub const FUNCTIONS: [&str; 5] =
    ["__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_clock_getres", "__vdso_getcpu"];

/// Writes the table.
pub fn fill_table() -> Result<(), i64> {
    let functions: [Function; FUNCTIONS.len()] = [clock_gettime, gettimeofday, time, clock_getres, getcpu];
    (0..functions.len())
        .try_for_each(|n| write(layout::TABLE + 8 * n as u64, functions[n] as *const () as u64))
}

extern "C" fn clock_gettime(clock: u64, at: u64, _: u64) -> i64 {
    usage::clock_gettime([clock, at, 0, 0, 0, 0])
}

extern "C" fn gettimeofday(at: u64, zone: u64, _: u64) -> i64 {
    usage::gettimeofday([at, zone, 0, 0, 0, 0])
}

extern "C" fn time(at: u64, _: u64, _: u64) -> i64 {
    usage::time([at, 0, 0, 0, 0, 0])
}

extern "C" fn clock_getres(clock: u64, at: u64, _: u64) -> i64 {
    native(nr::CLOCK_GETRES, [clock, at, 0, 0, 0, 0])
}

extern "C" fn getcpu(cpu: u64, node: u64, _: u64) -> i64 {
    native(nr::GETCPU, [cpu, node, 0, 0, 0, 0])
}
