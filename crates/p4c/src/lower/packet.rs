//! Methods of `packet_in` and `packet_out`.

use super::{Call, Lower, Result, Val, build};
use crate::ir::*;
use crate::source::{Diagnostic, Span};
use crate::typed::Expr;
use crate::types::{FieldsKind, Type};

impl Lower<'_> {
    /// Lowers a method call on `packet_in` or `packet_out`.
    pub(super) fn packet_call(
        &mut self,
        _object: &Expr,
        method: &str,
        call: &Call,
        expr: &Expr,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Val>> {
        let span = expr.span;
        match method {
            "extract" => {
                let place = match call.args.first() {
                    Some(Some(arg)) => self.place_of(arg, true, out)?,
                    _ => {
                        let ty = call.type_args.first().cloned().unwrap_or(Type::Poison);
                        self.storage("skipped", &ty, span)?
                    }
                };
                let length = match call.args.get(1) {
                    Some(Some(length)) => Some(self.ex(length, out)?),
                    _ => None,
                };
                let Place::Header(header) = place else {
                    return self.error(span, "only headers can be extracted");
                };
                self.check_whole_bytes(&header, "extracts", span)?;
                match self.out.layout.elements(&header) {
                    Some((elements, index)) => {
                        for (position, element) in elements.into_iter().enumerate() {
                            let here = build::compare("==", index.clone(), build::int(position));
                            let body = vec![Stmt::Extract(HeaderRef::Instance(element), length.clone())];
                            out.push(Stmt::If(here, body, Vec::new()));
                        }
                    }
                    None => out.push(Stmt::Extract(header, length)),
                }
                Ok(None)
            }
            "lookahead" => {
                let ty = self.types.ty(&expr.ty);
                let mut offset = 0;
                let value = self.lookahead(&ty, &mut offset, span)?;
                if self.lazy {
                    return Ok(Some(value));
                }
                let place = self.storage("ahead", &ty, span)?;
                self.assign(&place, value, span, out)?;
                Ok(Some(self.read(&place)))
            }
            "advance" => {
                let bits = self.arg_ex(call, 0, span, out)?;
                out.push(Stmt::Advance(bits));
                Ok(None)
            }
            "length" => {
                let fields = self.out.layout.header_fields(&self.standard_metadata());
                let name = "packet_length";
                let position = self.out.layout.types[1].fields.iter().position(|(field, _)| field == name);
                match position {
                    Some(position) => Ok(Some(self.read(&Place::Scalar(fields[position].clone())))),
                    None => self.error(span, "the length of the packet is not known on this target"),
                }
            }
            "emit" => {
                let arg = self.arg(call, 0, span)?;
                let value = self.val(arg, out)?;
                self.emit(&value, span, out)?;
                Ok(None)
            }
            _ => self.error(span, format!("packets have no method '{method}'")),
        }
    }

    fn check_whole_bytes(&self, header: &HeaderRef, verb: &str, span: Span) -> Result<()> {
        let ty = &self.out.layout.types[self.out.layout.type_of(header)];
        let bits: u32 = ty.fields.iter().map(|(_, scalar)| scalar.width()).sum();
        if bits.is_multiple_of(8) {
            return Ok(());
        }
        let text = format!("header {} has {bits} bits: this target {verb} whole bytes only", ty.name);
        Err(Diagnostic::error(span, text).help("add a field that fills the last byte"))
    }

    fn lookahead(&self, ty: &Type, offset: &mut u32, span: Span) -> Result<Val> {
        if let Some(scalar) = self.types.scalar(ty) {
            if matches!(scalar, Scalar::Varbit(_)) {
                return self.error(span, "lookahead cannot read a varbit field");
            }
            let width = scalar.width();
            let bits = Ex::Lookahead(*offset, width);
            *offset += width;
            return Ok(Val::Ex(if scalar == Scalar::Bool { build::to_bool(bits) } else { bits }));
        }
        if let Type::Stack(element, size) = ty {
            let values = (0..*size).map(|_| self.lookahead(element, offset, span));
            return Ok(Val::Literal(values.collect::<Result<Vec<_>>>()?.into()));
        }
        let Some((kind, fields)) = self.types.fields(ty).filter(|(kind, _)| *kind != FieldsKind::Union)
        else {
            return self.error(span, "lookahead cannot read a value of this type");
        };
        let mut values = Vec::new();
        for (_, ty) in fields {
            values.push(self.lookahead(&ty, offset, span)?);
        }
        Ok(if kind == FieldsKind::Header { Val::Literal(values.into()) } else { Val::Struct(values.into()) })
    }

    fn emit(&mut self, value: &Val, span: Span, out: &mut Vec<Stmt>) -> Result<()> {
        match value {
            Val::Header(header) => {
                self.check_whole_bytes(header, "emits", span)?;
                out.push(Stmt::Primitive("emit", vec![Arg::Header(header.clone())]));
            }
            Val::Stack(stack) => {
                for header in self.out.layout.stacks[*stack].headers.clone() {
                    self.emit(&Val::Header(HeaderRef::Instance(header)), span, out)?;
                }
            }
            Val::Union(Place::Union(union)) => {
                for header in self.out.layout.unions[*union].headers.clone() {
                    self.emit(&Val::Header(HeaderRef::Instance(header)), span, out)?;
                }
            }
            Val::UnionStack(stack) => {
                for union in self.out.layout.union_stacks[*stack].unions.clone() {
                    self.emit(&Val::Union(Place::Union(union)), span, out)?;
                }
            }
            Val::Struct(values) => {
                for value in values.iter() {
                    self.emit(value, span, out)?;
                }
            }
            Val::Invalid | Val::Default => {}
            _ => return self.error(span, "this cannot be emitted on this target"),
        }
        Ok(())
    }
}
