//! Package and its blocks.

use super::{Bound, Instance, Lower, Result, Val, Where, build};
use crate::ast::Annotations;
use crate::ir::*;
use crate::source::{Diagnostic, Span};
use crate::typed::DeclKind;
use crate::types::{DefKind, Type};
use num_traits::ToPrimitive;
use std::rc::Rc;

impl Lower<'_> {
    /// Lowers the package `main`.
    pub(super) fn main(&mut self) -> Result<()> {
        let Some(main) = self.program.main else {
            return Err(Diagnostic::error(Span::default(), "the program has no 'main'")
                .help("end it with V1Switch(...) main;"));
        };
        let decl = self.decl(main);
        let span = decl.name.span;
        let (Type::Named(package, _), DeclKind::Instance(call)) = (&decl.ty, &decl.kind) else {
            return self.error(span, "main must be a package");
        };
        if &*self.program.defs[*package].name.name != "V1Switch" {
            return self.error(span, "main must be a V1Switch: this target is v1model");
        }
        self.prepare();
        self.global_instances()?;
        let mut blocks = Vec::new();
        for arg in &call.args {
            let Some(arg) = arg else { return self.error(span, "an argument of V1Switch is missing") };
            match self.val(arg, &mut Vec::new())? {
                Val::Instance(instance) => blocks.push(instance),
                _ => return self.error(arg.span, "a parser or control is needed here"),
            }
        }
        let [parser, verify, ingress, egress, compute, deparser] = blocks.as_slice() else {
            return self.error(span, "V1Switch takes six blocks");
        };
        self.info.blocks = blocks.iter().map(|block| (block.path.clone(), block.def)).collect();
        let name = |block: &Rc<Instance>| self.program.defs[block.def].name.span;
        self.out.controls = [ingress, egress, deparser].map(name).to_vec();
        let params = self.params_of(parser);
        let [_, headers, metadata, standard] = params.as_slice() else {
            return self.error(parser.span, "the parser of V1Switch takes four parameters");
        };
        let standard = self.standard(&standard.clone())?;
        let hdr = Bound::Place(self.storage("", &headers.clone(), parser.span)?);
        let metadata_place = self.storage("userMetadata", &metadata.clone(), parser.span)?;
        self.collect_lists(&metadata.clone(), &metadata_place, &[])?;
        self.warn_unlisted();
        let meta = Bound::Place(metadata_place);
        let standard = Bound::Place(standard);

        self.place = Where::Parser;
        self.bind_block(parser, &[Self::packet(), hdr.clone(), meta.clone(), standard.clone()]);
        self.state_names.insert("accept".into());
        self.state_names.insert("reject".into());
        self.out.init_state = self.parser_states(parser, None, "")?;

        self.place = Where::Checksum;
        self.bind_block(verify, &[hdr.clone(), meta.clone()]);
        let rest = self.checksum_block(verify)?;
        if !rest.is_empty() {
            return self.error(verify.span, "on this target this control can only call verify_checksum");
        }

        self.place = Where::Control;
        for (index, (name, block)) in [("ingress", ingress), ("egress", egress)].into_iter().enumerate() {
            self.pipeline = index;
            self.bind_block(block, &[hdr.clone(), meta.clone(), standard.clone()]);
            let mut body = Vec::new();
            self.control_body(block, &mut body)?;
            self.out.pipelines.push((name.to_string(), body));
        }

        self.place = Where::Checksum;
        self.bind_block(compute, &[hdr.clone(), meta]);
        let rest = self.checksum_block(compute)?;
        self.out.pipelines[1].1.extend(rest);

        self.place = Where::Deparser;
        self.bind_block(deparser, &[Self::packet(), hdr]);
        let mut body = Vec::new();
        self.control_body(deparser, &mut body)?;
        self.deparser(body, deparser.span)?;
        self.warn_unattached()?;
        self.out.errors = self.program.errors.clone();
        for id in &self.program.top_defs {
            if let DefKind::Enum(members) = &self.program.defs[*id].kind {
                self.out.enums.push((self.program.defs[*id].name.name.to_string(), members.to_vec()));
            }
        }
        Ok(())
    }

    fn prepare(&mut self) {
        let layout = &mut self.out.layout;
        layout.types.push(HeaderType { name: "scalars_0".into(), fields: Vec::new() });
        layout.headers.push(Header { name: "scalars".into(), ty: 0, metadata: true });
        layout.types.push(HeaderType { name: "standard_metadata".into(), fields: Vec::new() });
        layout.headers.push(Header { name: "standard_metadata".into(), ty: 1, metadata: true });
        for name in ["scalars", "standard_metadata", "types/scalars_0", "types/standard_metadata"] {
            self.names.insert(name.into());
        }
    }

    /// Declares the externs at the top level, in their order. Those that the program does not use are there for
    /// the control plane.
    fn global_instances(&mut self) -> Result<()> {
        for id in &self.program.top_decls {
            let decl = self.decl(*id);
            if let (DeclKind::Instance(_), Type::Named(def, _)) = (&decl.kind, self.types.ty(&decl.ty))
                && matches!(self.program.defs[def].kind, DefKind::Extern(_))
            {
                self.declare_instance(*id)?;
            }
        }
        Ok(())
    }

    fn params_of(&self, block: &Instance) -> Vec<Type> {
        match &self.program.defs[block.def].kind {
            DefKind::Block(_, signature, _) => {
                signature.params.iter().map(|param| self.types.ty(&param.ty)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Allocates the standard metadata with BMv2's field names.
    fn standard(&mut self, ty: &Type) -> Result<Place> {
        let Type::Named(def, _) = ty else {
            return self.error(Span::default(), "standard_metadata_t is needed");
        };
        let DefKind::Fields(_, fields) = &self.program.defs[*def].kind else {
            return self.error(Span::default(), "standard_metadata_t is needed");
        };
        let mut places = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let Some(scalar) = self.types.scalar(&field.ty) else { continue };
            let name = field.name.name.to_string();
            self.out.layout.types[1].fields.push((name.clone(), scalar));
            let reference = FieldRef { header: HeaderRef::Instance(1), field: index, scalar };
            places.push((field.name.name.clone(), Place::Scalar(reference)));
            if let Some(alias) = super::instance::annotation_text(&field.annotations, "alias") {
                self.out.aliases.push((alias, "standard_metadata".into(), name));
            }
        }
        Ok(Place::Struct(Rc::from(places)))
    }

    /// Collects the `@field_list` fields of the user metadata.
    fn collect_lists(&mut self, ty: &Type, place: &Place, outer: &[i64]) -> Result<()> {
        let (Type::Named(def, _), Place::Struct(places)) = (ty, place) else { return Ok(()) };
        let DefKind::Fields(_, fields) = &self.program.defs[*def].kind else { return Ok(()) };
        let (fields, types) =
            (fields.clone(), self.types.fields(ty).map(|(_, fields)| fields).unwrap_or_default());
        for ((field, (_, ty)), (_, place)) in fields.iter().zip(types).zip(places.iter()) {
            self.listed.insert(field.name.span);
            let mut lists = outer.to_vec();
            lists.extend(list_numbers(&field.annotations));
            if let (Place::Struct(_), Type::Named(..)) = (place, &ty) {
                self.collect_lists(&ty, place, &lists)?;
                continue;
            }
            if lists.is_empty() {
                continue;
            }
            if !matches!(place, Place::Scalar(_) | Place::Struct(_)) {
                let text = "a header cannot be kept by a field list: its validity is no field";
                return Err(Diagnostic::error(field.name.span, text).help("keep its fields in a struct"));
            }
            let inputs = self.inputs(&self.read(place), &ty, field.name.span)?;
            for number in lists {
                self.field_lists.entry(number).or_default().extend(inputs.clone());
            }
        }
        Ok(())
    }

    /// Warns of `@field_list` outside the user metadata, where the annotation has no effect.
    fn warn_unlisted(&mut self) {
        for def in &self.program.defs {
            let DefKind::Fields(_, fields) = &def.kind else { continue };
            for field in fields.iter().filter(|field| !self.listed.contains(&field.name.span)) {
                if let Some(annotation) = super::instance::find_annotation(&field.annotations, "field_list") {
                    let text = "@field_list has no effect here: this is no field of the user metadata";
                    let warning = Diagnostic::warning("invalid", annotation.name.span, text);
                    self.warnings.push(warning.help("mark a field of the parser's third parameter"));
                }
            }
        }
    }

    /// Warns of direct counters and meters that no table attaches.
    fn warn_unattached(&mut self) -> Result<()> {
        for uses in self.action_uses.values() {
            for (name, span) in uses {
                if self.out.meters.iter().any(|meter| meter.name == *name && meter.table.is_none()) {
                    let error = Diagnostic::error(*span, format!("no table has the meter '{name}'"));
                    return Err(error.help("name it in the 'meters' of a table"));
                }
            }
        }
        let arrays = self.out.counters.iter().chain(&self.out.meters);
        for array in arrays.filter(|array| array.direct && array.table.is_none()) {
            let found = self.info.arrays.iter().find(|(_, other, ..)| other.name == array.name);
            let Some((kind, _, (_, span), _)) = found else { continue };
            let span = *span;
            let property = if *kind == "direct_meter" { "meters" } else { "counters" };
            let text = format!("no table has this {}: it stays empty", kind.replace('_', " "));
            let warning = Diagnostic::warning("unused", span, text);
            self.warnings.push(warning.help(format!("name it in the '{property}' of a table")));
        }
        Ok(())
    }

    fn checksum_block(&mut self, block: &Rc<Instance>) -> Result<Vec<Stmt>> {
        self.block = self.program.defs[block.def].name.span;
        let mut body = Vec::new();
        self.control_body(block, &mut body)?;
        let mut body = self.beside_checksums(body, self.block)?;
        body.retain(|stmt| !empty(stmt));
        Ok(body)
    }

    /// Separates the emitted headers from the preceding statements.
    fn deparser(&mut self, body: Vec<Stmt>, span: Span) -> Result<()> {
        let mut statements = Vec::new();
        self.emissions(body, &Ex::Bool(true), span, &mut statements)?;
        for header in std::mem::take(&mut self.conditional_emissions) {
            if self.out.emitted.iter().filter(|other| **other == header).count() > 1 {
                return self.error(span, "a header that is emitted by a condition can only be emitted once");
            }
        }
        self.out.deparser = statements;
        Ok(())
    }

    fn emissions(&mut self, body: Vec<Stmt>, condition: &Ex, span: Span, out: &mut Vec<Stmt>) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::Primitive("emit", args) => {
                    let Some(Arg::Header(HeaderRef::Instance(header))) = args.first() else {
                        return self.error(span, "this cannot be emitted on this target");
                    };
                    // A header that must not be emitted is invalidated: no code runs after the deparser.
                    if *condition != Ex::Bool(true) {
                        self.conditional_emissions.push(*header);
                        let remove =
                            Stmt::Primitive("remove_header", vec![Arg::Header(HeaderRef::Instance(*header))]);
                        out.push(Stmt::If(build::not(condition.clone()), vec![remove], Vec::new()));
                    }
                    self.out.emitted.push(*header);
                }
                Stmt::If(test, yes, no) if emits(&yes) || emits(&no) => {
                    let shown = match &test {
                        Ex::At(shown, _) => Some(shown.clone()),
                        _ => None,
                    };
                    let saved = self.saved(test, Scalar::Bool, out);
                    // The branch in traces: its effects come later.
                    if let Some(shown) = shown {
                        let branch = Stmt::If(Ex::At(shown, Box::new(saved.clone())), Vec::new(), Vec::new());
                        out.push(match condition {
                            Ex::Bool(true) => branch,
                            outer => Stmt::If(outer.clone(), vec![branch], Vec::new()),
                        });
                    }
                    let both = build::and(condition.clone(), saved.clone());
                    self.emissions(yes, &both, span, out)?;
                    let neither = build::and(condition.clone(), build::not(saved));
                    self.emissions(no, &neither, span, out)?;
                }
                Stmt::Block(_, inner) | Stmt::Loop(inner) if emits(&inner) => {
                    return self.error(span, "this deparser is too complex for this target");
                }
                other if *condition == Ex::Bool(true) => out.push(other),
                other => out.push(Stmt::If(condition.clone(), vec![other], Vec::new())),
            }
        }
        Ok(())
    }
}

fn emits(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Primitive("emit", _) => true,
        Stmt::If(_, yes, no) => emits(yes) || emits(no),
        Stmt::Block(_, body) | Stmt::Loop(body) => emits(body),
        _ => false,
    })
}

fn empty(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::If(_, yes, no) => yes.iter().all(empty) && no.iter().all(empty),
        Stmt::Block(_, body) => body.iter().all(empty),
        Stmt::Break(_) => true,
        _ => false,
    }
}

/// Numbers in `@field_list(1, 2)`.
fn list_numbers(annotations: &Annotations) -> Vec<i64> {
    let lists = annotations.iter().filter(|annotation| &*annotation.name.name == "field_list");
    lists.flat_map(|annotation| annotation.numbers().filter_map(ToPrimitive::to_i64)).collect()
}
