use std::fmt;

/// Error kind of a control operation; the kinds correspond to gRPC status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The table, entry, member, group, session or index does not exist.
    NotFound,
    /// The object exists already.
    AlreadyExists,
    /// A value is malformed, too wide or of the wrong kind.
    InvalidArgument,
    /// The index is beyond the end of the array.
    OutOfRange,
    /// The table or profile is full.
    ResourceExhausted,
    /// The table or default action is constant.
    PermissionDenied,
    /// The object is in use, or a prerequisite is missing.
    FailedPrecondition,
}

/// Error of a control operation. The operation had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError {
    /// Kind.
    pub kind: ErrorKind,
    /// Reason, with the names of the objects and, where possible, a remedy.
    pub message: String,
}

impl ControlError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> ControlError {
        ControlError { kind, message: message.into() }
    }
    pub(crate) fn not_found(message: impl Into<String>) -> ControlError {
        ControlError::new(ErrorKind::NotFound, message)
    }
    pub(crate) fn invalid(message: impl Into<String>) -> ControlError {
        ControlError::new(ErrorKind::InvalidArgument, message)
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ControlError {}

impl From<ControlError> for String {
    fn from(error: ControlError) -> String {
        error.message
    }
}

/// Result of a control operation.
pub type Result<T> = std::result::Result<T, ControlError>;
