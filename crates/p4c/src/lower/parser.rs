//! Parsers. A parser that another one applies is inlined: its states are added with a name prefix.

use super::{Bound, Instance, Lower, Result, Val};
use crate::ir::*;
use crate::source::Span;
use crate::typed::{self, Callee, DeclKind, Expr, ExprKind, Transition};
use crate::types::Type;
use belljar_base::Map;
use std::rc::Rc;

impl Lower<'_> {
    /// Inlines a parser at the current statement.
    pub(super) fn enter_parser(&mut self, instance: &Rc<Instance>, out: &mut Vec<Stmt>) -> Result<()> {
        let rest = self.state_name("resume");
        let entry = self.parser_states(instance, Some(rest.clone()), &format!("{}.", instance.path))?;
        out.push(Stmt::Enter(entry, rest));
        Ok(())
    }

    fn state_name(&mut self, base: &str) -> String {
        let mut name = base.to_string();
        let mut number = 0;
        while !self.state_names.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        name
    }

    /// Lowers the states of a parser whose parameters are bound; returns the name of the start state.
    pub(super) fn parser_states(
        &mut self,
        instance: &Instance,
        accept: Option<String>,
        prefix: &str,
    ) -> Result<String> {
        let Some(block) = self.program.bodies.get(&instance.def).cloned() else {
            return self.error(instance.span, "this parser has no states");
        };
        let path = std::mem::replace(&mut self.path, instance.path.clone());
        self.bind_constructor(instance);
        let mut names: Map<Rc<str>, Option<String>> = Map::new();
        for state in &block.states {
            let name = self.state_name(&format!("{prefix}{}", state.name.name));
            names.insert(state.name.name.clone(), Some(name));
        }
        names.insert("accept".into(), accept);
        names.insert("reject".into(), None);
        let mut init = Vec::new();
        self.block_locals(instance.def, &mut init)?;
        let start = names.get("start").cloned().flatten().unwrap_or_default();
        let mut entry = start.clone();
        if !init.is_empty() {
            entry = self.state_name(&format!("{prefix}init"));
            self.out.states.push(State { name: entry.clone(), body: init, next: Next::To(Some(start)) });
        }
        for state in &block.states {
            self.state(state, &names)?;
        }
        self.path = path;
        Ok(entry)
    }

    fn state(&mut self, state: &typed::State, names: &Map<Rc<str>, Option<String>>) -> Result<()> {
        let mut body = Vec::new();
        self.statements(&state.body, &mut body)?;
        let target = |name: &Rc<str>| names.get(name).cloned().flatten();
        let next = match &state.next {
            Transition::To(name) => Next::To(target(name)),
            Transition::Select(keys, cases) => {
                let mut lowered = Vec::new();
                for key in keys {
                    self.select_key(key, &mut lowered, &mut body)?;
                }
                let mut list = Vec::new();
                for (sets, name, span) in cases {
                    list.push((self.case(keys, sets, *span)?, target(name)));
                }
                let any = |case: &Case| match case {
                    Case::Keys(sets) => sets.iter().all(|set| matches!(set, KeySet::Any)),
                    Case::ValueSet(_) => false,
                };
                if !list.iter().any(|(case, _)| any(case)) {
                    let everything = Case::Keys(lowered.iter().map(|_| KeySet::Any).collect());
                    list.push((everything, Some(self.no_match())));
                }
                Next::Select(lowered, list)
            }
        };
        let name = names.get(&state.name.name).cloned().flatten().unwrap_or_default();
        self.out.states.push(State { name, body, next });
        Ok(())
    }

    /// State that rejects packets without a matching `select` case with `error.NoMatch`.
    fn no_match(&mut self) -> String {
        if let Some(name) = &self.no_match {
            return name.clone();
        }
        let name = self.state_name("no_match");
        let number = self.program.errors.iter().position(|error| &**error == "NoMatch").unwrap_or(0);
        let body = vec![Stmt::Verify(Ex::Bool(false), super::build::int(number))];
        self.out.states.push(State { name: name.clone(), body, next: Next::To(None) });
        self.no_match = Some(name.clone());
        name
    }

    fn select_key(&mut self, key: &Expr, keys: &mut Vec<(Ex, Scalar)>, body: &mut Vec<Stmt>) -> Result<()> {
        self.lazy = ahead(key);
        let value = self.val(key, body);
        self.lazy = false;
        let value = value?;
        let ty = key.ty.clone();
        for (ex, scalar) in self.inputs(&value, &ty, key.span)? {
            let direct = match &ex {
                Ex::Field(field) => !matches!(
                    field.header,
                    HeaderRef::Element(..) | HeaderRef::UnionElement(..) | HeaderRef::Next(_)
                ),
                Ex::Lookahead(..) => true,
                _ => false,
            };
            let ex = if direct { ex } else { self.saved(ex, scalar, body) };
            keys.push((ex, scalar));
        }
        Ok(())
    }

    fn case(&mut self, keys: &[Expr], sets: &[Expr], span: Span) -> Result<Case> {
        if let [set] = sets
            && let ExprKind::Decl(id) = &set.kind
            && let DeclKind::ValueSet(_) = &self.decl(*id).kind
        {
            return Ok(Case::ValueSet(self.full_name(*id)));
        }
        let mut list = Vec::new();
        for (set, key) in sets.iter().zip(keys) {
            if let Type::Set(_) = set.ty {
                return self.error(span, "a value set must stand for all keys on this target");
            }
            self.flat_keyset(set, &self.types.ty(&key.ty), &mut list)?;
        }
        Ok(Case::Keys(list))
    }

    fn flat_keyset(&mut self, set: &Expr, ty: &Type, list: &mut Vec<KeySet>) -> Result<()> {
        if let Some((_, fields)) = self.types.fields(ty) {
            match &set.kind {
                ExprKind::Any => {
                    for (_, ty) in fields {
                        self.flat_keyset(set, &ty, list)?;
                    }
                }
                ExprKind::Tuple(items) => {
                    for (item, (_, ty)) in items.iter().zip(fields) {
                        self.flat_keyset(item, &ty, list)?;
                    }
                }
                _ => {
                    let value = self.val(set, &mut Vec::new())?;
                    for (ex, _) in self.inputs(&value, ty, set.span)? {
                        match ex {
                            Ex::Int(value) => list.push(KeySet::Value(value)),
                            _ => return self.error(set.span, "this must be known at compile time"),
                        }
                    }
                }
            }
            return Ok(());
        }
        let set = self.keyset(set)?;
        list.push(set);
        Ok(())
    }

    /// Binds the parameters of a package block to storage.
    pub(super) fn bind_block(&mut self, instance: &Instance, values: &[Bound]) {
        let crate::types::DefKind::Block(_, signature, _) = &self.program.defs[instance.def].kind else {
            return;
        };
        for (param, value) in signature.params.iter().zip(values) {
            self.bound.insert(param.decl, value.clone());
        }
    }

    pub(super) fn packet() -> Bound {
        Bound::Value(Val::Text("packet".into()))
    }
}

/// True if the key is a lookahead or a part of one.
fn ahead(key: &Expr) -> bool {
    match &key.kind {
        ExprKind::Call(call) => matches!(&call.callee, Callee::Method(_, name) if &**name == "lookahead"),
        ExprKind::Field(base, _) | ExprKind::Slice(base, ..) => ahead(base),
        _ => false,
    }
}
