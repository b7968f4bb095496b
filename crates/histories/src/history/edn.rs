//! EDN: histories as Jepsen writes them, for Elle and Knossos.

use super::{History, Outcome, Value};
use crate::sort;
use belljar_base::Map;

impl History {
    /// History as EDN, one map a line. Functions and those of micro-operations become keywords, an operation with a key has
    /// the vector `[key value]` as its value, and processes are numbered unless all are whole numbers.
    pub fn to_edn(&self) -> String {
        // Each line that invokes or completes an operation, with the operation.
        let mut events: Vec<(usize, usize)> = Vec::new();
        for (index, operation) in self.operations.iter().enumerate() {
            events.push((operation.invoked, index));
            events.extend(operation.completed.map(|line| (line, index)));
        }
        sort::pairs(&mut events);
        let numbers = self.process_numbers();
        let mut out = String::new();
        for (index, (line, operation)) in events.into_iter().enumerate() {
            let operation = &self.operations[operation];
            let completion = line != operation.invoked;
            let kind = match (completion, operation.outcome) {
                (false, _) => "invoke",
                (true, Outcome::Ok) => "ok",
                (true, Outcome::Fail) => "fail",
                (true, Outcome::Info) => "info",
            };
            let time = if completion { operation.completed_ns } else { operation.invoked_ns };
            let time = time.map_or("nil".to_string(), |time| time.to_string());
            let process = numbers.get(&operation.process).copied().unwrap_or_default();
            out.push_str(&format!("{{:index {index}, :time {time}, :process {process}, :type :{kind}, :f "));
            write_name(&operation.function, &mut out);
            out.push_str(", :value ");
            let value = if kind == "ok" { &operation.result } else { &operation.argument };
            if let Some(key) = &operation.key {
                out.push('[');
                key.write_edn(&mut out);
                out.push(' ');
                write_value(value, &mut out);
                out.push(']');
            } else {
                write_value(value, &mut out);
            }
            out.push_str("}\n");
        }
        out
    }

    /// Number of each process: its own if all have one, else by first appearance.
    fn process_numbers(&self) -> Map<Value, i64> {
        let mut numbers = Map::new();
        let all_numbers = self.operations.iter().all(|one| matches!(one.process, Value::Integer(_)));
        let mut next = 0;
        for operation in &self.operations {
            match operation.process {
                Value::Integer(number) if all_numbers => {
                    numbers.insert(operation.process.clone(), number);
                }
                _ => {
                    numbers.entry(operation.process.clone()).or_insert_with(|| {
                        next += 1;
                        next - 1
                    });
                }
            }
        }
        numbers
    }
}

/// Writes a function as a keyword, or as a string if it cannot be one.
fn write_name(name: &str, out: &mut String) {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_+*!?".contains(letter);
    if name.starts_with(|letter: char| letter.is_ascii_alphabetic()) && name.chars().all(plain) {
        out.push(':');
        out.push_str(name);
    } else {
        Value::Text(name.to_string()).write_edn(out);
    }
}

/// Writes a value; the functions of micro-operations in it become keywords.
fn write_value(value: &Value, out: &mut String) {
    let micro = |value: &Value| match value.list() {
        Some([Value::Text(name), _, _]) => matches!(name.as_str(), "append" | "r" | "w"),
        _ => false,
    };
    match value.list() {
        Some(values) if !values.is_empty() && values.iter().all(micro) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index > 0 { " [" } else { "[" });
                if let Some([Value::Text(name), key, value]) = value.list() {
                    write_name(name, out);
                    for part in [key, value] {
                        out.push(' ');
                        part.write_edn(out);
                    }
                }
                out.push(']');
            }
            out.push(']');
        }
        _ => value.write_edn(out),
    }
}
