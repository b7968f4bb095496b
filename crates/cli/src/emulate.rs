//! `belljar emulate`.

use crate::backend::{self, Backend, Job, Outcome};
use crate::compare::truthfulness;
use crate::failure::Failure;
use crate::progress::{self, Progress};
use crate::prompt::READY;
use crate::{experiment_options, launch, log, p4, run, signals, tdf};
use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_emulation::p4::SwitchPlan;
use belljar_emulation::world::{Order, Report, SCRATCH, WORLD_COMMAND};
use belljar_emulation::{attach, check, clock, freeze, init, stage, world as emulation};
use belljar_results::ResultsFolder;
use belljar_results::read::Results;
use clap::builder::FalseyValueParser;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Runs the experiment on this machine's kernel, in real time: hosts are namespaces, links are interfaces of the kernel,
/// and what the kernel lacks passes through Belljar. Root, or a user who may make user namespaces. The results are those
/// of `belljar run`, with a verdict on how truthful the run was.
///
/// The exit status is 0 only if every process ended as the experiment expects.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar emulate examples/first.yaml -o first.emu\n  belljar emulate exp.yaml --until-done --pcap\n  belljar run exp.yaml -o sim; belljar emulate exp.yaml -o emu; belljar compare sim emu\n  belljar emulate --clean first.emu"
)]
pub struct Arguments {
    /// The experiment file (`-` reads standard input)
    #[arg(required_unless_present = "clean")]
    file: Option<PathBuf>,
    #[command(flatten)]
    experiment: experiment_options::Arguments,
    /// End as soon as every process has ended that is to, and nothing is scheduled any more
    #[arg(long, env = "BELLJAR_UNTIL_DONE", value_parser = FalseyValueParser::new())]
    until_done: bool,
    /// Let time in the hosts, and links, go so many times slower than this machine's clock, from 1 on ("10", "2.5"): what the
    /// machine is too slow for, it has more time for. "auto" follows the machine. "4@20s" holds from then on, "web=8" for one host or
    /// P4 switch: that has twice the processor time of those with 4, and hosts run in turns (--quantum)
    #[arg(long, value_name = "[NODE=]FACTOR[@TIME]", env = "BELLJAR_TDF", value_delimiter = ',', value_parser = tdf::parse)]
    tdf: Vec<tdf::Setting>,
    /// Let hosts and P4 switches run in turns where the machine has fewer processors than they use: each runs for so much of its
    /// own time and is frozen until the others have; "auto" is the shortest latency. Implies --tdf 1 unless that is given
    #[arg(long, value_name = "TIME", env = "BELLJAR_QUANTUM", value_parser = tdf::parse_quantum)]
    quantum: Option<tdf::Quantum>,
    /// End with the prompt that has started this, and report the beginning to it
    #[arg(long, hide = true)]
    with_prompt: Option<i32>,
    /// Remove what emulations that were killed left in these results folders, and do nothing else
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "file")]
    clean: Vec<PathBuf>,
}

/// Commands of the processes that an emulation consists of.
#[derive(clap::Subcommand)]
pub enum ProcessCommand {
    /// Leave for namespaces of an emulation
    #[command(name = "emulate-stage", hide = true)]
    Stage(StageArguments),
    /// Run an emulation as the first process of its namespaces
    #[command(name = "emulate-world", hide = true)]
    World,
    /// Say what this machine offers to emulations
    #[command(name = "emulate-probe", hide = true)]
    Probe,
    /// Become the first process of an emulated host
    #[command(name = "emulate-host", hide = true)]
    Host,
    /// Become a process of an emulated host that is frozen in turn
    #[command(name = "emulate-join", hide = true)]
    Join(JoinArguments),
    /// Become a program that a user attaches to an emulated host
    #[command(name = "emulate-enter", hide = true)]
    Enter(EnterArguments),
    /// Become a P4 switch of an emulation
    #[command(name = "emulate-switch", hide = true)]
    Switch(SwitchArguments),
}

/// Runs a process of an emulation.
pub fn process(command: ProcessCommand) -> Result<ExitCode, Failure> {
    match command {
        ProcessCommand::Stage(arguments) => stage(&arguments),
        ProcessCommand::World => world(),
        ProcessCommand::Probe => Ok(probe()),
        ProcessCommand::Host => host(),
        ProcessCommand::Join(arguments) => join(&arguments),
        ProcessCommand::Enter(arguments) => enter(&arguments),
        ProcessCommand::Switch(arguments) => switch(&arguments),
    }
}

/// Entry into the namespaces.
#[derive(clap::Args)]
pub struct StageArguments {
    /// The process that must still be there.
    parent: i32,
}

/// Enters new namespaces and runs the world in them.
fn stage(arguments: &StageArguments) -> Result<ExitCode, Failure> {
    match stage::run(&[WORLD_COMMAND.into()], arguments.parent) {
        Ok(status) => Ok(status),
        Err(error) => {
            // The parent prints the failure.
            let line = serde_json::to_string(&Report::Failed(error.to_string())).unwrap_or_default();
            println!("{line}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Runs the world, the process that holds the emulated network.
fn world() -> Result<ExitCode, Failure> {
    emulation::main();
    Ok(ExitCode::SUCCESS)
}

/// Runs the init process of a host.
fn host() -> Result<ExitCode, Failure> {
    init::main().map_err(Failure::run)?;
    Ok(ExitCode::SUCCESS)
}

/// A program that enters a control group first.
#[derive(clap::Args)]
pub struct JoinArguments {
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<std::ffi::OsString>,
}

/// Enters a control group and executes a program in it.
fn join(arguments: &JoinArguments) -> Result<ExitCode, Failure> {
    Err(Failure::run(freeze::join(&arguments.command)))
}

/// A program that is attached to a host.
#[derive(clap::Args)]
pub struct EnterArguments {
    /// Take the terminal on standard input as the controlling one.
    #[arg(long)]
    terminal: bool,
    /// Wait until the process is in the host's control group.
    #[arg(long)]
    group: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<std::ffi::OsString>,
}

/// Leads a session in a host and executes a program in it.
fn enter(arguments: &EnterArguments) -> Result<ExitCode, Failure> {
    Err(Failure::run(attach::enter(arguments.terminal, arguments.group, &arguments.command)))
}

/// The plan of an emulated P4 switch.
#[derive(clap::Args)]
pub struct SwitchArguments {
    /// The file that has it.
    plan: PathBuf,
}

/// Runs a P4 switch.
fn switch(arguments: &SwitchArguments) -> Result<ExitCode, Failure> {
    p4::serve::planned(&SwitchPlan::read(&arguments.plan).map_err(Failure::run)?)
}

/// Prints the emulation facilities of this machine, for `belljar doctor`.
fn probe() -> ExitCode {
    println!("{}", serde_json::to_string(&belljar_emulation::probe::facilities()).unwrap_or_default());
    ExitCode::SUCCESS
}

/// Emulates the experiment, or removes the remains of earlier emulations.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if !arguments.clean.is_empty() {
        return clean(&arguments.clean);
    }
    if let Some(prompt) = arguments.with_prompt {
        launch::end_with(prompt, Signal::TERM)?;
    }
    backend::conduct(arguments, progress::now()).map(ExitCode::from)
}

impl Arguments {
    fn experiment_file(&self) -> Result<&Path, Failure> {
        self.file.as_deref().ok_or_else(|| Failure::usage("no experiment is given"))
    }
}

impl Backend for Arguments {
    type Settings = tdf::Dilated;

    fn options(&self) -> &experiment_options::Arguments {
        &self.experiment
    }

    fn prepare(&self) -> Result<(Experiment, tdf::Dilated), Failure> {
        let file = self.experiment_file()?;
        let experiment = self.experiment.load(file)?;
        let dilated = tdf::Dilated::new(&self.tdf, self.quantum, &experiment)?;
        let refused = check::refusals(&experiment, stage::has_users(), dilated.tdf_milli.is_some());
        backend::refuse(file, &self.experiment.settings(), &refused)?;
        Ok((experiment, dilated))
    }

    fn note(&self, experiment: &Experiment, dilated: &tdf::Dilated) -> Option<String> {
        let tdf = dilated.tdf_milli.map(|tdf| tdf as f64 / 1e3);
        Some(format!("emulated: {}", check::differences(experiment, tdf, dilated.is_auto).join("; ")))
    }

    fn run(&self, job: &Job, dilated: tdf::Dilated) -> Result<Outcome, Failure> {
        let &Job { experiment, folder, log, .. } = job;
        if stage::has_users() {
            make_writable(experiment, folder);
        }
        // Both clocks are monotonic.
        let began_ns = clock::monotonic_ns().saturating_sub(job.began.elapsed().as_nanos() as u64);
        let order = Order {
            folder: folder.path().to_owned(),
            exposed: run::folder_of(self.experiment_file()?),
            tdf_milli: dilated.tdf_milli,
            tdf_auto: dilated.is_auto,
            factors: dilated.factors,
            quantum_ns: dilated.quantum_ns,
            group: freeze::group_name(std::process::id(), began_ns),
            until_done: self.until_done,
            command: std::process::id(),
            began_ns,
        };
        let progress = Progress::new(self.experiment.display(), experiment.general.stop_time);
        let ended = conduct(&order, &progress, log, self.with_prompt.is_some());
        progress.finish();
        let remains = remove_scratch(folder.path());
        for host in &experiment.hosts {
            remove_empty(&folder.host(&host.name).join("fs"));
        }
        let interrupted = ended?;
        remains.map_err(Failure::run)?;
        let results = Results::open(folder.path()).map_err(Failure::run)?;
        let truth = truthfulness(&results);
        let appendix = truth.map_or_else(String::new, |truth| format!("{}\n", truth.summary()));
        Ok(Outcome::of_real(job, results.statistics, interrupted && self.with_prompt.is_none(), appendix))
    }
}

/// Makes the results folders of hosts with processes of other users than root writable for these.
fn make_writable(experiment: &Experiment, folder: &ResultsFolder) {
    use std::os::unix::fs::PermissionsExt;
    for host in experiment.hosts.iter().filter(|host| host.processes.iter().any(|p| p.user.is_some())) {
        let _ = fs::set_permissions(folder.host(&host.name), fs::Permissions::from_mode(0o1777));
    }
}

/// Starts the world and follows its reports until its end. The first Ctrl-C (or SIGTERM, SIGHUP) ends it in
/// order, the second one at once. Returns true if it was interrupted.
fn conduct(order: &Order, progress: &Progress, log: &log::Log, with_prompt: bool) -> Result<bool, Failure> {
    let program = std::env::current_exe().map_err(Failure::run)?;
    let mut command = Command::new(program);
    command.arg("emulate-stage").arg(std::process::id().to_string());
    // A process group of its own: the terminal's Ctrl-C reaches this process alone.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(Failure::run)?;
    let (Some(mut orders), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::run("the emulation has no connection"));
    };
    let first = serde_json::to_string(order).map_err(Failure::run)?;
    // A stage that has ended already has reported the reason.
    let _ = writeln!(orders, "{first}");
    let orders = Arc::new(Mutex::new(orders));
    let asked = AtomicBool::new(false);
    let of_handler = orders.clone();
    signals::handle(move || {
        if asked.swap(true, Relaxed) {
            signals::exit();
        }
        let _ = writeln!(of_handler.lock().unwrap_or_else(PoisonError::into_inner), "stop");
    })
    .map_err(Failure::run)?;
    let outcome = follow(BufReader::new(reports), progress, log, with_prompt);
    end(&mut child);
    freeze::remove(&order.group);
    drop(orders);
    outcome
}

/// Displays the world's reports until its last one. Returns true if the run was interrupted.
fn follow(
    reports: impl BufRead,
    progress: &Progress,
    log: &log::Log,
    with_prompt: bool,
) -> Result<bool, Failure> {
    let mut has_begun = false;
    for line in reports.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Report::Now(seconds)) => {
                let now = SimTime::from_nanos((seconds * 1e9) as u64);
                if with_prompt && !std::mem::replace(&mut has_begun, true) {
                    println!("{READY}");
                }
                progress.show(now, false, None);
                log.heartbeat(now);
            }
            Ok(Report::Done { interrupted }) => return Ok(interrupted),
            Ok(Report::Failed(why)) => return Err(Failure::run(why)),
            Err(_) => {}
        }
    }
    Err(Failure::run("the emulation ended without a word: it was killed, or the machine has no memory left"))
}

/// Waits for the world's process to end, after its last report.
fn end(child: &mut Child) {
    let _ = child.wait();
}

/// Removes the mount points and the work directories of overlays.
fn remove_scratch(folder: &Path) -> std::io::Result<()> {
    let scratch = folder.join(SCRATCH);
    if !scratch.exists() {
        return Ok(());
    }
    open_up(&scratch);
    fs::remove_dir_all(scratch)
}

/// Makes the work directories of the kernel's overlay removable by changing their mode.
fn open_up(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Removes a directory and its subdirectories, as far as they are empty.
fn remove_empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // Fails for a directory with content, which stays.
    let _ = fs::remove_dir(directory);
}

/// Implements `--clean`.
fn clean(folders: &[PathBuf]) -> Result<ExitCode, Failure> {
    for folder in folders {
        if !folder.is_dir() {
            return Err(Failure::usage(format!("there is no results folder {}", folder.display())));
        }
        let scratch = folder.join(SCRATCH);
        let there = scratch.exists();
        remove_scratch(folder).map_err(|error| Failure::run(format!("{}: {error}", scratch.display())))?;
        match there {
            true => println!("{}: mount points removed", folder.display()),
            false => println!("{}: nothing was left", folder.display()),
        }
    }
    println!("namespaces, interfaces and processes end with the command: the kernel has removed them");
    Ok(ExitCode::SUCCESS)
}
