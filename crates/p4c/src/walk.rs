//! Visitor of the expressions in statements.

use super::typed::{Callee, Expr, ExprKind, Stmt};

/// Calls `visit` for every expression in pre-order.
pub fn statements(list: &[Stmt], visit: &mut dyn FnMut(&Expr)) {
    for stmt in list {
        statement(stmt, visit);
    }
}

fn statement(stmt: &Stmt, visit: &mut dyn FnMut(&Expr)) {
    match stmt {
        Stmt::Assign(target, value) | Stmt::Update(target, value) => {
            expression(target, visit);
            expression(value, visit);
        }
        Stmt::Call(expr) => expression(expr, visit),
        Stmt::If(condition, yes, no) => {
            expression(condition, visit);
            statements(yes, visit);
            statements(no, visit);
        }
        Stmt::Block(body) => statements(body, visit),
        Stmt::Return(value) => value.iter().for_each(|value| expression(value, visit)),
        Stmt::SwitchAction(value, cases) => {
            expression(value, visit);
            cases.iter().for_each(|(_, body)| statements(body, visit));
        }
        Stmt::SwitchValue(value, cases) => {
            expression(value, visit);
            cases.iter().for_each(|case| statements(&case.body, visit));
        }
        Stmt::For(init, condition, update, body) => {
            statements(init, visit);
            expression(condition, visit);
            statements(update, visit);
            statements(body, visit);
        }
        Stmt::ForIn(_, collection, body) => {
            expression(collection, visit);
            statements(body, visit);
        }
        Stmt::Var(_, value) => value.iter().for_each(|value| expression(value, visit)),
        Stmt::Exit | Stmt::Break | Stmt::Continue | Stmt::Declare(_) => {}
    }
}

/// Calls `visit` for the expression and all of its subexpressions.
pub fn expression(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(expr);
    match &expr.kind {
        ExprKind::Field(a, _)
        | ExprKind::StackMember(a, _)
        | ExprKind::ApplyMember(a, _)
        | ExprKind::Slice(a, ..)
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a) => expression(a, visit),
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::Mask(a, b) | ExprKind::Range(a, b) => {
            expression(a, visit);
            expression(b, visit);
        }
        ExprKind::Cond(a, b, c) => [a, b, c].into_iter().for_each(|expr| expression(expr, visit)),
        ExprKind::Tuple(items) => items.iter().for_each(|item| expression(item, visit)),
        ExprKind::Record(items) => items.iter().for_each(|(_, item)| expression(item, visit)),
        ExprKind::Call(call) => {
            match &call.callee {
                Callee::Method(object, _) | Callee::Apply(object) | Callee::Builtin(_, object) => {
                    expression(object, visit);
                }
                _ => {}
            }
            call.args.iter().flatten().for_each(|arg| expression(arg, visit));
        }
        _ => {}
    }
}
