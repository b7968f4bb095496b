//! `belljar sweep`: the campaigns of the Python package, for users without Python code.

use crate::failure::Failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Starts the package, and reports missing dependencies. The current directory is removed from the module
/// search path.
const START: &str = "\
import sys
sys.path[:] = [p for p in sys.path if p]
try:
    from belljar.command import main
except ImportError as error:
    sys.exit(f'error: belljar sweep needs the Python package: pip install CHECKOUT/python, or name another interpreter by BELLJAR_PYTHON ({error})')
sys.exit(main(['sweep', *sys.argv[1:]]))
";

/// Options of the package's command, for completions and the manual page.
#[cfg(feature = "all-commands")]
pub const OPTIONS: &[crate::manual::PythonOption] = &[
    (Some('o'), "output", Some("DIR"), "The sweep's folder [default: FILE's name with .sweep]"),
    (None, "seeds", Some("N"), "So many seeds from 1 on, or seeds such as 5-9 or 1,4,7-9 [default: 10]"),
    (None, "set", Some("KEY=VALUE"), "A value of the experiment, for all runs"),
    (None, "vary", Some("KEY=[V,...]"), "Values of which each gets runs of its own"),
    (None, "measure", Some("NAME=WHAT"), "A number of each run, for the table and the report"),
    (
        None,
        "until",
        Some("WIDTH"),
        "Add seeds until the first measure's mean is known so narrowly: \"5 %\", or a number",
    ),
    (None, "most-seeds", Some("N"), "With --until: no more than this [default: 1000]"),
    (None, "on", Some("WHERE"), "local, slurm, dask or dask:ADDRESS [default: local]"),
    (None, "slurm", Some("KEY=VALUE"), "A parameter of submitit, such as slurm_partition=short"),
    (None, "workers", Some("N"), "Runs at a time [default: as many as there are processors]"),
    (None, "retries", Some("N"), "How often a run is made again whose worker is lost [default: 2]"),
    (None, "timeout", Some("SECONDS"), "Real time that a run may take"),
    (None, "strace", None, "Log system calls"),
    (None, "pcap", None, "Capture packets"),
    (None, "no-progress", None, "Show no progress bar"),
];

/// Runs an experiment under many seeds and settings: `belljar sweep --help` tells more.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// The experiment file, and options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Executes the Python package's command.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let own = std::env::current_exe().map_err(Failure::run)?;
    let mut command = Command::new(interpreter(&own));
    command.arg("-c").arg(START).args(&arguments.arguments);
    if let Some(sources) = sources(&own) {
        let before = std::env::var_os("PYTHONPATH").unwrap_or_default();
        // An empty entry would stand for the current directory.
        let others = std::env::split_paths(&before).filter(|path| !path.as_os_str().is_empty());
        let path = std::env::join_paths(std::iter::once(sources).chain(others));
        command.env("PYTHONPATH", path.map_err(Failure::run)?);
    }
    Err(become_python(command, &own))
}

/// Replaces this process by a Python command, which finds this program in `BELLJAR_BIN`. Returns only if that fails.
pub fn become_python(mut command: Command, own: &Path) -> Failure {
    if std::env::var_os("BELLJAR_BIN").is_none() {
        command.env("BELLJAR_BIN", own);
    }
    let error = command.exec();
    Failure::run(format!("{} cannot be started: {error}", Path::new(command.get_program()).display()))
}

/// Returns the Python interpreter: the one in `BELLJAR_PYTHON`, that of the environment in which this program
/// is installed, or the machine's.
pub fn interpreter(own: &Path) -> PathBuf {
    if let Some(named) = std::env::var_os("BELLJAR_PYTHON") {
        return named.into();
    }
    let beside = own.with_file_name("python3");
    if beside.is_file() { beside } else { "python3".into() }
}

/// Returns the package's folder in the checkout in which this program was built, if any.
fn sources(own: &Path) -> Option<PathBuf> {
    own.ancestors()
        .map(|folder| folder.join("python"))
        .find(|folder| folder.join("belljar/command.py").is_file())
}
