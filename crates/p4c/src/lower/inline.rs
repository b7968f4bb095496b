//! Inlining of calls.
//!
//! Arguments are copied in and copied out, as the language specifies. A copy is omitted where it is
//! unobservable: when no alias of the argument's layout is reachable during the call.

use super::place::Target;
use super::{Bound, Call, Callee, DeclKind, Lower, MAX_INLINE, Result, Signature, Val, Where, build, layout};
use crate::ast::Direction;
use crate::ir::*;
use crate::source::Span;
use crate::typed::{self, Builtin, Expr, ExprKind};
use crate::types::{DeclId, Type};
use belljar_base::Set;
use std::rc::Rc;

type Covered = Vec<(usize, Option<usize>)>;

impl Lower<'_> {
    /// Lowers a call; returns its result, if any.
    pub(super) fn call(&mut self, call: &Call, expr: &Expr, out: &mut Vec<Stmt>) -> Result<Option<Val>> {
        let span = expr.span;
        match &call.callee {
            Callee::Function(id) => {
                let DeclKind::Function(signature, body) = &self.decl(*id).kind else { return Ok(None) };
                let outer = self.bind_types(call);
                let result = self.inline(signature, body, &call.args, Vec::new(), span, out);
                self.types.params = outer;
                result
            }
            Callee::Action(id) => {
                let DeclKind::Action(signature, body) = &self.decl(*id).kind else { return Ok(None) };
                let reached = self.reached(*id);
                self.use_called_action(*id);
                let outer = std::mem::replace(&mut self.in_action, true);
                let result = self.inline(signature, body, &call.args, reached, span, out);
                self.in_action = outer;
                result
            }
            Callee::Extern(name) => self.extern_call(name, call, expr, out),
            Callee::Method(object, name) => {
                let value = self.val(object, out)?;
                match value {
                    Val::Instance(instance) => self.method_call(&instance, name, call, expr, out),
                    _ => self.packet_call(object, name, call, expr, out),
                }
            }
            Callee::Apply(object) => self.apply(object, call, span, out).map(|()| None),
            Callee::Table(id) => {
                let table = self.table(*id, out)?;
                out.push(Stmt::Apply(table, Follow::Any));
                Ok(None)
            }
            Callee::Builtin(builtin, object) => self.builtin(*builtin, object, call, span, out),
            Callee::Construct(ty) => {
                let name = match self.types.ty(ty) {
                    Type::Named(def, _) => self.program.defs[def].name.name.to_string(),
                    _ => "instance".into(),
                };
                let path = super::instance::join(&self.path, &name, &[]);
                let instance = self.instance(path, ty, call, &Rc::from([]), span)?;
                self.info.direct.push((self.path.clone(), instance.path.clone(), instance.def));
                Ok(Some(Val::Instance(instance)))
            }
        }
    }

    /// Records that a control calls an action directly.
    pub(super) fn use_called_action(&mut self, id: DeclId) {
        if self.place == Where::Control && !self.in_action {
            let top = self.program.top_decls.contains(&id);
            let path = if top { "" } else { &*self.path };
            let decl = self.decl(id);
            let name = super::instance::join(path, &decl.name.name, &decl.annotations);
            self.use_action(&name, id);
        }
    }

    /// Binds the type arguments of a call; returns the previous bindings.
    fn bind_types(&mut self, call: &Call) -> belljar_base::Map<usize, Type> {
        let outer = self.types.params.clone();
        for (param, ty) in call.signature.type_params.iter().zip(&call.type_args) {
            let ty = self.types.ty(ty);
            self.types.params.insert(*param, ty);
        }
        outer
    }

    /// Storage that the body of an action accesses other than by its parameters.
    pub(super) fn reached(&mut self, action: DeclId) -> Covered {
        let mut decls = Set::new();
        self.mentioned(action, &mut decls);
        let mut covered = Vec::new();
        for decl in decls {
            if let Some(Bound::Place(place)) = self.bound.get(&decl) {
                self.out.layout.covers(&place.clone(), &mut covered);
            }
        }
        covered
    }

    fn mentioned(&self, action: DeclId, decls: &mut Set<DeclId>) {
        let DeclKind::Action(_, body) = &self.decl(action).kind else { return };
        let mut calls = Vec::new();
        super::super::walk::statements(body, &mut |expr| match &expr.kind {
            ExprKind::Decl(id) => {
                decls.insert(*id);
            }
            ExprKind::Call(call) => {
                if let Callee::Action(id) = &call.callee {
                    calls.push(*id);
                }
            }
            _ => {}
        });
        for call in calls {
            if decls.insert(call) {
                self.mentioned(call, decls);
            }
        }
    }

    /// Inlines a body: binds parameters to arguments, runs `body`, copies results out.
    pub(super) fn inline(
        &mut self,
        signature: &Rc<Signature>,
        body: &[typed::Stmt],
        args: &[Option<Expr>],
        reached: Covered,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Val>> {
        self.deeper(span)?;
        let copies = self.bind(signature, args, reached, span, out)?;
        self.pending_copies.push(copies.clone());
        let result = self.body(signature, body, span, out);
        self.pending_copies.pop();
        self.inline_depth -= 1;
        let mut result = result?;
        // Copy-out must not change the result.
        if !copies.is_empty()
            && let (Some(Val::Ex(ex)), Some(scalar)) =
                (&result, self.types.scalar(&self.types.ty(&signature.result)))
            && !matches!(ex, Ex::Int(_) | Ex::Bool(_))
        {
            result = Some(Val::Ex(self.saved(ex.clone(), scalar, out)));
        }
        for (target, value) in copies {
            self.assign_target(&target, value, span, out)?;
        }
        Ok(result)
    }

    /// [`Lower::inline`] for the body of a table's action.
    pub(super) fn inline_action(
        &mut self,
        signature: &Rc<Signature>,
        body: &[typed::Stmt],
        args: &[Option<Expr>],
        reached: Covered,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        self.inline(signature, body, args, reached, span, out).map(drop)
    }

    pub(super) fn deeper(&mut self, span: Span) -> Result<()> {
        self.inline_depth += 1;
        self.inlined += 1;
        if self.inlined > super::MAX_CALLS {
            return self.error(span, "this program becomes too large: its calls are inlined");
        }
        if self.inline_depth > MAX_INLINE {
            return self.error(span, "calls are nested too deep");
        }
        Ok(())
    }

    fn body(
        &mut self,
        signature: &Signature,
        body: &[typed::Stmt],
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Val>> {
        if let [typed::Stmt::Return(Some(value))] = body {
            return self.val(value, out).map(Some);
        }
        let loops = std::mem::take(&mut self.loops);
        let label = self.label();
        let place = match self.types.ty(&signature.result) {
            Type::Void => None,
            ty => Some(self.storage("result", &ty, span)?),
        };
        self.returns.push((label, place.clone()));
        let mut inner = Vec::new();
        let result = self.statements(body, &mut inner);
        self.returns.pop();
        self.loops = loops;
        result?;
        push_block(label, inner, out);
        Ok(place.map(|place| self.read(&place)))
    }

    /// Binds parameters to arguments; returns the copy-out assignments.
    pub(super) fn bind(
        &mut self,
        signature: &Rc<Signature>,
        args: &[Option<Expr>],
        reached: Covered,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Vec<(Target, Val)>> {
        enum Ready {
            Target(Option<Target>),
            Value(Val),
        }
        let mut ready = Vec::new();
        let mut earlier: Vec<usize> = Vec::new();
        for (index, param) in signature.params.iter().enumerate() {
            let arg = args.get(index).and_then(Option::as_ref);
            let before = out.len();
            let item = match (param.direction, arg) {
                (Direction::Out | Direction::InOut, Some(arg)) => {
                    Ready::Target(Some(self.target(arg, true, out)?))
                }
                (Direction::Out | Direction::InOut, None) => Ready::Target(None),
                (_, Some(arg)) => Ready::Value(self.val(arg, out)?),
                (_, None) => match &param.default {
                    Some(default) => Ready::Value(self.val(default, out)?),
                    None => Ready::Value(Val::Default),
                },
            };
            if out.len() > before {
                let effects = out.split_off(before);
                for position in &earlier {
                    if let Ready::Value(Val::Ex(ex)) = &ready[*position]
                        && !matches!(ex, Ex::Int(_) | Ex::Bool(_))
                        && let Some(scalar) =
                            self.types.scalar(&self.types.ty(&signature.params[*position].ty))
                    {
                        let saved = self.saved(ex.clone(), scalar, out);
                        ready[*position] = Ready::Value(Val::Ex(saved));
                    }
                }
                out.extend(effects);
            }
            earlier.push(ready.len());
            ready.push(item);
        }
        // Storage that the callee may write through another parameter.
        let covered = |lower: &Self, item: &Ready| {
            let mut list = Vec::new();
            match item {
                Ready::Target(Some(Target::Place(place))) => lower.out.layout.covers(place, &mut list),
                Ready::Target(Some(Target::Slice(field, ..))) => {
                    lower.out.layout.covers(&Place::Scalar(field.clone()), &mut list)
                }
                _ => {}
            }
            list
        };
        let written = ready.iter().map(|item| covered(self, item)).collect::<Vec<_>>();
        let mut copies = Vec::new();
        let mut bindings = Vec::new();
        for (index, item) in ready.into_iter().enumerate() {
            let param = &signature.params[index];
            let ty = self.types.ty(&param.ty);
            let others = written
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index)
                .flat_map(|(_, list)| list.clone());
            let others = others.chain(reached.iter().copied()).collect::<Vec<_>>();
            let bound = match item {
                Ready::Value(value) => {
                    Bound::Value(self.passed(value, &ty, &others, &param.name.name, span, out)?)
                }
                Ready::Target(None) => Bound::Place(self.storage(&param.name.name, &ty, span)?),
                Ready::Target(Some(Target::Place(place)))
                    if !self.must_copy(&place) && !layout::overlap(&written[index], &others) =>
                {
                    if param.direction == Direction::Out {
                        self.invalidate(&place, out);
                    }
                    Bound::Place(place)
                }
                Ready::Target(Some(target)) => {
                    let copy = self.storage(&param.name.name, &ty, span)?;
                    if param.direction == Direction::InOut {
                        let value = self.read_target(&target);
                        self.assign(&copy, value, span, out)?;
                    } else {
                        self.invalidate(&copy, out);
                    }
                    copies.push((target, self.read(&copy)));
                    Bound::Place(copy)
                }
            };
            bindings.push((param.decl, bound));
        }
        for (decl, bound) in bindings {
            self.bound.insert(decl, bound);
        }
        Ok(copies)
    }

    /// True for storage whose meaning depends on when it is evaluated, such as `stack.next`.
    fn must_copy(&self, place: &Place) -> bool {
        match place {
            Place::Header(header) => !matches!(header, HeaderRef::Instance(_)),
            Place::UnionEnd(..) | Place::UnionElement(..) => true,
            _ => false,
        }
    }

    /// Passes an `in` argument; copies it if the callee may modify storage that it reads.
    fn passed(
        &mut self,
        value: Val,
        ty: &Type,
        written: &Covered,
        name: &str,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Val> {
        match &value {
            Val::Ex(ex) => {
                let Some(scalar) = self.types.scalar(ty) else { return Ok(value) };
                let simple = matches!(ex, Ex::Int(_) | Ex::Bool(_) | Ex::Data(..) | Ex::Field(_));
                if self.out.layout.reads_any(ex, written)
                    || (!simple && scalar != Scalar::Int && size(ex) > 12)
                {
                    return Ok(Val::Ex(self.saved(ex.clone(), scalar, out)));
                }
                Ok(value)
            }
            Val::Text(_) | Val::Instance(_) | Val::Varbit(_) => Ok(value),
            Val::Default if self.types.scalar(ty).is_some() => {
                Ok(Val::Ex(if *ty == Type::Bool { Ex::Bool(false) } else { build::int(0) }))
            }
            Val::Struct(_) | Val::Header(_) | Val::Stack(_) | Val::Union(_) | Val::UnionStack(_) => {
                let mut covered = Vec::new();
                self.out.layout.value_covers(&value, &mut covered);
                let dynamic =
                    matches!(&value, Val::Header(header) if !matches!(header, HeaderRef::Instance(_)));
                if dynamic || layout::overlap(&covered, written) {
                    let copy = self.storage(name, ty, span)?;
                    self.assign(&copy, value, span, out)?;
                    return Ok(self.read(&copy));
                }
                Ok(value)
            }
            _ => {
                let copy = self.storage(name, ty, span)?;
                self.assign(&copy, value, span, out)?;
                Ok(self.read(&copy))
            }
        }
    }

    fn builtin(
        &mut self,
        builtin: Builtin,
        object: &Expr,
        call: &Call,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Val>> {
        if builtin == Builtin::IsValid {
            return match self.val(object, out)? {
                Val::Header(header) => Ok(Some(Val::Ex(self.out.layout.valid(&header)))),
                Val::Union(union) => match self.out.layout.valid_union(&union) {
                    Some(valid) => Ok(Some(Val::Ex(valid))),
                    None => self.error(span, "isValid cannot be computed here on this target"),
                },
                Val::Literal(_) => Ok(Some(Val::Ex(Ex::Bool(true)))),
                Val::Invalid | Val::Default => Ok(Some(Val::Ex(Ex::Bool(false)))),
                _ => self.error(span, "isValid cannot be computed here on this target"),
            };
        }
        let place = self.place_of(object, false, out)?;
        match (builtin, &place) {
            (
                Builtin::SetValid | Builtin::SetInvalid,
                Place::Header(header @ (HeaderRef::Element(..) | HeaderRef::UnionElement(..))),
            ) => {
                let elements = self.out.layout.elements(header);
                let (headers, index) = elements.unwrap_or_else(|| (Vec::new(), build::int(0)));
                for (position, header) in headers.into_iter().enumerate() {
                    let op = if builtin == Builtin::SetValid { "add_header" } else { "remove_header" };
                    let body = vec![Stmt::Primitive(op, vec![Arg::Header(HeaderRef::Instance(header))])];
                    let here = build::compare("==", index.clone(), build::int(position));
                    match here {
                        Ex::Bool(_) => {}
                        here => out.push(Stmt::If(here, body, Vec::new())),
                    }
                }
            }
            (Builtin::SetValid | Builtin::SetInvalid, Place::Header(header)) => {
                let op = if builtin == Builtin::SetValid { "add_header" } else { "remove_header" };
                out.push(Stmt::Primitive(op, vec![Arg::Header(header.clone())]));
            }
            (Builtin::PushFront | Builtin::PopFront, _) if self.allowed(Where::Parser) => {
                return self.error(span, "a stack cannot be shifted in a parser");
            }
            (Builtin::PushFront | Builtin::PopFront, Place::Stack(_) | Place::UnionStack(_)) => {
                let count = match call.args.first() {
                    Some(Some(count)) => self.ex(count, out)?,
                    _ => build::int(1),
                };
                let op = if builtin == Builtin::PushFront { "push" } else { "pop" };
                let layout = &self.out.layout;
                let stack = match &place {
                    Place::UnionStack(stack) => {
                        Arg::Object("header_union_stack", layout.union_stacks[*stack].name.clone())
                    }
                    Place::Stack(stack) => Arg::Object("header_stack", layout.stacks[*stack].name.clone()),
                    _ => return self.error(span, "this is not a stack"),
                };
                out.push(Stmt::Primitive(op, vec![stack, Arg::Ex(count)]));
            }
            _ => return self.error(span, "this method cannot be used here on this target"),
        }
        Ok(None)
    }

    pub(super) fn allowed(&self, place: Where) -> bool {
        self.place == place
    }
}

/// Number of operators in an expression.
fn size(ex: &Ex) -> usize {
    match ex {
        Ex::Op(_, left, right) => 1 + left.as_ref().map_or(0, |left| size(left)) + size(right),
        Ex::Cond(a, b, c) => 1 + size(a) + size(b) + size(c),
        _ => 1,
    }
}

/// Calls `visit` for every field in an expression.
pub(super) fn fields_of(ex: &Ex, visit: &mut dyn FnMut(&FieldRef)) {
    match ex {
        Ex::Field(field) => visit(field),
        Ex::Op(_, left, right) => {
            if let Some(left) = left {
                fields_of(left, visit);
            }
            fields_of(right, visit);
        }
        Ex::Cond(a, b, c) => [a, b, c].into_iter().for_each(|ex| fields_of(ex, visit)),
        _ => {}
    }
}

/// Appends a block; omits the block if only the final statement leaves it.
pub(super) fn push_block(label: Label, mut body: Vec<Stmt>, out: &mut Vec<Stmt>) {
    if matches!(body.last(), Some(Stmt::Break(last)) if *last == label) {
        body.pop();
    }
    if body.iter().any(|stmt| breaks(stmt, label)) {
        out.push(Stmt::Block(label, body));
    } else {
        out.extend(body);
    }
}

/// True if the statement contains a break to `label`.
fn breaks(stmt: &Stmt, label: Label) -> bool {
    let any = |body: &[Stmt]| body.iter().any(|stmt| breaks(stmt, label));
    match stmt {
        Stmt::Break(other) => *other == label,
        Stmt::If(_, yes, no) => any(yes) || any(no),
        Stmt::Block(_, body) | Stmt::Loop(body) => any(body),
        Stmt::Apply(_, Follow::Hit(hit, miss)) => any(hit) || any(miss),
        Stmt::Apply(_, Follow::Actions(cases, default)) => {
            cases.iter().any(|(_, body)| any(body)) || any(default)
        }
        _ => false,
    }
}
