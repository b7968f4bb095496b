//! Resolves the files that a network names, and finds a program if it names none.

use super::{Network, Options};
use crate::error::{Problem, Span};
use std::path::{Component, Path, PathBuf};

impl Network {
    /// A file named by the network, relative to its own folder or, as for the tutorials'
    /// `pod-topo/s1-runtime.json`, to the parent folder, from which the tutorials are run.
    pub(super) fn file(&self, written: &str, at: Span) -> Result<PathBuf, Problem> {
        self.find(written).ok_or_else(|| {
            let places: Vec<_> =
                self.places().map(|place| place.join(written).display().to_string()).collect();
            Problem::at(at, format!("there is no file '{written}'"))
                .help(format!("looked for {}", places.join(" and ")))
        })
    }

    /// The source of a compiled program such as `build/basic.json`, or else that JSON file itself.
    pub(super) fn program(&self, written: &str) -> Option<PathBuf> {
        let stem = Path::new(written).file_stem()?.to_str()?;
        let stem = stem.strip_suffix(".p4").unwrap_or(stem);
        let source = self.find(&format!("{stem}.p4"));
        if written.ends_with(".p4") {
            self.find(written).or(source)
        } else {
            source.or_else(|| self.find(written))
        }
    }

    /// The program of switches without one in the file: the only one in the same folder, or in the parent
    /// folder if there is none.
    pub(super) fn default_program(&self, options: &Options) -> Option<PathBuf> {
        let found = self.places().map(|place| sources(&place)).find(|sources| !sources.is_empty());
        let only = found.filter(|sources| sources.len() == 1).and_then(|mut sources| sources.pop());
        options.program.map(Path::to_owned).or(only)
    }

    fn find(&self, written: &str) -> Option<PathBuf> {
        self.places().map(|place| place.join(written)).find(|path| path.is_file())
    }

    fn places(&self) -> impl Iterator<Item = PathBuf> + '_ {
        [self.folder.clone(), self.folder.join("..")].into_iter()
    }
}

/// The P4 programs in a folder, excluding included files.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(|file| Some(file.ok()?.path()));
    let sources = files.filter(|path| path.extension().is_some_and(|ending| ending == "p4"));
    let is_program =
        |path: &PathBuf| belljar_inputs::read_text(path).is_ok_and(|text| text.contains("V1Switch"));
    sources.filter(is_program).collect()
}

/// The relative path from a folder to a file; the absolute path if there is none.
pub(super) fn relative(folder: &Path, path: &Path) -> String {
    let way = || {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (from, to) = (folder.canonicalize().ok()?, path.canonicalize().ok()?);
        let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
        // If only the root is common, the absolute path is more readable.
        if common <= 1 {
            return Some(to);
        }
        let up = from.components().skip(common).map(|_| Component::ParentDir);
        Some(up.chain(to.components().skip(common)).collect())
    };
    way().unwrap_or_else(|| path.to_owned()).display().to_string()
}
