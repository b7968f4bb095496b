use super::*;
use crate::{After, Comparison, Pattern};
use belljar_base::SimDuration;

fn claim(quantifier: Quantifier, pattern: &str) -> LineClaim {
    let condition = Condition::Matches(Pattern::new(pattern).unwrap());
    LineClaim { quantifier, condition, lines: None, comparisons: Vec::new() }
}

fn with(claim: LineClaim, lines: Option<&str>, comparison: &str) -> LineClaim {
    LineClaim {
        lines: lines.map(|lines| Pattern::new(lines).unwrap()),
        comparisons: vec![Comparison::parse(comparison).unwrap()],
        ..claim
    }
}

/// Verdict on files of hosts `a`, `b`, ... whose lines are written one a second, from the second that is given on.
fn judge(claim: &LineClaim, window: Option<(u64, u64)>, files: &[(u64, &str)]) -> Verdict {
    let at = SimTime::from_secs;
    let window = window.map(|(from, to)| Window { from: at(from), to: at(to), reached: at(60) });
    let mut judge = LineJudge::new(claim, window);
    for ((first, text), host) in files.iter().zip(["a", "b", "c"]) {
        let mut times = WriteTimes::default();
        let mut start = 0;
        for (second, line) in text.split_inclusive('\n').enumerate() {
            let end = start + line.len() as u64;
            times.write(start, end, at(first + second as u64));
            start = end;
        }
        judge.take(host, "log", Some(&times), text.as_bytes()).unwrap();
    }
    judge.finish()
}

/// Host, line and second of the line that decides.
fn decisive(verdict: &Verdict) -> Option<(String, usize, u64)> {
    verdict.at.as_ref().map(|at| (at.host.clone(), at.line, at.time.unwrap().as_nanos() / 1_000_000_000))
}

#[test]
fn always_names_the_earliest_line_that_does_not_match() {
    let claim = claim(Quantifier::Always, "^ok");
    let verdict = judge(&claim, None, &[(10, "ok\nbad\r\n"), (5, "ok\nok\nworse\u{1b}[0m\n")]);
    assert_eq!(verdict.failure.as_deref(), Some("a line does not match '^ok' (2 such lines)"));
    assert_eq!(decisive(&verdict), Some(("b".into(), 3, 7)));
    assert_eq!((verdict.text.as_deref(), verdict.judged), (Some("worse [0m"), 5));
    assert_eq!(judge(&claim, None, &[(0, "ok\nokay")]).failure, None);
    assert_eq!(
        judge(&claim, None, &[(0, "")]).failure.as_deref(),
        Some("in doubt: there is no line to judge")
    );
}

#[test]
fn always_judges_the_lines_that_are_selected() {
    let base = claim(Quantifier::Always, "took (?<ms>[0-9a-z]+)");
    let claim = with(base, Some("^(?<who>[a-z]+) took"), "ms < 100");
    assert_eq!(judge(&claim, None, &[(0, "start\nget took 99\nend\n")]).failure, None);
    let verdict = judge(&claim, None, &[(0, "start\nget took 100\n")]);
    assert_eq!(verdict.failure.as_deref(), Some("'ms < 100' is false: ms is 100"));
    let verdict = judge(&claim, None, &[(0, "get took long\n")]);
    assert_eq!(verdict.failure.as_deref(), Some("in doubt: 'ms < 100' compares 'long', which is no number"));
    let verdict = judge(&claim, None, &[(0, "start\n")]);
    let why = "in doubt: there is no line to judge: none matches '^(?<who>[a-z]+) took' of 'lines'";
    assert_eq!(verdict.failure.as_deref(), Some(why));
}

#[test]
fn groups_of_both_patterns_are_compared() {
    let base = claim(Quantifier::Always, "want (?<want>[0-9]+)");
    let claim = with(base, Some("got (?<got>[0-9]+)"), "got == want");
    assert_eq!(judge(&claim, None, &[(0, "got 7 want 7\n")]).failure, None);
    let failure = judge(&claim, None, &[(0, "got 7 want 8\n")]).failure;
    assert_eq!(failure.as_deref(), Some("'got == want' is false: got is 7, want is 8"));
}

#[test]
fn never_fails_at_a_match_and_where_a_comparison_is_in_doubt() {
    let plain = claim(Quantifier::Never, "panic");
    assert_eq!(judge(&plain, None, &[(0, ""), (0, "fine\n")]).failure, None);
    let verdict = judge(&plain, None, &[(3, "fine\na panic\n")]);
    assert_eq!(verdict.failure.as_deref(), Some("a line matches 'panic'"));
    assert_eq!(decisive(&verdict), Some(("a".into(), 2, 4)));
    let late = with(claim(Quantifier::Never, "took (?<ms>.*)"), None, "ms >= 100");
    assert_eq!(judge(&late, None, &[(0, "took 99\n")]).failure, None);
    let failure = judge(&late, None, &[(0, "took 101\n")]).failure;
    assert_eq!(failure.as_deref(), Some("a line matches 'took (?<ms>.*)' with ms >= 100"));
    let failure = judge(&late, None, &[(0, "took ages\n")]).failure;
    assert_eq!(failure.as_deref(), Some("in doubt: 'ms >= 100' compares 'ages', which is no number"));
}

#[test]
fn never_is_in_doubt_if_no_line_is_selected() {
    let lines = Some(Pattern::new("zzz").unwrap());
    let claim = LineClaim { lines, ..claim(Quantifier::Never, "tick") };
    let failure = judge(&claim, None, &[(0, "tick\n"), (0, "")]).failure;
    assert_eq!(
        failure.as_deref(),
        Some("in doubt: there is no line to judge: none matches 'zzz' of 'lines'")
    );
    assert_eq!(judge(&claim, None, &[(0, "zzz\n")]).failure, None);
    let failure = judge(&claim, None, &[(0, "zzz tick\n")]).failure;
    assert_eq!(failure.as_deref(), Some("a line matches 'tick'"));
}

#[test]
fn sometimes_needs_one_line_in_one_of_the_files() {
    let claim = claim(Quantifier::Sometimes, "leader");
    let verdict = judge(&claim, None, &[(0, "idle\n"), (4, "idle\nleader\n")]);
    assert_eq!((verdict.failure.clone(), decisive(&verdict)), (None, Some(("b".into(), 2, 5))));
    let failure = judge(&claim, None, &[(0, "idle\n"), (0, "idle\n")]).failure;
    assert_eq!(failure.as_deref(), Some("no line of 2 matches 'leader'"));
}

#[test]
fn eventually_needs_a_line_within_the_window() {
    let within = Quantifier::Eventually { within: SimDuration::from_secs(5), after: After::Faults };
    let claim = claim(within, "served");
    for second in [10, 15] {
        let verdict = judge(&claim, Some((10, 15)), &[(second, "served\n")]);
        assert_eq!((verdict.failure.clone(), decisive(&verdict)), (None, Some(("a".into(), 1, second))));
    }
    let failed = |window, text: &str, first| judge(&claim, Some(window), &[(first, text)]).failure.unwrap();
    let none = "no line matches 'served' from 10.000000 s to 15.000000 s";
    assert_eq!(failed((10, 15), "served\n", 9), none);
    assert_eq!(
        failed((10, 15), "served\n", 16),
        format!("{none}; the first one after it is log:1 at a, at 16.000000 s")
    );
    let cut = "no line matches 'served' from 10.000000 s to 75.000000 s; the run ended at 60.000000 s";
    assert_eq!(failed((10, 75), "idle\n", 20), cut);
}

#[test]
fn a_line_without_a_time_is_in_no_window() {
    let within = Quantifier::Eventually { within: SimDuration::from_secs(5), after: After::Faults };
    let claim = claim(within, "served");
    let (from, to) = (SimTime::ZERO, SimTime::from_secs(5));
    let mut judge = LineJudge::new(&claim, Some(Window { from, to, reached: to }));
    judge.take("a", "log", None, &b"served\n"[..]).unwrap();
    let failure = judge.finish().failure.unwrap();
    assert!(failure.ends_with("; no simulated time is known of log:1 at a"), "{failure}");
}

#[test]
fn a_line_that_is_too_long_is_an_error() {
    let claim = claim(Quantifier::Never, "x");
    let mut judge = LineJudge::new(&claim, None);
    let error = judge.take("a", "log", None, &vec![b'a'; 2 << 20][..]).unwrap_err();
    assert_eq!(error.to_string(), "line 1 of log at a has more than 1048576 bytes");
}

/// Failure of a claim about packets of a host `a`, one a second: their descriptions, and whether they pass the filter of the claim.
fn packets(claim: &LineClaim, filter: &str, packets: &[(&str, bool)]) -> Option<String> {
    let mut judge = LineJudge::of_packets(claim, None, filter);
    for (number, (text, passes)) in packets.iter().enumerate() {
        let at = Some(SimTime::from_secs(number as u64));
        let location = || Location { host: "a".into(), file: "eth0.pcap".into(), line: number + 1, time: at };
        judge.take_packet(location, text, *passes);
    }
    judge.finish().failure
}

#[test]
fn packets_are_judged_by_patterns_and_filters() {
    let reset = claim(Quantifier::Never, "RST");
    assert_eq!(packets(&reset, "", &[("SYN", false), ("ACK", false)]), None);
    assert_eq!(packets(&reset, "", &[]), None);
    let failure = packets(&reset, "", &[("SYN", false), ("RST", false), ("RST+ACK", false)]);
    assert_eq!(failure.as_deref(), Some("a packet matches 'RST' (2 such packets)"));
    let none = "in doubt: there is no packet to judge: none passes 'tcp' of 'filter'";
    assert_eq!(packets(&reset, "tcp", &[]).as_deref(), Some(none));

    let passes =
        |quantifier| LineClaim { condition: Condition::Passes("port 23".into()), ..claim(quantifier, "x") };
    let sent = [("x len 7", true), ("x len 5", false)];
    assert_eq!(packets(&passes(Quantifier::Never), "", &sent).as_deref(), Some("a packet passes 'port 23'"));
    assert_eq!(packets(&passes(Quantifier::Never), "", &sent[1..]), None);
    let failure = packets(&passes(Quantifier::Always), "", &sent);
    assert_eq!(failure.as_deref(), Some("a packet does not pass 'port 23'"));
    assert_eq!(packets(&passes(Quantifier::Sometimes), "", &sent), None);
    let failure = packets(&passes(Quantifier::Sometimes), "", &sent[1..]);
    assert_eq!(failure.as_deref(), Some("no packet of 1 passes 'port 23'"));
    // Groups of `lines` are compared.
    let short = with(passes(Quantifier::Never), Some("len (?<len>[0-9]+)"), "len > 6");
    let failure = packets(&short, "", &sent);
    assert_eq!(failure.as_deref(), Some("a packet passes 'port 23' with len > 6"));
    assert_eq!(packets(&short, "", &sent[1..]), None);
    let none = "in doubt: there is no packet to judge: none matches 'len (?<len>[0-9]+)' of 'lines'";
    assert_eq!(packets(&short, "", &[("x", true)]).as_deref(), Some(none));
}
