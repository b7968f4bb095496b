//! Parser states and the deparser.

use super::expressions::{Typed, short};
use super::{Lower, Result, item};
use crate::number::{Number, parse_hex};
use crate::program::code::{Instruction, KeyPart, Operation, Uref};
use crate::program::{Expr, NONE, State, Transition, ValueSet};
use belljar_base::Map;
use belljar_p4json as json;
use serde_json::Value;

impl Lower<'_> {
    pub(super) fn parser(&mut self) -> Result<()> {
        let root = self.root;
        for (n, set) in root.parse_vsets.iter().enumerate() {
            if set.compressed_bitwidth > super::MAX_WIDTH {
                return Err(
                    self.error(format!("value set '{}' is {} bits wide", set.name, set.compressed_bitwidth))
                );
            }
            self.vsets.insert(&set.name, n as u32);
            let bits = set.compressed_bitwidth as u32;
            self.program.vsets.push(ValueSet { name: set.name.clone(), bits, max_size: set.max_size });
        }
        let Some(parser) =
            root.parsers.iter().find(|parser| parser.name == "parser").or(root.parsers.first())
        else {
            return Ok(());
        };
        self.in_parser = true;
        self.place.push(item("parsers", 0, &parser.name));
        let mut states: Map<&str, u32> = Map::new();
        for (n, state) in parser.parse_states.iter().enumerate() {
            states.insert(&state.name, n as u32);
        }
        for (n, state) in parser.parse_states.iter().enumerate() {
            let lowered = self
                .within(item("parse_states", n, &state.name), |lower| lower.parser_state(state, &states))?;
            self.program.states.push(lowered);
        }
        self.program.first_state = self.next_state(&states, parser.init_state.as_deref())?;
        self.place.pop();
        self.in_parser = false;
        Ok(())
    }

    fn next_state(&self, states: &Map<&str, u32>, name: Option<&str>) -> Result<u32> {
        let Some(name) = name else { return Ok(NONE) };
        states.get(name).copied().ok_or_else(|| self.error(format!("no parser state is named '{name}'")))
    }

    fn parser_state(&mut self, state: &json::ParseState, states: &Map<&str, u32>) -> Result<State> {
        let mut operations = Vec::new();
        for (n, call) in state.parser_ops.iter().enumerate() {
            let operation =
                self.within(item("parser_ops", n, &call.op), |lower| lower.parser_operation(call))?;
            operations.push(operation);
        }
        let (mut key, mut widths, mut key_bytes) = (Vec::new(), Vec::new(), 0);
        for part in &state.transition_key {
            self.ahead = 0;
            let value = self.value(part)?;
            let bounds = self.bounds[value.root as usize];
            // A possibly negative value needs a sign bit.
            let width = bounds.bits - u32::from(!bounds.negative && bounds.bits > 1);
            key.push(KeyPart { value, width, ahead: self.ahead });
            widths.push(width);
            key_bytes += width.div_ceil(8);
        }
        let (mut transitions, mut otherwise) = (Vec::new(), NONE);
        for (n, transition) in state.transitions.iter().enumerate() {
            self.place.push(item("transitions", n, ""));
            let next = self.next_state(states, transition.next_state.as_deref())?;
            let kind = transition.kind.as_deref();
            let value = transition.value.as_deref().unwrap_or_default();
            let mask = transition.mask.as_deref();
            match kind {
                Some("hexstr") => transitions.push(self.transition(value, mask, key_bytes, next)?),
                None if value != "default" => {
                    transitions.push(self.transition(value, mask, key_bytes, next)?)
                }
                Some("default") | None => {
                    otherwise = next;
                    self.place.pop();
                    break;
                }
                Some("parse_vset") => {
                    let set = self.find("value set", &self.vsets, value)?;
                    let bits: u32 = widths.iter().sum();
                    if self.program.vsets[set as usize].bits != bits {
                        let problem = format!(
                            "value set '{value}' is {} bits wide, the key {bits}",
                            self.program.vsets[set as usize].bits
                        );
                        return Err(self.error(problem));
                    }
                    let mask = mask.map(|mask| self.key_bytes(mask, key_bytes)).transpose()?;
                    transitions.push(Transition::Set { set, mask, next });
                }
                Some(other) => return Err(self.error(format!("a transition of type '{other}' is not known"))),
            }
            self.place.pop();
        }
        let (name, branch) = (state.name.clone(), state.source_info.clone());
        Ok(State { name, operations, key, key_bytes, transitions, otherwise, branch })
    }

    fn key_bytes(&self, text: &str, bytes: u32) -> Result<Vec<u8>> {
        let number =
            parse_hex(text).ok_or_else(|| self.error(format!("'{text}' is not a hexadecimal number")))?;
        let mut out = vec![0; bytes as usize];
        number.to_bytes(&mut out);
        Ok(out)
    }

    fn transition(&self, value: &str, mask: Option<&str>, bytes: u32, next: u32) -> Result<Transition> {
        let value = self.key_bytes(value, bytes)?;
        let mask = match mask {
            Some(mask) => self.key_bytes(mask, bytes)?,
            None => vec![0xff; bytes as usize],
        };
        let value: Vec<u8> = value.iter().zip(&mask).map(|(value, mask)| value & mask).collect();
        if bytes > 16 {
            return Ok(Transition::Wide { value, mask, next });
        }
        let narrow = |bytes: &[u8]| bytes.iter().fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
        Ok(Transition::Narrow { value: narrow(&value), mask: narrow(&mask), next })
    }

    fn parser_operation(&mut self, call: &json::Call) -> Result<Operation> {
        let p = |n: usize| call.parameters.get(n).unwrap_or(&Value::Null);
        Ok(match call.op.as_str() {
            "extract" => self.extract(p(0), None)?,
            "extract_VL" => {
                let length = self.value(p(1))?;
                self.extract(p(0), Some(length))?
            }
            "set" => {
                let (to, demand) = self.target(p(0))?;
                self.ahead = 0;
                Operation::Set { to, value: self.value_for(p(1), demand)?, ahead: self.ahead }
            }
            "verify" => Operation::Verify { condition: self.boolean(p(0))?, error: self.value(p(1))? },
            "shift" => {
                let bytes = p(0).as_u64().or_else(|| p(0)["value"].as_u64());
                let bytes =
                    bytes.ok_or_else(|| self.error(format!("{} is not a number of bytes", short(p(0)))))?;
                let bits = self.constant(&(u128::from(bytes) * 8).into());
                Operation::Advance(self.sized(bits))
            }
            "advance" => Operation::Advance(self.value(p(0))?),
            "primitive" => {
                let call = json::Call::from_value(p(0))
                    .map_err(|error| self.error(format!("{} is not a primitive: {error}", short(p(0)))))?;
                let start = self.program.code.len() as u32;
                let instruction =
                    self.within(call.op.clone(), |lower| lower.primitive(&call, start..start + 1))?;
                if matches!(instruction, Instruction::Jump(_) | Instruction::JumpIfZero { .. }) {
                    return Err(self.error("a parser does not jump"));
                }
                self.program.code.push(instruction);
                Operation::Code { start, end: start + 1 }
            }
            other => return Err(self.error(format!("parser operation '{other}' is not known"))),
        })
    }

    fn extract(&mut self, what: &Value, length: Option<Expr>) -> Result<Operation> {
        let Typed::Value { kind, value } = self.typed(what)? else {
            return Err(self.error(format!("{} is not a header", short(what))));
        };
        Ok(match kind {
            "regular" => {
                let name = self.name(value)?;
                let header = self.find("header", &self.headers, name)?;
                if self.program.headers[header as usize].metadata {
                    return Err(self.error(format!("metadata '{name}' is extracted")));
                }
                Operation::Extract { header, length }
            }
            "stack" => {
                let name = self.name(value)?;
                Operation::ExtractStack { stack: self.find("header stack", &self.stacks, name)?, length }
            }
            "union_stack" => {
                let name = self.name(&value[0])?;
                let stack = self.find("header union stack", &self.union_stacks, name)?;
                self.program.urefs.push(Uref::Last(stack));
                let union = self.program.urefs.len() as u32 - 1;
                let member = self.name(&value[1])?;
                let kind = self.union_stack_type(stack).to_owned();
                self.member(union, &kind, member)?;
                let members = self.find("header union type", &self.union_types, &kind)?;
                let member = members.iter().position(|(name, _)| name == member).unwrap_or(0) as u32;
                Operation::ExtractUnionStack { stack, member, length }
            }
            other => return Err(self.error(format!("'{other}' cannot be extracted to"))),
        })
    }

    pub(super) fn deparser(&mut self) -> Result<()> {
        let root = self.root;
        let deparsers = &root.deparsers;
        let Some(deparser) = deparsers.iter().find(|one| one.name == "deparser").or(deparsers.first()) else {
            return Ok(());
        };
        self.place.push(item("deparsers", 0, &deparser.name));
        for name in &deparser.order {
            let header = self.find("header", &self.headers, name)?;
            self.program.emit.push(header);
        }
        self.program.deparser = self.instructions(&deparser.primitives)?;
        self.place.pop();
        Ok(())
    }
}
