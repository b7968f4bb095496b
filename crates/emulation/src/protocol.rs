//! Protocol between the process that runs an emulation and the first process of each host: messages of one
//! line of JSON each.

use crate::error::{Doing, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// Setup of a host, the first message to its first process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostSetup {
    /// Name of the host.
    pub name: String,
    /// Folder of the host in the results, the default working directory of its processes.
    pub directory: PathBuf,
    /// Folder for mount points, on the same file system.
    pub scratch: PathBuf,
    /// Root directory, if the host does not use the machine's files.
    pub root: Option<PathBuf>,
    /// Working directory of the host's programs.
    pub working_directory: PathBuf,
    /// Files that replace those of the machine: path and content.
    pub files: Vec<(String, String)>,
    /// Directories of the machine that the host shares read-write.
    pub shared: Vec<PathBuf>,
    /// Directories that remain visible below one that starts empty.
    pub exposed: Vec<PathBuf>,
    /// Sysctls of the host: name and value.
    pub sysctls: Vec<(String, String)>,
    /// True if the machine's users exist in the emulation.
    pub all_users: bool,
    /// Clock of the host, if its time is dilated.
    pub dilated: Option<DilatedSetup>,
}

/// Clock of a dilated host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DilatedSetup {
    /// Folder with the shim and the clock.
    pub folder: PathBuf,
    /// Method of freezing the host.
    pub freezing: Freezing,
}

/// Method of freezing the processes of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Freezing {
    /// The processes are not frozen.
    Never,
    /// Freezing by a control group, given by its membership file.
    Group(PathBuf),
    /// Freezing by signals, which the first process sends on orders from the socket that is its standard
    /// output.
    Signals,
}

/// Process to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessStart {
    /// Index in the host's list of processes.
    pub number: usize,
    /// File name of the program.
    pub program: String,
    /// Path of the program.
    pub path: String,
    /// Arguments, including `argv[0]`.
    pub args: Vec<String>,
    /// Environment.
    pub environment: Vec<(String, String)>,
    /// User to run as.
    pub user: Option<String>,
}

/// Request to the first process of a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Start a process.
    Start(ProcessStart),
    /// Send a signal to a process.
    Signal {
        /// Process id.
        pid: i32,
        /// Signal number.
        signal: i32,
    },
    /// Kill all processes.
    Crash,
    /// Empty the directories that start empty.
    Boot,
    /// Kill all processes, and exit.
    Finish,
}

/// Notification from the first process of a host. Times are `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum News {
    /// The host is ready to start processes.
    Ready,
    /// The host cannot become ready, for this reason.
    Unfit(String),
    /// The host differs from the experiment's description.
    Warning(String),
    /// A process was started.
    Started {
        /// Index in the host's list of processes.
        number: usize,
        /// Process id.
        pid: i32,
        /// Time of the start.
        at: u64,
    },
    /// A process could not be started.
    Failed {
        /// Index in the host's list of processes.
        number: usize,
        /// Reason of the failure.
        reason: String,
        /// Time of the failure.
        at: u64,
    },
    /// A user has added a program to the host.
    Attended {
        /// Process id.
        pid: i32,
        /// Program and arguments, for the results.
        title: String,
        /// Time of the start.
        at: u64,
    },
    /// A process ended.
    Ended {
        /// Process id.
        pid: i32,
        /// Exit status, if the process exited.
        exited: Option<i32>,
        /// Number of the signal that killed the process, if any.
        signaled: Option<i32>,
        /// Time of the end.
        at: u64,
    },
    /// All processes have ended.
    Finished {
        /// Processor time of the processes, in seconds.
        cpu_seconds: f64,
    },
}

/// Writes a message.
pub fn send<T: Serialize>(mut to: impl Write, message: &T) -> Result<()> {
    let mut line = serde_json::to_vec(message).expect("plain data can be serialised");
    line.push(b'\n');
    to.write_all(&line).doing("telling a host")
}

/// Reads a message; `None` at the end of the stream, or if the message is malformed.
pub fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => serde_json::from_str(&line).ok(),
    }
}
