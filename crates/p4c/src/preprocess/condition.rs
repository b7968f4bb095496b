//! Conditions of `#if` and `#elif`.

use crate::lex::{Kind, Token};
use crate::source::{Diagnostic, Span};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

/// Maximum nesting of parentheses and unary operators.
const MAX_DEPTH: usize = 200;

/// Replaces `defined X` and `defined(X)` by 0 or 1.
pub fn resolve_defined(line: &[Token], defined: impl Fn(&str) -> bool, output: &mut Vec<Token>) {
    let mut at = 0;
    while at < line.len() {
        let token = &line[at];
        at += 1;
        if !token.is_word("defined") {
            output.push(token.clone());
            continue;
        }
        let parenthesis = line.get(at).is_some_and(|next| next.is("("));
        at += usize::from(parenthesis);
        let value = match line.get(at).map(|next| &next.kind) {
            Some(Kind::Ident(name)) => defined(name),
            _ => false,
        };
        at += 1 + usize::from(parenthesis);
        output.push(Token { kind: Kind::Int(BigInt::from(i32::from(value)), None), ..token.clone() });
    }
}

/// Evaluates a condition by the rules of the C preprocessor.
pub fn evaluate(tokens: &[Token], span: Span) -> Result<bool, Diagnostic> {
    let mut reader = Reader { tokens, at: 0, span, depth: 0, decided: 0 };
    let value = reader.ternary()?;
    match tokens.get(reader.at) {
        None => Ok(value != 0),
        Some(token) => Err(Diagnostic::error(token.span, "unexpected token in a preprocessor condition")),
    }
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    span: Span,
    depth: usize,
    /// Number of enclosing operands that are not evaluated, since another one decides.
    decided: usize,
}

/// Binary operators by increasing precedence.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Reader<'_> {
    fn operator(&self, level: usize) -> Option<(&'static str, usize)> {
        let token = self.tokens.get(self.at)?;
        let doubled =
            token.is(">") && self.tokens.get(self.at + 1).is_some_and(|next| next.is(">") && !next.spaced);
        if doubled {
            return (level == 7).then_some((">>", 2));
        }
        LEVELS[level].iter().find(|op| token.is(op)).map(|op| (*op, 1))
    }

    /// Reads an operand, which is not evaluated if `decided`.
    fn unless(
        &mut self,
        decided: bool,
        read: impl FnOnce(&mut Self) -> Result<i64, Diagnostic>,
    ) -> Result<i64, Diagnostic> {
        self.decided += usize::from(decided);
        let value = read(self);
        self.decided -= usize::from(decided);
        value
    }

    /// `a ? b : c`, the operator of lowest precedence.
    fn ternary(&mut self) -> Result<i64, Diagnostic> {
        let condition = self.binary(0)?;
        if !self.tokens.get(self.at).is_some_and(|token| token.is("?")) {
            return Ok(condition);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Diagnostic::error(self.span, "this preprocessor condition is nested too deep"));
        }
        self.at += 1;
        let yes = self.unless(condition == 0, Self::ternary)?;
        if !self.tokens.get(self.at).is_some_and(|token| token.is(":")) {
            return Err(Diagnostic::error(self.span, "':' is missing in this preprocessor condition"));
        }
        self.at += 1;
        let no = self.unless(condition != 0, Self::ternary)?;
        self.depth -= 1;
        Ok(if condition != 0 { yes } else { no })
    }

    /// Rest of a character constant such as `'A'` after the opening quote.
    fn character(&mut self, span: Span) -> Result<i64, Diagnostic> {
        let wrong = || Diagnostic::error(span, "this is not a character constant").help("write one as 'A'");
        let value = match self.tokens.get(self.at).map(|token| &token.kind) {
            Some(Kind::Ident(name)) if name.len() == 1 => i64::from(name.as_bytes()[0]),
            Some(Kind::Int(value, None)) if *value < BigInt::from(10) => {
                i64::from(b'0') + value.to_i64().unwrap_or(0)
            }
            Some(Kind::Punct(text)) if text.len() == 1 && *text != "\\" => i64::from(text.as_bytes()[0]),
            _ => return Err(wrong()),
        };
        self.at += 1;
        if !self.tokens.get(self.at).is_some_and(|token| token.is("'")) {
            return Err(wrong());
        }
        self.at += 1;
        Ok(value)
    }

    fn binary(&mut self, level: usize) -> Result<i64, Diagnostic> {
        if level == LEVELS.len() {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        while let Some((op, length)) = self.operator(level) {
            let place = self.tokens[self.at].span;
            self.at += length;
            let decided = op == "&&" && left == 0 || op == "||" && left != 0;
            let right = self.unless(decided, |reader| reader.binary(level + 1))?;
            left = match apply(op, left, right) {
                Some(value) => value,
                None if self.decided > 0 => 0,
                None => {
                    return Err(Diagnostic::error(place, "division by zero in a preprocessor condition"));
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i64, Diagnostic> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err(Diagnostic::error(self.span, "this preprocessor condition is incomplete"));
        };
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Diagnostic::error(token.span, "this preprocessor condition is nested too deep"));
        }
        let value = match &token.kind {
            Kind::Int(value, _) => value.to_i64().unwrap_or(i64::MAX),
            Kind::Ident(name) => i64::from(&**name == "true"),
            Kind::Punct("'") => self.character(token.span)?,
            Kind::Punct("!") => i64::from(self.unary()? == 0),
            Kind::Punct("-") => self.unary()?.wrapping_neg(),
            Kind::Punct("~") => !self.unary()?,
            Kind::Punct("+") => self.unary()?,
            Kind::Punct("(") => {
                let value = self.ternary()?;
                if !self.tokens.get(self.at).is_some_and(|token| token.is(")")) {
                    return Err(Diagnostic::error(
                        self.span,
                        "')' is missing in this preprocessor condition",
                    ));
                }
                self.at += 1;
                value
            }
            _ => return Err(Diagnostic::error(token.span, "unexpected token in a preprocessor condition")),
        };
        self.depth -= 1;
        Ok(value)
    }
}

fn apply(op: &str, left: i64, right: i64) -> Option<i64> {
    Some(match op {
        "||" => i64::from(left != 0 || right != 0),
        "&&" => i64::from(left != 0 && right != 0),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<=" => i64::from(left <= right),
        ">=" => i64::from(left >= right),
        "<" => i64::from(left < right),
        ">" => i64::from(left > right),
        "<<" => left.wrapping_shl(right as u32),
        ">>" => left.wrapping_shr(right as u32),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" if right != 0 => left.wrapping_div(right),
        "%" if right != 0 => left.wrapping_rem(right),
        _ => return None,
    })
}
