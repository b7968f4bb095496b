//! Futex operations on words of shared memory, `futex(2)`.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, until a wake or for `timeout`; false after the timeout. May return
/// early because of a signal or spuriously, so the caller checks again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: the word and the time outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &timeout) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

/// Sleeps while `word` is `expected`, until a wake. Without a timeout, the cost of a timer is saved, which is
/// a considerable part of a sleep and wake-up. May return early because of a signal or spuriously, so the
/// caller checks again.
pub fn wait_untimed(word: &AtomicU32, expected: u32) {
    let forever = std::ptr::null::<libc::timespec>();
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, forever) };
}

/// Wakes one waiter on `word`; true if there was one.
pub fn wake(word: &AtomicU32) -> bool {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) == 1 }
}
