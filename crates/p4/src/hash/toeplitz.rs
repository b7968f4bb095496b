/// Toeplitz hash: XOR of the 32-bit key windows at the positions of the set input bits. The key repeats
/// cyclically.
pub(super) fn hash(key: &[u8], bytes: &[u8]) -> u32 {
    let word = |at: usize| (0..5).fold(0u64, |sum, n| sum << 8 | u64::from(key[(at + n) % key.len()]));
    let mut sum = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let window = word(at);
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                sum ^= (window >> (8 - bit)) as u32;
            }
        }
    }
    sum
}
