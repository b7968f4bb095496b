//! Warnings about what a program declares and never uses.

use super::Checker;
use crate::ast::Ident;
use crate::source::Severity;
use crate::typed::DeclKind;
use crate::types::{DeclId, DefId, DefKind, ParamDef, Type};

impl Checker {
    /// A variable or parameter is to be told if nothing names it.
    pub(super) fn watch(&mut self, decl: DeclId, noun: &'static str) {
        self.watched.push((decl, noun));
    }

    /// A type is named: controls and parsers are used by it.
    pub(super) fn name_type(&mut self, ty: &Type) {
        if let Type::Named(id, _) = ty {
            self.instantiated.insert(*id);
        }
    }

    /// The same for each of these parameters.
    pub(super) fn watch_params(&mut self, params: &[ParamDef]) {
        self.watched.extend(params.iter().map(|param| (param.decl, "parameter")));
    }

    /// A control or parser with a body is to be told if nothing instantiates it.
    pub(super) fn watch_block(&mut self, block: DefId) {
        self.watched_blocks.push(block);
    }

    /// Warns about everything that was watched in vain. After errors nothing is certain.
    pub(super) fn warn_unused(&mut self) {
        if self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return;
        }
        let mut found: Vec<(Ident, String)> = Vec::new();
        for (decl, noun) in &self.watched {
            let name = &self.program.decls[*decl].name;
            let is_main = self.program.main == Some(*decl);
            // Names with two underscores are the compilers' own, `__v1model_version` among them.
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
