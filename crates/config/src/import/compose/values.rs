//! Values of a Compose file, in their short and long forms.

use super::variables::{Variables, assignments};
use crate::error::{Problem, Span};
use crate::import::beside::Beside;
use crate::import::{At, Input};
use crate::yaml::{Node, Value, section};
use belljar_base::{Map, Set};
use std::rc::Rc;

/// A Compose file that is being read.
pub(super) struct Reader<'a> {
    pub(super) variables: Variables,
    pub(super) beside: &'a Beside,
    /// Name of the file.
    pub(super) source: &'a str,
    pub(super) options: &'a crate::import::Options<'a>,
    pub(super) notes: Set<(At, String)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &Input<'a>) -> Result<Reader<'a>, Problem> {
        let variables = input.beside.text(".env")?.map(|file| Variables::new(&file.text)).unwrap_or_default();
        let (beside, options) = (input.beside, input.options);
        Ok(Reader { variables, beside, source: &input.source.name, options, notes: Set::new() })
    }
    /// Adds a note on a line.
    pub(super) fn note(&mut self, line: usize, text: impl Into<String>) {
        self.notes.insert((At::line(line), text.into()));
    }
    /// A text with its variables replaced.
    pub(super) fn text(&mut self, node: &Node, key: &str) -> Result<String, Problem> {
        self.variables.replace(section::string(node, key)?, node.span)
    }
    /// A text, or a list of texts.
    pub(super) fn texts(&mut self, node: &Node, key: &str) -> Result<Vec<String>, Problem> {
        match &node.value {
            Value::Sequence(items) => items.iter().map(|item| self.text(item, key)).collect(),
            _ => Ok(vec![self.text(node, key)?]),
        }
    }
    /// A command: words, or a text that is split into words as by a shell.
    pub(super) fn command(&mut self, node: &Node, key: &str) -> Result<Vec<String>, Problem> {
        match &node.value {
            Value::Sequence(_) => self.texts(node, key),
            _ => {
                let text = self.text(node, key)?;
                shell_words::split(&text).map_err(|_| node.problem("a quote in this command is not closed"))
            }
        }
    }
    /// Names with values: a mapping, or a list of `NAME=value`. A name without a value has `None`.
    pub(super) fn pairs(&mut self, node: &Node, key: &str) -> Result<Vec<(String, Option<String>)>, Problem> {
        match &node.value {
            Value::Mapping(entries) => {
                let mut all = Vec::new();
                for entry in entries {
                    let value = match entry.value.is_null() {
                        true => None,
                        false => Some(self.text(&entry.value, key)?),
                    };
                    all.push((entry.key.clone(), value));
                }
                Ok(all)
            }
            _ => {
                let texts = self.texts(node, key)?;
                let pair = |text: String| match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (text, None),
                };
                Ok(texts.into_iter().map(pair).collect())
            }
        }
    }
    /// Variables of the files of `env_file`.
    pub(super) fn files_of_variables(&mut self, node: &Node) -> Result<Map<String, String>, Problem> {
        let mut all = Map::new();
        let items: Vec<&Node> = match &node.value {
            Value::Sequence(items) => items.iter().map(|item| &**item).collect(),
            _ => vec![node],
        };
        for item in items {
            let (path, required) = match item.entry("path") {
                Some(path) => {
                    let required =
                        item.entry("required").map(|e| section::boolean(&e.value, "required")).transpose()?;
                    (self.text(&path.value, "path")?, required.unwrap_or(true))
                }
                None => (self.text(item, "env_file")?, true),
            };
            match self.beside.text(&path)? {
                Some(file) => all.extend(assignments(&file.text)),
                None if required => return Err(item.problem(format!("there is no file '{path}'"))),
                None => {}
            }
        }
        Ok(all)
    }
    /// A duration such as `1m30s` in milliseconds.
    pub(super) fn duration(&mut self, node: &Node, key: &str) -> Result<u64, Problem> {
        let text = self.text(node, key)?;
        milliseconds(&text).ok_or_else(|| {
            node.problem(format!("'{text}' is no duration of Compose")).help("write 1m30s or 500ms")
        })
    }
    /// A size such as `512m` in bytes.
    pub(super) fn bytes(&mut self, node: &Node, key: &str) -> Result<u64, Problem> {
        let text = self.text(node, key)?;
        let bad = || node.problem(format!("'{text}' is no size of Compose")).help("write 512m or 2gb");
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1 << 10,
            "m" | "mb" => 1 << 20,
            "g" | "gb" => 1 << 30,
            _ => return Err(bad()),
        };
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(bad)
    }
}

/// A name of a list or mapping, its position, and its value in a mapping.
pub(super) type Named = (String, Span, Option<Rc<Node>>);

/// Names of a list, or the keys of a mapping with their values.
pub(super) fn names(node: &Node, key: &str) -> Result<Vec<Named>, Problem> {
    match &node.value {
        Value::Mapping(entries) => {
            Ok(entries.iter().map(|e| (e.key.clone(), e.key_span, Some(e.value.clone()))).collect())
        }
        _ => {
            let items = section::list(node, key)?;
            let name = |item: &Rc<Node>| Ok((section::string(item, key)?.to_owned(), item.span, None));
            items.iter().map(name).collect()
        }
    }
}

fn milliseconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (scale, part) = match &rest[..unit] {
            "us" => (1, 1_000),
            "ms" => (1, 1),
            "s" => (1_000, 1),
            "m" => (60_000, 1),
            "h" => (3_600_000, 1),
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(scale)? / part)?;
        rest = &rest[unit..];
    }
    Some(total).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let all = ["1m30s", "500ms", "2h", "1500us", "", "5", "x", "5d"].map(milliseconds);
        assert_eq!(all, [Some(90_000), Some(500), Some(7_200_000), Some(1), None, None, None, None]);
    }
}
