//! `belljar reproduce`: the experiments of the papers, which are Python programs of the checkout.

use crate::failure::Failure;
use crate::sweep;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Starts the experiments' command. The current directory is removed from the module search path.
const START: &str = "\
import sys
sys.path[:] = [sys.argv[1], *(p for p in sys.path if p)]
try:
    from papers.command import main
except ImportError as error:
    sys.exit(f'error: belljar reproduce needs PyYAML (apt install python3-yaml, or name another interpreter by BELLJAR_PYTHON): {error}')
sys.exit(main(sys.argv[2:]))
";

/// Options of the experiments' command, for completions and the manual page.
#[cfg(feature = "all-commands")]
pub const OPTIONS: &[crate::manual::PythonOption] = &[
    (Some('o'), "output", Some("DIR"), "The folder for results [default: papers.data]"),
    (None, "full", None, "The size of the paper"),
    (None, "small", None, "The size of a test, which shows that it works and no more"),
    (None, "page", None, "Write docs/papers.md anew, with the results of the usual size in DIR"),
];

/// Repeats an experiment of a paper: `belljar reproduce --help` tells more, without a name it lists all.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Names of experiments, and options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Executes the experiments' command.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let own = std::env::current_exe().map_err(Failure::run)?;
    let Some(benches) = benches(&own) else {
        return Err(Failure::run(
            "the experiments of the papers need a checkout of Belljar, with its folder 'benches': run './belljar reproduce' there",
        ));
    };
    let mut command = Command::new(interpreter(&own));
    command.arg("-c").arg(START).arg(&benches).args(&arguments.arguments);
    Err(sweep::become_python(command, &own))
}

/// Returns the Python interpreter: that of sweeps, except that the tests' own environment in the target
/// directory, which has the packages for figures, precedes the machine's.
fn interpreter(own: &Path) -> PathBuf {
    let tests = own.parent().and_then(Path::parent).map(|target| target.join("venv/bin/python"));
    match tests {
        Some(python) if std::env::var_os("BELLJAR_PYTHON").is_none() && python.is_file() => python,
        _ => sweep::interpreter(own),
    }
}

/// Returns the folder with the experiments: of the checkout in which this program was built, which is an
/// ancestor of the program unless the target directory is elsewhere.
fn benches(own: &Path) -> Option<PathBuf> {
    let built = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    own.ancestors()
        .chain([built])
        .map(|folder| folder.join("benches"))
        .find(|folder| folder.join("papers/command.py").is_file())
}
