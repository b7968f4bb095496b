//! Annotations.

use super::{Parser, Result};
use crate::ast::*;
use crate::lex::{Kind, Token};
use crate::source::Diagnostic;
use std::rc::Rc;

/// Argument form of an annotation defined by the language or by v1model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// No arguments.
    Empty,
    /// One compile-time string.
    Text,
    /// One compile-time number.
    Number,
    /// Compile-time numbers.
    Numbers,
    /// Key-value pairs such as `name = "x"`.
    Pairs,
    /// Compile-time values or key-value pairs, as in structured annotations.
    Any,
}

/// Annotations whose arguments are checked. The bodies of all others are opaque.
const FORMS: &[(&str, Arguments)] = &[
    ("alias", Arguments::Text),
    ("atomic", Arguments::Empty),
    ("brief", Arguments::Text),
    ("controller_header", Arguments::Text),
    ("defaultonly", Arguments::Empty),
    ("deprecated", Arguments::Text),
    ("description", Arguments::Text),
    ("disable_optimization", Arguments::Empty),
    ("field_list", Arguments::Numbers),
    ("hidden", Arguments::Empty),
    ("id", Arguments::Number),
    ("likely", Arguments::Empty),
    ("max_group_size", Arguments::Number),
    ("max_member_weight", Arguments::Number),
    ("metadata", Arguments::Empty),
    ("name", Arguments::Text),
    ("noSideEffects", Arguments::Empty),
    ("nounroll", Arguments::Empty),
    ("noWarn", Arguments::Text),
    ("optional", Arguments::Empty),
    ("pkginfo", Arguments::Pairs),
    ("platform_property", Arguments::Pairs),
    ("priority", Arguments::Number),
    ("pure", Arguments::Empty),
    ("selector_size_semantics", Arguments::Text),
    ("tableonly", Arguments::Empty),
    ("unlikely", Arguments::Empty),
    ("unroll", Arguments::Empty),
];

/// Argument form of an annotation; `None` if its body is opaque.
pub(crate) fn arguments(annotation: &Annotation) -> Option<Arguments> {
    if annotation.structured {
        return Some(Arguments::Any);
    }
    let known = |(name, _): &&(&str, Arguments)| *name == &*annotation.name.name;
    FORMS.iter().find(known).map(|(_, form)| *form)
}

impl Parser {
    pub(super) fn annotations(&mut self) -> Result<Annotations> {
        let mut list = Vec::new();
        while self.is("@") {
            self.bump();
            let Kind::Ident(word) = self.peek().kind.clone() else {
                return Err(self.unexpected("the name of an annotation"));
            };
            let mut name = Ident { name: word, span: self.bump().span };
            let mut body = Vec::new();
            let mut structured = false;
            if &*name.name == "pragma" {
                while !self.peek().starts_line && self.peek().kind != Kind::End {
                    body.push(self.bump());
                }
                // `@pragma name body` is `@name(body)`.
                if let Some(Token { kind: Kind::Ident(word), span, .. }) = body.first() {
                    name = Ident { name: word.clone(), span: *span };
                    body.remove(0);
                }
            } else if self.is("(") || self.is("[") {
                structured = self.is("[");
                body = self.balanced()?;
            }
            let mut annotation = Annotation { body, structured, ..Annotation::marker(name) };
            if let Some(form) = arguments(&annotation) {
                (annotation.args, annotation.keys) = self.annotation_arguments(&annotation, form)?;
            }
            list.push(annotation);
        }
        Ok(list.into())
    }

    /// Parses the body of an annotation as expressions.
    fn annotation_arguments(
        &mut self,
        annotation: &Annotation,
        form: Arguments,
    ) -> Result<(Vec<Expr>, Vec<Rc<str>>)> {
        let Some(last) = annotation.body.last() else { return Ok((Vec::new(), Vec::new())) };
        if form == Arguments::Empty {
            let text = format!("@{} takes no arguments", annotation.name.name);
            return Err(Diagnostic::error(annotation.name.span, text).help("remove what is in the brackets"));
        }
        let mut tokens = annotation.body.clone();
        let end = Token { kind: Kind::End, starts_line: false, spaced: false, ..last.clone() };
        tokens.push(end);
        let (outer, at) = (std::mem::replace(&mut self.tokens, tokens), std::mem::take(&mut self.at));
        let parsed = self.argument_list(annotation, form);
        (self.tokens, self.at) = (outer, at);
        parsed
    }

    fn argument_list(
        &mut self,
        annotation: &Annotation,
        form: Arguments,
    ) -> Result<(Vec<Expr>, Vec<Rc<str>>)> {
        let (mut list, mut keys) = (Vec::new(), Vec::new());
        let name = &annotation.name.name;
        while self.peek().kind != Kind::End {
            let paired = matches!(self.peek().kind, Kind::Ident(_)) && self.peek_at(1).is("=");
            let wanted = match form {
                Arguments::Pairs => true,
                Arguments::Any => paired && list.len() == keys.len() || !keys.is_empty(),
                _ => false,
            };
            if wanted {
                let key = self.identifier()?;
                if keys.contains(&key.name) {
                    return Err(Diagnostic::error(
                        key.span,
                        format!("'{}' is given twice in @{name}", key.name),
                    ));
                }
                self.expect("=")?;
                keys.push(key.name);
            }
            list.push(self.expression()?);
            if self.peek().kind != Kind::End && !self.eat(",") {
                let text = format!("the arguments of @{name} end before this");
                return Err(Diagnostic::error(self.peek().span, text).help("separate them with ','"));
            }
        }
        Ok((list, keys))
    }

    /// Tokens between an opening bracket and its closing bracket.
    fn balanced(&mut self) -> Result<Vec<Token>> {
        let open = self.bump();
        let mut closing = vec![closing(&open)];
        let mut body = Vec::new();
        loop {
            let token = self.bump();
            if token.kind == Kind::End {
                return Err(Diagnostic::error(open.span, "this bracket is not closed"));
            }
            if closing.last().is_some_and(|close| token.is(close)) {
                closing.pop();
                if closing.is_empty() {
                    return Ok(body);
                }
            } else if token.is("(") || token.is("[") || token.is("{") {
                closing.push(self::closing(&token));
            } else if token.is(")") || token.is("]") || token.is("}") {
                return Err(Diagnostic::error(token.span, "this bracket closes none")
                    .note(open.span, "the last open one"));
            }
            body.push(token);
        }
    }
}

fn closing(open: &Token) -> &'static str {
    match open.kind {
        Kind::Punct("(") => ")",
        Kind::Punct("[") => "]",
        _ => "}",
    }
}
