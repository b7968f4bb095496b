//! Conversion of signal numbers: gdb's numbers are its own, and the same on all systems.

use gdbstub::common::Signal;

/// Signals of gdb, indexed by Linux's number minus 1.
const STANDARD: [Signal; 31] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGKILL,
    Signal::SIGUSR1,
    Signal::SIGSEGV,
    Signal::SIGUSR2,
    Signal::SIGPIPE,
    Signal::SIGALRM,
    Signal::SIGTERM,
    Signal::EXC_SOFTWARE,
    Signal::SIGCHLD,
    Signal::SIGCONT,
    Signal::SIGSTOP,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGURG,
    Signal::SIGXCPU,
    Signal::SIGXFSZ,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGWINCH,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSYS,
];
/// First of the real-time signals 33 to 63, whose gdb numbers are consecutive; 32 and 64 have separate
/// ones.
const FIRST_REAL_TIME: i32 = 33;

/// Converts a Linux signal number to gdb's.
pub fn to_gdb(signal: i32) -> Signal {
    match signal {
        1..=31 => STANDARD[signal as usize - 1],
        32 => Signal::SIG32,
        64 => Signal::SIG64,
        33..=63 => Signal(Signal::SIG33.0 + (signal - FIRST_REAL_TIME) as u8),
        _ => Signal::UNKNOWN,
    }
}

/// Converts gdb's signal number to Linux's; `None` for "no signal" and signals that Linux does not have.
pub fn from_gdb(signal: Signal) -> Option<i32> {
    (1..=64).find(|linux| to_gdb(*linux) == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_gdbs_manual() {
        assert_eq!((to_gdb(10).0, to_gdb(17).0, to_gdb(34).0, to_gdb(63).0), (30, 20, 46, 75));
        for signal in 1..=64 {
            assert_eq!(from_gdb(to_gdb(signal)), Some(signal));
        }
        assert_eq!(from_gdb(Signal(0)), None);
    }
}
