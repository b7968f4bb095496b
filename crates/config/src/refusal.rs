//! Refusals: what a backend lacks of an experiment, at its position in the experiment file.

use crate::error::{ConfigError, Problem, Source, Span};
use crate::load::read_file;
use crate::yaml::{self, Node, Setting, Value};
use std::path::Path;
use std::rc::Rc;

/// Reason why a backend cannot run an experiment that is valid otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Path of the refused part, as a [`Setting`] has it. The name of a mapping in a list stands for the first
    /// item with that key, and a name in a list of names for itself.
    pub path: String,
    /// Description of what is refused, and why.
    pub message: String,
    /// Remedy: what to write instead.
    pub help: String,
}

impl Refusal {
    /// Refusal of the part at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Refusal {
        Refusal { path: path.into(), message: message.into(), help: help.into() }
    }

    /// Errors that name the position of each refusal in the experiment file `file`, or in the settings of the
    /// command line, in order of position. Standard input has been read and has no positions.
    pub fn locate(refusals: &[Refusal], file: &Path, settings: &[Setting]) -> Vec<ConfigError> {
        let text = if file == Path::new("-") { None } else { read_file(file).ok() };
        let tree = text.as_ref().and_then(|text| yaml::parse(text).ok().flatten());
        let tree = tree.and_then(|tree| yaml::set::apply(tree, settings).ok());
        let name = if text.is_some() { file.display().to_string() } else { "standard input".to_owned() };
        let source = Source { name, text: text.unwrap_or_default() };
        let mut problems: Vec<Problem> = refusals
            .iter()
            .map(|refusal| Problem {
                at: tree.as_ref().map(|tree| position(tree, &refusal.path)),
                ..Problem::whole_file(&refusal.message).help(&refusal.help)
            })
            .collect();
        problems.sort_by_key(|problem| problem.at.map(|at| (at.line, at.column)));
        problems.dedup_by(|a, b| (a.at, &a.message) == (b.at, &b.message));
        let locate = |problem| yaml::set::located(problem, settings).into_error(&source);
        problems.into_iter().map(locate).collect()
    }
}

/// Position of the key at `path`, or of the nearest part around it that the tree has.
fn position(tree: &Rc<Node>, path: &str) -> Span {
    let (mut node, mut rest, mut at) = (tree, path, tree.span);
    while !rest.is_empty() {
        let Some((span, value, taken)) = step(node, rest) else { break };
        (node, at) = (value, span);
        rest = rest[taken..].trim_start_matches('.');
    }
    at
}

/// The part of a value that the beginning of `path` names: its position, its value, and the length of the name.
fn step<'a>(node: &'a Rc<Node>, path: &str) -> Option<(Span, &'a Rc<Node>, usize)> {
    let is_named =
        |key: &str| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    match &node.value {
        // Keys may contain dots: the longest is meant.
        Value::Mapping(entries) => {
            let entry =
                entries.iter().filter(|entry| is_named(&entry.key)).max_by_key(|entry| entry.key.len())?;
            Some((entry.key_span, &entry.value, entry.key.len()))
        }
        Value::Sequence(items) => {
            let index = path.split('.').next().unwrap_or(path);
            if let Some(item) = index.parse::<usize>().ok().and_then(|number| items.get(number)) {
                return Some((item.span, item, index.len()));
            }
            items.iter().find_map(|item| match &item.value {
                Value::Scalar(name) => is_named(&name.text).then_some((item.span, item, name.text.len())),
                _ => step(item, path),
            })
        }
        Value::Scalar(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
general: { stop_time: 10s }
switches: [s, t]
hosts:
  a.b:
    processes:
    - { path: /bin/true }
    - { path: /bin/true, user: daemon }
events:
- { at: 1 s, crash: a.b }
- { at: 2 s, crash: a.b, files: lost }
";

    fn located(paths: &[&str], settings: &[Setting]) -> Vec<(String, Option<(u32, u32)>)> {
        let folder =
            std::env::temp_dir().join(format!("belljar-refusal-{}-{}", std::process::id(), paths.len()));
        std::fs::write(&folder, TEXT).unwrap();
        let refusals: Vec<Refusal> =
            paths.iter().map(|path| Refusal::new(*path, format!("no {path}"), "leave it out")).collect();
        let errors = Refusal::locate(&refusals, &folder, settings);
        std::fs::remove_file(&folder).unwrap();
        errors.into_iter().map(|error| (error.message, error.position)).collect()
    }

    #[test]
    fn refusals_name_the_nearest_part_of_the_file_in_order() {
        let paths = ["events.1.files", "hosts.a.b.processes.user", "switches.t", "hosts.a.b.root", "links.3"];
        let found = located(&paths, &[]);
        let expected = [
            ("no links.3", (1, 1)),
            ("no switches.t", (2, 15)),
            ("no hosts.a.b.root", (4, 3)),
            ("no hosts.a.b.processes.user", (7, 26)),
            ("no events.1.files", (10, 26)),
        ];
        let expected = expected.map(|(message, at)| (message.to_owned(), Some(at)));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_part_that_the_command_line_sets_is_located_there() {
        let setting = Setting::parse("hosts.a.b.root=/tmp").unwrap();
        let refusals = [Refusal::new("hosts.a.b.root", "no root", "leave it out")];
        let file = std::env::temp_dir().join(format!("belljar-refusal-{}-set", std::process::id()));
        std::fs::write(&file, TEXT).unwrap();
        let errors = Refusal::locate(&refusals, &file, &[setting]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(errors[0].file, "--set hosts.a.b.root");
        assert_eq!(errors[0].position, Some((1, 1)));
    }
}
