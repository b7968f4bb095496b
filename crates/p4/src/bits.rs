//! Bit fields in byte strings, most significant bit first, as on the wire.
//!
//! Every buffer ends in [`PADDING`] unused bytes, so that a field can be read by one 8- or 16-byte load.

use num_bigint::BigUint;

/// Padding after the last field of a buffer, in bytes.
pub const PADDING: usize = 17;

fn load128(bytes: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(bytes[at..at + 16].try_into().expect("16 bytes"))
}

/// Mask of the lowest `width` bits, at most 128.
pub fn mask(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

/// Accesses a field with the narrowest of 1, 2, 4 and 8 bytes that contains it. A processor forwards a recent
/// store to a load only if the load is no wider, and adjacent fields are often written in succession.
macro_rules! narrowest {
    ($bits:expr, $action:ident) => {
        match $bits {
            0..=8 => $action!(u8, 1),
            9..=16 => $action!(u16, 2),
            17..=32 => $action!(u32, 4),
            _ => $action!(u64, 8),
        }
    };
}

/// Reads the field of `width` bits at bit `skip` of byte `at`; `skip + width` is at most 64.
#[inline]
fn get64(bytes: &[u8], at: usize, skip: u32, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    macro_rules! load {
        ($word:ty, $bytes:literal) => {{
            let word = <$word>::from_be_bytes(bytes[at..at + $bytes].try_into().expect("its bytes"));
            (word << skip >> (<$word>::BITS - width)) as u64
        }};
    }
    narrowest!(skip + width, load)
}

/// Writes the field of `width` bits at bit `skip` of byte `at`; `skip + width` is at most 64.
#[inline]
fn set64(bytes: &mut [u8], at: usize, skip: u32, width: u32, value: u64) {
    if width == 0 {
        return;
    }
    macro_rules! store {
        ($word:ty, $bytes:literal) => {{
            let place = &mut bytes[at..at + $bytes];
            let shift = <$word>::BITS - skip - width;
            let ones = <$word>::MAX >> (<$word>::BITS - width) << shift;
            let mut word = (value as $word) << shift;
            if ones != <$word>::MAX {
                let before = <$word>::from_be_bytes((&*place).try_into().expect("its bytes"));
                word = before & !ones | word & ones;
            }
            place.copy_from_slice(&word.to_be_bytes());
        }};
    }
    narrowest!(skip + width, store)
}

/// Reads the field of `width` bits, at most 128, at bit `offset`.
#[inline]
pub fn get(bytes: &[u8], offset: u32, width: u32) -> u128 {
    let (at, skip) = ((offset / 8) as usize, offset % 8);
    if skip + width <= 64 {
        return u128::from(get64(bytes, at, skip, width));
    }
    if skip + width <= 128 {
        return load128(bytes, at) << skip >> (128 - width);
    }
    let high = load128(bytes, at) << skip;
    (high | u128::from(bytes[at + 16]) >> (8 - skip)) >> (128 - width)
}

/// Writes the lowest bits of `value` to the field of `width` bits, at most 128, at bit `offset`.
#[inline]
pub fn set(bytes: &mut [u8], offset: u32, width: u32, value: u128) {
    let (at, skip) = ((offset / 8) as usize, offset % 8);
    if skip + width <= 64 {
        set64(bytes, at, skip, width, value as u64);
    } else if skip + width <= 128 {
        let shift = 128 - skip - width;
        let ones = mask(width) << shift;
        let word = load128(bytes, at) & !ones | (value << shift) & ones;
        bytes[at..at + 16].copy_from_slice(&word.to_be_bytes());
    } else {
        set(bytes, offset + width - 64, 64, value);
        set(bytes, offset, width - 64, value >> 64);
    }
}

/// Reads a field of any width as an integer.
pub fn get_wide(bytes: &[u8], offset: u32, width: u32) -> BigUint {
    let mut out = vec![0; (width as usize).div_ceil(8)];
    get_bytes(bytes, offset, width, &mut out);
    BigUint::from_bytes_be(&out)
}

/// Reads a field into the end of `out` and clears the bytes before it. `out` is at least as long as the
/// field.
pub fn get_bytes(bytes: &[u8], offset: u32, width: u32, out: &mut [u8]) {
    let split = out.len() - (width as usize).div_ceil(8);
    let (zeros, out) = out.split_at_mut(split);
    zeros.fill(0);
    if offset.is_multiple_of(8) && width.is_multiple_of(8) {
        let at = (offset / 8) as usize;
        out.copy_from_slice(&bytes[at..at + out.len()]);
        return;
    }
    let mut end = offset + width;
    for byte in out.iter_mut().rev() {
        let part = (end - offset).min(8);
        end -= part;
        *byte = get(bytes, end, part) as u8;
    }
}

/// Writes the last bits of `value`, a big-endian integer of any length, to a field.
pub fn set_bytes(bytes: &mut [u8], offset: u32, width: u32, value: &[u8]) {
    if offset.is_multiple_of(8) && width as usize == value.len() * 8 {
        let at = (offset / 8) as usize;
        bytes[at..at + value.len()].copy_from_slice(value);
        return;
    }
    let mut end = offset + width;
    let mut value = value.iter().rev();
    while end > offset {
        let part = (end - offset).min(8);
        end -= part;
        set(bytes, end, part, u128::from(value.next().copied().unwrap_or(0)));
    }
}

/// Copies `width` bits between buffers.
pub fn copy(to: &mut [u8], to_offset: u32, from: &[u8], from_offset: u32, width: u32) {
    if to_offset.is_multiple_of(8) && from_offset.is_multiple_of(8) && width.is_multiple_of(8) {
        let (at, source, len) = ((to_offset / 8) as usize, (from_offset / 8) as usize, (width / 8) as usize);
        to[at..at + len].copy_from_slice(&from[source..source + len]);
        return;
    }
    let mut done = 0;
    while done < width {
        let part = (width - done).min(64);
        set(to, to_offset + done, part, get(from, from_offset + done, part));
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    #[test]
    fn a_field_is_what_was_put_there_and_its_neighbours_stay() {
        let mut stream = Seed(1).stream(&["bits"]);
        for _ in 0..20_000 {
            let mut bytes = vec![0u8; 40 + PADDING];
            stream.fill(&mut bytes);
            let width = stream.below(128) as u32 + 1;
            let offset = stream.below(u64::from(320 - width)) as u32;
            let value = u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
            let before = bytes.clone();
            set(&mut bytes, offset, width, value);
            assert_eq!(get(&bytes, offset, width), value & mask(width), "{offset} {width}");
            assert_eq!(get_wide(&bytes, offset, width), BigUint::from(value & mask(width)));
            for bit in (0..offset).chain(offset + width..320) {
                assert_eq!(get(&bytes, bit, 1), get(&before, bit, 1), "{offset} {width} {bit}");
            }
            let mut copied = before.clone();
            set_bytes(&mut copied, offset, width, &value.to_be_bytes());
            assert_eq!(copied, bytes);
            let mut moved = vec![0u8; 40 + PADDING];
            copy(&mut moved, 3, &bytes, offset, width);
            assert_eq!(get(&moved, 3, width), value & mask(width));
        }
    }
}
