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
        let mut test = self.ex(condition, out)?;
        for outer in self.conditions.clone() {
            test = build::and(outer, test);
        }
        let value = self.val(data, out)?;
        let mut input = Vec::new();
        let ty = data.ty.clone();
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
            verify: name.starts_with("verify"),
            condition: (test != Ex::Bool(true)).then_some(test),
        });
        Ok(())
    }
}
