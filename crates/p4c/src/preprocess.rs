//! Preprocessor: `#include`, `#define`, conditional groups, `#error`, `#line`, `#pragma`. It operates on
//! tokens, so every position refers to the original file. A token from a macro has the position of the
//! macro's use.

use super::lex::{Kind, Lexer, Token};
use super::source::{Diagnostic, SourceFile, Sources, Span};
use belljar_base::Map;
use std::path::{Path, PathBuf};
use std::rc::Rc;

mod condition;

/// Maximum nesting of `#include`.
const MAX_DEPTH: usize = 64;
/// Maximum number of tokens after expansion.
const MAX_TOKENS: usize = 4_000_000;

/// Macros that p4c defines for this target.
const PREDEFINED: [&str; 1] = ["__TARGET_BMV2__"];

/// Directives with an effect, other than those of conditional groups.
const DIRECTIVES: [&str; 5] = ["define", "error", "include", "include_next", "undef"];

/// Operator of conditions that is true if a file can be included.
const HAS_INCLUDE: &str = "__has_include";

const CORE: &str = include_str!("include/core.p4");
const V1MODEL: &str = include_str!("include/v1model.p4");

/// Text of the built-in file with this name.
fn built_in(name: &str) -> Option<&'static str> {
    match name {
        "core.p4" => Some(CORE),
        "v1model.p4" => Some(V1MODEL),
        _ => None,
    }
}

#[derive(Clone)]
struct Macro {
    /// Parameters; `None` for an object-like macro.
    parameters: Option<Vec<Rc<str>>>,
    /// True if the last parameter takes all further arguments.
    variadic: bool,
    body: Rc<[Token]>,
}

/// State of one `#if` group: whether an arm was taken, and whether the current arm is active.
struct Group {
    span: Span,
    taken: bool,
    active: bool,
    outer_active: bool,
    else_seen: bool,
}

/// Preprocessor state.
pub struct Preprocessor<'a> {
    sources: &'a mut Sources,
    include_dirs: &'a [PathBuf],
    macros: Map<Rc<str>, Macro>,
    output: Vec<Token>,
    warnings: &'a mut Vec<Diagnostic>,
}

/// Preprocesses the first file of `sources`.
pub fn preprocess(
    sources: &mut Sources,
    include_dirs: &[PathBuf],
    defines: &[(String, String)],
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<Token>, Diagnostic> {
    let mut state = Preprocessor { sources, include_dirs, macros: Map::new(), output: Vec::new(), warnings };
    let predefined = PREDEFINED.iter().map(|name| (name.to_string(), "1".to_string())).collect::<Vec<_>>();
    for (name, value) in predefined.iter().chain(defines) {
        let file = state.add_file(format!("-D {name}={value}"), value.clone(), false);
        let body = state.all_tokens(value, file)?;
        state
            .macros
            .insert(name.as_str().into(), Macro { parameters: None, variadic: false, body: body.into() });
    }
    state.file(0, 0)?;
    let length = state.sources.files[0].text.len() as u32;
    let span = Span { file: 0, start: length, end: length };
    state.output.push(Token { kind: Kind::End, span, starts_line: true, spaced: true });
    Ok(state.output)
}

impl Preprocessor<'_> {
    fn add_file(&mut self, name: String, text: String, built_in: bool) -> u32 {
        self.sources.files.push(SourceFile { name, text, built_in });
        self.sources.files.len() as u32 - 1
    }

    fn all_tokens(&self, text: &str, file: u32) -> Result<Vec<Token>, Diagnostic> {
        let mut lexer = Lexer::new(text, file);
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next()?;
            if token.kind == Kind::End {
                return Ok(tokens);
            }
            tokens.push(token);
        }
    }

    fn file(&mut self, index: u32, depth: usize) -> Result<(), Diagnostic> {
        let text = self.sources.files[index as usize].text.clone();
        let mut lexer = Lexer::new(&text, index);
        let mut groups: Vec<Group> = Vec::new();
        // Tokens not yet expanded: macro arguments may span lines but not directives.
        let mut pending: Vec<Token> = Vec::new();
        let mut token = lexer.next()?;
        loop {
            if token.kind == Kind::End {
                break;
            }
            if token.starts_line && token.is("#") {
                self.flush(&mut pending)?;
                token = self.directive(&mut lexer, token.span, &mut groups, index, depth)?;
                continue;
            }
            if groups.last().is_some_and(|group| !group.active) {
                lexer.skip_line();
            } else {
                pending.push(token);
            }
            token = lexer.next()?;
        }
        self.flush(&mut pending)?;
        match groups.last() {
            None => Ok(()),
            Some(group) => Err(Diagnostic::error(group.span, "this conditional group is not closed")
                .help("end it with a line '#endif'")),
        }
    }

    fn flush(&mut self, pending: &mut Vec<Token>) -> Result<(), Diagnostic> {
        let tokens = std::mem::take(pending);
        let mut output = std::mem::take(&mut self.output);
        let result = self.expand(&tokens, &mut Vec::new(), None, &mut output);
        self.output = output;
        result
    }

    /// Processes a directive; returns the first token of the next line.
    fn directive(
        &mut self,
        lexer: &mut Lexer<'_>,
        hash: Span,
        groups: &mut Vec<Group>,
        file: u32,
        depth: usize,
    ) -> Result<Token, Diagnostic> {
        let name = lexer.next()?;
        if name.starts_line || name.kind == Kind::End {
            return Ok(name);
        }
        let active = groups.last().is_none_or(|group| group.active);
        let Kind::Ident(word) = name.kind.clone() else {
            lexer.skip_line();
            return lexer.next();
        };
        let conditional = matches!(&*word, "if" | "ifdef" | "ifndef" | "elif" | "else" | "endif");
        if !active && !conditional || matches!(&*word, "line" | "pragma" | "warning" | "ident") {
            lexer.skip_line();
            return lexer.next();
        }
        if !conditional && !DIRECTIVES.contains(&&*word) {
            // p4c runs the C preprocessor for assembler, in which such lines are comments, and skips them.
            let text = format!("unknown preprocessor directive '#{word}': the line is skipped");
            self.warnings.push(Diagnostic::warning("invalid", hash.to(name.span), text));
            lexer.skip_line();
            return lexer.next();
        }
        if &*word == "error" {
            let text = lexer.skip_line().to_string();
            return Err(Diagnostic::error(hash.to(name.span), format!("#error {text}")));
        }
        let mut line = Vec::new();
        let next = loop {
            let token = lexer.next();
            let token = match token {
                Ok(token) => token,
                Err(_) if !active => continue,
                Err(error) => return Err(error),
            };
            if token.starts_line || token.kind == Kind::End {
                break token;
            }
            line.push(token);
        };
        match &*word {
            "include" | "include_next" => {
                self.include(&line, name.span, file, depth, &*word == "include_next")?
            }
            "define" => self.define(&line, name.span)?,
            "undef" => match line.first().map(|token| &token.kind) {
                Some(Kind::Ident(name)) => drop(self.macros.remove(name)),
                _ => return Err(Diagnostic::error(name.span, "#undef needs the name of a macro")),
            },
            "if" | "ifdef" | "ifndef" => {
                let taken = active && self.group_condition(&word, &line, name.span, file)?;
                groups.push(Group {
                    span: hash.to(name.span),
                    taken,
                    active: taken,
                    outer_active: active,
                    else_seen: false,
                });
            }
            "elif" | "else" => {
                let (outer, taken, seen) = match groups.last() {
                    Some(group) => (group.outer_active, group.taken, group.else_seen),
                    None => return Err(Diagnostic::error(name.span, format!("#{word} without #if"))),
                };
                if seen {
                    return Err(Diagnostic::error(name.span, format!("#{word} after #else")));
                }
                let active = outer
                    && !taken
                    && (&*word == "else" || self.group_condition("if", &line, name.span, file)?);
                if let Some(group) = groups.last_mut() {
                    group.active = active;
                    group.taken |= active;
                    group.else_seen = &*word == "else";
                }
            }
            "endif" if groups.pop().is_none() => {
                return Err(Diagnostic::error(name.span, "#endif without #if"));
            }
            _ => {}
        }
        Ok(next)
    }

    fn group_condition(
        &mut self,
        word: &str,
        line: &[Token],
        span: Span,
        file: u32,
    ) -> Result<bool, Diagnostic> {
        let defined = |name: &str| self.macros.contains_key(name) || name == HAS_INCLUDE;
        if word == "if" {
            let mut prepared = Vec::new();
            condition::resolve_defined(line, defined, &mut prepared);
            let prepared = self.resolve_includes(&prepared, file)?;
            let mut expanded = Vec::new();
            self.expand(&prepared, &mut Vec::new(), None, &mut expanded)?;
            return condition::evaluate(&expanded, span);
        }
        match line.first().map(|token| &token.kind) {
            Some(Kind::Ident(name)) => Ok(defined(name) == (word == "ifdef")),
            _ => Err(Diagnostic::error(span, format!("#{word} needs the name of a macro"))),
        }
    }

    fn define(&mut self, line: &[Token], span: Span) -> Result<(), Diagnostic> {
        let Some(Token { kind: Kind::Ident(name), .. }) = line.first() else {
            return Err(Diagnostic::error(span, "#define needs the name of a macro"));
        };
        let (mut parameters, mut variadic) = (None, false);
        let mut body = 1;
        if line.get(1).is_some_and(|token| token.is("(") && !token.spaced) {
            let close = line.iter().position(|token| token.is(")")).ok_or_else(|| {
                Diagnostic::error(span, "the parameters of this macro are not closed")
                    .help("write ')' on this line")
            })?;
            let mut names: Vec<Rc<str>> = Vec::new();
            for parameter in line[2..close].split(|token| token.is(",")) {
                match parameter {
                    [] if close == 2 => {}
                    [Token { kind: Kind::Ident(name), .. }] if !variadic => names.push(name.clone()),
                    [Token { kind: Kind::Ident(name), .. }, dots] if !variadic && dots.is("...") => {
                        names.push(name.clone());
                        variadic = true;
                    }
                    [dots] if !variadic && dots.is("...") => {
                        names.push("__VA_ARGS__".into());
                        variadic = true;
                    }
                    _ => {
                        let text = "the parameters of a macro are names, the last of them may be '...'";
                        return Err(Diagnostic::error(
                            parameter.first().map_or(span, |first| first.span),
                            text,
                        ));
                    }
                }
            }
            parameters = Some(names);
            body = close + 1;
        }
        let body = line[body..].into();
        self.macros.insert(name.clone(), Macro { parameters, variadic, body });
        Ok(())
    }

    /// Includes the file that a line names; `next` looks for it after the folder of this file.
    fn include(
        &mut self,
        line: &[Token],
        span: Span,
        file: u32,
        depth: usize,
        next: bool,
    ) -> Result<(), Diagnostic> {
        let Some((name, quoted)) = self.file_name(line)? else {
            return Err(Diagnostic::error(span, "#include needs a file").help("write #include <core.p4>"));
        };
        let place = line.first().map_or(span, |first| first.span.to(line[line.len() - 1].span));
        if depth >= MAX_DEPTH {
            return Err(Diagnostic::error(
                place,
                format!("files include one another more than {MAX_DEPTH} deep"),
            ));
        }
        for path in self.candidates(&name, quoted, file, next) {
            if let Ok(bytes) = std::fs::read(&path) {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if text.len() > super::MAX_SOURCE {
                    return Err(Diagnostic::error(place, format!("{} is too long", path.display())));
                }
                let index = self.add_file(path.display().to_string(), text, false);
                return self.file(index, depth + 1);
            }
        }
        if let Some(text) = built_in(&name) {
            let index = self.add_file(format!("<{name}>"), text.to_string(), true);
            return self.file(index, depth + 1);
        }
        let help = format!("name its folder with -I; built in are core.p4 and v1model.p4, not {name}");
        Err(Diagnostic::error(place, format!("file {name} not found")).help(help))
    }

    /// Name of an included file, and true if it is quoted; macros are expanded. `None` if the tokens are
    /// something else.
    fn file_name(&self, line: &[Token]) -> Result<Option<(String, bool)>, Diagnostic> {
        let mut tokens = line.to_vec();
        let expanded = tokens.first().is_some_and(|token| matches!(token.kind, Kind::Ident(_)));
        if expanded {
            tokens.clear();
            self.expand(line, &mut Vec::new(), None, &mut tokens)?;
        }
        Ok(match tokens.as_slice() {
            [Token { kind: Kind::Str(name), .. }, ..] => Some((name.to_string(), true)),
            [first, inner @ .., last] if first.is("<") && last.is(">") => {
                let name = if expanded {
                    inner.iter().map(|token| self.spelling(token)).collect::<String>()
                } else {
                    let span = Span { file: first.span.file, start: first.span.end, end: last.span.start };
                    self.sources.text(span).trim().to_string()
                };
                Some((name, false))
            }
            _ => None,
        })
    }

    /// Paths at which a file named in `file` is looked for, in order.
    fn candidates(&self, name: &str, quoted: bool, file: u32, next: bool) -> Vec<PathBuf> {
        let own = PathBuf::from(&self.sources.files[file as usize].name);
        let own = own.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut dirs = self.include_dirs.iter().collect::<Vec<_>>();
        if next {
            let passed = dirs.iter().position(|dir| **dir == own).map_or(0, |own| own + 1);
            dirs.drain(..passed);
        } else if quoted {
            dirs.insert(0, &own);
        }
        dirs.into_iter().map(|dir| dir.join(name)).collect()
    }

    /// Replaces `__has_include(<file>)` by 1 or 0.
    fn resolve_includes(&self, line: &[Token], file: u32) -> Result<Vec<Token>, Diagnostic> {
        let (mut output, mut at) = (Vec::new(), 0);
        while at < line.len() {
            let token = &line[at];
            at += 1;
            if !token.is_word(HAS_INCLUDE) || !line.get(at).is_some_and(|next| next.is("(")) {
                output.push(token.clone());
                continue;
            }
            let Some(length) = line[at..].iter().position(|token| token.is(")")) else {
                return Err(Diagnostic::error(token.span, "')' is missing after __has_include"));
            };
            let Some((name, quoted)) = self.file_name(&line[at + 1..at + length])? else {
                return Err(Diagnostic::error(token.span, "__has_include needs a file"));
            };
            let found = built_in(&name).is_some()
                || self.candidates(&name, quoted, file, false).iter().any(|path| path.is_file());
            output.push(Token { kind: Kind::Int(u8::from(found).into(), None), ..token.clone() });
            at += length + 1;
        }
        Ok(output)
    }

    /// Expands macros in `tokens`. `hidden` holds the macros being expanded; `place` replaces the token
    /// positions.
    fn expand(
        &self,
        tokens: &[Token],
        hidden: &mut Vec<Rc<str>>,
        place: Option<Span>,
        output: &mut Vec<Token>,
    ) -> Result<(), Diagnostic> {
        let mut at = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            at += 1;
            let found = match &token.kind {
                Kind::Ident(name) if !hidden.contains(name) => {
                    self.macros.get(name).map(|found| (name, found))
                }
                _ => None,
            };
            let Some((name, found)) = found else {
                if output.len() >= MAX_TOKENS || hidden.len() > 200 {
                    return Err(Diagnostic::error(
                        place.unwrap_or(token.span),
                        "the macros expand to too much",
                    ));
                }
                let span = place.unwrap_or(token.span);
                let kind = match &token.kind {
                    Kind::Ident(name) if &**name == "__LINE__" => {
                        Kind::Int(self.sources.position(span).0.into(), None)
                    }
                    Kind::Ident(name) if &**name == "__FILE__" => {
                        let file = self.sources.files.get(span.file as usize);
                        Kind::Str(file.map_or("", |file| file.name.as_str()).into())
                    }
                    other => other.clone(),
                };
                output.push(Token { kind, span, ..token.clone() });
                continue;
            };
            let span = place.unwrap_or(token.span);
            let body = match &found.parameters {
                None if found.body.iter().any(|token| token.is("##")) => self.paste(found.body.to_vec()),
                None => found.body.to_vec(),
                Some(parameters) => {
                    if !tokens.get(at).is_some_and(|next| next.is("(")) {
                        output.push(Token { span, ..token.clone() });
                        continue;
                    }
                    let limit = if found.variadic { parameters.len() } else { usize::MAX };
                    let (mut arguments, after) = arguments(tokens, at, span, limit)?;
                    at = after;
                    if found.variadic && arguments.len() + 1 == parameters.len() {
                        arguments.push(Vec::new());
                    }
                    let count = if arguments.len() == 1 && arguments[0].is_empty() && parameters.is_empty() {
                        0
                    } else {
                        arguments.len()
                    };
                    if count != parameters.len() {
                        let expected = parameters.len();
                        return Err(Diagnostic::error(
                            span,
                            format!("macro {name} takes {expected} arguments, not {count}"),
                        ));
                    }
                    self.substitute(&found.body, parameters, &arguments, hidden)?
                }
            };
            hidden.push(name.clone());
            self.expand(&body, hidden, Some(span), output)?;
            hidden.pop();
        }
        Ok(())
    }

    fn substitute(
        &self,
        body: &[Token],
        parameters: &[Rc<str>],
        arguments: &[Vec<Token>],
        hidden: &mut Vec<Rc<str>>,
    ) -> Result<Vec<Token>, Diagnostic> {
        let mut result: Vec<Token> = Vec::new();
        for (at, token) in body.iter().enumerate() {
            let index = match &token.kind {
                Kind::Ident(name) => parameters.iter().position(|parameter| parameter == name),
                _ => None,
            };
            let Some(index) = index else {
                result.push(token.clone());
                continue;
            };
            let pasted = result.last().is_some_and(|last| last.is("##"))
                || body.get(at + 1).is_some_and(|next| next.is("##"));
            if result.last().is_some_and(|last| last.is("#")) {
                result.pop();
                let mut text = String::new();
                for (index, token) in arguments[index].iter().enumerate() {
                    if index > 0 && token.spaced {
                        text.push(' ');
                    }
                    text.push_str(&self.spelling(token));
                }
                result.push(Token { kind: Kind::Str(text.into()), ..token.clone() });
            } else if pasted {
                // Operands of `##` are not expanded; an empty operand yields no token.
                let comma =
                    result.len() >= 2 && result[result.len() - 2].is(",") && token.is_word("__VA_ARGS__");
                match (arguments[index].is_empty(), result.last().is_some_and(|last| last.is("##"))) {
                    // `, ## __VA_ARGS__`: without arguments the comma is dropped, with arguments nothing is
                    // pasted.
                    (true, true) if comma => result.truncate(result.len() - 2),
                    (false, true) if comma => {
                        result.pop();
                        self.expand(&arguments[index], hidden, None, &mut result)?;
                    }
                    (true, true) => drop(result.pop()),
                    (true, false) => result.push(Token { kind: Kind::Ident("".into()), ..token.clone() }),
                    _ => result.extend(arguments[index].iter().cloned()),
                }
            } else {
                self.expand(&arguments[index], hidden, None, &mut result)?;
            }
        }
        Ok(self.paste(result))
    }

    /// Pastes `a ## b` to one token, or keeps two if they do not form one. p4c runs the C preprocessor in
    /// assembler mode, which accepts this.
    fn paste(&self, tokens: Vec<Token>) -> Vec<Token> {
        let mut result: Vec<Token> = Vec::new();
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            if !token.is("##") || result.is_empty() {
                result.push(token);
            } else if let (Some(left), Some(right)) = (result.pop(), tokens.next()) {
                let text = format!("{}{}", self.spelling(&left), self.spelling(&right));
                let mut lexer = Lexer::new(&text, left.span.file);
                match (lexer.next(), lexer.next()) {
                    (Ok(Token { kind, .. }), Ok(Token { kind: Kind::End, .. })) => {
                        result.push(Token { kind, ..left })
                    }
                    _ => result.extend([left, right]),
                }
            }
        }
        // Placeholders of empty operands are no longer needed.
        result.retain(|token| !token.is_word(""));
        result
    }

    /// A token as spelt in the source: `00` and `0x0F` keep their digits.
    fn spelling(&self, token: &Token) -> String {
        let text = self.sources.text(token.span);
        let own =
            |text: &str| Lexer::new(text, token.span.file).next().is_ok_and(|own| own.kind == token.kind);
        match &token.kind {
            Kind::Int(..) | Kind::Str(_) if own(text) => text.to_string(),
            Kind::Ident(name) => name.to_string(),
            Kind::Int(value, None) => value.to_string(),
            Kind::Int(value, Some((width, true))) => format!("{width}s{value}"),
            Kind::Int(value, Some((width, false))) => format!("{width}w{value}"),
            Kind::Punct(text) => text.to_string(),
            Kind::Str(text) => format!("\"{text}\""),
            Kind::End => String::new(),
        }
    }
}

/// Parses parenthesized arguments from `at`. At most `limit` arguments are returned, the last of which
/// includes any further commas, with the index of the token after them.
fn arguments(
    tokens: &[Token],
    mut at: usize,
    span: Span,
    limit: usize,
) -> Result<(Vec<Vec<Token>>, usize), Diagnostic> {
    let mut depth = 0;
    let mut arguments = vec![Vec::new()];
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.is("(") {
            depth += 1;
            if depth == 1 {
                continue;
            }
        } else if token.is(")") {
            depth -= 1;
            if depth == 0 {
                return Ok((arguments, at));
            }
        } else if token.is(",") && depth == 1 && arguments.len() < limit {
            arguments.push(Vec::new());
            continue;
        }
        if let Some(last) = arguments.last_mut() {
            last.push(token.clone());
        }
    }
    Err(Diagnostic::error(span, "the arguments of this macro are not closed").help("write ')'"))
}
