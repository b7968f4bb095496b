//! Statements.

use super::definitions::poison;
use super::{Checker, Place, Symbol};
use crate::ast::{self, StmtKind};
use crate::source::Span;
use crate::typed::*;
use crate::types::{DefKind, FieldsKind, Type};
use std::rc::Rc;

impl Checker {
    pub(super) fn statements(&mut self, list: &[ast::Stmt]) -> Vec<Stmt> {
        let mut result = Vec::new();
        for stmt in list {
            self.statement(stmt, &mut result);
        }
        result
    }

    fn block(&mut self, stmt: &ast::Stmt) -> Vec<Stmt> {
        self.scoped(|c| {
            let mut result = Vec::new();
            match &stmt.kind {
                StmtKind::Block(body) => result = c.statements(body),
                _ => c.statement(stmt, &mut result),
            }
            result
        })
    }

    fn statement(&mut self, stmt: &ast::Stmt, output: &mut Vec<Stmt>) {
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::Empty => {}
            StmtKind::Block(..) => {
                let body = self.block(stmt);
                output.push(Stmt::Block(body));
            }
            StmtKind::Assign(target, op, value) => self.assignment(target, op, value, span, output),
            StmtKind::Call(call) => {
                let checked = self.expr(call);
                if let ExprKind::Call(_) = checked.kind {
                    output.push(Stmt::Call(checked));
                }
            }
            StmtKind::If(condition, yes, no) => {
                let condition = self.value(condition);
                if !matches!(condition.ty, Type::Bool | Type::Poison) {
                    let shown = self.show(&condition.ty);
                    self.error(condition.span, format!("a condition must be bool, not {shown}"));
                }
                let yes = self.block(yes);
                let no = no.as_ref().map(|no| self.block(no)).unwrap_or_default();
                output.push(Stmt::If(condition, yes, no));
            }
            StmtKind::Return(value) => self.return_statement(value.as_ref(), span, output),
            StmtKind::Exit => {
                if matches!(self.context.place, Place::Function | Place::Parser | Place::AbstractMethod) {
                    self.error(span, "exit can only be used in controls and actions");
                }
                output.push(Stmt::Exit);
            }
            StmtKind::Break | StmtKind::Continue => {
                let is_break = matches!(stmt.kind, StmtKind::Break);
                if self.context.loops == 0 {
                    let word = if is_break { "break" } else { "continue" };
                    self.error(span, format!("{word} outside a loop"));
                    return;
                }
                output.push(if is_break { Stmt::Break } else { Stmt::Continue });
            }
            StmtKind::Switch(value, cases) => self.switch(value, cases, output),
            StmtKind::For(init, condition, update, body) => self.scoped(|c| {
                let init = c.statements(init);
                let condition = c.typed(condition, &Type::Bool);
                let update = c.statements(update);
                c.context.loops += 1;
                let body = c.block(body);
                c.context.loops -= 1;
                output.push(Stmt::For(init, condition, update, body));
            }),
            StmtKind::ForIn(variable, collection, body) => {
                self.scoped(|c| c.for_in(variable, collection, body, output));
            }
            StmtKind::Decl(decl) => self.local(decl, output),
        }
    }

    fn assignment(
        &mut self,
        target: &ast::Expr,
        op: &'static str,
        value: &ast::Expr,
        span: Span,
        output: &mut Vec<Stmt>,
    ) {
        let left = self.expr(target);
        if matches!(left.kind, ExprKind::Type(_)) && left.ty != Type::Poison {
            self.error(target.span, "a type cannot be assigned");
            return;
        }
        let right = self.value(value);
        if left.ty == Type::Poison {
            return;
        }
        if !self.check_lvalue(&left) {
            return;
        }
        let ty = self.inferred.resolved(&left.ty);
        if let Type::Named(id, _) = &ty
            && matches!(
                self.program.def(*id).kind,
                DefKind::Extern(_) | DefKind::Block(..) | DefKind::Package(_)
            )
        {
            self.error(span, "an instance cannot be assigned");
            return;
        }
        let right = if op.is_empty() {
            right
        } else {
            self.binary_checked(op, Expr { kind: ExprKind::Current, ..left.clone() }, right, span)
        };
        let right = self.coerce(right, &ty);
        output.push(if op.is_empty() { Stmt::Assign(left, right) } else { Stmt::Update(left, right) });
    }

    fn return_statement(&mut self, value: Option<&ast::Expr>, span: Span, output: &mut Vec<Stmt>) {
        if self.context.place == Place::Parser {
            self.error(span, "return cannot be used in a parser");
        }
        let wanted = self.context.result.clone();
        let value = match (value, &wanted) {
            (None, Type::Void) => None,
            (None, _) => {
                let shown = self.show(&wanted);
                self.error(span, format!("this function returns a value of type {shown}"));
                None
            }
            (Some(value), Type::Void) => {
                self.value(value);
                self.error(span, "no value can be returned here");
                None
            }
            (Some(value), _) => Some(self.typed(value, &wanted)),
        };
        output.push(Stmt::Return(value));
    }

    fn switch(&mut self, value: &ast::Expr, cases: &[ast::Case], output: &mut Vec<Stmt>) {
        let (from, place) = (self.diagnostics.len(), value.span);
        let value = self.value(value);
        if self.context.place == Place::Parser {
            self.error(value.span, "switch cannot be used in a parser").help =
                Some("use select in a transition".into());
            return;
        }
        if let Some(first) = cases.iter().position(|case| case.label.is_none())
            && let Some(after) = cases.get(first + 1)
        {
            let error = self.error(after.span, "this case comes after 'default'");
            error.help = Some("write 'default' last".into());
        }
        match self.inferred.resolved(&value.ty) {
            Type::Poison => {
                for body in cases.iter().filter_map(|case| case.body.as_ref()) {
                    self.block(body);
                }
            }
            Type::ActionRun(table) => self.switch_action(value, table, cases, output),
            ty => self.switch_value(value, &ty, cases, output),
        }
        self.in_context(from, place, "in this switch");
    }

    fn switch_action(&mut self, value: Expr, table: usize, cases: &[ast::Case], output: &mut Vec<Stmt>) {
        let actions = match &self.program.decls[table].kind {
            DeclKind::Table(table) => table.actions.clone(),
            _ => Vec::new(),
        };
        let mut result = Vec::new();
        let mut labels: Vec<usize> = Vec::new();
        let mut seen: Vec<usize> = Vec::new();
        let mut default = false;
        for case in cases {
            match &case.label {
                None => default = true,
                Some(label) => {
                    let found = match &label.kind {
                        ast::ExprKind::Name(name, _) => actions
                            .iter()
                            .position(|action| self.program.decls[action.decl].name.name == name.name),
                        _ => None,
                    };
                    match found {
                        Some(index) if seen.contains(&index) => {
                            self.error(case.span, "this action has two cases");
                        }
                        Some(index) => {
                            seen.push(index);
                            labels.push(index);
                        }
                        None => {
                            let names = actions
                                .iter()
                                .map(|action| self.program.decls[action.decl].name.name.to_string());
                            let names = names.collect::<Vec<_>>().join(", ");
                            self.error(case.span, "this is not an action of the table").help =
                                Some(format!("its actions are: {names}"));
                        }
                    }
                }
            }
            if let Some(body) = &case.body {
                let body = self.block(body);
                let labels = std::mem::take(&mut labels);
                result.push((if default { Vec::new() } else { labels }, body));
            }
        }
        if let ExprKind::ApplyMember(apply, _) = value.kind {
            output.push(Stmt::SwitchAction(*apply, result));
        }
    }

    fn switch_value(&mut self, value: Expr, ty: &Type, cases: &[ast::Case], output: &mut Vec<Stmt>) {
        let fits = match ty {
            Type::Bool | Type::Bit(_) | Type::Signed(_) | Type::Error | Type::Int => true,
            Type::Named(id, _) => {
                matches!(
                    self.program.def(*id).kind,
                    DefKind::Enum(_) | DefKind::SerEnum(..) | DefKind::NewType(_)
                )
            }
            _ => false,
        };
        if !fits {
            let shown = self.show(ty);
            self.error(value.span, format!("switch is not defined for {shown}"));
            return;
        }
        let mut result = Vec::new();
        let mut labels: Vec<Expr> = Vec::new();
        let mut seen: Vec<Expr> = Vec::new();
        let mut default = false;
        let mut span: Option<Span> = None;
        for case in cases {
            span = Some(span.map_or(case.span, |span| span.to(case.span)));
            match &case.label {
                None => default = true,
                Some(label) => {
                    let label = self.typed(label, ty);
                    if !self.is_constant(&label) {
                        self.error(case.span, "a label must be known at compile time");
                    }
                    let same = |other: &&Expr| match (&other.kind, &label.kind) {
                        (ExprKind::Int(a, _), ExprKind::Int(b, _)) => a == b,
                        (ExprKind::Member(a), ExprKind::Member(b)) => a == b,
                        _ => false,
                    };
                    if let Some(first) = seen.iter().find(same) {
                        let first = first.span;
                        self.error(case.span, "two cases have this label")
                            .notes
                            .push((first, "the first".into()));
                    }
                    seen.push(label.clone());
                    labels.push(label);
                }
            }
            if let Some(body) = &case.body {
                let body = self.block(body);
                let labels = std::mem::take(&mut labels);
                let labels = if default { Vec::new() } else { labels };
                result.push(ValueCase { labels, span: span.take().unwrap_or(case.span), body });
            }
        }
        output.push(Stmt::SwitchValue(value, result));
    }

    fn for_in(
        &mut self,
        variable: &ast::Decl,
        collection: &ast::Expr,
        body: &ast::Stmt,
        output: &mut Vec<Stmt>,
    ) {
        let collection = self.expr(collection);
        let element = match self.inferred.resolved(&collection.ty) {
            Type::Set(element) => self.inferred.resolved(&element),
            Type::Stack(element, _) => (*element).clone(),
            Type::List(element) => (*element).clone(),
            Type::Tuple(types) if !types.is_empty() => types[0].clone(),
            Type::Poison => Type::Poison,
            ty => {
                let shown = self.show(&ty);
                self.error(collection.span, format!("a loop cannot run over {shown}"));
                Type::Poison
            }
        };
        let ast::DeclKind::Var(ty, _) = &variable.kind else { return };
        let ty = self.value_ty(ty);
        let fits =
            element == Type::Int && matches!(ty, Type::Bit(_) | Type::Signed(_)) || self.unify(&element, &ty);
        if !fits {
            let (from, to) = (self.show(&element), self.show(&ty));
            self.error(collection.span, format!("the loop gives {from}, its variable is {to}"));
        }
        let decl = self.program.add_decl(&variable.name, &variable.annotations, ty, DeclKind::Var);
        self.declare(&variable.name, Symbol::Decl(decl));
        self.context.loops += 1;
        let body = self.block(body);
        self.context.loops -= 1;
        output.push(Stmt::ForIn(decl, collection, body));
    }

    /// Local declaration.
    fn local(&mut self, decl: &ast::Decl, output: &mut Vec<Stmt>) {
        match &decl.kind {
            ast::DeclKind::Const(ty, value) => self.constant(decl, ty, value),
            ast::DeclKind::Var(ty, value) => output.extend(self.variable(decl, ty, value.as_ref())),
            ast::DeclKind::Instance(ty, args, methods) => {
                if matches!(self.context.place, Place::Action | Place::Function | Place::Control) {
                    self.error(decl.span, "instances cannot be declared here").help =
                        Some("declare it in the control or parser, outside its body".into());
                    return;
                }
                if let Some(id) = self.instance(decl, ty, args, methods.as_deref()) {
                    output.push(Stmt::Declare(id));
                }
            }
            _ => {
                self.error(decl.span, "this cannot be declared here");
            }
        }
    }

    pub(super) fn variable(
        &mut self,
        decl: &ast::Decl,
        ty: &ast::TypeExpr,
        value: Option<&ast::Expr>,
    ) -> Option<Stmt> {
        let found = self.value_ty(ty);
        let fits = match &found {
            Type::Int | Type::Str | Type::MatchKind | Type::DontCare => false,
            Type::Named(id, _) => !matches!(
                self.program.def(*id).kind,
                DefKind::Extern(_) | DefKind::Block(..) | DefKind::BlockType(..) | DefKind::Package(_)
            ),
            _ => true,
        };
        if !fits {
            let shown = self.show(&found);
            let error = self.error(ty.span.to(decl.span), format!("a variable cannot have the type {shown}"));
            error.span = decl.span;
            if found == Type::Int {
                error.help = Some("give it a width: bit<32>".into());
            }
        }
        let value = value.map(|value| self.typed(value, &found));
        if let Some(Symbol::Decl(hidden)) = self.lookup(&decl.name.name, false).first().cloned()
            && self.parameters.contains(&hidden)
        {
            let place = self.program.decls[hidden].name.span;
            self.error(decl.name.span, format!("'{}' hides a parameter", decl.name.name))
                .notes
                .push((place, "the parameter".into()));
            return None;
        }
        let found = if fits { found } else { Type::Poison };
        let id = self.program.add_decl(&decl.name, &decl.annotations, found, DeclKind::Var);
        self.watch(id, "variable");
        self.declare(&decl.name, Symbol::Decl(id));
        Some(Stmt::Var(id, value))
    }

    pub(super) fn constant(&mut self, decl: &ast::Decl, ty: &ast::TypeExpr, value: &ast::Expr) {
        let found = self.value_ty(ty);
        let from = self.diagnostics.len();
        if let Type::Named(id, _) = &found
            && !matches!(
                self.program.def(*id).kind,
                DefKind::Fields(..) | DefKind::Enum(_) | DefKind::SerEnum(..) | DefKind::NewType(_)
            )
        {
            let shown = self.show(&found);
            self.error(decl.name.span, format!("a constant cannot have the type {shown}")).help =
                Some(format!("write {shown}(...) {};", decl.name.name));
        }
        if self.program.fields_kind(&found) == Some(FieldsKind::Union) {
            self.error(decl.span, "a constant cannot be a header union");
        }
        // `const bool _ = static_assert(...)` declares no name.
        let asserts = matches!(&value.kind, ast::ExprKind::Call(callee, ..)
            if matches!(&callee.kind, ast::ExprKind::Name(name, _) if &*name.name == "static_assert"));
        let value = self.typed(value, &found);
        self.in_context(from, decl.name.span, "in the value of this constant");
        let value = if self.is_constant(&value) {
            value
        } else {
            self.error(value.span, "this is not known at compile time");
            poison(value.span)
        };
        let ty = if value.ty == Type::Poison { Type::Poison } else { found };
        let id = self.program.add_decl(&decl.name, &decl.annotations, ty, DeclKind::Const(Rc::new(value)));
        if !asserts {
            self.watch(id, "constant");
        }
        self.declare(&decl.name, Symbol::Decl(id));
    }
}
