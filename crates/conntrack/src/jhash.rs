//! The hash function of Linux's `jhash` (Bob Jenkins' lookup3), so that ranges of addresses and rules
//! spread connections and packets as Linux does. Words are hashed as their bytes, least significant first.

/// Initial value of the state, `JHASH_INITVAL`.
const INITIAL: u32 = 0xdead_beef;

/// Hash of bytes with a seed.
pub fn jhash(mut key: &[u8], seed: u32) -> u32 {
    let start = INITIAL.wrapping_add(key.len() as u32).wrapping_add(seed);
    let mut state = [start; 3];
    let word = |bytes: &[u8], at: usize| {
        let mut word = [0; 4];
        let found = bytes.get(at..).unwrap_or_default();
        let len = found.len().min(4);
        word[..len].copy_from_slice(&found[..len]);
        u32::from_le_bytes(word)
    };
    while key.len() > 12 {
        for (n, part) in state.iter_mut().enumerate() {
            *part = part.wrapping_add(word(key, 4 * n));
        }
        mix(&mut state);
        key = &key[12..];
    }
    if !key.is_empty() {
        for (n, part) in state.iter_mut().enumerate() {
            *part = part.wrapping_add(word(key, 4 * n));
        }
        finish(&mut state);
    }
    state[2]
}

fn mix([a, b, c]: &mut [u32; 3]) {
    for bits in [(4, 6, 8), (16, 19, 4)] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(bits.0);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(bits.1);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(bits.2);
        *b = b.wrapping_add(*a);
    }
}

fn finish([a, b, c]: &mut [u32; 3]) {
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
    *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
    *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
    *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
    *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the driver of lookup3.c, whose `hashlittle` this is.
    #[test]
    fn published_values_of_lookup3() {
        assert_eq!(jhash(b"", 0), 0xdead_beef);
        assert_eq!(jhash(b"", 0xdead_beef), 0xbd5b_7dde);
        assert_eq!(jhash(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(jhash(b"Four score and seven years ago", 1), 0xcd62_8161);
    }
}
