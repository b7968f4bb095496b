//! Preprocessor: `#include`, `#define`, conditional groups, `#error`, `#line`, `#pragma`. It operates on
//! tokens, so every position refers to the original file. A token from a macro has the position of the
//! macro's use.

use super::lex::{Kind, Lexer, Token};
use super::source::{Diagnostic, SourceFile, Sources, Span};
use belljar_base::{Map, Set};
use expand::Expander;
use macros::Macro;
use std::cell::Cell;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;

mod condition;
mod expand;
mod macros;
mod pragma;
#[cfg(test)]
mod tests;

/// Maximum nesting of `#include`.
const MAX_DEPTH: usize = 64;
/// Maximum number of tokens after expansion.
const MAX_TOKENS: usize = 4_000_000;

/// Macros that p4c defines for this target, and those of cpp for assembler, as which p4c runs it.
const PREDEFINED: [&str; 4] = ["__TARGET_BMV2__", "__ASSEMBLER__", "__STDC__", "__STDC_HOSTED__"];

/// Directives with an effect, other than those of conditional groups.
const DIRECTIVES: [&str; 8] =
    ["define", "error", "import", "include", "include_next", "pragma", "undef", "warning"];

/// Directives of conditional groups.
const CONDITIONAL: [&str; 8] = ["if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"];

/// Operators of conditions that are true if a file can be included, by `#include` and by `#include_next`.
const HAS_INCLUDE: [&str; 2] = ["__has_include", "__has_include_next"];

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
    /// Definitions that `push_macro` has saved, `None` for a name that was not defined.
    saved: Map<Rc<str>, Vec<Option<Macro>>>,
    /// Names that may not be used any more (`#pragma GCC poison`).
    poisoned: Set<Rc<str>>,
    output: Vec<Token>,
    warnings: &'a mut Vec<Diagnostic>,
    /// Files that are included only once (`#pragma once`, `#import`).
    once: Set<PathBuf>,
    /// Next value of `__COUNTER__`.
    counter: Cell<usize>,
    /// Number of tokens that were read to expand macros.
    read: Cell<usize>,
    /// Nesting of `#include`.
    depth: usize,
}

/// Preprocesses the first file of `sources`.
pub fn preprocess(
    sources: &mut Sources,
    include_dirs: &[PathBuf],
    defines: &[(String, String)],
    warnings: &mut Vec<Diagnostic>,
) -> Result<Vec<Token>, Diagnostic> {
    let mut state = Preprocessor {
        sources,
        include_dirs,
        macros: Map::new(),
        saved: Map::new(),
        poisoned: Set::new(),
        output: Vec::new(),
        warnings,
        once: Set::new(),
        counter: Cell::new(0),
        read: Cell::new(0),
        depth: 0,
    };
    let predefined = PREDEFINED.iter().map(|name| (name.to_string(), "1".to_string())).collect::<Vec<_>>();
    for (name, value) in predefined.iter().chain(defines) {
        let file = state.add_file(format!("-D {name}={value}"), value.clone(), false);
        let body = state.all_tokens(value, file)?;
        state.macros.insert(name.as_str().into(), Macro::object(&body, Span::default())?);
    }
    state.file(0)?;
    let length = state.sources.files[0].text.len() as u32;
    let span = Span { file: 0, start: length, end: length };
    let (kind, starts_line, spaced) = (Kind::End, true, true);
    state.output.push(Token { kind, span, starts_line, spaced, fixed: false, open: false });
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

    fn file(&mut self, index: u32) -> Result<(), Diagnostic> {
        let text = self.sources.files[index as usize].text.clone();
        let mut lexer = Lexer::new(&text, index);
        let mut groups: Vec<Group> = Vec::new();
        // Tokens not yet expanded: macro arguments may span lines, and directives between them.
        let mut pending: Vec<Token> = Vec::new();
        let mut token = lexer.next()?;
        loop {
            if token.kind == Kind::End {
                break;
            }
            if token.starts_line && token.is("#") {
                let open = pending.split_off(self.complete(&pending));
                self.flush(std::mem::replace(&mut pending, open))?;
                let open = pending.first().map(|token| token.span);
                token = self.directive(&mut lexer, token.span, &mut groups, index, open)?;
                continue;
            }
            if groups.last().is_some_and(|group| !group.active) {
                lexer.skip_line();
            } else {
                self.check_poisoned(&token)?;
                pending.push(self.without_directives(token, &text, index)?);
                let operator = pending.len().checked_sub(4).map(|at| &pending[at]);
                if operator.is_some_and(|token| token.is_word("_Pragma"))
                    && self.complete(&pending) == pending.len()
                {
                    self.flush(std::mem::take(&mut pending))?;
                }
            }
            token = lexer.next()?;
        }
        self.flush(pending)?;
        match groups.last() {
            None => Ok(()),
            Some(group) => Err(Diagnostic::error(group.span, "this conditional group is not closed")
                .help("end it with a line '#endif'")),
        }
    }

    /// A string without the conditional groups between its lines, which are cpp's: it knows no strings of several
    /// lines. Directives and lines that are left out become empty lines.
    fn without_directives(&mut self, token: Token, text: &str, file: u32) -> Result<Token, Diagnostic> {
        let raw = &text[token.span.start as usize..token.span.end as usize];
        let is_string = matches!(token.kind, Kind::Str(_));
        if !is_string || !raw.lines().skip(1).any(|line| line.trim_start().starts_with('#')) {
            return Ok(token);
        }
        let (mut kept, mut groups) = (String::new(), Vec::new());
        let mut start = token.span.start as usize;
        for (number, line) in raw.split('\n').enumerate() {
            if number > 0 {
                kept.push('\n');
            }
            let end = start + line.len();
            let directive = line.trim_start().strip_prefix('#').unwrap_or_default().trim_start();
            let word = directive.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            if number > 0 && CONDITIONAL.contains(&word) {
                let mut lexer = Lexer::at(&text[..end], file, start);
                let hash = lexer.next()?.span;
                self.directive(&mut lexer, hash, &mut groups, file, None)?;
            } else if groups.last().is_none_or(|group| group.active) {
                kept.push_str(line);
            }
            start = end + 1;
        }
        if let Some(group) = groups.last() {
            return Err(Diagnostic::error(group.span, "this conditional group is not closed in the string"));
        }
        let kind = Lexer::new(&kept, file).next()?.kind;
        Ok(Token { kind, ..token })
    }

    /// Number of tokens before a call of a macro whose arguments are not closed.
    fn complete(&self, tokens: &[Token]) -> usize {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let start = at;
            at += 1;
            let called = match &token.kind {
                Kind::Ident(name) if !token.fixed => {
                    self.macros.get(name).is_some_and(|found| found.parameters.is_some())
                }
                _ => false,
            };
            if !called || !tokens.get(at).is_some_and(|next| next.is("(")) {
                continue;
            }
            let mut depth = 0;
            loop {
                match tokens.get(at).map(|token| &token.kind) {
                    None => return start,
                    Some(Kind::Punct("(")) => depth += 1,
                    Some(Kind::Punct(")")) => depth -= 1,
                    Some(_) => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        }
        tokens.len()
    }

    fn flush(&mut self, pending: Vec<Token>) -> Result<(), Diagnostic> {
        let mut output = std::mem::take(&mut self.output);
        let start = output.len();
        let result = Expander::new(self, false).run(pending, &mut output);
        self.output = output;
        result?;
        self.pragma_operators(start)
    }

    /// Processes a directive; returns the first token of the next line. `open` is a call around it.
    fn directive(
        &mut self,
        lexer: &mut Lexer<'_>,
        hash: Span,
        groups: &mut Vec<Group>,
        file: u32,
        open: Option<Span>,
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
        let conditional = CONDITIONAL.contains(&&*word);
        if !active && !conditional || matches!(&*word, "line" | "ident") {
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
        if &*word == "pragma" {
            let text = lexer.skip_line();
            self.pragma(text, hash.to(name.span), file)?;
            return lexer.next();
        }
        if &*word == "warning" {
            let text = format!("#warning {}", lexer.skip_line());
            self.warnings.push(Diagnostic::warning("invalid", hash.to(name.span), text));
            return lexer.next();
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
            if active {
                self.check_poisoned(&token)?;
            }
            line.push(token);
        };
        match &*word {
            "include" | "include_next" | "import" => match open {
                Some(call) => return Err(unclosed(call).note(name.span, "a file cannot be an argument")),
                None => self.include(&line, name.span, file, &word)?,
            },
            "define" => {
                let (name, found) = Macro::defined(&line, name.span)?;
                self.macros.insert(name, found);
            }
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
            "elif" | "elifdef" | "elifndef" | "else" => {
                let (outer, taken, seen) = match groups.last() {
                    Some(group) => (group.outer_active, group.taken, group.else_seen),
                    None => return Err(Diagnostic::error(name.span, format!("#{word} without #if"))),
                };
                if seen {
                    return Err(Diagnostic::error(name.span, format!("#{word} after #else")));
                }
                let active = outer
                    && !taken
                    && (&*word == "else" || self.group_condition(&word, &line, name.span, file)?);
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
        if matches!(word, "if" | "elif") {
            let line = self.resolve_includes(line, file)?;
            let mut expanded = Vec::new();
            Expander::new(self, true).run(line, &mut expanded)?;
            return condition::evaluate(&expanded, span);
        }
        match line.first().map(|token| &token.kind) {
            Some(Kind::Ident(name)) => Ok(self.is_defined(name) == word.ends_with("ifdef")),
            _ => Err(Diagnostic::error(span, format!("#{word} needs the name of a macro"))),
        }
    }

    /// Includes the file that a line names; `#include_next` looks for it after the folder of this file,
    /// `#import` includes it once.
    fn include(&mut self, line: &[Token], span: Span, file: u32, word: &str) -> Result<(), Diagnostic> {
        let Some((name, quoted)) = self.file_name(line)? else {
            return Err(Diagnostic::error(span, "#include needs a file").help("write #include <core.p4>"));
        };
        let place = line.first().map_or(span, |first| first.span.to(line[line.len() - 1].span));
        if self.depth >= MAX_DEPTH {
            return Err(Diagnostic::error(
                place,
                format!("files include one another more than {MAX_DEPTH} deep"),
            ));
        }
        for path in self.candidates(&name, quoted, file, word == "include_next") {
            let read = match belljar_inputs::read_at_most(&path, super::MAX_SOURCE as u64) {
                Err(error)
                    if belljar_inputs::is_irregular(&error) || error.kind() == ErrorKind::FileTooLarge =>
                {
                    let message = format!("{} cannot be read: {error}", path.display());
                    return Err(Diagnostic::error(place, message));
                }
                read => read,
            };
            if let Ok(bytes) = read {
                let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                if self.once.contains(&real) {
                    return Ok(());
                }
                if word == "import" {
                    self.once.insert(real);
                }
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let index = self.add_file(path.display().to_string(), text, false);
                return self.included(index);
            }
        }
        if let Some(text) = built_in(&name) {
            let index = self.add_file(format!("<{name}>"), text.to_string(), true);
            return self.included(index);
        }
        let help = format!("name its folder with -I; built in are core.p4 and v1model.p4, not {name}");
        Err(Diagnostic::error(place, format!("file {name} not found")).help(help))
    }

    fn included(&mut self, index: u32) -> Result<(), Diagnostic> {
        self.depth += 1;
        let result = self.file(index);
        self.depth -= 1;
        result
    }

    /// Name of an included file, and true if it is quoted; macros are expanded. `None` if the tokens are
    /// something else.
    fn file_name(&self, line: &[Token]) -> Result<Option<(String, bool)>, Diagnostic> {
        let mut tokens = line.to_vec();
        let expanded = tokens.first().is_some_and(|token| matches!(token.kind, Kind::Ident(_)));
        if expanded {
            tokens.clear();
            Expander::new(self, false).run(line.to_vec(), &mut tokens)?;
        }
        Ok(match tokens.as_slice() {
            [Token { kind: Kind::Str(name), .. }, ..] => Some((name.to_string(), true)),
            [first, inner @ .., last] if first.is("<") && last.is(">") => {
                let name = if expanded {
                    inner.iter().map(Token::spelling).collect::<String>()
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
        // The program itself was found in no folder.
        if next && self.depth > 0 {
            let passed = dirs.iter().position(|dir| **dir == own).map_or(0, |own| own + 1);
            dirs.drain(..passed);
        } else if quoted {
            dirs.insert(0, &own);
        }
        dirs.into_iter().map(|dir| dir.join(name)).collect()
    }

    /// Replaces `__has_include(<file>)` and `__has_include_next(<file>)` by 1 or 0.
    fn resolve_includes(&self, line: &[Token], file: u32) -> Result<Vec<Token>, Diagnostic> {
        let (mut output, mut at) = (Vec::new(), 0);
        while at < line.len() {
            let token = &line[at];
            at += 1;
            let Some(word) = HAS_INCLUDE.iter().find(|word| token.is_word(word)) else {
                output.push(token.clone());
                continue;
            };
            if !line.get(at).is_some_and(|next| next.is("(")) {
                // The operand of `defined`.
                output.push(token.clone());
                continue;
            }
            let Some(length) = line[at..].iter().position(|token| token.is(")")) else {
                return Err(Diagnostic::error(token.span, format!("')' is missing after {word}")));
            };
            let Some((name, quoted)) = self.file_name(&line[at + 1..at + length])? else {
                return Err(Diagnostic::error(token.span, format!("{word} needs a file")));
            };
            let found = built_in(&name).is_some()
                || self
                    .candidates(&name, quoted, file, *word == HAS_INCLUDE[1])
                    .iter()
                    .any(|path| path.is_file());
            output.push(Token { kind: Kind::number(u8::from(found)), ..token.clone() });
            at += length + 1;
        }
        Ok(output)
    }
}

/// Error of a macro whose arguments have no end.
fn unclosed(call: Span) -> Diagnostic {
    Diagnostic::error(call, "the arguments of this macro are not closed").help("write ')'")
}
