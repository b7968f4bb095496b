//! Packet tests of p4c's public v1model programs, if present.
//!
//! The folder is `BELLJAR_P4_CONFORMANCE`, or `../shared/p4-conformance` in a parent folder.

use belljar_p4::Program;
use belljar_p4files::stf;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("BELLJAR_P4_CONFORMANCE") {
        return Some(folder.into());
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|above| above.join("shared/p4-conformance")).find(|folder| folder.is_dir())
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "stf") {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

#[test]
fn all_programs_pass() {
    let Some(folder) = folder() else {
        eprintln!(
            "skipped: no folder shared/p4-conformance beside the checkout and BELLJAR_P4_CONFORMANCE is not set"
        );
        return;
    };
    let scripts = scripts(&folder);
    assert!(!scripts.is_empty(), "no STF files in {}", folder.display());
    let mut failed = Vec::new();
    for script in &scripts {
        let text = std::fs::read_to_string(script).unwrap();
        let stem = script.with_extension("");
        let json = ["json", "-bmv2.json"].iter().map(|ending| match *ending {
            "json" => script.with_extension("json"),
            other => PathBuf::from(format!("{}{other}", stem.display())),
        });
        let json = json.clone().find(|path| path.exists()).unwrap_or_else(|| script.with_extension("json"));
        let program = Program::from_text(&std::fs::read_to_string(&json).unwrap());
        match program.map_err(|error| error.in_file(&json)) {
            Err(error) => failed.push(error.to_string()),
            Ok(program) => {
                for failure in stf::run(&Arc::new(program), &text, false).failures {
                    failed.push(format!("{}: {failure}", script.display()));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {} scripts: {}", failed.len(), scripts.len(), failed.join("\n"));
}
