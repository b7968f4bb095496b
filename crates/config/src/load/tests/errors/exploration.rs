use super::*;

const WORLD: &str = "\
general: { stop_time: 60 s }
network: { graph: { type: 1_gbit_switch } }
hosts: { a: { network_node_id: 0, processes: [ { path: sh } ] }, idle: { network_node_id: 0, processes: [] } }
";

/// The section stands in line 4.
#[track_caller]
fn explore(text: &str, expected: &str, help: &str) {
    check(&format!("{WORLD}explore: {text}\n"), &format!("4:{expected}"), help);
}

#[test]
fn hosts_and_times() {
    explore("{ host: a }", "12 'host' is not a key of section 'explore'", "did you mean 'hosts'?");
    explore("{ hosts: b }", "19 there is no host 'b'", "the hosts are a, idle");
    explore("{ hosts: idle }", "19 host 'idle' runs no program that a fault could hit", "");
    explore(
        "{ hosts: { one_of: a } }",
        "19 hosts are drawn from all that are named here",
        "leave 'one_of' out, as in hosts: [alice, bob]",
    );
    explore(
        "{ between: [5 s, 61 s] }",
        "21 the simulation stops at 60 s, before the latest end of a fault",
        "write at most 60 s, and leave time to recover",
    );
    explore("{ between: [5 s, 5 s] }", "21 no fault of 100 ms fits between 5 s and 5 s", "");
    explore("{ between: [9 s, 5 s] }", "21 'between' has the larger value first", "");
    explore("{ for: [1 s] }", "17 'for' is a least and a largest value, as in [1 s, 5 s]", "");
    explore("{ for: 0 s }", "17 a fault without duration is none", "write for: [100 ms, 10 s]");
    explore("{ faults: 0 }", "20 no fault is drawn", "write faults: [1, 5]");
    check(
        "general: { stop_time: 9 s }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts: { a: { network_node_id: 0, processes: [] } }\nexplore: {}",
        "4:10 no host runs a program, so none can fail",
        "",
    );
}

#[test]
fn kinds_and_orders() {
    explore("{ kinds: [crush] }", "20 'crush' is no kind of fault", "did you mean 'crash'?");
    explore(
        "{ kinds: fire }",
        "19 'fire' is no kind of fault",
        "the kinds are calls, clock, cpu, crash, disk, dns, kill, lossy, memory, one_way, partition, pause, pause_process, reset, slow, stop, upgrade",
    );
    let example = "write kinds: { upgrade: { upgrades: [{ upgrade: server, to: server-2, hosts: node* }] } }";
    let lacks = "kind 'upgrade' needs the programs which replace others";
    explore("{ kinds: [upgrade] }", &format!("20 {lacks}"), example);
    explore("{ kinds: { upgrade: } }", &format!("21 {lacks}"), example);
    explore(
        "{ kinds: { upgrade: { } } }",
        "30 kind 'upgrade' has no 'upgrades'",
        "add upgrades: [{ upgrade: server, to: server-2, hosts: node* }]",
    );
    explore("{ kinds: { upgrade: { upgrades: [] } } }", "42 'upgrades' is empty", example);
    explore(
        "{ kinds: { upgrade: { upgrades: { crash: a } } } }",
        "44 'crash' is not a key of an event without a time",
        "valid keys are upgrade, hosts, to, grace, restart, root, keep",
    );
    explore(
        "{ kinds: { upgrade: { upgrades: { upgrade: 0, to: 0, hosts: a } } } }",
        "60 on host 'a' that is the process which ends",
        "add the new program to the host's list, with start_time: never",
    );
    explore(
        "{ kinds: { upgrade: { upgrades: { restart: a } } } }",
        "42 a restart with the same root replaces no program",
        "add root: IMAGE and keep: [/var/lib/data]",
    );
    let two = WORLD.replace("{ path: sh }", "{ path: sh }, { path: sh, start_time: never }");
    let twice = "upgrades: [&u { upgrade: 0, to: 1, hosts: a }, *u]";
    check(
        &format!("{two}explore: {{ kinds: {{ upgrade: {{ {twice} }} }} }}\n"),
        "4:42 one of these upgrades is there twice",
        "leave one out",
    );
    explore("{ kinds: { reset: { ends: [] } } }", "36 'ends' is empty", "write ends: [both, first, second]");
    explore("{ kinds: [] }", "19 'kinds' names no kind of fault", "write kinds: [crash, partition]");
    explore(
        "{ kinds: { slow: { step: 1 s } } }",
        "29 'step' is not a key of kind 'slow'",
        "valid keys are latency",
    );
    explore("{ kinds: { crash: { files: [] } } }", "37 'files' is empty", "write files: [kept, unsynced]");
    explore(
        "{ kinds: { crash: { files: kept, disk: any } } }",
        "49 'disk' is not valid without 'files: unsynced' or 'files: torn'",
        "it says what a crash may take of files that are not synced",
    );
    explore(
        "{ kinds: { disk: { faults: [] } } }",
        "37 'faults' is empty",
        "write faults: [sync_time, sync_errors]",
    );
    explore("{ kinds: { disk: { sync_time: 0 s } } }", "40 a sync that takes no time is no fault", "");
    explore(
        "{ kinds: { kill: { names: [] } } }",
        "36 'names' is empty",
        "leave it out for the host's own processes",
    );
    explore(
        "{ kinds: { kill: { names: bin/sh } } }",
        "36 'bin/sh' is no name of a process",
        "write the program's file name, such as names: [redis-server]",
    );
    explore(
        "{ kinds: { dns: { answers: [] } } }",
        "37 'answers' is empty",
        "write answers: [SERVFAIL, timeout]",
    );
    explore("{ kinds: { calls: { share: [0, 1] } } }", "37 'share' is 0: no call would fail", "");
    explore(
        "{ kinds: { calls: { results: fast } } }",
        "39 'fast' is not a value of 'results'",
        "use one of short, EINTR, EAGAIN, ENOMEM, EMFILE, ENFILE, ECONNRESET, ETIMEDOUT",
    );
    explore(
        "{ kinds: { cpu: { share: 2 } } }",
        "35 'share' must be a number between 0 and 1, not '2'",
        "write 0.1 for programs that run for a tenth of the time",
    );
    explore("{ scheduling: [] }", "24 'scheduling' is empty", "write scheduling: [fifo, random]");
    explore(
        "{ scheduling: drawn }",
        "24 'drawn' is not a value of 'scheduling'",
        "use one of fifo, random, priorities",
    );
}
