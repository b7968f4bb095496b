//! Annotations, and the names that they give in the control plane.

use super::Checker;
use crate::front::ast::{self, Annotations};
use crate::front::lex::Kind;

impl Checker {
    /// The form of annotations that the language knows, and of structured ones.
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
            let list = annotation.body.iter().find(|token| token.is("{"));
            if let (true, Some(token)) = (annotation.structured, list) {
                self.error(token.span, "a structured annotation holds numbers, strings and truth values");
            }
            if &*name == "match"
                && !matches!(annotation.body.as_slice(), [token] if matches!(token.kind, Kind::Ident(_)))
            {
                self.error(annotation.name.span, "@match takes a match kind");
            }
            let text = annotation.body.iter().all(|token| match &token.kind {
                Kind::Str(_) | Kind::Ident(_) => true,
                Kind::Int(..) => false,
                _ => token.is("++") || token.is("(") || token.is(")") || token.is("."),
            });
            if matches!(&*name, "name" | "deprecated") && !annotation.structured && !text {
                self.error(annotation.name.span, format!("@{name} takes a string"));
            }
        }
    }

    /// Remembers the name of an action or table in the control plane; two cannot have the same.
    pub(super) fn control_plane_name(&mut self, decl: &ast::Decl, block: &str, kind: &'static str) {
        let annotation = Self::annotation(&decl.annotations, "name");
        let given = annotation.and_then(|annotation| match annotation.body.as_slice() {
            [token] => match &token.kind {
                Kind::Str(text) => Some(text.to_string()),
                _ => None,
            },
            _ => None,
        });
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
