//! Table entries in STF: `add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= NAME]`.

use super::Script;
use crate::values;
use belljar_p4::control::{ActionSpec, Entry, KeyInfo, KeyMatch, MatchKind};

/// Priority from which STF's priorities are subtracted: in STF the largest wins.
const BASE: i64 = 10_000;

impl Script {
    pub(super) fn add(&mut self, text: &str) -> Result<(), String> {
        let (text, name) = match text.rsplit_once('=') {
            Some((before, name)) => (before.trim(), Some(name.trim().to_owned())),
            None => (text, None),
        };
        let (before, action) = split_action(text)?;
        let mut words = before.split_whitespace();
        let program = self.switch.program().clone();
        let table = program.table(words.next().unwrap_or_default())?;
        let info = program.table_info(table);
        let mut key: Vec<KeyMatch> = info.key.iter().map(absent).collect();
        let mut priority = None;
        for word in words {
            match word.split_once(':') {
                Some((name, value)) => {
                    let at = find_key(&info.key, name)
                        .ok_or_else(|| format!("table '{}' has no key '{name}'", info.name))?;
                    key[at] = key_match(&info.key[at], value)?;
                }
                None => {
                    priority = Some(word.parse::<i64>().map_err(|_| format!("'{word}' is not a priority"))?)
                }
            }
        }
        let priority = if info.priorities { (BASE - priority.unwrap_or(BASE)).max(0) as i32 } else { 0 };
        let action = self.action(table, action)?;
        let handle = self.switch.add_entry(table, &Entry { key, priority, action, idle_timeout: None })?;
        if let Some(name) = name {
            self.handles.insert(name, handle);
        }
        Ok(())
    }

    pub(super) fn set_default(&mut self, text: &str) -> Result<(), String> {
        let (table, action) = split_action(text)?;
        let table = self.switch.program().table(table.trim())?;
        let action = self.action(table, action)?;
        Ok(self.switch.set_default(table, &action)?)
    }

    /// Executes `remove all`, or removes a named entry.
    pub(super) fn remove(&mut self, text: &str) -> Result<(), String> {
        if text.eq_ignore_ascii_case("all") {
            for table in 0..self.switch.program().table_names().count() as u32 {
                if !self.switch.program().table_info(table).constant {
                    self.switch.clear_table(table)?;
                }
            }
            return Ok(());
        }
        let mut words = text.split_whitespace();
        let (Some(table), Some(name)) = (words.next(), words.next()) else {
            return Err("write remove all, or remove TABLE NAME".to_owned());
        };
        let table = self.switch.program().table(table)?;
        let name = name.trim_start_matches('$');
        let handle = self.handles.remove(name).ok_or_else(|| format!("no entry is named '{name}'"))?;
        Ok(self.switch.delete_entry(table, handle)?)
    }

    fn action(&self, table: u32, text: &str) -> Result<ActionSpec, String> {
        let (name, rest) = text.split_once('(').unwrap_or((text, ")"));
        let program = self.switch.program();
        let action = program.action_of(table, name.trim())?;
        let info = program.action_info(action);
        let mut arguments = vec![None; info.parameters.len()];
        let inside =
            rest.trim().strip_suffix(')').ok_or_else(|| format!("the arguments of '{name}' have no end"))?;
        for argument in inside.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
            let (parameter, value) = argument
                .split_once(':')
                .ok_or_else(|| format!("'{argument}' is not written as NAME:VALUE"))?;
            let at = info.parameters.iter().position(|one| one.name == parameter.trim());
            let at =
                at.ok_or_else(|| format!("action '{}' has no parameter '{}'", info.name, parameter.trim()))?;
            arguments[at] = Some(values::parse(value.trim())?);
        }
        let missing = arguments.iter().position(Option::is_none);
        if let Some(missing) = missing {
            return Err(format!(
                "action '{}' has no value for '{}'",
                info.name, info.parameters[missing].name
            ));
        }
        Ok(ActionSpec::Direct { action, arguments: arguments.into_iter().flatten().collect() })
    }
}

/// Splits off the action and its arguments; returns the text before the action, and the action.
fn split_action(text: &str) -> Result<(&str, &str), String> {
    let open = text.find('(').ok_or("the action has no arguments; write ACTION()")?;
    let start = text[..open].trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
    Ok((&text[..start], &text[start..]))
}

fn absent(key: &KeyInfo) -> KeyMatch {
    match key.kind {
        MatchKind::Exact | MatchKind::Valid => KeyMatch::Exact(vec![0]),
        _ => KeyMatch::Any,
    }
}

/// Index of a key field. STF writes `extra$0.h` for `extra[0].h`, and may omit the prefix and `.$valid$`.
fn find_key(keys: &[KeyInfo], name: &str) -> Option<usize> {
    let name = match name.split_once('$') {
        Some((stack, rest)) if rest.starts_with(|digit: char| digit.is_ascii_digit()) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            format!("{stack}[{}]{}", &rest[..digits], &rest[digits..])
        }
        _ => name.to_owned(),
    };
    let mut forms = vec![name.clone(), format!("{name}$"), format!("{name}.$valid$")];
    if let Some(header) = name.strip_suffix("valid") {
        forms.push(format!("{header}$valid$"));
        forms.push(format!("{}$valid$", header.trim_end_matches('$')));
    }
    let exact = forms.iter().find_map(|form| keys.iter().position(|key| key.name == *form));
    exact.or_else(|| {
        let ends = |key: &KeyInfo| forms.iter().any(|form| key.name.ends_with(&format!(".{form}")));
        keys.iter().position(ends)
    })
}

fn key_match(key: &KeyInfo, text: &str) -> Result<KeyMatch, String> {
    Ok(match key.kind {
        MatchKind::Exact | MatchKind::Valid => KeyMatch::Exact(values::parse(text)?),
        MatchKind::Lpm => match text.split_once('/') {
            Some((value, prefix)) => {
                let prefix = prefix.parse().map_err(|_| format!("'{prefix}' is not a prefix length"))?;
                KeyMatch::Lpm { value: values::parse(value)?, prefix }
            }
            None => {
                let (value, mask) = wild(text)?;
                let prefix =
                    if mask.is_empty() { key.width } else { mask.iter().map(|byte| byte.count_ones()).sum() };
                KeyMatch::Lpm { value, prefix }
            }
        },
        MatchKind::Ternary | MatchKind::Optional => match text.split_once("&&&") {
            Some((value, mask)) => {
                KeyMatch::Ternary { value: values::parse(value)?, mask: values::parse(mask)? }
            }
            None => match wild(text)? {
                (value, mask) if mask.is_empty() => KeyMatch::Exact(value),
                (value, mask) => KeyMatch::Ternary { value, mask },
            },
        },
        MatchKind::Range => match text.split_once("->") {
            Some((low, high)) => KeyMatch::Range { low: values::parse(low)?, high: values::parse(high)? },
            None => KeyMatch::Exact(values::parse(text)?),
        },
    })
}

/// Parses a value with wildcard digits, and its mask; a decimal number has an empty mask.
fn wild(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let ones = match text.get(..2) {
        Some("0x") => 'f',
        Some("0b") => '1',
        Some("0o") => '7',
        _ => return Ok((values::parse(text)?, Vec::new())),
    };
    let digits = &text[2..];
    let mask: String = digits.chars().map(|digit| if digit == '*' { '0' } else { ones }).collect();
    let value = digits.replace('*', "0");
    Ok((values::parse(&format!("{}{value}", &text[..2]))?, values::parse(&format!("{}{mask}", &text[..2]))?))
}
