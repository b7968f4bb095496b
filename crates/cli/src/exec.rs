//! `belljar exec`.

use crate::capture;
use crate::control;
use crate::failure::Failure;
use crate::log::Log;
use crate::placement::PlacementOption;
use crate::progress::Display;
use crate::session;
use crate::workers::{Workers, leave_one_idle};
use belljar_config::Experiment;
use belljar_engine::Ending;
use belljar_results::{ResultsFolder, Scratch};
use belljar_sim::{Output, RunOptions};
use clap::builder::FalseyValueParser;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    let texts = logs.iter().map(|log| std::fs::read_to_string(log).map_err(Failure::run));
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
    let options = RunOptions {
        watched: None,
        output: Output::PassedThrough,
        working_directory: Some(working_directory),
        exposed: Vec::new(),
        interrupt: Default::default(),
        simulators: Default::default(),
        control_servers: None,
        real_clock: None,
        paced: false,
        idle_processor: leave_one_idle(1),
        debug: control::hub(&folder, &experiment),
        live: None,
        wait_for_debugger: Vec::new(),
    };
    let log = Log::new(false, &experiment);
    let (part, _) =
        session::run(&experiment, &folder, &options, &Workers::one(), &log, Display::Notes, None)?;
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
