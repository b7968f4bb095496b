use super::*;

/// Loads, emits and loads again: the experiment is the same, and so is the text from then on.
pub(super) fn round_trip(text: &str) {
    let mut first = parse(text);
    let written = first.to_yaml();
    let mut second = Experiment::parse_in("written.yaml", &written, &PathContext::default())
        .unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(second.to_yaml(), written);
    first.notes.clear();
    second.notes.clear();
    assert_eq!(first, second, "{written}");
}

#[test]
fn the_resolved_experiment_loads_again() {
    round_trip(SHADOW);
}

#[test]
fn a_host_needs_no_processes() {
    let text = "general: {stop_time: 1 s}\nswitches: [s]\nhosts: {idle: {}}\nlinks: [{between: [idle, s]}]\n";
    assert!(parse(text).hosts[0].processes.is_empty());
    round_trip(text);
}

#[test]
fn awkward_texts_survive() {
    for graph in [
        r#"graph [ node [ id 0 label \"\u00e9\U0001f9ea\\\" ] ]"#,
        "graph [\\n node [ id 0 ]\\n]",
        "\\n  graph [\\n\\tnode [ id 0 ]\\n]\\n\\n",
        "graph [\\n\\n  node [ id 0 ]   \\n]\\n",
    ] {
        for arg in [
            "",
            " ",
            "true",
            "null",
            "'",
            r#"\""#,
            r"\\",
            r"\t\n\r",
            r"\u00fc",
            r"\U0001f9ea",
            "- a: b #c",
            "5",
        ] {
            round_trip(&format!(
                r#"
general: {{ stop_time: 1.5 ns, data_directory: "a b/{{}}" }}
network: {{ graph: {{ type: gml, inline: "{graph}" }} }}
hosts:
  5:
    network_node_id: 0
    bandwidth_up: unlimited
    bandwidth_down: 1 bit
    processes: [ {{ path: sh, args: ["{arg}"], environment: {{ "A b": "{arg}" }} }} ]
"#
            ));
        }
    }
}
