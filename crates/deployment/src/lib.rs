//! Experiments on real machines, reached by ssh. The network is that of the machines; the hosts' programs are
//! started at a common time.
//!
//! No software is installed on the machines: a shell reads a script from its standard input (`script`), which
//! creates a folder and carries out commands, one per line. When its input ends, for whatever reason, it ends
//! all processes that it has started and removes the folder.
//!
//! * [`check`]: features that a deployment does not support.
//! * `script`: the scripts for a machine. `parcel`: the files sent to it, and the results received from it.
//! * `connection`: one machine, by OpenSSH's client; clocks.
//! * `run`: the steps of a deployment. `outcome`: its statistics.
#![forbid(unsafe_code)]

pub mod check;
#[expect(clippy::disallowed_methods, reason = "a deployment is in real time, on clocks of real machines")]
mod connection;
mod outcome;
mod parcel;
mod run;
mod script;

pub use outcome::{Deployment, MachineReport};
pub use run::{Order, Progress, deploy};

use std::fmt;
use std::io;

/// Failure of a deployment: one sentence that names the machine and, if possible, the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Result of a step of a deployment.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

impl From<belljar_results::ResultsError> for Error {
    fn from(error: belljar_results::ResultsError) -> Error {
        Error(error.to_string())
    }
}

/// Adds the failed operation to a system error.
trait Doing<T> {
    /// Converts the error to the text `operation: error`.
    fn doing(self, operation: impl fmt::Display) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, operation: impl fmt::Display) -> Result<T> {
        self.map_err(|error| {
            let text = error.to_string();
            Error(format!("{operation}: {}", text.split(" (os error").next().unwrap_or_default()))
        })
    }
}
