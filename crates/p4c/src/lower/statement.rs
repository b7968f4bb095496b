//! Statements.

use super::place::Target;
use super::{Bound, Lower, Result, Val, Where, build};
use crate::ir::*;
use crate::source::{Diagnostic, Span};
use crate::typed::{self, Expr, ExprKind};
use crate::types::DeclId;

impl Lower<'_> {
    pub(super) fn statements(&mut self, list: &[typed::Stmt], out: &mut Vec<Stmt>) -> Result<()> {
        for (index, stmt) in list.iter().enumerate() {
            self.statement(stmt, out)?;
            if matches!(out.last(), Some(Stmt::Break(_) | Stmt::Exit)) {
                self.unreachable(&list[index + 1..]);
                break;
            }
        }
        Ok(())
    }

    /// Records the actions that statements without effect call: P4Info lists them, as p4c's does.
    fn unreachable(&mut self, list: &[typed::Stmt]) {
        let mut called = Vec::new();
        crate::walk::statements(list, &mut |expr| {
            if let ExprKind::Call(call) = &expr.kind
                && let typed::Callee::Action(id) = &call.callee
            {
                called.push(*id);
            }
        });
        for id in called {
            self.use_called_action(id);
        }
    }

    fn nested(&mut self, list: &[typed::Stmt]) -> Result<Vec<Stmt>> {
        let mut out = Vec::new();
        self.statements(list, &mut out)?;
        Ok(out)
    }

    /// Reports statements of a checksum control that the target does not support. A checksum control lowers
    /// to a list of checksums with conditions; it has no control flow.
    fn only_checksums(&self, stmt: &typed::Stmt) -> Result<()> {
        if self.place != Where::Checksum || self.returns.iter().any(|(_, place)| place.is_some()) {
            return Ok(());
        }
        let (what, span) = match stmt {
            typed::Stmt::Return(_) => ("a return", Span::default()),
            typed::Stmt::Exit => ("exit", Span::default()),
            typed::Stmt::SwitchAction(expr, _) | typed::Stmt::SwitchValue(expr, _) => ("switch", expr.span),
            typed::Stmt::For(_, expr, ..) | typed::Stmt::ForIn(_, expr, _) => ("a loop", expr.span),
            _ => return Ok(()),
        };
        let span = if span == Span::default() { self.block } else { span };
        Err(Diagnostic::error(span, format!("{what} cannot be used in a checksum control on this target"))
            .help("write the condition as the first argument, or with if"))
    }

    fn statement(&mut self, stmt: &typed::Stmt, out: &mut Vec<Stmt>) -> Result<()> {
        self.only_checksums(stmt)?;
        match stmt {
            typed::Stmt::Assign(target, value) => self.assignment(target, value, out),
            typed::Stmt::Update(target, value) => {
                let place = self.target(target, true, out)?;
                let outer = self.current.replace(self.read_target(&place));
                let result = self.val(value, out);
                self.current = outer;
                self.assign_target(&place, result?, value.span, out)
            }
            typed::Stmt::Call(expr) => match &expr.kind {
                ExprKind::Call(call) => self.call(call, expr, out).map(drop),
                _ => Ok(()),
            },
            typed::Stmt::If(condition, yes, no) => self.conditional_statement(condition, yes, no, out),
            typed::Stmt::Block(body) => self.statements(body, out),
            typed::Stmt::Return(value) => self.return_statement(value.as_ref(), out),
            typed::Stmt::Exit => {
                for copies in self.pending_copies.clone().iter().rev() {
                    for (target, value) in copies {
                        self.assign_target(target, value.clone(), Default::default(), out)?;
                    }
                }
                out.push(Stmt::Exit);
                Ok(())
            }
            typed::Stmt::Break | typed::Stmt::Continue => {
                if let Some((leave, again)) = self.loops.last() {
                    out.push(Stmt::Break(if matches!(stmt, typed::Stmt::Break) { *leave } else { *again }));
                }
                Ok(())
            }
            typed::Stmt::SwitchAction(apply, cases) => self.switch_action(apply, cases, out),
            typed::Stmt::SwitchValue(value, cases) => self.switch_value(value, cases, out),
            typed::Stmt::For(init, condition, update, body) => {
                self.for_loop(init, condition, update, body, out)
            }
            typed::Stmt::ForIn(variable, collection, body) => self.for_in(*variable, collection, body, out),
            typed::Stmt::Var(id, value) => self.variable(*id, value.as_ref(), out),
            typed::Stmt::Declare(id) => self.declare(*id),
        }
    }

    fn assignment(&mut self, target: &Expr, value: &Expr, out: &mut Vec<Stmt>) -> Result<()> {
        let mut effects = Vec::new();
        let mut target_code = Vec::new();
        let mut place = self.target(target, false, &mut target_code)?;
        let mut value_of = self.val(value, &mut effects)?;
        if !effects.is_empty() {
            target_code.clear();
            place = self.target(target, true, &mut target_code)?;
        }
        out.extend(target_code);
        out.extend(effects);
        if let (Target::Place(Place::Struct(_)), Val::Struct(_)) = (&place, &value_of)
            && let ExprKind::Decl(_) = value.kind
        {
            // Assignment of an entire struct to another reads nothing that it writes.
            value_of = value_of.clone();
        }
        self.assign_target(&place, value_of, value.span, out)
    }

    fn return_statement(&mut self, value: Option<&Expr>, out: &mut Vec<Stmt>) -> Result<()> {
        let Some((label, place)) = self.returns.last().cloned() else { return Ok(()) };
        if let (Some(value), Some(place)) = (value, place) {
            let result = self.val(value, out)?;
            self.assign(&place, result, value.span, out)?;
        }
        out.push(Stmt::Break(label));
        Ok(())
    }

    fn conditional_statement(
        &mut self,
        condition: &Expr,
        yes: &[typed::Stmt],
        no: &[typed::Stmt],
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        // `if (t.apply().hit)` branches on the table result directly.
        let (mut inner, mut negated) = (condition, false);
        while let ExprKind::Unary("!", operand) = &inner.kind {
            (inner, negated) = (operand, !negated);
        }
        if let ExprKind::ApplyMember(apply, name) = &inner.kind {
            let table = self.apply_table(apply, out)?;
            let (yes, no) = (self.nested(yes)?, self.nested(no)?);
            let hit_first = (&**name == "hit") != negated;
            let (hit, miss) = if hit_first { (yes, no) } else { (no, yes) };
            out.push(Stmt::Apply(table, Follow::Hit(hit, miss)));
            return Ok(());
        }
        let place = condition.span;
        match self.ex(condition, out)? {
            Ex::Bool(true) => self.statements(yes, out),
            Ex::Bool(false) => self.statements(no, out),
            condition => {
                self.conditions.push(condition.clone());
                let yes = self.nested(yes);
                self.conditions.pop();
                self.conditions.push(build::not(condition.clone()));
                let no = self.nested(no);
                self.conditions.pop();
                out.push(Stmt::If(Ex::At(place.into(), Box::new(condition)), yes?, no?));
                Ok(())
            }
        }
    }

    fn switch_action(
        &mut self,
        apply: &Expr,
        cases: &[(Vec<usize>, Vec<typed::Stmt>)],
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let table = self.apply_table(apply, out)?;
        let mut lowered = Vec::new();
        let mut default = Vec::new();
        for (labels, body) in cases {
            let body = self.nested(body)?;
            if labels.is_empty() {
                default = body;
            } else {
                lowered.push((labels.clone(), body));
            }
        }
        out.push(Stmt::Apply(table, Follow::Actions(lowered, default)));
        Ok(())
    }

    fn switch_value(&mut self, value: &Expr, cases: &[typed::ValueCase], out: &mut Vec<Stmt>) -> Result<()> {
        let scalar = self.types.scalar_of(value)?;
        let mut subject = self.ex(value, out)?;
        if !matches!(subject, Ex::Int(_) | Ex::Bool(_) | Ex::Data(..)) {
            subject = self.saved(subject, scalar, out);
        }
        let known = matches!(subject, Ex::Int(_) | Ex::Bool(_));
        let mut default = Vec::new();
        let mut arms = Vec::new();
        for case in cases {
            let body = self.nested(&case.body)?;
            if case.labels.is_empty() {
                default = body;
                // Traces and breakpoints find this arm by a condition that is always true.
                if !default.is_empty() && self.place != Where::Parser && !known {
                    let shown = Shown { span: case.span, text: Some("default".into()) };
                    default = vec![Stmt::If(Ex::At(shown, Box::new(Ex::Bool(true))), default, Vec::new())];
                }
                continue;
            }
            let mut condition = Ex::Bool(false);
            for label in &case.labels {
                let label = self.ex(label, out)?;
                let same = if build::is_truth(&subject) {
                    build::same_truth(subject.clone(), label)
                } else {
                    build::compare("==", subject.clone(), label)
                };
                condition = build::or(condition, same);
            }
            let labels = case.labels.iter().map(|label| self.sources.text(label.span));
            let labels = labels.collect::<Vec<_>>().join(" or ");
            let text = format!("{} == {labels}", self.sources.text(value.span));
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            arms.push((condition, body, Shown { span: case.span, text: Some(text.into()) }));
        }
        let mut rest = default;
        for (condition, body, shown) in arms.into_iter().rev() {
            rest = match condition {
                Ex::Bool(true) => body,
                Ex::Bool(false) => rest,
                condition => vec![Stmt::If(Ex::At(shown, Box::new(condition)), body, rest)],
            };
        }
        out.extend(rest);
        Ok(())
    }

    fn for_loop(
        &mut self,
        init: &[typed::Stmt],
        condition: &Expr,
        update: &[typed::Stmt],
        body: &[typed::Stmt],
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        self.statements(init, out)?;
        let (leave, again) = (self.label(), self.label());
        let mut round = Vec::new();
        let test = self.ex(condition, &mut round)?;
        let test = match test {
            test @ Ex::Bool(_) => test,
            test => Ex::At(condition.span.into(), Box::new(test)),
        };
        round.push(Stmt::If(test, Vec::new(), vec![Stmt::Break(leave)]));
        self.loops.push((leave, again));
        let body = self.nested(body)?;
        self.loops.pop();
        round.push(Stmt::Block(again, body));
        self.statements(update, &mut round)?;
        out.push(Stmt::Block(leave, vec![Stmt::Loop(round)]));
        Ok(())
    }

    fn for_in(
        &mut self,
        variable: DeclId,
        collection: &Expr,
        body: &[typed::Stmt],
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let ty = self.types.ty(&self.decl(variable).ty);
        let name = self.decl(variable).name.name.to_string();
        if !matches!(self.bound.get(&variable), Some(Bound::Place(_)))
            || matches!(self.decl(variable).kind, typed::DeclKind::Var)
        {
            let place = self.storage(&name, &ty, collection.span)?;
            self.bound.entry(variable).or_insert(Bound::Place(place));
        }
        let Some(Bound::Place(place)) = self.bound.get(&variable).cloned() else { return Ok(()) };
        let leave = self.label();
        if let ExprKind::Range(low, high) = &collection.kind {
            return self.for_range(&place, low, high, leave, body, out);
        }
        let values = match self.val(collection, out)? {
            Val::Struct(values) | Val::Literal(values) => values.to_vec(),
            Val::Stack(stack) => {
                let headers = self.out.layout.stacks[stack].headers.clone();
                headers.into_iter().map(|header| Val::Header(HeaderRef::Instance(header))).collect()
            }
            Val::UnionStack(stack) => {
                let unions = self.out.layout.union_stacks[stack].unions.clone();
                unions.into_iter().map(|union| Val::Union(Place::Union(union))).collect()
            }
            _ => return self.error(collection.span, "a loop cannot run over this on this target"),
        };
        let mut rounds = Vec::new();
        for value in values {
            let again = self.label();
            self.assign(&place, value, collection.span, &mut rounds)?;
            self.loops.push((leave, again));
            let round = self.nested(body)?;
            self.loops.pop();
            rounds.push(Stmt::Block(again, round));
        }
        out.push(Stmt::Block(leave, rounds));
        Ok(())
    }

    fn for_range(
        &mut self,
        place: &Place,
        low: &Expr,
        high: &Expr,
        leave: Label,
        body: &[typed::Stmt],
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let Place::Scalar(field) = place else { return self.error(low.span, "a number is needed here") };
        let low_value = self.ex(low, out)?;
        let high_value = self.ex(high, out)?;
        let last = match high_value {
            Ex::Int(_) => high_value,
            other => self.saved(other, field.scalar, out),
        };
        let again = self.label();
        let current = Ex::Field(field.clone());
        out.push(Stmt::Assign(field.clone(), low_value));
        let past = build::compare(">", current.clone(), last.clone());
        self.loops.push((leave, again));
        let body = self.nested(body)?;
        self.loops.pop();
        // The end is tested before the increment, because the last value may be the maximum of the type.
        let step = build::arithmetic("+", current.clone(), build::int(1), field.scalar);
        let mut round = vec![Stmt::Block(again, body)];
        round.push(Stmt::If(build::compare("==", current, last), vec![Stmt::Break(leave)], Vec::new()));
        round.extend(step.map(|step| Stmt::Assign(field.clone(), step)));
        let guard = Stmt::If(past, vec![Stmt::Break(leave)], Vec::new());
        out.push(Stmt::Block(leave, vec![guard, Stmt::Loop(round)]));
        Ok(())
    }

    /// Lowers a local variable.
    pub(super) fn variable(&mut self, id: DeclId, value: Option<&Expr>, out: &mut Vec<Stmt>) -> Result<()> {
        let decl = self.decl(id);
        let ty = self.types.ty(&decl.ty);
        let value_of = match value {
            Some(value) => Some((self.val(value, out)?, value.span)),
            None => None,
        };
        let kept = self.kept(id);
        let again = kept.is_some();
        let place = match kept {
            Some(place) => place,
            None => self.storage(&decl.name.name, &ty, decl.name.span)?,
        };
        self.keep(id, &place);
        self.bound.insert(id, Bound::Place(place.clone()));
        match value_of {
            Some((value, span)) => self.assign(&place, value, span, out)?,
            None if again || !self.loops.is_empty() || self.place == Where::Parser => {
                self.invalidate(&place, out)
            }
            None => {}
        }
        Ok(())
    }
}
