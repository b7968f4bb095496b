//! Failures of commands: the message and the exit status.

use std::fmt;

/// An error to be shown to the user as it is.
#[derive(Debug)]
pub struct Failure {
    text: String,
    status: u8,
}

/// Exit status for an experiment or a command line that cannot be used, as clap's own.
const USAGE: u8 = 2;

impl Failure {
    /// The input cannot be used.
    pub fn input(error: impl fmt::Display) -> Failure {
        Failure { text: error.to_string(), status: USAGE }
    }
    /// Something went wrong on the way.
    pub fn run(error: impl fmt::Display) -> Failure {
        Failure { text: format!("error: {error}"), status: 1 }
    }
    /// The command line names something that cannot be used.
    pub fn usage(error: impl fmt::Display) -> Failure {
        Failure { text: format!("error: {error}"), status: USAGE }
    }
    /// Some failure with a status of its own.
    pub fn other(text: String, status: u8) -> Failure {
        Failure { text, status }
    }
    /// A failure that somebody else tells of.
    pub fn quiet(status: u8) -> Failure {
        Failure { text: String::new(), status }
    }
    /// True if nothing is to be said of it here.
    pub fn is_quiet(&self) -> bool {
        self.text.is_empty()
    }
    /// The exit status of the command.
    pub fn status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
