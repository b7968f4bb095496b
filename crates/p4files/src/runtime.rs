//! Runtime files of the P4 tutorials, `s1-runtime.json`: entries, default actions, multicast groups and clone
//! sessions by name. Priorities are P4Runtime's: the largest wins.

use super::values;
use belljar_p4::control::{ActionSpec, ControlError, Entry, KeyMatch, MatchKind};
use belljar_p4::switch::{CloneSession, Replica};
use belljar_p4::{Program, Switch};
use belljar_p4json::LoadError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;

/// Priority from which P4Runtime's priorities are subtracted to get the switch's.
const LARGEST: i64 = i32::MAX as i64;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Runtime {
    /// Ignored: the target is always BMv2.
    #[serde(rename = "target")]
    _target: Option<String>,
    #[serde(rename = "p4info")]
    _p4info: Option<String>,
    #[serde(rename = "bmv2_json")]
    _bmv2_json: Option<String>,
    table_entries: Vec<TableEntry>,
    multicast_group_entries: Vec<MulticastGroup>,
    clone_session_entries: Vec<CloneEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableEntry {
    table: String,
    #[serde(default, rename = "match")]
    matches: Map<String, Value>,
    #[serde(default)]
    default_action: bool,
    action_name: String,
    #[serde(default)]
    action_params: Map<String, Value>,
    #[serde(default)]
    priority: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MulticastGroup {
    multicast_group_id: u16,
    #[serde(default)]
    replicas: Vec<ReplicaEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplicaEntry {
    egress_port: u16,
    #[serde(default)]
    instance: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloneEntry {
    clone_session_id: u16,
    #[serde(default)]
    replicas: Vec<ReplicaEntry>,
    #[serde(default)]
    packet_length_bytes: Option<u32>,
}

/// Configures a switch from a file.
pub fn apply_file(switch: &mut Switch, path: &Path) -> Result<(), LoadError> {
    let text = belljar_inputs::read_text(path).map_err(|error| {
        LoadError::new("", format!("cannot be read: {error}"), "name a runtime file such as s1-runtime.json")
            .in_file(path)
    })?;
    apply(switch, &text).map_err(|error| error.in_file(path))
}

/// Configures a switch from the text of a file.
pub fn apply(switch: &mut Switch, text: &str) -> Result<(), LoadError> {
    let reader = &mut serde_json::Deserializer::from_str(text);
    let runtime: Runtime = serde_path_to_error::deserialize(reader).map_err(|error| {
        let place = error.path().to_string();
        let place = if place == "." { String::new() } else { place };
        LoadError::new(place, error.into_inner().to_string(), "see the runtime files of the P4 tutorials")
    })?;
    for (n, entry) in runtime.table_entries.iter().enumerate() {
        table_entry(switch, entry)
            .map_err(|problem| LoadError::new(format!("table_entries[{n}]"), problem, ""))?;
    }
    for (n, group) in runtime.multicast_group_entries.iter().enumerate() {
        multicast_group(switch, group)
            .map_err(|error| LoadError::new(format!("multicast_group_entries[{n}]"), error.message, ""))?;
    }
    for (n, session) in runtime.clone_session_entries.iter().enumerate() {
        let destination = CloneSession {
            replicas: replicas(&session.replicas),
            group: None,
            length: session.packet_length_bytes.filter(|length| *length > 0),
        };
        switch
            .set_clone_session(session.clone_session_id, destination)
            .map_err(|error| LoadError::new(format!("clone_session_entries[{n}]"), error.message, ""))?;
    }
    Ok(())
}

fn replicas(entries: &[ReplicaEntry]) -> Vec<Replica> {
    entries.iter().map(|entry| Replica { port: entry.egress_port, instance: entry.instance }).collect()
}

fn multicast_group(switch: &mut Switch, group: &MulticastGroup) -> Result<(), ControlError> {
    switch.create_multicast_group(group.multicast_group_id)?;
    switch.set_multicast_group(group.multicast_group_id, &replicas(&group.replicas))
}

fn table_entry(switch: &mut Switch, entry: &TableEntry) -> Result<(), String> {
    let program = switch.program().clone();
    let table = program.table(&entry.table)?;
    let action = program.action_of(table, &entry.action_name)?;
    let action = ActionSpec::Direct { action, arguments: arguments(&program, action, &entry.action_params)? };
    if entry.default_action {
        if !entry.matches.is_empty() {
            return Err("a default action matches nothing; leave 'match' out".to_owned());
        }
        return Ok(switch.set_default(table, &action)?);
    }
    let key = key(&program, table, &entry.matches)?;
    let priority = match (program.table_info(table).priorities, entry.priority) {
        (false, None | Some(0)) => 0,
        (false, Some(_)) => return Err("the table's entries have no priority; leave it out".to_owned()),
        (true, Some(priority)) if (1..=LARGEST).contains(&priority) => (LARGEST - priority) as i32,
        (true, _) => {
            return Err(
                "the table's entries need a priority; write one of 1 or more, the largest wins".to_owned()
            );
        }
    };
    switch.add_entry(table, &Entry { key, priority, action, idle_timeout: None })?;
    Ok(())
}

fn arguments(program: &Program, action: u32, given: &Map<String, Value>) -> Result<Vec<Vec<u8>>, String> {
    let info = program.action_info(action);
    let names = || info.parameters.iter().map(|parameter| parameter.name.as_str());
    for name in given.keys() {
        if !names().any(|known| known == name) {
            let hint = belljar_p4json::nearest(name, names());
            let hint = hint.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            return Err(format!("action '{}' has no parameter '{name}'{hint}", info.name));
        }
    }
    let value = |parameter: &belljar_p4::control::ParameterInfo| {
        let value = given.get(&parameter.name);
        let value =
            value.ok_or_else(|| format!("action '{}' has no value for '{}'", info.name, parameter.name))?;
        number(value, parameter.width)
    };
    info.parameters.iter().map(value).collect()
}

/// Parses a value: a number, an address, or a list of one of them.
fn number(value: &Value, width: u32) -> Result<Vec<u8>, String> {
    match value {
        Value::Array(one) if one.len() == 1 => number(&one[0], width),
        Value::String(text) => values::parse(text),
        Value::Bool(truth) => Ok(vec![u8::from(*truth)]),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Ok(value.to_be_bytes().to_vec()),
            // A negative number is converted to two's complement.
            (None, Some(value)) if width < 64 && width > 0 && value >= -(1 << (width - 1)) => {
                Ok((value & ((1 << width) - 1)).to_be_bytes().to_vec())
            }
            _ => Err(format!("{number} is not a whole number of at most {width} bits")),
        },
        other => Err(format!("{other} is not a number or address")),
    }
}

fn key(program: &Program, table: u32, given: &Map<String, Value>) -> Result<Vec<KeyMatch>, String> {
    let info = program.table_info(table);
    let names = || info.key.iter().map(|key| key.name.as_str());
    for name in given.keys() {
        if !names().any(|known| known == name) {
            let hint = belljar_p4json::nearest(name, names());
            let hint = hint.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            return Err(format!("table '{}' has no key '{name}'{hint}", info.name));
        }
    }
    let field = |key: &belljar_p4::control::KeyInfo| -> Result<KeyMatch, String> {
        let value = given.get(&key.name);
        let pair = |value: &Value| match value.as_array().map(Vec::as_slice) {
            Some([first, second]) => Ok((first.clone(), second.clone())),
            _ => Err(format!("{value} for '{}' is not a list of two", key.name)),
        };
        Ok(match (key.kind, value) {
            (MatchKind::Exact | MatchKind::Valid, None) => {
                return Err(format!("there is no value for the exact key '{}'", key.name));
            }
            (_, None) => KeyMatch::Any,
            (MatchKind::Exact | MatchKind::Valid | MatchKind::Optional, Some(value)) => {
                KeyMatch::Exact(number(value, key.width)?)
            }
            (MatchKind::Lpm, Some(value)) => {
                let (value, prefix) = pair(value)?;
                let prefix = prefix.as_u64().filter(|prefix| *prefix <= u64::from(key.width));
                let prefix = prefix.ok_or_else(|| {
                    format!("the prefix length of '{}' is not 0 to {}", key.name, key.width)
                })?;
                KeyMatch::Lpm { value: number(&value, key.width)?, prefix: prefix as u32 }
            }
            (MatchKind::Ternary, Some(value)) => {
                let (value, mask) = pair(value)?;
                KeyMatch::Ternary { value: number(&value, key.width)?, mask: number(&mask, key.width)? }
            }
            (MatchKind::Range, Some(value)) => {
                let (low, high) = pair(value)?;
                KeyMatch::Range { low: number(&low, key.width)?, high: number(&high, key.width)? }
            }
        })
    };
    info.key.iter().map(field).collect()
}
