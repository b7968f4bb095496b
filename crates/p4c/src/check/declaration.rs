//! Top-level declarations.

use super::{Checker, Place, Symbol};
use crate::ast::{self, Annotations, DeclKind as Ast, Direction, Ident};
use crate::source::{Severity, Span};
use crate::typed::{DeclKind, Stmt};
use crate::types::*;
use std::rc::Rc;

impl Checker {
    pub(super) fn top_level(&mut self, decl: &ast::Decl) {
        self.check_annotations(&decl.annotations);
        match &decl.kind {
            Ast::Const(ty, value) => self.constant(decl, ty, value),
            Ast::Var(..) => {
                self.error(decl.span, "variables cannot be declared at the top of a program").help =
                    Some("write const, or move it into a control".into());
            }
            Ast::Instance(ty, args, methods) => {
                let id = self.instance(decl, ty, args, methods.as_deref());
                if &*decl.name.name == "main" {
                    self.program.main = id;
                }
            }
            Ast::Typedef(ty, opaque) => self.typedef(decl, ty, *opaque),
            Ast::Fields(kind, params, fields) => self.fields_def(decl, kind, params, fields),
            Ast::Enum(underlying, members) => self.enumeration(decl, underlying.as_ref(), members),
            Ast::Error(members) => {
                for member in members {
                    if self.program.errors.contains(&member.name) {
                        self.error(member.span, format!("error.{} is declared twice", member.name));
                    } else {
                        self.program.errors.push(member.name.clone());
                    }
                }
            }
            Ast::MatchKind(members) => {
                for member in members {
                    if self.match_kinds.contains(&member.name) {
                        self.error(member.span, format!("match kind {} is declared twice", member.name));
                    } else {
                        self.match_kinds.push(member.name.clone());
                    }
                }
            }
            Ast::Extern(params, methods) => self.extern_object(decl, params, methods),
            Ast::ExternFunction(signature) => {
                let signature = self.scoped(|c| c.signature(signature, "extern function"));
                let kind = DeclKind::Extern(Rc::new(signature));
                let id = self.program.add_decl(&decl.name, &decl.annotations, Type::Function, kind);
                self.declare(&decl.name, Symbol::Decl(id));
            }
            Ast::Function(signature, body) => {
                self.function(decl, signature, body, Place::Function, true);
            }
            Ast::Action(params, body) => {
                self.action(decl, params, body);
                self.control_plane_name(decl, "", "action");
            }
            Ast::BlockType(kind, signature) => {
                let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::Param);
                let signature = self.scoped(|c| c.signature(signature, kind));
                self.program.finish_def(id, signature.type_params.clone());
                self.program.defs[id].kind = DefKind::BlockType(*kind == "parser", Rc::new(signature));
                self.declare_def(&decl.name, id);
            }
            Ast::Package(signature) => {
                let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::Param);
                let signature = self.scoped(|c| c.signature(signature, "package"));
                self.program.finish_def(id, signature.type_params.clone());
                self.program.defs[id].kind = DefKind::Package(Rc::new(signature));
                self.declare_def(&decl.name, id);
            }
            Ast::Control(signature, constructor, locals, body) => {
                self.control(decl, signature, constructor, locals, body);
            }
            Ast::Parser(signature, constructor, locals, states) => {
                self.parser(decl, signature, constructor, locals, states);
            }
            Ast::Table(_) | Ast::ValueSet(..) => {
                self.error(decl.span, "this can only be declared in a control or parser");
            }
        }
    }

    pub(super) fn declare_def(&mut self, name: &Ident, id: DefId) {
        let symbol = if self.program.def(id).type_params.is_empty() {
            Symbol::Type(Type::Named(id, Rc::from([])))
        } else {
            Symbol::Generic(id)
        };
        self.declare(name, symbol);
        self.program.top_defs.push(id);
    }

    pub(super) fn type_params(&mut self, params: &[Ident]) -> Vec<DefId> {
        let mut list = Vec::new();
        for param in params {
            let id = self.program.add_def(param, &Rc::from([]), DefKind::Param);
            self.declare(param, Symbol::Type(Type::Var(id)));
            list.push(id);
        }
        list
    }

    fn typedef(&mut self, decl: &ast::Decl, ty: &ast::TypeExpr, opaque: bool) {
        let found = self.value_ty(ty);
        if !opaque {
            self.declare(&decl.name, Symbol::Type(found));
            return;
        }
        let fits = match &found {
            Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Poison => true,
            Type::Named(id, _) => {
                matches!(self.program.def(*id).kind, DefKind::NewType(_) | DefKind::SerEnum(..))
            }
            _ => false,
        };
        if !fits {
            let shown = self.show(&found);
            self.error(ty.span, format!("'type' cannot be made of {shown}"));
        }
        let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::NewType(found));
        self.declare_def(&decl.name, id);
    }

    fn fields_def(&mut self, decl: &ast::Decl, kind: &str, params: &[Ident], fields: &[ast::Field]) {
        let kind = match kind {
            "struct" => FieldsKind::Struct,
            "header" => FieldsKind::Header,
            _ => FieldsKind::Union,
        };
        let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::Param);
        let (params, list) = self.scoped(|c| {
            let params = c.type_params(params);
            let mut list: Vec<FieldDef> = Vec::new();
            let mut varbit: Option<Span> = None;
            for field in fields {
                c.check_annotations(&field.annotations);
                let ty = c.value_ty(&field.ty);
                if !c.program.field_fits(kind, &ty) {
                    let shown = c.show(&ty);
                    let what = match kind {
                        FieldsKind::Struct => "a struct",
                        FieldsKind::Header => "a header",
                        FieldsKind::Union => "a header union",
                    };
                    c.error(
                        field.ty.span.to(field.name.span),
                        format!("{what} cannot have a field of type {shown}"),
                    );
                }
                if matches!(ty, Type::Varbit(_)) {
                    if let (FieldsKind::Header, Some(first)) = (kind, varbit) {
                        c.error(field.name.span, "a header has at most one varbit field")
                            .notes
                            .push((first, "the first".into()));
                    }
                    varbit = varbit.or(Some(field.name.span));
                }
                if let Some(other) = list.iter().find(|other| other.name.name == field.name.name) {
                    let place = other.name.span;
                    c.error(field.name.span, format!("field '{}' is declared twice", field.name.name))
                        .notes
                        .push((place, "the first".into()));
                }
                list.push(FieldDef { name: field.name.clone(), ty, annotations: field.annotations.clone() });
            }
            (params, list)
        });
        self.program.finish_def(id, params);
        self.program.defs[id].kind = DefKind::Fields(kind, list.into());
        self.declare_def(&decl.name, id);
    }

    fn enumeration(
        &mut self,
        decl: &ast::Decl,
        underlying: Option<&ast::TypeExpr>,
        members: &[(Ident, Option<ast::Expr>)],
    ) {
        let mut names: Vec<Rc<str>> = Vec::new();
        for (name, _) in members {
            if names.contains(&name.name) {
                self.error(name.span, format!("member '{}' is declared twice", name.name));
            }
            names.push(name.name.clone());
        }
        let Some(underlying) = underlying else {
            if let Some((name, _)) = members.iter().find(|(_, value)| value.is_some()) {
                self.error(name.span, "members of an enum without an underlying type have no values").help =
                    Some(format!("write enum bit<32> {}", decl.name.name));
            }
            let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::Enum(names.into()));
            self.declare_def(&decl.name, id);
            return;
        };
        let mut ty = self.value_ty(underlying);
        if !matches!(ty, Type::Bit(_) | Type::Signed(_) | Type::Poison) {
            let shown = self.show(&ty);
            self.error(underlying.span, format!("an enum cannot be made of {shown}")).help =
                Some("only of bit<W> and int<W>".into());
            ty = Type::Poison;
        }
        // A member's value may refer to earlier members.
        let id =
            self.program.add_def(&decl.name, &decl.annotations, DefKind::SerEnum(ty.clone(), Rc::from([])));
        let mut list: Vec<(Rc<str>, num_bigint::BigInt)> = Vec::new();
        for (name, value) in members {
            let Some(value) = value else {
                self.error(name.span, format!("member '{}' of a serializable enum needs a value", name.name));
                continue;
            };
            let checked = self.typed(value, &ty);
            match checked.int() {
                Some(number) => list.push((name.name.clone(), number.clone())),
                None if checked.ty == Type::Poison => {}
                None => {
                    self.error(value.span, "the value of a member must be known at compile time");
                }
            }
        }
        self.program.defs[id].kind = DefKind::SerEnum(ty, list.into());
        self.declare_def(&decl.name, id);
    }

    fn extern_object(&mut self, decl: &ast::Decl, params: &[Ident], methods: &[ast::Method]) {
        let id = self.program.add_def(&decl.name, &decl.annotations, DefKind::Extern(Rc::from([])));
        self.scoped(|c| {
            let params = c.type_params(params);
            c.program.finish_def(id, params);
        });
        self.declare_def(&decl.name, id);
        let params_again = self.program.def(id).type_params.clone();
        let list = self.scoped(|c| {
            for (param, def) in params.iter().zip(params_again) {
                c.declare(param, Symbol::Type(Type::Var(def)));
            }
            let mut list: Vec<MethodDef> = Vec::new();
            for method in methods {
                let constructor = method.signature.result.is_none();
                if constructor && method.name.name != decl.name.name {
                    c.error(method.name.span, format!("a constructor must be named '{}'", decl.name.name));
                }
                if !constructor && method.name.name == decl.name.name {
                    c.error(method.name.span, "a constructor has no result");
                }
                let signature = c.scoped(|c| c.signature(&method.signature, "method"));
                let itself = |param: &&ParamDef| matches!(param.ty, Type::Named(other, _) if other == id);
                if let Some(param) = signature.params.iter().find(itself) {
                    c.error(param.name.span, format!("'{}' refers to itself", decl.name.name));
                }
                let twice = list.iter().any(|other| {
                    other.name.name == method.name.name
                        && other.signature.params.len() == signature.params.len()
                        && other
                            .signature
                            .params
                            .iter()
                            .zip(&signature.params)
                            .all(|(a, b)| a.name.name == b.name.name)
                });
                if twice {
                    c.error(method.name.span, format!("method '{}' is declared twice", method.name.name));
                }
                let (name, is_abstract) = (method.name.clone(), method.is_abstract);
                list.push(MethodDef { name, signature: Rc::new(signature), is_abstract });
            }
            list
        });
        self.program.defs[id].kind = DefKind::Extern(list.into());
    }

    /// Checks a signature and declares its type parameters and parameters in the current scope.
    pub(super) fn signature(&mut self, signature: &ast::Signature, what: &str) -> Signature {
        let type_params = self.type_params(&signature.type_params);
        let result = signature.result.as_ref().map_or(Type::Void, |ty| self.ty(ty));
        if let (Type::Int, Some(ty), "method" | "extern function") = (&result, &signature.result, what) {
            self.error(ty.span, "the result of an extern has a width").help = Some("write bit<32>".into());
        }
        let params = self.params(&signature.params, what);
        Signature { type_params, params, result }
    }

    /// Checks parameters and declares them in the current scope.
    pub(super) fn params(&mut self, params: &[ast::Param], what: &str) -> Vec<ParamDef> {
        let mut list: Vec<ParamDef> = Vec::new();
        let mut defaulted = false;
        for param in params {
            self.check_annotations(&param.annotations);
            let ty = self.value_ty(&param.ty);
            self.check_param(param, &ty, what);
            let default = param.default.as_ref().map(|default| {
                let value = self.typed(default, &ty);
                if !self.is_constant(&value) {
                    self.error(default.span, "a default value must be known at compile time");
                }
                value
            });
            if default.is_some() && param.direction == Direction::Out {
                self.error(param.name.span, "an out parameter has no default value");
            }
            let optional = param.annotations.iter().any(|annotation| &*annotation.name.name == "optional");
            if optional && matches!(what, "function" | "action" | "constructor") {
                self.error(param.name.span, "@optional is not allowed here").help =
                    Some("only packages and externs have optional parameters".into());
            }
            defaulted |= default.is_some();
            if defaulted && default.is_none() && !optional && what != "action" {
                self.error(param.name.span, "a parameter without a default follows one with a default");
            }
            let decl = self.program.add_decl(&param.name, &param.annotations, ty.clone(), DeclKind::Var);
            self.parameters.insert(decl);
            match param.direction {
                Direction::In => {
                    self.read_only.insert(decl, "an 'in' parameter");
                }
                Direction::None => {
                    self.read_only.insert(decl, "a parameter without a direction");
                    self.directionless.insert(decl);
                }
                _ => {}
            }
            if what == "constructor" {
                self.read_only.insert(decl, "a parameter of the constructor");
                self.constructor_params.insert(decl);
            }
            self.declare(&param.name, Symbol::Decl(decl));
            let (name, annotations, direction) =
                (param.name.clone(), param.annotations.clone(), param.direction);
            list.push(ParamDef { name, ty, direction, default, optional, annotations, decl });
        }
        list
    }

    fn check_param(&mut self, param: &ast::Param, ty: &Type, what: &str) {
        let span = param.ty.span.to(param.name.span);
        let instance = match ty {
            Type::Named(id, _) => matches!(
                self.program.def(*id).kind,
                DefKind::Extern(_) | DefKind::Block(..) | DefKind::BlockType(..) | DefKind::Package(_)
            ),
            _ => false,
        };
        if instance && param.direction != Direction::None {
            let shown = self.show(ty);
            self.error(span, format!("a parameter of type {shown} has no direction"));
        }
        if matches!(what, "constructor" | "package") && param.direction != Direction::None {
            self.error(span, format!("a parameter of a {what} has no direction"));
        }
        if instance && what == "action" {
            self.error(span, "an instance cannot be the parameter of an action");
        }
        let outside = matches!(what, "extern function" | "method");
        let constant = *ty == Type::Str || *ty == Type::Int && !outside;
        if constant && param.direction != Direction::None {
            let shown = self.show(ty);
            self.error(span, format!("a parameter of type {shown} has no direction"));
        }
        if *ty == Type::Int && what == "action" {
            self.error(span, "a parameter of an action has a width").help = Some("write bit<32>".into());
        }
        let parser = what == "constructor" && self.context.place == Place::Parser;
        let block = match ty {
            Type::Named(id, _) => match self.program.def(*id).kind {
                // A parameter of control type, so that any control of that type can be passed to a
                // constructor.
                DefKind::BlockType(kind, _) if what == "constructor" && kind == parser => None,
                DefKind::Block(true, ..) | DefKind::BlockType(true, _) => Some("a parser"),
                DefKind::Block(false, ..) | DefKind::BlockType(false, _) => Some("a control"),
                DefKind::Package(_) => Some("a package"),
                _ => None,
            },
            _ => None,
        };
        if let (Some(block), true) = (block, what != "package") {
            self.error(span, format!("{block} cannot be a parameter here"));
        }
        if matches!(ty, Type::Int) && matches!(param.direction, Direction::Out | Direction::InOut) {
            self.error(span, "a parameter of type int cannot be assigned");
        }
    }

    /// A function, or the implementation of an abstract method.
    pub(super) fn function(
        &mut self,
        decl: &ast::Decl,
        signature: &ast::Signature,
        body: &[ast::Stmt],
        place: Place,
        declare: bool,
    ) -> DeclId {
        let id = self.program.add_decl(&decl.name, &decl.annotations, Type::Function, DeclKind::Pending);
        let (signature, body) = self.scoped(|c| {
            let signature = c.signature(signature, "function");
            let result = signature.result.clone();
            let body = c.within(place, result, |c| c.scoped(|c| c.statements(body)));
            (signature, body)
        });
        if signature.result != Type::Void && signature.result != Type::Poison && falls_through(&body) {
            let result = self.show(&signature.result);
            self.error(
                decl.name.span,
                format!("'{}' does not return a value on every path", decl.name.name),
            )
            .help = Some(format!("end it with a return of type {result}"));
        }
        if place == Place::Function {
            self.watch(id, "function");
            self.watch_params(&signature.params);
        }
        self.program.decls[id].kind = DeclKind::Function(Rc::new(signature), Rc::new(body));
        if declare {
            self.declare(&decl.name, Symbol::Decl(id));
        }
        id
    }

    pub(super) fn action(&mut self, decl: &ast::Decl, params: &[ast::Param], body: &[ast::Stmt]) -> DeclId {
        let id = self.program.add_decl(&decl.name, &decl.annotations, Type::Action, DeclKind::Pending);
        let (params, body) = self.scoped(|c| {
            let params = c.params(params, "action");
            let mut data = false;
            for param in &params {
                if param.direction == Direction::None {
                    data = true;
                } else if data {
                    c.error(param.name.span, "a parameter with a direction follows one without").help =
                        Some("write those of the control plane last".into());
                }
            }
            let body = c.within(Place::Action, Type::Void, |c| c.scoped(|c| c.statements(body)));
            (params, body)
        });
        self.watch(id, "action");
        self.watch_params(&params);
        let signature = Signature { type_params: Vec::new(), params, result: Type::Void };
        self.program.decls[id].kind = DeclKind::Action(Rc::new(signature), Rc::new(body));
        self.declare(&decl.name, Symbol::Decl(id));
        id
    }

    /// Whole-program checks.
    pub(super) fn finish(&mut self) {
        self.check_no_action();
        self.check_main();
        self.warn_unused();
    }

    fn check_main(&mut self) {
        let Some(main) = self.program.main else {
            let errors = self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
            if errors {
                return;
            }
            if let Some(span) =
                self.lookup("main", true).first().and_then(|symbol| self.program.symbol_span(symbol))
            {
                self.error(span, "main must be an instance of a package");
            }
            return;
        };
        let ty = self.program.decls[main].ty.clone();
        let package =
            matches!(&ty, Type::Named(id, _) if matches!(self.program.def(*id).kind, DefKind::Package(_)));
        if !package && ty != Type::Poison {
            let span = self.program.decls[main].name.span;
            let shown = self.show(&ty);
            self.error(span, format!("main must be a package, not {shown}"));
        }
    }

    /// Tables require the definition of `NoAction` from core.p4.
    fn check_no_action(&mut self) {
        let Some(symbol) = self.lookup("NoAction", true).first().cloned() else { return };
        let fits = match &symbol {
            Symbol::Decl(decl) => match &self.program.decls[*decl].kind {
                DeclKind::Action(signature, _) => signature.params.is_empty(),
                _ => false,
            },
            _ => false,
        };
        if let (false, Some(span)) = (fits, self.program.symbol_span(&symbol)) {
            self.error(span, "NoAction must be an action without parameters").help =
                Some("choose another name, or #include <core.p4>".into());
        }
    }

    pub(super) fn annotation<'a>(annotations: &'a Annotations, name: &str) -> Option<&'a ast::Annotation> {
        annotations.iter().find(|annotation| &*annotation.name.name == name)
    }
}

/// True if control can reach the end of the body.
fn falls_through(body: &[Stmt]) -> bool {
    !body.iter().any(|stmt| match stmt {
        Stmt::Return(_) | Stmt::Exit => true,
        Stmt::Block(body) => !falls_through(body),
        Stmt::If(_, yes, no) => !falls_through(yes) && !falls_through(no),
        Stmt::SwitchValue(_, cases) => {
            cases.iter().any(|case| case.labels.is_empty())
                && cases.iter().all(|case| !falls_through(&case.body))
        }
        _ => false,
    })
}
