//! Tests of the importers of graphs, of AS relationships and of netlab.

use super::*;

const GRAPHML: &str = r#"<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
  <key attr.name="label" attr.type="string" for="node" id="d1"/>
  <key attr.name="Latitude" attr.type="double" for="node" id="d2"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d3"/>
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d4"/>
  <key attr.name="colour" attr.type="string" for="edge" id="d5"/>
  <key for="node" id="d6"/>
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">New York</data><data key="d2">40.71427</data><data key="d3">-74.00597</data></node>
    <node id="1"><data key="d1">Chicago</data><data key="d2">41.85003</data><data key="d3">-87.65005</data></node>
    <node id="2"><data key="d6"><y:NodeLabel>A &amp; B</y:NodeLabel></data></node>
    <node id="3"/>
    <edge source="0" target="1"><data key="d4">10000000000.0</data><data key="d5">red</data></edge>
    <edge source="1" target="2"/>
    <edge source="2" target="2"/>
  </graph>
</graphml>
"#;

#[test]
fn a_graph_in_graphml() {
    let (e, notes) = take(&graph::GraphMl, GRAPHML, &[]);
    // 1,146 km of fibre.
    let link = &e.topology.links[0].ends[0].properties;
    assert_eq!((link.rate, link.latency.as_nanos()), (Some(10_000_000_000), 5_611_000));
    let names: Vec<&str> = e.hosts.iter().map(|host| &*host.name).collect();
    assert_eq!(names, ["h-a-b", "h-chicago", "h-new-york"]);
    assert_eq!(
        notes,
        [
            "line 13: 'r3' is left out: it has no links",
            "line 14: attribute 'colour' of 1 edges is not taken over, the first here",
            "line 15: 1 link has no coordinates at both ends, the first here: latency 1 ms",
            "line 15: 1 link has no speed, the first here: 1 Gbit, the default",
            "line 16: a link from 'a-b' to itself is left out",
        ]
    );
}

#[test]
fn all_errors_of_a_graph_at_once() {
    let text = "graph [ node [ id 0 label \"a\" Latitude 91 ]\n node [ id 0 ]\n edge [ source 0 target 7 ] ]";
    let failed = import(&graph::Gml, text, &[], false).unwrap_err();
    let messages: Vec<&str> =
        std::iter::once(&failed).chain(&failed.more).map(|error| &*error.message).collect();
    assert_eq!(messages, ["'91' is not a latitude", "there are two nodes '0'", "there is no node '7'"]);
    assert_eq!(error(&graph::Gml, "graph [ node [ id 0 ]"), "1:1 a '[' is not closed");
    assert_eq!(error(&graph::Gml, "node [ id 0 ]"), "- there is no 'graph [ ... ]' in this file");
    assert!(error(&graph::GraphMl, "<graphml><graph>").starts_with("- this file ends"), "XML");
}

#[test]
fn a_directed_graph_with_both_directions() {
    let text = "Creator \"x\"\ngraph [ directed 1\n node [ id 0 label \"0\" ] node [ id 1 label \"1\" ]\n edge [ source 0 target 1 LinkLabel \"155 Mbps\" ]\n edge [ source 1 target 0 ] ]";
    let (e, _) = take(&graph::Gml, text, &[]);
    assert_eq!(e.topology.links.len(), 3);
    assert_eq!(e.topology.links[0].ends[0].properties.rate, Some(155_000_000));
}

const INTERNET: &str = "# source:topology\n1|2|0\n1|3|-1\n2|4|-1|bgp\n3|5|-1\n4|6|-1\n3|6|-1\n";

#[test]
fn as_relationships() {
    let imported = import(&relationships::Relationships, INTERNET, &[], false).unwrap();
    assert_eq!(imported.notes.len(), 1, "{:?}", imported.notes);
    assert!(
        imported.notes[0]
            .ends_with("links have a latency of 5 ms and the default rate of 1 Gbit: the file has neither")
    );
    let script = &imported.yaml;
    assert!(script.contains("6 autonomous systems, 6 relationships"), "{script}");
    // AS 1 is a provider of AS 3, which passes on the routes of its customers.
    assert!(script.contains("neighbor 172.16.0.5 as 1; connect delay time 1; ipv4 { import filter from_provider; export filter to_others; }"), "{script}");
    assert!(
        script.contains(
            "as 5; connect delay time 1; ipv4 { import filter from_customer; export filter to_customer; }"
        ),
        "{script}"
    );
}

#[test]
fn samples_follow_the_seed_and_reach_each_other() {
    let folder = Folder::new(&[("as-rel.txt", INTERNET)]);
    let sample = |seed, size| {
        let options = Options { seed, sample: Some(size), ..Options::new(Path::new("")) };
        let imported = Format(&relationships::Relationships).import(&folder.0.join("as-rel.txt"), &options);
        imported.unwrap().yaml
    };
    assert_eq!(sample(1, 4), sample(1, 4));
    assert!((2..20).any(|seed| sample(seed, 4) != sample(1, 4)));
    for seed in 1..20 {
        let text = sample(seed, 4);
        // A ping shows that all reach each other.
        assert!(text.contains("path: ping"), "{text}");
    }
}

#[test]
fn relationships_of_older_files() {
    // AS 3 and AS 4 are customers; AS 23456 is nobody's number.
    let text = "# before 2013\n1 3 1\n4 1 -1\n3 4 2\n23456 1 -1\n3\t1\t-1\n";
    assert!(relationships::Relationships.recognises(text));
    assert!(!relationships::Relationships.recognises("some words here\n"));
    let imported = import(&relationships::Relationships, text, &[], false).unwrap();
    assert_eq!(
        imported.notes[1..],
        [
            "relationships of AS 23456 are left out (1): the number stands for systems with longer ones (RFC 6793)",
            "siblings are peers here (1)",
        ]
    );
    let script = &imported.yaml;
    for (number, role) in [(3, "customer"), (4, "customer"), (1, "provider"), (4, "peer")] {
        let session = format!("as {number}; connect delay time 1; ipv4 {{ import filter from_{role};");
        assert!(script.contains(&session), "{session}: {script}");
    }
}

#[test]
fn wrong_relationships() {
    let wrong =
        import(&relationships::Relationships, "1|2|-1\n2|1|-1\n1|x|0\n1|1|0\n1|2\n1|3|7\n", &[], false);
    let wrong = wrong.unwrap_err();
    let all: Vec<(u32, &str)> = std::iter::once(&wrong)
        .chain(&wrong.more)
        .map(|error| (error.position.unwrap().0, &*error.message))
        .collect();
    assert_eq!(
        all,
        [
            (2, "AS 2 and AS 1 have another relationship in an earlier line"),
            (3, "'x' is not the number of an autonomous system"),
            (4, "AS 1 is a neighbour of itself"),
            (5, "this line is not a relationship"),
            (6, "'7' is not a relationship"),
        ]
    );
}

#[test]
fn a_topology_of_netlab() {
    let (e, notes) = take(
        &netlab::Netlab,
        r#"
defaults.device: frr
module: [ ospf ]
nodes:
  r1:
  r2: { ospf.area: 1 }
  h1: { device: linux }
links:
- r1-r2
- { r1: , h1: , mtu: 1400 }
- [ r2 ]
- r1: { ipv4: 10.9.0.1 }
  r2: { ipv4: 10.9.0.2/24 }
  prefix: 10.9.0.0/24
  bandwidth: 10000
  ospf.cost: 5
"#,
        &[],
    );
    assert_eq!(
        ends(&e),
        [
            "r1:eth1 10.1.0.1/30 = r2:eth1 10.1.0.2/30",
            "r1:eth2 172.16.0.1/24 = h1:eth1 172.16.0.3/24",
            "r2:eth2 172.16.1.2/24 = h1-r2:eth0 172.16.1.1/24",
            "r1:eth3 10.9.0.1/24 = r2:eth3 10.9.0.2/24",
        ]
    );
    let last = &e.topology.links[3];
    assert_eq!((last.ends[0].properties.rate, last.cost), (Some(10_000_000), 5));
    assert_eq!(
        notes,
        [
            "devices 'frr' are routers with routes of shortest paths",
            "line 3: routers have the routes of shortest paths, not those of ospf",
            "line 6: 'ospf.area' of node 'r2' is not taken over",
            "line 11: this link has one end: host 'h1-r2' is the other",
        ]
    );
}

#[test]
fn a_netlab_without_hosts_and_one_with_errors() {
    let (e, _) =
        take(&netlab::Netlab, "nodes: [a, b]\nlinks:\n- group: core\n  mtu: 1450\n  members: [ a-b ]\n", &[]);
    let names: Vec<&str> = e.hosts.iter().map(|host| &*host.name).collect();
    assert_eq!(names, ["h-a", "h-b"]);
    let created =
        "groups: { _auto_create: true, hosts: { members: [h1, h2], device: linux } }\nlinks: [h1 - h2]\n";
    let (e, _) = take(&netlab::Netlab, created, &[]);
    assert_eq!(ends(&e), ["h1:eth1 172.16.0.1/24 = h2:eth1 172.16.0.2/24"]);
    let wrong = "nodes: [a, b]\nlinks: [a-c, {d: }, b-e]\n";
    let failed = import(&netlab::Netlab, wrong, &[], false).unwrap_err();
    let messages: Vec<&str> =
        std::iter::once(&failed).chain(&failed.more).map(|error| &*error.message).collect();
    assert_eq!(messages, ["there is no node 'c'", "this link has no node: it has d", "there is no node 'e'"]);
    assert_eq!(failed.help, None);
    let made =
        import(&netlab::Netlab, "plugin: [fabric]\nnodes: [a]\nlinks: [a-L1]\n", &[], false).unwrap_err();
    assert_eq!(
        made.help.unwrap(),
        "a plugin (fabric) makes them: let netlab write the topology with 'netlab create -o yaml'"
    );
}

#[test]
fn formats_of_yaml_files() {
    let of = |text: &str| {
        let folder = Folder::new(&[("a.yml", text)]);
        Format::of(&folder.0.join("a.yml")).unwrap().unwrap().name()
    };
    assert_eq!(of("name: x\ntopology:\n  nodes: {}\n"), "containerlab");
    assert_eq!(of("defaults.device: frr\nnodes: [a]\n"), "netlab");
}
