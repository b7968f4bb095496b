//! Start parameters of an experiment's processes.

use belljar_base::{Map, SimTime};
use belljar_config::{GUEST_PATH, PlacementSetting, Process, Signal};

/// Environment of every process, in addition to the experiment's variables.
pub const CLEAN_ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", GUEST_PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];

/// Start parameters of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessPlan {
    /// File name of the program.
    pub program: String,
    /// Path of the program.
    pub path: String,
    /// Arguments, including `argv[0]`.
    pub args: Vec<String>,
    /// Complete environment, sorted by name.
    pub environment: Vec<(String, String)>,
    /// User as which the process runs; `None` for root. A process with a user gets HOME from the user's
    /// entry.
    pub user: Option<String>,
    /// Start time.
    pub start: SimTime,
    /// Time of `shutdown_signal`, if any.
    pub shutdown: Option<SimTime>,
    /// Signal sent at `shutdown`.
    pub shutdown_signal: Signal,
    /// Placement of its memory; for the simulation only.
    pub placement: PlacementSetting,
    /// True for the process of the host's setup: the others start once it has exited with status 0.
    pub is_setup: bool,
}

impl ProcessPlan {
    /// Computes the start parameters from the settings.
    pub fn new(settings: &Process) -> ProcessPlan {
        let clean = CLEAN_ENVIRONMENT.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let mut environment: Map<String, String> = clean.collect();
        if settings.user.is_some() {
            environment.remove("HOME");
        }
        environment.extend(settings.environment.clone());
        ProcessPlan {
            program: settings.program_name(),
            path: settings.path.to_string_lossy().into_owned(),
            args: std::iter::once(settings.arg0.clone()).chain(settings.args.iter().cloned()).collect(),
            environment: environment.into_iter().collect(),
            user: settings.user.clone(),
            start: settings.start_time,
            shutdown: settings.shutdown_time,
            shutdown_signal: settings.shutdown_signal,
            placement: settings.placement,
            is_setup: settings.is_setup,
        }
    }
}
