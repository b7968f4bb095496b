//! Errors of an emulation. Each is one sentence that names the object and, where there is one, the remedy.

use std::fmt;
use std::io;

/// Result of a step of an emulation.
pub type Result<T> = std::result::Result<T, Error>;

/// Failure of an emulation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// Creates a failure with this message.
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

impl From<belljar_packetio::Error> for Error {
    fn from(error: belljar_packetio::Error) -> Error {
        Error(error.to_string())
    }
}

impl From<belljar_results::ResultsError> for Error {
    fn from(error: belljar_results::ResultsError) -> Error {
        Error(error.to_string())
    }
}

/// Extension of results that prefixes a system error with the failed operation.
pub(crate) trait Doing<T> {
    /// Converts the error to `operation: error`.
    fn doing(self, operation: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, operation: impl fmt::Display) -> Result<T> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            let text = error.to_string();
            Error(format!("{operation}: {}", text.split(" (os error").next().unwrap_or_default()))
        })
    }
}
