use super::*;
use crate::events::{Action, CpuShare, CrashFiles, Event, HostSet, ProcessRef, ResetEnds, Target, When};
use belljar_machine::{CallFault, CallResult, DiskFault, ForcedResult};
use belljar_net::dns::{DnsAnswer, DnsFault};
use belljar_net::link::PathChange;

const WORLD: &str = r#"
general: { stop_time: 10 min }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 4 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
        node [ id 7 host_bandwidth_up "1 Gbit" host_bandwidth_down "1 Gbit" ]
        node [ id 9 ]
        edge [ source 4 target 7 latency "10 ms" ]
        edge [ source 4 target 4 latency "1 ms" ]
      ]
hosts:
  a: { network_node_id: 4, processes: [ { path: sh }, { path: "true", start_time: never } ] }
  b1: { network_node_id: 7, clock: { offset: -1.5 s, drift_ppm: 12.5, reading: 1.5 us }, processes: [] }
  b2: { network_node_id: 4, processes: [] }
"#;

/// The experiment with these events; the first one is on line 19.
fn with(events: &str) -> String {
    let lines: String = events.trim().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{}\nevents:\n{lines}", WORLD.trim_end())
}

fn ids(ids: &[u32]) -> Vec<HostId> {
    ids.iter().copied().map(HostId).collect()
}

const ALL: &str = r#"
- { at: 1 s, link_down: [a, b*] }
- { at: 2 s, link_up: { from: a, to: all } }
- { at: 3 s, link_change: { edge: [7, 4] }, latency: 50 ms, jitter: 5 ms, for: 10 s }
- { at: 4 s, link_change: [a, b1], packet_loss: 0.25 }
- { at: 5 s, link_reset: [a, b1] }
- { at: 6 s, partition: [[a], [b1, b2]], name: split }
- { at: 7 s, heal: split }
- { at: 8 s, partition: [a, b1] }
- { at: 9 s, heal: all }
- { at: 10 s, bandwidth: a, up: 1 Mbit, down: unlimited, for: 5 s }
- { every: 10 s, between: [20 s, 60 s], probability: 0.5, crash: { one_of: b* }, files: lost, for: 3 s, name: monkey }
- { at: 11 s, restart: all }
- { at: 12 s, start: "true", hosts: a }
- { at: 13 s, signal: SIGHUP, hosts: a, process: sh }
- { at: 14 s, signal: 9, hosts: [a], process: 1 }
- { at: 15 s, clock: [b1, b2], step: -2 s, drift_ppm: -3.25 }
- { every: 1 min, clock: all, step: 1 ms }
- { at: 16 s, dns_down: b*, for: 2 s }
- { at: 20 s, dns_up: all }
- { at: 21 s, disk_fault: a, sync_time: [5 ms, 1 s], sync_errors: 2, read_errors: 0.5, bit_rot: 0.25, path: '*.log', for: 1 s }
- { at: 22 s, disk_fault: all, full: true }
- { at: 23 s, disk_heal: a }
- { at: 24 s, connection_reset: [a, [b1, b2]], ends: second }
- { at: 25 s, call_faults: a, results: [EINTR, short], share: 0.125, for: 1 s }
- { at: 26 s, call_faults: a, results: EAGAIN, pid: 1001, call: accept4, number: 7 }
- { at: 27 s, kill: 'work*', hosts: a, for: 1 s }
- { at: 28 s, kill: 1, hosts: a }
- { at: 29 s, memory: a, limit: 64 MiB, for: 1 s }
- { at: 30 s, dns_answers: a, names: ['*.Example.org.', db], answer: SERVFAIL, for: 1 s }
- { at: 31 s, dns_answers: all, answer: [192.0.2.1, '2001:db8::1'] }
- { at: 32 s, dns_answers: all, answer: 192.0.2.1 }
- { at: 33 s, upgrade: sh, hosts: a, to: 1, for: 10 s }
- { at: 34 s, pause: a, process: 'work*', for: 1 s }
- { at: 35 s, pause: a, process: 1 }
- { at: 36 s, resume: a, process: 1 }
- { at: 37 s, cpu: a, share: 0.125, for: 1 s }
- { at: 38 s, cpu: all, share: 0.3, period: 7 ms }
"#;

#[test]
fn everything_that_can_happen() {
    let e = parse(&with(ALL));
    let actions: Vec<&Action> = e.events.iter().map(|event| &event.action).collect();
    let (a, b1, b2) = (0, 1, 2);
    let paths = |from, to, both| Target::Paths { from: HostSet::Some(from), to, both };
    assert_eq!(*actions[0], Action::LinkDown(paths(ids(&[a]), HostSet::Some(ids(&[b1, b2])), true)));
    assert_eq!(*actions[1], Action::LinkUp(paths(ids(&[a]), HostSet::All, false)));
    let slow = PathChange {
        latency: Some(SimDuration::from_millis(50)),
        jitter: Some(SimDuration::from_millis(5)),
        ..PathChange::default()
    };
    assert_eq!(*actions[2], Action::Change(Target::Edge(7, 4), slow));
    assert_eq!(e.events[2].lasting, Some(SimDuration::from_secs(10)));
    let groups = |first: &[u32], second: &[u32]| {
        Action::Partition(vec![HostSet::Some(ids(first)), HostSet::Some(ids(second))])
    };
    assert_eq!(*actions[5], groups(&[a], &[b1, b2]));
    assert_eq!(*actions[6], Action::Heal(Some("split".to_owned())));
    assert_eq!(*actions[7], groups(&[a, b1], &[b2]), "one group stands against all others");
    let monkey = Action::Crash { hosts: HostSet::OneOf(ids(&[b1, b2])), files: CrashFiles::Lost };
    assert_eq!((actions[10], e.events[10].name.as_deref()), (&monkey, Some("monkey")));
    let when = When::Every {
        interval: SimDuration::from_secs(10),
        from: SimTime::from_secs(20),
        until: SimTime::from_secs(60),
        probability: 0.5,
    };
    assert_eq!(e.events[10].when, when);
    let a_set = || HostSet::Some(ids(&[a]));
    assert_eq!(*actions[12], Action::Start(a_set(), ProcessRef::Program("true".to_owned())));
    assert_eq!(*actions[14], Action::Signal(a_set(), ProcessRef::Number(1), Signal::from_number(9).unwrap()));
    let clock = Action::Clock {
        hosts: HostSet::Some(ids(&[b1, b2])),
        step_ns: Some(-2_000_000_000),
        drift_ppb: Some(-3_250),
    };
    assert_eq!(*actions[15], clock);
    let silent = Action::NameServer { hosts: HostSet::Some(ids(&[b1, b2])), down: true };
    assert_eq!(*actions[17], silent);
    assert_eq!(*actions[18], Action::NameServer { hosts: HostSet::All, down: false });
    let fault = DiskFault {
        sync_time: Some((SimDuration::from_millis(5), SimDuration::from_secs(1))),
        sync_errors: 2,
        read_errors: 0.5,
        bit_rot: 0.25,
        path: Some("*.log".to_owned()),
        ..DiskFault::default()
    };
    assert_eq!(*actions[19], Action::DiskFault { hosts: a_set(), fault: Box::new(fault) });
    assert_eq!(*actions[21], Action::DiskHeal(a_set()));
    let between = [a_set(), HostSet::Some(ids(&[b1, b2]))];
    assert_eq!(*actions[22], Action::ConnectionReset { between, ends: ResetEnds::Second });
    let results = vec![CallResult::Short, CallResult::Interrupted];
    let drawn = CallFault::Drawn { results, rate: 0.125 };
    assert_eq!(*actions[23], Action::CallFault { hosts: a_set(), fault: drawn });
    let one = ForcedResult { pid: 1_001, call: "accept4", number: 7, result: CallResult::Again };
    assert_eq!(*actions[24], Action::CallFault { hosts: a_set(), fault: CallFault::One(one) });
    assert_eq!(*actions[25], Action::Kill(a_set(), ProcessRef::Program("work*".to_owned())));
    assert_eq!(*actions[26], Action::Kill(a_set(), ProcessRef::Number(1)));
    assert_eq!(*actions[27], Action::Memory { hosts: a_set(), limit: 64 << 20 });
    let names = vec!["*.example.org".to_owned(), "db".to_owned()];
    let fault = DnsFault { names, answer: DnsAnswer::ServerFailure };
    assert_eq!(*actions[28], Action::DnsAnswers { hosts: a_set(), fault });
    let addresses = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    let fault = DnsFault { names: vec!["*".to_owned()], answer: DnsAnswer::Addresses(addresses) };
    assert_eq!(*actions[29], Action::DnsAnswers { hosts: HostSet::All, fault });
    let (process, to) = (ProcessRef::Program("sh".to_owned()), ProcessRef::Number(1));
    let grace = SimDuration::from_secs(10);
    assert_eq!(*actions[31], Action::Upgrade { hosts: a_set(), process, to, grace });
    assert_eq!(*actions[32], Action::PauseProcess(a_set(), ProcessRef::Program("work*".to_owned())));
    assert_eq!(*actions[34], Action::ResumeProcess(a_set(), ProcessRef::Number(1)));
    let share = CpuShare { period: SimDuration::from_millis(100), slice: SimDuration::from_micros(12_500) };
    assert_eq!(*actions[35], Action::Cpu { hosts: a_set(), share });
    let share = CpuShare { period: SimDuration::from_millis(7), slice: SimDuration::from_micros(2_100) };
    assert_eq!(*actions[36], Action::Cpu { hosts: HostSet::All, share });
    assert_eq!((e.hosts[1].clock.offset_ns, e.hosts[1].clock.drift_ppb), (-1_500_000_000, 12_500));
    assert_eq!(e.hosts[1].clock.reading, SimDuration::from_nanos(1_500));
    assert_eq!(e.hosts[0].processes[1].start_time, SimTime::MAX);
    assert_eq!(e.notes.iter().filter(|note| note.contains("never starts")).count(), 0);
}

#[test]
fn events_survive_being_written_and_read_again() {
    round_trip::round_trip(&with(ALL));
}

/// Asserts the message and help for an experiment with this single event on line 19.
#[track_caller]
fn bad(event: &str, expected: &str, help: &str) {
    errors::check(&with(&format!("- {{ {event} }}")), expected, help);
}

#[test]
fn what_and_when() {
    errors::check(
        &format!("{}\nevents: 5\n", WORLD.trim_end()),
        "18:9 'events' must be a list, but is a number",
        "begin each item with '- '",
    );
    const NAMES: &str = "link_down, link_up, link_change, link_reset, partition, heal, bandwidth, crash, \
        restart, pause, resume, disk_fault, disk_heal, connection_reset, call_faults, memory, cpu, dns_down, dns_up, dns_answers, start, stop, signal, kill, upgrade, clock, p4, move";
    bad("at: 1 s", "19:3 this event does not say what happens", &format!("add one of {NAMES}"));
    bad("at: 1 s, crsh: a", "19:14 'crsh' is not a key of an event", "did you mean 'crash'?");
    bad(
        "at: 1 s, crash: a, restart: b1",
        "19:24 this event has both 'crash' and 'restart'",
        "write two events",
    );
    bad(
        "at: 1 s, crash: a, step: 1 s",
        "19:24 'step' is not valid in event 'crash'",
        "'crash' takes files, disk",
    );
    bad(
        "at: 1 s, crash: a, files: lost, disk: any",
        "19:43 'disk' is not valid without 'files: unsynced' or 'files: torn'",
        "it says what a crash may take of files that are not synced",
    );
    bad(
        "at: 1 s, heal: all, step: 1 s",
        "19:25 'step' is not valid in event 'heal'",
        "'heal' takes no further keys",
    );
    bad(
        "crash: a",
        "19:3 this event does not say when it happens",
        "add at: 10 s, or every: 10 s and between: [20 s, 60 s]",
    );
    bad("at: 1 s, every: 1 s, crash: a", "19:21 an event has 'at' or 'every', not both", "");
    bad("every: 0 s, crash: a", "19:12 'every' must not be 0", "");
    bad(
        "at: 1 s, probability: 1, crash: a",
        "19:14 'probability' is only valid with 'every'",
        "write every: in place of at:, or leave it out",
    );
    const TIMES: &str = "write two times, such as between: [20 s, 60 s]";
    bad("every: 1 s, between: [1 s], crash: a", "19:26 'between' must have a first and a last time", TIMES);
    bad("every: 1 s, between: [2 s, 1 s], crash: a", "19:32 'between' ends before it begins", TIMES);
    bad(
        "every: 1 s, probability: 1.5, crash: a",
        "19:30 'probability' must be a number from 0 to 1, not '1.5'",
        "",
    );
    bad("at: 1 s, for: 0 s, crash: a", "19:19 'for' must not be 0", "");
    bad(
        "at: 1 s, for: 1 s, restart: a",
        "19:19 'restart' cannot be undone after a time",
        "leave out 'for': it is valid for events that bring a fault",
    );
    bad(
        "at: 1 s, for: 1 s, clock: a, step: 1 s",
        "19:19 a step of the clock cannot be undone after a time",
        "step it back",
    );
    bad(
        "at: 1 s, crash:",
        "19:14 'crash' has no value",
        "write crash: ..., or see the guide on a changing world",
    );
}

#[test]
fn hosts_and_processes() {
    bad("at: 1 s, crash: c", "19:21 there is no host 'c'", "the hosts are a, b1, b2");
    bad("at: 1 s, crash: x*", "19:21 no host's name is like 'x*'", "");
    bad("at: 1 s, crash: []", "19:21 'crash' names no host", "");
    bad("at: 1 s, crash: { any: a }", "19:23 'any' is not a key of 'crash'", "valid keys are one_of");
    bad("at: 1 s, crash: {}", "19:21 'crash' has no 'one_of'", "add one_of: [alice, bob]");
    bad(
        "at: 1 s, crash: a, files: gone",
        "19:31 'gone' is not a value of 'files'",
        "use one of kept, lost, unsynced, torn",
    );
    bad("at: 1 s, start: sh", "19:3 an event has no 'hosts'", "add hosts: alice");
    bad("at: 1 s, start: sch, hosts: a", "19:21 host 'a' runs no program 'sch'", "did you mean 'sh'?");
    bad(
        "at: 1 s, start: 2, hosts: a",
        "19:21 host 'a' has no process 2",
        "it runs sh, true; numbers count from 0",
    );
    bad("at: 1 s, start: 0, hosts: all", "19:21 host 'b1' has no process 0", "it has no processes");
    bad("at: 1 s, signal: SIGFOO, hosts: a", "19:22 'SIGFOO' is not a signal", "did you mean 'SIGFPE'?");
}

#[test]
fn models_start_and_stop() {
    let at = |host: &str, events: &str| {
        let lines = format!("  c: {{ network_node_id: 4, processes: [{host}] }}\nevents:\n{events}\n");
        format!("{}\n{lines}", WORLD.trim_end())
    };
    const SINK: &str = "{ path: sh }, { model: { type: sink, name: drain, port: 9 }, start_time: never }";
    let drain = || "drain".to_owned();
    let c = || HostSet::Some(ids(&[3]));
    let text =
        at(SINK, "- { at: 1 s, start: drain, hosts: c, for: 2 s }\n- { at: 5 s, stop: drain, hosts: c }");
    let e = parse(&text);
    assert_eq!(e.hosts[3].models[0].start_time, SimTime::MAX);
    assert_eq!(e.events[0].action, Action::Start(c(), ProcessRef::Program(drain())));
    assert_eq!(e.events[1].action, Action::Stop(c(), drain()));
    round_trip::round_trip(&text);
    let bad = |event: &str, expected: &str, help: &str| {
        errors::check(&at(SINK, &format!("- {{ {event} }}")), expected, help);
    };
    bad("at: 1 s, start: drian, hosts: c", "20:21 host 'c' runs no program 'drian'", "did you mean 'drain'?");
    bad("at: 1 s, stop: drian, hosts: c", "20:20 host 'c' has no model 'drian'", "did you mean 'drain'?");
    bad("at: 1 s, stop: mouse, hosts: c", "20:20 host 'c' has no model 'mouse'", "it has drain");
    bad(
        "at: 1 s, stop: sh, hosts: c",
        "20:20 host 'c' has no model 'sh'",
        "that is a program: end it by { signal: SIGTERM }",
    );
    bad("at: 1 s, stop: drain, hosts: all", "20:20 host 'a' has no model 'drain'", "it has no models");
    bad(
        "at: 1 s, start: sh, hosts: c, for: 2 s",
        "20:40 only models can be started for a time",
        "end a program by an event 'signal', or its 'shutdown_time'",
    );
}

#[test]
fn links_and_partitions() {
    const FORMS: &str = "write [alice, bob], { from: alice, to: bob } or { edge: [0, 1] }";
    bad("at: 1 s, link_down: a", "19:25 'link_down' takes two ends", FORMS);
    bad("at: 1 s, link_down: [a]", "19:25 'link_down' takes two ends, not 1", FORMS);
    bad("at: 1 s, link_down: { from: a }", "19:25 'link_down' takes 'from' and 'to', or 'edge'", FORMS);
    bad("at: 1 s, link_down: { edge: [4] }", "19:33 'edge' takes two nodes", "write edge: [0, 1]");
    bad("at: 1 s, link_down: { edge: [4, 5] }", "19:37 there is no node 5 in the graph", "");
    bad(
        "at: 1 s, link_down: { edge: [4, 9] }",
        "19:33 no edge of the graph leads from node 4 to node 9",
        "for the path between two hosts, write [alice, bob]",
    );
    bad(
        "at: 1 s, link_change: [a, b1]",
        "19:3 this event changes nothing about the link",
        "add latency: 100 ms, jitter: 5 ms or packet_loss: 0.1",
    );
    bad(
        "at: 1 s, link_change: [a, b1], latency: 1 ms, jitter: 2 ms",
        "19:59 'jitter' must not be more than 'latency'",
        "",
    );
    bad(
        "at: 1 s, bandwidth: a",
        "19:3 this event changes neither 'up' nor 'down'",
        "add up: 10 Mbit or down: 10 Mbit",
    );
    bad(
        "at: 1 s, partition: []",
        "19:25 'partition' has no groups",
        "write partition: [[alice, bob], [carol]]",
    );
    bad("at: 1 s, partition: all", "19:25 this partition has all hosts on one side", "");
    bad("at: 1 s, partition: [a, b*]", "19:25 this partition has all hosts on one side", "");
    bad("at: 1 s, partition: [[a, b1], [b1]]", "19:25 host 'b1' is in two groups of this partition", "");
    errors::check(
        &with("- { at: 1 s, partition: a, name: split }\n- { at: 2 s, heal: spilt }"),
        "20:20 no partition has the name 'spilt'",
        "did you mean 'split'?",
    );
    bad(
        "at: 2 s, heal: split",
        "19:20 no partition has the name 'split'",
        "write heal: all, or give the partition a name: and heal that",
    );
}

#[test]
fn captures() {
    let at = |options: &str| format!("{}\nhost_option_defaults: {{ {options} }}\n", WORLD.trim_end());
    let own = |options: &str| {
        format!("{}  c: {{ network_node_id: 4, host_options: {{ {options} }}, processes: [] }}\n", WORLD)
    };
    let e = parse(&at("pcap_filter: host a and port 80"));
    assert_eq!(e.hosts[2].options.pcap_filter.of("lo"), Some("host a and port 80"));
    round_trip::round_trip(&at("pcap_filter: host a and port 80"));
    let text = own("pcap_filter: { lo: false, eth0: \"tcp or port 53\" }");
    let filter = parse(&text).hosts[3].options.pcap_filter.clone();
    assert_eq!(
        [filter.of("lo"), filter.of("eth0"), filter.of("eth1")],
        [None, Some("tcp or port 53"), Some("")]
    );
    round_trip::round_trip(&text);
    const HELP: &str = "write it as for tcpdump: tcp port 80 and not host alice";
    errors::check(
        &at("pcap_filter: prt 80"),
        "18:38 this filter cannot be read: 'prt' is not known: use ip, ip6, arp, tcp, udp, icmp, icmp6, host, net, port, \
         portrange, src, dst, and, or, not",
        HELP,
    );
    errors::check(
        &own("pcap_filter: { eth0: host nobody }"),
        "18:65 this filter cannot be read: 'nobody' is neither a host nor an IP address",
        HELP,
    );
    errors::check(
        &own("pcap_filter: { eth1: tcp }"),
        "18:59 host 'c' has no interface 'eth1'",
        "did you mean 'eth0'?",
    );
    errors::check(
        &at("pcap_filter: { p77: tcp }"),
        "18:40 'host_option_defaults' has no interface 'p77'",
        "there are lo, eth0",
    );
    errors::check(
        &at("pcap_filter: false"),
        "18:38 'pcap_filter' cannot be false",
        "write pcap_enabled: false",
    );
}

#[test]
fn clocks() {
    bad(
        "at: 1 s, clock: a",
        "19:3 this event changes nothing about the clock",
        "add step: 5 s, step: -5 s or drift_ppm: 50",
    );
    bad(
        "at: 1 s, clock: a, drift_ppm: fast",
        "19:35 'drift_ppm' must be a number of parts per million, not 'fast'",
        "",
    );
    bad(
        "at: 1 s, clock: a, drift_ppm: 1e6",
        "19:35 'drift_ppm' must lie between -100000 and 100000, not 1e6",
        "",
    );
    bad(
        "at: 1 s, clock: a, step: -5 fs",
        "19:30 'step': \"fs\" is not a unit of time",
        "did you mean \"5 μs\"? Units are case-sensitive",
    );
}

#[test]
fn the_name_server() {
    let dns = |lines: &str| format!("{}\nbelljar:\n  dns:\n    {lines}\n", WORLD.trim_end());
    let e = parse(&dns("records: [www.a. 60 CNAME a, \"a TXT 'x y'\"]"));
    assert_eq!(e.belljar.dns_records, ["www.a. 60 CNAME a", "a TXT 'x y'"]);
    assert_eq!(e.zone().address, belljar_net::dns::DEFAULT_ADDRESS);
    round_trip::round_trip(&dns("address: 10.9.9.9\n    records: [www.a. 60 CNAME a]"));
    errors::check(&dns("adress: 1.2.3.4"), "20:5 'adress' is not a key of 'dns'", "did you mean 'address'?");
    errors::check(&dns("address: 127.0.0.53"), "20:14 no name server can have the address 127.0.0.53", "");
    errors::check(
        &dns("records: [www A]"),
        "20:15 this record cannot be read: A takes an IPv4 address",
        "write it as in a zone file: www.example.org. 300 A 11.0.0.1",
    );
    errors::check(
        &dns("address: 11.0.0.1"),
        "- host 'a' has the name server's address 11.0.0.1",
        "give one of them another: belljar: { dns: { address: 10.9.9.9 } }",
    );
}

#[test]
fn a_shorter_run_leaves_later_events_out() {
    let text = with(
        "- { at: 7 s, crash: a }\n- { every: 1 s, probability: 0.5, crash: b1, for: 1 s }\n- { at: 2 s, restart: b1 }\n\
         - { at: 8 s, link_down: [a, b1] }\n- { at: 3 s, link_up: [a, b1] }\n",
    );
    let all = parse(&text).events;
    let stop_at = |stop: &str| {
        let setting = crate::Setting { path: crate::STOP_TIME.to_owned(), value: stop.to_owned() };
        Experiment::parse_with("test.yaml", &text, std::path::Path::new(""), &[setting]).unwrap()
    };
    // A longer run is not refused for events that the file's stop time excludes.
    assert_eq!(stop_at("1 h").events, all);
    let experiment = stop_at("5 s");
    // The draws of an event follow from its name, or from its number in the file.
    let kept = [1, 2].map(|n: usize| Event { name: Some(n.to_string()), ..all[n].clone() });
    assert_eq!(experiment.events, kept);
    assert_eq!(
        experiment.notes,
        [
            "event 'crash' at 7 s never happens, since the simulation stops at 5 s",
            "event 'link_down' at 8 s never happens, since the simulation stops at 5 s"
        ]
    );
    // Written again, they have other positions.
    let written = kept.iter().enumerate().map(|(n, event)| Event { number: n as u32, ..event.clone() });
    assert_eq!(parse(&experiment.to_yaml()).events, written.collect::<Vec<_>>());
}
