//! Connection to one machine by OpenSSH's client, and its clock.

use crate::{Doing, Error, Result, script};
use belljar_config::Machine;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Timeout for a reply.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of measurements of a clock, of which the one with the shortest round trip is used.
const SAMPLES: usize = 16;
/// Timeout for a machine to remove the run's files.
const FAREWELL: Duration = Duration::from_secs(15);

/// A line from a machine's script, or the error that ended its connection, with the machine's index.
pub type News = (usize, Result<String>);

/// Offset of a machine's clock from this machine's.
#[derive(Clone, Copy, Debug)]
pub struct Offset {
    /// Nanoseconds by which the machine's clock is ahead.
    pub ns: i64,
    /// Error bound of the measurement in nanoseconds: half of the round-trip time.
    pub uncertainty_ns: u64,
    /// Time of the measurement by this machine's clock, in nanoseconds.
    pub at_ns: i64,
}

/// A connection to a machine. Dropping it ends the run's processes on the machine and removes its files.
pub struct Connection {
    /// Settings of the machine.
    pub machine: Machine,
    /// Path of the run's folder on the machine.
    pub folder: String,
    /// Architecture of the machine, as reported by uname(1).
    pub architecture: String,
    number: usize,
    child: Child,
    stdin: Option<ChildStdin>,
    control: PathBuf,
}

/// Current time in nanoseconds since 1970.
pub fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// The ssh command with the options of a machine, without the remote command.
fn ssh(machine: &Machine, control: &Path, master: bool) -> Command {
    let mut command = Command::new("ssh");
    command.arg("-T");
    for option in &machine.ssh_options {
        command.arg("-o").arg(option);
    }
    let path = format!("ControlPath={}", control.display());
    let master = if master { "ControlMaster=yes" } else { "ControlMaster=no" };
    let ours = [
        "BatchMode=yes",
        "ConnectTimeout=10",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ControlPersist=no",
        "LogLevel=ERROR",
    ];
    for option in ours.into_iter().chain([master, &path]) {
        command.arg("-o").arg(option);
    }
    if let Some(port) = machine.port {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(identity) = &machine.identity {
        command.arg("-i").arg(identity);
    }
    command.arg(&machine.address);
    // Ctrl-C in the terminal is for this program only, which shuts the run down.
    command.process_group(0);
    command
}

impl Connection {
    /// Connects to a machine and starts the script in its shell. The script's lines are sent to `news` with
    /// this `number`.
    pub fn open(
        machine: &Machine,
        number: usize,
        id: &str,
        sockets: &Path,
        news: Sender<News>,
    ) -> Result<Connection> {
        let control = sockets.join(number.to_string());
        let mut command = ssh(machine, &control, true);
        command.arg("exec /bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::new("there is no program 'ssh': install OpenSSH's client"),
            _ => Error::new(format!("'ssh' cannot be started: {error}")),
        })?;
        let stdin = child.stdin.take();
        let said = Arc::new(Mutex::new(String::new()));
        let last_words = child.stderr.take().map(|stderr| {
            let said = said.clone();
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(std::io::Result::ok) {
                    if !line.trim().is_empty() {
                        *said.lock().unwrap_or_else(PoisonError::into_inner) = line.trim().to_owned();
                    }
                }
            })
        });
        let name = format!("machine '{}' ({})", machine.name, machine.address);
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let mut was_ready = false;
                for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                    was_ready |= line.starts_with("ready ");
                    if news.send((number, Ok(line))).is_err() {
                        return;
                    }
                }
                // ssh's error output and its end arrive independently.
                let _ = last_words.map(thread::JoinHandle::join);
                let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let what = if was_ready { "the connection was lost" } else { "it cannot be reached" };
                let why = if said.is_empty() { "ssh ended without a word" } else { &said };
                let _ = news.send((number, Err(Error::new(format!("{name}: {what}: {why}")))));
            });
        }
        let (folder, architecture) = (String::new(), String::new());
        let mut connection =
            Connection { machine: machine.clone(), folder, architecture, number, child, stdin, control };
        connection.tell(&script::supervisor(id, &machine.directory));
        Ok(connection)
    }

    /// An error that names this machine.
    pub fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::new(format!("machine '{}' ({}): {why}", self.machine.name, self.machine.address))
    }

    /// Sends lines to the script. A lost connection is reported through `news`.
    pub fn tell(&mut self, text: &str) {
        let _ =
            self.stdin.as_mut().map(|stdin| stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()));
    }

    /// Waits for the next line of this machine. Lines of other machines are discarded; their errors are
    /// returned.
    pub fn hear(&mut self, news: &Receiver<News>) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                // The script may report its end late.
                Ok((number, Ok(line))) if number == self.number && line != "finished" => return Ok(line),
                Ok((_, Err(error))) => return Err(error),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(self.error("it does not answer"));
                }
            }
        }
    }

    /// Measures the offset of the machine's clock.
    pub fn offset(&mut self, news: &Receiver<News>) -> Result<Offset> {
        let mut best: Option<Offset> = None;
        for _ in 0..SAMPLES {
            let sent = wall_ns();
            self.tell("time\n");
            let line = self.hear(news)?;
            let came = wall_ns();
            let there = line.strip_prefix("time ").and_then(|text| text.parse::<i64>().ok());
            let Some(there) = there else {
                return Err(self.error("its 'date +%s%N' tells no nanoseconds: install the coreutils there"));
            };
            let uncertainty_ns = (came - sent).unsigned_abs() / 2;
            if best.is_none_or(|best| uncertainty_ns < best.uncertainty_ns) {
                let at_ns = sent + (came - sent) / 2;
                best = Some(Offset { ns: there - at_ns, uncertainty_ns, at_ns });
            }
        }
        best.ok_or_else(|| self.error("its clock was not measured"))
    }

    /// Runs a command on the machine with this input; returns its output.
    pub fn command(&self, command: &str, input: &[u8]) -> Result<Vec<u8>> {
        let mut ssh = ssh(&self.machine, &self.control, false);
        ssh.arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().doing("starting 'ssh'")?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut output, mut said) = (Vec::new(), String::new());
        let read = thread::scope(|scope| {
            scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(input)));
            scope.spawn(|| stderr.map(|mut stderr| stderr.read_to_string(&mut said)));
            stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut output))
        });
        let status = child.wait().doing("waiting for 'ssh'")?;
        let why = said.lines().last().unwrap_or("the connection was lost");
        match (read, status.success()) {
            (Ok(_), true) => Ok(output),
            _ => {
                Err(self.error(format!("'{}' failed: {why}", command.split(' ').next().unwrap_or_default())))
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stdin.as_mut().map(|stdin| stdin.write_all(b"quit\n"));
        // The end of its input also ends the script.
        self.stdin = None;
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
