//! Constructor calls and compile-time constants.

use super::Checker;
use super::call::Bindings;
use super::definitions::poison;
use crate::ast::Arg;
use crate::source::Span;
use crate::typed::*;
use crate::types::{DefId, DefKind, Signature, Type};
use std::rc::Rc;

impl Checker {
    /// Constructor call of a generic type without type arguments.
    pub(super) fn construct_inferred(&mut self, id: DefId, args: &[Arg], span: Span) -> Expr {
        let params = self.program.def(id).type_params.clone();
        let types = params.iter().map(|_| self.inferred.fresh()).collect::<Rc<[Type]>>();
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
            return poison(span);
        };
        let def = self.program.def(*id);
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
            return poison(span);
        }
        let Some(((), signature)) = self.choose(&name, candidates, args, span) else {
            return poison(span);
        };
        let (from, place) = (self.diagnostics.len(), self.program.def(*id).name.span);
        let Some(values) = self.check_args(&name, &signature, &bindings, args, span) else {
            self.in_context(from, place, "declared here");
            return poison(span);
        };
        for value in values.iter().flatten() {
            if !self.is_constant(value) {
                self.error(value.span, "arguments of a constructor must be known at compile time");
                return poison(span);
            }
        }
        let values = values.into_iter().map(|value| value.map(|value| self.settle(value))).collect();
        let ty = self.inferred.resolved(&ty);
        let call =
            Call { callee: Callee::Construct(ty.clone()), signature, type_args: Vec::new(), args: values };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span }
    }

    /// True if the value is known at compile time: a constant, an instance or a constructor parameter.
    pub(super) fn is_constant(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(..)
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
