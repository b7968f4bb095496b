//! The options of Shadow's command line that override the experiment file.

use belljar_base::{SimDuration, SimTime};
use belljar_config::{LogLevel, Overrides, parse_time};
use std::path::PathBuf;

/// Options that have the names that Shadow gives them.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Options of the experiment's section 'general'")]
pub struct Arguments {
    /// Until this time nothing is lost and bandwidth is infinite
    #[arg(long, value_name = "TIME", env = "BELLJAR_BOOTSTRAP_END_TIME", value_parser = parse_time)]
    bootstrap_end_time: Option<SimTime>,
    /// Interval between log lines about resources, in simulated time; 0 turns them off
    #[arg(long, value_name = "TIME", env = "BELLJAR_HEARTBEAT_INTERVAL", value_parser = parse_time)]
    heartbeat_interval: Option<SimTime>,
    /// The least severe messages that are logged
    #[arg(long, value_enum, env = "BELLJAR_LOG_LEVEL")]
    log_level: Option<Level>,
    /// True if calls that don't block take simulated time
    #[arg(long, value_name = "BOOL", env = "BELLJAR_MODEL_UNBLOCKED_SYSCALL_LATENCY", action = clap::ArgAction::Set)]
    model_unblocked_syscall_latency: Option<bool>,
    /// True shows progress, and writes the log as --log does
    #[arg(long, value_name = "BOOL", env = "BELLJAR_PROGRESS", action = clap::ArgAction::Set)]
    progress: Option<bool>,
    /// A folder whose content is copied to the results folder first
    #[arg(long, value_name = "DIR", env = "BELLJAR_TEMPLATE_DIRECTORY")]
    template_directory: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Level {
    Error,
    Warning,
    Info,
    Debug,
    Trace,
}

impl Arguments {
    /// Overrides that these options set.
    pub fn overrides(&self) -> Overrides {
        let interval = |at: SimTime| (at > SimTime::ZERO).then(|| at.since(SimTime::ZERO));
        Overrides {
            bootstrap_end_time: self.bootstrap_end_time,
            heartbeat_interval: self.heartbeat_interval.map(interval as fn(SimTime) -> Option<SimDuration>),
            log_level: self.log_level.map(|level| match level {
                Level::Error => LogLevel::Error,
                Level::Warning => LogLevel::Warning,
                Level::Info => LogLevel::Info,
                Level::Debug => LogLevel::Debug,
                Level::Trace => LogLevel::Trace,
            }),
            model_unblocked_syscall_latency: self.model_unblocked_syscall_latency,
            progress: self.progress,
            template_directory: self.template_directory.clone(),
            ..Overrides::default()
        }
    }
}
