//! Definitions of macros.

use crate::lex::{Kind, Token};
use crate::source::{Diagnostic, Span};
use std::rc::Rc;

/// A macro.
#[derive(Clone)]
pub struct Macro {
    /// Parameters; `None` for an object-like macro.
    pub parameters: Option<Vec<Rc<str>>>,
    /// True if the last parameter takes all further arguments.
    pub variadic: bool,
    /// Body.
    pub body: Rc<[Piece]>,
}

/// Part of a macro's body.
#[derive(Clone)]
pub struct Piece {
    /// The token in the definition.
    pub token: Token,
    /// Replacement of the token.
    pub meaning: Meaning,
    /// True if `##` joins the piece to the one before it.
    pub pasted: bool,
    /// True inside `__VA_OPT__(...)`.
    pub optional: bool,
}

/// Replacement of a token in a macro's body.
#[derive(Clone, Copy, PartialEq)]
pub enum Meaning {
    /// The token itself.
    Token,
    /// An argument, by the index of its parameter.
    Parameter(usize),
    /// An argument as a string (`#x`).
    Text(usize),
}

impl Macro {
    /// Macro without parameters.
    pub fn object(tokens: &[Token], span: Span) -> Result<Macro, Diagnostic> {
        Ok(Macro { parameters: None, variadic: false, body: pieces(tokens, None, false, span)?.into() })
    }

    /// Name and macro of a `#define`.
    pub fn defined(line: &[Token], span: Span) -> Result<(Rc<str>, Macro), Diagnostic> {
        let Some(name) = line.first().and_then(Token::name) else {
            return Err(Diagnostic::error(span, "#define needs the name of a macro"));
        };
        if &**name == "defined" {
            return Err(Diagnostic::error(span, "'defined' cannot be the name of a macro"));
        }
        if !line.get(1).is_some_and(|token| token.is("(") && !token.spaced) {
            return Ok((name.clone(), Macro::object(&line[1..], span)?));
        }
        let close = line.iter().position(|token| token.is(")")).ok_or_else(|| {
            Diagnostic::error(span, "the parameters of this macro are not closed")
                .help("write ')' on this line")
        })?;
        let (names, variadic) = parameters(&line[2..close], span)?;
        let body = pieces(&line[close + 1..], Some(&names), variadic, span)?.into();
        Ok((name.clone(), Macro { parameters: Some(names), variadic, body }))
    }
}

/// Names of the parameters, and true if the last one is variadic.
fn parameters(tokens: &[Token], span: Span) -> Result<(Vec<Rc<str>>, bool), Diagnostic> {
    let (mut names, mut variadic) = (Vec::<Rc<str>>::new(), false);
    if tokens.is_empty() {
        return Ok((names, variadic));
    }
    for parameter in tokens.split(|token| token.is(",")) {
        let place = parameter.first().map_or(span, |first| first.span);
        let name = match parameter {
            [Token { kind: Kind::Ident(name), .. }] if !variadic => name.clone(),
            [Token { kind: Kind::Ident(name), .. }, dots] if !variadic && dots.is("...") => {
                variadic = true;
                name.clone()
            }
            [dots] if !variadic && dots.is("...") => {
                variadic = true;
                "__VA_ARGS__".into()
            }
            _ => {
                let text = "the parameters of a macro are names, the last of them may be '...'";
                return Err(Diagnostic::error(place, text));
            }
        };
        if names.contains(&name) {
            return Err(Diagnostic::error(place, format!("the macro has two parameters '{name}'")));
        }
        names.push(name);
    }
    Ok((names, variadic))
}

/// Analyses the body of a macro; `parameters` are those of a function-like one.
fn pieces(
    tokens: &[Token],
    parameters: Option<&[Rc<str>]>,
    variadic: bool,
    span: Span,
) -> Result<Vec<Piece>, Diagnostic> {
    let index = |token: &Token| match &token.kind {
        Kind::Ident(name) if !token.fixed => parameters?.iter().position(|own| own == name),
        _ => None,
    };
    let mut list: Vec<Piece> = Vec::new();
    // True after `##`; nesting of parentheses inside `__VA_OPT__`, from 1.
    let (mut pasted, mut optional) = (false, 0);
    // The `__VA_OPT__` whose first token has not been met.
    let mut opening: Option<&Token> = None;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.is("##") {
            if list.is_empty() || at == tokens.len() {
                return Err(Diagnostic::error(token.span, "'##' stands between two tokens of a macro"));
            }
            pasted = true;
            continue;
        }
        if variadic && token.is_word("__VA_OPT__") {
            if optional > 0 || !tokens.get(at).is_some_and(|next| next.is("(")) {
                return Err(Diagnostic::error(token.span, "write __VA_OPT__(...), not inside another"));
            }
            optional = 1;
            opening = Some(token);
            at += 1;
            continue;
        }
        if optional > 0 {
            match token.kind {
                Kind::Punct("(") => optional += 1,
                Kind::Punct(")") => optional -= 1,
                _ => {}
            }
            if optional == 0 {
                if let Some(empty) = opening.take() {
                    // Nothing, whose variadic argument cpp expands nevertheless.
                    let token = Token { kind: Kind::Ident("".into()), ..empty.clone() };
                    let pasted = std::mem::take(&mut pasted);
                    list.push(Piece { token, meaning: Meaning::Token, pasted, optional: true });
                }
                continue;
            }
        }
        let (mut token, mut meaning) =
            (token.clone(), index(token).map_or(Meaning::Token, Meaning::Parameter));
        if parameters.is_some()
            && token.is("#")
            && let Some(found) = tokens.get(at).and_then(index)
        {
            at += 1;
            meaning = Meaning::Text(found);
        }
        token.spaced |= opening.take().is_some_and(|optional| optional.spaced);
        token.spaced &= !list.is_empty();
        list.push(Piece { token, meaning, pasted: std::mem::take(&mut pasted), optional: optional > 0 });
    }
    if optional > 0 {
        return Err(Diagnostic::error(span, "')' is missing after __VA_OPT__"));
    }
    Ok(list)
}
