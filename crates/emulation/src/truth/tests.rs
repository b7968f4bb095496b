use super::*;
use crate::load::tests::{measured, window};
use belljar_base::Lateness;

const SECOND: usize = 5;

/// Run whose frames were late by these microseconds, on an idle machine.
fn late(us: u64) -> Truthfulness {
    let mut lateness = Lateness::default();
    (0..1_000).for_each(|_| lateness.add(SimDuration::from_micros(us)));
    Truthfulness { lateness: Quantiles::of_lateness(&lateness), frames: 1_000, ..Truthfulness::default() }
}

/// Run of some seconds whose processors had these user and kernel ticks, of 20, in each window of a fifth
/// of a second, while the network processed `packets` packets per second.
fn run(seconds: usize, processors: &[(u64, u64)], packets: u64) -> Truthfulness {
    let idle = window(&vec![(0, 1); processors.len()], 20);
    let (cpu, load) =
        measured(&[(seconds * SECOND, window(processors, packets / SECOND as u64)), (2 * SECOND, idle)]);
    let mut truth = Truthfulness { cpu, load, ..late(60) };
    truth.frames = packets * seconds as u64;
    short(&mut truth, 0.0);
    truth
}

fn short(truth: &mut Truthfulness, share: f64) {
    truth.cpu.short = [("h1".to_owned(), share), ("h2".to_owned(), 0.0)].into_iter().collect();
}

fn judged(mut truth: Truthfulness) -> Truthfulness {
    truth.judge(Some(SimDuration::from_millis(1)), None);
    truth
}

#[test]
fn verdicts_follow_from_the_grounds() {
    let verdict = |mut truth: Truthfulness, least: u64| {
        truth.judge(Some(SimDuration::from_micros(least)), None);
        (truth.verdict.clone(), truth.reasons.len())
    };
    assert_eq!(verdict(late(60), 1_000), ("truthful".into(), 0));
    assert_eq!(verdict(late(1_500), 1_000), ("doubtful".into(), 1));
    assert_eq!(verdict(late(1_500), 50_000), ("truthful".into(), 0), "of a long delay it is a small share");
    assert_eq!(verdict(late(9_000), 1_000), ("untruthful".into(), 1));
    assert_eq!(verdict(Truthfulness { missed: 3, ..late(60) }, 1_000), ("doubtful".into(), 1));
    assert_eq!(verdict(Truthfulness { missed: 300, ..late(60) }, 1_000), ("untruthful".into(), 1));
    let busy = |saturated, short: &[f64], tdf| {
        let short = short.iter().enumerate().map(|(host, share)| (format!("h{host}"), *share)).collect();
        Truthfulness { cpu: Cpu { saturated, short, ..Cpu::default() }, tdf, ..late(60) }
    };
    assert_eq!(verdict(busy(0.2, &[], None), 1_000), ("doubtful".into(), 1));
    assert_eq!(verdict(busy(0.8, &[], None), 1_000), ("untruthful".into(), 1));
    assert_eq!(
        verdict(busy(0.4, &[0.02, 0.05], None), 1_000),
        ("truthful".into(), 0),
        "programs that compute"
    );
    assert_eq!(verdict(busy(1.0, &[0.02, 0.05], None), 1_000), ("doubtful".into(), 1));
    assert_eq!(verdict(busy(1.0, &[0.02, 0.05], Some(4.0)), 1_000), ("truthful".into(), 0));
    assert_eq!(verdict(busy(0.1, &[0.02, 0.2], None), 1_000), ("doubtful".into(), 1));
    assert_eq!(verdict(busy(0.1, &[0.6, 0.2], None), 1_000), ("untruthful".into(), 1));
}

/// Overloaded run: its kind, and its measurements.
type Case = (String, Truthfulness);

/// Lines of switches: the network takes the processors, one or all.
fn lines_of_switches(cases: &mut Vec<Case>) {
    for switches in [16, 64] {
        for flows in ["one flow", "many flows"] {
            // The kernel forwards over bridges; a P4 switch is a process of its own.
            let hops = switches as u64 * 1_500;
            cases.push((
                format!("{switches} bridges, {flows}, all busy"),
                run(5, &[(2, 18), (1, 19)], hops * 2),
            ));
            cases.push((
                format!("{switches} bridges, {flows}, hardly idle"),
                run(5, &[(2, 17), (1, 17)], hops),
            ));
            let mut late = run(5, &[(1, 14), (1, 12)], hops);
            late.lateness = self::late(4_000).lateness;
            cases.push((format!("{switches} bridges, {flows}, late"), late));
            cases.push((format!("{switches} P4, {flows}, all busy"), run(5, &[(13, 7), (12, 8)], hops)));
            let mut missed = run(5, &[(9, 6), (8, 6)], hops);
            missed.missed = missed.frames / 50;
            cases.push((format!("{switches} P4, {flows}, rings overflow"), missed));
        }
    }
}

#[test]
fn no_verdict_on_an_overloaded_run_is_kind() {
    let mut cases = Vec::new();
    lines_of_switches(&mut cases);
    let mut add = |name: &str, truth: Truthfulness| cases.push((name.to_owned(), truth));
    add("40 Gbit/s over a direct link, two processors", run(5, &[(1, 19), (1, 19)], 70_000));
    add("one flow over a direct link, of sixteen processors one is full", {
        let mut processors = vec![(0, 1); 16];
        processors[5] = (1, 19);
        run(5, &processors, 60_000)
    });
    add("one P4 switch whose process is full, of eight processors", {
        let mut truth = run(5, &[(19, 1), (2, 3), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (0, 1)], 40_000);
        truth.load.busy.insert("s1".into(), 0.98);
        truth
    });
    add("threads of lines that are full", {
        let mut truth = run(5, &[(4, 10), (4, 10)], 80_000);
        truth.load.busy.insert("a thread of Belljar's lines".into(), 0.7);
        truth
    });
    add("one flow that two processors carry in turns", {
        let mut truth = run(5, &[(1, 13), (2, 12)], 40_000);
        truth.load.pressed = 0.8;
        truth
    });
    add("CPU hogs in hosts beside flows", run(5, &[(17, 3), (18, 2)], 9_000));
    add("CPU hogs beside hosts that wait", {
        let mut truth = run(5, &[(19, 1), (19, 1)], 300);
        short(&mut truth, 0.6);
        truth
    });
    add("CPU hogs of the machine's other guests", {
        let mut truth = run(5, &[(2, 5), (2, 5)], 9_000);
        truth.cpu.stolen = 0.6;
        truth
    });
    add("memory pressure", {
        let mut truth = run(5, &[(2, 5), (2, 5)], 9_000);
        truth.load.memory_waits = 0.7;
        truth
    });
    add("memory pressure by which processes start late", {
        let mut truth = run(5, &[(2, 5), (2, 5)], 9_000);
        let mut lateness = Lateness::default();
        lateness.add(SimDuration::from_millis(2_500));
        truth.schedule_lateness = Quantiles::of_lateness(&lateness);
        truth
    });
    add("a backlog of the kernel that overflows", {
        let mut truth = run(5, &[(2, 12), (2, 13)], 90_000);
        truth.load.dropped = truth.load.packets / 20;
        truth
    });
    add("a token bucket with a queue that does not reach its rate", {
        let mut truth = run(5, &[(2, 12), (2, 13)], 40_000);
        truth.load.carried.insert("l, a to b".into(), 0.35);
        truth
    });
    add("a machine without statistics of waiting", {
        let mut truth = run(9, &[(15, 5), (15, 5)], 300);
        truth.cpu.short.clear();
        truth
    });
    assert!(cases.len() >= 30, "{}", cases.len());
    for (name, truth) in cases {
        let truth = judged(truth);
        assert_eq!(truth.verdict, "untruthful", "{name}: {:?}", truth.reasons);
        assert!(!truth.reasons.is_empty(), "{name}");
    }
}

#[test]
fn part_of_a_run_is_enough_for_doubt() {
    for seconds in [1, 2] {
        let full = (seconds * SECOND, window(&[(1, 19), (1, 19)], 15_000));
        let (cpu, load) = measured(&[full, (8 * SECOND, window(&[(1, 2), (1, 2)], 2_000))]);
        let mut truth = Truthfulness { cpu, load, ..late(60) };
        short(&mut truth, 0.0);
        assert_eq!(judged(truth).verdict, "doubtful", "{seconds}");
    }
    let mut fast = run(5, &[(1, 6), (1, 6)], 20_000);
    fast.load.direct_rates.insert("l, a to b".into(), 17e9);
    fast.load.unlimited.push("l, a to b".into());
    let fast = judged(fast);
    assert_eq!((fast.verdict.as_str(), fast.tdf_needed), ("doubtful", None));
    assert!(fast.reasons[0].contains("carried 17.0 Gbit/s") && fast.reasons[0].ends_with("give it a rate"));
}

#[test]
fn a_light_run_is_truthful() {
    let cases = [
        ("pings", run(10, &[(0, 1), (0, 1)], 20)),
        ("a flow at 10 Mbit/s", run(10, &[(1, 2), (0, 2)], 3_000)),
        ("a flow at 1 Gbit/s on processors that suffice", run(10, &[(2, 8), (2, 9)], 90_000)),
        ("one busy program beside a slow flow", run(10, &[(20, 0), (1, 2)], 3_000)),
        ("programs that compute, beside pings, for half of the run", {
            let (cpu, load) = measured(&[
                (5 * SECOND, window(&[(20, 0), (20, 0)], 10)),
                (6 * SECOND, window(&[(0, 1), (0, 1)], 10)),
            ]);
            let mut truth = Truthfulness { cpu, load, ..late(60) };
            short(&mut truth, 0.05);
            truth
        }),
        ("many programs that start", {
            let start = (1, window(&[(15, 5), (15, 5)], 800));
            let (cpu, load) = measured(&[start, (10 * SECOND, window(&[(1, 1), (0, 1)], 100))]);
            Truthfulness { cpu, load, ..late(60) }
        }),
        ("a link without a rate that carries little", {
            let mut truth = run(10, &[(1, 2), (0, 2)], 3_000);
            truth.load.direct_rates.insert("l, a to b".into(), 3e8);
            truth.load.unlimited.push("l, a to b".into());
            truth
        }),
        ("a token bucket at its rate", {
            let mut truth = run(10, &[(1, 4), (1, 4)], 9_000);
            truth.load.carried.insert("l, a to b".into(), 0.97);
            truth
        }),
    ];
    for (name, truth) in cases {
        let truth = judged(truth);
        assert_eq!(
            (truth.verdict.as_str(), truth.reasons.len()),
            ("truthful", 0),
            "{name}: {:?}",
            truth.reasons
        );
        assert_eq!(truth.tdf_needed, None);
    }
}

#[test]
fn a_reason_names_the_factor_that_would_do() {
    let mut path = run(5, &[(1, 19), (1, 19)], 70_000);
    let direction = Direction { rate: 40_000_000_000, bytes: 10 << 30, frame: 1_514, to_switch: false };
    let acknowledgements = Direction { bytes: 10 << 20, ..direction };
    let needed = needed_factor(&[direction, acknowledgements], 2);
    path.judge(Some(SimDuration::from_millis(1)), needed);
    assert_eq!(path.tdf_needed, Some(29.0));
    assert_eq!(
        path.reasons,
        [
            "all 2 processors were busy for 100 % of the time in which links were loaded (the kernel's network \
          took 32 % of them, charged to no host): processors, not links, set the rates; --tdf 29 would do"
        ]
    );
    let mut slow = Truthfulness { tdf: Some(10.0), ..run(5, &[(1, 19), (1, 19)], 70_000) };
    slow.judge(None, Some(1.0));
    assert_eq!(slow.tdf_needed, Some(20.0), "more than the factor that did not suffice");
    assert_eq!(needed_factor(&[], 2), None);
    assert_eq!(needed_factor(&[Direction { bytes: 0, ..direction }], 2), None);
    let to_switch = Direction { rate: 500_000_000, bytes: 1 << 30, frame: 1_514, to_switch: true };
    let line = [to_switch; 16];
    assert_eq!(needed_factor(&line, 2).map(f64::ceil), Some(15.0));
}

#[test]
fn a_filled_link_excuses_processors_that_can_fill_it() {
    let verdict = |needed: Option<f64>| {
        let mut truth = run(5, &[(5, 15), (5, 15)], 9_000);
        truth.load.saturated_filled = std::mem::take(&mut truth.load.saturated);
        truth.load.nearly_saturated = 0.0;
        truth.load.one_saturated = 0.0;
        truth.judge(None, needed);
        assert!(truth.reasons.len() == 1 && truth.tdf_needed.is_some(), "{:?}", truth.reasons);
        truth.verdict
    };
    assert_eq!(verdict(Some(0.07)), "doubtful");
    assert_eq!(verdict(Some(28.3)), "untruthful", "40 Gbit/s");
    assert_eq!(verdict(None), "untruthful");
}

#[test]
fn a_factor_that_changes_is_reported_as_its_mean() {
    let change = |at, node: Option<&str>, tdf| FactorChange { at, node: node.map(str::to_owned), tdf };
    let changes = [change(2.0, None, 4.0), change(3.0, Some("web"), 50.0), change(6.0, None, 1.0)];
    assert_eq!(mean_factor(10.0, &changes, 8.0), (10.0 * 2.0 + 4.0 * 4.0 + 2.0) / 8.0);
    assert_eq!(mean_factor(10.0, &changes, 1.0), 10.0, "the run ended before");
    assert_eq!((mean_factor(10.0, &[], 8.0), mean_factor(10.0, &changes, 0.0)), (10.0, 10.0));
    let mut truth = Truthfulness { tdf: Some(4.75), tdf_changes: changes.to_vec(), ..late(60) };
    truth.judge(None, None);
    assert!(truth.summary().contains("time dilated by 4.75 in the mean (3 changes)"));
    truth.tdf_changes = vec![change(3.0, Some("web"), 50.0)];
    assert!(truth.summary().contains("time dilated by 4.75;"));
}

#[test]
fn the_largest_share_of_busy_processors_decides() {
    // One processor is always busy, both rarely at a time: the other waits for it.
    let mut truth = run(5, &[(1, 19), (1, 19)], 70_000);
    (truth.load.saturated, truth.load.nearly_saturated, truth.load.one_saturated) = (0.24, 0.4, 0.8);
    let truth = judged(truth);
    assert_eq!(truth.verdict, "untruthful");
    assert!(
        truth.reasons[0].starts_with("one of 2 processors was busy with the kernel's work for 80 %"),
        "{:?}",
        truth.reasons
    );
}
