use super::*;
use belljar_base::{Seed, Stream};
use std::cmp::Ordering;
use std::fmt::Write;

mod errors;

fn ms(n: u64) -> SimDuration {
    SimDuration::from_millis(n)
}

fn node(graph: &Graph, id: u32) -> NodeIndex {
    graph.node_by_id(id).unwrap()
}

/// Path between two GML ids.
fn path(graph: &Graph, from: u32, to: u32) -> Option<Path> {
    graph.path(node(graph, from), node(graph, to))
}

const TRIANGLE: &str = r#"
Creator "someone" Version 1
graph [
  # three places
  directed 0
  label "a map"
  node [ id 10 label "here &amp; now" host_bandwidth_up "10 Mbit" country_code "DE" ]
  node [ id 20 host_bandwidth_down "1 Gbit" ]
  node [ id 30 ]
  node [ id 40 ]
  edge [ source 10 target 20 latency "10 ms" packet_loss 0.1 ]
  edge [ source 20 target 30 latency "10 ms" jitter "3 ms" packet_loss 0.2 bandwidth [ a 1 b "x" ] ]
  edge [ source 10 target 30 latency "30 ms" packet_loss 0 ]
  edge [ source 10 target 10 latency "1 ms" ]
]"#;

#[test]
fn shortest_paths_sum_latency_and_combine_loss() {
    let graph = Graph::from_gml(TRIANGLE, true).unwrap();
    assert_eq!(graph.nodes()[0].label.as_deref(), Some("here & now"));
    assert_eq!(
        (graph.nodes()[0].bandwidth_up, graph.nodes()[1].bandwidth_down),
        (Some(10_000_000), Some(1_000_000_000))
    );
    for (from, to) in [(10, 30), (30, 10)] {
        let found = path(&graph, from, to).unwrap();
        assert_eq!((found.latency, found.jitter, found.least_latency), (ms(20), ms(3), ms(17)));
        assert!((found.loss - 0.28).abs() < 1e-12, "{}", found.loss);
    }
    assert_eq!(path(&graph, 10, 20).unwrap().loss, 0.1, "the loss of a single edge is exact");
    assert_eq!(path(&graph, 10, 40), None);
    assert_eq!(graph.notes(), ["keys of the graph that have no effect: bandwidth, country_code, label"]);
}

#[test]
fn a_node_reaches_itself_over_a_self_loop_only() {
    for shortest in [true, false] {
        let graph = Graph::from_gml(TRIANGLE, shortest).unwrap();
        assert_eq!(path(&graph, 10, 10).unwrap().latency, ms(1));
        assert_eq!(path(&graph, 20, 20), None);
    }
}

#[test]
fn direct_paths_are_single_edges() {
    let graph = Graph::from_gml(TRIANGLE, false).unwrap();
    assert_eq!(path(&graph, 10, 30).unwrap().latency, ms(30));
    assert_eq!(path(&graph, 30, 10).unwrap().latency, ms(30));
    let line = "graph [ node [ id 0 ] node [ id 1 ] node [ id 2 ]
        edge [ source 0 target 1 latency \"1 ms\" ] edge [ source 1 target 2 latency \"1 ms\" ] ]";
    assert_eq!(path(&Graph::from_gml(line, false).unwrap(), 0, 2), None);
    assert_eq!(path(&Graph::from_gml(line, true).unwrap(), 0, 2).unwrap().latency, ms(2));
}

#[test]
fn directed_edges_lead_one_way() {
    let text = "graph [ directed 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 latency \"1 ms\" ] ]";
    let graph = Graph::from_gml(text, true).unwrap();
    assert_eq!(path(&graph, 0, 1).unwrap().latency, ms(1));
    assert_eq!(path(&graph, 1, 0), None);
}

#[test]
fn of_equal_latencies_the_least_loss_wins_and_of_parallel_edges_the_best() {
    let text = "graph [ node [ id 0 ] node [ id 1 ] node [ id 2 ]
        edge [ source 0 target 1 latency \"2 ms\" packet_loss 0.5 ]
        edge [ source 0 target 1 latency \"2 ms\" packet_loss 0.3 ]
        edge [ source 0 target 1 latency \"9 ms\" ]
        edge [ source 0 target 2 latency \"1 ms\" packet_loss 0.1 ]
        edge [ source 2 target 1 latency \"1 ms\" packet_loss 0.1 ] ]";
    let found = path(&Graph::from_gml(text, true).unwrap(), 0, 1).unwrap();
    assert!((found.loss - 0.19).abs() < 1e-12);
    assert_eq!(path(&Graph::from_gml(text, false).unwrap(), 0, 1).unwrap().loss, 0.3);
}

#[test]
fn latencies_and_jitters_are_bounded_with_a_note() {
    let text = "graph [ node [ id 0 ] node [ id 1 ]
        edge [ source 0 target 1 latency \"0.2 ns\" ]
        edge [ source 0 target 0 latency \"0 ms\" ]
        edge [ source 1 target 1 latency \"1 ms\" jitter \"2 ms\" ] ]";
    let graph = Graph::from_gml(text, true).unwrap();
    assert_eq!(path(&graph, 0, 1).unwrap().latency, SimDuration::from_nanos(1));
    let looped = path(&graph, 1, 1).unwrap();
    assert_eq!((looped.latency, looped.least_latency), (ms(1), SimDuration::from_nanos(1)));
    assert_eq!(
        graph.notes(),
        [
            "2 edges have a latency under 1 ns: raised to 1 ns",
            "1 edge has more jitter than latency: limited to the latency"
        ]
    );
}

#[test]
fn the_built_in_graph_is_one_millisecond_at_one_gigabit() {
    let graph = Graph::one_gbit_switch();
    assert_eq!(path(&graph, 0, 0).unwrap().latency, ms(1));
    let only = graph.node(NodeIndex(0));
    assert_eq!((only.bandwidth_up, only.bandwidth_down), (Some(1_000_000_000), Some(1_000_000_000)));
    assert_eq!(graph.least_latency(), Some(ms(1)));
}

#[test]
fn paths_are_found_once_for_all_threads() {
    let graph = std::sync::Arc::new(Graph::from_gml(TRIANGLE, true).unwrap());
    let ask = |graph: std::sync::Arc<Graph>| std::thread::spawn(move || path(&graph, 30, 10));
    let answers: Vec<_> = (0..4).map(|_| ask(graph.clone())).collect();
    for answer in answers {
        assert_eq!(answer.join().unwrap(), path(&graph, 30, 10));
    }
}

/// Random graph with edges in random order, and few distinct values, so that ties are common.
fn random_gml(stream: &mut Stream, nodes: u64) -> String {
    let mut text = format!("graph [ directed {}\n", stream.below(2));
    for id in 0..nodes {
        let _ = writeln!(text, "node [ id {} ]", id * 3);
    }
    for _ in 0..stream.below(nodes * 4) {
        let (source, target) = (stream.below(nodes) * 3, stream.below(nodes) * 3);
        let latency = stream.below(4) + 1;
        let (jitter, loss) = (stream.below(3), [0.0, 0.0, 0.25, 0.5][stream.below(4) as usize]);
        let _ = writeln!(
            text,
            "edge [ source {source} target {target} latency \"{latency} us\" jitter \"{jitter} us\" packet_loss {loss} ]"
        );
    }
    text + "]"
}

/// All-pairs costs by the Floyd-Warshall algorithm, over the same edges and order of costs. With losses of
/// 1/4 and 1/2 no result is rounded.
fn floyd_warshall(graph: &Graph) -> Vec<Vec<Option<routes::Cost>>> {
    let n = graph.nodes().len();
    let mut best = vec![vec![None; n]; n];
    for (from, row) in best.iter_mut().enumerate() {
        for to in (0..n).filter(|to| *to != from) {
            let edge = graph.direct(NodeIndex(from as u32), NodeIndex(to as u32));
            row[to] = edge.map(|e| routes::Cost { latency: e.latency, loss: e.loss, jitter: e.jitter });
        }
    }
    for middle in 0..n {
        for from in 0..n {
            for to in (0..n).filter(|to| *to != from) {
                let (Some(first), Some(second)) = (best[from][middle], best[middle][to]) else { continue };
                let through = first.then(&second);
                if best[from][to].is_none_or(|direct| through.compare(&direct) == Ordering::Less) {
                    best[from][to] = Some(through);
                }
            }
        }
    }
    best
}

#[test]
fn dijkstra_agrees_with_floyd_and_warshall() {
    for seed in 0..300 {
        let mut stream = Seed(seed).stream(&["graph"]);
        let nodes = stream.below(12) + 1;
        let text = random_gml(&mut stream, nodes);
        let graph = Graph::from_gml(&text, true).unwrap();
        let expected = floyd_warshall(&graph);
        for (from, row) in expected.iter().enumerate() {
            for (to, cost) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                let found = graph.path(NodeIndex(from as u32), NodeIndex(to as u32));
                let expected = cost.map(|c| (c.latency, c.loss, c.jitter));
                let found = found.map(|p| (p.latency.as_picos(), p.loss, p.jitter.as_picos()));
                assert_eq!(found, expected, "seed {seed}, {from} to {to}:\n{text}");
            }
        }
    }
}

#[test]
fn no_path_undercuts_the_least_latencies() {
    for seed in 0..200 {
        let mut stream = Seed(seed).stream(&["lookahead"]);
        let nodes = stream.below(10) + 2;
        let graph = Graph::from_gml(&random_gml(&mut stream, nodes), seed % 3 != 0).unwrap();
        let hosts: Vec<u32> = (0..nodes).map(|_| stream.below(3) as u32).collect();
        let used = |n: &NodeIndex| hosts[n.index()] > 0;
        let all: Vec<NodeIndex> = (0..nodes as u32).map(NodeIndex).collect();
        for &from in all.iter().filter(|n| used(n)) {
            let paths = all.iter().filter(|n| used(n) && (**n != from || hosts[n.index()] > 1));
            let least = paths.filter_map(|to| graph.path(from, *to)).map(|p| p.least_latency).min();
            let bound = graph.least_latency_to_hosts(from, &hosts);
            assert_eq!(bound.is_some(), least.is_some(), "seed {seed}");
            let Some((bound, least)) = bound.zip(least) else { continue };
            assert!(bound <= least, "seed {seed}: {bound} > {least}");
            assert!(graph.least_latency_from(from).unwrap() <= bound);
            assert!(graph.least_latency().unwrap() <= bound);
        }
    }
}

#[test]
fn an_unreachable_pair_is_found_if_there_is_one() {
    let mut found = 0;
    for seed in 0..300 {
        let mut stream = Seed(seed).stream(&["reach"]);
        let nodes = stream.below(8) + 1;
        let graph = Graph::from_gml(&random_gml(&mut stream, nodes), seed % 2 == 0).unwrap();
        let hosts: Vec<u32> = (0..nodes).map(|_| stream.below(2) as u32).collect();
        let used: Vec<NodeIndex> =
            (0..nodes as u32).map(NodeIndex).filter(|n| hosts[n.index()] > 0).collect();
        let pairs = used.iter().flat_map(|a| used.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b);
        let missing: Vec<_> = pairs.filter(|(a, b)| graph.path(*a, *b).is_none()).collect();
        match graph.unreachable(&hosts) {
            None => assert_eq!(missing, [], "seed {seed}"),
            Some(pair) => {
                assert!(missing.contains(&pair), "seed {seed}: {pair:?}");
                found += 1;
            }
        }
    }
    assert!((50..250).contains(&found), "{found} of 300");
}

#[test]
fn a_large_graph_loads_and_routes() {
    let mut text = String::from("graph [\n");
    for id in 0..6_000 {
        let _ =
            writeln!(text, "node [ id {id} host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ]");
    }
    for id in 0..6_000u32 {
        for step in [1, 7, 100, 911] {
            let _ =
                writeln!(text, "edge [ source {id} target {} latency \"{step} ms\" ]", (id + step) % 6_000);
        }
    }
    text.push(']');
    let graph = Graph::from_gml(&text, true).unwrap();
    assert_eq!((graph.nodes().len(), graph.edge_count()), (6_000, 24_000));
    assert_eq!(path(&graph, 5, 10).unwrap().latency, ms(5));
    assert_eq!(path(&graph, 0, 3_000).unwrap().latency, ms(3_000));
}
