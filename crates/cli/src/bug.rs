//! Internal faults of the simulator: one message per fault, independent of the thread that panics.

use crate::failure::Failure;
use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Signal number on x86-64.
const SIGPIPE: i32 = 13;

/// The message of the first panic since [`watch`].
static FIRST: Mutex<Option<String>> = Mutex::new(None);

/// Installs a panic hook that records the first panic for [`failure`]. The usual message is printed only if a
/// backtrace is requested.
pub fn watch() {
    let usual = panic::take_hook();
    let wanted = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    panic::set_hook(Box::new(move |info| {
        if wanted {
            usual(info);
        }
        let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| describe(info));
    }));
}

/// Installs a panic hook for failed writes of standard output and standard error, at which `println!` panics. It exits
/// silently, with the status of SIGPIPE, where the reader of a pipe has gone (`belljar doctor | head -1`), and with a
/// message where the disk is full.
pub fn expect_failed_prints() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = info.payload().downcast_ref::<String>();
        let Some(text) = text.and_then(|text| text.strip_prefix("failed printing to ")) else {
            return usual(info);
        };
        if text.contains("Broken pipe") {
            std::process::exit(128 + SIGPIPE);
        }
        let (stream, reason) = text.split_once(": ").unwrap_or((text, "unknown error"));
        // Standard error may be what fails.
        let _ = writeln!(std::io::stderr(), "error: {stream} cannot be written: {reason}");
        std::process::exit(1);
    }));
}

/// Returns the user's message for a panicked thread.
pub fn failure() -> Failure {
    let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
    Failure::run(format!(
        "{}\nThis is a fault of Belljar, not of the experiment: please report it. RUST_BACKTRACE=1 shows where it \
         comes from.",
        first.unwrap_or_else(|| "a worker has panicked".to_owned())
    ))
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
    let place = info.location().map_or(String::new(), |at| format!(" ({}:{})", at.file(), at.line()));
    format!("{} failed: {text}{place}", thread::current().name().unwrap_or("a thread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_panic_is_told_with_its_thread_and_place() {
        watch();
        let worker = thread::Builder::new().name("worker-7".into());
        let joined = worker.spawn(|| panic!("two events have the key {}", 5)).unwrap().join();
        assert!(joined.is_err());
        let text = failure().to_string();
        assert!(
            text.starts_with("error: worker-7 failed: two events have the key 5 (crates/cli/src/bug.rs:"),
            "{text}"
        );
        assert!(text.contains("please report"));
        let _ = panic::take_hook();
    }
}
