//! Implicit conversions and casts.

use super::definitions::poison;
use super::{Checker, fold};
use crate::lex::Base;
use crate::source::Span;
use crate::typed::{Expr, ExprKind};
use crate::types::*;
use num_traits::{One, Zero};
use std::rc::Rc;

impl Checker {
    /// Converts `expr` implicitly to `target`; reports an error if no implicit conversion exists.
    pub(super) fn coerce(&mut self, expr: Expr, target: &Type) -> Expr {
        let (span, from) = (expr.span, self.inferred.resolved(&expr.ty));
        match self.convert(expr, target) {
            Ok(expr) => expr,
            Err(_) => {
                let (from, target) = (self.show(&from), self.show(target));
                self.error(span, format!("expected {target}, found {from}"));
                poison(span)
            }
        }
    }

    /// Implicit conversion; returns the expression unchanged as the error if none exists.
    pub(super) fn convert(&mut self, mut expr: Expr, target: &Type) -> Result<Expr, Box<Expr>> {
        let (from, to) = (self.inferred.resolved(&expr.ty), self.inferred.resolved(target));
        if from == Type::Poison || to == Type::Poison {
            return Ok(Expr { ty: to, ..expr });
        }
        if matches!(from, Type::Set(_)) && !matches!(to, Type::Set(_) | Type::Infer(_)) {
            return Err(Box::new(expr));
        }
        match (&from, &to) {
            (Type::Bit(_) | Type::Signed(_), Type::Int) if expr.int().is_some() => {
                return Ok(Expr { ty: to, ..expr });
            }
            (Type::Int, Type::Bit(_) | Type::Signed(_)) if matches!(expr.kind, ExprKind::Call(_)) => {
                return Err(Box::new(expr));
            }
            (Type::Int, Type::Bit(_) | Type::Signed(_)) => return Ok(self.int_to(expr, &to)),
            (Type::Int, Type::Named(id, _)) => match self.program.def(*id).kind.clone() {
                // The specification requires a cast here. p4c accepts a number without one, and large
                // programs depend on it.
                DefKind::NewType(inner) if expr.int().is_some() => {
                    let inner = self.inferred.resolved(&inner);
                    if !matches!(inner, Type::Bit(_) | Type::Signed(_)) {
                        return Err(Box::new(expr));
                    }
                    let value = self.int_to(expr, &inner);
                    return Ok(Expr { ty: to, ..value });
                }
                DefKind::NewType(_) | DefKind::SerEnum(..) => return Err(Box::new(expr)),
                _ => {}
            },
            (Type::Dots, Type::Infer(_) | Type::List(_)) => return Err(Box::new(expr)),
            (Type::Dots, _) => {
                return Ok(Expr { kind: ExprKind::Default, ty: to, span: expr.span });
            }
            (Type::Invalid, Type::Named(..)) => {
                return match self.program.fields_kind(&to) {
                    Some(FieldsKind::Header | FieldsKind::Union) => Ok(Expr { ty: to, ..expr }),
                    _ => Err(Box::new(expr)),
                };
            }
            (Type::Named(id, _), Type::Bit(_) | Type::Signed(_)) => {
                if let DefKind::SerEnum(inner, _) = &self.program.def(*id).kind {
                    let inner = self.inferred.resolved(inner);
                    if inner == to {
                        return Ok(self.underlying_value(expr, to));
                    }
                }
                return Err(Box::new(expr));
            }
            (Type::Tuple(_), Type::Named(..) | Type::Tuple(_) | Type::List(_) | Type::Stack(..))
                if matches!(expr.kind, ExprKind::Tuple(_)) =>
            {
                return self.tuple_to(expr, &to);
            }
            (Type::Record(_), Type::Named(..)) if matches!(expr.kind, ExprKind::Record(_)) => {
                return self.record_to(expr, &to);
            }
            _ => {}
        }
        if self.unify(&from, &to) {
            expr.ty = self.inferred.resolved(&to);
            return Ok(expr);
        }
        Err(Box::new(expr))
    }

    /// Converts an integer literal to the fixed-width type `to`; warns if the value does not fit.
    fn int_to(&mut self, expr: Expr, to: &Type) -> Expr {
        let Some(value) = expr.int() else {
            return Expr { kind: ExprKind::Cast(Box::new(expr.clone())), ty: to.clone(), span: expr.span };
        };
        let wrapped = fold::wrap(value, to);
        if wrapped != *value
            && !(matches!(to, Type::Signed(_)) && fold::wrap(value, &as_unsigned(to)) == *value)
        {
            let negative = value < &num_bigint::BigInt::zero();
            let shown = self.show(to);
            let reason = if negative { "is negative" } else { "does not fit" };
            let text = format!("{value} {reason}: as {shown} it becomes {wrapped}");
            self.warn("overflow", expr.span, text);
        }
        Expr { kind: ExprKind::Int(wrapped, expr.base()), ty: to.clone(), span: expr.span }
    }

    /// Converts a member of a serializable enum to its underlying number.
    pub(super) fn underlying_value(&mut self, expr: Expr, to: Type) -> Expr {
        if let (ExprKind::Member(name), Type::Named(id, _)) = (&expr.kind, &expr.ty)
            && let DefKind::SerEnum(_, members) = &self.program.def(*id).kind
            && let Some((_, value)) = members.iter().find(|(member, _)| member == name)
        {
            return Expr { kind: ExprKind::Int(value.clone(), Base::Decimal), ty: to, span: expr.span };
        }
        let span = expr.span;
        Expr { kind: ExprKind::Cast(Box::new(expr)), ty: to, span }
    }

    fn tuple_to(&mut self, expr: Expr, to: &Type) -> Result<Expr, Box<Expr>> {
        let ExprKind::Tuple(items) = &expr.kind else { return Err(Box::new(expr)) };
        let types: Vec<Type> = match to {
            Type::Named(..) => match self.program.fields(to) {
                Some((FieldsKind::Struct | FieldsKind::Header, fields)) => {
                    fields.into_iter().map(|(_, ty)| ty).collect()
                }
                _ => return Err(Box::new(expr)),
            },
            Type::Tuple(types) => types.to_vec(),
            Type::List(element) => vec![(**element).clone(); items.len()],
            Type::Stack(element, size) => vec![(**element).clone(); *size as usize],
            _ => return Err(Box::new(expr)),
        };
        let dots =
            items.last().is_some_and(|item| item.ty == Type::Dots && matches!(item.kind, ExprKind::Default));
        let given = items.len() - usize::from(dots);
        if given > types.len() || (given < types.len() && !dots) {
            return Err(Box::new(expr));
        }
        let mut converted = Vec::with_capacity(types.len());
        for (index, ty) in types.iter().enumerate() {
            let item = match items.get(index) {
                Some(item) if index < given => item.clone(),
                _ => Expr { kind: ExprKind::Default, ty: Type::Dots, span: expr.span },
            };
            match self.convert(item, ty) {
                Ok(item) => converted.push(item),
                Err(_) => return Err(Box::new(expr)),
            }
        }
        Ok(Expr { kind: ExprKind::Tuple(converted), ty: to.clone(), span: expr.span })
    }

    fn record_to(&mut self, expr: Expr, to: &Type) -> Result<Expr, Box<Expr>> {
        let (ExprKind::Record(given), Some((FieldsKind::Struct | FieldsKind::Header, fields))) =
            (&expr.kind, self.program.fields(to))
        else {
            return Err(Box::new(expr));
        };
        let dots = given.last().is_some_and(|(name, _)| &**name == "...");
        let names = |name: &Rc<str>| fields.iter().any(|(field, _)| field == name) || &**name == "...";
        if let Some((unknown, value)) = given.iter().find(|(name, _)| !names(name)) {
            let ty = self.show(to);
            self.error(value.span, format!("{ty} has no field '{unknown}'"));
            return Ok(poison(expr.span));
        }
        let mut converted = Vec::with_capacity(fields.len());
        for (name, ty) in &fields {
            let Some((_, value)) = given.iter().find(|(field, _)| field == name) else {
                if dots {
                    converted.push(Expr { kind: ExprKind::Default, ty: ty.clone(), span: expr.span });
                    continue;
                }
                let shown = self.show(to);
                self.error(expr.span, format!("field '{name}' of {shown} has no value")).help =
                    Some("name it, or end the list with '...'".into());
                return Ok(poison(expr.span));
            };
            let value = self.coerce(value.clone(), ty);
            converted.push(value);
        }
        Ok(Expr { kind: ExprKind::Tuple(converted), ty: to.clone(), span: expr.span })
    }

    /// `(to) expr`.
    pub(super) fn cast(&mut self, expr: Expr, to: &Type, span: Span) -> Expr {
        let from = self.inferred.resolved(&expr.ty);
        if from == Type::Poison || *to == Type::Poison {
            return poison(span);
        }
        let aggregate = matches!(from, Type::Tuple(_) | Type::Record(_) | Type::Invalid | Type::Dots);
        let same = |from: &Type| from == to;
        if aggregate || same(&from) {
            let mut done = self.coerce(expr, to);
            done.span = span;
            return done;
        }
        if !self.program.castable(&from, to) {
            let (from, to) = (self.show(&from), self.show(to));
            self.error(span, format!("{from} cannot be cast to {to}"));
            return poison(span);
        }
        if let Some(kind) = self.fold_cast(&expr, &from, to, span) {
            return Expr { kind, ty: to.clone(), span };
        }
        Expr { kind: ExprKind::Cast(Box::new(expr)), ty: to.clone(), span }
    }

    fn fold_cast(&mut self, expr: &Expr, from: &Type, to: &Type, span: Span) -> Option<ExprKind> {
        let to = match to {
            Type::Named(id, _) => match &self.program.def(*id).kind {
                DefKind::NewType(_) => self.program.underlying(to),
                DefKind::SerEnum(_, members) => {
                    let value = expr.int()?;
                    let found = members.iter().find(|(_, member)| member == value)?;
                    return Some(ExprKind::Member(found.0.clone()));
                }
                _ => return None,
            },
            other => other.clone(),
        };
        if let (ExprKind::Member(_), Type::Named(..)) = (&expr.kind, from) {
            let number = self.underlying_value(expr.clone(), to.clone());
            return number.int().map(|value| ExprKind::Int(fold::wrap(value, &to), Base::Decimal));
        }
        match (&expr.kind, &to) {
            (ExprKind::Int(value, base), Type::Bit(_) | Type::Signed(_) | Type::Int) => {
                let wrapped = fold::wrap(value, &to);
                if *from == Type::Int && wrapped != *value && fold::wrap(value, &as_unsigned(&to)) != *value {
                    self.warn("overflow", span, format!("{value} does not fit: it becomes {wrapped}"));
                }
                Some(ExprKind::Int(wrapped, *base))
            }
            (ExprKind::Int(value, _), Type::Bool) if !value.is_zero() && !value.is_one() => {
                self.error(span, format!("{value} cannot be cast to bool: only 0 and 1 can"));
                Some(ExprKind::Poison)
            }
            (ExprKind::Int(value, _), Type::Bool) => Some(ExprKind::Bool(value.is_one())),
            (ExprKind::Bool(value), Type::Bit(_)) => {
                Some(ExprKind::Int((*value as u8).into(), Base::Decimal))
            }
            (ExprKind::Bool(value), Type::Bool) => Some(ExprKind::Bool(*value)),
            _ => None,
        }
    }
}

/// `int<W>` as `bit<W>`, because hexadecimal literals often spell the bit pattern of a signed value.
fn as_unsigned(ty: &Type) -> Type {
    match ty {
        Type::Signed(width) => Type::Bit(*width),
        other => other.clone(),
    }
}
