//! Checker: resolves names, infers and checks types, folds constants. Produces a [`super::typed::Program`].
//!
//! An erroneous expression gets [`Type::Poison`], which is compatible with every type, so that one mistake
//! yields one message.

use super::ast::{self, Ident};
use super::source::{Diagnostic, Severity, Span};
use super::typed::Program;
use super::types::*;
use belljar_base::{Map, Set};
use std::rc::Rc;

mod annotation;
mod block;
mod call;
mod construct;
mod convert;
mod declaration;
mod definitions;
mod expression;
pub(super) mod fold;
mod instance;
mod method;
mod operator;
mod resolve;
mod statement;
mod table;
mod unify;
mod unused;

pub(super) use annotation::quiet;

/// Entity that a name resolves to.
#[derive(Clone, Debug)]
enum Symbol {
    Type(Type),
    Generic(DefId),
    Decl(DeclId),
}

/// Construct whose body is being checked; determines which statements are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Top,
    Parser,
    Control,
    Action,
    Function,
    AbstractMethod,
}

struct Context {
    place: Place,
    /// Result type of the enclosing function or action.
    result: Type,
    /// Loop nesting depth.
    loops: usize,
}

/// Maximum number of diagnostics per compilation.
const MAX_DIAGNOSTICS: usize = 50;

pub(super) struct Checker {
    program: Program,
    scopes: Vec<Map<Rc<str>, Vec<Symbol>>>,
    diagnostics: Vec<Diagnostic>,
    inferred: unify::Inferred,
    context: Context,
    match_kinds: Vec<Rc<str>>,
    /// Variables and parameters that cannot be assigned, with the reason.
    read_only: Map<DeclId, &'static str>,
    /// Parameters filled by the control plane or by a constructor.
    directionless: Set<DeclId>,
    /// All parameters.
    parameters: Set<DeclId>,
    /// Constructor parameters.
    constructor_params: Set<DeclId>,
    /// Referenced declarations; for tables, those that are applied.
    used: Set<DeclId>,
    /// Controls and parsers referenced by name.
    instantiated: Set<DefId>,
    /// Declarations subject to the `unused` warning, with the noun of the message.
    watched: Vec<(DeclId, &'static str)>,
    /// Controls and parsers subject to the `unused` warning.
    watched_blocks: Vec<DefId>,
    /// Control-plane names of actions and tables, by kind.
    control_plane_names: Map<(&'static str, String), Span>,
}

/// Checks a program. The diagnostics may consist of warnings only.
pub fn check(program: &[ast::Decl]) -> (Program, Vec<Diagnostic>) {
    let mut checker = Checker {
        program: Program::default(),
        scopes: vec![Map::new()],
        diagnostics: Vec::new(),
        inferred: unify::Inferred::default(),
        context: Context { place: Place::Top, result: Type::Void, loops: 0 },
        match_kinds: Vec::new(),
        read_only: Map::new(),
        directionless: Set::new(),
        parameters: Set::new(),
        constructor_params: Set::new(),
        used: Set::new(),
        instantiated: Set::new(),
        watched: Vec::new(),
        watched_blocks: Vec::new(),
        control_plane_names: Map::new(),
    };
    for decl in program {
        checker.top_level(decl);
        if checker.diagnostics.len() > MAX_DIAGNOSTICS {
            break;
        }
    }
    checker.finish();
    (checker.program, checker.diagnostics)
}

impl Checker {
    fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.report(Diagnostic::error(span, message))
    }

    fn warn(&mut self, name: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.report(Diagnostic::warning(name, span, message))
    }

    fn report(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        self.diagnostics.push(diagnostic);
        let last = self.diagnostics.len() - 1;
        &mut self.diagnostics[last]
    }

    /// Adds the enclosing construct as context to the errors reported since the list had `from` entries.
    fn in_context(&mut self, from: usize, span: Span, text: &str) {
        for diagnostic in &mut self.diagnostics[from..] {
            if diagnostic.severity == Severity::Error {
                diagnostic.within(span, text);
            }
        }
    }

    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(Map::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Runs `f` in the context of a new body. Loops and the result type of the enclosing body do not apply
    /// inside.
    fn within<T>(&mut self, place: Place, result: Type, f: impl FnOnce(&mut Self) -> T) -> T {
        let context = Context { place, result, loops: 0 };
        let outer = std::mem::replace(&mut self.context, context);
        let value = f(self);
        self.context = outer;
        value
    }

    fn lookup(&self, name: &str, global: bool) -> &[Symbol] {
        let scopes = if global { &self.scopes[..1] } else { &self.scopes[..] };
        scopes.iter().rev().find_map(|scope| scope.get(name)).map_or(&[], Vec::as_slice)
    }

    /// Declares a name in the current scope. Functions and extern functions may be overloaded.
    fn declare(&mut self, name: &Ident, symbol: Symbol) {
        let arity = self.program.arity(&symbol);
        let at_top = self.scopes.len() == 1;
        if let (true, Symbol::Decl(decl)) = (at_top, &symbol) {
            self.program.top_decls.insert(*decl);
        }
        let local = &self.scopes[self.scopes.len() - 1];
        let previous = local.get(&name.name).cloned().unwrap_or_default();
        for other in &previous {
            let overload =
                arity.is_some() && self.program.arity(other).is_some_and(|names| Some(names) != arity);
            if !overload {
                let place = self.program.symbol_span(other);
                let error = self.error(name.span, format!("'{}' is declared twice", name.name));
                if let Some(place) = place {
                    error.notes.push((place, "the first declaration".into()));
                }
                return;
            }
        }
        if !at_top && previous.is_empty() && !self.lookup(&name.name, false).is_empty() {
            let place =
                self.lookup(&name.name, false).first().and_then(|symbol| self.program.symbol_span(symbol));
            let warning =
                self.warn("shadow", name.span, format!("'{}' shadows another declaration", name.name));
            if let Some(place) = place {
                warning.notes.push((place, "hidden from here on".into()));
            }
        }
        let last = self.scopes.len() - 1;
        self.scopes[last].entry(name.name.clone()).or_default().push(symbol);
    }

    /// Formats a type in P4 syntax.
    fn show(&self, ty: &Type) -> String {
        let list = |types: &[Type]| types.iter().map(|ty| self.show(ty)).collect::<Vec<_>>().join(", ");
        match ty {
            Type::Void => "void".into(),
            Type::Bool => "bool".into(),
            Type::Str => "string".into(),
            Type::Error => "error".into(),
            Type::MatchKind => "match_kind".into(),
            Type::Int => "int".into(),
            Type::Bit(width) => format!("bit<{width}>"),
            Type::Signed(width) => format!("int<{width}>"),
            Type::Varbit(width) => format!("varbit<{width}>"),
            Type::Stack(element, size) => format!("{}[{size}]", self.show(element)),
            Type::Tuple(types) => format!("tuple<{}>", list(types)),
            Type::List(element) => format!("list<{}>", self.show(element)),
            Type::Named(id, args) if args.is_empty() => self.program.def(*id).name.name.to_string(),
            Type::Named(id, args) => format!("{}<{}>", self.program.def(*id).name.name, list(args)),
            Type::Var(id) => self.program.def(*id).name.name.to_string(),
            Type::Infer(_) => match self.inferred.resolved(ty) {
                Type::Infer(_) => "_".into(),
                found => self.show(&found),
            },
            Type::Set(element) => format!("set<{}>", self.show(element)),
            Type::Record(fields) => {
                let fields = fields.iter().map(|(name, ty)| format!("{name}: {}", self.show(ty)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            Type::Invalid => "{#}".into(),
            Type::Dots => "...".into(),
            Type::DontCare => "_".into(),
            Type::Action => "action".into(),
            Type::Table(_) => "table".into(),
            Type::ApplyResult(_) => "the result of apply()".into(),
            Type::ActionRun(_) => "action_run".into(),
            Type::Function => "function".into(),
            Type::Poison => "unknown".into(),
        }
    }
}

/// Candidate with the smallest edit distance to a misspelt name.
fn closest<'a>(name: &str, names: impl Iterator<Item = &'a Rc<str>>) -> Option<Rc<str>> {
    let best = names.map(|other| (distance(name, other), other)).min_by_key(|(distance, _)| *distance)?;
    (best.0 <= 1 + name.len() / 4).then(|| best.1.clone())
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX / 2;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
