//! Data-flow warnings: reads of variables and `out` parameters that may be uninitialized, and of fields of
//! headers that are invalid.
//!
//! The analysis follows all paths of a body and joins their states at merge points. A variable counts as
//! uninitialized if it is so on some path; a header counts as invalid only if it is so on every path. State
//! that an action, a table or a control may have modified is discarded. The analysis therefore misses errors
//! but gives no false warnings.

use super::ast::Direction;
use super::source::{Diagnostic, Span};
use super::typed::{Block, Builtin, Call, Callee, DeclKind, Expr, ExprKind, Program, Stmt, Transition};
use super::types::{DeclId, DefKind, Signature};
use super::walk;
use belljar_base::{Map, Set};
use std::rc::Rc;

mod places;

/// Variable, or part of one: the declaration and the names of the fields.
type Path = (DeclId, Vec<Rc<str>>);

/// Maximum number of parts tracked per variable.
const MAX_PARTS: usize = 64;

/// Abstract state at one point of a body. After a statement that leaves the body the state is `None`.
#[derive(Clone, Default, PartialEq)]
struct State {
    /// Scalars that may be uninitialized.
    unset: Set<Path>,
    /// Headers known to be invalid.
    invalid: Set<Path>,
}

impl State {
    fn join(mut self, other: State) -> State {
        self.unset.extend(other.unset);
        self.invalid.retain(|path| other.invalid.contains(path));
        self
    }
}

fn join(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(b)),
        (a, b) => a.or(b),
    }
}

struct Flow<'a> {
    program: &'a Program,
    warnings: Vec<Diagnostic>,
    reported: Set<(Span, &'static str)>,
    /// Join of the states at `return`.
    returned: Option<State>,
    /// True if warnings are suppressed while only the final state is wanted.
    silent: bool,
}

/// Computes the warnings of a program.
pub fn warnings(program: &Program) -> Vec<Diagnostic> {
    let mut flow =
        Flow { program, warnings: Vec::new(), reported: Set::new(), returned: None, silent: false };
    for decl in &program.decls {
        if let DeclKind::Function(signature, body) | DeclKind::Action(signature, body) = &decl.kind {
            flow.callable(signature, body);
        }
    }
    for (id, block) in &program.bodies {
        if let DefKind::Block(_, signature, _) = &program.defs[*id].kind {
            flow.block(signature, block);
        }
    }
    flow.warnings
}

impl Flow<'_> {
    fn warn(&mut self, name: &'static str, span: Span, message: String) {
        if !self.silent && self.reported.insert((span, name)) {
            self.warnings.push(Diagnostic::warning(name, span, message));
        }
    }

    /// Initial state: `out` parameters are uninitialized.
    fn start(&self, signature: &Signature) -> State {
        let mut state = State::default();
        for param in &signature.params {
            if param.direction == Direction::Out {
                self.clear(&(param.decl, Vec::new()), &param.ty, &mut state);
            }
        }
        state
    }

    /// Warns of `out` parameters that may be uninitialized at the end.
    fn end(&mut self, signature: &Signature, state: Option<State>) {
        let Some(state) = join(state, self.returned.take()) else { return };
        for param in &signature.params {
            let unset = state.unset.iter().any(|(decl, _)| *decl == param.decl);
            if param.direction == Direction::Out && unset {
                let message = format!("'{}' may have no value at the end", param.name.name);
                self.warn("uninitialized-out-param", param.name.span, message);
            }
        }
    }

    fn callable(&mut self, signature: &Signature, body: &[Stmt]) {
        let state = self.start(signature);
        let state = self.statements(body, Some(state));
        self.end(signature, state);
    }

    fn block(&mut self, signature: &Signature, block: &Block) {
        let state = self.start(signature);
        let state = self.statements(&block.locals, Some(state));
        if block.states.is_empty() {
            let state = self.statements(&block.body, state);
            self.end(signature, state);
        } else if let Some(state) = state {
            let state = self.parser(block, state);
            self.end(signature, state);
        }
    }

    /// Iterates over the parser states to a fixed point, then once more to report warnings.
    fn parser(&mut self, block: &Block, first: State) -> Option<State> {
        let mut known: Map<Rc<str>, State> = Map::new();
        known.insert("start".into(), first);
        let mut accepted = None;
        self.silent = true;
        for round in 0..=block.states.len() {
            let before = known.clone();
            accepted = None;
            for state in &block.states {
                let Some(at) = known.get(&state.name.name).cloned() else { continue };
                let end = self.statements(&state.body, Some(at));
                let next: Vec<Rc<str>> = match &state.next {
                    Transition::To(name) => vec![name.clone()],
                    Transition::Select(keys, cases) => {
                        let mut end = end.clone();
                        keys.iter().for_each(|key| self.read(key, &mut end));
                        cases.iter().map(|(_, name, _)| name.clone()).collect()
                    }
                };
                for name in next {
                    if &*name == "accept" {
                        accepted = join(accepted, end.clone());
                    } else if let Some(end) = &end {
                        let joined = match known.get(&name) {
                            Some(other) => other.clone().join(end.clone()),
                            None => end.clone(),
                        };
                        known.insert(name, joined);
                    }
                }
            }
            if !self.silent {
                break;
            }
            if known == before || round + 1 >= block.states.len() {
                self.silent = false;
            }
        }
        self.silent = false;
        accepted
    }

    fn statements(&mut self, list: &[Stmt], mut state: Option<State>) -> Option<State> {
        for stmt in list {
            state.as_ref()?;
            state = self.statement(stmt, state);
        }
        state
    }

    fn statement(&mut self, stmt: &Stmt, mut state: Option<State>) -> Option<State> {
        match stmt {
            Stmt::Assign(target, value) => {
                self.read(value, &mut state);
                let invalid = matches!(value.kind, ExprKind::Invalid);
                self.write(target, invalid, &mut state);
            }
            Stmt::Update(target, value) => {
                self.read(target, &mut state);
                self.read(value, &mut state);
            }
            Stmt::Call(call) => self.read(call, &mut state),
            Stmt::Var(decl, value) => {
                let path = (*decl, Vec::new());
                let ty = self.program.decls[*decl].ty.clone();
                match value {
                    Some(value) => {
                        self.read(value, &mut state);
                        if let Some(state) = &mut state {
                            self.set(&path, state);
                            if matches!(value.kind, ExprKind::Invalid) {
                                state.invalid.insert(path);
                            }
                        }
                    }
                    None => {
                        if let Some(state) = &mut state {
                            self.clear(&path, &ty, state);
                        }
                    }
                }
            }
            Stmt::If(condition, yes, no) => {
                self.read(condition, &mut state);
                let (mut first, mut second) = (state.clone(), state);
                self.assume(condition, true, &mut first);
                self.assume(condition, false, &mut second);
                let first = self.statements(yes, first);
                let second = self.statements(no, second);
                return join(first, second);
            }
            Stmt::Block(body) => return self.statements(body, state),
            Stmt::Return(value) => {
                if let Some(value) = value {
                    self.read(value, &mut state);
                }
                self.returned = join(self.returned.take(), state);
                return None;
            }
            Stmt::Exit | Stmt::Break | Stmt::Continue => return None,
            Stmt::SwitchAction(value, cases) => {
                self.read(value, &mut state);
                let complete = cases.iter().any(|(labels, _)| labels.is_empty());
                let mut end = if complete { None } else { state.clone() };
                for (_, body) in cases {
                    end = join(end, self.statements(body, state.clone()));
                }
                return end;
            }
            Stmt::SwitchValue(value, cases) => {
                self.read(value, &mut state);
                let complete = cases.iter().any(|case| case.labels.is_empty());
                let mut end = if complete { None } else { state.clone() };
                for case in cases {
                    end = join(end, self.statements(&case.body, state.clone()));
                }
                return end;
            }
            Stmt::For(init, condition, update, body) => {
                state = self.statements(init, state);
                self.read(condition, &mut state);
                return self.repeated(body, update, state);
            }
            Stmt::ForIn(decl, collection, body) => {
                self.read(collection, &mut state);
                if let Some(state) = &mut state {
                    self.set(&(*decl, Vec::new()), state);
                }
                return self.repeated(body, &[], state);
            }
            Stmt::Declare(_) => {}
        }
        state
    }

    /// Body of a loop, which runs any number of times: headers that it may change are unknown on entry.
    fn repeated(&mut self, body: &[Stmt], update: &[Stmt], mut state: Option<State>) -> Option<State> {
        if let Some(state) = &mut state {
            state.invalid.clear();
        }
        let end = self.statements(body, state.clone());
        let end = self.statements(update, end);
        join(state, end)
    }

    /// Refines the state in the branches of `h.isValid()`.
    fn assume(&mut self, condition: &Expr, truth: bool, state: &mut Option<State>) {
        match &condition.kind {
            ExprKind::Unary("!", inner) => self.assume(inner, !truth, state),
            ExprKind::Binary("&&", a, b) if truth => {
                self.assume(a, true, state);
                self.assume(b, true, state);
            }
            ExprKind::Call(call) => {
                if let (Callee::Builtin(Builtin::IsValid, object), Some(state)) = (&call.callee, state)
                    && let Some(path) = places::path(object)
                    && truth
                {
                    state.invalid.remove(&path);
                }
            }
            _ => {}
        }
    }

    /// Reads an expression: warns about uninitialized parts and follows calls.
    fn read(&mut self, expr: &Expr, state: &mut Option<State>) {
        if let Some(path) = places::path(expr) {
            self.read_path(&path, expr, state);
            return;
        }
        match &expr.kind {
            ExprKind::Call(call) => self.call(call, state),
            ExprKind::Binary("&&" | "||", a, b) => {
                self.read(a, state);
                let mut after = state.clone();
                self.read(b, &mut after);
                *state = join(state.take(), after);
            }
            ExprKind::Cond(a, b, c) => {
                self.read(a, state);
                let (mut first, mut second) = (state.clone(), state.take());
                self.read(b, &mut first);
                self.read(c, &mut second);
                *state = join(first, second);
            }
            _ => places::parts(expr).into_iter().for_each(|part| self.read(part, state)),
        }
    }

    fn read_path(&mut self, path: &Path, expr: &Expr, state: &mut Option<State>) {
        let Some(state) = state else { return };
        let name = self.show(path);
        let inside = |(decl, fields): &Path| {
            *decl == path.0 && (fields.starts_with(&path.1) || path.1.starts_with(fields))
        };
        if state.unset.iter().any(inside) {
            self.warn("uninitialized-use", expr.span, format!("'{name}' may have no value here"));
        }
        self.check_header(path, expr, state);
    }

    /// Warns of a field of an invalid header.
    fn check_header(&mut self, path: &Path, expr: &Expr, state: &State) {
        for length in 0..path.1.len() {
            let header = (path.0, path.1[..length].to_vec());
            if state.invalid.contains(&header) {
                let (header, field) = (self.show(&header), self.show(path));
                let message = format!("'{field}' is a field of '{header}', which is invalid here");
                self.warn("invalid-header", expr.span, message);
            }
        }
    }

    /// Assigns to an lvalue.
    fn write(&mut self, target: &Expr, invalid: bool, state: &mut Option<State>) {
        match &target.kind {
            // Assignment to a slice: the other bits are unchanged.
            ExprKind::Slice(base, ..) => {
                if let (Some(path), Some(state)) = (places::path(base), state) {
                    self.check_header(&path, target, state);
                    self.set(&path, state);
                }
                return;
            }
            ExprKind::Index(base, index) => {
                self.read(index, state);
                if let (Some(path), Some(state)) = (places::path(base), state) {
                    self.set(&path, state);
                }
                return;
            }
            _ => {}
        }
        let (Some(path), Some(state)) = (places::path(target), state) else { return };
        self.check_header(&path, target, state);
        self.set(&path, state);
        if invalid {
            state.invalid.insert(path);
        }
    }

    fn call(&mut self, call: &Call, state: &mut Option<State>) {
        if let Callee::Builtin(builtin, object) = &call.callee {
            self.builtin(*builtin, object, call, state);
            return;
        }
        for (param, arg) in call.signature.params.iter().zip(&call.args) {
            let Some(arg) = arg else { continue };
            if param.direction != Direction::Out {
                self.read_argument(arg, param.direction, state);
            }
        }
        if let Callee::Table(table) = &call.callee {
            self.table(*table, state);
        }
        if let Callee::Action(action) = &call.callee {
            self.forget(*action, state);
        }
        for (param, arg) in call.signature.params.iter().zip(&call.args) {
            if let (Some(arg), Direction::Out | Direction::InOut) = (arg, param.direction) {
                self.write_argument(arg, state);
            }
        }
    }

    /// Reads an argument. A struct with headers may be passed before all of its parts are initialized.
    fn read_argument(&mut self, arg: &Expr, direction: Direction, state: &mut Option<State>) {
        let whole = direction == Direction::InOut && self.program.fields(&arg.ty).is_some();
        if !whole {
            self.read(arg, state);
        }
    }

    /// Marks an argument that receives a value as initialized, and its headers as not known to be invalid.
    fn write_argument(&mut self, arg: &Expr, state: &mut Option<State>) {
        if let (Some(path), Some(state)) = (places::path(arg), state.as_mut()) {
            self.set(&path, state);
        } else {
            self.write(arg, false, state);
        }
    }

    fn builtin(&mut self, builtin: Builtin, object: &Expr, call: &Call, state: &mut Option<State>) {
        call.args.iter().flatten().for_each(|arg| self.read(arg, state));
        let (Some(path), Some(state)) = (places::path(object), state) else { return };
        match builtin {
            Builtin::SetValid => self.set_valid(&path, state),
            Builtin::SetInvalid => {
                state.invalid.insert(path);
            }
            _ => {}
        }
    }

    /// Reads the keys of a table, then joins the effects of its actions.
    fn table(&mut self, table: DeclId, state: &mut Option<State>) {
        let DeclKind::Table(table) = &self.program.decls[table].kind else { return };
        let table = table.clone();
        for (key, ..) in &table.key {
            self.read(key, state);
        }
        for action in &table.actions {
            self.forget(action.decl, state);
            for arg in &action.args {
                if let (Some(path), Some(state)) = (places::path(arg), state.as_mut()) {
                    self.set(&path, state);
                }
            }
        }
    }

    /// Discards the state of variables that an action or its callees mention.
    fn forget(&self, action: DeclId, state: &mut Option<State>) {
        let Some(state) = state else { return };
        let (mut mentioned, mut met, mut open) = (Set::new(), Set::new(), vec![action]);
        while let Some(action) = open.pop() {
            let DeclKind::Action(_, body) = &self.program.decls[action].kind else { continue };
            if !met.insert(action) {
                continue;
            }
            walk::statements(body, &mut |expr| match &expr.kind {
                ExprKind::Decl(id) => {
                    mentioned.insert(*id);
                }
                ExprKind::Call(call) => {
                    if let Callee::Action(id) = &call.callee {
                        open.push(*id);
                    }
                }
                _ => {}
            });
        }
        state.unset.retain(|(decl, _)| !mentioned.contains(decl));
        state.invalid.retain(|(decl, _)| !mentioned.contains(decl));
    }

    fn show(&self, (decl, fields): &Path) -> String {
        let mut name = self.program.decls[*decl].name.name.to_string();
        for field in fields {
            name.push('.');
            name.push_str(field);
        }
        name
    }
}
