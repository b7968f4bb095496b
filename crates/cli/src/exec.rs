//! `belljar exec`.

use crate::capture;
use crate::control;
use crate::failure::Failure;
use crate::log::Log;
use crate::placement::PlacementOption;
use crate::progress::Display;
use crate::session;
use crate::tty;
use crate::workers::{Workers, leave_one_idle};
use belljar_config::Experiment;
use belljar_engine::Ending;
use belljar_results::{ResultsFolder, Scratch};
use belljar_sim::{AttachHub, Course, Output, RunOptions, Winsize};
use clap::builder::FalseyValueParser;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

/// Runs a command on a simulated host of its own. It reads this machine's files, what it writes is
/// discarded unless -o keeps it. The exit status is the command's, 128 + the signal's number if a
/// signal killed it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar exec -- date\n  belljar exec -- python3 -c 'import time; time.sleep(3600)'"
)]
pub struct Arguments {
    /// The seed of all randomness
    #[arg(long, env = "BELLJAR_SEED", default_value_t = 1)]
    seed: u64,
    /// Keep the results in this folder; it must not exist yet
    #[arg(short, long = "output", value_name = "DIR", env = "BELLJAR_OUTPUT")]
    output: Option<PathBuf>,
    /// Log the system calls of every process: in the results folder, without -o on standard error at the end
    #[arg(long, env = "BELLJAR_STRACE", value_parser = FalseyValueParser::new())]
    strace: bool,
    /// Capture the packets of the host's interfaces: in the results folder, without -o in COMMAND.pcapng here
    #[arg(long, env = "BELLJAR_PCAP", value_parser = FalseyValueParser::new())]
    pcap: bool,
    /// Placement of the command and its children
    #[arg(long, value_enum, env = "BELLJAR_PLACEMENT")]
    placement: Option<PlacementOption>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Writes the logs of system calls to standard error, as one in the order of time; nothing without logs.
fn show_calls(results: &Path) -> Result<(), Failure> {
    let mut logs: Vec<PathBuf> = Vec::new();
    for host in std::fs::read_dir(results.join("hosts")).map_err(Failure::run)? {
        for file in std::fs::read_dir(host.map_err(Failure::run)?.path()).map_err(Failure::run)? {
            let path = file.map_err(Failure::run)?.path();
            if path.extension().is_some_and(|extension| extension == "strace") {
                logs.push(path);
            }
        }
    }
    logs.sort();
    let texts = logs.iter().map(|log| belljar_inputs::read_text(log).map_err(Failure::run));
    let texts = texts.collect::<Result<Vec<String>, Failure>>()?;
    let mut lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    // Lines begin with the time, in nine decimals. Those of a process stay in their order.
    lines.sort_by_key(|line| line.split(' ').next().map(|time| (time.len(), time)));
    let mut out = std::io::stderr().lock();
    for line in lines {
        writeln!(out, "{line}").map_err(Failure::run)?;
    }
    Ok(())
}

/// The user's terminal, joined to that of the command.
struct Terminal {
    ours: UnixStream,
    /// The simulation's end, and the command.
    theirs: Arc<(UnixStream, String)>,
}

impl Terminal {
    /// Makes the connection, if there is a terminal.
    fn open(command: &[String]) -> std::io::Result<Option<Terminal>> {
        if !tty::is_here() {
            return Ok(None);
        }
        let (ours, theirs) = UnixStream::pair()?;
        Ok(Some(Terminal { ours, theirs: Arc::new((theirs, command.join(" "))) }))
    }

    /// Runs the simulation while the terminals are joined.
    fn join<T>(&self, attach: &AttachHub, host: &str, run: impl FnOnce() -> T) -> Result<T, Failure> {
        let raw = tty::Raw::enter().map_err(Failure::run)?;
        let theirs = self.theirs.0.try_clone().map_err(Failure::run)?;
        let (ended, remark) = thread::scope(|scope| {
            scope.spawn(|| attach.serve_console(host, &theirs));
            let relay = scope.spawn(|| {
                let ended = tty::relay(&self.ours, tty::Input::Terminal);
                // The command hangs up if it has not ended.
                let _ = self.ours.shutdown(Shutdown::Both);
                ended
            });
            let ended = run();
            let _ = self.ours.shutdown(Shutdown::Both);
            (ended, relay.join().ok().flatten().map(|(_, remark)| remark))
        });
        drop(raw);
        if let Some(remark) = remark.filter(|remark| !remark.is_empty()) {
            eprintln!("belljar: {remark}");
        }
        Ok(ended)
    }
}

/// Window size of the user's terminal.
fn window_size() -> Winsize {
    let (rows, columns) = tty::size();
    Winsize { rows, columns, ..Winsize::default() }
}

/// Runs the command and exits with its status.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut experiment = Experiment::single_host(&arguments.command).map_err(Failure::input)?;
    experiment.apply_overrides(&belljar_config::Overrides {
        seed: Some(arguments.seed),
        strace_logging_mode: arguments.strace.then_some(belljar_config::StraceMode::Standard),
        placement: arguments.placement.map(PlacementOption::setting),
        pcap_enabled: arguments.pcap.then_some(true),
        ..Default::default()
    });
    Scratch::sweep(&std::env::temp_dir());
    let temporary = Scratch::create(&std::env::temp_dir()).map_err(Failure::run)?;
    let path = arguments.output.clone().unwrap_or_else(|| temporary.path().join("results"));
    let hosts = experiment.hosts.iter().map(|host| host.name.as_str());
    let folder = ResultsFolder::create(&path, hosts).map_err(Failure::usage)?;
    let working_directory = std::env::current_dir().map_err(Failure::run)?;
    let here = working_directory.clone();
    let terminal = Terminal::open(&arguments.command).map_err(Failure::run)?;
    let names = belljar_sim::host_names(&experiment);
    let (attach, live) = match &terminal {
        Some(_) => {
            let (attach, live) = AttachHub::standing(names);
            (attach, Some(live))
        }
        None => (AttachHub::new(names, Course::Free), None),
    };
    let options = RunOptions {
        attach: attach.clone(),
        console: terminal.as_ref().map(|terminal| terminal.theirs.clone()),
        watched: None,
        output: terminal.as_ref().map_or(Output::PassedThrough, |_| Output::Terminal(window_size())),
        working_directory: Some(working_directory),
        exposed: Vec::new(),
        interrupt: Default::default(),
        simulators: Default::default(),
        control_servers: None,
        real_clock: None,
        paced: false,
        idle_processor: leave_one_idle(1),
        debug: control::hub(&folder, &experiment),
        live,
        packet_pipe: None,
        wait_for_debugger: Vec::new(),
    };
    let log = Log::new(false, &experiment);
    let run = || session::run(&experiment, &folder, &options, &Workers::one(), &log, Display::Notes, None);
    let (part, _) = match &terminal {
        Some(terminal) => terminal.join(&attach, &experiment.hosts[0].name, run)?,
        None => run(),
    }?;
    let finished = belljar_sim::conclude(&experiment, &folder, part, []).map_err(Failure::run)?;
    if arguments.output.is_none() {
        show_calls(folder.path())?;
        if arguments.pcap {
            let program = Path::new(&arguments.command[0]).file_name().unwrap_or_default();
            let capture = here.join(format!("{}.pcapng", program.display()));
            eprintln!("belljar: {}", capture::write(&capture::Arguments::whole(path, capture))?);
        }
    }
    for (what, count) in &finished.statistics.warnings {
        eprintln!("belljar: warning: {what} ({count}x)");
    }
    let process = finished.statistics.hosts.values().flat_map(|host| &host.processes).next();
    let process = process.ok_or_else(|| Failure::run("the command was never started"))?;
    if process.state == "failed to start" {
        return Err(Failure::run(process.problem.as_deref().unwrap_or("the command cannot be started")));
    }
    // The command still ran at the end of the simulation: either the user interrupted it, or no event is
    // pending.
    if process.shell_status.is_none() && finished.ending != Ending::Stopped {
        let program = &process.program;
        match &process.waits_in[..] {
            [] => eprintln!("belljar: {program} has not ended, and nothing will happen any more"),
            calls => eprintln!("belljar: {program} waits for ever, in {}", calls.join(" and ")),
        }
    }
    Ok(ExitCode::from(process.shell_status.unwrap_or(130)))
}
