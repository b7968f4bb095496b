use super::*;

/// A file with two hosts and these additional sections.
#[track_caller]
fn links(text: &str, expected: &str, help: &str) {
    check(
        &format!("{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\n{text}\n"),
        expected,
        help,
    );
}

/// A link between a and b with these additional keys.
#[track_caller]
fn link(keys: &str, expected: &str, help: &str) {
    links(&format!("links: [ {{ between: [a, b], {keys} }} ]"), expected, help);
}

#[test]
fn ends_of_links() {
    links("links: [ {} ]", "3:10 a link has no 'between'", "add between: [alice:eth1, bob:eth1]");
    links("links: [ { between: [a] } ]", "3:21 a link has two ends", "write between: [alice:eth1, bob:eth1]");
    links(
        "routers: [router]\nlinks: [ { between: [a, rooter] } ]",
        "4:25 there is no host, switch, router, simulator, radio or gateway 'rooter'",
        "did you mean 'router'?",
    );
    links(
        "links: [ { between: [a, nobody] } ]",
        "3:25 there is no host, switch, router, simulator, radio or gateway 'nobody'",
        "add it to hosts, switches, routers, simulators, radios or gateways",
    );
    links(
        "links: [ { between: [\"a:eth0/1\", b] } ]",
        "3:22 'eth0/1' cannot be the name of an interface",
        "use up to 15 letters and digits, such as eth1",
    );
    links(
        "links: [ { between: [\"a:lo\", b] } ]",
        "3:22 'lo' is the loopback interface of host 'a'",
        "write a:eth1",
    );
    links(
        "links: [ { between: [\"a:x\", b] }, { between: [\"a:x\", b] } ]",
        "3:47 'a:x' is at the end of link 'a:x-b:eth0' already",
        "name another interface, or leave the name out",
    );
    links(
        "links: [ { name: l, between: [a, b] }, { name: l, between: [a, b] } ]",
        "3:48 there are two links with the name 'l'",
        "give one of them another name",
    );
    links(
        "links: [ { between: [a, b], name: \"l*\" } ]",
        "3:10 a link's name must not be empty or have a '*', a comma or a quote",
        "",
    );
}

#[test]
fn nodes_have_names_of_their_own() {
    links(
        "switches: [a]\nlinks: [ { between: [a, b] } ]",
        "3:12 there is something else with the name 'a'",
        "give the switch another name",
    );
    links(
        "routers: [R1]\nlinks: [ { between: [a, b] } ]",
        "3:11 'R' cannot be part of a router's name",
        "use a-z, 0-9, '-' and '.', such as 'r1'",
    );
    links(
        "switches: { s: { aging: 3 s } }\nlinks: [ { between: [a, b] } ]",
        "3:18 'aging' is not a key of switch 's'",
        "did you mean 'ageing'?",
    );
    let off = "hosts: { a: { processes: [] }, b: { processes: [] }, c: { processes: [] } }";
    let text = format!("{GENERAL}\n{off}\nlinks: [ {{ between: [a, b] }} ]\n");
    check(&text, "2:54 host 'c' is at the end of no link", "add it to one: links: [ { between: [c, ...] } ]");
}

#[test]
fn what_links_are_like() {
    link(
        "rate: fast",
        "3:35 'rate': \"fast\" is not a bandwidth",
        "write a number and a unit, such as \"100 Mbit\"",
    );
    link("jitter: 1 ms", "3:37 the jitter of a link must be less than its latency", "");
    link("mtu: 40", "3:34 'mtu' must be at least 68, not 40", "");
    link("cost: 0", "3:35 'cost' must not be 0", "");
    link(
        "queue: { packets: 3, bytes: 4 KB }",
        "3:36 a queue is of one kind",
        "write one of packets, bytes, codel, fq_codel, red and priority, such as { packets: 100 }",
    );
    link(
        "reverse: { mtu: 5 }",
        "3:40 'mtu' is not a key of 'reverse'",
        "valid keys are rate, latency, jitter, packet_loss, reordering, duplication, corruption, queue, token_bucket, overhead",
    );
    link(
        "bandwidth: 5 Mbit",
        "3:29 'bandwidth' is not a key of a link",
        "valid keys are name, between, mtu, cost, reverse, rate, latency, jitter, packet_loss, reordering, duplication, corruption, queue, token_bucket, overhead",
    );
}

#[track_caller]
fn host(keys: &str, expected: &str, help: &str) {
    let text = format!(
        "{GENERAL}\nhosts:\n  a:\n    processes: []\n    {keys}\n  b: {{ processes: [] }}\nlinks: [ {{ between: [a, b] }} ]\n"
    );
    check(&text, expected, help);
}

#[test]
fn interfaces_and_routes() {
    host("interfaces: { eth1: 10.0.0.1/24 }", "5:19 no link ends at 'a:eth1'", "did you mean 'eth0'?");
    host(
        "interfaces: { eth0: 10.0.0.1 }",
        "5:25 '10.0.0.1' is not an IPv4 address with the length of its network",
        "write it such as 10.0.1.1/24",
    );
    host(
        "interfaces: { eth0: 10.0.0.0/24 }",
        "5:25 10.0.0.0 stands for the whole network 10.0.0.0/24, not for one interface",
        "take another address of it, such as 10.0.0.1",
    );
    host(
        "interfaces: { eth0: 127.0.0.1/8 }",
        "5:25 no interface can have the address 127.0.0.1: it is a loopback address",
        "",
    );
    host(
        "interfaces: { eth0: { mac: \"01:00:00:00:00:00\" } }",
        "5:32 '01:00:00:00:00:00' is the address of a group",
        "the first byte of an interface's address is even, such as 02",
    );
    host(
        "routes: [ { to: 10.9.0.0/16, via: 172.16.0.1 } ]",
        "5:39 172.16.0.1 is on no network of this node's interfaces",
        "a next hop must be reached without another one",
    );
    host(
        "routes: [ { to: 10.9.0.1/16, dev: eth0 } ]",
        "5:21 10.9.0.1/16 is an address within a network",
        "write 10.9.0.0/16",
    );
    host(
        "routes: [ { to: default } ]",
        "5:15 this route leads nowhere",
        "add via or dev: { to: 10.0.2.0/24, via: 10.0.1.254 }",
    );
    host(
        "routes: [ { to: default, dev: eth9 } ]",
        "5:35 no link ends at an interface 'eth9' of this node",
        "did you mean 'eth0'?",
    );
    host(
        "ip_addr: 10.0.0.1",
        "5:5 'ip_addr' is not valid for host 'a', which is not on the graph",
        "give addresses under 'interfaces' and rates to links",
    );
    host(
        "network_node_id: 0",
        "5:5 there is no section 'network', so no graph to be attached to",
        "leave 'network_node_id' out, or add network: { graph: { type: 1_gbit_switch } }",
    );
    let both = "interfaces: { eth0: 10.7.0.1/24 }";
    check(
        &format!(
            "{GENERAL}\nhosts:\n  a: {{ processes: [], {both} }}\n  b: {{ processes: [], {both} }}\nlinks: [ {{ between: [a, b] }} ]\n"
        ),
        "4:35 'a:eth0' and 'b:eth0' both have the address 10.7.0.1",
        "they are on one network: give one of them another address",
    );
}

#[track_caller]
fn event(text: &str, expected: &str, help: &str) {
    links(
        &format!("links: [ {{ name: wire, between: [a, b] }} ]\nevents:\n- {{ at: 1 s, {text} }}"),
        expected,
        help,
    );
}

#[test]
fn events_about_links() {
    event("link_down: wir", "5:25 there is no link 'wir'", "did you mean 'wire'?");
    event("link_down: \"x*\"", "5:25 there is no link 'x*'", "links have names such as 'wire'");
    event(
        "link_down: [a, b]",
        "5:26 host 'a' is not on the graph: it has links only",
        "name a link, such as link_change: { link: NAME }",
    );
    event(
        "bandwidth: a, up: 5 Mbit",
        "5:25 host 'a' is not on the graph: it has links only",
        "name a link, such as link_change: { link: NAME }",
    );
    event("link_down: { link: wire, from: c }", "5:45 there is no host 'c'", "the hosts are a, b");
    let graph = format!(
        "{GENERAL}\n{NETWORK}\n{HOSTS}\nevents:\n- {{ at: 1 s, link_change: [a, a], rate: 5 Mbit }}\n"
    );
    check(
        &graph,
        "5:35 'rate' is only valid for links",
        "the event 'bandwidth' changes that of hosts on the graph",
    );
    for (change, expected, help) in [
        ("duplication: 0.5", "duplication", "name a link, such as link_change: { link: NAME }"),
        (
            "packet_loss: { gilbert_elliott: { to_bad: 0.1, to_good: 0.1 } }",
            "packet_loss",
            "on the graph it is a number from 0 to 1",
        ),
    ] {
        let file = graph.replace("rate: 5 Mbit", change);
        check(&file, &format!("5:35 '{expected}' is only valid for links"), help);
    }
    event(
        "link_change: wire, token_bucket: { rate: 1 Mbit, burst: 1500 B }",
        "5:47 a burst of 1500 bytes holds no frame of 1514 bytes",
        "write burst: 1514 B, or more, or give the link a smaller mtu",
    );
}

#[test]
fn more_of_interfaces_and_routes() {
    host(
        "interfaces: { zzzz9: 10.0.0.1/24 }",
        "5:19 no link ends at 'a:zzzz9'",
        "add a link: { between: [a:zzzz9, ...] }",
    );
    host(
        "interfaces: { eth0: { mac: \"02:00\" } }",
        "5:32 '02:00' is not a hardware address",
        "write six bytes, such as 02:00:00:00:00:01",
    );
    host(
        "routes: [ { to: elsewhere, via: 10.0.0.9 } ]",
        "5:21 'elsewhere' is not a network",
        "write it such as 10.0.2.0/24, or default",
    );
    host(
        "routes: [ { to: default, via: 10.0.0.2, dev: eth0 } ]",
        "5:15 a route has 'via' or 'dev', not both",
        "",
    );
    link("queue: { codel: { packets: 3, interval: 0 s } }", "3:69 CoDel's interval must not be 0", "");
    for (section, position) in [("switches", "3:11"), ("routers", "3:10")] {
        links(
            &format!("{section}: 3\nlinks: [ {{ between: [a, b] }} ]"),
            &format!("{position} the section of {section} must be a mapping, but is a number"),
            "write keys and values, one per line: 'key: value'",
        );
    }
}

#[test]
fn networks_of_links() {
    let file =
        |text: &str, expected: &str, help: &str| check(&format!("{GENERAL}\n{text}\n"), expected, help);
    file(
        "hosts: { a: { processes: [], interfaces: { eth0: 10.1.0.1/24, eth1: 10.1.0.2/24 } }, b: { processes: [] } }\n\
         links: [ { between: [a, b] }, { between: [a, b] } ]",
        "2:42 'a:eth0' and 'a:eth1' are both in the network 10.1.0.0/24",
        "give each interface of a node a network of its own",
    );
    file(
        "switches: [s]\nhosts: { a: { processes: [], interfaces: { eth0: 10.1.0.1/30 } }, b: { processes: [] }, c: { processes: [] } }\n\
         links: [ { between: [a, s] }, { between: [b, s] }, { between: [c, s] } ]",
        "- the network 10.1.0.0/30 has no address left for 'c'",
        "make it larger, or give addresses to interfaces in the file",
    );
    file(
        "hosts: { a: { processes: [], interfaces: { eth0: 10.0.0.1/8 } }, b: { processes: [] }, c: { processes: [] } }\n\
         links: [ { between: [a, b] }, { between: [b, c] } ]",
        "- there are no networks left in 10.0.0.0/8 to assign",
        "",
    );
}

#[test]
fn links_beside_the_graph() {
    let file = |hosts: &str, rest: &str, expected: &str, help: &str| {
        check(&format!("{GENERAL}\n{NETWORK}\nhosts: {{ {hosts} }}\n{rest}\n"), expected, help);
    };
    file(
        "a: { network_node_id: 0, processes: [] }, b: { processes: [] }",
        "links: [ { between: [\"a:eth0\", b] } ]",
        "4:22 'eth0' is the attachment to the graph of host 'a'",
        "write a:eth1",
    );
    let eth0 = |address| format!("{{ processes: [], interfaces: {{ eth0: {address}/24 }} }}");
    file(
        &format!(
            "a: {{ network_node_id: 0, ip_addr: 10.0.0.2, processes: [] }}, b: {}, c: {}",
            eth0("10.0.0.2"),
            eth0("10.0.0.3")
        ),
        "links: [ { between: [c, b] } ]",
        "3:74 hosts 'a' and 'b' both have the address 10.0.0.2",
        "every host is known to the others by an address of its own",
    );
    file(
        "a: { network_node_id: 0, processes: [] }",
        "events: [ { at: 1 s, link_down: { link: l } } ]",
        "4:41 there is no link 'l'",
        "this experiment has no links; write [alice, bob] for a path",
    );
}

#[test]
fn events_in_one_direction() {
    for ends in ["[a, b]", "all"] {
        event(
            &format!("link_down: {{ link: wire, from: {ends} }}"),
            "5:45 'from' names one end of the link",
            "",
        );
    }
    check(
        &format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }}, c: {{ processes: [] }} }}\n\
             links: [ {{ between: [a, b], name: l }}, {{ between: [c, b] }} ]\n\
             events: [ {{ at: 1 s, link_down: {{ link: l, from: c }} }} ]\n"
        ),
        "4:50 that is no end of link 'l'",
        "",
    );
}

#[test]
fn kinds_of_queues() {
    let queue =
        |text: &str, expected: &str, help: &str| link(&format!("queue: {{ {text} }}"), expected, help);
    queue(
        "fq_codel: {}, ecn_threshold: 9",
        "3:52 'ecn_threshold' is only valid with packets or bytes",
        "fq_codel marks packets with ecn: true",
    );
    queue(
        "packets: 3, ecn_threshold: {}",
        "3:65 a threshold counts packets or bytes",
        "write { packets: 65 }",
    );
    queue("fq_codel: { flows: 0 }", "3:57 'flows' must not be 0", "");
    queue("red: { min: 1 KB }", "3:43 'red' has no 'max'", "add max: 90 KB");
    queue(
        "red: { min: 9 KB, max: 5 KB, limit: 90 KB }",
        "3:43 RED's thresholds are not in order",
        "min must not be more than max, nor max more than limit",
    );
    queue(
        "red: { min: 1 KB, max: 5 KB, limit: 90 KB, weight: 0 }",
        "3:89 the weight of RED must be more than 0",
        "",
    );
    queue(
        "priority: {}",
        "3:48 'priority' has no 'bands'",
        "add bands: [{ packets: 100 }, { packets: 100 }, { packets: 100 }]",
    );
    queue("priority: { bands: [ { packets: 1 } ] }", "3:57 there are 2 to 16 bands, not 1", "");
    let two = "bands: [ { packets: 1 }, { packets: 1 } ]";
    queue(
        &format!("priority: {{ bands: [ {{ priority: {{ {two} }} }}, {{ packets: 1 }} ] }}"),
        "3:59 a band has no bands of its own",
        "write one of packets, bytes, codel, fq_codel, red and priority, such as { packets: 100 }",
    );
    queue(
        &format!("priority: {{ {two}, dscp: {{ 64: 0 }} }}"),
        "3:101 '64' is not a differentiated services codepoint",
        "write a number from 0 to 63, such as 46",
    );
    queue(
        &format!("priority: {{ {two}, dscp: {{ 46: 2 }} }}"),
        "3:105 there is no band 2: they are 0 to 1",
        "",
    );
    queue(
        &format!("priority: {{ {two}, default: 1 }}"),
        "3:93 'default' is not valid without 'dscp'",
        "without dscp packets go to bands as with Linux's prio, by their TOS byte",
    );
    link(
        "token_bucket: { rate: 1 Mbit, burst: 1500 B }",
        "3:43 a burst of 1500 bytes holds no frame of 1514 bytes",
        "write burst: 1514 B, or more, or give the link a smaller mtu",
    );
    link(
        "packet_loss: { gilbert_elliott: { to_bad: 0.1 } }",
        "3:61 'gilbert_elliott' has no 'to_good'",
        "add to_good: 0.3",
    );
    link("reordering: { delay: 1 ms }", "3:41 'reordering' has no 'probability'", "add probability: 0.01");
}

/// Asserts the message for a file with a simulator between a and b that has these keys.
#[track_caller]
fn simulator(keys: &str, expected: &str, help: &str) {
    let links = "[ { between: [a, \"box:left\"] }, { between: [b, { simulator: box, port: right }] } ]";
    let hosts = "{ a: { processes: [] }, b: { processes: [] } }";
    let text = format!("{GENERAL}\nhosts: {hosts}\nsimulators: {{ box: {{ {keys} }} }}\nlinks: {links}\n");
    let error = Experiment::parse_in("test.yaml", &text, &around()).expect_err("this is not valid");
    assert!(error.message.contains(expected), "{}", error.message);
    assert!(error.help.as_deref().unwrap_or_default().contains(help), "{:?}", error.help);
    assert!(error.position.is_some());
}

#[test]
fn gateways() {
    let gateway = |settings: &str, expected: &str, help: &str| {
        let text = format!("gateways: {settings}\nlinks: [ {{ between: [a, b] }}, {{ between: [a, out] }} ]");
        links(&text, expected, help);
    };
    links(
        "gateways: { out: { interface: eth0 } }\nlinks: [ { between: [a, b] } ]",
        "3:13 gateway 'out' is at the end of no link",
        "add it to one: links: [ { between: [alice, out] } ]",
    );
    links(
        "gateways: { out: { interface: eth0 } }\nlinks: [ { between: [a, out] }, { between: [b, out] } ]",
        "3:13 gateway 'out' is at the end of 2 links, and is one interface",
        "link it to a switch, and the others to that",
    );
    gateway(
        "[out]",
        "3:12 nothing is said of gateway 'out'",
        "write which interface of this machine it is, interface: eth0",
    );
    const HELP: &str = "write the name of an interface (eth0), tap:NAME, or unix:PATH for a socket of frames";
    gateway("{ out: {} }", "3:18 gateway 'out' has no 'interface'", "add interface: eth0");
    gateway("{ out: { interface: 'unix:' } }", "3:31 'unix:' is followed by no path", HELP);
    gateway("{ out: { interface: 'tap:a/b' } }", "3:31 'a/b' cannot be an interface of this machine", HELP);
    gateway(
        "{ out: { interface: eth0, address: 10.0.0.1/24 } }",
        "3:46 'address' is for a TAP interface, which the run makes; this one exists already",
        "give it the address by 'ip address add', or write interface: tap:NAME",
    );
    gateway(
        "{ out: { interface: eth0, hard_limit: 0 } }",
        "3:49 'hard_limit' must not be 0: no frame leaves at its very picosecond",
        "",
    );
}

#[test]
fn other_simulators() {
    links(
        "simulators: { box: { command: /bin/true } }\nlinks: [ { between: [a, b] } ]",
        "3:15 no channel reaches simulator 'box': it is at the end of no link",
        "add it to one: links: [ { between: [alice, box:p1] } ]",
    );
    links(
        "simulators: [box]\nlinks: [ { between: [a, box] }, { between: [b, box] } ]",
        "3:14 nothing is said of simulator 'box'",
        "write what starts it, command: [python3, middlebox.py, \"{left}\", \"{right}\"]",
    );
    simulator(
        "command: /bin/true, sync_interval: 2 us, latency: 1 us",
        "the 'sync_interval' (2 us) is longer than the 'latency' (1 us): the two clocks would wait for each other",
        "leave 'sync_interval' out",
    );
    simulator(
        "command: /bin/true, ends: with pear",
        "'with pear' is not a value of 'ends'",
        "did you mean 'with peer'?",
    );
    simulator(
        "command: /bin/true, latency: 0",
        "the latency of a channel cannot be 0",
        "leave 'sync_interval' out",
    );
    simulator("command: /no/such/program", "there is no program '/no/such/program'", "looked for");
    simulator("command: []", "'command' is empty", "write command:");
    simulator(
        "command: [/bin/true, \"{lft}\"]",
        "'{lft}' in 'command' is no port at the end of a link",
        "did you mean '{left}'?",
    );
    simulator(
        "command: [/bin/true], ports: { lefd: {} }",
        "no link ends at port 'lefd' of simulator 'box'",
        "did you mean 'left'?",
    );
    simulator(
        "ports: { left: { socket: /tmp/left } }",
        "simulator 'box' has no 'command', and port 'right' no 'socket': they would never find each other",
        "or the path of a socket for each port",
    );
    simulator("command: /bin/true, ports: { left: { role: server } }", "'role'", "");
    simulator(
        &format!("command: /bin/true, ports: {{ left: {{ socket: /tmp/{} }} }}", "x".repeat(110)),
        "'socket' is a path of 115 bytes, where the address of a socket has 107",
        "give the file a name of up to 64 bytes: its folder's path may be of any length",
    );
    simulator("command: /bin/true, working_directory: /no/such", "'working_directory' is no directory", "");
}

/// Asserts the message for two simulators connected by a link with these keys; the second one has these
/// additional keys.
#[track_caller]
fn wired(link: &str, second: &str, expected: &str, help: &str) {
    let text = format!(
        "{GENERAL}\nhosts: {{ a: {{ processes: [] }} }}\nsimulators:\n  box: {{ command: /bin/true, ports: {{ out: {{ role: listen }} }} }}\n  \
         far: {{ command: /bin/true{second} }}\nlinks:\n- {{ between: [a, \"box:in\"] }}\n- {{ between: [\"box:out\", \"far:p\"]{link} }}\n"
    );
    let error = Experiment::parse_in("test.yaml", &text, &around()).expect_err("this is not valid");
    assert_eq!(error.message, expected);
    assert!(error.help.as_deref().unwrap_or_default().contains(help), "{:?}", error.help);
    assert!(error.position.is_some());
}

#[test]
fn channels_between_simulators() {
    let beyond = |key: &str| {
        format!(
            "'{key}' is not valid for link 'box:out-far:p', which joins two simulators: their channel has a latency and nothing else"
        )
    };
    wired(
        ", packet_loss: 0.1",
        "",
        &beyond("packet_loss"),
        "leave it out, or put a switch between them: its links have all properties",
    );
    // Defaults too: none of them has an effect.
    wired(", rate: 1 Gbit", "", &beyond("rate"), "leave it out");
    wired(", mtu: 1500", "", &beyond("mtu"), "leave it out");
    wired(", reverse: { latency: 2 ms, queue: { packets: 9 } }", "", &beyond("queue"), "leave it out");
    wired(
        "",
        ", ports: { p: { role: listen } }",
        "both ends of link 'box:out-far:p' listen",
        "give one of the two ports the other 'role'",
    );
    links(
        "simulators: { box: { command: /bin/true }, far: { command: /bin/true } }\nlinks: [ { between: [a, b] }, { between: [\"box:x\", \"far:x\"] } ]",
        "3:15 no channel of the experiment's own reaches simulator 'box': only others like it do",
        "link one of them to a host, a switch or a router",
    );
    links(
        "simulators: { box: { command: /bin/true } }\nlinks: [ { between: [a, b] }, { between: [a, box] }, { between: [\"box:x\", \"box:y\"] } ]",
        "4:75 link 'box:x-box:y' joins a simulator to itself",
        "a channel has two programs at its ends",
    );
    links(
        "simulators: { box: { command: /bin/true, ports: { x: { socket: /a } } }, far: { command: /bin/true, ports: { x: { socket: /b } } } }\nlinks: [ { between: [a, b] }, { between: [a, box] }, { between: [\"box:x\", \"far:x\"] } ]",
        "4:75 the two ends of link 'box:x-far:x' have different sockets",
        "give one of them no 'socket'",
    );
}
