//! Types of the program as the target represents them.

use super::Result;
use crate::ir::Scalar;
use crate::source::Diagnostic;
use crate::typed::{self, Expr};
use crate::types::{DefId, DefKind, Fields, FieldsKind, Type};
use belljar_base::Map;
use num_bigint::BigInt;
use std::rc::Rc;

/// Definitions of types, and the type parameters bound by the functions being inlined.
pub(super) struct Types<'a> {
    program: &'a typed::Program,
    /// Bound type parameters.
    pub params: Map<DefId, Type>,
}

impl<'a> Types<'a> {
    /// The types of a program, with no parameter bound.
    pub(super) fn new(program: &'a typed::Program) -> Self {
        Types { program, params: Map::new() }
    }

    /// The type with type parameters of the functions being inlined substituted.
    pub(super) fn ty(&self, ty: &Type) -> Type {
        if self.params.is_empty() {
            return ty.clone();
        }
        let mut ty = ty.clone();
        for _ in 0..8 {
            let next = ty.substitute(&|param| self.params.get(&param).cloned());
            if next == ty {
                break;
            }
            ty = next;
        }
        ty
    }

    /// Fields of a header, union, struct or tuple type; `None` for other types.
    pub(super) fn fields(&self, ty: &Type) -> Option<Fields> {
        match ty {
            Type::Named(..) => self.program.fields(ty),
            Type::Tuple(types) => {
                let fields = types.iter().enumerate().map(|(i, ty)| (Rc::from(format!("f{i}")), ty.clone()));
                Some((FieldsKind::Struct, fields.collect()))
            }
            Type::Record(fields) => Some((FieldsKind::Struct, fields.to_vec())),
            _ => None,
        }
    }

    /// Scalar representation of a type; `None` for aggregate types.
    pub(super) fn scalar(&self, ty: &Type) -> Option<Scalar> {
        Some(match ty {
            Type::Bool => Scalar::Bool,
            Type::Bit(width) => Scalar::Bit(*width),
            Type::Signed(width) => Scalar::Signed(*width),
            Type::Varbit(width) => Scalar::Varbit(*width),
            Type::Int => Scalar::Int,
            Type::Error => Scalar::Bit(32),
            Type::Named(id, _) => match &self.program.defs[*id].kind {
                DefKind::Enum(_) => Scalar::Bit(32),
                DefKind::SerEnum(inner, _) | DefKind::NewType(inner) => self.scalar(inner)?,
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Number of an error or enum member.
    pub(super) fn member(&self, ty: &Type, name: &str) -> Option<BigInt> {
        match ty {
            Type::Error => self.program.errors.iter().position(|other| &**other == name).map(BigInt::from),
            Type::Named(id, _) => match &self.program.defs[*id].kind {
                DefKind::Enum(members) => members.iter().position(|other| &**other == name).map(BigInt::from),
                DefKind::SerEnum(_, members) => {
                    members.iter().find(|(other, _)| &**other == name).map(|(_, value)| value.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Fields of a header type, with nested structs flattened.
    pub(super) fn flat_fields(&self, ty: &Type, prefix: &str, output: &mut Vec<(String, Scalar)>) {
        for (name, ty) in self.fields(ty).map(|(_, fields)| fields).unwrap_or_default() {
            let name = format!("{prefix}{name}");
            match self.scalar(&ty) {
                Some(scalar) => output.push((name, scalar)),
                None => self.flat_fields(&ty, &format!("{name}."), output),
            }
        }
    }

    /// Width in bits of a struct of scalars.
    pub(super) fn record_width(&self, ty: &Type) -> Option<u32> {
        if let Some(scalar) = self.scalar(ty) {
            return (!matches!(scalar, Scalar::Varbit(_) | Scalar::Int)).then(|| scalar.width());
        }
        match self.fields(ty)? {
            (FieldsKind::Struct, fields) => fields.iter().map(|(_, ty)| self.record_width(ty)).sum(),
            _ => None,
        }
    }

    /// Width in bits of all scalars of a type.
    pub(super) fn width_of(&self, ty: &Type) -> u32 {
        match self.scalar(ty) {
            Some(scalar) => scalar.width(),
            None => {
                let fields = self.fields(ty).map(|(_, fields)| fields).unwrap_or_default();
                fields.iter().map(|(_, ty)| self.width_of(ty)).sum()
            }
        }
    }

    /// Index of a member of a header union.
    pub(super) fn member_position(&self, ty: &Type, name: &str) -> Option<usize> {
        let (kind, fields) = self.fields(ty)?;
        if kind != FieldsKind::Union {
            return None;
        }
        fields.iter().position(|(field, _)| &**field == name)
    }

    /// Scalar representation of an expression; an error for aggregate types.
    pub(super) fn scalar_of(&self, expr: &Expr) -> Result<Scalar> {
        match self.scalar(&self.ty(&expr.ty)) {
            Some(scalar) => Ok(scalar),
            None => Err(Diagnostic::error(expr.span, "a number or truth value is needed here")),
        }
    }

    /// Key of a named type and its arguments.
    pub(super) fn type_key(&self, ty: &Type) -> Option<(usize, String)> {
        let Type::Named(id, args) = ty else { return None };
        Some((*id, format!("{args:?}")))
    }
}
