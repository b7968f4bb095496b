//! Switch state as CSV, for spreadsheets and data frames.

use super::{ActionSpec, CounterData, KeyMatch};
use crate::Switch;
use crate::trace::hex;
use std::fmt::Write;

/// Lookup statistics of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Current number of entries.
    pub entries: usize,
    /// Lookups that matched an entry.
    pub hits: u64,
    /// Lookups that ran the default action.
    pub misses: u64,
}

/// Formats a CSV cell; quotes it if necessary.
fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn shown(key: &KeyMatch) -> String {
    match key {
        KeyMatch::Exact(value) => hex(value),
        KeyMatch::Lpm { value, prefix } => format!("{}/{prefix}", hex(value)),
        KeyMatch::Ternary { value, mask } => format!("{}&&&{}", hex(value), hex(mask)),
        KeyMatch::Range { low, high } => format!("{}..{}", hex(low), hex(high)),
        KeyMatch::Any => "*".to_owned(),
    }
}

impl Switch {
    /// Lookup statistics of a table.
    pub fn table_counts(&self, table: u32) -> TableCounts {
        let state = &self.state.tables[table as usize];
        TableCounts { entries: state.len(), hits: state.hits, misses: state.misses }
    }

    /// Approximate memory of entries, arrays and queued packets, in bytes.
    pub fn memory(&self) -> u64 {
        let state = &self.state;
        let tables: usize = state.tables.iter().map(|table| table.memory()).sum();
        let counters: usize = state.counters.iter().map(|array| size_of_val(&array[..])).sum();
        let meters: usize = state.meters.iter().map(|array| size_of_val(&array[..])).sum();
        let registers: usize = state.registers.iter().map(|array| array.bytes.len()).sum();
        (size_of::<Switch>() + tables + counters + meters + registers + self.packet_memory()) as u64
    }

    /// All entries and default actions: `table,entry,match,priority,action,arguments,hits,packets,bytes`.
    /// Default actions have no `entry`; `packets` and `bytes` are the direct counters.
    pub fn tables_as_csv(&self) -> String {
        let mut out = String::from("table,entry,match,priority,action,arguments,hits,packets,bytes\n");
        for number in 0..self.program().table_names().count() as u32 {
            let info = self.program().table_info(number);
            let state = &self.state.tables[number as usize];
            for handle in self.entries(number).unwrap_or_default() {
                let Ok(entry) = self.entry(number, handle) else { continue };
                let fields = info.key.iter().zip(&entry.key);
                let fields: Vec<String> =
                    fields.map(|(field, key)| format!("{}={}", field.name, shown(key))).collect();
                let (action, arguments) = self.action_as_text(&entry.action);
                let priority = if info.priorities { entry.priority.to_string() } else { String::new() };
                let counter = info.counters.then(|| self.entry_counter(number, handle).unwrap_or_default());
                let _ = writeln!(
                    out,
                    "{},{handle},{},{priority},{},{},{},{}",
                    cell(&info.name),
                    cell(&fields.join(" ")),
                    cell(&action),
                    cell(&arguments),
                    state.slots[handle as usize].hits,
                    counted(counter),
                );
            }
            if let Ok(Some(action)) = self.default_of(number) {
                let (action, arguments) = self.action_as_text(&action);
                let (name, misses) = (cell(&info.name), state.misses);
                let _ = writeln!(out, "{name},,,,{},{},{misses},,", cell(&action), cell(&arguments));
            }
        }
        out
    }

    fn action_as_text(&self, action: &ActionSpec) -> (String, String) {
        match action {
            ActionSpec::Direct { action, arguments } => {
                let info = self.program().action_info(*action);
                let values = info.parameters.iter().zip(arguments);
                let values: Vec<String> =
                    values.map(|(one, value)| format!("{}={}", one.name, hex(value))).collect();
                (info.name, values.join(" "))
            }
            ActionSpec::Member(member) => ("member".to_owned(), member.to_string()),
            ActionSpec::Group(group) => ("group".to_owned(), group.to_string()),
        }
    }

    /// Non-zero counters of arrays: `counter,index,packets,bytes`.
    pub fn counters_as_csv(&self) -> String {
        let mut out = String::from("counter,index,packets,bytes\n");
        let arrays = self.program.counters.iter().zip(&self.state.counters);
        for (array, counters) in arrays.filter(|(array, _)| array.table.is_none()) {
            let used = counters.iter().enumerate().filter(|(_, data)| **data != CounterData::default());
            for (index, data) in used {
                let _ = writeln!(out, "{},{index},{}", cell(&array.name), counted(Some(*data)));
            }
        }
        out
    }

    /// Non-zero registers: `register,index,value`, in hexadecimal.
    pub fn registers_as_csv(&self) -> String {
        let mut out = String::from("register,index,value\n");
        for (array, registers) in self.program.registers.iter().zip(&self.state.registers) {
            for index in 0..registers.size {
                let value = registers.read(index).unwrap_or_default();
                if value.iter().any(|byte| *byte != 0) {
                    let _ = writeln!(out, "{},{index},{}", cell(&array.name), hex(&value));
                }
            }
        }
        out
    }
}

fn counted(counter: Option<CounterData>) -> String {
    counter.map_or_else(|| ",".to_owned(), |data| format!("{},{}", data.packets, data.bytes))
}
