//! Failures of commands: the message and the exit status.

use std::fmt;

/// Error of a command, with the message for the user.
#[derive(Debug)]
pub struct Failure {
    text: String,
    status: u8,
}

/// Exit status for an invalid experiment or command line, the same as clap's.
const USAGE: u8 = 2;

impl Failure {
    /// Failure for invalid input. The message is printed unchanged.
    pub fn input(error: impl fmt::Display) -> Failure {
        Failure { text: error.to_string(), status: USAGE }
    }
    /// Failure at run time.
    pub fn run(error: impl fmt::Display) -> Failure {
        Failure { text: format!("error: {error}"), status: 1 }
    }
    /// Failure for an invalid argument of the command line.
    pub fn usage(error: impl fmt::Display) -> Failure {
        Failure { text: format!("error: {error}"), status: USAGE }
    }
    /// Failure with a status of its own.
    pub fn other(text: String, status: u8) -> Failure {
        Failure { text, status }
    }
    /// Failure without a message: another process reports it.
    pub fn quiet(status: u8) -> Failure {
        Failure { text: String::new(), status }
    }
    /// True for a failure without a message.
    pub fn is_quiet(&self) -> bool {
        self.text.is_empty()
    }
    /// Exit status of the command.
    pub fn status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
