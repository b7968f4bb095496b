//! Construction of a [`Graph`] from the tokens of GML text, without an intermediate tree, since the texts
//! of large graphs have hundreds of megabytes.

use super::gml::{GraphError, Lexer, Token};
use super::routes::Cost;
use super::{Arc, Edge, Graph, GraphNode, NodeIndex};
use crate::suggest::nearest;
use crate::units::{UnitError, parse_bandwidth, parse_duration};
use belljar_base::{Map, Set};
use std::sync::OnceLock;

const GRAPH_KEYS: &[&str] = &["directed", "node", "edge"];
const NODE_KEYS: &[&str] = &["id", "label", "host_bandwidth_up", "host_bandwidth_down"];
const EDGE_KEYS: &[&str] = &["source", "target", "label", "latency", "jitter", "packet_loss"];
const LEAST_LATENCY_PS: u64 = 1_000;

/// Parsed edge: ids of its ends with their offsets in the text, and its properties.
struct RawEdge {
    source: (u32, usize),
    target: (u32, usize),
    edge: Edge,
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    directed: bool,
    nodes: Vec<GraphNode>,
    by_id: Map<u32, NodeIndex>,
    edges: Vec<RawEdge>,
    raised: usize,
    limited: usize,
    ignored: Set<String>,
    /// Keys that resemble known ones.
    misspelt: Vec<GraphError>,
}

pub(super) fn graph_from_gml(text: &str, shortest_paths: bool) -> Result<Graph, GraphError> {
    let mut reader = Reader {
        lexer: Lexer::new(text),
        directed: false,
        nodes: Vec::new(),
        by_id: Map::new(),
        edges: Vec::new(),
        raised: 0,
        limited: 0,
        ignored: Set::new(),
        misspelt: Vec::new(),
    };
    if let Err(error) = reader.read_text() {
        reader.misspelt.push(error);
    }
    let mut misspelt = std::mem::take(&mut reader.misspelt).into_iter();
    if let Some(mut first) = misspelt.next() {
        first.more.extend(misspelt);
        return Err(first);
    }
    reader.finish(shortest_paths)
}

impl<'a> Reader<'a> {
    fn read_text(&mut self) -> Result<(), GraphError> {
        let mut found = false;
        loop {
            let (token, at) = self.lexer.next()?;
            match token {
                Token::Key("graph") if !found => {
                    found = true;
                    self.open("graph")?;
                    self.read_graph()?;
                }
                Token::Key("graph") => return Err(self.error(at, "there is a second graph in this text")),
                // Keys such as Creator and Version.
                Token::Key(key) => self.skip_other(key, at, &["graph"], "the text")?,
                Token::End if found => return Ok(()),
                Token::End => {
                    return Err(self.lexer.error(
                        at,
                        "there is no graph in this text",
                        Some("write graph [ node [ ... ] edge [ ... ] ]".into()),
                    ));
                }
                other => return Err(self.expected("a key such as 'graph'", &other, at)),
            }
        }
    }

    fn read_graph(&mut self) -> Result<(), GraphError> {
        loop {
            let (token, at) = self.lexer.next()?;
            match token {
                Token::Close => return Ok(()),
                Token::Key("directed") => {
                    self.directed = match self.lexer.next()? {
                        (Token::Int(0), _) => false,
                        (Token::Int(1), _) => true,
                        (other, at) => return Err(self.expected("0 or 1 after 'directed'", &other, at)),
                    }
                }
                Token::Key("node") => {
                    self.open("node")?;
                    self.read_node(at)?;
                }
                Token::Key("edge") => {
                    self.open("edge")?;
                    self.read_edge(at)?;
                }
                Token::Key(key) => self.skip_other(key, at, GRAPH_KEYS, "a graph")?,
                other => return Err(self.expected("'node', 'edge' or ']'", &other, at)),
            }
        }
    }

    fn read_node(&mut self, start: usize) -> Result<(), GraphError> {
        let mut id = None;
        let mut node = GraphNode { id: 0, label: None, bandwidth_up: None, bandwidth_down: None };
        let mut seen = Seen::default();
        while let Some((key, at)) = self.key(NODE_KEYS, &mut seen, "a node")? {
            match key {
                "id" => id = Some(self.node_id(key)?),
                "label" => node.label = self.label()?,
                "host_bandwidth_up" => node.bandwidth_up = Some(self.bandwidth(key)?),
                "host_bandwidth_down" => node.bandwidth_down = Some(self.bandwidth(key)?),
                other => self.skip_other(other, at, NODE_KEYS, "a node")?,
            }
        }
        let Some((id, id_at)) = id else {
            return Err(self.lexer.error(start, "this node has no 'id'", Some("add id 0".into())));
        };
        node.id = id;
        if self.by_id.insert(id, NodeIndex(self.nodes.len() as u32)).is_some() {
            return Err(self.error(id_at, format!("there are two nodes with the id {id}")));
        }
        self.nodes.push(node);
        Ok(())
    }

    fn read_edge(&mut self, start: usize) -> Result<(), GraphError> {
        let (mut source, mut target, mut latency, mut jitter, mut loss) = (None, None, None, 0, 0.0);
        let mut seen = Seen::default();
        while let Some((key, at)) = self.key(EDGE_KEYS, &mut seen, "an edge")? {
            match key {
                "source" => source = Some(self.node_id(key)?),
                "target" => target = Some(self.node_id(key)?),
                "label" => drop(self.label()?),
                "latency" => latency = Some(self.duration(key)?),
                "jitter" => jitter = self.duration(key)?,
                "packet_loss" => loss = self.probability(key)?,
                other => self.skip_other(other, at, EDGE_KEYS, "an edge")?,
            }
        }
        let missing = |key: &str, example: &str| {
            let help = Some(format!("add {key} {example}"));
            self.lexer.error(start, format!("this edge has no '{key}'"), help)
        };
        let source = source.ok_or_else(|| missing("source", "0"))?;
        let target = target.ok_or_else(|| missing("target", "0"))?;
        let latency = latency.ok_or_else(|| missing("latency", "\"10 ms\""))?;
        let edge = self.bounded(latency, jitter, loss);
        self.edges.push(RawEdge { source, target, edge });
        Ok(())
    }

    /// Applies the bounds of an edge: the latency is at least 1 ns, so that simulated time passes between
    /// cause and effect, and exceeds the jitter by at least 1 ns.
    fn bounded(&mut self, latency: u64, jitter: u64, loss: f64) -> Edge {
        if latency < LEAST_LATENCY_PS {
            self.raised += 1;
        }
        let latency = latency.max(LEAST_LATENCY_PS);
        if jitter > latency {
            self.limited += 1;
        }
        Edge { latency, jitter: jitter.min(latency - LEAST_LATENCY_PS), loss }
    }

    fn open(&mut self, key: &str) -> Result<(), GraphError> {
        match self.lexer.next()? {
            (Token::Open, _) => Ok(()),
            (other, at) => Err(self.expected(&format!("'[' after '{key}'"), &other, at)),
        }
    }

    /// Reads the next key, up to the closing bracket. Known keys must not occur twice.
    fn key(
        &mut self,
        known: &[&str],
        seen: &mut Seen,
        place: &str,
    ) -> Result<Option<(&'a str, usize)>, GraphError> {
        match self.lexer.next()? {
            (Token::Close, _) => Ok(None),
            (Token::Key(key), at) => {
                if let Some(index) = known.iter().position(|k| *k == key)
                    && !seen.first_time(index)
                {
                    return Err(self.error(at, format!("the key '{key}' stands twice in {place}")));
                }
                Ok(Some((key, at)))
            }
            (other, at) => Err(self.expected(&format!("a key of {place} or ']'"), &other, at)),
        }
    }

    fn node_id(&mut self, key: &str) -> Result<(u32, usize), GraphError> {
        match self.lexer.next()? {
            (Token::Int(id), at) => match u32::try_from(id) {
                Ok(id) => Ok((id, at)),
                Err(_) => {
                    let message = format!("'{key}' must lie between 0 and 4294967295, not {id}");
                    Err(self.error(at, message))
                }
            },
            (other, at) => Err(self.expected(&format!("a whole number after '{key}'"), &other, at)),
        }
    }

    fn label(&mut self) -> Result<Option<Box<str>>, GraphError> {
        match self.lexer.next()? {
            (Token::Str(label), _) => Ok(Some(label.replace("&quot;", "\"").replace("&amp;", "&").into())),
            (Token::Int(label), _) => Ok(Some(label.to_string().into())),
            (Token::Float(label), _) => Ok(Some(label.to_string().into())),
            (other, at) => Err(self.expected("a string after 'label'", &other, at)),
        }
    }

    fn duration(&mut self, key: &str) -> Result<u64, GraphError> {
        let (text, at) = self.unit_text(key, "10 ms")?;
        parse_duration(text).map(|d| d.as_picos()).map_err(|e| self.unit_error(key, at, e))
    }

    fn bandwidth(&mut self, key: &str) -> Result<u64, GraphError> {
        let (text, at) = self.unit_text(key, "1 Gbit")?;
        match parse_bandwidth(text).map_err(|e| self.unit_error(key, at, e))? {
            0 => Err(self.error(at, format!("'{key}' must not be 0"))),
            bits => Ok(bits),
        }
    }

    fn unit_text(&mut self, key: &str, example: &str) -> Result<(&'a str, usize), GraphError> {
        match self.lexer.next()? {
            (Token::Str(text), at) => Ok((text, at)),
            (other, at) => {
                let message = format!("'{key}' must be a string with a unit, not {}", other.describe());
                Err(self.lexer.error(at, message, Some(format!("write {key} \"{example}\""))))
            }
        }
    }

    fn unit_error(&self, key: &str, at: usize, error: UnitError) -> GraphError {
        self.lexer.error(at, format!("in '{key}': {}", error.message), error.help)
    }

    fn probability(&mut self, key: &str) -> Result<f64, GraphError> {
        let (token, at) = self.lexer.next()?;
        let value = match token {
            Token::Float(x) => x,
            Token::Int(n) => n as f64,
            other => return Err(self.expected(&format!("a number after '{key}'"), &other, at)),
        };
        if !(0.0..=1.0).contains(&value) {
            let help = Some("it is a probability: 0.01 is 1 %".to_owned());
            return Err(self.lexer.error(at, format!("'{key}' must lie between 0 and 1, not {value}"), help));
        }
        // Converts -0.0 to 0.0, because it would sort before 0.0.
        Ok(value + 0.0)
    }

    /// Skips an unknown key and its value. Graph files of other tools have many, so they are permitted
    /// unless they resemble a known key.
    fn skip_other(&mut self, key: &str, at: usize, known: &[&str], place: &str) -> Result<(), GraphError> {
        if key.len() > 3
            && let Some(near) = nearest(key, known.iter().copied())
        {
            let help = Some(format!("did you mean '{near}'?"));
            let error = self.lexer.error(at, format!("'{key}' is not a key of {place}"), help);
            self.misspelt.push(error);
        } else if place != "the text" {
            self.ignored.insert(key.to_owned());
        }
        let mut depth = 0u32;
        loop {
            match self.lexer.next()? {
                (Token::Open, _) => depth += 1,
                (Token::Close, _) if depth > 0 => depth -= 1,
                (Token::Key(_), _) if depth > 0 => continue,
                (Token::Int(_) | Token::Float(_) | Token::Str(_), _) => {}
                (other, at) => return Err(self.expected(&format!("a value of '{key}'"), &other, at)),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn expected(&self, what: &str, found: &Token<'_>, at: usize) -> GraphError {
        self.error(at, format!("expected {what}, found {}", found.describe()))
    }

    fn error(&self, at: usize, message: impl Into<String>) -> GraphError {
        self.lexer.error(at, message, None)
    }

    fn finish(self, shortest_paths: bool) -> Result<Graph, GraphError> {
        if self.nodes.is_empty() {
            let help = Some("add node [ id 0 ]".to_owned());
            return Err(self.lexer.error(0, "this graph has no nodes", help));
        }
        let find = |(id, at): (u32, usize), end: &str| {
            self.by_id.get(&id).map(|node| node.0).ok_or_else(|| {
                let help = nearest_id(&self.by_id, id).map(|near| format!("the nearest id is {near}"));
                self.lexer.error(
                    at,
                    format!("the {end} of this edge is node {id}, which does not exist"),
                    help,
                )
            })
        };
        let mut ends = Vec::with_capacity(self.edges.len());
        for raw in &self.edges {
            ends.push((find(raw.source, "source")?, find(raw.target, "target")?));
        }
        let notes = self.notes();
        let edges: Vec<Edge> = self.edges.into_iter().map(|raw| raw.edge).collect();
        let (arcs, first_arc) = arcs(&ends, &edges, self.directed, self.nodes.len());
        let rows = (0..self.nodes.len()).map(|_| OnceLock::new()).collect();
        Ok(Graph {
            nodes: self.nodes,
            by_id: self.by_id,
            edges,
            arcs,
            first_arc,
            directed: self.directed,
            shortest_paths,
            rows,
            notes,
        })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let edges = |n: usize| if n == 1 { "1 edge has".to_owned() } else { format!("{n} edges have") };
        if self.raised > 0 {
            notes.push(format!("{} a latency under 1 ns: raised to 1 ns", edges(self.raised)));
        }
        if self.limited > 0 {
            notes.push(format!("{} more jitter than latency: limited to the latency", edges(self.limited)));
        }
        if !self.ignored.is_empty() {
            let names: Vec<_> = self.ignored.iter().map(String::as_str).collect();
            notes.push(format!("keys of the graph that have no effect: {}", names.join(", ")));
        }
        notes
    }
}

/// Returns both directions of every edge (one if `directed` or a self-loop), sorted by source and target,
/// and the index of each source's first one. Of parallel edges only the best is kept.
fn arcs(ends: &[(u32, u32)], edges: &[Edge], directed: bool, nodes: usize) -> (Vec<Arc>, Vec<u32>) {
    let mut sorted: Vec<(u32, Arc)> = Vec::with_capacity(ends.len() * if directed { 1 } else { 2 });
    for (edge, &(source, target)) in ends.iter().enumerate() {
        let latency = edges[edge].latency;
        sorted.push((source, Arc { target, edge: edge as u32, latency }));
        if !directed && source != target {
            sorted.push((target, Arc { target: source, edge: edge as u32, latency }));
        }
    }
    let cost = |arc: &Arc| {
        let edge = &edges[arc.edge as usize];
        Cost { latency: edge.latency, loss: edge.loss, jitter: edge.jitter }
    };
    sorted.sort_unstable_by(|(s, a), (t, b)| {
        let place = (*s, a.target).cmp(&(*t, b.target));
        place.then_with(|| cost(a).compare(&cost(b))).then(a.edge.cmp(&b.edge))
    });
    sorted.dedup_by_key(|(source, arc)| (*source, arc.target));
    let mut first_arc = vec![0u32; nodes + 1];
    for (source, _) in &sorted {
        first_arc[*source as usize + 1] += 1;
    }
    for node in 0..nodes {
        first_arc[node + 1] += first_arc[node];
    }
    (sorted.into_iter().map(|(_, arc)| arc).collect(), first_arc)
}

fn nearest_id(ids: &Map<u32, NodeIndex>, id: u32) -> Option<u32> {
    let below = ids.range(..id).next_back().map(|(id, _)| *id);
    let above = ids.range(id..).next().map(|(id, _)| *id);
    below.into_iter().chain(above).min_by_key(|near| near.abs_diff(id))
}

/// Set of known keys that have occurred, at most eight.
#[derive(Default)]
struct Seen(u8);

impl Seen {
    fn first_time(&mut self, index: usize) -> bool {
        let bit = 1 << index;
        let first = self.0 & bit == 0;
        self.0 |= bit;
        first
    }
}
