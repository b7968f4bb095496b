//! Tables and their actions.

use super::instance::constant;
use super::{Bound, DeclKind, Instance, Lower, Result, Val, Where, build};
use crate::ast::Direction;
use crate::ir::*;
use crate::source::{Diagnostic, Span};
use crate::typed::{self, Builtin, Callee, Expr, ExprKind};
use crate::types::{DeclId, DefKind, Type};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

/// Size of a table that declares none, or 0.
const DEFAULT_SIZE: u64 = 1024;

/// Places of a table whose program says this size.
fn places(size: u64) -> u64 {
    if size == 0 { DEFAULT_SIZE } else { size }
}

impl Lower<'_> {
    /// Index of a declaration's table; emits the computation of its keys.
    pub(super) fn table(&mut self, id: DeclId, out: &mut Vec<Stmt>) -> Result<usize> {
        let DeclKind::Table(table) = &self.decl(id).kind else {
            return self.error(self.decl(id).name.span, "this is not a table");
        };
        let table = table.clone();
        let known = self.tables.get(&(self.path.clone(), id)).copied();
        let mut keys = Vec::new();
        let mut selectors = Vec::new();
        for (position, (key, kind, annotations)) in table.key.iter().enumerate() {
            let earlier = known.map(|known| self.out.tables[known].keys.clone());
            let (field, validity) = self.key(key, earlier, position, out)?;
            let name =
                super::instance::annotation_text(annotations, "name").unwrap_or_else(|| self.text(key));
            if &**kind == "selector" {
                selectors.push(field);
                continue;
            }
            if &**kind == "lpm" && keys.iter().any(|key: &Key| key.kind == "lpm") {
                return self.error(key.span, "a table of this target has at most one lpm key");
            }
            keys.push(Key { field, validity, kind: kind.to_string(), name });
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let index = self.out.tables.len();
        self.tables.insert((self.path.clone(), id), index);
        let name = self.full_name(id);
        let span = self.decl(id).name.span;
        self.claim("table", &name, span)?;
        self.out.tables.push(Table {
            span,
            name: name.clone(),
            keys,
            actions: Vec::new(),
            default: None,
            entries: Vec::new(),
            size: match &table.size {
                Some(size) => match size.to_u64() {
                    Some(size) => places(size),
                    None => return self.error(span, format!("a size of {size} is too large")),
                },
                None => DEFAULT_SIZE,
            },
            profile: None,
            counter: false,
            meter: None,
            timeout: false,
        });
        self.properties(index, &table, selectors, &name)?;
        let mut actions = Vec::new();
        for action in &table.actions {
            actions.push(self.action(action)?);
        }
        for action in &actions {
            self.check_direct_uses(index, *action);
        }
        self.out.tables[index].actions = actions;
        if let Some((action, args, is_const)) = &table.default {
            let args = self.constants(args)?;
            self.out.tables[index].default = Some((*action, args, *is_const));
        }
        for (position, entry) in table.entries.iter().enumerate() {
            let mut keys = Vec::new();
            for (set, (_, kind, _)) in entry.keys.iter().zip(&table.key) {
                if &**kind != "selector" {
                    keys.push(self.keyset(set)?);
                }
            }
            let args = self.constants(&entry.args)?;
            let mut priority = entry.priority.to_i64().unwrap_or(i64::MAX);
            let several = |kind: &str| matches!(kind, "ternary" | "range" | "optional");
            if !table.key.iter().any(|(_, kind, _)| several(kind)) {
                priority = position as i64 + 1;
            } else if table.largest_priority_wins && !table.const_entries && !entry.raw {
                // In BMv2 the smallest priority wins. Belljar's P4Runtime server subtracts priorities from
                // the same number.
                priority = i64::from(i32::MAX) - priority;
            }
            let span = entry.span;
            self.out.tables[index].entries.push(Entry { keys, action: entry.action, args, priority, span });
        }
        self.check_entries(index)?;
        self.info.tables.insert(name, (id, index));
        Ok(index)
    }

    /// Warns of an action that executes a direct meter other than that of its table.
    fn check_direct_uses(&mut self, index: usize, action: usize) {
        let table = &self.out.tables[index];
        for (name, span) in self.action_uses.get(&action).into_iter().flatten() {
            if table.meter.as_ref() != Some(name) {
                let text = format!(
                    "'{name}' is not the meter of the table '{}': the result stays as it was",
                    table.name
                );
                let warning = Diagnostic::warning("invalid", *span, text).note(table.span, "the table");
                self.warnings.push(warning.help("name it in the table's 'meters', or write another action"));
            }
        }
    }

    fn check_entries(&self, index: usize) -> Result<()> {
        let table = &self.out.tables[index];
        if table.profile.is_some()
            && let Some(entry) = table.entries.first()
        {
            return self
                .error(entry.span, "a table with an action profile cannot have entries on this target");
        }
        for entry in &table.entries {
            for (set, key) in entry.keys.iter().zip(&table.keys) {
                if matches!((set, &*key.kind), (KeySet::Any, "exact")) {
                    return self.error(entry.span, "an exact key needs a value in every entry");
                }
            }
        }
        Ok(())
    }

    /// Field that a key matches on, and whether its validity is meant instead. Other expressions are copied
    /// to a temporary.
    fn key(
        &mut self,
        key: &Expr,
        earlier: Option<Vec<Key>>,
        position: usize,
        out: &mut Vec<Stmt>,
    ) -> Result<(FieldRef, bool)> {
        let value = self.val(key, out)?;
        let scalar = self.types.scalar_of(key)?;
        let ex = match value {
            Val::Ex(ex) => ex,
            Val::Varbit(field) => return Ok((field, false)),
            _ => return self.error(key.span, "this cannot be a key on this target"),
        };
        match &ex {
            Ex::Field(field) if matches!(field.header, HeaderRef::Instance(_)) => {
                return Ok((field.clone(), false));
            }
            Ex::Op("d2b", None, inner) => {
                if let Ex::Field(field) = &**inner
                    && matches!(field.header, HeaderRef::Instance(_))
                {
                    return Ok((field.clone(), false));
                }
            }
            Ex::Valid(header) => {
                return Ok((FieldRef { header: header.clone(), field: 0, scalar: Scalar::Bool }, true));
            }
            _ => {}
        }
        let field = match earlier.and_then(|keys| keys.get(position).map(|key| key.field.clone())) {
            Some(field) => field,
            None => self.temporary("key", scalar),
        };
        out.push(Stmt::Assign(field.clone(), if build::is_truth(&ex) { build::to_data(ex) } else { ex }));
        Ok((field, false))
    }

    /// Text of a key, its default control-plane name.
    pub(super) fn text(&self, key: &Expr) -> String {
        key_text(self.program, key)
    }

    fn properties(
        &mut self,
        index: usize,
        table: &typed::Table,
        selectors: Vec<FieldRef>,
        name: &str,
    ) -> Result<()> {
        for (property, value, annotations) in &table.properties {
            let span = value.span;
            match &**property {
                "implementation" | "counters" | "meters" | "action_profile" | "action_selector" => {
                    let Val::Instance(mut instance) = self.val(value, &mut Vec::new())? else {
                        return self.error(span, format!("'{property}' needs an instance"));
                    };
                    if let ExprKind::Call(_) = value.kind {
                        let mut named = (*instance).clone();
                        // Constructed inline: named by `@name`, otherwise after the table.
                        let given = super::instance::annotation_text(annotations, "name");
                        named.path = given.unwrap_or_else(|| name.to_string());
                        named.annotations = annotations.clone();
                        instance = std::rc::Rc::new(named);
                    }
                    let kind = self.program.defs[instance.def].name.name.clone();
                    match &*kind {
                        "action_profile" | "action_selector" => {
                            self.profile(&instance)?;
                            let found =
                                self.out.profiles.iter().position(|profile| profile.name == instance.path);
                            self.out.tables[index].profile = found;
                            if let Some(found) = found {
                                let profile = &mut self.out.profiles[found];
                                profile.pipeline = self.pipeline;
                                if profile.input.is_empty() {
                                    profile.input = selectors.clone();
                                } else if profile.input != selectors {
                                    let text = "another table has this selector with other selector keys";
                                    return self.error(span, text);
                                }
                            }
                        }
                        "direct_counter" => {
                            self.bind_direct(&instance, name, false, span)?;
                            self.out.tables[index].counter = true;
                        }
                        "direct_meter" => {
                            self.bind_direct(&instance, name, true, span)?;
                            self.out.tables[index].meter = Some(instance.path.clone());
                        }
                        _ => {
                            return self.error(
                                span,
                                format!("'{kind}' cannot be the {property} of a table on this target"),
                            );
                        }
                    }
                }
                "support_timeout" | "idle_timeout" => {
                    let Val::Ex(Ex::Bool(timeout)) = self.val(value, &mut Vec::new())? else {
                        let text = format!("'{property}' must be true or false, known at compile time");
                        return self.error(span, text);
                    };
                    self.out.tables[index].timeout = timeout;
                }
                "size" => {
                    let size = constant(&self.val(value, &mut Vec::new())?).and_then(|size| size.to_u64());
                    let Some(size) = size else {
                        return self
                            .error(span, "the size of a table must be a number known at compile time");
                    };
                    self.out.tables[index].size = places(size);
                }
                _ => {
                    let text = format!("the target has no table property '{property}': it has no effect");
                    let warning = Diagnostic::warning("invalid", span, text);
                    self.warnings.push(warning.help("@noWarn(\"invalid\") before the table silences this"));
                }
            }
        }
        Ok(())
    }

    fn bind_direct(&mut self, instance: &Instance, table: &str, meter: bool, span: Span) -> Result<()> {
        let arrays = if meter { &mut self.out.meters } else { &mut self.out.counters };
        match arrays.iter_mut().find(|array| array.name == instance.path) {
            Some(array) if array.table.as_deref().is_none_or(|other| other == table) => {
                array.table = Some(table.to_string());
            }
            Some(_) => return self.error(span, "this is already attached to another table"),
            None => {
                let kind = if meter { "direct_meter" } else { "direct_counter" };
                self.claim(kind, &instance.path, span)?;
                let array = Array {
                    name: instance.path.clone(),
                    size: 0,
                    width: 0,
                    unit: instance.unit(0).into(),
                    table: Some(table.to_string()),
                    target: None,
                    direct: true,
                };
                let arrays = if meter { &mut self.out.meters } else { &mut self.out.counters };
                arrays.push(array.clone());
                self.info.array(kind, &array, (instance.annotations.clone(), span), None);
            }
        }
        Ok(())
    }

    /// Index of a table action. Actions are shared unless the table binds arguments.
    fn action(&mut self, action: &typed::ActionRef) -> Result<usize> {
        let key = (self.path.clone(), action.decl);
        if action.args.is_empty()
            && let Some(index) = self.actions.get(&key)
        {
            return Ok(*index);
        }
        let decl = self.decl(action.decl);
        let DeclKind::Action(signature, body) = &decl.kind else {
            return self.error(action.span, "this is not an action");
        };
        let top = self.program.top_decls.contains(&action.decl);
        let path = if top { "" } else { &*self.path };
        let name = super::instance::join(path, &decl.name.name, &decl.annotations);
        let mut params = Vec::new();
        for param in &signature.params {
            if param.direction != Direction::None {
                continue;
            }
            let Some(scalar) = self.types.scalar(&self.types.ty(&param.ty)) else {
                return self.error(param.name.span, "the control plane of this target only gives numbers");
            };
            if matches!(scalar, Scalar::Varbit(_)) {
                return self.error(param.name.span, "the control plane of this target gives no varbit");
            }
            // BMv2 delivers a signed argument as unsigned bits.
            let data = build::wrap(Ex::Data(params.len(), scalar), scalar);
            let data = if scalar == Scalar::Bool { build::to_bool(data) } else { data };
            self.bound.insert(param.decl, Bound::Value(Val::Ex(data)));
            let name = super::instance::annotation_text(&param.annotations, "name");
            params.push((name.unwrap_or_else(|| param.name.name.to_string()), scalar));
        }
        let place = std::mem::replace(&mut self.place, Where::TableAction);
        let outer = std::mem::take(&mut self.direct_uses);
        let lowered = self.action_body(action, signature, body);
        self.place = place;
        let uses = std::mem::replace(&mut self.direct_uses, outer);
        let body = lowered?;
        self.use_action(&name, action.decl);
        self.out.actions.push(Action { name, params, body });
        let index = self.out.actions.len() - 1;
        self.action_uses.insert(index, uses);
        if action.args.is_empty() {
            self.actions.insert(key, index);
        }
        Ok(index)
    }

    /// Records that an action is visible to the control plane.
    pub(super) fn use_action(&mut self, name: &str, decl: DeclId) {
        self.info.actions.insert(name.to_string());
        if self.program.top_decls.contains(&decl) {
            let blocks = &self.info.blocks;
            let own = |path: &String| self.path == *path || self.path.starts_with(&format!("{path}."));
            let block = blocks.iter().map(|(path, _)| path).find(|path| own(path)).cloned();
            let entry = (block.unwrap_or_default(), decl);
            if !self.info.global_actions.contains(&entry) {
                self.info.global_actions.push(entry);
            }
        }
    }

    fn action_body(
        &mut self,
        action: &typed::ActionRef,
        signature: &std::rc::Rc<super::Signature>,
        body: &[typed::Stmt],
    ) -> Result<Vec<Stmt>> {
        let mut out = Vec::new();
        let directed = super::Signature {
            type_params: Vec::new(),
            params: signature
                .params
                .iter()
                .filter(|param| param.direction != Direction::None)
                .cloned()
                .collect(),
            result: signature.result.clone(),
        };
        let args = action.args.iter().cloned().map(Some).collect::<Vec<_>>();
        let reached = self.reached(action.decl);
        let pending = std::mem::take(&mut self.pending_copies);
        let returns = std::mem::take(&mut self.returns);
        let loops = std::mem::take(&mut self.loops);
        let result =
            self.inline_action(&std::rc::Rc::new(directed), body, &args, reached, action.span, &mut out);
        self.pending_copies = pending;
        self.returns = returns;
        self.loops = loops;
        result?;
        Ok(out)
    }

    fn constants(&mut self, args: &[Expr]) -> Result<Vec<BigInt>> {
        let mut list = Vec::new();
        for arg in args {
            list.push(self.number(arg)?);
        }
        Ok(list)
    }

    pub(super) fn number(&mut self, expr: &Expr) -> Result<BigInt> {
        match self.ex(expr, &mut Vec::new())? {
            Ex::Int(value) => Ok(unsigned(value, self.types.scalar(&self.types.ty(&expr.ty)))),
            Ex::Bool(value) => Ok(BigInt::from(u8::from(value))),
            _ => self.error(expr.span, "this must be known at compile time"),
        }
    }

    /// Key set that an expression of an entry or a `select` denotes.
    pub(super) fn keyset(&mut self, set: &Expr) -> Result<KeySet> {
        Ok(match &set.kind {
            ExprKind::Any => KeySet::Any,
            ExprKind::Mask(value, mask) => KeySet::Mask(self.number(value)?, self.number(mask)?),
            ExprKind::Range(low, high) => KeySet::Range(self.number(low)?, self.number(high)?),
            _ => KeySet::Value(self.number(set)?),
        })
    }
}

/// Unsigned bit pattern of a number.
fn unsigned(value: BigInt, scalar: Option<Scalar>) -> BigInt {
    match scalar {
        Some(Scalar::Signed(width)) => crate::check::fold::wrap(&value, &crate::types::Type::Bit(width)),
        _ => value,
    }
}

/// Text of a key, its default control-plane name. `@name` of a field replaces the field name.
pub fn key_text(program: &typed::Program, key: &Expr) -> String {
    let text = |key: &Expr| key_text(program, key);
    match &key.kind {
        ExprKind::Decl(id) => program.decls[*id].name.name.to_string(),
        ExprKind::Field(base, name) => {
            let given = match &base.ty {
                Type::Named(def, _) => match &program.defs[*def].kind {
                    DefKind::Fields(_, fields) => fields.iter().find(|field| field.name.name == *name),
                    _ => None,
                },
                _ => None,
            };
            let given = given.and_then(|field| super::instance::annotation_text(&field.annotations, "name"));
            match given.as_deref().map(|given| (given, given.strip_prefix('.'))) {
                Some((_, Some(absolute))) => absolute.to_string(),
                Some((given, None)) => format!("{}.{given}", text(base)),
                None => format!("{}.{name}", text(base)),
            }
        }
        ExprKind::StackMember(base, name) => format!("{}.{name}", text(base)),
        ExprKind::Index(base, index) => format!("{}[{}]", text(base), text(index)),
        ExprKind::Slice(base, high, low, bases) => {
            let [high, low] = [(*high, bases[0]), (*low, bases[1])].map(|(at, base)| base.show(&at.into()));
            format!("{}[{high}:{low}]", text(base))
        }
        ExprKind::Int(value, base) => base.show(value),
        ExprKind::Binary(op, left, right) => format!("{} {op} {}", text(left), text(right)),
        ExprKind::Call(call) => match &call.callee {
            Callee::Builtin(Builtin::IsValid, object) => format!("{}.$valid$", text(object)),
            _ => "key".into(),
        },
        ExprKind::Cast(inner) => text(inner),
        _ => "key".into(),
    }
}
