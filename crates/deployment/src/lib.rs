//! Experiments on real machines, which are reached by ssh. The network is theirs; hosts' programs are started at a common time.
//!
//! Nothing is installed there: a shell reads a script from its standard input (`script`), which makes a folder, does what it is told in
//! lines, and ends all that it has started and removes the folder when its input ends, however the connection does.
//!
//! * [`check`]: what a deployment cannot do.
//! * `script`: the scripts of a machine. `parcel`: the files that it gets, and the results that come back.
//! * `connection`: one machine, by OpenSSH's client; clocks.
//! * `run`: a deployment from its first step to its last. `outcome`: its statistics.
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

/// Failure of a deployment: one sentence that names the machine and, where there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// The result of a step of a deployment.
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

/// Adds the operation to an error of the system.
trait Doing<T> {
    /// The error reads `operation: error`.
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
