//! Storage of variables.

use super::{Lower, MAX_STORAGE, Result};
use crate::ir::*;
use crate::source::Span;
use crate::types::{FieldsKind, Type};
use std::rc::Rc;

impl Lower<'_> {
    /// Allocates storage for a variable.
    pub(super) fn storage(&mut self, name: &str, ty: &Type, span: Span) -> Result<Place> {
        let ty = self.ty(ty);
        if self.out.layout.headers.len() + self.out.layout.types[0].fields.len() > MAX_STORAGE {
            return self.error(span, "this program needs too many variables");
        }
        if let Some(scalar) = self.scalar(&ty) {
            return Ok(Place::Scalar(self.temporary(name, scalar)));
        }
        match &ty {
            Type::Stack(element, size) => self.stack(name, element, *size as usize, span),
            _ => match self.fields(&ty) {
                Some((FieldsKind::Header, _)) => {
                    Ok(Place::Header(HeaderRef::Instance(self.header(name, &ty, span)?)))
                }
                Some((FieldsKind::Union, _)) => Ok(Place::Union(self.union(name, &ty, span)?)),
                Some((FieldsKind::Struct, fields)) => {
                    let mut list = Vec::new();
                    for (field, ty) in fields {
                        let inner =
                            if name.is_empty() { field.to_string() } else { format!("{name}.{field}") };
                        list.push((field, self.storage(&inner, &ty, span)?));
                    }
                    Ok(Place::Struct(list.into()))
                }
                None => self.error(span, "a variable of this type cannot be stored by this target"),
            },
        }
    }

    /// Allocates a scalar variable.
    pub(super) fn temporary(&mut self, name: &str, scalar: Scalar) -> FieldRef {
        let scalar = if scalar == Scalar::Int { Scalar::Bit(32) } else { scalar };
        if let Scalar::Varbit(_) = scalar {
            // Each varbit variable has a header to itself.
            let type_name = self.unique(&format!("{name}_t"));
            self.out
                .layout
                .types
                .push(HeaderType { name: type_name, fields: vec![("value".into(), scalar)] });
            let ty = self.out.layout.types.len() - 1;
            let name = self.unique(name);
            self.out.layout.headers.push(Header { name, ty, metadata: false });
            let index = self.out.layout.headers.len() - 1;
            self.varbits.insert(index);
            return FieldRef { header: HeaderRef::Instance(index), field: 0, scalar };
        }
        let name = self.unique(&format!("scalars/{name}"));
        let fields = &mut self.out.layout.types[0].fields;
        fields.push((name.trim_start_matches("scalars/").to_string(), scalar));
        FieldRef { header: HeaderRef::Instance(0), field: fields.len() - 1, scalar }
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

    fn type_key(&self, ty: &Type) -> Option<(usize, String)> {
        let Type::Named(id, args) = ty else { return None };
        Some((*id, format!("{args:?}")))
    }

    /// Index of the lowered header type.
    pub(super) fn header_type(&mut self, ty: &Type) -> usize {
        let key = self.type_key(ty).unwrap_or_default();
        if let Some(index) = self.header_types.get(&key) {
            return *index;
        }
        let mut fields = Vec::new();
        self.flat_fields(ty, "", &mut fields);
        let base = match self.program.defs.get(key.0) {
            Some(def) => def.name.name.to_string(),
            None => "header".into(),
        };
        let name = self.unique(&format!("types/{base}"));
        self.out.layout.types.push(HeaderType { name: name.trim_start_matches("types/").into(), fields });
        let index = self.out.layout.types.len() - 1;
        self.header_types.insert(key, index);
        index
    }

    /// Allocates a header instance.
    pub(super) fn header(&mut self, name: &str, ty: &Type, span: Span) -> Result<usize> {
        let ty = self.header_type(ty);
        if self.out.layout.headers.len() > MAX_STORAGE {
            return self.error(span, "this program needs too many headers");
        }
        let name = self.unique(name);
        self.out.layout.headers.push(Header { name, ty, metadata: false });
        Ok(self.out.layout.headers.len() - 1)
    }

    fn stack(&mut self, name: &str, element: &Type, size: usize, span: Span) -> Result<Place> {
        let is_union = matches!(self.fields(element), Some((FieldsKind::Union, _)));
        if is_union {
            let mut unions = Vec::new();
            for index in 0..size {
                unions.push(self.union(&format!("{name}[{index}]"), element, span)?);
            }
            let ty = self.out.layout.unions[unions[0]].ty;
            let name = self.unique(name);
            self.out.layout.union_stacks.push(UnionStack { name, ty, unions });
            return Ok(Place::UnionStack(self.out.layout.union_stacks.len() - 1));
        }
        let ty = self.header_type(element);
        let mut headers = Vec::new();
        for index in 0..size {
            headers.push(self.header(&format!("{name}[{index}]"), element, span)?);
        }
        let name = self.unique(name);
        self.out.layout.stacks.push(Stack { name, ty, headers });
        Ok(Place::Stack(self.out.layout.stacks.len() - 1))
    }

    fn union(&mut self, name: &str, ty: &Type, span: Span) -> Result<usize> {
        let fields = self.fields(ty).map(|(_, fields)| fields).unwrap_or_default();
        let key = self.type_key(ty).unwrap_or_default();
        let union_type = match self.union_types.get(&key) {
            Some(index) => *index,
            None => {
                let members =
                    fields.iter().map(|(name, ty)| (name.to_string(), self.header_type(ty))).collect();
                let base = self.program.defs[key.0].name.name.to_string();
                let type_name = self.unique(&format!("types/{base}"));
                let type_name = type_name.trim_start_matches("types/").to_string();
                self.out.layout.union_types.push(UnionType { name: type_name, members });
                let index = self.out.layout.union_types.len() - 1;
                self.union_types.insert(key, index);
                index
            }
        };
        let mut headers = Vec::new();
        for (field, ty) in &fields {
            headers.push(self.header(&format!("{name}.{field}"), ty, span)?);
        }
        let name = self.unique(name);
        self.out.layout.unions.push(Union { name, ty: union_type, headers });
        Ok(self.out.layout.unions.len() - 1)
    }

    /// Index of a header's type.
    pub(super) fn type_of(&self, header: &HeaderRef) -> usize {
        let layout = &self.out.layout;
        match header {
            HeaderRef::Instance(index) => layout.headers[*index].ty,
            HeaderRef::Element(stack, _) | HeaderRef::Next(stack) | HeaderRef::Last(stack) => {
                layout.stacks[*stack].ty
            }
            HeaderRef::UnionNext(stack, member) | HeaderRef::UnionLast(stack, member) => {
                layout.union_types[layout.union_stacks[*stack].ty].members[*member].1
            }
        }
    }

    /// References to all fields of a header.
    pub(super) fn header_fields(&self, header: &HeaderRef) -> Vec<FieldRef> {
        let ty = &self.out.layout.types[self.type_of(header)];
        let field = |(index, (_, scalar)): (usize, &(String, Scalar))| FieldRef {
            header: header.clone(),
            field: index,
            scalar: *scalar,
        };
        ty.fields.iter().enumerate().map(field).collect()
    }

    /// Storage of a header field by its source name: a scalar, or a struct of scalars.
    pub(super) fn header_field(&self, header: &HeaderRef, name: &str, ty: &Type) -> Option<Place> {
        let fields = &self.out.layout.types[self.type_of(header)].fields;
        if self.scalar(ty).is_some() {
            let index = fields.iter().position(|(field, _)| field == name)?;
            return Some(Place::Scalar(FieldRef {
                header: header.clone(),
                field: index,
                scalar: fields[index].1,
            }));
        }
        let (_, inner) = self.fields(ty)?;
        let mut list = Vec::new();
        for (field, ty) in inner {
            let place = self.header_field(header, &format!("{name}.{field}"), &ty)?;
            list.push((field, place));
        }
        Some(Place::Struct(Rc::from(list)))
    }

    /// Collects every header instance and scalar in a storage location.
    pub(super) fn covers(&self, place: &Place, output: &mut Vec<(usize, Option<usize>)>) {
        let layout = &self.out.layout;
        let header =
            |header: &HeaderRef, output: &mut Vec<(usize, Option<usize>)>, field: Option<usize>| match header
            {
                HeaderRef::Instance(index) => output.push((*index, field)),
                HeaderRef::Element(stack, _) | HeaderRef::Next(stack) | HeaderRef::Last(stack) => {
                    output.extend(layout.stacks[*stack].headers.iter().map(|index| (*index, field)));
                }
                HeaderRef::UnionNext(stack, _) | HeaderRef::UnionLast(stack, _) => {
                    let unions = layout.union_stacks[*stack].unions.iter();
                    output.extend(
                        unions.flat_map(|union| &layout.unions[*union].headers).map(|index| (*index, None)),
                    );
                }
            };
        match place {
            Place::Scalar(field) => header(&field.header, output, Some(field.field)),
            Place::Header(reference) => header(reference, output, None),
            Place::Stack(stack) => {
                output.extend(layout.stacks[*stack].headers.iter().map(|index| (*index, None)))
            }
            Place::Union(union) => {
                output.extend(layout.unions[*union].headers.iter().map(|index| (*index, None)))
            }
            Place::UnionStack(stack) | Place::UnionEnd(stack, _) | Place::UnionElement(stack, _) => {
                let unions = layout.union_stacks[*stack].unions.iter();
                output.extend(
                    unions.flat_map(|union| &layout.unions[*union].headers).map(|index| (*index, None)),
                );
            }
            Place::Struct(fields) => {
                for (_, field) in fields.iter() {
                    self.covers(field, output);
                }
            }
        }
    }
}

/// True if two sets of storage overlap.
pub(super) fn overlap(a: &[(usize, Option<usize>)], b: &[(usize, Option<usize>)]) -> bool {
    a.iter().any(|(header, field)| {
        b.iter().any(|(other, part)| header == other && (field.is_none() || part.is_none() || field == part))
    })
}
