//! Questions about types that the definitions of the program answer.

use super::Symbol;
use super::call::Bindings;
use crate::ast::{Annotations, Ident};
use crate::source::Span;
use crate::typed::{Builtin, Decl, DeclKind, Expr, ExprKind, Program};
use crate::types::*;
use num_bigint::BigInt;
use std::rc::Rc;

impl Program {
    pub(super) fn def(&self, id: DefId) -> &Def {
        &self.defs[id]
    }

    /// Fields of a struct, header or union with type arguments substituted.
    pub(crate) fn fields(&self, ty: &Type) -> Option<Fields> {
        let Type::Named(id, args) = ty else { return None };
        let def = self.def(*id);
        let DefKind::Fields(kind, fields) = &def.kind else { return None };
        let bound = |param: DefId| {
            let index = def.type_params.iter().position(|other| *other == param)?;
            args.get(index).cloned()
        };
        let list =
            fields.iter().map(|field| (field.name.name.clone(), field.ty.substitute(&bound))).collect();
        Some((*kind, list))
    }

    pub(super) fn fields_kind(&self, ty: &Type) -> Option<FieldsKind> {
        let Type::Named(id, _) = ty else { return None };
        match self.def(*id).kind {
            DefKind::Fields(kind, _) => Some(kind),
            _ => None,
        }
    }

    pub(super) fn is_header(&self, ty: &Type) -> bool {
        self.fields_kind(ty) == Some(FieldsKind::Header)
    }

    pub(super) fn arity(&self, symbol: &Symbol) -> Option<Vec<Rc<str>>> {
        let Symbol::Decl(decl) = symbol else { return None };
        match &self.decls[*decl].kind {
            DeclKind::Function(signature, _) | DeclKind::Extern(signature) => {
                Some(signature.params.iter().map(|param| param.name.name.clone()).collect())
            }
            _ => None,
        }
    }

    pub(super) fn symbol_span(&self, symbol: &Symbol) -> Option<Span> {
        match symbol {
            Symbol::Decl(decl) => Some(self.decls[*decl].name.span),
            Symbol::Generic(def) | Symbol::Type(Type::Named(def, _) | Type::Var(def)) => {
                Some(self.defs[*def].name.span)
            }
            Symbol::Type(_) => None,
        }
    }

    pub(super) fn castable(&self, from: &Type, to: &Type) -> bool {
        match (from, to) {
            (Type::Infer(_) | Type::Var(_), _) | (_, Type::Infer(_)) => from == to,
            (Type::Bit(1), Type::Bool) | (Type::Bool, Type::Bit(1)) => true,
            (Type::Int, Type::Bool) => true,
            (Type::Bit(_), Type::Bit(_)) | (Type::Signed(_), Type::Signed(_)) => true,
            (Type::Bit(a), Type::Signed(b)) | (Type::Signed(a), Type::Bit(b)) => a == b,
            (Type::Int, Type::Bit(_) | Type::Signed(_)) | (Type::Bit(_) | Type::Signed(_), Type::Int) => true,
            (Type::Named(id, _), to)
                if matches!(self.def(*id).kind, DefKind::NewType(_) | DefKind::SerEnum(..)) =>
            {
                let (inner, opaque) = match &self.def(*id).kind {
                    DefKind::NewType(inner) => (inner.clone(), true),
                    DefKind::SerEnum(inner, _) => (inner.clone(), false),
                    _ => return false,
                };
                inner == *to
                    || (!opaque && self.castable(&inner, to))
                    || (opaque && self.castable_to_named(&inner, to))
            }
            (from, Type::Named(..)) => self.castable_to_named(from, to),
            _ => false,
        }
    }

    pub(super) fn castable_to_named(&self, from: &Type, to: &Type) -> bool {
        let Type::Named(id, _) = to else { return castable_number(from, to) };
        match &self.def(*id).kind {
            DefKind::NewType(inner) => {
                inner == from
                    || castable_number(from, inner)
                    || self.castable_to_named(from, inner) && matches!(inner, Type::Named(..))
            }
            DefKind::SerEnum(inner, _) => inner == from || castable_number(from, inner),
            _ => false,
        }
    }

    pub(super) fn comparable(&self, ty: &Type) -> bool {
        match ty {
            Type::Tuple(types) => types.iter().all(|ty| self.comparable(ty)),
            Type::Stack(element, _) => self.comparable(element),
            Type::Named(id, _) => match &self.def(*id).kind {
                DefKind::Fields(..) => self
                    .fields(ty)
                    .is_some_and(|(_, fields)| fields.iter().all(|(_, ty)| self.comparable(ty))),
                DefKind::Enum(_) | DefKind::SerEnum(..) => true,
                DefKind::NewType(inner) => self.comparable(inner),
                _ => false,
            },
            Type::Bool
            | Type::Error
            | Type::Int
            | Type::Bit(_)
            | Type::Signed(_)
            | Type::Varbit(_)
            | Type::Str => true,
            Type::Poison | Type::Infer(_) | Type::Var(_) => matches!(ty, Type::Poison),
            _ => false,
        }
    }

    /// The type with `type` definitions and serializable enums replaced by their underlying types.
    pub(super) fn underlying(&self, ty: &Type) -> Type {
        match ty {
            Type::Named(id, _) => match &self.def(*id).kind {
                DefKind::NewType(inner) | DefKind::SerEnum(inner, _) => self.underlying(inner),
                _ => ty.clone(),
            },
            _ => ty.clone(),
        }
    }

    pub(super) fn emittable(&self, ty: &Type) -> bool {
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

    pub(super) fn size_in_bits(&self, ty: &Type, max: bool) -> Option<u64> {
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

    /// True if a struct, header or union of this kind may have fields of type `ty`.
    pub(super) fn field_fits(&self, kind: FieldsKind, ty: &Type) -> bool {
        let named = |id: DefId| &self.def(id).kind;
        match (kind, ty) {
            (_, Type::Poison | Type::Var(_) | Type::Infer(_) | Type::DontCare) => true,
            (FieldsKind::Union, ty) => self.is_header(ty),
            (_, Type::Void | Type::Str | Type::Action | Type::Int | Type::MatchKind | Type::Set(_)) => false,
            (FieldsKind::Header, Type::Bit(_) | Type::Signed(_) | Type::Varbit(_) | Type::Bool) => true,
            (FieldsKind::Header, Type::Named(id, _)) => match named(*id) {
                DefKind::SerEnum(..) => true,
                DefKind::NewType(inner) => self.field_fits(kind, inner),
                DefKind::Fields(FieldsKind::Struct, _) => self
                    .fields(ty)
                    .is_some_and(|(_, fields)| fields.iter().all(|(_, ty)| self.field_fits(kind, ty))),
                _ => false,
            },
            (FieldsKind::Header, _) => false,
            (FieldsKind::Struct, Type::Named(id, _)) => {
                matches!(
                    named(*id),
                    DefKind::Fields(..) | DefKind::Enum(_) | DefKind::SerEnum(..) | DefKind::NewType(_)
                )
            }
            (FieldsKind::Struct, _) => true,
        }
    }

    /// Collects the types of a value's scalars.
    pub(super) fn leaves(&self, ty: &Type, list: &mut Vec<Type>) {
        match (self.fields(ty), ty) {
            (Some((_, fields)), _) => fields.iter().for_each(|(_, ty)| self.leaves(ty, list)),
            (None, Type::Tuple(types)) => types.iter().for_each(|ty| self.leaves(ty, list)),
            (None, ty) => list.push(ty.clone()),
        }
    }

    /// Kind and parameters of a control, a parser, or the type of either.
    pub(super) fn block_signature(&self, ty: &Type) -> Option<(bool, Vec<ParamDef>)> {
        let Type::Named(id, args) = ty else { return None };
        let def = self.def(*id);
        let (parser, signature) = match &def.kind {
            DefKind::Block(parser, signature, _) | DefKind::BlockType(parser, signature) => {
                (*parser, signature)
            }
            _ => return None,
        };
        let bound = |param: DefId| {
            let index = def.type_params.iter().position(|other| *other == param)?;
            args.get(index).cloned()
        };
        let params = signature
            .params
            .iter()
            .map(|param| ParamDef { ty: param.ty.substitute(&bound), ..param.clone() });
        Some((parser, params.collect()))
    }

    pub(super) fn builtin(&self, ty: &Type, name: &str) -> Option<(Builtin, usize)> {
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

    pub(super) fn action_signature(&self, decl: DeclId) -> Rc<crate::types::Signature> {
        match &self.decls[decl].kind {
            DeclKind::Action(signature, _) => signature.clone(),
            _ => Rc::new(crate::types::Signature {
                type_params: Vec::new(),
                params: Vec::new(),
                result: Type::Void,
            }),
        }
    }

    pub(super) fn add_decl(
        &mut self,
        name: &Ident,
        annotations: &Annotations,
        ty: Type,
        kind: DeclKind,
    ) -> DeclId {
        let decl = Decl { name: name.clone(), annotations: annotations.clone(), ty, kind };
        self.decls.push(decl);
        self.decls.len() - 1
    }

    pub(super) fn add_def(&mut self, name: &Ident, annotations: &Annotations, kind: DefKind) -> DefId {
        let def = Def { name: name.clone(), annotations: annotations.clone(), type_params: Vec::new(), kind };
        self.defs.push(def);
        self.defs.len() - 1
    }

    pub(super) fn finish_def(&mut self, id: DefId, params: Vec<DefId>) {
        self.defs[id].type_params = params;
    }
}

pub(super) fn poison(span: Span) -> Expr {
    Expr { kind: ExprKind::Poison, ty: Type::Poison, span }
}

pub(super) fn castable_number(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Int, Type::Bit(_) | Type::Signed(_)) => true,
        (Type::Bit(a), Type::Bit(b)) => a == b,
        _ => false,
    }
}

pub(super) fn substituted(ty: &Type, bindings: &Bindings) -> Type {
    ty.substitute(&|param| bindings.iter().find(|(other, _)| *other == param).map(|(_, ty)| ty.clone()))
}
