//! Actions and primitives. Each primitive becomes exactly one instruction, which preserves jump distances.

use super::arithmetic::EXACT;
use super::expressions::{Kind, Typed, short};
use super::{Locals, Lower, Result, item, line_of};
use crate::number::Size;
use crate::program::code::{Instruction, Int, Target};
use crate::program::{Action, Expr, Field, LogMessage, Parameter};
use belljar_p4json::Call;
use serde_json::Value;

impl Lower<'_> {
    pub(super) fn actions(&mut self) -> Result<()> {
        let root = self.root;
        for (n, action) in root.actions.iter().enumerate() {
            self.place.push(item("actions", n, &action.name));
            let (mut parameters, mut offset) = (Vec::new(), 0u32);
            for parameter in &action.runtime_data {
                if parameter.bitwidth > super::MAX_WIDTH {
                    let problem =
                        format!("parameter '{}' is {} bits wide", parameter.name, parameter.bitwidth);
                    return Err(self.error(problem));
                }
                let width = parameter.bitwidth as u32;
                let padding = width.next_multiple_of(8) - width;
                parameters.push(Parameter { name: parameter.name.clone(), width, offset: offset + padding });
                offset += padding + width;
            }
            if self.actions.insert(action.id, n as u32).is_some() {
                return Err(self.error(format!("another action has the id {}", action.id)));
            }
            let bytes = offset / 8;
            self.program.actions.push(Action { name: action.name.clone(), parameters, bytes, code: 0..0 });
            self.locals = Locals::Action(n as u32);
            self.program.actions[n].code = self.instructions(&action.primitives)?;
            self.locals = Locals::None;
            self.place.pop();
        }
        Ok(())
    }

    /// Lowers the primitives of an action or of the deparser; returns the range of their instructions.
    pub(super) fn instructions(&mut self, primitives: &[Call]) -> Result<std::ops::Range<u32>> {
        let start = self.program.code.len() as u32;
        let end = start + primitives.len() as u32;
        for (n, call) in primitives.iter().enumerate() {
            let instruction =
                self.within(item("primitives", n, &call.op), |lower| lower.primitive(call, start..end))?;
            if let (Instruction::JumpIfZero { .. }, Some(source)) =
                (instruction, line_of(call.source_info.as_ref()))
            {
                self.program.branches.insert(start + n as u32, source);
            }
            self.program.code.push(instruction);
        }
        Ok(start..end)
    }

    /// Lowers a primitive; `code` is the valid range of jump targets.
    pub(super) fn primitive(&mut self, call: &Call, code: std::ops::Range<u32>) -> Result<Instruction> {
        let parameters = &call.parameters;
        let wanted = match call.op.as_str() {
            "drop" | "exit" | "no_op" => 0,
            "mark_to_drop" => parameters.len().min(1),
            "modify_field" => parameters.len().clamp(2, 3),
            "assert" | "assume" | "_jump" | "add_header" | "add_header_fast" | "remove_header"
            | "resubmit" | "recirculate" | "truncate" => 1,
            "add" | "subtract" | "bit_xor" | "bit_or" | "bit_and" | "shift_left" | "shift_right" => 3,
            "modify_field_rng_uniform" | "execute_meter" | "register_read" | "register_write" => 3,
            "modify_field_with_hash_based_offset" => 4,
            "assign"
            | "set"
            | "assign_VL"
            | "assign_header"
            | "assign_union"
            | "assign_header_stack"
            | "assign_union_stack"
            | "push"
            | "pop"
            | "_jump_if_zero"
            | "log_msg"
            | "add_to_field"
            | "subtract_from_field"
            | "copy_header"
            | "generate_digest"
            | "clone_ingress_pkt_to_egress"
            | "clone_egress_pkt_to_egress"
            | "count" => 2,
            other => {
                let remedy = "only the primitives of v1model's simple_switch exist here";
                return Err(self.error_with(format!("primitive '{other}' is not known"), remedy));
            }
        };
        if parameters.len() != wanted {
            return Err(self.error(format!(
                "'{}' takes {wanted} parameters, not {}",
                call.op,
                parameters.len()
            )));
        }
        let p = |n: usize| parameters.get(n).unwrap_or(&Value::Null);
        Ok(match call.op.as_str() {
            "no_op" => Instruction::Nothing,
            "assign" | "set" => self.assignment(p(0), p(1))?,
            "modify_field" if wanted == 2 => self.assignment(p(0), p(1))?,
            "modify_field" => {
                let (to, _) = self.target(p(0))?;
                Instruction::SetMasked {
                    to,
                    value: self.value(p(1))?,
                    mask: self.value(p(2))?,
                    old: self.value(p(0))?,
                }
            }
            "assign_VL" => match (self.target(p(0))?.0, self.target(p(1))?.0) {
                (Target::Variable(to), Target::Variable(from)) => Instruction::CopyVariable { to, from },
                _ => return Err(self.error("assign_VL needs two fields of variable width")),
            },
            "assign_header" | "copy_header" => {
                let (to, from) = (self.href(p(0))?, self.href(p(1))?);
                self.same_type(to, from)?;
                Instruction::CopyHeader { to, from }
            }
            "assign_union" => {
                let (to, from) = (self.uref(p(0))?, self.uref(p(1))?);
                self.same_union_type(to, from)?;
                Instruction::CopyUnion { to, from }
            }
            "assign_header_stack" => {
                let (to, from) = (self.stack(p(0))?, self.stack(p(1))?);
                self.same_stack_type(to, from)?;
                Instruction::CopyStack { to, from }
            }
            "assign_union_stack" => {
                let (to, from) = (self.union_stack(p(0))?, self.union_stack(p(1))?);
                self.same_union_stack_type(to, from)?;
                Instruction::CopyUnionStack { to, from }
            }
            "push" | "pop" => {
                let count = self.value(p(1))?;
                match (self.kind(p(0))?, call.op.as_str()) {
                    (Kind::UnionStack, "push") => {
                        Instruction::PushUnion { stack: self.union_stack(p(0))?, count }
                    }
                    (Kind::UnionStack, _) => Instruction::PopUnion { stack: self.union_stack(p(0))?, count },
                    (_, "push") => Instruction::Push { stack: self.stack(p(0))?, count },
                    _ => Instruction::Pop { stack: self.stack(p(0))?, count },
                }
            }
            "_jump" => Instruction::Jump(self.jump(p(0), &code)?),
            "_jump_if_zero" => {
                let condition = self.value(p(0))?;
                Instruction::JumpIfZero { condition, to: self.jump(p(1), &code)? }
            }
            "exit" => Instruction::Exit,
            "assert" | "assume" => {
                let condition = self.boolean(p(0))?;
                let format = format!("{} failed", call.op);
                let source = line_of(call.source_info.as_ref());
                self.program.logs.push(LogMessage { format, arguments: Vec::new(), source });
                Instruction::Assert { condition, message: self.program.logs.len() as u32 - 1 }
            }
            "log_msg" => self.log_message(call)?,
            "add_header" | "add_header_fast" => {
                Instruction::AddHeader { href: self.href(p(0))?, clear: call.op == "add_header" }
            }
            "remove_header" => Instruction::RemoveHeader(self.href(p(0))?),
            "drop" => Instruction::Drop,
            "mark_to_drop" => self.mark_to_drop(parameters)?,
            "generate_digest" => Instruction::Digest { list: self.value(p(1))? },
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                Instruction::Clone { session: self.value(p(0))?, list: self.value(p(1))? }
            }
            "resubmit" => Instruction::Resubmit(self.value(p(0))?),
            "recirculate" => Instruction::Recirculate(self.value(p(0))?),
            "truncate" => Instruction::Truncate(self.value(p(0))?),
            "modify_field_with_hash_based_offset" => {
                let name = self.named(p(2), "calculation")?;
                let calculation = self.find("calculation", &self.calculations, name)?;
                let (to, _) = self.target(p(0))?;
                Instruction::Hash { to, base: self.value(p(1))?, calculation, max: self.value(p(3))? }
            }
            "modify_field_rng_uniform" => {
                let (to, _) = self.target(p(0))?;
                Instruction::Random { to, low: self.value(p(1))?, high: self.value(p(2))? }
            }
            "execute_meter" => {
                let name = self.named(p(0), "meter_array")?;
                let array = self.find("meter array", &self.meters, name)?;
                Instruction::Meter { array, index: self.value(p(1))?, to: self.target(p(2))?.0 }
            }
            "count" => {
                let name = self.named(p(0), "counter_array")?;
                let array = self.find("counter array", &self.counters, name)?;
                Instruction::Count { array, index: self.value(p(1))? }
            }
            "register_read" => {
                let name = self.named(p(1), "register_array")?;
                let array = self.find("register array", &self.registers, name)?;
                Instruction::ReadRegister { to: self.target(p(0))?.0, array, index: self.value(p(2))? }
            }
            "register_write" => {
                let name = self.named(p(0), "register_array")?;
                let array = self.find("register array", &self.registers, name)?;
                let width = self.program.registers[array as usize].width;
                Instruction::WriteRegister {
                    array,
                    index: self.value(p(1))?,
                    value: self.value_for(p(2), width)?,
                }
            }
            // Arithmetic primitives of P4_14.
            op => {
                let (left, right) = if wanted == 2 { (p(0), p(1)) } else { (p(1), p(2)) };
                let (to, demand) = self.target(p(0))?;
                let op = match op {
                    "add" | "add_to_field" => "+",
                    "subtract" | "subtract_from_field" => "-",
                    "bit_and" => "&",
                    "bit_or" => "|",
                    "bit_xor" => "^",
                    "shift_left" => "<<",
                    _ => ">>",
                };
                let exact = if op == ">>" { EXACT } else { demand };
                let left = self.int(left, exact)?;
                let right = self.int(right, if matches!(op, "<<" | ">>") { EXACT } else { demand })?;
                let root = self.binary(op, left, right, demand);
                Instruction::Set { to, value: self.sized(root) }
            }
        })
    }

    fn named<'v>(&self, value: &'v Value, wanted: &str) -> Result<&'v str> {
        match self.typed(value)? {
            Typed::Value { kind, value } if kind == wanted => self.name(value),
            _ => Err(self.error(format!("{} is not a {wanted}", short(value)))),
        }
    }

    fn jump(&mut self, value: &Value, code: &std::ops::Range<u32>) -> Result<u32> {
        let target = self.int(value, EXACT)?;
        let target =
            self.constant_of(target).ok_or_else(|| self.error("a jump's target is not a constant"))?;
        if target > u64::from(code.end - code.start) {
            return Err(self.error(format!("the jump leads to primitive {target}, which does not exist")));
        }
        Ok(code.start + target as u32)
    }

    /// Lowers an assignment to the cheapest instruction.
    pub(super) fn assignment(&mut self, to: &Value, from: &Value) -> Result<Instruction> {
        let (target, demand) = self.target(to)?;
        let value = if self.kind(from)? == Kind::Bool {
            let truth = self.boolean(from)?;
            self.push(Int::FromBool(truth), 2, false, EXACT, &[])
        } else {
            self.int(from, demand)?
        };
        if let Target::Variable(to) = target
            && let Int::Variable(from) = self.program.ints[value as usize]
        {
            return Ok(Instruction::CopyVariable { to, from });
        }
        Ok(self.cheapest(target, self.sized(value)))
    }

    fn cheapest(&self, to: Target, value: Expr) -> Instruction {
        let general = Instruction::Set { to, value };
        let Target::Field(field) = to else { return general };
        let plain = |field: &Field| !field.signed && field.width <= 64;
        match self.program.ints[value.root as usize] {
            _ if field.saturating => general,
            Int::Field(from) if plain(&from) && plain(&field) => Instruction::CopyField { to: field, from },
            Int::Small(value) if field.width <= 128 => {
                Instruction::SetConst { to: field, value: i128::from(value) as u128 }
            }
            Int::Const(value) if field.width <= 128 => {
                Instruction::SetConst { to: field, value: value as u128 }
            }
            Int::Parameter { offset, width }
                if width <= 128 && field.width <= 128 && value.size <= Size::Middle =>
            {
                Instruction::SetParameter { to: field, offset, width }
            }
            _ => general,
        }
    }

    fn log_message(&mut self, call: &Call) -> Result<Instruction> {
        let format = match self.typed(&call.parameters[0])? {
            Typed::Value { kind: "string", value } => self.name(value)?.to_owned(),
            _ => return Err(self.error("the message is not a string")),
        };
        let Typed::Value { kind: "parameters_vector", value } = self.typed(&call.parameters[1])? else {
            return Err(self.error("the message's arguments are not a vector of parameters"));
        };
        let mut arguments = Vec::new();
        for argument in value.as_array().into_iter().flatten() {
            arguments.push(self.value(argument)?);
        }
        let source = line_of(call.source_info.as_ref());
        self.program.logs.push(LogMessage { format, arguments, source });
        Ok(Instruction::Log(self.program.logs.len() as u32 - 1))
    }

    /// Marks the standard metadata, or a variable of its type.
    fn mark_to_drop(&mut self, parameters: &[Value]) -> Result<Instruction> {
        let Some(parameter) = parameters.first() else { return Ok(Instruction::Drop) };
        let name = self.named(parameter, "header")?;
        let header = self.find("header", &self.headers, name)?;
        if self.program.standard.egress_spec.is_some_and(|field| field.header == header) {
            return Ok(Instruction::Drop);
        }
        match self.fixed_field(header, "egress_spec") {
            Some(egress_spec) => {
                let mcast_grp = self.fixed_field(header, "mcast_grp");
                Ok(Instruction::DropIn { egress_spec, mcast_grp })
            }
            None => Err(self.error(format!("header '{name}' has no field 'egress_spec'"))),
        }
    }
}
