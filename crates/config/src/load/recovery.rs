//! Recovery from errors: loading stops at the first stage that fails, and this finds what later stages would have said.
//!
//! The part of the tree that a problem points at is cut out, and the rest is loaded again, until nothing new is found. Each part is
//! the smallest one: a value with its key, an item of a list. Cutting may cause problems of its own, which are not reported:
//!
//! - a problem of a part around a cut, such as a key that is missing there now;
//! - a problem of a key beside a cut, such as one that another key rules out;
//! - a problem at a name that a cut has, such as a link of a host that was cut;
//! - a problem marked as [relational](Problem::relational), such as a queue without effect, if a cut may be its cause.
//!
//! A part with such a problem is cut as a whole, with its section's item, since none of it can be judged. What is withheld for
//! these reasons although it is an error of its own is reported by the next run.

use crate::error::{Problem, Problems, Span};
use crate::yaml::{Entry, Node, Value};
use belljar_base::{Map, Set};
use std::rc::Rc;

/// Number of times that the rest of a file is loaded at most.
const ROUNDS: usize = 24;
/// Sections without influence on problems elsewhere.
const ALONE: &[&str] = &["experimental", "explore", "properties"];

/// All problems of a file in the order of the file. `first` are those that loading the whole `tree` found; `load` loads a part of it.
pub(super) fn all(
    tree: &Rc<Node>,
    first: Problem,
    mut load: impl FnMut(&Rc<Node>) -> Result<(), Problem>,
) -> Problem {
    let mut cuts = Cuts::default();
    let mut found = Problems::default();
    let mut next = first.separate();
    for problem in &next {
        found.add(problem.clone());
    }
    let rounds = if found.is_full() { 0 } else { ROUNDS };
    for round in 0..rounds {
        let is_whole = round == 0;
        let judged: Vec<_> = next
            .into_iter()
            .map(|problem| {
                let chain = chain_to(tree, problem.position());
                (is_whole || cuts.is_independent(&problem, &chain), chain, problem)
            })
            .collect();
        let mut is_new = is_whole;
        for (is_independent, chain, problem) in judged {
            is_new |= cuts.cut(&chain, is_independent);
            if is_independent {
                is_new |= found.add(problem);
            }
        }
        if !is_new || found.is_full() {
            break;
        }
        match load(&cuts.rest(tree)) {
            Ok(()) => break,
            Err(problem) => next = problem.separate(),
        }
    }
    found.in_order().expect("the first problem is one of them")
}

/// An entry of a mapping, by the position of its key, or an item of a list, by its own. Aliases share positions, and are cut together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Entry(Position),
    Item(Position),
}

/// Line and column.
type Position = (usize, usize);

fn position(span: Span) -> Position {
    (span.line, span.column)
}

/// A part with its key and value in the tree.
#[derive(Clone, Copy)]
struct Link<'a> {
    part: Part,
    key: Option<&'a str>,
    node: &'a Node,
}

/// Parts that contain a position, from the section down to the smallest; none for the file as a whole.
fn chain_to(tree: &Node, at: Option<Span>) -> Vec<Link<'_>> {
    let Some(at) = at.filter(|at| *at != tree.span) else { return Vec::new() };
    let mut search = Search { at, chain: Vec::new(), best: None, seen: Seen::default() };
    search.descend(tree);
    search.best.map(|(_, chain)| chain).unwrap_or_default()
}

/// Nodes of the tree that were visited. Aliases share them, so that few lines can stand for a tree that fills the memory.
#[derive(Default)]
struct Seen(Set<*const Node>);

impl Seen {
    /// True if a node with parts of its own is visited for the first time, and for every scalar.
    fn is_first(&mut self, node: &Node) -> bool {
        matches!(node.value, Value::Scalar(_)) || self.0.insert(node)
    }
}

struct Search<'a> {
    at: Span,
    chain: Vec<Link<'a>>,
    /// Deepest chain so far: one with exactly this position, or else the last one that begins before.
    best: Option<((bool, Position, usize), Vec<Link<'a>>)>,
    seen: Seen,
}

impl<'a> Search<'a> {
    fn descend(&mut self, node: &'a Node) {
        match &node.value {
            Value::Scalar(_) => {}
            Value::Sequence(items) => {
                for item in items {
                    let part = Part::Item(position(item.span));
                    self.visit(Link { part, key: None, node: item }, &[item.span]);
                }
            }
            Value::Mapping(entries) => {
                for Entry { key, key_span, value } in entries {
                    let part = Part::Entry(position(*key_span));
                    self.visit(Link { part, key: Some(key), node: value }, &[*key_span, value.span]);
                }
            }
        }
    }

    fn visit(&mut self, link: Link<'a>, spans: &[Span]) {
        self.chain.push(link);
        for span in spans.iter().filter(|span| position(**span) <= position(self.at)) {
            let rank = (*span == self.at, position(*span), self.chain.len());
            if self.best.as_ref().is_none_or(|(best, _)| rank > *best) {
                self.best = Some((rank, self.chain.clone()));
            }
        }
        if self.seen.is_first(link.node) {
            self.descend(link.node);
        }
        self.chain.pop();
    }
}

/// Parts that were cut out.
#[derive(Default)]
struct Cuts {
    parts: Set<Part>,
    /// Parts around those.
    around: Set<Part>,
    /// Names in those: words that others may refer to.
    names: Set<String>,
    /// True if a cut part has influence on others.
    has_influence: bool,
}

impl Cuts {
    /// True if a problem does not follow from the cuts.
    fn is_independent(&self, problem: &Problem, chain: &[Link]) -> bool {
        let Some(last) = chain.last() else { return !(problem.is_relational && self.has_influence) };
        let is_around = self.around.contains(&last.part) || self.parts.contains(&last.part);
        let is_of_key = problem.position().is_some_and(|at| last.part == Part::Entry(position(at)));
        let word = match (last.key, &last.node.value) {
            (Some(key), _) if is_of_key => Some(key),
            (_, Value::Scalar(scalar)) => Some(scalar.text.as_str()),
            (key, _) => key,
        };
        // A key that another one rules out or demands.
        let is_beside =
            is_of_key && chain.iter().rev().nth(1).is_some_and(|around| self.around.contains(&around.part));
        let is_of_name = word.is_some_and(|word| names_in(word).any(|name| self.names.contains(name)));
        !(is_around || is_beside || is_of_name || (problem.is_relational && self.has_influence))
    }

    /// Cuts the part that a problem points at: the smallest, or one around it if that is gone already. The part with a problem that
    /// follows from others is cut as an item of its section. Returns false if there is nothing to cut.
    fn cut(&mut self, chain: &[Link], is_independent: bool) -> bool {
        let wanted = if is_independent { chain.len() } else { chain.len().min(2) };
        let depth = (1..=wanted).rev().find(|depth| !self.parts.contains(&chain[depth - 1].part));
        let Some(depth) = depth else { return false };
        let link = chain[depth - 1];
        self.parts.insert(link.part);
        self.around.extend(chain[..depth - 1].iter().map(|link| link.part));
        self.has_influence |= !chain[0].key.is_some_and(|section| ALONE.contains(&section));
        self.names.extend(link.key.map(str::to_owned).filter(|_| depth == 2));
        self.learn(link.node, &mut Seen::default());
        true
    }

    fn learn(&mut self, node: &Node, seen: &mut Seen) {
        if !seen.is_first(node) {
            return;
        }
        match &node.value {
            Value::Scalar(scalar) => self.names.extend(names_in(&scalar.text).map(str::to_owned)),
            Value::Sequence(items) => items.iter().for_each(|item| self.learn(item, seen)),
            Value::Mapping(entries) => entries.iter().for_each(|entry| self.learn(&entry.value, seen)),
        }
    }

    /// The tree without the parts that were cut.
    fn rest(&self, tree: &Rc<Node>) -> Rc<Node> {
        self.rest_of(tree, &mut Map::new())
    }

    /// A node without the parts that were cut. `made` has those that were made so far: aliases share them again.
    fn rest_of(&self, node: &Rc<Node>, made: &mut Map<*const Node, Rc<Node>>) -> Rc<Node> {
        if let Some(known) = made.get(&Rc::as_ptr(node)) {
            return Rc::clone(known);
        }
        let value = match &node.value {
            Value::Scalar(_) => return Rc::clone(node),
            Value::Sequence(items) => {
                let kept = items.iter().filter(|item| !self.parts.contains(&Part::Item(position(item.span))));
                Value::Sequence(kept.map(|item| self.rest_of(item, made)).collect())
            }
            Value::Mapping(entries) => {
                let kept =
                    entries.iter().filter(|e| !self.parts.contains(&Part::Entry(position(e.key_span))));
                let kept = kept.map(|e| Entry { value: self.rest_of(&e.value, made), ..e.clone() });
                Value::Mapping(kept.collect())
            }
        };
        let rest = Rc::new(Node { span: node.span, value });
        made.insert(Rc::as_ptr(node), Rc::clone(&rest));
        rest
    }
}

/// Names in a scalar: `alice` and `eth0` of `alice:eth0`, and the last part of a path. Numbers and quantities are none.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && !word.contains(char::is_whitespace)
            && !matches!(*word, "true" | "false" | "null")
    };
    text.split([':', '/']).filter(is_name)
}
