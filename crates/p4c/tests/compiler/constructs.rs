//! Programs that together use every construct of the language and of v1model. Each is compiled and run on
//! packets whose results follow from the specifications.

use belljar_p4::Program;
use belljar_p4c::{Options, compile};
use belljar_p4files::stf;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constructs");
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let paths = entries.map(|entry| entry.expect("the folder is readable").path());
    let mut list = paths.filter(|path| path.extension().is_some_and(|end| end == "p4")).collect::<Vec<_>>();
    list.sort();
    list
}

/// Failures of one program, formatted for the user.
fn failures(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the program is readable");
    let script = std::fs::read_to_string(path.with_extension("stf")).expect("the program has a packet test");
    let compiled = match compile(&path.display().to_string(), &text, &Options::default()) {
        Ok(compiled) => compiled,
        Err(errors) => return vec![errors.to_string()],
    };
    let program = match Program::from_text(&compiled.json.to_string()) {
        Ok(program) => program,
        Err(error) => return vec![error.to_string()],
    };
    let outcome = stf::run(&Arc::new(program), &script, false);
    if outcome.sent == 0 && outcome.failures.is_empty() {
        return vec!["the script sends no packet".into()];
    }
    outcome.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn every_construct_does_what_the_specification_says() {
    let list = programs();
    assert!(list.len() >= 40, "there are only {} programs", list.len());
    let mut wrong = Vec::new();
    for path in &list {
        for failure in failures(path) {
            wrong.push(format!("{}: {failure}", path.file_name().unwrap_or_default().to_string_lossy()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A program whose branches apply no tables: in an action, in the control, by `switch` and in a loop.
const BRANCHES: &str = include_str!("../constructs/traced.p4");

#[test]
fn traces_show_every_branch_and_its_line() {
    let compiled = compile(
        "tests/traced.p4",
        BRANCHES,
        &Options {
            include_dirs: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constructs")],
            ..Options::default()
        },
    );
    let compiled = compiled.unwrap_or_else(|errors| panic!("{errors}"));
    let program = Program::from_text(&compiled.json.to_string()).unwrap_or_else(|error| panic!("{error}"));
    let mut switch = belljar_p4::Switch::new(Arc::new(program), belljar_p4::SwitchConfig::default());
    switch.set_trace(true);
    switch.receive(belljar_base::SimTime::ZERO, 0, vec![1, 7, 0]);
    let trace = switch.take_trace();
    let line = |text: &str| BRANCHES.lines().position(|line| line.contains(text)).map_or(0, |at| at + 1);
    for (condition, results) in [
        ("hdr.h.a == 1", &[true][..]),
        ("hdr.h.b > 9", &[false]),
        ("hdr.h.b == 7", &[true]),
        ("round < 2", &[true, true, false]),
    ] {
        let start = format!("if {condition} (traced.p4:{}) is ", line(condition));
        let shown = trace.lines().filter_map(|line| line.trim().strip_prefix(&start)).collect::<Vec<_>>();
        let wanted = results.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown, wanted, "{condition} in\n{trace}");
    }
    // Each case of a switch, in the control and in an action, has the line of its labels.
    for case in [
        format!("if hdr.h.b == 3 (traced.p4:{}) is false", line("3: {")),
        format!("if hdr.h.b == 7 (traced.p4:{}) is true", line("7: {")),
        format!("if hdr.h.a == 8 or 9 (traced.p4:{}) is false", line("8:")),
        format!("if default (traced.p4:{}) is true", line("default: { hdr.h.r")),
        format!("if hdr.h.b == 6 (traced.p4:{}) is false", line("6: {")),
        format!("if default (traced.p4:{}) is true", line("default: { hdr.h.b = 6; }")),
    ] {
        assert!(trace.lines().any(|line| line.trim() == case), "no {case:?} in\n{trace}");
    }
}
