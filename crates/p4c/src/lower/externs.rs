//! Calls of v1model's externs.

use super::instance::constant;
use super::place::Target;
use super::{Call, Instance, Lower, Result, Val, Where, build};
use crate::ir::*;
use crate::source::{Diagnostic, Span};
use crate::typed::Expr;
use crate::types::{FieldsKind, Type};
use num_traits::ToPrimitive;
use std::rc::Rc;

impl Lower<'_> {
    pub(super) fn arg<'c>(&self, call: &'c Call, index: usize, span: Span) -> Result<&'c Expr> {
        match call.args.get(index) {
            Some(Some(arg)) => Ok(arg),
            _ => self.error(span, "an argument is missing"),
        }
    }

    pub(super) fn arg_ex(
        &mut self,
        call: &Call,
        index: usize,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Ex> {
        let arg = self.arg(call, index, span)?;
        let ex = self.ex(arg, out)?;
        Ok(if build::is_truth(&ex) { build::to_data(ex) } else { ex })
    }

    /// Field that receives the result of a primitive. If the argument cannot receive it directly, the field
    /// is a temporary and the target of a subsequent assignment is returned.
    fn result(
        &mut self,
        call: &Call,
        index: usize,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<(FieldRef, Option<Target>)> {
        let scalar_ty = match call.args.get(index) {
            Some(Some(arg)) => arg.ty.clone(),
            _ => return Ok((self.temporary("unused", Scalar::Bit(32)), None)),
        };
        let arg = self.arg(call, index, span)?;
        let target = self.target(arg, true, out)?;
        if let Target::Place(Place::Scalar(field)) = &target
            && matches!(field.header, HeaderRef::Instance(_))
        {
            return Ok((field.clone(), None));
        }
        match self.types.scalar(&self.types.ty(&scalar_ty)) {
            Some(scalar) => Ok((self.temporary("result", scalar), Some(target))),
            None => self.error(span, "a number is needed here"),
        }
    }

    fn store(
        &mut self,
        field: FieldRef,
        target: Option<Target>,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        if let Some(target) = target {
            let value = self.read(&Place::Scalar(field));
            self.assign_target(&target, value, span, out)?;
        }
        Ok(())
    }

    pub(super) fn extern_call(
        &mut self,
        name: &str,
        call: &Call,
        expr: &Expr,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Val>> {
        let span = expr.span;
        self.info.extern_functions |= !self.allowed(Where::Parser);
        let anywhere = matches!(name, "verify" | "assert" | "assume" | "log_msg" | "static_assert");
        if self.allowed(Where::Parser) && !anywhere {
            return self.error(span, format!("{name} cannot be called in a parser of this target"));
        }
        match name {
            "verify" => {
                let condition = self.ex(self.arg(call, 0, span)?, out)?;
                let error = self.ex(self.arg(call, 1, span)?, out)?;
                out.push(Stmt::Verify(condition, error));
            }
            "mark_to_drop" => self.mark_to_drop(call, span, out)?,
            "random" => {
                let (low, high) = (self.arg_ex(call, 1, span, out)?, self.arg_ex(call, 2, span, out)?);
                let (field, target) = self.result(call, 0, span, out)?;
                out.push(Stmt::Primitive(
                    "modify_field_rng_uniform",
                    vec![Arg::Field(field.clone()), Arg::Ex(low), Arg::Ex(high)],
                ));
                self.store(field, target, span, out)?;
            }
            "hash" => self.hash(call, span, out)?,
            "digest" => {
                let receiver = self.arg_ex(call, 0, span, out)?;
                let id = self.digest(call, span, out)?;
                out.push(Stmt::Primitive(
                    "generate_digest",
                    vec![Arg::Ex(receiver), Arg::Ex(build::int(id))],
                ));
            }
            "truncate" => {
                let length = self.arg_ex(call, 0, span, out)?;
                out.push(Stmt::Primitive("truncate", vec![Arg::Ex(length)]));
            }
            "assert" | "assume" => {
                let condition = self.ex(self.arg(call, 0, span)?, out)?;
                out.push(Stmt::Primitive(
                    if name == "assert" { "assert" } else { "assume" },
                    vec![Arg::Ex(condition)],
                ));
            }
            "log_msg" => {
                let Val::Text(text) = self.val(self.arg(call, 0, span)?, out)? else {
                    return self.error(span, "log_msg needs a string");
                };
                let mut values = Vec::new();
                if let Some(Some(data)) = call.args.get(1) {
                    let value = self.val(data, out)?;
                    let ty = self.types.ty(&data.ty);
                    if self.types.scalar(&ty).is_some() {
                        let error = Diagnostic::error(data.span, "log_msg needs a list of values");
                        return Err(error.help("write it in braces: { x }"));
                    }
                    values = self.inputs(&value, &ty, span)?.into_iter().map(|(ex, _)| ex).collect();
                }
                out.push(Stmt::Primitive("log_msg", vec![Arg::Text(text.to_string()), Arg::List(values)]));
            }
            "clone" | "clone3" | "clone_preserving_field_list" => self.clone_packet(name, call, span, out)?,
            "resubmit"
            | "recirculate"
            | "resubmit_preserving_field_list"
            | "recirculate_preserving_field_list" => {
                if name.starts_with("resubmit") {
                    self.only_in(0, "resubmit", "use recirculate", span)?;
                } else {
                    self.only_in(1, "recirculate", "use resubmit", span)?;
                }
                let list = self.list_argument(name, call, 0, span, out)?;
                let op = if name.starts_with("resubmit") { "resubmit" } else { "recirculate" };
                out.push(Stmt::Primitive(op, vec![Arg::Ex(build::int(list))]));
            }
            "static_assert" => {
                let holds = self.ex(self.arg(call, 0, span)?, out)?;
                return match holds {
                    Ex::Bool(true) => Ok(Some(Val::Ex(Ex::Bool(true)))),
                    Ex::Bool(false) => {
                        let text = match call.args.get(1) {
                            Some(Some(Expr { kind: crate::typed::ExprKind::Str(text), .. })) => {
                                text.to_string()
                            }
                            _ => "static_assert failed".into(),
                        };
                        self.error(span, text)
                    }
                    _ => self.error(span, "the condition of static_assert must be known at compile time"),
                };
            }
            "verify_checksum"
            | "update_checksum"
            | "verify_checksum_with_payload"
            | "update_checksum_with_payload" => {
                if !self.allowed(Where::Checksum) {
                    return self.error(span, format!("{name} can only be called in the checksum controls"));
                }
                self.checksum(name, call, span, out)?;
            }
            _ => return self.error(span, format!("the target has no extern '{name}'")),
        }
        Ok(None)
    }

    /// Scalars of a value in order, with their types.
    pub(super) fn inputs(&self, value: &Val, ty: &Type, span: Span) -> Result<Vec<(Ex, Scalar)>> {
        let mut list = Vec::new();
        self.collect(value, &self.types.ty(ty), span, &mut list)?;
        Ok(list)
    }

    fn collect(&self, value: &Val, ty: &Type, span: Span, list: &mut Vec<(Ex, Scalar)>) -> Result<()> {
        match value {
            Val::Ex(ex) => {
                let scalar = self.types.scalar(ty).unwrap_or(Scalar::Int);
                let ex = if build::is_truth(ex) { build::to_data(ex.clone()) } else { ex.clone() };
                list.push((ex, scalar));
            }
            Val::Varbit(field) => list.push((Ex::Field(field.clone()), field.scalar)),
            Val::Header(header) => {
                list.extend(
                    self.out
                        .layout
                        .header_fields(header)
                        .into_iter()
                        .map(|field| (Ex::Field(field.clone()), field.scalar)),
                );
            }
            Val::Stack(stack) => {
                for header in &self.out.layout.stacks[*stack].headers {
                    let fields = self.out.layout.header_fields(&HeaderRef::Instance(*header));
                    list.extend(fields.into_iter().map(|field| (Ex::Field(field.clone()), field.scalar)));
                }
            }
            Val::Struct(values) | Val::Literal(values) => {
                let fields = self.types.fields(ty).map(|(_, fields)| fields).unwrap_or_default();
                for (index, value) in values.iter().enumerate() {
                    let ty = fields.get(index).map_or(Type::Poison, |(_, ty)| ty.clone());
                    self.collect(value, &ty, span, list)?;
                }
            }
            _ => return self.error(span, "this value cannot be used here on this target"),
        }
        Ok(())
    }

    /// A copy of the standard metadata is marked by its fields, so that the packet is dropped where the copy is
    /// assigned back.
    fn mark_to_drop(&mut self, call: &Call, span: Span, out: &mut Vec<Stmt>) -> Result<()> {
        let standard = self.standard_metadata();
        let Some(Some(arg)) = call.args.first() else {
            out.push(Stmt::Primitive("mark_to_drop", vec![Arg::Header(standard)]));
            return Ok(());
        };
        let place = self.place_of(arg, true, out)?;
        let mut marks = Vec::new();
        if let Place::Struct(fields) = &place {
            for (name, value) in [("egress_spec", 511), ("mcast_grp", 0)] {
                match fields.iter().find(|(field, _)| &**field == name) {
                    Some((_, Place::Scalar(field))) => marks.push((field.clone(), value)),
                    _ => return self.error(span, "this is not the standard metadata"),
                }
            }
        }
        if marks.iter().all(|(field, _)| field.header == standard) {
            out.push(Stmt::Primitive("mark_to_drop", vec![Arg::Header(standard)]));
        } else {
            out.extend(marks.into_iter().map(|(field, value)| Stmt::Assign(field, build::int(value))));
        }
        Ok(())
    }

    fn hash(&mut self, call: &Call, span: Span, out: &mut Vec<Stmt>) -> Result<()> {
        let algorithm = self.val(self.arg(call, 1, span)?, out)?;
        let algorithm = self.algorithm(Some(&algorithm), span)?;
        let base = self.arg_ex(call, 2, span, out)?;
        let data = self.arg(call, 3, span)?;
        let value = self.val(data, out)?;
        let ty = self.types.ty(&data.ty);
        let max = self.arg_ex(call, 4, span, out)?;
        let input = self.calculation_input(&value, &ty, span, out)?;
        let name = self.unique("calc");
        self.out.calculations.push(Calculation { name: name.clone(), algorithm, input });
        let (field, target) = self.result(call, 0, span, out)?;
        let args =
            vec![Arg::Field(field.clone()), Arg::Ex(base), Arg::Object("calculation", name), Arg::Ex(max)];
        out.push(Stmt::Primitive("modify_field_with_hash_based_offset", args));
        self.store(field, target, span, out)
    }

    fn calculation_input(
        &mut self,
        value: &Val,
        ty: &Type,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Vec<Input>> {
        let inputs = self.inputs(value, ty, span)?;
        let input =
            inputs.into_iter().map(|(ex, scalar)| Input::Value(self.as_input(ex, scalar, out), scalar));
        Ok(input.collect())
    }

    /// Converts an expression to a field or constant, the only operands of calculations and lists.
    pub(super) fn as_input(&mut self, ex: Ex, scalar: Scalar, out: &mut Vec<Stmt>) -> Ex {
        match &ex {
            Ex::Int(_) => ex,
            Ex::Field(field) if matches!(field.header, HeaderRef::Instance(_)) => ex,
            _ => self.saved(ex, scalar, out),
        }
    }

    fn digest(&mut self, call: &Call, span: Span, out: &mut Vec<Stmt>) -> Result<i64> {
        let data = self.arg(call, 1, span)?;
        let value = self.val(data, out)?;
        let ty = self.types.ty(&data.ty);
        let mut elements = Vec::new();
        for (ex, scalar) in self.inputs(&value, &ty, span)? {
            // A learn list of the target has fields only.
            let ex = match ex {
                Ex::Int(_) => self.saved(ex, scalar, out),
                ex => self.as_input(ex, scalar, out),
            };
            elements.push((ex, scalar));
        }
        let name = match &ty {
            Type::Named(def, _) => super::instance::join(
                "",
                &self.program.defs[*def].name.name,
                &self.program.defs[*def].annotations,
            ),
            _ => format!("digest_{}", self.out.learn_lists.len()),
        };
        let id = self.out.learn_lists.len() as i64 + 1;
        self.info.digest(&name, &ty);
        self.out.learn_lists.push(FieldList { id, name, elements });
        Ok(id)
    }

    fn clone_packet(&mut self, name: &str, call: &Call, span: Span, out: &mut Vec<Stmt>) -> Result<()> {
        let kind = self.val(self.arg(call, 0, span)?, out)?;
        let Some(kind) = constant(&kind) else {
            return self.error(span, "the type of a clone must be known at compile time");
        };
        if kind == 0.into() {
            self.only_in(0, "a clone of type I2E", "write CloneType.E2E", span)?;
        } else {
            self.only_in(1, "a clone of type E2E", "write CloneType.I2E", span)?;
        }
        let session = self.arg_ex(call, 1, span, out)?;
        let list =
            if name == "clone" { self.empty_list() } else { self.list_argument(name, call, 2, span, out)? };
        let op = if kind == 0.into() { "clone_ingress_pkt_to_egress" } else { "clone_egress_pkt_to_egress" };
        out.push(Stmt::Primitive(op, vec![Arg::Ex(session), Arg::Ex(build::int(list))]));
        Ok(())
    }

    /// Reports a call outside the only pipeline that supports it: 0 ingress, 1 egress.
    fn only_in(&self, pipeline: usize, what: &str, remedy: &str, span: Span) -> Result<()> {
        let controls = matches!(self.place, Where::Control | Where::TableAction);
        if controls && self.pipeline == pipeline {
            return Ok(());
        }
        let name = ["ingress", "egress"][pipeline];
        Err(Diagnostic::error(span, format!("{what} works in {name} only")).help(remedy))
    }

    fn empty_list(&mut self) -> i64 {
        self.add_list("fl", Vec::new())
    }

    fn add_list(&mut self, name: &str, elements: Vec<(Ex, Scalar)>) -> i64 {
        let same =
            self.out.field_lists.iter().find(|list| list.elements == elements && list.name.starts_with(name));
        if let Some(list) = same {
            return list.id;
        }
        let id = self.out.field_lists.len() as i64 + 1;
        let name = self.unique(name);
        self.out.field_lists.push(FieldList { id, name, elements });
        id
    }

    /// Number of the field list that an argument denotes: by number for `*_preserving_field_list`, otherwise
    /// by its data.
    fn list_argument(
        &mut self,
        name: &str,
        call: &Call,
        index: usize,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<i64> {
        let arg = self.arg(call, index, span)?;
        let value = self.val(arg, out)?;
        if name.ends_with("_preserving_field_list") {
            let Some(number) = constant(&value).and_then(|value| value.to_i64()) else {
                return self.error(span, "the number of a field list must be known at compile time");
            };
            let Some(elements) = self.field_lists.get(&number).cloned() else {
                let text =
                    format!("no field of the user metadata has @field_list({number}): nothing is kept");
                self.warnings.push(Diagnostic::warning("invalid", arg.span, text));
                return Ok(self.empty_list());
            };
            return Ok(self.add_list("fl", elements));
        }
        let ty = arg.ty.clone();
        let mut elements = Vec::new();
        for (ex, scalar) in self.inputs(&value, &ty, span)? {
            let ex = self.as_input(ex, scalar, out);
            elements.push((ex, scalar));
        }
        Ok(self.add_list("fl", elements))
    }

    pub(super) fn standard_metadata(&self) -> HeaderRef {
        HeaderRef::Instance(1)
    }

    /// Lowers a method call on an extern object.
    pub(super) fn method_call(
        &mut self,
        instance: &Rc<Instance>,
        method: &str,
        call: &Call,
        expr: &Expr,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Val>> {
        let span = expr.span;
        let object = self.program.defs[instance.def].name.name.clone();
        let name = instance.path.clone();
        if self.allowed(Where::Parser) || self.allowed(Where::Deparser) {
            let block = if self.allowed(Where::Parser) { "parser" } else { "deparser" };
            return self
                .error(span, format!("{object}.{method} cannot be called in a {block} of this target"));
        }
        match (&*object, method) {
            ("counter", "count") => {
                let index = self.arg_ex(call, 0, span, out)?;
                out.push(Stmt::Primitive("count", vec![Arg::Object("counter_array", name), Arg::Ex(index)]));
            }
            ("direct_counter", "count") => {}
            ("meter", "execute_meter") => {
                let index = self.arg_ex(call, 0, span, out)?;
                let (field, target) = self.result(call, 1, span, out)?;
                let args = vec![Arg::Object("meter_array", name), Arg::Ex(index), Arg::Field(field.clone())];
                out.push(Stmt::Primitive("execute_meter", args));
                self.store(field, target, span, out)?;
            }
            ("direct_meter", "read") => {
                if !self.in_table_action() {
                    return self.error(span, "a direct meter can only be read in an action of its table");
                }
                self.direct_uses.push((name.clone(), span));
                let (field, target) = self.result(call, 0, span, out)?;
                let meter = self.out.meters.iter_mut().find(|meter| meter.name == name);
                let mut known = None;
                if let Some(meter) = meter {
                    known = Some(meter.target.get_or_insert(field.clone()).clone());
                }
                match known {
                    Some(known) if known != field => {
                        // BMv2's meter writes a single field; further results are copied from that field.
                        let value = self.read(&Place::Scalar(known));
                        self.assign(&Place::Scalar(field.clone()), value, span, out)?;
                    }
                    _ => {}
                }
                self.store(field, target, span, out)?;
            }
            ("Checksum16", "get") => {
                self.info.extern_functions |= !self.allowed(Where::Parser);
                let data = self.arg(call, 0, span)?;
                let value = self.val(data, out)?;
                let field = self.temporary("checksum", Scalar::Bit(16));
                let input = self.calculation_input(&value, &data.ty, span, out)?;
                let calculation = self.unique("calc");
                self.out.calculations.push(Calculation {
                    name: calculation.clone(),
                    algorithm: "csum16".into(),
                    input,
                });
                let args = vec![
                    Arg::Field(field.clone()),
                    Arg::Ex(build::int(0)),
                    Arg::Object("calculation", calculation),
                    Arg::Ex(build::int(0x1_0000)),
                ];
                out.push(Stmt::Primitive("modify_field_with_hash_based_offset", args));
                return Ok(Some(Val::Ex(Ex::Field(field))));
            }
            ("register", "read") if self.is_record(call, 0) => {
                let index = self.arg_ex(call, 1, span, out)?;
                let arg = self.arg(call, 0, span)?;
                let target = self.target(arg, true, out)?;
                let whole = self.register_cell(&self.types.ty(&arg.ty), span)?;
                let args =
                    vec![Arg::Field(whole.clone()), Arg::Object("register_array", name), Arg::Ex(index)];
                out.push(Stmt::Primitive("register_read", args));
                let mut high = whole.scalar.width();
                let value = self.unpacked(&self.types.ty(&arg.ty), &Ex::Field(whole), &mut high, span)?;
                self.assign_target(&target, value, span, out)?;
            }
            ("register", "write") if self.is_record(call, 1) => {
                let index = self.arg_ex(call, 0, span, out)?;
                let arg = self.arg(call, 1, span)?;
                let value = self.val(arg, out)?;
                let mut whole: Option<(Ex, u32)> = None;
                for (ex, scalar) in self.inputs(&value, &arg.ty, span)? {
                    let width = scalar.width();
                    whole = Some(match whole {
                        None => (ex, width),
                        Some((before, bits)) => {
                            (build::concat(before, ex, width, Scalar::Bit(bits + width)), bits + width)
                        }
                    });
                }
                let value = whole.map_or(build::int(0), |(ex, _)| ex);
                let args = vec![Arg::Object("register_array", name), Arg::Ex(index), Arg::Ex(value)];
                out.push(Stmt::Primitive("register_write", args));
            }
            ("register", "read") => {
                let index = self.arg_ex(call, 1, span, out)?;
                let (field, target) = self.result(call, 0, span, out)?;
                let args =
                    vec![Arg::Field(field.clone()), Arg::Object("register_array", name), Arg::Ex(index)];
                out.push(Stmt::Primitive("register_read", args));
                self.store(field, target, span, out)?;
            }
            ("register", "write") => {
                let (index, value) = (self.arg_ex(call, 0, span, out)?, self.arg_ex(call, 1, span, out)?);
                let args = vec![Arg::Object("register_array", name), Arg::Ex(index), Arg::Ex(value)];
                out.push(Stmt::Primitive("register_write", args));
            }
            _ => return self.error(span, format!("the target has no extern method '{object}.{method}'")),
        }
        Ok(None)
    }

    /// True if the argument is a struct, which a register stores as one number.
    fn is_record(&self, call: &Call, index: usize) -> bool {
        call.args.get(index).and_then(Option::as_ref).is_some_and(|arg| {
            let ty = self.types.ty(&arg.ty);
            self.types.scalar(&ty).is_none() && self.types.record_width(&ty).is_some()
        })
    }

    fn register_cell(&mut self, ty: &Type, span: Span) -> Result<FieldRef> {
        match self.types.record_width(ty) {
            Some(width) => Ok(self.temporary("cell", Scalar::Bit(width))),
            None => self.error(span, "a register of this target holds numbers and structs of numbers"),
        }
    }

    /// Unpacks a struct from the bits of a number below `high`.
    fn unpacked(&self, ty: &Type, whole: &Ex, high: &mut u32, span: Span) -> Result<Val> {
        if let Some(scalar) = self.types.scalar(ty) {
            *high -= scalar.width();
            let bits = build::slice(whole.clone(), *high + scalar.width() - 1, *high);
            return Ok(Val::Ex(match scalar {
                Scalar::Bool => build::to_bool(bits),
                Scalar::Signed(_) => build::wrap(bits, scalar),
                _ => bits,
            }));
        }
        let Some((FieldsKind::Struct, fields)) = self.types.fields(ty) else {
            return self.error(span, "a register of this target holds numbers and structs of numbers");
        };
        let values = fields.iter().map(|(_, ty)| self.unpacked(ty, whole, high, span));
        Ok(Val::Struct(values.collect::<Result<Vec<_>>>()?.into()))
    }
}
