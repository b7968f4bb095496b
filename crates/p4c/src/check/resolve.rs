//! Resolution of type expressions to types.

use super::{Checker, Symbol};
use crate::ast::{Expr, Ident, TypeExpr, TypeKind};
use crate::lex::Base;
use crate::source::Span;
use crate::types::*;
use num_traits::{Signed, ToPrimitive};
use std::rc::Rc;

/// Maximum length of a header stack.
const MAX_STACK: u32 = 16_384;

impl Checker {
    /// Type that `ty` denotes; reports an error and returns `Poison` if there is none.
    pub(super) fn ty(&mut self, ty: &TypeExpr) -> Type {
        match &ty.kind {
            TypeKind::Base(name) => match *name {
                "bool" => Type::Bool,
                "error" => {
                    if self.program.errors.is_empty() {
                        self.error(ty.span, "no error is declared").help =
                            Some("write #include <core.p4> at the top".into());
                    }
                    Type::Error
                }
                "string" => Type::Str,
                "int" => Type::Int,
                "match_kind" => Type::MatchKind,
                "bit" => Type::Bit(1),
                _ => Type::Void,
            },
            TypeKind::Sized(name, width) => self.sized(name, width),
            TypeKind::DontCare => Type::DontCare,
            TypeKind::Tuple(args) => {
                let args = args.iter().map(|arg| self.element_ty(arg)).collect();
                Type::Tuple(args)
            }
            TypeKind::List(element) => Type::List(Rc::new(self.value_ty(element))),
            TypeKind::Stack(element, size) => self.stack(element, size),
            TypeKind::Named(name, global, args) => self.named(name, *global, args, ty.span),
        }
    }

    /// Type of a tuple element.
    fn element_ty(&mut self, ty: &TypeExpr) -> Type {
        let found = self.value_ty(ty);
        let instance = match &found {
            Type::Named(id, _) => matches!(
                self.program.def(*id).kind,
                DefKind::Block(..) | DefKind::BlockType(..) | DefKind::Package(_) | DefKind::Extern(_)
            ),
            _ => false,
        };
        if instance {
            let shown = self.show(&found);
            self.error(ty.span, format!("a tuple cannot have an element of type {shown}"));
            return Type::Poison;
        }
        found
    }

    fn sized(&mut self, name: &str, width: &Expr) -> Type {
        let limit = if name == "varbit" { 8 * MAX_WIDTH } else { MAX_WIDTH };
        let Some(value) = self.constant_u32(width, limit, "a width") else { return Type::Poison };
        if value == 0 && name == "int" {
            self.error(width.span, "int<0> is not a type");
            return Type::Poison;
        }
        match name {
            "bit" => Type::Bit(value),
            "int" => Type::Signed(value),
            _ => Type::Varbit(value),
        }
    }

    /// Compile-time number that must not exceed `limit`.
    pub(super) fn constant_u32(&mut self, expr: &Expr, limit: u32, what: &str) -> Option<u32> {
        self.based_u32(expr, limit, what).map(|(value, _)| value)
    }

    /// Like [`Checker::constant_u32`], with the base in which the number is written.
    pub(super) fn based_u32(&mut self, expr: &Expr, limit: u32, what: &str) -> Option<(u32, Base)> {
        let checked = self.expr(expr);
        if checked.ty == Type::Poison {
            return None;
        }
        let Some(value) = checked.int() else {
            self.error(expr.span, format!("{what} must be a number known at compile time"));
            return None;
        };
        if value.is_negative() {
            self.error(expr.span, format!("{what} cannot be negative"));
            return None;
        }
        match value.to_u32() {
            Some(value) if value <= limit => Some((value, checked.base())),
            _ => {
                self.error(expr.span, format!("{value} is too large: the limit is {limit}"));
                None
            }
        }
    }

    fn stack(&mut self, element: &TypeExpr, size: &Expr) -> Type {
        let ty = self.ty(element);
        let header = matches!(self.program.fields_kind(&ty), Some(FieldsKind::Header | FieldsKind::Union));
        if !header && !matches!(ty, Type::Poison | Type::Var(_)) {
            let shown = self.show(&ty);
            self.error(element.span, format!("{shown} cannot be the element of a stack")).help =
                Some("only headers and header unions form stacks".into());
            return Type::Poison;
        }
        let Some(length) = self.constant_u32(size, MAX_STACK, "the size of a stack") else {
            return Type::Poison;
        };
        if length == 0 {
            self.error(size.span, "a stack has at least one element");
            return Type::Poison;
        }
        Type::Stack(Rc::new(ty), length)
    }

    fn named(&mut self, name: &Ident, global: bool, args: &[TypeExpr], span: Span) -> Type {
        let found = self.lookup(&name.name, global).first().cloned();
        let args = args.iter().map(|arg| self.ty(arg)).collect::<Vec<_>>();
        match found {
            Some(Symbol::Type(ty)) => {
                if !args.is_empty() {
                    self.error(span, format!("'{}' takes no type arguments", name.name));
                    return Type::Poison;
                }
                self.name_type(&ty);
                ty
            }
            Some(Symbol::Generic(id)) => {
                self.instantiated.insert(id);
                self.specialize(id, args, span)
            }
            Some(Symbol::Decl(decl)) => {
                let place = self.program.decls[decl].name.span;
                self.error(name.span, format!("'{}' is not a type", name.name))
                    .notes
                    .push((place, "declared here".into()));
                Type::Poison
            }
            None => {
                self.unknown_type(name);
                Type::Poison
            }
        }
    }

    fn unknown_type(&mut self, name: &Ident) {
        let types = self.scopes.iter().flat_map(|scope| scope.iter());
        let types =
            types.filter(|(_, list)| !matches!(list.first(), Some(Symbol::Decl(_)))).map(|(name, _)| name);
        let near = super::closest(&name.name, types);
        let error = self.error(name.span, format!("type '{}' is not declared", name.name));
        error.help = Some(match near {
            Some(near) => format!("did you mean '{near}'?"),
            None => "declare it before its use, or include the file that does".into(),
        });
    }

    /// Instantiates a generic type with type arguments.
    pub(super) fn specialize(&mut self, id: DefId, args: Vec<Type>, span: Span) -> Type {
        let wanted = self.program.def(id).type_params.len();
        if wanted != args.len() {
            let name = self.program.def(id).name.name.clone();
            self.error(span, format!("'{name}' takes {wanted} type arguments, not {}", args.len()));
            return Type::Poison;
        }
        for arg in &args {
            if matches!(arg, Type::Named(other, _) if *other == id) {
                let name = self.program.def(id).name.name.clone();
                self.error(span, format!("'{name}' cannot be a type argument of itself"));
                return Type::Poison;
            }
            if matches!(arg, Type::Void) {
                self.error(span, "void cannot be a type argument");
                return Type::Poison;
            }
        }
        let ty = Type::Named(id, args.into());
        self.check_specialized(&ty, span);
        ty
    }

    /// Reports fields of a specialised struct, header or union that its kind does not allow.
    fn check_specialized(&mut self, ty: &Type, span: Span) {
        let Some((kind, fields)) = self.program.fields(ty) else { return };
        for (index, (name, field)) in fields.into_iter().enumerate() {
            if !self.program.field_fits(kind, &field) {
                let place = match ty {
                    Type::Named(id, _) => match &self.program.def(*id).kind {
                        DefKind::Fields(_, fields) => fields.get(index).map(|field| field.name.span),
                        _ => None,
                    },
                    _ => None,
                };
                let (ty, field) = (self.show(ty), self.show(&field));
                let error = self.error(
                    span,
                    format!("{ty} would have a field '{name}' of type {field}, which is not allowed"),
                );
                error.notes.extend(place.map(|place| (place, "the field".to_string())));
            }
        }
    }

    /// Resolves the type of a value; `void` is an error.
    pub(super) fn value_ty(&mut self, ty: &TypeExpr) -> Type {
        let found = self.ty(ty);
        if found == Type::Void {
            self.error(ty.span, "void is not the type of a value");
            return Type::Poison;
        }
        found
    }
}
