//! Commands that a quick build leaves out.
//!
//! The first build from a checkout has what simulations need (`--no-default-features`). The script `belljar` of
//! the checkout builds the other commands when one of them is first used: [`hand_over`] executes it with the
//! same arguments.

use crate::failure::Failure;
use belljar_config::Experiment;
use belljar_p4::servers::CreateServers;

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

    /// Executes the command in a complete build.
    pub fn main(_: &Arguments) -> Result<ExitCode, Failure> {
        Err(hand_over())
    }
}

/// Executes the arguments of this process in a build that has all commands, which the checkout's script makes
/// first. Returns only if that fails.
#[cfg(not(feature = "all-commands"))]
pub fn hand_over() -> Failure {
    use std::os::unix::process::CommandExt;
    use std::path::Path;

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
    let mut script = std::process::Command::new(SCRIPT);
    script.args(&arguments[1..]).env("BELLJAR_COMMANDS", "all").env("CARGO_TARGET_DIR", target);
    let error = script.exec();
    lacks(&format!(", and {SCRIPT} cannot be executed ({error})"))
}

/// Checks that this build can run an experiment: the quick one hands over those with P4 switches that have
/// controllers.
pub fn check(experiment: &Experiment) -> Result<(), Failure> {
    #[cfg(feature = "all-commands")]
    let _ = experiment;
    #[cfg(not(feature = "all-commands"))]
    {
        use belljar_config::topology::DeviceKind;

        let is_managed = |kind: &DeviceKind| matches!(kind, DeviceKind::P4(p4) if p4.management.is_some());
        if experiment.topology.devices.iter().any(|device| is_managed(&device.kind)) {
            return Err(hand_over());
        }
    }
    Ok(())
}

/// Function that creates the servers for controllers of P4 switches; none in the quick build, see [`check`].
pub fn control_servers() -> Option<CreateServers> {
    #[cfg(feature = "all-commands")]
    let create: Option<CreateServers> = Some(belljar_p4runtime::control_servers);
    #[cfg(not(feature = "all-commands"))]
    let create: Option<CreateServers> = None;
    create
}
