//! eBPF assembler: instructions in program order, jumps to labels.

/// An instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination register in the low half, source register in the high half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Register; [`R10`] is the frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(u8);

pub(crate) const R0: Register = Register(0);
pub(crate) const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
pub(crate) const R3: Register = Register(3);
pub(crate) const R4: Register = Register(4);
pub(crate) const R6: Register = Register(6);
pub(crate) const R7: Register = Register(7);
pub(crate) const R8: Register = Register(8);
pub(crate) const R10: Register = Register(10);

/// Width of a memory access.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
    Double = 0x18,
}

/// Unsigned 64-bit comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    Greater = 0x20,
    NotEqual = 0x50,
    LessOrEqual = 0xb0,
}

/// 64-bit arithmetic operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Add = 0x00,
    And = 0x50,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// Target of forward jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Program under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    program: Vec<Instruction>,
    labels: Vec<Option<usize>>,
    /// Unresolved jumps: instruction index and label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub fn new() -> Assembler {
        Assembler::default()
    }

    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Defines a label at the current position.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.program.len());
    }

    /// `dst = *(src + offset)`
    pub fn load(&mut self, width: Width, dst: Register, src: Register, offset: i16) {
        self.push(0x61 | width as u8, dst, src, offset, 0);
    }

    /// `*(dst + offset) = src`
    pub fn store(&mut self, width: Width, dst: Register, offset: i16, src: Register) {
        self.push(0x63 | width as u8, dst, src, offset, 0);
    }

    /// `*(dst + offset) = value`
    pub fn store_value(&mut self, width: Width, dst: Register, offset: i16, value: i32) {
        self.push(0x62 | width as u8, dst, R0, offset, value);
    }

    /// `dst = dst operation src`
    pub fn register(&mut self, operation: Operation, dst: Register, src: Register) {
        self.push(0x0f | operation as u8, dst, src, 0, 0);
    }

    /// `dst = dst operation value`
    pub fn value(&mut self, operation: Operation, dst: Register, value: i32) {
        self.push(0x07 | operation as u8, dst, R0, 0, value);
    }

    /// `*(dst + offset) += src`, atomic, 64 bits wide.
    pub fn atomic_add(&mut self, dst: Register, offset: i16, src: Register) {
        self.push(0xdb, dst, src, offset, 0);
    }

    /// Jumps if `left condition value`.
    pub fn jump_if(&mut self, condition: Condition, left: Register, value: i32, to: Label) {
        self.jumps.push((self.program.len(), to));
        self.push(0x05 | condition as u8, left, R0, 0, value);
    }

    /// Jumps if `left condition right`.
    pub fn jump_if_register(&mut self, condition: Condition, left: Register, right: Register, to: Label) {
        self.jumps.push((self.program.len(), to));
        self.push(0x0d | condition as u8, left, right, 0, 0);
    }

    /// Jumps unconditionally.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.program.len(), to));
        self.push(0x05, R0, R0, 0, 0);
    }

    /// `dst` = the map of a descriptor.
    pub fn load_map(&mut self, dst: Register, fd: i32) {
        const PSEUDO_MAP_FD: Register = R1;
        self.push(0x18, dst, PSEUDO_MAP_FD, 0, fd);
        self.push(0, R0, R0, 0, 0);
    }

    /// Calls a kernel helper by number: arguments in R1 to R5, result in R0.
    pub fn call(&mut self, helper: i32) {
        self.push(0x85, R0, R0, 0, helper);
    }

    pub fn exit(&mut self) {
        self.push(0x95, R0, R0, 0, 0);
    }

    /// Resolves the jumps and returns the program.
    ///
    /// # Panics
    /// If a jump refers to an undefined label.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("a label that is jumped to stands somewhere");
            self.program[from].offset = to as i16 - from as i16 - 1;
        }
        self.program
    }

    fn push(&mut self, code: u8, dst: Register, src: Register, offset: i16, immediate: i32) {
        self.program.push(Instruction { code, registers: dst.0 | src.0 << 4, offset, immediate });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_kernel() {
        let mut assembler = Assembler::new();
        let out = assembler.label();
        assembler.load(Width::Word, R2, R1, 16);
        assembler.jump_if(Condition::NotEqual, R2, 7, out);
        assembler.value(Operation::Move, R0, 2);
        assembler.here(out);
        assembler.exit();
        let program: Vec<_> =
            assembler.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        assert_eq!(program, [(0x61, 0x12, 16, 0), (0x55, 0x02, 1, 7), (0xb7, 0, 0, 2), (0x95, 0, 0, 0)]);
    }
}
