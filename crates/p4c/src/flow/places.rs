//! Variables and their parts in the data-flow state.

use super::{Flow, MAX_PARTS, Path, State};
use crate::typed::{Expr, ExprKind};
use crate::types::{FieldsKind, Type};

/// Variable or part that an expression denotes; `None` unless it consists of names only.
pub fn path(expr: &Expr) -> Option<Path> {
    match &expr.kind {
        ExprKind::Decl(id) => Some((*id, Vec::new())),
        ExprKind::Field(base, name) => {
            let (decl, mut fields) = path(base)?;
            fields.push(name.clone());
            Some((decl, fields))
        }
        _ => None,
    }
}

/// Direct subexpressions of an expression that is neither a name nor a call.
pub fn parts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Field(a, _)
        | ExprKind::StackMember(a, _)
        | ExprKind::ApplyMember(a, _)
        | ExprKind::Slice(a, ..)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a) => vec![a],
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::Mask(a, b) | ExprKind::Range(a, b) => {
            vec![a, b]
        }
        ExprKind::Tuple(items) => items.iter().collect(),
        ExprKind::Record(items) => items.iter().map(|(_, item)| item).collect(),
        _ => Vec::new(),
    }
}

impl Flow<'_> {
    /// Marks a variable as uninitialized: its scalars are unset, its headers invalid.
    pub(super) fn clear(&self, path: &Path, ty: &Type, state: &mut State) {
        let mut scalars = Vec::new();
        self.collect(path, ty, &mut scalars, state);
        if scalars.len() <= MAX_PARTS {
            state.unset.extend(scalars);
        }
    }

    fn collect(&self, path: &Path, ty: &Type, scalars: &mut Vec<Path>, state: &mut State) {
        match ty {
            Type::Bool | Type::Bit(_) | Type::Signed(_) | Type::Varbit(_) | Type::Error => {
                scalars.push(path.clone());
            }
            Type::Named(..) => match self.program.fields(ty) {
                Some((FieldsKind::Header, _)) => {
                    state.invalid.insert(path.clone());
                }
                Some((FieldsKind::Struct, fields)) if path.1.len() < 8 && scalars.len() <= MAX_PARTS => {
                    for (name, ty) in fields {
                        let mut inner = path.clone();
                        inner.1.push(name);
                        self.collect(&inner, &ty, scalars, state);
                    }
                }
                Some(_) => {}
                None => scalars.push(path.clone()),
            },
            _ => {}
        }
    }

    /// Marks a variable or part as initialized.
    pub(super) fn set(&self, path: &Path, state: &mut State) {
        let apart = |(decl, fields): &Path| {
            *decl != path.0 || !fields.starts_with(&path.1) && !path.1.starts_with(fields)
        };
        state.unset.retain(apart);
        let inside = |(decl, fields): &Path| *decl == path.0 && fields.starts_with(&path.1);
        state.invalid.retain(|header| !inside(header));
    }

    /// Marks a header as valid. The other members of a union become unknown.
    pub(super) fn set_valid(&self, path: &Path, state: &mut State) {
        state.invalid.remove(path);
    }
}
