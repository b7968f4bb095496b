//! Ingress and egress: tables and conditions.

use super::Run;
use crate::bits;
use crate::phv::Phv;
use crate::profile::ProfileState;
use crate::program::{Key, NONE, Node, Program, Source};
use crate::table::Outcome;

/// Writes the fields of a key to its zeroed buffer. Fields of invalid headers are 0.
fn build_key(program: &Program, keys: &[Key], phv: &Phv, out: &mut [u8]) {
    for key in keys {
        match key.source {
            Source::Field(field) if !field.metadata && !phv.valid[field.header as usize] => {}
            Source::Field(field) if field.width <= 128 => {
                bits::set(out, key.offset, key.width, bits::get(&phv.bytes, field.offset, field.width));
            }
            Source::Field(field) => bits::copy(out, key.offset, &phv.bytes, field.offset, field.width),
            Source::Valid(header) => bits::set(out, key.offset, 1, u128::from(phv.valid[header as usize])),
            Source::ValidUnion(union) => {
                let headers = &program.unions[union as usize].headers;
                let valid = headers.iter().any(|header| phv.valid[*header as usize]);
                bits::set(out, key.offset, 1, u128::from(valid));
            }
        }
        if let Some(mask) = &key.mask {
            let mut value = vec![0; mask.len()];
            bits::get_bytes(out, key.offset, key.width, &mut value);
            value.iter_mut().zip(mask).for_each(|(value, mask)| *value &= mask);
            bits::set_bytes(out, key.offset, key.width, &value);
        }
    }
}

/// Maximum number of tables and conditions that a packet visits in one pipeline, so that an endless loop
/// cannot stop the switch.
const MAX_NODES: u32 = 1 << 16;

impl Run<'_> {
    /// Runs a pipeline from its first node. A packet that visits more than [`MAX_NODES`] nodes is dropped as
    /// by a failed assertion.
    pub fn pipeline(&mut self, first: u32) {
        let program = self.program;
        let (mut next, mut met) = (first, 0);
        while next != NONE && !self.packet.exit && met < MAX_NODES {
            met += 1;
            next = match &program.nodes[next as usize] {
                Node::Table(table) => self.table(*table),
                Node::If { condition, yes, no, name, line } => {
                    let truth = self.env().truth(*condition);
                    self.trace(|_| match line.as_ref().filter(|line| !line.source_fragment.is_empty()) {
                        Some(line) => format!("  if {} is {truth}", crate::trace::condition(line)),
                        None => format!("  if {name}{} is {truth}", crate::trace::source(line.as_ref())),
                    });
                    if truth { *yes } else { *no }
                }
                Node::Call { action, next } => {
                    Run::set_arguments(self.scratch, &[]);
                    if let Some(trace) = &mut self.trace {
                        trace.step("  statements");
                    }
                    self.action(*action);
                    self.trace_effect();
                    *next
                }
            };
        }
        if next != NONE && !self.packet.exit {
            self.trace(|_| format!("  stopped after {MAX_NODES} tables and conditions"));
            self.packet.failed = true;
        }
        self.packet.exit = false;
    }

    /// Looks up the packet, runs the action and returns the next node.
    fn table(&mut self, number: u32) -> u32 {
        let program = self.program;
        let table = &program.tables[number as usize];
        let state = &mut self.state.tables[number as usize];
        let found = if table.key.is_empty() {
            None
        } else {
            let bytes = state.key_bytes();
            let key = &mut self.scratch.key;
            key.clear();
            key.resize(bytes, 0);
            build_key(program, &table.key, &self.packet.phv, key);
            state.find(table, key)
        };
        let outcome = match found {
            None => {
                state.misses += 1;
                state.default
            }
            Some(entry) => {
                state.hits += 1;
                let slot = &mut state.slots[entry as usize];
                slot.hits += 1;
                if table.timeouts {
                    slot.last_hit = self.now;
                    slot.told = false;
                }
                if table.counters.is_some() {
                    let counter = &mut state.counters[entry as usize];
                    counter.packets += 1;
                    counter.bytes += u64::from(self.packet.ingress_len);
                }
                let outcome = slot.outcome;
                if let Some((array, target)) = table.meters {
                    let array = &program.meters[array as usize];
                    let units = if array.bytes { u64::from(self.packet.ingress_len) } else { 1 };
                    if let Some(meter) = state.meters.get_mut(entry as usize) {
                        let colour = meter.execute(self.now, units, array.rates == 1);
                        self.packet.phv.set(&target, colour as u128);
                    }
                }
                Some(outcome)
            }
        };
        let (mut hit, mut action) = (found.is_some(), None);
        match outcome {
            None => {}
            Some(Outcome::Action(position)) => {
                let chosen = &table.actions[position as usize];
                action = Some((chosen.action, chosen.next));
                let arguments = match found {
                    Some(entry) => state.arguments(entry),
                    None => &state.default_arguments,
                };
                Run::set_arguments(self.scratch, arguments);
            }
            Some(Outcome::Member(place)) => {
                if let Some(profile) = table.profile
                    && let Some(member) = self.state.profiles[profile as usize].member_at(place)
                {
                    let next = table
                        .actions
                        .iter()
                        .find(|one| one.action == member.action)
                        .map_or(NONE, |one| one.next);
                    action = Some((member.action, next));
                    ProfileState::padded(&member.arguments, &mut self.scratch.arguments);
                }
            }
            Some(Outcome::Group(place)) => {
                if let Some(profile) = table.profile {
                    let selector = program.profiles[profile as usize].selector.as_ref();
                    let profile = &mut self.state.profiles[profile as usize];
                    let mut hash = 0;
                    if let (Some(selector), Some(hasher)) = (selector, &mut profile.hasher) {
                        super::checksums::input(
                            program,
                            &selector.input,
                            &self.packet.phv,
                            None,
                            &mut self.scratch.bytes,
                        );
                        hash = hasher.hash(&self.scratch.bytes);
                    }
                    if let Some(member) = profile.choose(place, hash) {
                        let next = table
                            .actions
                            .iter()
                            .find(|one| one.action == member.action)
                            .map_or(NONE, |one| one.next);
                        action = Some((member.action, next));
                        ProfileState::padded(&member.arguments, &mut self.scratch.arguments);
                    } else {
                        // An empty group counts as a miss.
                        hit = false;
                    }
                }
            }
        }
        if self.trace.is_some() {
            self.trace_table(number, found, action.map(|(action, _)| action));
        }
        let special = if hit { table.on_hit } else { table.on_miss };
        match action {
            None => special.unwrap_or(table.otherwise),
            Some((action, next)) => {
                self.action(action);
                self.trace_effect();
                special.unwrap_or(next)
            }
        }
    }

    fn trace_table(&mut self, number: u32, found: Option<u32>, action: Option<u32>) {
        let table = &self.program.tables[number as usize];
        let mut line = format!("  table {}{}", table.name, crate::trace::source(table.line.as_ref()));
        for key in &table.key {
            let mut value = vec![0; key.width.div_ceil(8) as usize];
            bits::get_bytes(&self.scratch.key, key.offset, key.width, &mut value);
            line.push_str(&format!(" {}={}", key.name, crate::trace::hex(&value)));
        }
        match found {
            Some(entry) => line.push_str(&format!(": hit entry {entry}")),
            None if table.key.is_empty() => line.push(':'),
            None => line.push_str(": miss"),
        }
        if let Some(action) = action {
            let action = &self.program.actions[action as usize];
            let arguments = action.unpack(&self.scratch.arguments);
            let arguments: Vec<_> = action
                .parameters
                .iter()
                .zip(&arguments)
                .map(|(parameter, value)| format!("{}={}", parameter.name, crate::trace::hex(value)))
                .collect();
            line.push_str(&format!(" -> {}({})", action.name, arguments.join(", ")));
        }
        self.trace(|_| line);
    }
}
