//! Files of the machine that an experiment certainly reads: its programs, their interpreters, and their
//! shared libraries.

use belljar_base::Set;
use belljar_config::Experiment;
use belljar_machine::needed::{Needed, needed};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Default search path of the loader. Libraries in other folders are compared after the run, as are all files
/// read.
const LIBRARIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib/x86_64-linux-gnu",
];

/// Files of the programs of hosts that use the machine's file system.
pub fn named(experiment: &Experiment) -> Set<OsString> {
    let hosts = experiment.hosts.iter().filter(|host| host.root.is_none());
    let programs = hosts.flat_map(|host| &host.processes).map(|process| process.path.clone());
    closure(programs.collect())
}

fn closure(mut wanted: Vec<PathBuf>) -> Set<OsString> {
    let mut found = Set::new();
    while let Some(path) = wanted.pop() {
        if !found.insert(path.clone().into_os_string()) {
            continue;
        }
        // An unreadable file is reported by the comparison.
        let Ok(content) = belljar_inputs::read(&path) else { continue };
        if let Some(script) = content.strip_prefix(b"#!") {
            let line = script.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let words = line.split(|byte| byte.is_ascii_whitespace());
            wanted.extend(
                words.filter(|word| word.starts_with(b"/")).map(|word| OsStr::from_bytes(word).into()),
            );
            continue;
        }
        let Needed { interpreter, libraries } = needed(&content);
        wanted.extend(interpreter.map(|path| OsStr::from_bytes(path).into()));
        wanted.extend(libraries.into_iter().filter_map(library));
    }
    found
}

fn library(name: &[u8]) -> Option<PathBuf> {
    let name = Path::new(OsStr::from_bytes(name));
    LIBRARIES.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_script_leads_to_its_interpreter_and_that_to_its_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        fs::write(&script, "#! /bin/sh -e\n:\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let found = closure(vec![script.clone()]);
        for there in [script.as_os_str(), OsStr::new("/bin/sh"), OsStr::new("/lib64/ld-linux-x86-64.so.2")] {
            assert!(found.contains(there), "{found:?}");
        }
        assert!(found.iter().any(|path| path.as_bytes().ends_with(b"/libc.so.6")), "{found:?}");
    }
}
