//! `belljar run --watch`: the experiment runs again whenever one of its files changes.
//!
//! Each run is a process of its own, so that nothing of one run is left in the next. Watched are the experiment file and
//! the files below its folder that the last run has read, by the manifest in its results.

use crate::failure::Failure;
use belljar_base::Map;
use belljar_results::{ResultsFolder, names};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Time between two looks at the files, and the time that a file must have stayed the same.
const INTERVAL: Duration = Duration::from_millis(200);

/// Size, inode and time of the last change of a file; `None` if there is none.
type State = Option<(u64, u64, i64, i64)>;

/// Runs the experiment of `file` with the arguments of this process, again after each change. Ends by a signal only.
pub fn main(file: &Path, results: impl Fn() -> Option<PathBuf>) -> Result<ExitCode, Failure> {
    if file == Path::new("-") {
        return Err(Failure::usage("--watch needs a file: standard input is read once"));
    }
    let own = std::env::current_exe().map_err(Failure::run)?;
    let given: Vec<OsString> = crate::as_shadow::translated(std::env::args_os().collect());
    let given: Vec<OsString> = given.into_iter().skip(1).filter(|argument| argument != "--watch").collect();
    // Results of an earlier command are replaced only if the user says so, those of this one are always.
    let mut is_own = false;
    loop {
        let before = states(file, results().as_deref());
        let mut command = Command::new(&own);
        command.args(&given).env_remove("BELLJAR_WATCH");
        let path = results();
        if let Some(path) = path.as_ref().filter(|path| is_own && path.exists()) {
            ResultsFolder::remove_earlier(path).map_err(Failure::usage)?;
        }
        let existed = path.is_some_and(|path| path.exists());
        let status = command.status().map_err(Failure::run)?;
        is_own |= !existed && results().is_some_and(|path| path.exists());
        if existed && status.code() == Some(2) && !is_own {
            // The folder is of another run, or the command line is wrong: no change of a file helps.
            if results().is_some() {
                return Ok(ExitCode::from(2));
            }
        }
        let mut seen = states(file, results().as_deref());
        let is_changed = |seen: &Map<PathBuf, State>| {
            seen.iter().any(|(path, state)| before.get(path).is_some_and(|earlier| earlier != state))
        };
        eprintln!("watching {} files: the experiment runs again when one changes", seen.len());
        let mut changed = is_changed(&seen);
        let known = seen.clone();
        while !changed {
            std::thread::sleep(INTERVAL);
            seen = known.keys().map(|path| (path.clone(), state(path))).collect();
            changed = seen != known;
        }
        // An editor may write a file in several steps.
        loop {
            std::thread::sleep(INTERVAL);
            let now: Map<PathBuf, State> = known.keys().map(|path| (path.clone(), state(path))).collect();
            if now == seen {
                break;
            }
            seen = now;
        }
    }
}

/// The watched files with their states.
fn states(file: &Path, results: Option<&Path>) -> Map<PathBuf, State> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let results = results.and_then(|results| results.canonicalize().ok());
    let manifest =
        results.as_ref().and_then(|results| std::fs::read_to_string(results.join(names::MANIFEST)).ok());
    let manifest = manifest.unwrap_or_default();
    // Lines of sha256sum: the digest, two characters, the path.
    let read = manifest.lines().filter_map(|line| Some(PathBuf::from(line.get(66..)?)));
    let is_input = |path: &PathBuf| {
        path.starts_with(&folder) && results.as_ref().is_none_or(|results| !path.starts_with(results))
    };
    let own = std::iter::once(file.to_owned());
    own.chain(read.filter(is_input)).map(|path| (path.clone(), state(&path))).collect()
}

fn state(path: &Path) -> State {
    let found = std::fs::metadata(path).ok()?;
    Some((found.size(), found.ino(), found.mtime(), found.mtime_nsec()))
}
