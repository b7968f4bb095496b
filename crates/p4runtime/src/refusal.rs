//! The refusal of one update or request.

use crate::grpc::{Code, Status};
use crate::proto;
use belljar_p4info::Missing;
use std::fmt;

/// A canonical code and the sentence that explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The canonical code.
    pub code: Code,
    /// The explanation.
    pub message: String,
}

impl Refusal {
    /// A refusal with any code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The request makes no sense, whatever the state.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The thing referred to does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// The thing to be inserted exists.
    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(Code::AlreadyExists, message)
    }

    /// Not offered here.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// A value or an index beyond its range.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    /// The same refusal, with where it arose before it.
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The element of a batch's details.
    pub fn to_error(&self) -> proto::Error {
        proto::Error {
            canonical_code: self.code as i32,
            message: self.message.clone(),
            ..proto::Error::default()
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<belljar_p4info::Error> for Refusal {
    fn from(error: belljar_p4info::Error) -> Self {
        Self::invalid(error.message)
    }
}

impl From<Missing> for Refusal {
    fn from(missing: Missing) -> Self {
        Self::not_found(missing.to_string())
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}
