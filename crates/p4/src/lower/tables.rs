//! Tables and action profiles.

use super::expressions::short;
use super::{Lower, Result, item, line_of};
use crate::control::{ActionSpec, Entry, KeyMatch};
use crate::number::{Number, parse_hex};
use crate::program::{InitialEntry, Key, Lookup, MatchKind, NONE, Profile, Source, Table, TableAction};
use belljar_base::Map;
use belljar_p4json as json;
use serde_json::Value;

/// Maximum width of a table key in bits.
const MAX_KEY: u32 = 2048;

impl<'a> Lower<'a> {
    pub(super) fn profile(&mut self, profile: &json::ActionProfile) -> Result<()> {
        let selector = match &profile.selector {
            None => None,
            Some(selector) => Some(self.within("selector", |lower| {
                lower.calculation(&profile.name, &selector.algo, &selector.input)
            })?),
        };
        self.program.profiles.push(Profile {
            name: profile.name.clone(),
            max_size: profile.max_size.filter(|size| *size > 0).unwrap_or(u64::MAX),
            selector,
            tables: Vec::new(),
            argument_bytes: 0,
        });
        Ok(())
    }

    fn match_kind(&self, kind: &str) -> Result<MatchKind> {
        Ok(match kind {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            "valid" => MatchKind::Valid,
            other => {
                let remedy = "use exact, lpm, ternary, range, optional or valid";
                return Err(self.error_with(format!("match kind '{other}' is not known"), remedy));
            }
        })
    }

    fn key(&mut self, key: &json::TableKey, offset: u32) -> Result<Key> {
        let kind = self.match_kind(&key.match_type)?;
        let (source, width) = match &key.target {
            Value::String(header) if kind == MatchKind::Valid => {
                (Source::Valid(self.find("header", &self.headers, header)?), 1)
            }
            target => self.source_field(target)?,
        };
        let mask = match &key.mask {
            None => None,
            Some(mask) => Some(self.key_value(mask, width)?),
        };
        let target = || match &key.target {
            Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("."),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        let name = key.name.clone().unwrap_or_else(target);
        Ok(Key { name, kind, width, offset, source, mask })
    }

    fn key_value(&self, text: &str, width: u32) -> Result<Vec<u8>> {
        let number =
            parse_hex(text).ok_or_else(|| self.error(format!("'{text}' is not a hexadecimal number")))?;
        if number.bits() > u64::from(width.next_multiple_of(8)) {
            return Err(self.error(format!("'{text}' does not fit {width} bits")));
        }
        let mut out = vec![0; width.div_ceil(8) as usize];
        number.to_bytes(&mut out);
        if !width.is_multiple_of(8) {
            out[0] &= 0xff >> (8 - width % 8);
        }
        Ok(out)
    }

    pub(super) fn table(
        &mut self,
        table: &'a json::Table,
        nodes: &Map<&str, u32>,
        profiles: &Map<&str, u32>,
    ) -> Result<Table> {
        let (mut key, mut offset) = (Vec::new(), 0);
        for (n, part) in table.key.iter().enumerate() {
            let part = self.within(item("key", n, part.name.as_deref().unwrap_or_default()), |lower| {
                lower.key(part, offset)
            })?;
            offset += part.width;
            key.push(part);
        }
        let count = |kind: MatchKind| key.iter().filter(|part| part.kind == kind).count();
        let by_priority =
            count(MatchKind::Ternary) + count(MatchKind::Range) + count(MatchKind::Optional) > 0;
        let lookup = match (
            by_priority || matches!(table.match_type.as_str(), "ternary" | "range"),
            count(MatchKind::Lpm),
        ) {
            (true, _) => Lookup::Ternary,
            (false, 0) => Lookup::Exact,
            (false, 1) => Lookup::Lpm,
            _ => {
                return Err(self.error_with(
                    "more than one key is matched by its longest prefix",
                    "make one of them ternary",
                ));
            }
        };
        if offset > MAX_KEY {
            return Err(self.error_with(
                format!("the key has {offset} bits, at most {MAX_KEY} go"),
                "match on fewer fields",
            ));
        }
        if let Some(range) = key.iter().find(|part| part.kind == MatchKind::Range && part.width > 128) {
            return Err(self.error(format!("the range key '{}' is wider than 128 bits", range.name)));
        }
        // The prefix field comes last, so that the whole key is one prefix.
        let mut at = 0;
        for last in [false, true] {
            for part in
                key.iter_mut().filter(|part| (lookup == Lookup::Lpm && part.kind == MatchKind::Lpm) == last)
            {
                part.offset = at;
                at += part.width;
            }
        }
        let next = |lower: &Self, name: Option<&str>| -> Result<u32> {
            let Some(name) = name else { return Ok(NONE) };
            nodes
                .get(name)
                .copied()
                .ok_or_else(|| lower.error(format!("no table or condition is named '{name}'")))
        };
        let mut actions = Vec::new();
        let ids: Vec<u32> = if table.action_ids.is_empty() {
            let by_name = |name: &String| {
                let found = self.program.actions.iter().position(|action| action.name == *name);
                found.map(|n| n as u32).ok_or_else(|| self.error(format!("no action is named '{name}'")))
            };
            table.actions.iter().map(by_name).collect::<Result<_>>()?
        } else {
            table.action_ids.iter().map(|id| self.action(*id)).collect::<Result<_>>()?
        };
        let otherwise = next(self, table.base_default_next.as_deref())?;
        for action in ids {
            let name = self.program.actions[action as usize].name.as_str();
            let next = match table.next_tables.get(name) {
                Some(value) => next(self, value.as_str())?,
                None => otherwise,
            };
            actions.push(TableAction { action, next });
        }
        let special = |lower: &Self, name: &str| match table.next_tables.get(name) {
            Some(value) => next(lower, value.as_str()).map(Some),
            None => Ok(None),
        };
        let (on_hit, on_miss) = (special(self, "__HIT__")?, special(self, "__MISS__")?);
        let default = match &table.default_entry {
            None => None,
            Some(entry) => Some(self.within("default_entry", |lower| lower.default_entry(entry, &actions))?),
        };
        let kind = table.kind.as_deref().unwrap_or("simple");
        let profile = match (kind, &table.action_profile) {
            ("simple", _) => None,
            ("indirect" | "indirect_ws", Some(name)) => Some(
                profiles
                    .get(name.as_str())
                    .copied()
                    .ok_or_else(|| self.error(format!("no action profile is named '{name}'")))?,
            ),
            ("indirect" | "indirect_ws", None) => {
                let remedy = "name it as action_profile, or as act_prof_name in files without a version";
                return Err(self.error_with("an indirect table has no action profile", remedy));
            }
            (other, _) => {
                let remedy = "use simple, indirect or indirect_ws";
                return Err(self.error_with(format!("a table of type '{other}' is not known"), remedy));
            }
        };
        let entries = match &table.entries {
            None => Vec::new(),
            Some(entries) => entries
                .iter()
                .enumerate()
                .map(|(n, entry)| {
                    self.within(item("entries", n, ""), |lower| lower.initial_entry(n, entry, &key, lookup))
                })
                .collect::<Result<_>>()?,
        };
        let meters = match &table.direct_meters {
            None => None,
            Some(name) => {
                let meters = self.find("meter array", &self.meters, name)?;
                let target = self.root.meter_arrays[meters as usize].result_target.as_ref();
                let (header, field) =
                    target.ok_or_else(|| self.error("the direct meter has no result_target"))?;
                let header = self.find("header", &self.headers, header)?;
                let field = self.fixed_field(header, field);
                Some((
                    meters,
                    field.ok_or_else(|| self.error("the direct meter's result_target does not exist"))?,
                ))
            }
        };
        let counters = self
            .root
            .counter_arrays
            .iter()
            .position(|array| array.is_direct && array.binding.as_deref() == Some(table.name.as_str()));
        let bytes = |action: &TableAction| self.program.actions[action.action as usize].bytes;
        let argument_bytes = actions.iter().map(bytes).max().unwrap_or(0);
        let some = table.entries.as_ref().is_some_and(|entries| !entries.is_empty());
        let changeable = table.entries.iter().flatten().all(|entry| entry.is_const == Some(false));
        let entry = table.default_entry.as_ref();
        Ok(Table {
            name: table.name.clone(),
            key,
            key_bits: offset,
            lookup,
            profile,
            max_size: table.max_size.filter(|size| *size > 0).unwrap_or(1024),
            counters: counters.map(|n| n as u32),
            meters,
            timeouts: table.support_timeout,
            actions,
            on_hit,
            on_miss,
            otherwise,
            default,
            default_action_const: entry.is_some_and(|entry| entry.action_const),
            default_entry_const: entry.is_some_and(|entry| entry.action_entry_const),
            entries,
            constant: some && !changeable,
            argument_bytes,
            line: line_of(table.source_info.as_ref()),
        })
    }

    pub(super) fn action(&self, id: u64) -> Result<u32> {
        self.actions.get(&id).copied().ok_or_else(|| self.error(format!("no action has the id {id}")))
    }

    fn arguments(&self, action: u32, data: &[String]) -> Result<Vec<Vec<u8>>> {
        let action = &self.program.actions[action as usize];
        if action.parameters.len() != data.len() {
            let problem = format!(
                "action '{}' takes {} arguments, not {}",
                action.name,
                action.parameters.len(),
                data.len()
            );
            return Err(self.error(problem));
        }
        action
            .parameters
            .iter()
            .zip(data)
            .map(|(parameter, text)| self.key_value(text, parameter.width))
            .collect()
    }

    fn default_entry(&self, entry: &json::DefaultEntry, actions: &[TableAction]) -> Result<(u32, Vec<u8>)> {
        let action = self.action(entry.action_id)?;
        if !actions.iter().any(|one| one.action == action) {
            return Err(self.error(format!("action {} is not one of the table's", entry.action_id)));
        }
        let lowered = &self.program.actions[action as usize];
        // A default action without arguments gets zeros.
        let arguments = if entry.action_data.is_empty() {
            lowered.parameters.iter().map(|_| vec![0]).collect()
        } else {
            self.arguments(action, &entry.action_data)?
        };
        Ok((action, lowered.pack(&arguments)))
    }

    fn initial_entry(
        &self,
        n: usize,
        entry: &json::Entry,
        key: &[Key],
        lookup: Lookup,
    ) -> Result<InitialEntry> {
        if entry.match_key.len() != key.len() {
            return Err(self.error(format!(
                "the entry has {} keys, the table {}",
                entry.match_key.len(),
                key.len()
            )));
        }
        let mut matches = Vec::new();
        for (value, key) in entry.match_key.iter().zip(key) {
            let hex = |text: Option<&str>, what: &str| {
                let text =
                    text.ok_or_else(|| self.error(format!("the value of '{}' has no {what}", key.name)))?;
                self.key_value(text, key.width)
            };
            let text = value.key.as_ref().and_then(Value::as_str);
            let kind = self.match_kind(&value.match_type)?;
            matches.push(match kind {
                MatchKind::Valid => {
                    let truth = value.key.as_ref().and_then(Value::as_bool);
                    let truth = truth.ok_or_else(|| {
                        self.error(format!(
                            "{} is not true or false",
                            short(value.key.as_ref().unwrap_or(&Value::Null))
                        ))
                    })?;
                    KeyMatch::Exact(vec![u8::from(truth)])
                }
                MatchKind::Exact => KeyMatch::Exact(hex(text, "key")?),
                MatchKind::Lpm => {
                    let prefix = value.prefix_length.filter(|prefix| *prefix <= u64::from(key.width));
                    let prefix = prefix.ok_or_else(|| {
                        self.error(format!("the prefix of '{}' has no proper length", key.name))
                    })?;
                    KeyMatch::Lpm { value: hex(text, "key")?, prefix: prefix as u32 }
                }
                MatchKind::Ternary | MatchKind::Optional => {
                    let mask = match value.mask.as_deref() {
                        Some(mask) => hex(Some(mask), "mask")?,
                        None => ones(key.width),
                    };
                    KeyMatch::Ternary { value: hex(text, "key")?, mask }
                }
                MatchKind::Range => KeyMatch::Range {
                    low: hex(value.start.as_deref(), "start")?,
                    high: hex(value.end.as_deref(), "end")?,
                },
            });
        }
        let action = self.action(entry.action_entry.action_id)?;
        let arguments = self.arguments(action, &entry.action_entry.action_data)?;
        let priority = match lookup {
            Lookup::Ternary => {
                entry.priority.map_or(n as i32 + 1, |priority| priority.clamp(0, i64::from(i32::MAX)) as i32)
            }
            _ => 0,
        };
        let entry = Entry {
            key: matches,
            priority,
            action: ActionSpec::Direct { action, arguments },
            idle_timeout: None,
        };
        Ok(InitialEntry { entry, place: self.place.join(".") })
    }
}

/// Bytes of a value of `width` one bits.
pub(crate) fn ones(width: u32) -> Vec<u8> {
    let mut out = vec![0xff; width.div_ceil(8) as usize];
    if !width.is_multiple_of(8) {
        out[0] >>= 8 - width % 8;
    }
    out
}
