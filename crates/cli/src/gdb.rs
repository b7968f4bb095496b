//! `belljar gdb`.

use crate::control;
use crate::failure::Failure;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

/// Attaches gdb to a process of a simulated host. While the process is stopped, simulated time stands
/// still: whatever is done in gdb takes no time in the simulation. Without HOST and PROCESS it lists the
/// processes there are.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar gdb                            the processes of the experiment that runs here\n  belljar gdb alice 1000\n  belljar gdb alice curl -- -batch -ex 'break main' -ex continue -ex bt\n  belljar run exp.yaml --gdb alice:curl  wait for gdb before the program's first instruction"
)]
pub struct Arguments {
    /// The results folder of the running experiment [default: the one below the current directory
    /// that belongs to a running experiment]
    #[arg(short, long = "output", value_name = "DIR", env = "BELLJAR_OUTPUT")]
    output: Option<PathBuf>,
    /// The gdb to start
    #[arg(long, value_name = "PROGRAM", default_value = "gdb")]
    gdb: PathBuf,
    /// Pass gdb's protocol through standard input and output: the command of `target remote |`
    #[arg(long, hide = true)]
    bridge: bool,
    /// The host
    #[arg(requires = "process")]
    host: Option<String>,
    /// The process: its number on the host, or the name of its program
    process: Option<String>,
    /// More arguments for gdb; commands among them come after attaching
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Finds the run and the process, and executes gdb.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder = folder(arguments)?;
    let (Some(host), Some(process)) = (&arguments.host, &arguments.process) else {
        print!("{}", list(&folder)?);
        return Ok(ExitCode::SUCCESS);
    };
    if arguments.bridge {
        return bridge(&folder, host, process);
    }
    let (_, found) = ask_host(&folder, &format!("find {host} {process}"))?;
    let (pid, executable) = found.trim_end().split_once(' ').unwrap_or((found.trim_end(), ""));
    let own = std::env::current_exe().map_err(Failure::run)?;
    let stream =
        format!("{} gdb --bridge -o {} {} {pid}", quoted(&own), quoted(&folder), quoted(Path::new(host)));
    let mut gdb = Command::new(&arguments.gdb);
    gdb.args(["-q", "-iex", "set sysroot /"]);
    // Some debuginfod servers would be queried for each library.
    gdb.args(["-iex", "set debuginfod enabled off"]);
    // gdb retransmits a packet without an answer after two seconds, which a loaded machine may exceed.
    gdb.args(["-iex", "set remotetimeout 60"]);
    gdb.args(["-ex", &format!("target remote | {stream}")]).args(&arguments.arguments);
    if !executable.is_empty() {
        gdb.arg(executable);
    }
    let error = gdb.exec();
    Err(Failure::run(format!(
        "cannot start {}: {error} (install gdb, or name another one with --gdb)",
        arguments.gdb.display()
    )))
}

/// Returns the results folder of the run: the one named by `-o`, or that of the only running experiment in
/// the current directory.
fn folder(arguments: &Arguments) -> Result<PathBuf, Failure> {
    if let Some(folder) = &arguments.output {
        return Ok(folder.clone());
    }
    let entries = std::fs::read_dir(".").map_err(Failure::run)?;
    let mut running: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()))
        .filter(|f| control::connect(f, 0).is_ok())
        .collect();
    running.sort();
    match &running[..] {
        [folder] => Ok(folder.clone()),
        [] => Err(Failure::usage(
            "no experiment runs with its results in the current directory: name its results folder with -o",
        )),
        several => {
            let names: Vec<String> = several.iter().map(|folder| folder.display().to_string()).collect();
            Err(Failure::usage(format!(
                "several experiments run here, name one with -o: {}",
                names.join(", ")
            )))
        }
    }
}

fn connect(folder: &Path, cell: usize) -> Result<UnixStream, Failure> {
    control::connect(folder, cell).map_err(|error| {
        Failure::usage(format!("no experiment that runs writes its results to {}: {error}", folder.display()))
    })
}

/// Lists the processes of all cells.
fn list(folder: &Path) -> Result<String, Failure> {
    let mut lines: Vec<String> = ask(folder, 0, "list")?.lines().map(str::to_owned).collect();
    for cell in 1.. {
        match control::connect(folder, cell) {
            Ok(_) => lines.extend(ask(folder, cell, "list")?.lines().map(str::to_owned)),
            Err(_) => break,
        }
    }
    lines.sort();
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// Sends a request to the cells in turn until one has the host. Returns that cell and its answer.
fn ask_host(folder: &Path, question: &str) -> Result<(usize, String), Failure> {
    for cell in 0.. {
        match ask(folder, cell, question) {
            Err(failure) if failure.to_string().ends_with(belljar_sim::ELSEWHERE) => {}
            answer => return Ok((cell, answer?)),
        }
    }
    unreachable!("there are not so many cells")
}

/// Sends a request to a cell. Returns the answer without its `ok`.
fn ask(folder: &Path, cell: usize, question: &str) -> Result<String, Failure> {
    let mut stream = connect(folder, cell)?;
    let mut answer = String::new();
    let asked = stream.write_all(format!("{question}\n").as_bytes());
    asked.and_then(|()| stream.read_to_string(&mut answer)).map_err(Failure::run)?;
    if let Some(error) = answer.strip_prefix("error ") {
        return Err(Failure::usage(error.trim_end()));
    }
    let answer = answer.strip_prefix("ok").ok_or_else(|| Failure::run("the simulation has ended"))?;
    Ok(answer.strip_prefix([' ', '\n']).unwrap_or(answer).to_owned())
}

/// Relays gdb's remote protocol between the standard streams and the simulation.
fn bridge(folder: &Path, host: &str, process: &str) -> Result<ExitCode, Failure> {
    let (cell, _) = ask_host(folder, &format!("find {host} {process}"))?;
    let mut stream = connect(folder, cell)?;
    stream.write_all(format!("attach {host} {process}\n").as_bytes()).map_err(Failure::run)?;
    let mut begin = [0; 3];
    if stream.read_exact(&mut begin).is_err() || begin != *b"ok\n" {
        let mut error = String::from_utf8_lossy(&begin).into_owned();
        let _ = stream.read_to_string(&mut error);
        return Err(Failure::usage(error.trim_start_matches("error ").trim_end()));
    }
    let mut to_simulation = stream.try_clone().map_err(Failure::run)?;
    let sender = thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut to_simulation);
        let _ = to_simulation.shutdown(Shutdown::Write);
    });
    let _ = copy(&mut stream, &mut io::stdout().lock());
    // gdb may keep its end of the pipe open; the process does not wait for it.
    drop(sender);
    Ok(ExitCode::SUCCESS)
}

/// Copies like `io::copy`, but writes each chunk through at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let len = from.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..len])?;
        to.flush()?;
    }
}

/// Quotes a path for the shell that gdb starts.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
