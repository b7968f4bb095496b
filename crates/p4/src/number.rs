//! Integer types of expression evaluation.
//!
//! Arithmetic has unlimited precision and is truncated on assignment to a field. Lowering bounds the values
//! of each expression and selects the narrowest type that holds them: 128 bits, 256 bits, or arbitrary
//! precision.

use ethnum::I256;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::ToPrimitive;

/// Integer type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    /// `i128`.
    Narrow,
    /// 256 bits.
    Middle,
    /// Arbitrary precision, heap-allocated.
    Wide,
}

impl Size {
    /// Width of the narrowest type in bits.
    pub const NARROW_BITS: u32 = 128;

    /// Type for two's complement values of `bits` bits.
    pub fn of(bits: u32) -> Size {
        match bits {
            0..=128 => Size::Narrow,
            129..=256 => Size::Middle,
            _ => Size::Wide,
        }
    }
}

/// Maximum left shift; a longer one gives zero in all bits that a field can hold.
pub(crate) const MAX_SHIFT: u32 = 16_384;

/// Integer type selected by [`Size`].
pub(crate) trait Number: Clone + Ord {
    fn from_i128(value: i128) -> Self;
    fn from_u128(value: u128) -> Self;
    fn from_wide(value: &BigInt) -> Self;
    fn add(&self, other: &Self) -> Self;
    fn sub(&self, other: &Self) -> Self;
    fn mul(&self, other: &Self) -> Self;
    /// Quotient rounded toward zero; 0 if the divisor is 0.
    fn div(&self, other: &Self) -> Self;
    /// Remainder of `div`, with the sign of the dividend; 0 if the divisor is 0.
    fn rem(&self, other: &Self) -> Self;
    fn and(&self, other: &Self) -> Self;
    fn or(&self, other: &Self) -> Self;
    fn xor(&self, other: &Self) -> Self;
    fn not(&self) -> Self;
    fn shl(&self, by: u32) -> Self;
    fn shr(&self, by: u32) -> Self;
    /// Lowest 128 bits in two's complement.
    fn low(&self) -> u128;
    /// Value as an index, saturated to the range of `u64`.
    fn index(&self) -> u64;
    fn is_zero(&self) -> bool;
    fn is_negative(&self) -> bool;
    /// Fills `out` with the lowest bits in two's complement, big-endian.
    fn to_bytes(&self, out: &mut [u8]);
}

impl Number for i128 {
    fn from_i128(value: i128) -> i128 {
        value
    }
    fn from_u128(value: u128) -> i128 {
        value as i128
    }
    fn from_wide(value: &BigInt) -> i128 {
        let mut bytes = [0; 16];
        value.to_bytes(&mut bytes);
        i128::from_be_bytes(bytes)
    }
    fn add(&self, other: &i128) -> i128 {
        self.wrapping_add(*other)
    }
    fn sub(&self, other: &i128) -> i128 {
        self.wrapping_sub(*other)
    }
    fn mul(&self, other: &i128) -> i128 {
        self.wrapping_mul(*other)
    }
    fn div(&self, other: &i128) -> i128 {
        if *other == 0 { 0 } else { self.wrapping_div(*other) }
    }
    fn rem(&self, other: &i128) -> i128 {
        if *other == 0 { 0 } else { self.wrapping_rem(*other) }
    }
    fn and(&self, other: &i128) -> i128 {
        self & other
    }
    fn or(&self, other: &i128) -> i128 {
        self | other
    }
    fn xor(&self, other: &i128) -> i128 {
        self ^ other
    }
    fn not(&self) -> i128 {
        !self
    }
    fn shl(&self, by: u32) -> i128 {
        self.checked_shl(by).unwrap_or(0)
    }
    fn shr(&self, by: u32) -> i128 {
        self >> by.min(127)
    }
    fn low(&self) -> u128 {
        *self as u128
    }
    fn index(&self) -> u64 {
        u64::try_from((*self).max(0)).unwrap_or(u64::MAX)
    }
    fn is_zero(&self) -> bool {
        *self == 0
    }
    fn is_negative(&self) -> bool {
        *self < 0
    }
    fn to_bytes(&self, out: &mut [u8]) {
        sign_extend(&self.to_be_bytes(), *self < 0, out);
    }
}

impl Number for I256 {
    fn from_i128(value: i128) -> I256 {
        I256::from(value)
    }
    fn from_u128(value: u128) -> I256 {
        I256::from_words(0, value as i128)
    }
    fn from_wide(value: &BigInt) -> I256 {
        let mut bytes = [0; 32];
        value.to_bytes(&mut bytes);
        I256::from_be_bytes(bytes)
    }
    fn add(&self, other: &I256) -> I256 {
        self.wrapping_add(*other)
    }
    fn sub(&self, other: &I256) -> I256 {
        self.wrapping_sub(*other)
    }
    fn mul(&self, other: &I256) -> I256 {
        self.wrapping_mul(*other)
    }
    fn div(&self, other: &I256) -> I256 {
        if *other == I256::ZERO { I256::ZERO } else { self.wrapping_div(*other) }
    }
    fn rem(&self, other: &I256) -> I256 {
        if *other == I256::ZERO { I256::ZERO } else { self.wrapping_rem(*other) }
    }
    fn and(&self, other: &I256) -> I256 {
        *self & *other
    }
    fn or(&self, other: &I256) -> I256 {
        *self | *other
    }
    fn xor(&self, other: &I256) -> I256 {
        *self ^ *other
    }
    fn not(&self) -> I256 {
        !*self
    }
    fn shl(&self, by: u32) -> I256 {
        if by >= 256 { I256::ZERO } else { *self << by }
    }
    fn shr(&self, by: u32) -> I256 {
        *self >> by.min(255)
    }
    fn low(&self) -> u128 {
        *self.low() as u128
    }
    fn index(&self) -> u64 {
        if self.is_negative() { 0 } else { u64::try_from(*self).unwrap_or(u64::MAX) }
    }
    fn is_zero(&self) -> bool {
        *self == I256::ZERO
    }
    fn is_negative(&self) -> bool {
        *self < I256::ZERO
    }
    fn to_bytes(&self, out: &mut [u8]) {
        sign_extend(&self.to_be_bytes(), *self < I256::ZERO, out);
    }
}

impl Number for BigInt {
    fn from_i128(value: i128) -> BigInt {
        BigInt::from(value)
    }
    fn from_u128(value: u128) -> BigInt {
        BigInt::from(value)
    }
    fn from_wide(value: &BigInt) -> BigInt {
        value.clone()
    }
    fn add(&self, other: &BigInt) -> BigInt {
        self + other
    }
    fn sub(&self, other: &BigInt) -> BigInt {
        self - other
    }
    fn mul(&self, other: &BigInt) -> BigInt {
        self * other
    }
    fn div(&self, other: &BigInt) -> BigInt {
        self.checked_div(other).unwrap_or_default()
    }
    fn rem(&self, other: &BigInt) -> BigInt {
        if other.is_zero() { BigInt::ZERO } else { self % other }
    }
    fn and(&self, other: &BigInt) -> BigInt {
        self & other
    }
    fn or(&self, other: &BigInt) -> BigInt {
        self | other
    }
    fn xor(&self, other: &BigInt) -> BigInt {
        self ^ other
    }
    fn not(&self) -> BigInt {
        !self
    }
    fn shl(&self, by: u32) -> BigInt {
        if by > MAX_SHIFT { BigInt::ZERO } else { self << by }
    }
    fn shr(&self, by: u32) -> BigInt {
        self >> by
    }
    fn low(&self) -> u128 {
        let mut bytes = [0; 16];
        self.to_bytes(&mut bytes);
        u128::from_be_bytes(bytes)
    }
    fn index(&self) -> u64 {
        if self.is_negative() { 0 } else { self.to_u64().unwrap_or(u64::MAX) }
    }
    fn is_zero(&self) -> bool {
        self.sign() == Sign::NoSign
    }
    fn is_negative(&self) -> bool {
        self.sign() == Sign::Minus
    }
    fn to_bytes(&self, out: &mut [u8]) {
        sign_extend(&self.to_signed_bytes_be(), self.sign() == Sign::Minus, out);
    }
}

fn sign_extend(bytes: &[u8], negative: bool, out: &mut [u8]) {
    if bytes.len() >= out.len() {
        out.copy_from_slice(&bytes[bytes.len() - out.len()..]);
    } else {
        let (fill, rest) = out.split_at_mut(out.len() - bytes.len());
        fill.fill(if negative { 0xff } else { 0 });
        rest.copy_from_slice(bytes);
    }
}

/// Parses a number of BMv2 JSON: hexadecimal digits with optional minus sign and `0x`.
pub(crate) fn parse_hex(text: &str) -> Option<BigInt> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits);
    if digits.is_empty() || digits.len() > 1 << 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let value = BigUint::parse_bytes(digits.as_bytes(), 16)?;
    Some(if negative { -BigInt::from(value) } else { BigInt::from(value) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_types_agree() {
        let samples = [0i128, 1, -1, 255, -256, 1 << 60, -(1 << 60), 12_345_678_901_234];
        fn all<N: Number>(a: i128, b: i128) -> Vec<u128> {
            let (a, b) = (N::from_i128(a), N::from_i128(b));
            let mut bytes = [0; 40];
            a.mul(&b).to_bytes(&mut bytes);
            let mut out = [
                a.add(&b),
                a.sub(&b),
                a.mul(&b),
                a.div(&b),
                a.rem(&b),
                a.and(&b),
                a.or(&b),
                a.xor(&b),
                a.not(),
                a.shl(3),
                a.shr(5),
            ]
            .iter()
            .map(N::low)
            .collect::<Vec<_>>();
            out.extend([
                u128::from(a.index()),
                u128::from(a < b),
                u128::from(a.is_zero()),
                u128::from(a.is_negative()),
            ]);
            out.push(u128::from(bytes[0]));
            out.push(u128::from_be_bytes(bytes[24..].try_into().unwrap()));
            out
        }
        for a in samples {
            for b in samples {
                assert_eq!(all::<i128>(a, b), all::<I256>(a, b), "{a} {b}");
                assert_eq!(all::<i128>(a, b), all::<BigInt>(a, b), "{a} {b}");
            }
        }
    }

    #[test]
    fn numbers_are_hexadecimal() {
        assert_eq!(parse_hex("0x1f"), Some(BigInt::from(31)));
        assert_eq!(parse_hex("-0x1"), Some(BigInt::from(-1)));
        assert_eq!(parse_hex("ff"), Some(BigInt::from(255)));
        assert_eq!(parse_hex("0x"), None);
        assert_eq!(parse_hex("0xzz"), None);
    }
}
