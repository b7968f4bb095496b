//! Tokens of protobuf's text format.

use super::TextError;
use std::fmt;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Name(String),
    Integer(i128),
    /// The bytes of a string, its escapes resolved.
    Text(Vec<u8>),
    Symbol(char),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "'{name}'"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Text(_) => write!(f, "a string"),
            Self::Symbol(symbol) => write!(f, "'{symbol}'"),
            Self::End => write!(f, "the end of the text"),
        }
    }
}

/// Splits a text into tokens.
pub struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// The line of the token last read, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    fn error(&self, message: impl Into<String>) -> TextError {
        TextError { line: self.line, message: message.into() }
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let trimmed = self.rest.trim_start_matches([' ', '\t', '\r']);
            if let Some(rest) = trimmed.strip_prefix('\n') {
                self.line += 1;
                self.rest = rest;
            } else if trimmed.starts_with('#') {
                self.rest = &trimmed[trimmed.find('\n').unwrap_or(trimmed.len())..];
            } else {
                self.rest = trimmed;
                return;
            }
        }
    }

    /// The next token.
    pub fn next(&mut self) -> Result<Token, TextError> {
        self.skip();
        let Some(first) = self.rest.chars().next() else {
            return Ok(Token::End);
        };
        match first {
            '"' | '\'' => self.string(first),
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = self
                    .rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
                    .unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(Token::Name(name.to_string()))
            }
            '0'..='9' | '-' => self.number(),
            _ => {
                self.rest = &self.rest[first.len_utf8()..];
                Ok(Token::Symbol(first))
            }
        }
    }

    /// The next token if it is a string.
    pub fn text(&mut self) -> Result<Option<Vec<u8>>, TextError> {
        self.skip();
        if !self.rest.starts_with(['"', '\'']) {
            return Ok(None);
        }
        match self.next()? {
            Token::Text(text) => Ok(Some(text)),
            _ => Ok(None),
        }
    }

    fn number(&mut self) -> Result<Token, TextError> {
        let negative = self.rest.starts_with('-');
        let digits = if negative { self.rest[1..].trim_start() } else { self.rest };
        let end = digits.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(digits.len());
        let (number, rest) = digits.split_at(end);
        self.rest = rest;
        let hex = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
        let value = match hex {
            Some(hex) => i128::from_str_radix(hex, 16),
            None if number.len() > 1 && number.starts_with('0') => i128::from_str_radix(number, 8),
            None => number.parse::<i128>(),
        };
        let value = value.map_err(|_| self.error(format!("'{number}' is not an integer")))?;
        Ok(Token::Integer(if negative { -value } else { value }))
    }

    fn string(&mut self, quote: char) -> Result<Token, TextError> {
        let mut bytes = Vec::new();
        let mut chars = self.rest[1..].char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            match char {
                _ if char == quote => {
                    self.rest = &self.rest[1 + at + 1..];
                    return Ok(Token::Text(bytes));
                }
                '\n' => break,
                '\\' => {
                    let Some((_, escape)) = chars.next() else { break };
                    let mut digits = |radix: u32, first: Option<u32>, most: usize| {
                        let mut value = first.unwrap_or(0);
                        let mut count = 0;
                        while count < most {
                            let Some(digit) = chars.peek().and_then(|(_, c)| c.to_digit(radix)) else {
                                break;
                            };
                            chars.next();
                            value = value * radix + digit;
                            count += 1;
                        }
                        (value, count)
                    };
                    match escape {
                        'n' => bytes.push(b'\n'),
                        't' => bytes.push(b'\t'),
                        'r' => bytes.push(b'\r'),
                        'a' => bytes.push(7),
                        'b' => bytes.push(8),
                        'f' => bytes.push(12),
                        'v' => bytes.push(11),
                        '\\' | '\'' | '"' | '?' => bytes.push(escape as u8),
                        '0'..='7' => {
                            let (value, _) = digits(8, escape.to_digit(8), 2);
                            bytes.push(
                                u8::try_from(value)
                                    .map_err(|_| self.error("an octal escape is at most \\377"))?,
                            );
                        }
                        'x' | 'X' => match digits(16, None, 2) {
                            (value, 1..) => bytes.push(value as u8),
                            _ => return Err(self.error("'\\x' needs hexadecimal digits")),
                        },
                        'u' | 'U' => {
                            let most = if escape == 'u' { 4 } else { 8 };
                            let (value, count) = digits(16, None, most);
                            let char = char::from_u32(value).filter(|_| count == most);
                            let char = char.ok_or_else(|| {
                                self.error(format!("'\\{escape}' needs {most} digits of a character"))
                            })?;
                            bytes.extend(char.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        _ => return Err(self.error(format!("unknown escape '\\{escape}'"))),
                    }
                }
                _ => bytes.extend(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Err(self.error("the string does not end on its line"))
    }
}
