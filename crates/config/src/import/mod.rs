//! Imports topology files of other tools as experiments: nodes, links and commands are converted. A feature
//! without an equivalent is an error or a note, both with the line of the source file.

mod beside;
mod commands;
mod compose;
mod containerlab;
mod draft;
mod graph;
mod kathara;
mod mininet;
mod mounts;
mod netlab;
mod p4;
mod record;
mod relationships;
mod script;
mod settings;
mod simbricks;
mod translate;
mod write;

use crate::error::{ConfigError, Problem, Source};
use beside::Beside;
use draft::At;
pub use relationships::Daemon;
use std::path::Path;

/// A file to be imported.
struct Input<'a> {
    source: &'a Source,
    options: &'a Options<'a>,
    /// Files in the folder of the topology file.
    beside: &'a Beside,
}

/// Importer of one format of topology files.
trait Importer: Sync {
    /// Name of the format.
    fn name(&self) -> &'static str;
    /// Description of the file, where the name of the format is not that of a tool.
    fn description(&self) -> Option<&'static str> {
        None
    }
    /// True if files with this extension may have the format.
    fn has_extension(&self, extension: &str) -> bool;
    /// True if a file with such an extension has the format, by its text, unless a later importer recognises the file.
    fn recognises(&self, _text: &str) -> bool {
        true
    }
    /// True if an experiment that does not load yet is of use, such as one whose program is incomplete.
    fn may_be_incomplete(&self) -> bool {
        false
    }
    /// Converts a file.
    fn read(&self, input: &Input) -> Result<Imported, Problem>;
}

/// All importers.
const IMPORTERS: [&dyn Importer; 11] = [
    &containerlab::Containerlab,
    &netlab::Netlab,
    &kathara::Kathara,
    &mininet::Mininet,
    &simbricks::SimBricks,
    &p4::Tutorial,
    &p4::P4app,
    &graph::GraphMl,
    &graph::Gml,
    &relationships::Relationships,
    &compose::Compose,
];

/// Format of a topology file.
#[derive(Clone, Copy)]
pub struct Format(&'static dyn Importer);

impl Format {
    /// All formats.
    pub fn all() -> impl Iterator<Item = Format> {
        IMPORTERS.into_iter().map(Format)
    }

    /// The format of a file, by its extension and its text.
    pub fn of(path: &Path) -> Result<Option<Format>, ConfigError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let candidates: Vec<Format> =
            Format::all().filter(|format| format.0.has_extension(extension)).collect();
        if candidates.is_empty() {
            return Ok(None);
        }
        let text = text_of(path)?;
        Ok(candidates.into_iter().rev().find(|format| format.0.recognises(&text)))
    }

    /// Name of the format.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Description of the file, where the name of the format is not that of a tool.
    pub fn description(self) -> Option<&'static str> {
        self.0.description()
    }

    /// True if an experiment that does not load yet is of use, such as one whose program is incomplete.
    pub fn may_be_incomplete(self) -> bool {
        self.0.may_be_incomplete()
    }

    /// Imports the file at `path`.
    pub fn import(self, path: &Path, options: &Options) -> Result<Imported, ConfigError> {
        let source = Source { name: path.display().to_string(), text: text_of(path)? };
        let beside = Beside::of(path);
        let read = self.0.read(&Input { source: &source, options, beside: &beside });
        read.map_err(|problem| problem.into_error(&source))
    }
}

/// Settings of an import.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Folder of the experiment file, to which the paths in it are relative.
    pub folder: &'a Path,
    /// Program of the P4 switches without one in the file.
    pub program: Option<&'a Path>,
    /// True if imported commands may fail: their processes expect any final state, and notes list them.
    pub tolerate_failures: bool,
    /// Number of autonomous systems that are drawn from AS relationships; all if `None`.
    pub sample: Option<usize>,
    /// Seed of the sample.
    pub seed: u64,
    /// Routing daemon of autonomous systems.
    pub daemon: Daemon,
    /// True if a file that is a program may be run, with the rights of the user.
    pub run_script: bool,
}

impl<'a> Options<'a> {
    /// The defaults, for an experiment file in a folder.
    pub fn new(folder: &'a Path) -> Options<'a> {
        Options {
            folder,
            program: None,
            tolerate_failures: false,
            sample: None,
            seed: 1,
            daemon: Daemon::default(),
            run_script: false,
        }
    }
}

/// An experiment converted from another tool's topology.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Text of the experiment file.
    pub yaml: String,
    /// Notes on omitted or invented settings, one sentence each.
    pub notes: Vec<String>,
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    belljar_inputs::read_text(path).map_err(|error| {
        let source = Source { name: path.display().to_string(), text: String::new() };
        let reason = crate::error::plain(&error);
        Problem::whole_file(format!("the topology cannot be read: {reason}")).into_error(&source)
    })
}

/// Converts a name to a valid host name: lower case, without invalid characters.
fn node_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' };
    lower.chars().map(fit).collect::<String>().trim_matches(['-', '.']).to_owned()
}

/// Converts a name to a valid interface name.
fn interface_name(name: &str) -> String {
    let fit = |c: char| if c.is_whitespace() || "/:%".contains(c) { '-' } else { c };
    name.chars().map(fit).take(15).collect()
}

/// A hardware address in lower case, such as `02:00:00:00:00:01`; `None` if the text is not one.
fn hardware_address(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    (parts.len() == 6 && parts.iter().all(is_byte)).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
