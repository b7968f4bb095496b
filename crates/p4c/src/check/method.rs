//! Method calls: methods of externs and the built-in methods of headers, stacks and blocks.

use super::call::{Bindings, no_params};
use super::definitions::poison;
use super::{Checker, Place, closest};
use crate::ast::{self, Arg, Ident};
use crate::source::Span;
use crate::typed::*;
use crate::types::{DefKind, MethodDef, Signature, Type};
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
        if let Some((builtin, params)) = self.program.builtin(ty, &name.name) {
            return self.call_builtin(object, builtin, params, args, span);
        }
        if let Type::Named(id, given) = ty {
            match &self.program.def(*id).kind {
                DefKind::Extern(methods) => {
                    let methods = methods.clone();
                    let params = self.program.def(*id).type_params.clone();
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
            ty if self.program.is_header(ty) => {
                vec!["isValid".into(), "setValid".into(), "setInvalid".into()]
            }
            _ => Vec::new(),
        };
        self.no_method(ty, name, &list);
        poison(span)
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
            Type::Named(id, _) => self.program.def(*id).name.name.clone(),
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
            return poison(span);
        }
        let Some(((), signature)) = self.choose(&name.name, candidates, args, span) else {
            return poison(span);
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
            let fixed = self.program.size_in_bits(&result, false) == self.program.size_in_bits(&result, true);
            if !fixed {
                let shown = self.show(&result);
                self.error(span, format!("lookahead cannot read {shown}: its size varies"));
            }
            return;
        }
        let Some(Some(arg)) = call.args.first() else { return };
        let ty = self.inferred.resolved(&arg.ty);
        let varies = self.program.size_in_bits(&ty, false) != self.program.size_in_bits(&ty, true);
        let (sized, count) = (call.args.len() == 2, arg.span);
        match (owner, &*name.name) {
            ("packet_in", "extract") if self.program.is_header(&ty) && varies != sized => {
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
            ("packet_in", "extract") if !self.program.is_header(&ty) && ty != Type::Poison => {
                let shown = self.show(&ty);
                let span = arg.span;
                self.error(span, format!("extract needs a header, not {shown}"));
            }
            ("packet_out", "emit") if !self.program.emittable(&ty) => {
                let shown = self.show(&ty);
                let span = arg.span;
                self.error(span, format!("emit needs headers, not {shown}"));
            }
            _ => {}
        }
    }

    pub(super) fn apply_block(&mut self, object: Expr, ty: &Type, args: &[Arg], span: Span) -> Expr {
        let Some((parser, params)) = self.program.block_signature(ty) else { return poison(span) };
        let wanted = if parser { Place::Parser } else { Place::Control };
        if self.context.place != wanted {
            let (what, place) =
                if parser { ("parsers", "a parser state") } else { ("controls", "the body of a control") };
            self.check_args_alone(args);
            self.error(span, format!("{what} can only be applied in {place}"));
            return poison(span);
        }
        let signature = Rc::new(Signature { type_params: Vec::new(), params, result: Type::Void });
        self.finish_call(Callee::Apply(Box::new(object)), &signature, Vec::new(), &[], args, "apply", span)
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
            return poison(span);
        }
        if builtin != Builtin::IsValid && !self.check_lvalue(&object) {
            return poison(span);
        }
        let mut values = Vec::new();
        if let Some(Arg { value: Some(value), .. }) = args.first() {
            let count = self.value(value);
            if count.ty != Type::Poison && count.int().is_none() {
                self.error(value.span, "the count must be known at compile time");
                return poison(span);
            }
            if count.int().is_some_and(|count| *count < BigInt::from(0)) {
                self.error(value.span, "the count cannot be negative");
                return poison(span);
            }
            values.push(Some(count));
        }
        let result = if builtin == Builtin::IsValid { Type::Bool } else { Type::Void };
        let callee = Callee::Builtin(builtin, Box::new(object));
        let call = Call { callee, signature: no_params(result.clone()), type_args: Vec::new(), args: values };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: result, span }
    }
}
