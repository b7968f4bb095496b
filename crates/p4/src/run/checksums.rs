//! Hash calculations, and verification and update of checksums.

use super::Run;
use crate::bits::{self, PADDING};
use crate::phv::Phv;
use crate::program::{Checksum, Input, Program};

/// Collects the input bytes of a calculation. Invalid headers are skipped.
pub(crate) fn input(
    program: &Program,
    inputs: &[Input],
    phv: &Phv,
    payload: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    out.clear();
    let mut at = 0u32;
    let mut grow = |out: &mut Vec<u8>, bits: u32| {
        let place = at;
        at += bits;
        out.resize(at.div_ceil(8) as usize + PADDING, 0);
        place
    };
    for input in inputs {
        match input {
            Input::Field(field) => {
                if field.metadata || phv.valid[field.header as usize] {
                    let place = grow(out, field.width);
                    bits::copy(out, place, &phv.bytes, field.offset, field.width);
                }
            }
            Input::Variable(header) => {
                if let Some(variable) = program.kind_of(*header).variable {
                    let width = phv.variable[*header as usize];
                    let place = grow(out, width);
                    let from = program.headers[*header as usize].at * 8 + variable.offset;
                    bits::copy(out, place, &phv.bytes, from, width);
                }
            }
            Input::Constant { bytes, bits: width } => {
                let place = grow(out, *width);
                bits::copy(out, place, bytes, width.next_multiple_of(8) - width, *width);
            }
            Input::Header(header) => {
                if phv.valid[*header as usize] {
                    let len = phv.len(program, *header);
                    let mut whole = vec![0; len as usize + PADDING];
                    phv.emit(program, *header, &mut whole);
                    let place = grow(out, len * 8);
                    bits::copy(out, place, &whole, 0, len * 8);
                }
            }
        }
    }
    out.truncate(at.div_ceil(8) as usize);
    if let Some(payload) = payload {
        out.extend_from_slice(payload);
    }
}

impl Run<'_> {
    /// Value of a calculation over the current packet.
    pub(super) fn calculate(&mut self, calculation: u32) -> u64 {
        let described = &self.program.calculations[calculation as usize];
        let payload = described.payload.then(|| &self.packet.data[self.packet.parsed..]);
        input(self.program, &described.input, &self.packet.phv, payload, &mut self.scratch.bytes);
        self.state.hashers[calculation as usize].hash(&self.scratch.bytes)
    }

    fn applies(&self, checksum: &Checksum) -> bool {
        let valid = checksum.target.metadata || self.packet.phv.valid[checksum.target.header as usize];
        valid && checksum.condition.is_none_or(|condition| self.env().truth(condition))
    }

    pub(super) fn verify_checksums(&mut self) {
        let program = self.program;
        for checksum in &program.verify {
            if !self.applies(checksum) {
                continue;
            }
            let right = u128::from(self.calculate(checksum.calculation)) & bits::mask(checksum.target.width);
            if self.packet.phv.get(&checksum.target) != right {
                self.packet.checksum_error = true;
                self.trace(|_| format!("  checksum {} is wrong", checksum.name));
            }
        }
    }

    pub(super) fn update_checksums(&mut self) {
        let program = self.program;
        for checksum in &program.update {
            if self.applies(checksum) {
                let value = self.calculate(checksum.calculation);
                self.packet.phv.set(&checksum.target, u128::from(value));
                self.trace(|_| format!("  checksum {} = {value:#x}", checksum.name));
            }
        }
    }
}
