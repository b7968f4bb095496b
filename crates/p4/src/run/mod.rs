//! Execution of a program on one packet.

mod actions;
mod checksums;
mod control;
mod deparser;
mod parser;

use crate::bits::PADDING;
use crate::eval::Env;
use crate::packet::Packet;
use crate::program::code::Target;
use crate::program::{Expr, Program};
use crate::state::State;
use crate::trace::Trace;
use belljar_base::SimTime;

/// Scratch buffers shared by all packets of a switch.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    key: Vec<u8>,
    arguments: Vec<u8>,
    bytes: Vec<u8>,
    headers: Vec<u8>,
}

/// Packet being processed.
pub(crate) struct Run<'a> {
    pub program: &'a Program,
    pub state: &'a mut State,
    pub scratch: &'a mut Scratch,
    pub packet: &'a mut Packet,
    pub now: SimTime,
    /// Messages of `log_msg` and of failed assertions.
    pub logs: &'a mut Vec<String>,
    pub trace: Option<&'a mut Trace>,
}

impl Run<'_> {
    fn env(&self) -> Env<'_> {
        Env {
            program: self.program,
            phv: &self.packet.phv,
            arguments: &self.scratch.arguments,
            registers: &self.state.registers,
            ahead: &self.packet.data[self.packet.parsed.min(self.packet.data.len())..],
        }
    }

    fn trace(&mut self, line: impl FnOnce(&Program) -> String) {
        if let Some(trace) = &mut self.trace {
            trace.line_with(line(self.program), Some(&self.packet.phv));
        }
    }

    /// Records the effect of the last trace line.
    fn trace_effect(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.effect(&self.packet.phv);
        }
    }

    /// Assigns the value of an expression.
    fn assign(&mut self, to: Target, value: Expr) {
        match to {
            Target::Field(field) if field.saturating => {
                let limited = self.env().saturated(value, field.width, field.signed);
                self.put_wide(to, &limited);
            }
            Target::Field(field) if field.width <= 128 => {
                let low = self.env().low(value);
                self.packet.phv.set(&field, low);
            }
            Target::Field(field) => {
                let mut bytes = vec![0; field.width.div_ceil(8) as usize];
                self.env().bytes(value, &mut bytes);
                self.packet.phv.set_bytes(&field, &bytes);
            }
            Target::Dynamic { header, field } => {
                if let Some(header) = self.env().header(header) {
                    self.assign(Target::Field(self.program.field_of(header, field)), value);
                }
            }
            Target::Variable(header) => {
                let (offset, width) = self.env().variable(header);
                let mut bytes = vec![0; width.div_ceil(8) as usize];
                self.env().bytes(value, &mut bytes);
                crate::bits::set_bytes(&mut self.packet.phv.bytes, offset, width, &bytes);
            }
            Target::Register { array, index } => {
                let index = self.env().element(index);
                self.write_register(array, index, value);
            }
        }
    }

    fn write_register(&mut self, array: u32, index: u64, value: Expr) {
        let registers = &self.state.registers[array as usize];
        let Some(place) = registers.place(index) else { return };
        let width = registers.width;
        if width <= 128 {
            let low = self.env().low(value);
            crate::bits::set(&mut self.state.registers[array as usize].bytes, place, width, low);
        } else {
            let mut bytes = vec![0; width.div_ceil(8) as usize];
            self.env().bytes(value, &mut bytes);
            self.state.registers[array as usize].write(index, &bytes);
        }
    }

    /// Assigns a number of at most 128 bits.
    fn put(&mut self, to: Target, value: u128) {
        match to {
            Target::Field(field) if field.width <= 128 && !field.saturating => {
                self.packet.phv.set(&field, value)
            }
            _ => self.put_wide(to, &value.into()),
        }
    }

    fn put_wide(&mut self, to: Target, value: &num_bigint::BigInt) {
        let bytes = |width: u32| {
            let mut bytes = vec![0; width.div_ceil(8) as usize];
            crate::number::Number::to_bytes(value, &mut bytes);
            bytes
        };
        match to {
            Target::Field(field) => self.packet.phv.set_bytes(&field, &bytes(field.width)),
            Target::Dynamic { header, field } => {
                if let Some(header) = self.env().header(header) {
                    let field = self.program.field_of(header, field);
                    self.packet.phv.set_bytes(&field, &bytes(field.width));
                }
            }
            Target::Variable(header) => {
                let (offset, width) = self.env().variable(header);
                crate::bits::set_bytes(&mut self.packet.phv.bytes, offset, width, &bytes(width));
            }
            Target::Register { array, index } => {
                let index = self.env().element(index);
                let width = self.state.registers[array as usize].width;
                self.state.registers[array as usize].write(index, &bytes(width));
            }
        }
    }

    /// Sets the arguments of the next action.
    fn set_arguments(scratch: &mut Scratch, arguments: &[u8]) {
        scratch.arguments.clear();
        scratch.arguments.extend_from_slice(arguments);
        scratch.arguments.resize(arguments.len() + PADDING, 0);
    }
}
