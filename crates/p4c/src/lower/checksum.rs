//! Checksum controls.

use super::{Call, Lower, Result, Val, build};
use crate::ir::*;
use crate::source::Span;

impl Lower<'_> {
    /// Lowers `verify_checksum`, `update_checksum` and their `_with_payload` variants.
    pub(super) fn checksum(
        &mut self,
        name: &str,
        call: &Call,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let [Some(condition), Some(data), Some(target), Some(algorithm)] = call.args.as_slice() else {
            return self.error(span, "an argument is missing");
        };
        let verifies = name.starts_with("verify");
        if verifies != (self.pipeline == 0) {
            let wanted = if verifies { "before ingress" } else { "behind egress" };
            return self.error(span, format!("{name} can only be called in the checksum control {wanted}"));
        }
        let mut test = self.ex(condition, out)?;
        for outer in self.conditions.clone() {
            test = build::and(outer, test);
        }
        let value = self.val(data, out)?;
        let mut input = Vec::new();
        let ty = self.types.ty(&data.ty);
        for (ex, scalar) in self.inputs(&value, &ty, span)? {
            let ex = self.as_input(ex, scalar, out);
            input.push(Input::Value(ex, scalar));
        }
        if name.ends_with("_with_payload") {
            input.push(Input::Payload);
        }
        let algorithm = self.val(algorithm, out)?;
        let algorithm = self.algorithm(Some(&algorithm), span)?;
        let field = match self.val(target, out)? {
            Val::Ex(Ex::Field(field)) if matches!(field.header, HeaderRef::Instance(_)) => field,
            _ => return self.error(target.span, "the checksum must be a field of a header"),
        };
        let calculation = self.unique("calc");
        self.out.calculations.push(Calculation { name: calculation, algorithm, input });
        self.out.checksums.push(Checksum {
            target: field,
            calculation: self.out.calculations.len() - 1,
            verify: verifies,
            condition: (test != Ex::Bool(true)).then_some(test),
        });
        out.push(Stmt::Primitive(DONE, Vec::new()));
        Ok(())
    }

    /// Statements of a checksum control beside its checksums. They run before all of these.
    pub(super) fn beside_checksums(&self, mut body: Vec<Stmt>, block: Span) -> Result<Vec<Stmt>> {
        let mut done = false;
        if follows(&body, &mut done) {
            let text = "on this target nothing can be computed after a checksum in the checksum controls";
            return self.error(block, text);
        }
        strip(&mut body);
        Ok(body)
    }
}

/// Marks where a checksum was among the statements.
const DONE: &str = "checksum";

/// True if a statement follows a checksum.
fn follows(body: &[Stmt], done: &mut bool) -> bool {
    body.iter().any(|stmt| match stmt {
        Stmt::Primitive(DONE, _) => {
            *done = true;
            false
        }
        Stmt::If(_, yes, no) => follows(yes, done) || follows(no, done),
        Stmt::Block(_, body) | Stmt::Loop(body) => follows(body, done),
        Stmt::Break(_) => false,
        _ => *done,
    })
}

fn strip(body: &mut Vec<Stmt>) {
    body.retain(|stmt| !matches!(stmt, Stmt::Primitive(DONE, _)));
    for stmt in body {
        match stmt {
            Stmt::If(_, yes, no) => {
                strip(yes);
                strip(no);
            }
            Stmt::Block(_, body) | Stmt::Loop(body) => strip(body),
            _ => {}
        }
    }
}
