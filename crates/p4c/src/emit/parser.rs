//! Parser states. A state with branching statements is split into several.

use super::{Result, action, expression, field, hex_bits, is_zero, parameter, shown_info, unsupported};
use crate::ir::*;
use crate::source::Sources;
use belljar_base::Map;
use num_bigint::BigInt;
use num_traits::{One, ToPrimitive, Zero};
use serde_json::{Value, json};

/// Maximum number of transitions of one `select` after expansion of ranges to masks.
const MAX_TRANSITIONS: usize = 4_096;

/// State under construction.
struct Open {
    name: String,
    ops: Vec<Value>,
}

struct Writer<'a> {
    program: &'a mut Program,
    sources: &'a Sources,
    states: Vec<Value>,
    labels: Map<Label, String>,
    names: usize,
}

/// The JSON of all states.
pub fn states(program: &mut Program, sources: &Sources) -> Result<Vec<Value>> {
    let list = std::mem::take(&mut program.states);
    let mut writer = Writer { program, sources, states: Vec::new(), labels: Map::new(), names: 0 };
    for state in &list {
        let open = Open { name: state.name.clone(), ops: Vec::new() };
        if let Some(open) = writer.body(&state.body, Some(open))? {
            writer.finish(open, &state.next)?;
        }
    }
    let mut states = writer.states;
    super::number(&mut states);
    Ok(states)
}

impl Writer<'_> {
    fn fresh(&mut self, state: &str) -> String {
        self.names += 1;
        format!("{state}_{}_", self.names)
    }

    fn close(&mut self, open: Open, keys: Vec<Value>, transitions: Vec<Value>) {
        self.states.push(json!({
            "name": open.name, "id": 0, "parser_ops": open.ops, "transitions": transitions, "transition_key": keys,
        }));
    }

    fn go(&mut self, open: Open, next: &str) {
        self.close(open, Vec::new(), vec![default(Some(next))]);
    }

    fn body(&mut self, body: &[Stmt], mut open: Option<Open>) -> Result<Option<Open>> {
        for stmt in body {
            let Some(state) = open else { return Ok(None) };
            open = self.statement(stmt, state)?;
        }
        Ok(open)
    }

    fn statement(&mut self, stmt: &Stmt, mut open: Open) -> Result<Option<Open>> {
        match stmt {
            Stmt::Assign(target, value) => {
                let value = action::masked(target, value);
                let params =
                    json!([action::target_json(self.program, target), parameter(self.program, &value)]);
                open.ops.push(json!({"parameters": params, "op": "set"}));
            }
            Stmt::Primitive(..) => {
                let primitive = action::primitive(self.program, stmt)?;
                open.ops.push(json!({"parameters": [primitive], "op": "primitive"}));
            }
            Stmt::Extract(header, length) => {
                let target = self.extracted(header)?;
                open.ops.push(match length {
                    None => json!({"parameters": [target], "op": "extract"}),
                    Some(length) => {
                        let length = json!({"type": "expression", "value": expression(self.program, length)});
                        json!({"parameters": [target, length], "op": "extract_VL"})
                    }
                });
            }
            Stmt::Advance(bits) => {
                if !is_zero(bits) {
                    open.ops.push(json!({"parameters": [parameter(self.program, bits)], "op": "advance"}));
                }
            }
            Stmt::Verify(condition, error) => {
                let condition = json!({"type": "expression", "value": expression(self.program, condition)});
                let error = parameter(self.program, error);
                open.ops.push(json!({"parameters": [condition, error], "op": "verify"}));
            }
            Stmt::If(condition, yes, no) => return self.branch(condition, yes, no, open).map(Some),
            Stmt::Block(label, body) => {
                let end = self.fresh(&open.name);
                self.labels.insert(*label, end.clone());
                if let Some(open) = self.body(body, Some(open))? {
                    self.go(open, &end);
                }
                return Ok(Some(Open { name: end, ops: Vec::new() }));
            }
            Stmt::Loop(body) => {
                let start = self.fresh(&open.name);
                self.go(open, &start);
                let open = Open { name: start.clone(), ops: Vec::new() };
                if let Some(open) = self.body(body, Some(open))? {
                    self.go(open, &start);
                }
                return Ok(None);
            }
            Stmt::Break(label) => {
                let Some(end) = self.labels.get(label).cloned() else { return unsupported("this jump") };
                self.go(open, &end);
                return Ok(None);
            }
            Stmt::Enter(entry, rest) => {
                self.go(open, entry);
                return Ok(Some(Open { name: rest.clone(), ops: Vec::new() }));
            }
            Stmt::Apply(..) | Stmt::Exit => return unsupported("this statement in a parser"),
        }
        Ok(Some(open))
    }

    fn extracted(&self, header: &HeaderRef) -> Result<Value> {
        let layout = &self.program.layout;
        Ok(match header {
            HeaderRef::Instance(index) => json!({"type": "regular", "value": layout.headers[*index].name}),
            HeaderRef::Next(stack) => json!({"type": "stack", "value": layout.stacks[*stack].name}),
            HeaderRef::UnionNext(stack, member) => {
                let stack = &layout.union_stacks[*stack];
                json!({"type": "union_stack", "value": [stack.name, layout.union_types[stack.ty].members[*member].0]})
            }
            _ => return unsupported("extracting to this header"),
        })
    }

    fn branch(&mut self, condition: &Ex, yes: &[Stmt], no: &[Stmt], mut open: Open) -> Result<Open> {
        let (info, condition) = match condition {
            Ex::At(shown, inner) => (shown_info(self.sources, shown), &**inner),
            other => (None, other),
        };
        let test = match condition {
            Ex::Op("d2b", None, inner) if matches!(&**inner, Ex::Field(f) if matches!(f.header, HeaderRef::Instance(_))) => {
                (**inner).clone()
            }
            other => {
                let scalars = &mut self.program.layout.types[0].fields;
                scalars.push((format!("branch_{}", scalars.len()), Scalar::Bool));
                let field = FieldRef {
                    header: HeaderRef::Instance(0),
                    field: scalars.len() - 1,
                    scalar: Scalar::Bool,
                };
                let value = Ex::Op("b2d", None, Box::new(other.clone()));
                let set = json!([action::target_json(self.program, &field), parameter(self.program, &value)]);
                open.ops.push(json!({"parameters": set, "op": "set"}));
                Ex::Field(field)
            }
        };
        let (then, otherwise, join) =
            (self.fresh(&open.name), self.fresh(&open.name), self.fresh(&open.name));
        let key = expression(self.program, &test);
        let first = json!({"type": "hexstr", "value": "0x01", "mask": null, "next_state": then});
        self.close(open, vec![key], vec![first, default(Some(&otherwise))]);
        // The position of the condition, for traces.
        if let (Some(info), Some(state)) = (info, self.states.last_mut()) {
            state["source_info"] = info;
        }
        for (name, body) in [(then, yes), (otherwise, no)] {
            if let Some(open) = self.body(body, Some(Open { name, ops: Vec::new() }))? {
                self.go(open, &join);
            }
        }
        Ok(Open { name: join, ops: Vec::new() })
    }

    fn finish(&mut self, open: Open, next: &Next) -> Result<()> {
        match next {
            Next::To(next) => {
                self.close(open, Vec::new(), vec![default(next.as_deref())]);
                Ok(())
            }
            Next::Select(keys, cases) => {
                let widths = keys.iter().map(|(_, scalar)| scalar.width()).collect::<Vec<_>>();
                let mut transitions = Vec::new();
                for (case, next) in cases {
                    self.case(case, &widths, next.as_deref(), &mut transitions)?;
                }
                let keys = keys.iter().map(|(ex, _)| match ex {
                    Ex::Field(reference) => field(self.program, reference),
                    other => expression(self.program, other),
                });
                let keys = keys.collect();
                self.close(open, keys, transitions);
                Ok(())
            }
        }
    }

    fn case(&self, case: &Case, widths: &[u32], next: Option<&str>, output: &mut Vec<Value>) -> Result<()> {
        let sets = match case {
            Case::ValueSet(name) => {
                output.push(json!({"type": "parse_vset", "value": name, "mask": null, "next_state": next}));
                return Ok(());
            }
            Case::Keys(sets) => sets,
        };
        if sets.iter().all(|set| matches!(set, KeySet::Any)) {
            output.push(default(next));
            return Ok(());
        }
        // Cross product of the values and masks of all keys.
        let mut combinations: Vec<(String, String, bool)> = vec![(String::new(), String::new(), false)];
        for (set, width) in sets.iter().zip(widths) {
            let choices = masks(set, *width);
            let mut longer = Vec::new();
            for (value, mask, masked) in &combinations {
                for (v, m) in &choices {
                    let partial = m.is_some();
                    let all: BigInt = (BigInt::one() << *width) - 1;
                    let m = m.clone().unwrap_or_else(|| all.clone());
                    let (v, m) = (hex_bits(&(v & &all), *width), hex_bits(&m, *width));
                    longer.push((
                        format!("{value}{}", &v[2..]),
                        format!("{mask}{}", &m[2..]),
                        *masked || partial,
                    ));
                }
            }
            combinations = longer;
            if combinations.len() > MAX_TRANSITIONS {
                return unsupported("a select with ranges as wide as these");
            }
        }
        for (value, mask, masked) in combinations {
            let mask = if masked { json!(format!("0x{mask}")) } else { Value::Null };
            output.push(
                json!({"type": "hexstr", "value": format!("0x{value}"), "mask": mask, "next_state": next}),
            );
        }
        Ok(())
    }
}

fn default(next: Option<&str>) -> Value {
    json!({"type": "default", "value": null, "mask": null, "next_state": next})
}

/// Expands a key set to value-mask pairs; no mask means all bits.
fn masks(set: &KeySet, width: u32) -> Vec<(BigInt, Option<BigInt>)> {
    match set {
        KeySet::Value(value) => vec![(value.clone(), None)],
        KeySet::Mask(value, mask) => vec![(value & mask, Some(mask.clone()))],
        KeySet::Any => vec![(BigInt::zero(), Some(BigInt::zero()))],
        KeySet::Range(low, high) => {
            let mut list = Vec::new();
            let (mut at, high) = (low.clone(), high.clone());
            let all = (BigInt::one() << width) - 1;
            while at <= high && list.len() <= MAX_TRANSITIONS {
                let aligned = if at.is_zero() { u64::from(width) } else { at.trailing_zeros().unwrap_or(0) };
                let mut bits = aligned.min(u64::from(width)).to_u32().unwrap_or(0);
                while bits > 0 && &at + (BigInt::one() << bits) - 1 > high {
                    bits -= 1;
                }
                let block = (BigInt::one() << bits) - 1;
                list.push((at.clone(), Some(&all ^ &block)));
                at += block + 1;
            }
            list
        }
    }
}
