//! YAML as a tree with source positions.

mod read;
pub(crate) mod section;
pub(crate) mod set;

use crate::error::{Problem, Span};
pub(crate) use read::parse;
pub(crate) use section::Section;
pub use set::Setting;
use std::rc::Rc;

/// A value and its position. Aliases share the node of their anchor.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<Entry>),
}

#[derive(Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    pub(crate) style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Unquoted: possibly a number, a boolean or null.
    Plain,
    /// Quoted or folded: a string.
    Quoted,
    /// A literal block (`|`): a string whose lines are lines of the file.
    Literal,
}

/// A key of a mapping and its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Rc<Node>,
}

impl Node {
    /// The kind of value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
            Value::Scalar(scalar) if scalar.is_null() => "empty",
            Value::Scalar(scalar) if scalar.style != Style::Plain => "a string",
            Value::Scalar(scalar) if scalar.as_bool().is_some() => "a boolean",
            Value::Scalar(scalar) if scalar.text.parse::<f64>().is_ok() => "a number",
            Value::Scalar(_) => "a string",
        }
    }

    /// The entry of a mapping with this key; `None` for other kinds of values.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Mapping(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }

    pub(crate) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::at(self.span, message)
    }
}

impl Scalar {
    /// True for `null`, `~` or an empty scalar, as in YAML 1.2's core schema.
    pub(crate) fn is_null(&self) -> bool {
        self.style == Style::Plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
    /// The boolean of YAML 1.2's core schema: without `yes` and `on`.
    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.text.as_str() {
            "true" | "True" | "TRUE" if self.style == Style::Plain => Some(true),
            "false" | "False" | "FALSE" if self.style == Style::Plain => Some(false),
            _ => None,
        }
    }
}
