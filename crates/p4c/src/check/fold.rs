//! Arithmetic on constants.

use crate::types::Type;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// Maximum shift distance of an arbitrary-precision constant.
const MAX_SHIFT: u32 = 1 << 16;

/// `value` modulo the width of `ty`.
pub fn wrap(value: &BigInt, ty: &Type) -> BigInt {
    match ty {
        Type::Bit(width) => value.mod_floor(&(BigInt::one() << *width)),
        Type::Signed(width) => {
            let modulus = BigInt::one() << *width;
            let value = value.mod_floor(&modulus);
            if *width > 0 && value.bit(u64::from(*width) - 1) { value - modulus } else { value }
        }
        _ => value.clone(),
    }
}

/// `value` saturated to the range of `ty`.
fn saturate(value: BigInt, ty: &Type) -> BigInt {
    let (low, high) = match ty {
        Type::Bit(width) => (BigInt::zero(), (BigInt::one() << *width) - 1),
        Type::Signed(width) => {
            let half = BigInt::one() << width.saturating_sub(1);
            (-half.clone(), half - 1)
        }
        _ => return value,
    };
    value.clamp(low, high)
}

/// Folded value, or the reason why the operation is invalid.
pub type Folded<T> = Result<T, &'static str>;

/// `left op right` in the common type `ty`; `None` if `op` is not an arithmetic operator.
pub fn arithmetic(op: &str, left: &BigInt, right: &BigInt, ty: &Type) -> Folded<Option<BigInt>> {
    let value = match op {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "|+|" => return Ok(Some(saturate(left + right, ty))),
        "|-|" => return Ok(Some(saturate(left - right, ty))),
        "/" | "%" => {
            if right.is_zero() {
                return Err("division by zero");
            }
            if left.is_negative() || right.is_negative() {
                return Err("division is not defined for negative numbers");
            }
            if op == "/" { left / right } else { left % right }
        }
        "&" => left & right,
        "|" => left | right,
        "^" => left ^ right,
        "<<" => left << shift(right, left)?,
        ">>" => left >> shift(right, &BigInt::zero())?,
        _ => return Ok(None),
    };
    if *ty == Type::Int && value.bits() > u64::from(MAX_SHIFT) {
        return Err("this number is too large");
    }
    Ok(Some(wrap(&value, ty)))
}

fn shift(by: &BigInt, of: &BigInt) -> Folded<u32> {
    if by.is_negative() {
        return Err("the distance of a shift cannot be negative");
    }
    match by.to_u32() {
        Some(by) if by <= MAX_SHIFT => Ok(by),
        _ if of.is_zero() => Ok(MAX_SHIFT),
        _ => Err("the distance of this shift is too large"),
    }
}

/// Result of the comparison `left op right`; `None` if `op` is not a comparison.
pub fn comparison(op: &str, left: &BigInt, right: &BigInt) -> Option<bool> {
    Some(match op {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => return None,
    })
}

/// Bits `high` to `low` of `value`.
pub fn slice(value: &BigInt, high: u32, low: u32) -> BigInt {
    (value >> low).mod_floor(&(BigInt::one() << (high - low + 1)))
}
