//! Header types, headers, stacks and unions, and their layout in the buffer.

use super::{Locals, Lower, MAX_BYTES, MAX_WIDTH, Result, item};
use crate::program::{Field, Header, HeaderType, Stack, TypeField, Union, UnionStack, Variable};
use belljar_p4json as json;
use serde_json::Value;

impl Lower<'_> {
    pub(super) fn headers(&mut self) -> Result<()> {
        let root = self.root;
        for (n, kind) in root.header_types.iter().enumerate() {
            let lowered =
                self.within(item("header_types", n, &kind.name), |lower| lower.header_type(kind))?;
            self.types.insert(&kind.name, n as u32);
            self.program.types.push(lowered);
        }
        let mut at = 0u64;
        for (n, header) in root.headers.iter().enumerate() {
            self.place.push(item("headers", n, &header.name));
            let kind = self.find("header type", &self.types, &header.header_type)?;
            let bytes = u64::from(self.program.types[kind as usize].bytes);
            if at + bytes > MAX_BYTES / 8 {
                return Err(
                    self.error_with("the headers take more than 32 MiB", "use fewer or smaller headers")
                );
            }
            if self.headers.insert(&header.name, n as u32).is_some() {
                return Err(self.error("another header has the same name"));
            }
            self.header_ids.insert(header.id, n as u32);
            if header.metadata {
                self.program.metadata.push(at as usize..(at + bytes) as usize);
            }
            self.program.headers.push(Header {
                name: header.name.clone(),
                kind,
                at: at as u32,
                metadata: header.metadata,
                union: None,
                length: None,
            });
            at += bytes;
            self.place.pop();
        }
        self.program.phv_bytes = at as usize;
        for (n, stack) in root.header_stacks.iter().enumerate() {
            self.place.push(item("header_stacks", n, &stack.name));
            let headers = self.by_ids(&stack.header_ids)?;
            let kind = |header: &u32| self.program.headers[*header as usize].kind;
            if headers.iter().any(|header| kind(header) != kind(&headers[0])) {
                return Err(self.error("its headers are not of one type"));
            }
            self.stacks.insert(&stack.name, n as u32);
            self.program.stacks.push(Stack { headers });
            self.place.pop();
        }
        for kind in &root.header_union_types {
            self.union_types.insert(&kind.name, &kind.headers);
        }
        for (n, union) in root.header_unions.iter().enumerate() {
            self.place.push(item("header_unions", n, &union.name));
            let headers = self.by_ids(&union.header_ids)?;
            for header in &headers {
                self.program.headers[*header as usize].union = Some(n as u32);
            }
            self.unions.insert(&union.name, n as u32);
            self.union_ids.insert(union.id, n as u32);
            self.program.unions.push(Union { headers });
            self.place.pop();
        }
        for (n, stack) in root.header_union_stacks.iter().enumerate() {
            self.place.push(item("header_union_stacks", n, &stack.name));
            let mut unions = Vec::new();
            for id in &stack.header_union_ids {
                let union = self.union_ids.get(id).copied();
                unions.push(union.ok_or_else(|| self.error(format!("no header union has the id {id}")))?);
            }
            if let Some(first) = unions.first() {
                let kinds = |union: &u32| -> Vec<u32> {
                    let headers = &self.program.unions[*union as usize].headers;
                    headers.iter().map(|header| self.program.headers[*header as usize].kind).collect()
                };
                if unions.iter().any(|union| kinds(union) != kinds(first)) {
                    return Err(self.error("its unions are not of one type"));
                }
            }
            self.union_stacks.insert(&stack.name, n as u32);
            self.program.union_stacks.push(UnionStack { unions });
            self.place.pop();
        }
        Ok(())
    }

    fn by_ids(&self, ids: &[u64]) -> Result<Vec<u32>> {
        let find = |id: &u64| self.header_ids.get(id).copied();
        let headers: Vec<u32> = ids
            .iter()
            .map(|id| find(id).ok_or_else(|| self.error(format!("no header has the id {id}"))))
            .collect::<Result<_>>()?;
        Ok(headers)
    }

    fn header_type(&self, kind: &json::HeaderType) -> Result<HeaderType> {
        let (mut fields, mut bits, mut variable) = (Vec::new(), 0u64, None);
        for (n, field) in kind.fields.iter().enumerate() {
            let wrong = || self.error(format!("field {n} is not written as [name, width, signed]"));
            let name = field.first().and_then(Value::as_str).ok_or_else(wrong)?.to_owned();
            let flag = |n: usize| field.get(n).and_then(Value::as_bool).unwrap_or(false);
            let width = field.get(1).ok_or_else(wrong)?;
            let width = match width.as_u64() {
                Some(width) if width <= MAX_WIDTH => width as u32,
                Some(width) => {
                    return Err(
                        self.error(format!("field '{name}' is {width} bits wide, at most {MAX_WIDTH} go"))
                    );
                }
                None if width == "*" => {
                    if variable.is_some() {
                        return Err(self.error("two of its fields have a variable width"));
                    }
                    variable = Some((n as u32, bits as u32));
                    0
                }
                None => return Err(wrong()),
            };
            fields.push(TypeField { name, offset: bits as u32, width, signed: flag(2), saturating: flag(3) });
            bits += u64::from(width);
            if bits > MAX_BYTES {
                return Err(self.error("the header is too long"));
            }
        }
        let fixed = (bits as u32).div_ceil(8);
        let mut bytes = fixed;
        let variable = match variable {
            None => None,
            Some((index, before)) => {
                let max = kind.max_length.unwrap_or(0);
                if max > MAX_WIDTH {
                    return Err(self.error(format!("max_length is {max} bytes, at most {MAX_WIDTH} go")));
                }
                let max = (max as u32).saturating_sub(fixed);
                bytes += max;
                Some(Variable { index, before, offset: fixed * 8, max_bits: max * 8 })
            }
        };
        Ok(HeaderType { name: kind.name.clone(), fields, fixed_bits: bits as u32, variable, bytes })
    }

    /// Lowers the length expressions of headers whose length depends on their own fields.
    pub(super) fn header_lengths(&mut self) -> Result<()> {
        let root = self.root;
        for n in 0..root.headers.len() {
            let kind = &root.header_types[self.program.headers[n].kind as usize];
            if let Some(length) = &kind.length_exp
                && self.program.kind_of(n as u32).variable.is_some()
            {
                self.locals = Locals::Header(n as u32);
                let length = self.within(item("header_types", kind.id as usize, &kind.name), |lower| {
                    lower.within("length_exp", |lower| lower.value(length))
                })?;
                self.locals = Locals::None;
                self.program.headers[n].length = Some(length);
            }
        }
        Ok(())
    }

    /// Index of a field in its header type.
    pub(super) fn field_number(&self, header: u32, name: &str) -> Result<u32> {
        let kind = self.program.kind_of(header);
        let number = kind.fields.iter().position(|field| field.name == name);
        number.map(|number| number as u32).ok_or_else(|| {
            let near = belljar_p4json::nearest(name, kind.fields.iter().map(|field| field.name.as_str()));
            let remedy = near.map_or_else(
                || "write the file again with the compiler".to_owned(),
                |near| format!("write '{near}' if that is meant"),
            );
            self.error_with(format!("header type '{}' has no field '{name}'", kind.name), remedy)
        })
    }
    /// Fixed-width field of a header; `None` if the header lacks it.
    pub(super) fn fixed_field(&self, header: u32, name: &str) -> Option<Field> {
        let kind = self.program.kind_of(header);
        let number = kind.fields.iter().position(|field| field.name == name)? as u32;
        let variable = kind.variable.is_some_and(|variable| variable.index == number);
        (!variable).then(|| self.program.field_of(header, number))
    }
}
