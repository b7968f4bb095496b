use crate::language;
use regex_lite::{Captures, Regex};

/// Regular expression with its text. Two patterns are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text() == other.text()
    }
}

impl Pattern {
    /// Compiles a regular expression, which may match anywhere in a line.
    ///
    /// # Errors
    /// Reason for which it cannot be compiled.
    pub fn new(text: &str) -> Result<Pattern, String> {
        Regex::new(text).map(|regex| Pattern { regex }).map_err(|error| error.to_string())
    }

    /// Text of the regular expression.
    pub fn text(&self) -> &str {
        self.regex.as_str()
    }

    /// Names of its groups, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.regex.capture_names().flatten()
    }

    /// True if it is proven that it matches in no line.
    pub fn matches_nothing(&self) -> bool {
        language::parse(self.text()).is_some_and(|node| language::is_empty(&node))
    }

    /// True if it is proven that the text of the group `name` is no number.
    pub fn captures_no_number(&self, name: &str) -> bool {
        language::parse(self.text()).is_some_and(|node| language::captures_no_number(&node, name))
    }

    /// True if it matches in the line.
    pub(crate) fn is_match(&self, line: &str) -> bool {
        self.regex.is_match(line)
    }

    /// Groups of the first match in the line.
    pub(crate) fn captures<'a>(&self, line: &'a str) -> Option<Captures<'a>> {
        self.regex.captures(line)
    }
}
