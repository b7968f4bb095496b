//! Setup of a host: commands of a shell that run before its processes, as a process of their own.

use crate::model::{FinalState, PlacementSetting, Process};
use crate::signals::Signal;
use belljar_base::{Map, SimTime};
use std::path::PathBuf;

/// Script that runs its arguments one after the other, in one shell, up to the first that fails.
const SCRIPT: &str = "for setup_command do eval \"$setup_command\" || { setup_status=$?; \
    echo \"setup: status $setup_status of: $setup_command\" >&2; exit $setup_status; }; done";
/// Arguments before the commands: the script, and the shell's name in its messages.
const BEFORE: [&str; 3] = ["-c", SCRIPT, "setup"];

impl Process {
    /// The process that runs these commands by the shell `path`.
    pub(crate) fn of_setup(
        path: PathBuf,
        commands: Vec<String>,
        environment: Map<String, String>,
        placement: PlacementSetting,
    ) -> Process {
        Process {
            path,
            arg0: "sh".to_owned(),
            args: BEFORE.map(str::to_owned).into_iter().chain(commands).collect(),
            environment,
            user: None,
            start_time: SimTime::ZERO,
            shutdown_time: None,
            shutdown_signal: Signal::TERM,
            expected_final_state: FinalState::Exited(0),
            must_start: false,
            placement,
            is_setup: true,
            written: None,
        }
    }

    /// The commands, if the process is a setup.
    pub(crate) fn setup_commands(&self) -> Option<&[String]> {
        self.args.get(BEFORE.len()..).filter(|_| self.is_setup)
    }
}
