//! Calls of functions, actions, methods, tables, controls, parsers and constructors.

use super::definitions::{poison, substituted};
use super::{Checker, Place, Symbol, closest};
use crate::ast::{self, Arg, Direction, Ident};
use crate::lex::Base;
use crate::source::Span;
use crate::typed::*;
use crate::types::{DeclId, DefId, DefKind, ParamDef, Signature, Type};
use crate::walk;
use std::rc::Rc;

pub(super) type Bindings = Vec<(DefId, Type)>;

pub(super) fn no_params(result: Type) -> Rc<Signature> {
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
                poison(span)
            }
        }
    }

    pub(super) fn check_args_alone(&mut self, args: &[Arg]) {
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
            return poison(span);
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
            return poison(span);
        }
        let Some((decl, signature)) = self.choose(&name.name, candidates, args, span) else {
            return poison(span);
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
        let made = self.finish_call(callee, &signature, Vec::new(), types, args, &name.name, span);
        if &*name.name == "static_assert" { self.static_assert(made) } else { made }
    }

    /// Evaluates `static_assert` of a constant condition; a false one is an error.
    fn static_assert(&mut self, expr: Expr) -> Expr {
        let ExprKind::Call(call) = &expr.kind else { return expr };
        let Some(Some(condition)) = call.args.first() else { return expr };
        let Some(holds) = condition.bool() else { return expr };
        if !holds {
            let text = match call.args.get(1) {
                Some(Some(Expr { kind: ExprKind::Str(text), .. })) => text.to_string(),
                _ => "static_assert failed".into(),
            };
            self.error(expr.span, text);
            return poison(expr.span);
        }
        Expr { kind: ExprKind::Bool(true), ty: Type::Bool, span: expr.span }
    }

    fn check_extern_place(&mut self, name: &str, span: Span) {
        if name == "verify" && self.context.place != Place::Parser {
            self.error(span, "verify can only be called in a parser");
        }
    }

    /// Selects the overload that accepts the number and the names of the arguments.
    pub(super) fn choose<T>(
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
                let exact = |index: &&usize| candidates[**index].1.params.len() == args.len();
                if fitting.iter().filter(exact).count() > 1 {
                    self.check_args_alone(args);
                    let places = candidates.iter().map(|(_, signature)| &signature.params);
                    let places = places.filter_map(|params| Some(params.first()?.name.span));
                    let notes = places.map(|place| (place, "one form".to_string())).collect();
                    let error = self.error(span, format!("several forms of '{name}' take these arguments"));
                    error.help = Some("name the arguments: f(x = ...)".into());
                    error.notes = notes;
                    return None;
                }
                let chosen = *fitting.iter().find(exact).unwrap_or(first);
                Some(candidates.swap_remove(chosen))
            }
        }
    }

    /// Checks arguments, infers type arguments and builds the call.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn finish_call(
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
            return poison(span);
        }
        let first_own = bindings.len();
        for (index, param) in signature.type_params.iter().enumerate() {
            let ty = match types.get(index) {
                Some(ty) => match self.value_ty(ty) {
                    Type::DontCare => self.inferred.fresh(),
                    ty => ty,
                },
                None => self.inferred.fresh(),
            };
            bindings.push((*param, ty));
        }
        let Some(args) = self.check_args(name, signature, &bindings, args, span) else {
            return poison(span);
        };
        let result = substituted(&signature.result, &bindings);
        let result = self.inferred.resolved(&result);
        let type_args =
            bindings[first_own..].iter().map(|(_, ty)| self.inferred.resolved(ty)).collect::<Vec<_>>();
        if let Some(index) = type_args.iter().position(|ty| matches!(ty, Type::Infer(_))) {
            let name_of = self.program.def(signature.type_params[index]).name.name.clone();
            let in_result = signature.result == Type::Var(signature.type_params[index]);
            if in_result {
                self.error(span, format!("the type '{name_of}' of '{name}' cannot be inferred")).help =
                    Some(format!("write it: {name}<type>(...)"));
                return poison(span);
            }
        }
        let args = args.into_iter().map(|arg| arg.map(|arg| self.settle(arg))).collect::<Vec<_>>();
        if !self.check_passed(&callee, signature, &type_args, &args) {
            return poison(span);
        }
        let call = Call { callee, signature: signature.clone(), type_args, args };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: result, span }
    }

    /// Checks restrictions on arguments that their types do not express.
    fn check_passed(
        &mut self,
        callee: &Callee,
        signature: &Signature,
        type_args: &[Type],
        args: &[Option<Expr>],
    ) -> bool {
        for (param, arg) in signature.params.iter().zip(args) {
            let Some(arg) = arg else { continue };
            let inferred = match &param.ty {
                Type::Var(id) => signature.type_params.iter().position(|other| other == id),
                _ => None,
            };
            let inferred = inferred.and_then(|index| type_args.get(index));
            let directed = param.direction != Direction::None;
            let (problem, help) = match (inferred, &arg.ty) {
                (Some(Type::Int), _) if directed => ("this number has no width", Some("write it as 32w1")),
                (Some(Type::Str), _) if directed => ("a string cannot be passed with a direction", None),
                (Some(Type::Record(_)), _) => {
                    ("the type of this list is unknown", Some("write its type before it: (T) { ... }"))
                }
                (_, Type::Named(id, _))
                    if matches!(
                        self.program.def(*id).kind,
                        DefKind::Block(..) | DefKind::BlockType(..) | DefKind::Package(_)
                    ) =>
                {
                    ("only packages take controls and parsers", None)
                }
                _ if matches!(callee, Callee::Action(_)) && applies(arg) => {
                    ("a table cannot be applied in an argument", Some("apply it before, into a variable"))
                }
                _ => continue,
            };
            let place = param.name.span;
            let error = self.error(arg.span, problem);
            error.help = help.map(str::to_string);
            error.within(place, "the parameter");
            return false;
        }
        true
    }

    /// Replaces the type of an argument by the result of inference.
    pub(super) fn settle(&self, mut expr: Expr) -> Expr {
        expr.ty = self.inferred.resolved(&expr.ty);
        expr
    }

    pub(super) fn check_args(
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
                let first = signature.params.first().map(|param| param.name.span);
                let error = self.error(place.unwrap_or(span), message);
                if let Some(first) = first {
                    error.within(first, "the parameters");
                }
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
        // Literals without a width are unified last and take the width of the other arguments.
        let literal = |value: &Option<Expr>| value.as_ref().is_some_and(|value| value.ty == Type::Int);
        for pass in [false, true] {
            for (index, param) in params.iter().enumerate() {
                if literal(&values[index]) != pass {
                    continue;
                }
                if values[index].as_ref().is_some_and(|value| value.ty == Type::Poison) {
                    continue;
                }
                let ty = substituted(&param.ty, bindings);
                if let (Type::DontCare, Some(value)) = (&ty, &values[index]) {
                    let (span, param) = (value.span, param.name.name.clone());
                    self.error(
                        span,
                        format!("the type of '{param}' was left open where the object was made"),
                    );
                    return None;
                }
                if let Some(value) = values[index].take() {
                    let from = self.diagnostics.len();
                    let value = self.pass(value, param, &ty);
                    self.in_context(from, param.name.span, "the parameter");
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
        let instance = matches!(&checked.ty, Type::Named(id, _) if matches!(self.program.def(*id).kind, DefKind::Extern(_) | DefKind::Block(..) | DefKind::BlockType(..) | DefKind::Package(_)));
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
        poison(value.span)
    }

    fn pass(&mut self, value: Expr, param: &ParamDef, ty: &Type) -> Expr {
        let span = value.span;
        match param.direction {
            Direction::Out | Direction::InOut => {
                if !self.check_lvalue(&value) {
                    return poison(span);
                }
                if !self.unify(&value.ty, ty) {
                    let (from, to) = (self.show(&value.ty), self.show(ty));
                    let error = self.error(span, format!("expected {to}, found {from}"));
                    error.help = Some(format!(
                        "'{}' is assigned, so that its type must be exactly this",
                        param.name.name
                    ));
                    return poison(span);
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
        let ty = self.inferred.resolved(&object.ty);
        if ty == Type::Poison {
            self.check_args_alone(args);
            return poison(span);
        }
        if let Some(size) = self.program.size_method(&ty, &name.name, args.is_empty()) {
            if !types.is_empty() {
                self.error(span, format!("'{}' takes no type arguments", name.name));
                return poison(span);
            }
            return match size {
                Some(bits) => Expr { kind: ExprKind::Int(bits, Base::Decimal), ty: Type::Int, span },
                None => {
                    let shown = self.show(&ty);
                    self.error(span, format!("{shown} has no size in bits"));
                    poison(span)
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
                poison(span)
            }
        }
    }

    /// Direct application `Control.apply(...)`: creates an anonymous instance for this call.
    fn direct_application(&mut self, ty: &Type, name: &Ident, args: &[Arg], span: Span) -> Expr {
        let block =
            matches!(ty, Type::Named(id, _) if matches!(self.program.def(*id).kind, DefKind::Block(..)));
        if !block || &*name.name != "apply" {
            self.check_args_alone(args);
            let shown = self.show(ty);
            self.error(name.span, format!("{shown} has no member '{}' to call", name.name));
            return poison(span);
        }
        let ast_args: &[Arg] = &[];
        let instance = self.construct(ty.clone(), ast_args, span);
        if instance.ty == Type::Poison {
            return poison(span);
        }
        self.apply_block(instance, ty, args, span)
    }

    fn apply_table(&mut self, table: DeclId, args: &[Arg], span: Span) -> Expr {
        self.used.insert(table);
        if !args.is_empty() {
            self.error(span, "apply() of a table takes no arguments");
        }
        if !matches!(self.context.place, Place::Control) {
            self.error(span, "tables can only be applied in the body of a control");
            return poison(span);
        }
        let call = Call {
            callee: Callee::Table(table),
            signature: no_params(Type::ApplyResult(table)),
            type_args: Vec::new(),
            args: Vec::new(),
        };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: Type::ApplyResult(table), span }
    }
}

/// True if the expression applies a table.
pub(super) fn applies(expr: &Expr) -> bool {
    let mut found = false;
    walk::expression(expr, &mut |part| found |= matches!(part.kind, ExprKind::ApplyMember(..)));
    found
}

/// Arguments in parameter order, or the reason why they do not fit the signature.
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
