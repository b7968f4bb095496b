//! Keys and events that would have no effect, and numbers without a unit.

use super::*;
use crate::events::{Action, CrashFiles, DiskProfile};

/// A file with two hosts at a switch, a host on the graph, and these events.
#[track_caller]
fn event(text: &str, expected: &str, help: &str) {
    let hosts = "{ a: { processes: [] }, b: { processes: [] }, g: { network_node_id: 0, processes: [] } }";
    let links = "[ { between: [a, s], name: wire }, { between: [b, s] } ]";
    let text =
        format!("{GENERAL}\n{NETWORK}\nhosts: {hosts}\nswitches: [s]\nlinks: {links}\nevents:\n- {text}\n");
    check(&text, expected, help);
}

/// A file without a graph, with two linked hosts and these events.
#[track_caller]
fn linked(text: &str, expected: &str, help: &str) {
    let hosts = "{ a: { processes: [] }, b: { processes: [] } }";
    check(
        &format!(
            "{GENERAL}\nhosts: {hosts}\nlinks: [ {{ between: [a, b], name: wire }} ]\nevents:\n- {text}\n"
        ),
        expected,
        help,
    );
}

#[test]
fn events_after_the_end() {
    let help = "give the event an earlier time, or general.stop_time a later one";
    event(
        "{ at: 9 s, link_down: wire }",
        "7:9 this event never happens: it is at 9 s, and the simulation stops at 9 s",
        help,
    );
    event(
        "{ every: 10 s, crash: a }",
        "7:12 this event never happens: it is at 10 s, and the simulation stops at 9 s",
        help,
    );
    event(
        "{ every: 1 s, between: [20 s, 30 s], crash: a }",
        "7:26 this event never happens: it is at 20 s, and the simulation stops at 9 s",
        help,
    );
    let kept = "{ every: 1 s, between: [5 s, 30 s], crash: a, for: 1 min }";
    let text = format!("{GENERAL}\n{NETWORK}\n{HOSTS}\nevents:\n- {kept}\n");
    Experiment::parse_in("test.yaml", &text, &around()).expect("it happens at 5 s");
}

#[test]
fn events_without_an_effect() {
    event(
        "{ at: 1 s, link_down: { from: a, to: g } }",
        "7:33 host 'a' is not on the graph: it has links only",
        "name a link, such as link_change: { link: NAME }",
    );
    event(
        "{ at: 1 s, link_down: [a, s] }",
        "7:29 there is no host 's'",
        "'s' is a device; events take its links by name: wire, b:eth0-s:p2",
    );
    for (event, of) in [
        ("link_up: wire", "link_down"),
        ("link_reset: wire", "link_change"),
        ("heal: all", "partition"),
        ("restart: a", "crash"),
        ("resume: a", "pause"),
        ("dns_up: a", "dns_down"),
    ] {
        let key = event.split(':').next().unwrap();
        self::event(
            &format!("{{ at: 1 s, {event} }}"),
            &format!("7:3 '{key}' undoes events '{of}', of which there are none for what it names"),
            &format!("leave it out, or add an event '{of}' for the same hosts or links"),
        );
    }
    check(
        &format!(
            "{GENERAL}\n{NETWORK}\nhosts:\n  a: {{ network_node_id: 0, processes: [ {{ path: /bin/true }} ] }}\nevents:\n- {{ at: 1 s, resume: a, process: 0 }}\n"
        ),
        "6:3 'resume' undoes events 'pause', of which there are none for what it names",
        "leave it out, or add an event 'pause' for the same hosts or links",
    );
    let help = "name a link, such as link_change: { link: NAME }";
    for (event, column) in [
        ("link_down: [all, all]", 26),
        ("bandwidth: all, up: 1 Mbit", 25),
        ("link_change: { edge: [0, 0] }, latency: 1 ms", 35),
    ] {
        linked(
            &format!("{{ at: 1 s, {event} }}"),
            &format!("5:{column} no host is on the graph: all have links only"),
            help,
        );
    }
    linked(
        "{ at: 1 s, move: all, to: [0, 0] }",
        "5:20 no host is a station of a radio",
        "add one to the 'stations' of a radio",
    );
}

#[test]
fn events_on_channels_and_devices() {
    let file = |event: &str, expected: &str, help: &str| {
        let text = format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, c: {{ processes: [], devices: [ {{ pci: nic0, driver: e1000 }} ] }} }}\n\
             nics: [nic0]\nsimulators:\n  box: {{ command: /bin/true }}\n  far: {{ command: /bin/true }}\n\
             links:\n- {{ between: [a, \"box:in\"] }}\n- {{ between: [\"box:out\", \"far:p\"], name: channel }}\n\
             - {{ between: [\"nic0:eth\", \"far:q\"] }}\nevents: [ {{ at: 1 s, {event} }} ]\n"
        );
        check(&text, expected, help);
    };
    file(
        "link_change: channel, latency: 1 ms",
        "11:35 link 'channel' joins two simulators, which exchange frames directly: events do not change it",
        "name other links, or put a switch between the two",
    );
    file(
        "link_down: \"c:eth0-nic0:pci\"",
        "11:33 'c:eth0-nic0:pci' is a connection of a host to its device, which events do not change",
        "name the link of the device",
    );
}

#[test]
fn keys_of_hosts_without_an_effect() {
    let file = |host: &str, links: &str, expected: &str, help: &str| {
        check(&format!("{GENERAL}\n{NETWORK}\nhosts: {{ a: {{ {host} }} }}\n{links}\n"), expected, help);
    };
    file(
        "network_node_id: 0, routing: static",
        "",
        "3:35 'routing' is not valid for host 'a', which has no link",
        "leave it out: to hosts on the graph packets need no routes",
    );
    file(
        "host_options: { queue: { packets: 5 } }",
        "switches: [s]\nlinks: [ { between: [a, s] } ]",
        "3:31 'queue' is not valid for host 'a', which is not on the graph",
        "give the queue to a link: links: [ { between: [...], queue: { packets: 100 } } ]",
    );
}

#[test]
fn numbers_without_a_unit() {
    let times = "write 10 ns, 10 us, 10 ms, 10 s, 10 min or 10 h";
    let link = |keys: &str, expected: &str, help: &str| {
        let hosts = "{ a: { processes: [] }, b: { processes: [] } }";
        check(
            &format!("{GENERAL}\nhosts: {hosts}\nlinks: [ {{ between: [a, b], {keys} }} ]\n"),
            expected,
            help,
        );
    };
    link(
        "rate: 10",
        "3:35 'rate' needs a unit: 10 is only a number",
        "write 10 bit, 10 Kbit, 10 Mbit or 10 Gbit",
    );
    link("latency: 10", "3:38 'latency' needs a unit: 10 is only a number", times);
    link("reverse: { latency: \"10\" }", "3:49 'latency' needs a unit: 10 is only a number", times);
    event("{ at: 10, crash: a }", "7:9 'at' needs a unit: 10 is only a number", times);
    event("{ at: 1 s, clock: a, step: -10 }", "7:30 'step' needs a unit: -10 is only a number", times);
    // 0 is the same in all units, and Shadow's keys are as in Shadow.
    let text = "general: { stop_time: 9 }\nnetwork: { graph: { type: 1_gbit_switch } }\n\
        hosts: { a: { network_node_id: 0, bandwidth_up: 800, clock: { offset: 0 }, processes: [ { path: /bin/true, start_time: 1 } ] } }\n";
    let experiment = Experiment::parse_in("test.yaml", text, &around()).expect("valid");
    assert_eq!(
        experiment.notes,
        ["host 'a': 'bandwidth_up' is 800 bit/s: a number without a unit counts bits per second"]
    );
}

#[test]
fn mtus_of_links_between_switches() {
    let file = |between: &str, own: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\nswitches: [s, t]\n\
             links: [ {{ between: [a, s]{own} }}, {{ between: [s, t]{between} }}, {{ between: [t, b] }} ]\n"
        )
    };
    let help = "give them the same mtu, or put a router between them";
    check(
        &file(", mtu: 600", ""),
        "4:55 link 's:p2-t:p1' between switches has an mtu of 600, and link 'a:eth0-s:p1' of the same network one of 1500",
        help,
    );
    check(
        &file("", ", mtu: 9000"),
        "4:54 link 's:p2-t:p1' between switches has an mtu of 1500, and link 'a:eth0-s:p1' of the same network one of 9000",
        help,
    );
    let text = file(", mtu: 9000", "");
    Experiment::parse_in("test.yaml", &text, &around()).expect("no packet is too long");
}

#[test]
fn events_that_undo_what_happens_to_others() {
    let file = |events: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }}, c: {{ processes: [] }} }}\n\
             links: [ {{ between: [a, b], name: one }}, {{ between: [b, c], name: other }} ]\nevents:\n{events}\n"
        )
    };
    for (brings, undoes) in [
        ("link_down: one", "link_up: other"),
        ("link_down: { link: one, from: a }", "link_up: { link: one, from: b }"),
        ("link_change: one, rate: 1 Mbit", "link_reset: other"),
        ("crash: a", "restart: [b, c]"),
        ("dns_down: a", "dns_up: b"),
    ] {
        let [of, key] = [brings, undoes].map(|event| event.split(':').next().unwrap());
        check(
            &file(&format!("- {{ at: 1 s, {brings} }}\n- {{ at: 2 s, {undoes} }}")),
            &format!("6:3 '{key}' undoes events '{of}', of which there are none for what it names"),
            &format!("leave it out, or add an event '{of}' for the same hosts or links"),
        );
    }
    for (brings, undoes) in [
        ("link_down: one", "link_up: { link: one, from: b }"),
        ("crash: { one_of: [a, b] }", "restart: b"),
        ("crash: all", "restart: c"),
        ("crash: c", "restart: all"),
    ] {
        let text = file(&format!("- {{ at: 1 s, {brings} }}\n- {{ at: 2 s, {undoes} }}"));
        Experiment::parse_in("test.yaml", &text, &around()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn faults_of_disks_connections_and_calls() {
    let file = |event: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [ {{ path: /bin/true }} ] }}, b: {{ processes: [] }} }}\n\
             links: [ {{ between: [a, b] }} ]\nevents:\n- {{ at: 1 s, {event} }}\n"
        )
    };
    let bad = |event: &str, expected: &str, help: &str| check(&file(event), &format!("5:{expected}"), help);
    bad(
        "disk_fault: a",
        "26 this 'disk_fault' does not say what fails",
        "add sync_time: 1 s, sync_errors: 1, full: true, read_errors: 0.01 or bit_rot: 0.01",
    );
    bad("disk_fault: a, sync_time: 0 s", "40 a sync that takes no time is no fault", "");
    bad(
        "disk_fault: a, full: true, path: x",
        "47 'path' is not valid with 'full'",
        "a full disk is full for all files: leave 'path' out, or write two events",
    );
    bad("disk_fault: b, full: true", "26 host 'b' runs no program, so 'disk_fault' has no effect on it", "");
    bad(
        "call_faults: b, results: short, share: 1",
        "27 host 'b' runs no program, so 'call_faults' has no effect on it",
        "",
    );
    bad("upgrade: 0, hosts: a", "3 an event has no 'to'", "add to: 1");
    bad(
        "upgrade: 0, hosts: a, to: 0",
        "40 on host 'a' that is the process which ends",
        "add the new program to the host's list, with start_time: never",
    );
    bad("dns_answers: a", "3 an event has no 'answer'", "add answer: SERVFAIL");
    bad(
        "dns_answers: a, answer: FORMERR",
        "38 'FORMERR' is no answer of a name server",
        "use one of timeout, SERVFAIL, REFUSED, NXDOMAIN, or addresses such as 192.0.2.1",
    );
    bad("dns_answers: a, answer: []", "38 'answer' is empty", "write NXDOMAIN for a name without addresses");
    bad("dns_answers: a, names: [], answer: timeout", "37 'names' is empty", "leave it out for all names");
    bad(
        "dns_answers: a, names: a b, answer: timeout",
        "37 'a b' is no name that programs look up",
        "write names such as www.example.org, or '*.example.org'",
    );
    bad("memory: b, limit: 64 MiB", "22 host 'b' runs no program, so 'memory' has no effect on it", "");
    bad("memory: a", "3 an event has no 'limit'", "add limit: 64 MiB");
    bad(
        "memory: a, limit: 64 KiB",
        "32 'limit' must be at least 1 MiB: no program runs in less",
        "write a size such as limit: 512 MiB",
    );
    bad("kill: b, hosts: b", "30 host 'b' runs no program, so 'kill' has no effect on it", "");
    bad("kill: sh", "3 an event has no 'hosts'", "add hosts: alice");
    bad(
        "kill: /bin/sh, hosts: a",
        "20 '/bin/sh' is no name of a process",
        "write the program's file name, such as kill: redis-server",
    );
    bad("pause: b, process: sh", "21 host 'b' runs no program, so 'pause' has no effect on it", "");
    bad("pause: a, process: 1", "33 host 'a' has no process 1", "it runs true; numbers count from 0");
    bad(
        "pause: a, process: /bin/sh, for: 1 s",
        "33 '/bin/sh' is no name of a process",
        "write the program's file name, such as process: redis-server",
    );
    bad("cpu: b, share: 0.1", "19 host 'b' runs no program, so 'cpu' has no effect on it", "");
    bad("cpu: a", "3 an event has no 'share'", "add share: 0.1");
    bad(
        "cpu: a, share: 0",
        "29 'share' must be a number between 0 and 1, not '0'",
        "a host that does not run at all is paused: write pause: HOST",
    );
    bad(
        "cpu: a, share: 1.0",
        "29 'share' must be a number between 0 and 1, not '1.0'",
        "write 0.1 for programs that run for a tenth of the time",
    );
    bad(
        "cpu: a, share: 0.5, period: 99 us",
        "42 'period' must lie between 100 us and 1 h",
        "leave it out for 100 ms, that of Linux's bandwidth control",
    );
    bad(
        "cpu: a, share: 0.0000000001",
        "29 'share' is too close to a limit for a period of 100 ms",
        "write a longer period, or a share such as 0.1",
    );
    let sides = "'connection_reset' needs the hosts at the two ends of the connections";
    let help = "write connection_reset: [alice, bob], or [alice, all]";
    bad("connection_reset: a", &format!("32 {sides}"), help);
    bad("connection_reset: [a]", &format!("32 {sides}"), help);
    bad(
        "connection_reset: [a, b], ends: none",
        "46 'none' is not a value of 'ends'",
        "use one of both, first, second",
    );
    bad(
        "connection_reset: [a, b], for: 1 s",
        "45 'connection_reset' cannot be undone after a time",
        "leave out 'for': it is valid for events that bring a fault",
    );
    bad("call_faults: a, share: 0.1", "3 an event has no 'results'", "add results: [short, EINTR]");
    bad("call_faults: a, results: short", "3 an event has no 'share'", "add share: 0.05");
    bad("call_faults: a, results: [], share: 0.1", "39 'results' is empty", "write results: [short, EINTR]");
    bad("call_faults: a, results: short, share: 0", "53 'share' is 0: no call would fail", "");
    bad(
        "call_faults: a, results: short, share: 0.5, pid: 1000",
        "53 'share' is not valid for a single call",
        "leave 'pid', 'call' and 'number' out, or 'share'",
    );
    bad(
        "call_faults: a, results: [short, EINTR], pid: 1000, call: read, number: 1",
        "39 a single call has one result",
        "write results: [short]",
    );
    bad(
        "call_faults: a, results: EMFILE, pid: 1000, call: read, number: 1",
        "39 Linux does not give 'EMFILE' to 'read'",
        "",
    );
    bad(
        "call_faults: a, results: short, pid: 1000, call: read, number: 0",
        "77 calls are numbered from 1",
        "",
    );
}

#[test]
fn disks_with_two_sets_of_rules() {
    let file = |first: &str, second: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\n\
             links: [ {{ between: [a, b] }} ]\nevents:\n- {{ at: 1 s, crash: {first} }}\n- {{ at: 2 s, crash: {second} }}\n"
        )
    };
    check(
        &file("all, files: unsynced", "b, files: torn, disk: any"),
        "6:3 the disk of a host cannot be both 'ordered' and 'any'",
        "give the same 'disk' in all crashes of a host",
    );
    let text = file("a, files: unsynced, disk: ordered", "b, files: torn, disk: any");
    let experiment = Experiment::parse_in("test.yaml", &text, &around()).expect("valid");
    assert!(matches!(
        experiment.events[1].action,
        Action::Crash { files: CrashFiles::Unsynced { torn: true, disk: DiskProfile::Any }, .. }
    ));
    let written = experiment.events_yaml(&experiment.events);
    let found = |line: &str| written.lines().any(|written| written.trim() == line);
    assert!(found("files: torn") && found("disk: any") && found("disk: ordered"), "{written}");
}

#[test]
fn queues_in_which_nothing_waits() {
    let link = |keys: &str, more: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\n\
             links:\n- {{ between: [a, b], name: wire, {keys} }}\n{more}"
        )
    };
    let message = "'queue' has no effect: nothing waits at the unlimited rate of link 'wire'";
    let help = "give the link a rate, or leave the queue out";
    for (keys, column) in [
        ("rate: unlimited, queue: { packets: 9 }", 51),
        ("reverse: { rate: unlimited, queue: { packets: 9 } }", 62),
        ("rate: unlimited, queue: { packets: 9 }, reverse: { rate: 1 Mbit, queue: { packets: 8 } }", 51),
    ] {
        check(&link(keys, ""), &format!("4:{column} {message}"), help);
    }
    let limited = "events: [ { at: 1 s, link_change: wire, rate: 1 Mbit } ]\n";
    for (keys, more) in [
        ("queue: { packets: 9 }, rate: unlimited", limited),
        ("rate: unlimited, queue: { packets: 9 }, reverse: { rate: 1 Mbit }", ""),
        ("rate: unlimited, queue: { packets: 9 }, token_bucket: { rate: 1 Mbit, burst: 9 KB }", ""),
        ("queue: { packets: 9 }, reverse: { rate: unlimited }", ""),
    ] {
        let text = link(keys, more);
        let experiment =
            Experiment::parse_in("test.yaml", &text, &around()).unwrap_or_else(|error| panic!("{error}"));
        let written = experiment.to_yaml();
        Experiment::parse_in("written.yaml", &written, &around()).unwrap_or_else(|error| panic!("{error}"));
    }
    check(
        &format!("{}host_option_defaults: {{ queue: {{ packets: 9 }} }}\n", link("rate: 1 Mbit", "")),
        "5:25 'queue' has no effect: no host is on the graph",
        "give the queue to a link: links: [ { between: [...], queue: { packets: 100 } } ]",
    );
}

#[test]
fn keys_that_do_not_reach_into_a_machine() {
    let machine = |keys: &str| {
        format!(
            "{GENERAL}\nhosts:\n  m: {{ machine: qemu, {keys} }}\n  b: {{ processes: [] }}\nlinks: [ {{ between: [m, b] }} ]\n"
        )
    };
    check_among(
        &machine("host_options: { shared: [ /tmp ] }, processes: []"),
        "3:39 'shared' is not valid for host 'm', which is a machine",
        "its kernel has files of its own: copy some in by 'files', or by a 'root'",
    );
    check_among(
        &machine("host_options: { scheduling: random }"),
        "3:39 'scheduling' is not valid for host 'm', which is a machine",
        "its kernel schedules: leave it out",
    );
    check_among(
        &machine("processes: [ { path: /bin/sh, arg0: other } ]"),
        "3:53 'arg0' is not valid for host 'm', which is a machine",
        "its processes have their path: leave 'arg0' out",
    );
}

#[test]
fn a_shutdown_after_the_end_has_a_note() {
    let text = format!(
        "{GENERAL}\n{NETWORK}\nhosts:\n  a: {{ network_node_id: 0, processes: [ {{ path: /bin/sh, shutdown_time: 9 s }} ] }}\n"
    );
    let experiment = Experiment::parse_in("test.yaml", &text, &around()).unwrap();
    assert_eq!(experiment.notes, ["host 'a': '/bin/sh' is not shut down, since the simulation stops at 9 s"]);
}

#[test]
fn upgrades_of_processes_that_are_not_alone_or_start_by_themselves() {
    let bad = |second: &str, event: &str, expected: &str, help: &str| {
        let text = format!(
            "general: {{ stop_time: 9 s }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts: {{ a: {{ network_node_id: 0, processes: \
             [ {{ path: /bin/sh }}, {second} ] }} }}\nevents:\n- {{ at: 1 s, {event}, hosts: a, to: 1 }}\n"
        );
        check(&text, expected, help);
    };
    bad(
        "{ path: /bin/cat }",
        "upgrade: 0",
        "5:40 on host 'a' that process starts by itself",
        "write start_time: never",
    );
    bad(
        "{ path: /bin/sh, start_time: never }",
        "upgrade: sh",
        "5:41 on host 'a' several processes have that name",
        "name them by their numbers in the list",
    );
}

#[test]
fn properties_of_links_that_no_packet_meets() {
    let link = |keys: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\n\
             links:\n- {{ between: [a, b], name: wire, {keys} }}\n"
        )
    };
    let message = "'overhead' has no effect: bytes take no time at the unlimited rate of link 'wire'";
    let help = "give the link a rate, or leave it out";
    check(&link("rate: unlimited, overhead: 18 B"), &format!("4:51 {message}"), help);
    check(&link("rate: unlimited, reverse: { overhead: 18 B }"), &format!("4:62 {message}"), help);
    check(
        &link("rate: 1 Mbit, token_bucket: { rate: 5 Mbit, burst: 9 KB }"),
        "4:48 'token_bucket' has no effect: link 'wire' carries 1000000 bit/s, and its bucket gains 5000000 bit/s",
        "give the bucket a rate below that of the link, or leave it out",
    );
    check(
        &link("queue: { packets: 3, ecn_threshold: 10 }"),
        "4:70 'ecn_threshold' has no effect: a queue of 3 packets never exceeds 10 packets",
        "write a threshold below the length of the queue",
    );
}
