//! Lowering of lvalues: expressions to storage.

use super::build;
use super::{Bound, Lower, Result, Val};
use crate::ir::*;
use crate::typed::{Expr, ExprKind};
use crate::types::Type;
use std::rc::Rc;

/// Target of an assignment.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Place(Place),
    /// Bits of a scalar.
    Slice(FieldRef, u32, u32),
}

impl Lower<'_> {
    /// Target that an expression denotes. With `freeze`, run-time indices are evaluated now and saved.
    pub(super) fn target(&mut self, expr: &Expr, freeze: bool, out: &mut Vec<Stmt>) -> Result<Target> {
        if let ExprKind::Slice(base, high, low, _) = &expr.kind {
            return match self.target(base, freeze, out)? {
                Target::Place(Place::Scalar(field)) => Ok(Target::Slice(field, *high, *low)),
                Target::Slice(field, _, start) => Ok(Target::Slice(field, high + start, low + start)),
                Target::Place(_) => self.error(expr.span, "only numbers can be sliced"),
            };
        }
        Ok(Target::Place(self.place_of(expr, freeze, out)?))
    }

    /// Storage that an expression denotes. With `freeze`, run-time indices are evaluated now and saved.
    pub(super) fn place_of(&mut self, expr: &Expr, freeze: bool, out: &mut Vec<Stmt>) -> Result<Place> {
        match &expr.kind {
            ExprKind::Decl(id) => match self.bound.get(id) {
                Some(Bound::Place(place)) => Ok(place.clone()),
                Some(Bound::Value(value)) => {
                    let value = value.clone();
                    self.place_of_value(value, expr)
                }
                _ => self.error(expr.span, "this has no storage here"),
            },
            ExprKind::Field(base, name) => {
                let ty = self.types.ty(&base.ty);
                let place = self.place_of(base, freeze, out)?;
                self.field_of(place, &ty, name, expr)
            }
            ExprKind::Index(base, index) => {
                let place = self.place_of(base, freeze, out)?;
                let mut index = self.ex(index, out)?;
                if freeze && !matches!(index, Ex::Int(_)) {
                    index = self.saved(index, Scalar::Bit(32), out);
                }
                self.element_of(place, index, expr)
            }
            ExprKind::StackMember(base, name) => match (self.place_of(base, freeze, out)?, &**name) {
                (Place::Stack(stack), "next") => Ok(Place::Header(HeaderRef::Next(stack))),
                (Place::Stack(stack), "last") => Ok(Place::Header(HeaderRef::Last(stack))),
                (Place::UnionStack(stack), name @ ("next" | "last")) => {
                    Ok(Place::UnionEnd(stack, name == "next"))
                }
                _ => self.error(expr.span, "this is not a stack"),
            },
            ExprKind::Cast(inner) => self.place_of(inner, freeze, out),
            _ => {
                let value = self.val(expr, out)?;
                self.place_of_value(value, expr)
            }
        }
    }

    fn place_of_value(&mut self, value: Val, expr: &Expr) -> Result<Place> {
        match value {
            Val::Header(header) => Ok(Place::Header(header)),
            Val::Stack(stack) => Ok(Place::Stack(stack)),
            Val::Union(place) => Ok(place),
            Val::UnionStack(stack) => Ok(Place::UnionStack(stack)),
            Val::Varbit(field) => Ok(Place::Scalar(field)),
            Val::Ex(Ex::Field(field)) => Ok(Place::Scalar(field)),
            Val::Ex(Ex::Op("d2b", _, inner)) if matches!(*inner, Ex::Field(_)) => match *inner {
                Ex::Field(field) => Ok(Place::Scalar(field)),
                _ => self.error(expr.span, "this has no storage"),
            },
            Val::Struct(values) => {
                let ty = self.types.ty(&expr.ty);
                let fields = self.types.fields(&ty).map(|(_, fields)| fields).unwrap_or_default();
                let mut list = Vec::new();
                for ((name, ty), value) in fields.into_iter().zip(values.iter()) {
                    let field = Expr { kind: ExprKind::Poison, ty, span: expr.span };
                    list.push((name, self.place_of_value(value.clone(), &field)?));
                }
                Ok(Place::Struct(list.into()))
            }
            _ => self.error(expr.span, "this value has no storage"),
        }
    }

    fn field_of(&mut self, place: Place, ty: &Type, name: &str, expr: &Expr) -> Result<Place> {
        let field_ty = self.types.ty(&expr.ty);
        let found = match &place {
            Place::Struct(fields) => {
                fields.iter().find(|(field, _)| &**field == name).map(|(_, place)| place.clone())
            }
            Place::Header(header) => self.out.layout.header_field(&self.types, header, name, &field_ty),
            Place::Union(union) => {
                let position = self.types.member_position(ty, name);
                position.map(|index| {
                    Place::Header(HeaderRef::Instance(self.out.layout.unions[*union].headers[index]))
                })
            }
            Place::UnionEnd(stack, next) => self.types.member_position(ty, name).map(|index| {
                Place::Header(if *next {
                    HeaderRef::UnionNext(*stack, index)
                } else {
                    HeaderRef::UnionLast(*stack, index)
                })
            }),
            Place::UnionElement(stack, index) => self
                .types
                .member_position(ty, name)
                .map(|member| Place::Header(HeaderRef::UnionElement(*stack, member, index.clone()))),
            _ => None,
        };
        match found {
            Some(place) => Ok(place),
            None => self.error(expr.span, format!("field '{name}' cannot be reached here on this target")),
        }
    }

    pub(super) fn element_of(&mut self, place: Place, index: Ex, expr: &Expr) -> Result<Place> {
        let position = match &index {
            Ex::Int(value) => usize::try_from(value.clone()).ok(),
            _ => None,
        };
        match (place, position) {
            (Place::Stack(stack), Some(position)) => {
                match self.out.layout.stacks[stack].headers.get(position) {
                    Some(header) => Ok(Place::Header(HeaderRef::Instance(*header))),
                    None => self.error(expr.span, "the index is outside the stack"),
                }
            }
            (Place::UnionStack(stack), Some(position)) => {
                match self.out.layout.union_stacks[stack].unions.get(position) {
                    Some(union) => Ok(Place::Union(*union)),
                    None => self.error(expr.span, "the index is outside the stack"),
                }
            }
            (Place::Struct(fields), Some(position)) if position < fields.len() => {
                Ok(fields[position].1.clone())
            }
            (Place::Stack(stack), None) => Ok(Place::Header(HeaderRef::Element(stack, Box::new(index)))),
            (Place::UnionStack(stack), None) => Ok(Place::UnionElement(stack, Box::new(index))),
            _ => self.error(expr.span, "this cannot be indexed here"),
        }
    }

    /// Value of a storage location.
    pub(super) fn read(&self, place: &Place) -> Val {
        match place {
            Place::Scalar(field) => match field.scalar {
                Scalar::Varbit(_) => Val::Varbit(field.clone()),
                Scalar::Bool => Val::Ex(build::to_bool(Ex::Field(field.clone()))),
                _ => Val::Ex(Ex::Field(field.clone())),
            },
            Place::Header(header) => Val::Header(header.clone()),
            Place::Stack(stack) => Val::Stack(*stack),
            Place::Union(_) | Place::UnionEnd(..) | Place::UnionElement(..) => Val::Union(place.clone()),
            Place::UnionStack(stack) => Val::UnionStack(*stack),
            Place::Struct(fields) => {
                Val::Struct(fields.iter().map(|(_, place)| self.read(place)).collect::<Rc<[Val]>>())
            }
        }
    }

    /// Value of an assignment target.
    pub(super) fn read_target(&self, target: &Target) -> Val {
        match target {
            Target::Place(place) => self.read(place),
            Target::Slice(field, high, low) => Val::Ex(build::slice(Ex::Field(field.clone()), *high, *low)),
        }
    }

    /// Copies a scalar to a temporary, so that later statements cannot change it.
    pub(super) fn saved(&mut self, ex: Ex, scalar: Scalar, out: &mut Vec<Stmt>) -> Ex {
        let field = self.temporary("tmp", scalar);
        let truth = build::is_truth(&ex);
        out.push(Stmt::Assign(field.clone(), build::to_data_if(ex, truth)));
        if truth { build::to_bool(Ex::Field(field)) } else { Ex::Field(field) }
    }
}
