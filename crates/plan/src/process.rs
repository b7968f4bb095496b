//! The processes of an experiment, as they are started.

use belljar_base::{Map, SimTime};
use belljar_config::{GUEST_PATH, PlacementSetting, Process, Signal};
use std::path::Path;

/// The environment of every process, besides what the experiment sets.
const CLEAN_ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", GUEST_PATH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];

/// A process to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessPlan {
    /// The program's file name.
    pub program: String,
    /// The path of its file.
    pub path: String,
    /// Its arguments, `argv[0]` included.
    pub args: Vec<String>,
    /// Its whole environment, in name order.
    pub environment: Vec<(String, String)>,
    /// The user that it runs as; `None` is root. A process with a user gets HOME from the user's entry.
    pub user: Option<String>,
    /// When it starts.
    pub start: SimTime,
    /// When it gets `shutdown_signal`, if it is to.
    pub shutdown: Option<SimTime>,
    /// The signal that it gets at `shutdown`.
    pub shutdown_signal: Signal,
    /// The memory that it runs in; of the simulator alone.
    pub placement: PlacementSetting,
}

impl ProcessPlan {
    /// Works out the process that these settings describe.
    pub fn new(settings: &Process) -> ProcessPlan {
        let clean = CLEAN_ENVIRONMENT.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let mut environment: Map<String, String> = clean.collect();
        if settings.user.is_some() {
            environment.remove("HOME");
        }
        environment.extend(settings.environment.clone());
        ProcessPlan {
            program: program_name(&settings.path),
            path: settings.path.to_string_lossy().into_owned(),
            args: std::iter::once(settings.arg0.clone()).chain(settings.args.iter().cloned()).collect(),
            environment: environment.into_iter().collect(),
            user: settings.user.clone(),
            start: settings.start_time,
            shutdown: settings.shutdown_time,
            shutdown_signal: settings.shutdown_signal,
            placement: settings.placement,
        }
    }
}

/// The file name of a program.
pub fn program_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
