//! Tables.

use super::definitions::poison;
use super::{Checker, Symbol};
use crate::ast::{self, Direction, PropertyValue};
use crate::source::Span;
use crate::typed::*;
use crate::types::{DeclId, DefKind, Type};
use num_bigint::BigInt;
use std::rc::Rc;

impl Checker {
    pub(super) fn table(&mut self, decl: &ast::Decl, properties: &[ast::Property]) -> DeclId {
        let mut table = Table { largest_priority_wins: true, ..Table::default() };
        let mut seen: Vec<Rc<str>> = Vec::new();
        let mut has_actions = false;
        for property in properties {
            let name = property.name.name.clone();
            if seen.contains(&name) {
                self.error(property.name.span, format!("property '{name}' is given twice"));
                continue;
            }
            self.check_annotations(&property.annotations);
            seen.push(name.clone());
            match &property.value {
                PropertyValue::Key(keys) => {
                    for (value, kind, annotations) in keys {
                        if matches!(&value.kind, ast::ExprKind::Name(name, _) if name.name == decl.name.name)
                        {
                            self.error(value.span, "a key cannot name its own table");
                        }
                        let key = self.key(value, kind, annotations);
                        table.key.push((key, kind.name.clone(), annotations.clone()));
                    }
                }
                PropertyValue::Actions(actions) => {
                    has_actions = true;
                    for (action, annotations) in actions {
                        if let Some(action) = self.action_ref(action, annotations) {
                            if let Some(other) = table.actions.iter().find(|other| other.decl == action.decl)
                            {
                                let place = other.span;
                                let name = self.program.decls[action.decl].name.name.clone();
                                self.error(action.span, format!("action '{name}' is listed twice"))
                                    .notes
                                    .push((place, "the first".into()));
                                continue;
                            }
                            table.actions.push(action);
                        }
                    }
                }
                _ => {}
            }
        }
        if !has_actions {
            self.error(decl.name.span, format!("table '{}' has no actions", decl.name.name)).help =
                Some("write actions = { NoAction; }".into());
        }
        self.check_order(&decl.name, properties);
        for property in properties {
            match &property.value {
                PropertyValue::Value(value) => self.property(&mut table, property, value),
                PropertyValue::Entries(_) => {
                    table.has_entries = true;
                    table.const_entries = property.is_const;
                }
                _ => {}
            }
        }
        if table.default.is_none() && !seen.iter().any(|name| &**name == "default_action") {
            self.implicit_default(&mut table);
        }
        for property in properties {
            if let PropertyValue::Entries(entries) = &property.value {
                self.entries(&mut table, &decl.name, property, entries, properties);
            }
        }
        let id = self.program.add_decl(
            &decl.name,
            &decl.annotations,
            Type::Poison,
            DeclKind::Table(Rc::new(table)),
        );
        self.program.decls[id].ty = Type::Table(id);
        self.declare(&decl.name, Symbol::Decl(id));
        id
    }

    /// Reports `entries` that precede `key`.
    fn check_order(&mut self, name: &ast::Ident, properties: &[ast::Property]) {
        let position = |found: fn(&PropertyValue) -> bool| properties.iter().position(|p| found(&p.value));
        let entries = position(|value| matches!(value, PropertyValue::Entries(_)));
        let key = position(|value| matches!(value, PropertyValue::Key(_)));
        if let (Some(entries), Some(key)) = (entries, key)
            && entries < key
        {
            self.error(properties[entries].name.span, "the entries come before the key").help =
                Some("write the key first".into());
        }
        let actions = position(|value| matches!(value, PropertyValue::Actions(_)));
        let default = properties.iter().position(|property| &*property.name.name == "default_action");
        if let (Some(default), Some(actions)) = (default, actions)
            && default < actions
        {
            self.error(name.span, "the default action comes before the actions")
                .notes
                .push((properties[default].name.span, "move this after 'actions'".into()));
        }
    }

    fn key(&mut self, value: &ast::Expr, kind: &ast::Ident, annotations: &ast::Annotations) -> Expr {
        self.check_annotations(annotations);
        let value = self.value(value);
        let ty = self.inferred.resolved(&value.ty);
        if !has_name(&value) && Self::annotation(annotations, "name").is_none() {
            self.error(value.span, "the control plane has no name for this key").help =
                Some("write @name(\"...\") after the match kind".into());
        }
        if !self.match_kinds.contains(&kind.name) {
            let near = super::closest(&kind.name, self.match_kinds.iter());
            let error = self.error(kind.span, format!("match kind '{}' is not declared", kind.name));
            error.help = near.map(|near| format!("did you mean '{near}'?"));
        }
        let fits = match &ty {
            Type::Bool | Type::Error | Type::Bit(_) | Type::Signed(_) | Type::Poison => true,
            Type::Int => value.int().is_some(),
            Type::Named(id, _) => {
                matches!(
                    self.program.def(*id).kind,
                    DefKind::Enum(_) | DefKind::SerEnum(..) | DefKind::NewType(_)
                )
            }
            _ => false,
        };
        if !fits || ty == Type::Int {
            let shown = self.show(&ty);
            self.error(value.span, format!("a key cannot have the type {shown}"));
            return poison(value.span);
        }
        value
    }

    /// Action that an expression names, with its arguments.
    fn named_action<'a>(&mut self, action: &'a ast::Expr) -> Option<(DeclId, Option<&'a [ast::Arg]>)> {
        let (name, global, args) = match &action.kind {
            ast::ExprKind::Name(name, global) => (name, *global, None),
            ast::ExprKind::Call(callee, _, args) => match &callee.kind {
                ast::ExprKind::Name(name, global) => (name, *global, Some(args.as_slice())),
                _ => {
                    self.error(action.span, "an action is expected here");
                    return None;
                }
            },
            _ => {
                self.error(action.span, "an action is expected here");
                return None;
            }
        };
        let found = self.lookup(&name.name, global).iter().find_map(|symbol| match symbol {
            Symbol::Decl(decl) if matches!(self.program.decls[*decl].kind, DeclKind::Action(..)) => {
                Some(*decl)
            }
            _ => None,
        });
        if found.is_none() {
            let names = self.scopes.iter().flat_map(|scope| scope.keys());
            let near = super::closest(&name.name, names);
            let known = !self.lookup(&name.name, global).is_empty();
            let problem = if known { "not an action" } else { "not declared" };
            let error = self.error(name.span, format!("'{}' is {problem}", name.name));
            error.help = near.filter(|_| !known).map(|near| format!("did you mean '{near}'?"));
        }
        let found = found?;
        self.used.insert(found);
        Some((found, args))
    }

    fn action_ref(&mut self, action: &ast::Expr, annotations: &ast::Annotations) -> Option<ActionRef> {
        self.check_annotations(annotations);
        let (decl, args) = self.named_action(action)?;
        let signature = self.program.action_signature(decl);
        let directed = signature.params.iter().filter(|param| param.direction != Direction::None).count();
        let given = args.map_or(0, <[ast::Arg]>::len);
        if given != directed {
            let name = self.program.decls[decl].name.name.clone();
            let place = signature.params.iter().find(|param| param.direction != Direction::None);
            let place = place.map(|param| param.name.span);
            let error =
                self.error(action.span, format!("'{name}' needs {directed} arguments here, not {given}"));
            error.help =
                Some("those of the parameters with a direction; the control plane gives the others".into());
            if let Some(place) = place {
                error.notes.push((place, "a parameter with a direction".into()));
            }
            return None;
        }
        let mut values = Vec::new();
        for (index, arg) in args.unwrap_or(&[]).iter().enumerate() {
            let param = match &arg.name {
                Some(name) => signature
                    .params
                    .iter()
                    .find(|param| param.name.name == name.name)
                    .unwrap_or(&signature.params[index]),
                None => &signature.params[index],
            };
            let Some(value) = &arg.value else {
                self.error(arg.span, "'_' cannot stand here");
                return None;
            };
            let value = self.value(value);
            if value.ty == Type::Poison {
                return None;
            }
            if super::call::applies(&value) {
                self.error(value.span, "a table cannot be applied in an argument");
                return None;
            }
            let value = match param.direction {
                Direction::Out | Direction::InOut => {
                    if !self.check_lvalue(&value) {
                        return None;
                    }
                    if !self.unify(&value.ty, &param.ty) {
                        let (from, to) = (self.show(&value.ty), self.show(&param.ty));
                        self.error(value.span, format!("expected {to}, found {from}"));
                        return None;
                    }
                    value
                }
                _ => self.coerce(value, &param.ty),
            };
            values.push(value);
        }
        let marked = |name| Self::annotation(annotations, name).is_some();
        if marked("tableonly") && marked("defaultonly") {
            self.error(action.span, "this action is marked @tableonly and @defaultonly").help =
                Some("remove both".into());
        }
        Some(ActionRef { decl, args: values, annotations: annotations.clone(), span: action.span })
    }

    /// Action with control-plane arguments, as default action or in an entry.
    fn action_call(&mut self, table: &Table, action: &ast::Expr) -> Option<(usize, Vec<Expr>)> {
        let (decl, args) = self.named_action(action)?;
        let name = self.program.decls[decl].name.name.clone();
        let Some(index) = table.actions.iter().position(|other| other.decl == decl) else {
            self.error(action.span, format!("'{name}' is not an action of this table")).help =
                Some("add it to 'actions'".into());
            return None;
        };
        let signature = self.program.action_signature(decl);
        let directed = signature.params.iter().filter(|param| param.direction != Direction::None).count();
        let mut args = args.unwrap_or(&[]).iter().collect::<Vec<_>>();
        if args.iter().all(|arg| arg.name.is_some()) {
            let order = |arg: &&ast::Arg| {
                let name = arg.name.as_ref().map(|name| name.name.clone()).unwrap_or_default();
                signature.params.iter().position(|param| param.name.name == name).unwrap_or(usize::MAX)
            };
            args.sort_by_key(order);
        }
        let total = signature.params.len();
        let minimum =
            signature.params.iter().filter(|param| param.default.is_none() && !param.optional).count();
        if args.len() < minimum || args.len() > total {
            self.error(action.span, format!("'{name}' takes {total} arguments, not {}", args.len()));
            return None;
        }
        for (position, arg) in args.iter().take(directed).enumerate() {
            let Some(value) = &arg.value else { continue };
            let value = self.value(value);
            if value.ty == Type::Poison {
                return None;
            }
            let listed = table.actions[index].args.get(position);
            if let Some(listed) = listed {
                let value = self.convert(value, &listed.ty).unwrap_or_else(|value| *value);
                if !same(&value, listed) {
                    let listed = listed.span;
                    self.error(value.span, "this argument differs from the one in 'actions'")
                        .notes
                        .push((listed, "in 'actions'".into()));
                    return None;
                }
            }
        }
        let mut values = Vec::new();
        for (position, param) in signature.params.iter().enumerate().skip(directed) {
            let value = match args.get(position) {
                Some(arg) => match &arg.value {
                    Some(value) => self.typed(value, &param.ty),
                    None => poison(arg.span),
                },
                None => match &param.default {
                    Some(default) => default.clone(),
                    None => continue,
                },
            };
            if !self.is_constant(&value) {
                self.error(value.span, "this argument must be known at compile time");
                return None;
            }
            if value.ty == Type::Poison {
                return None;
            }
            values.push(value);
        }
        Some((index, values))
    }

    fn property(&mut self, table: &mut Table, property: &ast::Property, value: &ast::Expr) {
        match &*property.name.name {
            "default_action" => {
                if let Some((index, args)) = self.action_call(table, value) {
                    let only_table =
                        Self::annotation(&table.actions[index].annotations, "tableonly").is_some();
                    if only_table {
                        self.error(value.span, "this action is marked @tableonly").help =
                            Some("choose another default".into());
                    }
                    table.default = Some((index, args, property.is_const));
                }
            }
            "size" => {
                let size = self.value(value);
                match size.int() {
                    Some(size) if *size >= BigInt::from(0) => table.size = Some(size.clone()),
                    _ if size.ty == Type::Poison => {}
                    _ if self.is_constant(&size) && size.bool().is_none() => {
                        table.properties.push(("size".into(), size, property.annotations.clone()))
                    }
                    _ => {
                        self.error(value.span, "the size of a table must be a number known at compile time");
                    }
                }
            }
            "largest_priority_wins" => {
                let value = self.typed(value, &Type::Bool);
                match value.bool() {
                    Some(flag) => table.largest_priority_wins = flag,
                    None => {
                        if value.ty != Type::Poison {
                            self.error(value.span, "this must be true or false");
                        }
                    }
                }
            }
            "priority_delta" => {
                self.value(value);
            }
            name => {
                let checked = self.expr(value);
                if checked.ty == Type::Poison {
                    return;
                }
                if matches!(checked.kind, ExprKind::Type(_)) {
                    self.error(value.span, "a type is not a value");
                    return;
                }
                table.properties.push((name.into(), checked, property.annotations.clone()));
            }
        }
    }

    /// Sets the default action of a table that declares none: `NoAction`.
    fn implicit_default(&mut self, table: &mut Table) {
        let found = self.lookup("NoAction", true).iter().find_map(|symbol| match symbol {
            Symbol::Decl(decl) => Some(*decl),
            _ => None,
        });
        let Some(decl) = found else { return };
        let index = table.actions.iter().position(|action| action.decl == decl).unwrap_or_else(|| {
            let name = ast::Ident { name: "defaultonly".into(), span: Span::default() };
            let annotation = ast::Annotation::marker(name);
            table.actions.push(ActionRef {
                decl,
                args: Vec::new(),
                annotations: Rc::from([annotation]),
                span: Span::default(),
            });
            table.actions.len() - 1
        });
        table.default = Some((index, Vec::new(), false));
    }

    fn entries(
        &mut self,
        table: &mut Table,
        name: &ast::Ident,
        property: &ast::Property,
        entries: &[ast::Entry],
        all: &[ast::Property],
    ) {
        if table.key.is_empty() && !entries.is_empty() {
            self.error(name.span, "a table without a key has no entries")
                .notes
                .push((property.name.span, "the entries".into()));
            return;
        }
        self.check_priorities(table, property, entries, all);
        let delta = all.iter().find(|other| &*other.name.name == "priority_delta").and_then(|other| {
            match &other.value {
                PropertyValue::Value(value) => self.value(value).int().cloned(),
                _ => None,
            }
        });
        let delta = delta.unwrap_or_else(|| BigInt::from(1));
        let types = table.key.iter().map(|(key, ..)| self.inferred.resolved(&key.ty)).collect::<Vec<_>>();
        let mut priority: Option<BigInt> = None;
        let count = entries.len();
        for entry in entries {
            let keys = self.keysets(&entry.keys, &types, entry.span, "table");
            let action = self.action_call(table, &entry.action);
            let explicit = entry.priority.as_ref().and_then(|value| {
                let checked = self.value(value);
                if checked.int().is_none() && checked.ty != Type::Poison {
                    self.error(value.span, "a priority must be a number known at compile time");
                }
                if property.is_const && checked.ty != Type::Poison {
                    self.error(entry.span, "const entries have no priorities: their order decides").help =
                        Some("remove it, or write entries without const".into());
                }
                checked.int().cloned()
            });
            let next = match (&priority, table.largest_priority_wins && !property.is_const) {
                (None, true) => BigInt::from(1) + &delta * (BigInt::from(count) - 1),
                (None, false) => BigInt::from(1),
                (Some(last), true) => last - &delta,
                (Some(last), false) => last + &delta,
            };
            self.check_annotations(&entry.annotations);
            let annotation = Self::annotation(&entry.annotations, "priority");
            let annotation = annotation.and_then(|annotation| annotation.numbers().next()).cloned();
            let raw = annotation.is_some();
            let value = annotation.or(explicit).unwrap_or(next);
            if value > BigInt::from(i32::MAX) || value < BigInt::from(0) {
                self.error(name.span, format!("an entry would have the priority {value}"))
                    .notes
                    .push((entry.span, "this entry".into()));
                return;
            }
            priority = Some(value.clone());
            self.check_keys(table, &keys);
            let (Some((action, args)), true) = (action, keys.len() == types.len()) else { continue };
            if Self::annotation(&table.actions[action].annotations, "defaultonly").is_some() {
                self.error(entry.span, "this action is marked @defaultonly").help =
                    Some("remove the mark, or choose another action".into());
            }
            let exact = table.key.iter().all(|(_, kind, _)| &**kind == "exact");
            let twice = |other: &&Entry| other.keys.iter().zip(&keys).all(|(a, b)| same(a, b));
            if let (true, Some(first)) = (exact, table.entries.iter().find(twice)) {
                let first = first.span;
                self.error(entry.span, "an earlier entry has the same key")
                    .notes
                    .push((first, "the earlier entry".into()));
            }
            table.entries.push(Entry { keys, action, args, priority: value, raw, span: entry.span });
        }
    }

    /// Reports priorities in a table whose match kinds allow at most one matching entry, and a list of
    /// entries whose first one has no priority although others do.
    fn check_priorities(
        &mut self,
        table: &Table,
        property: &ast::Property,
        entries: &[ast::Entry],
        all: &[ast::Property],
    ) {
        let given = |entry: &&ast::Entry| {
            entry.priority.is_some() || Self::annotation(&entry.annotations, "priority").is_some()
        };
        let Some(first) = entries.iter().find(|entry| entry.priority.is_some()) else { return };
        let several =
            table.key.iter().any(|(_, kind, _)| matches!(&**kind, "ternary" | "range" | "optional"));
        if !several {
            let key = all.iter().find(|property| matches!(property.value, PropertyValue::Key(_)));
            let error = self.error(first.span, "one entry at most matches: there are no priorities");
            error.notes.extend(key.map(|key| (key.name.span, "of this key".to_string())));
        } else if let Some(open) = entries.first().filter(|entry| !given(entry))
            && !property.is_const
        {
            self.error(open.span, "the first entry needs a priority, since another has one").help =
                Some("write priority=N: before it".into());
        }
    }

    /// Reports key sets that are not constant or not allowed for the match kind.
    fn check_keys(&mut self, table: &Table, keys: &[Expr]) {
        for (set, (_, kind, _)) in keys.iter().zip(&table.key) {
            if !self.is_constant(set) {
                self.error(set.span, "the keys of an entry must be known at compile time");
                continue;
            }
            let problem = match (&set.kind, &**kind) {
                (ExprKind::Mask(..), "exact" | "range" | "optional") => "a mask",
                (ExprKind::Range(..), "exact" | "lpm" | "ternary" | "optional") => "a range",
                _ => continue,
            };
            self.error(set.span, format!("{problem} cannot be an entry of a key that matches {kind}"));
        }
    }
}

/// True for a key that has a name in the control plane by itself: fields, elements, slices, masks and tests of
/// validity, as in p4c.
fn has_name(key: &Expr) -> bool {
    match &key.kind {
        ExprKind::Decl(_) | ExprKind::Int(..) | ExprKind::Poison => true,
        ExprKind::Field(base, _) | ExprKind::StackMember(base, _) | ExprKind::Slice(base, ..) => {
            has_name(base)
        }
        ExprKind::Index(base, index) | ExprKind::Binary("&", base, index) => {
            has_name(base) && has_name(index)
        }
        ExprKind::Call(call) => {
            matches!(&call.callee, Callee::Builtin(Builtin::IsValid, object) if has_name(object))
        }
        _ => false,
    }
}

/// Structural equality of expressions; source ranges are ignored.
fn same(a: &Expr, b: &Expr) -> bool {
    let all = |x: &[Expr], y: &[Expr]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y));
    match (&a.kind, &b.kind) {
        (ExprKind::Int(x, _), ExprKind::Int(y, _)) => x == y,
        (ExprKind::Bool(x), ExprKind::Bool(y)) => x == y,
        (ExprKind::Member(x), ExprKind::Member(y)) => x == y,
        (ExprKind::Decl(x), ExprKind::Decl(y)) => x == y,
        (ExprKind::Field(x, n), ExprKind::Field(y, m)) => n == m && same(x, y),
        (ExprKind::StackMember(x, n), ExprKind::StackMember(y, m)) => n == m && same(x, y),
        (ExprKind::Index(x, i), ExprKind::Index(y, j)) => same(x, y) && same(i, j),
        (ExprKind::Slice(x, h, l, _), ExprKind::Slice(y, i, m, _)) => h == i && l == m && same(x, y),
        (ExprKind::Unary(o, x), ExprKind::Unary(p, y)) => o == p && same(x, y),
        (ExprKind::Cast(x), ExprKind::Cast(y)) => same(x, y),
        (ExprKind::Binary(o, x, z), ExprKind::Binary(p, y, w)) => o == p && same(x, y) && same(z, w),
        (ExprKind::Tuple(x), ExprKind::Tuple(y)) => all(x, y),
        _ => false,
    }
}
