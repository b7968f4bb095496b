//! `belljar p4 test`.

use super::{junit, program};
use crate::failure::Failure;
use belljar_base::Map;
use belljar_p4files::stf;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Runs packet tests in STF, the format of the P4 compiler's tests: entries are added, packets are sent to ports and
/// those that leave are compared with those that are expected.
///
/// With a folder, every program in it is tested for which there is a script of the same name. With a folder and scripts,
/// the folder has submissions, a file or folder each, and all of them are tested by these scripts: a script of a
/// submission's program of its name, or else of its only program.
///
/// The exit status is 0 if all scripts pass, 1 if one fails, 2 if the command cannot be used, 4 if a program or script is
/// wrong, 5 if there is no script.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar p4 test forward.p4 forward.stf\n  belljar p4 test tests/p4 --junit report.xml\n  belljar p4 test submissions router.stf --junit grades.xml"
)]
pub struct Arguments {
    /// Program, as P4_16 source (.p4) or BMv2 JSON, or a folder of programs
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

/// Result of a script.
pub struct Tested {
    /// Name of the tested submission, if there are several.
    pub submission: Option<String>,
    /// Name of the script.
    pub script: String,
    /// Deviations, one per line; empty if the script has passed.
    pub failures: Vec<String>,
    /// True if the program or the script cannot be used.
    pub error: bool,
}

/// Script to run.
struct Task {
    submission: Option<String>,
    /// Program, or the reason why there is none.
    program: Result<PathBuf, String>,
    script: PathBuf,
}

const FAILED: u8 = 1;
const ERROR: u8 = 4;
const NOTHING: u8 = 5;

/// Runs the scripts and prints their results.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut tested = Vec::new();
    for task in tasks(arguments)? {
        let one = test(task, arguments.trace);
        let verdict = match (one.failures.is_empty(), one.error) {
            (true, _) => "passed",
            (false, false) => "FAILED",
            (false, true) => "ERROR",
        };
        let submission = one.submission.as_ref().map_or(String::new(), |name| format!("{name}: "));
        println!("{submission}{} {verdict}", one.script);
        for failure in &one.failures {
            println!("  {failure}");
        }
        tested.push(one);
    }
    say_scores(&tested);
    let errors = tested.iter().filter(|one| one.error).count();
    let failed = tested.iter().filter(|one| !one.failures.is_empty()).count() - errors;
    let passed = tested.len() - failed - errors;
    println!("{passed} passed, {failed} failed, {errors} errors");
    if let Some(file) = &arguments.junit {
        let report = junit::report(&tested).map_err(|error| Failure::run(error.to_string()))?;
        let written = std::fs::write(file, report);
        written.map_err(|error| Failure::run(format!("{}: {error}", file.display())))?;
    }
    Ok(match (tested.len(), errors, failed) {
        (0, ..) => ExitCode::from(NOTHING),
        (_, 0, 0) => ExitCode::SUCCESS,
        (_, 0, _) => ExitCode::from(FAILED),
        _ => ExitCode::from(ERROR),
    })
}

/// Prints the number of passed scripts of each submission.
fn say_scores(tested: &[Tested]) {
    let mut scores: Map<&str, (usize, usize)> = Map::new();
    for one in tested {
        let Some(submission) = &one.submission else { continue };
        let score = scores.entry(submission).or_default();
        score.0 += usize::from(one.failures.is_empty());
        score.1 += 1;
    }
    for (submission, (passed, all)) in scores {
        println!("{submission}: {passed} of {all}");
    }
}

/// Collects the tasks, in the order of their names.
fn tasks(arguments: &Arguments) -> Result<Vec<Task>, Failure> {
    if arguments.program.is_dir() && arguments.scripts.is_empty() {
        let scripts = files_in(&arguments.program, &["stf"])?.into_iter();
        return Ok(scripts
            .map(|script| Task { submission: None, program: Ok(program_of(&script)), script })
            .collect());
    }
    let mut scripts = Vec::new();
    for path in &arguments.scripts {
        scripts.extend(if path.is_dir() { files_in(path, &["stf"])? } else { vec![path.clone()] });
    }
    if !arguments.program.is_dir() {
        let program = &arguments.program;
        let task = |script| Task { submission: None, program: Ok(program.clone()), script };
        return Ok(scripts.into_iter().map(task).collect());
    }
    let mut tasks = Vec::new();
    for submission in entries_of(&arguments.program)? {
        let programs = match submission.is_dir() {
            true => files_in(&submission, &["p4", "json"])?,
            false => vec![submission.clone()],
        };
        let name = submission.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for script in &scripts {
            let program = submitted(&programs, script);
            tasks.push(Task { submission: Some(name.clone()), program, script: script.clone() });
        }
    }
    Ok(tasks)
}

/// Returns the program of a submission that a script tests: the one with the script's name, or the only one.
fn submitted(programs: &[PathBuf], script: &Path) -> Result<PathBuf, String> {
    let named: Vec<_> = programs.iter().filter(|program| program.file_stem() == script.file_stem()).collect();
    match (&named[..], programs) {
        ([one], _) => Ok((*one).clone()),
        ([], [one]) => Ok(one.clone()),
        (_, found) => {
            let name = script.with_extension("p4");
            let name = name.file_name().unwrap_or_default().to_string_lossy();
            Err(match found.len() {
                0 => format!("there is no program: '{name}' is to be submitted"),
                count => format!("which of the {count} programs is tested? One is to be called '{name}'"),
            })
        }
    }
}

/// Returns the submissions in a folder, sorted by name: folders and programs.
fn entries_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(wrong)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    paths.retain(|path| !hidden(path) && (path.is_dir() || has_ending(path, &["p4", "json"])));
    // Beside folders, files are includes of all submissions.
    if paths.iter().any(|path| path.is_dir()) {
        paths.retain(|path| path.is_dir());
    }
    paths.sort();
    Ok(paths)
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|ending| endings.iter().any(|one| ending == *one))
}

/// Returns the program of a script in a folder: `name.p4`, `name.json`, or `name-bmv2.json` as in the
/// compiler's tests.
fn program_of(script: &Path) -> PathBuf {
    let stem = script.file_stem().unwrap_or_default().to_string_lossy();
    let plain = script.with_extension("p4");
    let other = [script.with_extension("json"), script.with_file_name(format!("{stem}-bmv2.json"))];
    if plain.exists() { plain } else { other.into_iter().find(|path| path.exists()).unwrap_or(plain) }
}

/// Returns the files with one of the endings, in a folder and its subfolders.
fn files_in(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            // Symbolic links are not followed, which prevents loops.
            if entry.file_type().map_err(wrong)?.is_dir() {
                folders.push(entry.path());
            } else if has_ending(&entry.path(), endings) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn test(task: Task, trace: bool) -> Tested {
    let name = task.script.display().to_string();
    let tested = |failures: Vec<String>, error| Tested {
        submission: task.submission.clone(),
        script: name.clone(),
        failures,
        error,
    };
    let wrong = |message: String| tested(vec![message], true);
    let loaded = match task.program.and_then(|path| program::read(&path)) {
        Ok(loaded) => loaded,
        Err(error) => return wrong(error),
    };
    let text = match belljar_inputs::read_text(&task.script) {
        Ok(text) => text,
        Err(error) => return wrong(format!("{name}: {error}")),
    };
    let outcome = stf::run(&Arc::new(loaded), &text, trace);
    print!("{}", outcome.trace);
    let error = outcome.failures.iter().any(|failure| failure.script);
    tested(outcome.failures.iter().map(ToString::to_string).collect(), error)
}
