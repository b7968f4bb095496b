//! Lowering: from the checked program to BMv2's model. Instances are made, controls, parsers, functions
//! and direct action calls are inlined, variables get storage, and expressions lose their side effects.

use super::ir::*;
use super::source::{Diagnostic, Sources, Span};
use super::typed::{self, Call, Callee, DeclKind};
use super::types::{DeclId, DefId, DefKind, Fields, FieldsKind, Signature, Type};
use belljar_base::{Map, Set};
use num_bigint::BigInt;
use std::rc::Rc;

mod apply;
mod assign;
mod build;
mod checksum;
mod externs;
mod inline;
mod instance;
mod packet;
mod parser;
mod place;
mod program;
mod statement;
mod storage;
mod table;
mod value;

pub(super) use instance::{Instance, annotation_text, find_annotation, has_annotation, join};
pub(super) use table::key_text;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A value at run time.
#[derive(Clone, Debug)]
enum Val {
    Ex(Ex),
    Struct(Rc<[Val]>),
    /// A header or struct literal that becomes a valid header.
    Header(HeaderRef),
    Literal(Rc<[Val]>),
    Invalid,
    Stack(usize),
    Union(Place),
    UnionStack(usize),
    Varbit(FieldRef),
    Text(Rc<str>),
    Instance(Rc<Instance>),
    /// `...`.
    Default,
}

/// The meaning of a declaration in the code being lowered.
#[derive(Clone, Debug)]
enum Bound {
    Place(Place),
    Value(Val),
    /// A slice of a scalar, or something else that is copied in and out.
    Instance(Rc<Instance>),
}

/// The code that is being lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Parser,
    Control,
    TableAction,
    Checksum,
    Deparser,
}

pub(super) struct Lower<'a> {
    program: &'a typed::Program,
    sources: &'a Sources,
    out: Program,
    bound: Map<DeclId, Bound>,
    types: Map<DefId, Type>,
    place: Where,
    /// 0 ingress, 1 egress.
    pipeline: usize,
    header_types: Map<(DefId, String), usize>,
    union_types: Map<(DefId, String), usize>,
    names: Set<String>,
    state_names: Set<String>,
    /// Label of `return`, and the place of its value, of the function or action being inlined.
    returns: Vec<(Label, Option<Place>)>,
    /// Labels of `break` and `continue`.
    loops: Vec<(Label, Label)>,
    /// Copies to be made before `exit`, innermost last.
    pending_copies: Vec<Vec<(place::Target, Val)>>,
    /// Path of the control or parser instance being lowered.
    path: String,
    tables: Map<(String, DeclId), usize>,
    /// Declared instances by path.
    instances: Map<(String, DeclId), Rc<Instance>>,
    actions: Map<(String, DeclId), usize>,
    /// Facts for P4Info.
    pub info: super::p4info::Info,
    /// Fields of user metadata with `@field_list`.
    field_lists: Map<i64, Vec<(Ex, Scalar)>>,
    /// Fields that a field list can keep.
    listed: Set<Span>,
    /// Constructs without effect.
    warnings: Vec<Diagnostic>,
    /// Direct meters and counters that the table action being lowered uses.
    direct_uses: Vec<(String, Span)>,
    /// The same of each lowered action.
    action_uses: Map<usize, Vec<(String, Span)>>,
    inline_depth: usize,
    /// Number of calls inlined so far.
    inlined: usize,
    applied: Map<String, usize>,
    /// Calls of `apply` in the source by instance.
    apply_counts: Map<String, usize>,
    /// Storage of variables by path.
    kept_places: Map<(String, DeclId), Place>,
    /// Lookaheads are not stored: their value is used at once.
    lazy: bool,
    /// An action called from a control is being inlined.
    in_action: bool,
    /// The value of the target of the update being lowered.
    current: Option<Val>,
    /// The package's block that is being lowered.
    block: Span,
    /// Conditions around the checksum being lowered.
    conditions: Vec<Ex>,
    /// Headers that hold variables of variable length.
    varbits: Set<usize>,
    /// Name of the state for packets that no case of a `select` matches.
    no_match: Option<String>,
}

/// Nesting of inlined calls.
const MAX_INLINE: usize = 60;
/// Calls that are inlined in one program.
const MAX_CALLS: usize = 100_000;
/// Headers and scalars that one program may need.
const MAX_STORAGE: usize = 20_000;

/// Lowers a checked program with a `main`.
pub fn lower(
    program: &typed::Program,
    sources: &Sources,
) -> Result<(Program, super::p4info::Info, Vec<Diagnostic>)> {
    let mut lower = Lower {
        program,
        sources,
        out: Program::default(),
        bound: Map::new(),
        types: Map::new(),
        place: Where::Control,
        pipeline: 0,
        header_types: Map::new(),
        union_types: Map::new(),
        names: Set::new(),
        state_names: Set::new(),
        returns: Vec::new(),
        loops: Vec::new(),
        pending_copies: Vec::new(),
        path: String::new(),
        tables: Map::new(),
        instances: Map::new(),
        actions: Map::new(),
        info: super::p4info::Info::default(),
        field_lists: Map::new(),
        listed: Set::new(),
        warnings: Vec::new(),
        direct_uses: Vec::new(),
        action_uses: Map::new(),
        inline_depth: 0,
        inlined: 0,
        applied: Map::new(),
        apply_counts: Map::new(),
        kept_places: Map::new(),
        lazy: false,
        in_action: false,
        current: None,
        block: Span::default(),
        conditions: Vec::new(),
        varbits: Set::new(),
        no_match: None,
    };
    lower.main()?;
    Ok((lower.out, lower.info, lower.warnings))
}

impl<'a> Lower<'a> {
    fn error<T>(&self, span: Span, message: impl Into<String>) -> Result<T> {
        Err(Diagnostic::error(span, message))
    }

    /// A type with the type parameters of the functions being inlined filled in.
    fn ty(&self, ty: &Type) -> Type {
        if self.types.is_empty() {
            return ty.clone();
        }
        let mut ty = ty.clone();
        for _ in 0..8 {
            let next = ty.substitute(&|param| self.types.get(&param).cloned());
            if next == ty {
                break;
            }
            ty = next;
        }
        ty
    }

    fn fields(&self, ty: &Type) -> Option<Fields> {
        match ty {
            Type::Named(id, args) => {
                let def = &self.program.defs[*id];
                let DefKind::Fields(kind, fields) = &def.kind else { return None };
                let bound = |param: DefId| {
                    let index = def.type_params.iter().position(|other| *other == param)?;
                    args.get(index).cloned()
                };
                Some((*kind, fields.iter().map(|f| (f.name.name.clone(), f.ty.substitute(&bound))).collect()))
            }
            Type::Tuple(types) => {
                let fields = types.iter().enumerate().map(|(i, ty)| (Rc::from(format!("f{i}")), ty.clone()));
                Some((FieldsKind::Struct, fields.collect()))
            }
            Type::Record(fields) => Some((FieldsKind::Struct, fields.to_vec())),
            _ => None,
        }
    }

    /// The scalar that values of this type are, if they are.
    fn scalar(&self, ty: &Type) -> Option<Scalar> {
        Some(match ty {
            Type::Bool => Scalar::Bool,
            Type::Bit(width) => Scalar::Bit(*width),
            Type::Signed(width) => Scalar::Signed(*width),
            Type::Varbit(width) => Scalar::Varbit(*width),
            Type::Int => Scalar::Int,
            Type::Error => Scalar::Bit(32),
            Type::Named(id, _) => match &self.program.defs[*id].kind {
                DefKind::Enum(_) => Scalar::Bit(32),
                DefKind::SerEnum(inner, _) | DefKind::NewType(inner) => self.scalar(inner)?,
                _ => return None,
            },
            _ => return None,
        })
    }

    fn label(&mut self) -> Label {
        self.out.labels += 1;
        self.out.labels
    }

    fn decl(&self, id: DeclId) -> &'a typed::Decl {
        &self.program.decls[id]
    }

    /// The number of an error or an enum member.
    fn member(&self, ty: &Type, name: &str) -> Option<BigInt> {
        match ty {
            Type::Error => self.program.errors.iter().position(|other| &**other == name).map(BigInt::from),
            Type::Named(id, _) => match &self.program.defs[*id].kind {
                DefKind::Enum(members) => members.iter().position(|other| &**other == name).map(BigInt::from),
                DefKind::SerEnum(_, members) => {
                    members.iter().find(|(other, _)| &**other == name).map(|(_, value)| value.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A name not used before.
    fn unique(&mut self, base: &str) -> String {
        let mut name = base.to_string();
        let mut number = 0;
        while !self.names.insert(name.clone()) {
            name = format!("{base}_{number}");
            number += 1;
        }
        name
    }
}
