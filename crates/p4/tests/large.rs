//! Tables with 100,000 entries of each kind: every entry is found, and the best of several matching ones
//! wins.

mod common;

use belljar_base::SimTime;
use belljar_p4::control::{ActionSpec, Entry, KeyMatch};
use belljar_p4::{Program, Switch, SwitchConfig};
use common::{Builder, assign, drop_packet, parameter};
use serde_json::json;
use std::sync::Arc;

const ENTRIES: u32 = 100_000;

/// Program with one table of a kind, whose actions set the port. A packet is a header of two words, the first
/// of which is the key.
fn program(kind: &str) -> Arc<Program> {
    // Compilers emit optional keys as ternary ones.
    let kind = if kind == "optional" { "ternary" } else { kind };
    let mut builder = Builder::new();
    let words = json!([["value", 32, false], ["other", 32, false]]);
    builder.list("header_types").push(json!({"name": "key_t", "id": 4, "fields": words}));
    builder.list("headers").push(json!({"name": "key", "id": 4, "header_type": "key_t", "metadata": false}));
    builder.root["parsers"][0]["parse_states"] = json!([{
        "name": "start", "id": 0,
        "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "key"}]}],
        "transition_key": [],
        "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}],
    }]);
    builder.root["deparsers"][0]["order"] = json!(["key"]);
    let drop = builder.action("ingress.drop", &[], vec![drop_packet()]);
    let send = builder.action(
        "ingress.send",
        &[("port", 9), ("other", 32)],
        vec![assign("standard_metadata", "egress_spec", parameter(0)), assign("key", "other", parameter(1))],
    );
    builder.table(0, "ingress.large", &[(kind, "key", "value")], &[drop, send], json!({"max_size": ENTRIES}));
    builder.build()
}

/// Distinct values spread over 32 bits; the lowest six bits are 0.
fn value(n: u32) -> u32 {
    (n * 40_503 % (1 << 26)) << 6
}

#[test]
fn a_hundred_thousand_entries_of_each_kind() {
    type Make = fn(Vec<u8>) -> KeyMatch;
    let kinds: [(&str, Make); 5] = [
        ("exact", KeyMatch::Exact),
        ("lpm", |value| KeyMatch::Lpm { value, prefix: 26 }),
        ("ternary", |value| KeyMatch::Ternary { value, mask: vec![0xff, 0xff, 0xff, 0xc0] }),
        ("range", |low| KeyMatch::Range { high: vec![low[0], low[1], low[2], low[3] | 0x3f], low }),
        ("optional", |value| KeyMatch::Ternary { value, mask: vec![0xff; 4] }),
    ];
    for (kind, make) in kinds {
        let program = program(kind);
        let mut switch = Switch::new(program.clone(), SwitchConfig { ports: 4, ..SwitchConfig::default() });
        let empty = switch.memory();
        let table = program.table("large").unwrap();
        let send = program.action_of(table, "send").unwrap();
        let action =
            |n: u32| ActionSpec::Direct { action: send, arguments: vec![vec![1], n.to_be_bytes().to_vec()] };
        for n in 0..ENTRIES {
            let priority = if matches!(kind, "exact" | "lpm") { 0 } else { 1 + (n % 7) as i32 };
            let key = vec![make(value(n).to_be_bytes().to_vec())];
            let entry = Entry { key, priority, action: action(n), idle_timeout: None };
            switch.add_entry(table, &entry).unwrap_or_else(|error| panic!("{kind} {n}: {}", error.message));
        }
        assert_eq!(switch.entry_count(table).unwrap(), ENTRIES as usize);
        let full =
            Entry { key: vec![make(vec![0xff; 4])], priority: 1, action: action(0), idle_timeout: None };
        let full = if matches!(kind, "exact" | "lpm") { Entry { priority: 0, ..full } } else { full };
        assert!(switch.add_entry(table, &full).unwrap_err().message.contains("is full with 100000 entries"));
        for n in (0..ENTRIES).step_by(61) {
            // A key within the prefix, mask or range.
            let key = value(n) | if matches!(kind, "exact" | "optional") { 0 } else { n % 64 };
            let mut packet = key.to_be_bytes().to_vec();
            packet.extend([0; 4]);
            switch.receive(SimTime::from_nanos(u64::from(n)), 0, packet);
            let left = switch.poll(SimTime::from_nanos(u64::from(n))).unwrap_or_else(|| panic!("{kind} {n}"));
            assert_eq!((left.port, &left.packet[4..]), (1, &n.to_be_bytes()[..]), "{kind}");
        }
        let counts = switch.table_counts(table);
        assert_eq!((counts.misses, counts.hits), (0, u64::from(ENTRIES.div_ceil(61))), "{kind}");
        let each = (switch.memory() - empty) / u64::from(ENTRIES);
        println!("{kind}: {each} bytes an entry");
        assert!((40..1_000).contains(&each), "{kind}: {each} bytes an entry");
        // Half of the entries are deleted; the others remain.
        let handles = switch.entries(table).unwrap();
        handles.iter().step_by(2).for_each(|handle| switch.delete_entry(table, *handle).unwrap());
        for (n, found) in [(0, false), (1, true), (99_998, false), (99_999, true)] {
            let mut packet = value(n).to_be_bytes().to_vec();
            packet.extend([0; 4]);
            let now = SimTime::from_nanos(1_000_000);
            switch.receive(now, 0, packet);
            assert_eq!(switch.poll(now).is_some(), found, "{kind} {n}");
        }
    }
}
