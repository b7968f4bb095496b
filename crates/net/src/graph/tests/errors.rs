use crate::Graph;
use belljar_base::Seed;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(Graph::from_gml(text, true).unwrap_err().to_string(), expected);
}

/// Checks an error in the edge of an otherwise valid graph; the edge begins at 3:8.
#[track_caller]
fn check_edge(edge: &str, expected: &str) {
    check(&format!("graph [\n node [ id 0 ]\n edge [ {edge} ] ]"), expected);
}

#[test]
fn structure() {
    check("", "1:1: there is no graph in this text (write graph [ node [ ... ] edge [ ... ] ])");
    check(
        "Creator \"x\"\n",
        "2:1: there is no graph in this text (write graph [ node [ ... ] edge [ ... ] ])",
    );
    check("graph [ ]", "1:1: this graph has no nodes (add node [ id 0 ])");
    check("graph [ ] graph [ ]", "1:11: there is a second graph in this text");
    check("graph x", "1:7: expected '[' after 'graph', found the word 'x'");
    check("graph 5", "1:7: expected '[' after 'graph', found the number 5");
    check("graph [ node [ id 0 ]", "1:22: expected 'node', 'edge' or ']', found the end of the text");
    check("grahp [ ]", "1:1: 'grahp' is not a key of the text (did you mean 'graph'?)");
    check("graph [ nodes [ id 0 ] ]", "1:9: 'nodes' is not a key of a graph (did you mean 'node'?)");
    check("graph [ 5 ]", "1:9: expected 'node', 'edge' or ']', found the number 5");
    check("\"graph\"", "1:1: expected a key such as 'graph', found the string \"graph\"");
    check("graph [ label ]", "1:15: expected a value of 'label', found ']'");
    check("graph [ directed 2 ]", "1:18: expected 0 or 1 after 'directed', found the number 2");
}

#[test]
fn characters_and_numbers() {
    check("graph {", "1:7: the character '{' has no meaning in GML");
    check("graph [\n  é", "2:3: the character 'é' has no meaning in GML");
    check("graph [ label \"oh", "1:15: this string has no end (close it with \")");
    check_edge("latency 10ms", "3:17: '10ms' is not a number (values with a unit are strings: \"10ms\")");
    check_edge(
        "packet_loss 1e999",
        "3:21: '1e999' is not a number (values with a unit are strings: \"1e999\")",
    );
}

#[test]
fn nodes() {
    check("graph [ node [ ] ]", "1:9: this node has no 'id' (add id 0)");
    check("graph [\n node [ id 0 ]\n node [ id 0 ] ]", "3:12: there are two nodes with the id 0");
    check("graph [ node [ id -1 ] ]", "1:19: 'id' must lie between 0 and 4294967295, not -1");
    check("graph [ node [ id \"a\" ] ]", "1:19: expected a whole number after 'id', found the string \"a\"");
    check("graph [ node [ id 0 id 1 ] ]", "1:21: the key 'id' stands twice in a node");
    check("graph [ node [ id 0 label [ ] ] ]", "1:27: expected a string after 'label', found '['");
    check("graph [ node [ 0 ] ]", "1:16: expected a key of a node or ']', found the number 0");
    check(
        "graph [ node [ id 0 host_bandwith_up \"1 Gbit\" ] ]",
        "1:21: 'host_bandwith_up' is not a key of a node (did you mean 'host_bandwidth_up'?)",
    );
    check(
        "graph [ node [ id 0 host_bandwidth_up 5 ] ]",
        "1:39: 'host_bandwidth_up' must be a string with a unit, not the number 5 (write host_bandwidth_up \"1 Gbit\")",
    );
    check("graph [ node [ id 0 host_bandwidth_up \"0 bit\" ] ]", "1:39: 'host_bandwidth_up' must not be 0");
    check(
        "graph [ node [ id 0 host_bandwidth_up \"1 gbit\" ] ]",
        "1:39: in 'host_bandwidth_up': \"gbit\" is not a unit of bandwidth (did you mean \"1 Gbit\"? Units are case-sensitive)",
    );
}

#[test]
fn edges() {
    check_edge("target 0 latency \"1 ms\"", "3:2: this edge has no 'source' (add source 0)");
    check_edge("source 0 latency \"1 ms\"", "3:2: this edge has no 'target' (add target 0)");
    check_edge("source 0 target 0", "3:2: this edge has no 'latency' (add latency \"10 ms\")");
    check_edge("latncy \"1 ms\"", "3:9: 'latncy' is not a key of an edge (did you mean 'latency'?)");
    check_edge(
        "source 7 target 0 latency \"1 ms\"",
        "3:16: the source of this edge is node 7, which does not exist (the nearest id is 0)",
    );
    check_edge(
        "source 0 target 4 latency \"1 ms\"",
        "3:25: the target of this edge is node 4, which does not exist (the nearest id is 0)",
    );
    check_edge(
        "latency 10",
        "3:17: 'latency' must be a string with a unit, not the number 10 (write latency \"10 ms\")",
    );
    check_edge(
        "jitter \"-1 ms\"",
        "3:16: in 'jitter': a time cannot be negative: \"-1 ms\" (write a number and a unit, such as \"10 ms\")",
    );
    check_edge(
        "packet_loss 1.5",
        "3:21: 'packet_loss' must lie between 0 and 1, not 1.5 (it is a probability: 0.01 is 1 %)",
    );
    check_edge("packet_loss \"1\"", "3:21: expected a number after 'packet_loss', found the string \"1\"");
    check_edge("latency \"1 ms\" latency \"1 ms\"", "3:24: the key 'latency' stands twice in an edge");
}

#[test]
fn damaged_graphs_give_errors_with_a_place() {
    let mut good = 0;
    for seed in 0..4_000 {
        let mut stream = Seed(seed).stream(&["damage"]);
        let mut chars: Vec<char> = super::TRIANGLE.chars().collect();
        for _ in 0..=stream.below(3) {
            let start = stream.below(chars.len() as u64) as usize;
            let end = (start + stream.below(8) as usize).min(chars.len());
            let scraps =
                ["", "[", "]", "\"", "#", "é", "-", ".", "node [", "edge [", " 0 ", "latency", "\n", "1e9"];
            let scrap = scraps[stream.below(scraps.len() as u64) as usize];
            chars.splice(start..end, scrap.chars());
        }
        let text: String = chars.into_iter().collect();
        match Graph::from_gml(&text, true) {
            Ok(_) => good += 1,
            Err(error) => {
                let line =
                    text.split('\n').nth(error.line - 1).unwrap_or_else(|| panic!("seed {seed}: {error}"));
                assert!((1..=line.chars().count() + 1).contains(&error.column), "seed {seed}: {error}");
            }
        }
    }
    assert!((50..2_000).contains(&good), "{good} of 4,000 still load: the damage is not of the right size");
}
