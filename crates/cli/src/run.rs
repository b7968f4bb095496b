//! `belljar run`.

use crate::backend::{self, Backend, Complete, Job, Outcome};
use crate::cells::{self, Cell};
use crate::failure::Failure;
use crate::placement::PlacementOption;
use crate::progress::Display;
use crate::ranks::{self, Ranks};
use crate::workers::{self, Workers};
use crate::{
    choices, control, experiment_options, launch, live, paint, parts, pipe, profile, progress, session, watch,
};
use belljar_base::activity::Board;
use belljar_config::{Experiment, Host, Overrides};
use belljar_results::{ResultsFolder, names};
use belljar_sim::{AttachHub, CellExchange, Course, Output, RunOptions, SimulatorOptions};
use clap::builder::FalseyValueParser;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the experiment and writes a results folder. The exit status is 0 only if every process
/// ended as the experiment expects.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar run examples/first.yaml\n  belljar run exp.yaml -o results --seed 7 --pcap\n  belljar run exp.yaml --profile\n  belljar run exp.yaml --pcap-filter 'tcp port 80 and host server'\n  belljar run exp.yaml --pcap-pipe client:eth0 | wireshark -k -i -\n  belljar run exp.yaml --set general.stop_time=\"5 s\" --set hosts.alice.bandwidth_up=\"1 Mbit\"\n\nEvery option can be given as an environment variable too, as shown beside it."
)]
pub struct Arguments {
    /// The experiment file, in Shadow's format (`-` reads standard input)
    file: PathBuf,
    #[command(flatten)]
    experiment: experiment_options::Arguments,
    #[command(flatten)]
    choices: choices::Arguments,
    /// Log every process's system calls (<program>.<pid>.strace)
    #[arg(long, env = "BELLJAR_STRACE", value_parser = FalseyValueParser::new())]
    strace: bool,
    /// Write the messages of other simulators' channels with their times (simulators/NAME/channels.csv)
    #[arg(long, env = "BELLJAR_TRACE_CHANNELS", value_parser = FalseyValueParser::new())]
    trace_channels: bool,
    /// Write the packets of an interface to standard output in pcap format, as they come, and all else to standard error:
    /// for wireshark -k -i -
    #[arg(long, value_name = "HOST:IF", env = "BELLJAR_PCAP_PIPE", value_parser = pipe::parse,
          conflicts_with_all = ["log", "show_config", "watch"])]
    pcap_pipe: Option<(String, String)>,
    /// Placement of all processes
    #[arg(long, value_enum, env = "BELLJAR_PLACEMENT")]
    placement: Option<PlacementOption>,
    /// Let a program wait for gdb before its first instruction; `belljar gdb` then attaches
    #[arg(long, value_name = "HOST:PROGRAM", env = "BELLJAR_GDB", value_parser = parse_debuggee)]
    gdb: Vec<(String, String)>,
    #[command(flatten)]
    workers: workers::Arguments,
    /// Spread the hosts over N processes, of which each has room for some 2,000 hosts and takes its share of the
    /// workers. Results don't depend on it
    #[arg(long, value_name = "N", env = "BELLJAR_CELLS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(cells::MOST)))]
    cells: u32,
    #[command(flatten)]
    ranks: ranks::Arguments,
    /// Let no more simulated time pass than real time; with 'gateways' it is always so
    #[arg(long, env = "BELLJAR_REAL_TIME", value_parser = FalseyValueParser::new())]
    real_time: bool,
    #[command(flatten)]
    live: live::Arguments,
    /// Run again whenever the experiment file or a file below its folder that the run has read changes. Only its own
    /// results are replaced
    #[arg(long, env = "BELLJAR_WATCH", value_parser = FalseyValueParser::new(), conflicts_with_all = ["show_config", "quiet"])]
    watch: bool,
    /// Let simulated time pass only while programs do something that a prompt has added, or while it asks for it
    #[arg(long, hide = true, conflicts_with_all = ["live", "real_time", "watch"])]
    with_prompt: Option<i32>,
    /// Print the experiment with everything resolved, and don't run it
    #[arg(long, env = "BELLJAR_SHOW_CONFIG", value_parser = FalseyValueParser::new())]
    show_config: bool,
}

/// Parses the argument of `--gdb`: a host and a program.
fn parse_debuggee(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((host, program)) if !host.is_empty() && !program.is_empty() => Ok((host.into(), program.into())),
        _ => Err("give a host and a program of it, as in alice:curl".into()),
    }
}

impl Arguments {
    /// True if guests are to run.
    pub fn has_guests(&self) -> bool {
        !self.show_config
    }
}

/// Runs the experiment, alone or as one of several ranks.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let began = progress::now();
    if let Some(prompt) = arguments.with_prompt {
        launch::end_with(prompt, Signal::TERM)?;
    }
    if arguments.show_config {
        print!("{}", load(arguments, None)?.to_yaml());
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.watch {
        let results = || {
            let experiment = arguments.experiment.load(&arguments.file).ok()?;
            Some(arguments.experiment.results(&experiment).to_owned())
        };
        return watch::main(&arguments.file, results);
    }
    let status = match arguments.ranks.meet(&arguments.file, arguments.experiment.output())? {
        None => backend::conduct(&Simulation { arguments, ranks: None }, began)?,
        Some(ranks) => {
            let result = backend::conduct(&Simulation { arguments, ranks: Some(&ranks) }, began);
            ranks.end(result)?
        }
    };
    Ok(ExitCode::from(status))
}

/// Loads the experiment, and checks that the options are applicable to it.
fn load(arguments: &Arguments, ranks: Option<&Ranks>) -> Result<Experiment, Failure> {
    let mut experiment = arguments.experiment.load(&arguments.file)?;
    experiment.apply_overrides(&Overrides {
        strace_logging_mode: arguments.strace.then_some(belljar_config::StraceMode::Standard),
        placement: arguments.placement.map(PlacementOption::setting),
        ..Overrides::default()
    });
    // Remedy for options that need a run in one process.
    let together = match (ranks, arguments.cells) {
        (None, 1) => None,
        (None, _) => Some("leave out --cells"),
        (Some(_), 1) => Some("start it without mpirun or srun, or with --no-ranks"),
        (Some(_), _) => {
            return Err(Failure::usage("each rank is a cell: leave out --cells, and start more ranks"));
        }
    };
    if let Some(remedy) = together.filter(|_| in_real_time(arguments, &experiment)) {
        return Err(Failure::usage(format!("a run in real time has one process: {remedy}")));
    }
    parts::check(&experiment)?;
    control::check_debuggees(&arguments.gdb, &experiment)?;
    let writes_log = arguments.experiment.writes_log(&experiment);
    if let Some((node, interface)) = &arguments.pcap_pipe {
        pipe::check(&experiment, node, interface, together, writes_log)?;
    }
    arguments.live.check(together, in_real_time(arguments, &experiment), writes_log)?;
    arguments.choices.apply(&mut experiment, ranks.is_some())?;
    Ok(experiment)
}

/// True if simulated time must not run ahead of real time.
fn in_real_time(arguments: &Arguments, experiment: &Experiment) -> bool {
    arguments.real_time || experiment.has_gateways()
}

/// A simulation in this process, or as one of several ranks.
struct Simulation<'a> {
    arguments: &'a Arguments,
    ranks: Option<&'a Ranks>,
}

/// Settings of a simulation.
struct Settings {
    workers: Workers,
    /// Connection with the other ranks.
    exchange: Option<Arc<CellExchange>>,
}

impl Simulation<'_> {
    fn cells(&self, experiment: &Experiment) -> usize {
        (self.arguments.cells as usize).min(experiment.hosts.len().max(1))
    }
}

impl Backend for Simulation<'_> {
    type Settings = Settings;

    fn options(&self) -> &experiment_options::Arguments {
        &self.arguments.experiment
    }

    fn reports(&self) -> bool {
        self.ranks.is_none_or(Ranks::is_first)
    }

    fn has_output(&self) -> bool {
        self.arguments.pcap_pipe.is_some()
    }

    fn prepare(&self) -> Result<(Experiment, Settings), Failure> {
        let Simulation { arguments, ranks } = self;
        let prepared = load(arguments, *ranks).and_then(|experiment| {
            let workers = Workers::new(&arguments.workers, &experiment);
            let workers = match ranks {
                Some(ranks) => workers.in_ranks(&arguments.workers, &experiment, ranks.sharers())?,
                None => workers.in_cells(self.cells(&experiment))?,
            };
            Ok((experiment, workers))
        });
        let Some(ranks) = ranks else {
            let (experiment, workers) = prepared?;
            return Ok((experiment, Settings { workers, exchange: None }));
        };
        let (experiment, workers, total) = ranks.agree(&arguments.file, prepared)?;
        let exchange = Some(ranks.wire(total)?);
        Ok((experiment, Settings { workers, exchange }))
    }

    fn create_folder(&self, experiment: &Experiment) -> Result<ResultsFolder, Failure> {
        let &Simulation { arguments, ranks } = self;
        // Hosts with models alone write nothing except captures.
        let writes =
            |host: &&Host| !host.processes.is_empty() || host.models.is_empty() || host.options.pcap_enabled;
        let hosts = experiment.hosts.iter().filter(writes).map(|host| host.name.as_str());
        let create = || arguments.experiment.create_folder(experiment, hosts);
        match ranks {
            None => create(),
            Some(ranks) => ranks.folder(experiment.general.results(), create),
        }
    }

    fn run(&self, job: &Job, settings: Settings) -> Result<Outcome, Failure> {
        let &Job { experiment, folder, log, began } = job;
        let &Simulation { arguments, ranks } = self;
        let Settings { workers, exchange } = settings;
        let start = progress::now();
        let cells = self.cells(experiment);
        let watched = workers.profile.then(|| Arc::new(Board::new(workers.count)));
        let mut clock = profile::Clock::loaded(began);
        let mut live = arguments.live.live();
        let in_real_time = in_real_time(arguments, experiment);
        let names = belljar_sim::host_names(experiment);
        let attach = match (arguments.with_prompt.is_some(), &live) {
            (true, _) => {
                let (attach, standing) = AttachHub::standing(names);
                live = Some(standing);
                attach
            }
            _ if in_real_time => AttachHub::new(names, Course::Paced),
            (_, Some(live)) => AttachHub::new(names, Course::Live(live.clone())),
            _ => AttachHub::new(names, Course::Free),
        };
        if arguments.experiment.is_verbose() && self.reports() {
            let processes = ranks.map_or(cells, Ranks::count);
            let each =
                if processes == 1 { String::new() } else { format!(" in each of {processes} processes") };
            paint::info(&format!("{} workers{each}", workers.count));
        }
        let pipe = arguments.pcap_pipe.as_ref();
        let packet_pipe =
            pipe.map(|(node, interface)| pipe::open(experiment, node, interface)).transpose()?;
        let run_options = RunOptions {
            attach: attach.clone(),
            console: None,
            live: live.clone(),
            watched: watched.clone(),
            output: Output::Files,
            working_directory: None,
            exposed: folder_of(&arguments.file),
            interrupt: Default::default(),
            simulators: SimulatorOptions {
                launcher: launch::launcher(),
                places: workers.places.clone(),
                trace: arguments.trace_channels,
                outlook: Default::default(),
            },
            control_servers: parts::control_servers(),
            real_clock: in_real_time.then_some(progress::monotonic_ns),
            paced: arguments.real_time,
            idle_processor: workers::leave_one_idle(workers.count * ranks.map_or(cells, Ranks::here)),
            debug: control::hub(folder, experiment),
            packet_pipe: packet_pipe.clone(),
            wait_for_debugger: arguments.gdb.clone(),
        };
        if let (Some(ranks), false) = (ranks, self.reports()) {
            let exchange = exchange.as_deref();
            let ran = session::run(experiment, folder, &run_options, &workers, log, Display::Notes, exchange);
            return ranks.deliver(ran.map(|(part, _)| part), folder).map(Outcome::Part);
        }
        let display = arguments.live.display(arguments.experiment.display());
        let others = match cells {
            1 => None,
            count => match cells::split(count, workers.count * count)? {
                Cell::First(others) => Some(others),
                Cell::Other(cell) => {
                    return cell.run(experiment, folder, &run_options, &workers).map(Outcome::Part);
                }
            },
        };
        let view = arguments.live.begin(live.as_ref(), experiment, folder, workers.count, in_real_time)?;
        let exchange = exchange.or(others.as_ref().map(|cells| cells.exchange.clone()));
        let exchange = exchange.as_deref();
        let (part, seen) = session::run(experiment, folder, &run_options, &workers, log, display, exchange)?;
        drop(view);
        if packet_pipe.is_some_and(|pipe| pipe.is_abandoned()) {
            paint::note("the reader of the packets left before the end of the run");
        }
        clock.simulated();
        let (parts, failure) = match (others, ranks) {
            (Some(cells), _) => cells.finish(),
            (None, Some(ranks)) => ranks.collect(&part, folder),
            (None, None) => (Vec::new(), None),
        };
        let finished = belljar_sim::conclude(experiment, folder, part, parts).map_err(Failure::run)?;
        arguments.choices.write(experiment, &finished.choices)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut appendix = String::new();
        let real_time = start.elapsed();
        if let Some(seen) = seen {
            let engine = finished.profile.as_ref();
            let (text, json) =
                profile::report(&seen, &clock, workers.count, experiment, &finished.statistics, engine);
            folder.write(names::PROFILE, json.as_bytes()).map_err(Failure::run)?;
            appendix = text;
        }
        Ok(Outcome::Complete(Box::new(Complete {
            interrupted: session::interruption(finished.ending).filter(|_| !attach.is_finished()),
            statistics: finished.statistics,
            real_time,
            emulated: false,
            appendix,
        })))
    }
}

/// Folder of the experiment file, or the current directory for standard input: most files that the experiment
/// names are below it.
pub fn folder_of(file: &Path) -> Vec<PathBuf> {
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    folder.canonicalize().into_iter().collect()
}
