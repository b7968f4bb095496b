//! Warnings about unused declarations.

use super::Checker;
use crate::ast::Ident;
use crate::source::Severity;
use crate::typed::DeclKind;
use crate::types::{DeclId, DefId, DefKind, ParamDef, Type};

impl Checker {
    /// Registers a variable or parameter for the `unused` warning.
    pub(super) fn watch(&mut self, decl: DeclId, noun: &'static str) {
        self.watched.push((decl, noun));
    }

    /// Marks the control or parser that a type names as used.
    pub(super) fn name_type(&mut self, ty: &Type) {
        if let Type::Named(id, _) = ty {
            self.instantiated.insert(*id);
        }
    }

    /// Registers parameters for the `unused` warning.
    pub(super) fn watch_params(&mut self, params: &[ParamDef]) {
        self.watched.extend(params.iter().map(|param| (param.decl, "parameter")));
    }

    /// Registers a control or parser with a body for the `unused` warning.
    pub(super) fn watch_block(&mut self, block: DefId) {
        self.watched_blocks.push(block);
    }

    /// Warns about registered declarations without a use. Suppressed after errors, since uses may then have
    /// been missed.
    pub(super) fn warn_unused(&mut self) {
        if self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return;
        }
        let mut found: Vec<(Ident, String)> = Vec::new();
        for (decl, noun) in &self.watched {
            let name = &self.program.decls[*decl].name;
            let is_main = self.program.main == Some(*decl);
            // Names with a leading double underscore, such as `__v1model_version`, are reserved for
            // compilers.
            if !self.used.contains(decl) && !is_main && !name.name.starts_with("__") {
                let verb = if matches!(self.program.decls[*decl].kind, DeclKind::Table(_)) {
                    "applied"
                } else {
                    "used"
                };
                found.push((name.clone(), format!("{noun} '{}' is never {verb}", name.name)));
            }
        }
        for block in &self.watched_blocks {
            let def = &self.program.defs[*block];
            if let (DefKind::Block(parser, ..), false) = (&def.kind, self.instantiated.contains(block)) {
                let noun = if *parser { "parser" } else { "control" };
                found.push((def.name.clone(), format!("{noun} '{}' is never used", def.name.name)));
            }
        }
        found.sort_by_key(|(name, _)| name.span);
        for (name, text) in found {
            self.warn("unused", name.span, text);
        }
    }
}
