//! Every message of the loader: exact position, message and help.

use super::*;

mod devices;
mod effects;
mod exploration;
mod files;
mod hosts;
mod inventories;
mod ipv6;
mod links;
mod machines;
mod models;
mod processes;
mod properties;
mod radios;
mod roots;
mod sections;

const GENERAL: &str = "general: { stop_time: 9 }";
const NETWORK: &str = "network: { graph: { type: 1_gbit_switch } }";
const HOSTS: &str = "hosts: { a: { network_node_id: 0, processes: [] } }";

/// The only error of a text. `expected` is "line:column message", with "-" for the whole file; no help is "".
#[track_caller]
pub(super) fn check(text: &str, expected: &str, help: &str) {
    let all = errors(text);
    check_among(text, expected, help);
    assert_eq!(all.len(), 1, "{all:#?}");
}

/// [`check`] for a text with other errors as well.
#[track_caller]
pub(super) fn check_among(text: &str, expected: &str, help: &str) {
    let all = errors(text);
    assert!(all.contains(&(expected.to_owned(), help.to_owned())), "{expected}, not {all:#?}");
}

/// The errors of a text in their order: "line:column message", and the help.
#[track_caller]
pub(super) fn errors(text: &str) -> Vec<(String, String)> {
    let error = match Experiment::parse_in("test.yaml", text, &around()) {
        Ok(_) => panic!("this loads:\n{text}"),
        Err(error) => error,
    };
    let words = |error: &ConfigError| {
        let place = error.position.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
        (format!("{place} {}", error.message), error.help.clone().unwrap_or_default())
    };
    std::iter::once(&error).chain(&error.more).map(words).collect()
}

#[test]
fn text_that_is_not_an_experiment() {
    check("", "- this file is empty", "an experiment has at least the sections general, network and hosts");
    check(
        "# only\n",
        "- this file is empty",
        "an experiment has at least the sections general, network and hosts",
    );
    check(
        "5",
        "1:1 an experiment must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
    check(
        "- a",
        "1:1 an experiment must be a mapping, but is a list",
        "write keys and values, one per line: 'key: value'",
    );
    check(
        "general: [",
        "2:1 this is not YAML: while parsing a node, did not find expected node content",
        "the file ends too early: something before is not closed",
    );
    check(
        "a: b: c",
        "1:5 this is not YAML: mapping values are not allowed in this context",
        "a value that contains ': ' must stand in quotes",
    );
    check("general:\n\tstop_time: 1", "2:1 a tab indents this line", "YAML is indented by spaces only");
    check(
        "a: 'x",
        "1:4 this is not YAML: while scanning a quoted scalar, found unexpected end of stream",
        "close the quote",
    );
    check("? [a]\n: b", "1:3 a key must be a word, not a list", "");
    check(
        "*x",
        "1:1 this is not YAML: while parsing node, found unknown anchor",
        "an anchor is defined, as &name, before it is used",
    );
    check("a: &x [*x]", "1:8 this alias is part of what it refers to", "");
    check(
        "a: 1\n---\nb: 2",
        "3:1 there is a second document in this file",
        "an experiment is one document: remove the '---'",
    );
    check("a: 1\na: 2", "2:1 the key 'a' stands here twice", "it is first set in line 1: keep one of them");
    check("<<: 5", "1:1 '<<' takes a mapping or a list of mappings, not a number", "write <<: *anchor");
    check("<<: [5]", "1:1 '<<' takes a mapping or a list of mappings, not a list", "write <<: *anchor");
    check(
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        "1:65 this is nested more than 64 levels deep",
        "",
    );
}

#[test]
fn an_error_shows_the_line_and_marks_the_place() {
    let text = format!("{GENERAL}\n{NETWORK}\nhosts:\n  alice:\n    network_node_idd: 0\n");
    let error = Experiment::parse_in("first.yaml", &text, &around()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\
error: 'network_node_idd' is not a key of host 'alice'
 --> first.yaml:5:5
  |
5 |     network_node_idd: 0
  |     ^^^^^^^^^^^^^^^^
  = help: did you mean 'network_node_id'?"
    );
}

#[test]
fn an_error_far_to_the_right_shows_the_part_around_it_and_no_control_characters() {
    let text = format!("general: {{ data_directory: {}, seed: \u{1b}x }}", "d".repeat(300));
    let shown = Experiment::parse_in("t.yaml", &text, &around()).unwrap_err().to_string();
    assert!(shown.lines().all(|line| line.chars().count() < 140) && !shown.contains('\u{1b}'), "{shown}");
}
