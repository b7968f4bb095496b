use super::*;
use belljar_base::Seed;
use belljar_net::link::{LinkDirection, LinkProperties};
use belljar_packetio::{Counters, Error, Frame, TimeSource, UnixOptions, UnixPort};
use belljar_wire::ethernet::Address;
use std::os::fd::BorrowedFd;

/// Clock that is set manually.
struct Still(SimTime);

impl Clock for Still {
    fn now(&self) -> SimTime {
        self.0
    }
    fn real(&self, _: SimDuration) -> Duration {
        Duration::ZERO
    }
}

/// Clock that shows the time of the kernel's time stamps, and is set manually.
struct Shown(SimTime);

impl Clock for Shown {
    fn now(&self) -> SimTime {
        self.0
    }
    fn real(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(span.as_nanos())
    }
    fn shown_at(&self, stamp: Timestamp) -> Option<SimTime> {
        Some(SimTime::from_nanos(stamp.nanos))
    }
}

/// Clock like [`Shown`], dilated by a factor.
struct Slow(SimTime, u64);

impl Clock for Slow {
    fn now(&self) -> SimTime {
        self.0
    }
    fn real(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(span.as_nanos() * self.1)
    }
    fn shown_at(&self, stamp: Timestamp) -> Option<SimTime> {
        Some(SimTime::from_nanos(stamp.nanos))
    }
}

/// Clock that is about to stop.
struct Stopping;

impl Clock for Stopping {
    fn now(&self) -> SimTime {
        SimTime::ZERO
    }
    fn real(&self, _: SimDuration) -> Duration {
        Duration::MAX
    }
    fn real_while_going(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(span.as_nanos() * 3)
    }
}

/// Port whose frames have a time stamp of as many milliseconds as their first byte.
struct Stamped(UnixPort);

impl Port for Stamped {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn mac(&self) -> Address {
        self.0.mac()
    }
    fn mtu(&self) -> usize {
        self.0.mtu()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
    fn room(&self) -> usize {
        1_000
    }
    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Frame<'_>)) -> Result<usize> {
        self.0.receive(limit, &mut |frame| {
            let nanos = u64::from(frame.bytes[0]) * 1_000_000;
            each(Frame { time: Some(Timestamp { nanos, source: TimeSource::Kernel }), ..frame });
        })
    }
    fn send(&mut self, frame: &[u8]) -> Result<Sent> {
        self.0.send(frame)
    }
    fn flush(&mut self) -> Result<bool> {
        self.0.flush()
    }
    fn counters(&mut self) -> Counters {
        self.0.counters()
    }
}

/// Clock of the machine, dilated by a factor.
struct Dilated {
    start: rustix::time::Timespec,
    factor: u64,
}

impl Dilated {
    fn new(factor: u64) -> Dilated {
        Dilated { start: Dilated::monotonic(), factor }
    }
    fn monotonic() -> rustix::time::Timespec {
        rustix::time::clock_gettime(rustix::time::ClockId::Monotonic)
    }
}

impl Clock for Dilated {
    fn now(&self) -> SimTime {
        let now = Dilated::monotonic();
        let ns = (now.tv_sec - self.start.tv_sec) * 1_000_000_000 + (now.tv_nsec - self.start.tv_nsec);
        SimTime::from_nanos(ns as u64 / self.factor)
    }
    fn real(&self, span: SimDuration) -> Duration {
        Duration::from_nanos(span.as_nanos().saturating_mul(self.factor))
    }
}

fn ends(config: &LinkProperties) -> (UnixPort, UnixPort, Relay) {
    ends_with(config, |port| Box::new(port))
}

fn ends_with(config: &LinkProperties, port: fn(UnixPort) -> Box<dyn Port>) -> (UnixPort, UnixPort, Relay) {
    let pair = |name| UnixPort::pair(name, &UnixOptions::default()).unwrap();
    let ((a, near_a), (b, near_b)) = (pair("a"), pair("b"));
    let line = |from| {
        let direction = LinkDirection::new(config, Seed(1), "link", from, Vec::new(), SimTime::ZERO);
        Line::new(&config.nic(1_514, Seed(1), "link", from), direction)
    };
    let relay = Relay::new((port(near_a), line("a")), (port(near_b), line("b")));
    (a, b, relay)
}

/// Moves the frames that are due, and returns their number.
fn turn(relay: &mut Relay, clocks: [&dyn Clock; 2]) -> usize {
    relay.work(clocks).unwrap().frames
}

fn delayed(ms: u64) -> LinkProperties {
    LinkProperties { latency: SimDuration::from_millis(ms), rate: None, ..LinkProperties::default() }
}

fn send(port: &mut UnixPort, byte: u8) {
    assert_eq!(port.send(&[byte; 60]).unwrap(), Sent::Queued);
    assert!(port.flush().unwrap());
}

fn received(port: &mut UnixPort) -> Vec<u8> {
    let mut bytes = Vec::new();
    port.receive(100, &mut |f| bytes.push(f.bytes[0])).unwrap();
    bytes
}

#[test]
fn frames_cross_when_the_clock_says_so_and_not_before() {
    let (mut a, mut b, mut relay) = ends(&delayed(10));
    let mut clock = Still(SimTime::ZERO);
    send(&mut a, 1);
    send(&mut b, 2);
    assert_eq!(turn(&mut relay, [&clock, &clock]), 2);
    clock.0 = SimTime::from_nanos(9_999_999);
    assert_eq!(turn(&mut relay, [&clock, &clock]), 0);
    assert_eq!((received(&mut a), received(&mut b)), (vec![], vec![]));
    clock.0 = SimTime::from_nanos(10_000_000);
    assert_eq!(turn(&mut relay, [&clock, &clock]), 2);
    assert_eq!((received(&mut a), received(&mut b)), (vec![2], vec![1]));
    assert_eq!(relay.line(0).lateness().max(), SimDuration::ZERO);
}

#[test]
fn a_dilated_clock_stretches_the_delay() {
    for factor in [1, 5] {
        let (mut a, mut b, mut relay) = ends(&delayed(20));
        precise_waits().unwrap();
        let clock = Dilated::new(factor);
        send(&mut a, 1);
        let start = clock.now();
        let mut got = Vec::new();
        while got.is_empty() {
            turn(&mut relay, [&clock, &clock]);
            let rest = relay.rest([&clock, &clock], Duration::from_secs(5), SimDuration::ZERO);
            std::thread::sleep(rest.wait);
            turn(&mut relay, [&clock, &clock]);
            got = received(&mut b);
        }
        let took = clock.now().since(start);
        assert!(took >= SimDuration::from_millis(20), "{took}");
        let lateness = relay.line(0).lateness();
        assert_eq!(lateness.count(), 1);
        // The machine may be busy, but not late by seconds.
        assert!(lateness.max() < SimDuration::from_secs(2), "{}", lateness.max());
    }
}

#[test]
fn each_end_has_a_clock_of_its_own() {
    let (mut a, mut b, mut relay) = ends(&delayed(10));
    let at = |ms: u64| Still(SimTime::from_nanos(ms * 1_000_000));
    send(&mut a, 1);
    // The far end is ahead: a frame that the near end sends now is still due by its own time.
    assert_eq!(turn(&mut relay, [&at(0), &at(8)]), 1);
    assert_eq!(turn(&mut relay, [&at(20), &at(9)]), 0, "the near end's time does not count");
    assert_eq!(turn(&mut relay, [&at(0), &at(10)]), 1);
    assert_eq!((received(&mut b), relay.line(0).lateness().max()), (vec![1], SimDuration::ZERO));
    // The other direction: the destination is behind, and gets the frame when its clock has advanced.
    send(&mut b, 2);
    assert_eq!(turn(&mut relay, [&at(3), &at(12)]), 1);
    assert_eq!(turn(&mut relay, [&at(21), &at(12)]), 0);
    assert_eq!(turn(&mut relay, [&at(23), &at(12)]), 1);
    assert_eq!(relay.line(1).lateness().max(), SimDuration::from_millis(1));
}

#[test]
fn a_stamped_frame_is_due_by_its_stamp_however_late_it_is_taken_in() {
    let (mut a, mut b, mut relay) = ends_with(&delayed(10), |port| Box::new(Stamped(port)));
    let at = |ms: u64| Shown(SimTime::from_nanos(ms * 1_000_000));
    send(&mut a, 3);
    assert_eq!(turn(&mut relay, [&at(7), &at(7)]), 1);
    assert_eq!(turn(&mut relay, [&at(12), &at(12)]), 0);
    assert_eq!(turn(&mut relay, [&at(13), &at(13)]), 1);
    assert_eq!((received(&mut b), relay.line(0).lateness().max()), (vec![3], SimDuration::ZERO));
    // The wall clock was set: a frame has arrived neither before the last poll nor in the future.
    for stamp in [1, 200] {
        send(&mut a, stamp);
    }
    assert_eq!(turn(&mut relay, [&at(14), &at(14)]), 2);
    assert_eq!(turn(&mut relay, [&at(23), &at(23)]), 1);
    assert_eq!(turn(&mut relay, [&at(24), &at(24)]), 1);
}

#[test]
fn stamps_hold_for_more_frames_than_one_look_takes_in() {
    let (mut a, _b, mut relay) = ends_with(&delayed(10), |port| Box::new(Stamped(port)));
    let at = |ms: u64| Shown(SimTime::from_nanos(ms * 1_000_000));
    for _ in 0..100 {
        send(&mut a, 3);
    }
    while turn(&mut relay, [&at(7), &at(7)]) > 0 {}
    assert_eq!(turn(&mut relay, [&at(13), &at(13)]), 100);
}

#[test]
fn a_flow_wakes_nobody_for_frames_that_come() {
    let limited = LinkProperties { rate: Some(480_000), ..delayed(5) };
    let (mut a, _b, mut relay) = ends_with(&limited, |port| Box::new(Stamped(port)));
    let at = |micros: u64| Shown(SimTime::from_nanos(micros * 1_000));
    let rest = |relay: &mut Relay, micros| {
        let rest = relay.rest([&at(micros), &at(micros)], Duration::from_millis(20), SimDuration::ZERO);
        assert_eq!(rest.wait, rest.early);
        (rest.wait, rest.awake)
    };
    let turn = |relay: &mut Relay, micros| turn(relay, [&at(micros), &at(micros)]);
    let micros = Duration::from_micros;
    assert_eq!(rest(&mut relay, 0), (micros(20_000), [true; 2]));
    send(&mut a, 0);
    assert_eq!(turn(&mut relay, 0), 1);
    // A frame of 60 bytes takes 1 ms. Without a flow, the next frame wakes the thread.
    assert_eq!(rest(&mut relay, 0), (micros(6_000), [true; 2]));
    send(&mut a, 0);
    assert_eq!(turn(&mut relay, 0), 1);
    // Neither the second frame's departure nor an arrival wakes the thread, and polls become rare.
    assert_eq!(rest(&mut relay, 0), (micros(250), [false, true]));
    assert_eq!(turn(&mut relay, 250), 0);
    assert_eq!(rest(&mut relay, 250), (micros(500), [false, true]));
    // An early poll does not cover the whole interval.
    assert_eq!(turn(&mut relay, 350), 0);
    assert_eq!(rest(&mut relay, 350), (micros(500), [false, true]));
    assert_eq!(turn(&mut relay, 850), 0);
    assert_eq!(rest(&mut relay, 850), (micros(1_000), [false, true]));
    assert_eq!(rest(&mut relay, 5_600), (micros(250), [false, true]), "what was not seen may be due then");
    assert_eq!(rest(&mut relay, 5_900), (micros(100), [true; 2]), "the first is due at 6 ms");
    // Many frames at one poll reset the interval.
    for _ in 0..150 {
        send(&mut a, 0);
    }
    rest(&mut relay, 900);
    while turn(&mut relay, 900) > 0 {}
    assert_eq!(rest(&mut relay, 900).0, micros(250));
}

#[test]
fn frames_may_wait_for_others_and_are_due_before() {
    let (mut a, _b, mut relay) = ends_with(&delayed(10), |port| Box::new(Stamped(port)));
    let at = |ms: u64| Shown(SimTime::from_nanos(ms * 1_000_000));
    send(&mut a, 3);
    turn(&mut relay, [&at(4), &at(4)]);
    let mut rest =
        |slack| relay.rest([&at(4), &at(4)], Duration::from_secs(1), SimDuration::from_millis(slack));
    let millis = Duration::from_millis;
    assert_eq!(rest(0), Rest { wait: millis(9), early: millis(9), awake: [true; 2] });
    assert_eq!(rest(5), Rest { wait: millis(14), early: millis(9), awake: [true; 2] });
}

#[test]
fn a_port_is_looked_at_by_the_clock_where_the_line_has_a_rate() {
    // Frames of 60 bytes take 10 us of a clock dilated by 100.
    let limited = LinkProperties { rate: Some(48_000_000), ..delayed(20) };
    for (config, frames, longest) in [(limited, 10, 330), (delayed(1), 60, 3)] {
        let (mut a, _b, mut relay) = ends_with(&config, |port| Box::new(Stamped(port)));
        let mut clock = Slow(SimTime::ZERO, 100);
        for _ in 0..frames {
            send(&mut a, 0);
        }
        turn(&mut relay, [&clock, &clock]);
        for _ in 0..11 {
            let rest = relay.rest([&clock, &clock], Duration::from_secs(5), SimDuration::ZERO);
            assert_eq!(rest.awake, [false, true]);
            clock.0 += SimDuration::from_nanos(rest.wait.as_nanos() as u64 / clock.1);
            turn(&mut relay, [&clock, &clock]);
        }
        let rest = relay.rest([&clock, &clock], Duration::from_secs(5), SimDuration::ZERO);
        assert_eq!(rest.wait.as_millis(), longest);
    }
}

#[test]
fn a_clock_that_is_about_to_stand_makes_no_look_endless() {
    let limited = LinkProperties { rate: Some(48_000_000), ..delayed(20) };
    let (_a, _b, relay) = ends_with(&limited, |port| Box::new(Stamped(port)));
    let longest = |clock: &dyn Clock| relay.ends[0].looks(clock)[1];
    assert_eq!(longest(&Slow(SimTime::ZERO, 2)), Duration::from_micros(6_600));
    assert_eq!(longest(&Stopping), Duration::from_micros(9_900));
}

#[test]
fn frames_far_apart_wake_as_if_they_were_alone() {
    let (mut a, _b, mut relay) = ends_with(&delayed(100), |port| Box::new(Stamped(port)));
    for ms in [0, 30, 60, 90] {
        let clock = Shown(SimTime::from_nanos(ms * 1_000_000));
        send(&mut a, ms as u8);
        turn(&mut relay, [&clock, &clock]);
        assert_eq!(relay.rest([&clock, &clock], Duration::from_secs(1), SimDuration::ZERO).awake, [true; 2]);
    }
}

#[test]
fn a_port_without_room_is_counted_and_a_lost_peer_is_an_error() {
    let (mut a, b, mut relay) = ends(&delayed(0));
    let mut clock = Still(SimTime::ZERO);
    for _ in 0..100 {
        for _ in 0..50 {
            let _ = a.send(&[7; 1000]).unwrap();
        }
        a.flush().unwrap();
        turn(&mut relay, [&clock, &clock]);
        clock.0 += SimDuration::from_millis(1);
    }
    assert!(relay.refused(0).full > 0);
    assert!(relay.port(1).counters().sent.frames > 50);
    drop(b);
    let error = (0..10).find_map(|_| relay.work([&clock, &clock]).err());
    assert!(matches!(error, Some(Error::PeerClosed { .. })), "{error:?}");
}
