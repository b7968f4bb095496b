//! Macro expansion, by the algorithm of GNU cpp.
//!
//! Tokens come from a stack of contexts: the source at the bottom, above it the bodies of the macros that are
//! being expanded. A macro is disabled while its body is on the stack; its name is then marked and never
//! replaced. A call of a function-like macro may begin at the end of a body and take its arguments from the
//! contexts below, which ends the body and enables the macro again. The C standard leaves this open; the
//! algorithm decides it as cpp does.

use super::macros::{Macro, Meaning, Piece};
use super::{HAS_INCLUDE, MAX_TOKENS, Preprocessor};
use crate::lex::{Kind, Lexer, Token, escape};
use crate::source::{Diagnostic, Span};
use std::rc::Rc;

/// Macros that the preprocessor computes.
pub const COMPUTED: [&str; 5] = ["__LINE__", "__FILE__", "__BASE_FILE__", "__COUNTER__", "__INCLUDE_LEVEL__"];
/// Maximum nesting of macros, and of arguments in arguments.
const MAX_NESTING: usize = 200;
/// Maximum number of tokens of one body or argument.
const MAX_BODY: usize = 1_000_000;
/// Maximum number of tokens read to expand a program.
const MAX_READ: usize = 2 * MAX_TOKENS;

/// Tokens that are being read.
struct Context {
    tokens: Vec<Token>,
    at: usize,
    /// Macro of which this is the body.
    of: Option<Rc<str>>,
}

/// Expansion of a list of tokens.
pub struct Expander<'a> {
    state: &'a Preprocessor<'a>,
    stack: Vec<Context>,
    /// Index of the lowest context that may be read: arguments are expanded on their own.
    base: usize,
    /// Position of the outermost macro that is being expanded.
    place: Span,
    /// True for the condition of an `#if`: `defined` is evaluated, and tokens keep their positions.
    condition: bool,
    /// White space, and start of a line, before the next token: those of a macro with an empty body.
    spaced: bool,
    starts_line: bool,
}

impl<'a> Expander<'a> {
    /// Creates an expander; `condition` is true for the condition of an `#if`.
    pub fn new(state: &'a Preprocessor<'a>, condition: bool) -> Expander<'a> {
        Expander {
            state,
            stack: Vec::new(),
            base: 0,
            place: Span::default(),
            condition,
            spaced: false,
            starts_line: false,
        }
    }

    /// Appends the expansion of `tokens` to `output`.
    pub fn run(&mut self, tokens: Vec<Token>, output: &mut Vec<Token>) -> Result<(), Diagnostic> {
        let outer = std::mem::replace(&mut self.base, self.stack.len());
        let limit = if self.base == 0 { MAX_TOKENS } else { MAX_BODY };
        self.stack.push(Context { tokens, at: 0, of: None });
        // p4c skips the lines of cpp's output that begin with '#', also where a macro put it there.
        let (is_output, mut skipped) = (self.base == 0 && !self.condition, false);
        while let Some(token) = self.next()? {
            if is_output && token.starts_line {
                skipped = token.is("#");
            }
            if skipped {
                continue;
            }
            if output.len() >= limit {
                return Err(self.too_much(token.span));
            }
            output.push(token);
        }
        self.stack.truncate(self.base);
        self.base = outer;
        Ok(())
    }

    fn too_much(&self, span: Span) -> Diagnostic {
        let span = if self.in_macro() { self.place } else { span };
        Diagnostic::error(span, "the macros expand to too much")
    }

    /// True if tokens come from a macro or an argument.
    fn in_macro(&self) -> bool {
        self.stack.len() > 1
    }

    fn is_disabled(&self, name: &str) -> bool {
        self.stack.iter().any(|context| context.of.as_deref() == Some(name))
    }

    /// Next token without expansion; ends the bodies that are read. A macro inside its own body is marked.
    fn raw(&mut self) -> Option<Token> {
        loop {
            let base = self.base;
            let last = self.stack.len().checked_sub(1)?;
            let context = &mut self.stack[last];
            if let Some(token) = context.tokens.get(context.at) {
                context.at += 1;
                let mut token = token.clone();
                if let Kind::Ident(name) = &token.kind {
                    token.fixed |= self.is_disabled(name);
                }
                return Some(token);
            }
            if last == base {
                return None;
            }
            self.stack.pop();
        }
    }

    /// True if the next token is `(`; ends the bodies that are read.
    fn call_follows(&mut self) -> bool {
        while let Some(context) = self.stack.last() {
            if let Some(token) = context.tokens.get(context.at) {
                return token.is("(");
            }
            if self.stack.len() - 1 == self.base {
                return false;
            }
            self.stack.pop();
        }
        false
    }

    fn next(&mut self) -> Result<Option<Token>, Diagnostic> {
        loop {
            let inside = self.in_macro();
            let Some(token) = self.raw() else { return Ok(None) };
            self.state.read.set(self.state.read.get() + 1);
            if self.state.read.get() > MAX_READ || self.stack.len() > MAX_NESTING {
                return Err(self.too_much(token.span));
            }
            if !(inside && self.in_macro()) {
                self.place = token.span;
            }
            let name = match &token.kind {
                Kind::Ident(name) if !token.fixed => name.clone(),
                _ => return Ok(Some(self.finished(token))),
            };
            if self.condition && &*name == "defined" {
                let value = self.defined();
                let kind = Kind::number(u8::from(value));
                return Ok(Some(self.finished(Token { kind, ..token })));
            }
            let Some(found) = self.state.macros.get(&name) else {
                let kind = self.computed(&name).unwrap_or(token.kind);
                return Ok(Some(self.finished(Token { kind, ..token })));
            };
            let arguments = match &found.parameters {
                None => Vec::new(),
                Some(_) if !self.call_follows() => return Ok(Some(self.finished(token))),
                Some(parameters) => self.arguments(&name, found, parameters.len())?,
            };
            let (mut body, begins_empty) = self.substitute(found, &arguments)?;
            match body.first_mut() {
                Some(first) => {
                    // White space in the body counts only behind an empty argument.
                    first.spaced = token.spaced || begins_empty && first.spaced;
                    first.starts_line = token.starts_line;
                }
                None => {
                    self.spaced |= token.spaced;
                    self.starts_line |= token.starts_line;
                }
            }
            self.stack.push(Context { tokens: body, at: 0, of: Some(name) });
        }
    }

    /// A token of the output: one from a macro has the position of the macro's use.
    fn finished(&mut self, mut token: Token) -> Token {
        token.spaced |= std::mem::take(&mut self.spaced);
        token.starts_line |= std::mem::take(&mut self.starts_line);
        if !self.condition && self.base == 0 {
            token.span = self.place;
        }
        token
    }

    /// Evaluates the operand of `defined`.
    fn defined(&mut self) -> bool {
        let parenthesis = self.call_follows();
        if parenthesis {
            self.raw();
        }
        let value = match self.raw().map(|token| token.kind) {
            Some(Kind::Ident(name)) => self.state.is_defined(&name),
            _ => false,
        };
        if parenthesis {
            self.raw();
        }
        value
    }

    fn computed(&self, name: &str) -> Option<Kind> {
        let number = |value: usize| Some(Kind::number(value));
        let files = &self.state.sources.files;
        match name {
            "__LINE__" => number(self.state.sources.position(self.place).0),
            "__FILE__" => Some(Kind::Str(escape(&files.get(self.place.file as usize)?.name).into())),
            "__BASE_FILE__" => Some(Kind::Str(escape(&files.first()?.name).into())),
            "__COUNTER__" => {
                let count = self.state.counter.get();
                self.state.counter.set(count + 1);
                number(count)
            }
            "__INCLUDE_LEVEL__" => number(self.state.depth),
            _ => None,
        }
    }

    /// Reads the arguments of a call from its `(`. `None` stands for a variadic argument that is left out.
    fn arguments(
        &mut self,
        name: &str,
        found: &Macro,
        parameters: usize,
    ) -> Result<Vec<Option<Vec<Token>>>, Diagnostic> {
        let place = self.place;
        let limit = if found.variadic { parameters } else { usize::MAX };
        let mut depth = 0;
        let mut list = vec![Vec::new()];
        loop {
            let Some(token) = self.raw() else { return Err(super::unclosed(place)) };
            if token.is("(") {
                depth += 1;
                if depth == 1 {
                    continue;
                }
            } else if token.is(")") {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else if token.is(",") && depth == 1 && list.len() < limit {
                list.push(Vec::new());
                continue;
            }
            if let Some(last) = list.last_mut() {
                last.push(token);
            }
        }
        let empty = list.len() == 1 && list[0].is_empty();
        if empty && (parameters == 0 || found.variadic && parameters == 1) {
            list.clear();
        }
        let mut list = list.into_iter().map(Some).collect::<Vec<_>>();
        if found.variadic && list.len() + 1 == parameters {
            list.push(None);
        }
        if list.len() != parameters {
            let count = list.len();
            return Err(Diagnostic::error(
                place,
                format!("macro {name} takes {parameters} arguments, not {count}"),
            ));
        }
        Ok(list)
    }

    /// Body of a macro with its arguments; true if it begins with an empty argument.
    fn substitute(
        &mut self,
        found: &Macro,
        arguments: &[Option<Vec<Token>>],
    ) -> Result<(Vec<Token>, bool), Diagnostic> {
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; arguments.len()];
        // As in cpp, arguments are expanded in the order of the body, also those in `__VA_OPT__` that is left
        // out.
        let mut with_optional = None;
        for (at, piece) in found.body.iter().enumerate() {
            if let (true, None, Some(last)) = (piece.optional, with_optional, arguments.len().checked_sub(1))
            {
                with_optional = Some(!self.argument(last, arguments, &mut expanded)?.is_empty());
            }
            let pasted = piece.pasted || found.body.get(at + 1).is_some_and(|next| next.pasted);
            if let (Meaning::Parameter(index), false) = (piece.meaning, pasted) {
                self.argument(index, arguments, &mut expanded)?;
            }
        }
        let with_optional = with_optional.unwrap_or(true);
        let mut result: Vec<Token> = Vec::new();
        // White space before empty arguments, which the next token has.
        let (mut begins_empty, mut spaced) = (false, false);
        let pieces = found.body.iter().filter(|piece| with_optional || !piece.optional).collect::<Vec<_>>();
        for (at, piece) in pieces.iter().enumerate() {
            let pasted_next = pieces.get(at + 1).is_some_and(|next| next.pasted);
            let mut tokens = match piece.meaning {
                Meaning::Token if piece.token.is_word("") => Vec::new(),
                Meaning::Token => vec![piece.token.clone()],
                Meaning::Text(index) => vec![self.text_of(arguments[index].as_deref(), &piece.token)],
                Meaning::Parameter(index) if piece.pasted || pasted_next => {
                    let last = found.variadic && index + 1 == arguments.len();
                    if last && piece.pasted && result.last().is_some_and(|last| last.is(",")) {
                        // `, ## __VA_ARGS__`: the comma goes if the argument is left out; nothing is pasted.
                        match &arguments[index] {
                            Some(tokens) => result.extend(tokens.iter().cloned()),
                            None => drop(result.pop()),
                        }
                        continue;
                    }
                    spaced_as(&piece.token, arguments[index].clone().unwrap_or_default())
                }
                Meaning::Parameter(index) => {
                    spaced_as(&piece.token, self.argument(index, arguments, &mut expanded)?)
                }
            };
            match tokens.first_mut() {
                Some(first) if !piece.pasted => first.spaced |= std::mem::take(&mut spaced),
                None if !piece.pasted && !pasted_next => match at {
                    0 => begins_empty = true,
                    _ => spaced |= piece.token.spaced,
                },
                _ => {}
            }
            self.append(&mut result, tokens, piece, pasted_next);
            if result.len() > MAX_BODY {
                return Err(self.too_much(piece.token.span));
            }
        }
        result.retain(|token| !token.is_word(""));
        result.iter_mut().for_each(|token| token.starts_line = false);
        Ok((result, begins_empty))
    }

    /// Appends the tokens of a piece; `##` before it joins the first of them to the last token.
    fn append(&self, result: &mut Vec<Token>, tokens: Vec<Token>, piece: &Piece, pasted_next: bool) {
        let mut tokens = tokens.into_iter();
        if piece.pasted
            && let Some(left) = result.pop()
        {
            match tokens.next() {
                Some(right) => {
                    let in_number = ends_number(result, &left);
                    result.extend(self.paste(left, right, in_number));
                }
                None => result.push(left),
            }
        } else if tokens.len() == 0 && pasted_next {
            // An empty operand of `##`.
            result.push(Token { kind: Kind::Ident("".into()), ..piece.token.clone() });
        }
        result.extend(tokens);
    }

    /// Argument with its macros expanded.
    fn argument(
        &mut self,
        index: usize,
        arguments: &[Option<Vec<Token>>],
        expanded: &mut [Option<Vec<Token>>],
    ) -> Result<Vec<Token>, Diagnostic> {
        if let Some(done) = &expanded[index] {
            return Ok(done.clone());
        }
        let mut result = Vec::new();
        let saved = (std::mem::take(&mut self.spaced), std::mem::take(&mut self.starts_line), self.place);
        self.run(arguments[index].clone().unwrap_or_default(), &mut result)?;
        (self.spaced, self.starts_line, self.place) = saved;
        expanded[index] = Some(result.clone());
        Ok(result)
    }

    /// `#x`: the argument as a string.
    fn text_of(&self, argument: Option<&[Token]>, at: &Token) -> Token {
        let mut text = String::new();
        for (index, token) in argument.unwrap_or_default().iter().enumerate() {
            if index > 0 && token.spaced {
                text.push(' ');
            }
            let spelling = token.spelling();
            match token.kind {
                Kind::Str(_) | Kind::Char(_) => text.push_str(&escape(&spelling)),
                _ => text.push_str(&spelling),
            }
        }
        // cpp drops a backslash that would escape the closing quote.
        if text.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 {
            text.pop();
        }
        let quoted = format!("\"{text}\"");
        let kind = Lexer::new(&quoted, at.span.file).next().map(|token| token.kind);
        Token { kind: kind.unwrap_or(Kind::Str(text.into())), ..at.clone() }
    }

    /// Pastes two tokens to one, or keeps both if they do not form one: p4c runs the preprocessor for
    /// assembler, which accepts this.
    fn paste(&self, left: Token, right: Token, in_number: bool) -> Vec<Token> {
        match (left.is_word(""), right.is_word("")) {
            (true, _) => return vec![Token { spaced: left.spaced, ..right }],
            (_, true) => return vec![left],
            _ => {}
        }
        // A number of C is one token: it is pasted whole, so to another number only.
        if right.open && !in_number {
            return vec![left, right];
        }
        let text = format!("{}{}", left.spelling(), right.spelling());
        let mut lexer = Lexer::new(&text, left.span.file);
        match (lexer.next(), lexer.next()) {
            (Ok(Token { kind, .. }), Ok(Token { kind: Kind::End, .. })) => {
                vec![Token { kind, fixed: left.fixed && in_number, open: left.open || right.open, ..left }]
            }
            _ => vec![left, right],
        }
    }
}

/// True if `last`, which follows `tokens`, is a number or the last part of one of C such as `1..MAX`.
fn ends_number(tokens: &[Token], last: &Token) -> bool {
    if last.spelling().starts_with(|c: char| c.is_ascii_digit()) {
        return true;
    }
    let mut part = last;
    for before in tokens.iter().rev() {
        if !part.fixed || part.spaced {
            return false;
        }
        if before.open {
            return true;
        }
        part = before;
    }
    false
}

/// Tokens of an argument with the white space of its parameter before them.
fn spaced_as(parameter: &Token, mut tokens: Vec<Token>) -> Vec<Token> {
    if let Some(first) = tokens.first_mut() {
        first.spaced = parameter.spaced;
    }
    tokens
}

impl Preprocessor<'_> {
    /// True if `#ifdef` finds a macro of this name.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.macros.contains_key(name)
            || HAS_INCLUDE.contains(&name)
            || name == "_Pragma"
            || COMPUTED.contains(&name)
    }
}
