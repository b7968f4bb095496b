use super::*;
use belljar_config::PathContext;

fn experiment(text: &str) -> Experiment {
    let text = format!("general: {{ stop_time: 1 }}\n{text}");
    Experiment::parse_in("test.yaml", &text, &PathContext::default()).unwrap_or_else(|e| panic!("{e}"))
}
/// A node's routes as `prefix>gateway,...`, sorted.
fn routes(experiment: &Experiment, state: &RoutingState, name: &str) -> Vec<String> {
    let id = (0..experiment.node_count()).find(|n| experiment.node_name(HostId(*n as u32)) == name);
    let hop = |hop: &NextHop| hop.gateway.map_or("link".to_owned(), |ip| ip.to_string());
    let shown = state.routes[id.unwrap()].iter().map(|(prefix, _, route)| {
        format!("{prefix}>{}", route.hops.iter().map(hop).collect::<Vec<_>>().join(","))
    });
    shown.collect()
}

const TRIANGLE: &str = "
hosts: { a: { processes: [] }, b: { processes: [] } }
routers: [r1, r2, r3]
links:
- { between: [a, r1] }
- { between: [b, r2] }
- { name: direct, between: [r1, r2] }
- { between: [r1, r3] }
- { between: [r3, r2] }
";

#[test]
fn routes_lead_along_shortest_paths_and_round_what_is_down() {
    let e = experiment(TRIANGLE);
    let all = state(&e, &Set::new());
    // Networks are numbered by link: 10.0.0.0/24 a-r1, 10.0.1.0/24 b-r2, 10.0.2.0/24 r1-r2, ...
    assert_eq!(routes(&e, &all, "a"), ["0.0.0.0/0>10.0.0.2"]);
    assert_eq!(routes(&e, &all, "b"), ["0.0.0.0/0>10.0.1.2"]);
    assert_eq!(routes(&e, &all, "r1"), ["10.0.1.0/24>10.0.2.2", "10.0.4.0/24>10.0.2.2,10.0.3.2"]);
    let direct = e.topology.links.iter().position(|link| link.name == "direct").unwrap();
    let without = state(&e, &Set::from([direct]));
    assert_eq!(routes(&e, &without, "r1"), ["10.0.1.0/24>10.0.3.2", "10.0.4.0/24>10.0.3.2"]);
    let both = state(&e, &Set::from([direct, direct + 1]));
    assert_eq!(routes(&e, &both, "r1"), Vec::<String>::new());
}

#[test]
fn costs_count_and_hosts_pass_nothing_on_unless_they_say_so() {
    let dear = TRIANGLE.replace("name: direct,", "name: direct, cost: 3,");
    let e = experiment(&dear);
    assert_eq!(routes(&e, &state(&e, &Set::new()), "r1")[0], "10.0.1.0/24>10.0.3.2");
    let chain = |forwarding: bool| {
        let text = format!(
            "hosts: {{ a: {{ processes: [] }}, m: {{ processes: [], forwarding: {forwarding} }}, b: {{ processes: [] }} }}
links: [ {{ between: [a, m] }}, {{ between: [m, b] }} ]"
        );
        let e = experiment(&text);
        routes(&e, &state(&e, &Set::new()), "a")
    };
    assert_eq!(chain(false), Vec::<String>::new());
    assert_eq!(chain(true), ["0.0.0.0/0>10.0.0.2"]);
}

#[test]
fn static_routes_are_as_they_are_written() {
    let e = experiment(
        "
hosts:
  a:
    interfaces: { eth0: 10.1.0.1/24 }
    routes: [ { to: default, via: [10.1.0.2, 10.1.0.3], metric: 7 }, { to: 10.9.0.0/16, dev: eth0 } ]
    processes: []
  b: { interfaces: { eth0: 10.1.0.2/24 }, processes: [] }
switches: [s]
links: [ { between: [a, s] }, { between: [b, s] } ]",
    );
    let all = state(&e, &Set::new());
    assert_eq!(routes(&e, &all, "a"), ["0.0.0.0/0>10.1.0.2,10.1.0.3", "10.9.0.0/16>link"]);
    assert_eq!(all.routes[0][0].1, 7);
}

#[test]
fn a_host_between_links_and_the_graph_leads_to_everywhere() {
    let e = experiment(
        "
network: { graph: { type: 1_gbit_switch } }
hosts:
  gate: { network_node_id: 0, forwarding: true, processes: [] }
  a: { processes: [] }
  far: { network_node_id: 0, processes: [] }
routers: [r]
links: [ { between: [a, r] }, { between: [r, gate] } ]",
    );
    let all = state(&e, &Set::new());
    assert_eq!(routes(&e, &all, "a"), ["0.0.0.0/0>10.0.0.2"]);
    assert_eq!(routes(&e, &all, "r"), ["0.0.0.0/0>10.0.1.2"]);
    assert_eq!(routes(&e, &all, "gate"), ["10.0.0.0/24>10.0.1.1"]);
}

#[test]
fn switches_are_joined_by_a_tree() {
    let e = experiment(
        "
hosts: { a: { processes: [] } }
switches: [s1, s2, s3]
links:
- { between: [a, s1] }
- { between: [s1, s2] }
- { between: [s2, s3] }
- { between: [s3, s1] }
- { between: [s3, s1] }",
    );
    let ports = |down: &[usize]| {
        state(&e, &down.iter().copied().collect()).blocked.iter().map(Vec::len).collect::<Vec<_>>()
    };
    // The tree omits s2-s3 and the second of s3-s1.
    assert_eq!(ports(&[]), [0, 1, 1, 2]);
    assert_eq!(ports(&[1]), [0, 1, 0, 1]);
    assert_eq!(ports(&[3]), [0, 0, 1, 1]);
    assert_eq!(ports(&[1, 2]), [0, 1, 0, 1]);
}
