//! Options common to all commands that run an experiment, whether simulated, emulated or deployed.

use crate::failure::Failure;
use crate::progress::Display;
use crate::{connectivity, log, shadow_options, topology};
use belljar_base::SimTime;
use belljar_config::{Experiment, Overrides, STOP_TIME, Setting, parse_time};
use belljar_net::Filter;
use belljar_net::units::format_duration;
use belljar_results::{ResultsFolder, names};
use clap::builder::FalseyValueParser;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Options of an experiment's run.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// The results folder; without --force it must not exist yet [default: general.data_directory, or the file's name with .data in the current folder]
    #[arg(
        short,
        long = "output",
        value_name = "DIR",
        visible_alias = "data-directory",
        env = "BELLJAR_OUTPUT"
    )]
    output: Option<PathBuf>,
    /// Replace the results folder of an earlier run. Only a folder that a run of Belljar has written is replaced
    #[arg(long, env = "BELLJAR_FORCE", value_parser = FalseyValueParser::new())]
    force: bool,
    /// The seed of all that is drawn
    #[arg(long, env = "BELLJAR_SEED")]
    seed: Option<u64>,
    /// End the run at this time of the experiment ("10 s", "5 min")
    #[arg(long, env = "BELLJAR_STOP_TIME", value_parser = parse_time)]
    stop_time: Option<SimTime>,
    /// Capture the packets of every host's interfaces (eth0.pcap, lo.pcap)
    #[arg(long, env = "BELLJAR_PCAP", value_parser = FalseyValueParser::new())]
    pcap: bool,
    /// Capture only these packets, in the words of tcpdump's filters ("tcp port 80 and host web"); implies --pcap
    #[arg(long, value_name = "FILTER", env = "BELLJAR_PCAP_FILTER")]
    pcap_filter: Option<String>,
    /// Show no progress line
    #[arg(long, env = "BELLJAR_NO_PROGRESS", value_parser = FalseyValueParser::new())]
    no_progress: bool,
    /// Print errors only: no notes, no progress, no summary. The exit status says whether all went as expected
    #[arg(short, long, env = "BELLJAR_QUIET", value_parser = FalseyValueParser::new(), conflicts_with = "log")]
    quiet: bool,
    /// Say more on standard error: the size of the experiment, the results folder, the workers, the progress
    /// where there is no terminal, and the end of each process
    #[arg(short, long, env = "BELLJAR_VERBOSE", value_parser = FalseyValueParser::new(), conflicts_with = "quiet")]
    verbose: bool,
    /// Set a value of the experiment, whatever the file says: keys joined by dots, items of lists by
    /// their number from 0. The value is YAML
    #[arg(long, value_name = "KEY=VALUE", env = "BELLJAR_SET", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Write a log to standard output in Shadow's format, with its heartbeat lines [default: as
    /// general.progress says]
    #[arg(long, env = "BELLJAR_LOG", value_parser = FalseyValueParser::new())]
    log: bool,
    /// Name of the results folder where neither an option nor the experiment gives one
    #[arg(long, hide = true)]
    default_output: Option<PathBuf>,
    #[command(flatten)]
    general: shadow_options::Arguments,
}

impl Arguments {
    /// Loads the experiment and applies the overrides of these options.
    pub fn load(&self, file: &Path) -> Result<Experiment, Failure> {
        let experiment = Experiment::load_into(file, &self.settings(), self.default_output.as_deref());
        let mut experiment = experiment.map_err(Failure::input)?;
        if let Some(filter) = &self.pcap_filter {
            Filter::parse(filter, &|name| experiment.addresses_of(name))
                .map_err(|why| Failure::usage(format!("--pcap-filter '{filter}': {why}")))?;
        }
        experiment.apply_overrides(&Overrides {
            seed: self.seed,
            data_directory: self.output.clone(),
            pcap_enabled: (self.pcap || self.pcap_filter.is_some()).then_some(true),
            pcap_filter: self.pcap_filter.clone(),
            ..self.general.overrides()
        });
        Ok(experiment)
    }

    /// Values that replace those in the file.
    pub fn settings(&self) -> Vec<Setting> {
        // The loader needs the stop time: it refuses events that never happen.
        let stop = self.stop_time.map(|stop| Setting {
            path: STOP_TIME.to_owned(),
            value: format_duration(stop.since(SimTime::ZERO)),
        });
        self.set.iter().cloned().chain(stop).collect()
    }

    /// Results folder given by an option, if any.
    pub fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// True if only errors are printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True if more is printed than usual.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// True if the run writes a log to standard output.
    pub fn writes_log(&self, experiment: &Experiment) -> bool {
        self.log || experiment.general.progress
    }

    /// Results folder as named by the user.
    pub fn results<'a>(&'a self, experiment: &'a Experiment) -> &'a Path {
        self.output().unwrap_or(experiment.general.results())
    }

    /// Creates the results folder with a folder for each of the `hosts`, the template's content, the drawing of
    /// the topology, its connectivity over time if routes are logged, and the resolved experiment.
    pub fn create_folder<'a>(
        &self,
        experiment: &Experiment,
        hosts: impl Iterator<Item = &'a str>,
    ) -> Result<ResultsFolder, Failure> {
        let path = experiment.general.results();
        if self.force {
            ResultsFolder::remove_earlier(path).map_err(Failure::usage)?;
        }
        let folder = ResultsFolder::create(path, hosts).map_err(Failure::usage)?;
        if let Some(template) = &experiment.general.template_directory {
            folder.fill(template).map_err(Failure::run)?;
        }
        let drawing = topology::topology(experiment).to_json();
        folder.write(names::TOPOLOGY, drawing.as_bytes()).map_err(Failure::run)?;
        if experiment.belljar.route_log {
            let all = connectivity::connectivity(experiment).to_json();
            folder.write(names::CONNECTIVITY, all.as_bytes()).map_err(Failure::run)?;
        }
        folder.write(names::EXPERIMENT, experiment.to_yaml().as_bytes()).map_err(Failure::run)?;
        Ok(folder)
    }

    /// Creates the log in Shadow's format, enabled by an option or by the experiment.
    pub fn log(&self, experiment: &Experiment) -> log::Log {
        log::Log::new(self.writes_log(experiment), experiment)
    }

    /// Mode of the progress display: a progress line on a terminal, otherwise notes, and lines now and then if the run is
    /// verbose.
    pub fn display(&self) -> Display {
        if self.quiet {
            return Display::Elsewhere;
        }
        match (self.no_progress, std::io::stderr().is_terminal()) {
            (false, true) => Display::Line,
            (false, false) if self.verbose => Display::Lines,
            _ => Display::Notes,
        }
    }
}
