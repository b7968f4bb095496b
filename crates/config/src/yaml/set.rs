//! Settings that the command line makes in an experiment's tree: `general.seed=7`.

use super::{Entry, Node, Scalar, Style, Value, parse};
use crate::error::{Problem, Source, Span};
use std::rc::Rc;

/// First line number of settings, with [`LINES`] lines for each, to distinguish positions in settings from
/// those in the file.
const FIRST_LINE: usize = 1 << 40;
const LINES: usize = 1 << 20;

/// A dotted path and the YAML value that replaces the one in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Keys, and indices of list items from 0, joined by dots: `hosts.alice.processes.0.args`.
    pub path: String,
    /// Value in YAML.
    pub value: String,
}

impl Setting {
    /// Splits `key=value`. The error is a phrase that shows the syntax.
    pub fn parse(text: &str) -> Result<Setting, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.is_empty() && path.split('.').all(|key| !key.is_empty()) => {
                Ok(Setting { path: path.to_owned(), value: value.to_owned() })
            }
            _ => Err("write key=value, such as general.stop_time=\"10 s\"".to_owned()),
        }
    }
    fn source(&self) -> Source {
        Source { name: format!("--set {}", self.path), text: self.value.clone() }
    }
}

/// The tree with all settings applied in order.
pub(crate) fn apply(tree: Rc<Node>, settings: &[Setting]) -> Result<Rc<Node>, Problem> {
    settings.iter().enumerate().try_fold(tree, |tree, (number, setting)| {
        let start = FIRST_LINE + number * LINES;
        let failed = |problem: Problem| problem.in_source(setting.source());
        let value = parse(&setting.value).map_err(failed)?;
        let here = Span { line: start + 1, column: 1, len: setting.value.chars().count().max(1) };
        let null = || Rc::new(Node { span: here, value: plain("null") });
        let value = value.map_or_else(null, |value| shifted(&value, start));
        replaced(&tree, &setting.path, here, value)
    })
}

/// Converts a problem behind the end of the file to one of the setting.
pub(crate) fn located(mut problem: Problem, settings: &[Setting]) -> Problem {
    problem.more = problem.more.into_iter().map(|other| located(other, settings)).collect();
    let Some(at) = problem.at.filter(|at| at.line > FIRST_LINE && problem.elsewhere.is_none()) else {
        return problem;
    };
    let (number, line) = ((at.line - FIRST_LINE) / LINES, (at.line - FIRST_LINE) % LINES);
    let Some(setting) = settings.get(number) else { return problem };
    Problem { at: Some(Span { line, ..at }), ..problem }.in_source(setting.source())
}

fn plain(text: &str) -> Value {
    Value::Scalar(Scalar { text: text.to_owned(), style: Style::Plain })
}

fn shifted(node: &Rc<Node>, by: usize) -> Rc<Node> {
    let span = |span: Span| Span { line: span.line + by, ..span };
    let value = match &node.value {
        Value::Scalar(Scalar { text, style }) => Value::Scalar(Scalar { text: text.clone(), style: *style }),
        Value::Sequence(items) => Value::Sequence(items.iter().map(|item| shifted(item, by)).collect()),
        Value::Mapping(entries) => Value::Mapping(
            entries
                .iter()
                .map(|e| Entry {
                    key: e.key.clone(),
                    key_span: span(e.key_span),
                    value: shifted(&e.value, by),
                })
                .collect(),
        ),
    };
    Rc::new(Node { span: span(node.span), value })
}

fn replaced(node: &Rc<Node>, path: &str, here: Span, value: Rc<Node>) -> Result<Rc<Node>, Problem> {
    let problem = |message: String| Err(Problem::at(here, message));
    match &node.value {
        Value::Mapping(entries) => {
            // Keys may contain dots, as host names do: the longest existing key is used.
            let known = entries.iter().filter(|e| {
                path.strip_prefix(&e.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            let key = match known.max_by_key(|e| e.key.len()) {
                Some(entry) => entry.key.as_str(),
                None => path.split('.').next().unwrap_or(path),
            };
            let rest = path[key.len()..].strip_prefix('.');
            let old = entries.iter().find(|e| e.key == key);
            let new = match (rest, old) {
                (None, _) => value,
                (Some(rest), Some(old)) if !old.value.is_null() => replaced(&old.value, rest, here, value)?,
                (Some(rest), _) => {
                    let empty = Rc::new(Node { span: here, value: Value::Mapping(Vec::new()) });
                    replaced(&empty, rest, here, value)?
                }
            };
            let mut entries = entries.clone();
            match entries.iter_mut().find(|e| e.key == key) {
                Some(entry) => entry.value = new,
                None => entries.push(Entry { key: key.to_owned(), key_span: here, value: new }),
            }
            Ok(Rc::new(Node { span: node.span, value: Value::Mapping(entries) }))
        }
        Value::Sequence(items) => {
            let (index, rest) = path.split_once('.').map_or((path, None), |(i, rest)| (i, Some(rest)));
            let number = index.parse::<usize>().ok().filter(|number| *number < items.len());
            let Some(number) = number else {
                return problem(format!("there is no item '{index}' in this list")).map_err(|p| {
                    p.help(match items.len() {
                        0 => "the list is empty: set the list as a whole".to_owned(),
                        n => format!("its items are numbered from 0 to {}", n - 1),
                    })
                });
            };
            let new = match rest {
                Some(rest) => replaced(&items[number], rest, here, value)?,
                None => value,
            };
            let mut items = items.clone();
            items[number] = new;
            Ok(Rc::new(Node { span: node.span, value: Value::Sequence(items) }))
        }
        Value::Scalar(_) => problem(format!("'{path}' cannot be set in what is {}", node.kind()))
            .map_err(|p| p.help("leave away the last part of the path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use std::path::Path;

    const TEXT: &str = "\
general: { stop_time: 10s }
network: { graph: { type: 1_gbit_switch } }
hosts:
  a.b: { network_node_id: 0, processes: [ { path: /bin/true } ] }
";

    fn load(settings: &[&str]) -> Result<Experiment, String> {
        let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
        Experiment::parse_with("exp.yaml", TEXT, Path::new(""), &settings).map_err(|e| e.to_string())
    }

    #[test]
    fn values_are_set_added_and_made_from_nothing() {
        let e = load(&[
            "general.stop_time=3 s",
            "general.seed=9",
            "hosts.a.b.processes.0.args=[x, y]",
            "hosts.a.b.host_options.pcap_enabled=true",
            "hosts.c={network_node_id: 0, processes: []}",
        ])
        .unwrap();
        assert_eq!((e.general.stop_time.as_nanos(), e.general.seed), (3_000_000_000, 9));
        assert_eq!(e.hosts[0].processes[0].args, ["x", "y"]);
        assert!(e.hosts[0].options.pcap_enabled);
        assert_eq!(e.hosts[1].name, "c");
    }

    #[test]
    fn mistakes_are_told_at_the_setting() {
        for (setting, message) in [
            ("general.stop_time=10 parsecs", "parsecs"),
            ("general.sed=1", "'sed' is not a key of section 'general'"),
            ("hosts.a.b.processes.1.path=/bin/true", "its items are numbered from 0 to 0"),
            ("general.seed.more=1", "leave away the last part of the path"),
            ("general.seed={]", "this is not YAML"),
            ("hosts.a.b.processes.x.path=/bin/true", "there is no item 'x' in this list"),
            ("general.seed.more=1", "'more' cannot be set in what is a number"),
        ] {
            let error = load(&["general.seed=1", setting]).unwrap_err();
            let path = setting.split('=').next().unwrap();
            assert!(error.contains(message) && error.contains(&format!("--set {path}:1:")), "{error}");
        }
        let empty = load(&["hosts.a.b.processes=[]", "hosts.a.b.processes.0.path=/bin/true"]).unwrap_err();
        assert!(empty.contains("the list is empty: set the list as a whole"), "{empty}");
        let wrong = Setting::parse("seed").unwrap_err();
        assert_eq!(wrong, "write key=value, such as general.stop_time=\"10 s\"");
        assert!(Setting::parse("=1").is_err());
        assert!(Setting::parse("a..b=1").is_err());
    }
}
