//! Errors of P4Info.

/// P4Info that no controller could use, or that does not belong to the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The explanation.
    pub message: String,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Puts the name of the object concerned before the message.
    pub(crate) fn at(self, object: &str) -> Self {
        Self { message: format!("{object}: {}", self.message) }
    }
}

/// An id that no object of its kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("P4Info has no {kind} {id:#010x}")]
pub struct Missing {
    /// The kind of object, such as `table`.
    pub kind: &'static str,
    /// The id.
    pub id: u32,
}
