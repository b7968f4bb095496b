//! Robustness: arbitrary programs, entries and packets cause neither panic nor hang, and runs are
//! reproducible.

mod common;

use belljar_base::{Seed, SimTime, Stream};
use belljar_p4::control::{ActionSpec, Entry, KeyMatch, MatchKind};
use belljar_p4::{Program, Switch, SwitchConfig};
use belljar_p4files::{commands, runtime, stf};

use common::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// Program that uses most features.
fn rich() -> Builder {
    let mut builder = forward();
    builder.list("field_lists").push(json!({"id": 1, "name": "keep", "elements": [field("meta", "a")]}));
    builder
        .list("learn_lists")
        .push(json!({"id": 1, "name": "learn", "elements": [field("ethernet", "src")]}));
    builder.list("register_arrays").push(json!({"name": "r", "id": 0, "size": 16, "bitwidth": 32}));
    builder
        .list("meter_arrays")
        .push(json!({"name": "m", "id": 0, "type": "bytes", "rate_count": 2, "size": 4, "is_direct": false}));
    builder
        .list("header_types")
        .push(json!({"name": "tag_t", "id": 4, "fields": [["v", 7, false], ["last", 1, false]]}));
    builder
        .list("header_types")
        .push(json!({"name": "opt_t", "id": 5, "fields": [["n", 8, false], ["o", "*"]], "max_length": 41}));
    for n in 0..3 {
        builder.list("headers").push(
            json!({"name": format!("tag[{n}]"), "id": 10 + n, "header_type": "tag_t", "metadata": false}),
        );
    }
    builder.list("headers").push(json!({"name": "opt", "id": 20, "header_type": "opt_t", "metadata": false}));
    builder
        .list("header_stacks")
        .push(json!({"name": "tag", "id": 0, "header_type": "tag_t", "header_ids": [10, 11, 12]}));
    let states = builder.root["parsers"][0]["parse_states"].as_array_mut().unwrap();
    states[1]["transitions"][0]["next_state"] = json!("tags");
    states.push(json!({"name": "tags", "id": 2,
        "parser_ops": [{"op": "extract", "parameters": [{"type": "stack", "value": "tag"}]}],
        "transition_key": [{"type": "stack_field", "value": ["tag", "last"]}, {"type": "lookahead", "value": [0, 4]}],
        "transitions": [{"type": "hexstr", "value": "0x0100", "mask": "0x0100", "next_state": "opt"},
            {"type": "default", "value": null, "mask": null, "next_state": "tags"}]}));
    states.push(json!({"name": "opt", "id": 3,
        "parser_ops": [
            {"op": "extract_VL", "parameters": [{"type": "regular", "value": "opt"},
                operation("<<", operation("&", field("ipv4", "totalLen"), hexstr(0x1f)), hexstr(3))]},
            {"op": "advance", "parameters": [hexstr(8)]}],
        "transition_key": [], "transitions": []}));
    builder.root["deparsers"][0]["order"] = json!(["ethernet", "ipv4", "tag[0]", "tag[1]", "tag[2]", "opt"]);
    let index = operation("&", field("ipv4", "diffserv"), hexstr(7));
    let dynamic = operation(
        "access_field",
        operation("dereference_header_stack", json!({"type": "header_stack", "value": "tag"}), index.clone()),
        json!(0),
    );
    builder.always(
        0,
        "work",
        vec![
            call(
                "register_write",
                json!([{"type": "register_array", "value": "r"}, index.clone(), field("ipv4", "srcAddr")]),
            ),
            call(
                "execute_meter",
                json!([{"type": "meter_array", "value": "m"}, index.clone(), field("meta", "colour")]),
            ),
            call("assign", json!([dynamic, operation("+", field("meta", "colour"), hexstr(5))])),
            call("push", json!([{"type": "header_stack", "value": "tag"}, hexstr(1)])),
            call("add_header", json!([{"type": "header", "value": "tag[0]"}])),
            call("_jump_if_zero", json!([field("ipv4", "protocol"), hexstr(7)])),
            call("generate_digest", json!([hexstr(0), hexstr(1)])),
            call("clone_ingress_pkt_to_egress", json!([hexstr(1), hexstr(1)])),
            call(
                "modify_field_rng_uniform",
                json!([field("meta", "b"), hexstr(0), field("ipv4", "srcAddr")]),
            ),
            call("pop", json!([{"type": "header_stack", "value": "tag"}, index])),
        ],
    );
    builder.table(
        0,
        "acl",
        &[("ternary", "ipv4", "srcAddr"), ("range", "ipv4", "protocol"), ("exact", "meta", "colour")],
        &[2],
        json!({}),
    );
    builder
}

fn damage(text: &str, stream: &mut Stream) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=stream.below(4) {
        let at = stream.below(bytes.len() as u64) as usize;
        match stream.below(5) {
            0 => bytes[at] = b" \"{}[]0123456789,:-xnulltrueabc"[stream.below(31) as usize],
            1 => {
                bytes.remove(at);
            }
            2 => {
                let end = (at + stream.below(40) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + stream.below(40) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at.max(1)),
        }
        if bytes.is_empty() {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Mutates values; the JSON remains well-formed.
fn twist(value: &mut Value, stream: &mut Stream, chance: f64) {
    match value {
        Value::Array(items) => {
            if !items.is_empty() && stream.chance(chance) {
                let at = stream.below(items.len() as u64) as usize;
                if stream.chance(0.5) {
                    items.remove(at);
                } else {
                    let copy = items[at].clone();
                    items.push(copy);
                }
            }
            items.iter_mut().for_each(|item| twist(item, stream, chance));
        }
        Value::Object(map) => {
            if stream.chance(chance)
                && let Some(key) = map.keys().nth(stream.below(map.len().max(1) as u64) as usize).cloned()
            {
                map.remove(&key);
            }
            map.values_mut().for_each(|item| twist(item, stream, chance));
        }
        other => {
            if stream.chance(chance) {
                let choices = [
                    json!(null),
                    json!(0),
                    json!(1),
                    json!(7),
                    json!(-1),
                    json!(65_536),
                    json!(u64::MAX),
                    json!(true),
                    json!(""),
                    json!("*"),
                    json!("0x0"),
                    json!("0xffffffffffffffffffffffffffffffffffff"),
                    json!("-0x1"),
                    json!("ethernet"),
                    json!("tag"),
                    json!("opt"),
                    json!("ipv4"),
                    json!("meta"),
                    json!("start"),
                    json!("tags"),
                    json!("expression"),
                    json!("+"),
                    json!("<<"),
                    json!("ingress.routes"),
                    json!("acl"),
                    json!("field"),
                    json!("header_stack"),
                ];
                *other = choices[stream.below(choices.len() as u64) as usize].clone();
            }
        }
    }
}

fn drive(switch: &mut Switch, stream: &mut Stream, packets: u64) {
    for n in 0..packets {
        let mut bytes = packet([10, 0, 0, 1], stream.below(60) as usize);
        for _ in 0..stream.below(6) {
            let at = stream.below(bytes.len() as u64) as usize;
            bytes[at] = stream.next_u32() as u8;
        }
        if stream.chance(0.2) {
            bytes.truncate(stream.below(60) as usize);
        }
        let now = SimTime::from_nanos(n * 1_000);
        switch.receive(now, stream.below(20) as u16, bytes);
        while switch.poll(now).is_some() {}
        while switch.notification().is_some() {}
    }
}

fn random_entry(program: &Program, table: u32, stream: &mut Stream) -> Entry {
    let info = program.table_info(table);
    let bytes = |stream: &mut Stream| {
        let mut bytes = vec![0; stream.below(6) as usize];
        stream.fill(&mut bytes);
        bytes
    };
    let mut key = Vec::new();
    for part in &info.key {
        let value = |stream: &mut Stream| {
            let fits = part.width.div_ceil(8) as usize - usize::from(!part.width.is_multiple_of(8));
            let mut value = bytes(stream);
            value.truncate(if stream.chance(0.05) { 6 } else { fits });
            value
        };
        let kind = if stream.chance(0.05) { MatchKind::Range } else { part.kind };
        key.push(match kind {
            MatchKind::Exact | MatchKind::Valid | MatchKind::Optional => KeyMatch::Exact(value(stream)),
            MatchKind::Lpm => KeyMatch::Lpm { value: value(stream), prefix: stream.below(35) as u32 },
            MatchKind::Ternary => KeyMatch::Ternary { value: value(stream), mask: value(stream) },
            MatchKind::Range => KeyMatch::Range { low: value(stream), high: value(stream) },
        });
    }
    if stream.chance(0.05) {
        key.push(KeyMatch::Any);
    }
    let action = match stream.below(20) {
        0 => ActionSpec::Member(stream.next_u32()),
        1 => ActionSpec::Group(stream.next_u32()),
        2 => ActionSpec::Direct { action: stream.below(9) as u32, arguments: vec![bytes(stream)] },
        _ => {
            let action = info.actions[stream.below(info.actions.len() as u64) as usize];
            let count = program.action_info(action).parameters.len();
            ActionSpec::Direct {
                action,
                arguments: (0..count).map(|_| vec![stream.next_u32() as u8]).collect(),
            }
        }
    };
    let priority = if info.priorities || stream.chance(0.05) { stream.below(5) as i32 } else { 0 };
    Entry { key, priority, action, idle_timeout: None }
}

#[test]
fn damaged_programs_are_refused_or_run() {
    let builder = rich();
    builder.build();
    let text = builder.root.to_string();
    let mut stream = Seed(11).stream(&["programs"]);
    let (mut refused, mut ran) = (0, 0);
    for round in 0..4_000 {
        let program = if round % 4 == 0 {
            Program::from_text(&damage(&text, &mut stream))
        } else {
            let mut root = builder.root.clone();
            twist(&mut root, &mut stream, [0.0005, 0.002, 0.01][round % 3]);
            Program::from_text(&root.to_string())
        };
        match program {
            Err(error) => {
                assert!(!error.problem.is_empty());
                refused += 1;
            }
            Ok(program) => {
                let mut switch = Switch::new(Arc::new(program), SwitchConfig::default());
                drive(&mut switch, &mut stream, 20);
                ran += 1;
            }
        }
    }
    assert!(refused > 500 && ran > 500, "{refused} refused, {ran} ran");
}

#[test]
fn any_entries_and_packets_go() {
    let program = rich().build();
    let mut switch = Switch::new(program.clone(), SwitchConfig::default());
    let mut stream = Seed(12).stream(&["entries"]);
    let (mut added, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let table = stream.below(program.table_names().count() as u64) as u32;
        let entry = random_entry(&program, table, &mut stream);
        match switch.add_entry(table, &entry) {
            Ok(handle) => {
                added += 1;
                assert_eq!(switch.find_entry(table, &entry).unwrap(), handle);
                if stream.chance(0.5) {
                    switch.delete_entry(table, handle).unwrap();
                }
            }
            Err(error) => {
                assert!(!error.message.is_empty());
                refused += 1;
            }
        }
        drive(&mut switch, &mut stream, 1);
    }
    assert!(added > 100 && refused > 100, "{added} added, {refused} refused");
}

#[test]
fn damaged_files_and_scripts_are_refused() {
    let program = rich().build();
    let mut stream = Seed(13).stream(&["files"]);
    let text = "table_add routes forward 10.0.0.0/8 => 1 1\ntable_add acl drop 1&&&3 1->5 1 => 5\nmc_mgrp_create 1\n\
        mc_node_create 5 0 3 | 1\nmc_node_associate 1 0\nmeter_set_rates m 1 0.1:5 0.2:7\nregister_write r 1 7\ncounter_read c 0\n";
    let json = r#"{"table_entries": [{"table": "acl", "match": {"ipv4.srcAddr": [1, 3], "ipv4.protocol": [1, 5], "meta.colour": 1},
        "action_name": "drop", "action_params": {}, "priority": 5}], "multicast_group_entries": [{"multicast_group_id": 1,
        "replicas": [{"egress_port": 1, "instance": 1}]}], "clone_session_entries": [{"clone_session_id": 1, "replicas": []}]}"#;
    let script = "add routes ipv4.dstAddr:10.0.0.0/8 forward(dst:1, port:1) = A\nadd acl 5 ipv4.srcAddr:0x01** drop()\n\
        packet 0 0102030405060708090a0b0c0800 4500\nexpect 1 01** 02 $\nwait\ncheck_counter c($A) packets == 1\nsetdefault routes drop()\n";
    for _ in 0..3_000 {
        let mut switch = Switch::new(program.clone(), SwitchConfig::default());
        let _ = commands::apply(&mut switch, &damage(text, &mut stream));
        let _ = runtime::apply(&mut switch, &damage(json, &mut stream));
        drive(&mut switch, &mut stream, 2);
    }
    for _ in 0..500 {
        stf::run(&program, &damage(script, &mut stream), false);
    }
}

#[test]
fn runs_are_alike() {
    let run = || {
        let program = rich().build();
        let mut switch = Switch::new(
            program.clone(),
            SwitchConfig { rate: Some(1_000_000_000), ..SwitchConfig::default() },
        );
        switch.set_trace(true);
        let mut stream = Seed(14).stream(&["runs"]);
        for _ in 0..200 {
            let table = stream.below(program.table_names().count() as u64) as u32;
            let _ = switch.add_entry(table, &random_entry(&program, table, &mut stream));
        }
        let mut left = Vec::new();
        for n in 0..500u64 {
            let now = SimTime::from_nanos(n * 300);
            let len = stream.below(60) as usize;
            switch.receive(now, 0, packet([10, 0, stream.next_u32() as u8, 1], len));
            left.extend(std::iter::from_fn(|| switch.poll(now)));
        }
        (left, switch.take_trace())
    };
    assert!(run() == run());
}

#[test]
fn a_parser_that_goes_round_ends() {
    let mut builder = Builder::new();
    builder.root["parsers"][0]["parse_states"][0]["parser_ops"] = json!([]);
    builder.root["parsers"][0]["parse_states"][0]["transitions"][1]["next_state"] = json!("start");
    builder.always(
        0,
        "out",
        vec![assign("standard_metadata", "egress_spec", field("standard_metadata", "parser_error"))],
    );
    let mut switch = builder.switch(SwitchConfig::default());
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    assert_eq!(ports(&mut switch, ms(0)), [5], "ParserTimeout");
}

#[test]
fn refusals_name_the_place() {
    let refuse = |change: &dyn Fn(&mut Value)| {
        let mut root = rich().root;
        change(&mut root);
        Program::from_text(&root.to_string()).unwrap_err().to_string()
    };
    let error = refuse(&|root| root["actions"][1]["primitives"][0]["op"] = json!("teleport"));
    assert!(
        error.starts_with(
            "actions[1] (ingress.forward).primitives[0] (teleport): primitive 'teleport' is not known"
        ),
        "{error}"
    );
    let error = refuse(&|root| {
        root["actions"][1]["primitives"][0]["parameters"][0]["value"][1] = json!("egress_spce")
    });
    assert!(error.contains("has no field 'egress_spce'; write 'egress_spec' if that is meant"), "{error}");
    let error = refuse(&|root| root["pipelines"][0]["tables"][0]["key"][0]["match_type"] = json!("fuzzy"));
    assert!(error.starts_with("pipelines[0] (ingress).tables[0] (ingress.routes).key[0]"), "{error}");
    let error = refuse(&|root| root["pipelines"][0]["name"] = json!("main"));
    assert!(error.contains("pipeline 'main' is not v1model's"), "{error}");
    let error = refuse(&|root| root["calculations"][0]["algo"] = json!("md5"));
    assert!(error.contains("hash algorithm 'md5' is not known; use one of crc8"), "{error}");
    let error = refuse(&|root| root["register_arrays"][0]["size"] = json!(u64::MAX));
    assert!(error.contains("would not fit 256 MiB"), "{error}");
}

#[test]
fn control_flow_that_goes_round_ends() {
    let mut builder = rich();
    builder.root["pipelines"][0]["tables"][1]["base_default_next"] = json!("ingress.routes");
    let mut switch = builder.switch(SwitchConfig::default());
    switch.receive(ms(0), 0, packet([1, 1, 1, 1], 0));
    while switch.poll(ms(0)).is_some() {}
    assert_eq!(switch.received(), 1);
}
