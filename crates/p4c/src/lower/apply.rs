//! Application of controls and parsers by others.

use super::inline::push_block;
use super::place::Target;
use super::{Bound, Callee, Lower, Result, Signature, Val};
use crate::ast::Direction;
use crate::ir::*;
use crate::source::Span;
use crate::typed::{self, Call, Expr, ExprKind};
use crate::types::{DefKind, Type};
use std::rc::Rc;

impl Lower<'_> {
    /// `apply` of a control or parser instance.
    pub(super) fn apply(
        &mut self,
        object: &Expr,
        call: &Call,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let Val::Instance(instance) = self.val(object, out)? else {
            return self.error(span, "this has no apply()");
        };
        let DefKind::Block(parser, signature, _) = &self.program.defs[instance.def].kind else {
            return self.error(span, "this has no apply()");
        };
        if *parser {
            self.deeper(span)?;
            let copies = self.bind(signature, &call.args, Vec::new(), span, out)?;
            self.enter_parser(&instance, out)?;
            self.inline_depth -= 1;
            for (target, value) in copies {
                self.assign_target(&target, value, span, out)?;
            }
            return Ok(());
        }
        self.deeper(span)?;
        let shared = self.applied.get(&instance.path).copied().unwrap_or(0) > 0;
        let copies = if self.applied_often(&instance) || shared {
            self.bind_shared(signature, &call.args, &instance, span, out)?
        } else {
            self.bind(signature, &call.args, Vec::new(), span, out)?
        };
        *self.applied.entry(instance.path.clone()).or_default() += 1;
        self.pending_copies.push(copies.clone());
        let result = self.control_body(&instance, out);
        self.pending_copies.pop();
        self.inline_depth -= 1;
        result?;
        for (target, value) in copies {
            self.assign_target(&target, value, span, out)?;
        }
        Ok(())
    }

    /// True if the source applies the instance at several call sites. Its parameters are then copied to
    /// storage that all call sites share, because its tables refer to fixed storage.
    fn applied_often(&self, instance: &super::Instance) -> bool {
        self.apply_counts.get(&instance.path).copied().unwrap_or(0) > 1
    }

    fn bind_shared(
        &mut self,
        signature: &Rc<Signature>,
        args: &[Option<Expr>],
        instance: &super::Instance,
        span: Span,
        out: &mut Vec<Stmt>,
    ) -> Result<Vec<(Target, Val)>> {
        let mut copies = Vec::new();
        let mut bindings = Vec::new();
        for (param, arg) in signature.params.iter().zip(args) {
            let ty = self.types.ty(&param.ty);
            let key = (instance.path.clone(), param.decl);
            let Some(arg) = arg else { continue };
            if self.types.scalar(&ty).is_none()
                && self.types.fields(&ty).is_none()
                && !matches!(ty, Type::Stack(..))
            {
                let value = self.val(arg, out)?;
                bindings.push((param.decl, Bound::Value(value)));
                continue;
            }
            let place = match self.kept_places.get(&key) {
                Some(place) => place.clone(),
                None => {
                    let place = self.storage(&param.name.name, &ty, span)?;
                    self.kept_places.insert(key, place.clone());
                    place
                }
            };
            match param.direction {
                Direction::Out | Direction::InOut => {
                    let target = self.target(arg, true, out)?;
                    if param.direction == Direction::InOut {
                        let value = self.read_target(&target);
                        self.assign(&place, value, span, out)?;
                    } else {
                        self.invalidate(&place, out);
                    }
                    copies.push((target, self.read(&place)));
                }
                _ => {
                    let value = self.val(arg, out)?;
                    self.assign(&place, value, span, out)?;
                }
            }
            bindings.push((param.decl, Bound::Place(place)));
        }
        for (decl, bound) in bindings {
            self.bound.insert(decl, bound);
        }
        Ok(copies)
    }

    /// Lowers the locals and the body of a control whose parameters are bound.
    pub(super) fn control_body(&mut self, instance: &super::Instance, out: &mut Vec<Stmt>) -> Result<()> {
        let Some(block) = self.program.bodies.get(&instance.def).cloned() else { return Ok(()) };
        let path = std::mem::replace(&mut self.path, instance.path.clone());
        let loops = std::mem::take(&mut self.loops);
        self.bind_constructor(instance);
        self.count_applications(&block.body);
        let label = self.label();
        let mut inner = Vec::new();
        self.returns.push((label, None));
        let result = self.block_locals(instance.def, &mut inner);
        let result = result.and_then(|()| self.statements(&block.body, &mut inner));
        self.returns.pop();
        self.path = path;
        self.loops = loops;
        result?;
        push_block(label, inner, out);
        Ok(())
    }

    fn count_applications(&mut self, body: &[typed::Stmt]) {
        let mut names = Vec::new();
        super::super::walk::statements(body, &mut |expr| {
            if let ExprKind::Call(call) = &expr.kind
                && let Callee::Apply(object) = &call.callee
                && let ExprKind::Decl(id) = &object.kind
            {
                names.push(*id);
            }
        });
        let mut counts: belljar_base::Map<String, usize> = belljar_base::Map::new();
        for id in names {
            *counts.entry(self.full_name(id)).or_default() += 1;
        }
        self.apply_counts.extend(counts);
    }
}
