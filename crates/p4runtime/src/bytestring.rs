//! P4Runtime byte strings: big-endian integers in their shortest form.

use crate::refusal::Refusal;

/// Shortest form of an unsigned integer; zero takes one byte.
pub fn shortest(value: &[u8]) -> &[u8] {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    &value[zeros.min(value.len().saturating_sub(1))..]
}

/// Number of significant bits of an unsigned integer; 0 for zero.
pub fn bits(value: &[u8]) -> u32 {
    let value = shortest(value);
    value.first().map_or(0, |first| 8 * value.len() as u32 - first.leading_zeros())
}

/// Validates an unsigned integer of `width` bits; returns its shortest form.
pub fn unsigned(value: &[u8], width: u32) -> Result<Vec<u8>, Refusal> {
    if value.is_empty() {
        return Err(Refusal::out_of_range("an empty string is no value"));
    }
    if bits(value) > width {
        return Err(Refusal::out_of_range(format!(
            "the value needs {} bits; there are {width}",
            bits(value)
        )));
    }
    Ok(shortest(value).to_vec())
}

/// Decodes an unsigned integer of at most 32 bits.
pub fn u32(value: &[u8]) -> Result<u32, Refusal> {
    let value = unsigned(value, 32)?;
    Ok(value.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

/// Encodes a number in its shortest form.
pub fn from_u32(value: u32) -> Vec<u8> {
    shortest(&value.to_be_bytes()).to_vec()
}

/// Pads an unsigned integer to the number of bytes of `width` bits.
pub fn padded(value: &[u8], width: u32) -> Vec<u8> {
    let value = shortest(value);
    let length = (width as usize).div_ceil(8).max(value.len());
    let mut padded = vec![0; length - value.len()];
    padded.extend_from_slice(value);
    padded
}

/// Maximum unsigned integer of `width` bits.
pub fn maximum(width: u32) -> Vec<u8> {
    let mut value = vec![0xff; (width as usize).div_ceil(8).max(1)];
    value[0] >>= (8 - width % 8) % 8;
    value
}

/// Decodes a signed integer of `width` bits to its two's complement bit pattern.
pub fn signed(value: &[u8], width: u32) -> Result<Vec<u8>, Refusal> {
    let Some(&first) = value.first() else {
        return Err(Refusal::out_of_range("an empty string is no value"));
    };
    let negative = first & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    // A signed value needs its significant bits and one sign bit.
    let extended: Vec<u8> = value.iter().map(|byte| byte ^ fill).collect();
    if bits(&extended) + 1 > width {
        return Err(Refusal::out_of_range(format!(
            "the value needs {} bits; there are {width}",
            bits(&extended) + 1
        )));
    }
    let length = (width as usize).div_ceil(8);
    let mut whole = vec![fill; length.saturating_sub(value.len())];
    whole.extend_from_slice(&value[value.len().saturating_sub(length)..]);
    whole[0] &= 0xff >> ((8 - width % 8) % 8);
    Ok(shortest(&whole).to_vec())
}

/// Encodes a bit pattern from [`signed`] as a signed integer in its shortest form.
pub fn to_signed(value: &[u8], width: u32) -> Vec<u8> {
    let mut value = padded(value, width);
    let unused = (8 - width % 8) % 8;
    let negative = value[0] & (0x80 >> unused) != 0;
    let fill: u8 = if negative { 0xff } else { 0 };
    if negative {
        value[0] |= !(0xff >> unused);
    }
    while value.len() > 1 && value[0] == fill && (value[1] ^ fill) & 0x80 == 0 {
        value.remove(0);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification() {
        for (width, value, short) in [
            (8, &[0x63][..], &[0x63][..]),
            (16, &[0, 0x63], &[0x63]),
            (16, &[0x30, 0x64], &[0x30, 0x64]),
            (16, &[0, 0x30, 0x64], &[0x30, 0x64]),
            (12, &[0, 0, 0x63], &[0x63]),
            (9, &[0], &[0]),
        ] {
            assert_eq!(unsigned(value, width).unwrap(), short);
        }
        for (width, value) in [
            (8, &[1, 0x63][..]),
            (8, &[]),
            (16, &[1, 0, 0x63]),
            (12, &[0x10, 0x63]),
            (12, &[1, 0, 0x63]),
            (12, &[0, 0x40, 0x63]),
        ] {
            assert!(unsigned(value, width).is_err(), "{width} {value:?}");
        }
        for (width, value, kept, short) in [
            (8, &[0x63][..], &[0x63][..], &[0x63][..]),
            (8, &[0x9d], &[0x9d], &[0x9d]),
            (8, &[0xff, 0x9d], &[0x9d], &[0x9d]),
            (12, &[0xfd, 0x1d], &[0xd, 0x1d], &[0xfd, 0x1d]),
            (16, &[0, 0], &[0], &[0]),
            (16, &[0xff], &[0xff, 0xff], &[0xff]),
            (16, &[0, 0x80], &[0x80], &[0, 0x80]),
        ] {
            assert_eq!(signed(value, width).unwrap(), kept, "{value:?}");
            assert_eq!(to_signed(kept, width), short, "{value:?}");
        }
        for (width, value) in [(8, &[0, 0x9d][..]), (12, &[0x8d, 0x1d]), (16, &[])] {
            assert!(signed(value, width).is_err(), "{width} {value:?}");
        }
    }

    #[test]
    fn widths() {
        assert_eq!(maximum(9), [1, 0xff]);
        assert_eq!(maximum(32), [0xff; 4]);
        assert_eq!(padded(&[5], 9), [0, 5]);
        assert_eq!((bits(&[0, 0]), bits(&[1, 0]), bits(&[])), (0, 9, 0));
        assert_eq!(from_u32(0x1ff), [1, 0xff]);
        assert_eq!(u32(&[0, 1, 0, 0, 0]).unwrap(), 1 << 24);
    }
}
