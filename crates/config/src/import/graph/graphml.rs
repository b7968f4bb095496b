//! GraphML (graphml.graphdrawing.org), with the labels of yEd's extension, in which the Topology Zoo keeps its sources.

use super::model::{Attributes, Edge, Graph, Vertex};
use crate::error::{Problem, Span};
use belljar_base::Map;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Element whose attributes are being read.
enum Element {
    Graph,
    Vertex(Vertex),
    Edge(Edge),
}

impl Element {
    fn attributes(&mut self) -> Option<&mut Attributes> {
        match self {
            Element::Graph => None,
            Element::Vertex(vertex) => Some(&mut vertex.attributes),
            Element::Edge(edge) => Some(&mut edge.attributes),
        }
    }
}

/// State of the reader.
#[derive(Default)]
struct State {
    graph: Graph,
    /// Names of attributes by the identifiers of their keys.
    keys: Map<String, String>,
    defaults: Map<String, String>,
    /// Open elements that have attributes.
    open: Vec<Element>,
    /// Name of the attribute whose text is being read.
    name: Option<String>,
    text: String,
    /// Key whose default value is being read.
    key: Option<String>,
}

/// Reads the text of a file.
pub(super) fn read(text: &str) -> Result<Graph, Problem> {
    let mut reader = Reader::from_str(text);
    let mut state = State::default();
    // Lines are counted as far as the reader has come.
    let (mut line, mut counted) = (1, 0);
    loop {
        let event = reader.read_event();
        let at = Span { line, column: 1, len: 1 };
        let invalid = |error: String| Problem::at(at, format!("this is not valid XML: {error}"));
        match event.map_err(|error| invalid(error.to_string()))? {
            Event::Eof => break,
            Event::Start(element) => state.start(&element, at)?,
            Event::Empty(element) => {
                state.start(&element, at)?;
                state.end(element.local_name().as_ref());
            }
            Event::End(element) => state.end(element.local_name().as_ref()),
            Event::Text(own) => {
                state.text += &own.decode().map_err(|error| invalid(error.to_string()))?;
            }
            Event::CData(own) => {
                state.text += &own.decode().map_err(|error| invalid(error.to_string()))?;
            }
            Event::GeneralRef(entity) => {
                let name = entity.decode().map_err(|error| invalid(error.to_string()))?;
                let character = entity.resolve_char_ref().map_err(|error| invalid(error.to_string()))?;
                match (character, quick_xml::escape::resolve_predefined_entity(&name)) {
                    (Some(character), _) => state.text.push(character),
                    (None, Some(text)) => state.text += text,
                    (None, None) => return Err(invalid(format!("there is no entity '{name}'"))),
                }
            }
            _ => {}
        }
        let here = reader.buffer_position() as usize;
        line += text.as_bytes()[counted..here].iter().filter(|byte| **byte == b'\n').count();
        counted = here;
    }
    match state.open.is_empty() {
        true => Ok(state.graph),
        false => Err(Problem::whole_file("this file ends within its graph")),
    }
}

impl State {
    fn start(&mut self, element: &BytesStart, at: Span) -> Result<(), Problem> {
        let value = |name: &str| -> Result<Option<String>, Problem> {
            let found =
                element.attributes().flatten().find(|own| own.key.local_name().as_ref() == name.as_bytes());
            let text = found.map(|own| own.unescape_value().map(|text| text.into_owned())).transpose();
            text.map_err(|error| Problem::at(at, format!("this is not valid XML: {error}")))
        };
        let required = |name: &str| {
            value(name)?.ok_or_else(|| Problem::at(at, format!("this element has no attribute '{name}'")))
        };
        match element.local_name().as_ref() {
            b"key" => {
                let id = required("id")?;
                let name = value("attr.name")?.unwrap_or_else(|| id.clone());
                self.keys.insert(id.clone(), name.to_ascii_lowercase());
                self.key = Some(id);
            }
            b"graph" => {
                self.graph.directed |= value("edgedefault")?.as_deref() == Some("directed");
                self.open.push(Element::Graph);
            }
            b"node" => {
                let attributes = Attributes::new();
                self.open.push(Element::Vertex(Vertex { id: required("id")?, line: at.line, attributes }));
            }
            b"edge" => {
                let (source, target) = (required("source")?, required("target")?);
                let attributes = Attributes::new();
                self.open.push(Element::Edge(Edge { source, target, line: at.line, attributes }));
            }
            b"hyperedge" => {
                return Err(Problem::at(at, "hyperedges are not imported")
                    .help("write a node with an edge to each end of the hyperedge"));
            }
            b"data" => {
                let key = required("key")?;
                self.name = Some(self.keys.get(&key).cloned().unwrap_or(key));
                self.text.clear();
            }
            b"NodeLabel" | b"EdgeLabel" => {
                self.name = Some("label".to_owned());
                self.text.clear();
            }
            b"default" => self.text.clear(),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"default" => {
                if let Some(name) = self.key.as_ref().and_then(|key| self.keys.get(key)) {
                    self.defaults.insert(name.clone(), self.text.trim().to_owned());
                }
            }
            b"data" | b"NodeLabel" | b"EdgeLabel" => {
                let text = self.text.trim().to_owned();
                let Some(name) = self.name.take().filter(|_| !text.is_empty()) else { return };
                match self.open.last_mut() {
                    Some(Element::Graph) if matches!(&*name, "network" | "label" | "name") => {
                        self.graph.name.get_or_insert(text);
                    }
                    Some(element) => {
                        if let Some(own) = element.attributes() {
                            own.entry(name).or_insert(text);
                        }
                    }
                    None => {}
                }
                self.text.clear();
            }
            b"graph" | b"node" | b"edge" => match self.open.pop() {
                Some(Element::Vertex(mut vertex)) => {
                    self.fill(&mut vertex.attributes);
                    self.graph.vertices.push(vertex);
                }
                Some(Element::Edge(mut edge)) => {
                    self.fill(&mut edge.attributes);
                    self.graph.edges.push(edge);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Adds the default values of attributes that an element does not have.
    fn fill(&self, attributes: &mut Attributes) {
        for (name, value) in &self.defaults {
            attributes.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}
