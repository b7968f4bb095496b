//! Expressions on sets and objects: lookup, objref, dynset.

use super::arithmetic::destination_number;
use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::contents::{Element, has_timeouts};
use crate::operation::{Data, DumpScope, Operation, Outcome, Passing, Reference, Scope, Surroundings};
use crate::registers::{Destination, Register, Registers};
use crate::set::{DATA_VERDICT, Set, dump_expressions, flag};
use crate::stateful::Object;
use belljar_base::SimDuration;
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// The set that an expression names.
fn named_set(
    attributes: Attributes<'_>,
    scope: &dyn Scope,
    name: u16,
    id: u16,
) -> Result<Arc<Set>, NetfilterError> {
    let named = attributes.get(name);
    let text = named.map(|named| named.text()).transpose()?;
    scope.set(text, attributes.u32(id)?).map_err(|errno| match named {
        Some(named) => named.failure(errno),
        None => errno.into(),
    })
}

/// Evaluates the expressions of an element.
fn evaluate_all(
    expressions: &[Arc<dyn Operation>],
    registers: &mut Registers,
    passing: &mut Passing<'_>,
) -> Outcome {
    for expression in expressions {
        let outcome = expression.evaluate(registers, passing);
        if outcome != Outcome::Continue {
            return outcome;
        }
    }
    Outcome::Continue
}

/// `lookup`.
#[derive(Debug)]
pub(super) struct Lookup {
    set: Arc<Set>,
    key: Register,
    to: Option<Destination>,
    negated: bool,
}

impl Lookup {
    pub(super) fn read(attributes: Attributes<'_>, scope: &dyn Scope) -> Result<Lookup, NetfilterError> {
        let set = named_set(attributes, scope, 1, 4)?;
        let key = Register::read(attributes.need(2)?, set.key_len)?;
        let negated = match attributes.u32(5)?.unwrap_or(0) {
            flags @ 0..=1 => flags == 1,
            _ => return Err(Errno::EINVAL.into()),
        };
        let to = match attributes.get(3) {
            None if set.has(flag::MAP) => return Err(Errno::EINVAL.into()),
            None => None,
            Some(_) if negated || !set.has(flag::MAP) => return Err(Errno::EINVAL.into()),
            Some(register) => Some(match Register::of_number(register.u32()?)? {
                Destination::Verdict if set.data_type == DATA_VERDICT => Destination::Verdict,
                Destination::Data(_) if set.data_type != DATA_VERDICT => {
                    Destination::Data(Register::read(register, set.data_len)?)
                }
                _ => return Err(Errno::EINVAL.into()),
            }),
        };
        Ok(Lookup { set, key, to, negated })
    }
}

impl Operation for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.text(1, &self.set.name);
        out.u32(2, self.key.number());
        if let Some(to) = self.to {
            out.u32(3, destination_number(to));
        }
        out.u32(5, u32::from(self.negated));
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let key = registers.load(self.key, self.set.key_len);
        let elements = passing.contents.of(self.set.number);
        let Some(found) = elements.find(&self.set, key, passing.environment.now()) else {
            return Outcome::given(self.negated);
        };
        if self.negated {
            return Outcome::Break;
        }
        let outcome = match (&found.data, self.to) {
            (Some(Data::Value(value)), Some(Destination::Data(to))) => {
                registers.store(to, value);
                Outcome::Continue
            }
            (Some(Data::Verdict(verdict)), Some(_)) => Outcome::Verdict(*verdict),
            _ => Outcome::Continue,
        };
        if found.expressions.is_empty() {
            return outcome;
        }
        let expressions = found.expressions.clone();
        match evaluate_all(&expressions, registers, passing) {
            Outcome::Continue => outcome,
            other => other,
        }
    }
    fn references(&self, visit: &mut dyn FnMut(Reference)) {
        visit(Reference::Set(self.set.number));
    }
}

/// `objref` of one object.
#[derive(Debug)]
struct ObjectUse(Arc<Object>);

/// `objref` of the object that a map has for a key.
#[derive(Debug)]
struct ObjectMap {
    set: Arc<Set>,
    key: Register,
}

/// Reads an `objref`.
pub(super) fn read_objref(
    attributes: Attributes<'_>,
    scope: &dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    if let Some(name) = attributes.get(2) {
        let kind = attributes.need(1)?.u32()?;
        let object = scope.object(name.text()?, kind).map_err(|errno| name.failure(errno))?;
        return Ok(Arc::new(ObjectUse(object)));
    }
    let register = attributes.need(3)?;
    let set = named_set(attributes, scope, 4, 5)?;
    if !set.has(flag::OBJECT) {
        return Err(Errno::EINVAL.into());
    }
    let key = Register::read(register, set.key_len)?;
    Ok(Arc::new(ObjectMap { set, key }))
}

impl Operation for ObjectUse {
    fn name(&self) -> &'static str {
        "objref"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(1, self.0.kind);
        out.text(2, &self.0.name);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        self.0.operation.evaluate(registers, passing)
    }
    fn references(&self, visit: &mut dyn FnMut(Reference)) {
        visit(Reference::Object(self.0.handle));
    }
    fn tracks(&self) -> bool {
        self.0.operation.tracks()
    }
    fn validate(&self, surroundings: &Surroundings) -> Result<(), Errno> {
        self.0.operation.validate(surroundings)
    }
}

impl Operation for ObjectMap {
    fn name(&self) -> &'static str {
        "objref"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u32(3, self.key.number());
        out.text(4, &self.set.name);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let key = registers.load(self.key, self.set.key_len);
        let elements = passing.contents.of(self.set.number);
        let found = elements.find(&self.set, key, passing.environment.now());
        match found.and_then(|element| element.object.clone()) {
            Some(object) => object.operation.evaluate(registers, passing),
            None => Outcome::Break,
        }
    }
    fn references(&self, visit: &mut dyn FnMut(Reference)) {
        visit(Reference::Set(self.set.number));
    }
}

/// `dynset`: adds, refreshes or removes an element.
#[derive(Debug)]
pub(super) struct DynamicSet {
    set: Arc<Set>,
    operator: u32,
    key: Register,
    data: Option<Register>,
    /// Timeout of the element in milliseconds; 0 for the set's.
    timeout: u64,
    negated: bool,
    expressions: Vec<Arc<dyn Operation>>,
}

const UPDATE: u32 = 1;
const DELETE: u32 = 2;
/// `NFT_DYNSET_F_INV`, `NFT_DYNSET_F_EXPR`.
const F_INV: u32 = 1;
const F_EXPR: u32 = 2;

impl DynamicSet {
    pub(super) fn read(
        attributes: Attributes<'_>,
        scope: &mut dyn Scope,
    ) -> Result<DynamicSet, NetfilterError> {
        if attributes.get(1).is_none() {
            return Err(Errno::EINVAL.into());
        }
        let flags = attributes.u32(9)?.unwrap_or(0);
        if flags & !(F_INV | F_EXPR) != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let set = named_set(attributes, scope, 1, 2)?;
        if set.has(flag::CONSTANT) {
            return Err(Errno::EBUSY.into());
        }
        if set.has(flag::INTERVAL) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let operator = attributes.need(3)?.u32()?;
        if operator > DELETE {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let timeout = attributes.u64(6)?.unwrap_or(0);
        if (timeout != 0 || operator == UPDATE) && !has_timeouts(&set) {
            return Err(if timeout != 0 { Errno::EINVAL } else { Errno::EOPNOTSUPP }.into());
        }
        let key = Register::read(attributes.need(4)?, set.key_len)?;
        let data = match attributes.get(5) {
            Some(_) if !set.has(flag::MAP) || set.data_type == DATA_VERDICT => {
                return Err(Errno::EOPNOTSUPP.into());
            }
            Some(register) => Some(Register::read(register, set.data_len)?),
            None if set.has(flag::MAP) => return Err(Errno::EINVAL.into()),
            None => None,
        };
        let mut expressions = Vec::new();
        if let Some(one) = attributes.get(7) {
            expressions.push(super::read_stateful(one.nested(), scope)?);
        } else if let Some(list) = attributes.get(10) {
            for (_, one) in list.nested().iter() {
                expressions.push(super::read_stateful(one.nested(), scope)?);
            }
        }
        if !set.expressions.is_empty() && !expressions.is_empty() {
            let names = |all: &[Arc<dyn Operation>]| all.iter().map(|one| one.name()).collect::<Vec<_>>();
            if names(&set.expressions) != names(&expressions) {
                return Err(Errno::EOPNOTSUPP.into());
            }
        }
        Ok(DynamicSet { set, operator, key, data, timeout, negated: flags & F_INV != 0, expressions })
    }

    /// A new element for a key.
    fn element(&self, key: Vec<u8>, registers: &Registers, passing: &Passing<'_>) -> Element {
        let templates = match self.expressions.is_empty() {
            true => &self.set.expressions,
            false => &self.expressions,
        };
        let timeout = if self.timeout != 0 { self.timeout } else { self.set.timeout };
        let lasts = SimDuration::from_millis(timeout);
        Element {
            data: self.data.map(|from| Data::Value(registers.load(from, self.set.data_len).to_vec())),
            timeout: Some(timeout).filter(|timeout| *timeout != 0),
            expires: (timeout != 0).then(|| passing.environment.now().saturating_add(lasts)),
            expressions: templates.iter().filter_map(|template| template.fresh()).collect(),
            ..Element::new(key)
        }
    }
}

impl Operation for DynamicSet {
    fn name(&self) -> &'static str {
        "dynset"
    }
    fn dump(&self, names: &dyn DumpScope, out: &mut Writer) {
        out.u32(4, self.key.number());
        if let Some(data) = self.data {
            out.u32(5, data.number());
        }
        out.u32(3, self.operator);
        out.text(1, &self.set.name);
        if self.timeout != 0 {
            out.u64(6, self.timeout);
        }
        match &self.expressions[..] {
            [] => {}
            [one] => out.nest(7, |out| crate::set::dump_expression(&**one, names, out)),
            several => out.nest(10, |out| dump_expressions(several, names, out)),
        }
        let flags = u32::from(self.negated) * F_INV + u32::from(!self.expressions.is_empty()) * F_EXPR;
        out.u32(9, flags);
    }
    fn evaluate(&self, registers: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let now = passing.environment.now();
        let key = registers.load(self.key, self.set.key_len).to_vec();
        let position = Element::new(key.clone()).position(&self.set);
        if self.operator == DELETE {
            passing.contents.take(&self.set, position);
            return Outcome::Continue;
        }
        let elements = passing.contents.of_mut(self.set.number);
        elements.collect(now);
        let mut expressions = Vec::new();
        match elements.at(&position, now).cloned() {
            Some(mut found) => {
                expressions.clone_from(&found.expressions);
                if self.operator == UPDATE {
                    let timeout = found.timeout.unwrap_or(self.set.timeout);
                    let timeout = if self.timeout != 0 { self.timeout } else { timeout };
                    if timeout != 0 {
                        found.timeout = Some(timeout);
                        found.expires = Some(now.saturating_add(SimDuration::from_millis(timeout)));
                        elements.put(position, found);
                    }
                }
            }
            None if self.set.size != 0 && elements.len() >= self.set.size as usize => {
                return Outcome::given(self.negated);
            }
            None => {
                let element = self.element(key, registers, passing);
                expressions.clone_from(&element.expressions);
                passing.contents.put(&self.set, element);
            }
        }
        let outcome = evaluate_all(&expressions, registers, passing);
        match outcome {
            Outcome::Continue => Outcome::given(!self.negated),
            other => other,
        }
    }
    fn references(&self, visit: &mut dyn FnMut(Reference)) {
        visit(Reference::Set(self.set.number));
    }
    fn tracks(&self) -> bool {
        self.expressions.iter().any(|expression| expression.tracks())
    }
}
