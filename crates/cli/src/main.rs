//! The `belljar` command.
#![forbid(unsafe_code)]
// Helpers of the commands that the quick build leaves out.
#![cfg_attr(not(feature = "all-commands"), allow(dead_code, unused_imports))]

mod as_shadow;
#[cfg(feature = "all-commands")]
mod attach;
mod backend;
mod bug;
mod capture;
mod cells;
mod channel_proxy;
#[cfg(feature = "all-commands")]
mod check;
mod choices;
#[cfg(feature = "all-commands")]
mod compare;
mod connectivity;
mod control;
#[cfg(feature = "all-commands")]
mod deploy;
mod diff;
#[cfg(feature = "all-commands")]
mod doctor;
#[cfg(feature = "all-commands")]
mod draw;
#[cfg(feature = "all-commands")]
mod emulate;
mod exec;
mod experiment_options;
#[cfg(feature = "all-commands")]
mod explore;
mod failure;
mod gdb;
mod import;
mod inspect;
mod launch;
mod live;
mod log;
#[cfg(feature = "all-commands")]
mod maelstrom;
#[cfg(feature = "all-commands")]
mod manual;
#[cfg(feature = "all-commands")]
mod p4;
mod paint;
mod parts;
mod pipe;
mod placement;
mod plan;
mod profile;
mod progress;
#[cfg(feature = "all-commands")]
mod prompt;
mod ranks;
mod report;
mod reproduce;
mod run;
mod schema;
mod secret;
mod session;
mod shadow_options;
mod signals;
mod stack;
mod sweep;
#[cfg(feature = "all-commands")]
mod tdf;
mod topology;
mod trace;
mod tty;
mod validate;
mod vectors;
mod waits;
mod watch;
mod workers;

use clap::{CommandFactory, Parser, Subcommand};
use mimalloc::MiMalloc;
#[cfg(not(feature = "all-commands"))]
use parts::absent::{
    self as attach, self as check, self as compare, self as deploy, self as doctor, self as draw,
    self as emulate, self as explore, self as maelstrom, self as manual, self as p4, self as prompt,
};
use std::process::ExitCode;

/// Global allocator, which requests huge pages: a simulation of many hosts accesses memory all over the heap,
/// and huge pages reduce TLB misses.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Runs unmodified Linux programs on simulated hosts, in exact virtual time.
#[derive(Parser)]
#[command(
    version,
    about,
    propagate_version = true,
    after_help = "Examples:\n  belljar exec -- date                            one program on one host: it is 2000\n  belljar run examples/first.yaml -o first.data   an experiment; what its programs said is in first.data/hosts\n  belljar report first.data                       one HTML page about it\n\n'belljar help COMMAND' tells more, docs/guide all of it."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[cfg_attr(not(feature = "all-commands"), allow(clippy::large_enum_variant))]
enum Command {
    /// Run an experiment
    Run(run::Arguments),
    /// Run one command on one simulated host, its output passed through
    Exec(exec::Arguments),
    /// Run an experiment on this machine's real kernel, in real time
    Emulate(emulate::Arguments),
    /// Run an experiment on machines that are reached by ssh
    Deploy(deploy::Arguments),
    /// Put runs of an experiment side by side, simulated and emulated, and say where they differ
    Compare(compare::Arguments),
    /// Run a shell or command on a host of a running experiment
    Attach(attach::Arguments),
    /// Run an experiment from a prompt: commands on its hosts, pingall, iperf, links up and down
    Prompt(prompt::Arguments),
    /// Attach gdb to a process of a running experiment
    Gdb(gdb::Arguments),
    /// Run an experiment under many seeds and settings, here or on a cluster
    Sweep(sweep::Arguments),
    /// Repeat an experiment of the papers that Belljar follows
    Reproduce(reproduce::Arguments),
    /// Find failures: run an experiment under drawn faults, and shrink what fails
    Explore(explore::Arguments),
    /// Check an experiment file without running it
    Validate(validate::Arguments),
    /// Print an experiment with every event of its schedule drawn and fixed
    Plan(plan::Arguments),
    /// Say what this machine offers, what limits it and what to do about it
    Doctor(doctor::Arguments),
    /// Compare two results folders and name the first divergence
    Diff(diff::Arguments),
    /// Judge a history of operations: linearizability, or anomalies of transactions
    Check(check::Arguments),
    /// Test a node of Maelstrom: a workload, its faults, its checker
    Maelstrom(maelstrom::Arguments),
    /// Show a results folder as tables
    Inspect(inspect::Arguments),
    /// Write one HTML page about a results folder
    Report(report::Arguments),
    /// Write the packets of a results folder into one capture for Wireshark
    Capture(capture::Arguments),
    /// Write a results folder as a trace for Perfetto or Chrome
    Trace(trace::Arguments),
    /// Compile, test and run P4 programs
    P4(p4::Arguments),
    /// Carry channels of simulators to another machine
    ChannelProxy(channel_proxy::Arguments),
    /// Make an experiment of a topology file of another tool
    Import(import::Arguments),
    /// Draw the network of an experiment: SVG, PNG, Graphviz or GraphML
    Draw(draw::Arguments),
    /// Print the JSON Schema of experiment files
    Schema(schema::Arguments),
    /// Print the completions of a shell
    Completions(manual::CompletionsArguments),
    /// Write a manual page for each command
    Man(manual::ManArguments),
    /// Become a simulator that ends with its parent
    #[command(hide = true)]
    LaunchSimulator(launch::Arguments),
    #[cfg(feature = "all-commands")]
    #[command(flatten)]
    EmulationProcess(emulate::ProcessCommand),
}

fn main() -> ExitCode {
    bug::expect_failed_prints();
    let given: Vec<_> = std::env::args_os().collect();
    if let Some(status) = as_shadow::answer(&given) {
        return status;
    }
    let arguments = as_shadow::translated(given);
    // Only the complete build knows the options of all commands.
    #[cfg(not(feature = "all-commands"))]
    if arguments.get(1).is_some_and(|first| first == "help") && arguments.len() > 2 {
        eprintln!("{}", parts::hand_over());
        return ExitCode::FAILURE;
    }
    let command = Arguments::parse_from(arguments).command;
    let has_guests = match &command {
        Command::Run(arguments) => arguments.has_guests(),
        command => matches!(command, Command::Exec(_)),
    };
    if has_guests {
        stack::bound();
        vectors::do_without_avx512();
    }
    let result = match command {
        Command::Run(arguments) => run::main(&arguments),
        Command::Exec(arguments) => exec::main(&arguments),
        Command::Emulate(arguments) => emulate::main(&arguments),
        Command::Deploy(arguments) => deploy::main(&arguments),
        #[cfg(feature = "all-commands")]
        Command::EmulationProcess(command) => emulate::process(command),
        Command::Compare(arguments) => compare::main(&arguments),
        Command::Attach(arguments) => attach::main(&arguments),
        Command::Prompt(arguments) => prompt::main(&arguments),
        Command::Gdb(arguments) => gdb::main(&arguments),
        Command::LaunchSimulator(arguments) => launch::main(&arguments),
        Command::Explore(arguments) => explore::main(&arguments),
        Command::Validate(arguments) => validate::main(&arguments),
        Command::Plan(arguments) => plan::main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Diff(arguments) => diff::main(&arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::Maelstrom(arguments) => maelstrom::main(&arguments),
        Command::Inspect(arguments) => inspect::main(&arguments),
        Command::Report(arguments) => report::main(&arguments),
        Command::Capture(arguments) => capture::main(&arguments),
        Command::Trace(arguments) => trace::main(&arguments),
        Command::ChannelProxy(arguments) => channel_proxy::main(&arguments),
        Command::Import(arguments) => import::main(&arguments),
        Command::P4(arguments) => p4::main(&arguments),
        Command::Draw(arguments) => draw::main(&arguments),
        Command::Schema(arguments) => Ok(schema::main(&arguments)),
        Command::Sweep(arguments) => sweep::main(&arguments),
        Command::Reproduce(arguments) => reproduce::main(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::man(&arguments, Arguments::command()),
    };
    result.unwrap_or_else(|failure| {
        if !failure.is_quiet() {
            eprintln!("{}", paint::message(&failure.to_string()));
        }
        ExitCode::from(failure.status())
    })
}
