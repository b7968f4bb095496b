//! Declarations.

use super::{Parser, Result};
use crate::ast::*;
use crate::lex::Kind;
use crate::source::Diagnostic;

impl Parser {
    /// Top-level declaration.
    pub(super) fn declaration(&mut self) -> Result<Decl> {
        let annotations = self.annotations()?;
        let start = self.peek().span;
        let word = match &self.peek().kind {
            Kind::Ident(word) => word.clone(),
            _ => "".into(),
        };
        let next_is_name = matches!(self.peek_at(1).kind, Kind::Ident(_));
        let mut decl = match &*word {
            "typedef" | "type" if &*word == "typedef" || next_is_name => self.typedef(annotations)?,
            "header" | "struct" | "header_union" => self.fields(annotations)?,
            "enum" => self.enumeration(annotations)?,
            "error" if self.peek_at(1).is("{") => self.members(annotations)?,
            "match_kind" if self.peek_at(1).is("{") => self.members(annotations)?,
            "extern" => self.external(annotations)?,
            "action" => self.action(annotations)?,
            "package" => self.scoped_head(annotations, "package")?,
            "parser" | "control" => {
                let kind = if &*word == "parser" { "parser" } else { "control" };
                self.scoped_head(annotations, kind)?
            }
            "abstract" => return Err(self.unexpected("a declaration")),
            _ => self.function_or_variable(annotations)?,
        };
        decl.span = start.to(self.previous());
        if matches!(
            decl.kind,
            DeclKind::BlockType(..) | DeclKind::Package(_) | DeclKind::Control(..) | DeclKind::Parser(..)
        ) {
            self.declare_type(&decl.name);
        }
        Ok(decl)
    }

    fn typedef(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.peek().span;
        let opaque = self.is_word("type");
        self.bump();
        let annotations = if self.is("@") { self.annotations()? } else { annotations };
        let ty = match &self.peek().kind {
            Kind::Ident(word) if matches!(&**word, "struct" | "header" | "header_union" | "enum") => {
                let first = self.peek().span;
                let decl = if self.is_word("enum") {
                    self.enumeration(Annotations::from([]))?
                } else {
                    self.fields(Annotations::from([]))?
                };
                let ty = TypeKind::Named(decl.name.clone(), false, Vec::new());
                self.inner.push(decl);
                TypeExpr { kind: ty, span: first.to(self.previous()) }
            }
            _ => self.type_expr()?,
        };
        let name = self.identifier()?;
        self.expect(";")?;
        self.declare_type(&name);
        Ok(Decl { annotations, name, span: start, kind: DeclKind::Typedef(ty, opaque) })
    }

    fn type_params(&mut self) -> Result<Vec<Ident>> {
        let mut params = Vec::new();
        if self.eat("<") {
            while !self.is(">") {
                let name = self.identifier()?;
                self.declare_type(&name);
                params.push(name);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(">")?;
        }
        Ok(params)
    }

    fn fields(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.peek().span;
        let kind = match &self.bump().kind {
            Kind::Ident(word) if &**word == "header" => "header",
            Kind::Ident(word) if &**word == "struct" => "struct",
            _ => "header_union",
        };
        let name = self.identifier()?;
        self.declare_type(&name);
        let (params, fields) = self.scoped(|p| {
            let params = p.type_params()?;
            p.expect("{")?;
            let mut fields = Vec::new();
            while !p.eat("}") {
                let annotations = p.annotations()?;
                let ty = p.type_expr()?;
                let name = p.identifier()?;
                p.expect(";")?;
                fields.push(Field { annotations, ty, name });
            }
            Ok((params, fields))
        })?;
        Ok(Decl { annotations, name, span: start, kind: DeclKind::Fields(kind, params, fields) })
    }

    fn enumeration(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.bump().span;
        let underlying = if self.is_type_start(0) { Some(self.type_expr()?) } else { None };
        let name = self.identifier()?;
        self.declare_type(&name);
        self.expect("{")?;
        let mut members = Vec::new();
        while !self.is("}") {
            self.annotations()?;
            let name = self.identifier()?;
            let value = if self.eat("=") { Some(self.expression()?) } else { None };
            members.push((name, value));
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(Decl { annotations, name, span: start, kind: DeclKind::Enum(underlying, members) })
    }

    /// `error { ... }` and `match_kind { ... }`.
    fn members(&mut self, annotations: Annotations) -> Result<Decl> {
        let word = self.bump();
        let is_error = word.is_word("error");
        self.expect("{")?;
        let mut members = Vec::new();
        while !self.is("}") {
            self.annotations()?;
            members.push(self.identifier()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        let name =
            Ident { name: if is_error { "error".into() } else { "match_kind".into() }, span: word.span };
        let kind = if is_error { DeclKind::Error(members) } else { DeclKind::MatchKind(members) };
        Ok(Decl { annotations, name, span: word.span, kind })
    }

    fn external(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.bump().span;
        let object = matches!(self.peek().kind, Kind::Ident(_)) && self.object_follows();
        if !object {
            let (name, signature) = self.scoped(Parser::prototype)?;
            self.expect(";")?;
            return Ok(Decl { annotations, name, span: start, kind: DeclKind::ExternFunction(signature) });
        }
        let name = self.identifier()?;
        self.declare_type(&name);
        let (params, methods) = self.scoped(|p| {
            let params = p.type_params()?;
            if p.eat(";") {
                return Ok((params, Vec::new()));
            }
            p.expect("{")?;
            let mut methods = Vec::new();
            while !p.eat("}") {
                methods.push(p.method(&name)?);
            }
            Ok((params, methods))
        })?;
        Ok(Decl { annotations, name, span: start, kind: DeclKind::Extern(params, methods) })
    }

    /// True before `Name {`, `Name<T> {` or `Name;`: an extern object, not an extern function.
    fn object_follows(&self) -> bool {
        if self.peek_at(1).is("{") || self.peek_at(1).is(";") {
            return true;
        }
        if !self.peek_at(1).is("<") {
            return false;
        }
        let close = (2..100).find(|ahead| self.peek_at(*ahead).is(">"));
        close.is_some_and(|ahead| self.peek_at(ahead + 1).is("{") || self.peek_at(ahead + 1).is(";"))
    }

    fn method(&mut self, object: &Ident) -> Result<Method> {
        self.annotations()?;
        let is_abstract = self.eat_word("abstract");
        if self.peek().is_word(&object.name) && self.peek_at(1).is("(") {
            let name = self.identifier()?;
            let params = self.parameters()?;
            self.expect(";")?;
            let signature = Signature { result: None, type_params: Vec::new(), params };
            return Ok(Method { name, signature, is_abstract });
        }
        if self.is_word("optional") {
            self.bump();
        }
        let (name, signature) = self.scoped(Parser::prototype)?;
        self.expect(";")?;
        Ok(Method { name, signature, is_abstract })
    }

    /// `T name<X>(parameters)`. The result type may be one of the type parameters.
    fn prototype(&mut self) -> Result<(Ident, Signature)> {
        let result = self.type_expr()?;
        let name = self.identifier()?;
        let type_params = self.type_params()?;
        let params = self.parameters()?;
        Ok((name, Signature { result: Some(result), type_params, params }))
    }

    /// `(in T a, out T b = c)`.
    pub(super) fn parameters(&mut self) -> Result<Vec<Param>> {
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.is(")") {
            let annotations = self.annotations()?;
            let direction = if self.eat_word("in") {
                Direction::In
            } else if self.eat_word("out") {
                Direction::Out
            } else if self.eat_word("inout") {
                Direction::InOut
            } else {
                Direction::None
            };
            let ty = self.type_expr()?;
            let name = self.identifier()?;
            self.declare_value(&name);
            let default = if self.eat("=") { Some(self.expression()?) } else { None };
            params.push(Param { annotations, direction, ty, name, default });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(params)
    }

    fn action(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.expect_word("action")?;
        let name = self.identifier()?;
        self.declare_value(&name);
        let (params, body) = self.scoped(|p| Ok((p.parameters()?, p.block()?)))?;
        let StmtKind::Block(body) = body.kind else { return Err(self.unexpected("'{'")) };
        Ok(Decl { annotations, name, span: start.to(self.previous()), kind: DeclKind::Action(params, body) })
    }

    fn scoped_head(&mut self, annotations: Annotations, kind: &'static str) -> Result<Decl> {
        self.scoped(|p| p.parser_or_control(annotations, kind))
    }

    fn parser_or_control(&mut self, annotations: Annotations, kind: &'static str) -> Result<Decl> {
        let start = self.bump().span;
        let name = self.identifier()?;
        let type_params = self.type_params()?;
        let params = self.parameters()?;
        let signature = Signature { result: None, type_params, params };
        if kind == "package" || self.is(";") {
            self.expect(";")?;
            let kind = if kind == "package" {
                DeclKind::Package(signature)
            } else {
                DeclKind::BlockType(kind, signature)
            };
            return Ok(Decl { annotations, name, span: start, kind });
        }
        let constructor = if self.is("(") { self.parameters()? } else { Vec::new() };
        self.expect("{")?;
        let mut locals = Vec::new();
        if kind == "parser" {
            let mut states = Vec::new();
            while !self.eat("}") {
                let annotations = self.annotations()?;
                if self.is_word("state") && matches!(self.peek_at(1).kind, Kind::Ident(_)) {
                    states.push(self.state()?);
                } else if !states.is_empty() {
                    return Err(self.unexpected("a state or '}'"));
                } else {
                    locals.push(self.local_declaration(annotations)?);
                }
            }
            let kind = DeclKind::Parser(signature, constructor, locals, states);
            return Ok(Decl { annotations, name, span: start, kind });
        }
        while !self.is_word("apply") || !(self.peek_at(1).is("{") || self.peek_at(1).is("@")) {
            let annotations = self.annotations()?;
            if self.is("}") {
                return Err(self.unexpected("'apply { ... }'"));
            }
            locals.push(self.local_declaration(annotations)?);
        }
        self.expect_word("apply")?;
        let body = self.block()?;
        self.expect("}")?;
        let kind = DeclKind::Control(signature, constructor, locals, body);
        Ok(Decl { annotations, name, span: start, kind })
    }

    fn local_declaration(&mut self, annotations: Annotations) -> Result<Decl> {
        if self.is_word("action") {
            return self.action(annotations);
        }
        if self.is_word("table") && matches!(self.peek_at(1).kind, Kind::Ident(_)) {
            return self.table(annotations);
        }
        if self.is_word("value_set") {
            let start = self.bump().span;
            let mut args = self.type_args()?;
            let (Some(ty), true) = (args.pop(), args.is_empty()) else {
                return Err(Diagnostic::error(start, "value_set takes one type: value_set<T>(size)"));
            };
            self.expect("(")?;
            let size = self.expression()?;
            self.expect(")")?;
            let name = self.identifier()?;
            let span = start.to(self.expect(";")?);
            return Ok(Decl { annotations, name, span, kind: DeclKind::ValueSet(ty, size) });
        }
        self.variable_like(annotations)
    }

    /// Constant, variable or instance.
    pub(super) fn variable_like(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.peek().span;
        if self.eat_word("const") {
            let ty = self.type_expr()?;
            let name = self.identifier()?;
            self.expect("=")?;
            let value = self.expression()?;
            let span = start.to(self.expect(";")?);
            self.declare_value(&name);
            return Ok(Decl { annotations, name, span, kind: DeclKind::Const(ty, value) });
        }
        let ty = self.type_expr()?;
        if self.is("(") {
            return self.instance(annotations, ty);
        }
        let name = self.identifier()?;
        let value = if self.eat("=") { Some(self.expression()?) } else { None };
        self.declare_value(&name);
        let span = start.to(self.expect(";")?);
        Ok(Decl { annotations, name, span, kind: DeclKind::Var(ty, value) })
    }

    fn instance(&mut self, annotations: Annotations, ty: TypeExpr) -> Result<Decl> {
        let args = self.arguments()?;
        let name = self.identifier()?;
        self.declare_value(&name);
        let mut methods = None;
        if self.eat("=") {
            self.expect("{")?;
            let mut list = Vec::new();
            while !self.eat("}") {
                let annotations = self.annotations()?;
                list.push(self.function_or_variable(annotations)?);
            }
            methods = Some(list);
        }
        let span = ty.span.to(self.expect(";")?);
        Ok(Decl { annotations, name, span, kind: DeclKind::Instance(ty, args, methods) })
    }

    /// Declaration that starts with a type: a function, constant, variable or instance.
    fn function_or_variable(&mut self, annotations: Annotations) -> Result<Decl> {
        if self.is_word("const") {
            return self.variable_like(annotations);
        }
        if !matches!(self.peek().kind, Kind::Ident(_)) && !self.is(".") {
            return Err(self.unexpected("a declaration"));
        }
        let start = self.peek().span;
        let ty = self.type_expr()?;
        if self.is("(") {
            return self.instance(annotations, ty);
        }
        let name = self.identifier()?;
        if self.is("(") || self.is("<") {
            let (signature, body) = self.scoped(|p| {
                let type_params = p.type_params()?;
                let params = p.parameters()?;
                let body = p.block()?;
                Ok((Signature { result: Some(ty), type_params, params }, body))
            })?;
            let StmtKind::Block(body) = body.kind else { return Err(self.unexpected("'{'")) };
            return Ok(Decl { annotations, name, span: start, kind: DeclKind::Function(signature, body) });
        }
        let value = if self.eat("=") { Some(self.expression()?) } else { None };
        let span = start.to(self.expect(";")?);
        Ok(Decl { annotations, name, span, kind: DeclKind::Var(ty, value) })
    }
}
