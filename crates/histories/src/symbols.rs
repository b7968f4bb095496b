//! Interning of values: calls, states, keys and elements are represented by small integers, which are quick
//! to compare.

use crate::Value;
use belljar_base::Map;

/// Values, each with a number.
#[derive(Default)]
pub(crate) struct Symbols {
    numbers: Map<Value, u32>,
    values: Vec<Value>,
}

impl Symbols {
    /// Number of a value. Numbers start at 0 and have no gaps.
    pub fn number(&mut self, value: &Value) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }

    /// Value of a number.
    pub fn value(&self, number: u32) -> &Value {
        static NULL: Value = Value::Null;
        self.values.get(number as usize).unwrap_or(&NULL)
    }
}
