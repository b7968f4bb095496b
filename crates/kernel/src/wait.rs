//! Waiting: blocked calls, their wait queues, and the notifications that continue them.
//!
//! Every object that can be waited for owns a queue. A call that cannot proceed [blocks](Host::block): its
//! thread enters the queues of the objects and leaves a [`CallState`](crate::outcome::CallState) behind. The
//! thread is woken by
//!
//! * [`Host::notify_events`], when an object changes so that a bit of its readiness is set; the event's bits
//!   decide which edge-triggered watchers see an edge, like the wake-up keys of Linux;
//! * [`Host::notify`], when any bit may have changed;
//! * [`Host::continue_call`], at the call's deadline, and for waits without a queue (futexes, `vfork`,
//!   tracers);
//! * [`Host::interrupt`], when a signal is to be delivered.
//!
//! A wake-up *continues* the blocked call from its state: the call is not made anew, and blocks again if its
//! condition does not hold. The thread leaves all of its queues at once; a call that blocks again enters them
//! at the end. Waiters are woken in the order in which they entered, unless the scheduler's strategy defines
//! another.

use crate::host::Host;
use crate::ids::{ThreadKey, WaitQueueId};
use crate::outcome::{Block, IfInterrupted, Resumed, Wake};
use crate::thread::{Blocked, Continuation, ThreadState};
use crate::timer::TimerAction;
use belljar_tasks::waits::Waiter;
use smallvec::SmallVec;

impl Host {
    /// Blocks a thread in its call. A signal that is already deliverable interrupts the call at once.
    pub(crate) fn block(&mut self, key: ThreadKey, block: Block) {
        let deadline = block.deadline.map(|at| self.set_timer(at, TimerAction::Deadline(key)));
        for queue in &block.on {
            self.waits.enter(*queue, Waiter::Thread(key));
        }
        self.threads[key.0].state = ThreadState::Blocked(Blocked {
            on: block.on,
            deadline,
            state: block.state,
            if_interrupted: block.if_interrupted,
        });
        if self.threads.has_deliverable_signal(&self.processes, key) {
            self.interrupt(key);
        }
    }

    /// Removes a blocked thread from its wait queues and makes it runnable; `None` if it is not blocked.
    pub(crate) fn unblock(&mut self, key: ThreadKey) -> Option<Blocked> {
        let thread = self.threads.get_mut(key.0)?;
        if !matches!(thread.state, ThreadState::Blocked(_)) {
            return None;
        }
        let ThreadState::Blocked(blocked) = std::mem::replace(&mut thread.state, ThreadState::Runnable)
        else {
            return None;
        };
        thread.signals.awaited = 0;
        self.futexes.futex_wait_ended(key, &blocked.state);
        for queue in &blocked.on {
            self.waits.leave(*queue, Waiter::Thread(key));
        }
        if let Some(timer) = blocked.deadline {
            self.timers.cancel(timer);
        }
        self.scheduler.ready(key);
        Some(blocked)
    }

    /// Continues a blocked call; no effect if the thread is not blocked.
    pub(crate) fn continue_call(&mut self, key: ThreadKey, wake: Wake) {
        self.carry_out_effects();
        if let Some(blocked) = self.unblock(key) {
            self.threads[key.0].continuation =
                Some(Continuation::Resume(Resumed { state: blocked.state, wake }));
        }
    }

    /// Interrupts a blocked call because a signal is to be delivered; no effect if the thread is not blocked.
    pub(crate) fn interrupt(&mut self, key: ThreadKey) {
        self.carry_out_effects();
        let thread = &self.threads[key.0];
        if let ThreadState::Blocked(Blocked { if_interrupted: IfInterrupted::Killable, .. }) = thread.state
            && self.processes[thread.process.0].signals.fatal.is_none()
        {
            return;
        }
        if let Some(blocked) = self.unblock(key) {
            let _ = self.store_remaining_time(key, &blocked.state);
            if matches!(blocked.if_interrupted, IfInterrupted::Value(_)) {
                self.clear_message_name(key, &blocked.state);
            }
            self.threads[key.0].continuation =
                Some(Continuation::Interrupted { how: blocked.if_interrupted, state: blocked.state });
        }
    }

    /// Wakes the waiters of `queue` because its object has changed with the readiness bits `events`. All
    /// blocked calls are continued; epoll items that did not ask for any of `events` are skipped. Of the
    /// exclusive items, only the first that has a thread to wake is notified.
    pub(crate) fn notify_events(&mut self, queue: WaitQueueId, events: u32) {
        // The waiters of the stack's pending effects come first.
        self.carry_out_effects();
        self.wake_waiters(queue, events);
    }

    /// Does the same as [`notify_events`](Self::notify_events) when the stack has no pending effects.
    pub(crate) fn wake_waiters(&mut self, queue: WaitQueueId, events: u32) {
        if self.waits.is_empty(queue) {
            return;
        }
        if let Some(Waiter::Thread(thread)) = self.waits.only(queue) {
            return self.continue_call(thread, Wake::Notified);
        }
        let mut waiters: SmallVec<[Waiter; 4]> = self.waits.waiters(queue).collect();
        self.scheduler.order_waiters(&mut waiters);
        let mut exclusive_told = false;
        for waiter in waiters {
            match waiter {
                Waiter::Thread(thread) => self.continue_call(thread, Wake::Notified),
                Waiter::Epoll { epoll, item } => {
                    let exclusive = self.files.epolls[epoll.0].is_exclusive(item);
                    if exclusive && exclusive_told {
                        continue;
                    }
                    let woke = self.epoll_item_changed(epoll, item, events);
                    exclusive_told |= exclusive && woke;
                }
                Waiter::Uring { instance, request } => self.request_changed(instance, request),
                Waiter::Owner(file) => self.tell_owner(file, events),
                Waiter::Model(socket) => self.models.socket_changed(socket),
            }
        }
    }

    /// Wakes the waiters of `queue` because any readiness bit of its object may have changed.
    pub(crate) fn notify(&mut self, queue: WaitQueueId) {
        self.notify_events(queue, u32::MAX);
    }
}
