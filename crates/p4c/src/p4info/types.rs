//! Types in P4Info: their names and descriptions.

use super::text::Text;
use crate::ast::{Annotation, Constant, Expr, ExprKind};
use crate::lex::{Kind, Token, escape};
use crate::lower::{annotation_text, find_annotation};
use crate::typed::Program;
use crate::types::{DefId, DefKind, FieldsKind, Type};
use belljar_base::Map;
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use std::rc::Rc;

/// Types referenced so far.
#[derive(Default)]
pub struct Types {
    /// True if `type_info` is written even if empty.
    pub present: bool,
    structs: Map<Rc<str>, DefId>,
    headers: Map<Rc<str>, DefId>,
    enums: Map<Rc<str>, DefId>,
    serializable: Map<Rc<str>, DefId>,
    new_types: Map<Rc<str>, DefId>,
    error: bool,
}

/// Width in bits of a type as seen by the control plane.
pub fn width(program: &Program, ty: &Type) -> u32 {
    match ty {
        Type::Bool => 1,
        Type::Bit(width) | Type::Signed(width) | Type::Varbit(width) => *width,
        Type::Named(id, _) => match &program.defs[*id].kind {
            DefKind::SerEnum(inner, _) => width(program, inner),
            DefKind::NewType(_) => translated(program, *id)
                .map_or_else(|| width(program, original(program, ty)), |(_, bits)| bits),
            _ => 0,
        },
        _ => 0,
    }
}

/// Type that underlies a chain of `type` definitions.
fn original<'a>(program: &'a Program, ty: &'a Type) -> &'a Type {
    match ty {
        Type::Named(id, _) => match &program.defs[*id].kind {
            DefKind::NewType(inner) => original(program, inner),
            _ => ty,
        },
        _ => ty,
    }
}

/// Name of a type defined by `type`.
pub fn type_name(program: &Program, ty: &Type) -> Option<Rc<str>> {
    match ty {
        Type::Named(id, _) if matches!(program.defs[*id].kind, DefKind::NewType(_)) => {
            Some(program.defs[*id].name.name.clone())
        }
        _ => None,
    }
}

/// URI and width of `@p4runtime_translation`; width 0 means a string.
fn translated(program: &Program, id: DefId) -> Option<(String, u32)> {
    let annotation = find_annotation(&program.defs[id].annotations, "p4runtime_translation")?;
    let uri = annotation.body.iter().find_map(|token| match &token.kind {
        Kind::Str(text) => Some(text.to_string()),
        _ => None,
    })?;
    let bits = annotation.body.iter().find_map(|token| match &token.kind {
        Kind::Int(value, ..) => value.to_u32(),
        _ => None,
    });
    Some((uri, bits.unwrap_or(0)))
}

/// Value as big-endian bytes of its width.
pub fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let length = width.div_ceil(8).max(1) as usize;
    let modulus = BigInt::from(1) << (8 * length);
    let value = num_integer::Integer::mod_floor(value, &modulus);
    let mut bytes = value.to_bytes_be().1;
    while bytes.len() < length {
        bytes.insert(0, 0);
    }
    bytes
}

impl Types {
    /// Records a type and the types that it contains.
    pub fn note(&mut self, program: &Program, ty: &Type) {
        self.present = true;
        match ty {
            Type::Error => self.error = true,
            Type::Tuple(types) => types.iter().for_each(|ty| self.note(program, ty)),
            Type::Stack(element, _) => self.note(program, element),
            Type::Named(id, _) => {
                let def = &program.defs[*id];
                let name = def.name.name.clone();
                match &def.kind {
                    DefKind::Enum(_) => drop(self.enums.insert(name, *id)),
                    DefKind::SerEnum(..) => drop(self.serializable.insert(name, *id)),
                    DefKind::NewType(inner) => {
                        self.new_types.insert(name, *id);
                        if translated(program, *id).is_none() {
                            self.note(program, original(program, inner));
                        }
                    }
                    DefKind::Fields(kind, fields) => {
                        let map =
                            if *kind == FieldsKind::Header { &mut self.headers } else { &mut self.structs };
                        if map.insert(name, *id).is_none() {
                            fields.iter().for_each(|field| self.note(program, &field.ty));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Writes `type_info`.
    pub fn write(&self, program: &Program, text: &mut Text) {
        if !self.present {
            return;
        }
        text.block("type_info", |text| {
            for (name, id) in &self.structs {
                entry(text, "structs", name, |text| members(program, *id, text));
            }
            for (name, id) in &self.headers {
                entry(text, "headers", name, |text| members(program, *id, text));
            }
            for (name, id) in &self.enums {
                let DefKind::Enum(list) = &program.defs[*id].kind else { continue };
                entry(text, "enums", name, |text| {
                    list.iter().for_each(|member| text.block("members", |text| text.string("name", member)));
                });
            }
            if self.error {
                text.block("error", |text| {
                    program.errors.iter().for_each(|name| text.string("members", name))
                });
            }
            for (name, id) in &self.serializable {
                let DefKind::SerEnum(underlying, list) = &program.defs[*id].kind else { continue };
                let bits = width(program, underlying);
                entry(text, "serializable_enums", name, |text| {
                    text.block("underlying_type", |text| text.plain("bitwidth", bits));
                    for (member, value) in list.iter() {
                        text.block("members", |text| {
                            text.string("name", member);
                            text.bytes("value", &bytes(value, bits));
                        });
                    }
                });
            }
            for (name, id) in &self.new_types {
                let DefKind::NewType(inner) = &program.defs[*id].kind else { continue };
                let own = program.defs[*id].annotations.iter();
                let own = own.filter(|annotation| &*annotation.name.name != "p4runtime_translation");
                let own = own.cloned().collect::<Vec<_>>();
                let origin = |text: &mut Text| match translated(program, *id) {
                    Some((uri, bits)) => text.block("translated_type", |text| {
                        text.string("uri", &uri);
                        if bits == 0 {
                            text.block("sdn_string", |_| {});
                        } else {
                            text.choice("sdn_bitwidth", bits);
                        }
                    }),
                    None => text.block("original_type", |text| spec(program, original(program, inner), text)),
                };
                entry(text, "new_types", name, |text| {
                    origin(text);
                    annotations(&own, &[], text);
                    structured_annotations(&own, text);
                });
            }
        });
    }
}

fn entry(text: &mut Text, field: &str, name: &str, value: impl FnOnce(&mut Text)) {
    text.block(field, |text| {
        text.string("key", name);
        text.block("value", value);
    });
}

fn members(program: &Program, id: DefId, text: &mut Text) {
    let DefKind::Fields(kind, fields) = &program.defs[id].kind else { return };
    for field in fields.iter() {
        text.block("members", |text| {
            text.string("name", &field.name.name);
            let inner = if *kind == FieldsKind::Header { bitstring(program, &field.ty) } else { None };
            match inner {
                Some(ty) => text.block("type_spec", |text| bits(program, &ty, text)),
                None => text.block("type_spec", |text| spec(program, &field.ty, text)),
            }
        });
    }
}

fn bitstring(_program: &Program, ty: &Type) -> Option<Type> {
    matches!(ty, Type::Bit(_) | Type::Signed(_) | Type::Varbit(_)).then(|| ty.clone())
}

fn bits(_program: &Program, ty: &Type, text: &mut Text) {
    let (name, width) = match ty {
        Type::Signed(width) => ("int", *width),
        Type::Varbit(width) => ("varbit", *width),
        Type::Bit(width) => ("bit", *width),
        _ => return,
    };
    let field = if name == "varbit" { "max_bitwidth" } else { "bitwidth" };
    text.block(name, |text| text.plain(field, width));
}

/// Writes the description of a type.
pub fn spec(program: &Program, ty: &Type, text: &mut Text) {
    match ty {
        Type::Bool => text.block("bool", |_| {}),
        Type::Error => text.block("error", |_| {}),
        Type::Bit(_) | Type::Signed(_) | Type::Varbit(_) => {
            text.block("bitstring", |text| bits(program, ty, text))
        }
        Type::Tuple(types) => text.block("tuple", |text| {
            types.iter().for_each(|ty| text.block("members", |text| spec(program, ty, text)));
        }),
        Type::Stack(element, size) => text.block("header_stack", |text| {
            if let Type::Named(id, _) = &**element {
                text.block("header", |text| text.string("name", &program.defs[*id].name.name));
            }
            text.plain("size", size);
        }),
        Type::Named(id, _) => {
            let def = &program.defs[*id];
            let kind = match &def.kind {
                DefKind::Enum(_) => "enum",
                DefKind::SerEnum(..) => "serializable_enum",
                DefKind::NewType(_) => "new_type",
                DefKind::Fields(FieldsKind::Struct, _) => "struct",
                DefKind::Fields(FieldsKind::Header, _) => "header",
                _ => "header_union",
            };
            text.block(kind, |text| text.string("name", &def.name.name));
        }
        _ => {}
    }
}

/// Annotations that p4c has evaluated when it writes P4Info, apart from those of [`ELSEWHERE`].
const EVALUATED: [&str; 8] = [
    "controller_header",
    "deprecated",
    "field_list",
    "match",
    "max_group_size",
    "max_member_weight",
    "noWarn",
    "selector_size_semantics",
];

/// Annotations that have fields of their own in P4Info.
const ELSEWHERE: [&str; 4] = ["brief", "description", "id", "name"];

/// Writes annotations that are not structured, except those with a field of their own: [`ELSEWHERE`] and
/// `own`.
pub fn annotations(list: &[Annotation], own: &[&str], text: &mut Text) {
    for annotation in list {
        let name = &*annotation.name.name;
        if annotation.structured || ELSEWHERE.contains(&name) || own.contains(&name) {
            continue;
        }
        let parts = if EVALUATED.contains(&name) { evaluated(annotation) } else { None };
        // p4c writes the tokens of an annotation that it does not know with one space between them.
        let body = parts.map_or_else(|| spelled(annotation).join(" "), |parts| parts.join(", "));
        let shown = if body.is_empty() { format!("@{name}") } else { format!("@{name}({body})") };
        text.string("annotations", &shown);
    }
}

/// Tokens in the brackets of an annotation, as written.
fn spelled(annotation: &Annotation) -> Vec<String> {
    let spelling = |token: &Token| match &token.kind {
        // Tokens of C, of which p4c takes each character for one.
        Kind::Punct("##") => "# #".to_string(),
        Kind::Char(text) => format!("' {} '", text.trim_matches('\'')),
        _ => token.spelling(),
    };
    annotation.body.iter().map(spelling).collect()
}

/// Arguments of an annotation after evaluation: literals keep their base, strings are escaped once more.
fn evaluated(annotation: &Annotation) -> Option<Vec<String>> {
    let values = annotation.values.get()?;
    let show = |(value, arg): (&Constant, &Expr)| match (value, &arg.kind) {
        (Constant::Text(value), _) => format!("\"{}\"", escape(&escape(value))),
        (Constant::Number(value), ExprKind::Int(_, Some((width, signed)), base)) => {
            format!("{width}{}{}", if *signed { 's' } else { 'w' }, base.show(value))
        }
        (Constant::Number(value), ExprKind::Int(_, None, base)) => base.show(value),
        (Constant::Number(value), _) => value.to_string(),
        (Constant::Truth(value), _) => value.to_string(),
    };
    Some(values.iter().zip(&annotation.args).map(show).collect())
}

/// Writes the `doc` of a message, from `@brief` and `@description`.
pub fn documentation(list: &[Annotation], text: &mut Text) {
    let parts = ["brief", "description"].map(|name| (name, annotation_text(list, name)));
    if parts.iter().all(|(_, value)| value.is_none()) {
        return;
    }
    text.block("doc", |text| {
        for (name, value) in parts {
            // p4c keeps the backslashes of the source.
            value.iter().for_each(|value| text.string(name, &escape(value)));
        }
    });
}

/// Writes structured annotations, which are the last fields of a message.
pub fn structured_annotations(list: &[Annotation], text: &mut Text) {
    for annotation in list.iter().filter(|annotation| annotation.structured) {
        text.block("structured_annotations", |text| structured(annotation, text));
    }
}

fn structured(annotation: &Annotation, text: &mut Text) {
    text.string("name", &annotation.name.name);
    let values = || annotation.values.get().into_iter().flatten();
    let one = |value: &Constant, text: &mut Text| match value {
        Constant::Text(value) => text.bytes("string_value", escape(value).as_bytes()),
        Constant::Number(value) => text.choice("int64_value", value),
        Constant::Truth(value) => text.choice("bool_value", value),
    };
    if !annotation.keys.is_empty() {
        text.block("kv_pair_list", |text| {
            for (key, value) in annotation.keys.iter().zip(values()) {
                text.block("kv_pairs", |text| {
                    text.string("key", key);
                    text.block("value", |text| one(value, text));
                });
            }
        });
    } else if values().next().is_some() {
        text.block("expression_list", |text| {
            values().for_each(|value| text.block("expressions", |text| one(value, text)));
        });
    }
}

/// Control-plane name of a definition.
pub fn def_name(program: &Program, id: DefId) -> String {
    let def = &program.defs[id];
    let name = annotation_text(&def.annotations, "name").unwrap_or_else(|| def.name.name.to_string());
    name.trim_start_matches('.').to_string()
}
