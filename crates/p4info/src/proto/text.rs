//! Protobuf's text format, in which compilers write P4Info (`*.p4info.txtpb`).
//!
//! [`parse`] makes a tree of the text; [`TextMessage`] and [`TextField`] fill messages from it. `text_message!` and
//! `text_oneof!` implement them beside prost's derives, from one list of fields.

mod lexer;

use lexer::{Lexer, Token};
use std::collections::BTreeMap;

/// An error in a text, with the line where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TextError {
    /// Counted from 1.
    pub line: usize,
    /// The error, and what is expected instead.
    pub message: String,
}

impl TextError {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

/// One `name: value` or `name { ... }`.
pub struct Field {
    name: String,
    line: usize,
    value: Value,
}

/// The value of a field.
enum Value {
    /// An integer; protobuf has none beyond 64 bits.
    Integer(i128),
    /// `true`, `false` or the name of an enumeration's value.
    Name(String),
    Text(Vec<u8>),
    Message(Vec<Field>),
}

impl Field {
    fn expected(&self, kind: &str) -> TextError {
        TextError::new(self.line, format!("'{}' takes {kind}", self.name))
    }
}

/// Nested messages are followed to this depth, as protobuf's own parsers do.
const MAX_DEPTH: usize = 64;

/// Reads a message from its text.
pub fn parse<M: TextMessage>(text: &str) -> Result<M, TextError> {
    let mut lexer = Lexer::new(text);
    let fields = fields(&mut lexer, None, 0)?;
    let mut message = M::default();
    message.fill(fields)?;
    Ok(message)
}

/// Fields up to `close`, or to the end of the text.
fn fields(lexer: &mut Lexer, close: Option<char>, depth: usize) -> Result<Vec<Field>, TextError> {
    if depth > MAX_DEPTH {
        return Err(TextError::new(lexer.line(), format!("messages are nested more than {MAX_DEPTH} deep")));
    }
    let mut all = Vec::new();
    loop {
        let name = match lexer.next()? {
            Token::End if close.is_none() => return Ok(all),
            Token::Symbol(symbol) if Some(symbol) == close => return Ok(all),
            Token::Symbol(',' | ';') => continue,
            Token::Name(name) => name,
            Token::Symbol('[') => {
                return Err(TextError::new(
                    lexer.line(),
                    "extensions and expanded 'Any' messages are not supported: leave them out",
                ));
            }
            Token::End => {
                return Err(TextError::new(lexer.line(), "the text ends inside a message: '}' is missing"));
            }
            other => {
                return Err(TextError::new(
                    lexer.line(),
                    format!("expected the name of a field, found {other}"),
                ));
            }
        };
        let line = lexer.line();
        let mut token = lexer.next()?;
        let colon = token == Token::Symbol(':');
        if colon {
            token = lexer.next()?;
        }
        match token {
            Token::Symbol('[') if colon => loop {
                let token = lexer.next()?;
                if token == Token::Symbol(']') {
                    break;
                }
                if token != Token::Symbol(',') {
                    let value = value(lexer, token, depth)?;
                    all.push(Field { name: name.clone(), line, value });
                }
            },
            Token::Symbol('{' | '<') => {
                let value = value(lexer, token, depth)?;
                all.push(Field { name, line, value });
            }
            token if colon => {
                let value = value(lexer, token, depth)?;
                all.push(Field { name, line, value });
            }
            token => {
                return Err(TextError::new(
                    line,
                    format!("expected ':' or '{{' after '{name}', found {token}"),
                ));
            }
        }
    }
}

fn value(lexer: &mut Lexer, token: Token, depth: usize) -> Result<Value, TextError> {
    match token {
        Token::Symbol('{') => Ok(Value::Message(fields(lexer, Some('}'), depth + 1)?)),
        Token::Symbol('<') => Ok(Value::Message(fields(lexer, Some('>'), depth + 1)?)),
        Token::Integer(value) => Ok(Value::Integer(value)),
        Token::Name(name) => Ok(Value::Name(name)),
        Token::Text(mut text) => {
            // Adjacent strings are one.
            while let Some(more) = lexer.text()? {
                text.extend(more);
            }
            Ok(Value::Text(text))
        }
        other => Err(TextError::new(lexer.line(), format!("expected a value, found {other}"))),
    }
}

/// A message that can be filled from fields of a text.
pub trait TextMessage: Default {
    /// The message's name, for errors.
    const NAME: &'static str;

    /// Takes one field, or gives it back when the message has no field of that name.
    fn take(&mut self, field: Field) -> Result<Option<Field>, TextError>;

    /// Takes all fields.
    fn fill(&mut self, fields: Vec<Field>) -> Result<(), TextError> {
        for field in fields {
            if let Some(field) = self.take(field)? {
                return Err(TextError::new(
                    field.line,
                    format!("{} has no field '{}'", Self::NAME, field.name),
                ));
            }
        }
        Ok(())
    }
}

/// A field of a message: it takes a value from a text.
pub trait TextField {
    /// Takes the field if it has the name `own`; a oneof takes those of its variants instead.
    fn accept(&mut self, own: &str, field: Field) -> Result<Option<Field>, TextError> {
        // A raw identifier is how Rust writes names that are its keywords.
        if field.name != own.strip_prefix("r#").unwrap_or(own) {
            return Ok(Some(field));
        }
        self.merge(field)?;
        Ok(None)
    }

    /// Takes the value.
    fn merge(&mut self, field: Field) -> Result<(), TextError>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl TextField for $type {
            fn merge(&mut self, field: Field) -> Result<(), TextError> {
                let Value::Integer(value) = field.value else {
                    return Err(field.expected("an integer"));
                };
                *self = value.try_into().map_err(|_| field.expected(concat!("a number that fits ", stringify!($type))))?;
                Ok(())
            }
        }
    )*};
}

integers!(i32, i64, u32);

impl TextField for bool {
    fn merge(&mut self, field: Field) -> Result<(), TextError> {
        *self = match &field.value {
            Value::Name(name) if matches!(name.as_str(), "true" | "True" | "t") => true,
            Value::Name(name) if matches!(name.as_str(), "false" | "False" | "f") => false,
            Value::Integer(value @ (0 | 1)) => *value == 1,
            _ => return Err(field.expected("'true' or 'false'")),
        };
        Ok(())
    }
}

impl TextField for Vec<u8> {
    fn merge(&mut self, field: Field) -> Result<(), TextError> {
        let Value::Text(text) = field.value else {
            return Err(field.expected("a string"));
        };
        *self = text;
        Ok(())
    }
}

impl TextField for String {
    fn merge(&mut self, field: Field) -> Result<(), TextError> {
        let mut bytes = Vec::new();
        let line = field.line;
        bytes.merge(field)?;
        *self = Self::from_utf8(bytes).map_err(|_| TextError::new(line, "the string is not UTF-8"))?;
        Ok(())
    }
}

impl TextField for Vec<u32> {
    fn merge(&mut self, field: Field) -> Result<(), TextError> {
        let mut item = 0;
        TextField::merge(&mut item, field)?;
        self.push(item);
        Ok(())
    }
}

impl TextField for Vec<String> {
    fn merge(&mut self, field: Field) -> Result<(), TextError> {
        let mut item = String::new();
        item.merge(field)?;
        self.push(item);
        Ok(())
    }
}

/// Fills a message from the value of a field.
pub fn message<M: TextMessage>(message: &mut M, field: Field) -> Result<(), TextError> {
    match field.value {
        Value::Message(fields) => message.fill(fields),
        _ => Err(field.expected("a message: { ... }")),
    }
}

/// A map takes entries `{ key: ... value { ... } }`.
impl<M: TextMessage> TextField for BTreeMap<String, M> {
    fn merge(&mut self, field: Field) -> Result<(), TextError> {
        let Value::Message(fields) = field.value else {
            return Err(field.expected("an entry: { key: ... value { ... } }"));
        };
        let (mut key, mut item) = (String::new(), M::default());
        for field in fields {
            match field.name.as_str() {
                "key" => key.merge(field)?,
                "value" => message(&mut item, field)?,
                _ => {
                    return Err(TextError::new(
                        field.line,
                        format!("a map entry has 'key' and 'value', not '{}'", field.name),
                    ));
                }
            }
        }
        self.insert(key, item);
        Ok(())
    }
}

/// Takes the name or number of an enumeration's value.
pub fn enumeration(to: &mut i32, field: Field, values: &[(&str, i32)]) -> Result<(), TextError> {
    let found = match &field.value {
        Value::Name(name) => values.iter().find(|(value, _)| value == name),
        Value::Integer(number) => values.iter().find(|(_, value)| i128::from(*value) == *number),
        _ => None,
    };
    let Some((_, value)) = found else {
        let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
        return Err(field.expected(&format!("one of {}", names.join(", "))));
    };
    *to = *value;
    Ok(())
}

/// A message with prost's derive, and with a text form from the same list of fields. Fields of enumerations name
/// theirs: `unit: i32 as Unit`.
macro_rules! text_message {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$attribute:meta])* pub $field:ident: $type:ty $(as $enumeration:ty)?, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, ::prost::Message)]
        pub struct $name {
            $( $(#[$attribute])* pub $field: $type, )*
        }

        impl crate::proto::text::TextMessage for $name {
            const NAME: &'static str = stringify!($name);

            #[allow(unused_mut, reason = "a message may have no fields")]
            fn take(
                &mut self,
                mut field: crate::proto::text::Field,
            ) -> Result<Option<crate::proto::text::Field>, crate::proto::text::TextError> {
                $(
                    match text_message!(@accept self, field, $field $(, $enumeration)?)? {
                        None => return Ok(None),
                        Some(back) => field = back,
                    }
                )*
                Ok(Some(field))
            }
        }

        impl crate::proto::text::TextField for Option<$name> {
            fn merge(&mut self, field: crate::proto::text::Field) -> Result<(), crate::proto::text::TextError> {
                crate::proto::text::message(self.get_or_insert_default(), field)
            }
        }

        impl crate::proto::text::TextField for $name {
            fn merge(&mut self, field: crate::proto::text::Field) -> Result<(), crate::proto::text::TextError> {
                crate::proto::text::message(self, field)
            }
        }

        impl crate::proto::text::TextField for Vec<$name> {
            fn merge(&mut self, field: crate::proto::text::Field) -> Result<(), crate::proto::text::TextError> {
                let mut item = $name::default();
                crate::proto::text::message(&mut item, field)?;
                self.push(item);
                Ok(())
            }
        }
    };
    (@accept $message:ident, $given:ident, $field:ident) => {
        crate::proto::text::TextField::accept(&mut $message.$field, stringify!($field), $given)
    };
    (@accept $message:ident, $given:ident, $field:ident, $enumeration:ty) => {
        crate::proto::text::accept_enumeration(&mut $message.$field, stringify!($field), $given, <$enumeration>::NAMES)
    };
}

/// A oneof with prost's derive and a text form. Variants name their fields: `"match_type" MatchType(i32) as Match`.
macro_rules! text_oneof {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$attribute:meta])* $text:literal $variant:ident($type:ty) $(as $enumeration:ty)?, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, ::prost::Oneof)]
        pub enum $name {
            $( $(#[$attribute])* $variant($type), )*
        }

        impl crate::proto::text::TextField for Option<$name> {
            fn accept(
                &mut self,
                _own: &str,
                mut field: crate::proto::text::Field,
            ) -> Result<Option<crate::proto::text::Field>, crate::proto::text::TextError> {
                $(
                    let mut value = <$type>::default();
                    match text_oneof!(@accept value, $text, field $(, $enumeration)?)? {
                        None => {
                            *self = Some($name::$variant(value));
                            return Ok(None);
                        }
                        Some(back) => field = back,
                    }
                )*
                Ok(Some(field))
            }

            fn merge(&mut self, field: crate::proto::text::Field) -> Result<(), crate::proto::text::TextError> {
                self.accept("", field).map(|_| ())
            }
        }
    };
    (@accept $value:ident, $text:literal, $field:ident) => {
        crate::proto::text::TextField::accept(&mut $value, $text, $field)
    };
    (@accept $value:ident, $text:literal, $field:ident, $enumeration:ty) => {
        crate::proto::text::accept_enumeration(&mut $value, $text, $field, <$enumeration>::NAMES)
    };
}

/// An enumeration with prost's derive and the names of its values in the text format.
macro_rules! text_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $variant:ident = $value:literal $text:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::prost::Enumeration)]
        #[repr(i32)]
        pub enum $name {
            $( $variant = $value, )*
        }

        impl $name {
            /// The names of the values.
            pub const NAMES: &[(&str, i32)] = &[$( ($text, $value), )*];
        }
    };
}

/// Takes a field of an enumeration if it has the name `own`.
pub fn accept_enumeration(
    to: &mut i32,
    own: &str,
    field: Field,
    values: &[(&str, i32)],
) -> Result<Option<Field>, TextError> {
    if field.name != own {
        return Ok(Some(field));
    }
    enumeration(to, field, values)?;
    Ok(None)
}

pub(super) use {text_enum, text_message, text_oneof};

#[cfg(test)]
mod tests;
