//! Programs that together use every construct of the language and of v1model, each with packets whose
//! results follow from the specifications. They are compiled from source and run.

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

/// Failures of one program, as a user would read them.
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
