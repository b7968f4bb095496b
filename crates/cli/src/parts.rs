//! Commands that a quick build leaves out.
//!
//! The first build from a checkout has what simulations need (`--no-default-features`). The script `belljar` of
//! the checkout builds the other commands when one of them is first used: [`hand_over`] executes it with the
//! same arguments.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_config::topology::DeviceKind;
use belljar_p4::servers::CreateServers;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Stand-in for the module of a command that is left out.
#[cfg(not(feature = "all-commands"))]
pub mod absent {
    use super::hand_over;
    use crate::failure::Failure;
    use std::ffi::OsString;
    use std::process::ExitCode;

    /// Arguments, which the complete build parses.
    #[derive(clap::Args)]
    #[command(disable_help_flag = true, disable_version_flag = true)]
    pub struct Arguments {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _rest: Vec<OsString>,
    }

    pub use Arguments as CompletionsArguments;
    pub use Arguments as ManArguments;

    /// Executes the command in a complete build.
    pub fn main(_: &Arguments) -> Result<ExitCode, Failure> {
        Err(hand_over())
    }
    /// Executes the command in a complete build, like [`main`].
    pub fn completions(arguments: &Arguments, _: clap::Command) -> Result<ExitCode, Failure> {
        main(arguments)
    }
    /// Executes the command in a complete build, like [`main`].
    pub fn man(arguments: &Arguments, _: clap::Command) -> Result<ExitCode, Failure> {
        main(arguments)
    }
}

/// Executes the arguments of this process in a build that has all commands, which the checkout's script makes
/// first. Returns only if that fails.
pub fn hand_over() -> Failure {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../belljar");
    let lacks = |why: &str| {
        Failure::run(format!(
            "this build of Belljar has no such command{why}: build all of it with 'cargo build --release -p belljar'"
        ))
    };
    if std::env::var_os("BELLJAR_COMMANDS").is_some() {
        return lacks("");
    }
    let Ok(me) = std::env::current_exe() else { return lacks("") };
    // The script builds to `release` of the target folder.
    let Some(target) = me.parent().filter(|folder| folder.ends_with("release")).and_then(Path::parent) else {
        return lacks(", and is not where the script 'belljar' puts one");
    };
    let arguments = crate::as_shadow::translated(std::env::args_os().collect());
    let mut script = Command::new(SCRIPT);
    script.args(&arguments[1..]).env("BELLJAR_COMMANDS", "all").env("CARGO_TARGET_DIR", target);
    let error = script.exec();
    lacks(&format!(", and {SCRIPT} cannot be executed ({error})"))
}

/// Checks that this build can run an experiment: the quick one hands over those with P4 switches that have
/// controllers.
pub fn check(experiment: &Experiment) -> Result<(), Failure> {
    let is_managed = |kind: &DeviceKind| matches!(kind, DeviceKind::P4(p4) if p4.management.is_some());
    let mut devices = experiment.topology.devices.iter();
    match control_servers().is_none() && devices.any(|device| is_managed(&device.kind)) {
        true => Err(hand_over()),
        false => Ok(()),
    }
}

/// Function that creates the servers for controllers of P4 switches; none in the quick build, see [`check`].
pub fn control_servers() -> Option<CreateServers> {
    #[cfg(feature = "all-commands")]
    let create: Option<CreateServers> = Some(belljar_p4runtime::control_servers);
    #[cfg(not(feature = "all-commands"))]
    let create: Option<CreateServers> = None;
    create
}
