//! Graphs in GraphML and GML, as those of the Internet Topology Zoo: each node becomes a router with a host of
//! its own, each edge a link.
//!
//! The latency of a link is that of light in fibre over the great circle between its ends, where both have
//! coordinates.

mod gml;
mod graphml;
mod model;

use super::draft::{Cable, Draft, Kind, Member};
use super::{Imported, Importer, Input, node_name};
use crate::emit::quoted;
use crate::error::{Problem, Problems, Span};
use belljar_base::{Map, Set};
use belljar_net::units;
use model::{Attributes, Edge, Graph, Vertex};

/// Latency of a kilometre of fibre in microseconds: a group index of 1.468 (ITU-T G.652).
const MICROSECONDS_PER_KM: f64 = 4.897;
/// Mean radius of the earth in kilometres.
const EARTH_RADIUS_KM: f64 = 6371.0;
/// Latency of links between nodes without coordinates.
const LATENCY: &str = "1 ms";
/// Attributes of nodes and edges that describe the graph or that this importer reads.
const KNOWN: [&str; 24] = [
    "id",
    "label",
    "name",
    "source",
    "target",
    "latitude",
    "longitude",
    "country",
    "internal",
    "hyperedge",
    "type",
    "url",
    "note",
    "linkspeedraw",
    "linkspeed",
    "linkspeedunits",
    "linklabel",
    "linktype",
    "description",
    "latency",
    "packet_loss",
    "kind",
    "addresses",
    "link",
];

/// A graph in GraphML.
pub(super) struct GraphMl;

impl Importer for GraphMl {
    fn name(&self) -> &'static str {
        "graphml"
    }
    fn description(&self) -> Option<&'static str> {
        Some("a graph in GraphML, as of the Topology Zoo")
    }
    fn has_extension(&self, extension: &str) -> bool {
        matches!(extension, "graphml" | "xml")
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        import(input, graphml::read(&input.source.text)?)
    }
}

/// A graph in GML.
pub(super) struct Gml;

impl Importer for Gml {
    fn name(&self) -> &'static str {
        "gml"
    }
    fn description(&self) -> Option<&'static str> {
        Some("a graph in GML, as of the Topology Zoo")
    }
    fn has_extension(&self, extension: &str) -> bool {
        extension == "gml"
    }
    fn read(&self, input: &Input) -> Result<Imported, Problem> {
        import(input, gml::read(&input.source.text)?)
    }
}

fn import(input: &Input, graph: Graph) -> Result<Imported, Problem> {
    Ok(draft(graph)?.finish(&input.source.name, input.options))
}

fn draft(graph: Graph) -> Result<Draft, Problem> {
    let mut problems = Problems::default();
    let mut draft = Draft::default();
    draft.comments.extend(graph.name.as_ref().map(|name| format!("Network: {name}")));
    let mut nodes: Map<&str, Node> = Map::new();
    for vertex in &graph.vertices {
        let node = problems.take(Node::new(vertex, &draft)).unwrap_or_default();
        if nodes.contains_key(&*vertex.id) {
            problems.add(Problem::at(of_line(vertex.line), format!("there are two nodes '{}'", vertex.id)));
            continue;
        }
        let kind = match (node.is_switch, node.is_host) {
            (true, _) => Kind::Switch,
            (false, true) => Kind::Host,
            (false, false) => Kind::Router,
        };
        draft.members.insert(node.name.clone(), Member::new(kind));
        nodes.insert(&vertex.id, node);
    }
    let edges = once_each(&graph);
    let mut missing = Missing::default();
    let networks = Networks::of(&edges, &nodes);
    // A router has one interface in a network of switches.
    let mut joined = Set::new();
    for edge in &edges {
        if networks.of_router(edge, &nodes).is_some_and(|own| !joined.insert(own)) {
            draft.note_at(edge.line, "a second link of a router to one network of hyperedges is left out");
            continue;
        }
        if let Some(cable) = problems.take(cable(edge, &nodes, &mut draft, &mut missing)) {
            draft.cables.extend(cable);
        }
    }
    problems.check()?;
    if draft.cables.is_empty() {
        return Err(Problem::whole_file("this graph has no edges between two nodes"));
    }
    missing.note(&mut draft);
    note_attributes(&mut draft, &graph);
    let linked: Set<String> = draft.cables.iter().flat_map(|cable| cable.ends.clone()).collect();
    draft.comments.push("The processes of hosts are empty: add yours.".to_owned());
    let has_hosts = nodes.values().any(|node| node.is_host);
    for vertex in &graph.vertices {
        let node = &nodes[&*vertex.id];
        if !linked.contains(&node.name) {
            draft.members.remove(&node.name);
            draft.note_at(vertex.line, format!("'{}' is left out: it has no links", node.name));
        } else if !node.is_switch && !has_hosts {
            let host = format!("h-{}", node.name);
            draft.members.insert(host.clone(), Member::new(Kind::Host));
            draft.cables.push(Cable::between(host, node.name.clone()));
        }
    }
    Ok(draft)
}

/// A node with its name in the experiment.
#[derive(Default)]
struct Node {
    name: String,
    /// Latitude and longitude in degrees.
    position: Option<(f64, f64)>,
    is_switch: bool,
    /// True for a host, as `belljar draw` writes it.
    is_host: bool,
}

impl Node {
    fn new(vertex: &Vertex, draft: &Draft) -> Result<Node, Problem> {
        let label = vertex.attributes.get("label").or(vertex.attributes.get("name")).unwrap_or(&vertex.id);
        let of_label = shortened(&node_name(&label.replace('.', " ")));
        let of_id = shortened(&node_name(&vertex.id));
        let taken =
            |name: &str| draft.members.contains_key(name) || draft.members.contains_key(&format!("h-{name}"));
        let candidates = [of_label.clone(), format!("{of_label}-{of_id}")];
        let numbered = (2..).map(|number| format!("{of_label}-{number}"));
        let mut names =
            candidates.into_iter().chain(numbered).map(|name| match name.trim_matches(['-', '.']) {
                own if own.starts_with(|c: char| c.is_ascii_alphabetic()) => own.to_owned(),
                own => format!("r{own}"),
            });
        let name = names.find(|name| !taken(name)).unwrap_or_default();
        let is_switch = vertex.attributes.get("hyperedge").is_some_and(|own| matches!(&**own, "1" | "true"));
        let (latitude, longitude) =
            (degrees(vertex, "latitude", 90.0)?, degrees(vertex, "longitude", 180.0)?);
        let kind = vertex.attributes.get("kind").map(String::as_str);
        let is_switch = is_switch || kind == Some("switch");
        Ok(Node { name, position: latitude.zip(longitude), is_switch, is_host: kind == Some("host") })
    }
}

/// The first characters of a name, as many as a host's name may have with an ending.
fn shortened(name: &str) -> String {
    let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(40).collect()
}

fn degrees(vertex: &Vertex, key: &str, most: f64) -> Result<Option<f64>, Problem> {
    let Some(text) = vertex.attributes.get(key) else { return Ok(None) };
    let value = text.parse::<f64>().ok().filter(|value| value.abs() <= most);
    value.map(Some).ok_or_else(|| {
        Problem::at(of_line(vertex.line), format!("'{text}' is not a {key}"))
            .help(format!("write degrees from -{most} to {most}"))
    })
}

/// Networks of hyperedges that are linked to each other, by the identifier of one of them.
struct Networks<'a> {
    first: Map<&'a str, &'a str>,
}

impl<'a> Networks<'a> {
    fn of(edges: &[&'a Edge], nodes: &Map<&'a str, Node>) -> Networks<'a> {
        let is_switch = |id: &str| nodes.get(id).is_some_and(|node| node.is_switch);
        let switches = nodes.keys().copied().filter(|id| is_switch(id));
        let mut networks = Networks { first: switches.map(|id| (id, id)).collect() };
        for edge in edges.iter().filter(|edge| is_switch(&edge.source) && is_switch(&edge.target)) {
            let (kept, replaced) = (networks.first[&*edge.source], networks.first[&*edge.target]);
            networks.first.values_mut().filter(|own| **own == replaced).for_each(|own| *own = kept);
        }
        networks
    }

    /// The router of an edge and the network that the edge joins it to; `None` for other edges.
    fn of_router(&self, edge: &'a Edge, nodes: &Map<&str, Node>) -> Option<(&'a str, &'a str)> {
        let router = |id: &str| nodes.get(id).is_some_and(|node| !node.is_switch);
        let ends = [(&*edge.source, &*edge.target), (&*edge.target, &*edge.source)];
        ends.into_iter().find_map(|(own, other)| Some((own, *self.first.get(other)?)).filter(|_| router(own)))
    }
}

/// The edges of the graph, where a directed graph has an edge for each direction of a link only one of both.
fn once_each(graph: &Graph) -> Vec<&Edge> {
    let mut open: Map<(&str, &str), usize> = Map::new();
    let mut edges = Vec::new();
    for edge in &graph.edges {
        let back = open.get_mut(&(&*edge.target, &*edge.source)).filter(|count| **count > 0);
        match back {
            Some(count) if graph.directed && edge.source != edge.target => *count -= 1,
            _ => {
                *open.entry((&*edge.source, &*edge.target)).or_default() += 1;
                edges.push(edge);
            }
        }
    }
    edges
}

/// Lines of edges without properties, which have defaults instead.
#[derive(Default)]
struct Missing {
    positions: Vec<usize>,
    speeds: Vec<usize>,
}

impl Missing {
    fn note(&self, draft: &mut Draft) {
        let links =
            |count: usize| if count == 1 { "1 link has".to_owned() } else { format!("{count} links have") };
        if let Some(first) = self.positions.first() {
            let all = links(self.positions.len());
            draft.note_at(
                *first,
                format!("{all} no coordinates at both ends, the first here: latency {LATENCY}"),
            );
        }
        if let Some(first) = self.speeds.first() {
            let all = links(self.speeds.len());
            draft.note_at(*first, format!("{all} no speed, the first here: 1 Gbit, the default"));
        }
    }
}

fn cable(
    edge: &Edge,
    nodes: &Map<&str, Node>,
    draft: &mut Draft,
    missing: &mut Missing,
) -> Result<Option<Cable>, Problem> {
    let end = |id: &str| {
        nodes.get(id).ok_or_else(|| Problem::at(of_line(edge.line), format!("there is no node '{id}'")))
    };
    let (source, target) = (end(&edge.source)?, end(&edge.target)?);
    if edge.source == edge.target {
        draft.note_at(edge.line, format!("a link from '{}' to itself is left out", source.name));
        return Ok(None);
    }
    let mut cable = Cable::between(source.name.clone(), target.name.clone());
    match rate(edge)? {
        Some(bits) => cable.settings.push(("rate", bits)),
        None => {
            if let Some(text) = edge.attributes.get("linkspeed") {
                let unit = edge.attributes.get("linkspeedunits");
                let written = format!("{text} {}", unit.map_or("", String::as_str));
                draft.note_at(
                    edge.line,
                    format!(
                        "the speed '{}' of this link is not understood: 1 Gbit, the default",
                        written.trim()
                    ),
                );
            } else {
                missing.speeds.push(edge.line);
            }
        }
    }
    let latency = match (edge.attributes.get("latency"), source.position.zip(target.position)) {
        (Some(text), _) => {
            let invalid = |error: units::UnitError| {
                Problem::at(of_line(edge.line), format!("'latency': {}", error.message))
            };
            units::parse_duration(text).map_err(invalid)?;
            quoted(text)
        }
        (None, Some((from, to))) => {
            format!("{:.0} us", (kilometres(from, to) * MICROSECONDS_PER_KM).max(1.0))
        }
        (None, None) => {
            missing.positions.push(edge.line);
            LATENCY.to_owned()
        }
    };
    cable.settings.push(("latency", latency));
    if let Some(text) = edge.attributes.get("packet_loss") {
        let loss = text.parse::<f64>().ok().filter(|loss| (0.0..=1.0).contains(loss));
        let loss =
            loss.ok_or_else(|| Problem::at(of_line(edge.line), format!("'{text}' is not a probability")))?;
        cable.settings.push(("packet_loss", loss.to_string()));
    }
    Ok(Some(cable))
}

/// Distance on the great circle, by the haversine formula.
fn kilometres(from: (f64, f64), to: (f64, f64)) -> f64 {
    let [(lat1, lon1), (lat2, lon2)] = [from, to].map(|(lat, lon)| (lat.to_radians(), lon.to_radians()));
    let sine = |angle: f64| (angle / 2.0).sin().powi(2);
    let a = sine(lat2 - lat1) + lat1.cos() * lat2.cos() * sine(lon2 - lon1);
    2.0 * EARTH_RADIUS_KM * a.sqrt().min(1.0).asin()
}

/// The speed of a link: `LinkSpeedRaw` in bits per second, `LinkSpeed` with `LinkSpeedUnits`, or a speed in the label.
fn rate(edge: &Edge) -> Result<Option<String>, Problem> {
    let own: &Attributes = &edge.attributes;
    if let Some(raw) = own.get("linkspeedraw") {
        let bits = raw.parse::<f64>().ok().filter(|bits| *bits >= 1.0 && *bits < 1e15);
        let bits = bits.ok_or_else(|| {
            Problem::at(of_line(edge.line), format!("'{raw}' is not a speed in bits per second"))
        })?;
        return Ok(Some(bit_rate(bits)));
    }
    if let (Some(number), Some(unit)) = (own.get("linkspeed"), own.get("linkspeedunits"))
        && let Some(bits) = speed(&format!("{number} {unit}b"))
    {
        return Ok(Some(bit_rate(bits)));
    }
    let labels = ["linklabel", "label", "description"].into_iter().filter_map(|key| own.get(key));
    Ok(labels.into_iter().find_map(|label| speed(label)).map(bit_rate))
}

/// A bit rate with the largest unit that leaves a whole number.
fn bit_rate(bits: f64) -> String {
    let bits = bits.round() as u64;
    let units = [(1_000_000_000, "Gbit"), (1_000_000, "Mbit"), (1_000, "Kbit")];
    match units.into_iter().find(|(size, _)| bits.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{} {unit}", bits / size),
        None => format!("{bits} bit"),
    }
}

/// A speed such as `10 Gbps`, `155Mb/s` or `< 2.5 Gbit/s` in bits per second; the first one in the text.
fn speed(text: &str) -> Option<f64> {
    let text = text.to_ascii_lowercase();
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[start..];
    let len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number = rest[..len].trim_end_matches('.').parse::<f64>().ok()?;
    let mut unit = rest[len..].trim_start().chars();
    let factor = match unit.next()? {
        'k' => 1e3,
        'm' => 1e6,
        'g' => 1e9,
        't' => 1e12,
        _ => return None,
    };
    (unit.next() == Some('b') && number > 0.0).then_some(number * factor)
}

/// Notes attributes of nodes and edges that may matter and that are not taken over, each once.
fn note_attributes(draft: &mut Draft, graph: &Graph) {
    let mut seen: Map<(&str, &str), (usize, usize)> = Map::new();
    let nodes = graph.vertices.iter().map(|vertex| ("nodes", vertex.line, &vertex.attributes));
    let edges = graph.edges.iter().map(|edge| ("edges", edge.line, &edge.attributes));
    for (kind, line, attributes) in nodes.chain(edges) {
        let unknown =
            attributes.keys().filter(|key| !KNOWN.contains(&&***key) && !key.starts_with("geocode_"));
        for key in unknown.filter(|key| {
            !matches!(
                &***key,
                "x" | "y"
                    | "graphics"
                    | "networkdate"
                    | "geolocation"
                    | "asn"
                    | "network"
                    | "key"
                    | "doubted"
            )
        }) {
            seen.entry((kind, key)).or_insert((line, 0)).1 += 1;
        }
    }
    for ((kind, key), (line, count)) in seen {
        draft.note_at(line, format!("attribute '{key}' of {count} {kind} is not taken over, the first here"));
    }
}

fn of_line(line: usize) -> Span {
    Span { line, column: 1, len: 1 }
}
