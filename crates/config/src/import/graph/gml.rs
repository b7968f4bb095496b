//! GML: a list of keys with values, which are numbers, strings or lists in brackets (Himsolt, "GML: A portable
//! Graph File Format", 1997).

use super::model::{Attributes, Edge, Graph, Vertex};
use crate::error::{Problem, Span};

/// A value of GML.
enum Value {
    Text(String),
    List(Vec<Item>),
}

/// A key with its value and the line of the key.
struct Item {
    key: String,
    line: usize,
    value: Value,
}

/// Reads the text of a file.
pub(super) fn read(text: &str) -> Result<Graph, Problem> {
    let mut parser = Parser { text, at: 0, line: 1 };
    let top = parser.items(false)?;
    let graphs = top.into_iter().filter(|item| item.key == "graph");
    let Some(Value::List(items)) = graphs.map(|item| item.value).next() else {
        return Err(Problem::whole_file("there is no 'graph [ ... ]' in this file"));
    };
    let mut graph = Graph::default();
    for Item { key, line, value } in items {
        match (&*key, value) {
            ("node", Value::List(own)) => {
                let attributes = attributes(own);
                let id = attributes.get("id").cloned();
                let id = id.ok_or_else(|| Problem::at(of_line(line), "this node has no 'id'"))?;
                graph.vertices.push(Vertex { id, line, attributes });
            }
            ("edge", Value::List(own)) => {
                let attributes = attributes(own);
                let end = |key: &str| {
                    let end = attributes.get(key).cloned();
                    end.ok_or_else(|| Problem::at(of_line(line), format!("this edge has no '{key}'")))
                };
                let (source, target) = (end("source")?, end("target")?);
                graph.edges.push(Edge { source, target, line, attributes });
            }
            ("directed", Value::Text(text)) => graph.directed = text == "1",
            ("label" | "name" | "network", Value::Text(text)) => graph.name = graph.name.or(Some(text)),
            _ => {}
        }
    }
    Ok(graph)
}

/// Attributes by their names in lower case. Those that are lists have no text, and are noted unless they are known.
fn attributes(items: Vec<Item>) -> Attributes {
    let attribute = |item: Item| match item.value {
        Value::Text(text) => Some((item.key, text)),
        Value::List(_) if super::KNOWN.contains(&&*item.key) => None,
        Value::List(_) => Some((item.key, String::new())),
    };
    items.into_iter().filter_map(attribute).collect()
}

fn of_line(line: usize) -> Span {
    Span { line, column: 1, len: 1 }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Parser<'a> {
    /// Keys and values up to the end of the text, or to the bracket that closes the list.
    fn items(&mut self, is_nested: bool) -> Result<Vec<Item>, Problem> {
        let mut items = Vec::new();
        loop {
            let line = self.skip();
            let key = match self.word() {
                "" => match (self.next(), is_nested) {
                    (None, false) | (Some(']'), true) => return Ok(items),
                    (None, true) => return Err(Problem::at(of_line(line), "a '[' is not closed")),
                    (Some(other), _) => {
                        return Err(Problem::at(
                            of_line(line),
                            format!("'{other}' is not the name of a key"),
                        ));
                    }
                },
                word => word.to_ascii_lowercase(),
            };
            self.skip();
            let value = match self.peek() {
                Some('[') => {
                    self.next();
                    Value::List(self.items(true)?)
                }
                Some('"') => {
                    self.next();
                    Value::Text(self.string(line)?)
                }
                _ => match self.word() {
                    "" => return Err(Problem::at(of_line(line), format!("'{key}' has no value"))),
                    word => Value::Text(word.to_owned()),
                },
            };
            items.push(Item { key, line, value });
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        self.line += usize::from(next == '\n');
        Some(next)
    }

    /// Skips white space and comments. Returns the line that follows.
    fn skip(&mut self) -> usize {
        while let Some(next) = self.peek() {
            match next {
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                c if c.is_whitespace() => {
                    self.next();
                }
                _ => break,
            }
        }
        self.line
    }

    /// Characters up to white space or a bracket.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c: char| c.is_whitespace() || "[]\"".contains(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// The rest of a string, with its character entities replaced.
    fn string(&mut self, line: usize) -> Result<String, Problem> {
        let rest = self.rest();
        let Some(len) = rest.find('"') else {
            return Err(Problem::at(of_line(line), "a string is not closed"));
        };
        self.at += len + 1;
        self.line += rest[..len].matches('\n').count();
        let raw = &rest[..len];
        // Python's writers leave a bare '&' in labels, which is then the character itself.
        Ok(quick_xml::escape::unescape(raw).map_or_else(|_| raw.to_owned(), |text| text.into_owned()))
    }
}
