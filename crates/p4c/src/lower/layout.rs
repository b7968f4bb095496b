//! Queries on a [`Layout`]: types and fields of headers, and the headers and fields that a place or an
//! expression covers.

use super::inline::fields_of;
use super::types::Types;
use super::{Val, build};
use crate::ir::*;
use crate::types::Type;
use std::rc::Rc;

impl Layout {
    /// Index of a header's type.
    pub(super) fn type_of(&self, header: &HeaderRef) -> usize {
        match header {
            HeaderRef::Instance(index) => self.headers[*index].ty,
            HeaderRef::Element(stack, _) | HeaderRef::Next(stack) | HeaderRef::Last(stack) => {
                self.stacks[*stack].ty
            }
            HeaderRef::UnionNext(stack, member)
            | HeaderRef::UnionLast(stack, member)
            | HeaderRef::UnionElement(stack, member, _) => {
                self.union_types[self.union_stacks[*stack].ty].members[*member].1
            }
        }
    }

    /// Instances that an index computed at run time selects from, and that index; `None` for other references.
    pub(super) fn elements(&self, header: &HeaderRef) -> Option<(Vec<usize>, Ex)> {
        match header {
            HeaderRef::Element(stack, index) => {
                Some((self.stacks[*stack].headers.clone(), (**index).clone()))
            }
            HeaderRef::UnionElement(stack, member, index) => {
                let unions = self.union_stacks[*stack].unions.iter();
                Some((unions.map(|union| self.unions[*union].headers[*member]).collect(), (**index).clone()))
            }
            _ => None,
        }
    }

    /// References to all fields of a header.
    pub(super) fn header_fields(&self, header: &HeaderRef) -> Vec<FieldRef> {
        let ty = &self.types[self.type_of(header)];
        let field = |(index, (_, scalar)): (usize, &(String, Scalar))| FieldRef {
            header: header.clone(),
            field: index,
            scalar: *scalar,
        };
        ty.fields.iter().enumerate().map(field).collect()
    }

    /// Collects every header instance and scalar in a storage location.
    pub(super) fn covers(&self, place: &Place, output: &mut Vec<(usize, Option<usize>)>) {
        let header =
            |header: &HeaderRef, output: &mut Vec<(usize, Option<usize>)>, field: Option<usize>| match header
            {
                HeaderRef::Instance(index) => output.push((*index, field)),
                HeaderRef::Element(stack, _) | HeaderRef::Next(stack) | HeaderRef::Last(stack) => {
                    output.extend(self.stacks[*stack].headers.iter().map(|index| (*index, field)));
                }
                HeaderRef::UnionNext(stack, _)
                | HeaderRef::UnionLast(stack, _)
                | HeaderRef::UnionElement(stack, ..) => {
                    let unions = self.union_stacks[*stack].unions.iter();
                    output.extend(
                        unions.flat_map(|union| &self.unions[*union].headers).map(|index| (*index, None)),
                    );
                }
            };
        match place {
            Place::Scalar(field) => header(&field.header, output, Some(field.field)),
            Place::Header(reference) => header(reference, output, None),
            Place::Stack(stack) => {
                output.extend(self.stacks[*stack].headers.iter().map(|index| (*index, None)))
            }
            Place::Union(union) => {
                output.extend(self.unions[*union].headers.iter().map(|index| (*index, None)))
            }
            Place::UnionStack(stack) | Place::UnionEnd(stack, _) | Place::UnionElement(stack, _) => {
                let unions = self.union_stacks[*stack].unions.iter();
                output.extend(
                    unions.flat_map(|union| &self.unions[*union].headers).map(|index| (*index, None)),
                );
            }
            Place::Struct(fields) => {
                for (_, field) in fields.iter() {
                    self.covers(field, output);
                }
            }
        }
    }

    /// True if the expression reads any of the storage in `written`.
    pub(super) fn reads_any(&self, ex: &Ex, written: &[(usize, Option<usize>)]) -> bool {
        let header = |header: &HeaderRef, field: Option<usize>| {
            let mut covered = Vec::new();
            let place = match field {
                Some(field) => {
                    Place::Scalar(FieldRef { header: header.clone(), field, scalar: Scalar::Bool })
                }
                None => Place::Header(header.clone()),
            };
            self.covers(&place, &mut covered);
            overlap(&covered, written)
        };
        match ex {
            Ex::Int(_) | Ex::Bool(_) | Ex::Data(..) | Ex::Lookahead(..) => false,
            Ex::Field(field) => {
                let index = match &field.header {
                    HeaderRef::Element(_, index) | HeaderRef::UnionElement(_, _, index) => {
                        self.reads_any(index, written)
                    }
                    _ => false,
                };
                index || header(&field.header, Some(field.field))
            }
            Ex::Op(_, left, right) => {
                left.as_ref().is_some_and(|left| self.reads_any(left, written))
                    || self.reads_any(right, written)
            }
            Ex::Cond(a, b, c) => [a, b, c].iter().any(|ex| self.reads_any(ex, written)),
            Ex::At(_, inner) => self.reads_any(inner, written),
            Ex::Valid(reference) => header(reference, None),
            Ex::LastIndex(stack) => {
                let headers = &self.stacks[*stack].headers;
                headers.iter().any(|index| overlap(&[(*index, None)], written))
            }
            Ex::UnionLastIndex(stack) => {
                let mut covered = Vec::new();
                self.covers(&Place::UnionStack(*stack), &mut covered);
                overlap(&covered, written)
            }
        }
    }

    /// Validity of a header.
    pub(super) fn valid(&self, header: &HeaderRef) -> Ex {
        if let Some((headers, index)) = self.elements(header) {
            return headers.into_iter().enumerate().fold(Ex::Bool(false), |result, (position, header)| {
                let here = build::compare("==", index.clone(), build::int(position));
                build::or(result, build::and(here, Ex::Valid(HeaderRef::Instance(header))))
            });
        }
        match header {
            HeaderRef::Last(_) | HeaderRef::UnionLast(..) => Ex::Bool(true),
            HeaderRef::Next(_) | HeaderRef::UnionNext(..) => Ex::Bool(false),
            _ => Ex::Valid(header.clone()),
        }
    }

    /// Validity of a union: that of any of its members. `None` for `next` and `last` of a stack.
    pub(super) fn valid_union(&self, union: &Place) -> Option<Ex> {
        let any = |union: usize| {
            let headers = self.unions[union].headers.iter();
            headers.fold(Ex::Bool(false), |valid, header| {
                build::or(valid, Ex::Valid(HeaderRef::Instance(*header)))
            })
        };
        match union {
            Place::Union(union) => Some(any(*union)),
            Place::UnionElement(stack, index) => {
                let unions = self.union_stacks[*stack].unions.iter().enumerate();
                Some(unions.fold(Ex::Bool(false), |valid, (position, union)| {
                    let here = build::compare("==", (**index).clone(), build::int(position));
                    build::or(valid, build::and(here, any(*union)))
                }))
            }
            _ => None,
        }
    }

    /// Storage of a header field by its source name: a scalar, or a struct of scalars.
    pub(super) fn header_field(
        &self,
        types: &Types,
        header: &HeaderRef,
        name: &str,
        ty: &Type,
    ) -> Option<Place> {
        let fields = &self.types[self.type_of(header)].fields;
        if types.scalar(ty).is_some() {
            let index = fields.iter().position(|(field, _)| field == name)?;
            return Some(Place::Scalar(FieldRef {
                header: header.clone(),
                field: index,
                scalar: fields[index].1,
            }));
        }
        let (_, inner) = types.fields(ty)?;
        let mut list = Vec::new();
        for (field, ty) in inner {
            let place = self.header_field(types, header, &format!("{name}.{field}"), &ty)?;
            list.push((field, place));
        }
        Some(Place::Struct(Rc::from(list)))
    }

    pub(super) fn value_covers(&self, value: &Val, output: &mut Vec<(usize, Option<usize>)>) {
        match value {
            Val::Struct(values) | Val::Literal(values) => {
                values.iter().for_each(|value| self.value_covers(value, output))
            }
            Val::Header(header) => self.covers(&Place::Header(header.clone()), output),
            Val::Stack(stack) => self.covers(&Place::Stack(*stack), output),
            Val::UnionStack(stack) => self.covers(&Place::UnionStack(*stack), output),
            Val::Union(place) => self.covers(place, output),
            Val::Varbit(field) => self.covers(&Place::Scalar(field.clone()), output),
            Val::Ex(ex) => fields_of(ex, &mut |field| self.covers(&Place::Scalar(field.clone()), output)),
            _ => {}
        }
    }
}

/// True if two sets of storage overlap.
pub(super) fn overlap(a: &[(usize, Option<usize>)], b: &[(usize, Option<usize>)]) -> bool {
    a.iter().any(|(header, field)| {
        b.iter().any(|(other, part)| header == other && (field.is_none() || part.is_none() || field == part))
    })
}
