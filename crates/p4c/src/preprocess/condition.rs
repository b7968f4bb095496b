//! Conditions of `#if` and `#elif`, in the 64-bit arithmetic of the C preprocessor.

use crate::lex::{Kind, Token};
use crate::source::{Diagnostic, Span};

/// Maximum nesting of parentheses and unary operators.
const MAX_DEPTH: usize = 200;

/// Value of a condition: an `intmax_t` or `uintmax_t` of C.
#[derive(Clone, Copy)]
struct Number {
    value: i64,
    unsigned: bool,
}

impl Number {
    fn new(value: i64) -> Number {
        Number { value, unsigned: false }
    }

    fn truth(value: bool) -> Number {
        Number::new(i64::from(value))
    }

    fn is_true(self) -> bool {
        self.value != 0
    }

    /// Number of C such as `10`, `0x1F`, `017` or `2UL`.
    fn parse(text: &str) -> Option<Number> {
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        let suffix = text[digits.len()..].to_ascii_lowercase();
        if !matches!(&*suffix, "" | "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu") {
            return None;
        }
        let (radix, rest) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
            [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
            [b'0', _, ..] => (8, &digits[1..]),
            _ => (10, digits),
        };
        let value = u64::from_str_radix(rest, radix).ok().filter(|_| !rest.starts_with('+'))?;
        Some(Number { value: value as i64, unsigned: suffix.contains('u') || i64::try_from(value).is_err() })
    }
}

/// Evaluates a condition. `defined` and macros have been replaced.
pub fn evaluate(tokens: &[Token], span: Span) -> Result<bool, Diagnostic> {
    let mut reader = Reader { tokens, at: 0, span, depth: 0, decided: 0 };
    let value = reader.comma()?;
    match tokens.get(reader.at) {
        None => Ok(value.is_true()),
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
        read: impl FnOnce(&mut Self) -> Result<Number, Diagnostic>,
    ) -> Result<Number, Diagnostic> {
        self.decided += usize::from(decided);
        let value = read(self);
        self.decided -= usize::from(decided);
        value
    }

    /// `a, b`, the operator of lowest precedence.
    fn comma(&mut self) -> Result<Number, Diagnostic> {
        let mut value = self.ternary()?;
        while self.tokens.get(self.at).is_some_and(|token| token.is(",")) {
            self.at += 1;
            value = self.ternary()?;
        }
        Ok(value)
    }

    /// `a ? b : c`.
    fn ternary(&mut self) -> Result<Number, Diagnostic> {
        let condition = self.binary(0)?;
        if !self.tokens.get(self.at).is_some_and(|token| token.is("?")) {
            return Ok(condition);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Diagnostic::error(self.span, "this preprocessor condition is nested too deep"));
        }
        self.at += 1;
        let yes = self.unless(!condition.is_true(), Self::comma)?;
        if !self.tokens.get(self.at).is_some_and(|token| token.is(":")) {
            return Err(Diagnostic::error(self.span, "':' is missing in this preprocessor condition"));
        }
        self.at += 1;
        let no = self.unless(condition.is_true(), Self::ternary)?;
        self.depth -= 1;
        let value = if condition.is_true() { yes.value } else { no.value };
        Ok(Number { value, unsigned: yes.unsigned || no.unsigned })
    }

    fn binary(&mut self, level: usize) -> Result<Number, Diagnostic> {
        if level == LEVELS.len() {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        while let Some((op, length)) = self.operator(level) {
            let place = self.tokens[self.at].span;
            self.at += length;
            let decided = op == "&&" && !left.is_true() || op == "||" && left.is_true();
            let right = self.unless(decided, |reader| reader.binary(level + 1))?;
            left = match apply(op, left, right) {
                Some(value) => value,
                None if self.decided > 0 => Number::new(0),
                None => {
                    return Err(Diagnostic::error(place, "division by zero in a preprocessor condition"));
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Number, Diagnostic> {
        let Some(token) = self.tokens.get(self.at) else {
            return Err(Diagnostic::error(self.span, "this preprocessor condition is incomplete"));
        };
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Diagnostic::error(token.span, "this preprocessor condition is nested too deep"));
        }
        let value = match &token.kind {
            Kind::Ident(_) if token.name().is_some() => Number::new(0),
            Kind::Int(..) | Kind::Ident(_) if token.open => {
                let end = self.tokens[self.at..].iter().take_while(|part| part.fixed && !part.spaced);
                let text = end.fold(token.spelling(), |text, part| text + &part.spelling());
                let message =
                    format!("'{text}' is one number for the C preprocessor, and none that it knows");
                return Err(Diagnostic::error(token.span, message).help("write spaces around operators"));
            }
            Kind::Int(..) | Kind::Ident(_) => {
                let text = token.spelling();
                Number::parse(&text).ok_or_else(|| {
                    let message = format!("'{text}' is not a number of the C preprocessor");
                    Diagnostic::error(token.span, message).help("write 10 or 0x0A, without a width")
                })?
            }
            Kind::Char(text) => character(text).map(Number::new).ok_or_else(|| {
                let message = format!("{text} is not a character constant");
                Diagnostic::error(token.span, message).help("write one as 'A' or '\\n'")
            })?,
            Kind::Punct("!") => Number::truth(!self.unary()?.is_true()),
            Kind::Punct(sign @ ("-" | "~")) => {
                let operand = self.unary()?;
                let value = if *sign == "~" { !operand.value } else { operand.value.wrapping_neg() };
                Number { value, ..operand }
            }
            Kind::Punct("+") => self.unary()?,
            Kind::Punct("(") => {
                let value = self.comma()?;
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

/// Value of a character constant with its quotes. Several characters form a number of 32 bits, one of them a
/// signed number of eight.
fn character(text: &str) -> Option<i64> {
    let mut rest = text.strip_prefix('\'')?.strip_suffix('\'')?.as_bytes();
    let mut bytes = Vec::new();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (kind, tail) = rest.split_first()?;
        let (digits, radix, limit) = match kind {
            b'x' => (tail, 16, usize::MAX),
            b'0'..=b'7' => (rest, 8, 3),
            _ => {
                rest = tail;
                bytes.push(match kind {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'e' | b'E' => 27,
                    // Characters by their number in Unicode, which an assembler's sources do not have.
                    b'u' | b'U' => return None,
                    other => *other,
                });
                continue;
            }
        };
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
        let length = digits.iter().take(limit).take_while(is_digit).count();
        let (number, tail) = digits.split_at(length);
        let value = |value: u8, byte: &u8| {
            let digit = char::from(*byte).to_digit(radix).unwrap_or(0);
            value.wrapping_mul(radix as u8).wrapping_add(digit as u8)
        };
        bytes.push(number.iter().fold(0, value));
        rest = if length > 0 { tail } else { return None };
    }
    match bytes.as_slice() {
        [] => None,
        [byte] => Some(i64::from(*byte as i8)),
        _ => Some(i64::from(bytes.iter().fold(0, |value: i32, byte| value << 8 | i32::from(*byte)))),
    }
}

/// Result of an operator; `None` for a division by zero.
fn apply(op: &str, left: Number, right: Number) -> Option<Number> {
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.value, right.value);
    let less = |a: i64, b: i64| if unsigned { (a as u64) < b as u64 } else { a < b };
    let value = match op {
        "||" => return Some(Number::truth(a != 0 || b != 0)),
        "&&" => return Some(Number::truth(a != 0 && b != 0)),
        "==" => return Some(Number::truth(a == b)),
        "!=" => return Some(Number::truth(a != b)),
        "<=" => return Some(Number::truth(!less(b, a))),
        ">=" => return Some(Number::truth(!less(a, b))),
        "<" => return Some(Number::truth(less(a, b))),
        ">" => return Some(Number::truth(less(b, a))),
        "<<" | ">>" => {
            // A negative count shifts in the other direction; the result has the type of the left operand.
            let negative = !right.unsigned && b < 0;
            let count = if negative { b.unsigned_abs() } else { b as u64 };
            return Some(Number { value: shift(left, (op == "<<") != negative, count), ..left });
        }
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" | "%" if b == 0 => return None,
        "/" if unsigned => (a as u64 / b as u64) as i64,
        "%" if unsigned => (a as u64 % b as u64) as i64,
        "/" => a.wrapping_div(b),
        "%" => a.wrapping_rem(b),
        _ => return None,
    };
    Some(Number { value, unsigned })
}

fn shift(number: Number, left: bool, count: u64) -> i64 {
    let value = number.value;
    match (left, number.unsigned) {
        (true, _) if count > 63 => 0,
        (true, _) => value << count,
        (false, true) if count > 63 => 0,
        (false, true) => (value as u64 >> count) as i64,
        (false, false) => value >> count.min(63),
    }
}
