//! Section `network`.

use crate::PathContext;
use crate::error::plain;
use crate::error::{Problem, Problems, Source, Span};
use crate::model::{GraphSource, Network};
use crate::yaml::{Node, Section, Style, Value, section};
use belljar_net::{Graph, GraphError};
use std::sync::Arc;

const KEYS: &[&str] = &["graph", "use_shortest_path"];
const GRAPH_KEYS: &[&str] = &["type", "inline", "file"];
const FILE_KEYS: &[&str] = &["path", "compression"];

#[derive(Clone, Copy)]
enum GraphType {
    Gml,
    OneGbitSwitch,
}
const GRAPH_TYPES: &[(&str, GraphType)] =
    &[("gml", GraphType::Gml), ("1_gbit_switch", GraphType::OneGbitSwitch)];

#[derive(Clone, Copy, PartialEq)]
enum Compression {
    Xz,
}
const COMPRESSIONS: &[(&str, Compression)] = &[("xz", Compression::Xz)];

pub(super) fn one_gbit_switch(use_shortest_path: bool) -> Network {
    let graph = Arc::new(Graph::one_gbit_switch());
    Network { source: GraphSource::OneGbitSwitch, use_shortest_path, graph }
}

pub(super) fn read(node: &Node, source: &Source, around: &PathContext) -> Result<Network, Problem> {
    let s = Section::new(node, "section 'network'", KEYS, false)?;
    let use_shortest_path = s.read("use_shortest_path", section::boolean)?.unwrap_or(true);
    let graph_node = s.required("graph", "graph: { type: 1_gbit_switch }")?;
    let g = Section::new(graph_node, "the graph", GRAPH_KEYS, false)?;
    let kind = section::choice(g.required("type", "type: gml")?, "type", GRAPH_TYPES)?;
    let (inline, file) = (g.get("inline"), g.get("file"));
    match (kind, inline, file) {
        (GraphType::OneGbitSwitch, None, None) => Ok(one_gbit_switch(use_shortest_path)),
        (GraphType::OneGbitSwitch, Some(extra), _) | (GraphType::OneGbitSwitch, _, Some(extra)) => Err(extra
            .problem("the graph '1_gbit_switch' is built in")
            .help("remove this, or write type: gml")),
        (GraphType::Gml, Some(inline), None) => {
            let text = section::string(inline, "inline")?;
            let graph = Graph::from_gml(text, use_shortest_path)
                .map_err(|error| all_of(error, |error| inline_problem(inline, source, text, error)))?;
            Ok(network(text, graph, use_shortest_path))
        }
        (GraphType::Gml, None, Some(file)) => {
            let source = read_file(file, around)?;
            let problem = |error: GraphError| {
                let at = Span { line: error.line, column: error.column, len: 1 };
                Problem::at(at, error.message).maybe_help(error.help).in_file(source.clone(), file.span)
            };
            let graph =
                Graph::from_gml(&source.text, use_shortest_path).map_err(|error| all_of(error, problem))?;
            Ok(network(&source.text, graph, use_shortest_path))
        }
        (GraphType::Gml, Some(_), Some(second)) => {
            Err(second.problem("the graph has both 'inline' and 'file'").help("keep one of them"))
        }
        (GraphType::Gml, None, None) => Err(graph_node
            .problem("the graph has neither 'inline' nor 'file'")
            .help("add file: { path: network.gml }, or inline: | and the graph's text")),
    }
}

fn network(text: &str, graph: Graph, use_shortest_path: bool) -> Network {
    Network { source: GraphSource::Gml(text.into()), use_shortest_path, graph: Arc::new(graph) }
}

/// Converts an error of a graph, and those that it found besides.
fn all_of(mut error: GraphError, problem: impl Fn(GraphError) -> Problem) -> Problem {
    let more = std::mem::take(&mut error.more);
    let mut problems = Problems::default();
    problems.add(problem(error));
    for error in more {
        problems.add(problem(error));
    }
    problems.in_order().expect("the first error is one of them")
}

/// Converts a graph's error to one of the experiment file. The lines of a literal block correspond to lines
/// of the file; for other strings only the beginning is known.
fn inline_problem(node: &Node, source: &Source, text: &str, error: GraphError) -> Problem {
    let literal = matches!(&node.value, Value::Scalar(s) if s.style == Style::Literal);
    let place = text.lines().nth(error.line - 1).filter(|_| literal).and_then(|gml_line| {
        // The block's position is that of its first non-blank line.
        let blank = text.lines().take_while(|line| line.trim().is_empty()).count();
        let line = (node.span.line + error.line).checked_sub(blank + 1)?;
        let full = source.text.lines().nth(line.checked_sub(1)?)?.trim_end();
        let indent = full.chars().count().checked_sub(gml_line.trim_end().chars().count())?;
        full.ends_with(gml_line.trim_end()).then_some(Span { line, column: error.column + indent, len: 1 })
    });
    match place {
        Some(span) => Problem::at(span, error.message).maybe_help(error.help),
        None => {
            let (line, column) = (error.line, error.column);
            node.problem(format!("in line {line}, column {column} of this graph: {}", error.message))
                .maybe_help(error.help)
        }
    }
}

fn read_file(node: &Node, around: &PathContext) -> Result<Source, Problem> {
    let s = Section::new(node, "the graph's file", FILE_KEYS, false)?;
    let path_node = s.required("path", "path: network.gml")?;
    let written = section::string(path_node, "path")?;
    let expanded = around.expand(written).map_err(|message| path_node.problem(message))?;
    let places = around.candidates(&expanded);
    let path = places.iter().find(|p| p.exists()).ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
        path_node
            .problem(format!("there is no graph file '{written}'"))
            .help(format!("looked for {}", looked.join(" and ")))
    })?;
    let failed = |error: &std::io::Error| {
        path_node.problem(format!("the graph file '{written}' cannot be read: {}", plain(error)))
    };
    let mut bytes = belljar_inputs::read(path).map_err(|e| failed(&e))?;
    if s.read("compression", |n, k| section::choice(n, k, COMPRESSIONS))? == Some(Compression::Xz) {
        let mut unpacked = Vec::new();
        lzma_rs::xz_decompress(&mut bytes.as_slice(), &mut unpacked).map_err(|error| {
            let reason = match error {
                lzma_rs::error::Error::IoError(e) | lzma_rs::error::Error::HeaderTooShort(e) => plain(&e),
                lzma_rs::error::Error::LzmaError(reason) | lzma_rs::error::Error::XzError(reason) => reason,
            };
            path_node.problem(format!("the graph file '{written}' is not sound xz data: {reason}"))
        })?;
        bytes = unpacked;
    }
    let looks_packed = bytes.starts_with(b"\xfd7zXZ");
    let text = String::from_utf8(bytes).map_err(|_| {
        let help = looks_packed.then(|| "add compression: xz".to_owned());
        path_node.problem(format!("the graph file '{written}' is not text")).maybe_help(help)
    })?;
    Ok(Source { name: path.display().to_string(), text })
}
