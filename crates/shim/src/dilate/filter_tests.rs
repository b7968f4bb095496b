//! Tests of the filter, run by an interpreter of its instructions.

use super::*;
use crate::dilate::calls::OF_PACKETS;
use crate::dilate::rings::RINGS;
use crate::dilate::timeouts::{CAPACITY, OF_TIMEOUTS};
use crate::dilate::timer_descriptors::OF_OWNERS;
use crate::dilate::timer_thread::OF_LISTINGS;

extern crate std;
use std::vec::Vec;

/// The filter's verdict on a call from `pointer`.
fn verdict<const N: usize>(filter: &Filter<N>, number: u32, pointer: u64, args: [u64; 6]) -> u32 {
    let mut words: Vec<u32> = [number, X86_64, pointer as u32, (pointer >> 32) as u32].to_vec();
    words.extend(args.iter().flat_map(|arg| [*arg as u32, (*arg >> 32) as u32]));
    let (mut at, mut value) = (0, 0u32);
    loop {
        let Instruction { code, yes, no, value: k } = filter.code()[at];
        let choose = |holds: bool| usize::from(if holds { yes } else { no });
        at += 1 + match code {
            LOAD => {
                value = words[k as usize / 4];
                0
            }
            AND => {
                value &= k;
                0
            }
            EQUAL => choose(value == k),
            AT_LEAST => choose(value >= k),
            ANY_BIT => choose(value & k != 0),
            JUMP => k as usize,
            RETURN => return k,
            other => panic!("{other:#x}"),
        };
    }
}

const GUEST: u64 = 0x5555_5555_4000;
const MINUS_ONE: u64 = 0xffff_ffff;

#[test]
fn calls_about_time_come_here_and_no_others() {
    let filter = Filter::<MOST>::new(CALLS);
    let ask = |number: u64, args: [u64; 6]| verdict(&filter, number as u32, GUEST, args);
    for (number, args) in [
        (nr::CLOCK_GETTIME, [0; 6]),
        (nr::POLL, [1, 1, 1, 0, 0, 0]),
        (nr::EPOLL_PWAIT, [1, 1, 1, 5, 0, 8]),
        (nr::EPOLL_PWAIT, [1, 1, 1, MINUS_ONE, 1 << 40, 8]),
        (nr::PPOLL, [1, 1, 1 << 32, 0, 0, 0]),
        (nr::FUTEX, [1, 0x80, 1, 1 << 35, 0, 0]),
        (nr::FUTEX, [1, 0x189, 1, 1, 0, 0]),
        (nr::FUTEX, [1, 13, 1, 1, 0, 0]),
        (nr::RT_SIGPROCMASK, [0, 1, 0, 8, 0, 0]),
        (nr::RT_SIGPROCMASK, [2, 1, 0, 8, 0, 0]),
        (nr::SETSOCKOPT, [3, 1, 20, 1, 16, 0]),
        (nr::GETSOCKOPT, [3, 6, 11, 1, 16, 0]),
        (nr::SETSOCKOPT, [3, 263, 5, 1, 16, 0]),
        (nr::PRCTL, [26, 2, 0, 0, 0, 0]),
        (nr::EXECVE, [1; 6]),
        (nr::WAIT4, [1, 0, 0, 1, 0, 0]),
    ] {
        assert_eq!(ask(number, args), TRAP, "{number} {args:?}");
        let of_shim = verdict(&filter, number as u32, crate::dilate::layout::IMAGE + 0x1234, args);
        assert_eq!(of_shim, ALLOW, "{number} {args:?} of the shim itself");
    }
    for (number, args) in [
        (nr::READ, [0; 6]),
        (nr::POLL, [1, 1, 0, 0, 0, 0]),
        (nr::POLL, [1, 1, MINUS_ONE, 0, 0, 0]),
        (nr::EPOLL_WAIT, [1, 1, 1, u64::MAX, 0, 0]),
        (nr::EPOLL_PWAIT, [1, 1, 1, 0, 0, 8]),
        (nr::FUTEX, [1, 0x81, 1, 1, 0, 0]),
        (nr::FUTEX, [1, 0x80, 1, 0, 0, 0]),
        (nr::FUTEX, [1, 5, 1, 1, 0, 0]),
        (nr::RT_SIGPROCMASK, [1, 1, 0, 8, 0, 0]),
        (nr::RT_SIGPROCMASK, [2, 0, 1, 8, 0, 0]),
        (nr::SETSOCKOPT, [3, 1, 2, 1, 4, 0]),
        (nr::GETSOCKOPT, [3, 1, 4, 1, 4, 0]),
        (nr::SETSOCKOPT, [3, 6, 1, 1, 4, 0]),
        (nr::SETSOCKOPT, [3, 41, 20, 1, 4, 0]),
        (nr::GETSOCKOPT, [3, 263, 5, 1, 4, 0]),
        (nr::RECVMSG, [0; 6]),
        (nr::WAIT4, [1, 0, 0, 0, 0, 0]),
        (nr::PRCTL, [15, 2, 0, 0, 0, 0]),
    ] {
        assert_eq!(ask(number, args), ALLOW, "{number} {args:?}");
    }
    assert_eq!(ask(nr::IO_URING_SETUP, [0; 6]), NO_SUCH_CALL);
    assert_eq!(ask(nr::CLONE3, [0; 6]), NO_SUCH_CALL);
    assert_eq!(verdict(&filter, FIRST_X32 + 1, GUEST, [0; 6]), NO_SUCH_CALL);
}

#[test]
fn a_process_that_wants_the_times_of_packets_has_one_more() {
    let filter = Filter::<FEW>::new(OF_PACKETS);
    assert_eq!(verdict(&filter, nr::RECVMSG as u32, GUEST, [0; 6]), TRAP);
    assert_eq!(verdict(&filter, nr::READ as u32, GUEST, [0; 6]), ALLOW);
}

#[test]
fn waits_that_freezing_ends_come_here_where_hosts_are_frozen() {
    let (frozen, stopped) = (Filter::<FEW>::new(OF_FROZEN), Filter::<FEW>::new(OF_STOPPED));
    let ask = |filter, number: u64, args| verdict(filter, number as u32, GUEST, args);
    assert_eq!(ask(&frozen, nr::EPOLL_WAIT, [1, 1, 1, MINUS_ONE, 0, 0]), TRAP);
    assert_eq!(ask(&frozen, nr::EPOLL_PWAIT, [1, 1, 1, 0, 0, 8]), ALLOW);
    assert_eq!(ask(&frozen, nr::WAIT4, [0; 6]), ALLOW);
    assert_eq!(ask(&stopped, nr::WAIT4, [0; 6]), TRAP);
    assert!(frozen.len <= FEW && stopped.len <= FEW);
}

#[test]
fn every_call_is_named_once_and_has_room() {
    let mut numbers: Vec<u64> = CALLS.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
    assert!(Filter::<MOST>::new(CALLS).len <= MOST);
    for few in [OF_PACKETS, RINGS, OF_LISTINGS, OF_OWNERS] {
        assert!(Filter::<FEW>::new(few).len <= FEW);
    }
}

#[test]
fn a_process_with_timeouts_of_sockets_has_one_more() {
    let filter = Filter::<CAPACITY>::new(OF_TIMEOUTS);
    assert!(filter.len <= CAPACITY);
    assert_eq!(verdict(&filter, nr::RECVFROM as u32, GUEST, [0; 6]), TRAP);
    assert_eq!(verdict(&filter, nr::CONNECT as u32, crate::dilate::layout::IMAGE, [0; 6]), ALLOW);
    assert_eq!(verdict(&filter, nr::CLOSE as u32, GUEST, [0; 6]), ALLOW);
}
