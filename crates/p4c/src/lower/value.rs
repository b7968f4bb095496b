//! Lowering of expressions to values.

use super::{Bound, Lower, Result, Val, build};
use crate::ir::*;
use crate::typed::{Call, Callee, DeclKind, Expr, ExprKind};
use crate::types::{DeclId, Type};
use num_bigint::BigInt;
use std::rc::Rc;

impl Lower<'_> {
    /// Lowers a scalar expression.
    pub(super) fn ex(&mut self, expr: &Expr, out: &mut Vec<Stmt>) -> Result<Ex> {
        match self.val(expr, out)? {
            Val::Ex(ex) => Ok(ex),
            Val::Default => {
                Ok(if self.types.ty(&expr.ty) == Type::Bool { Ex::Bool(false) } else { build::int(0) })
            }
            _ => self.error(expr.span, "a number or truth value is needed here"),
        }
    }

    /// Lowers an expression; appends its side effects to `out`.
    pub(super) fn val(&mut self, expr: &Expr, out: &mut Vec<Stmt>) -> Result<Val> {
        Ok(match &expr.kind {
            ExprKind::Int(value, _) => Val::Ex(Ex::Int(value.clone())),
            ExprKind::Bool(value) => Val::Ex(Ex::Bool(*value)),
            ExprKind::Str(text) => Val::Text(text.clone()),
            ExprKind::Member(name) => {
                let ty = self.types.ty(&expr.ty);
                match self.types.member(&ty, name) {
                    Some(value) => Val::Ex(Ex::Int(value)),
                    None => return self.error(expr.span, format!("'{name}' has no number")),
                }
            }
            ExprKind::Decl(id) => self.decl_val(*id, expr)?,
            ExprKind::Field(base, name) => self.field_val(base, name, expr, out)?,
            ExprKind::Index(base, index) => self.index_val(base, index, expr, out)?,
            ExprKind::StackMember(base, name) => self.stack_member(base, name, expr, out)?,
            ExprKind::ApplyMember(apply, name) => self.apply_member(apply, name, out)?,
            ExprKind::Slice(base, high, low, _) => {
                let value = self.ex(base, out)?;
                Val::Ex(build::slice(value, *high, *low))
            }
            ExprKind::Unary(op, operand) => {
                let value = self.ex(operand, out)?;
                let scalar = self.types.scalar_of(expr)?;
                Val::Ex(match *op {
                    "!" => build::not(value),
                    "~" => match value {
                        Ex::Int(value) => build::wrap(Ex::Int(!value), scalar),
                        value => build::wrap(Ex::Op("~", None, Box::new(value)), scalar),
                    },
                    _ => match build::arithmetic("-", build::int(0), value, scalar) {
                        Some(ex) => ex,
                        None => return self.error(expr.span, "this cannot be computed"),
                    },
                })
            }
            ExprKind::Binary(op, left, right) => self.binary(op, left, right, expr, out)?,
            ExprKind::Cond(condition, yes, no) => self.conditional(condition, yes, no, expr, out)?,
            ExprKind::Cast(inner) => {
                let value = self.val(inner, out)?;
                let (from, to) = (self.types.ty(&inner.ty), self.types.ty(&expr.ty));
                match (value, self.types.scalar(&from), self.types.scalar(&to)) {
                    (Val::Ex(ex), Some(from), Some(to)) => Val::Ex(build::cast(ex, from, to)),
                    (value, ..) => value,
                }
            }
            ExprKind::Tuple(items) => {
                let values = self.values(&items.iter().collect::<Vec<_>>(), out)?;
                let ty = self.types.ty(&expr.ty);
                let is_header = matches!(self.types.fields(&ty), Some((crate::types::FieldsKind::Header, _)));
                let is_stack = matches!(ty, Type::Stack(..));
                if is_header || is_stack { Val::Literal(values.into()) } else { Val::Struct(values.into()) }
            }
            ExprKind::Record(items) => {
                let values = self.values(&items.iter().map(|(_, item)| item).collect::<Vec<_>>(), out)?;
                Val::Struct(values.into())
            }
            ExprKind::Invalid => Val::Invalid,
            ExprKind::Default => Val::Default,
            ExprKind::Call(call) => match self.call(call, expr, out)? {
                Some(value) => value,
                None => return self.error(expr.span, "this call has no result"),
            },
            ExprKind::Mask(..) | ExprKind::Range(..) | ExprKind::Any => {
                return self.error(expr.span, "a set is not a value");
            }
            ExprKind::Current => match &self.current {
                Some(value) => value.clone(),
                None => return self.error(expr.span, "this has no value here"),
            },
            ExprKind::Type(_) | ExprKind::Poison => return self.error(expr.span, "this is not a value"),
        })
    }

    /// Lowers expressions in order; later side effects do not change earlier values.
    pub(super) fn values(&mut self, items: &[&Expr], out: &mut Vec<Stmt>) -> Result<Vec<Val>> {
        let mut values: Vec<Val> = Vec::new();
        for item in items {
            let before = out.len();
            let value = self.val(item, out)?;
            if out.len() > before {
                let effects = out.split_off(before);
                for (earlier, item) in values.iter_mut().zip(items) {
                    *earlier = self.protected(earlier.clone(), item, out);
                }
                out.extend(effects);
            }
            values.push(value);
        }
        Ok(values)
    }

    fn protected(&mut self, value: Val, expr: &Expr, out: &mut Vec<Stmt>) -> Val {
        match value {
            Val::Ex(ex) if !matches!(ex, Ex::Int(_) | Ex::Bool(_) | Ex::Data(..)) => {
                match self.types.scalar(&self.types.ty(&expr.ty)) {
                    Some(scalar) => Val::Ex(self.saved(ex, scalar, out)),
                    None => Val::Ex(ex),
                }
            }
            other => other,
        }
    }

    fn decl_val(&mut self, id: DeclId, expr: &Expr) -> Result<Val> {
        match self.bound.get(&id) {
            Some(Bound::Place(place)) => return Ok(self.read(place)),
            Some(Bound::Value(value)) => return Ok(value.clone()),
            Some(Bound::Instance(instance)) => return Ok(Val::Instance(instance.clone())),
            None => {}
        }
        match &self.decl(id).kind {
            DeclKind::Const(value) => {
                let value = value.clone();
                self.val(&value, &mut Vec::new())
            }
            DeclKind::Instance(..) => Ok(Val::Instance(self.declare_instance(id)?)),
            _ => {
                let name = &self.decl(id).name.name;
                self.error(expr.span, format!("'{name}' has no value here"))
            }
        }
    }

    fn field_val(&mut self, base: &Expr, name: &str, expr: &Expr, out: &mut Vec<Stmt>) -> Result<Val> {
        let value = self.val(base, out)?;
        let ty = self.types.ty(&base.ty);
        let fields = self.types.fields(&ty).map(|(_, fields)| fields).unwrap_or_default();
        let position = fields.iter().position(|(field, _)| &**field == name);
        let field_ty = self.types.ty(&expr.ty);
        match value {
            Val::Struct(values) | Val::Literal(values) => {
                match position.and_then(|index| values.get(index)) {
                    Some(value) => Ok(value.clone()),
                    None => Ok(Val::Default),
                }
            }
            Val::Header(header) => {
                match self.out.layout.header_field(&self.types, &header, name, &field_ty) {
                    Some(place) => Ok(self.read(&place)),
                    None => self.error(expr.span, format!("field '{name}' cannot be read here")),
                }
            }
            Val::Union(place) => {
                let Some(position) = position else { return self.error(expr.span, "no such member") };
                match place {
                    Place::Union(union) => {
                        let header = self.out.layout.unions[union].headers[position];
                        Ok(Val::Header(HeaderRef::Instance(header)))
                    }
                    Place::UnionEnd(stack, next) => Ok(Val::Header(if next {
                        HeaderRef::UnionNext(stack, position)
                    } else {
                        HeaderRef::UnionLast(stack, position)
                    })),
                    Place::UnionElement(stack, index) => {
                        Ok(Val::Header(HeaderRef::UnionElement(stack, position, index)))
                    }
                    _ => self.error(expr.span, "this union cannot be reached here"),
                }
            }
            Val::Invalid | Val::Default => Ok(Val::Default),
            _ => self.error(expr.span, format!("field '{name}' cannot be read here")),
        }
    }

    fn index_val(&mut self, base: &Expr, index: &Expr, expr: &Expr, out: &mut Vec<Stmt>) -> Result<Val> {
        let value = self.val(base, out)?;
        let index = self.ex(index, out)?;
        let place = match value {
            Val::Stack(stack) => Place::Stack(stack),
            Val::UnionStack(stack) => Place::UnionStack(stack),
            Val::Struct(values) | Val::Literal(values) => {
                let position = match &index {
                    Ex::Int(value) => usize::try_from(value.clone()).ok(),
                    _ => None,
                };
                return match position.and_then(|position| values.get(position)) {
                    Some(value) => Ok(value.clone()),
                    None => self.error(expr.span, "the index is outside the list"),
                };
            }
            _ => return self.error(expr.span, "this cannot be indexed here"),
        };
        let place = self.element_of(place, index, expr)?;
        Ok(self.read(&place))
    }

    fn stack_member(&mut self, base: &Expr, name: &str, expr: &Expr, out: &mut Vec<Stmt>) -> Result<Val> {
        match (self.val(base, out)?, name) {
            (Val::Stack(stack), "next") => Ok(Val::Header(HeaderRef::Next(stack))),
            (Val::Stack(stack), "last") => Ok(Val::Header(HeaderRef::Last(stack))),
            (Val::Stack(stack), "lastIndex") => Ok(Val::Ex(Ex::LastIndex(stack))),
            (Val::Stack(stack), _) => Ok(Val::Ex(build::int(self.out.layout.stacks[stack].headers.len()))),
            (Val::UnionStack(stack), "next") => Ok(Val::Union(Place::UnionEnd(stack, true))),
            (Val::UnionStack(stack), "last") => Ok(Val::Union(Place::UnionEnd(stack, false))),
            (Val::UnionStack(stack), "lastIndex") => Ok(Val::Ex(Ex::UnionLastIndex(stack))),
            (Val::UnionStack(stack), "size") => {
                Ok(Val::Ex(build::int(self.out.layout.union_stacks[stack].unions.len())))
            }
            _ => self.error(expr.span, format!("'{name}' cannot be used here on this target")),
        }
    }

    fn binary(
        &mut self,
        op: &'static str,
        left: &Expr,
        right: &Expr,
        expr: &Expr,
        out: &mut Vec<Stmt>,
    ) -> Result<Val> {
        if matches!(op, "&&" | "||") {
            return self.logical(op, left, right, out);
        }
        let mut values = self.values(&[left, right], out)?;
        let (Some(b), Some(a)) = (values.pop(), values.pop()) else {
            return self.error(expr.span, "an operand is missing");
        };
        if matches!(op, "==" | "!=") {
            let ty = self.types.ty(&left.ty);
            let equal = self.equal(a, b, &ty, expr)?;
            return Ok(Val::Ex(if op == "==" { equal } else { negated(equal) }));
        }
        let (Val::Ex(a), Val::Ex(b)) = (a, b) else {
            return self.error(expr.span, "numbers are needed here");
        };
        let scalar = self.types.scalar_of(expr)?;
        if matches!(op, "<" | "<=" | ">" | ">=") {
            return Ok(Val::Ex(build::compare(op, a, b)));
        }
        if op == "++" {
            let width = self.types.scalar_of(right)?.width();
            return Ok(Val::Ex(build::concat(a, b, width, scalar)));
        }
        match build::arithmetic(op, a, b, scalar) {
            Some(ex) => Ok(Val::Ex(ex)),
            None => {
                let error = crate::source::Diagnostic::error(
                    expr.span,
                    format!(
                        "'{op}' can only be computed at run time by a constant power of two on this target"
                    ),
                );
                Err(error.help("use a shift or a mask"))
            }
        }
    }

    fn logical(&mut self, op: &str, left: &Expr, right: &Expr, out: &mut Vec<Stmt>) -> Result<Val> {
        let a = self.ex(left, out)?;
        let mut effects = Vec::new();
        let b = self.ex(right, &mut effects)?;
        if effects.is_empty() {
            return Ok(Val::Ex(if op == "&&" { build::and(a, b) } else { build::or(a, b) }));
        }
        let result = self.temporary("tmp", Scalar::Bool);
        out.push(Stmt::Assign(result.clone(), build::to_data(a)));
        effects.push(Stmt::Assign(result.clone(), build::to_data(b)));
        let condition = build::to_bool(Ex::Field(result));
        let test = if op == "&&" { condition.clone() } else { build::not(condition.clone()) };
        out.push(Stmt::If(test, effects, Vec::new()));
        Ok(Val::Ex(condition))
    }

    fn conditional(
        &mut self,
        condition: &Expr,
        yes: &Expr,
        no: &Expr,
        expr: &Expr,
        out: &mut Vec<Stmt>,
    ) -> Result<Val> {
        let condition = self.ex(condition, out)?;
        if let Ex::Bool(value) = condition {
            return self.val(if value { yes } else { no }, out);
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let a = self.val(yes, &mut first)?;
        let b = self.val(no, &mut second)?;
        if first.is_empty()
            && second.is_empty()
            && let (Val::Ex(a), Val::Ex(b)) = (&a, &b)
        {
            let (a, b) = (a.clone(), b.clone());
            if build::is_truth(&a) || build::is_truth(&b) {
                let yes = build::and(condition.clone(), a);
                return Ok(Val::Ex(build::or(yes, build::and(build::not(condition), b))));
            }
            return Ok(Val::Ex(Ex::Cond(Box::new(condition), Box::new(a), Box::new(b))));
        }
        let ty = self.types.ty(&expr.ty);
        let place = self.storage("tmp", &ty, expr.span)?;
        self.assign(&place, a, expr.span, &mut first)?;
        self.assign(&place, b, expr.span, &mut second)?;
        out.push(Stmt::If(condition, first, second));
        Ok(self.read(&place))
    }

    /// Equality of two values of any type.
    fn equal(&mut self, a: Val, b: Val, ty: &Type, expr: &Expr) -> Result<Ex> {
        Ok(match (a, b) {
            (Val::Ex(a), Val::Ex(b)) => {
                if build::is_truth(&a) || build::is_truth(&b) {
                    build::same_truth(a, b)
                } else {
                    build::compare("==", a, b)
                }
            }
            (Val::Varbit(a), Val::Varbit(b)) => {
                Ex::Op("==", Some(Box::new(Ex::Field(a))), Box::new(Ex::Field(b)))
            }
            (Val::Header(header), Val::Invalid) | (Val::Invalid, Val::Header(header)) => {
                build::not(self.out.layout.valid(&header))
            }
            (Val::Invalid, Val::Invalid) => Ex::Bool(true),
            (Val::Header(header), Val::Literal(values) | Val::Struct(values))
            | (Val::Literal(values) | Val::Struct(values), Val::Header(header)) => {
                let mut result = self.out.layout.valid(&header);
                let fields = self.out.layout.header_fields(&header);
                let mut flat = Vec::new();
                flatten(&values, &mut flat);
                for (field, value) in fields.into_iter().zip(flat) {
                    let same = self.equal(self.read(&Place::Scalar(field)), value, ty, expr)?;
                    result = build::and(result, same);
                }
                result
            }
            (Val::Header(a), Val::Header(b)) => {
                let (va, vb) = (self.out.layout.valid(&a), self.out.layout.valid(&b));
                let mut same = build::and(va.clone(), vb.clone());
                for (x, y) in
                    self.out.layout.header_fields(&a).into_iter().zip(self.out.layout.header_fields(&b))
                {
                    let (x, y) = (self.read(&Place::Scalar(x)), self.read(&Place::Scalar(y)));
                    same = build::and(same, self.equal(x, y, ty, expr)?);
                }
                let neither = build::and(build::not(va), build::not(vb));
                build::or(neither, same)
            }
            (Val::Struct(a) | Val::Literal(a), Val::Struct(b) | Val::Literal(b)) => {
                let mut result = Ex::Bool(true);
                let types = self.types.fields(ty).map(|(_, fields)| fields).unwrap_or_default();
                for (index, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                    let ty = types.get(index).map_or(Type::Poison, |(_, ty)| ty.clone());
                    result = build::and(result, self.equal(a.clone(), b.clone(), &ty, expr)?);
                }
                result
            }
            (Val::Stack(a), Val::Stack(b)) => {
                let (a, b) =
                    (self.out.layout.stacks[a].headers.clone(), self.out.layout.stacks[b].headers.clone());
                let mut result = Ex::Bool(true);
                for (a, b) in a.into_iter().zip(b) {
                    let (a, b) = (Val::Header(HeaderRef::Instance(a)), Val::Header(HeaderRef::Instance(b)));
                    result = build::and(result, self.equal(a, b, ty, expr)?);
                }
                result
            }
            (Val::Union(Place::Union(a)), Val::Union(Place::Union(b))) => {
                let (a, b) =
                    (self.out.layout.unions[a].headers.clone(), self.out.layout.unions[b].headers.clone());
                let mut result = Ex::Bool(true);
                for (a, b) in a.into_iter().zip(b) {
                    let (a, b) = (Val::Header(HeaderRef::Instance(a)), Val::Header(HeaderRef::Instance(b)));
                    result = build::and(result, self.equal(a, b, ty, expr)?);
                }
                result
            }
            (Val::UnionStack(a), Val::UnionStack(b)) => {
                let unions = |stack: usize| self.out.layout.union_stacks[stack].unions.clone();
                let mut result = Ex::Bool(true);
                for (a, b) in unions(a).into_iter().zip(unions(b)) {
                    let (a, b) = (Val::Union(Place::Union(a)), Val::Union(Place::Union(b)));
                    result = build::and(result, self.equal(a, b, ty, expr)?);
                }
                result
            }
            (Val::Text(a), Val::Text(b)) => Ex::Bool(a == b),
            (Val::Default, other) | (other, Val::Default) => match other {
                Val::Ex(ex) if build::is_truth(&ex) => build::not(ex),
                Val::Ex(ex) => build::compare("==", ex, build::int(0)),
                Val::Header(header) => build::not(self.out.layout.valid(&header)),
                _ => return self.error(expr.span, "these values cannot be compared on this target"),
            },
            _ => return self.error(expr.span, "these values cannot be compared on this target"),
        })
    }

    /// `table.apply().hit` or `.miss` as a value.
    fn apply_member(&mut self, apply: &Expr, name: &str, out: &mut Vec<Stmt>) -> Result<Val> {
        let result = self.temporary("hit", Scalar::Bool);
        let table = self.apply_table(apply, out)?;
        let set = |value: u8| vec![Stmt::Assign(result.clone(), Ex::Int(BigInt::from(value)))];
        out.push(Stmt::Apply(table, Follow::Hit(set(1), set(0))));
        let hit = build::to_bool(Ex::Field(result));
        Ok(Val::Ex(if name == "hit" { hit } else { build::not(hit) }))
    }

    /// Index of the table that an `apply()` names; emits the computation of its keys.
    pub(super) fn apply_table(&mut self, apply: &Expr, out: &mut Vec<Stmt>) -> Result<usize> {
        match &apply.kind {
            ExprKind::Call(call) => match &**call {
                Call { callee: Callee::Table(id), .. } => self.table(*id, out),
                _ => self.error(apply.span, "a table is expected here"),
            },
            _ => self.error(apply.span, "a table is expected here"),
        }
    }
}

fn negated(ex: Ex) -> Ex {
    match ex {
        Ex::Op("==", left, right) => Ex::Op("!=", left, right),
        other => build::not(other),
    }
}

/// Scalars of nested literals in order.
pub(super) fn flatten(values: &Rc<[Val]>, output: &mut Vec<Val>) {
    for value in values.iter() {
        match value {
            Val::Struct(inner) => flatten(inner, output),
            other => output.push(other.clone()),
        }
    }
}
