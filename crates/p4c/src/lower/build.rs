//! Constructors of scalar expressions. They fold constants and keep values within their widths.

use crate::check::fold;
use crate::ir::{Ex, Scalar};
use crate::types::Type;
use num_bigint::BigInt;
use num_traits::{One, Zero};

fn as_type(scalar: Scalar) -> Type {
    match scalar {
        Scalar::Signed(width) => Type::Signed(width),
        Scalar::Int => Type::Int,
        other => Type::Bit(other.width()),
    }
}

/// Constant number.
pub fn int(value: impl Into<BigInt>) -> Ex {
    Ex::Int(value.into())
}

fn op(name: &'static str, left: Ex, right: Ex) -> Ex {
    Ex::Op(name, Some(Box::new(left)), Box::new(right))
}

fn ones(width: u32) -> BigInt {
    (BigInt::one() << width) - 1
}

/// True if the value provably fits `width` unsigned bits.
fn fits(ex: &Ex, width: u32) -> bool {
    match ex {
        Ex::Field(field) => !matches!(field.scalar, Scalar::Signed(_)) && field.scalar.width() <= width,
        Ex::Data(_, scalar) => !matches!(scalar, Scalar::Signed(_)) && scalar.width() <= width,
        Ex::Lookahead(_, bits) => *bits <= width,
        Ex::Int(value) => *value >= BigInt::zero() && value.bits() <= u64::from(width),
        Ex::Op("&", Some(left), right) => fits(left, width) || fits(right, width),
        Ex::Op("|" | "^", Some(left), right) => fits(left, width) && fits(right, width),
        Ex::Op(">>", Some(left), _) => fits(left, width),
        Ex::Op("b2d", ..) => true,
        Ex::Op("usat_cast", _, right) => matches!(&**right, Ex::Int(bits) if *bits <= BigInt::from(width)),
        Ex::Cond(_, a, b) => fits(a, width) && fits(b, width),
        _ => false,
    }
}

/// `ex` modulo the width of `scalar`.
pub fn wrap(ex: Ex, scalar: Scalar) -> Ex {
    if let Ex::Int(value) = &ex {
        return Ex::Int(fold::wrap(value, &as_type(scalar)));
    }
    match scalar {
        Scalar::Signed(width) => match &ex {
            Ex::Field(field) if field.scalar == Scalar::Signed(width) => ex,
            Ex::Data(_, Scalar::Signed(own)) if *own == width => op("two_comp_mod", ex, int(width)),
            Ex::Op("two_comp_mod", _, right) if **right == int(width) => ex,
            _ => op("two_comp_mod", ex, int(width)),
        },
        Scalar::Bit(width) if !fits(&ex, width) => op("&", ex, Ex::Int(ones(width))),
        _ => ex,
    }
}

/// `left op right` on operands of one type; `None` if `name` is not an arithmetic operator.
pub fn arithmetic(name: &'static str, left: Ex, right: Ex, scalar: Scalar) -> Option<Ex> {
    if let (Ex::Int(a), Ex::Int(b)) = (&left, &right)
        && let Ok(Some(value)) = fold::arithmetic(name, a, b, &as_type(scalar))
    {
        return Some(Ex::Int(value));
    }
    // The result is zero whatever the right operand is.
    if matches!(name, "*" | "/" | "%" | "<<" | ">>" | "&") && left == int(0) {
        return Some(left);
    }
    Some(match name {
        "+" | "-" | "*" | "<<" => wrap(op(name, left, right), scalar),
        ">>" | "&" | "|" | "^" => {
            let result = op(name, left, right);
            if matches!(scalar, Scalar::Signed(_)) { wrap(result, scalar) } else { result }
        }
        "|+|" | "|-|" => {
            let cast = if matches!(scalar, Scalar::Signed(_)) { "sat_cast" } else { "usat_cast" };
            op(cast, op(if name == "|+|" { "+" } else { "-" }, left, right), int(scalar.width()))
        }
        "/" => {
            let Ex::Int(divisor) = &right else { return None };
            let shift = power(divisor)?;
            op(">>", left, int(shift))
        }
        "%" => {
            let Ex::Int(divisor) = &right else { return None };
            power(divisor)?;
            op("&", left, Ex::Int(divisor - 1))
        }
        _ => return None,
    })
}

/// Exponent of a power of two; `None` for other numbers.
fn power(value: &BigInt) -> Option<u64> {
    let bits = value.bits();
    (bits > 0 && *value == BigInt::one() << (bits - 1)).then(|| bits - 1)
}

/// Comparison of numbers.
pub fn compare(name: &'static str, left: Ex, right: Ex) -> Ex {
    if let (Ex::Int(a), Ex::Int(b)) = (&left, &right)
        && let Some(value) = fold::comparison(name, a, b)
    {
        return Ex::Bool(value);
    }
    op(name, left, right)
}

/// Equality of Booleans.
pub fn same_truth(left: Ex, right: Ex) -> Ex {
    match (left, right) {
        (Ex::Bool(true), other) | (other, Ex::Bool(true)) => other,
        (Ex::Bool(false), other) | (other, Ex::Bool(false)) => not(other),
        (left, right) => op("==", to_data(left), to_data(right)),
    }
}

/// `not a`.
pub fn not(ex: Ex) -> Ex {
    match ex {
        Ex::Bool(value) => Ex::Bool(!value),
        Ex::Op("not", _, inner) => *inner,
        other => Ex::Op("not", None, Box::new(other)),
    }
}

/// `a and b`.
pub fn and(left: Ex, right: Ex) -> Ex {
    match (left, right) {
        (Ex::Bool(false), _) | (_, Ex::Bool(false)) => Ex::Bool(false),
        (Ex::Bool(true), other) | (other, Ex::Bool(true)) => other,
        (left, right) => op("and", left, right),
    }
}

/// `a or b`.
pub fn or(left: Ex, right: Ex) -> Ex {
    match (left, right) {
        (Ex::Bool(true), _) | (_, Ex::Bool(true)) => Ex::Bool(true),
        (Ex::Bool(false), other) | (other, Ex::Bool(false)) => other,
        (left, right) => op("or", left, right),
    }
}

/// Converts a Boolean to a number.
pub fn to_data(ex: Ex) -> Ex {
    match ex {
        Ex::Bool(value) => int(u8::from(value)),
        Ex::Op("d2b", _, inner) => *inner,
        other => Ex::Op("b2d", None, Box::new(other)),
    }
}

/// Converts a number to a Boolean.
pub fn to_bool(ex: Ex) -> Ex {
    match ex {
        Ex::Int(value) => Ex::Bool(!value.is_zero()),
        Ex::Op("b2d", _, inner) => *inner,
        other => Ex::Op("d2b", None, Box::new(other)),
    }
}

/// `a ++ b`.
pub fn concat(left: Ex, right: Ex, right_width: u32, scalar: Scalar) -> Ex {
    let left = wrap(left, Scalar::Bit(scalar.width() - right_width));
    let right = wrap(right, Scalar::Bit(right_width));
    if let (Ex::Int(a), Ex::Int(b)) = (&left, &right) {
        return Ex::Int(fold::wrap(&((a << right_width) | b), &as_type(scalar)));
    }
    let joined = op("|", op("<<", left, int(right_width)), right);
    if matches!(scalar, Scalar::Signed(_)) { wrap(joined, scalar) } else { joined }
}

/// `a[high:low]`.
pub fn slice(value: Ex, high: u32, low: u32) -> Ex {
    if let Ex::Int(number) = &value {
        return Ex::Int(fold::slice(number, high, low));
    }
    if let Ex::Lookahead(offset, width) = &value
        && high < *width
    {
        return Ex::Lookahead(offset + width - 1 - high, high - low + 1);
    }
    let shifted = if low == 0 { value } else { op(">>", value, int(low)) };
    wrap(shifted, Scalar::Bit(high - low + 1))
}

/// `whole` with bits `high` to `low` replaced.
pub fn replace(whole: Ex, high: u32, low: u32, bits: Ex, scalar: Scalar) -> Ex {
    let mask = ones(high - low + 1) << low;
    let keep = ones(scalar.width()) ^ &mask;
    let bits = wrap(bits, Scalar::Bit(high - low + 1));
    let moved = match bits {
        Ex::Int(value) => Ex::Int(value << low),
        other if low == 0 => other,
        other => op("<<", other, int(low)),
    };
    let joined = op("|", op("&", whole, Ex::Int(keep)), moved);
    if matches!(scalar, Scalar::Signed(_)) { wrap(joined, scalar) } else { joined }
}

/// Conversion between scalar types.
pub fn cast(ex: Ex, from: Scalar, to: Scalar) -> Ex {
    match (from, to) {
        (Scalar::Bool, Scalar::Bool) => ex,
        (Scalar::Bool, _) => to_data(ex),
        (_, Scalar::Bool) => to_bool(ex),
        (Scalar::Bit(a), Scalar::Bit(b)) if a <= b => ex,
        (_, Scalar::Int) => ex,
        (_, Scalar::Bit(width)) => match wrap(ex, to) {
            // A signed number is masked even at equal width.
            Ex::Field(field) if matches!(from, Scalar::Signed(_)) => {
                op("&", Ex::Field(field), Ex::Int(ones(width)))
            }
            other => other,
        },
        (Scalar::Signed(a), Scalar::Signed(b)) if a <= b => ex,
        (_, Scalar::Signed(_)) => wrap(ex, to),
        (_, Scalar::Varbit(_)) => ex,
    }
}

/// True if the expression is Boolean.
pub fn is_truth(ex: &Ex) -> bool {
    match ex {
        Ex::Bool(_) | Ex::Valid(_) => true,
        Ex::Op(name, ..) => matches!(
            *name,
            "==" | "!=" | "<" | "<=" | ">" | ">=" | "and" | "or" | "not" | "d2b" | "valid_union"
        ),
        Ex::Cond(_, a, _) => is_truth(a),
        _ => false,
    }
}

/// Converts a Boolean to a number if `truth`; otherwise returns `ex`.
pub fn to_data_if(ex: Ex, truth: bool) -> Ex {
    if truth { to_data(ex) } else { ex }
}
