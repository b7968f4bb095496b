use super::*;

/// Window of 200 ms: user and kernel ticks of each processor, of 20, and packets of the network.
pub fn window(processors: &[(u64, u64)], packets: u64) -> Sample {
    let ticks = |&(user, kernel): &(u64, u64)| Ticks {
        all: 20,
        idle: 20 - user - kernel,
        kernel,
        interrupts: kernel / 2,
        stolen: 0,
    };
    let network = Some((packets, 0));
    let processors = processors.iter().map(ticks).collect();
    Sample { ns: WINDOW.as_nanos() as u64, processors, network, packets, ..Sample::default() }
}

/// Result of measuring these windows, each for a number of times.
pub fn measured(runs: &[(usize, Sample)]) -> (Cpu, Load) {
    let (mut windows, mut all) = (Windows::default(), Sample::default());
    for window in runs.iter().flat_map(|(times, window)| std::iter::repeat_n(window, *times)) {
        windows.add(window, false, false);
        all.processors.resize(window.processors.len(), Ticks::default());
        for (sum, ticks) in all.processors.iter_mut().zip(&window.processors) {
            *sum = sum.with(*ticks);
        }
        all.packets += window.packets;
    }
    let cpu = Cpu { processors: all.processors.len(), ..windows.cpu(&all) };
    (cpu, Load { packets: all.packets, ..windows.load() })
}

#[test]
fn shares_are_those_of_the_time_in_which_links_are_loaded() {
    let (full, idle) = (window(&[(5, 15), (5, 15)], 20_000), window(&[(0, 1), (0, 0)], 10));
    let (cpu, load) = measured(&[(10, full.clone()), (90, idle.clone())]);
    assert_eq!((load.saturated, load.loaded, cpu.saturated), (1.0, 0.1, 0.1));
    let (_, load) = measured(&[(1, full), (9, idle)]);
    assert_eq!((load.saturated, load.nearly_saturated), (0.0, 0.0), "a moment");
    let hogs = window(&[(20, 0), (20, 0)], 50);
    let (cpu, load) = measured(&[(20, hogs)]);
    assert_eq!((cpu.saturated, load.saturated, load.loaded), (1.0, 0.0, 0.0), "links are not loaded");
}

#[test]
fn one_processor_is_saturated_by_the_kernel_alone() {
    let one = |user, kernel| {
        let mut processors = vec![(0, 1); 16];
        processors[3] = (user, kernel);
        measured(&[(20, window(&processors, 20_000))]).1.one_saturated
    };
    assert_eq!((one(2, 18), one(18, 2), one(2, 14)), (1.0, 0.0, 0.0));
}

#[test]
fn a_filled_link_is_counted_apart() {
    let mut windows = Windows::default();
    (0..10).for_each(|number| windows.add(&window(&[(2, 18), (2, 18)], 9_000), number < 6, false));
    let load = windows.load();
    assert_eq!((load.saturated, load.nearly_saturated, load.saturated_filled), (0.4, 0.4, 0.6));
}

#[test]
fn senders_that_always_have_data_count_while_processors_are_busy_and_no_link_is_filled() {
    // Two processors that wait for each other: neither is saturated.
    let turns = window(&[(1, 13), (2, 12)], 9_000);
    let pressed = |window: &Sample, filled, pressed| {
        let mut windows = Windows::default();
        (0..10).for_each(|number| windows.add(window, filled, pressed && number < 8));
        windows.load().pressed
    };
    assert_eq!((pressed(&turns, false, true), pressed(&turns, true, true)), (0.8, 0.0));
    assert_eq!(pressed(&turns, false, false), 0.0);
    assert_eq!(pressed(&window(&[(0, 3), (1, 2)], 9_000), false, true), 0.0, "idle processors");
    assert_eq!(pressed(&window(&[(1, 13), (2, 12)], 30), false, true), 0.0, "links are not loaded");
}

#[test]
fn counts_are_read_as_the_kernel_writes_them() {
    let stat = "cpu  99 9 9 9 9 9 9 9 0 0\ncpu0 10 1 20 300 4 5 6 7 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n";
    let first = Ticks { all: 353, idle: 304, kernel: 31, interrupts: 11, stolen: 7 };
    assert_eq!(ticks(stat, |cpu| cpu == 0), [first]);
    assert_eq!(ticks("", |_| true), []);
    let softnet_stat = "0000001a 00000002 00000000 0\n00000100 00000001 00000000 0\n";
    assert_eq!((softnet(softnet_stat), softnet(""), softnet("x y\n")), (Some((282, 3)), None, None));
    let pressure = "some avg10=0.00 avg60=0.01 avg300=0.09 total=5134556\nfull avg10=0.00 total=4\n";
    assert_eq!((stalled(pressure), stalled("")), (5_134_556, 0));
}

#[test]
fn a_direct_link_has_the_rate_that_it_carried_with_a_queue() {
    let direct = |rate, most, queued| Direction {
        is_direct: true,
        name: "l, a to b".into(),
        node: 0,
        interface: "eth0".into(),
        index: 1,
        rate,
        bytes: 0,
        before: 0,
        backlog: 0,
        most,
        queued,
    };
    let load = |direct| {
        let mut load = Load::default();
        Links { directions: vec![direct], ..Links::default() }.report(&mut load);
        load
    };
    let slow = load(direct(Some(1_000_000_000), 4e8, (2 * SECOND_NS, 800_000_000)));
    assert_eq!((slow.carried["l, a to b"], slow.unlimited.len()), (0.4, 0));
    let moment = load(direct(Some(1_000_000_000), 4e8, (SECOND_NS / 2, 1)));
    assert!(moment.carried.is_empty() && moment.direct_rates["l, a to b"] == 4e8);
    assert_eq!(load(direct(None, 2e9, (0, 0))).unlimited, ["l, a to b"]);
    assert!(load(direct(None, 0.0, (0, 0))).unlimited.is_empty());
}
