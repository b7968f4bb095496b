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

/// Samples that do not compile, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("array1", ARRAYS),
    ("array2", ARRAYS),
    ("bitwise-and", NO_MAIN),
    ("extern-funcs-bmv2", "an extern function of its own, which simple_switch loads as a module"),
    ("issue1193-bmv2", EXTERN),
    ("issue1304", "main is a package of its own"),
    ("issue1524", NO_MAIN),
    ("issue1882-1-bmv2", EXTERN),
    ("issue1882-bmv2", EXTERN),
    ("issue2664-bmv2", EXTERN),
    ("issue2735", NO_MAIN),
    ("issue3091", "match kinds as values, and an extern of its own that p4c's back end refuses too"),
    ("issue3225", BITS),
    ("issue407-2", NO_MAIN),
    ("issue407-3", NO_MAIN),
    ("parser-unroll-test3", BITS),
    ("parser-unroll-test4", BITS),
    ("parser-unroll-test5", BITS),
];
const ARRAYS: &str = "arrays of numbers, which p4c's back end for BMv2 refuses too";
const NO_MAIN: &str = "no main, so p4c writes nothing either";
const EXTERN: &str = "an extern that v1model does not have; p4c's back end refuses it too";
const BITS: &str = "headers that do not fill bytes, which p4c's back end refuses too";
/// Samples whose packet tests fail, with the reason.
const FAILED: &[(&str, &str)] = &[];
/// Samples whose P4Info is not p4c's, with the reason.
const P4INFO: &[(&str, &str)] =
    &[("issue2735-bmv2", "p4c loses registers whose type is a typedef, so controllers cannot read them")];
/// Wrong programs that compile, with the reason.
const ACCEPTED: &[(&str, &str)] = &[
    ("issue1777-bmv2", "registers of structs, which hold one number each; p4c's back end has none"),
    ("issue3299", "a switch statement in an action, which p4c's back end does not support"),
];
/// Wrong programs that are refused without p4c's line, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("array4", "the arrays of numbers are refused before their use"),
    ("compound-assignment", "the division is found at the statement, p4c points at the line after it"),
    ("equate-type-stack-and-incompatible-type", "the declaration before it is wrong as well"),
    (
        "extern-abstract-method-parameter-type-unsupported-after-specialization",
        "abstract methods are refused",
    ),
    ("issue2441", "a control with type parameters is refused before its use"),
    ("issue2545", "main is another package, which is refused first"),
    ("issue819", "main is another package, which is refused first"),
    ("spec-ex32_e", "the header is refused, p4c refuses its use"),
    ("stack3", "the size of a stack is a constant, which p4c does not take in a type"),
    ("structure-valued-expr-errs-2", "the mixture of named and unnamed fields is found first"),
];
/// Programs of P4_14 that are refused with another error, with the reason.
const P4_14: &[(&str, &str)] = &[];

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

/// Comparison with p4c, program by program, against the list of known differences with their reasons.
struct Differences {
    known: &'static [(&'static str, &'static str)],
    found: Vec<(String, String)>,
    total: usize,
}

impl Differences {
    fn new(known: &'static [(&'static str, &'static str)]) -> Self {
        Self { known, found: Vec::new(), total: 0 }
    }

    fn add(&mut self, path: &Path, difference: Option<String>) {
        self.total += 1;
        self.found.extend(difference.map(|difference| (name(path), difference)));
    }

    /// Prints the count and the reasons. Differences that are not known, and known ones that are gone.
    fn unexpected(&self, what: &str) -> Vec<String> {
        let (good, total) = (self.total - self.found.len(), self.total);
        eprintln!("{what}: {good} of {total} ({:.1} %)", good as f64 * 100.0 / total.max(1) as f64);
        let mut wrong = Vec::new();
        for (name, difference) in &self.found {
            match self.known.iter().find(|(known, _)| known == name) {
                Some((_, reason)) => eprintln!("  {name}: {reason} ({difference})"),
                None => wrong.push(format!("{what}: not {name}: {difference}")),
            }
        }
        let gone = self.known.iter().filter(|(known, _)| self.found.iter().all(|(name, _)| name != known));
        wrong.extend(gone.map(|(name, _)| format!("{what}: {name} no longer differs")));
        wrong
    }
}

/// Samples for v1model, those of the large programs in folders of their own too.
pub(super) fn samples(data: &Path) -> Vec<PathBuf> {
    let folder = data.join("p4_16_samples");
    let mut list = programs(&folder);
    for inner in ["dash", "fabric_20190420", "omec", "parser-inline", "pins"] {
        list.extend(programs(&folder.join(inner)));
    }
    list.retain(|path| read(path).contains("v1model.p4"));
    list
}

/// Significant lines of a P4Info: neither empty nor comments.
fn significant(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).collect()
}

/// First line in which the P4Info of a sample differs from p4c's: `Some(None)` if it is equal, `None` if p4c's
/// is not known.
fn p4info_difference(data: &Path, path: &Path, own: &str) -> Option<Option<String>> {
    let within = path.strip_prefix(data.join("p4_16_samples")).ok()?;
    let expected = data.join("p4_16_samples_outputs").join(format!("{}.p4info.txtpb", within.display()));
    let expected = std::fs::read_to_string(expected).ok()?;
    let (own, expected) = (significant(own), significant(&expected));
    let at = (0..own.len().max(expected.len())).find(|at| own.get(*at) != expected.get(*at));
    Some(at.map(|at| format!("{:?} instead of {:?}", own.get(at), expected.get(at))))
}

#[test]
fn samples_for_v1model_compile_and_pass() {
    let Some(data) = test_data() else { return };
    let list = samples(&data);
    let results = for_each(&list, |path| {
        let (outcome, time) = compile(path);
        let script = path.with_extension("stf");
        let (mut packets, mut info) = (None, None);
        if let Outcome::Compiled(compiled) = &outcome {
            info = p4info_difference(&data, path, &compiled.p4info);
            match Program::from_text(&compiled.json.to_string()) {
                Ok(program) if script.is_file() => {
                    let run = stf::run(&Arc::new(program), &read(&script), false);
                    packets = Some(run.failures.first().map(ToString::to_string));
                }
                Ok(_) => {}
                Err(error) => packets = Some(Some(error.to_string())),
            }
        }
        (outcome, time, packets, info)
    });
    let mut broken = Vec::new();
    let (mut refused, mut failed, mut differing) =
        (Differences::new(REFUSED), Differences::new(FAILED), Differences::new(P4INFO));
    for (path, (outcome, time, packets, info)) in list.iter().zip(results) {
        match outcome {
            Outcome::Compiled(_) => refused.add(path, None),
            Outcome::Refused(errors) => refused.add(path, Some(first(&errors))),
            Outcome::Crashed => broken.push(format!("{} crashes the compiler", name(path))),
        }
        if time > SLOWEST {
            broken.push(format!("{} takes {time:?}", name(path)));
        }
        if let Some(failure) = packets {
            failed.add(path, failure);
        }
        if let Some(difference) = info {
            differing.add(path, difference);
        }
    }
    broken.extend(refused.unexpected("samples that compile"));
    broken.extend(failed.unexpected("packet tests that pass"));
    broken.extend(differing.unexpected("P4Info equal to p4c's"));
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn p4_14_sources_get_one_error() {
    let Some(data) = test_data() else { return };
    let list = programs(&data.join("p4_14_samples"));
    let mut named = Differences::new(P4_14);
    for (path, (outcome, _)) in list.iter().zip(for_each(&list, compile)) {
        named.add(
            path,
            match outcome {
                Outcome::Refused(errors) if first(&errors).contains("this is a P4_14 program") => None,
                Outcome::Refused(errors) => Some(first(&errors)),
                _ => Some("compiles".into()),
            },
        );
    }
    let wrong = named.unexpected("P4_14 programs named as such");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    list.retain(|path| !read(path).contains("psa.p4"));
    let results = for_each(&list, compile);
    let (mut accepted, mut elsewhere) = (Differences::new(ACCEPTED), Differences::new(ELSEWHERE));
    let (mut same, mut as_first) = (0, 0);
    let mut broken = Vec::new();
    for (path, (outcome, time)) in list.iter().zip(&results) {
        if *time > SLOWEST {
            broken.push(format!("{} takes {time:?}", name(path)));
        }
        let errors = match outcome {
            Outcome::Compiled(_) => {
                accepted.add(path, Some("compiles".into()));
                continue;
            }
            Outcome::Crashed => {
                broken.push(format!("{} crashes the compiler", name(path)));
                continue;
            }
            Outcome::Refused(errors) => errors,
        };
        accepted.add(path, None);
        // Errors of p4c without a line cannot be compared.
        let wanted = expected_lines(path);
        let Some(line) = wanted.first() else { continue };
        // The line must be that of an error or of a secondary range in its message.
        let own = errors.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let own = own.map(|diagnostic| {
            let places = errors.places(diagnostic).map(|(span, _)| span);
            let lines = std::iter::once(&diagnostic.span).chain(places);
            lines.map(|span| errors.sources.position(*span).0).collect::<Vec<_>>()
        });
        let own = own.collect::<Vec<_>>();
        let found = own.iter().any(|lines| lines.contains(line));
        same += usize::from(found);
        as_first += usize::from(own.iter().any(|lines| lines[0] == *line));
        elsewhere.add(path, (!found).then(|| format!("at {own:?}, p4c {wanted:?}: {}", first(errors))));
    }
    broken.extend(accepted.unexpected("wrong programs that are refused"));
    broken.extend(elsewhere.unexpected("errors with p4c's line among those shown"));
    eprintln!("errors with p4c's line as the first: {as_first} of {}", elsewhere.total);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(as_first * 100 >= same * 90, "p4c's line is the first of only {as_first}");
}
