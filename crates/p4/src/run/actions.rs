//! Execution of actions.

use super::Run;
use crate::bits;
use crate::program::code::{Instruction, Target};
use num_bigint::BigInt;

/// Maximum number of backward jumps per action, so that an endless loop cannot stop the switch.
const MAX_BACK_JUMPS: u32 = 1 << 20;
/// Maximum number of branches per action in a trace.
const MAX_BRANCHES: u32 = 1_000;

impl Run<'_> {
    /// Runs an action whose arguments have been set.
    pub(super) fn action(&mut self, action: u32) {
        let code = self.program.actions[action as usize].code.clone();
        self.code(code.start, code.end);
    }

    /// Runs the instructions from `start` to `end`; stops after [`MAX_BACK_JUMPS`] backward jumps.
    pub(super) fn code(&mut self, start: u32, end: u32) {
        let (mut at, mut back, mut branches) = (start, 0, 0);
        while at < end {
            let instruction = self.program.code[at as usize];
            let target = match instruction {
                Instruction::Jump(target) => Some(target),
                Instruction::JumpIfZero { condition, to } => {
                    let zero = self.env().is_zero(condition);
                    if self.trace.is_some() {
                        branches += 1;
                        self.trace_branch(at, !zero, branches);
                    }
                    zero.then_some(to)
                }
                other => {
                    self.instruction(other);
                    None
                }
            };
            match target {
                Some(target) if target <= at => {
                    back += 1;
                    if back > MAX_BACK_JUMPS {
                        return;
                    }
                    at = target;
                }
                Some(target) => at = target,
                None => at += 1,
            }
        }
    }

    /// Traces a branch inside an action, with the source line of its condition.
    #[cold]
    fn trace_branch(&mut self, at: u32, truth: bool, count: u32) {
        let Some(source) = self.program.branches.get(&at) else { return };
        // The preceding trace line covers the statements up to this branch.
        self.trace_effect();
        if count <= MAX_BRANCHES {
            self.trace(|_| format!("    if {} is {truth}", crate::trace::condition(source)));
        } else if count == MAX_BRANCHES + 1 {
            self.trace(|_| format!("    more than {MAX_BRANCHES} branches in one action"));
        }
    }

    fn instruction(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::Nothing | Instruction::Jump(_) | Instruction::JumpIfZero { .. } => {}
            Instruction::CopyField { to, from } => {
                let value = self.packet.phv.get(&from);
                self.packet.phv.set(&to, value);
            }
            Instruction::SetConst { to, value } => self.packet.phv.set(&to, value),
            Instruction::SetParameter { to, offset, width } => {
                let value = bits::get(&self.scratch.arguments, offset, width);
                self.packet.phv.set(&to, value);
            }
            Instruction::Set { to, value } => self.assign(to, value),
            Instruction::SetMasked { to, value, mask, old } => {
                let env = self.env();
                let (value, mask, old) = (env.wide(value), env.wide(mask), env.wide(old));
                let merged: BigInt = (old & !mask.clone()) | (value & mask);
                self.put_wide(to, &merged);
            }
            Instruction::CopyVariable { to, from } => self.copy_variable(to, from),
            Instruction::CopyHeader { to, from } => {
                let (to, from) = (self.env().header(to), self.env().header(from));
                if let Some(to) = to {
                    self.copy_header(to, from);
                }
            }
            Instruction::CopyUnion { to, from } => {
                if let (Some(to), Some(from)) = (self.env().union(to), self.env().union(from)) {
                    self.copy_union(to, from);
                }
            }
            Instruction::CopyStack { to, from } => {
                let program = self.program;
                let headers =
                    program.stacks[to as usize].headers.iter().zip(&program.stacks[from as usize].headers);
                for (to, from) in headers {
                    self.copy_header(*to, Some(*from));
                }
                self.packet.phv.stacks[to as usize] = self.packet.phv.stacks[from as usize];
            }
            Instruction::CopyUnionStack { to, from } => {
                let program = self.program;
                let unions = program.union_stacks[to as usize].unions.iter();
                for (to, from) in unions.zip(&program.union_stacks[from as usize].unions) {
                    self.copy_union(*to, *from);
                }
                self.packet.phv.union_stacks[to as usize] = self.packet.phv.union_stacks[from as usize];
            }
            Instruction::Push { stack, count } => self.shift(stack, count, true),
            Instruction::Pop { stack, count } => self.shift(stack, count, false),
            Instruction::PushUnion { stack, count } => self.shift_unions(stack, count, true),
            Instruction::PopUnion { stack, count } => self.shift_unions(stack, count, false),
            Instruction::Exit => self.packet.exit = true,
            Instruction::Assert { condition, message } => {
                if !self.env().truth(condition) {
                    self.packet.failed = true;
                    self.packet.exit = true;
                    self.log(message);
                }
            }
            Instruction::Log(message) => self.log(message),
            Instruction::AddHeader { href, clear } => {
                if let Some(header) = self.env().header(href)
                    && !self.packet.phv.valid[header as usize]
                {
                    if clear {
                        self.packet.phv.clear(self.program, header);
                    }
                    self.packet.phv.set_valid(self.program, header);
                    self.packet.len += self.packet.phv.len(self.program, header);
                }
            }
            Instruction::RemoveHeader(href) => {
                if let Some(header) = self.env().header(href)
                    && self.packet.phv.valid[header as usize]
                {
                    let len = self.packet.phv.len(self.program, header);
                    self.packet.len = self.packet.len.saturating_sub(len);
                    self.packet.phv.set_invalid(self.program, header);
                }
            }
            Instruction::Drop => {
                let standard = &self.program.standard;
                self.packet.phv.put(standard.egress_spec, crate::switch::DROP_PORT);
                self.packet.phv.put(standard.mcast_grp, 0);
            }
            Instruction::DropIn { egress_spec, mcast_grp } => {
                self.packet.phv.put(Some(egress_spec), crate::switch::DROP_PORT);
                self.packet.phv.put(mcast_grp, 0);
            }
            Instruction::Digest { list } => self.packet.digest = self.env().low(list) as u16,
            Instruction::Clone { session, list } => {
                let env = self.env();
                self.packet.clone = Some((env.low(session) as u16, env.low(list) as u16));
            }
            Instruction::Resubmit(list) => self.packet.resubmit = self.env().low(list) as u16,
            Instruction::Recirculate(list) => self.packet.recirculate = self.env().low(list) as u16,
            Instruction::Hash { to, base, calculation, max } => {
                let (base, max) = (self.env().index(base), self.env().index(max).max(1));
                let hash = self.calculate(calculation);
                self.put(to, u128::from(hash % max) + u128::from(base));
            }
            Instruction::Random { to, low, high } => {
                let (low, high) = (self.env().index(low), self.env().index(high));
                if low <= high {
                    let span = (high - low).wrapping_add(1);
                    let random = &mut self.state.random;
                    let value = if span == 0 { random.next_u64() } else { low + random.below(span) };
                    self.put(to, u128::from(value));
                }
            }
            Instruction::Meter { array, index, to } => {
                let index = self.env().element(index);
                let described = &self.program.meters[array as usize];
                let units = if described.bytes { u64::from(self.packet.ingress_len) } else { 1 };
                let meters = &mut self.state.meters[array as usize];
                if let Some(meter) = usize::try_from(index).ok().and_then(|index| meters.get_mut(index)) {
                    let colour = meter.execute(self.now, units, described.rates == 1);
                    self.put(to, colour as u128);
                }
            }
            Instruction::Count { array, index } => {
                let index = self.env().element(index);
                let counters = &mut self.state.counters[array as usize];
                if let Some(counter) = usize::try_from(index).ok().and_then(|index| counters.get_mut(index)) {
                    counter.packets += 1;
                    counter.bytes += u64::from(self.packet.ingress_len);
                }
            }
            Instruction::ReadRegister { to, array, index } => self.read_register(to, array, index),
            Instruction::WriteRegister { array, index, value } => {
                let index = self.env().element(index);
                self.write_register(array, index, value);
            }
            Instruction::Truncate(longest) => {
                self.packet.truncate = Some(self.env().index(longest).min(u64::from(u32::MAX)) as u32);
            }
        }
    }

    fn read_register(&mut self, to: Target, array: u32, index: crate::program::Expr) {
        let index = self.env().element(index);
        let registers = &self.state.registers[array as usize];
        let Some(place) = registers.place(index) else { return };
        if registers.width <= 128 {
            let value = bits::get(&registers.bytes, place, registers.width);
            self.put(to, value);
        } else {
            let value = bits::get_wide(&registers.bytes, place, registers.width);
            self.put_wide(to, &value.into());
        }
    }

    fn copy_variable(&mut self, to: u32, from: u32) {
        let ((to_offset, _), (from_offset, width)) = (self.env().variable(to), self.env().variable(from));
        let longest = self.program.kind_of(to).variable.map_or(0, |variable| variable.max_bits);
        if to == from || !self.packet.phv.valid[to as usize] || width > longest {
            return;
        }
        let bytes = self.packet.phv.bytes.clone();
        bits::copy(&mut self.packet.phv.bytes, to_offset, &bytes, from_offset, width);
        self.packet.phv.variable[to as usize] = width;
    }

    /// Copies a header; a header that does not exist counts as invalid.
    fn copy_header(&mut self, to: u32, from: Option<u32>) {
        match from {
            Some(from) => self.packet.phv.copy_header(self.program, to, from),
            None => self.packet.phv.set_invalid(self.program, to),
        }
    }
    fn copy_union(&mut self, to: u32, from: u32) {
        let program = self.program;
        // The valid header is copied last, because it invalidates the others.
        let pairs = || program.unions[to as usize].headers.iter().zip(&program.unions[from as usize].headers);
        for valid in [false, true] {
            for (to, from) in pairs() {
                if self.packet.phv.valid[*from as usize] == valid {
                    self.copy_header(*to, Some(*from));
                }
            }
        }
    }

    fn shift(&mut self, stack: u32, count: crate::program::Expr, push: bool) {
        let program = self.program;
        let headers = &program.stacks[stack as usize].headers;
        let count = self.env().index(count).min(headers.len() as u64) as usize;
        let phv = &mut self.packet.phv;
        shift(headers.len(), count, push, |to, from| match from {
            Some(from) => phv.swap_headers(program, headers[to], headers[from]),
            None => phv.set_invalid(program, headers[to]),
        });
        let next = &mut phv.stacks[stack as usize];
        *next = shifted(*next, count, headers.len(), push);
    }
    fn shift_unions(&mut self, stack: u32, count: crate::program::Expr, push: bool) {
        let program = self.program;
        let unions = &program.union_stacks[stack as usize].unions;
        let count = self.env().index(count).min(unions.len() as u64) as usize;
        let phv = &mut self.packet.phv;
        shift(unions.len(), count, push, |to, from| {
            let members = &program.unions[unions[to] as usize].headers;
            match from {
                Some(from) => {
                    let others = &program.unions[unions[from] as usize].headers;
                    members.iter().zip(others).for_each(|(to, from)| phv.swap_headers(program, *to, *from));
                }
                None => members.iter().for_each(|header| phv.set_invalid(program, *header)),
            }
        });
        let next = &mut phv.union_stacks[stack as usize];
        *next = shifted(*next, count, unions.len(), push);
    }

    fn log(&mut self, message: u32) {
        let message = &self.program.logs[message as usize];
        let mut text = String::new();
        let mut arguments = message.arguments.iter();
        let mut rest = message.format.as_str();
        while let Some(at) = rest.find("{}") {
            text.push_str(&rest[..at]);
            match arguments.next() {
                Some(argument) => text.push_str(&self.env().wide(*argument).to_string()),
                None => text.push_str("{}"),
            }
            rest = &rest[at + 2..];
        }
        text.push_str(rest);
        text.push_str(&crate::trace::source(message.source.as_ref()));
        self.trace(|_| format!("    log {text}"));
        self.logs.push(text);
    }
}

/// Shifts the elements of a stack by `count`, at most its length. `swap` swaps two elements, or invalidates
/// one.
fn shift(len: usize, count: usize, push: bool, mut swap: impl FnMut(usize, Option<usize>)) {
    if count == 0 {
        return;
    }
    if push {
        for to in (0..len).rev() {
            swap(to, to.checked_sub(count));
        }
    } else {
        for to in 0..len {
            swap(to, Some(to + count).filter(|from| *from < len));
        }
    }
}

fn shifted(next: u32, count: usize, len: usize, push: bool) -> u32 {
    if push { (next as usize + count).min(len) as u32 } else { (next as usize).saturating_sub(count) as u32 }
}
