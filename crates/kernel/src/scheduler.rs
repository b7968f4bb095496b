//! Scheduling of a host's threads. The next thread, the length of its turn and the order in which waiters
//! wake are decided in `belljar_tasks::scheduler` alone.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::suspension;
use crate::thread::ThreadState;

impl Host {
    /// True if a thread can run now.
    #[inline]
    pub(crate) fn is_runnable(&self) -> bool {
        self.scheduler.is_runnable(&self.threads)
    }

    /// Makes a thread runnable that was parked for its tracer or by a stop of its process.
    pub(crate) fn unpark(&mut self, thread: ThreadKey) {
        self.thread(thread).state = ThreadState::Runnable;
        self.scheduler.ready(thread);
    }

    /// Removes a thread that has ended from its wait queues and the scheduler.
    pub(crate) fn unschedule(&mut self, key: ThreadKey) {
        suspension::forget(self, key);
        self.unblock(key);
        self.scheduler.remove(key);
        self.scheduler.forget(key);
    }
}

#[cfg(test)]
mod tests;
