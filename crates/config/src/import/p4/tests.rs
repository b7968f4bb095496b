use super::*;
use crate::import::Format;
use crate::{Experiment, FinalState, PathContext};
use std::os::unix::fs::PermissionsExt;

/// A folder of files removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("belljar-import-{}-{name}", std::process::id()));
        for (file, text) in files {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        // The programs that imported hosts run may be missing on this machine.
        std::fs::create_dir_all(path.join("bin")).unwrap();
        for program in ["ip", "sh"] {
            let program = path.join("bin").join(program);
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Folder(path)
    }

    fn import(&self, file: &str, program: Option<&Path>) -> Result<(Experiment, Imported), String> {
        self.import_with(file, program, false)
    }

    fn import_with(
        &self,
        file: &str,
        program: Option<&Path>,
        tolerate_failures: bool,
    ) -> Result<(Experiment, Imported), String> {
        let options = Options { program, tolerate_failures, ..Options::new(&self.0) };
        let path = self.0.join(file);
        let format = Format::of(&path).unwrap().expect("JSON is a format");
        let imported = format.import(&path, &options).map_err(|error| {
            let place = error.position.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
            format!("{place} {}", error.message)
        })?;
        let context = PathContext {
            base_dir: self.0.clone(),
            search_path: vec![self.0.join("bin")],
            ..PathContext::default()
        };
        let loaded = Experiment::parse_in("out.yaml", &imported.yaml, &context);
        let prefix = format!("{}: ", self.0.join(file).display());
        let notes = imported.notes.iter().map(|note| note.replace(&prefix, "")).collect();
        Ok((loaded.unwrap_or_else(|e| panic!("{e}\n{}", imported.yaml)), Imported { notes, ..imported }))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that forwards nothing, with a table that runtime files can name.
const PROGRAM: &str = include_str!("../../../../../examples/p4/basic/basic.p4");
const HEADERS: &str = include_str!("../../../../../examples/p4/headers.p4");
const RUNTIME: &str = r#"{"target": "bmv2", "bmv2_json": "build/basic.json", "table_entries": [{"table": "MyIngress.ipv4_lpm",
    "match": {"hdr.ipv4.dstAddr": ["10.0.1.1", 32]}, "action_name": "MyIngress.ipv4_forward",
    "action_params": {"dstAddr": "08:00:00:00:01:11", "port": 1}}]}"#;

/// The lines of the experiment that describe its switches.
fn switches(e: &Imported) -> Vec<&str> {
    let lines = e.yaml.lines().skip_while(|line| *line != "switches:").skip(1);
    lines.take_while(|line| *line != "hosts:").map(str::trim).collect()
}

fn ends(e: &Experiment) -> Vec<String> {
    let end = |end: &crate::topology::LinkEnd| {
        format!("{}:{}", e.node_name(end.node), e.node_interfaces(end.node)[end.port].name)
    };
    e.topology.links.iter().map(|link| link.ends.each_ref().map(end).join(" = ")).collect()
}

fn commands(e: &Experiment, host: &str) -> Vec<String> {
    let host = e.hosts.iter().find(|one| one.name == host).unwrap();
    host.processes.iter().map(|process| process.args.join(" ")).collect()
}

#[test]
fn a_topology_of_the_tutorials() {
    let topology = r#"{
  "hosts": {
    "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": [
        "route add default gw 10.0.1.10 dev eth0", "arp -i eth0 -s 10.0.1.10 08:00:00:00:01:00", "sysctl -w net.x=1"]},
    "H2": {"ip": "10.0.2.2/31", "mac": "08:00:00:00:02:AA", "color": "red"}
  },
  "switches": {
    "s1": {"runtime_json": "pod/s1-runtime.json", "priority_queues": 2},
    "s2": {"program": "build/other.json", "cpu_port": "510"}
  },
  "links": [["h1", "s1-p1"], ["s1-p3", "s2-p1", "5ms", 0.5], ["s2-p2", "H2", 2, 10, "x"]]
}"#;
    let other = PROGRAM.replace("../headers.p4", "headers.p4");
    let files = [
        ("pod/topology.json", topology),
        ("pod/s1-runtime.json", RUNTIME),
        ("basic.p4", &other),
        ("other.p4", &other),
        ("headers.p4", HEADERS),
    ];
    let folder = Folder::new("tutorial", &files);
    let (e, imported) = folder.import("pod/topology.json", None).unwrap();
    let expected = ["s1: {p4: basic.p4, runtime: pod/s1-runtime.json, queues: 2}", "s2: {p4: other.p4}"];
    assert_eq!(switches(&imported), expected);
    assert_eq!(ends(&e), ["h1:eth0 = s1:p1", "s1:p3 = s2:p1", "s2:p2 = h2:eth0"]);
    let line = &e.topology.links[1].ends[0].properties;
    assert_eq!((line.rate, line.latency), (Some(500_000), belljar_base::SimDuration::from_millis(5)));
    assert_eq!(e.topology.links[2].ends[0].properties.latency, belljar_base::SimDuration::from_millis(2));
    assert_eq!(
        commands(&e, "h1"),
        ["neigh replace 10.0.1.10 lladdr 08:00:00:00:01:00 dev eth0 nud permanent", "-c sysctl -w net.x=1"]
    );
    let h1 = e.hosts.iter().find(|host| host.name == "h1").unwrap();
    assert_eq!(h1.routing.routes[0].via, [std::net::Ipv4Addr::new(10, 0, 1, 10)]);
    let expected = [
        "line 5: 'H2' is called 'h2' here",
        "line 5: 'color' of host 'h2' is not taken over",
        "line 9: 'cpu_port' of switch 's2' is not taken over",
        "line 11: a link has a latency and a bandwidth: more is not taken over",
    ];
    assert_eq!(imported.notes, expected);
}

#[test]
fn a_p4app_of_p4_utils() {
    let app = r#"{
  "p4_src": "p4src/basic.p4", "cli": true, "pcap_dump": true,
  "exec_scripts": [{"cmd": "python controller.py", "reboot_run": true}],
  "topology": {
    "assignment_strategy": "mixed", "default": {"bw": 10, "auto_arp_tables": true},
    "links": [["h1", "s1"], ["h7", "s1", {"delay": "3ms", "loss": 2}], ["s1", "s2", {"bw": 1, "max_queue_size": 50, "weight": 3}], ["s2", "web", {"port1": 9}]],
    "hosts": {"h1": {}, "h7": {}, "web": {}},
    "switches": {"s1": {"cli_input": "s1-commands.txt"}, "s2": {"cpu_port": true}}
  }
}"#;
    let files = [
        ("p4app.json", app),
        ("s1-commands.txt", "table_set_default MyIngress.ipv4_lpm MyIngress.drop\n"),
        ("p4src/basic.p4", PROGRAM),
        ("headers.p4", HEADERS),
    ];
    let folder = Folder::new("p4app", &files);
    let (e, imported) = folder.import("p4app.json", None).unwrap();
    let expected = ["s1: {p4: p4src/basic.p4, commands: s1-commands.txt}", "s2: {p4: p4src/basic.p4}"];
    assert_eq!(switches(&imported), expected);
    assert_eq!(ends(&e), ["h1:eth0 = s1:p1", "h7:eth0 = s1:p2", "s1:p3 = s2:p1", "s2:p9 = web:eth0"]);
    assert_eq!(e.topology.links[2].cost, 3);
    let own = |name: &str| {
        let host = e.hosts.iter().find(|host| host.name == name).unwrap();
        (host.interfaces[0].addresses[0].to_string(), host.interfaces[0].mac.unwrap())
    };
    assert_eq!(own("h7"), ("10.0.1.7/24".to_owned(), [0, 0, 10, 0, 1, 7]));
    assert_eq!(own("web").0, "10.0.2.1/24");
    let expected = [
        "neigh replace 10.0.1.254 lladdr 00:01:0a:00:01:01 dev eth0 nud permanent",
        "neigh replace 10.0.1.7 lladdr 00:00:0a:00:01:07 dev eth0 nud permanent",
    ];
    assert_eq!(commands(&e, "h1"), expected);
    let expected = [
        "line 2: 'cli' of this file is not taken over",
        "line 2: 'pcap_dump' of this file is not taken over",
        "line 3: 'python controller.py' is not run: add it to the processes of a host",
        "line 8: 'cpu_port' of switch 's2' is not taken over",
    ];
    assert_eq!(imported.notes, expected);
}

#[test]
fn ports_of_p4_utils_are_numbered_by_the_names_of_the_ends() {
    let app = r#"{
  "p4_src": "basic.p4",
  "topology": {
    "assignment_strategy": "l2",
    "links": [["s1", "s2"], ["h10", "s2"], ["s2", "s1"], ["h2", "s2"], ["h1", "s1", {"port2": 2}], ["h3", "s2"]],
    "hosts": {"h1": {}, "h2": {}, "h3": {}, "h10": {}},
    "switches": {"s1": {}, "s2": {}}
  }
}"#;
    let program = PROGRAM.replace("../headers.p4", "headers.p4");
    let files = [("p4app.json", app), ("basic.p4", &program), ("headers.p4", HEADERS)];
    let folder = Folder::new("sorted", &files);
    let (e, _) = folder.import("p4app.json", None).unwrap();
    let expected = [
        "s1:p1 = s2:p4",
        "h10:eth0 = s2:p3",
        "s2:p5 = s1:p3",
        "h2:eth0 = s2:p1",
        "h1:eth0 = s1:p2",
        "h3:eth0 = s2:p2",
    ];
    assert_eq!(ends(&e), expected);
}

#[test]
fn other_strategies_of_p4_utils() {
    let app = |strategy: &str, hosts: &str, link: &str| {
        format!(
            "{{\"p4_src\": \"basic.p4\", \"topology\": {{{strategy} \"links\": [[\"h1\", \"s1\"{link}], [\"h300\", \"s1\"]],\n\
             \"hosts\": {{\"h1\": {hosts}, \"h300\": {{}}}}, \"switches\": {{\"s1\": {{\"device_id\": 5}}}}}}}}"
        )
    };
    let program = PROGRAM.replace("../headers.p4", "headers.p4");
    let l2 = app("\"assignment_strategy\": \"l2\",", "{}", "");
    let none = app(
        "\"auto_gw_arp\": true,",
        "{\"defaultRoute\": \"via 10.0.1.1\"}",
        ", {\"sw_ip2\": \"10.0.1.1/24\", \"params1\": {\"ip\": \"10.0.1.2/24\"}, \"addr1\": \"00:00:00:00:00:09\"}",
    );
    let files = [("l2.json", &*l2), ("none.json", &*none), ("basic.p4", &program), ("headers.p4", HEADERS)];
    let folder = Folder::new("strategies", &files);
    let first =
        |e: &Experiment| e.hosts.iter().map(|h| h.interfaces[0].addresses[0].to_string()).collect::<Vec<_>>();
    let (e, _) = folder.import("l2.json", None).unwrap();
    assert_eq!(first(&e), ["10.0.0.1/16", "10.0.1.44/16"]);
    let (e, imported) = folder.import("none.json", None).unwrap();
    assert_eq!((first(&e)[0].as_str(), imported.notes.len()), ("10.0.1.2/24", 0));
    let expected = ["neigh replace 10.0.1.1 lladdr 00:01:0a:00:01:02 dev eth0 nud permanent"];
    assert_eq!(commands(&e, "h1"), expected);
}

#[test]
fn every_setting_of_p4_utils_is_imported_or_noted() {
    let app = |strategy: &str| {
        format!(
            "{{\"p4_src\": \"basic.p4\", \"enable_log\": false, \"pcap_dump\": true, \"topology\": {{{strategy}\"default\": {{\"bw\": 1, \"x\": 2}},\n\
             \"links\": [[\"h1\", \"s1\", {{\"addr2\": \"00:00:00:00:00:01\", \"sw_ip1\": \"10.0.0.9/24\", \"params1\": {{\"ip\": \"10.0.0.1/24\", \"mtu\": 9}}}}]],\n\
             \"hosts\": {{\"h1\": {{\"log_enabled\": true}}}}, \"switches\": {{\"s1\": {{}}}}}}}}"
        )
    };
    let program = PROGRAM.replace("../headers.p4", "headers.p4");
    let (none, l2) = (app(""), app("\"assignment_strategy\": \"l2\", "));
    let files = [("none.json", &*none), ("l2.json", &*l2), ("basic.p4", &program), ("headers.p4", HEADERS)];
    let folder = Folder::new("settings", &files);
    let notes = |file: &str| folder.import(file, None).unwrap().1.notes;
    let expected = [
        "line 1: 'pcap_dump' of this file is not taken over",
        "line 1: 'x' of 'default' is not taken over",
        "line 2: 'addr2' of a link is not taken over",
        "line 2: 'mtu' of 'params1' is not taken over",
        "line 2: 'sw_ip1' of a link is not taken over",
        "line 3: 'log_enabled' of host 'h1' is not taken over",
    ];
    assert_eq!(notes("none.json"), expected);
    let expected = [
        "line 2: 'addr2' is not taken over: the strategy assigns addresses",
        "line 2: 'params1' is not taken over: the strategy assigns addresses",
        "line 2: 'sw_ip1' is not taken over: the strategy assigns addresses",
    ];
    assert_eq!(notes("l2.json")[2..5], expected);
}

#[test]
fn failures_of_commands_are_tolerated_on_request() {
    let topology = r#"{"hosts": {"h1": {"ip": "10.0.1.1/24", "commands": ["ls /", "arp -s 10.0.1.2 08:00:00:00:01:00"]}},
 "switches": {"s1": {}}, "links": [["h1", "s1-p1"]]}"#;
    let program = PROGRAM.replace("../headers.p4", "headers.p4");
    let files = [("topology.json", topology), ("basic.p4", &*program), ("headers.p4", HEADERS)];
    let folder = Folder::new("tolerated", &files);
    let states = |tolerate: bool| {
        let (e, imported) = folder.import_with("topology.json", None, tolerate).unwrap();
        let states =
            e.hosts[0].processes.iter().map(|process| process.expected_final_state).collect::<Vec<_>>();
        (states, imported.notes)
    };
    assert_eq!(states(false), (vec![FinalState::Exited(0); 2], vec![]));
    let expected = [
        "line 1: 'h1' may fail at 'ip neigh replace 10.0.1.2 lladdr 08:00:00:00:01:00 dev eth0 nud permanent'",
        "line 1: 'h1' may fail at 'ls /'",
    ];
    assert_eq!(states(true), (vec![FinalState::Any; 2], expected.map(str::to_owned).to_vec()));
}

#[test]
fn the_route_of_an_own_address_is_left_out() {
    let topology = r#"{"hosts": {"h1": {"ip": "10.0.1.1/24",
 "commands": ["ip route add 10.0.1.0/24 dev eth0", "ip route add 10.0.2.0/24 dev eth0",
 "ip route add 10.0.1.0/25 dev eth0", "ip route add 10.0.1.0/24 dev eth1"]}},
 "switches": {"s1": {}}, "links": [["h1", "s1-p1"]]}"#;
    let program = PROGRAM.replace("../headers.p4", "headers.p4");
    let files = [("topology.json", topology), ("basic.p4", &*program), ("headers.p4", HEADERS)];
    let (e, imported) = Folder::new("connected", &files).import("topology.json", None).unwrap();
    assert_eq!(e.hosts[0].processes.len(), 3);
    let expected =
        "line 2: 'h1' has the route of 'ip route add 10.0.1.0/24 dev eth0' by its address: left out";
    assert_eq!(imported.notes, [expected]);
}

#[test]
fn what_is_no_network_is_refused_where_it_goes_wrong() {
    let program = PROGRAM.replace("../headers.p4", "headers.p4");
    let error = |name: &str, text: &str| {
        let files = [("x.json", text), ("basic.p4", &*program), ("headers.p4", HEADERS)];
        Folder::new(name, &files).import("x.json", None).unwrap_err()
    };
    assert_eq!(error("w1", "{\"hosts\": {}}"), "1:1 there is no 'switches' in the topology");
    assert_eq!(error("w2", "{\"hosts\": {}, \"switches\": {}}"), "- there are no links");
    assert_eq!(
        error("w3", "{\"hosts\": {}, \"switches\": {}, \"links\": []}"),
        "- this network has no links"
    );
    assert_eq!(
        error(
            "w4",
            "{\"hosts\": {\"h1\": {}}, \"switches\": {\"s1\": {}},\n\"links\": [[\"h1\", \"s2-p1\"]]}"
        ),
        "2:18 's2-p1' is neither a host nor a port of a switch"
    );
    assert_eq!(
        error("w5", "{\"hosts\": {\"h1\": {}}, \"switches\": {\"s1\": {}},\n\"links\": [[\"h1\"]]}"),
        "2:11 a link has two ends"
    );
    assert_eq!(
        error(
            "w6",
            "{\"hosts\": {\"h1\": {}}, \"switches\": {\"s1\": {}},\n\"links\": [[\"h1\", \"s1-p1\", \"soon\"]]}"
        ),
        "2:27 'latency' must be a delay such as 10ms, not 'soon'"
    );
    assert_eq!(
        error(
            "w7",
            "{\"hosts\": {\"h1\": {}}, \"switches\": {\"s1\": {}},\n\"links\": [[\"h1\", \"s1-p1\", 0, 0]]}"
        ),
        "2:30 'bandwidth' must be more than 0 Mbit/s"
    );
    assert_eq!(
        error(
            "w8",
            "{\"hosts\": {}, \"switches\": {\"s1\": {\"runtime_json\": \"no.json\"}}, \"links\": []}"
        ),
        "1:51 there is no file 'no.json'"
    );
    assert_eq!(
        error(
            "w9",
            "{\"hosts\": {}, \"switches\": {\"s1\": {\"program\": \"build/no.json\"}}, \"links\": []}"
        ),
        "1:46 neither 'build/no.json' nor the P4 source that it is compiled from is there"
    );
    assert_eq!(
        error("w10", "{\"topology\": {\"hosts\": {\"h1\": {}}, \"switches\": {\"h1\": {}}, \"links\": []}}"),
        "1:49 there are two nodes that would be called 'h1'"
    );
    assert_eq!(
        error(
            "w11",
            "{\"topology\": {\"hosts\": {}, \"switches\": {\"s1\": {}}, \"links\": [[\"s1\", \"s2\"]]}}"
        ),
        "1:69 there is no host or switch 's2'"
    );
    let two = [
        ("x.json", "{\"hosts\": {}, \"switches\": {\"s1\": {}}, \"links\": []}"),
        ("a.p4", "V1Switch"),
        ("b.p4", "V1Switch"),
    ];
    let error = Folder::new("w12", &two).import("x.json", None).unwrap_err();
    assert_eq!(error, "1:28 the file does not say which program switch 's1' runs");
}
