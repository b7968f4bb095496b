//! Tests of pipes, event counters, timers, poll and epoll through their system calls.

use crate::ids::InodeKey;
use crate::testing::{Answer, DATA, TestHost};
use belljar_base::SimDuration;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::{EPOLLHUP, EPOLLIN, EPOLLOUT};

const EVENTS: u64 = 0x8000;

fn pipe(t: &mut TestHost) -> (u64, u64) {
    t.call(c::SYS_pipe2, &[DATA, 0]).expect("a pipe");
    t.pair(0)
}

fn watch(t: &mut TestHost, epoll: u64, fd: u64, events: u32, data: u64) -> Result<u64, Errno> {
    let mut event = events.to_le_bytes().to_vec();
    event.extend(data.to_le_bytes());
    let at = t.put(0x100, &event);
    t.call(c::SYS_epoll_ctl, &[epoll, c::EPOLL_CTL_ADD as u64, fd, at])
}

/// Parses stored epoll events into pairs of event bits and data.
fn events(t: &TestHost, count: u64) -> Vec<(u32, u64)> {
    let raw = t.get(EVENTS, count as usize * 12);
    raw.chunks_exact(12)
        .map(|e| {
            let data = u64::from_le_bytes(e[4..].try_into().expect("eight bytes"));
            (u32::from_le_bytes(e[..4].try_into().expect("four bytes")), data)
        })
        .collect()
}

fn ready(t: &mut TestHost, epoll: u64, max: u64) -> Vec<(u32, u64)> {
    let n = t.call(c::SYS_epoll_wait, &[epoll, DATA + EVENTS, max, 0]).expect("events");
    events(t, n)
}

#[test]
fn a_long_write_goes_on_as_it_is_read() {
    let mut t = TestHost::new(2);
    let (reader, writer) = pipe(&mut t);
    let data: Vec<u8> = (0..150_000u32).map(|n| (n % 251) as u8).collect();
    let from = t.put(0x10000, &data);
    assert_eq!(t.attempt(1, c::SYS_write, &[writer, from, 150_000]), Answer::Blocked);
    let mut read = Vec::new();
    let mut answer = Answer::Blocked;
    while read.len() < data.len() {
        let n = t.call(c::SYS_read, &[reader, DATA + 0x80000, 50_000]).expect("bytes");
        read.extend(t.get(0x80000, n as usize));
        if answer == Answer::Blocked {
            answer = t.go_on(1);
        }
    }
    assert_eq!(answer, Answer::Ended(Ok(150_000)));
    assert_eq!(read, data);
}

#[test]
fn end_of_file_and_broken_pipes_wake_who_waits() {
    let mut t = TestHost::new(2);
    let (reader, writer) = pipe(&mut t);
    assert_eq!(t.attempt(1, c::SYS_read, &[reader, DATA, 1]), Answer::Blocked);
    t.call(c::SYS_close, &[writer]).expect("closed");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(0)));

    let (reader, writer) = pipe(&mut t);
    t.put(0x10000, &[1; 70_000]);
    assert_eq!(t.attempt(1, c::SYS_write, &[writer, DATA + 0x10000, 70_000]), Answer::Blocked);
    t.call(c::SYS_close, &[reader]).expect("closed");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(65_536)), "what was written before is the answer");
}

#[test]
fn poll_waits_for_any_of_its_descriptors_or_its_time() {
    let mut t = TestHost::new(2);
    let (reader, writer) = pipe(&mut t);
    let event = t.call(c::SYS_eventfd2, &[0, 0]).expect("a counter");
    let mut fds = Vec::new();
    for fd in [reader, event, 999] {
        fds.extend((fd as i32).to_le_bytes());
        fds.extend([1, 0, 0xff, 0xff]);
    }
    let at = t.put(0x100, &fds);
    assert_eq!(t.attempt(1, c::SYS_poll, &[at, 2, 50]), Answer::Blocked);
    t.pass(SimDuration::from_millis(49));
    assert_eq!(t.go_on(1), Answer::Blocked);
    t.pass(SimDuration::from_millis(1));
    assert_eq!(t.go_on(1), Answer::Ended(Ok(0)));
    assert_eq!(t.get(0x106, 2), [0, 0], "nothing is reported, whatever was there");

    assert_eq!(t.attempt(1, c::SYS_poll, &[at, 2, -1i32 as u32 as u64]), Answer::Blocked);
    t.call(c::SYS_write, &[writer, DATA, 1]).expect("written");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(1)));
    assert_eq!(t.get(0x106, 2), [1, 0]);
    assert_eq!(t.call(c::SYS_poll, &[at, 3, 0]), Ok(2));
    assert_eq!(t.get(0x116, 2), (c::POLLNVAL as u16).to_le_bytes());
}

#[test]
fn epoll_reports_in_the_order_of_becoming_ready_and_in_turn() {
    let mut t = TestHost::new(1);
    let epoll = t.call(c::SYS_epoll_create1, &[0]).expect("an instance");
    let pipes: Vec<(u64, u64)> = (0..3).map(|_| pipe(&mut t)).collect();
    for (n, (reader, _)) in pipes.iter().enumerate() {
        watch(&mut t, epoll, *reader, EPOLLIN, n as u64).expect("watched");
    }
    for n in [2, 0, 1] {
        t.call(c::SYS_write, &[pipes[n].1, DATA, 1]).expect("written");
    }
    assert_eq!(ready(&mut t, epoll, 2), [(EPOLLIN, 2), (EPOLLIN, 0)]);
    assert_eq!(ready(&mut t, epoll, 2), [(EPOLLIN, 1), (EPOLLIN, 2)], "none starves");
    t.call(c::SYS_close, &[pipes[1].0]).expect("closed");
    assert_eq!(ready(&mut t, epoll, 8), [(EPOLLIN, 0), (EPOLLIN, 2)]);
}

#[test]
fn an_edge_is_an_event_of_the_kind_asked_for() {
    let mut t = TestHost::new(1);
    let epoll = t.call(c::SYS_epoll_create1, &[0]).expect("an instance");
    let event = t.call(c::SYS_eventfd2, &[0, c::EFD_NONBLOCK as u64]).expect("a counter");
    watch(&mut t, epoll, event, EPOLLIN | c::EPOLLET as u32, 7).expect("watched");
    let one = t.put(0x200, &1u64.to_le_bytes());
    for _ in 0..2 {
        t.call(c::SYS_write, &[event, one, 8]).expect("written");
        assert_eq!(ready(&mut t, epoll, 8), [(EPOLLIN, 7)]);
        assert_eq!(ready(&mut t, epoll, 8), []);
    }
    t.call(c::SYS_read, &[event, DATA, 8]).expect("read");
    assert_eq!(ready(&mut t, epoll, 8), [], "room to write is no edge of reading");
}

#[test]
fn nested_instances_wake_and_cannot_form_a_ring() {
    let mut t = TestHost::new(2);
    let chain: Vec<u64> = (0..6).map(|_| t.call(c::SYS_epoll_create1, &[0]).expect("an instance")).collect();
    for pair in chain.windows(2).take(4) {
        watch(&mut t, pair[0], pair[1], EPOLLIN, 1).expect("watched");
    }
    assert_eq!(watch(&mut t, chain[4], chain[5], EPOLLIN, 1), Err(Errno::ELOOP), "too long");
    assert_eq!(watch(&mut t, chain[4], chain[0], EPOLLIN, 1), Err(Errno::ELOOP), "a ring");
    let (reader, writer) = pipe(&mut t);
    watch(&mut t, chain[4], reader, EPOLLIN, 9).expect("watched");
    let forever = -1i32 as u32 as u64;
    assert_eq!(t.attempt(1, c::SYS_epoll_wait, &[chain[0], DATA + EVENTS, 1, forever]), Answer::Blocked);
    t.call(c::SYS_write, &[writer, DATA, 1]).expect("written");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(1)));
    assert_eq!(events(&t, 1), [(EPOLLIN, 1)]);
}

#[test]
fn an_exclusive_item_spares_the_others() {
    let mut t = TestHost::new(3);
    let (reader, writer) = pipe(&mut t);
    let forever = -1i32 as u32 as u64;
    for n in 1..3 {
        let epoll = t.call(c::SYS_epoll_create1, &[0]).expect("an instance");
        watch(&mut t, epoll, reader, EPOLLIN | c::EPOLLEXCLUSIVE as u32, n).expect("watched");
        let args = [epoll, DATA + EVENTS, 1, forever];
        assert_eq!(t.attempt(n as usize, c::SYS_epoll_wait, &args), Answer::Blocked);
    }
    t.call(c::SYS_write, &[writer, DATA, 1]).expect("written");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(1)));
    assert_eq!(t.go_on(2), Answer::Blocked);
}

#[test]
fn a_timer_counts_what_nobody_read() {
    let mut t = TestHost::new(2);
    let timer = t.call(c::SYS_timerfd_create, &[c::CLOCK_MONOTONIC as u64, 0]).expect("a timer");
    let ms = 1_000_000u64;
    let settings: Vec<u8> = [0, 10 * ms, 0, 30 * ms].iter().flat_map(|n: &u64| n.to_le_bytes()).collect();
    let at = t.put(0x100, &settings);
    t.call(c::SYS_timerfd_settime, &[timer, 0, at, 0]).expect("set");
    assert_eq!(t.attempt(1, c::SYS_read, &[timer, DATA + 0x200, 8]), Answer::Blocked);
    t.pass(SimDuration::from_millis(30));
    assert_eq!(t.go_on(1), Answer::Ended(Ok(8)));
    assert_eq!(t.get(0x200, 8), 1u64.to_le_bytes());
    t.pass(SimDuration::from_millis(35));
    assert_eq!(t.call(c::SYS_read, &[timer, DATA + 0x200, 8]), Ok(8));
    assert_eq!(t.get(0x200, 8), 3u64.to_le_bytes());
    t.call(c::SYS_timerfd_gettime, &[timer, DATA + 0x300]).expect("the rest");
    assert_eq!(t.get(0x318, 8), (5 * ms).to_le_bytes());
}

#[test]
fn select_stores_its_answer_and_the_time_left() {
    let mut t = TestHost::new(2);
    let (reader, writer) = pipe(&mut t);
    let reads = t.put(0x100, &(1u64 << reader).to_le_bytes());
    let time: Vec<u8> = [2u64, 500_000].iter().flat_map(|n| n.to_le_bytes()).collect();
    let time = t.put(0x200, &time);
    let args = [reader + 1, reads, 0, 0, time];
    assert_eq!(t.attempt(1, c::SYS_select, &args), Answer::Blocked);
    t.pass(SimDuration::from_secs(1));
    t.call(c::SYS_write, &[writer, DATA, 1]).expect("written");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(1)));
    assert_eq!(t.get(0x100, 8), (1u64 << reader).to_le_bytes());
    assert_eq!(t.get(0x200, 16), [1u64, 500_000].map(u64::to_le_bytes).concat());
    let writes = t.put(0x100, &(1u64 << 60).to_le_bytes());
    assert_eq!(t.call(c::SYS_select, &[61, 0, writes, 0, time]), Err(Errno::EBADF));
}

#[test]
fn a_fifo_opens_when_both_ends_are_there() {
    use crate::files::fifo::FifoOpen;
    use belljar_objects::file_kind::FileKind;
    let mut t = TestHost::new(2);
    let open = |t: &mut TestHost, flags| t.host.open_fifo((InodeKey(usize::MAX), (1, 2)), flags, false);
    assert_eq!(open(&mut t, c::O_WRONLY | c::O_NONBLOCK).err(), Some(Errno::ENXIO));
    assert!(matches!(open(&mut t, c::O_RDONLY), Ok(FifoOpen::Wait(_))));
    // A nonblocking reader sees no hang-up before a writer has opened the FIFO.
    let Ok(FifoOpen::Opened(kind, generation)) = open(&mut t, c::O_RDONLY | c::O_NONBLOCK) else { panic!() };
    let file = t.host.files.open_file(kind, c::O_RDONLY);
    t.host.files.open(file).offset = generation;
    assert_eq!(t.host.readiness(file), 0);
    let Ok(FifoOpen::Opened(kind @ FileKind::PipeWriter(_), _)) = open(&mut t, c::O_WRONLY) else { panic!() };
    let writer = t.host.files.open_file(kind, c::O_WRONLY);
    assert_eq!(t.host.readiness(writer) & EPOLLOUT, EPOLLOUT);
    t.host.release_file(writer);
    assert_eq!(t.host.readiness(file), EPOLLHUP);
    t.host.release_file(file);
    assert!(t.host.files.fifos.is_empty() && t.host.files.pipes.is_empty());
}
