//! [`Value`]: JSON values with a total order, as keys, arguments and results of operations.

use crate::sort;
use std::fmt;

/// JSON value that can be compared and ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// `null`, as a missing value.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Whole number of 64 bits.
    Integer(i64),
    /// Any other number, as its text.
    Number(String),
    /// String.
    Text(String),
    /// Array.
    List(Vec<Value>),
    /// Object, its members sorted by name.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// True for `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Elements of an array.
    pub fn list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// Content of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Elements of an array of two.
    pub fn pair(&self) -> Option<(&Value, &Value)> {
        match self.list() {
            Some([first, second]) => Some((first, second)),
            _ => None,
        }
    }

    /// Writes the value as EDN.
    pub(crate) fn write_edn(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("nil"),
            Value::List(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { " " } else { "" });
                    value.write_edn(out);
                }
                out.push(']');
            }
            Value::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    Value::Text(name.clone()).write_edn(out);
                    out.push(' ');
                    value.write_edn(out);
                }
                out.push('}');
            }
            Value::Text(text) => write_edn_string(text, out),
            other => out.push_str(&other.to_string()),
        }
    }
}

/// Writes a string with the escapes that EDN shares with Java.
fn write_edn_string(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if other.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => out.push(other),
        }
    }
    out.push('"');
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Value {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(value) => Value::Integer(value),
                None => Value::Number(number.to_string()),
            },
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Array(values) => Value::List(values.into_iter().map(Value::from).collect()),
            serde_json::Value::Object(members) => {
                let members: Vec<(String, Value)> =
                    members.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
                let order = sort::order(members.len(), &|one, other| members[one].0.cmp(&members[other].0));
                Value::Object(order.into_iter().map(|one| members[one].clone()).collect())
            }
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Number(text) => serde_json::from_str(text).unwrap_or_default(),
            Value::Text(text) => text.as_str().into(),
            Value::List(values) => values.iter().map(serde_json::Value::from).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), serde_json::Value::from(value))).collect()
            }
        }
    }
}

impl fmt::Display for Value {
    /// Writes the value as JSON on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(text) => f.write_str(text),
            other => write!(f, "{}", serde_json::Value::from(other)),
        }
    }
}
