//! Error of one update or request.

use crate::grpc::{Code, Status};
use crate::proto;
use belljar_p4info::Missing;
use std::fmt;

/// Canonical code with an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Canonical code.
    pub code: Code,
    /// Explanation.
    pub message: String,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The request is invalid in any state.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The object does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// The object to be inserted exists already.
    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(Code::AlreadyExists, message)
    }

    /// Not implemented by this server.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// A value or index is out of range.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    /// Prefixes the message with the position of the error.
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The refusal as an element of a batch's details.
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
