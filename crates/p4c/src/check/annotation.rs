//! Annotations and the control-plane names that they define.

use super::Checker;
use crate::ast::{self, Annotation, Annotations, Constant};
use crate::lex::{Kind, Token};
use crate::p4info::{PACKAGE_PROPERTIES, PLATFORM_PROPERTIES};
use crate::parse::{Arguments, arguments};
use crate::source::Span;
use crate::typed::ExprKind;
use crate::types::Type;
use num_traits::ToPrimitive;

/// Warnings that `@noWarn("...")` disables, each with the range of the annotated declaration.
pub(crate) fn quiet(program: &[ast::Decl]) -> Vec<(&'static str, Span)> {
    let mut list = Vec::new();
    for decl in program {
        for annotation in decl.annotations.iter().filter(|annotation| &*annotation.name.name == "noWarn") {
            for name in annotation.texts() {
                if let Some(name) = crate::warning_named(name) {
                    list.push((name, decl.span.to(decl.name.span)));
                }
            }
        }
        if let ast::DeclKind::Control(_, _, locals, _) | ast::DeclKind::Parser(_, _, locals, _) = &decl.kind {
            list.extend(quiet(locals));
        }
    }
    list
}

impl Checker {
    /// Checks the arguments of annotations known to the language and of structured annotations.
    pub(super) fn check_annotations(&mut self, annotations: &Annotations) {
        for (index, annotation) in annotations.iter().enumerate() {
            let name = annotation.name.name.clone();
            let twice = annotations[..index]
                .iter()
                .find(|other| other.name.name == name && (other.structured || annotation.structured));
            if let Some(first) = twice {
                let first = first.name.span;
                self.error(annotation.name.span, format!("@{name} is given twice"))
                    .notes
                    .push((first, "the first".into()));
            }
            if &*name == "match"
                && !matches!(annotation.body.as_slice(), [token] if matches!(token.kind, Kind::Ident(_)))
            {
                self.error(annotation.name.span, "@match takes a match kind");
            }
            if &*name == "p4runtime_translation" && !annotation.structured {
                let comma = |token: &Token| token.is(",");
                let translation = match annotation.body.as_slice() {
                    [uri, separator, rest @ ..] if comma(separator) && matches!(uri.kind, Kind::Str(_)) => {
                        match rest {
                            [one] => matches!(one.kind, Kind::Int(..)) || one.is_word("string"),
                            [bit, open, width, close] => {
                                bit.is_word("bit")
                                    && open.is("<")
                                    && matches!(width.kind, Kind::Int(..))
                                    && close.is(">")
                            }
                            _ => false,
                        }
                    }
                    _ => false,
                };
                if !translation {
                    let text = "@p4runtime_translation takes a URI and a width or string";
                    self.error(annotation.name.span, text).help =
                        Some("write @p4runtime_translation(\"uri\", 32) or (\"uri\", string)".into());
                }
            }
            if &*name == "noWarn" {
                for token in &annotation.body {
                    let Kind::Str(given) = &token.kind else { continue };
                    if crate::warning_named(given).is_none() && !annotation.structured {
                        self.unknown_warning(given, token.span);
                    }
                }
            }
            self.evaluate(annotation);
        }
    }

    /// Evaluates the compile-time arguments of an annotation.
    fn evaluate(&mut self, annotation: &Annotation) {
        let Some(form) = arguments(annotation) else { return };
        let name = &annotation.name.name;
        let one = match form {
            Arguments::Empty => return,
            Arguments::Numbers | Arguments::Pairs | Arguments::Any => false,
            Arguments::Number => true,
            Arguments::Text => &**name != "noWarn" || annotation.args.is_empty(),
        };
        if one && annotation.args.len() != 1 {
            let noun = if form == Arguments::Text { "string" } else { "number" };
            let count = annotation.args.len();
            self.error(annotation.name.span, format!("@{name} takes one {noun}, not {count}"));
            return;
        }
        let mut values = Vec::new();
        for arg in &annotation.args {
            let value = self.expr(arg);
            if value.ty == Type::Poison {
                return;
            }
            let value = self.enum_as_number(value);
            values.push(match (&value.kind, form) {
                (ExprKind::Str(text), Arguments::Text | Arguments::Pairs | Arguments::Any) => {
                    Constant::Text(text.clone())
                }
                (ExprKind::Bool(truth), Arguments::Pairs | Arguments::Any) => Constant::Truth(*truth),
                (ExprKind::Int(number, _), Arguments::Pairs | Arguments::Any)
                    if number.to_i64().is_some() =>
                {
                    Constant::Number(number.clone())
                }
                (_, Arguments::Pairs | Arguments::Any) => {
                    let text =
                        format!("@{name} takes numbers, strings and truth values known at compile time");
                    self.error(arg.span, text).help = Some("numbers have at most 64 bits".into());
                    return;
                }
                (ExprKind::Int(number, _), Arguments::Number | Arguments::Numbers) => {
                    if number.to_u32().is_none() {
                        self.error(arg.span, format!("{number} is not a number for @{name}")).help =
                            Some(format!("the numbers are 0 to {}", u32::MAX));
                        return;
                    }
                    Constant::Number(number.clone())
                }
                (_, Arguments::Text) => {
                    self.error(arg.span, format!("@{name} takes a string")).help =
                        Some("write it in quotes".into());
                    return;
                }
                _ => {
                    let help = "write a number, a constant, or a member of an enum with an underlying type";
                    let text = format!("the argument of @{name} must be a number known at compile time");
                    self.error(arg.span, text).help = Some(help.into());
                    return;
                }
            });
        }
        if form == Arguments::Pairs {
            self.check_properties(annotation, &values);
        }
        // The annotations of a declaration are evaluated once.
        let _ = annotation.values.set(values);
    }

    /// Refuses values of `@pkginfo` and `@platform_property` that P4Info cannot hold; warns of unknown keys.
    fn check_properties(&mut self, annotation: &Annotation, values: &[Constant]) {
        let name = &*annotation.name.name;
        let is_package = name == "pkginfo";
        let known: &[&str] = if is_package { &PACKAGE_PROPERTIES } else { &PLATFORM_PROPERTIES };
        for ((key, value), arg) in annotation.keys.iter().zip(values).zip(&annotation.args) {
            let is_arch = is_package && &**key == "arch";
            if !known.contains(&&**key) && !is_arch {
                let help = format!("it has: {}", known.join(", "));
                self.warn("invalid", arg.span, format!("@{name} has no key '{key}'")).help = Some(help);
                continue;
            }
            let fits = match value {
                Constant::Text(_) => is_package,
                Constant::Number(number) => !is_package && number.to_i32().is_some(),
                Constant::Truth(_) => false,
            };
            if !fits {
                let kind = if is_package { "a string" } else { "a number of 32 bits" };
                self.error(arg.span, format!("'{key}' of @{name} must be {kind}"));
            } else if is_arch {
                self.warn("invalid", arg.span, "'arch' of @pkginfo is known to the compiler".to_string());
            }
        }
    }

    /// Warns of an unknown warning name that resembles a known one. Other unknown names may be warnings of
    /// p4c.
    fn unknown_warning(&mut self, given: &str, span: Span) {
        let known: Vec<std::rc::Rc<str>> = crate::WARNINGS.iter().map(|name| (*name).into()).collect();
        if let Some(near) = super::closest(given, known.iter()) {
            self.warn("invalid", span, format!("no warning is called '{given}'")).help =
                Some(format!("did you mean '{near}'?"));
        }
    }

    /// Registers the control-plane name of an action or table; reports a duplicate.
    pub(super) fn control_plane_name(&mut self, decl: &ast::Decl, block: &str, kind: &'static str) {
        let annotation = Self::annotation(&decl.annotations, "name");
        let given = annotation.and_then(|annotation| annotation.texts().next()).map(ToString::to_string);
        let local = given.unwrap_or_else(|| decl.name.name.to_string());
        let name = match local.strip_prefix('.') {
            Some(absolute) => absolute.to_string(),
            None if block.is_empty() => local,
            None => format!("{block}.{local}"),
        };
        let span = annotation.map_or(decl.name.span, |annotation| annotation.name.span);
        match self.control_plane_names.get(&(kind, name.clone())) {
            Some(first) if annotation.is_some() => {
                let first = *first;
                self.error(span, format!("another {kind} has the name '{name}' in the control plane"))
                    .notes
                    .push((first, "the other".into()));
            }
            Some(_) => {}
            None => {
                self.control_plane_names.insert((kind, name), span);
            }
        }
    }
}
