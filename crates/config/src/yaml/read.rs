use super::{Entry, Node, Scalar, Style, Value};
use crate::error::{Problem, Span};
use belljar_base::Map;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use std::rc::Rc;

/// Upper bound on the nesting depth.
const MAX_DEPTH: usize = 64;

/// Parses a text with a single document. `None` if it contains only comments.
pub(crate) fn parse(text: &str) -> Result<Option<Rc<Node>>, Problem> {
    let mut reader = Reader { parser: Parser::new_from_str(text), text, anchors: Map::new(), depth: 0 };
    let mut document = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(document),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event if document.is_none() => {
                let node = reader.node(event, span)?;
                document = Some(node).filter(|n| !n.is_null());
            }
            _ => {
                return Err(Problem::at(span, "there is a second document in this file")
                    .help("an experiment is one document: remove the '---'"));
            }
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    text: &'a str,
    anchors: Map<usize, Rc<Node>>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let len = match span.start.line() == span.end.line() {
                    true => span.end.col().saturating_sub(span.start.col()),
                    false => 1,
                };
                let at = Span { line: span.start.line(), column: span.start.col() + 1, len: len.max(1) };
                Ok((event, at))
            }
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn syntax(&self, error: &ScanError) -> Problem {
        let at = Span { line: error.marker().line(), column: error.marker().col() + 1, len: 1 };
        // A tab is reported only near the error: within a block of text tabs are valid.
        let near = self.text.lines().enumerate().take(at.line).skip(at.line.saturating_sub(2));
        let tab = near.into_iter().find_map(|(index, line)| {
            let column = line.chars().take_while(|c| c.is_whitespace()).position(|c| c == '\t')?;
            Some(Span { line: index + 1, column: column + 1, len: 1 })
        });
        if let Some(tab) = tab {
            return Problem::at(tab, "a tab indents this line").help("YAML is indented by spaces only");
        }
        let info = error.info();
        let help = if info.contains("mapping values") {
            Some("a value that contains ': ' must stand in quotes")
        } else if info.contains("quoted scalar") {
            Some("close the quote")
        } else if info.contains("unknown anchor") {
            Some("an anchor is defined, as &name, before it is used")
        } else if at.line > self.text.lines().count() {
            Some("the file ends too early: something before is not closed")
        } else {
            None
        };
        Problem::at(at, format!("this is not YAML: {info}")).maybe_help(help.map(str::to_owned))
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Rc<Node>, Problem> {
        let (value, anchor) = match event {
            Event::Alias(anchor) => {
                let target = self.anchors.get(&anchor).cloned();
                return target.ok_or_else(|| Problem::at(span, "this alias is part of what it refers to"));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain if tag.is_none_or(|t| t.suffix != "str") => Style::Plain,
                    ScalarStyle::Literal => Style::Literal,
                    _ => Style::Quoted,
                };
                (Value::Scalar(Scalar { text: text.into_owned(), style }), anchor)
            }
            Event::SequenceStart(anchor, _) => (self.sequence(span)?, anchor),
            Event::MappingStart(anchor, _) => (self.mapping(span)?, anchor),
            // The parser has reported missing parts before.
            other => return Err(Problem::at(span, format!("this is not YAML: {other:?}"))),
        };
        let node = Rc::new(Node { span, value });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Ok(node)
    }

    fn descend(&mut self, span: Span) -> Result<(), Problem> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(Problem::at(span, format!("this is nested more than {MAX_DEPTH} levels deep"))),
            false => Ok(()),
        }
    }

    fn sequence(&mut self, span: Span) -> Result<Value, Problem> {
        self.descend(span)?;
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                self.depth -= 1;
                return Ok(Value::Sequence(items));
            }
            items.push(self.node(event, span)?);
        }
    }

    fn mapping(&mut self, span: Span) -> Result<Value, Problem> {
        self.descend(span)?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: Map<String, Span> = Map::new();
        let mut merges = Vec::new();
        loop {
            let (event, key_span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key_node = self.node(event, key_span)?;
            let Value::Scalar(Scalar { text: key, style }) = &key_node.value else {
                return Err(Problem::at(key_span, format!("a key must be a word, not {}", key_node.kind())));
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            // https://yaml.org/type/merge.html
            if key == "<<" && *style == Style::Plain {
                merges.push((key_span, value));
                continue;
            }
            if let Some(first) = seen.insert(key.clone(), key_span) {
                return Err(Problem::at(key_span, format!("the key '{key}' stands here twice"))
                    .help(format!("it is first set in line {}: keep one of them", first.line)));
            }
            entries.push(Entry { key: key.clone(), key_span, value });
        }
        for (span, value) in merges {
            merge(&mut entries, &mut seen, span, &value)?;
        }
        self.depth -= 1;
        Ok(Value::Mapping(entries))
    }
}

/// Adds the entries of `value`, a mapping or a list of mappings, whose keys do not exist yet.
fn merge(
    entries: &mut Vec<Entry>,
    seen: &mut Map<String, Span>,
    span: Span,
    value: &Node,
) -> Result<(), Problem> {
    match &value.value {
        Value::Mapping(more) => {
            for entry in more.iter().filter(|e| !seen.contains_key(&e.key)).cloned().collect::<Vec<_>>() {
                seen.insert(entry.key.clone(), entry.key_span);
                entries.push(entry);
            }
            Ok(())
        }
        Value::Sequence(items) if items.iter().all(|i| matches!(i.value, Value::Mapping(_))) => {
            items.iter().try_for_each(|item| merge(entries, seen, span, item))
        }
        _ => Err(Problem::at(
            span,
            format!("'<<' takes a mapping or a list of mappings, not {}", value.kind()),
        )
        .help("write <<: *anchor")),
    }
}
