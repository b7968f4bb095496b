//! Expressions.

use super::definitions::poison;
use super::{Checker, Place, Symbol, closest, fold};
use crate::ast::{self, Ident};
use crate::lex::Base;
use crate::source::Span;
use crate::typed::{DeclKind, Expr, ExprKind};
use crate::types::*;
use num_bigint::BigInt;
use std::rc::Rc;

impl Checker {
    /// Checks an expression without an expected type.
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Expr {
        let span = expr.span;
        let (kind, ty) = match &expr.kind {
            ast::ExprKind::Int(value, None, base) => (ExprKind::Int(value.clone(), *base), Type::Int),
            ast::ExprKind::Int(value, Some((width, signed)), base) => {
                let (value, ty) = self.sized_literal(value, *width, *signed, span);
                (ExprKind::Int(value, *base), ty)
            }
            ast::ExprKind::Bool(value) => (ExprKind::Bool(*value), Type::Bool),
            ast::ExprKind::Str(text) => (ExprKind::Str(text.clone()), Type::Str),
            ast::ExprKind::Name(name, global) => return self.name(name, *global),
            ast::ExprKind::Type(ty) => {
                let found = self.ty(ty);
                (ExprKind::Type(found.clone()), found)
            }
            ast::ExprKind::Member(base, name) => return self.member(base, name, span),
            ast::ExprKind::Index(base, index) => return self.index(base, index, span),
            ast::ExprKind::Slice(base, high, low) => return self.slice(base, high, low, span),
            ast::ExprKind::PlusSlice(base, start, width) => return self.plus_slice(base, start, width, span),
            ast::ExprKind::Unary(op, operand) => return self.unary(op, operand, span),
            ast::ExprKind::Binary(op, left, right) => return self.binary(op, left, right, span),
            ast::ExprKind::Cond(condition, yes, no) => return self.conditional(condition, yes, no, span),
            ast::ExprKind::Cast(ty, operand) => {
                let to = self.value_ty(ty);
                let operand = self.value(operand);
                return self.cast(operand, &to, span);
            }
            ast::ExprKind::Call(callee, types, args) => return self.call(callee, types, args, span),
            ast::ExprKind::List(items, dots) => {
                let mut items = items.iter().map(|item| self.value(item)).collect::<Vec<_>>();
                if *dots {
                    items.push(Expr { kind: ExprKind::Default, ty: Type::Dots, span });
                }
                let types = items.iter().map(|item| item.ty.clone()).collect();
                (ExprKind::Tuple(items), Type::Tuple(types))
            }
            ast::ExprKind::Struct(fields, dots) => return self.record(fields, *dots, span),
            ast::ExprKind::Invalid => (ExprKind::Invalid, Type::Invalid),
            ast::ExprKind::Dots => (ExprKind::Default, Type::Dots),
            ast::ExprKind::Default | ast::ExprKind::DontCare => {
                let ty = self.inferred.fresh();
                (ExprKind::Any, Type::Set(Rc::new(ty)))
            }
            ast::ExprKind::Mask(value, mask) => return self.mask_or_range(value, mask, true, span),
            ast::ExprKind::Range(low, high) => return self.mask_or_range(low, high, false, span),
        };
        Expr { kind, ty, span }
    }

    /// Checks an expression that must denote a value, not a type, a table or a function.
    pub(super) fn value(&mut self, expr: &ast::Expr) -> Expr {
        let checked = self.expr(expr);
        let what = match (&checked.kind, &checked.ty) {
            (ExprKind::Type(_), _) => "a type",
            (_, Type::Action) => "an action",
            (_, Type::Table(_)) => "a table",
            (_, Type::Function) => "a function",
            (_, Type::Void) => {
                self.error(expr.span, "this call has no result");
                return poison(expr.span);
            }
            (_, Type::Set(_)) => "a set",
            _ => return checked,
        };
        if checked.ty != Type::Poison {
            self.error(expr.span, format!("{what} is not a value"));
        }
        poison(expr.span)
    }

    /// Checks an expression against the expected type `ty`.
    pub(super) fn typed(&mut self, expr: &ast::Expr, ty: &Type) -> Expr {
        let value = self.value(expr);
        self.coerce(value, ty)
    }

    /// Value and type of a literal with a width.
    fn sized_literal(&mut self, value: &BigInt, width: u32, signed: bool, span: Span) -> (BigInt, Type) {
        let ty = if signed { Type::Signed(width) } else { Type::Bit(width) };
        if signed && width == 0 {
            self.error(span, "int<0> is not a type");
            return (BigInt::default(), Type::Poison);
        }
        let wrapped = fold::wrap(value, &ty);
        if wrapped != *value {
            let bits = fold::wrap(value, &Type::Bit(width)) == *value;
            if !(signed && bits) {
                let shown = self.show(&ty);
                self.warn("overflow", span, format!("{value} does not fit: as {shown} it becomes {wrapped}"));
            }
        }
        (wrapped, ty)
    }

    fn record(&mut self, fields: &[(Ident, ast::Expr)], dots: bool, span: Span) -> Expr {
        let mut values: Vec<(Rc<str>, Expr)> = Vec::new();
        for (name, value) in fields {
            let value = self.value(value);
            if values.iter().any(|(other, _)| *other == name.name) {
                self.error(name.span, format!("field '{}' has two values", name.name));
                continue;
            }
            values.push((name.name.clone(), value));
        }
        if dots {
            values.push(("...".into(), Expr { kind: ExprKind::Default, ty: Type::Dots, span }));
        }
        let types = values.iter().map(|(name, value)| (name.clone(), value.ty.clone())).collect();
        Expr { kind: ExprKind::Record(values), ty: Type::Record(types), span }
    }

    fn name(&mut self, name: &Ident, global: bool) -> Expr {
        let found = self.lookup(&name.name, global).first().cloned();
        match found {
            Some(Symbol::Decl(decl)) => self.decl_value(decl, name.span),
            Some(Symbol::Type(ty)) => {
                self.name_type(&ty);
                Expr { kind: ExprKind::Type(ty.clone()), ty, span: name.span }
            }
            Some(Symbol::Generic(id)) => {
                self.instantiated.insert(id);
                let ty = Type::Named(id, Rc::from([]));
                Expr { kind: ExprKind::Type(ty.clone()), ty, span: name.span }
            }
            None => {
                let names = self.scopes.iter().flat_map(|scope| scope.keys());
                let near = closest(&name.name, names);
                let error = self.error(name.span, format!("'{}' is not declared", name.name));
                error.help = near.map(|near| format!("did you mean '{near}'?"));
                poison(name.span)
            }
        }
    }

    fn decl_value(&mut self, decl: DeclId, span: Span) -> Expr {
        let found = &self.program.decls[decl];
        if !matches!(found.kind, DeclKind::Table(_)) {
            self.used.insert(decl);
        }
        if let DeclKind::Const(value) = &found.kind {
            let scalar = matches!(
                value.kind,
                ExprKind::Int(..)
                    | ExprKind::Bool(_)
                    | ExprKind::Str(_)
                    | ExprKind::Member(_)
                    | ExprKind::Poison
            );
            if scalar {
                return Expr { span, ..(**value).clone() };
            }
        }
        let ty = found.ty.clone();
        Expr { kind: ExprKind::Decl(decl), ty, span }
    }

    fn member(&mut self, base: &ast::Expr, name: &Ident, span: Span) -> Expr {
        let base = self.expr(base);
        let ty = self.inferred.resolved(&base.ty);
        if ty == Type::Poison {
            return poison(span);
        }
        if let ExprKind::Type(ty) = &base.kind {
            return self.type_member(&ty.clone(), name, span);
        }
        let no_member = |checker: &mut Checker, names: Vec<Rc<str>>| {
            let shown = checker.show(&ty);
            let near = closest(&name.name, names.iter());
            let error = checker.error(name.span, format!("{shown} has no member '{}'", name.name));
            error.help = match near {
                Some(near) => Some(format!("did you mean '{near}'?")),
                None if names.is_empty() || names.len() > 20 => None,
                None => Some(format!("it has: {}", names.join(", "))),
            };
            poison(span)
        };
        match &ty {
            Type::Stack(element, _) => {
                let result = match &*name.name {
                    "next" | "last" => (**element).clone(),
                    "lastIndex" | "size" => Type::Bit(32),
                    _ => {
                        return no_member(
                            self,
                            vec!["next".into(), "last".into(), "lastIndex".into(), "size".into()],
                        );
                    }
                };
                if &*name.name == "size"
                    && let Type::Stack(_, size) = &ty
                {
                    return Expr {
                        kind: ExprKind::Int((*size).into(), Base::Decimal),
                        ty: Type::Bit(32),
                        span,
                    };
                }
                if &*name.name != "size" && self.context.place != Place::Parser {
                    self.error(name.span, format!("'{}' of a stack can only be used in a parser", name.name));
                    return poison(span);
                }
                Expr { kind: ExprKind::StackMember(Box::new(base), name.name.clone()), ty: result, span }
            }
            Type::ApplyResult(table) => {
                let result = match &*name.name {
                    "hit" | "miss" => Type::Bool,
                    "action_run" => Type::ActionRun(*table),
                    _ => return no_member(self, vec!["hit".into(), "miss".into(), "action_run".into()]),
                };
                Expr { kind: ExprKind::ApplyMember(Box::new(base), name.name.clone()), ty: result, span }
            }
            Type::Named(..) => {
                let Some((_, fields)) = self.program.fields(&ty) else { return no_member(self, Vec::new()) };
                match fields.iter().find(|(field, _)| *field == name.name) {
                    Some((_, field)) => {
                        if let ExprKind::Tuple(items) = &base.kind
                            && let Some(index) = fields.iter().position(|(field, _)| *field == name.name)
                        {
                            return Expr { span, ..items[index].clone() };
                        }
                        if let ExprKind::Decl(decl) = &base.kind
                            && let DeclKind::Const(value) = &self.program.decls[*decl].kind
                            && let ExprKind::Tuple(items) = &value.kind
                            && let Some(index) = fields.iter().position(|(field, _)| *field == name.name)
                        {
                            return Expr { span, ..items[index].clone() };
                        }
                        let kind = ExprKind::Field(Box::new(base), name.name.clone());
                        Expr { kind, ty: field.clone(), span }
                    }
                    None => no_member(self, fields.into_iter().map(|(name, _)| name).collect()),
                }
            }
            Type::Record(fields) => {
                let found = fields.iter().find(|(field, _)| *field == name.name).map(|(_, ty)| ty.clone());
                match found {
                    Some(field) => {
                        if let ExprKind::Record(values) = &base.kind
                            && let Some((_, value)) = values.iter().find(|(field, _)| *field == name.name)
                        {
                            return Expr { span, ..value.clone() };
                        }
                        let kind = ExprKind::Field(Box::new(base), name.name.clone());
                        Expr { kind, ty: field, span }
                    }
                    None => no_member(self, fields.iter().map(|(name, _)| name.clone()).collect()),
                }
            }
            _ => no_member(self, Vec::new()),
        }
    }

    /// `error.X` and `Enum.X`.
    fn type_member(&mut self, ty: &Type, name: &Ident, span: Span) -> Expr {
        let members: Vec<Rc<str>> = match ty {
            Type::Poison => return poison(span),
            Type::Error => self.program.errors.clone(),
            Type::MatchKind => self.match_kinds.clone(),
            Type::Named(id, _) => match &self.program.def(*id).kind {
                DefKind::Enum(members) => members.to_vec(),
                DefKind::SerEnum(_, members) => members.iter().map(|(name, _)| name.clone()).collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if members.contains(&name.name) {
            return Expr { kind: ExprKind::Member(name.name.clone()), ty: ty.clone(), span };
        }
        let shown = self.show(ty);
        let near = closest(&name.name, members.iter());
        let error = self.error(name.span, format!("{shown} has no member '{}'", name.name));
        error.help = near.map(|near| format!("did you mean '{near}'?"));
        poison(span)
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.value(base);
        let index = self.value(index);
        let (ty, index_ty) = (self.inferred.resolved(&base.ty), self.inferred.resolved(&index.ty));
        if ty == Type::Poison || index_ty == Type::Poison {
            return poison(span);
        }
        let number = matches!(self.program.underlying(&index_ty), Type::Int | Type::Bit(_) | Type::Signed(_));
        let (length, is_tuple) = match &ty {
            Type::Stack(_, size) => (*size as usize, false),
            Type::Tuple(types) => (types.len(), true),
            _ => {
                let shown = self.show(&ty);
                self.error(span, format!("{shown} cannot be indexed"));
                return poison(span);
            }
        };
        if !number {
            let shown = self.show(&index_ty);
            self.error(index.span, format!("an index must be a number, not {shown}"));
            return poison(span);
        }
        let position = index.int().map(|value| usize::try_from(value.clone()));
        match position {
            Some(Ok(position)) if position < length => {
                let element = match &ty {
                    Type::Stack(element, _) => (**element).clone(),
                    Type::Tuple(types) => types[position].clone(),
                    _ => return poison(span),
                };
                if let ExprKind::Tuple(items) = &base.kind
                    && let Some(item) = items.get(position)
                {
                    return Expr { span, ..item.clone() };
                }
                Expr { kind: ExprKind::Index(Box::new(base), Box::new(index)), ty: element, span }
            }
            Some(_) => {
                self.error(index.span, format!("the index is outside 0 to {}", length.saturating_sub(1)));
                poison(span)
            }
            None if is_tuple => {
                self.error(index.span, "the index of a tuple must be known at compile time");
                poison(span)
            }
            None => {
                let Type::Stack(element, _) = &ty else { return poison(span) };
                let element = (**element).clone();
                Expr { kind: ExprKind::Index(Box::new(base), Box::new(index)), ty: element, span }
            }
        }
    }

    fn slice(&mut self, base: &ast::Expr, high: &ast::Expr, low: &ast::Expr, span: Span) -> Expr {
        let base = self.value(base);
        let [h, l] = [high, low].map(|bound| self.based_u32(bound, MAX_WIDTH, "a bound of a slice"));
        let (Some((h, high_base)), Some((l, low_base))) = (h, l) else { return poison(span) };
        if h < l {
            self.error(span, format!("the high bit {h} of this slice is below its low bit {l}")).help =
                Some(format!("write [{l}:{h}]"));
            return poison(span);
        }
        let mut sliced = self.sliced(base, h, l, high.span, span);
        if let ExprKind::Slice(.., bases) = &mut sliced.kind {
            *bases = [high_base, low_base];
        }
        sliced
    }

    fn plus_slice(&mut self, base: &ast::Expr, start: &ast::Expr, width: &ast::Expr, span: Span) -> Expr {
        let base = self.value(base);
        let Some(width_value) = self.constant_u32(width, MAX_WIDTH, "the width of a slice") else {
            return poison(span);
        };
        if width_value == 0 {
            self.error(width.span, "the width of a slice must be at least 1");
            return poison(span);
        }
        let start_value = self.value(start);
        if start_value.ty == Type::Poison {
            return poison(span);
        }
        if let Some(low) = start_value.int() {
            let Ok(low) = u32::try_from(low.clone()) else {
                self.error(start.span, "the slice begins outside the value");
                return poison(span);
            };
            return self.sliced(base, low.saturating_add(width_value - 1), low, start.span, span);
        }
        // A variable start index: shift, then slice.
        let ty = self.inferred.resolved(&base.ty);
        let number = matches!(ty, Type::Bit(_) | Type::Signed(_));
        if !number {
            let shown = self.show(&ty);
            self.error(span, format!("{shown} cannot be sliced"));
            return poison(span);
        }
        let shifted = self.binary_checked(">>", base, start_value, span);
        self.sliced(shifted, width_value - 1, 0, width.span, span)
    }

    pub(super) fn sliced(&mut self, base: Expr, high: u32, low: u32, place: Span, span: Span) -> Expr {
        let ty = self.inferred.resolved(&base.ty);
        let ty = match self.program.underlying(&ty) {
            Type::Poison => return poison(span),
            inner @ (Type::Bit(_) | Type::Signed(_)) => inner,
            Type::Int if base.int().is_some() => Type::Int,
            _ => {
                let shown = self.show(&ty);
                self.error(span, format!("{shown} cannot be sliced"));
                return poison(span);
            }
        };
        if let Some(width) = ty.width()
            && high >= width
        {
            self.error(place, format!("bit {high} is outside a value of {width} bits"));
            return poison(span);
        }
        let result = Type::Bit(high - low + 1);
        if let Some(value) = base.int() {
            return Expr {
                kind: ExprKind::Int(fold::slice(value, high, low), base.base()),
                ty: result,
                span,
            };
        }
        Expr { kind: ExprKind::Slice(Box::new(base), high, low, [Base::Decimal; 2]), ty: result, span }
    }

    fn conditional(&mut self, condition: &ast::Expr, yes: &ast::Expr, no: &ast::Expr, span: Span) -> Expr {
        let condition = self.typed(condition, &Type::Bool);
        let (yes, no) = (self.value(yes), self.value(no));
        let (yt, nt) = (self.inferred.resolved(&yes.ty), self.inferred.resolved(&no.ty));
        let literal = |ty: &Type| {
            matches!(ty, Type::Int | Type::Tuple(_) | Type::Record(_) | Type::Invalid | Type::Dots)
        };
        let (yes, no) = if literal(&yt) && !literal(&nt) {
            (self.coerce(yes, &nt), no)
        } else {
            let no = match self.convert(no, &yt) {
                Ok(no) => no,
                Err(_) if yt == Type::Poison => return poison(span),
                Err(_) => {
                    let (yt, nt) = (self.show(&yt), self.show(&nt));
                    self.error(span, format!("the two results have different types: {yt} and {nt}"));
                    return poison(span);
                }
            };
            (yes, no)
        };
        let ty = self.inferred.resolved(&yes.ty);
        match condition.bool() {
            Some(true) if ty != Type::Int => return yes,
            Some(false) if ty != Type::Int => return no,
            Some(value) => return if value { yes } else { no },
            None => {}
        }
        if ty == Type::Int && condition.ty != Type::Poison {
            self.error(span, "the width of this value is unknown").help =
                Some("give one of the results a width, such as 8w1".into());
            return poison(span);
        }
        Expr { kind: ExprKind::Cond(Box::new(condition), Box::new(yes), Box::new(no)), ty, span }
    }

    fn mask_or_range(&mut self, a: &ast::Expr, b: &ast::Expr, mask: bool, span: Span) -> Expr {
        let (a, b) = (self.value(a), self.value(b));
        let op = if mask { "&&&" } else { ".." };
        let (at, bt) = (self.inferred.resolved(&a.ty), self.inferred.resolved(&b.ty));
        if at == Type::Poison || bt == Type::Poison {
            return poison(span);
        }
        let number = |checker: &Checker, ty: &Type| {
            matches!(checker.program.underlying(ty), Type::Int | Type::Bit(_))
                || (!mask && matches!(ty, Type::Signed(_)))
        };
        if !number(self, &at) || !number(self, &bt) {
            let (at, bt) = (self.show(&at), self.show(&bt));
            self.error(span, format!("'{op}' is not defined for {at} and {bt}"));
            return poison(span);
        }
        // A serializable enum member with a numeric mask.
        let (a_number, b_number) = (self.program.underlying(&at), self.program.underlying(&bt));
        let (a, b) = if at == Type::Int && bt != Type::Int {
            (self.coerce(a, &b_number), b)
        } else if bt == Type::Int || (at != bt && a_number == b_number) {
            let b = self.coerce(b, &a_number);
            (a, b)
        } else {
            let b = self.coerce(b, &at);
            (a, b)
        };
        let ty = Type::Set(Rc::new(self.inferred.resolved(&a.ty)));
        let kind = if mask {
            ExprKind::Mask(Box::new(a), Box::new(b))
        } else {
            ExprKind::Range(Box::new(a), Box::new(b))
        };
        Expr { kind, ty, span }
    }

    /// Reports an expression that is not an lvalue, and returns false for it.
    pub(super) fn check_lvalue(&mut self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Poison => true,
            ExprKind::Decl(decl) => {
                let found = &self.program.decls[*decl];
                if let Some(reason) = self.read_only.get(decl) {
                    let (reason, place, name) = (*reason, found.name.span, found.name.name.clone());
                    self.error(expr.span, format!("'{name}' cannot be changed: it is {reason}"))
                        .notes
                        .push((place, "declared here".into()));
                    return false;
                }
                if matches!(found.kind, DeclKind::Var) {
                    return true;
                }
                self.error(expr.span, "this cannot be assigned");
                false
            }
            ExprKind::Field(base, _) | ExprKind::Index(base, _) | ExprKind::Slice(base, ..) => {
                self.check_lvalue(base)
            }
            ExprKind::StackMember(base, name) if matches!(&**name, "next" | "last") => {
                self.check_lvalue(base)
            }
            _ => {
                self.error(expr.span, "this cannot be assigned").help =
                    Some("only variables, parameters and their parts can".into());
                false
            }
        }
    }
}
