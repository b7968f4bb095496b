//! Recursive-descent parser over preprocessed tokens. In some productions (`(T) x`, `f<T>(x)`) the grammar
//! depends on whether an identifier names a type, so the parser tracks the type names in scope.

use super::ast::*;
use super::lex::{Kind, Token};
use super::source::{Diagnostic, Span};
use belljar_base::Map;
use std::rc::Rc;

mod annotation;
mod declaration;
mod expression;
mod statement;
mod table;

/// Maximum nesting of statements, types and brackets, and maximum height of expressions.
const MAX_NESTING: u32 = 300;
/// Maximum number of branches of an `if` with `else if`.
const MAX_CHAIN: usize = 5_000;

/// Reserved words.
const RESERVED: &[&str] = &[
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "varbit",
    "value_set",
    "void",
    "for",
    "break",
    "continue",
];

/// First words of built-in types.
const BASE_TYPES: &[&str] =
    &["bit", "bool", "int", "varbit", "error", "string", "tuple", "void", "match_kind"];

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// Names per scope; `true` for types.
    scopes: Vec<Map<Rc<str>, bool>>,
    /// Types declared inside the declaration being parsed.
    inner: Vec<Decl>,
}

pub(super) use annotation::{Arguments, arguments};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Parses a program.
pub fn parse(tokens: Vec<Token>) -> Result<Vec<Decl>> {
    let mut parser = Parser { tokens, at: 0, depth: 0, scopes: vec![Map::new()], inner: Vec::new() };
    let mut program = Vec::new();
    while parser.peek().kind != Kind::End {
        if parser.eat(";") {
            continue;
        }
        let decl = parser.declaration()?;
        program.append(&mut parser.inner);
        program.push(decl);
    }
    Ok(program)
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        &self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    fn bump(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn previous(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn is(&self, punct: &str) -> bool {
        self.peek().is(punct)
    }

    fn is_word(&self, word: &str) -> bool {
        self.peek().is_word(word)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, punct: &str) -> Result<Span> {
        if self.is(punct) {
            return Ok(self.bump().span);
        }
        Err(self.unexpected(&format!("'{punct}'")))
    }

    fn expect_word(&mut self, word: &str) -> Result<Span> {
        if self.is_word(word) {
            return Ok(self.bump().span);
        }
        Err(self.unexpected(&format!("'{word}'")))
    }

    fn unexpected(&self, wanted: &str) -> Diagnostic {
        let token = self.peek();
        let found = match &token.kind {
            Kind::Ident(name) => format!("'{name}'"),
            Kind::Int(value, ..) => format!("the number {value}"),
            Kind::Str(_) => "a string".to_string(),
            Kind::Char(text) => format!("the character {text}"),
            Kind::Punct(punct) => format!("'{punct}'"),
            Kind::End => "the end of the file".to_string(),
        };
        let diagnostic = Diagnostic::error(token.span, format!("expected {wanted}, found {found}"));
        if wanted == "';'" && self.at > 0 {
            return diagnostic.note(self.previous(), "';' is missing after this");
        }
        diagnostic
    }

    fn identifier(&mut self) -> Result<Ident> {
        match &self.peek().kind {
            Kind::Ident(name) if name.starts_with(|c: char| c.is_ascii_digit()) => {
                if name.ends_with(['w', 's']) {
                    let text = format!("'{name}' is a width without a number");
                    return Err(
                        Diagnostic::error(self.peek().span, text).help("write the number after it: 8w1")
                    );
                }
                Err(Diagnostic::error(self.peek().span, format!("'{name}' is not a number"))
                    .help("numbers are written as 10, 0x0A, 0b1010, 8w10 or 8s10"))
            }
            Kind::Ident(name) if !RESERVED.contains(&&**name) => {
                let name = name.clone();
                Ok(Ident { name, span: self.bump().span })
            }
            Kind::Ident(name) => {
                let message = format!("'{name}' is a keyword and cannot be a name");
                Err(Diagnostic::error(self.peek().span, message).help("choose another name"))
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Member name after a dot. Keywords such as `apply` are allowed, `default` is not.
    fn member_name(&mut self) -> Result<Ident> {
        self.identifier()
    }

    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(Diagnostic::error(self.peek().span, format!("nested more than {MAX_NESTING} deep")));
        }
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Runs `f`; restores the position if `f` returns `None`.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (at, depth) = (self.at, self.depth);
        let result = f(self);
        if result.is_none() {
            (self.at, self.depth) = (at, depth);
        }
        result
    }

    fn declare_type(&mut self, name: &Ident) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.name.clone(), true);
        }
    }

    fn declare_value(&mut self, name: &Ident) {
        if self.is_type_name(&name.name)
            && let Some(scope) = self.scopes.last_mut()
        {
            scope.insert(name.name.clone(), false);
        }
    }

    fn is_type_name(&self, name: &str) -> bool {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied().unwrap_or(false)
    }

    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(Map::new());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// True if a type can start at the `ahead`-th token.
    fn is_type_start(&self, ahead: usize) -> bool {
        match &self.peek_at(ahead).kind {
            Kind::Ident(name) if BASE_TYPES.contains(&&**name) => true,
            Kind::Ident(name) if &**name == "list" => self.peek_at(ahead + 1).is("<"),
            Kind::Ident(name) => self.is_type_name(name),
            Kind::Punct(".") => {
                matches!(&self.peek_at(ahead + 1).kind, Kind::Ident(name) if self.is_type_name(name))
            }
            _ => false,
        }
    }

    fn type_expr(&mut self) -> Result<TypeExpr> {
        self.nested(|p| {
            let mut ty = p.type_without_stack()?;
            while p.is("[") {
                p.bump();
                let size = p.expression()?;
                let end = p.expect("]")?;
                ty = TypeExpr { span: ty.span.to(end), kind: TypeKind::Stack(Box::new(ty), Box::new(size)) };
            }
            Ok(ty)
        })
    }

    fn type_without_stack(&mut self) -> Result<TypeExpr> {
        let start = self.peek().span;
        let Kind::Ident(word) = self.peek().kind.clone() else {
            if self.eat(".") {
                let name = self.identifier()?;
                let args = self.type_args()?;
                return Ok(TypeExpr {
                    kind: TypeKind::Named(name, true, args),
                    span: start.to(self.previous()),
                });
            }
            return Err(self.unexpected("a type"));
        };
        let kind = match &*word {
            "_" => {
                self.bump();
                TypeKind::DontCare
            }
            "bit" | "int" | "varbit" => {
                let name = base_name(&word);
                self.bump();
                if self.is("<") {
                    TypeKind::Sized(name, Box::new(self.width()?))
                } else if name == "varbit" {
                    return Err(self.unexpected("'<' and the maximum width"));
                } else {
                    TypeKind::Base(name)
                }
            }
            "tuple" => {
                self.bump();
                TypeKind::Tuple(self.type_args()?)
            }
            "list" if self.peek_at(1).is("<") => {
                self.bump();
                let mut args = self.type_args()?;
                match (args.pop(), args.is_empty()) {
                    (Some(element), true) => TypeKind::List(Box::new(element)),
                    _ => return Err(Diagnostic::error(start, "list takes one type: list<T>")),
                }
            }
            word if BASE_TYPES.contains(&word) => {
                let name = base_name(word);
                self.bump();
                TypeKind::Base(name)
            }
            _ => {
                let name = self.identifier()?;
                let args = self.type_args()?;
                TypeKind::Named(name, false, args)
            }
        };
        Ok(TypeExpr { kind, span: start.to(self.previous()) })
    }

    /// `<8>` or `<(expression)>`.
    fn width(&mut self) -> Result<Expr> {
        self.expect("<")?;
        let width = if self.is("(") {
            self.bump();
            let width = self.expression()?;
            self.expect(")")?;
            width
        } else {
            self.primary()?
        };
        self.expect(">")?;
        Ok(width)
    }

    fn type_args(&mut self) -> Result<Vec<TypeExpr>> {
        let mut args = Vec::new();
        if !self.eat("<") {
            return Ok(args);
        }
        while !self.is(">") {
            args.push(self.type_expr()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(">")?;
        Ok(args)
    }
}

fn base_name(word: &str) -> &'static str {
    BASE_TYPES.iter().find(|base| **base == word).copied().unwrap_or("void")
}
