use super::*;

const WORLD: &str = "\
general: { stop_time: 60 s }
network: { graph: { type: 1_gbit_switch } }
hosts: { a: { network_node_id: 0, processes: [ { path: sh }, { path: cat } ] }, idle: { network_node_id: 0, processes: [] } }
properties:
";

/// The properties stand from line 5 on.
#[track_caller]
fn property(text: &str, expected: &str, help: &str) {
    check(&format!("{WORLD}{text}\n"), expected, help);
}

#[test]
fn a_property_has_a_name_and_one_claim() {
    property("  5", "5:3 'properties' must be a list, but is a number", "begin each item with '- '");
    property("- { name: x, nevr: y }", "5:14 'nevr' is not a key of a property", "did you mean 'never'?");
    property("- { never: x }", "5:3 a property has no 'name'", "add name: no-panic");
    property(
        "- { name: 'a b', never: x }",
        "5:11 'a b' is no name of a property",
        "write up to 100 letters, digits, '-', '_' and '.', as in no-lost-write",
    );
    property("- { name: x, never: y }\n- { never: z, name: x }", "6:21 there is a property 'x' already", "");
    property(
        "- { name: x }",
        "5:3 property 'x' claims nothing",
        "write one of always: REGEX, never: REGEX, sometimes: REGEX, eventually: { matches: REGEX, within: 30 s }, \
         history: FILE, assertions: FILE",
    );
    property(
        "- { name: x, never: y, always: z }",
        "5:14 property 'x' has both 'always' and 'never'",
        "make two properties of them",
    );
    property("- { name: x, never: }", "5:14 'never' has no value", "write never: panicked");
    property(
        "- { name: x, never: y, model: register }",
        "5:24 'model' is not valid with 'never'",
        "leave it out: it is for 'history'",
    );
    property(
        "- { name: x, history: h, model: register, where: a < 1 }",
        "5:43 'where' is not valid with 'history'",
        "a history has 'model', 'consistency' and 'hosts'",
    );
}

#[test]
fn regular_expressions_and_comparisons() {
    property(
        "- { name: x, never: '(' }",
        "5:21 the regular expression '(' cannot be compiled: found open group without closing ')'",
        "see https://docs.rs/regex-lite for the syntax; in YAML, quote it: '[0-9]+ ms'",
    );
    property(
        "- { name: x, never: '' }",
        "5:21 'never' is an empty regular expression, which matches every line",
        "",
    );
    property(
        "- { name: x, never: y, where: z }",
        "5:31 'z' compares nothing",
        "write a comparison such as ms < 100, got == want or state != \"down\"",
    );
    property(
        "- { name: x, never: y, where: ms < 100 }",
        "5:31 'ms' is no group of the regular expression",
        "name a group: (?<ms>[0-9]+)",
    );
    property(
        "- { name: x, never: '(?<s>.)', where: [s < 5, ms < 100] }",
        "5:47 'ms' is no group of the regular expression",
        "the groups are s; a text is written in quotes",
    );
    property(
        "- { name: x, never: '(?<s>y)', where: 1 < 5 }",
        "5:39 '1 < 5' compares no group of the regular expression",
        "",
    );
}

#[test]
fn what_no_line_can_satisfy() {
    let ends =
        "'^' and '$' are the ends of a line: put them there, or write '\\^' and '\\$' for the characters";
    property("- { name: x, never: 'a^b' }", "5:21 the regular expression 'a^b' matches in no line", ends);
    property(
        "- { name: x, never: y, lines: '$a' }",
        "5:31 the regular expression '$a' matches in no line",
        ends,
    );
    property(
        r"- { name: x, always: 'a\nb' }",
        r"5:22 the regular expression 'a\nb' matches in no line",
        "it is searched in one line at a time, without its line feed: write a property for each line",
    );
    property(
        r"- { name: x, sometimes: 'a\bb' }",
        r"5:25 the regular expression 'a\bb' matches in no line",
        "parts of it exclude each other: leave one out",
    );
    property(
        "- { name: x, eventually: { matches: 'a^', within: 1 s } }",
        "5:37 the regular expression 'a^' matches in no line",
        ends,
    );
    let two = "all comparisons of a property hold for one line: make two properties of them";
    property(
        "- { name: x, never: 'y (?<n>[0-9]+)', where: ['n < 3', 'n > 5'] }",
        "5:56 'n < 3' and 'n > 5' are never true together",
        two,
    );
    property(
        "- { name: x, never: '(?<a>.) (?<b>.) (?<c>.)', where: [a < b, b < c, c < a] }",
        "5:70 'c < a' is never true together with the other comparisons",
        two,
    );
    let number = "let it capture one, as in (?<n>[0-9]+), or compare with a text in quotes";
    property(
        "- { name: x, never: 'tick (?<n>[a-z]+)', where: 'n < 3' }",
        "5:49 'n < 3' is never true: the group 'n' captures no number",
        number,
    );
    property(
        "- { name: x, never: y, lines: 'tick (?<n>[a-z]+)', where: 'n == 3' }",
        "5:59 'n == 3' is never true: the group 'n' captures no number",
        number,
    );
    property(
        "- { name: x, never: '(?<n>.+)', where: n < '3' }",
        "5:40 'n < '3'' orders texts, and only numbers have an order",
        "write the number without quotes, or compare by == or !=",
    );
}

#[test]
fn files() {
    property(
        "- { name: x, never: y, files: [] }",
        "5:31 'files' names no file",
        "write files: stdout, or files: [stderr, 'log/*.txt']",
    );
    let path = "write a path in the host's folder such as log/*.txt, or one that programs see such as /var/log/app.log";
    property("- { name: x, never: y, files: ../log }", "5:31 '../log' is no path of files of a host", path);
    property("- { name: x, never: y, files: [a, log/] }", "5:35 'log/' is no path of files of a host", path);
    property(
        "- { name: x, never: y, files: /proc/self/maps }",
        "5:31 '/proc/self/maps' is no file that programs leave in the results",
        "name a file that they write, such as /var/log/app.log",
    );
}

#[test]
fn packets() {
    let apart = "make two properties of them";
    property(
        "- { name: x, never: y, packets: eth0, files: stdout }",
        "5:39 'files' is not valid with 'packets'",
        apart,
    );
    property(
        "- { name: x, never: y, packets: eth0, process: 0 }",
        "5:39 'process' is not valid with 'packets'",
        apart,
    );
    property(
        "- { name: x, history: h, model: register, packets: eth0 }",
        "5:43 'packets' is not valid with 'history'",
        "a history has 'model', 'consistency' and 'hosts'",
    );
    property(
        "- { name: x, never: y, filter: tcp }",
        "5:24 'filter' selects packets, and there is no 'packets'",
        "name interfaces, as in packets: eth0, or select lines by 'lines'",
    );
    property(
        "- { name: x, never: { filter: tcp } }",
        "5:31 a filter is for packets, and there is no 'packets'",
        "name interfaces, as in packets: eth0, or write a regular expression",
    );
    property(
        "- { name: x, never: { fliter: tcp }, packets: lo }",
        "5:23 'fliter' is not a key of 'never'",
        "did you mean 'filter'?",
    );
    property(
        "- { name: x, never: { filter: }, packets: lo }",
        "5:23 'filter' has no value",
        "write filter: tcp port 80",
    );
    let as_tcpdump = "write it as for tcpdump: tcp port 80 and not host alice";
    property(
        "- { name: x, never: y, packets: lo, filter: ' ' }",
        "5:45 this filter is empty, and every packet passes it",
        "leave 'filter' out, or write it as for tcpdump: tcp port 80 and not host alice",
    );
    property(
        "- { name: x, never: y, packets: lo, filter: prt 80 }",
        "5:45 this filter cannot be read: 'prt' is not known: use ip, ip6, arp, tcp, udp, icmp, icmp6, host, net, port, \
         portrange, src, dst, and, or, not",
        as_tcpdump,
    );
    property(
        "- { name: x, eventually: { filter: host nobody, within: 1 s }, packets: lo }",
        "5:36 this filter cannot be read: 'nobody' is neither a host nor an IP address",
        as_tcpdump,
    );
    property(
        "- { name: x, eventually: { matches: x, filter: tcp, within: 1 s }, packets: lo }",
        "5:40 'eventually' has both 'matches' and 'filter'",
        "select the packets by 'filter' of the property, and write 'matches' here",
    );
    property(
        "- { name: x, never: y, packets: [] }",
        "5:24 'packets' names no interface",
        "write packets: eth0, or packets: [lo, 'eth*']",
    );
    property(
        "- { name: x, never: y, packets: '' }",
        "5:33 'packets' names no interface",
        "write packets: eth0, or packets: '*'",
    );
    property(
        "- { name: x, never: y, packets: [lo, eth1], hosts: a }",
        "5:38 host 'a' has no interface 'eth1'",
        "did you mean 'eth0'?",
    );
    property(
        "- { name: x, never: y, packets: wireguard }",
        "5:33 no host has an interface 'wireguard'",
        "there are eth0, lo; one that programs make is selected by '*', as in wg*",
    );
    property(
        "- { name: x, never: { filter: tcp }, packets: lo, where: n < 3 }",
        "5:58 'n' is no group of the regular expression",
        "name a group: (?<n>[0-9]+)",
    );
}

#[test]
fn hosts_and_processes() {
    property("- { name: x, never: y, hosts: A }", "5:31 there is no host 'A'", "did you mean 'a'?");
    property(
        "- { name: x, never: y, hosts: { one_of: [a] } }",
        "5:31 the hosts of a property are not drawn",
        "name them, as in hosts: [alice, bob]",
    );
    property(
        "- { name: x, never: y, hosts: [a, idle] }",
        "5:31 host 'idle' runs no program that could write",
        "",
    );
    property(
        "- { name: x, never: y, hosts: a, process: bat }",
        "5:43 host 'a' does not run this process",
        "did you mean 'cat'?",
    );
    property(
        "- { name: x, never: y, process: 2 }",
        "5:33 no host runs this process",
        "there are sh, cat; numbers count from 0",
    );
    property(
        "- { name: x, never: y, files: log, process: sh }",
        "5:36 'process' selects outputs, and 'files' has none",
        "leave 'process' out, or add stdout to 'files'",
    );
    check(
        &format!("{GENERAL}\n{NETWORK}\n{HOSTS}\nproperties: [ {{ name: x, never: y }} ]\n"),
        "4:15 property 'x' is about outputs, and no host runs a program",
        "",
    );
}

#[test]
fn times() {
    property(
        "- { name: x, eventually: served }",
        "5:26 'eventually' must be a mapping, but is a string",
        "write keys and values, one per line: 'key: value'",
    );
    property(
        "- { name: x, eventually: { within: 1 s } }",
        "5:26 'eventually' has no 'matches'",
        "add matches: elected",
    );
    property(
        "- { name: x, eventually: { matches: y } }",
        "5:26 'eventually' has no 'within'",
        "add within: 30 s",
    );
    property(
        "- { name: x, eventually: { matches: y, within: 30 } }",
        "5:48 'within' needs a unit: 30 is only a number",
        "write 30 ns, 30 us, 30 ms, 30 s, 30 min or 30 h",
    );
    property(
        "- { name: x, eventually: { matches: y, within: 1 s, after: faults } }",
        "5:60 there are no faults: no event changes the network, hosts or clocks",
        "add one to 'events', let 'explore' draw them, or write a time: after: 10 s",
    );
    property(
        "- { name: x, eventually: { matches: y, within: 1 s, after: 1 min } }",
        "5:60 no line can follow: the simulation stops at 60 s",
        "",
    );
    property(
        "- { name: x, eventually: { matches: y, within: 0 s } }",
        "5:48 'within' is a window without length, in which no line is written",
        "write a time such as within: 30 s",
    );
    property(
        "- { name: x, eventually: { matches: y, within: 10 s, after: 50001 ms } }",
        "5:48 the window ends at 60001 ms or later, and the simulation stops at 60 s",
        "write at most within: 9999 ms, or a later general.stop_time",
    );
    property(
        "- { name: x, eventually: { matches: y, within: 61 s } }",
        "5:48 the window ends at 61 s or later, and the simulation stops at 60 s",
        "write at most within: 60 s, or a later general.stop_time",
    );
}

#[test]
fn histories() {
    property("- { name: x, history: h }", "5:3 a property has no 'model'", "add model: register");
    property(
        "- { name: x, history: h, model: registre }",
        "5:33 'registre' is not a value of 'model'",
        "did you mean 'register'?",
    );
    property(
        "- { name: x, history: h, model: rw-register, consistency: serialisable }",
        "5:59 'serialisable' is not a value of 'consistency'",
        "did you mean 'serializable'?",
    );
    property(
        "- { name: x, history: h, model: queue, consistency: serializable }",
        "5:53 the model queue has no isolation levels",
        "leave 'consistency' out: it is for list-append and rw-register",
    );
}

#[test]
fn models_that_are_programs() {
    let model = |model: &str| format!("- {{ name: x, history: h, model: {model} }}");
    let looked = |name: &str| format!("looked for /nowhere/experiment/{name} and /nowhere/{name}");
    property(&model("bank.py"), "5:33 there is no file 'bank.py'", &looked("bank.py"));
    property(&model("./bank"), "5:33 there is no program './bank'", &looked("bank"));
    property(
        &model("/etc/passwd"),
        "5:33 '/etc/passwd' is not executable",
        "chmod +x '/etc/passwd', or run its interpreter",
    );
    property(&model("/etc"), "5:33 '/etc' is a directory, not a program", "");
    property(
        "- { name: x, history: h, model: /bin/sh, consistency: serializable }",
        "5:55 the model /bin/sh has no isolation levels",
        "leave 'consistency' out: it is for list-append and rw-register",
    );
}

#[test]
fn assertions() {
    property(
        "- { name: x, assertions: 'sdk*.jsonl' }",
        "5:26 'sdk*.jsonl' is a pattern, and programs are given the path of one file",
        "write a path such as assertions: /var/log/sdk.jsonl",
    );
    property(
        "- { name: x, assertions: sdk.jsonl, model: queue }",
        "5:37 'model' is not valid with 'assertions'",
        "assertions have 'hosts' only",
    );
}
