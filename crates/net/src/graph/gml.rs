//! Lexer for GML (Graph Modelling Language): keys, numbers, strings and brackets.

use std::fmt;

/// Error of a text that is not a valid graph, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GraphError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Description of the problem.
    pub message: String,
    /// Suggested correction.
    pub help: Option<String>,
    /// Further errors of the text.
    pub more: Vec<GraphError>,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Key(&'a str),
    Int(i64),
    Float(f64),
    /// Characters between the quotes, with entities (`&quot;`) unresolved.
    Str(&'a str),
    Open,
    Close,
    End,
}

impl Token<'_> {
    /// Description of the token for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Key(key) => format!("the word '{key}'"),
            Token::Int(n) => format!("the number {n}"),
            Token::Float(x) => format!("the number {x}"),
            Token::Str(s) => format!("the string \"{}\"", s.chars().take(40).collect::<String>()),
            Token::Open => "'['".to_owned(),
            Token::Close => "']'".to_owned(),
            Token::End => "the end of the text".to_owned(),
        }
    }
}

/// Token with the byte offset of its start.
pub(super) type Spanned<'a> = (Token<'a>, usize);

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        // A byte-order mark is skipped.
        Lexer { text, at: if text.starts_with('\u{feff}') { 3 } else { 0 } }
    }

    /// Creates an error `message` at byte offset `at`.
    pub(super) fn error(&self, at: usize, message: impl Into<String>, help: Option<String>) -> GraphError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        GraphError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1,
            message: message.into(),
            help,
            more: Vec::new(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Spanned<'a>, GraphError> {
        self.skip_blanks();
        let start = self.at;
        let bytes = self.text.as_bytes();
        let Some(&first) = bytes.get(start) else { return Ok((Token::End, start)) };
        let token = match first {
            b'[' => {
                self.at += 1;
                Token::Open
            }
            b']' => {
                self.at += 1;
                Token::Close
            }
            b'"' => {
                let Some(len) = self.text[start + 1..].find('"') else {
                    return Err(self.error(start, "this string has no end", Some("close it with \"".into())));
                };
                self.at += len + 2;
                Token::Str(&self.text[start + 1..start + 1 + len])
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                Token::Key(self.take_while(|b| b.is_ascii_alphanumeric() || b == b'_'))
            }
            b'0'..=b'9' | b'+' | b'-' | b'.' => {
                let word =
                    self.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_'));
                return self.number(word, start).map(|token| (token, start));
            }
            _ => {
                let c = self.text[start..].chars().next().unwrap_or_default();
                return Err(self.error(start, format!("the character '{c}' has no meaning in GML"), None));
            }
        };
        Ok((token, start))
    }

    fn number(&self, word: &str, start: usize) -> Result<Token<'a>, GraphError> {
        if let Ok(int) = word.parse::<i64>() {
            return Ok(Token::Int(int));
        }
        match word.parse::<f64>() {
            Ok(float) if float.is_finite() && !word.contains(['n', 'N']) => Ok(Token::Float(float)),
            _ => Err(self.error(
                start,
                format!("'{word}' is not a number"),
                Some(format!("values with a unit are strings: \"{word}\"")),
            )),
        }
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let len = rest.bytes().position(|b| !keep(b)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|b| b.is_ascii_whitespace());
            if !self.text[self.at..].starts_with('#') {
                return;
            }
            self.take_while(|b| b != b'\n');
        }
    }
}
