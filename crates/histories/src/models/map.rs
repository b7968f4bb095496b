//! Map: values by key, each key like a register, and snapshots of all keys.

use super::{listed, unknown};
use crate::symbols::Symbols;
use crate::{Model, Operation, Outcome, Value, sort};

/// Map that starts empty: the value of a missing key is null.
#[derive(Default)]
pub(super) struct KeyMap {
    symbols: Symbols,
}

/// Keys with their values, in the order of keys. A missing key is not listed.
type Content = Vec<(u32, u32)>;

/// Call on a map. A value of `None` is null: the key is missing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    /// Read of this value, or of any.
    Get(u32, Option<Option<u32>>),
    Put(u32, Option<u32>),
    Cas(u32, Option<u32>, Option<u32>),
    /// Read of all keys, or of anything.
    Snapshot(Option<Content>),
}

fn get(content: &Content, key: u32) -> Option<u32> {
    content.binary_search_by_key(&key, |one| one.0).ok().map(|at| content[at].1)
}

fn put(content: &Content, key: u32, value: Option<u32>) -> Content {
    let mut after = content.clone();
    match (after.binary_search_by_key(&key, |one| one.0), value) {
        (Ok(at), Some(value)) => after[at].1 = value,
        (Err(at), Some(value)) => after.insert(at, (key, value)),
        (Ok(at), None) => {
            after.remove(at);
        }
        (Err(_), None) => {}
    }
    after
}

impl KeyMap {
    fn value(&mut self, value: &Value) -> Option<u32> {
        (!value.is_null()).then(|| self.symbols.number(value))
    }

    fn content(&mut self, value: &Value) -> Option<Content> {
        // A missing value sorts and reads as 0.
        let mut content: Vec<(usize, usize)> = Vec::new();
        let mut add = |map: &mut KeyMap, key: &Value, value: &Value| {
            let key = map.symbols.number(key) as usize;
            content.push((key, map.value(value).map_or(0, |value| value as usize + 1)));
        };
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    add(self, &Value::Text(name.clone()), value);
                }
            }
            _ => {
                for pair in value.list()? {
                    let (key, value) = pair.pair()?;
                    add(self, key, value);
                }
            }
        }
        sort::pairs(&mut content);
        let present = |(key, value): (usize, usize)| Some((key as u32, value.checked_sub(1)? as u32));
        Some(content.into_iter().filter_map(present).collect())
    }
}

impl Model for KeyMap {
    type Call = Call;
    type State = Content;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        let known = operation.outcome == Outcome::Ok;
        if operation.function == "snapshot" {
            if operation.key.is_some() {
                return Err("\"snapshot\" has a \"key\", but reads all keys".to_string());
            }
            return match known.then(|| self.content(&operation.result)) {
                None => Ok(Call::Snapshot(None)),
                Some(Some(content)) => Ok(Call::Snapshot(Some(content))),
                Some(None) => Err(format!(
                    "the result of \"snapshot\" is {}, not [[KEY, VALUE], ...]",
                    operation.result
                )),
            };
        }
        let functions = "get, put, delete, cas and snapshot";
        if !["get", "put", "delete", "cas"].contains(&operation.function.as_str()) {
            return Err(unknown(operation, functions));
        }
        let Some(key) = &operation.key else {
            return Err(format!("\"{}\" has no \"key\"", operation.function));
        };
        let key = self.symbols.number(key);
        match operation.function.as_str() {
            "get" if known => Ok(Call::Get(key, Some(self.value(&operation.result)))),
            "get" => Ok(Call::Get(key, None)),
            "put" => Ok(Call::Put(key, self.value(&operation.argument))),
            "delete" => Ok(Call::Put(key, None)),
            _ => match operation.argument.pair() {
                Some((old, new)) => Ok(Call::Cas(key, self.value(old), self.value(new))),
                None => Err(format!("the value of \"cas\" is {}, not [OLD, NEW]", operation.argument)),
            },
        }
    }

    fn initial(&self) -> Content {
        Vec::new()
    }

    fn step(&self, state: &Content, call: &Call) -> Option<Content> {
        match call {
            Call::Get(_, None) | Call::Snapshot(None) => Some(state.clone()),
            Call::Get(key, Some(value)) => (get(state, *key) == *value).then(|| state.clone()),
            Call::Put(key, value) => Some(put(state, *key, *value)),
            Call::Cas(key, old, new) => (get(state, *key) == *old).then(|| put(state, *key, *new)),
            Call::Snapshot(Some(content)) => (state == content).then(|| state.clone()),
        }
    }

    fn is_read(&self, call: &Call) -> bool {
        matches!(call, Call::Get(..) | Call::Snapshot(_))
    }

    fn supports(&self, provider: &Call, observer: &Call) -> bool {
        let (Call::Put(key, written) | Call::Cas(key, _, written)) = provider else { return false };
        match observer {
            Call::Get(other, Some(value)) | Call::Cas(other, value, _) => other == key && value == written,
            Call::Snapshot(Some(content)) => get(content, *key) == *written,
            _ => false,
        }
    }

    fn bytes(&self, state: &Content) -> usize {
        size_of::<Content>() + state.len() * size_of::<(u32, u32)>()
    }

    fn describe(&self, state: &Content) -> String {
        let entry = |&(key, value): &(u32, u32)| {
            format!("{}: {}", self.symbols.value(key), self.symbols.value(value))
        };
        format!("the map is {{{}}}", listed(&mut state.iter().map(entry)))
    }
}
