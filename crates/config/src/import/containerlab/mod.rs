//! Containerlab: `topology: { nodes: ..., links: ... }`. Bridges become switches, Linux containers hosts, and
//! every other kind, a vendor's router, a router.

mod inherited;
mod links;
mod nodes;

use super::draft::{Draft, Kind};
use super::{Imported, Importer, Input};
use crate::error::{Problem, Span};
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Entry, Node, Value};

/// A topology file of Containerlab.
pub(super) struct Containerlab;

impl Importer for Containerlab {
    fn name(&self) -> &'static str {
        "containerlab"
    }
    fn has_extension(&self, extension: &str) -> bool {
        matches!(extension, "yml" | "yaml")
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        Ok(draft(input)?.finish(&input.source.name, input.options))
    }
}

fn draft(input: &Input) -> Result<Draft, Problem> {
    let source = input.source;
    check_template(&source.text)?;
    let tree = yaml::parse(&source.text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
    let top = mapping(&tree, "a topology")?;
    let topology = entry(top, "topology").ok_or_else(|| {
        Problem::at(tree.span, "there is no 'topology' in this file")
            .help("this is no topology of Containerlab")
    })?;
    let mut draft = Draft::default();
    note_others(&mut draft, top, &["name", "topology"], "a topology file");
    let parts = mapping(&topology.value, "'topology'")?;
    note_others(&mut draft, parts, &["defaults", "kinds", "groups", "nodes", "links"], "'topology'");
    note_variables(&mut draft, &source.text);
    let lab = entry(top, "name").map(|e| section::string(&e.value, "name")).transpose()?.unwrap_or_default();
    let nodes =
        entry(parts, "nodes").ok_or_else(|| Problem::at(tree.span, "this topology has no 'nodes'"))?;
    let inherited = inherited::Inherited::read(parts)?;
    for node in mapping(&nodes.value, "'nodes'")? {
        nodes::add(&mut draft, node, &inherited, input.beside, lab)?;
    }
    if let Some(links) = entry(parts, "links") {
        for link in section::list(&links.value, "links")? {
            links::add(&mut draft, link)?;
        }
    }
    if draft.cables.is_empty() {
        let left_out = draft.notes.iter().find(|(_, text)| text.ends_with(links::LEFT_OUT));
        let help = left_out.map(|(at, text)| format!("line {}: {text}", at.line));
        return Err(
            Problem::whole_file("this topology has no links that could be taken over").maybe_help(help)
        );
    }
    // A machine that runs Docker forwards packets, and so do its containers.
    let names: Vec<String> = draft.members.keys().cloned().collect();
    for name in names {
        let links = draft.interfaces(&name).len();
        if let Some(member) = draft.members.get_mut(&name) {
            member.forwarding.get_or_insert(links > 1);
        }
    }
    draft.remove_unlinked();
    if draft.members.values().all(|member| member.kind == Kind::Switch) {
        return Err(Problem::whole_file("this topology has bridges only")
            .help("add a node of kind linux, which becomes a host with processes"));
    }
    Ok(draft)
}

/// Refuses a template, whose values are known to Containerlab only.
fn check_template(text: &str) -> Result<(), Problem> {
    let is_template = |line: &str| {
        line.find("{{").is_some_and(|at| line[at..].contains("}}")) && !line.trim_start().starts_with('#')
    };
    match text.lines().enumerate().find(|(_, line)| is_template(line)) {
        None => Ok(()),
        Some((n, line)) => {
            let span = Span { line: n + 1, column: 1, len: line.chars().count() };
            Err(Problem::at(span, "this is a template, which Containerlab renders before it reads it")
                .help("write the values in place of {{ }}"))
        }
    }
}

fn entry<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key && !entry.value.is_null())
}

/// Notes the entries of a section with other keys.
fn note_others(draft: &mut Draft, entries: &[Entry], known: &[&str], section: &str) {
    for other in entries.iter().filter(|other| !known.contains(&other.key.as_str())) {
        draft.note_at(other.key_span.line, format!("'{}' of {section} is not taken over", other.key));
    }
}

/// Notes the variables in the text, which Containerlab replaces by those of its environment.
fn note_variables(draft: &mut Draft, text: &str) {
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#')) {
        for part in line.split('$').skip(1) {
            let name = part.strip_prefix('{').unwrap_or(part);
            let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                let text = format!("'${name}' stays as it is: variables of the environment are not replaced");
                draft.note_at(n + 1, text);
            }
        }
    }
}

/// The text of a scalar.
fn scalar(node: &Node) -> Result<String, Problem> {
    match &node.value {
        Value::Scalar(scalar) => Ok(scalar.text.clone()),
        _ => Err(node.problem("this must be a single value")),
    }
}
