use super::*;
use crate::Switch;
use crate::SwitchConfig;
use crate::control::MatchKind;
use belljar_base::{Seed, Stream};
use serde_json::json;
use std::sync::Arc;

/// Program with one table over these keys: kind and width.
fn program(kinds: &[(&str, u32)]) -> Arc<Program> {
    let fields: Vec<_> =
        kinds.iter().enumerate().map(|(n, (_, width))| json!([format!("f{n}"), width, false])).collect();
    let key: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(n, (kind, _))| json!({"match_type": kind, "target": ["meta", format!("f{n}")], "mask": null}))
        .collect();
    let name = ["range", "ternary", "optional", "lpm"]
        .into_iter()
        .find(|kind| kinds.iter().any(|(one, _)| one == kind));
    let match_type = match name {
        Some("optional") => "ternary",
        other => other.unwrap_or("exact"),
    };
    let root = json!({
        "__meta__": {"version": [2, 23]},
        "header_types": [{"name": "meta_t", "id": 0, "fields": fields},
            {"name": "standard", "id": 1, "fields": [["ingress_port", 9], ["egress_spec", 9]]}],
        "headers": [{"name": "meta", "id": 0, "header_type": "meta_t", "metadata": true},
            {"name": "standard_metadata", "id": 1, "header_type": "standard", "metadata": true}],
        "actions": [{"name": "a", "id": 0, "runtime_data": [{"name": "n", "bitwidth": 16}], "primitives": []}],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "t", "tables": [{"name": "t", "id": 0, "match_type": match_type,
                "type": "simple", "key": key, "max_size": 100_000, "action_ids": [0], "actions": ["a"],
                "next_tables": {"a": null}}]},
            {"name": "egress", "id": 1, "init_table": null}],
    });
    Arc::new(Program::from_text(&root.to_string()).unwrap())
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}
fn value(stream: &mut Stream, width: u32) -> u128 {
    // Values from a small set, so that entries overlap.
    let all = u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
    let narrow = u128::from(stream.below(4)) << (width.saturating_sub(2));
    (if stream.chance(0.7) { narrow | u128::from(stream.below(3)) } else { all }) & bits::mask(width)
}
fn bytes(value: u128) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn random_match(stream: &mut Stream, kind: MatchKind, width: u32) -> KeyMatch {
    let one = value(stream, width);
    match kind {
        MatchKind::Exact | MatchKind::Valid => KeyMatch::Exact(bytes(one)),
        MatchKind::Lpm => {
            KeyMatch::Lpm { value: bytes(one), prefix: stream.below(u64::from(width) + 1) as u32 }
        }
        MatchKind::Ternary => KeyMatch::Ternary { value: bytes(one), mask: bytes(value(stream, width)) },
        MatchKind::Range => {
            let other = value(stream, width);
            KeyMatch::Range { low: bytes(one.min(other)), high: bytes(one.max(other)) }
        }
        MatchKind::Optional if stream.chance(0.3) => KeyMatch::Any,
        MatchKind::Optional => KeyMatch::Exact(bytes(one)),
    }
}

/// Prefix length with which an entry's field matches; `None` if it does not match.
fn matches(part: &KeyMatch, key: u128, width: u32) -> Option<u32> {
    let holds = match part {
        KeyMatch::Exact(value) => number(value) == key,
        KeyMatch::Lpm { value, prefix } => {
            let shift = width - prefix;
            return (shift >= 128 || number(value) >> shift == key >> shift).then_some(*prefix);
        }
        KeyMatch::Ternary { value, mask } => number(value) & number(mask) == key & number(mask),
        KeyMatch::Range { low, high } => (number(low)..=number(high)).contains(&key),
        KeyMatch::Any => true,
    };
    holds.then_some(0)
}

/// Compares lookups with a linear scan of all entries.
fn compare(kinds: &[(&str, u32)], rounds: u32) {
    let program = program(kinds);
    let mut switch = Switch::new(program.clone(), SwitchConfig::default());
    let info = program.table_info(0);
    let described = &program.tables[0];
    let mut model: Vec<(u32, Entry, u64)> = Vec::new();
    let mut stream = Seed(21).stream(&["tables", &format!("{kinds:?}")]);
    let mut found = 0;
    for round in 0..rounds {
        if stream.chance(0.25) && !model.is_empty() {
            let (handle, ..) = model.remove(stream.below(model.len() as u64) as usize);
            switch.delete_entry(0, handle).unwrap();
        } else {
            let key = info.key.iter().map(|key| random_match(&mut stream, key.kind, key.width)).collect();
            let priority = if info.priorities { stream.below(6) as i32 } else { 0 };
            let action = ActionSpec::Direct { action: 0, arguments: vec![vec![1]] };
            let entry = Entry { key, priority, action, idle_timeout: None };
            if let Ok(handle) = switch.add_entry(0, &entry) {
                model.push((handle, entry, u64::from(round)));
            }
        }
        for _ in 0..4 {
            let values: Vec<u128> = info.key.iter().map(|key| value(&mut stream, key.width)).collect();
            let mut key = vec![0; switch.state.tables[0].key_bytes()];
            for (part, value) in described.key.iter().zip(&values) {
                bits::set(&mut key, part.offset, part.width, *value);
            }
            let candidates = model.iter().filter_map(|(handle, entry, sequence)| {
                let mut longest = 0;
                for ((part, value), info) in entry.key.iter().zip(&values).zip(&info.key) {
                    longest += matches(part, *value, info.width)?;
                }
                let rank = if info.priorities { (entry.priority, *sequence) } else { (-(longest as i32), 0) };
                Some((rank, *handle))
            });
            let best = candidates.min().map(|(_, handle)| handle);
            found += u32::from(best.is_some());
            assert_eq!(switch.state.tables[0].find(described, &key), best, "{values:?}");
        }
    }
    assert!(found > rounds / 8, "{kinds:?}: {found} of {rounds}");
    for (handle, entry, _) in &model {
        let read = switch.entry(0, *handle).unwrap();
        assert_eq!(switch.find_entry(0, &read).unwrap(), *handle);
        assert_eq!(read.priority, entry.priority);
    }
    switch.clear_table(0).unwrap();
    assert_eq!(switch.entry_count(0).unwrap(), 0);
}

#[test]
fn lookups_find_what_a_scan_finds() {
    compare(&[("exact", 3)], 300);
    compare(&[("exact", 5), ("exact", 90), ("exact", 40)], 2_000);
    compare(&[("lpm", 32)], 2_000);
    compare(&[("lpm", 13), ("exact", 2)], 2_000);
    compare(&[("exact", 2), ("lpm", 128)], 2_000);
    compare(&[("ternary", 32), ("exact", 2)], 1_500);
    compare(&[("ternary", 128), ("lpm", 9)], 1_500);
    compare(&[("range", 16)], 1_500);
    compare(&[("range", 16), ("range", 128), ("ternary", 8)], 1_000);
    compare(&[("optional", 12), ("optional", 3)], 1_500);
}
