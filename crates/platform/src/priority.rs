//! Real-time priority for threads that must preempt programs.

/// Priority for `SCHED_FIFO`: below the kernel's own real-time threads (50), above programs.
const PRIORITY: i32 = 10;

/// Gives the calling thread a real-time priority (`SCHED_FIFO`, sched(7)), which its children do not inherit.
/// Returns false if the user lacks the permission. Only for threads that run for short moments: a preempted
/// program waits for them.
pub fn go_before_programs() -> bool {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the parameters are a structure that outlives the call.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_allows_is_what_it_says() {
        std::thread::spawn(|| {
            let done = go_before_programs();
            // SAFETY: the call has no preconditions.
            let policy = unsafe { libc::sched_getscheduler(0) };
            assert_eq!(policy == libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, done);
        })
        .join()
        .unwrap();
    }
}
