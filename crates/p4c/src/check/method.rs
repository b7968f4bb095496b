//! Method calls: methods of externs and the built-in methods of headers, stacks and blocks.

use super::call::{Bindings, no_params};
use super::{Checker, Place, closest};
use crate::ast::{self, Arg, Ident};
use crate::source::Span;
use crate::typed::*;
use crate::types::{DefKind, FieldsKind, MethodDef, Signature, Type};
use num_bigint::BigInt;
use std::rc::Rc;

impl Checker {
    pub(super) fn no_method(&mut self, ty: &Type, name: &Ident, methods: &[Rc<str>]) {
        let shown = self.show(ty);
        let near = closest(&name.name, methods.iter());
        let error = self.error(name.span, format!("{shown} has no method '{}'", name.name));
        error.help = match near {
            Some(near) => Some(format!("did you mean '{near}'?")),
            None if methods.is_empty() => None,
            None => Some(format!("it has: {}", methods.join(", "))),
        };
    }

    pub(super) fn method(
        &mut self,
        object: Expr,
        ty: &Type,
        name: &Ident,
        types: &[ast::TypeExpr],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        if let Some((builtin, params)) = self.builtin(ty, &name.name) {
            return self.call_builtin(object, builtin, params, args, span);
        }
        if let Type::Named(id, given) = ty {
            match &self.def(*id).kind {
                DefKind::Extern(methods) => {
                    let methods = methods.clone();
                    let params = self.def(*id).type_params.clone();
                    let bindings = params.into_iter().zip(given.iter().cloned()).collect();
                    return self.extern_method(object, ty, &methods, bindings, name, types, args, span);
                }
                DefKind::Block(..) | DefKind::BlockType(..) if &*name.name == "apply" => {
                    return self.apply_block(object, ty, args, span);
                }
                _ => {}
            }
        }
        self.check_args_alone(args);
        let list: Vec<Rc<str>> = match ty {
            Type::Stack(..) => vec!["push_front".into(), "pop_front".into()],
            ty if self.is_header(ty) => vec!["isValid".into(), "setValid".into(), "setInvalid".into()],
            _ => Vec::new(),
        };
        self.no_method(ty, name, &list);
        self.poison(span)
    }

    #[allow(clippy::too_many_arguments)]
    fn extern_method(
        &mut self,
        object: Expr,
        ty: &Type,
        methods: &[MethodDef],
        bindings: Bindings,
        name: &Ident,
        types: &[ast::TypeExpr],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let owner = match ty {
            Type::Named(id, _) => self.def(*id).name.name.clone(),
            _ => "".into(),
        };
        let candidates =
            methods.iter().filter(|method| method.name.name == name.name && method.name.name != owner);
        let candidates = candidates.map(|method| ((), method.signature.clone())).collect::<Vec<_>>();
        if candidates.is_empty() {
            self.check_args_alone(args);
            let names = methods.iter().map(|method| method.name.name.clone()).filter(|name| *name != owner);
            let names = names.collect::<Vec<_>>();
            self.no_method(ty, name, &names);
            return self.poison(span);
        }
        let Some(((), signature)) = self.choose(&name.name, candidates, args, span) else {
            return self.poison(span);
        };
        let callee = Callee::Method(Box::new(object), name.name.clone());
        let result = self.finish_call(callee, &signature, bindings, types, args, &name.name, span);
        self.check_packet_call(&owner, name, &result);
        result
    }

    /// Checks the argument types of `extract`, `lookahead` and `emit`, and the size argument of `extract`.
    fn check_packet_call(&mut self, owner: &str, name: &Ident, call: &Expr) {
        let (result, span) = (call.ty.clone(), call.span);
        let ExprKind::Call(call) = &call.kind else { return };
        if owner == "packet_in" && &*name.name == "lookahead" {
            let fixed = self.size_in_bits(&result, false) == self.size_in_bits(&result, true);
            if !fixed {
                let shown = self.show(&result);
                self.error(span, format!("lookahead cannot read {shown}: its size varies"));
            }
            return;
        }
        let Some(Some(arg)) = call.args.first() else { return };
        let ty = self.resolved(&arg.ty);
        let varies = self.size_in_bits(&ty, false) != self.size_in_bits(&ty, true);
        let (sized, count) = (call.args.len() == 2, arg.span);
        match (owner, &*name.name) {
            ("packet_in", "extract") if self.is_header(&ty) && varies != sized => {
                let shown = self.show(&ty);
                let problem = match sized {
                    true => format!("{shown} has no varbit field, so that it takes no size"),
                    false => format!("{shown} has a varbit field: its size must be given"),
                };
                self.error(count, problem).help = Some(match sized {
                    true => "write extract(header)".into(),
                    false => "write extract(header, size in bits of the varbit field)".into(),
                });
            }
            ("packet_in", "extract") if !self.is_header(&ty) && ty != Type::Poison => {
                let shown = self.show(&ty);
                let span = arg.span;
                self.error(span, format!("extract needs a header, not {shown}"));
            }
            ("packet_out", "emit") if !self.emittable(&ty) => {
                let shown = self.show(&ty);
                let span = arg.span;
                self.error(span, format!("emit needs headers, not {shown}"));
            }
            _ => {}
        }
    }

    fn emittable(&self, ty: &Type) -> bool {
        match ty {
            Type::Poison | Type::Var(_) => true,
            Type::Stack(..) => true,
            Type::Tuple(types) => types.iter().all(|ty| self.emittable(ty)),
            _ => match self.fields(ty) {
                Some((FieldsKind::Struct, fields)) => fields.iter().all(|(_, ty)| self.emittable(ty)),
                Some(_) => true,
                None => false,
            },
        }
    }

    pub(super) fn apply_block(&mut self, object: Expr, ty: &Type, args: &[Arg], span: Span) -> Expr {
        let Some((parser, params)) = self.block_signature(ty) else { return self.poison(span) };
        let wanted = if parser { Place::Parser } else { Place::Control };
        if self.context.place != wanted {
            let (what, place) =
                if parser { ("parsers", "a parser state") } else { ("controls", "the body of a control") };
            self.check_args_alone(args);
            self.error(span, format!("{what} can only be applied in {place}"));
            return self.poison(span);
        }
        let signature = Rc::new(Signature { type_params: Vec::new(), params, result: Type::Void });
        self.finish_call(Callee::Apply(Box::new(object)), &signature, Vec::new(), &[], args, "apply", span)
    }

    fn builtin(&self, ty: &Type, name: &str) -> Option<(Builtin, usize)> {
        let kind = self.fields_kind(ty);
        Some(match (ty, name) {
            (Type::Stack(..), "push_front") => (Builtin::PushFront, 1),
            (Type::Stack(..), "pop_front") => (Builtin::PopFront, 1),
            (_, "isValid") if matches!(kind, Some(FieldsKind::Header | FieldsKind::Union)) => {
                (Builtin::IsValid, 0)
            }
            (_, "setValid") if kind == Some(FieldsKind::Header) => (Builtin::SetValid, 0),
            (_, "setInvalid") if kind == Some(FieldsKind::Header) => (Builtin::SetInvalid, 0),
            _ => return None,
        })
    }

    fn call_builtin(
        &mut self,
        object: Expr,
        builtin: Builtin,
        params: usize,
        args: &[Arg],
        span: Span,
    ) -> Expr {
        if args.len() != params {
            self.check_args_alone(args);
            self.error(span, format!("this method takes {params} arguments, not {}", args.len()));
            return self.poison(span);
        }
        if builtin != Builtin::IsValid && !self.check_lvalue(&object) {
            return self.poison(span);
        }
        let mut values = Vec::new();
        if let Some(Arg { value: Some(value), .. }) = args.first() {
            let count = self.value(value);
            if count.ty != Type::Poison && count.int().is_none() {
                self.error(value.span, "the count must be known at compile time");
                return self.poison(span);
            }
            if count.int().is_some_and(|count| *count < BigInt::from(0)) {
                self.error(value.span, "the count cannot be negative");
                return self.poison(span);
            }
            values.push(Some(count));
        }
        let result = if builtin == Builtin::IsValid { Type::Bool } else { Type::Void };
        let callee = Callee::Builtin(builtin, Box::new(object));
        let call = Call { callee, signature: no_params(result.clone()), type_args: Vec::new(), args: values };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: result, span }
    }

    /// Result of `minSizeInBits()` and its variants; `None` if `name` is another method.
    pub(super) fn size_method(&self, ty: &Type, name: &str, no_args: bool) -> Option<Option<BigInt>> {
        let (max, bytes) = match name {
            "minSizeInBits" => (false, false),
            "minSizeInBytes" => (false, true),
            "maxSizeInBits" => (true, false),
            "maxSizeInBytes" => (true, true),
            _ => return None,
        };
        if !no_args {
            return None;
        }
        let bits = self.size_in_bits(ty, max);
        Some(bits.map(|bits| BigInt::from(if bytes { bits.div_ceil(8) } else { bits })))
    }

    fn size_in_bits(&self, ty: &Type, max: bool) -> Option<u64> {
        Some(match ty {
            Type::Bool => 1,
            Type::Bit(width) | Type::Signed(width) => u64::from(*width),
            Type::Varbit(width) => {
                if max {
                    u64::from(*width)
                } else {
                    0
                }
            }
            Type::Stack(element, size) => self.size_in_bits(element, max)? * u64::from(*size),
            Type::Tuple(types) => types.iter().map(|ty| self.size_in_bits(ty, max)).sum::<Option<u64>>()?,
            Type::Named(id, _) => match &self.def(*id).kind {
                DefKind::Fields(kind, _) => {
                    let (_, fields) = self.fields(ty)?;
                    let sizes = fields
                        .iter()
                        .map(|(_, ty)| self.size_in_bits(ty, max))
                        .collect::<Option<Vec<_>>>()?;
                    match (kind, max) {
                        (FieldsKind::Union, true) => sizes.into_iter().max().unwrap_or(0),
                        (FieldsKind::Union, false) => 0,
                        _ => sizes.into_iter().sum(),
                    }
                }
                DefKind::NewType(inner) | DefKind::SerEnum(inner, _) => self.size_in_bits(inner, max)?,
                _ => return None,
            },
            _ => return None,
        })
    }
}
