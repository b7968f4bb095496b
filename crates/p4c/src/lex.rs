//! Tokens of P4 and its preprocessor.

use super::source::{Diagnostic, Span};
use num_bigint::{BigInt, Sign};
use std::rc::Rc;

/// Kinds of token. Keywords are identifiers. `>>` is lexed as two adjacent `>`, because it can close two
/// lists of type arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An identifier, a keyword, or what begins like a number and is none (`0x` of `0x##digits`).
    Ident(Rc<str>),
    /// A number; width and signedness if it has a prefix such as `8w` or `4s`; the spelling.
    Int(BigInt, Option<(u32, bool)>, Rc<str>),
    /// A string literal: the text between its quotes, with its backslashes ([`unescape`]).
    Str(Rc<str>),
    /// A character constant of C with its quotes, which the conditions of the preprocessor have.
    Char(Rc<str>),
    /// An operator or bracket.
    Punct(&'static str),
    /// The end of the input.
    End,
}

impl Kind {
    /// A decimal number without a width.
    pub fn number(value: impl Into<BigInt>) -> Kind {
        let value = value.into();
        let spelling = value.to_string().into();
        Kind::Int(value, None, spelling)
    }
}

/// Base in which a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Binary,
    Octal,
    Decimal,
    Hexadecimal,
}

impl Base {
    /// Base of a literal such as `0x1F` or `8w0b1`.
    pub fn of(spelling: &str) -> Base {
        let digits = spelling.find(['w', 's']).map_or(spelling, |at| &spelling[at + 1..]);
        match digits.get(..2) {
            Some("0x" | "0X") => Base::Hexadecimal,
            Some("0b" | "0B") => Base::Binary,
            Some("0o" | "0O") => Base::Octal,
            _ => Base::Decimal,
        }
    }

    /// A number in this base, with the prefix of the base.
    pub fn show(self, value: &BigInt) -> String {
        let (prefix, radix) = match self {
            Base::Binary => ("0b", 2),
            Base::Octal => ("0o", 8),
            Base::Decimal => ("", 10),
            Base::Hexadecimal => ("0x", 16),
        };
        let sign = if value.sign() == Sign::Minus { "-" } else { "" };
        format!("{sign}{prefix}{}", value.magnitude().to_str_radix(radix))
    }
}

/// Text of a string literal with its escapes resolved.
pub fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(c) => text.push(c),
                None => {}
            },
            c => text.push(c),
        }
    }
    text
}

/// Text of a string literal for `text`: quotes and backslashes are escaped.
pub fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A token.
#[derive(Clone, Debug)]
pub struct Token {
    pub kind: Kind,
    pub span: Span,
    /// True for the first token of a line.
    pub starts_line: bool,
    /// True if white space or a comment precedes the token.
    pub spaced: bool,
    /// True for a name that is not a macro's: one inside its own expansion, or part of a number of C such as
    /// `1..MAX`.
    pub fixed: bool,
    /// True for the first part of a number of C such as `1..MAX`.
    pub open: bool,
}

impl Token {
    /// True if the token is this operator or bracket.
    pub fn is(&self, punct: &str) -> bool {
        matches!(self.kind, Kind::Punct(p) if p == punct)
    }
    /// The word, unless it is a number that P4 does not have.
    pub fn name(&self) -> Option<&Rc<str>> {
        match &self.kind {
            Kind::Ident(name) if !name.starts_with(|c: char| c.is_ascii_digit()) => Some(name),
            _ => None,
        }
    }
    /// The token as written: `00` and `0x0F` keep their digits.
    pub fn spelling(&self) -> String {
        match &self.kind {
            Kind::Ident(name) => name.to_string(),
            Kind::Int(_, _, spelling) => spelling.to_string(),
            Kind::Punct(text) => text.to_string(),
            Kind::Str(text) => format!("\"{text}\""),
            Kind::Char(text) => text.to_string(),
            Kind::End => String::new(),
        }
    }
    /// True if the token is this word.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Ident(name) if &**name == word)
    }
}

/// Operators and brackets, longest first, so that the first matching prefix is the token.
const PUNCTS: &[&str] = &[
    "|+|=", "|-|=", "&&&", "...", "|+|", "|-|", "<<=", "++=", "++", "<<", "&&", "||", "==", "!=", "<=", ">=",
    "+:", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "..", "##", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "!", "<", ">", "=", "?", ":", ";", ",", ".", "(", ")", "[", "]", "{", "}", "@", "#", "\\", "$", "`",
    "'",
];

/// Lexer of one file.
pub struct Lexer<'a> {
    text: &'a str,
    file: u32,
    at: usize,
    starts_line: bool,
    spaced: bool,
    /// End of the number of C of which the last token is a part.
    end_in_c: usize,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer at the start of `text`.
    pub fn new(text: &'a str, file: u32) -> Lexer<'a> {
        Lexer { text, file, at: 0, starts_line: true, spaced: false, end_in_c: 0 }
    }

    /// Creates a lexer at the byte `at` of `text`, as if a line began there.
    pub fn at(text: &'a str, file: u32, at: usize) -> Lexer<'a> {
        Lexer { at, ..Lexer::new(text, file) }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    /// Skips the rest of a line without lexing it: the text of `#error`, or an inactive group.
    pub fn skip_line(&mut self) -> &'a str {
        let start = self.at;
        while let Some(c) = self.rest().chars().next() {
            if c == '\n' {
                break;
            }
            if let Some(length) = splice(self.rest()) {
                self.at += length;
                continue;
            }
            if self.rest().starts_with("//") {
                self.at += comment_end(self.rest());
                continue;
            } else if c == '"' || c == '\'' {
                self.at += quoted_end(self.rest());
                continue;
            } else if self.rest().starts_with("/*") {
                self.at = self.rest().find("*/").map_or(self.text.len(), |end| self.at + end + 2);
                continue;
            }
            self.at += self.rest().chars().next().map_or(0, char::len_utf8);
        }
        self.text[start..self.at].trim()
    }

    fn skip_space(&mut self) -> Result<(), Diagnostic> {
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { return Ok(()) };
            if c == '\n' {
                (self.starts_line, self.spaced) = (true, true);
                self.at += 1;
            } else if c.is_whitespace() || c == '\u{feff}' {
                self.spaced = true;
                self.at += c.len_utf8();
            } else if let Some(length) = splice(rest) {
                self.spaced = true;
                self.at += length;
            } else if rest.starts_with("//") {
                self.spaced = true;
                self.at += comment_end(rest);
            } else if rest.starts_with("/*") {
                let start = self.at;
                let Some(end) = rest.find("*/") else {
                    self.at += 2;
                    let span = self.span(start);
                    self.at = self.text.len();
                    return Err(
                        Diagnostic::error(span, "this comment is not closed").help("end it with '*/'")
                    );
                };
                self.spaced = true;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// Lexes the next token.
    pub fn next(&mut self) -> Result<Token, Diagnostic> {
        self.skip_space()?;
        let (starts_line, spaced) = (self.starts_line, self.spaced);
        (self.starts_line, self.spaced) = (false, false);
        let start = self.at;
        let fixed = start < self.end_in_c;
        if !fixed {
            self.end_in_c = start + number_in_c(self.rest());
        }
        let kind = self.kind()?;
        let open = !fixed && self.at < self.end_in_c;
        Ok(Token { kind, span: self.span(start), starts_line, spaced, fixed, open })
    }

    fn kind(&mut self) -> Result<Kind, Diagnostic> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return Ok(Kind::End) };
        if c.is_ascii_alphabetic() || c == '_' {
            return Ok(Kind::Ident(self.word()));
        }
        if c.is_ascii_digit() {
            return self.number();
        }
        if c == '"' {
            return self.string();
        }
        let quoted = if c == '\'' { quoted_end(rest) } else { 0 };
        if quoted > 1 && rest.as_bytes()[quoted - 1] == b'\'' {
            self.at += quoted;
            return Ok(Kind::Char(rest[..quoted].into()));
        }
        if let Some(punct) = PUNCTS.iter().find(|punct| rest.starts_with(**punct)) {
            self.at += punct.len();
            return Ok(Kind::Punct(punct));
        }
        let start = self.at;
        self.at += c.len_utf8();
        Err(Diagnostic::error(self.span(start), format!("unexpected character '{}'", c.escape_default()))
            .help("P4 programs are written in ASCII outside comments and strings"))
    }

    /// An identifier, which may continue on the next line after a backslash.
    fn word(&mut self) -> Rc<str> {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut word = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find(|c: char| !inside(c)).unwrap_or(rest.len());
            word.push_str(&rest[..end]);
            self.at += end;
            match splice(&rest[end..]) {
                Some(length) if rest[end + length..].starts_with(inside) => self.at += length,
                _ => return word.into(),
            }
        }
    }

    fn string(&mut self) -> Result<Kind, Diagnostic> {
        let start = self.at;
        let mut value = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((index, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += index + 1;
                    return Ok(Kind::Str(value.into()));
                }
                '\\' => match chars.next() {
                    // A backslash joins the line with the next one.
                    Some((_, '\n')) => {}
                    Some((_, c)) => value.extend(['\\', c]),
                    None => break,
                },
                c => value.push(c),
            }
        }
        self.at += 1;
        let span = self.span(start);
        self.at = self.text.len();
        Err(Diagnostic::error(span, "this string is not closed").help("end it with '\"'"))
    }

    /// Lexes a number: `0x2A`, `8w0b1010`, `4s7`, `1_000`.
    fn number(&mut self) -> Result<Kind, Diagnostic> {
        let start = self.at;
        let rest = self.rest();
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(rest.len());
        let mut width = None;
        let mut body = 0;
        let follow = rest.as_bytes().get(digits).copied();
        if matches!(follow, Some(b'w' | b's'))
            && rest.as_bytes().get(digits + 1).is_some_and(u8::is_ascii_digit)
        {
            width = Some((rest[..digits].replace('_', ""), follow == Some(b's')));
            body = digits + 1;
        } else if matches!(follow, Some(b'w' | b's'))
            && !rest[digits + 1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            // The left operand of `8w##value`.
            self.at += digits + 1;
            return Ok(Kind::Ident(rest[..digits + 1].into()));
        }
        let (radix, skip) = match rest.as_bytes().get(body + 1).map(u8::to_ascii_lowercase) {
            Some(b'x') if rest.as_bytes()[body] == b'0' => (16, 2),
            Some(b'b') if rest.as_bytes()[body] == b'0' => (2, 2),
            Some(b'o') if rest.as_bytes()[body] == b'0' => (8, 2),
            Some(b'd') if rest.as_bytes()[body] == b'0' => (10, 2),
            _ => (10, 0),
        };
        let tail = &rest[body + skip..];
        let end = tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(tail.len());
        let text = tail[..end].replace('_', "");
        self.at += body + skip + end;
        let span = self.span(start);
        if text.len() > 20_000 {
            return Err(Diagnostic::error(span, "this number has too many digits"));
        }
        let Some(value) = BigInt::parse_bytes(text.as_bytes(), radix) else {
            // An operand of `##` such as the first one of `0x##digits`, or a number of C such as `1UL`.
            return Ok(Kind::Ident(rest[..body + skip + end].into()));
        };
        let spelling = rest[..body + skip + end].into();
        let Some((text, signed)) = width else { return Ok(Kind::Int(value, None, spelling)) };
        match text.parse::<u32>() {
            Ok(width) if width <= super::types::MAX_WIDTH => {
                Ok(Kind::Int(value, Some((width, signed)), spelling))
            }
            _ => Err(Diagnostic::error(
                span,
                format!("{text} is too wide: the limit is {} bits", super::types::MAX_WIDTH),
            )),
        }
    }
}

/// Length of a backslash that joins a line with the next one, with the white space after it.
fn splice(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\\')?.trim_start_matches([' ', '\t', '\r']);
    rest.starts_with('\n').then(|| text.len() - rest.len() + 1)
}

/// Length of a comment that begins with `//`: a backslash at the end of its line continues it.
fn comment_end(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        let Some(content) = line.strip_suffix('\n') else { break };
        if !content.trim_end_matches([' ', '\t', '\r']).ends_with('\\') {
            return end + content.len();
        }
        end += line.len();
    }
    text.len()
}

/// Length of a text in quotes, or of the rest of the line if they are not closed.
fn quoted_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'\n' {
        match bytes[at] {
            byte if byte == bytes[0] => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Length of the number of C at the start of `text`, which P4 splits if it is one such as `0x1e+X` or `1..MAX`.
fn number_in_c(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    if !(digit(0) || bytes.first() == Some(&b'.') && digit(1)) {
        return 0;
    }
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        let sign = matches!(byte, b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E' | b'p' | b'P');
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || sign) {
            break;
        }
        at += 1;
    }
    at
}
