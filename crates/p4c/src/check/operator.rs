//! Unary and binary operators.

use super::definitions::poison;
use super::{Checker, fold};
use crate::ast;
use crate::source::Span;
use crate::typed::{Expr, ExprKind};
use crate::types::*;
use num_traits::Signed;

impl Checker {
    pub(super) fn unary(&mut self, op: &'static str, operand: &ast::Expr, span: Span) -> Expr {
        let operand = self.expr(operand);
        let operand = self.enum_as_number(operand);
        let ty = self.inferred.resolved(&operand.ty);
        let fits = match (op, &ty) {
            (_, Type::Poison) => return poison(span),
            ("!", Type::Bool) => true,
            ("~", Type::Bit(_) | Type::Signed(_)) => true,
            ("-" | "+", Type::Bit(_) | Type::Signed(_) | Type::Int) => true,
            _ => false,
        };
        if !fits {
            let shown = self.show(&ty);
            self.error(span, format!("'{op}' is not defined for {shown}"));
            return poison(span);
        }
        let kind = match (&operand.kind, op) {
            (ExprKind::Bool(value), _) => ExprKind::Bool(!value),
            (ExprKind::Int(value, base), "-") => ExprKind::Int(fold::wrap(&-value, &ty), *base),
            (ExprKind::Int(value, base), "~") => ExprKind::Int(fold::wrap(&!value, &ty), *base),
            (ExprKind::Int(value, base), _) => ExprKind::Int(value.clone(), *base),
            (_, "+") => return operand,
            _ => ExprKind::Unary(op, Box::new(operand)),
        };
        Expr { kind, ty, span }
    }

    /// Converts a serializable enum operand of arithmetic to its underlying number.
    pub(super) fn enum_as_number(&mut self, expr: Expr) -> Expr {
        if let Type::Named(id, _) = &expr.ty
            && let DefKind::SerEnum(inner, _) = &self.program.def(*id).kind
        {
            let inner = inner.clone();
            return self.underlying_value(expr, inner);
        }
        expr
    }

    pub(super) fn binary(
        &mut self,
        op: &'static str,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Expr {
        let left = self.expr(left);
        let right = self.expr(right);
        self.binary_checked(op, left, right, span)
    }

    pub(super) fn binary_checked(&mut self, op: &'static str, left: Expr, right: Expr, span: Span) -> Expr {
        if left.ty == Type::Poison || right.ty == Type::Poison {
            return poison(span);
        }
        match op {
            "&&" | "||" => self.logical(op, left, right, span),
            "==" | "!=" => self.equality(op, left, right, span),
            "<<" | ">>" => self.shift(op, left, right, span),
            "++" => self.concatenation(left, right, span),
            _ => self.arithmetic(op, left, right, span),
        }
    }

    fn mismatch(&mut self, op: &str, left: &Type, right: &Type, span: Span) -> Expr {
        let (left, right) = (self.show(left), self.show(right));
        self.error(span, format!("'{op}' is not defined for {left} and {right}"));
        poison(span)
    }

    fn logical(&mut self, op: &'static str, left: Expr, right: Expr, span: Span) -> Expr {
        if self.inferred.resolved(&left.ty) != Type::Bool || self.inferred.resolved(&right.ty) != Type::Bool {
            return self.mismatch(op, &left.ty, &right.ty, span);
        }
        let kind = match (left.bool(), op) {
            (Some(true), "&&") | (Some(false), "||") => return right,
            (Some(value), _) => ExprKind::Bool(value),
            _ => ExprKind::Binary(op, Box::new(left), Box::new(right)),
        };
        Expr { kind, ty: Type::Bool, span }
    }

    fn equality(&mut self, op: &'static str, left: Expr, right: Expr, span: Span) -> Expr {
        let (lt, rt) = (self.inferred.resolved(&left.ty), self.inferred.resolved(&right.ty));
        let serializable = |ty: &Type| matches!(ty, Type::Named(id, _) if matches!(self.program.def(*id).kind, DefKind::SerEnum(..)));
        let (left, right) = match (serializable(&lt), serializable(&rt)) {
            (true, false) => (self.enum_as_number(left), right),
            (false, true) => (left, self.enum_as_number(right)),
            (true, true) if lt != rt => return self.mismatch(op, &lt, &rt, span),
            _ => (left, right),
        };
        let literal = |ty: &Type| matches!(ty, Type::Int | Type::Tuple(_) | Type::Record(_) | Type::Invalid);
        let (lt, rt) = (self.inferred.resolved(&left.ty), self.inferred.resolved(&right.ty));
        let (left, right) = if literal(&lt) && !(lt == Type::Int && rt == Type::Int) {
            match self.convert(left, &rt) {
                Ok(left) => (left, right),
                Err(left) => match self.convert(right, &lt) {
                    Ok(right) => (*left, right),
                    Err(_) => return self.mismatch(op, &lt, &rt, span),
                },
            }
        } else {
            match self.convert(right, &lt) {
                Ok(right) => (left, right),
                Err(_) => return self.mismatch(op, &lt, &rt, span),
            }
        };
        let ty = self.inferred.resolved(&left.ty);
        if !self.program.comparable(&ty) {
            let shown = self.show(&ty);
            self.error(span, format!("values of type {shown} cannot be compared"));
            return poison(span);
        }
        let kind = match (&left.kind, &right.kind) {
            (ExprKind::Int(a, _), ExprKind::Int(b, _)) => ExprKind::Bool((a == b) == (op == "==")),
            (ExprKind::Bool(a), ExprKind::Bool(b)) => ExprKind::Bool((a == b) == (op == "==")),
            (ExprKind::Member(a), ExprKind::Member(b)) => ExprKind::Bool((a == b) == (op == "==")),
            (ExprKind::Str(a), ExprKind::Str(b)) => ExprKind::Bool((a == b) == (op == "==")),
            _ => ExprKind::Binary(op, Box::new(left), Box::new(right)),
        };
        Expr { kind, ty: Type::Bool, span }
    }

    fn shift(&mut self, op: &'static str, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.enum_as_number(left), self.enum_as_number(right));
        let (lt, rt) = (self.inferred.resolved(&left.ty), self.inferred.resolved(&right.ty));
        let number = |ty: &Type| matches!(ty, Type::Int | Type::Bit(_) | Type::Signed(_));
        if !number(&lt) || !number(&rt) {
            return self.mismatch(op, &lt, &rt, span);
        }
        if matches!(rt, Type::Signed(_)) {
            self.error(right.span, "the distance of a shift must be unsigned").help =
                Some("cast it to bit<W>".into());
            return poison(span);
        }
        if right.int().is_some_and(Signed::is_negative) {
            self.error(right.span, "the distance of a shift cannot be negative");
            return poison(span);
        }
        if lt == Type::Int && rt != Type::Int && right.int().is_none() {
            self.error(span, "the width of the left operand of this shift is unknown").help =
                Some("give it a width, such as 8w1".into());
            return poison(span);
        }
        if rt == Type::Int && right.int().is_none() {
            self.error(right.span, "the distance must be known at compile time or have a width");
            return poison(span);
        }
        if let (Some(width), Some(by)) = (lt.width(), right.int())
            && *by >= width.into()
        {
            self.warn("overflow", span, format!("a shift by {by} leaves nothing of {width} bits"));
        }
        self.fold(op, left, right, lt, span)
    }

    fn concatenation(&mut self, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.enum_as_number(left), self.enum_as_number(right));
        let (lt, rt) = (self.inferred.resolved(&left.ty), self.inferred.resolved(&right.ty));
        if let (ExprKind::Str(a), ExprKind::Str(b)) = (&left.kind, &right.kind) {
            return Expr { kind: ExprKind::Str(format!("{a}{b}").into()), ty: Type::Str, span };
        }
        for (ty, operand) in [(&lt, &left), (&rt, &right)] {
            if *ty == Type::Int {
                self.error(operand.span, "an operand of '++' has no width").help =
                    Some("write it as 8w1".into());
                return poison(span);
            }
        }
        let (Some(a), Some(b)) = (lt.width(), rt.width()) else { return self.mismatch("++", &lt, &rt, span) };
        if a + b > MAX_WIDTH {
            self.error(span, format!("{} bits are too many: the limit is {MAX_WIDTH}", a + b));
            return poison(span);
        }
        let ty = if matches!(lt, Type::Bit(_)) { Type::Bit(a + b) } else { Type::Signed(a + b) };
        if let (Some(x), Some(y)) = (left.int(), right.int()) {
            let value = (x << b) | fold::wrap(y, &Type::Bit(b));
            return Expr { kind: ExprKind::Int(fold::wrap(&value, &ty), left.base()), ty, span };
        }
        Expr { kind: ExprKind::Binary("++", Box::new(left), Box::new(right)), ty, span }
    }

    fn arithmetic(&mut self, op: &'static str, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.enum_as_number(left), self.enum_as_number(right));
        let (lt, rt) = (self.inferred.resolved(&left.ty), self.inferred.resolved(&right.ty));
        let number = |ty: &Type| matches!(ty, Type::Int | Type::Bit(_) | Type::Signed(_));
        if !number(&lt) || !number(&rt) {
            return self.mismatch(op, &lt, &rt, span);
        }
        let division = matches!(op, "/" | "%");
        for operand in [&left, &right] {
            if division && operand.int().is_some_and(Signed::is_negative) {
                self.error(operand.span, format!("'{op}' is not defined for negative numbers"));
                return poison(span);
            }
        }
        let (left, right, ty) = match (&lt, &rt) {
            (Type::Int, Type::Int) => (left, right, Type::Int),
            (Type::Int, _) => (self.coerce(left, &rt), right, rt.clone()),
            (_, Type::Int) => (left, self.coerce(right, &lt), lt.clone()),
            _ if lt == rt => (left, right, lt.clone()),
            _ => {
                let result = self.mismatch(op, &lt, &rt, span);
                if let Some(last) = self.diagnostics.last_mut() {
                    last.help = Some("cast one of them so that both have the same type".into());
                }
                return result;
            }
        };
        if matches!(op, "|+|" | "|-|") && ty == Type::Int {
            return self.mismatch(op, &lt, &rt, span);
        }
        if division {
            if matches!(ty, Type::Signed(_)) {
                return self.mismatch(op, &lt, &rt, span);
            }
            if right.int().is_some_and(|value| value.bits() == 0) {
                self.error(span, "division by zero");
                return poison(span);
            }
            let power = right.int().is_some_and(|value| value.magnitude().count_ones() == 1);
            let known = self.is_constant(&left) && self.is_constant(&right);
            // Zero divided by any number is zero.
            let nothing = left.int().is_some_and(|value| value.bits() == 0);
            if !known && !power && !nothing && (right.int().is_some() || !self.is_constant(&right)) {
                self.error(
                    span,
                    format!(
                        "'{op}' can only be computed at run time by a constant power of two on this target"
                    ),
                )
                .help = Some("use a shift or a mask".into());
                return poison(span);
            }
        }
        if matches!(op, "<" | "<=" | ">" | ">=") {
            if let (Some(a), Some(b)) = (left.int(), right.int())
                && let Some(value) = fold::comparison(op, a, b)
            {
                return Expr { kind: ExprKind::Bool(value), ty: Type::Bool, span };
            }
            let kind = ExprKind::Binary(op, Box::new(left), Box::new(right));
            return Expr { kind, ty: Type::Bool, span };
        }
        self.fold(op, left, right, ty, span)
    }

    fn fold(&mut self, op: &'static str, left: Expr, right: Expr, ty: Type, span: Span) -> Expr {
        if let (Some(a), Some(b)) = (left.int(), right.int()) {
            match fold::arithmetic(op, a, b, &ty) {
                Ok(Some(value)) => return Expr { kind: ExprKind::Int(value, left.base()), ty, span },
                Ok(None) => {}
                Err(reason) => {
                    self.error(span, reason);
                    return poison(span);
                }
            }
        }
        Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span }
    }
}
