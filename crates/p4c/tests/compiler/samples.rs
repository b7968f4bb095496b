//! Sample programs of p4c, both valid and invalid; requires `BELLJAR_P4C`, the path of a checkout. `cargo
//! test -p belljar-p4c --test compiler samples -- --nocapture` lists the differences from p4c.

#![allow(clippy::disallowed_methods)] // Real time detects compilers that hang.

use belljar_p4::Program;
use belljar_p4c::source::{Diagnostics, Severity};
use belljar_p4c::{Compiled, Options};
use belljar_p4files::stf;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit per program; builds without optimisation get more.
const SLOWEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

fn test_data() -> Option<PathBuf> {
    match std::env::var_os("BELLJAR_P4C") {
        Some(checkout) => Some(PathBuf::from(checkout).join("testdata")),
        None => {
            eprintln!("skipped: BELLJAR_P4C names no checkout of p4c");
            None
        }
    }
}

/// Programs of a folder, sorted by name.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut list = paths.filter(|path| path.extension().is_some_and(|end| end == "p4")).collect::<Vec<_>>();
    list.sort();
    list
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("the file is readable")).into_owned()
}

/// Result of a compilation.
enum Outcome {
    Compiled(Box<Compiled>),
    Refused(Diagnostics),
    Crashed,
}

fn compile(path: &Path) -> (Outcome, Duration) {
    let text = read(path);
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| {
        belljar_p4c::compile(&path.display().to_string(), &text, &Options::default())
    }));
    let outcome = match result {
        Ok(Ok(compiled)) => Outcome::Compiled(Box::new(compiled)),
        Ok(Err(errors)) => Outcome::Refused(errors),
        Err(_) => Outcome::Crashed,
    };
    (outcome, start.elapsed())
}

/// Applies `f` to every program, with one thread per processor; results are in order.
fn for_each<T: Send>(list: &[PathBuf], f: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let f = &f;
    let mut results = std::thread::scope(|scope| {
        let work = (0..threads).map(|thread| {
            scope.spawn(move || {
                let own = list.iter().enumerate().filter(|(index, _)| index % threads == thread);
                own.map(|(index, path)| (index, f(path))).collect::<Vec<_>>()
            })
        });
        let work = work.collect::<Vec<_>>();
        work.into_iter().flat_map(|thread| thread.join().expect("no test panics")).collect::<Vec<_>>()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// First error, formatted as `line: message`.
fn first(errors: &Diagnostics) -> String {
    errors.first_error().to_string().lines().next().unwrap_or_default().to_string()
}

/// Asserts that `good` is at least `percent` of `total`.
fn enough(what: &str, good: usize, total: usize, percent: usize) {
    eprintln!("{what}: {good} of {total} ({:.1} %)", good as f64 * 100.0 / total.max(1) as f64);
    assert!(total > 100, "there are only {total} programs");
    assert!(good * 100 >= total * percent, "{what}: only {good} of {total}");
}

#[test]
fn samples_for_v1model_compile_and_pass() {
    let Some(data) = test_data() else { return };
    let mut list = programs(&data.join("p4_16_samples"));
    list.retain(|path| read(path).contains("v1model.p4"));
    let results = for_each(&list, |path| {
        let (outcome, time) = compile(path);
        let script = path.with_extension("stf");
        let packets = match &outcome {
            Outcome::Compiled(compiled) if script.is_file() => {
                let program = Program::from_text(&compiled.json.to_string());
                Some(match program {
                    Ok(program) => stf::run(&Arc::new(program), &read(&script), false)
                        .failures
                        .first()
                        .map(ToString::to_string),
                    Err(error) => Some(error.to_string()),
                })
            }
            _ => None,
        };
        (outcome, time, packets)
    });
    let (mut compiled, mut passed, mut tested) = (0, 0, 0);
    let mut broken = Vec::new();
    for (path, (outcome, time, packets)) in list.iter().zip(&results) {
        match outcome {
            Outcome::Compiled(_) => compiled += 1,
            Outcome::Refused(errors) => eprintln!("refused: {}: {}", name(path), first(errors)),
            Outcome::Crashed => broken.push(format!("{} crashes the compiler", name(path))),
        }
        if *time > SLOWEST {
            broken.push(format!("{} takes {time:?}", name(path)));
        }
        if let Some(failure) = packets {
            tested += 1;
            passed += usize::from(failure.is_none());
            if let Some(failure) = failure {
                eprintln!("packets differ: {}: {failure}", name(path));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    enough("samples that compile", compiled, list.len(), 95);
    enough("packet tests that pass", passed, tested, 95);
}

/// Lines at which p4c reports errors in the program, the first error first.
fn expected_lines(path: &Path) -> Vec<usize> {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output =
        path.with_file_name("").with_file_name("p4_16_errors_outputs").join(format!("{file}-stderr"));
    let mut lines = Vec::new();
    for line in std::fs::read_to_string(output).unwrap_or_default().lines() {
        let is_error = line.contains("error:") && !line.starts_with(' ');
        let place = line.strip_prefix(&file).and_then(|rest| rest.strip_prefix('('));
        let number = place.and_then(|rest| rest.split(')').next()).and_then(|number| number.parse().ok());
        if let (true, Some(number)) = (is_error, number) {
            lines.push(number);
        }
    }
    lines
}

#[test]
fn errors_are_refused_at_the_same_line() {
    let Some(data) = test_data() else { return };
    let mut list = programs(&data.join("p4_16_errors"));
    list.retain(|path| !read(path).contains("psa.p4") && !expected_lines(path).is_empty());
    let results = for_each(&list, compile);
    // The line must be that of the error or of a secondary range in the message.
    let (mut same, mut first_place) = (0, 0);
    let mut broken = Vec::new();
    for (path, (outcome, time)) in list.iter().zip(&results) {
        let wanted = expected_lines(path);
        match outcome {
            Outcome::Compiled(_) => eprintln!("compiled: {}: p4c's errors are at {wanted:?}", name(path)),
            Outcome::Refused(errors) => {
                let own = errors.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
                let own = own.map(|diagnostic| {
                    let places = errors.places(diagnostic).map(|(span, _)| span);
                    let lines = std::iter::once(&diagnostic.span).chain(places);
                    lines.map(|span| errors.sources.position(*span).0).collect::<Vec<_>>()
                });
                let own = own.collect::<Vec<_>>();
                let found = own.iter().any(|lines| lines.contains(&wanted[0]));
                let first_is = own.iter().any(|lines| lines[0] == wanted[0]);
                first_place += usize::from(first_is);
                if found && !first_is {
                    eprintln!("as second place: {}: p4c {}: {}", name(path), wanted[0], first(errors));
                }
                if found {
                    same += 1;
                } else {
                    eprintln!("elsewhere: {}: at {own:?}, p4c {wanted:?}: {}", name(path), first(errors));
                }
            }
            Outcome::Crashed => broken.push(format!("{} crashes the compiler", name(path))),
        }
        if *time > SLOWEST {
            broken.push(format!("{} takes {time:?}", name(path)));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    enough("errors refused at p4c's line", same, list.len(), 95);
    enough("errors with p4c's line as the first place", first_place, list.len(), 90);
}
