//! Variables of a Compose file: `${NAME:-default}` in values, and files of assignments.

use crate::error::{Problem, Span};
use belljar_base::Map;

/// Variables of the file `.env`, and the names that it lacks.
#[derive(Default)]
pub(super) struct Variables {
    values: Map<String, String>,
    /// Variables that were asked for and have no value, with the lines of their first use.
    pub(super) missing: Map<String, usize>,
}

impl Variables {
    pub(super) fn new(text: &str) -> Variables {
        Variables { values: assignments(text).into_iter().collect(), missing: Map::new() }
    }

    /// A value with its variables replaced.
    pub(super) fn replace(&mut self, text: &str, span: Span) -> Result<String, Problem> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let end = closing(after)
                    .ok_or_else(|| Problem::at(span, format!("a brace of '{text}' is not closed")))?;
                out.push_str(&self.expression(&after[..end], span)?);
                rest = &after[end + 1..];
            } else {
                let len = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
                match len {
                    0 => out.push('$'),
                    _ => out.push_str(&self.value(&rest[..len], span)),
                }
                rest = &rest[len..];
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Value of what stands between braces.
    fn expression(&mut self, text: &str, span: Span) -> Result<String, Problem> {
        let len = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
        let (name, operation) = text.split_at(len);
        let bad = || {
            Problem::at(span, format!("'${{{text}}}' is no variable"))
                .help("write ${NAME} or ${NAME:-default}")
        };
        if name.is_empty() {
            return Err(bad());
        }
        let (counts_empty, operation) = match operation.strip_prefix(':') {
            Some(rest) => (false, rest),
            None => (true, operation),
        };
        let set = self.values.get(name).filter(|value| counts_empty || !value.is_empty()).cloned();
        let mut parts = operation.chars();
        let (kind, word) = (parts.next(), parts.as_str());
        match (kind, set) {
            (None, _) if counts_empty => Ok(self.value(name, span)),
            (Some('-' | '?'), Some(value)) => Ok(value),
            (Some('-'), None) => self.replace(word, span),
            (Some('?'), None) => Err(Problem::at(span, format!("variable '{name}' has no value: {word}"))
                .help("give it one in the file .env")),
            (Some('+'), Some(_)) => self.replace(word, span),
            (Some('+'), None) => Ok(String::new()),
            _ => Err(bad()),
        }
    }

    fn value(&mut self, name: &str, span: Span) -> String {
        match self.values.get(name) {
            Some(value) => value.clone(),
            None => {
                self.missing.entry(name.to_owned()).or_insert(span.line);
                String::new()
            }
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Position of the brace that closes the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices()
        .find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => return true,
                '}' => depth -= 1,
                _ => {}
            }
            false
        })
        .map(|(at, _)| at)
}

/// Assignments of a file of variables, in order: `NAME=value`, the value in quotes or not.
pub(super) fn assignments(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let value = value.trim();
        let quoted = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.split(quote).next());
        let plain = value.split(" #").next().unwrap_or_default().trim_end();
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(plain);
        all.push((name.trim().to_owned(), value.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_compose_does() {
        let mut variables = Variables::new("A=1\nexport B='two words'\nEMPTY=\n# C=3\nD=4 # four\n");
        let mut all =
            |text: &str| variables.replace(text, Span::default()).map_err(|problem| problem.message);
        let replaced = |text: &str| Ok(text.to_owned());
        assert_eq!(all("$A-${B}-$$A-$"), replaced("1-two words-$A-$"));
        assert_eq!(all("${C:-${A}}${EMPTY:-x}${EMPTY-x}${D}"), replaced("1x4"));
        assert_eq!(all("${A:+yes}${C:+yes}${C-}"), replaced("yes"));
        assert_eq!(all("${C:?give it}").unwrap_err(), "variable 'C' has no value: give it");
        assert_eq!(all("${A").unwrap_err(), "a brace of '${A' is not closed");
        assert_eq!(all("${A!}").unwrap_err(), "'${A!}' is no variable");
        assert_eq!(all("a$F"), replaced("a"));
        assert_eq!(variables.missing.keys().map(String::as_str).collect::<Vec<_>>(), ["F"]);
    }
}
