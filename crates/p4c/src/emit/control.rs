//! Control flow as BMv2's graph of tables and conditionals.
//!
//! The graph is built backwards: a statement is emitted when its successor is known. The longest possible run
//! of statements that apply no table becomes the action of an internal table.

use super::{Result, action, expression, shown_info, source_info, table};
use crate::ir::*;
use crate::source::{Diagnostic, Sources, Span};
use belljar_base::Map;
use num_bigint::BigInt;
use serde_json::{Value, json};

/// A node, or the end of the pipeline.
pub type Node = Option<String>;

/// Successors of a table at one call site.
#[derive(Clone, Debug)]
pub enum After {
    /// One successor for all results.
    Any(Node),
    /// Successors on hit and on miss.
    Hit(Node, Node),
    /// One successor per action of the table.
    Actions(Vec<Node>),
}

pub struct Emitter<'a> {
    pub program: &'a mut Program,
    sources: &'a Sources,
    actions: Vec<Value>,
    labels: Map<Label, Node>,
    nodes: usize,
    tables: Vec<Value>,
    conditionals: Vec<Value>,
    /// Call sites per table: index of the table, successors of each site.
    sites: Map<usize, Vec<After>>,
    /// Field that records the call site from which a table was applied.
    site_fields: Map<usize, FieldRef>,
    seen: Map<usize, usize>,
}

impl<'a> Emitter<'a> {
    pub fn new(program: &'a mut Program, sources: &'a Sources) -> Emitter<'a> {
        Emitter {
            program,
            sources,
            actions: Vec::new(),
            labels: Map::new(),
            nodes: 0,
            tables: Vec::new(),
            conditionals: Vec::new(),
            sites: Map::new(),
            site_fields: Map::new(),
            seen: Map::new(),
        }
    }

    pub fn into_actions(self) -> Vec<Value> {
        self.actions
    }

    /// Emits ingress and egress.
    pub fn pipelines(&mut self) -> Result<Vec<Value>> {
        let mut list = Vec::new();
        let mut table_id = 0;
        let mut conditional_id = 0;
        for (id, (name, body)) in std::mem::take(&mut self.program.pipelines).into_iter().enumerate() {
            self.mark_sites(&body);
            let first = self.sequence(&body, None)?;
            for (index, sites) in std::mem::take(&mut self.sites) {
                if let Some(other) = self.seen.insert(index, id)
                    && other != id
                {
                    let name = &self.program.tables[index].name;
                    return Err(Diagnostic::error(
                        Span::default(),
                        format!("table {name} is applied in ingress and egress"),
                    ));
                }
                self.table(index, sites)?;
            }
            let mut tables = std::mem::take(&mut self.tables);
            let mut conditionals = std::mem::take(&mut self.conditionals);
            tables.reverse();
            conditionals.reverse();
            for table in &mut tables {
                table["id"] = json!(table_id);
                table_id += 1;
            }
            for conditional in &mut conditionals {
                conditional["id"] = json!(conditional_id);
                conditional_id += 1;
            }
            let profiles = table::profiles(self.program, id);
            let mut value = json!({
                "name": name, "id": id, "init_table": first, "tables": tables, "action_profiles": profiles,
                "conditionals": conditionals,
            });
            if let Some(info) = source_info(self.sources, self.program.controls[id]) {
                value["source_info"] = info;
            }
            list.push(value);
        }
        Ok(list)
    }

    /// Allocates the call-site field of each table that is applied at several sites.
    fn mark_sites(&mut self, body: &[Stmt]) {
        let mut counts = Map::new();
        count(body, &mut counts);
        for (table, count) in counts {
            if count > 1 {
                let scalars = &mut self.program.layout.types[0].fields;
                scalars.push((format!("site_{table}"), Scalar::Bit(16)));
                let field = scalars.len() - 1;
                let header = HeaderRef::Instance(0);
                self.site_fields.insert(table, FieldRef { header, field, scalar: Scalar::Bit(16) });
            }
        }
    }

    fn name(&mut self, base: &str) -> String {
        self.nodes += 1;
        format!("{base}_{}", self.nodes)
    }

    fn sequence(&mut self, body: &[Stmt], mut next: Node) -> Result<Node> {
        let mut end = body.len();
        while end > 0 {
            let mut start = end;
            while start > 0 && closed(&body[start - 1]) {
                start -= 1;
            }
            if start < end {
                next = self.action(&body[start..end], next)?;
                end = start;
                continue;
            }
            next = self.open(&body[end - 1], next)?;
            end -= 1;
        }
        Ok(next)
    }

    /// Emits an internal table whose action runs the statements.
    fn action(&mut self, body: &[Stmt], next: Node) -> Result<Node> {
        let primitives = action::primitives(self.program, self.sources, body)?;
        if primitives.is_empty() {
            return Ok(next);
        }
        let name = self.name("act");
        let table = format!("tbl_{name}");
        let id = self.program.actions.len() + self.actions.len();
        self.actions.push(json!({"name": name, "id": id, "runtime_data": [], "primitives": primitives}));
        self.tables.push(json!({
            "name": table, "id": 0, "key": [], "match_type": "exact", "type": "simple", "max_size": 1024,
            "with_counters": false, "support_timeout": false, "direct_meters": null, "action_ids": [id],
            "actions": [name], "base_default_next": next, "next_tables": {name.clone(): next},
            "default_entry": {"action_id": id, "action_const": true, "action_data": [], "action_entry_const": true},
        }));
        Ok(Some(table))
    }

    fn conditional(&mut self, name: String, condition: &Ex, yes: Node, no: Node) -> Node {
        let test = expression(self.program, condition);
        let mut value = json!({
            "name": name, "id": 0, "expression": test, "true_next": yes, "false_next": no,
        });
        if let Ex::At(shown, _) = condition
            && let Some(info) = shown_info(self.sources, shown)
        {
            value["source_info"] = info;
        }
        self.conditionals.push(value);
        Some(name)
    }

    /// Emits a statement that applies tables or jumps out.
    fn open(&mut self, stmt: &Stmt, next: Node) -> Result<Node> {
        match stmt {
            Stmt::If(condition, yes, no) => {
                let yes = self.sequence(yes, next.clone())?;
                let no = self.sequence(no, next)?;
                if yes == no {
                    return Ok(yes);
                }
                let name = self.name("node");
                Ok(self.conditional(name, condition, yes, no))
            }
            Stmt::Block(label, body) => {
                self.labels.insert(*label, next.clone());
                self.sequence(body, next)
            }
            Stmt::Loop(body) => {
                let name = self.name("loop");
                let first = self.sequence(body, Some(name.clone()))?;
                Ok(self.conditional(name, &Ex::Bool(true), first.clone(), first))
            }
            Stmt::Break(label) => Ok(self.labels.get(label).cloned().flatten()),
            Stmt::Apply(table, follow) => self.apply(*table, follow, next),
            other => self.action(std::slice::from_ref(other), next),
        }
    }

    fn apply(&mut self, table: usize, follow: &Follow, next: Node) -> Result<Node> {
        let after = match follow {
            Follow::Any => After::Any(next),
            Follow::Hit(hit, miss) => {
                let hit = self.sequence(hit, next.clone())?;
                let miss = self.sequence(miss, next)?;
                if hit == miss { After::Any(hit) } else { After::Hit(hit, miss) }
            }
            Follow::Actions(cases, default) => {
                let count = self.program.tables[table].actions.len();
                let default = self.sequence(default, next.clone())?;
                let mut nodes = vec![default; count];
                for (labels, body) in cases {
                    let node = self.sequence(body, next.clone())?;
                    for label in labels {
                        nodes[*label] = node.clone();
                    }
                }
                After::Actions(nodes)
            }
        };
        let name = self.program.tables[table].name.clone();
        let sites = self.sites.entry(table).or_default();
        sites.push(after);
        let site = sites.len() - 1;
        match self.site_fields.get(&table) {
            None => Ok(Some(name)),
            Some(field) => {
                let note = Stmt::Assign(field.clone(), Ex::Int(BigInt::from(site)));
                self.action(&[note], Some(name))
            }
        }
    }

    /// Emits the table when all of its call sites are known.
    fn table(&mut self, index: usize, sites: Vec<After>) -> Result<()> {
        let after = match sites.as_slice() {
            [one] => one.clone(),
            _ => self.dispatch(index, &sites)?,
        };
        let mut value = table::table(self.program, index, &after)?;
        if let Some(info) = source_info(self.sources, self.program.tables[index].span) {
            value["source_info"] = info;
        }
        self.tables.push(value);
        Ok(())
    }

    /// Common successors of a table with several call sites: conditionals dispatch on the recorded call site.
    fn dispatch(&mut self, index: usize, sites: &[After]) -> Result<After> {
        let hit = sites.iter().any(|site| matches!(site, After::Hit(..)));
        let actions = sites.iter().any(|site| matches!(site, After::Actions(_)));
        if hit && actions {
            let table = &self.program.tables[index];
            let name = &table.name;
            let message =
                format!("table {name} is applied at several places, by hit at one and by action at another");
            return Err(Diagnostic::error(table.span, message)
                .help("test the action at each place, or write a second table"));
        }
        if hit {
            let hits = sites.iter().map(|site| match site {
                After::Hit(hit, _) => hit.clone(),
                After::Any(next) => next.clone(),
                After::Actions(_) => None,
            });
            let misses = sites.iter().map(|site| match site {
                After::Hit(_, miss) => miss.clone(),
                After::Any(next) => next.clone(),
                After::Actions(_) => None,
            });
            let (hits, misses) = (hits.collect::<Vec<_>>(), misses.collect::<Vec<_>>());
            return Ok(After::Hit(self.by_site(index, &hits), self.by_site(index, &misses)));
        }
        let count = self.program.tables[index].actions.len();
        let mut nodes = Vec::new();
        for action in 0..count {
            let list = sites.iter().map(|site| match site {
                After::Actions(nodes) => nodes[action].clone(),
                After::Any(next) | After::Hit(next, _) => next.clone(),
            });
            let list = list.collect::<Vec<_>>();
            let node = self.by_site(index, &list);
            nodes.push(node);
        }
        Ok(After::Actions(nodes))
    }

    fn by_site(&mut self, index: usize, nodes: &[Node]) -> Node {
        let field = self.site_fields.get(&index).cloned()?;
        let mut result = nodes.last().cloned().flatten();
        for (site, node) in nodes.iter().enumerate().rev().skip(1) {
            if *node == result {
                continue;
            }
            let (left, right) = (Ex::Field(field.clone()), Ex::Int(BigInt::from(site)));
            let test = Ex::Op("==", Some(Box::new(left)), Box::new(right));
            let name = self.name("site");
            result = self.conditional(name, &test, node.clone(), result);
        }
        result
    }
}

fn count(body: &[Stmt], counts: &mut Map<usize, usize>) {
    for stmt in body {
        match stmt {
            Stmt::If(_, yes, no) => {
                count(yes, counts);
                count(no, counts);
            }
            Stmt::Block(_, body) | Stmt::Loop(body) => count(body, counts),
            Stmt::Apply(table, follow) => {
                *counts.entry(*table).or_default() += 1;
                match follow {
                    Follow::Any => {}
                    Follow::Hit(hit, miss) => {
                        count(hit, counts);
                        count(miss, counts);
                    }
                    Follow::Actions(cases, default) => {
                        cases.iter().for_each(|(_, body)| count(body, counts));
                        count(default, counts);
                    }
                }
            }
            _ => {}
        }
    }
}

/// True if the statement applies no table and contains no jump out of itself.
fn closed(stmt: &Stmt) -> bool {
    let mut inside = Vec::new();
    closed_within(stmt, &mut inside)
}

fn closed_within(stmt: &Stmt, inside: &mut Vec<Label>) -> bool {
    match stmt {
        Stmt::Apply(..) | Stmt::Enter(..) => false,
        Stmt::Break(label) => inside.contains(label),
        Stmt::If(_, yes, no) => yes.iter().chain(no).all(|stmt| closed_within(stmt, inside)),
        Stmt::Loop(body) => body.iter().all(|stmt| closed_within(stmt, inside)),
        Stmt::Block(label, body) => {
            inside.push(*label);
            let result = body.iter().all(|stmt| closed_within(stmt, inside));
            inside.pop();
            result
        }
        _ => true,
    }
}
