//! Integer expressions with bounds on their values.
//!
//! `demand` is the number of low result bits that the consumer uses; [`EXACT`] means all of them. Sums,
//! products and bitwise operations need no more bits than demanded.

use super::{Bounds, Lower};
use crate::number::{MAX_SHIFT, Size};
use crate::program::Expr;
use crate::program::code::Int;
use num_bigint::{BigInt, Sign};
use num_traits::ToPrimitive;

/// Demand for all bits, including the sign.
pub(super) const EXACT: u32 = u32::MAX;

impl Lower<'_> {
    pub(super) fn push(&mut self, int: Int, bits: u32, negative: bool, demand: u32, of: &[u32]) -> u32 {
        let bits = bits.min(demand.max(Size::NARROW_BITS));
        let need = of.iter().map(|child| self.bounds[*child as usize].need).fold(bits, u32::max);
        self.program.ints.push(int);
        self.bounds.push(Bounds { bits, need, negative });
        self.program.ints.len() as u32 - 1
    }
    pub(super) fn bits(&self, int: u32) -> u32 {
        self.bounds[int as usize].bits
    }
    /// Expression with the type of its evaluation.
    pub(super) fn sized(&self, root: u32) -> Expr {
        Expr { root, size: Size::of(self.bounds[root as usize].need) }
    }
    pub(super) fn size_of(&self, left: u32, right: u32) -> Size {
        self.sized(left).size.max(self.sized(right).size)
    }

    pub(super) fn constant(&mut self, value: &BigInt) -> u32 {
        let bits = value.bits() as u32 + 1;
        let int = if let Some(small) = value.to_i64() {
            Int::Small(small)
        } else if let Some(value) = value.to_i128() {
            Int::Const(value)
        } else {
            self.program.wide.push(value.clone());
            Int::Wide(self.program.wide.len() as u32 - 1)
        };
        self.push(int, bits, value.sign() == Sign::Minus, EXACT, &[])
    }
    /// Value of a non-negative constant.
    pub(super) fn constant_of(&self, int: u32) -> Option<u64> {
        match self.program.ints[int as usize] {
            Int::Small(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }
    /// Number of bits of the other operand that `&` with a non-negative operand preserves.
    pub(super) fn mask_bits(&self, int: u32) -> Option<u32> {
        let bounds = self.bounds[int as usize];
        match self.program.ints[int as usize] {
            Int::Small(_) | Int::Const(_) | Int::Wide(_) if !bounds.negative => Some(bounds.bits - 1),
            _ => None,
        }
    }

    pub(super) fn binary(&mut self, op: &str, a: u32, b: u32, demand: u32) -> u32 {
        let (left, right) = (self.bounds[a as usize], self.bounds[b as usize]);
        let most = left.bits.max(right.bits);
        let either = left.negative || right.negative;
        let (int, bits, negative) = match op {
            "+" => (Int::Add(a, b), most + 1, either),
            "-" => (Int::Sub(a, b), most + 1, true),
            "*" => (Int::Mul(a, b), left.bits + right.bits, either),
            // The most negative number divided by -1 needs one bit more.
            "/" => (Int::Div(a, b), left.bits + 1, either),
            "%" => (Int::Rem(a, b), left.bits, left.negative),
            "&" if !left.negative && !right.negative => (Int::And(a, b), left.bits.min(right.bits), false),
            "&" if !left.negative => (Int::And(a, b), left.bits, false),
            "&" if !right.negative => (Int::And(a, b), right.bits, false),
            "&" => (Int::And(a, b), most, true),
            "|" => (Int::Or(a, b), most, either),
            "^" => (Int::Xor(a, b), most, either),
            "<<" => {
                let furthest = match self.constant_of(b) {
                    Some(by) => by.min(u64::from(MAX_SHIFT)) as u32,
                    None => {
                        1u32.checked_shl(right.bits.saturating_sub(1)).unwrap_or(MAX_SHIFT).min(MAX_SHIFT)
                    }
                };
                (Int::Shl(a, b), left.bits + furthest, left.negative)
            }
            _ => (Int::Shr(a, b), left.bits, left.negative),
        };
        self.push(int, bits, negative, demand, &[a, b])
    }
}
