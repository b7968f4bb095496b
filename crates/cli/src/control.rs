//! The control socket of a run, in its results folder. `belljar gdb` attaches to processes by it, and other
//! tools query the progress.
//!
//! A client sends one line: `list`, `find HOST PROCESS`, `attach HOST PROCESS`, `progress`, or `open HOST PROGRAM`. The
//! answer is `ok` and the result, or `error` and the reason. After `attach` both sides speak gdb's remote protocol,
//! after `open` they exchange the frames of a program that is added to the host. Progress is the committed simulated
//! time and the stop time, both in nanoseconds. In a run for `belljar prompt` there are `advance NANOSECONDS`, which is
//! answered when so much simulated time has passed, and `finish`, which ends the run.
//!
//! The socket has mode 0600: its user and root can connect.

use crate::failure::Failure;
use belljar_base::{SimDuration, SimTime};
use belljar_channel::with_socket_path;
use belljar_config::Experiment;
use belljar_results::ResultsFolder;
use belljar_sim::{AttachHub, AttachedProgram, DebugError, DebugHub, RunOptions};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// Name of a cell's socket in the results folder. Cell 0, in most runs the only cell, has the plain name.
fn socket_name(cell: usize) -> String {
    match cell {
        0 => "control.sock".to_owned(),
        cell => format!("control-{cell}.sock"),
    }
}
/// Upper bound on the length of a client's request, in bytes.
const LINE_MAX: u64 = 1 << 18;

/// Creates the hub by which debuggers attach to hosts of the run in `folder`.
pub fn hub(folder: &ResultsFolder, experiment: &Experiment) -> Arc<DebugHub> {
    let folder = folder.path().to_owned();
    let hosts = experiment.hosts.iter().map(|host| host.name.clone()).collect();
    DebugHub::new(hosts, move |host, pid| {
        eprintln!(
            "process {pid} of {host} waits for a debugger: belljar gdb -o {} {host} {pid}",
            folder.display()
        );
    })
}

/// Checks that each host named by `--gdb` exists and runs the program.
pub fn check_debuggees(wanted: &[(String, String)], experiment: &Experiment) -> Result<(), Failure> {
    for (name, program) in wanted {
        let Some(host) = experiment.hosts.iter().find(|host| host.name == *name) else {
            let names: Vec<&str> = experiment.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(Failure::usage(format!(
                "--gdb: there is no host {name}; there are: {}",
                names.join(", ")
            )));
        };
        let names: Vec<String> = host
            .processes
            .iter()
            .filter_map(|process| Some(process.path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        if !names.contains(program) {
            let there_are = names.join(", ");
            return Err(Failure::usage(format!(
                "--gdb: host {name} has no program {program}; it has: {there_are}"
            )));
        }
    }
    Ok(())
}

/// Hubs of a run.
#[derive(Clone)]
struct Hubs {
    debug: Arc<DebugHub>,
    attach: Arc<AttachHub>,
    reached: Reached,
}

/// Function that returns the committed simulated time and the stop time.
pub type Reached = Arc<dyn Fn() -> (SimTime, SimTime) + Send + Sync>;

/// Control socket of a cell. Dropping the value removes the socket file.
pub struct Control {
    path: PathBuf,
}

impl Control {
    /// Opens the socket of a cell and starts a thread that serves it. Returns `None` if that fails, for
    /// instance on a file system without sockets.
    pub fn open(
        folder: &ResultsFolder,
        cell: usize,
        options: &RunOptions,
        reached: Reached,
    ) -> Option<Control> {
        let hubs = Hubs { debug: options.debug.clone(), attach: options.attach.clone(), reached };
        let path = folder.path().join(socket_name(cell));
        let listener = with_socket_path(&path, |path| UnixListener::bind(path)).ok()?;
        // Nothing is answered before.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).ok()?;
        let serve = move || {
            for client in listener.incoming().map_while(Result::ok) {
                let hubs = hubs.clone();
                // If no thread can be started, the client's connection is closed without an answer.
                let _ = thread::Builder::new().name("debugger".into()).spawn(move || serve(client, &hubs));
            }
        };
        thread::Builder::new().name("control".into()).spawn(serve).ok()?;
        Some(Control { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connects to a cell of the run that writes `folder`.
pub fn connect(folder: &Path, cell: usize) -> io::Result<UnixStream> {
    with_socket_path(&folder.join(socket_name(cell)), |path| UnixStream::connect(path))
}

/// True if the process `pid` serves a control socket in `folder`. Another run, which is ending, may still serve one.
pub fn is_served_by(folder: &Path, pid: u32) -> bool {
    let peer = connect(folder, 0).ok().and_then(|stream| getsockopt(&stream, PeerCredentials).ok());
    peer.is_some_and(|peer| peer.pid() as u32 == pid)
}

fn serve(mut client: UnixStream, hubs: &Hubs) {
    let hub = &*hubs.debug;
    let mut line = String::new();
    {
        // Frames may follow at once: no byte beyond the line is read.
        let mut bytes = io::Read::bytes(io::Read::take(&client, LINE_MAX)).map_while(Result::ok);
        let taken: Vec<u8> = bytes.by_ref().take_while(|byte| *byte != b'\n').collect();
        line.push_str(&String::from_utf8_lossy(&taken));
    }
    let words: Vec<&str> = line.trim_end().splitn(3, ' ').collect();
    let answer = match words[..] {
        ["list"] => Ok(list(hub)),
        ["progress"] => {
            let (committed, stop) = (hubs.reached)();
            Ok(format!("ok {} {}\n", committed.as_nanos(), stop.as_nanos()))
        }
        ["find", host, who] => hub.find(host, who).map(|found| {
            let path = found.executable.unwrap_or_default();
            format!("ok {} {}\n", found.pid, path.display())
        }),
        ["attach", host, who] => {
            let stream = client.try_clone();
            let begin = |stream: &mut UnixStream| drop(stream.write_all(b"ok\n"));
            match stream.map_err(|_| DebugError::Over).and_then(|stream| hub.debug(host, who, stream, begin))
            {
                Ok(()) => return,
                Err(error) => Err(error),
            }
        }
        ["open", host, program] => return open(client, host, program, hubs),
        ["advance", nanoseconds] => {
            let duration = SimDuration::from_nanos(nanoseconds.parse().unwrap_or(0));
            Ok(match hubs.attach.advance(duration) {
                Ok(at) => format!("ok {}\n", at.as_nanos()),
                Err(error) => format!("error {error}\n"),
            })
        }
        ["finish"] => {
            hubs.attach.finish();
            Ok("ok\n".to_owned())
        }
        _ => return,
    };
    let text = answer.unwrap_or_else(|error| format!("error {error}\n"));
    let _ = client.write_all(text.as_bytes());
}

/// Adds a program to a host.
fn open(mut client: UnixStream, host: &str, program: &str, hubs: &Hubs) {
    let Ok(program) = serde_json::from_str::<AttachedProgram>(program) else { return };
    let Ok(stream) = client.try_clone() else { return };
    if let Err(error) = hubs.attach.serve(host, program, stream, |stream| stream.write_all(b"ok\n")) {
        let _ = client.write_all(format!("error {error}\n").as_bytes());
    }
}

fn list(hub: &DebugHub) -> String {
    let mut text = "ok\n".to_owned();
    for (host, processes) in hub.list() {
        for process in processes {
            let _ = writeln!(text, "{host:<16} {:>6}  {}", process.pid, process.command);
        }
    }
    text
}
