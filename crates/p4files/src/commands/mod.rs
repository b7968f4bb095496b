//! Command files of `simple_switch_CLI`: one command per line.

mod arrays;
mod profiles;
mod replication;
mod save;
mod tables;

pub use save::save;

use super::values;
use belljar_base::SimDuration;
use belljar_p4::Switch;
use belljar_p4::control::{ActionSpec, Entry, KeyMatch, MatchKind};
use belljar_p4json::LoadError;
use std::path::Path;

/// Supported commands with their arguments.
const COMMANDS: [(&str, &str); 54] = [
    ("act_prof_add_member_to_group", "PROFILE MEMBER GROUP"),
    ("act_prof_create_group", "PROFILE"),
    ("act_prof_create_member", "PROFILE ACTION [ARGUMENTS]"),
    ("act_prof_delete_group", "PROFILE GROUP"),
    ("act_prof_delete_member", "PROFILE MEMBER"),
    ("act_prof_modify_member", "PROFILE ACTION MEMBER [ARGUMENTS]"),
    ("act_prof_remove_member_from_group", "PROFILE MEMBER GROUP"),
    ("counter_read", "COUNTER INDEX"),
    ("counter_reset", "COUNTER"),
    ("counter_write", "COUNTER INDEX PACKETS BYTES"),
    ("mc_dump", ""),
    ("mc_mgrp_create", "GROUP"),
    ("mc_mgrp_destroy", "GROUP"),
    ("mc_node_associate", "GROUP NODE"),
    ("mc_node_create", "RID PORTS [| LAGS]"),
    ("mc_node_destroy", "NODE"),
    ("mc_node_dissociate", "GROUP NODE"),
    ("mc_node_update", "NODE PORTS [| LAGS]"),
    ("mc_set_lag_membership", "LAG PORTS"),
    ("meter_array_set_rates", "METER RATE:BURST RATE:BURST"),
    ("meter_get_rates", "METER INDEX"),
    ("meter_set_rates", "METER INDEX RATE:BURST RATE:BURST"),
    ("mirroring_add", "SESSION PORT"),
    ("mirroring_add_mc", "SESSION GROUP"),
    ("mirroring_delete", "SESSION"),
    ("mirroring_get", "SESSION"),
    ("pvs_add", "VALUE_SET VALUE"),
    ("pvs_clear", "VALUE_SET"),
    ("pvs_get", "VALUE_SET"),
    ("pvs_remove", "VALUE_SET VALUE"),
    ("register_read", "REGISTER [INDEX]"),
    ("register_reset", "REGISTER"),
    ("register_write", "REGISTER INDEX VALUE"),
    ("set_crc16_parameters", "CALCULATION POLYNOMIAL INITIAL XOR REFLECT_IN REFLECT_OUT"),
    ("set_crc32_parameters", "CALCULATION POLYNOMIAL INITIAL XOR REFLECT_IN REFLECT_OUT"),
    ("set_queue_depth", "PACKETS [PORT [PRIORITY]]"),
    ("set_queue_rate", "PACKETS_PER_SECOND [PORT [PRIORITY]]"),
    ("show_actions", ""),
    ("show_tables", ""),
    ("table_add", "TABLE ACTION KEYS => [ARGUMENTS] [PRIORITY]"),
    ("table_clear", "TABLE"),
    ("table_delete", "TABLE HANDLE"),
    ("table_dump", "TABLE"),
    ("table_indirect_add", "TABLE KEYS => MEMBER [PRIORITY]"),
    ("table_indirect_add_with_group", "TABLE KEYS => GROUP [PRIORITY]"),
    ("table_indirect_delete", "TABLE HANDLE"),
    ("table_indirect_reset_default", "TABLE"),
    ("table_indirect_set_default", "TABLE MEMBER"),
    ("table_indirect_set_default_with_group", "TABLE GROUP"),
    ("table_modify", "TABLE ACTION HANDLE [ARGUMENTS]"),
    ("table_num_entries", "TABLE"),
    ("table_reset_default", "TABLE"),
    ("table_set_default", "TABLE ACTION [ARGUMENTS]"),
    ("table_set_timeout", "TABLE HANDLE MILLISECONDS"),
];

type Result<T> = std::result::Result<T, String>;

/// Executes the commands of a file; returns their output.
pub fn apply_file(switch: &mut Switch, path: &Path) -> std::result::Result<String, LoadError> {
    let text = belljar_inputs::read_text(path).map_err(|error| {
        LoadError::new(
            "",
            format!("cannot be read: {error}"),
            "name a file with commands of simple_switch_CLI",
        )
        .in_file(path)
    })?;
    apply(switch, &text).map_err(|error| error.in_file(path))
}

/// Executes commands up to the first failure; returns their output. As by `simple_switch_CLI`, lines without
/// a command are skipped; the output has a warning for each.
pub fn apply(switch: &mut Switch, text: &str) -> std::result::Result<String, LoadError> {
    let mut out = String::new();
    for (n, line) in text.lines().enumerate() {
        if let Some(warning) = skipped(n + 1, line) {
            out.push_str(&format!("warning: {warning}\n"));
            continue;
        }
        let printed = command(switch, line)
            .map_err(|problem| LoadError::new(format!("line {}", n + 1), problem, ""))?;
        out.push_str(&printed);
    }
    Ok(out)
}

/// Warnings about the lines that [`apply`] skips.
pub fn warnings(text: &str) -> Vec<String> {
    text.lines().enumerate().filter_map(|(n, line)| skipped(n + 1, line)).collect()
}

/// Reason why a line is skipped; `None` if it is empty, a comment, or a command.
fn skipped(number: usize, line: &str) -> Option<String> {
    let name = line.split_whitespace().next().filter(|name| !name.starts_with('#'))?;
    if COMMANDS.iter().any(|(known, _)| *known == name) {
        return None;
    }
    if name.starts_with("//") {
        return Some(format!("line {number} is skipped: comments begin with '#'"));
    }
    Some(format!("line {number} is skipped: {}", unknown(name)))
}

fn unknown(name: &str) -> String {
    let near = belljar_p4json::nearest(name, COMMANDS.iter().map(|(known, _)| *known));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
    format!("the command '{name}' does not exist{hint}")
}

/// Executes one command; returns its output.
pub(crate) fn command(switch: &mut Switch, line: &str) -> Result<String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(String::new());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, arguments) = (words[0], &words[1..]);
    let Some((_, usage)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(name));
    };
    let mut call = Call { switch, name, usage, arguments };
    match name {
        _ if name.starts_with("table_") || name.starts_with("show_") => call.table_command(),
        _ if name.starts_with("act_prof_") => call.profile_command(),
        _ if name.starts_with("mc_") || name.starts_with("mirroring_") => call.replication_command(),
        _ => call.array_command(),
    }
}

/// Command with its arguments.
struct Call<'a> {
    switch: &'a mut Switch,
    name: &'a str,
    usage: &'a str,
    arguments: &'a [&'a str],
}

impl<'a> Call<'a> {
    /// Returns the arguments if their number is from `least` to `most`.
    fn take(&self, least: usize, most: usize) -> Result<&'a [&'a str]> {
        if self.arguments.len() < least || self.arguments.len() > most {
            return Err(format!(
                "'{}' has {} arguments; write {} {}",
                self.name,
                self.arguments.len(),
                self.name,
                self.usage
            ));
        }
        Ok(self.arguments)
    }
    fn usage<T>(&self) -> Result<T> {
        Err(format!("the command is not complete; write {} {}", self.name, self.usage))
    }
    fn table(&self) -> Result<u32> {
        match self.arguments.first() {
            Some(name) => Ok(self.switch.program().table(name)?),
            None => self.usage(),
        }
    }
}

fn number<T: TryFrom<u64>>(text: &str) -> Result<T> {
    let value = values::small(text)?;
    T::try_from(value).map_err(|_| format!("'{text}' is too large"))
}

fn arguments(words: &[&str]) -> Result<Vec<Vec<u8>>> {
    words.iter().map(|word| values::parse(word)).collect()
}

/// Parses the match value of a key field.
fn key_match(text: &str, kind: MatchKind) -> Result<KeyMatch> {
    Ok(match kind {
        MatchKind::Exact => KeyMatch::Exact(values::parse(text)?),
        MatchKind::Valid => KeyMatch::Exact(vec![match text {
            "true" | "1" => 1,
            "false" | "0" => 0,
            _ => return Err(format!("'{text}' is not true or false")),
        }]),
        MatchKind::Lpm => {
            let (value, prefix) = text
                .split_once('/')
                .ok_or_else(|| format!("'{text}' has no prefix length; write VALUE/LENGTH"))?;
            let prefix = prefix.parse().map_err(|_| format!("'{prefix}' is not a prefix length"))?;
            KeyMatch::Lpm { value: values::parse(value)?, prefix }
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let (value, mask) =
                text.split_once("&&&").ok_or_else(|| format!("'{text}' has no mask; write VALUE&&&MASK"))?;
            KeyMatch::Ternary { value: values::parse(value)?, mask: values::parse(mask)? }
        }
        MatchKind::Range => {
            let (low, high) =
                text.split_once("->").ok_or_else(|| format!("'{text}' is not a range; write FIRST->LAST"))?;
            KeyMatch::Range { low: values::parse(low)?, high: values::parse(high)? }
        }
    })
}

fn key(switch: &Switch, table: u32, words: &[&str]) -> Result<Vec<KeyMatch>> {
    let info = switch.program().table_info(table);
    if info.key.len() != words.len() {
        let names: Vec<_> =
            info.key.iter().map(|key| format!("{} ({})", key.name, key.kind.name())).collect();
        return Err(format!(
            "table '{}' has {} key fields, not {}: {}",
            info.name,
            info.key.len(),
            words.len(),
            names.join(", ")
        ));
    }
    words.iter().zip(&info.key).map(|(word, key)| key_match(word, key.kind)).collect()
}

/// Builds an entry from a key, an action and an optional priority.
fn entry(
    switch: &Switch,
    table: u32,
    keys: &[&str],
    action: ActionSpec,
    priority: Option<&str>,
) -> Result<Entry> {
    let priority = priority.map_or(Ok(0), number::<u32>)?;
    let priority = i32::try_from(priority).map_err(|_| format!("priority {priority} is too large"))?;
    Ok(Entry { key: key(switch, table, keys)?, priority, action, idle_timeout: None })
}

fn milliseconds(text: &str) -> Result<SimDuration> {
    Ok(SimDuration::from_millis(number(text)?))
}
