//! Signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::{io, thread};

/// Number of the last signal, 0 for none.
static LAST: AtomicI32 = AtomicI32::new(0);

/// Calls `act` at each of the signals, on a thread of its own.
///
/// # Errors
/// Errors of sigaction(2) and of the start of the thread.
pub fn handle(mut act: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let wait = move || {
        for signal in signals.forever() {
            LAST.store(signal, Relaxed);
            act();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(|_| ())
}

/// Exit status after a signal, as shells report it: 130 for SIGINT, 143 for SIGTERM. `None` without a signal.
pub fn status() -> Option<u8> {
    match LAST.load(Relaxed) {
        0 => None,
        signal => u8::try_from(128 + signal).ok(),
    }
}

/// Ends this process with the status of the last signal.
pub fn exit() -> ! {
    std::process::exit(i32::from(status().unwrap_or(1)))
}
