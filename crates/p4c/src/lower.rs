//! Lowering of the checked program to BMv2's model. Lowering instantiates objects, inlines controls, parsers,
//! functions and direct action calls, allocates storage for variables, and moves side effects out of
//! expressions.

use super::ir::*;
use super::source::{Diagnostic, Sources, Span};
use super::typed::{self, Call, Callee, DeclKind};
use super::types::{DeclId, DefId, Signature};
use belljar_base::{Map, Set};
use std::rc::Rc;

mod apply;
mod assign;
mod build;
mod checksum;
mod externs;
mod inline;
mod instance;
mod layout;
mod packet;
mod parser;
mod place;
mod program;
mod statement;
mod storage;
mod table;
mod types;
mod value;

pub(super) use instance::{Instance, annotation_text, find_annotation, has_annotation, join};
pub(super) use table::key_text;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Run-time value.
#[derive(Clone, Debug)]
enum Val {
    Ex(Ex),
    Struct(Rc<[Val]>),
    /// Header assigned as a whole, for example from a literal; becomes valid.
    Header(HeaderRef),
    Literal(Rc<[Val]>),
    Invalid,
    Stack(usize),
    Union(Place),
    UnionStack(usize),
    Varbit(FieldRef),
    Text(Rc<str>),
    Instance(Rc<Instance>),
    /// `...`, the default value.
    Default,
}

/// Meaning of a declaration in the code being lowered.
#[derive(Clone, Debug)]
enum Bound {
    Place(Place),
    Value(Val),
    /// An instance passed as an argument.
    Instance(Rc<Instance>),
}

/// Kind of the block being lowered.
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
    types: self::types::Types<'a>,
    place: Where,
    /// Pipeline being lowered: 0 ingress, 1 egress.
    pipeline: usize,
    header_types: Map<(DefId, String), usize>,
    union_types: Map<(DefId, String), usize>,
    names: Set<String>,
    state_names: Set<String>,
    /// For each function or action being inlined: label of `return` and storage of the result.
    returns: Vec<(Label, Option<Place>)>,
    /// Labels of `break` and `continue` per enclosing loop.
    loops: Vec<(Label, Label)>,
    /// Copy-out assignments due before `exit`, innermost last.
    pending_copies: Vec<Vec<(place::Target, Val)>>,
    /// Path of the control or parser instance being lowered.
    path: String,
    tables: Map<(String, DeclId), usize>,
    /// Declared instances by path.
    instances: Map<(String, DeclId), Rc<Instance>>,
    actions: Map<(String, DeclId), usize>,
    /// Objects of the control plane, input of P4Info.
    pub info: super::p4info::Info,
    /// Fields of user metadata with `@field_list`.
    field_lists: Map<i64, Vec<(Ex, Scalar)>>,
    /// Fields that a field list can preserve.
    listed: Set<Span>,
    /// Warnings about constructs without effect.
    warnings: Vec<Diagnostic>,
    /// Direct meters that the table action being lowered executes.
    direct_uses: Vec<(String, Span)>,
    /// Direct meters that each lowered action executes.
    action_uses: Map<usize, Vec<(String, Span)>>,
    /// Headers that the deparser emits under a condition.
    conditional_emissions: Vec<usize>,
    inline_depth: usize,
    /// Number of calls inlined.
    inlined: usize,
    applied: Map<String, usize>,
    /// Number of `apply` calls in the source, by instance path.
    apply_counts: Map<String, usize>,
    /// Storage of variables, by instance path.
    kept_places: Map<(String, DeclId), Place>,
    /// True while lookaheads are used immediately and need no variable.
    lazy: bool,
    /// True while an action called directly from a control is inlined.
    in_action: bool,
    /// Value of the target of the compound assignment being lowered.
    current: Option<Val>,
    /// Block of the package being lowered.
    block: Span,
    /// Conditions that enclose the checksum being lowered.
    conditions: Vec<Ex>,
    /// Headers that hold varbit variables.
    varbits: Set<usize>,
    /// Name of the state that rejects packets without a matching `select` case.
    no_match: Option<String>,
}

/// Maximum depth of inlined calls.
const MAX_INLINE: usize = 60;
/// Maximum number of inlined calls per program.
const MAX_CALLS: usize = 100_000;
/// Maximum number of headers and scalars per program.
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
        types: self::types::Types::new(program),
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
        conditional_emissions: Vec::new(),
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

    fn label(&mut self) -> Label {
        self.out.labels += 1;
        self.out.labels
    }

    fn decl(&self, id: DeclId) -> &'a typed::Decl {
        &self.program.decls[id]
    }

    /// Derives an unused name from `base`.
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
