//! Thrift's binary protocol: messages of typed values.

/// Maximum length of a message in bytes.
const MAX_MESSAGE: usize = 4 << 20;
/// Maximum nesting of structs and lists.
const MAX_DEPTH: usize = 16;
/// Protocol version, in the upper half of a message's first word.
const VERSION: u32 = 0x8001_0000;

/// Message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// A call with a reply.
    Call = 1,
    /// An answer.
    Reply = 2,
    /// A rejection by the server itself.
    Exception = 3,
    /// A call without a reply.
    OneWay = 4,
}

/// Message: a call or a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Type.
    pub kind: MessageType,
    /// Method name.
    pub name: String,
    /// Sequence number, equal in call and reply.
    pub sequence: i32,
    /// Arguments or result.
    pub fields: Struct,
}

/// Struct: fields by id, in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct(pub Vec<(i16, Value)>);

impl Struct {
    /// Value of the field with an id.
    pub fn get(&self, number: i16) -> Option<&Value> {
        self.0.iter().find(|(own, _)| *own == number).map(|(_, value)| value)
    }
}

/// Typed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `bool`.
    Bool(bool),
    /// `byte`.
    Byte(i8),
    /// `double`.
    Double(f64),
    /// `i16`.
    I16(i16),
    /// `i32`, and values of enumerations.
    I32(i32),
    /// `i64`.
    I64(i64),
    /// `binary` and `string`.
    Bytes(Vec<u8>),
    /// A struct.
    Struct(Struct),
    /// `map`, with the types of keys and values.
    Map(u8, u8, Vec<(Value, Value)>),
    /// `list` or `set`, with the type of its elements.
    List(u8, Vec<Value>),
}

/// Type codes of the protocol.
pub mod types {
    #![allow(missing_docs)]
    pub const STOP: u8 = 0;
    pub const BOOL: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const DOUBLE: u8 = 4;
    pub const I16: u8 = 6;
    pub const I32: u8 = 8;
    pub const I64: u8 = 10;
    pub const STRING: u8 = 11;
    pub const STRUCT: u8 = 12;
    pub const MAP: u8 = 13;
    pub const SET: u8 = 14;
    pub const LIST: u8 = 15;
}

/// Failure to read a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// More bytes are needed.
    Incomplete,
    /// The bytes are not a message, or the message is too long.
    Malformed,
}

type Result<T> = std::result::Result<T, ReadError>;

impl Value {
    /// Creates a string.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Bytes(text.into().into_bytes())
    }
    /// Creates a struct.
    pub fn of(fields: impl IntoIterator<Item = (i16, Value)>) -> Value {
        Value::Struct(Struct(fields.into_iter().collect()))
    }
    /// Creates a list of values of type `kind`.
    pub fn list(kind: u8, values: impl IntoIterator<Item = Value>) -> Value {
        Value::List(kind, values.into_iter().collect())
    }

    fn kind(&self) -> u8 {
        match self {
            Value::Bool(_) => types::BOOL,
            Value::Byte(_) => types::BYTE,
            Value::Double(_) => types::DOUBLE,
            Value::I16(_) => types::I16,
            Value::I32(_) => types::I32,
            Value::I64(_) => types::I64,
            Value::Bytes(_) => types::STRING,
            Value::Struct(_) => types::STRUCT,
            Value::Map(..) => types::MAP,
            Value::List(..) => types::LIST,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Bool(value) => out.push(u8::from(*value)),
            Value::Byte(value) => out.extend(value.to_be_bytes()),
            Value::Double(value) => out.extend(value.to_be_bytes()),
            Value::I16(value) => out.extend(value.to_be_bytes()),
            Value::I32(value) => out.extend(value.to_be_bytes()),
            Value::I64(value) => out.extend(value.to_be_bytes()),
            Value::Bytes(bytes) => write_bytes(out, bytes),
            Value::Struct(fields) => fields.write(out),
            Value::Map(key, value, pairs) => {
                out.extend([*key, *value]);
                out.extend((pairs.len() as u32).to_be_bytes());
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
            Value::List(kind, values) => {
                out.push(*kind);
                out.extend((values.len() as u32).to_be_bytes());
                values.iter().for_each(|value| value.write(out));
            }
        }
    }
}

impl Struct {
    fn write(&self, out: &mut Vec<u8>) {
        for (number, value) in &self.0 {
            out.push(value.kind());
            out.extend(number.to_be_bytes());
            value.write(out);
        }
        out.push(types::STOP);
    }
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

impl Message {
    /// Appends the message to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend((VERSION | self.kind as u32).to_be_bytes());
        write_bytes(out, self.name.as_bytes());
        out.extend(self.sequence.to_be_bytes());
        self.fields.write(out);
    }

    /// Reads the message at the head of `bytes`; returns it with its length.
    pub fn read(bytes: &[u8]) -> Result<(Message, usize)> {
        let mut reader = Reader { rest: bytes };
        let read = reader.message();
        if read.is_err() && bytes.len() > MAX_MESSAGE {
            return Err(ReadError::Malformed);
        }
        Ok((read?, bytes.len() - reader.rest.len()))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn message(&mut self) -> Result<Message> {
        let word = u32::from_be_bytes(self.array()?);
        let kind = match word & 0xff {
            _ if word & 0xffff_0000 != VERSION => return Err(ReadError::Malformed),
            1 => MessageType::Call,
            2 => MessageType::Reply,
            3 => MessageType::Exception,
            4 => MessageType::OneWay,
            _ => return Err(ReadError::Malformed),
        };
        let name = String::from_utf8(self.bytes()?.to_vec()).map_err(|_| ReadError::Malformed)?;
        let sequence = i32::from_be_bytes(self.array()?);
        Ok(Message { kind, name, sequence, fields: self.fields(0)? })
    }
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ReadError::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N).map(|taken| taken.try_into().unwrap_or([0; N]))
    }
    fn length(&mut self) -> Result<usize> {
        let length = u32::from_be_bytes(self.array()?) as usize;
        if length > MAX_MESSAGE { Err(ReadError::Malformed) } else { Ok(length) }
    }
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
    fn fields(&mut self, depth: usize) -> Result<Struct> {
        if depth > MAX_DEPTH {
            return Err(ReadError::Malformed);
        }
        let mut fields = Vec::new();
        loop {
            let [kind] = self.array()?;
            if kind == types::STOP {
                return Ok(Struct(fields));
            }
            let number = i16::from_be_bytes(self.array()?);
            fields.push((number, self.value(kind, depth)?));
        }
    }
    fn value(&mut self, kind: u8, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(ReadError::Malformed);
        }
        Ok(match kind {
            types::BOOL => Value::Bool(self.array::<1>()?[0] != 0),
            types::BYTE => Value::Byte(i8::from_be_bytes(self.array()?)),
            types::DOUBLE => Value::Double(f64::from_be_bytes(self.array()?)),
            types::I16 => Value::I16(i16::from_be_bytes(self.array()?)),
            types::I32 => Value::I32(i32::from_be_bytes(self.array()?)),
            types::I64 => Value::I64(i64::from_be_bytes(self.array()?)),
            types::STRING => Value::Bytes(self.bytes()?.to_vec()),
            types::STRUCT => Value::Struct(self.fields(depth + 1)?),
            types::MAP => {
                let [key, value] = self.array()?;
                let pairs = (0..self.length()?)
                    .map(|_| Ok((self.value(key, depth + 1)?, self.value(value, depth + 1)?)));
                Value::Map(key, value, pairs.collect::<Result<_>>()?)
            }
            types::SET | types::LIST => {
                let [kind] = self.array()?;
                let values = (0..self.length()?).map(|_| self.value(kind, depth + 1));
                Value::List(kind, values.collect::<Result<_>>()?)
            }
            _ => return Err(ReadError::Malformed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Message {
        let pair = (Value::text("a"), Value::text("b"));
        let inner =
            Value::of([(1, Value::I32(-5)), (2, Value::Bytes(vec![1, 2, 3])), (3, Value::Double(0.5))]);
        let fields = vec![
            (1, Value::Bool(true)),
            (2, Value::list(types::STRUCT, [inner])),
            (3, Value::I64(i64::MIN)),
            (7, Value::Map(types::STRING, types::STRING, vec![pair])),
            (-1, Value::I16(7)),
            (8, Value::Byte(-1)),
        ];
        Message { kind: MessageType::Call, name: "s:method".into(), sequence: 9, fields: Struct(fields) }
    }

    #[test]
    fn a_message_is_read_as_it_was_written_and_never_before_it_is_there() {
        let mut bytes = Vec::new();
        sample().write(&mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(Message::read(&bytes[..length]), Err(ReadError::Incomplete), "{length}");
        }
        bytes.push(0xff);
        assert_eq!(Message::read(&bytes), Ok((sample(), bytes.len() - 1)));
    }

    #[test]
    fn what_no_message_can_begin_with_is_malformed() {
        let mut bytes = Vec::new();
        sample().write(&mut bytes);
        for (at, byte) in [(0, 0x41), (3, 9), (4, 0x7f), (20, 99)] {
            let mut wrong = bytes.clone();
            wrong[at] = byte;
            assert_eq!(Message::read(&wrong), Err(ReadError::Malformed), "{at}");
        }
        // Unbounded nesting of structs.
        let mut deep = bytes[..20].to_vec();
        (0..100).for_each(|_| deep.extend([types::STRUCT, 0, 1]));
        assert_eq!(Message::read(&deep), Err(ReadError::Malformed));
        // A list longer than any message is malformed; a list whose elements have not arrived is incomplete.
        for (length, expected) in [(0xff, ReadError::Malformed), (0, ReadError::Incomplete)] {
            let mut long = bytes[..20].to_vec();
            long.extend([types::LIST, 0, 1, types::I32, 0, length, 0xff, 0xff]);
            assert_eq!(Message::read(&long), Err(expected), "{length}");
        }
    }
}
