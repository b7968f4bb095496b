//! Instances and their implementations of abstract methods.

use super::definitions::substituted;
use super::{Checker, Place, Symbol};
use crate::ast::{self, DeclKind as Ast, Ident};
use crate::source::Span;
use crate::typed::{Callee, DeclKind, Expr, ExprKind};
use crate::types::*;
use std::rc::Rc;

impl Checker {
    /// Instantiation of an extern, a control, a parser or a package.
    pub(super) fn instance(
        &mut self,
        decl: &ast::Decl,
        ty: &ast::TypeExpr,
        args: &[ast::Arg],
        methods: Option<&[ast::Decl]>,
    ) -> Option<DeclId> {
        let callee = ast::Expr::new(ast::ExprKind::Type(Box::new(ty.clone())), ty.span);
        let made = self.call(&callee, &[], args, decl.span);
        let Expr { kind: ExprKind::Call(mut call), ty: made_ty, .. } = made else {
            let id = self.program.add_decl(&decl.name, &decl.annotations, Type::Poison, DeclKind::Var);
            self.declare(&decl.name, Symbol::Decl(id));
            return None;
        };
        self.check_instance_place(&made_ty, decl.span);
        let from = self.diagnostics.len();
        self.abstract_methods(&made_ty, decl, methods);
        self.in_context(from, decl.name.span, "of this instance");
        let made_ty = self.inferred.resolved(&made_ty);
        self.check_inferred(&made_ty, &decl.name);
        let Callee::Construct(ty) = &mut call.callee else { return None };
        *ty = made_ty.clone();
        let kind = DeclKind::Instance(Rc::new(*call));
        let id = self.program.add_decl(&decl.name, &decl.annotations, made_ty, kind);
        self.watch(id, "instance");
        self.declare(&decl.name, Symbol::Decl(id));
        Some(id)
    }

    fn check_instance_place(&mut self, ty: &Type, span: Span) {
        let Type::Named(id, _) = ty else { return };
        let (at_top, in_parser) = (self.scopes.len() == 1, self.context.place == Place::Parser);
        match &self.program.def(*id).kind {
            DefKind::Block(parser, ..) if at_top => {
                let what = if *parser { "a parser" } else { "a control" };
                self.error(span, format!("{what} cannot be instantiated at the top of a program"));
            }
            DefKind::Block(false, ..) if in_parser => {
                self.error(span, "a control cannot be instantiated in a parser");
            }
            DefKind::Block(true, ..) if !in_parser => {
                self.error(span, "a parser cannot be instantiated in a control");
            }
            DefKind::Package(_) if !at_top => {
                self.error(span, "a package can only be instantiated at the top of a program");
            }
            _ => {}
        }
    }

    /// Reports type arguments of an instance that inference did not determine.
    fn check_inferred(&mut self, ty: &Type, name: &Ident) {
        let Type::Named(id, args) = ty else { return };
        let open = args.iter().position(|arg| matches!(arg, Type::Infer(_)));
        let Some(param) = open.and_then(|index| self.program.def(*id).type_params.get(index)) else { return };
        let (param, shown) =
            (self.program.def(*param).name.name.clone(), self.program.def(*id).name.name.clone());
        self.error(name.span, format!("the type '{param}' of '{shown}' cannot be inferred")).help =
            Some(format!("write it: {shown}<type>(...)"));
    }

    /// Reports an implementation whose signature differs from that of the abstract method.
    fn check_implementation(&mut self, ty: &Type, wanted: &Signature, id: DeclId, name: &Ident) {
        let (Type::Named(owner, args), DeclKind::Function(own, _)) = (ty, &self.program.decls[id].kind)
        else {
            return;
        };
        let own = own.clone();
        let bindings = self.program.def(*owner).type_params.iter().copied().zip(args.iter().cloned());
        let bindings = bindings.collect::<Vec<_>>();
        if !wanted.type_params.is_empty() || !own.type_params.is_empty() {
            return;
        }
        let result = substituted(&wanted.result, &bindings);
        let mut fits = self.unify(&own.result, &result) && own.params.len() == wanted.params.len();
        for (own, wanted) in own.params.iter().zip(&wanted.params) {
            let ty = substituted(&wanted.ty, &bindings);
            fits &= own.direction == wanted.direction && self.unify(&own.ty, &ty);
        }
        if !fits {
            let place = wanted.params.first().map(|param| param.name.span);
            let error = self.error(name.span, "the parameters or the result differ from the abstract method");
            if let Some(place) = place {
                error.notes.push((place, "the abstract method".into()));
            }
        }
    }

    fn abstract_methods(&mut self, ty: &Type, decl: &ast::Decl, methods: Option<&[ast::Decl]>) {
        let wanted: Vec<MethodDef> = match ty {
            Type::Named(id, _) => match &self.program.def(*id).kind {
                DefKind::Extern(methods) => {
                    methods.iter().filter(|method| method.is_abstract).cloned().collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let mut list: Vec<DeclId> = Vec::new();
        self.scoped(|c| {
            for method in methods.unwrap_or(&[]) {
                match &method.kind {
                    Ast::Function(signature, body) => {
                        let known = wanted.iter().find(|other| other.name.name == method.name.name);
                        let id = c.function(method, signature, body, Place::AbstractMethod, true);
                        match known {
                            None if wanted.is_empty() => {}
                            None => {
                                c.error(
                                    method.name.span,
                                    format!("'{}' is not an abstract method", method.name.name),
                                );
                            }
                            Some(known) => c.check_implementation(ty, &known.signature, id, &method.name),
                        }
                        list.push(id);
                    }
                    Ast::Instance(ty, args, inner) => {
                        c.instance(method, ty, args, inner.as_deref());
                    }
                    _ => {
                        c.error(method.span, "only methods and instances stand here");
                    }
                }
            }
        });
        if let (true, Some([first, ..])) = (wanted.is_empty(), methods) {
            let place = first.name.span;
            let shown = self.show(ty);
            self.error(decl.name.span, format!("{shown} has no abstract methods to implement"))
                .notes
                .push((place, "implemented here".into()));
        }
        for method in &wanted {
            let given = list.iter().any(|id| self.program.decls[*id].name.name == method.name.name);
            if !given {
                self.error(decl.span, format!("abstract method '{}' is not implemented", method.name.name));
            }
        }
    }
}
