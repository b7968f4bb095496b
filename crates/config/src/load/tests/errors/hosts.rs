use super::*;

#[track_caller]
fn host(lines: &str, expected: &str, help: &str) {
    check(&format!("{GENERAL}\n{NETWORK}\nhosts:\n  a:\n    processes: []\n    {lines}\n"), expected, help);
}

#[track_caller]
fn hosts(value: &str, expected: &str, help: &str) {
    check(&format!("{GENERAL}\n{NETWORK}\nhosts: {value}\n"), expected, help);
}

#[test]
fn values_of_a_host() {
    host("network_node_id: 1", "6:22 there is no node 1 in the graph", "the graph's nodes are 0");
    host("network_node_id: -1", "6:22 'network_node_id' cannot be negative: -1", "");
    host("network_node_id: zero", "6:22 'network_node_id' must be a whole number, not 'zero'", "");
    host("network_node_id:", "6:5 'network_node_id' has no value", "write network_node_id: 0");
    host(
        "network_node_idd: 0",
        "6:5 'network_node_idd' is not a key of host 'a'",
        "did you mean 'network_node_id'?",
    );
    host(
        "network_node_id: 0\n    ip_addr: 1.2.3",
        "7:14 '1.2.3' is not an IPv4 address",
        "write four numbers from 0 to 255 without leading zeros, such as 10.0.0.1",
    );
    host(
        "network_node_id: 0\n    ip_addr: 127.0.0.1",
        "7:14 host 'a' cannot have the address 127.0.0.1: it is a loopback address",
        "use an address such as 10.0.0.1, or leave 'ip_addr' out to have one assigned",
    );
    host(
        "network_node_id: 0\n    ip_addr: 010.0.0.1",
        "7:14 '010.0.0.1' is not an IPv4 address",
        "write four numbers from 0 to 255 without leading zeros, such as 10.0.0.1",
    );
    host(
        "network_node_id: 0\n    bandwidth_up: 10 mbit",
        "7:19 'bandwidth_up': \"mbit\" is not a unit of bandwidth",
        "did you mean \"10 Mbit\"? Units are case-sensitive",
    );
    host("network_node_id: 0\n    bandwidth_up: 0", "7:19 'bandwidth_up' must not be 0", "");
    host(
        "network_node_id: 0\n    host_options: { pcap: true }",
        "7:21 'pcap' is not a key of 'host_options'",
        "valid keys are log_level, pcap_enabled, pcap_capture_size, pcap_filter, shared, sysctls, queue, scheduling",
    );
    host(
        "network_node_id: 0\n    host_options: { scheduling: {} }",
        "7:33 'scheduling' is empty",
        "write fifo, random or priorities",
    );
    host(
        "network_node_id: 0\n    host_options: { scheduling: { priorities: { calls: 0 } } }",
        "7:56 'calls' is 0: there is no such point",
        "write at least 1, or points: 0 for priorities alone",
    );
    host(
        "network_node_id: 0\n    host_options: { scheduling: { priorities: { instructions: 2000000 } } }",
        "7:63 'instructions' must be at most 1000000, not 2000000",
        "",
    );
    host(
        "network_node_id: 0\n    host_options: { pcap_capture_size: 1 kb }",
        "7:40 'pcap_capture_size': \"kb\" is not a unit of size",
        "did you mean \"1 KB\"? Units are case-sensitive",
    );
    host(
        "network_node_id: 0\n    host_options: 5",
        "7:19 'host_options' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
}

#[test]
fn the_number_of_processors_of_a_host() {
    let count = |count: &str, expected: &str, help: &str| {
        host(&format!("network_node_id: 0\n    cpu_count: {count}"), &format!("7:{expected}"), help);
    };
    count("0", "16 'cpu_count' must not be 0", "leave it out for one processor");
    let memory = |keys: &str, expected: &str, help: &str| {
        host(&format!("network_node_id: 0\n    memory: {keys}"), &format!("7:{expected}"), help);
    };
    memory(
        "1 KiB",
        "13 'memory' must be at least 1 MiB: no program runs in less",
        "write a size such as memory: 512 MiB",
    );
    count("1025", "16 'cpu_count' must be at most 1024, not 1025", "");
}

#[test]
fn the_commands_of_a_setup() {
    let setup = |keys: &str, expected: &str, help: &str| {
        host(&format!("network_node_id: 0\n    setup: {keys}"), &format!("7:{expected}"), help);
    };
    setup("[ip link, '']", "22 a command of 'setup' is empty", "write a command, or leave it out");
    setup("[[ip, link]]", "13 an item of 'setup' must be a string, but is a list", "");
    setup("{ ip: link }", "12 'setup' must be a list, but is a mapping", "begin each item with '- '");
}

#[test]
fn the_time_of_clock_readings() {
    let clock = |keys: &str, expected: &str, help: &str| {
        host(&format!("network_node_id: 0\n    clock: {keys}"), &format!("7:{expected}"), help);
    };
    for reading in ["0.1 ns", "2 s"] {
        clock(
            &format!("{{ reading: {reading} }}"),
            "23 'reading' must be 0, or lie between 1 ns and 1 s",
            "write reading: 1 us, or leave it out for readings that take no time",
        );
    }
    clock("{ readings: 1 us }", "14 'readings' is not a key of 'clock'", "did you mean 'reading'?");
}

#[test]
fn hardware_clocks_are_those_of_links() {
    let help = "interfaces on links have one, except for stations of a radio and controllers";
    for key in ["hardware_offset: 1 s", "hardware_drift_ppm: 5"] {
        let name = key.split(':').next().unwrap_or_default();
        host(
            &format!("network_node_id: 0\n    clock: {{ {key} }}"),
            &format!("7:14 '{name}' is not valid for host 'a', which has no PTP hardware clock"),
            help,
        );
    }
}

#[test]
fn the_cpu_of_a_host() {
    let cpu = |keys: &str, expected: &str, help: &str| {
        host(&format!("network_node_id: 0\n    cpu: {keys}"), &format!("7:{expected}"), help);
    };
    cpu(
        "{ backlog: 5 }",
        "10 'cpu' names no work that takes time",
        "add what a call or a packet costs, such as syscall: 500 ns, or leave 'cpu' out",
    );
    cpu("{ packet: 1 us, backlog: 0 }", "35 'backlog' must not be 0", "1000 is Linux's");
    cpu("{ packet: 1 us, backlog: 1000001 }", "35 'backlog' must be at most 1000000, not 1000001", "");
    cpu("{ packet: 1 foo }", "20 'packet': \"foo\" is not a unit of time", "use ns, us, ms, s, min or h");
    cpu(
        "{ wakeup: 1 us }",
        "12 'wakeup' is not a key of 'cpu'",
        "valid keys are syscall, packet, byte, interrupt, backlog",
    );
    cpu(
        "5",
        "10 'cpu' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
}

#[test]
fn names_of_hosts() {
    hosts("", "3:1 'hosts' has no value", "write hosts: { alice: { network_node_id: 0, processes: [] } }");
    hosts("{}", "3:8 there are no hosts", "add at least one host");
    hosts("{}\nsimulators: {}", "3:8 there are no hosts", "add at least one host");
    hosts(
        "5",
        "3:8 section 'hosts' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
    hosts(
        "{ a: 5 }",
        "3:13 host 'a' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
    hosts(
        "{ Abc: {} }",
        "3:10 'A' cannot be part of a host's name",
        "use a-z, 0-9, '-' and '.', such as 'abc'",
    );
    hosts(
        "{ 'a b': {} }",
        "3:10 ' ' cannot be part of a host's name",
        "use a-z, 0-9, '-' and '.', such as 'a-b'",
    );
    hosts("{ '': {} }", "3:10 a host's name must not be empty", "");
    hosts("{ -a: {} }", "3:10 the part '-a' of a host's name begins or ends with '-'", "");
    hosts("{ a-: {} }", "3:10 the part 'a-' of a host's name begins or ends with '-'", "");
    hosts("{ a..b: {} }", "3:10 the host name 'a..b' has an empty part between dots", "");
    hosts(
        "{ localhost: {} }",
        "3:10 'localhost' is every host's name for itself",
        "give the host another name",
    );
    hosts(
        "{ a: { network_node_id: 0, processes: 5 } }",
        "3:46 'processes' must be a list, but is a number",
        "begin each item with '- '",
    );
    hosts(
        "{ a: { network_node_id: 0, processes: [ 5 ] } }",
        "3:48 a process of host 'a' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
    hosts(
        "{ a: { network_node_id: 0, processes: [], ip_addr: 1.2.3.4 }, b: { network_node_id: 0, processes: [], ip_addr: 1.2.3.4 } }",
        "3:119 hosts 'a' and 'b' both have the address 1.2.3.4",
        "use an address such as 10.0.0.1, or leave 'ip_addr' out to have one assigned",
    );
    hosts(
        "{ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: {} }",
        "3:10 the part 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' of this name has more than 63 characters",
        "",
    );
    hosts(
        "{ a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.: {} }",
        "3:10 a host's name has at most 253 characters, not 254",
        "",
    );
}

/// Hosts at the nodes of a graph without bandwidths and self-loops.
#[track_caller]
fn at_nodes(hosts: &str, expected: &str, help: &str) {
    let graph = "graph [ node [ id 5 ] node [ id 6 host_bandwidth_up \\\"1 Mbit\\\" ] ]";
    check(
        &format!("{GENERAL}\nnetwork: {{ graph: {{ type: gml, inline: \"{graph}\" }} }}\nhosts:\n{hosts}"),
        expected,
        help,
    );
}

#[test]
fn hosts_that_do_not_suit_the_graph() {
    at_nodes(
        "  a: { network_node_id: 0 }",
        "4:25 there is no node 0 in the graph",
        "the graph's nodes are 5, 6",
    );
    at_nodes(
        "  a: { network_node_id: 5 }",
        "4:3 host 'a' has no 'bandwidth_up', and node 5 of the graph has none either",
        "add bandwidth_up: 1 Gbit (or bandwidth_up: unlimited) here, or host_bandwidth_up to the node",
    );
    at_nodes(
        "  a: { network_node_id: 6 }",
        "4:3 host 'a' has no 'bandwidth_down', and node 6 of the graph has none either",
        "add bandwidth_down: 1 Gbit (or bandwidth_down: unlimited) here, or host_bandwidth_down to the node",
    );
    let host =
        |name: &str| format!("  {name}: {{ network_node_id: 6, bandwidth_down: 1 Gbit, processes: [] }}\n");
    at_nodes(
        &(host("a") + &host("b")),
        "5:3 hosts 'a' and 'b' share node 6, which has no edge to itself",
        "add edge [ source 6 target 6 latency \"1 ms\" ] to the graph",
    );
}

#[test]
fn directories_that_are_shared() {
    let shared = |item: &str, expected: &str, help: &str| {
        host(&format!("host_options: {{ shared: [{item}] }}\n    network_node_id: 0"), expected, help);
    };
    shared("srv", "6:30 'srv' must be an absolute path", "such as /srv/data");
    shared("/srv/../etc", "6:30 '/srv/../etc' must be an absolute path", "such as /srv/data");
    shared("/", "6:30 '/' is not a directory that can be shared", "");
    shared("/no/such", "6:30 '/no/such' does not exist", "make it first, or leave it out");
    shared("[a]", "6:30 a path of 'shared' must be a string, but is a list", "");
}

#[test]
fn bandwidths_are_no_lists() {
    host(
        "network_node_id: 0\n    bandwidth_up: []",
        "7:19 'bandwidth_up' must be a bandwidth such as \"100 Mbit\", but is a list",
        "",
    );
}

#[test]
fn settings_of_the_kernel() {
    let text = |options: &str| {
        format!(
            "{GENERAL}\n{NETWORK}\nhosts:\n  a:\n    network_node_id: 0\n    processes: []\n    host_options: {{ {options} }}\n"
        )
    };
    let bad = |options: &str, expected: &str, help: &str| check(&text(options), expected, help);
    bad(
        "sysctls: { net.ipv4.tcp_congestion_contrl: dctcp }",
        "7:32 hosts have no setting 'net.ipv4.tcp_congestion_contrl'",
        "did you mean 'net.ipv4.tcp_congestion_control'?",
    );
    bad(
        "sysctls: { a: 1 }",
        "7:32 hosts have no setting 'a'",
        "write a name as sysctl(8) does, such as net.ipv4.tcp_congestion_control",
    );
    bad(
        "sysctls: { net.ipv4.tcp_ecn: 7 }",
        "7:50 'net.ipv4.tcp_ecn' does not take '7'",
        "it takes a number from 0 to 2",
    );
    bad(
        "sysctls: { net.ipv4.tcp_rmem: 4096 }",
        "7:51 'net.ipv4.tcp_rmem' does not take '4096'",
        "it takes three numbers of bytes: the least, the initial and the greatest, such as \"4096 131072 6291456\"",
    );
    bad(
        "sysctls: { net.ipv4.tcp_congestion_control: vegas }",
        "7:65 'net.ipv4.tcp_congestion_control' does not take 'vegas'",
        "it takes one of bbr, cubic, dctcp, reno",
    );
    let good = "sysctls: { net.ipv4.tcp_ecn: 1, net.ipv4.tcp_rmem: 4096 9000 90000 }, queue: { packets: 9 }";
    super::super::round_trip::round_trip(&text(good));
}
