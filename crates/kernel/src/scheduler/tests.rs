use crate::host::Host;
use crate::ids::ThreadKey;
use crate::testing::{Answer, DATA, TestHost};
use belljar_linux_abi::c;
use belljar_machine::Regs;
use belljar_tasks::scheduler::Scheduler;
use belljar_tasks::spin::Spin;
use belljar_tasks::strategy::{FifoStrategy, Strategy};
use belljar_tasks::thread::Thread;
use slab::Slab;
use std::collections::VecDeque;

/// Last in, first out, with slices of one call: the opposite of [`FifoStrategy`] in each choice.
#[derive(Default)]
struct Lifo;

impl Strategy for Lifo {
    fn choose_thread(
        &mut self,
        candidates: impl Iterator<Item = usize>,
        _: impl Fn(usize) -> ThreadKey,
    ) -> Option<usize> {
        candidates.last()
    }
    fn slice(&mut self) -> u32 {
        1
    }
    fn choose_waiter(&mut self, candidates: impl Iterator<Item = usize>) -> Option<usize> {
        candidates.last()
    }
    fn order_waiters<T>(&mut self, waiters: &mut [T]) {
        waiters.reverse();
    }
}

/// Threads of a test host, in no run queue.
fn threads(count: usize) -> TestHost {
    TestHost::new(count)
}

/// Order in which all threads of a scheduler have their turns.
fn turns<S: Strategy>(scheduler: &mut Scheduler<S>, threads: &Slab<Thread>) -> Vec<ThreadKey> {
    std::iter::from_fn(|| scheduler.start_turn(threads)).collect()
}

#[test]
fn a_strategy_decides_who_is_next_for_how_long_and_who_is_woken() {
    let guest = threads(3);
    let (mut fifo, mut lifo) = (Scheduler::<FifoStrategy>::default(), Scheduler::<Lifo>::default());
    for thread in &guest.threads {
        fifo.ready(*thread);
        lifo.ready(*thread);
    }
    let mut reversed = guest.threads.clone();
    reversed.reverse();
    assert_eq!(turns(&mut fifo, &guest.host.threads), guest.threads);
    assert_eq!(turns(&mut lifo, &guest.host.threads), reversed);
    assert_eq!((fifo.calls_left(), lifo.calls_left()), (FifoStrategy::SLICE, 1));
    let waiters = VecDeque::from([1, 2, 3, 4]);
    assert_eq!(fifo.choose_waiter(&waiters, |n| n % 2 == 0), Some(1));
    assert_eq!(lifo.choose_waiter(&waiters, |n| n % 2 == 0), Some(3));
    assert_eq!(fifo.choose_waiter(&waiters, |n| *n > 4), None);
    let (mut first, mut last) = ([1, 2, 3], [1, 2, 3]);
    fifo.order_waiters(&mut first);
    lifo.order_waiters(&mut last);
    assert_eq!((first, last), ([1, 2, 3], [3, 2, 1]));
}

#[test]
fn a_paused_turn_goes_on_with_the_rest_of_its_slice() {
    let guest = threads(2);
    let mut scheduler = Scheduler::<FifoStrategy>::default();
    guest.threads.iter().for_each(|thread| scheduler.ready(*thread));
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(guest.threads[0]));
    assert!(scheduler.take_call());
    scheduler.calls_answered(50);
    scheduler.pause_turn(guest.threads[0]);
    assert!(scheduler.is_runnable(&guest.host.threads));
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(guest.threads[0]));
    assert_eq!(scheduler.calls_left(), FifoStrategy::SLICE - 51);
    // A call that was taken and not made is made later.
    assert!(scheduler.take_call());
    scheduler.pause_turn_before_call(guest.threads[0]);
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(guest.threads[0]));
    assert_eq!(scheduler.calls_left(), FifoStrategy::SLICE - 51);
    // An event ends the turn: the other thread is next, with a slice of its own.
    scheduler.pause_turn(guest.threads[0]);
    scheduler.end_turn();
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(guest.threads[1]));
    assert_eq!(scheduler.calls_left(), FifoStrategy::SLICE);
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(guest.threads[0]));
    assert!(!scheduler.is_runnable(&guest.host.threads));
}

#[test]
fn a_slice_ends_after_its_calls() {
    let guest = threads(1);
    let mut scheduler = Scheduler::<FifoStrategy>::default();
    scheduler.ready(guest.threads[0]);
    scheduler.start_turn(&guest.host.threads);
    let calls = std::iter::from_fn(|| scheduler.take_call().then_some(())).count();
    assert_eq!(calls, 200);
    assert_eq!(scheduler.calls_left(), 0);
}

#[test]
fn threads_that_a_debugger_held_come_before_the_others() {
    let guest = threads(4);
    let [a, b, c, d] = guest.threads[..] else { panic!("four were made") };
    let mut scheduler = Scheduler::<FifoStrategy>::default();
    scheduler.ready(a);
    scheduler.ready(b);
    scheduler.ready_first(vec![c, d]);
    scheduler.remove(a);
    assert_eq!(scheduler.ready_count(), 3);
    assert_eq!(turns(&mut scheduler, &guest.host.threads), [c, d, b]);
}

#[test]
fn a_thread_that_waits_in_a_loop_lets_others_go_first() {
    let mut guest = threads(2);
    let [spins, other] = guest.threads[..] else { panic!("two were made") };
    let mut scheduler = Scheduler::<FifoStrategy>::default();
    guest.host.threads[spins.0].spin = Some(Box::new(Spin::new(Regs::default(), 1, 0)));
    scheduler.ready(spins);
    // No event has occurred that the spinning thread could wait for.
    assert!(!scheduler.is_runnable(&guest.host.threads));
    scheduler.ready(other);
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(other));
    // An event has occurred and no other thread can run.
    scheduler.made_progress();
    assert_eq!(scheduler.start_turn(&guest.host.threads), Some(spins));
    // The spinning thread has its turn once enough events have occurred.
    scheduler.ready(spins);
    scheduler.ready(other);
    scheduler.calls_answered(1_000);
    assert_eq!(turns(&mut scheduler, &guest.host.threads), [spins, other]);
}

#[test]
fn woken_threads_run_in_the_order_in_which_they_went_to_sleep() {
    let mut guest = threads(3);
    let word = guest.put(0, &0u32.to_le_bytes());
    let wait = [word, (c::FUTEX_WAIT | c::FUTEX_PRIVATE_FLAG) as u64, 0, 0];
    assert_eq!(guest.attempt(2, c::SYS_futex, &wait), Answer::Blocked);
    assert_eq!(guest.attempt(1, c::SYS_futex, &wait), Answer::Blocked);
    let wake = [DATA, (c::FUTEX_WAKE | c::FUTEX_PRIVATE_FLAG) as u64, 2];
    assert_eq!(guest.call(c::SYS_futex, &wake), Ok(2));
    let Host { scheduler, threads, .. } = &mut guest.host;
    assert_eq!(turns(scheduler, threads), [guest.threads[2], guest.threads[1]]);
}
