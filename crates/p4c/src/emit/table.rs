//! Tables.

use super::control::{After, Node};
use super::{Result, field_name, header_name, hex_bits};
use crate::ir::*;
use crate::source::Diagnostic;
use num_bigint::BigInt;
use num_traits::{One, Zero};
use serde_json::{Map as Object, Value, json};

/// The JSON of a table.
pub fn table(program: &Program, index: usize, after: &After) -> Result<Value> {
    let table = &program.tables[index];
    let keys = table.keys.iter().map(|key| {
        let target = if key.validity {
            json!([header_name(program, &key.field.header), "$valid$"])
        } else {
            field_name(program, &key.field)
        };
        json!({"match_type": target_kind(&key.kind), "name": key.name, "target": target, "mask": null})
    });
    let names = table.actions.iter().map(|action| program.actions[*action].name.clone()).collect::<Vec<_>>();
    let kind = match &table.profile {
        None => "simple",
        Some(profile) if program.profiles[*profile].algorithm.is_some() => "indirect_ws",
        Some(_) => "indirect",
    };
    let (base, next) = next_tables(&names, after, table);
    let counters = table.counter;
    // p4c takes the number of entries for the size of a table that has some.
    let size = if table.entries.is_empty() { table.size } else { table.entries.len() as u64 };
    let mut value = json!({
        "name": table.name, "id": 0, "key": keys.collect::<Vec<_>>(), "match_type": match_type(table), "type": kind,
        "max_size": size, "with_counters": counters,
        "support_timeout": table.timeout, "direct_meters": table.meter, "action_ids": table.actions, "actions": names,
        "base_default_next": base, "next_tables": next,
    });
    if let Some(profile) = table.profile {
        value["action_profile"] = json!(program.profiles[profile].name);
    } else if let Some((action, args, is_const)) = &table.default {
        value["default_entry"] = json!({
            "action_id": table.actions[*action], "action_const": is_const,
            "action_data": data(program, table.actions[*action], args), "action_entry_const": is_const,
        });
    }
    if !table.entries.is_empty() {
        let mut entries = table.entries.iter().collect::<Vec<_>>();
        entries.sort_by_key(|entry| entry.priority);
        let entries =
            entries.into_iter().map(|entry| entry_json(program, table, entry)).collect::<Result<Vec<_>>>()?;
        value["entries"] = json!(entries);
    }
    Ok(value)
}

fn data(program: &Program, action: usize, args: &[BigInt]) -> Vec<Value> {
    let params = &program.actions[action].params;
    args.iter().zip(params).map(|(arg, (_, scalar))| json!(hex_bits(arg, scalar.width()))).collect()
}

fn next_tables(names: &[String], after: &After, table: &Table) -> (Node, Value) {
    let mut next = Object::new();
    let base = match after {
        After::Any(node) => {
            for name in names {
                next.insert(name.clone(), json!(node));
            }
            node.clone()
        }
        After::Hit(hit, miss) => {
            next.insert("__HIT__".into(), json!(hit));
            next.insert("__MISS__".into(), json!(miss));
            None
        }
        After::Actions(nodes) => {
            for (name, node) in names.iter().zip(nodes) {
                next.insert(name.clone(), json!(node));
            }
            table.default.as_ref().and_then(|(action, ..)| nodes[*action].clone())
        }
    };
    (base, Value::Object(next))
}

/// BMv2's name of a match kind.
fn target_kind(kind: &str) -> &str {
    if kind == "optional" { "ternary" } else { kind }
}

fn match_type(table: &Table) -> &'static str {
    let has = |kind: &str| table.keys.iter().any(|key| target_kind(&key.kind) == kind);
    let prefixes = table.keys.iter().filter(|key| key.kind == "lpm").count();
    if has("range") {
        "range"
    } else if has("ternary") || prefixes > 1 {
        "ternary"
    } else if has("lpm") {
        "lpm"
    } else {
        "exact"
    }
}

fn entry_json(program: &Program, table: &Table, entry: &Entry) -> Result<Value> {
    let mut keys = Vec::new();
    for (set, key) in entry.keys.iter().zip(&table.keys) {
        let width = key.field.scalar.width();
        let all = (BigInt::one() << width) - 1;
        let hex = |value: &BigInt| hex_bits(&(value & &all), width);
        let value = match (target_kind(&key.kind), set) {
            ("exact", KeySet::Value(value)) => json!({"match_type": "exact", "key": hex(value)}),
            ("lpm", KeySet::Value(value)) => {
                json!({"match_type": "lpm", "key": hex(value), "prefix_length": width})
            }
            ("lpm", KeySet::Any) => {
                json!({"match_type": "lpm", "key": hex(&BigInt::zero()), "prefix_length": 0})
            }
            ("lpm", KeySet::Mask(value, mask)) => {
                let Some(length) = prefix_length(mask, width) else {
                    return Err(Diagnostic::error(entry.span, "the mask of an lpm key must be a prefix")
                        .help("its ones come first, such as 0xFFFF0000"));
                };
                json!({"match_type": "lpm", "key": hex(&(value & mask)), "prefix_length": length})
            }
            ("ternary", KeySet::Value(value)) => {
                json!({"match_type": "ternary", "key": hex(value), "mask": hex(&all)})
            }
            ("ternary", KeySet::Mask(value, mask)) => {
                json!({"match_type": "ternary", "key": hex(&(value & mask)), "mask": hex(mask)})
            }
            ("ternary", KeySet::Any) => {
                json!({"match_type": "ternary", "key": hex(&BigInt::zero()), "mask": hex(&BigInt::zero())})
            }
            ("range", KeySet::Value(value)) => {
                json!({"match_type": "range", "start": hex(value), "end": hex(value)})
            }
            ("range", KeySet::Range(low, high)) => {
                json!({"match_type": "range", "start": hex(low), "end": hex(high)})
            }
            ("range", KeySet::Any) => {
                json!({"match_type": "range", "start": hex(&BigInt::zero()), "end": hex(&all)})
            }
            _ => {
                return Err(Diagnostic::error(
                    entry.span,
                    "this set cannot be an entry of a key of its kind",
                ));
            }
        };
        keys.push(value);
    }
    let action = table.actions[entry.action];
    Ok(json!({
        "match_key": keys,
        "action_entry": {"action_id": action, "action_data": data(program, action, &entry.args)},
        "priority": entry.priority,
    }))
}

fn prefix_length(mask: &BigInt, width: u32) -> Option<u32> {
    let zeros = if mask.is_zero() { u64::from(width) } else { mask.trailing_zeros().unwrap_or(0) };
    let zeros = u32::try_from(zeros).ok()?;
    let wanted = ((BigInt::one() << (width - zeros.min(width))) - 1) << zeros.min(width);
    (*mask == wanted || mask.is_zero()).then(|| width - zeros.min(width))
}

/// The action profiles of a pipeline.
pub fn profiles(program: &Program, pipeline: usize) -> Vec<Value> {
    let mut list = Vec::new();
    for (id, profile) in program.profiles.iter().enumerate() {
        let used = program.tables.iter().any(|table| table.profile == Some(id));
        if profile.pipeline != pipeline || !used {
            continue;
        }
        let mut value = json!({"name": profile.name, "id": id, "max_size": profile.size});
        if let Some(algorithm) = &profile.algorithm {
            let input = profile
                .input
                .iter()
                .map(|field| json!({"type": "field", "value": field_name(program, field)}));
            value["selector"] = json!({"algo": algorithm, "input": input.collect::<Vec<_>>()});
        }
        list.push(value);
    }
    list
}
