//! Statements.

use super::{MAX_CHAIN, Parser, Result};
use crate::ast::*;
use crate::lex::Kind;
use crate::source::{Diagnostic, Span};
use std::rc::Rc;

const ASSIGNMENTS: &[(&str, &str)] = &[
    ("=", ""),
    ("+=", "+"),
    ("-=", "-"),
    ("*=", "*"),
    ("/=", "/"),
    ("%=", "%"),
    ("&=", "&"),
    ("|=", "|"),
    ("^=", "^"),
    ("<<=", "<<"),
    ("|+|=", "|+|"),
    ("|-|=", "|-|"),
    ("++=", "++"),
];

impl Parser {
    /// `{ ... }`, optionally annotated.
    pub(super) fn block(&mut self) -> Result<Stmt> {
        self.annotations()?;
        let start = self.expect("{")?;
        let body = self.scoped(|p| p.statements())?;
        let end = self.expect("}")?;
        Ok(Stmt { kind: StmtKind::Block(body), span: start.to(end) })
    }

    fn statements(&mut self) -> Result<Vec<Stmt>> {
        let mut body = Vec::new();
        while !self.is("}") {
            if self.peek().kind == Kind::End {
                return Err(self.unexpected("'}'"));
            }
            body.push(self.statement()?);
        }
        Ok(body)
    }

    /// Statement or local declaration.
    pub(super) fn statement(&mut self) -> Result<Stmt> {
        self.nested(|p| {
            let start = p.peek().span;
            let kind = p.statement_kind()?;
            Ok(Stmt { kind, span: start.to(p.previous()) })
        })
    }

    fn statement_kind(&mut self) -> Result<StmtKind> {
        if self.is("{") {
            return Ok(self.block()?.kind);
        }
        if self.is("@") {
            let annotations = self.annotations()?;
            if self.is("{") {
                return Ok(self.block()?.kind);
            }
            if self.is_declaration() {
                return self.local(annotations);
            }
            return self.statement_kind();
        }
        if self.eat(";") {
            return Ok(StmtKind::Empty);
        }
        let word = match &self.peek().kind {
            Kind::Ident(word) => word.clone(),
            _ => "".into(),
        };
        match &*word {
            "if" => self.conditional(),
            "switch" => self.switch(),
            "for" => self.scoped(Parser::for_loop),
            "return" => {
                self.bump();
                let value = if self.is(";") { None } else { Some(self.expression()?) };
                self.expect(";")?;
                Ok(StmtKind::Return(value))
            }
            "exit" | "break" | "continue" => {
                self.bump();
                self.expect(";")?;
                Ok(match &*word {
                    "exit" => StmtKind::Exit,
                    "break" => StmtKind::Break,
                    _ => StmtKind::Continue,
                })
            }
            _ if self.is_declaration() => self.local(Rc::from([])),
            _ => {
                let kind = self.simple()?;
                self.expect(";")?;
                Ok(kind)
            }
        }
    }

    /// True if the next tokens start a local variable, constant or instance, not a call or an assignment.
    pub(super) fn is_declaration(&self) -> bool {
        if self.is_word("const") {
            return true;
        }
        let next = self.peek_at(1);
        if let Kind::Ident(word) = &self.peek().kind
            && !self.is_type_start(0)
        {
            let plain = !super::RESERVED.contains(&&**word);
            return plain && matches!(&next.kind, Kind::Ident(word) if &**word != "in");
        }
        if !self.is_type_start(0) {
            return false;
        }
        // `T.apply(...)` and `T.member` are expressions.
        let skip = usize::from(self.is("."));
        !self.peek_at(1 + skip).is(".") && !self.is_generic_call()
    }

    /// True before `T<...>.apply(...)`: a call on a type with type arguments.
    fn is_generic_call(&self) -> bool {
        if !self.peek_at(1).is("<") {
            return false;
        }
        let mut depth = 0usize;
        for ahead in 1..200 {
            let token = self.peek_at(ahead);
            if token.is("<") {
                depth += 1;
            } else if token.is(">") {
                depth -= 1;
                if depth == 0 {
                    return self.peek_at(ahead + 1).is(".");
                }
            } else if token.is(";") {
                return false;
            }
        }
        false
    }

    fn local(&mut self, annotations: Annotations) -> Result<StmtKind> {
        Ok(StmtKind::Decl(Box::new(self.variable_like(annotations)?)))
    }

    /// Call or assignment without the semicolon.
    fn simple(&mut self) -> Result<StmtKind> {
        let target = self.expression()?;
        if let Some((_, op)) = ASSIGNMENTS.iter().find(|(punct, _)| self.is(punct)) {
            self.bump();
            return Ok(StmtKind::Assign(target, op, self.expression()?));
        }
        if self.is(">") && self.peek_at(1).is(">=") {
            self.bump();
            self.bump();
            return Ok(StmtKind::Assign(target, ">>", self.expression()?));
        }
        match target.kind {
            ExprKind::Call(..) => Ok(StmtKind::Call(target)),
            _ if self.is(";") => Err(Diagnostic::error(target.span, "an expression is not a statement")
                .help("assign it, or call something")),
            _ => Err(self.unexpected("'=' or a call")),
        }
    }

    /// A chain of `else if` is read in a loop, so that it may be much longer than statements are deep.
    fn conditional(&mut self) -> Result<StmtKind> {
        let mut chain: Vec<(Span, Expr, Stmt)> = Vec::new();
        let mut last = loop {
            let start = self.expect_word("if")?;
            self.expect("(")?;
            let condition = self.expression()?;
            self.expect(")")?;
            let yes = self.scoped(Parser::statement)?;
            chain.push((start, condition, yes));
            if chain.len() > MAX_CHAIN {
                let message = format!("a chain of more than {MAX_CHAIN} 'else if'");
                return Err(Diagnostic::error(start, message).help("use a table with constant entries"));
            }
            if !self.eat_word("else") {
                break None;
            }
            if !self.is_word("if") {
                break Some(Box::new(self.scoped(Parser::statement)?));
            }
        };
        let end = self.previous();
        while chain.len() > 1
            && let Some((start, condition, yes)) = chain.pop()
        {
            let kind = StmtKind::If(condition, Box::new(yes), last);
            last = Some(Box::new(Stmt { kind, span: start.to(end) }));
        }
        match chain.pop() {
            Some((_, condition, yes)) => Ok(StmtKind::If(condition, Box::new(yes), last)),
            None => Err(self.unexpected("'if'")),
        }
    }

    fn switch(&mut self) -> Result<StmtKind> {
        self.expect_word("switch")?;
        self.expect("(")?;
        let value = self.expression()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.eat("}") {
            let start = self.peek().span;
            let label = if self.eat_word("default") { None } else { Some(self.expression()?) };
            let span = start.to(self.previous());
            self.expect(":")?;
            let body = if self.is("{") || self.is("@") { Some(self.block()?) } else { None };
            cases.push(Case { label, span, body });
        }
        Ok(StmtKind::Switch(value, cases))
    }

    fn for_loop(&mut self) -> Result<StmtKind> {
        self.expect_word("for")?;
        self.expect("(")?;
        if self.is_declaration() || self.is("@") {
            let start = self.peek().span;
            let annotations = self.annotations()?;
            let ty = self.type_expr()?;
            let name = self.identifier()?;
            if self.eat_word("in") {
                self.declare_value(&name);
                let span = start.to(name.span);
                let kind = DeclKind::Var(ty, None);
                return self.for_in(Decl { annotations, name, span, kind });
            }
            self.expect("=")?;
            let value = self.expression()?;
            self.declare_value(&name);
            let span = start.to(self.previous());
            let decl = Decl { annotations, name, span, kind: DeclKind::Var(ty, Some(value)) };
            let first = Stmt { kind: StmtKind::Decl(Box::new(decl)), span };
            return self.for_rest(vec![first]);
        }
        if matches!(self.peek().kind, Kind::Ident(_)) && self.peek_at(1).is_word("in") {
            let name = self.identifier()?.name;
            let text = "a loop over a range or list declares its variable";
            return Err(Diagnostic::error(self.peek().span, text)
                .help(format!("write its type: for (bit<8> {name} in ...)")));
        }
        self.for_rest(Vec::new())
    }

    fn for_in(&mut self, variable: Decl) -> Result<StmtKind> {
        let collection = self.keyset()?;
        self.expect(")")?;
        let body = self.statement()?;
        Ok(StmtKind::ForIn(Box::new(variable), collection, Box::new(body)))
    }

    fn for_rest(&mut self, mut init: Vec<Stmt>) -> Result<StmtKind> {
        while !self.is(";") {
            if !init.is_empty() {
                self.expect(",")?;
            }
            let start = self.peek().span;
            let kind = if self.is_declaration() {
                let ty = self.type_expr()?;
                let name = self.identifier()?;
                let value = if self.eat("=") { Some(self.expression()?) } else { None };
                let span = start.to(self.previous());
                StmtKind::Decl(Box::new(Decl {
                    annotations: Rc::from([]),
                    name,
                    span,
                    kind: DeclKind::Var(ty, value),
                }))
            } else {
                self.simple()?
            };
            init.push(Stmt { kind, span: start.to(self.previous()) });
        }
        self.expect(";")?;
        let condition = self.expression()?;
        self.expect(";")?;
        let mut update = Vec::new();
        while !self.is(")") {
            if !update.is_empty() {
                self.expect(",")?;
            }
            let start = self.peek().span;
            let kind = self.simple()?;
            update.push(Stmt { kind, span: start.to(self.previous()) });
        }
        self.expect(")")?;
        let body = self.statement()?;
        Ok(StmtKind::For(init, condition, update, Box::new(body)))
    }
}
