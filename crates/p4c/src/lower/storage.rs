//! Storage of variables.

use super::{Lower, MAX_STORAGE, Result};
use crate::ir::*;
use crate::source::Span;
use crate::types::{FieldsKind, Type};

impl Lower<'_> {
    /// Allocates storage for a variable.
    pub(super) fn storage(&mut self, name: &str, ty: &Type, span: Span) -> Result<Place> {
        let ty = self.types.ty(ty);
        if self.out.layout.headers.len() + self.out.layout.types[0].fields.len() > MAX_STORAGE {
            return self.error(span, "this program needs too many variables");
        }
        if let Some(scalar) = self.types.scalar(&ty) {
            return Ok(Place::Scalar(self.temporary(name, scalar)));
        }
        match &ty {
            Type::Stack(element, size) => self.stack(name, element, *size as usize, span),
            _ => match self.types.fields(&ty) {
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

    /// Index of the lowered header type.
    pub(super) fn header_type(&mut self, ty: &Type) -> usize {
        let key = self.types.type_key(ty).unwrap_or_default();
        if let Some(index) = self.header_types.get(&key) {
            return *index;
        }
        let mut fields = Vec::new();
        self.types.flat_fields(ty, "", &mut fields);
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
        let is_union = matches!(self.types.fields(element), Some((FieldsKind::Union, _)));
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
        let fields = self.types.fields(ty).map(|(_, fields)| fields).unwrap_or_default();
        let key = self.types.type_key(ty).unwrap_or_default();
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
}
