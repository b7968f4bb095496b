//! Lookup of a program's objects by name, and their descriptions.

use super::{ControlError, ErrorKind, Result};
use crate::program::{Lookup, MatchKind, Program};

/// Description of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Full name.
    pub name: String,
    /// Key fields.
    pub key: Vec<KeyInfo>,
    /// Action indices.
    pub actions: Vec<u32>,
    /// Maximum number of entries.
    pub max_size: u64,
    /// Index of the action profile, if any.
    pub profile: Option<u32>,
    /// True if entries have priorities.
    pub priorities: bool,
    /// True if entries cannot be changed.
    pub constant: bool,
    /// True if entries have direct counters.
    pub counters: bool,
    /// True if entries have direct meters.
    pub meters: bool,
    /// True if entries may have idle timeouts.
    pub timeouts: bool,
}

/// Description of a key field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Name.
    pub name: String,
    /// Match kind.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
}

/// Description of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionInfo {
    /// Full name.
    pub name: String,
    /// Parameters.
    pub parameters: Vec<ParameterInfo>,
}

/// Description of an action parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Name.
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// Index of the object with this name, or with a name that ends with a dot and this name.
fn find<'a>(what: &str, name: &str, names: impl Iterator<Item = (u32, &'a str)> + Clone) -> Result<u32> {
    if let Some((n, _)) = names.clone().find(|(_, full)| *full == name) {
        return Ok(n);
    }
    let ends = |full: &str| full.strip_suffix(name).is_some_and(|before| before.ends_with('.'));
    let mut found = names.clone().filter(|(_, full)| ends(full));
    match (found.next(), found.next()) {
        (Some((n, _)), None) => Ok(n),
        (Some((_, first)), Some((_, second))) => Err(ControlError::invalid(format!(
            "{what} '{name}' may be '{first}' or '{second}'; write the full name"
        ))),
        (None, _) => {
            let hint = belljar_p4json::nearest(name, names.map(|(_, full)| full));
            let hint = hint.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            Err(ControlError::not_found(format!("the program has no {what} '{name}'{hint}")))
        }
    }
}

fn numbered<'a, T>(
    all: &'a [T],
    name: impl Fn(&'a T) -> &'a str + Clone,
) -> impl Iterator<Item = (u32, &'a str)> + Clone {
    all.iter().enumerate().map(move |(n, one)| (n as u32, name(one)))
}

/// Kinds of object other than tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Action.
    Action,
    /// Action profile.
    Profile,
    /// Array of counters, indirect or direct.
    Counter,
    /// Array of meters, indirect or direct.
    Meter,
    /// Array of registers.
    Register,
    /// Parser value set.
    ValueSet,
}

impl Program {
    /// Number of objects of a kind.
    pub fn count(&self, kind: ObjectKind) -> u32 {
        let count = match kind {
            ObjectKind::Action => self.actions.len(),
            ObjectKind::Profile => self.profiles.len(),
            ObjectKind::Counter => self.counters.len(),
            ObjectKind::Meter => self.meters.len(),
            ObjectKind::Register => self.registers.len(),
            ObjectKind::ValueSet => self.vsets.len(),
        };
        count as u32
    }
    /// Full name of an object.
    pub fn object_name(&self, kind: ObjectKind, index: u32) -> &str {
        let index = index as usize;
        match kind {
            ObjectKind::Action => &self.actions[index].name,
            ObjectKind::Profile => &self.profiles[index].name,
            ObjectKind::Counter => &self.counters[index].name,
            ObjectKind::Meter => &self.meters[index].name,
            ObjectKind::Register => &self.registers[index].name,
            ObjectKind::ValueSet => &self.vsets[index].name,
        }
    }
    /// Name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Index of a table.
    pub fn table(&self, name: &str) -> Result<u32> {
        find("table", name, numbered(&self.tables, |table| &table.name))
    }
    /// Index of an action; among actions of equal name, the one that belongs to the table.
    pub fn action_of(&self, table: u32, name: &str) -> Result<u32> {
        let actions = self.tables[table as usize].actions.iter();
        let names = actions.map(|action| (action.action, self.actions[action.action as usize].name.as_str()));
        find(&format!("action of table '{}' that is called", self.tables[table as usize].name), name, names)
            .map_err(|error| self.explain_action(table, name, error))
    }
    fn explain_action(&self, table: u32, name: &str, error: ControlError) -> ControlError {
        if error.kind != ErrorKind::NotFound {
            return error;
        }
        let table = &self.tables[table as usize];
        let names = table.actions.iter().map(|action| self.actions[action.action as usize].name.as_str());
        let hint = belljar_p4json::nearest(name, names.clone());
        let hint = match hint {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("it has {}", names.collect::<Vec<_>>().join(", ")),
        };
        ControlError::not_found(format!("table '{}' has no action '{name}'; {hint}", table.name))
    }
    /// Index of an action; the first among actions of equal name.
    pub fn action(&self, name: &str) -> Result<u32> {
        find("action", name, numbered(&self.actions, |action| &action.name))
    }
    /// Index of an action that members of a profile may use.
    pub fn action_of_profile(&self, profile: u32, name: &str) -> Result<u32> {
        let tables = &self.profiles[profile as usize].tables;
        match tables.first() {
            Some(table) => self.action_of(*table, name),
            None => self.action(name),
        }
    }
    /// Index of an action profile.
    pub fn profile(&self, name: &str) -> Result<u32> {
        find("action profile", name, numbered(&self.profiles, |profile| &profile.name))
    }
    /// Index of a counter array, indirect or direct.
    pub fn counter(&self, name: &str) -> Result<u32> {
        find("counter", name, numbered(&self.counters, |array| &array.name))
    }
    /// Index of a meter array, indirect or direct.
    pub fn meter(&self, name: &str) -> Result<u32> {
        find("meter", name, numbered(&self.meters, |array| &array.name))
    }
    /// Index of a register array.
    pub fn register(&self, name: &str) -> Result<u32> {
        find("register", name, numbered(&self.registers, |array| &array.name))
    }
    /// Index of a parser value set.
    pub fn value_set(&self, name: &str) -> Result<u32> {
        find("value set", name, numbered(&self.vsets, |set| &set.name))
    }
    /// Index of a digest.
    pub fn digest(&self, name: &str) -> Result<u32> {
        find("digest", name, numbered(&self.learn_lists, |list| &list.name))
    }
    /// Index of a hash calculation.
    pub fn calculation(&self, name: &str) -> Result<u32> {
        find("calculation", name, numbered(&self.calculations, |calculation| &calculation.name))
    }
    /// Table of a direct counter; `None` if the counter is indirect.
    pub fn table_of_counter(&self, counter: u32) -> Option<u32> {
        self.counters[counter as usize].table
    }
    /// Table of a direct meter; `None` if the meter is indirect.
    pub fn table_of_meter(&self, meter: u32) -> Option<u32> {
        self.meters[meter as usize].table
    }
    /// Number of cells of a counter array; 0 for direct counters.
    pub fn counter_size(&self, counter: u32) -> u64 {
        self.counters[counter as usize].size
    }
    /// Number of cells of a meter array; 0 for direct meters.
    pub fn meter_size(&self, meter: u32) -> u64 {
        self.meters[meter as usize].size
    }
    /// Number of cells of a register array, and their width in bits.
    pub fn register_size(&self, register: u32) -> (u64, u32) {
        let array = &self.registers[register as usize];
        (array.size, array.width)
    }
    /// Width in bits of a value set's values, and the maximum number of values.
    pub fn value_set_size(&self, set: u32) -> (u32, Option<u64>) {
        (self.vsets[set as usize].bits, self.vsets[set as usize].max_size)
    }
    /// Widths in bits of the fields of a digest.
    pub fn digest_widths(&self, digest: u32) -> &[u32] {
        &self.learn_lists[digest as usize].widths
    }
    /// Name of a table.
    pub fn table_name(&self, table: u32) -> &str {
        &self.tables[table as usize].name
    }
    /// Full names of all tables, in index order.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.as_str())
    }
    /// Description of a table.
    pub fn table_info(&self, table: u32) -> TableInfo {
        let table = &self.tables[table as usize];
        let key =
            |key: &crate::program::Key| KeyInfo { name: key.name.clone(), kind: key.kind, width: key.width };
        TableInfo {
            name: table.name.clone(),
            key: table.key.iter().map(key).collect(),
            actions: table.actions.iter().map(|action| action.action).collect(),
            max_size: table.max_size,
            profile: table.profile,
            priorities: table.lookup == Lookup::Ternary,
            constant: table.constant,
            counters: table.counters.is_some(),
            meters: table.meters.is_some(),
            timeouts: table.timeouts,
        }
    }
    /// Description of an action.
    pub fn action_info(&self, action: u32) -> ActionInfo {
        let action = &self.actions[action as usize];
        let parameters = action.parameters.iter();
        let parameters =
            parameters.map(|one| ParameterInfo { name: one.name.clone(), width: one.width }).collect();
        ActionInfo { name: action.name.clone(), parameters }
    }

    /// Packs action arguments to the representation of entries; an error if one does not fit its parameter.
    pub(crate) fn pack_arguments(&self, action: u32, arguments: &[Vec<u8>]) -> Result<Vec<u8>> {
        let Some(action) = self.actions.get(action as usize) else {
            return Err(ControlError::not_found(format!("the program has no action number {action}")));
        };
        if action.parameters.len() != arguments.len() {
            return Err(ControlError::invalid(format!(
                "action '{}' takes {} arguments, not {}",
                action.name,
                action.parameters.len(),
                arguments.len()
            )));
        }
        for (parameter, argument) in action.parameters.iter().zip(arguments) {
            let start = argument.iter().position(|byte| *byte != 0).unwrap_or(argument.len());
            let value = &argument[start..];
            let bits = value.first().map_or(0, |first| value.len() as u32 * 8 - first.leading_zeros());
            if bits > parameter.width {
                return Err(ControlError::invalid(format!(
                    "argument '{}' of action '{}' has {bits} bits, the parameter {}",
                    parameter.name, action.name, parameter.width
                )));
            }
        }
        Ok(action.pack(arguments))
    }
}
