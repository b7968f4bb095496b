use super::*;
use crate::{Seed, Stream};

const ENDS: [&str; 3] = ["link", "up", "a b"];

fn file(lines: &str) -> ChoiceFile {
    ChoiceFile::parse(&format!("belljar choices 1\n{lines}")).unwrap()
}

/// The file of recorded choices.
fn recording(choices: Choices) -> String {
    let mut text = Vec::new();
    choices.report().write("digest", &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Draws of a stream of every kind.
fn draws(stream: &mut Stream) -> Vec<u64> {
    let mut drawn = Vec::new();
    for _ in 0..20 {
        drawn.push(u64::from(stream.chance(0.5)));
        drawn.push(stream.below(7));
        drawn.push(stream.below_around(9, 4));
        drawn.push(stream.next_u64());
        drawn.push(u64::from(stream.next_u32()));
        drawn.push((stream.unit() * 1_000.0) as u64);
        drawn.push(stream.choose(0, 3, 100, |random| 1 + random.below(8)));
        let mut bytes = [0; 3];
        stream.fill(&mut bytes);
        drawn.push(u64::from(bytes[2]));
    }
    drawn
}

#[test]
fn recording_changes_nothing_and_its_text_forces_the_same_draws() {
    let plain = draws(&mut Seed(3).stream(&ENDS));
    let recorded = Choices::new(ChoiceFile::default(), true);
    assert_eq!(draws(&mut Seed(3).observed(recorded).stream(&ENDS)), plain);
    let text = recording(recorded);
    assert!(text.starts_with("belljar choices 1\nexperiment digest\nlink/up/a-b 0 "), "{text}");
    assert_eq!(text.lines().count(), 2 + 20 * 8);
    let forced = Choices::new(ChoiceFile::parse(&text).unwrap(), true);
    assert_eq!(draws(&mut Seed(4).observed(forced).stream(&ENDS)), plain);
    assert_eq!(forced.report().problems(forced.forced().unwrap()), [] as [String; 0]);
    assert_eq!(recording(forced), text);
}

#[test]
fn one_forced_choice_leaves_the_others_alone() {
    let plain = draws(&mut Seed(3).stream(&ENDS));
    let other = (plain[9] + 1) % 7;
    let forced = Choices::new(file(&format!("link/up/a-b 9 {other}\n")), false);
    let changed = draws(&mut Seed(3).observed(forced).stream(&ENDS));
    let differ: Vec<usize> = (0..plain.len()).filter(|n| plain[*n] != changed[*n]).collect();
    assert_eq!(differ, [9]);
}

#[test]
fn defaults_are_taken_where_there_are_some() {
    let all = Choices::new(file("* * default\nlink/up/a-b 8 1\n"), false);
    let drawn = draws(&mut Seed(3).observed(all).stream(&ENDS));
    let plain = draws(&mut Seed(3).stream(&ENDS));
    for (round, (drawn, plain)) in drawn.chunks(8).zip(plain.chunks(8)).enumerate() {
        let chance = u64::from(round == 1);
        assert_eq!(drawn, [chance, 0, 4, plain[3], plain[4], plain[5], 3, plain[7]]);
    }
    let one = Choices::new(file("link/up/b * default\n"), false);
    assert_eq!(draws(&mut Seed(3).observed(one).stream(&ENDS)), plain);
    assert_eq!(one.report().problems(one.forced().unwrap()), ["there is no stream link/up/b"]);
}

#[test]
fn purposes_of_a_stream_are_counted_apart() {
    let choices = Choices::new(file("host/a/order 1 5\n"), true);
    let mut stream = Seed(1).observed(choices).stream_for(&["host", "a"], &["order", "length"]);
    let mut plain = Seed(1).stream(&["host", "a"]);
    for round in 0..3 {
        let drawn = (
            stream.choose(0, 0, 9, |random| random.below(9)),
            stream.choose(1, 0, 4, |random| random.below(4)),
        );
        let usual = (plain.below(9), plain.below(4));
        assert_eq!(drawn, (if round == 1 { 5 } else { usual.0 }, usual.1));
    }
    let names: Vec<String> = choices.report().streams.keys().cloned().collect();
    assert_eq!(names, ["host/a/length", "host/a/order"]);
}

#[test]
fn what_is_not_reached_or_does_not_fit_is_named() {
    let choices =
        Choices::new(file("link/up/a-b 1 7\nlink/up/a-b 7 x00\nlink/up/a-b 1000 0\nmissing 0 1\n"), false);
    draws(&mut Seed(3).observed(choices).stream(&ENDS));
    assert_eq!(
        choices.report().problems(choices.forced().unwrap()),
        [
            "choice 1 of link/up/a-b was not forced: 7 is not a number below 7",
            "choice 7 of link/up/a-b was not forced: x00 is not 3 bytes",
            "choice 1000 of link/up/a-b was never reached",
            "choice 0 of missing was never reached",
        ]
    );
}

#[test]
fn parts_of_a_run_are_merged() {
    let choices = Choices::new(ChoiceFile::default(), true);
    let seed = Seed(1).observed(choices);
    draws(&mut seed.stream(&["a"]));
    let mut first = choices.report();
    draws(&mut seed.stream(&["b"]));
    first.merge(choices.report());
    assert_eq!(first, choices.report());
    assert_eq!(first.streams["a"].values().len(), 160);
    // A choice in between, and bytes in the place of a number.
    let mut stream = StreamReport::default();
    for index in [0, 1, 5, 6, 3] {
        stream.add(index, Value { choice: Choice::Number(index), usual: None });
    }
    let indices: Vec<u64> = stream.values().into_iter().map(|(index, _)| index).collect();
    assert!(indices == [0, 1, 3, 5, 6] && !stream.is_ambiguous);
    stream.add(3, Value { choice: Choice::Bytes(vec![1]), usual: None });
    assert!(stream.is_ambiguous);
}

#[test]
fn streams_of_one_name_are_noticed_if_they_differ() {
    let choices = Choices::new(file("a 0 1\n"), true);
    let seed = Seed(1).observed(choices);
    let mut clone = seed.stream(&["a"]);
    let mut stream = clone.clone();
    stream.below(9);
    clone.below(9);
    assert!(!choices.report().streams["a"].is_ambiguous);
    stream.below(9);
    clone.chance(0.5);
    assert!(choices.report().streams["a"].is_ambiguous);
}

#[test]
fn files_are_read_back_and_bad_lines_are_named() {
    let text =
        "belljar choices 1\nexperiment ab\n* * default\na * default\na 3 x00ff\nb 0 18446744073709551615\n";
    assert_eq!(ChoiceFile::parse(text).unwrap().text(), text);
    let with_more = format!("# comment\n\n{text}c 1 2 3\n");
    assert_eq!(ChoiceFile::parse(&with_more).unwrap().count(), 3);
    for (text, problem) in [
        ("", "it is empty instead of beginning with 'belljar choices 1'"),
        ("choices", "line 1 is 'choices' instead of 'belljar choices 1'"),
        ("belljar choices 1\na b", "line 2: 'a b' is not a stream, a number and a value"),
        ("belljar choices 1\na b 1", "line 2: 'b' is not the number of a choice"),
        ("belljar choices 1\na 1 -", "line 2: '-' is neither a number nor bytes such as x00ff"),
        ("belljar choices 1\na * 1", "line 2: the value of '*' is 'default', not '1'"),
        ("belljar choices 1\n* 1 1", "line 2: '* 1 1' is not '* * default'"),
        ("belljar choices 1\na 1 1\na 1 2", "line 3: choice 1 of a has two values"),
    ] {
        assert_eq!(ChoiceFile::parse(text), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn names_have_no_spaces() {
    assert_eq!(name(&["link", "loss state", "a/b*", "\t"]), "link/loss-state/a%2fb%2a/%09");
}
