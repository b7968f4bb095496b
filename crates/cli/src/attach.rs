//! `belljar attach`, and programs on the hosts of a running experiment in general.

use crate::failure::Failure;
use crate::tty::{self, Input, Leave, Raw};
use crate::{control, progress, signals};
use belljar_channel::with_socket_path;
use belljar_emulation::attach::{self as emulated, Answer, Order};
use belljar_emulation::world::SCRATCH;
use belljar_sim::{AttachedProgram, Frame};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

/// Variables of the user's environment that a program with a terminal gets.
const OF_TERMINAL: [&str; 3] = ["TERM", "COLORTERM", "LS_COLORS"];
/// Default command: the best shell of the host.
const SHELL: [&str; 3] = ["sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi"];
/// Bytes read from a terminal at a time.
const CHUNK: usize = 1 << 14;

/// Runs a command, or a shell, on a host of a running experiment: with the host's network, files and clock.
///
/// An emulated run (belljar emulate) can be attached to at any time, a simulated one while it is paused in its live view
/// (--live) or paced (--real-time). A paused run goes on while the command does something, and stands while it waits
/// for input. The results say that the run was attended: it cannot be reproduced.
///
/// The exit status is the command's, 128 + the signal's number if a signal killed it. Ctrl-] three times within a
/// second leaves it. The same user and root can attach.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar attach exp.data alice                a shell on alice\n  belljar attach exp.data alice -- ip route\n  belljar emulate exp.yaml -o exp.emu & belljar attach exp.emu alice -- ping -c 3 bob"
)]
pub struct Arguments {
    /// The results folder of the running experiment
    folder: PathBuf,
    /// The host
    host: String,
    /// The command and its arguments [default: a shell]
    #[arg(last = true)]
    command: Vec<String>,
}

/// Attaches, and exits with the status of the command.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let program = match &arguments.command[..] {
        [] => Program { command: SHELL.map(str::to_owned).to_vec(), title: "a shell".to_owned() },
        command => Program { command: command.to_vec(), title: command.join(" ") },
    };
    let input = if tty::is_here() { Input::Terminal } else { Input::Standard };
    let _ = signals::handle(|| {
        tty::restore();
        signals::exit();
    });
    let connection = Connection::open(&arguments.folder, &arguments.host, program, input, false)?;
    let (status, remark) = connection.relay(input)?;
    if !remark.is_empty() {
        eprintln!("belljar: {remark}");
    }
    Ok(ExitCode::from(status))
}

/// Program for a host.
pub struct Program {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Text for the results.
    pub title: String,
}

/// Program on a host, with the connection to it.
pub enum Connection {
    /// On a simulated host.
    Simulated(UnixStream),
    /// On an emulated host, with the master of its terminal, if it has one.
    Emulated(UnixStream, Option<File>),
}

impl Connection {
    /// Starts a program on a host of the run that writes `folder`. One in the `background` does not make simulated
    /// time go on.
    pub fn open(
        folder: &Path,
        host: &str,
        program: Program,
        input: Input,
        background: bool,
    ) -> Result<Connection, Failure> {
        let terminal = (input == Input::Terminal).then(tty::size);
        let variables = OF_TERMINAL.iter().filter(|_| terminal.is_some());
        let environment = variables.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let (Program { command, title }, environment) = (program, environment.collect());
        if folder.join(SCRATCH).is_dir() {
            let order = Order { command, title, environment, terminal };
            return open_emulated(folder, host, &order, input);
        }
        let program = AttachedProgram { command, title, environment, terminal, background };
        open_simulated(folder, host, &program)
    }

    /// Passes input and output on until the program ends. Returns its exit status and a remark, which may be empty.
    pub fn relay(&self, input: Input) -> Result<(u8, String), Failure> {
        let _raw = match input {
            Input::Terminal => Some(Raw::enter().map_err(Failure::run)?),
            _ => None,
        };
        let ended = match self {
            Connection::Simulated(stream) => tty::relay(stream, input),
            Connection::Emulated(stream, None) => answer(stream),
            Connection::Emulated(stream, Some(master)) => relay_terminal(stream, master),
        };
        Ok(ended.unwrap_or((tty::LEFT, "the run has ended".to_owned())))
    }

    /// Prints the output of a program in the background until it ends.
    pub fn relay_apart(&self) {
        match self {
            Connection::Simulated(stream) => {
                let _ = Frame::EndOfInput.write(stream);
                while let Ok(Some(frame)) = Frame::read(stream) {
                    match frame {
                        Frame::Output(data) => drop(tty::show(io::stdout(), &data)),
                        Frame::Error(data) => drop(tty::show(io::stderr(), &data)),
                        _ => return,
                    }
                }
            }
            Connection::Emulated(stream, _) => drop(answer(stream)),
        }
    }
}

/// Runs a program on a host. Returns its exit status, and its output with its errors.
pub fn capture(folder: &Path, host: &str, program: Program) -> Result<(u8, String), Failure> {
    if folder.join(SCRATCH).is_dir() {
        return capture_emulated(folder, host, program);
    }
    let Connection::Simulated(stream) = Connection::open(folder, host, program, Input::Nothing, false)?
    else {
        return Err(Failure::run("the run has changed"));
    };
    // A program that has ended does not read it.
    let _ = Frame::EndOfInput.write(&stream);
    let mut output = Vec::new();
    loop {
        let (is_ready, _) = tty::wait(&stream, false);
        if tty::INTERRUPTED.load(Relaxed) {
            return Ok((tty::LEFT, String::new()));
        }
        if !is_ready {
            continue;
        }
        match Frame::read(&stream).ok().flatten() {
            Some(Frame::Output(data) | Frame::Error(data)) => output.extend(data),
            Some(Frame::Ended(status, _)) => {
                return Ok((status, String::from_utf8_lossy(&output).into_owned()));
            }
            Some(_) => {}
            None => return Err(Failure::run("the run has ended")),
        }
    }
}

fn capture_emulated(folder: &Path, host: &str, program: Program) -> Result<(u8, String), Failure> {
    let Program { command, title } = program;
    let order = Order { command, title, environment: Vec::new(), terminal: None };
    let (mut reader, writer) = io::pipe().map_err(Failure::run)?;
    let null = File::open("/dev/null").map_err(Failure::run)?;
    let stream = connect_emulated(folder, host)?;
    let streams = [null.as_fd(), writer.as_fd(), writer.as_fd()];
    emulated::send(&stream, &order, &streams).map_err(Failure::run)?;
    drop(writer);
    let mut output = Vec::new();
    let mut bytes = vec![0; CHUNK];
    loop {
        let (is_ready, _) = tty::wait(&reader, false);
        if tty::INTERRUPTED.load(Relaxed) {
            return Ok((tty::LEFT, String::new()));
        }
        if is_ready {
            match reader.read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(len) => output.extend(&bytes[..len]),
            }
        }
    }
    // The answer to the start comes first.
    let status = match answer(&stream).or_else(|| answer(&stream)) {
        Some((status, reason)) if reason.is_empty() => status,
        Some((_, reason)) => return Err(Failure::run(format!("host {host}: {reason}"))),
        None => return Err(Failure::run("the run has ended")),
    };
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

fn no_run(folder: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::PermissionDenied => Failure::usage(format!(
            "the run that writes its results to {} belongs to another user: attach as that user or as root",
            folder.display()
        )),
        _ => Failure::usage(format!("no experiment that runs writes its results to {}", folder.display())),
    }
}

fn open_simulated(folder: &Path, host: &str, program: &AttachedProgram) -> Result<Connection, Failure> {
    let program = serde_json::to_string(program).map_err(Failure::run)?;
    let stream = request(folder, &format!("open {host} {program}"))?;
    answered(&stream)?;
    Ok(Connection::Simulated(stream))
}

/// Sends a request to a simulated run. Returns the connection, on which the answer follows.
fn request(folder: &Path, line: &str) -> Result<UnixStream, Failure> {
    let mut stream = control::connect(folder, 0).map_err(|error| no_run(folder, &error))?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(Failure::run)?;
    Ok(stream)
}

/// Reads the first line of an answer, byte by byte since frames follow.
pub fn answered(mut stream: &UnixStream) -> Result<String, Failure> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            _ => break,
        }
    }
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    match (line.strip_prefix("ok"), line.strip_prefix("error ")) {
        (Some(answer), _) => Ok(answer.trim_start().to_owned()),
        (_, Some(error)) => Err(Failure::usage(error)),
        _ => Err(Failure::run("the simulation has ended")),
    }
}

/// Connects to the first process of an emulated host.
fn connect_emulated(folder: &Path, host: &str) -> Result<UnixStream, Failure> {
    let scratch = folder.join(SCRATCH);
    let socket = |host: &str| scratch.join(host).join(emulated::SOCKET);
    // A name with a slash would leave the folder.
    if host.contains('/') || !socket(host).exists() {
        let entries = std::fs::read_dir(&scratch).map_err(|error| no_run(folder, &error))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut hosts: Vec<String> = names.filter(|name| socket(name).exists()).collect();
        hosts.sort();
        return Err(Failure::usage(match &hosts[..] {
            [] => format!("the emulation that writes its results to {} has no host yet", folder.display()),
            hosts => format!("there is no host {host}; there are: {}", hosts.join(", ")),
        }));
    }
    with_socket_path(&socket(host), |path| UnixStream::connect(path)).map_err(|error| no_run(folder, &error))
}

fn open_emulated(folder: &Path, host: &str, order: &Order, input: Input) -> Result<Connection, Failure> {
    let stream = connect_emulated(folder, host)?;
    let null = File::open("/dev/null").map_err(Failure::run)?;
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let first = if input == Input::Standard { stdin.as_fd() } else { null.as_fd() };
    let streams: Vec<BorrowedFd<'_>> = match order.terminal {
        Some(_) => Vec::new(),
        None => vec![first, stdout.as_fd(), stderr.as_fd()],
    };
    emulated::send(&stream, order, &streams).map_err(Failure::run)?;
    match emulated::receive::<Answer>(&stream).ok().flatten() {
        Some((Answer::Started, fds)) => {
            let master = fds.into_iter().next().map(File::from);
            Ok(Connection::Emulated(stream, master.filter(|_| order.terminal.is_some())))
        }
        Some((Answer::Failed(reason), _)) => Err(Failure::run(format!("host {host}: {reason}"))),
        _ => Err(Failure::run("the emulation has ended")),
    }
}

/// Waits for the end of a program on an emulated host. Returns its exit status and a remark.
fn answer(stream: &UnixStream) -> Option<(u8, String)> {
    match emulated::receive::<Answer>(stream).ok().flatten()?.0 {
        Answer::Ended { exited, signaled } => {
            let status = signaled.map(|signal| 128 + signal).or(exited).unwrap_or(1);
            Some((u8::try_from(status).unwrap_or(u8::MAX), String::new()))
        }
        Answer::Failed(reason) => Some((1, reason)),
        Answer::Started => None,
    }
}

/// Joins this terminal to that of a program on an emulated host until it ends.
fn relay_terminal(stream: &UnixStream, mut master: &File) -> Option<(u8, String)> {
    let (mut shown, mut leave) = (tty::size(), Leave::default());
    let mut bytes = vec![0; CHUNK];
    let mut is_open = true;
    loop {
        let (has_output, has_input) = tty::wait(if is_open { master.as_fd() } else { stream.as_fd() }, true);
        if has_output && is_open {
            match master.read(&mut bytes) {
                // The last process has closed the terminal.
                Ok(0) | Err(_) => is_open = false,
                Ok(len) if !tty::show(io::stdout(), &bytes[..len]) => {
                    return Some((tty::LEFT, String::new()));
                }
                Ok(_) => {}
            }
        } else if is_ended(stream) {
            drain(master);
            return answer(stream);
        }
        if has_input {
            let typed = tty::read_input();
            if typed.is_empty() || leave.is_asked(&typed, progress::now()) {
                return Some((tty::LEFT, "left by Ctrl-]".to_owned()));
            }
            // A program that does not read leaves no room, and sees only a part.
            let _ = master.write_all(&typed);
        }
        if shown != tty::size() {
            shown = tty::size();
            let _ = emulated::set_size(master, shown.0, shown.1);
        }
    }
}

/// True if the answer to the program's end has come, or the emulation has ended.
fn is_ended(stream: &UnixStream) -> bool {
    let mut all = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut all, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Shows what is left in a terminal whose program has ended; other processes may still hold it.
fn drain(mut master: &File) {
    let _ = fcntl(master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
    let mut bytes = vec![0; CHUNK];
    while let Ok(len @ 1..) = master.read(&mut bytes) {
        tty::show(io::stdout(), &bytes[..len]);
    }
}

/// Sends a request to a simulated run. Returns the answer without its `ok`.
pub fn ask(folder: &Path, question: &str) -> Result<String, Failure> {
    let stream = request(folder, question)?;
    while !tty::wait(&stream, false).0 {
        if tty::INTERRUPTED.load(Relaxed) {
            return Err(Failure::run("interrupted"));
        }
    }
    answered(&stream)
}
