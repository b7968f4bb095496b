//! Unification of types.

use super::Checker;
use crate::types::*;
use std::rc::Rc;

/// Types of expressions that unification has found, by type variable.
#[derive(Default)]
pub(super) struct Inferred(Vec<Option<Type>>);

impl Inferred {
    pub(super) fn fresh(&mut self) -> Type {
        self.0.push(None);
        Type::Infer(self.0.len() - 1)
    }

    /// The type with inferred type variables substituted.
    pub(super) fn resolved(&self, ty: &Type) -> Type {
        let all = |list: &Rc<[Type]>| list.iter().map(|ty| self.resolved(ty)).collect::<Rc<[Type]>>();
        match ty {
            Type::Infer(index) => match &self.0[*index] {
                Some(found) => self.resolved(found),
                None => ty.clone(),
            },
            Type::Stack(element, size) => Type::Stack(Rc::new(self.resolved(element)), *size),
            Type::Set(element) => Type::Set(Rc::new(self.resolved(element))),
            Type::List(element) => Type::List(Rc::new(self.resolved(element))),
            Type::Tuple(list) => Type::Tuple(all(list)),
            Type::Named(def, args) if !args.is_empty() => Type::Named(*def, all(args)),
            Type::Record(fields) => {
                Type::Record(fields.iter().map(|(name, ty)| (name.clone(), self.resolved(ty))).collect())
            }
            other => other.clone(),
        }
    }

    pub(super) fn occurs(&self, index: usize, ty: &Type) -> bool {
        match ty {
            Type::Infer(other) => *other == index,
            Type::Stack(element, _) | Type::Set(element) | Type::List(element) => self.occurs(index, element),
            Type::Tuple(list) | Type::Named(_, list) => list.iter().any(|ty| self.occurs(index, ty)),
            Type::Record(fields) => fields.iter().any(|(_, ty)| self.occurs(index, ty)),
            _ => false,
        }
    }
}

impl Checker {
    /// Unifies two types; returns false if they differ.
    pub(super) fn unify(&mut self, a: &Type, b: &Type) -> bool {
        let (a, b) = (self.inferred.resolved(a), self.inferred.resolved(b));
        match (&a, &b) {
            (Type::Poison | Type::DontCare, _) | (_, Type::Poison | Type::DontCare) => true,
            (Type::Infer(x), Type::Infer(y)) if x == y => true,
            (Type::Infer(index), other) | (other, Type::Infer(index)) => {
                if self.inferred.occurs(*index, other)
                    || matches!(other, Type::Void | Type::Action | Type::Function)
                {
                    return false;
                }
                self.inferred.0[*index] = Some(other.clone());
                true
            }
            (Type::Stack(x, n), Type::Stack(y, m)) => n == m && self.unify(x, y),
            (Type::Set(x), Type::Set(y)) | (Type::List(x), Type::List(y)) => self.unify(x, y),
            (Type::Tuple(x), Type::Tuple(y)) => {
                x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| self.unify(x, y))
            }
            (Type::Record(x), Type::Record(y)) => {
                x.len() == y.len()
                    && x.iter().zip(y.iter()).all(|((n, x), (m, y))| n == m && self.unify(x, y))
            }
            (Type::Named(d, x), Type::Named(e, y)) if d == e => {
                x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| self.unify(x, y))
            }
            (Type::Named(d, _), Type::Named(e, _)) => {
                let block = |def: &Def| matches!(def.kind, DefKind::Block(..));
                if block(self.program.def(*d)) && !block(self.program.def(*e)) {
                    self.unify_block(&a, &b)
                } else if block(self.program.def(*e)) && !block(self.program.def(*d)) {
                    self.unify_block(&b, &a)
                } else {
                    false
                }
            }
            (a, b) => a == b,
        }
    }

    /// Unifies a control or parser with a control or parser type. Returns true if both have the same kind and parameters.
    fn unify_block(&mut self, block: &Type, wanted: &Type) -> bool {
        let (Some((parser, have)), Some((wants_parser, want))) =
            (self.program.block_signature(block), self.program.block_signature(wanted))
        else {
            return false;
        };
        let optional = want.iter().skip(have.len()).all(|param| param.optional);
        parser == wants_parser
            && have.len() <= want.len()
            && optional
            && have
                .iter()
                .zip(&want)
                .all(|(have, want)| have.direction == want.direction && self.unify(&have.ty, &want.ty))
    }
}
