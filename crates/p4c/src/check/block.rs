//! Controls and parsers.

use super::definitions::poison;
use super::{Checker, Place, Symbol, closest};
use crate::ast::{self, DeclKind as Ast};
use crate::source::Span;
use crate::typed::*;
use crate::types::*;
use belljar_base::Set;
use std::rc::Rc;

impl Checker {
    fn block_head(
        &mut self,
        decl: &ast::Decl,
        signature: &ast::Signature,
        constructor: &[ast::Param],
        parser: bool,
    ) -> (DefId, Rc<Signature>) {
        let what = if parser { "parser" } else { "control" };
        if let Some(param) = signature.type_params.first() {
            self.error(param.span, format!("a {what} with a body cannot have type parameters"));
        }
        let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::Param);
        let signature = Rc::new(self.signature(signature, what));
        let place = if parser { Place::Parser } else { Place::Control };
        let params = self.within(place, Type::Void, |c| c.params(constructor, "constructor"));
        let constructor = Rc::new(Signature { type_params: Vec::new(), params, result: Type::Void });
        self.program.defs[id].kind = DefKind::Block(parser, signature.clone(), constructor);
        self.watch_block(id);
        (id, signature)
    }

    pub(super) fn control(
        &mut self,
        decl: &ast::Decl,
        signature: &ast::Signature,
        constructor: &[ast::Param],
        locals: &[ast::Decl],
        body: &ast::Stmt,
    ) {
        let id = self.scoped(|c| {
            let (id, _) = c.block_head(decl, signature, constructor, false);
            let block = c.within(Place::Control, Type::Void, |c| {
                c.scoped(|c| {
                    let locals = c.locals(&decl.name, locals);
                    let body = match &body.kind {
                        ast::StmtKind::Block(body) => c.scoped(|c| c.statements(body)),
                        _ => Vec::new(),
                    };
                    Block { locals, body, states: Vec::new() }
                })
            });
            c.program.bodies.insert(id, Rc::new(block));
            id
        });
        self.declare_def(&decl.name, id);
    }

    fn locals(&mut self, block: &ast::Ident, locals: &[ast::Decl]) -> Vec<Stmt> {
        let mut list = Vec::new();
        for decl in locals {
            self.check_annotations(&decl.annotations);
            match decl.kind {
                Ast::Action(..) => self.control_plane_name(decl, &block.name, "action"),
                Ast::Table(..) => self.control_plane_name(decl, &block.name, "table"),
                _ => {}
            }
            match &decl.kind {
                Ast::Const(ty, value) => self.constant(decl, ty, value),
                Ast::Var(ty, value) => list.extend(self.variable(decl, ty, value.as_ref())),
                Ast::Instance(ty, args, methods) => {
                    list.extend(self.instance(decl, ty, args, methods.as_deref()).map(Stmt::Declare));
                }
                Ast::Action(params, body) => {
                    let id = self.action(decl, params, body);
                    list.push(Stmt::Declare(id));
                }
                Ast::Table(properties) => {
                    let id = self.table(decl, properties);
                    self.watch(id, "table");
                    list.push(Stmt::Declare(id));
                }
                Ast::ValueSet(ty, size) => list.push(Stmt::Declare(self.value_set(decl, ty, size))),
                Ast::Function(..) => {
                    self.error(decl.span, "functions cannot be declared here").help =
                        Some("declare it at the top of the program".into());
                }
                _ => {
                    self.error(decl.span, "this cannot be declared here");
                }
            }
        }
        list
    }

    fn value_set(&mut self, decl: &ast::Decl, ty: &ast::TypeExpr, size: &ast::Expr) -> DeclId {
        let mut element = self.value_ty(ty);
        if element == Type::Int {
            self.error(ty.span, "the values of a set have a width").help = Some("write bit<32>".into());
            element = Type::Poison;
        }
        let size_value = self.value(size);
        if !self.is_constant(&size_value) {
            self.error(size.span, "the size of a value set must be known at compile time");
        }
        let ty = Type::Set(Rc::new(element));
        let id =
            self.program.add_decl(&decl.name, &decl.annotations, ty, DeclKind::ValueSet(Rc::new(size_value)));
        self.declare(&decl.name, Symbol::Decl(id));
        id
    }

    pub(super) fn parser(
        &mut self,
        decl: &ast::Decl,
        signature: &ast::Signature,
        constructor: &[ast::Param],
        locals: &[ast::Decl],
        states: &[ast::State],
    ) {
        let id = self.scoped(|c| {
            let (id, _) = c.block_head(decl, signature, constructor, true);
            let block = c.within(Place::Parser, Type::Void, |c| {
                c.scoped(|c| {
                    let locals = c.locals(&decl.name, locals);
                    let states = c.states(decl.name.span, states);
                    Block { locals, body: Vec::new(), states }
                })
            });
            c.program.bodies.insert(id, Rc::new(block));
            id
        });
        self.declare_def(&decl.name, id);
    }

    fn states(&mut self, parser: Span, states: &[ast::State]) -> Vec<State> {
        let mut names: Vec<Rc<str>> = Vec::new();
        for state in states {
            let name = &state.name;
            if matches!(&*name.name, "accept" | "reject") {
                self.error(name.span, format!("state '{}' is built in and cannot be declared", name.name));
            }
            if names.contains(&name.name) {
                self.error(name.span, format!("state '{}' is declared twice", name.name));
            }
            names.push(name.name.clone());
        }
        if !names.iter().any(|name| &**name == "start") {
            self.error(parser, "this parser has no state 'start'");
        }
        names.push("accept".into());
        names.push("reject".into());
        let mut reached: Set<Rc<str>> = Set::new();
        let mut result = Vec::new();
        for state in states {
            let (body, next) = self.scoped(|c| {
                let body = c.statements(&state.body);
                let next = match &state.transition {
                    None => {
                        c.warn(
                            "parser-transition",
                            state.name.span,
                            format!("state '{}' has no transition: it rejects", state.name.name),
                        );
                        Transition::To("reject".into())
                    }
                    Some(ast::Transition::To(name)) => {
                        c.check_state(name, &names);
                        reached.insert(name.name.clone());
                        Transition::To(name.name.clone())
                    }
                    Some(ast::Transition::Select(span, keys, cases)) => {
                        reached.extend(cases.iter().map(|case| case.next.name.clone()));
                        c.select(*span, keys, cases, &names)
                    }
                };
                (body, next)
            });
            result.push(State { name: state.name.clone(), body, next });
        }
        self.check_ends(parser, &result);
        for state in states {
            if &*state.name.name != "start" && !reached.contains(&state.name.name) {
                self.warn(
                    "unused",
                    state.name.span,
                    format!("no transition leads to state '{}'", state.name.name),
                );
            }
        }
        result
    }

    /// Reports a parser in which no path from `start` reaches `accept` or `reject`.
    fn check_ends(&mut self, parser: Span, states: &[State]) {
        let mut waiting: Vec<Rc<str>> = vec!["start".into()];
        let mut seen: Set<Rc<str>> = Set::new();
        while let Some(name) = waiting.pop() {
            let Some(state) = states.iter().find(|state| state.name.name == name) else { return };
            let next = match &state.next {
                Transition::To(next) => vec![next.clone()],
                Transition::Select(_, cases) => {
                    let any = |sets: &[Expr]| sets.iter().all(|set| matches!(set.kind, ExprKind::Any));
                    if !cases.iter().any(|(sets, ..)| any(sets)) {
                        return;
                    }
                    cases.iter().map(|(_, next, _)| next.clone()).collect()
                }
            };
            waiting.extend(next.into_iter().filter(|name| seen.insert(name.clone())));
        }
        self.error(parser, "no path through this parser reaches accept or reject");
    }

    fn check_state(&mut self, name: &ast::Ident, names: &[Rc<str>]) {
        if !names.contains(&name.name) {
            let near = closest(&name.name, names.iter());
            let error = self.error(name.span, format!("state '{}' is not declared", name.name));
            error.help = near.map(|near| format!("did you mean '{near}'?"));
        }
    }

    fn select(
        &mut self,
        span: Span,
        keys: &[ast::Expr],
        cases: &[ast::SelectCase],
        names: &[Rc<str>],
    ) -> Transition {
        let keys = keys.iter().map(|key| self.select_key(key)).collect::<Vec<_>>();
        let types = keys.iter().map(|key| self.inferred.resolved(&key.ty)).collect::<Vec<_>>();
        let mut result = Vec::new();
        let mut complete: Option<Span> = None;
        for case in cases {
            if let Some(first) = complete {
                self.warn("unreachable", case.span, "this case is never reached")
                    .notes
                    .push((first, "this matches everything".into()));
            }
            self.check_state(&case.next, names);
            let from = self.diagnostics.len();
            let sets = self.keysets(&case.keys, &types, case.span, "select");
            for set in &sets {
                self.check_bounds(set);
            }
            self.in_context(from, span, "in this select");
            if sets.iter().all(|set| matches!(set.kind, ExprKind::Any)) {
                complete = Some(case.span);
            }
            result.push((sets, case.next.name.clone(), case.span));
        }
        if cases.is_empty() {
            self.warn("parser-transition", span, "this select has no case: it always rejects");
        }
        Transition::Select(keys, result)
    }

    /// Reports bounds of a range or operands of a mask that are not constants.
    fn check_bounds(&mut self, set: &Expr) {
        let (ExprKind::Mask(a, b) | ExprKind::Range(a, b)) = &set.kind else { return };
        for bound in [a, b] {
            if !self.is_constant(bound) {
                self.error(bound.span, "this must be known at compile time");
                return;
            }
        }
    }

    fn select_key(&mut self, key: &ast::Expr) -> Expr {
        let value = self.value(key);
        let ty = self.inferred.resolved(&value.ty);
        let fits = match &ty {
            Type::Bool | Type::Bit(_) | Type::Signed(_) | Type::Error | Type::Poison => true,
            Type::Int => value.int().is_some(),
            Type::Tuple(_) => true,
            Type::Named(id, _) => {
                matches!(
                    self.program.def(*id).kind,
                    DefKind::Enum(_) | DefKind::SerEnum(..) | DefKind::NewType(_)
                )
            }
            _ => false,
        };
        if !fits || (ty == Type::Int) {
            let shown = self.show(&ty);
            self.error(key.span, format!("select is not defined for {shown}"));
            return poison(key.span);
        }
        value
    }

    /// Checks the key sets of one `select` case or table entry, one per key.
    pub(super) fn keysets(
        &mut self,
        sets: &[ast::Expr],
        types: &[Type],
        span: Span,
        what: &str,
    ) -> Vec<Expr> {
        if types.is_empty() && !sets.is_empty() {
            // `select()` without keys has nothing to compare.
            return Vec::new();
        }
        let any = |set: &ast::Expr| matches!(set.kind, ast::ExprKind::Default | ast::ExprKind::DontCare);
        if let [set] = sets
            && any(set)
        {
            let kind = || ExprKind::Any;
            return types.iter().map(|ty| Expr { kind: kind(), ty: ty.clone(), span: set.span }).collect();
        }
        // A value set matches all keys together.
        if let [set] = sets {
            let checked = self.expr(set);
            if let (ExprKind::Decl(_), Type::Set(element)) = (&checked.kind, &checked.ty) {
                let element = self.inferred.resolved(element);
                if types.len() > 1 || !matches!(element, Type::Bit(_)) {
                    let (mut parts, mut keys) = (Vec::new(), Vec::new());
                    self.program.leaves(&element, &mut parts);
                    types.iter().for_each(|ty| self.program.leaves(ty, &mut keys));
                    let fits = parts == keys;
                    if !fits && !types.contains(&Type::Poison) {
                        let shown = self.show(&element);
                        self.error(span, format!("a value set of {shown} does not fit the keys"));
                    }
                    return vec![checked];
                }
            }
            if let [ty] = types {
                let checked = match checked {
                    // `{ set }` for a single key.
                    Expr { kind: ExprKind::Tuple(mut items), .. }
                        if items.len() == 1
                            && self.program.fields(ty).is_none()
                            && !matches!(ty, Type::Tuple(_)) =>
                    {
                        items.remove(0)
                    }
                    other => other,
                };
                return vec![self.keyset_checked(checked, ty)];
            }
            if let ExprKind::Tuple(items) = checked.kind
                && items.len() == types.len()
            {
                return items
                    .into_iter()
                    .zip(types)
                    .map(|(item, ty)| self.keyset_checked(item, ty))
                    .collect();
            }
        }
        if sets.len() != types.len() {
            self.error(span, format!("this {what} has {} keys, the case has {}", types.len(), sets.len()));
            return Vec::new();
        }
        let mut list = Vec::new();
        for (set, ty) in sets.iter().zip(types) {
            let checked = self.expr(set);
            list.push(self.keyset_checked(checked, ty));
        }
        list
    }

    fn keyset_checked(&mut self, set: Expr, ty: &Type) -> Expr {
        let span = set.span;
        if *ty == Type::Poison || set.ty == Type::Poison {
            return poison(span);
        }
        if matches!(set.kind, ExprKind::Type(_)) {
            self.error(span, "a type is not a value");
            return poison(span);
        }
        if matches!(set.kind, ExprKind::Call(_)) {
            self.error(span, "a set cannot call a function").help = Some("call it before".into());
            return poison(span);
        }
        if matches!(set.ty, Type::Void | Type::Action | Type::Function | Type::Table(_)) {
            self.error(span, "this is not a value");
            return poison(span);
        }
        match set.kind {
            ExprKind::Any => Expr { ty: ty.clone(), ..set },
            ExprKind::Mask(a, _) | ExprKind::Range(a, _) if self.conflicting(&a, ty) => {
                let (from, to) = (self.show(&a.ty), self.show(ty));
                self.error(span, format!("the key is {to}, this set {from}"));
                poison(span)
            }
            ExprKind::Mask(a, b) => {
                let (a, b) = (self.coerce_number(*a, ty), self.coerce_number(*b, ty));
                Expr { kind: ExprKind::Mask(Box::new(a), Box::new(b)), ty: ty.clone(), span }
            }
            ExprKind::Range(a, b) => {
                let (a, b) = (self.coerce_number(*a, ty), self.coerce_number(*b, ty));
                if let (Some(low), Some(high)) = (a.int(), b.int())
                    && low > high
                {
                    self.warn("invalid", span, "this range is empty: its end is below its start");
                }
                Expr { kind: ExprKind::Range(Box::new(a), Box::new(b)), ty: ty.clone(), span }
            }
            _ => match &set.ty {
                Type::Set(element) => {
                    let element = self.inferred.resolved(element);
                    if element != *ty {
                        let (from, to) = (self.show(&element), self.show(ty));
                        self.error(span, format!("the key is {to}, the value set holds {from}"));
                    }
                    set
                }
                Type::Int if *ty != self.program.underlying(ty) => {
                    let number = self.program.underlying(ty);
                    self.coerce(set, &number)
                }
                _ => self.coerce(set, ty),
            },
        }
    }

    fn conflicting(&self, set: &Expr, ty: &Type) -> bool {
        let from = self.inferred.resolved(&set.ty);
        from != Type::Int && self.program.underlying(&from) != self.program.underlying(ty)
    }

    fn coerce_number(&mut self, value: Expr, ty: &Type) -> Expr {
        let number = self.program.underlying(ty);
        if !matches!(number, Type::Bit(_) | Type::Signed(_)) {
            let shown = self.show(ty);
            let span = value.span;
            self.error(span, format!("masks and ranges are not defined for {shown}"));
            return poison(span);
        }
        if self.inferred.resolved(&value.ty) == *ty {
            return value;
        }
        self.coerce(value, &number)
    }
}
