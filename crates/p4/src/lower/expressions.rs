//! Typed values and expressions.

use super::arithmetic::EXACT;
use super::{Locals, Lower, Result};
use crate::number::parse_hex;
use crate::program::Expr;
use crate::program::code::{Bool, Href, Int, Relation, Target, Uref};
use serde_json::Value;

/// Kind of a typed JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Bool,
    Header,
    Union,
    Stack,
    UnionStack,
}

/// Decoded typed JSON value.
#[derive(Clone, Copy)]
pub(super) enum Typed<'v> {
    Value { kind: &'v str, value: &'v Value },
    Operation { op: &'v str, left: &'v Value, right: &'v Value, condition: &'v Value },
}

const NULL: Value = Value::Null;

impl Lower<'_> {
    pub(super) fn typed<'v>(&self, value: &'v Value) -> Result<Typed<'v>> {
        let mut value = value;
        // Expressions may be nested to any depth.
        while value.get("type").and_then(Value::as_str) == Some("expression") {
            value = &value["value"];
        }
        if let Some(op) = value.get("op").and_then(Value::as_str) {
            let part = |name: &str| value.get(name).unwrap_or(&NULL);
            return Ok(Typed::Operation {
                op,
                left: part("left"),
                right: part("right"),
                condition: part("cond"),
            });
        }
        let kind = value.get("type").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| self.error(format!("{} is not a typed value", short(value))))?;
        Ok(Typed::Value { kind, value: value.get("value").unwrap_or(&NULL) })
    }

    pub(super) fn kind(&self, value: &Value) -> Result<Kind> {
        Ok(match self.typed(value)? {
            Typed::Value { kind, .. } => match kind {
                "bool" => Kind::Bool,
                "header" => Kind::Header,
                "header_union" => Kind::Union,
                "header_stack" => Kind::Stack,
                "header_union_stack" => Kind::UnionStack,
                _ => Kind::Int,
            },
            Typed::Operation { op, left, .. } => match op {
                "==" | "!=" | "<" | "<=" | ">" | ">=" | "and" | "or" | "not" | "d2b" | "valid"
                | "valid_union" => Kind::Bool,
                "?" => self.kind(left)?,
                "dereference_header_stack" | "access_union_header" => Kind::Header,
                "dereference_union_stack" => Kind::Union,
                _ => Kind::Int,
            },
        })
    }

    fn pair<'v>(&self, value: &'v Value) -> Result<(&'v str, &'v str)> {
        match (value.get(0).and_then(Value::as_str), value.get(1).and_then(Value::as_str)) {
            (Some(header), Some(field)) => Ok((header, field)),
            _ => Err(self.error(format!("{} is not written as [header, field]", short(value)))),
        }
    }
    pub(super) fn name<'v>(&self, value: &'v Value) -> Result<&'v str> {
        value.as_str().ok_or_else(|| self.error(format!("{} is not a name", short(value))))
    }

    /// Lowers an integer or Boolean at full precision.
    pub(super) fn value(&mut self, value: &Value) -> Result<Expr> {
        self.value_for(value, EXACT)
    }
    /// Lowers an integer or Boolean of which only the low `demand` bits are used.
    pub(super) fn value_for(&mut self, value: &Value, demand: u32) -> Result<Expr> {
        let int = self.int(value, demand)?;
        Ok(self.sized(int))
    }

    pub(super) fn int(&mut self, value: &Value, demand: u32) -> Result<u32> {
        match self.typed(value)? {
            Typed::Value { kind, value } => self.plain(kind, value, demand),
            Typed::Operation { op, left, right, condition } => {
                self.operation(op, left, right, condition, demand, value)
            }
        }
    }

    fn plain(&mut self, kind: &str, value: &Value, demand: u32) -> Result<u32> {
        match kind {
            "field" => {
                let (header, field) = self.pair(value)?;
                self.field(header, field, demand)
            }
            "hexstr" => {
                let text = self.name(value)?;
                let number = parse_hex(text)
                    .ok_or_else(|| self.error(format!("'{text}' is not a hexadecimal number")))?;
                Ok(self.constant(&number))
            }
            "bool" => {
                let truth = value
                    .as_bool()
                    .ok_or_else(|| self.error(format!("{} is not true or false", short(value))))?;
                Ok(self.constant(&u8::from(truth).into()))
            }
            "local" | "runtime_data" => self.local(value),
            "register" => {
                let array = self.name(&value[0])?;
                let array = self.find("register array", &self.registers, array)?;
                let index = self.value(&value[1])?;
                let width = self.program.registers[array as usize].width;
                let int = Int::Register { array, index: index.root, index_size: index.size };
                Ok(self.push(int, width + 1, false, demand, &[]))
            }
            "stack_field" => {
                let (stack, field) = self.pair(value)?;
                let stack = self.find("header stack", &self.stacks, stack)?;
                self.program.hrefs.push(Href::Last(stack));
                let header = self.program.hrefs.len() as u32 - 1;
                let Some(first) = self.program.stacks[stack as usize].headers.first().copied() else {
                    return Err(self.error("the header stack is empty"));
                };
                let field = self.field_number(first, field)?;
                self.dynamic_field(header, field, demand)
            }
            "union_stack_field" => {
                let stack = self.name(&value[0])?;
                let stack = self.find("header union stack", &self.union_stacks, stack)?;
                self.program.urefs.push(Uref::Last(stack));
                let union = self.program.urefs.len() as u32 - 1;
                let member = self.name(&value[1])?;
                let kind = self.union_stack_type(stack).to_owned();
                let header = self.member(union, &kind, member)?;
                let first = self.example(header)?;
                let field = self.name(&value[2])?;
                let field = self.field_number(first, field)?;
                self.dynamic_field(header, field, demand)
            }
            "lookahead" => {
                if !self.in_parser {
                    return Err(self.error("a lookahead stands outside a parser"));
                }
                let part = |n: usize| value[n].as_u64().filter(|bits| *bits <= super::MAX_WIDTH);
                let (Some(offset), Some(width)) = (part(0), part(1)) else {
                    return Err(self.error(format!("{} is not written as [offset, width]", short(value))));
                };
                self.ahead = self.ahead.max((offset + width).div_ceil(8) as u32);
                let int = Int::Lookahead { offset: offset as u32, width: width as u32 };
                Ok(self.push(int, width as u32 + 1, false, demand, &[]))
            }
            other => Err(self.error(format!("a value of type '{other}' cannot stand here"))),
        }
    }

    pub(super) fn field(&mut self, header: &str, field: &str, demand: u32) -> Result<u32> {
        if let Some(union) = self.unions.get(header).copied()
            && field == "$valid$"
        {
            return Ok(self.push(Int::ValidUnion(union), 2, false, demand, &[]));
        }
        let header = self.find("header", &self.headers, header)?;
        if field == "$valid$" {
            return Ok(self.push(Int::Valid(header), 2, false, demand, &[]));
        }
        let number = self.field_number(header, field)?;
        if let Some(variable) = self.program.kind_of(header).variable
            && variable.index == number
        {
            return Ok(self.push(Int::Variable(header), variable.max_bits + 1, false, demand, &[]));
        }
        let field = self.program.field_of(header, number);
        let bits = field.width + u32::from(!field.signed);
        Ok(self.push(Int::Field(field), bits, field.signed, demand, &[]))
    }

    fn dynamic_field(&mut self, header: u32, field: u32, demand: u32) -> Result<u32> {
        let example = self.example(header)?;
        let kind = self.program.kind_of(example);
        let Some(described) = kind.fields.get(field as usize) else {
            return Err(self.error(format!("header type '{}' has no field number {field}", kind.name)));
        };
        if kind.variable.is_some_and(|variable| variable.index == field) {
            return Err(self.error(format!(
                "the field '{}' of variable width is named through a stack",
                described.name
            )));
        }
        let (bits, signed) = (described.width + u32::from(!described.signed), described.signed);
        Ok(self.push(Int::DynamicField { header, field }, bits, signed, demand, &[]))
    }

    fn local(&mut self, value: &Value) -> Result<u32> {
        let number = value
            .as_u64()
            .ok_or_else(|| self.error(format!("{} is not the number of a local", short(value))))?;
        match self.locals {
            Locals::Action(action) => {
                let parameters = &self.program.actions[action as usize].parameters;
                let parameter = parameters.get(number as usize);
                let parameter = parameter
                    .ok_or_else(|| self.error(format!("the action has no parameter number {number}")))?;
                let (offset, width) = (parameter.offset, parameter.width);
                Ok(self.push(Int::Parameter { offset, width }, width + 1, false, EXACT, &[]))
            }
            Locals::Header(header) if (number as usize) < self.program.kind_of(header).fields.len() => {
                let field = self.program.field_of(header, number as u32);
                Ok(self.push(Int::Field(field), field.width + 1, field.signed, EXACT, &[]))
            }
            _ => Err(self.error(format!("local number {number} does not exist here"))),
        }
    }

    fn operation(
        &mut self,
        op: &str,
        left: &Value,
        right: &Value,
        condition: &Value,
        demand: u32,
        all: &Value,
    ) -> Result<u32> {
        match op {
            "+" | "-" | "*" | "|" | "^" => {
                let a = self.int(left, demand)?;
                let b = self.int(right, demand)?;
                Ok(self.binary(op, a, b, demand))
            }
            "&" => {
                let mask = self.int(right, demand)?;
                let a = self.int(left, self.mask_bits(mask).map_or(demand, |bits| bits.min(demand)))?;
                Ok(self.binary(op, a, mask, demand))
            }
            "<<" => {
                let a = self.int(left, demand)?;
                let b = self.int(right, EXACT)?;
                Ok(self.binary(op, a, b, demand))
            }
            ">>" | "/" | "%" => {
                let a = self.int(left, EXACT)?;
                let b = self.int(right, EXACT)?;
                Ok(self.binary(op, a, b, EXACT))
            }
            "~" => {
                let a = self.int(right, demand)?;
                Ok(self.push(Int::Not(a), self.bits(a), true, demand, &[a]))
            }
            "b2d" => {
                let truth = self.boolean(right)?;
                Ok(self.push(Int::FromBool(truth), 2, false, demand, &[]))
            }
            "?" => {
                let truth = self.boolean(condition)?;
                let (yes, no) = (self.int(left, demand)?, self.int(right, demand)?);
                let bits = self.bits(yes).max(self.bits(no));
                let int = Int::If { condition: truth, yes, no };
                Ok(self.push(int, bits, true, demand, &[yes, no]))
            }
            "two_comp_mod" | "sat_cast" | "usat_cast" => {
                let width = self.int(right, EXACT)?;
                let bits = self.constant_of(width).unwrap_or(super::MAX_WIDTH).min(super::MAX_WIDTH) as u32;
                let a = self.int(left, if op == "two_comp_mod" { bits } else { EXACT })?;
                let (int, negative) = match op {
                    "two_comp_mod" => (Int::TwoCompMod(a, width), true),
                    "sat_cast" => (Int::SatCast(a, width), true),
                    _ => (Int::UsatCast(a, width), false),
                };
                Ok(self.push(int, bits + 1, negative, EXACT, &[a, width]))
            }
            "last_stack_index" | "size_stack" => {
                let Typed::Value { kind, value } = self.typed(right)? else {
                    return Err(self.error(format!("'{op}' is not asked of a stack")));
                };
                let name = self.name(value)?;
                let int = match (kind, op) {
                    ("header_union_stack", "size_stack") => {
                        Int::UnionStackSize(self.find("header union stack", &self.union_stacks, name)?)
                    }
                    ("header_union_stack", _) => {
                        Int::UnionStackLastIndex(self.find("header union stack", &self.union_stacks, name)?)
                    }
                    (_, "size_stack") => Int::StackSize(self.find("header stack", &self.stacks, name)?),
                    _ => Int::LastIndex(self.find("header stack", &self.stacks, name)?),
                };
                Ok(self.push(int, 34, true, demand, &[]))
            }
            "access_field" => {
                let header = self.href(left)?;
                let field = right
                    .as_u64()
                    .ok_or_else(|| self.error(format!("{} is not the number of a field", short(right))))?;
                self.dynamic_field(header, field as u32, demand)
            }
            _ if self.kind(all)? == Kind::Bool => {
                let truth = self.boolean(all)?;
                Ok(self.push(Int::FromBool(truth), 2, false, demand, &[]))
            }
            other => Err(self.error_with(
                format!("operation '{other}' is not known"),
                "see the list of operations of BMv2 JSON",
            )),
        }
    }

    pub(super) fn boolean(&mut self, value: &Value) -> Result<u32> {
        let truth = match self.typed(value)? {
            Typed::Value { kind: "bool", value } => Bool::Const(
                value
                    .as_bool()
                    .ok_or_else(|| self.error(format!("{} is not true or false", short(value))))?,
            ),
            Typed::Value { .. } => Bool::NotZero(self.value(value)?),
            Typed::Operation { op, left, right, condition } => match op {
                "d2b" => Bool::NotZero(self.value(right)?),
                "and" => Bool::And(self.boolean(left)?, self.boolean(right)?),
                "or" => Bool::Or(self.boolean(left)?, self.boolean(right)?),
                "not" => Bool::Not(self.boolean(right)?),
                "valid" => Bool::Valid(self.href(right)?),
                "valid_union" => Bool::ValidUnion(self.uref(right)?),
                "?" => Bool::If {
                    condition: self.boolean(condition)?,
                    yes: self.boolean(left)?,
                    no: self.boolean(right)?,
                },
                "==" | "!=" | "<" | "<=" | ">" | ">=" => self.comparison(op, left, right)?,
                _ => Bool::NotZero(self.value(value)?),
            },
        };
        self.program.bools.push(truth);
        Ok(self.program.bools.len() as u32 - 1)
    }

    fn comparison(&mut self, op: &str, left: &Value, right: &Value) -> Result<Bool> {
        let (kind, other) = (self.kind(left)?, self.kind(right)?);
        let equal = op == "==";
        if kind != other {
            return Err(self.error(format!("'{op}' compares a {kind:?} and a {other:?}").to_lowercase()));
        }
        if kind != Kind::Int && !matches!(op, "==" | "!=") {
            return Err(self.error(format!("'{op}' needs two numbers")));
        }
        Ok(match kind {
            Kind::Int => {
                let (left, right) = (self.int(left, EXACT)?, self.int(right, EXACT)?);
                let relation = match op {
                    "==" => Relation::Equal,
                    "!=" => Relation::NotEqual,
                    "<" => Relation::Less,
                    "<=" => Relation::LessEqual,
                    ">" => Relation::Greater,
                    _ => Relation::GreaterEqual,
                };
                Bool::Compare { relation, left, right, size: self.size_of(left, right) }
            }
            Kind::Bool => Bool::Same { left: self.boolean(left)?, right: self.boolean(right)?, equal },
            Kind::Header => {
                let (left, right) = (self.href(left)?, self.href(right)?);
                self.same_type(left, right)?;
                Bool::SameHeader { left, right, equal }
            }
            Kind::Union => {
                let (left, right) = (self.uref(left)?, self.uref(right)?);
                self.same_union_type(left, right)?;
                Bool::SameUnion { left, right, equal }
            }
            Kind::Stack => {
                let (left, right) = (self.stack(left)?, self.stack(right)?);
                self.same_stack_type(left, right)?;
                Bool::SameStack { left, right, equal }
            }
            Kind::UnionStack => return Err(self.error("stacks of unions cannot be compared")),
        })
    }

    /// Destination of an assignment, and its width; [`EXACT`] if the value saturates.
    pub(super) fn target(&mut self, value: &Value) -> Result<(Target, u32)> {
        if let Typed::Value { kind: "register", value } = self.typed(value)? {
            let array = self.name(&value[0])?;
            let array = self.find("register array", &self.registers, array)?;
            let index = self.value(&value[1])?;
            return Ok((Target::Register { array, index }, self.program.registers[array as usize].width));
        }
        let int = self.int(value, EXACT)?;
        match self.program.ints[int as usize] {
            Int::Field(field) => {
                Ok((Target::Field(field), if field.saturating { EXACT } else { field.width }))
            }
            Int::DynamicField { header, field } => {
                let example = self.example(header)?;
                let described = &self.program.kind_of(example).fields[field as usize];
                let width = if described.saturating { EXACT } else { described.width };
                Ok((Target::Dynamic { header, field }, width))
            }
            Int::Variable(header) => Ok((Target::Variable(header), EXACT)),
            _ => Err(self.error(format!("{} cannot be assigned to", short(value)))),
        }
    }
}

/// Abbreviated JSON text of a value.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
