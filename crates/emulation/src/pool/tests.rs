use super::*;
use crate::clock::ExperimentClock;
use crate::relayed_link::RelayedLink;
use belljar_config::{Experiment, PathContext};
use belljar_packetio::{Port, Sent, UnixOptions, UnixPort};
use belljar_plan::Schedule;
use belljar_platform::dilate::clock::Pace;

/// Returns a pool with a chain of links, and the far ends of their ports.
fn pool(links: usize, settings: &str) -> (Pool, Vec<[UnixPort; 2]>) {
    pool_by(&ExperimentClock::new(Some(1_000)), links, settings, None)
}

fn pool_by(
    clock: &ExperimentClock,
    links: usize,
    settings: &str,
    waker: Option<&Waker>,
) -> (Pool, Vec<[UnixPort; 2]>) {
    let hosts: Vec<String> = (0..=links).map(|n| format!("h{n}: {{ processes: [] }}")).collect();
    let lines: Vec<String> =
        (0..links).map(|n| format!("{{ between: [h{n}, h{}], {settings} }}", n + 1)).collect();
    let text = format!(
        "general: {{ stop_time: 60 }}\nhosts: {{ {} }}\nlinks: [{}]\n",
        hosts.join(", "),
        lines.join(", ")
    );
    let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
    let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
    let schedule = Schedule::new(&experiment);
    let clock = clock.beginning_at(clock.pace().real);
    let (mut running, mut ends) = (Vec::new(), Vec::new());
    for link in 0..links {
        let [(a, near), (b, far)] =
            ["a", "b"].map(|name| UnixPort::pair(name, &UnixOptions::default()).unwrap());
        let ports: [Box<dyn Port>; 2] = [Box::new(near), Box::new(far)];
        let link =
            RelayedLink::new(&experiment, &schedule, link).start(ports, [clock.clone(), clock.clone()], None);
        running.push((link, waker.map(Waker::beside)));
        ends.push([a, b]);
    }
    (Pool::new(running).unwrap(), ends)
}

/// Guard that ends a pool, also when a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs a pool while `each` uses the far ends of its ports.
fn run(pool: Pool, ends: &mut [[UnixPort; 2]], each: impl FnOnce(&mut [[UnixPort; 2]])) -> PoolReport {
    let (pressure, stop) = (Pressure::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| pool.run(&pressure, &stop));
        let end = End(&stop);
        each(ends);
        drop(end);
        thread.join().unwrap()
    })
}

fn send(port: &mut UnixPort, byte: u8) {
    assert_eq!(port.send(&[byte; 60]).unwrap(), Sent::Queued);
    assert!(port.flush().unwrap());
}

/// Receives frames until there are `count`; returns the first byte of each.
fn receive(port: &mut UnixPort, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..60_000 {
        port.receive(100, &mut |frame| bytes.push(frame.bytes[0])).unwrap();
        if bytes.len() >= count {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bytes
}

#[test]
fn one_thread_moves_the_frames_of_many_links_in_order() {
    let (pool, mut ends) = pool(5, "latency: 2 ms");
    let report = run(pool, &mut ends, |ends| {
        for round in 0..40 {
            for [a, b] in ends.iter_mut() {
                send(a, round);
                send(b, 100 + round);
            }
        }
        for [a, b] in ends.iter_mut() {
            assert_eq!(receive(b, 40), (0..40).collect::<Vec<_>>());
            assert_eq!(receive(a, 40), (100..140).collect::<Vec<_>>());
        }
    });
    assert_eq!(report.links.iter().map(|report| report.link).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    for report in &report.links {
        assert!(report.directions.iter().all(|of| of.counters.delivered == 40 && of.missed == 0));
        assert_eq!(report.lateness.count(), 80);
    }
}

#[test]
fn a_link_whose_port_is_gone_leaves_the_others_alone() {
    let (pool, mut ends) = pool(2, "latency: 1 ms");
    let gone = ends.remove(0);
    drop(gone);
    let report = run(pool, &mut ends, |ends| {
        for round in 0..3 {
            send(&mut ends[0][0], round);
            assert_eq!(receive(&mut ends[0][1], 1), [round]);
        }
    });
    assert_eq!(report.links.len(), 2);
}

#[test]
fn a_link_whose_port_is_gone_is_not_worked_for_again() {
    let (mut pool, mut ends) = pool(1, "latency: 1 ms");
    let pressure = Pressure::default();
    pool.work(0, &pressure);
    assert_eq!(pool.places[0].awaited, [Some(true); 2]);
    ends.clear();
    pool.work(0, &pressure);
    let Place { next, early, awaited, .. } = &pool.places[0];
    assert_eq!((*next, *early, *awaited), (u64::MAX, u64::MAX, [None; 2]));
    pool.wait(Duration::ZERO);
    assert!(!pool.places[0].ready, "its errors end no sleep");
}

#[test]
fn a_port_that_is_not_to_wake_does_not() {
    let (mut pool, mut ends) = pool(1, "latency: 1 ms");
    pool.work(0, &Pressure::default());
    let mut is_ready = |pool: &mut Pool| {
        send(&mut ends[0][0], 1);
        pool.wait(Duration::ZERO);
        std::mem::take(&mut pool.places[0].ready)
    };
    assert!(is_ready(&mut pool));
    pool.await_port(0, 0, Some(false));
    assert!(!is_ready(&mut pool));
    pool.await_port(0, 0, Some(true));
    assert!(is_ready(&mut pool));
}

#[test]
fn frames_wait_for_each_other_where_they_are_many() {
    let (mut pool, mut ends) = pool(1, "latency: 500 ms");
    let pressure = Pressure::default();
    assert_eq!(pool.places[0].link.slack(), Duration::from_micros(125), "a quarter of what does no harm");
    let mut waits = |pool: &mut Pool, rate: u64| {
        send(&mut ends[0][0], 1);
        pool.rate = rate;
        pool.work(0, &pressure);
        pool.places[0].next - pool.places[0].early
    };
    let few = TOGETHER * 1_000_000_000 / 125_000;
    assert_eq!(waits(&mut pool, few - 1), 0);
    assert_eq!(waits(&mut pool, few), 125_000);
}

#[test]
fn frames_wait_for_a_clock_that_stands() {
    let waker = Waker::new().unwrap();
    let clock = ExperimentClock::new(Some(1_000));
    let pace = clock.pace();
    clock.go_on(Pace { limit: pace.start, ..pace });
    let (pool, mut ends) = pool_by(&clock, 1, "latency: 1 ms", Some(&waker));
    let told = pool.places[0].waker.clone().unwrap();
    let mut pool = pool;
    pool.wait(Duration::ZERO);
    assert!(!pool.places[0].ready);
    told.wake();
    pool.wait(Duration::ZERO);
    assert!(std::mem::take(&mut pool.places[0].ready), "a waker is for its link");
    pool.wait(Duration::ZERO);
    assert!(!pool.places[0].ready, "and once");
    run(pool, &mut ends, |ends| {
        send(&mut ends[0][0], 1);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(ends[0][1].receive(1, &mut |_| {}).unwrap(), 0);
        clock.go_on(Pace { real: monotonic_ns(), ..pace });
        told.wake();
        assert_eq!(receive(&mut ends[0][1], 1), [1]);
    });
}
