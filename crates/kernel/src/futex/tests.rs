use crate::testing::{Answer, DATA, TestHost};
use belljar_base::SimDuration;
use belljar_linux_abi::{Errno, c};

const FUTEX: i64 = c::SYS_futex;
const WAIT: u64 = (c::FUTEX_WAIT | c::FUTEX_PRIVATE_FLAG) as u64;
const WAKE: u64 = (c::FUTEX_WAKE | c::FUTEX_PRIVATE_FLAG) as u64;
const CMP_REQUEUE: u64 = (c::FUTEX_CMP_REQUEUE | c::FUTEX_PRIVATE_FLAG) as u64;
const LOCK_PI: u64 = (c::FUTEX_LOCK_PI | c::FUTEX_PRIVATE_FLAG) as u64;
const UNLOCK_PI: u64 = (c::FUTEX_UNLOCK_PI | c::FUTEX_PRIVATE_FLAG) as u64;

#[test]
fn waiters_are_woken_in_the_order_they_came() {
    let mut t = TestHost::new(3);
    assert_eq!(t.attempt(1, FUTEX, &[DATA, WAIT, 0]), Answer::Blocked);
    assert_eq!(t.attempt(0, FUTEX, &[DATA, WAIT, 0]), Answer::Blocked);
    assert_eq!(t.attempt(2, FUTEX, &[DATA, WAKE, 1]), Answer::Ended(Ok(1)));
    assert_eq!(t.go_on(0), Answer::Blocked);
    assert_eq!(t.go_on(1), Answer::Ended(Ok(0)));
    assert_eq!(t.attempt(2, FUTEX, &[DATA, WAKE, 9]), Answer::Ended(Ok(1)));
    assert_eq!(t.go_on(0), Answer::Ended(Ok(0)));
    assert!(t.host.futexes.is_empty());
}

#[test]
fn a_changed_word_or_a_timeout_ends_the_wait() {
    let mut t = TestHost::new(1);
    assert_eq!(t.attempt(0, FUTEX, &[DATA, WAIT, 1]), Answer::Ended(Err(Errno::EAGAIN)));
    let timeout = t.put(64, &[0u64.to_le_bytes(), 5_000u64.to_le_bytes()].concat());
    assert_eq!(t.attempt(0, FUTEX, &[DATA, WAIT, 0, timeout]), Answer::Blocked);
    t.pass(SimDuration::from_micros(4));
    assert_eq!(t.go_on(0), Answer::Blocked);
    t.pass(SimDuration::from_micros(1));
    assert_eq!(t.go_on(0), Answer::Ended(Err(Errno::ETIMEDOUT)));
    assert!(t.host.futexes.is_empty());
}

#[test]
fn a_requeued_waiter_is_woken_where_it_was_moved_to() {
    let mut t = TestHost::new(3);
    let other = DATA + 128;
    for n in 0..2 {
        assert_eq!(t.attempt(n, FUTEX, &[DATA, WAIT, 0]), Answer::Blocked);
    }
    assert_eq!(t.attempt(2, FUTEX, &[DATA, CMP_REQUEUE, 1, 9, other, 7]), Answer::Ended(Err(Errno::EAGAIN)));
    assert_eq!(t.attempt(2, FUTEX, &[DATA, CMP_REQUEUE, 1, 9, other, 0]), Answer::Ended(Ok(2)));
    assert_eq!(t.go_on(0), Answer::Ended(Ok(0)));
    assert_eq!(t.attempt(2, FUTEX, &[DATA, WAKE, 9]), Answer::Ended(Ok(0)));
    assert_eq!(t.attempt(2, FUTEX, &[other, WAKE, 9]), Answer::Ended(Ok(1)));
    assert_eq!(t.go_on(1), Answer::Ended(Ok(0)));
}

#[test]
fn a_lock_is_handed_over_and_an_abandoned_one_is_marked() {
    let mut t = TestHost::new(2);
    let word = |t: &TestHost| u32::from_le_bytes(t.get(0, 4).try_into().unwrap());
    let tids = [0, 1].map(|n: usize| t.host.threads[t.threads[n].0].tid as u32);
    assert_eq!(t.attempt(0, FUTEX, &[DATA, LOCK_PI]), Answer::Ended(Ok(0)));
    assert_eq!(t.attempt(0, FUTEX, &[DATA, LOCK_PI]), Answer::Ended(Err(Errno::EDEADLK)));
    assert_eq!(t.attempt(1, FUTEX, &[DATA, LOCK_PI]), Answer::Blocked);
    assert_eq!(word(&t), tids[0] | c::FUTEX_WAITERS);
    assert_eq!(t.attempt(1, FUTEX, &[DATA, UNLOCK_PI]), Answer::Ended(Err(Errno::EPERM)));
    assert_eq!(t.attempt(0, FUTEX, &[DATA, UNLOCK_PI]), Answer::Ended(Ok(0)));
    assert_eq!(word(&t), tids[1]);

    // A robust list with one lock at DATA + 256, whose word is 8 bytes after the entry.
    let (head, entry) = (DATA + 512, DATA + 256);
    t.put(512, &[entry, 8, 0].map(u64::to_le_bytes).concat());
    t.put(256, &head.to_le_bytes());
    t.put(264, &(tids[0] | c::FUTEX_WAITERS).to_le_bytes());
    t.host.thread(t.threads[0]).robust_list = (head, 24);
    t.host.exit_thread(t.threads[0], 0);
    let marked = u32::from_le_bytes(t.get(264, 4).try_into().unwrap());
    assert_eq!(marked, c::FUTEX_OWNER_DIED | c::FUTEX_WAITERS);
}
