//! Tables, checksums and the control plane of a small router.

mod common;

use belljar_base::SimTime;
use belljar_p4::control::{ActionSpec, Entry, ErrorKind, KeyMatch};
use belljar_p4::switch::Drop;
use belljar_p4::{Switch, SwitchConfig};
use belljar_p4files::{commands, runtime};
use common::*;
use serde_json::json;

fn router() -> Switch {
    let mut switch = forward().switch(SwitchConfig::default());
    let program = switch.program().clone();
    for (prefix, len, port) in
        [([10, 0, 0, 0], 8, 1), ([10, 1, 0, 0], 16, 2), ([10, 1, 2, 0], 23, 3), ([10, 1, 2, 3], 32, 4)]
    {
        switch.add_entry(0, &route(&program, prefix, len, port)).unwrap();
    }
    switch
}

#[test]
fn the_longest_prefix_wins_and_the_header_is_right() {
    let mut switch = router();
    let cases =
        [([10, 9, 9, 9], 1), ([10, 1, 9, 9], 2), ([10, 1, 3, 9], 3), ([10, 1, 2, 3], 4), ([10, 1, 4, 0], 2)];
    for (n, (dst, port)) in cases.into_iter().enumerate() {
        let now = ms(n as u64);
        switch.receive(now, 0, packet(dst, 10));
        let left = leaving(&mut switch, now);
        assert_eq!(left.len(), 1);
        let (got, bytes) = &left[0];
        assert_eq!(*got, port, "{dst:?}");
        assert_eq!(bytes[..6], [2, 0, 0, 0, 0, port as u8]);
        assert_eq!(bytes[6..12], [2, 0, 0, 0, 0, 0xaa]);
        assert_eq!(bytes[22], 63, "time to live");
        assert_eq!(checksum(&bytes[14..34]), 0, "the checksum of the whole header is zero");
        assert_eq!(bytes[34..], packet(dst, 10)[34..]);
    }
    switch.receive(ms(9), 0, packet([11, 0, 0, 1], 0));
    assert_eq!(ports(&mut switch, ms(9)), [0u16; 0]);
    assert_eq!(switch.dropped(Drop::Ingress), 1);
}

#[test]
fn entries_come_and_go() {
    let mut switch = router();
    let program = switch.program().clone();
    let handle = switch.find_entry(0, &route(&program, [10, 1, 2, 3], 32, 0)).unwrap();
    assert_eq!(switch.entry(0, handle).unwrap(), route(&program, [10, 1, 2, 3], 32, 4));
    switch.modify_entry(0, handle, &route(&program, [0; 4], 0, 7).action).unwrap();
    switch.receive(ms(0), 0, packet([10, 1, 2, 3], 0));
    assert_eq!(ports(&mut switch, ms(0)), [7]);
    switch.delete_entry(0, handle).unwrap();
    switch.receive(ms(1), 0, packet([10, 1, 2, 3], 0));
    assert_eq!(ports(&mut switch, ms(1)), [3]);
    switch.set_default(0, &route(&program, [0; 4], 0, 5).action).unwrap();
    switch.receive(ms(2), 0, packet([9, 9, 9, 9], 0));
    assert_eq!(ports(&mut switch, ms(2)), [5]);
    switch.reset_default(0).unwrap();
    switch.clear_table(0).unwrap();
    assert_eq!(switch.entry_count(0).unwrap(), 0);
    switch.receive(ms(3), 0, packet([10, 9, 9, 9], 0));
    assert_eq!(ports(&mut switch, ms(3)), [0u16; 0]);
}

#[test]
fn refusals_have_kinds() {
    let mut switch = router();
    let program = switch.program().clone();
    let kind = |switch: &mut Switch, entry: &Entry| switch.add_entry(0, entry).unwrap_err().kind;
    let good = route(&program, [10, 7, 0, 0], 16, 1);
    assert_eq!(kind(&mut switch, &route(&program, [10, 1, 2, 3], 32, 9)), ErrorKind::AlreadyExists);
    assert_eq!(kind(&mut switch, &route(&program, [10, 1, 2, 3], 33, 9)), ErrorKind::InvalidArgument);
    let wide = Entry { key: vec![KeyMatch::Lpm { value: vec![1, 0, 0, 0, 0], prefix: 8 }], ..good.clone() };
    assert_eq!(kind(&mut switch, &wide), ErrorKind::InvalidArgument);
    let exact = Entry { key: vec![KeyMatch::Exact(vec![1])], ..good.clone() };
    assert_eq!(kind(&mut switch, &exact), ErrorKind::InvalidArgument);
    let two = Entry { key: vec![KeyMatch::Any, KeyMatch::Any], ..good.clone() };
    assert_eq!(kind(&mut switch, &two), ErrorKind::InvalidArgument);
    let priority = Entry { priority: 1, ..good.clone() };
    assert_eq!(kind(&mut switch, &priority), ErrorKind::InvalidArgument);
    let member = Entry { action: ActionSpec::Member(1), ..good.clone() };
    assert_eq!(kind(&mut switch, &member), ErrorKind::InvalidArgument);
    let action = Entry { action: ActionSpec::Direct { action: 77, arguments: vec![] }, ..good.clone() };
    assert_eq!(kind(&mut switch, &action), ErrorKind::InvalidArgument);
    assert_eq!(switch.delete_entry(0, 99).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(switch.delete_entry(9, 0).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(switch.entry_counter(0, 0).unwrap_err().kind, ErrorKind::InvalidArgument);
    assert_eq!(switch.entry_count(0).unwrap(), 4, "nothing was changed");
    let near = program.table("rootes").unwrap_err();
    assert_eq!(near.kind, ErrorKind::NotFound);
    assert!(near.message.contains("did you mean 'ingress.routes'?"), "{near}");
}

#[test]
fn constant_and_full_tables_refuse() {
    let mut builder = forward();
    let table = &mut builder.root["pipelines"][0]["tables"][0];
    table["max_size"] = json!(1);
    let mut switch = builder.switch(SwitchConfig::default());
    let program = switch.program().clone();
    switch.add_entry(0, &route(&program, [1, 0, 0, 0], 8, 1)).unwrap();
    let full = switch.add_entry(0, &route(&program, [2, 0, 0, 0], 8, 1)).unwrap_err();
    assert_eq!(full.kind, ErrorKind::ResourceExhausted);

    let table = &mut builder.root["pipelines"][0]["tables"][0];
    table["entries"] = json!([{
        "match_key": [{"match_type": "lpm", "key": "0x0a000000", "prefix_length": 8}],
        "action_entry": {"action_id": 1, "action_data": ["0x1", "0x6"]},
        "priority": 1,
    }]);
    table["default_entry"]["action_entry_const"] = json!(true);
    let mut switch = builder.switch(SwitchConfig::default());
    switch.receive(ms(0), 0, packet([10, 0, 0, 1], 0));
    assert_eq!(ports(&mut switch, ms(0)), [6]);
    let denied = |error: belljar_p4::control::ControlError| {
        assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error}")
    };
    denied(switch.add_entry(0, &route(&program, [2, 0, 0, 0], 8, 1)).unwrap_err());
    denied(switch.delete_entry(0, 0).unwrap_err());
    denied(switch.set_default(0, &route(&program, [0; 4], 0, 1).action).unwrap_err());
}

#[test]
fn command_text_sets_a_switch_up() {
    let mut switch = forward().switch(SwitchConfig::default());
    let text = "\
        # routes\n\
        table_add routes forward 10.0.0.0/8 => 02:00:00:00:00:01 1\n\
        table_add ingress.routes ingress.forward 0x0a010000/16 => 0x020000000002 0x2\n\
        table_set_default routes forward 02:00:00:00:00:03 3\n\
        table_num_entries routes\n\
        table_dump routes\n\
        mc_mgrp_create 1\nmc_node_create 5 0 3\nmc_node_associate 1 0\nmirroring_add 7 4\n\
        set_queue_depth 100 1\nset_queue_rate 1000\n";
    let printed = commands::apply(&mut switch, text).unwrap();
    assert!(printed.contains("entry 1 was added to ingress.routes\n2\n"), "{printed}");
    assert!(
        printed.contains("ipv4.dstAddr=0x0a010000/16 => ingress.forward(0x020000000002, 0x0002)"),
        "{printed}"
    );
    switch.receive(ms(0), 0, packet([10, 1, 0, 1], 0));
    switch.receive(ms(0), 0, packet([11, 1, 0, 1], 0));
    assert_eq!(ports(&mut switch, ms(0)), [2, 3]);
    let refuse = |switch: &mut Switch, text: &str| commands::apply(switch, text).unwrap_err().to_string();
    // Lines without a command are skipped with a warning, and the rest is executed.
    let text = "// routes\n\ntable_ad routes forward\nset_queue_depth 100 1\ntable_num_entries routes\n";
    assert_eq!(
        commands::apply(&mut switch, text).unwrap(),
        "warning: line 1 is skipped: comments begin with '#'\n\
         warning: line 3 is skipped: the command 'table_ad' does not exist; did you mean 'table_add'?\n2\n"
    );
    assert_eq!(commands::warnings(text).len(), 2);
    let error = refuse(&mut switch, "table_add routes forwrd 10.0.0.0/8 => 1 1");
    assert!(error.contains("did you mean 'ingress.forward'?"), "{error}");
    for wrong in [
        "table_add",
        "table_add routes",
        "table_add routes forward =>",
        "table_add routes forward 1.2.3.4 => 1 1",
        "table_add routes forward 1.2.3.4/99 => 1 1",
        "table_add routes forward 1.2.3.4/9 => 1 1 1",
        "counter_read c 0",
        "mc_node_create x",
        "mirroring_get 1",
        "set_queue_depth 1 9999",
        "register_read",
        "meter_set_rates m 0 x",
        "meter_set_rates m 0 0.1:10",
        "meter_array_set_rates m 0.1:10",
    ] {
        refuse(&mut switch, wrong);
    }
}

#[test]
fn runtime_files_set_a_switch_up() {
    let mut switch = forward().switch(SwitchConfig::default());
    let text = r#"{
        "target": "bmv2", "p4info": "a", "bmv2_json": "b",
        "table_entries": [
            {"table": "routes", "default_action": true, "action_name": "drop", "action_params": {}},
            {"table": "ingress.routes", "match": {"ipv4.dstAddr": ["10.0.1.1", 32]},
             "action_name": "ingress.forward", "action_params": {"dst": "08:00:00:00:01:11", "port": 3}}],
        "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}]}],
        "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 2, "instance": 1}]}]
    }"#;
    runtime::apply(&mut switch, text).unwrap();
    switch.receive(ms(0), 0, packet([10, 0, 1, 1], 0));
    let left = leaving(&mut switch, ms(0));
    assert_eq!((left[0].0, &left[0].1[..6]), (3, &[8, 0, 0, 0, 1, 0x11][..]));
    assert_eq!(switch.multicast_copies(1).unwrap().len(), 1);
    assert!(switch.clone_session(5).is_some());
    let refuse = |text: &str| {
        runtime::apply(&mut forward().switch(SwitchConfig::default()), text).unwrap_err().to_string()
    };
    let error = refuse(
        r#"{"table_entries": [{"table": "routes", "match": {"ipv4.dst": [1, 1]}, "action_name": "drop"}]}"#,
    );
    assert_eq!(
        error,
        "table_entries[0]: table 'ingress.routes' has no key 'ipv4.dst'; did you mean 'ipv4.dstAddr'?"
    );
    let error = refuse(
        r#"{"table_entries": [{"table": "routes", "match": {}, "action_name": "forward", "action_params": {"dst": 1}}]}"#,
    );
    assert_eq!(error, "table_entries[0]: action 'ingress.forward' has no value for 'port'");
    assert!(refuse(r#"{"tables": []}"#).contains("unknown field"));
    assert!(refuse("[").contains("line 1"));
}

#[test]
fn a_trace_says_what_happens() {
    let mut switch = router();
    switch.set_trace(true);
    switch.receive(ms(1), 2, packet([10, 1, 2, 3], 0));
    ports(&mut switch, ms(1));
    let trace = switch.take_trace();
    let wanted = [
        "0.001000000 packet 1: ingress from port 2, 34 bytes",
        "  parser state start",
        "    extract ethernet (14 bytes)",
        "  parser state ipv4",
        "  table ingress.routes ipv4.dstAddr=0x0a010203: hit entry 3 -> ingress.forward(dst=0x020000000004, port=0x0004)",
        "  sent by port 4: 34 bytes",
    ];
    for line in wanted {
        assert!(trace.lines().any(|found| found == line), "no line {line:?} in\n{trace}");
    }
}

#[test]
fn short_packets_are_parser_errors_and_go_on() {
    let mut builder = Builder::new();
    builder.always(
        0,
        "mark",
        vec![assign("standard_metadata", "egress_spec", field("standard_metadata", "parser_error"))],
    );
    let mut switch = builder.switch(SwitchConfig::default());
    for (n, len) in [13, 14, 33, 34].into_iter().enumerate() {
        let mut bytes = packet([1, 2, 3, 4], 0);
        bytes.truncate(len);
        let now = SimTime::from_secs(n as u64);
        switch.receive(now, 0, bytes.clone());
        let left = leaving(&mut switch, now);
        assert_eq!(left, [(if len == 34 { 0 } else { 1 }, bytes)], "{len}");
    }
}

/// `BELLJAR_BLESS=1` rewrites the JSON in `examples/`.
#[test]
fn the_example_is_this_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/p4-router.json");
    let text = serde_json::to_string_pretty(&forward().root).unwrap() + "\n";
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text, "{path}: run with BELLJAR_BLESS=1");
}

#[test]
fn a_bridge_floods_and_forwards() {
    let mut switch = bridge().switch(SwitchConfig::default());
    let text = "mc_mgrp_create 1\nmc_node_create 0 1 2 3\nmc_node_associate 1 0\ntable_add stations forward 02:00:00:00:00:aa => 3";
    commands::apply(&mut switch, text).unwrap();
    switch.receive(ms(0), 1, packet([1, 1, 1, 1], 0));
    assert_eq!(ports(&mut switch, ms(0)), [3]);
    let mut other = packet([1, 1, 1, 1], 0);
    other[0] = 0xff;
    switch.receive(ms(1), 1, other);
    assert_eq!(ports(&mut switch, ms(1)), [2, 3], "not back to where it came from");
    assert_eq!(switch.dropped(Drop::Egress), 1);
}
