//! P4Info, the control-plane description used by P4Runtime clients.

use super::ast::{Annotation, Annotations, Constant};
use super::ir::{self, Array, Profile};
use super::lower::{annotation_text, find_annotation, has_annotation, join, key_text};
use super::source::{Diagnostic, Span};
use super::typed::{DeclKind, Program, Stmt};
use super::types::{DeclId, DefId, DefKind, FieldDef, Type};
use belljar_base::{Map, Set};
use ids::{Ids, Kind, field_ids};
use num_traits::ToPrimitive;
use text::Text;
use types::{Types, bytes, spec, type_name, width};

mod ids;
mod text;
mod types;

/// Annotations of an instance and the source range of its name.
pub type Origin = (Annotations, Span);

/// Control-plane objects collected by lowering.
#[derive(Debug, Default)]
pub struct Info {
    /// Name and definition of each package block.
    pub blocks: Vec<(String, DefId)>,
    /// Tables by name: declaration, index in the lowered program.
    pub tables: Map<String, (DeclId, usize)>,
    /// Names of table actions and of directly called actions.
    pub actions: Set<String>,
    /// Counters, meters and registers: kind, array, origin, element type.
    pub arrays: Vec<(&'static str, Array, Origin, Option<Type>)>,
    /// Action profiles and selectors.
    pub profiles: Vec<(Profile, Annotations)>,
    /// Value sets: name, declaration, element type, size.
    pub value_sets: Vec<(String, DeclId, Type, u64)>,
    /// Digests.
    pub digests: Vec<(String, Type)>,
    /// Control instances: path and declaration to path and definition.
    pub instances: Map<(String, DeclId), (String, DefId)>,
    /// Instances created by direct application: enclosing path, path, definition.
    pub direct: Vec<(String, String, DefId)>,
    /// Names of counters, profiles and other instances by kind, with their declarations.
    pub names: Map<(String, String), Span>,
    /// True if a control calls an extern function.
    pub extern_functions: bool,
    /// Top-level actions, with the name of the block that uses them.
    pub global_actions: Vec<(String, DeclId)>,
}

impl Info {
    pub(super) fn array(&mut self, kind: &'static str, array: &Array, source: Origin, element: Option<Type>) {
        self.arrays.push((kind, array.clone(), source, element));
    }

    pub(super) fn value_set(&mut self, name: &str, decl: DeclId, element: Type, size: u64) {
        self.value_sets.push((name.into(), decl, element, size));
    }

    pub(super) fn digest(&mut self, name: &str, ty: &Type) {
        if !self.digests.iter().any(|(other, _)| other == name) {
            self.digests.push((name.into(), ty.clone()));
        }
    }
}

struct Writer<'a> {
    program: &'a Program,
    lowered: &'a ir::Program,
    info: &'a Info,
    ids: Ids,
    types: Types,
    /// Tables, actions and names of instances in declaration order.
    tables: Vec<(String, DeclId)>,
    actions: Vec<(String, DeclId)>,
    instances: Vec<String>,
    arrays: Vec<&'a (&'static str, Array, Origin, Option<Type>)>,
    profiles: Vec<&'a (Profile, Annotations)>,
}

/// Id in `@id(...)`.
fn given_id(annotations: &[Annotation]) -> Option<(u32, Span)> {
    Some((number(annotations, "id")?, find_annotation(annotations, "id")?.name.span))
}

fn number(annotations: &[Annotation], name: &str) -> Option<u32> {
    find_annotation(annotations, name)?.numbers().next()?.to_u32()
}

/// Annotations of an action selector that have fields of their own.
const GROUP_SIZES: [&str; 3] = ["max_group_size", "max_member_weight", "selector_size_semantics"];

/// Properties of the package that P4Info defines; all are strings.
pub const PACKAGE_PROPERTIES: [&str; 5] = ["name", "version", "organization", "contact", "url"];

/// Properties of the platform that P4Info defines; all are numbers.
pub const PLATFORM_PROPERTIES: [&str; 3] = [
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
];

/// String value of a key in the annotations of a name.
fn pair(annotations: &[Annotation], name: &str, key: &str) -> Option<String> {
    let named = annotations.iter().filter(|annotation| &*annotation.name.name == name);
    let mut pairs = named
        .flat_map(|annotation| annotation.keys.iter().zip(annotation.values.get().into_iter().flatten()));
    pairs.find(|(own, _)| &***own == key).map(|(_, value)| match value {
        Constant::Text(text) => text.to_string(),
        Constant::Number(number) => number.to_string(),
        Constant::Truth(truth) => truth.to_string(),
    })
}

/// Fields of a controller header with their names, those of structs in it too, except hidden ones.
fn flat_fields<'p>(
    program: &'p Program,
    fields: &'p [FieldDef],
    prefix: &str,
    list: &mut Vec<(String, &'p FieldDef)>,
) {
    for field in fields.iter().filter(|field| !has_annotation(&field.annotations, "hidden")) {
        let own = annotation_text(&field.annotations, "name");
        let name = format!("{prefix}{}", own.as_deref().unwrap_or(&field.name.name));
        let def = match &field.ty {
            Type::Named(id, _) => Some(&program.defs[*id].kind),
            _ => None,
        };
        match def {
            Some(DefKind::Fields(_, inner)) => flat_fields(program, inner, &format!("{name}."), list),
            _ => list.push((name, field)),
        }
    }
}

/// Generates the P4Info of a program.
pub fn p4info(program: &Program, lowered: &ir::Program, info: &Info) -> Result<String, Diagnostic> {
    let mut writer = Writer {
        program,
        lowered,
        info,
        ids: Ids::default(),
        types: Types::default(),
        tables: Vec::new(),
        actions: Vec::new(),
        instances: Vec::new(),
        arrays: info.arrays.iter().collect(),
        profiles: info.profiles.iter().collect(),
    };
    writer.collect();
    match writer.ids.refused.take() {
        Some(error) => Err(error),
        None => Ok(writer.write()),
    }
}

impl Writer<'_> {
    fn collect(&mut self) {
        // Instances at the top level come first.
        for id in &self.program.top_decls {
            if let DeclKind::Instance(_) = self.program.decls[*id].kind {
                let name = self.global_name(*id);
                self.instances.push(name);
            }
        }
        for (path, def) in &self.info.blocks {
            for (_, decl) in self.info.global_actions.iter().filter(|(block, _)| block == path) {
                let name = self.global_name(*decl);
                self.add_action(name, *decl);
            }
            self.walk(path, *def);
        }
        // Instances that a table property makes come after all declared ones.
        let place =
            |name: &str| self.instances.iter().position(|instance| instance == name).unwrap_or(usize::MAX);
        self.arrays.sort_by_key(|(_, array, ..)| place(&array.name));
        self.profiles.sort_by_key(|(profile, _)| place(&profile.name));
        for (name, decl) in &self.tables {
            self.ids.add(Kind::Table, name, given_id(&self.program.decls[*decl].annotations));
        }
        for (name, decl) in &self.actions {
            self.ids.add(Kind::Action, name, given_id(&self.program.decls[*decl].annotations));
        }
        for (kind, array, (annotations, _), _) in self.arrays.clone() {
            if array.direct && self.attached(&array.name).is_none() {
                continue;
            }
            self.ids.add(array_kind(kind), &array.name, given_id(annotations));
        }
        for (profile, annotations) in self.profiles.clone() {
            self.ids.add(Kind::ActionProfile, &profile.name, given_id(annotations));
        }
        for (name, decl, ..) in &self.info.value_sets {
            self.ids.add(Kind::ValueSet, name, given_id(&self.program.decls[*decl].annotations));
        }
        for (name, _) in &self.info.digests {
            self.ids.add(Kind::Digest, name, None);
        }
        let mut headers = Map::new();
        for id in self.controller_headers() {
            let annotations = &self.program.defs[id].annotations;
            self.ids.add(Kind::ControllerHeader, &types::def_name(self.program, id), given_id(annotations));
            let shown = annotation_text(annotations, "controller_header").unwrap_or_default();
            let span = self.program.defs[id].name.span;
            if let Some(first) = headers.insert(shown.clone(), span) {
                let text = format!("another controller header has the name '{shown}'");
                let error = Diagnostic::error(span, text).note(first, "the other");
                self.ids.refused.get_or_insert(error);
            }
        }
        self.ids.assign();
    }

    fn global_name(&self, decl: DeclId) -> String {
        let decl = &self.program.decls[decl];
        join("", &decl.name.name, &decl.annotations)
    }

    fn add_action(&mut self, name: String, decl: DeclId) {
        let hidden = has_annotation(&self.program.decls[decl].annotations, "hidden");
        if !hidden && !self.actions.iter().any(|(other, _)| *other == name) {
            self.actions.push((name, decl));
        }
    }

    /// Collects the tables and actions of a control and of its nested controls.
    fn walk(&mut self, path: &str, def: DefId) {
        let Some(block) = self.program.bodies.get(&def) else { return };
        for local in &block.locals {
            let Stmt::Declare(id) = local else { continue };
            let decl = &self.program.decls[*id];
            let name = join(path, &decl.name.name, &decl.annotations);
            match &decl.kind {
                DeclKind::Action(..) if self.info.actions.contains(&name) => self.add_action(name, *id),
                DeclKind::Table(_)
                    if self.info.tables.contains_key(&name)
                        && !has_annotation(&decl.annotations, "hidden") =>
                {
                    self.tables.push((name, *id));
                }
                DeclKind::Instance(..) => {
                    self.instances.push(name);
                    if let Some((inner, def)) = self.info.instances.get(&(path.to_string(), *id)) {
                        let (inner, def) = (inner.clone(), *def);
                        if matches!(self.program.defs[def].kind, DefKind::Block(..)) {
                            self.walk(&inner, def);
                        }
                    }
                }
                _ => {}
            }
        }
        // p4c declares the instances of directly applied controls after the others.
        for (outer, inner, def) in &self.info.direct {
            if outer == path {
                self.walk(inner, *def);
            }
        }
    }

    /// Table to which a direct counter or meter is attached.
    fn attached(&self, array: &str) -> Option<&str> {
        let arrays = self.lowered.counters.iter().chain(&self.lowered.meters);
        arrays.filter(|other| other.name == array).find_map(|other| other.table.as_deref())
    }

    fn controller_headers(&self) -> Vec<DefId> {
        let defs = self.program.defs.iter().enumerate();
        defs.filter(|(_, def)| has_annotation(&def.annotations, "controller_header"))
            .map(|(id, _)| id)
            .collect()
    }

    fn preamble(&self, kind: Kind, name: &str, annotations: &[Annotation], text: &mut Text) {
        let own: &[&str] = if kind == Kind::ActionProfile { &GROUP_SIZES } else { &[] };
        text.block("preamble", |text| {
            text.plain("id", self.ids.id(kind, name));
            text.string("name", name);
            text.string("alias", &self.ids.alias(name));
            types::annotations(annotations, own, text);
            types::documentation(annotations, text);
            types::structured_annotations(annotations, text);
        });
    }

    fn write(mut self) -> String {
        // p4c writes `type_info` once the program uses an extern.
        self.types.present =
            self.info.extern_functions || !self.arrays.is_empty() || !self.profiles.is_empty();
        let mut text = Text::default();
        text.block("pkg_info", |text| self.package(text));
        for (name, decl) in self.tables.clone() {
            text.block("tables", |text| self.table(&name, decl, text));
        }
        for (name, decl) in self.actions.clone() {
            text.block("actions", |text| self.action(&name, decl, text));
        }
        for (profile, annotations) in self.profiles.clone() {
            text.block("action_profiles", |text| self.profile(profile, annotations, text));
        }
        self.arrays("counter", "counters", &mut text);
        self.arrays("direct_counter", "direct_counters", &mut text);
        self.arrays("meter", "meters", &mut text);
        self.arrays("direct_meter", "direct_meters", &mut text);
        for id in self.controller_headers() {
            text.block("controller_packet_metadata", |text| self.controller_header(id, text));
        }
        for (name, decl, element, size) in self.info.value_sets.clone() {
            text.block("value_sets", |text| self.value_set(&name, decl, &element, size, text));
        }
        self.arrays("register", "registers", &mut text);
        for (name, ty) in self.info.digests.clone() {
            self.types.note(self.program, &ty);
            text.block("digests", |text| {
                self.preamble(Kind::Digest, &name, &[], text);
                text.block("type_spec", |text| spec(self.program, &ty, text));
            });
        }
        self.types.write(self.program, &mut text);
        text.finish()
    }

    fn package(&self, text: &mut Text) {
        let main = self.program.main.map(|main| &self.program.decls[main]);
        let annotations = main.map(|main| main.annotations.clone());
        let annotations = annotations.as_deref().unwrap_or_default();
        let value = |field| pair(annotations, "pkginfo", field);
        let others = annotations.iter();
        let others = others.filter(|own| !["pkginfo", "platform_property"].contains(&&*own.name.name));
        let others = others.cloned().collect::<Vec<_>>();
        for field in ["name", "version"] {
            value(field).iter().for_each(|value| text.string(field, value));
        }
        types::documentation(&others, text);
        types::annotations(&others, &[], text);
        text.string("arch", &value("arch").unwrap_or_else(|| "v1model".into()));
        for field in ["organization", "contact", "url"] {
            value(field).iter().for_each(|value| text.string(field, value));
        }
        types::structured_annotations(&others, text);
        if has_annotation(annotations, "platform_property") {
            text.block("platform_properties", |text| {
                for field in PLATFORM_PROPERTIES {
                    let value = pair(annotations, "platform_property", field);
                    value.iter().for_each(|value| text.plain(field, value));
                }
            });
        }
    }

    fn table(&mut self, name: &str, id: DeclId, text: &mut Text) {
        let decl = &self.program.decls[id];
        let (DeclKind::Table(table), Some((_, index))) = (&decl.kind, self.info.tables.get(name)) else {
            return;
        };
        let lowered = &self.lowered.tables[*index];
        self.types.present = true;
        self.preamble(Kind::Table, name, &decl.annotations, text);
        let keys = table.key.iter().filter(|(_, kind, _)| &**kind != "selector").collect::<Vec<_>>();
        let numbers = field_ids(keys.iter().map(|(_, _, annotations)| &**annotations));
        for ((key, kind, annotations), number) in keys.into_iter().zip(numbers) {
            let ty = key.ty.clone();
            self.types.note(self.program, &ty);
            text.block("match_fields", |text| {
                text.plain("id", number);
                let name =
                    annotation_text(annotations, "name").unwrap_or_else(|| key_text(self.program, key));
                text.string("name", &name);
                types::annotations(annotations, &[], text);
                let bits = width(self.program, &ty);
                if bits > 0 {
                    text.plain("bitwidth", bits);
                }
                text.plain("match_type", kind.to_uppercase());
                types::documentation(annotations, text);
                if let Some(name) = type_name(self.program, &ty) {
                    text.block("type_name", |text| text.string("name", &name));
                }
                types::structured_annotations(annotations, text);
            });
        }
        let action_id = |position: usize| {
            let name = &self.lowered.actions[lowered.actions[position]].name;
            self.ids.id(Kind::Action, name)
        };
        for (position, action) in table.actions.iter().enumerate() {
            text.block("action_refs", |text| {
                text.plain("id", action_id(position));
                types::annotations(&action.annotations, &[], text);
                if has_annotation(&action.annotations, "tableonly") {
                    text.plain("scope", "TABLE_ONLY");
                } else if has_annotation(&action.annotations, "defaultonly") {
                    text.plain("scope", "DEFAULT_ONLY");
                }
                types::structured_annotations(&action.annotations, text);
            });
        }
        if let Some((position, args, is_const)) = &lowered.default {
            if *is_const {
                text.plain("const_default_action_id", action_id(*position));
            }
            text.block("initial_default_action", |text| {
                text.plain("action_id", action_id(*position));
                let params = &self.lowered.actions[lowered.actions[*position]].params;
                let numbers = self.param_ids(table.actions[*position].decl);
                for ((value, (_, scalar)), number) in args.iter().zip(params).zip(numbers) {
                    text.block("arguments", |text| {
                        text.plain("param_id", number);
                        text.bytes("value", &bytes(value, scalar.width()));
                    });
                }
            });
        }
        if let Some(profile) = lowered.profile {
            text.plain(
                "implementation_id",
                self.ids.id(Kind::ActionProfile, &self.lowered.profiles[profile].name),
            );
        }
        for wanted in ["direct_counter", "direct_meter"] {
            for (kind, array, ..) in self.arrays.iter().filter(|(kind, ..)| *kind == wanted) {
                if array.direct && self.attached(&array.name) == Some(name) {
                    text.plain("direct_resource_ids", self.ids.id(array_kind(kind), &array.name));
                }
            }
        }
        text.plain("size", lowered.size);
        if lowered.timeout {
            text.plain("idle_timeout_behavior", "NOTIFY_CONTROL");
        }
        if table.const_entries {
            text.plain("is_const_table", true);
        }
        if !table.entries.is_empty() {
            text.plain("has_initial_entries", true);
        }
    }

    fn param_ids(&self, action: DeclId) -> Vec<u32> {
        let DeclKind::Action(signature, _) = &self.program.decls[action].kind else { return Vec::new() };
        let params = signature.params.iter().filter(|param| param.direction == super::ast::Direction::None);
        field_ids(params.map(|param| &*param.annotations))
    }

    fn action(&mut self, name: &str, id: DeclId, text: &mut Text) {
        let decl = &self.program.decls[id];
        let DeclKind::Action(signature, _) = &decl.kind else { return };
        self.preamble(Kind::Action, name, &decl.annotations, text);
        // An action that belongs to no table gets its arguments from its call sites.
        let used = self.lowered.actions.iter().any(|action| action.name == name);
        let params =
            signature.params.iter().filter(|param| param.direction == super::ast::Direction::None && used);
        for (param, number) in params.zip(self.param_ids(id)) {
            self.types.note(self.program, &param.ty);
            text.block("params", |text| {
                text.plain("id", number);
                let name = annotation_text(&param.annotations, "name").unwrap_or_else(|| param.name.name.to_string());
                text.string("name", &name);
                types::annotations(&param.annotations, &[], text);
                let is_enum = matches!(&param.ty, Type::Named(id, _) if matches!(self.program.defs[*id].kind, DefKind::Enum(_)));
                let bits = width(self.program, &param.ty);
                if !is_enum && bits > 0 {
                    text.plain("bitwidth", bits);
                }
                types::documentation(&param.annotations, text);
                let named = type_name(self.program, &param.ty);
                let named = match (&param.ty, named) {
                    (Type::Named(id, _), None) if is_enum => Some(self.program.defs[*id].name.name.clone()),
                    (_, named) => named,
                };
                if let Some(name) = named {
                    text.block("type_name", |text| text.string("name", &name));
                }
                types::structured_annotations(&param.annotations, text);
            });
        }
    }

    fn profile(&self, profile: &Profile, annotations: &[Annotation], text: &mut Text) {
        self.preamble(Kind::ActionProfile, &profile.name, annotations, text);
        for (name, _) in &self.tables {
            let table = self.info.tables.get(name).map(|(_, index)| &self.lowered.tables[*index]);
            let used = table.and_then(|table| table.profile).map(|index| &self.lowered.profiles[index].name);
            if used == Some(&profile.name) {
                text.plain("table_ids", self.ids.id(Kind::Table, name));
            }
        }
        if profile.algorithm.is_some() {
            text.plain("with_selector", true);
        }
        text.plain("size", profile.size);
        if profile.algorithm.is_none() {
            return;
        }
        if let Some(size) = number(annotations, "max_group_size") {
            text.plain("max_group_size", size);
        }
        match annotation_text(annotations, "selector_size_semantics").as_deref() {
            Some("sum_of_members") => text.block("sum_of_members", |text| {
                if let Some(weight) = number(annotations, "max_member_weight") {
                    text.plain("max_member_weight", weight);
                }
            }),
            Some("sum_of_weights") => text.block("sum_of_weights", |_| {}),
            _ => {}
        }
    }

    fn arrays(&mut self, kind: &str, field: &str, text: &mut Text) {
        for (own, array, (annotations, _), element) in self.arrays.clone() {
            if *own != kind {
                continue;
            }
            let table = self.attached(&array.name).map(str::to_string);
            if array.direct && table.is_none() {
                continue;
            }
            if let Some(element) = element {
                self.types.note(self.program, element);
            }
            text.block(field, |text| {
                self.preamble(array_kind(kind), &array.name, annotations, text);
                match element {
                    Some(element) => text.block("type_spec", |text| spec(self.program, element, text)),
                    None => text.block("spec", |text| {
                        text.plain(
                            "unit",
                            match &*array.unit {
                                "packets" => "PACKETS",
                                "bytes" => "BYTES",
                                _ => "BOTH",
                            },
                        );
                    }),
                }
                match table {
                    Some(table) => text.plain("direct_table_id", self.ids.id(Kind::Table, &table)),
                    None => text.plain("size", array.size),
                }
            });
        }
    }

    fn controller_header(&mut self, id: DefId, text: &mut Text) {
        let def = &self.program.defs[id];
        let DefKind::Fields(_, fields) = &def.kind else { return };
        let shown = annotation_text(&def.annotations, "controller_header").unwrap_or_default();
        text.block("preamble", |text| {
            text.plain("id", self.ids.id(Kind::ControllerHeader, &types::def_name(self.program, id)));
            text.string("name", &shown);
            text.string("alias", &shown);
            types::annotations(&def.annotations, &[], text);
            types::documentation(&def.annotations, text);
            types::structured_annotations(&def.annotations, text);
        });
        let mut list = Vec::new();
        flat_fields(self.program, fields, "", &mut list);
        let numbers = field_ids(list.iter().map(|(_, field)| &*field.annotations));
        for ((name, field), number) in list.into_iter().zip(numbers) {
            self.types.note(self.program, &field.ty);
            text.block("metadata", |text| {
                text.plain("id", number);
                text.string("name", &name);
                types::annotations(&field.annotations, &[], text);
                let bits = width(self.program, &field.ty);
                if bits > 0 {
                    text.plain("bitwidth", bits);
                }
                if let Some(name) = type_name(self.program, &field.ty) {
                    text.block("type_name", |text| text.string("name", &name));
                }
                types::structured_annotations(&field.annotations, text);
            });
        }
    }

    fn value_set(&mut self, name: &str, decl: DeclId, element: &Type, size: u64, text: &mut Text) {
        self.preamble(Kind::ValueSet, name, &self.program.decls[decl].annotations, text);
        let kind_of = |annotations: &[Annotation]| {
            annotation_text(annotations, "match").map_or("EXACT".to_string(), |kind| kind.to_uppercase())
        };
        match element {
            Type::Named(id, _) if matches!(self.program.defs[*id].kind, DefKind::Fields(..)) => {
                let DefKind::Fields(_, fields) = &self.program.defs[*id].kind else { return };
                let numbers = field_ids(fields.iter().map(|field| &*field.annotations));
                for (field, number) in fields.iter().zip(numbers) {
                    text.block("match", |text| {
                        text.plain("id", number);
                        text.string("name", &field.name.name);
                        types::annotations(&field.annotations, &["match"], text);
                        text.plain("bitwidth", width(self.program, &field.ty));
                        text.plain("match_type", kind_of(&field.annotations));
                        types::documentation(&field.annotations, text);
                        types::structured_annotations(&field.annotations, text);
                    });
                }
            }
            // Fields of tuples have no names; p4c writes no P4Info for them.
            Type::Tuple(fields) => {
                for (number, field) in (1..).zip(fields.iter()) {
                    text.block("match", |text| {
                        text.plain("id", number);
                        text.plain("bitwidth", width(self.program, field));
                        text.plain("match_type", "EXACT");
                    });
                }
            }
            _ => text.block("match", |text| {
                text.plain("id", 1);
                text.plain("bitwidth", width(self.program, element));
                text.plain("match_type", "EXACT");
            }),
        }
        text.plain("size", size);
    }
}

fn array_kind(kind: &str) -> Kind {
    match kind {
        "counter" => Kind::Counter,
        "direct_counter" => Kind::DirectCounter,
        "meter" => Kind::Meter,
        "direct_meter" => Kind::DirectMeter,
        _ => Kind::Register,
    }
}
