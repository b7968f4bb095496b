//! Recognition of P4_14, whose sources get one error instead of a syntax error in their first line.

use super::lex::{Kind, Lexer};
use super::source::{Diagnostic, Sources, Span};

/// Words that open a declaration `WORD NAME {` in P4_14 and never in P4_16.
const OPENING: &[&str] = &[
    "action_profile",
    "action_selector",
    "blackbox_type",
    "calculated_field",
    "control",
    "counter",
    "field_list",
    "field_list_calculation",
    "header_type",
    "meter",
    "parser",
    "register",
    "table",
];

/// Error about the first declaration of P4_14 in the files that have been read; `None` if there is none.
pub fn refusal(sources: &Sources) -> Option<Diagnostic> {
    let own = sources.files.iter().enumerate().filter(|(_, file)| !file.built_in);
    let span = own.filter_map(|(number, file)| declaration(&file.text, number as u32)).next()?;
    Some(
        Diagnostic::error(span, "this is a P4_14 program, and Belljar compiles P4_16")
            .help("translate it with p4c: p4test --std p4-14 OLD.p4 --pp NEW.p4"),
    )
}

/// First declaration of P4_14 outside of all braces.
fn declaration(text: &str, file: u32) -> Option<Span> {
    let mut lexer = Lexer::new(text, file);
    let (mut depth, mut opening, mut named) = (0u32, None, false);
    loop {
        let token = lexer.next().ok()?;
        if token.starts_line && token.is("#") {
            // Macros of P4_16 may begin in the middle of a control.
            lexer.skip_line();
            continue;
        }
        match &token.kind {
            Kind::End => return None,
            Kind::Punct("{") if named => return opening,
            Kind::Ident(_) if opening.is_some() && !named => {
                named = true;
                continue;
            }
            Kind::Ident(word) if depth == 0 && OPENING.contains(&&**word) => {
                (opening, named) = (Some(token.span), false);
                continue;
            }
            Kind::Punct("{") => depth += 1,
            Kind::Punct("}") => depth = depth.saturating_sub(1),
            _ => {}
        }
        (opening, named) = (None, false);
    }
}
