use super::*;

#[track_caller]
fn general(line: &str, expected: &str, help: &str) {
    check(&format!("general:\n  stop_time: 1\n  {line}\n{NETWORK}\n{HOSTS}\n"), expected, help);
}

#[track_caller]
fn network(lines: &str, expected: &str, help: &str) {
    check_among(&format!("{GENERAL}\n{HOSTS}\nnetwork:\n  {lines}\n"), expected, help);
}

#[track_caller]
fn top(line: &str, expected: &str, help: &str) {
    check(&format!("{GENERAL}\n{NETWORK}\n{HOSTS}\n{line}\n"), expected, help);
}

#[test]
fn missing_sections() {
    check_among(
        "general: 5",
        "1:10 section 'general' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
    check_among("general:", "1:1 'general' has no value", "write general: { stop_time: 10s }");
    check_among("general: {}", "1:10 section 'general' has no 'stop_time'", "add stop_time: 10s");
    check_among("genral: {}", "1:1 'genral' is not a key of an experiment", "did you mean 'general'?");
    check_among(
        "general: { stop_time: 1 }",
        "1:1 an experiment has no 'network'",
        "add network: { graph: { type: 1_gbit_switch } }",
    );
    check_among(
        "general: { stop_time: 1 }\nnetwork: { graph: { type: 1_gbit_switch } }\n",
        "1:1 an experiment has no 'hosts'",
        "add hosts: { alice: { network_node_id: 0, processes: [] } }",
    );
    check_among("general: { stop_time: 0 }", "1:23 'stop_time' must not be 0", "write stop_time: 10s");
}

#[test]
fn section_general() {
    general("sead: 1", "3:3 'sead' is not a key of section 'general'", "did you mean 'seed'?");
    general(
        "bananas: 1",
        "3:3 'bananas' is not a key of section 'general'",
        "valid keys are stop_time, seed, parallelism, bootstrap_end_time, log_level, heartbeat_interval, data_directory, template_directory, progress, model_unblocked_syscall_latency",
    );
    general("seed: -1", "3:9 'seed' cannot be negative: -1", "");
    general("seed: 1.5", "3:9 'seed' must be a whole number, not '1.5'", "");
    general("seed: '5'", "3:9 'seed' must be a whole number, but is a string", "write 5 without quotes");
    general("seed: x", "3:9 'seed' must be a whole number, not 'x'", "");
    general(
        "seed: 99999999999999999999",
        "3:9 'seed' must be at most 18446744073709551615, not 99999999999999999999",
        "",
    );
    general("parallelism: 5000", "3:16 'parallelism' must be at most 4096, not 5000", "");
    general("parallelism: [1]", "3:16 'parallelism' must be a whole number, but is a list", "");
    general(
        "bootstrap_end_time: -1 s",
        "3:23 'bootstrap_end_time': a time cannot be negative: \"-1 s\"",
        "write a number and a unit, such as \"10 ms\"",
    );
    general(
        "bootstrap_end_time: 10 MS",
        "3:23 'bootstrap_end_time': \"MS\" is not a unit of time",
        "did you mean \"10 ms\"? Units are case-sensitive",
    );
    general(
        "bootstrap_end_time: [1]",
        "3:23 'bootstrap_end_time' must be a time such as \"10 ms\", but is a list",
        "",
    );
    general(
        "bootstrap_end_time: 999999999 h",
        "3:23 'bootstrap_end_time': the time \"999999999 h\" is too large",
        "write a number and a unit, such as \"10 ms\"",
    );
    general("log_level: warn", "3:14 'warn' is not a value of 'log_level'", "did you mean 'warning'?");
    general(
        "log_level: quux",
        "3:14 'quux' is not a value of 'log_level'",
        "use one of error, warning, info, debug, trace",
    );
    general(
        "progress: yes",
        "3:13 'progress' must be true or false, not 'yes'",
        "write true, without quotes",
    );
    general(
        "progress: 5",
        "3:13 'progress' must be true or false, not '5'",
        "write false or true, without quotes",
    );
    general("data_directory: ''", "3:19 'data_directory' is an empty path", "");
    general("data_directory: {}", "3:19 'data_directory' must be a string, but is a mapping", "");
    general(
        "template_directory: no/such",
        "3:23 'template_directory' is not a folder",
        "looked for /nowhere/experiment/no/such and /nowhere/no/such",
    );
    general(
        "stop_time: 2",
        "3:3 the key 'stop_time' stands here twice",
        "it is first set in line 2: keep one of them",
    );
    general(
        "heartbeat_interval: 1 parsec",
        "3:23 'heartbeat_interval': \"parsec\" is not a unit of time",
        "use ns, us, ms, s, min or h",
    );
    general("seed: 0x", "3:9 'seed' must be a whole number, not '0x'", "");
    general(
        "seed: 0xffffffffffffffffff",
        "3:9 'seed' must be a whole number, not '0xffffffffffffffffff'",
        "",
    );
}

#[test]
fn section_network() {
    network("graph: {}", "4:10 the graph has no 'type'", "add type: gml");
    network(
        "graph: { type: gml }",
        "4:10 the graph has neither 'inline' nor 'file'",
        "add file: { path: network.gml }, or inline: | and the graph's text",
    );
    network("graph: { type: gmll }", "4:18 'gmll' is not a value of 'type'", "did you mean 'gml'?");
    network(
        "graph: { type: 1_gbit_switch, inline: x }",
        "4:41 the graph '1_gbit_switch' is built in",
        "remove this, or write type: gml",
    );
    network(
        "graph: { type: gml, inline: 'graph [ node [ id 0 host_bandwidth_up \"1 Gbit\" host_bandwidth_down \"1 Gbit\" ] edge [ source 0 target 0 latency \"1 ms\" ] ]', file: { path: y } }",
        "4:162 the graph has both 'inline' and 'file'",
        "keep one of them",
    );
    network(
        "graph: { type: gml, file: y }",
        "4:29 the graph's file must be a mapping, but is a string",
        "write keys and values, one per line: 'key: value'",
    );
    network(
        "graph: { type: gml, file: { path: no.gml } }",
        "4:37 there is no graph file 'no.gml'",
        "looked for /nowhere/experiment/no.gml and /nowhere/no.gml",
    );
    network(
        "graph: { type: gml, file: { path: no.gml, compresion: xz } }",
        "4:45 'compresion' is not a key of the graph's file",
        "did you mean 'compression'?",
    );
    network(
        "graph: { type: gml, file: { } }",
        "4:29 the graph's file has no 'path'",
        "add path: network.gml",
    );
    network(
        "graph: { type: gml, inline: 'graph [ nod [ ] ]' }",
        "4:31 in line 1, column 1 of this graph: this graph has no nodes",
        "add node [ id 0 ]",
    );
    network(
        "graph:\n    type: gml\n    inline: |\n\n      graph [\n        node [ id 0 ]\n        edge [ source 0 target 9 latency \"1 ms\" ]\n      ]",
        "10:32 the target of this edge is node 9, which does not exist",
        "the nearest id is 0",
    );
    network("graph:\n    type: gml\n    inline: [a]", "6:13 'inline' must be a string, but is a list", "");
    network(
        "use_shortest_path: 1",
        "4:22 'use_shortest_path' must be true or false, not '1'",
        "write true, without quotes",
    );
    network(
        "graph: { type: gml, file: { path: / } }",
        "4:37 the graph file '/' cannot be read: is a directory",
        "",
    );
}

#[test]
fn other_sections() {
    top(
        "belljar: { start_date: soon }",
        "4:24 'soon' is not a date",
        "write start_date: 2026-01-31 or start_date: \"2026-01-31T12:00:00Z\"",
    );
    top(
        "belljar: { start_date: 1969-01-01 }",
        "4:24 'start_date' must lie between 1970-01-01 and 2036-07-18, not 1969-01-01",
        "",
    );
    top("belljar: { start_date: '2020-01-01T00:00:00.5Z' }", "4:24 'start_date' must be a whole second", "");
    top(
        "belljar: { start: 1 }",
        "4:12 'start' is not a key of section 'belljar'",
        "did you mean 'start_date'?",
    );
    top(
        "belljar: 5",
        "4:10 section 'belljar' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
    top(
        "experimental: { runahed: 1 }",
        "4:17 'runahed' is not a key of section 'experimental'",
        "did you mean 'runahead'?",
    );
    top(
        "experimental: { use_new_tcp: 1 }",
        "4:30 'use_new_tcp' must be true or false, not '1'",
        "write true, without quotes",
    );
    top(
        "experimental: { scheduler: fifo }",
        "4:28 'fifo' is not a value of 'scheduler'",
        "use one of thread-per-core, thread-per-host",
    );
    top(
        "experimental: { edge_bandwidth_burst_ratio: x }",
        "4:45 'edge_bandwidth_burst_ratio' must be a number",
        "",
    );
    top(
        "experimental: { strace_logging_mode: on }",
        "4:38 'on' is not a value of 'strace_logging_mode'",
        "use one of off, standard, deterministic",
    );
    top(
        "experimental: { socket_recv_buffer: 5 zb }",
        "4:37 'socket_recv_buffer': \"zb\" is not a unit of size",
        "use B, KB, KiB, MB, MiB, GB or GiB",
    );
    top(
        "host_option_defaults: { log_levle: info }",
        "4:25 'log_levle' is not a key of 'host_option_defaults'",
        "did you mean 'log_level'?",
    );
    top(
        "y-foo: 1",
        "4:1 'y-foo' is not a key of an experiment",
        "valid keys are general, network, host_option_defaults, hosts, switches, routers, simulators, radios, gateways, nics, memories, links, experimental, belljar, events, properties, explore",
    );
}

#[test]
fn time_series_and_buffers() {
    top(
        "belljar: { metrics: { interval: 999 ns } }",
        "4:33 'interval' must be at least 1 us",
        "write interval: 100 ms",
    );
    top(
        "experimental: { socket_recv_buffer: 1 KB }",
        "4:37 'socket_recv_buffer' must be from 4608 B to 1 GiB, not 1000 B",
        "",
    );
    top(
        "experimental: { socket_send_buffer: [] }",
        "4:37 'socket_send_buffer' must be a size such as \"16 MiB\", but is a list",
        "",
    );
}

#[test]
fn address_pools() {
    let text = |pool: &str| format!("{GENERAL}\n{NETWORK}\nbelljar: {{ address_pool: {pool} }}\n{HOSTS}");
    let help = "write such as address_pool: 10.0.0.0/8";
    check(&text("10.0.0.1/8"), "3:26 '10.0.0.1/8' is not a network of IPv4 addresses", help);
    check(&text("127.0.0.0/8"), "3:26 hosts cannot have the addresses of 127.0.0.0/8", help);
    let many =
        "hosts: { a: { processes: [] }, b: { processes: [] }, c: { network_node_id: 0, processes: [] } }"
            .replace("{ processes", "{ network_node_id: 0, processes");
    check(
        &format!("{GENERAL}\n{NETWORK}\nbelljar: {{ address_pool: 10.0.0.4/30 }}\n{many}"),
        "4:94 no address of the pool 10.0.0.4/30 is left for host 'c'",
        "write a larger network, such as address_pool: 10.0.0.0/8",
    );
}

#[test]
fn all_errors_at_once() {
    let text = "general: { stop_time: 9, sed: 1 }\nnetwork: { graph: { type: 1_gbit_switch } }\nexperimental: { interpose_method: preload, use_legacy_working_dir: true }\nhosts:\n  a: { network_node_id: 0, quantity: 3, processes: [{ path: /bin/sh, quantity: 2, start_time: y }] }\n  b: { network_node_id: 0, processes: [{ path: /bin/sh, start_time: x }, { path: /bin/sh, environment: \"A=1;B=2\" }] }\n";
    let error = Experiment::parse_in("test.yaml", text, &around()).unwrap_err();
    let all: Vec<_> = std::iter::once(&error)
        .chain(&error.more)
        .map(|error| (error.position.unwrap().0, &*error.message, error.help.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        all,
        [
            (1, "'sed' is not a key of section 'general'", "did you mean 'seed'?"),
            (
                3,
                "'interpose_method' is not a key of section 'experimental'",
                "leave it out: programs run unmodified, and how their system calls are intercepted is no setting"
            ),
            (
                3,
                "'use_legacy_working_dir' is not a key of section 'experimental'",
                "leave it out: programs run in the folder hosts/HOST of the results"
            ),
            (
                5,
                "'quantity' is not a key of host 'a'",
                "write each host with a name of its own, or make them in a loop with the Python package"
            ),
            (
                5,
                "'quantity' is not a key of a process of host 'a'",
                "write the process as often as it is to run"
            ),
            (5, "'start_time': \"y\" is not a time", "write a number and a unit, such as \"10 ms\""),
            (6, "'start_time': \"x\" is not a time", "write a number and a unit, such as \"10 ms\""),
            (
                6,
                "'environment' must be a mapping, but is a string",
                "write environment: { A: \"1\", B: \"2\" }"
            ),
        ]
    );
}

#[test]
fn errors_of_all_sections_without_their_consequences() {
    let text = "\
general: { stop_time: 9 parsec }
network: { graph: { type: gml, inline: 'graph [' } }
hosts:
  a: { network_node_id: 7, ip_addr: 1.2, cpu_count: none, processes: [{ path: /bin/sh, start_time: x }] }
  b: { network_node_id: 7, bandwith_up: 1 Mbit, clock: { offset: far } }
  c: { ip_addr: 300.0.0.1 }
  d: {}
  E: { processes: [{ path: /bin/sh, args: \"'\" }] }
switches: [s]
routers: { r: { routing: quick } }
links:
- { between: [d, s], name: one, rate: fast, queue: { packets: 9 } }
- { between: [E, s], latency: soon }
- { between: [d, r], jitter: 9 s }
- { between: [f, r], mtu: 9 }
events:
- { at: 1 s, crash: g, for: ever }
- { at: 2 s, link_up: one }
- { at: 90 s, pause: E }
- { at: never, link_down: one }
- { at: 3 s, set_bandwith: a }
properties:
- { name: x, always: '(' }
";
    let found = errors(text);
    let found: Vec<&str> = found.iter().map(|(message, _)| &**message).collect();
    assert_eq!(
        found,
        [
            "1:23 'stop_time': \"parsec\" is not a unit of time",
            "2:40 in line 1, column 8 of this graph: expected 'node', 'edge' or ']', found the end of the text",
            "4:37 '1.2' is not an IPv4 address",
            "4:53 'cpu_count' must be a whole number, not 'none'",
            "4:100 'start_time': \"x\" is not a time",
            "5:28 'bandwith_up' is not a key of host 'b'",
            "5:66 'offset': \"far\" is not a time",
            "6:17 '300.0.0.1' is not an IPv4 address",
            "8:3 'E' cannot be part of a host's name",
            "10:26 'quick' is not a value of 'routing'",
            "12:39 'rate': \"fast\" is not a bandwidth",
            "14:30 the jitter of a link must be less than its latency",
            "15:15 there is no host, switch, router, simulator, radio or gateway 'f'",
            "17:21 there is no host 'g'",
            "17:29 'for': \"ever\" is not a time",
            "20:9 'at': \"never\" is not a time",
            "21:14 'set_bandwith' is not a key of an event",
            "23:22 the regular expression '(' cannot be compiled: found open group without closing ')'",
        ]
    );
}

#[test]
fn keys_of_other_versions_of_shadow() {
    let helps = [
        ("host_defaults", "it is called host_option_defaults"),
        ("topology", "it is called network"),
        ("options", "it is called host_options"),
        ("apply_cpu_delay", "write for a host, such as cpu: { syscall: 1 us }"),
        ("start_time_unix", "write belljar: { start_date: 2026-01-01 }"),
        ("ip_address_hint", "write network_node_id or ip_addr"),
        ("pcap_directory", "write pcap_enabled: true: captures are in the host's folder of the results"),
        ("log_file", "leave it out: each program's output is in the host's folder of the results"),
    ];
    for (key, help) in helps {
        let text = format!("{GENERAL}\n{NETWORK}\n{HOSTS}\n{key}: 1");
        check(&text, &format!("4:1 '{key}' is not a key of an experiment"), help);
    }
}

#[test]
fn keys_of_older_graphs_and_processes() {
    let graph = "graph [ node [ id 0 bandwidth_up \"1 Mbit\" bandwidth_down \"1 Mbit\" ] ]";
    let text = format!(
        "{GENERAL}\nnetwork: {{ graph: {{ type: gml, inline: '{graph}' }} }}\nhosts: {{ a: {{ network_node_id: 0, processes: [ {{ path: /bin/true, stop_time: 1 s }} ] }} }}"
    );
    let error = Experiment::parse_in("test.yaml", &text, &around()).unwrap_err();
    let all: Vec<&str> =
        std::iter::once(&error).chain(&error.more).map(|error| error.help.as_deref().unwrap()).collect();
    assert_eq!(
        all,
        [
            "did you mean 'host_bandwidth_up'?",
            "did you mean 'host_bandwidth_down'?",
            "it is called shutdown_time"
        ]
    );
}

#[test]
fn many_errors_are_counted() {
    let keys: Vec<String> = (0..25).map(|number| format!("k{number}: 1")).collect();
    let text = format!("general: {{ stop_time: 9, {} }}\n{NETWORK}\n{HOSTS}", keys.join(", "));
    let error = Experiment::parse_in("test.yaml", &text, &around()).unwrap_err();
    assert_eq!(error.more.len(), 20);
    assert_eq!(error.more[19].message, "there are 5 further errors");
}
