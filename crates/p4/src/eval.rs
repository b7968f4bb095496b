//! Evaluation of expressions.

use crate::bits;
use crate::number::{MAX_SHIFT, Number, Size};
use crate::phv::Phv;
use crate::program::code::{Bool, Href, Int, Relation, Uref};
use crate::program::{Expr, Field, Program};
use crate::registers::Registers;
use ethnum::I256;
use num_bigint::{BigInt, Sign};

/// Inputs of an expression.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub program: &'a Program,
    pub phv: &'a Phv,
    /// Action arguments, padded.
    pub arguments: &'a [u8],
    pub registers: &'a [Registers],
    /// Bytes not yet consumed by the parser.
    pub ahead: &'a [u8],
}

impl Env<'_> {
    /// Lowest 128 bits of a value.
    #[inline]
    pub fn low(&self, expr: Expr) -> u128 {
        match expr.size {
            Size::Narrow => self.int::<i128>(expr.root) as u128,
            Size::Middle => Number::low(&self.int::<I256>(expr.root)),
            Size::Wide => Number::low(&self.int::<BigInt>(expr.root)),
        }
    }
    /// Value as an index, saturated to the range of `u64`.
    #[inline]
    pub fn index(&self, expr: Expr) -> u64 {
        match expr.size {
            Size::Narrow => self.int::<i128>(expr.root).index(),
            Size::Middle => self.int::<I256>(expr.root).index(),
            Size::Wide => self.int::<BigInt>(expr.root).index(),
        }
    }
    /// Value as the index of an element: a negative one is beyond every array.
    #[inline]
    pub fn element(&self, expr: Expr) -> u64 {
        fn of<N: Number>(value: &N) -> u64 {
            if value.is_negative() { u64::MAX } else { value.index() }
        }
        match expr.size {
            Size::Narrow => of(&self.int::<i128>(expr.root)),
            Size::Middle => of(&self.int::<I256>(expr.root)),
            Size::Wide => of(&self.int::<BigInt>(expr.root)),
        }
    }
    /// Writes the value to `out`, truncated or sign-extended to its length.
    pub fn bytes(&self, expr: Expr, out: &mut [u8]) {
        match expr.size {
            Size::Narrow => self.int::<i128>(expr.root).to_bytes(out),
            Size::Middle => self.int::<I256>(expr.root).to_bytes(out),
            Size::Wide => self.int::<BigInt>(expr.root).to_bytes(out),
        }
    }
    /// Value at full precision.
    pub fn wide(&self, expr: Expr) -> BigInt {
        self.int::<BigInt>(expr.root)
    }
    /// Value saturated to the range of a field, as the field's bit pattern.
    pub fn saturated(&self, expr: Expr, width: u32, signed: bool) -> BigInt {
        let one = BigInt::from(1);
        let (low, high) = if signed {
            (-(one.clone() << (width.max(1) - 1)), (one.clone() << (width.max(1) - 1)) - 1)
        } else {
            (BigInt::ZERO, (one << width) - 1)
        };
        self.wide(expr).clamp(low, high)
    }
    pub fn is_zero(&self, expr: Expr) -> bool {
        match expr.size {
            Size::Narrow => self.int::<i128>(expr.root) == 0,
            Size::Middle => self.int::<I256>(expr.root).is_zero(),
            Size::Wide => self.int::<BigInt>(expr.root).is_zero(),
        }
    }

    fn field<N: Number>(&self, field: &Field) -> N {
        self.place(&self.phv.bytes, field.offset, field.width, field.signed)
    }
    fn place<N: Number>(&self, bytes: &[u8], offset: u32, width: u32, signed: bool) -> N {
        if width <= 128 {
            let value = bits::get(bytes, offset, width);
            if signed && width > 0 && width < 128 {
                let shift = 128 - width;
                return N::from_i128((value << shift) as i128 >> shift);
            }
            return if signed { N::from_i128(value as i128) } else { N::from_u128(value) };
        }
        let value = BigInt::from_biguint(Sign::Plus, bits::get_wide(bytes, offset, width));
        let negative = signed && value.bit(u64::from(width) - 1);
        N::from_wide(&if negative { value - (BigInt::from(1) << width) } else { value })
    }

    fn int<N: Number>(&self, root: u32) -> N {
        let both = |a: u32, b: u32| (self.int::<N>(a), self.int::<N>(b));
        match self.program.ints[root as usize] {
            Int::Small(value) => N::from_i128(i128::from(value)),
            Int::Const(value) => N::from_i128(value),
            Int::Wide(n) => N::from_wide(&self.program.wide[n as usize]),
            Int::Field(field) => self.field(&field),
            Int::Valid(header) => N::from_i128(i128::from(self.phv.valid[header as usize])),
            Int::ValidUnion(union) => N::from_i128(i128::from(self.valid_union(union))),
            Int::Variable(header) => {
                let (offset, width) = self.variable(header);
                self.place(&self.phv.bytes, offset, width, false)
            }
            Int::Parameter { offset, width } => self.place(self.arguments, offset, width, false),
            Int::Register { array, index, index_size } => {
                let registers = &self.registers[array as usize];
                let index = self.element(Expr { root: index, size: index_size });
                match registers.place(index) {
                    Some(offset) => self.place(&registers.bytes, offset, registers.width, false),
                    None => N::from_i128(0),
                }
            }
            Int::DynamicField { header, field } => match self.header(header) {
                Some(header) => self.field(&self.program.field_of(header, field)),
                None => N::from_i128(0),
            },
            Int::Lookahead { offset, width } => self.lookahead(offset, width),
            Int::Add(a, b) => {
                let (a, b) = both(a, b);
                a.add(&b)
            }
            Int::Sub(a, b) => {
                let (a, b) = both(a, b);
                a.sub(&b)
            }
            Int::Mul(a, b) => {
                let (a, b) = both(a, b);
                a.mul(&b)
            }
            Int::Div(a, b) => {
                let (a, b) = both(a, b);
                a.div(&b)
            }
            Int::Rem(a, b) => {
                let (a, b) = both(a, b);
                a.rem(&b)
            }
            Int::And(a, b) => {
                let (a, b) = both(a, b);
                a.and(&b)
            }
            Int::Or(a, b) => {
                let (a, b) = both(a, b);
                a.or(&b)
            }
            Int::Xor(a, b) => {
                let (a, b) = both(a, b);
                a.xor(&b)
            }
            Int::Shl(a, b) => {
                let (a, b) = both(a, b);
                a.shl(distance(&b))
            }
            Int::Shr(a, b) => {
                let (a, b) = both(a, b);
                a.shr(distance(&b))
            }
            Int::Not(a) => self.int::<N>(a).not(),
            Int::FromBool(a) => N::from_i128(i128::from(self.truth(a))),
            Int::TwoCompMod(a, width) => {
                let (a, width) = both(a, width);
                let width = distance(&width).max(1);
                let one = N::from_i128(1);
                let cut = a.and(&one.shl(width).sub(&one));
                if cut.and(&one.shl(width - 1)).is_zero() { cut } else { cut.sub(&one.shl(width)) }
            }
            Int::SatCast(a, width) => {
                let (a, width) = both(a, width);
                let half = N::from_i128(1).shl(distance(&width).max(1) - 1);
                let zero = N::from_i128(0);
                a.max(zero.sub(&half)).min(half.sub(&N::from_i128(1)))
            }
            Int::UsatCast(a, width) => {
                let (a, width) = both(a, width);
                let one = N::from_i128(1);
                a.max(N::from_i128(0)).min(one.shl(distance(&width)).sub(&one))
            }
            Int::If { condition, yes, no } => self.int(if self.truth(condition) { yes } else { no }),
            Int::LastIndex(stack) => N::from_i128(i128::from(self.phv.stacks[stack as usize]) - 1),
            Int::StackSize(stack) => N::from_i128(i128::from(self.phv.stacks[stack as usize])),
            Int::UnionStackLastIndex(stack) => {
                N::from_i128(i128::from(self.phv.union_stacks[stack as usize]) - 1)
            }
            Int::UnionStackSize(stack) => N::from_i128(i128::from(self.phv.union_stacks[stack as usize])),
        }
    }

    fn lookahead<N: Number>(&self, offset: u32, width: u32) -> N {
        let first = (offset / 8) as usize;
        let end = (offset + width).div_ceil(8) as usize;
        let Some(bytes) = self.ahead.get(first..end) else { return N::from_i128(0) };
        let mut value = 0u128;
        if bytes.len() <= 16 {
            for byte in bytes {
                value = value << 8 | u128::from(*byte);
            }
            let right = (end - first) as u32 * 8 - offset % 8 - width;
            return N::from_u128(value >> right & bits::mask(width));
        }
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len() + bits::PADDING, 0);
        self.place(&padded, offset % 8, width, false)
    }

    /// Bit offset in the buffer and width of a header's variable-width field.
    pub fn variable(&self, header: u32) -> (u32, u32) {
        let place = self.program.kind_of(header).variable.map_or(0, |variable| variable.offset);
        (self.program.headers[header as usize].at * 8 + place, self.phv.variable[header as usize])
    }

    pub fn valid_union(&self, union: u32) -> bool {
        let headers = &self.program.unions[union as usize].headers;
        headers.iter().any(|header| self.phv.valid[*header as usize])
    }

    /// Resolves a header reference; `None` if its index is out of range.
    pub fn header(&self, href: u32) -> Option<u32> {
        match self.program.hrefs[href as usize] {
            Href::Static(header) => Some(header),
            Href::Stack { stack, index } => {
                let headers = &self.program.stacks[stack as usize].headers;
                headers.get(usize::try_from(self.element(index)).ok()?).copied()
            }
            Href::Last(stack) => {
                let last = self.phv.stacks[stack as usize].checked_sub(1)?;
                self.program.stacks[stack as usize].headers.get(last as usize).copied()
            }
            Href::Member { union, member } => {
                let union = self.union(union)?;
                self.program.unions[union as usize].headers.get(member as usize).copied()
            }
        }
    }
    /// Resolves a union reference; `None` if its index is out of range.
    pub fn union(&self, uref: u32) -> Option<u32> {
        match self.program.urefs[uref as usize] {
            Uref::Static(union) => Some(union),
            Uref::Stack { stack, index } => {
                let unions = &self.program.union_stacks[stack as usize].unions;
                unions.get(usize::try_from(self.element(index)).ok()?).copied()
            }
            Uref::Last(stack) => {
                let last = self.phv.union_stacks[stack as usize].checked_sub(1)?;
                self.program.union_stacks[stack as usize].unions.get(last as usize).copied()
            }
        }
    }

    /// Evaluates a Boolean expression.
    pub fn truth(&self, root: u32) -> bool {
        match self.program.bools[root as usize] {
            Bool::Const(value) => value,
            Bool::NotZero(expr) => !self.is_zero(expr),
            Bool::Compare { relation, left, right, size } => match size {
                Size::Narrow => compare(relation, &self.int::<i128>(left), &self.int::<i128>(right)),
                Size::Middle => compare(relation, &self.int::<I256>(left), &self.int::<I256>(right)),
                Size::Wide => compare(relation, &self.int::<BigInt>(left), &self.int::<BigInt>(right)),
            },
            Bool::Same { left, right, equal } => (self.truth(left) == self.truth(right)) == equal,
            Bool::And(left, right) => self.truth(left) && self.truth(right),
            Bool::Or(left, right) => self.truth(left) || self.truth(right),
            Bool::Not(inner) => !self.truth(inner),
            Bool::If { condition, yes, no } => self.truth(if self.truth(condition) { yes } else { no }),
            Bool::Valid(href) => self.header(href).is_some_and(|header| self.phv.valid[header as usize]),
            Bool::ValidUnion(uref) => self.union(uref).is_some_and(|union| self.valid_union(union)),
            Bool::SameHeader { left, right, equal } => {
                let same = match (self.header(left), self.header(right)) {
                    (Some(left), Some(right)) => self.phv.same_header(self.program, left, right),
                    (left, right) => left == right,
                };
                same == equal
            }
            Bool::SameUnion { left, right, equal } => {
                let same = match (self.union(left), self.union(right)) {
                    (Some(left), Some(right)) => {
                        let headers = |union: u32| self.program.unions[union as usize].headers.iter();
                        headers(left)
                            .zip(headers(right))
                            .all(|(a, b)| self.phv.same_header(self.program, *a, *b))
                    }
                    (left, right) => left == right,
                };
                same == equal
            }
            Bool::SameStack { left, right, equal } => {
                let headers = |stack: u32| self.program.stacks[stack as usize].headers.iter();
                let same = headers(left)
                    .zip(headers(right))
                    .all(|(a, b)| self.phv.same_header(self.program, *a, *b));
                same == equal
            }
        }
    }
}

fn distance<N: Number>(by: &N) -> u32 {
    by.index().min(u64::from(MAX_SHIFT) + 1) as u32
}

fn compare<N: Ord>(relation: Relation, left: &N, right: &N) -> bool {
    match relation {
        Relation::Equal => left == right,
        Relation::NotEqual => left != right,
        Relation::Less => left < right,
        Relation::LessEqual => left <= right,
        Relation::Greater => left > right,
        Relation::GreaterEqual => left >= right,
    }
}
