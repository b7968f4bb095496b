//! Call with its arguments, and its failure modes.

use super::value::{Struct, Value};
use belljar_base::SimTime;
use belljar_p4::control::{ControlError, ErrorKind};
use belljar_p4::{Program, Switch};
use std::sync::Arc;

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The declared exception of the method, with its code.
    Code(i32),
    /// `TApplicationException`: the server rejects the call, with a type and a message.
    Application(i32, String),
}

/// `TApplicationException` type: unknown method.
pub const UNKNOWN_METHOD: i32 = 1;
/// `TApplicationException` type: the server cannot execute the call.
pub const INTERNAL_ERROR: i32 = 6;
/// `TApplicationException` type: wrong arguments for the method.
pub const PROTOCOL_ERROR: i32 = 7;

/// Result of a call; `None` is `void`.
pub type Answer = Result<Option<Value>, Failure>;

/// `TableOperationErrorCode`.
pub mod table_error {
    #![allow(missing_docs)]
    pub const TABLE_FULL: i32 = 1;
    pub const INVALID_HANDLE: i32 = 2;
    pub const COUNTERS_DISABLED: i32 = 4;
    pub const METERS_DISABLED: i32 = 5;
    pub const AGEING_DISABLED: i32 = 6;
    pub const INVALID_TABLE_NAME: i32 = 7;
    pub const INVALID_ACTION_NAME: i32 = 8;
    pub const WRONG_TABLE_TYPE: i32 = 9;
    pub const INVALID_MBR_HANDLE: i32 = 10;
    pub const MBR_STILL_USED: i32 = 11;
    pub const MBR_ALREADY_IN_GRP: i32 = 12;
    pub const MBR_NOT_IN_GRP: i32 = 13;
    pub const INVALID_GRP_HANDLE: i32 = 14;
    pub const GRP_STILL_USED: i32 = 15;
    pub const DUPLICATE_ENTRY: i32 = 17;
    pub const BAD_MATCH_KEY: i32 = 18;
    pub const DEFAULT_ACTION_IS_CONST: i32 = 20;
    pub const INVALID_ACTION_PROFILE_NAME: i32 = 23;
    pub const IMMUTABLE_TABLE_ENTRIES: i32 = 25;
    pub const BAD_ACTION_DATA: i32 = 26;
    pub const ERROR: i32 = 100;
}

/// Maps a control error to a code by its kind, using the pairs given.
pub fn code_of<T>(
    result: Result<T, ControlError>,
    codes: &[(ErrorKind, i32)],
    otherwise: i32,
) -> Result<T, Failure> {
    result.map_err(|error| {
        let code = codes.iter().find(|(kind, _)| *kind == error.kind);
        Failure::Code(code.map_or(otherwise, |(_, code)| *code))
    })
}

/// Call of a method.
pub struct Call<'a> {
    /// Switch on which the call is executed.
    pub switch: &'a mut Switch,
    /// Name of the method without its service.
    pub method: &'a str,
    /// Arguments by field id.
    pub arguments: &'a Struct,
    /// Current time.
    pub now: SimTime,
    /// Current time in nanoseconds since 1970.
    pub epoch_ns: u64,
}

fn missing(number: i16, what: &str) -> Failure {
    Failure::Application(PROTOCOL_ERROR, format!("argument {number} is missing, or is no {what}"))
}

impl Call<'_> {
    /// Program of the switch.
    pub fn program(&self) -> Arc<Program> {
        self.switch.program().clone()
    }
    /// An argument of type `i32` or `i16`.
    pub fn int(&self, number: i16) -> Result<i32, Failure> {
        int(self.arguments, number)
    }
    /// An argument that is a handle or index; `code` is the failure if it is negative.
    pub fn index(&self, number: i16, code: i32) -> Result<u32, Failure> {
        u32::try_from(self.int(number)?).map_err(|_| Failure::Code(code))
    }
    /// An argument of type `i64`.
    pub fn long(&self, number: i16) -> Result<i64, Failure> {
        long(self.arguments, number)
    }
    /// An argument of type `string`.
    pub fn text(&self, number: i16) -> Result<&str, Failure> {
        let bytes = bytes(self.arguments, number)?;
        std::str::from_utf8(bytes).map_err(|_| missing(number, "text"))
    }
    /// An argument that is a list.
    pub fn list(&self, number: i16) -> Result<&[Value], Failure> {
        list(self.arguments, number)
    }
    /// An argument that is a list of `binary`.
    pub fn byte_strings(&self, number: i16) -> Result<Vec<Vec<u8>>, Failure> {
        let values = self.list(number)?.iter();
        let bytes = values.map(|value| match value {
            Value::Bytes(bytes) => Ok(bytes.clone()),
            _ => Err(missing(number, "list of binary")),
        });
        bytes.collect()
    }
    /// An argument that is a struct.
    pub fn fields(&self, number: i16) -> Result<&Struct, Failure> {
        fields(self.arguments, number)
    }
}

/// A field of type `i32` or `i16`.
pub fn int(of: &Struct, number: i16) -> Result<i32, Failure> {
    match of.get(number) {
        Some(Value::I32(value)) => Ok(*value),
        Some(Value::I16(value)) => Ok((*value).into()),
        _ => Err(missing(number, "integer")),
    }
}
/// A field of type `i64`.
pub fn long(of: &Struct, number: i16) -> Result<i64, Failure> {
    match of.get(number) {
        Some(Value::I64(value)) => Ok(*value),
        _ => Err(missing(number, "i64")),
    }
}
/// A field of type `bool`.
pub fn flag(of: &Struct, number: i16) -> Result<bool, Failure> {
    match of.get(number) {
        Some(Value::Bool(value)) => Ok(*value),
        _ => Err(missing(number, "bool")),
    }
}
/// A field of type `double`.
pub fn double(of: &Struct, number: i16) -> Result<f64, Failure> {
    match of.get(number) {
        Some(Value::Double(value)) => Ok(*value),
        _ => Err(missing(number, "double")),
    }
}
/// A field of type `binary`.
pub fn bytes(of: &Struct, number: i16) -> Result<&[u8], Failure> {
    match of.get(number) {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        _ => Err(missing(number, "binary")),
    }
}
/// A field that is a list.
pub fn list(of: &Struct, number: i16) -> Result<&[Value], Failure> {
    match of.get(number) {
        Some(Value::List(_, values)) => Ok(values),
        _ => Err(missing(number, "list")),
    }
}
/// A field that is a struct.
pub fn fields(of: &Struct, number: i16) -> Result<&Struct, Failure> {
    match of.get(number) {
        Some(Value::Struct(fields)) => Ok(fields),
        _ => Err(missing(number, "struct")),
    }
}
