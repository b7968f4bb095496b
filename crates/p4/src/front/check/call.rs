//! Calls: of functions, actions, methods, tables, controls, parsers and constructors.

use super::{Checker, Place, Symbol, closest};
use crate::front::ast::{self, Arg, Direction, Ident};
use crate::front::source::Span;
use crate::front::typed::*;
use crate::front::types::{DeclId, DefId, DefKind, FieldsKind, MethodDef, ParamDef, Signature, Type};
use num_bigint::BigInt;
use std::rc::Rc;

type Bindings = Vec<(DefId, Type)>;

fn no_params(result: Type) -> Rc<Signature> {
    Rc::new(Signature { type_params: Vec::new(), params: Vec::new(), result })
}

impl Checker {
    pub(super) fn call(
        &mut self,
        callee: &ast::Expr,
        types: &[ast::TypeExpr],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        match &callee.kind {
            ast::ExprKind::Name(name, global) => self.call_name(name, *global, types, args, span),
            ast::ExprKind::Type(ty) => {
                if let ast::TypeKind::Named(name, global, given) = &ty.kind
                    && given.is_empty()
                {
                    let found = self.lookup(&name.name, *global).first().cloned();
                    if let Some(Symbol::Generic(id)) = found {
                        return self.construct_inferred(id, args, span);
                    }
                }
                let found = self.ty(ty);
                self.construct(found, args, span)
            }
            ast::ExprKind::Member(base, name) => self.call_member(base, name, types, args, span),
            _ => {
                self.check_args_alone(args);
                self.error(callee.span, "this cannot be called");
                self.poison(span)
            }
        }
    }

    fn check_args_alone(&mut self, args: &[Arg]) {
        for arg in args {
            if let Some(value) = &arg.value {
                self.expr(value);
            }
        }
    }

    fn call_name(
        &mut self,
        name: &Ident,
        global: bool,
        types: &[ast::TypeExpr],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let symbols = self.lookup(&name.name, global).to_vec();
        let decls = symbols.iter().filter_map(|symbol| match symbol {
            Symbol::Decl(decl) => Some(*decl),
            _ => None,
        });
        let decls = decls.collect::<Vec<_>>();
        let (Some(first), true) = (decls.first().copied(), decls.len() == symbols.len()) else {
            self.check_args_alone(args);
            if symbols.is_empty() {
                let names = self.scopes.iter().flat_map(|scope| scope.keys());
                let near = closest(&name.name, names);
                let error = self.error(name.span, format!("function '{}' is not declared", name.name));
                error.help = near.map(|near| format!("did you mean '{near}'?"));
            } else {
                self.error(name.span, format!("'{}' cannot be called", name.name));
            }
            return self.poison(span);
        };
        let signature = |decl: &DeclId| match &self.program.decls[*decl].kind {
            DeclKind::Function(signature, _)
            | DeclKind::Extern(signature)
            | DeclKind::Action(signature, _) => Some(signature.clone()),
            _ => None,
        };
        let candidates = decls.iter().filter_map(|decl| Some((*decl, signature(decl)?))).collect::<Vec<_>>();
        if candidates.is_empty() {
            let place = self.program.decls[first].name.span;
            self.check_args_alone(args);
            self.error(name.span, format!("'{}' cannot be called", name.name))
                .notes
                .push((place, "declared here".into()));
            return self.poison(span);
        }
        let Some((decl, signature)) = self.choose(&name.name, candidates, args, span) else {
            return self.poison(span);
        };
        self.used.insert(decl);
        let is_action = matches!(self.program.decls[decl].kind, DeclKind::Action(..));
        if is_action && matches!(self.context.place, Place::Parser | Place::Function | Place::Top) {
            self.error(span, "actions cannot be called here").help = Some("write a function".into());
        }
        let callee = match &self.program.decls[decl].kind {
            DeclKind::Function(..) => Callee::Function(decl),
            DeclKind::Action(..) => Callee::Action(decl),
            _ => Callee::Extern(name.name.clone()),
        };
        if matches!(callee, Callee::Extern(_)) {
            self.check_extern_place(&name.name, span);
        }
        self.finish_call(callee, &signature, Vec::new(), types, args, &name.name, span)
    }

    fn check_extern_place(&mut self, name: &str, span: Span) {
        if name == "verify" && self.context.place != Place::Parser {
            self.error(span, "verify can only be called in a parser");
        }
    }

    /// The candidate that accepts these arguments by number and name.
    fn choose<T>(
        &mut self,
        name: &str,
        mut candidates: Vec<(T, Rc<Signature>)>,
        args: &[Arg],
        span: Span,
    ) -> Option<(T, Rc<Signature>)> {
        if candidates.len() == 1 {
            return candidates.pop();
        }
        let mut fitting = Vec::new();
        for (index, (_, signature)) in candidates.iter().enumerate() {
            if arrange(signature, args).is_ok() {
                fitting.push(index);
            }
        }
        match fitting.as_slice() {
            [one] => Some(candidates.swap_remove(*one)),
            [] => {
                self.check_args_alone(args);
                self.error(span, format!("no form of '{name}' takes these arguments"));
                None
            }
            [first, ..] => {
                let exact = fitting.iter().find(|index| candidates[**index].1.params.len() == args.len());
                let chosen = *exact.unwrap_or(first);
                Some(candidates.swap_remove(chosen))
            }
        }
    }

    /// Checks arguments, infers type arguments and builds the call.
    #[allow(clippy::too_many_arguments)]
    fn finish_call(
        &mut self,
        callee: Callee,
        signature: &Rc<Signature>,
        mut bindings: Bindings,
        types: &[ast::TypeExpr],
        args: &[Arg],
        name: &str,
        span: Span,
    ) -> Expr {
        if !types.is_empty() && types.len() != signature.type_params.len() {
            let wanted = signature.type_params.len();
            self.error(span, format!("'{name}' takes {wanted} type arguments, not {}", types.len()));
            return self.poison(span);
        }
        let first_own = bindings.len();
        for (index, param) in signature.type_params.iter().enumerate() {
            let ty = match types.get(index) {
                Some(ty) => match self.value_ty(ty) {
                    Type::DontCare => self.fresh(),
                    ty => ty,
                },
                None => self.fresh(),
            };
            bindings.push((*param, ty));
        }
        let Some(args) = self.check_args(name, signature, &bindings, args, span) else {
            return self.poison(span);
        };
        let result = self.substituted(&signature.result, &bindings);
        let result = self.resolved(&result);
        let type_args = bindings[first_own..].iter().map(|(_, ty)| self.resolved(ty)).collect::<Vec<_>>();
        if let Some(index) = type_args.iter().position(|ty| matches!(ty, Type::Infer(_))) {
            let name_of = self.def(signature.type_params[index]).name.name.clone();
            let in_result = signature.result == Type::Var(signature.type_params[index]);
            if in_result {
                self.error(span, format!("the type '{name_of}' of '{name}' cannot be inferred")).help =
                    Some(format!("write it: {name}<type>(...)"));
                return self.poison(span);
            }
        }
        let args = args.into_iter().map(|arg| arg.map(|arg| self.settle(arg))).collect();
        let call = Call { callee, signature: signature.clone(), type_args, args };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: result, span }
    }

    /// The type of an argument after inference has seen all of them.
    fn settle(&self, mut expr: Expr) -> Expr {
        expr.ty = self.resolved(&expr.ty);
        expr
    }

    pub(super) fn substituted(&self, ty: &Type, bindings: &Bindings) -> Type {
        ty.substitute(&|param| bindings.iter().find(|(other, _)| *other == param).map(|(_, ty)| ty.clone()))
    }

    fn check_args(
        &mut self,
        name: &str,
        signature: &Rc<Signature>,
        bindings: &Bindings,
        args: &[Arg],
        span: Span,
    ) -> Option<Vec<Option<Expr>>> {
        let arranged = match arrange(signature, args) {
            Ok(arranged) => arranged,
            Err((place, message)) => {
                self.check_args_alone(args);
                let message = message.replace("{name}", name);
                self.error(place.unwrap_or(span), message);
                return None;
            }
        };
        let params = &signature.params;
        let mut values: Vec<Option<Expr>> = Vec::new();
        let mut failed = false;
        for (index, arg) in arranged.iter().enumerate() {
            let value = match arg {
                Some(Arg { value: Some(value), .. }) => Some(self.argument(value, &params[index])),
                Some(Arg { value: None, span, .. }) => {
                    if params[index].direction != Direction::Out {
                        self.error(*span, "'_' can only stand for an out argument");
                    }
                    None
                }
                None => None,
            };
            failed |= value.as_ref().is_some_and(|value| value.ty == Type::Poison);
            values.push(value);
        }
        // Literals without a width take it from the others.
        let literal = |value: &Option<Expr>| value.as_ref().is_some_and(|value| value.ty == Type::Int);
        for pass in [false, true] {
            for (index, param) in params.iter().enumerate() {
                if literal(&values[index]) != pass {
                    continue;
                }
                if values[index].as_ref().is_some_and(|value| value.ty == Type::Poison) {
                    continue;
                }
                let ty = self.substituted(&param.ty, bindings);
                if let Some(value) = values[index].take() {
                    let value = self.pass(value, param, &ty);
                    failed |= value.ty == Type::Poison && ty != Type::Poison;
                    values[index] = Some(value);
                } else if arranged[index].is_none()
                    && let Some(default) = param.default.clone()
                {
                    values[index] = Some(self.coerce(default, &ty));
                }
            }
        }
        if failed { None } else { Some(values) }
    }

    fn argument(&mut self, value: &ast::Expr, param: &ParamDef) -> Expr {
        let checked = self.expr(value);
        let instance = matches!(&checked.ty, Type::Named(id, _) if matches!(self.def(*id).kind, DefKind::Extern(_) | DefKind::Block(..) | DefKind::BlockType(..) | DefKind::Package(_)));
        let what = match (&checked.kind, &checked.ty) {
            (ExprKind::Type(_), _) if checked.ty != Type::Poison => "a type",
            (_, Type::Action) => "an action",
            (_, Type::Table(_)) => "a table",
            (_, Type::Function) => "a function",
            (_, Type::Void) => "a call without result",
            _ if instance && param.direction != Direction::None => "an instance",
            _ => return checked,
        };
        self.error(value.span, format!("{what} cannot be passed as '{}'", param.name.name));
        self.poison(value.span)
    }

    fn pass(&mut self, value: Expr, param: &ParamDef, ty: &Type) -> Expr {
        let span = value.span;
        match param.direction {
            Direction::Out | Direction::InOut => {
                if !self.check_lvalue(&value) {
                    return self.poison(span);
                }
                if !self.unify(&value.ty, ty) {
                    let (from, to) = (self.show(&value.ty), self.show(ty));
                    let error = self.error(span, format!("expected {to}, found {from}"));
                    error.help = Some(format!(
                        "'{}' is assigned, so that its type must be exactly this",
                        param.name.name
                    ));
                    return self.poison(span);
                }
                value
            }
            Direction::In | Direction::None => self.coerce(value, ty),
        }
    }

    fn call_member(
        &mut self,
        base: &ast::Expr,
        name: &Ident,
        types: &[ast::TypeExpr],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let object = self.expr(base);
        let ty = self.resolved(&object.ty);
        if ty == Type::Poison {
            self.check_args_alone(args);
            return self.poison(span);
        }
        if let Some(size) = self.size_method(&ty, &name.name, args.is_empty()) {
            return match size {
                Some(bits) => Expr { kind: ExprKind::Int(bits), ty: Type::Int, span },
                None => {
                    let shown = self.show(&ty);
                    self.error(span, format!("{shown} has no size in bits"));
                    self.poison(span)
                }
            };
        }
        if let ExprKind::Type(ty) = &object.kind {
            return self.direct_application(&ty.clone(), name, args, span);
        }
        match &ty {
            Type::Table(table) if &*name.name == "apply" => self.apply_table(*table, args, span),
            Type::Stack(..) | Type::Named(..) => self.method(object, &ty, name, types, args, span),
            _ => {
                self.check_args_alone(args);
                self.no_method(&ty, name, &[]);
                self.poison(span)
            }
        }
    }

    /// `Control.apply(...)`: an instance made for this call.
    fn direct_application(&mut self, ty: &Type, name: &Ident, args: &[Arg], span: Span) -> Expr {
        let block = matches!(ty, Type::Named(id, _) if matches!(self.def(*id).kind, DefKind::Block(..)));
        if !block || &*name.name != "apply" {
            self.check_args_alone(args);
            let shown = self.show(ty);
            self.error(name.span, format!("{shown} has no member '{}' to call", name.name));
            return self.poison(span);
        }
        let ast_args: &[Arg] = &[];
        let instance = self.construct(ty.clone(), ast_args, span);
        if instance.ty == Type::Poison {
            return self.poison(span);
        }
        self.apply_block(instance, ty, args, span)
    }

    fn apply_table(&mut self, table: DeclId, args: &[Arg], span: Span) -> Expr {
        self.applied.insert(table);
        if !args.is_empty() {
            self.error(span, "apply() of a table takes no arguments");
        }
        if !matches!(self.context.place, Place::Control) {
            self.error(span, "tables can only be applied in the body of a control");
            return self.poison(span);
        }
        let call = Call {
            callee: Callee::Table(table),
            signature: no_params(Type::ApplyResult(table)),
            type_args: Vec::new(),
            args: Vec::new(),
        };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: Type::ApplyResult(table), span }
    }

    fn no_method(&mut self, ty: &Type, name: &Ident, methods: &[Rc<str>]) {
        let shown = self.show(ty);
        let near = closest(&name.name, methods.iter());
        let error = self.error(name.span, format!("{shown} has no method '{}'", name.name));
        error.help = match near {
            Some(near) => Some(format!("did you mean '{near}'?")),
            None if methods.is_empty() => None,
            None => Some(format!("it has: {}", methods.join(", "))),
        };
    }

    fn method(
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

    /// `extract` takes headers, `emit` what consists of headers.
    fn check_packet_call(&mut self, owner: &str, name: &Ident, call: &Expr) {
        let ExprKind::Call(call) = &call.kind else { return };
        let Some(Some(arg)) = call.args.first() else { return };
        let ty = self.resolved(&arg.ty);
        match (owner, &*name.name) {
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

    fn apply_block(&mut self, object: Expr, ty: &Type, args: &[Arg], span: Span) -> Expr {
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

    /// `minSizeInBits()` and the like: `None` if `name` is another method.
    fn size_method(&self, ty: &Type, name: &str, no_args: bool) -> Option<Option<BigInt>> {
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

    /// A constructor call of a generic type without type arguments.
    pub(super) fn construct_inferred(&mut self, id: DefId, args: &[Arg], span: Span) -> Expr {
        let params = self.def(id).type_params.clone();
        let types = params.iter().map(|_| self.fresh()).collect::<Rc<[Type]>>();
        self.construct(Type::Named(id, types), args, span)
    }

    /// `Type(args)`.
    pub(super) fn construct(&mut self, ty: Type, args: &[Arg], span: Span) -> Expr {
        let Type::Named(id, given) = &ty else {
            self.check_args_alone(args);
            if ty != Type::Poison {
                let shown = self.show(&ty);
                self.error(span, format!("{shown} has no constructor"));
            }
            return self.poison(span);
        };
        let def = self.def(*id);
        let name = def.name.name.clone();
        let bindings: Bindings = def.type_params.iter().copied().zip(given.iter().cloned()).collect();
        let candidates: Vec<((), Rc<Signature>)> = match &def.kind {
            DefKind::Extern(methods) => {
                let constructors = methods.iter().filter(|method| method.name.name == name);
                constructors.map(|method| ((), method.signature.clone())).collect()
            }
            DefKind::Block(_, _, constructor) => vec![((), constructor.clone())],
            DefKind::Package(constructor) => vec![((), constructor.clone())],
            _ => Vec::new(),
        };
        if candidates.is_empty() {
            self.check_args_alone(args);
            self.error(span, format!("'{name}' has no constructor"));
            return self.poison(span);
        }
        let Some(((), signature)) = self.choose(&name, candidates, args, span) else {
            return self.poison(span);
        };
        let Some(values) = self.check_args(&name, &signature, &bindings, args, span) else {
            return self.poison(span);
        };
        for value in values.iter().flatten() {
            if !self.is_constant(value) {
                self.error(value.span, "arguments of a constructor must be known at compile time");
                return self.poison(span);
            }
        }
        let values = values.into_iter().map(|value| value.map(|value| self.settle(value))).collect();
        let ty = self.resolved(&ty);
        let call =
            Call { callee: Callee::Construct(ty.clone()), signature, type_args: Vec::new(), args: values };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span }
    }

    /// Known at compile time: a constant, an instance, a parameter of a constructor.
    pub(super) fn is_constant(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Member(_)
            | ExprKind::Invalid => true,
            ExprKind::Default | ExprKind::Poison | ExprKind::Any | ExprKind::Type(_) => true,
            ExprKind::Tuple(items) => items.iter().all(|item| self.is_constant(item)),
            ExprKind::Record(items) => items.iter().all(|(_, item)| self.is_constant(item)),
            ExprKind::Cast(inner)
            | ExprKind::Unary(_, inner)
            | ExprKind::Slice(inner, ..)
            | ExprKind::Field(inner, _) => self.is_constant(inner),
            ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b)
            | ExprKind::Index(a, b) => self.is_constant(a) && self.is_constant(b),
            ExprKind::Cond(a, b, c) => self.is_constant(a) && self.is_constant(b) && self.is_constant(c),
            ExprKind::Call(call) => matches!(call.callee, Callee::Construct(_)),
            ExprKind::Decl(decl) => match &self.program.decls[*decl].kind {
                DeclKind::Const(_) | DeclKind::Instance(..) => true,
                DeclKind::Var => self.constructor_params.contains(decl),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Arguments in the order of the parameters, or the reason why they do not fit.
fn arrange<'a>(
    signature: &Signature,
    args: &'a [Arg],
) -> Result<Vec<Option<&'a Arg>>, (Option<Span>, String)> {
    let params = &signature.params;
    let mut result: Vec<Option<&Arg>> = vec![None; params.len()];
    if args.len() > params.len() {
        let message = format!("'{{name}}' takes {} arguments, not {}", params.len(), args.len());
        return Err((None, message));
    }
    let named = args.iter().filter(|arg| arg.name.is_some()).count();
    if named != 0 && named != args.len() {
        let place = args.iter().find(|arg| arg.name.is_none()).map(|arg| arg.span);
        return Err((place, "arguments with and without names are mixed".into()));
    }
    for (position, arg) in args.iter().enumerate() {
        let index = match &arg.name {
            None => position,
            Some(name) => match params.iter().position(|param| param.name.name == name.name) {
                Some(index) => index,
                None => return Err((Some(arg.span), format!("'{{name}}' has no parameter '{}'", name.name))),
            },
        };
        if result[index].is_some() {
            return Err((
                Some(arg.span),
                format!("parameter '{}' has two arguments", params[index].name.name),
            ));
        }
        result[index] = Some(arg);
    }
    for (param, arg) in params.iter().zip(&result) {
        if arg.is_none() && param.default.is_none() && !param.optional {
            return Err((None, format!("'{{name}}' needs an argument for '{}'", param.name.name)));
        }
    }
    Ok(result)
}
