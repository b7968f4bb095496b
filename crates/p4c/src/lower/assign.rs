//! Assignment of values.

use super::place::Target;
use super::{Lower, Result, Val, build, layout};
use crate::ir::*;
use crate::source::Span;
use std::rc::Rc;

impl Lower<'_> {
    pub(super) fn assign_target(
        &mut self,
        target: &Target,
        value: Val,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        match target {
            Target::Place(place) => self.assign(place, value, span, out),
            Target::Slice(field, high, low) => {
                let Val::Ex(bits) = value else { return self.error(span, "a number is needed here") };
                let whole = Ex::Field(field.clone());
                out.push(Stmt::Assign(field.clone(), build::replace(whole, *high, *low, bits, field.scalar)));
                Ok(())
            }
        }
    }

    pub(super) fn assign(
        &mut self,
        place: &Place,
        value: Val,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        match (place, value) {
            (Place::Scalar(field), Val::Ex(ex)) => {
                let ex = if build::is_truth(&ex) { build::to_data(ex) } else { ex };
                if ex != Ex::Field(field.clone()) {
                    out.push(Stmt::Assign(field.clone(), ex));
                }
                Ok(())
            }
            (Place::Scalar(field), Val::Varbit(from)) => {
                if from != *field {
                    if let HeaderRef::Instance(index) = &field.header
                        && self.varbits.contains(index)
                    {
                        // The header of a varbit variable is invisible to the program; the first assignment
                        // makes it valid.
                        out.push(Stmt::Primitive("add_header", vec![Arg::Header(field.header.clone())]));
                    }
                    out.push(Stmt::Primitive("assign_VL", vec![Arg::Field(field.clone()), Arg::Field(from)]));
                }
                Ok(())
            }
            (Place::Scalar(field), Val::Default) => {
                out.push(Stmt::Assign(field.clone(), build::int(0)));
                Ok(())
            }
            (Place::Header(header), value) => self.assign_header(header, value, span, out),
            (Place::Stack(to), Val::Stack(from)) => {
                if *to != from {
                    let object = |index: usize| {
                        Arg::Object("header_stack", self.out.layout.stacks[index].name.clone())
                    };
                    out.push(Stmt::Primitive("assign_header_stack", vec![object(*to), object(from)]));
                }
                Ok(())
            }
            (Place::Stack(stack), Val::Literal(values) | Val::Struct(values)) => {
                let headers = self.out.layout.stacks[*stack].headers.clone();
                for (index, header) in headers.into_iter().enumerate() {
                    let value = values.get(index).cloned().unwrap_or(Val::Invalid);
                    self.assign(&Place::Header(HeaderRef::Instance(header)), value, span, out)?;
                }
                Ok(())
            }
            (Place::Stack(_) | Place::Union(_) | Place::UnionStack(_), Val::Invalid | Val::Default) => {
                self.invalidate(place, out);
                Ok(())
            }
            (Place::Union(to), Val::Union(Place::Union(from))) => {
                if *to != from {
                    let object = |index: usize| {
                        Arg::Object("header_union", self.out.layout.unions[index].name.clone())
                    };
                    out.push(Stmt::Primitive("assign_union", vec![object(*to), object(from)]));
                }
                Ok(())
            }
            (Place::UnionStack(to), Val::UnionStack(from)) => {
                if *to != from {
                    let name = |index: usize| self.out.layout.union_stacks[index].name.clone();
                    let object = |index: usize| Arg::Object("header_union_stack", name(index));
                    out.push(Stmt::Primitive("assign_union_stack", vec![object(*to), object(from)]));
                }
                Ok(())
            }
            (Place::UnionElement(stack, index), value) => {
                let unions = self.out.layout.union_stacks[*stack].unions.clone();
                for (position, union) in unions.into_iter().enumerate() {
                    let mut body = Vec::new();
                    self.assign(&Place::Union(union), value.clone(), span, &mut body)?;
                    let here = build::compare("==", (**index).clone(), build::int(position));
                    out.push(Stmt::If(here, body, Vec::new()));
                }
                Ok(())
            }
            (place, Val::Union(Place::UnionElement(stack, index))) => {
                let unions = self.out.layout.union_stacks[stack].unions.clone();
                for (position, union) in unions.into_iter().enumerate() {
                    let mut body = Vec::new();
                    self.assign(place, Val::Union(Place::Union(union)), span, &mut body)?;
                    let here = build::compare("==", (*index).clone(), build::int(position));
                    out.push(Stmt::If(here, body, Vec::new()));
                }
                Ok(())
            }
            (Place::Struct(fields), Val::Struct(values) | Val::Literal(values)) => {
                let places = fields.iter().map(|(_, place)| place.clone()).collect::<Vec<_>>();
                self.assign_all(&places, &values, span, out)
            }
            (Place::Struct(fields), Val::Default) => {
                for (_, place) in fields.iter() {
                    self.assign(place, Val::Default, span, out)?;
                }
                Ok(())
            }
            _ => self.error(span, "this assignment is not possible on this target"),
        }
    }

    /// Assigns fields one by one. Values that a later field reads are saved before an earlier assignment
    /// overwrites them.
    fn assign_all(
        &mut self,
        places: &[Place],
        values: &Rc<[Val]>,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let mut written = Vec::new();
        for place in places {
            self.out.layout.covers(place, &mut written);
        }
        let mut ready = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let own = places.get(index);
            let value = match value {
                Val::Ex(ex) if values.len() > 1 && self.out.layout.reads_any(ex, &written) => match own {
                    Some(Place::Scalar(field)) if *ex == Ex::Field(field.clone()) => Val::Ex(ex.clone()),
                    Some(Place::Scalar(field)) => Val::Ex(self.saved(ex.clone(), field.scalar, out)),
                    _ => Val::Ex(ex.clone()),
                },
                Val::Header(HeaderRef::Instance(from)) if values.len() > 1 => {
                    let same = matches!(own, Some(Place::Header(HeaderRef::Instance(to))) if to == from);
                    if !same && layout::overlap(&[(*from, None)], &written) {
                        let name = self.unique("tmp_header");
                        let ty = self.out.layout.headers[*from].ty;
                        self.out.layout.headers.push(Header { name, ty, metadata: false });
                        let copy = HeaderRef::Instance(self.out.layout.headers.len() - 1);
                        self.assign_header(&copy, value.clone(), span, out)?;
                        Val::Header(copy)
                    } else {
                        value.clone()
                    }
                }
                other => other.clone(),
            };
            ready.push(value);
        }
        for (index, place) in places.iter().enumerate() {
            let value = ready.get(index).cloned().unwrap_or(Val::Default);
            self.assign(place, value, span, out)?;
        }
        Ok(())
    }

    fn assign_header(
        &mut self,
        header: &HeaderRef,
        value: Val,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let header = &element_at_end(header);
        let value = match value {
            Val::Header(from) => Val::Header(element_at_end(&from)),
            other => other,
        };
        if let Some((headers, index)) = self.out.layout.elements(header) {
            for (position, element) in headers.into_iter().enumerate() {
                let mut body = Vec::new();
                self.assign_header(&HeaderRef::Instance(element), value.clone(), span, &mut body)?;
                let here = build::compare("==", index.clone(), build::int(position));
                out.push(Stmt::If(here, body, Vec::new()));
            }
            return Ok(());
        }
        if let Val::Header(from) = &value
            && let Some((headers, index)) = self.out.layout.elements(from)
        {
            for (position, element) in headers.into_iter().enumerate() {
                let mut body = Vec::new();
                self.assign_header(header, Val::Header(HeaderRef::Instance(element)), span, &mut body)?;
                let here = build::compare("==", index.clone(), build::int(position));
                out.push(Stmt::If(here, body, Vec::new()));
            }
            return Ok(());
        }
        match value {
            Val::Header(from) => {
                if from != *header {
                    out.push(Stmt::Primitive(
                        "assign_header",
                        vec![Arg::Header(header.clone()), Arg::Header(from)],
                    ));
                }
                Ok(())
            }
            Val::Invalid | Val::Default => {
                out.push(Stmt::Primitive("remove_header", vec![Arg::Header(header.clone())]));
                Ok(())
            }
            Val::Literal(values) | Val::Struct(values) => {
                let mut flat = Vec::new();
                super::value::flatten(&values, &mut flat);
                let fields = self.out.layout.header_fields(header);
                // `...` inside a nested struct denotes all of its fields.
                flat.resize(fields.len(), Val::Default);
                let places = fields.into_iter().map(Place::Scalar).collect::<Vec<_>>();
                out.push(Stmt::Primitive("add_header", vec![Arg::Header(header.clone())]));
                self.assign_all(&places, &flat.into(), span, out)
            }
            _ => self.error(span, "this cannot be assigned to a header"),
        }
    }

    /// Invalidates every header in a storage location.
    pub(super) fn invalidate(&mut self, place: &Place, out: &mut Vec<Stmt>) {
        match place {
            Place::Scalar(_) | Place::UnionEnd(..) | Place::UnionElement(..) => {}
            Place::Header(header) => {
                out.push(Stmt::Primitive("remove_header", vec![Arg::Header(header.clone())]));
            }
            Place::Stack(stack) => {
                for header in self.out.layout.stacks[*stack].headers.clone() {
                    self.invalidate(&Place::Header(HeaderRef::Instance(header)), out);
                }
            }
            Place::Union(union) => {
                for header in self.out.layout.unions[*union].headers.clone() {
                    self.invalidate(&Place::Header(HeaderRef::Instance(header)), out);
                }
            }
            Place::UnionStack(stack) => {
                for union in self.out.layout.union_stacks[*stack].unions.clone() {
                    self.invalidate(&Place::Union(union), out);
                }
            }
            Place::Struct(fields) => {
                for (_, field) in fields.iter() {
                    self.invalidate(field, out);
                }
            }
        }
    }
}

/// Resolves `next` and `last` of a stack to indexed elements: BMv2 supports the names in extraction only.
fn element_at_end(header: &HeaderRef) -> HeaderRef {
    let last = |stack: &usize| Ex::LastIndex(*stack);
    match header {
        HeaderRef::Last(stack) => HeaderRef::Element(*stack, Box::new(last(stack))),
        HeaderRef::Next(stack) => {
            let next = Ex::Op("+", Some(Box::new(last(stack))), Box::new(build::int(1)));
            HeaderRef::Element(*stack, Box::new(next))
        }
        HeaderRef::UnionLast(stack, member) => {
            HeaderRef::UnionElement(*stack, *member, Box::new(Ex::UnionLastIndex(*stack)))
        }
        HeaderRef::UnionNext(stack, member) => {
            let last = Box::new(Ex::UnionLastIndex(*stack));
            let next = Ex::Op("+", Some(last), Box::new(build::int(1)));
            HeaderRef::UnionElement(*stack, *member, Box::new(next))
        }
        other => other.clone(),
    }
}
