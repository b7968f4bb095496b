//! `#pragma` and `_Pragma`: those of cpp that change what follows. All others are skipped.

use super::Preprocessor;
use crate::lex::{Kind, Lexer, Token, unescape};
use crate::source::{Diagnostic, Span};
use std::path::PathBuf;
use std::rc::Rc;

impl Preprocessor<'_> {
    /// Acts on the text of a pragma.
    pub(super) fn pragma(&mut self, text: &str, span: Span, file: u32) -> Result<(), Diagnostic> {
        let mut lexer = Lexer::new(text, span.file);
        let mut words = Vec::new();
        // The text is that of another compiler if its tokens are not those of P4.
        while let Ok(token) = lexer.next() {
            if token.kind == Kind::End {
                break;
            }
            words.push(token.kind);
        }
        match words.as_slice() {
            [Kind::Ident(word), ..] if &**word == "once" => {
                let path = PathBuf::from(&self.sources.files[file as usize].name);
                self.once.insert(std::fs::canonicalize(&path).unwrap_or(path));
            }
            [Kind::Ident(word), rest @ ..] if matches!(&**word, "push_macro" | "pop_macro") => {
                let [Kind::Punct("("), Kind::Str(name), Kind::Punct(")"), ..] = rest else {
                    let text = format!("#pragma {word} needs the name of a macro");
                    return Err(Diagnostic::error(span, text).help(format!("write {word}(\"NAME\")")));
                };
                self.save_or_restore(word, name);
            }
            [Kind::Ident(gcc), Kind::Ident(word), rest @ ..] if &**gcc == "GCC" => {
                self.gcc_pragma(word, rest, span)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn save_or_restore(&mut self, word: &str, name: &Rc<str>) {
        let saved = self.saved.entry(name.clone()).or_default();
        if word == "push_macro" {
            saved.push(self.macros.get(name).cloned());
            return;
        }
        match saved.pop() {
            Some(Some(found)) => drop(self.macros.insert(name.clone(), found)),
            Some(None) => drop(self.macros.remove(name)),
            None => {}
        }
    }

    fn gcc_pragma(&mut self, word: &str, rest: &[Kind], span: Span) -> Result<(), Diagnostic> {
        match (word, rest) {
            ("poison", names) => {
                let name = |kind: &Kind| match kind {
                    Kind::Ident(name) => Some(name.clone()),
                    _ => None,
                };
                self.poisoned.extend(names.iter().filter_map(name));
            }
            ("error", [Kind::Str(text), ..]) => {
                return Err(Diagnostic::error(span, format!("#pragma GCC error: {}", unescape(text))));
            }
            ("warning", [Kind::Str(text), ..]) => {
                let text = format!("#pragma GCC warning: {}", unescape(text));
                self.warnings.push(Diagnostic::warning("invalid", span, text));
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses a name that is poisoned.
    pub(super) fn check_poisoned(&self, token: &Token) -> Result<(), Diagnostic> {
        match &token.kind {
            Kind::Ident(name) if self.poisoned.contains(name) => {
                Err(Diagnostic::error(token.span, format!("'{name}' was poisoned by #pragma GCC poison")))
            }
            _ => Ok(()),
        }
    }

    /// Acts on the `_Pragma` operators of the output from the token `start` on, and removes them.
    pub(super) fn pragma_operators(&mut self, start: usize) -> Result<(), Diagnostic> {
        if !self.output[start..].iter().any(|token| token.is_word("_Pragma")) {
            return Ok(());
        }
        let tokens = self.output.split_off(start);
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            if !token.is_word("_Pragma") {
                self.output.push(token.clone());
                continue;
            }
            let [open, Token { kind: Kind::Str(text), .. }, close, ..] = &tokens[at..] else {
                return Err(no_string(token.span));
            };
            if !open.is("(") || !close.is(")") {
                return Err(no_string(token.span));
            }
            at += 3;
            self.pragma(&unescape(text), token.span, token.span.file)?;
        }
        Ok(())
    }
}

fn no_string(span: Span) -> Diagnostic {
    Diagnostic::error(span, "_Pragma takes a string in parentheses").help("write _Pragma(\"once\")")
}
