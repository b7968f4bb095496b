use std::cmp::Ordering;

/// Comparison of two operands, each a pattern's capture group, a number or a text: `ms < 100`, `got != "none"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    text: String,
    pub(crate) left: Operand,
    pub(crate) operator: Operator,
    pub(crate) right: Operand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// Number, as written.
    Number(String),
    /// Text in quotes.
    Text(String),
    /// Capture group of a pattern, by name.
    Group(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Unequal,
}

/// Operators, those that begin like others first.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl Comparison {
    /// Parses a comparison.
    ///
    /// # Errors
    /// Reason for which `text` is no comparison, and the remedy.
    pub fn parse(text: &str) -> Result<Comparison, (String, String)> {
        let example = "write a comparison such as ms < 100, got == want or state != \"down\"";
        let found = text.char_indices().find_map(|(at, _)| {
            let (word, operator) = OPERATORS.iter().find(|(word, _)| text[at..].starts_with(word))?;
            Some((&text[..at], *operator, &text[at + word.len()..]))
        });
        let Some((left, operator, right)) = found else {
            return Err((format!("'{text}' compares nothing"), example.to_owned()));
        };
        let operand = |part: &str| {
            Operand::parse(part.trim()).ok_or_else(|| {
                (
                    format!("'{}' in '{text}' is no group, number or quoted text", part.trim()),
                    example.to_owned(),
                )
            })
        };
        let (left, right) = (operand(left)?, operand(right)?);
        let text = text.trim().to_owned();
        let has_text = [&left, &right].into_iter().any(|operand| matches!(operand, Operand::Text(_)));
        match has_text && operator.is_order() {
            true => Err((
                format!("'{text}' orders texts, and only numbers have an order"),
                "write the number without quotes, or compare by == or !=".to_owned(),
            )),
            false => Ok(Comparison { text, left, operator, right }),
        }
    }

    /// Text of the comparison.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of the capture groups among the operands.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        [&self.left, &self.right].into_iter().filter_map(|operand| match operand {
            Operand::Group(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Groups whose text must be a number for the comparison to be true.
    pub fn numeric_groups(&self) -> impl Iterator<Item = &str> {
        let with_number = [&self.left, &self.right].into_iter().any(|o| matches!(o, Operand::Number(_)));
        let needs = self.operator.is_order() || with_number && self.operator == Operator::Equal;
        self.groups().filter(move |_| needs)
    }

    /// Evaluates the comparison with the captured text that `group` returns for a name. The inner error is the reason
    /// for which the comparison is false.
    ///
    /// # Errors
    /// Reason for which an operand has no value.
    pub(crate) fn check<'a>(
        &self,
        group: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Result<(), String>, String> {
        let value = |operand: &Operand| match operand {
            Operand::Number(text) | Operand::Text(text) => Ok(text.clone()),
            Operand::Group(name) => group(name)
                .map(str::to_owned)
                .ok_or_else(|| format!("'{name}' of '{}' has captured nothing", self.text)),
        };
        let (left, right) = (value(&self.left)?, value(&self.right)?);
        let is_text = |operand: &Operand| matches!(operand, Operand::Text(_));
        let by_number = if is_text(&self.left) || is_text(&self.right) { None } else { order(&left, &right) };
        let holds = match (by_number, self.operator) {
            (Some(order), Operator::Less) => order.is_lt(),
            (Some(order), Operator::LessOrEqual) => order.is_le(),
            (Some(order), Operator::Greater) => order.is_gt(),
            (Some(order), Operator::GreaterOrEqual) => order.is_ge(),
            (Some(order), Operator::Equal) => order.is_eq(),
            (Some(order), Operator::Unequal) => order.is_ne(),
            (None, Operator::Equal) => left == right,
            (None, Operator::Unequal) => left != right,
            (None, _) => {
                let other = if number(&left).is_none() { &left } else { &right };
                return Err(format!("'{}' compares '{other}', which is no number", self.text));
            }
        };
        let values =
            [(&self.left, left), (&self.right, right)].into_iter().filter_map(
                |(operand, value)| match operand {
                    Operand::Group(name) => Some(format!("{name} is {value}")),
                    _ => None,
                },
            );
        match holds {
            true => Ok(Ok(())),
            false => Ok(Err(format!("'{}' is false: {}", self.text, values.collect::<Vec<_>>().join(", ")))),
        }
    }
}

impl Operator {
    /// True if it compares numbers only.
    fn is_order(self) -> bool {
        !matches!(self, Operator::Equal | Operator::Unequal)
    }
}

impl Operand {
    fn parse(text: &str) -> Option<Operand> {
        let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
        if let Some(inner) = quoted {
            return Some(Operand::Text(inner.to_owned()));
        }
        if number(text).is_some() {
            return Some(Operand::Number(text.to_owned()));
        }
        let is_name = !text.is_empty()
            && text.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !text.starts_with(|c: char| c.is_ascii_digit());
        is_name.then(|| Operand::Group(text.to_owned()))
    }
}

/// Finite number that a text is.
fn number(text: &str) -> Option<f64> {
    let is_plain = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    text.parse::<f64>().ok().filter(|value| is_plain && value.is_finite())
}

/// Order of two numbers, exact for whole ones; `None` unless both are numbers.
fn order(left: &str, right: &str) -> Option<Ordering> {
    if let (Ok(left), Ok(right)) = (left.parse::<i128>(), right.parse::<i128>()) {
        return Some(left.cmp(&right));
    }
    number(left)?.partial_cmp(&number(right)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, values: &[(&str, &str)]) -> Result<bool, String> {
        let comparison = Comparison::parse(text).unwrap_or_else(|(message, _)| panic!("{message}"));
        let group = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        comparison.check(group).map(|outcome| outcome.is_ok())
    }

    #[test]
    fn numbers_are_compared_by_value_and_other_texts_as_they_are() {
        assert_eq!(check("ms < 100", &[("ms", "99.5")]), Ok(true));
        assert_eq!(check("ms<=100", &[("ms", "100.0")]), Ok(true));
        assert_eq!(check("ms > 100", &[("ms", "99.5")]), Ok(false));
        assert_eq!(check("got >= want", &[("got", "-3"), ("want", "-2")]), Ok(false));
        assert_eq!(check("got == want", &[("got", "007"), ("want", "7")]), Ok(true));
        assert_eq!(check("got == want", &[("got", "a"), ("want", "a")]), Ok(true));
        assert_eq!(check("got != \"a\"", &[("got", "a")]), Ok(false));
        assert_eq!(check("got == '7'", &[("got", "07")]), Ok(false));
        // Beyond what a float tells apart.
        assert_eq!(check("a == b", &[("a", "9007199254740993"), ("b", "9007199254740992")]), Ok(false));
    }

    #[test]
    fn a_false_comparison_names_its_values() {
        let comparison = Comparison::parse("got <= want").unwrap();
        let outcome = comparison.check(|name| Some(if name == "got" { "9" } else { "7" })).unwrap();
        assert_eq!(outcome, Err("'got <= want' is false: got is 9, want is 7".to_owned()));
    }

    #[test]
    fn what_cannot_be_compared_is_a_doubt() {
        assert_eq!(
            check("ms < 100", &[("ms", "fast")]),
            Err("'ms < 100' compares 'fast', which is no number".into())
        );
        assert_eq!(
            check("ms < 100", &[("ms", "inf")]),
            Err("'ms < 100' compares 'inf', which is no number".into())
        );
        assert_eq!(check("ms < 100", &[]), Err("'ms' of 'ms < 100' has captured nothing".into()));
    }

    #[test]
    fn what_is_no_comparison_is_refused() {
        for (text, message) in [
            ("ms = 100", "'ms = 100' compares nothing"),
            ("ms", "'ms' compares nothing"),
            ("ms < ", "'' in 'ms < ' is no group, number or quoted text"),
            ("a b < 3", "'a b' in 'a b < 3' is no group, number or quoted text"),
            ("a < 3 s", "'3 s' in 'a < 3 s' is no group, number or quoted text"),
            ("a < '3'", "'a < '3'' orders texts, and only numbers have an order"),
        ] {
            assert_eq!(Comparison::parse(text).unwrap_err().0, message);
        }
    }
}
