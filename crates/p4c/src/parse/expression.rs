//! Expressions.

use super::{MAX_NESTING, Parser, Result};
use crate::ast::*;
use crate::lex::{Base, Kind, unescape};
use crate::source::{Diagnostic, Span};

/// Binary operators by increasing precedence.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["++", "+", "-", "|+|", "|-|"],
    &["*", "/", "%"],
];

impl Parser {
    fn node(&self, kind: ExprKind, span: Span) -> Result<Expr> {
        let expr = Expr::new(kind, span);
        if expr.depth > MAX_NESTING {
            let message = format!("this expression is nested more than {MAX_NESTING} deep");
            return Err(Diagnostic::error(self.peek().span, message).help("store a part of it in a variable"));
        }
        Ok(expr)
    }

    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(|p| {
            let condition = p.binary(0)?;
            if !p.eat("?") {
                return Ok(condition);
            }
            let yes = p.expression()?;
            p.expect(":")?;
            let no = p.expression()?;
            let span = condition.span.to(no.span);
            p.node(ExprKind::Cond(Box::new(condition), Box::new(yes), Box::new(no)), span)
        })
    }

    /// Element of a key set: an expression, a mask, a range, `default` or `_`.
    pub(super) fn keyset(&mut self) -> Result<Expr> {
        let start = self.peek().span;
        if self.eat_word("default") {
            return self.node(ExprKind::Default, start);
        }
        if self.is_word("_") {
            self.bump();
            return self.node(ExprKind::DontCare, start);
        }
        let left = self.expression()?;
        let mask = self.is("&&&");
        if !mask && !self.is("..") {
            return Ok(left);
        }
        self.bump();
        let right = Box::new(self.expression()?);
        let span = left.span.to(right.span);
        let left = Box::new(left);
        self.node(if mask { ExprKind::Mask(left, right) } else { ExprKind::Range(left, right) }, span)
    }

    fn operator(&self, level: usize) -> Option<(&'static str, usize)> {
        let token = self.peek();
        if token.is(">") {
            let next = self.peek_at(1);
            let touching = !next.spaced && !next.starts_line;
            if touching && next.is(">") {
                return (level == 7).then_some((">>", 2));
            }
            if touching && next.is(">=") {
                return None;
            }
        }
        LEVELS[level].iter().find(|op| token.is(op)).map(|op| (*op, 1))
    }

    fn binary(&mut self, level: usize) -> Result<Expr> {
        if level == LEVELS.len() {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        while let Some((op, length)) = self.operator(level) {
            for _ in 0..length {
                self.bump();
            }
            let right = self.binary(level + 1)?;
            let span = left.span.to(right.span);
            left = self.node(ExprKind::Binary(op, Box::new(left), Box::new(right)), span)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        let start = self.peek().span;
        for op in ["!", "~", "-", "+"] {
            if self.eat(op) {
                let operand = self.nested(Parser::unary)?;
                let span = start.to(operand.span);
                return self.node(ExprKind::Unary(op, Box::new(operand)), span);
            }
        }
        if self.is("(") && self.is_type_start(1) {
            let cast = self.attempt(|p| {
                p.bump();
                let ty = p.type_expr().ok()?;
                (p.eat(")") && p.starts_operand()).then_some(ty)
            });
            if let Some(ty) = cast {
                let operand = self.nested(Parser::unary)?;
                let span = start.to(operand.span);
                return self.node(ExprKind::Cast(Box::new(ty), Box::new(operand)), span);
            }
        }
        let primary = self.primary()?;
        self.postfix(primary)
    }

    fn starts_operand(&self) -> bool {
        match &self.peek().kind {
            Kind::Ident(word) => &**word != "in",
            Kind::Int(..) | Kind::Str(_) => true,
            Kind::Punct(punct) => matches!(*punct, "(" | "{" | "!" | "~" | "-" | "+" | "." | "..."),
            Kind::Char(_) | Kind::End => false,
        }
    }

    /// Primary expression: no operators, no postfixes.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let token = self.peek().clone();
        let span = token.span;
        match &token.kind {
            Kind::Int(value, width, spelling) => {
                self.bump();
                self.node(ExprKind::Int(value.clone(), *width, Base::of(spelling)), span)
            }
            Kind::Str(text) => {
                self.bump();
                self.node(ExprKind::Str(unescape(text).into()), span)
            }
            Kind::Punct("(") => {
                self.bump();
                let mut inner = self.expression()?;
                inner.span = span.to(self.expect(")")?);
                Ok(inner)
            }
            Kind::Punct("{") => self.nested(Parser::braces),
            Kind::Punct("...") => {
                self.bump();
                self.node(ExprKind::Dots, span)
            }
            Kind::Punct(".") => {
                if self.is_type_start(0) {
                    let ty = self.type_expr()?;
                    let span = ty.span;
                    return self.node(ExprKind::Type(Box::new(ty)), span);
                }
                self.bump();
                let name = self.identifier()?;
                let span = span.to(name.span);
                self.node(ExprKind::Name(name, true), span)
            }
            Kind::Ident(word) => match &**word {
                "true" | "false" => {
                    self.bump();
                    self.node(ExprKind::Bool(&**word == "true"), span)
                }
                "this" => {
                    self.bump();
                    self.node(ExprKind::Name(Ident { name: word.clone(), span }, false), span)
                }
                "default" => Err(self.unexpected("an expression")),
                _ if self.is_type_start(0) => {
                    let ty = self.type_without_stack()?;
                    let span = ty.span;
                    self.node(ExprKind::Type(Box::new(ty)), span)
                }
                _ => {
                    let name = self.identifier()?;
                    self.node(ExprKind::Name(name, false), span)
                }
            },
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn braces(&mut self) -> Result<Expr> {
        let start = self.expect("{")?;
        if self.eat("#") {
            let end = self.expect("}")?;
            return self.node(ExprKind::Invalid, start.to(end));
        }
        let mut fields = Vec::new();
        let mut items = Vec::new();
        let mut dots = false;
        while !self.is("}") {
            if self.eat("...") {
                dots = true;
                break;
            }
            let named = matches!(self.peek().kind, Kind::Ident(_)) && self.peek_at(1).is("=");
            if named {
                let name = self.identifier()?;
                self.bump();
                let value = self.expression()?;
                fields.push((name, value));
            } else {
                items.push(self.expression()?);
            }
            if !fields.is_empty() && !items.is_empty() {
                let message = "fields with and without names are mixed";
                return Err(Diagnostic::error(self.previous(), message).help("name all of them or none"));
            }
            if !self.eat(",") {
                break;
            }
        }
        let span = start.to(self.expect("}")?);
        let kind =
            if fields.is_empty() { ExprKind::List(items, dots) } else { ExprKind::Struct(fields, dots) };
        self.node(kind, span)
    }

    fn postfix(&mut self, mut expr: Expr) -> Result<Expr> {
        loop {
            let start = expr.span;
            if self.eat(".") {
                let name = self.member_name()?;
                let span = start.to(name.span);
                expr = self.node(ExprKind::Member(Box::new(expr), name), span)?;
            } else if self.is("[") {
                self.bump();
                expr = self.bracket(expr)?;
            } else if self.is("(") {
                let args = self.arguments()?;
                let span = start.to(self.previous());
                expr = self.node(ExprKind::Call(Box::new(expr), Vec::new(), args), span)?;
            } else if self.is("<") && (self.is_type_start(1) || self.peek_at(1).is_word("_")) {
                let args = self.attempt(|p| p.type_args().ok().filter(|_| p.is("(")));
                let Some(types) = args else { return Ok(expr) };
                let args = self.arguments()?;
                let span = start.to(self.previous());
                expr = self.node(ExprKind::Call(Box::new(expr), types, args), span)?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn bracket(&mut self, base: Expr) -> Result<Expr> {
        let start = base.span;
        let base = Box::new(base);
        let index = Box::new(self.expression()?);
        let kind = if self.eat(":") {
            let low = Box::new(self.expression()?);
            ExprKind::Slice(base, index, low)
        } else if self.eat("+:") {
            let width = Box::new(self.expression()?);
            ExprKind::PlusSlice(base, index, width)
        } else {
            ExprKind::Index(base, index)
        };
        let end = self.expect("]")?;
        self.node(kind, start.to(end))
    }

    /// `(a, b, c = d, _)`.
    pub(super) fn arguments(&mut self) -> Result<Vec<Arg>> {
        self.expect("(")?;
        let mut args = Vec::new();
        while !self.is(")") {
            let start = self.peek().span;
            let mut name = None;
            if matches!(self.peek().kind, Kind::Ident(_)) && self.peek_at(1).is("=") {
                name = Some(self.identifier()?);
                self.bump();
            }
            let value = if self.is_word("_") && (self.peek_at(1).is(",") || self.peek_at(1).is(")")) {
                self.bump();
                None
            } else {
                Some(self.expression()?)
            };
            args.push(Arg { name, value, span: start.to(self.previous()) });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(args)
    }
}
