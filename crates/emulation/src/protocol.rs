//! Messages between the process that runs an emulation and the first process of each host: one line of JSON each.

use crate::error::{Doing, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Everything that the first process of a host is told before it does anything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostSetup {
    /// The host's name.
    pub name: String,
    /// Its folder in the results: the working directory of its processes.
    pub directory: PathBuf,
    /// A folder for mount points, on the same file system.
    pub scratch: PathBuf,
    /// The directory with its files, if it does not have the machine's.
    pub root: Option<PathBuf>,
    /// The directory that its programs start in.
    pub working_directory: PathBuf,
    /// Files that the host sees in the place of the machine's, with their content.
    pub files: Vec<(String, String)>,
    /// Directories of the machine that it sees and writes as they are.
    pub shared: Vec<PathBuf>,
    /// Directories that it sees although they lie below one that starts empty.
    pub exposed: Vec<PathBuf>,
    /// Settings of its kernel.
    pub sysctls: Vec<(String, String)>,
    /// True if all users of the machine exist in the emulation too.
    pub all_users: bool,
    /// Its clock, if its time is dilated.
    pub dilated: Option<DilatedSetup>,
}

/// The clock of a dilated host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DilatedSetup {
    /// The folder with the shim and the clock.
    pub folder: PathBuf,
    /// The way in which it is frozen.
    pub freezing: Freezing,
}

/// A way to freeze the processes of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Freezing {
    /// They are not frozen.
    Never,
    /// By the control group whose list of members this is.
    Group(PathBuf),
    /// By signals that the first process sends, as its standard output orders.
    Signals,
}

/// A process to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessStart {
    /// Its place in the host's list.
    pub number: usize,
    /// The program's file name.
    pub program: String,
    /// The path of its file.
    pub path: String,
    /// Its arguments, `argv[0]` included.
    pub args: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// The user that it runs as.
    pub user: Option<String>,
}

/// A request to the first process of a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Starts a process.
    Start(ProcessStart),
    /// Sends a signal to a process.
    Signal {
        /// Its process id.
        pid: i32,
        /// The signal's number.
        signal: i32,
    },
    /// Ends all processes at once.
    Crash,
    /// Empties the directories that start empty.
    Boot,
    /// Ends all processes and itself.
    Finish,
}

/// News from the first process of a host. Times are of `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum News {
    /// It is ready to start processes.
    Ready,
    /// It cannot become ready.
    Unfit(String),
    /// Something is not as the experiment has it.
    Warning(String),
    /// A process was started.
    Started {
        /// Its place in the host's list.
        number: usize,
        /// Its process id.
        pid: i32,
        /// When.
        at: u64,
    },
    /// A process could not be started.
    Failed {
        /// Its place in the host's list.
        number: usize,
        /// Why.
        reason: String,
        /// When.
        at: u64,
    },
    /// A process ended.
    Ended {
        /// Its process id.
        pid: i32,
        /// The status that it exited with.
        exited: Option<i32>,
        /// The signal that killed it.
        signaled: Option<i32>,
        /// When.
        at: u64,
    },
    /// All processes have ended.
    Finished {
        /// Seconds of processor time that they took.
        cpu_seconds: f64,
    },
}

/// Writes a message.
pub fn send<T: Serialize>(mut to: impl Write, message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message).expect("plain data can be serialised");
    line.push(b'\n');
    to.write_all(&line).doing("telling a host")
}

/// Reads a message; `None` at the end of the stream or if it breaks off.
pub fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => serde_json::from_str(&line).ok(),
    }
}
