//! `belljar p4 test`.

use super::junit;
use crate::failure::Failure;
use belljar_p4::{Program, stf};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs packet tests in STF, the format of the P4 compiler's tests: entries are added, packets are sent to ports and
/// those that leave are compared with those that are expected.
///
/// With a folder, every program in it is tested for which there is a script of the same name. The exit status is 0 if
/// all scripts pass, 1 if one fails, 2 if the command cannot be used, 4 if a program or script is wrong, 5 if there is
/// no script.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  belljar p4 test forward.p4 forward.stf\n  belljar p4 test tests/p4 --junit report.xml"
)]
pub struct Arguments {
    /// Program, as P4_16 source (.p4) or BMv2 JSON, or a folder of programs and scripts
    program: PathBuf,
    /// Scripts, or folders of scripts
    scripts: Vec<PathBuf>,
    /// Write a report for continuous integration
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Say what happens to each packet
    #[arg(long)]
    trace: bool,
}

/// Result of one script.
pub struct Tested {
    /// Script.
    pub name: String,
    /// Deviations, one a line; empty if it has passed.
    pub failures: Vec<String>,
    /// The program or script cannot be used.
    pub error: bool,
}

const FAILED: u8 = 1;
const ERROR: u8 = 4;
const NOTHING: u8 = 5;

/// Runs the scripts and says how they went.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let pairs = pairs(arguments)?;
    let mut tested = Vec::new();
    for (program, script) in &pairs {
        let one = test(program, script, arguments.trace);
        let verdict = match (one.failures.is_empty(), one.error) {
            (true, _) => "passed",
            (false, false) => "FAILED",
            (false, true) => "ERROR",
        };
        println!("{} {verdict}", one.name);
        for failure in &one.failures {
            println!("  {failure}");
        }
        tested.push(one);
    }
    let errors = tested.iter().filter(|one| one.error).count();
    let failed = tested.iter().filter(|one| !one.failures.is_empty()).count() - errors;
    let passed = tested.len() - failed - errors;
    println!("{passed} passed, {failed} failed, {errors} errors");
    if let Some(file) = &arguments.junit {
        let written = std::fs::write(file, junit::report(&tested));
        written.map_err(|error| Failure::run(format!("{}: {error}", file.display())))?;
    }
    Ok(match (tested.len(), errors, failed) {
        (0, ..) => ExitCode::from(NOTHING),
        (_, 0, 0) => ExitCode::SUCCESS,
        (_, 0, _) => ExitCode::from(FAILED),
        _ => ExitCode::from(ERROR),
    })
}

/// Programs and their scripts, in the order of their names.
fn pairs(arguments: &Arguments) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    if arguments.program.is_dir() {
        let folders = std::iter::once(&arguments.program).chain(&arguments.scripts);
        let mut pairs = Vec::new();
        for folder in folders {
            for script in scripts_in(folder)? {
                let program = program_of(&script);
                pairs.push((program, script));
            }
        }
        return Ok(pairs);
    }
    let mut pairs = Vec::new();
    for path in &arguments.scripts {
        let scripts = if path.is_dir() { scripts_in(path)? } else { vec![path.clone()] };
        pairs.extend(scripts.into_iter().map(|script| (arguments.program.clone(), script)));
    }
    Ok(pairs)
}

/// The program of a script in a folder: `name.p4`, `name.json`, or `name-bmv2.json` as the compiler's tests call it.
fn program_of(script: &Path) -> PathBuf {
    let stem = script.file_stem().unwrap_or_default().to_string_lossy();
    let plain = script.with_extension("p4");
    let other = [script.with_extension("json"), script.with_file_name(format!("{stem}-bmv2.json"))];
    if plain.exists() { plain } else { other.into_iter().find(|path| path.exists()).unwrap_or(plain) }
}

fn scripts_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    let (mut scripts, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            // Links are not followed, so that folders do not go round.
            if entry.file_type().map_err(wrong)?.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|ending| ending == "stf") {
                scripts.push(entry.path());
            }
        }
    }
    scripts.sort();
    Ok(scripts)
}

fn test(program: &Path, script: &Path, trace: bool) -> Tested {
    let name = script.display().to_string();
    let wrong = |message: String| Tested { name: name.clone(), failures: vec![message], error: true };
    let loaded = match Program::from_file(program) {
        Ok(loaded) => loaded,
        Err(error) => return wrong(error.to_string()),
    };
    let text = match std::fs::read_to_string(script) {
        Ok(text) => text,
        Err(error) => return wrong(format!("{name}: {error}")),
    };
    let outcome = stf::run(&Arc::new(loaded), &text, trace);
    print!("{}", outcome.trace);
    Tested {
        name,
        error: outcome.failures.iter().any(|failure| failure.script),
        failures: outcome.failures.iter().map(ToString::to_string).collect(),
    }
}
