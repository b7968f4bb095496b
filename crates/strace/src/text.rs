//! Numbers and quoted text appended to a log. A line is formatted for each call, so these functions avoid the
//! general formatter and temporary strings.

use belljar_base::SimTime;
use std::{array, fmt};

/// Append-only text: ASCII except the names of programs.
#[derive(Debug, Default)]
pub struct Text(Vec<u8>);

impl Text {
    /// Appends an ASCII character.
    #[inline]
    pub fn push(&mut self, character: char) {
        debug_assert!(character.is_ascii());
        self.0.push(character as u8);
    }
    /// Appends other text.
    #[inline]
    pub fn push_str(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }
    /// Appends bytes of text.
    #[inline]
    pub fn push_bytes(&mut self, text: &[u8]) {
        self.0.extend_from_slice(text);
    }
    /// Appends a short text.
    #[inline]
    pub fn push_short<const N: usize>(&mut self, text: &Short<N>) {
        self.push_first(&text.0, usize::from(text.1));
    }
    /// Appends the first `len` bytes of `bytes`. All `N` bytes are copied whatever `len` is, which avoids a
    /// variable-length copy.
    #[inline]
    fn push_first<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        let end = self.0.len() + len;
        self.0.extend_from_slice(bytes);
        self.0.truncate(end);
    }
    /// Appends several pieces: four bytes are copied per piece, and excess bytes are overwritten by the next
    /// piece. The pieces are written to the buffer directly, because loads that span recent smaller stores
    /// stall the processor.
    #[inline]
    fn push_pieces<const N: usize>(&mut self, pieces: [Piece; N]) {
        let mut end = self.0.len();
        self.0.resize(end + 4 * N, 0);
        for Short(bytes, count) in pieces {
            self.0[end..end + 4].copy_from_slice(&bytes);
            end += usize::from(count);
        }
        self.0.truncate(end);
    }
    /// Appends another text.
    pub fn append(&mut self, other: &Text) {
        self.0.extend_from_slice(&other.0);
    }
    /// True if it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// True if no buffer was ever allocated.
    pub fn is_new(&self) -> bool {
        self.0.capacity() == 0
    }
    /// Truncates to the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
    /// The text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// Converts the text to a string.
    pub fn into_string(self) -> String {
        String::from_utf8(self.0).expect("made of strings and ASCII")
    }
}

/// Text of at most `N` bytes, with its length.
#[derive(Clone, Copy, Debug)]
pub struct Short<const N: usize>([u8; N], u8);

impl<const N: usize> Short<N> {
    /// No text.
    const EMPTY: Short<N> = Short([0; N], 0);

    /// Creates a short text; `None` if it does not fit.
    pub fn new(text: &[u8]) -> Option<Short<N>> {
        let mut short = Short::EMPTY;
        short.0.get_mut(..text.len())?.copy_from_slice(text);
        short.1 = u8::try_from(text.len()).ok()?;
        Some(short)
    }
}

/// Escaped form of a byte.
type Piece = Short<4>;

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

/// Decimal digits of the numbers below 100.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Appends a number.
#[inline]
pub fn push_unsigned(out: &mut Text, value: u64) {
    match value {
        // Most numbers are small.
        0..10 => out.0.push(b'0' + value as u8),
        10..10_000 => {
            let ([a, b], [c, d]) = (PAIRS[value as usize / 100], PAIRS[value as usize % 100]);
            let zeros = usize::from(value < 1_000) + usize::from(value < 100);
            out.push_first(&(u32::from_le_bytes([a, b, c, d]) >> (8 * zeros)).to_le_bytes(), 4 - zeros);
        }
        _ => push_large(out, value),
    }
}
#[inline(never)]
fn push_large(out: &mut Text, value: u64) {
    out.push_str(itoa::Buffer::new().format(value));
}
/// Appends a signed number.
#[inline]
pub fn push_signed(out: &mut Text, value: i64) {
    if value < 0 {
        out.push('-');
    }
    push_unsigned(out, value.unsigned_abs());
}
/// Decimal octets, each followed by a dot.
static OCTETS: [Piece; 256] = {
    let mut octets = [Short([b'.'; 4], 0); 256];
    let mut n = 0;
    while n < 256 {
        let digits = [b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
        let zeros = if n < 10 {
            2
        } else if n < 100 {
            1
        } else {
            0
        };
        let mut at = zeros;
        while at < 3 {
            octets[n].0[at - zeros] = digits[at];
            at += 1;
        }
        octets[n].1 = 4 - zeros as u8;
        n += 1;
    }
    octets
};

/// Appends an IPv4 address.
pub fn push_ipv4(out: &mut Text, octets: [u8; 4]) {
    out.push_pieces(octets.map(|octet| OCTETS[usize::from(octet)]));
    out.0.pop();
}
/// Appends a number in hexadecimal after `0x`.
pub fn push_hex(out: &mut Text, value: u64) {
    out.push_str("0x");
    let zeros = (value | 1).leading_zeros() / 4;
    let digits = hex_digits(value) >> (8 * zeros);
    out.push_first(&digits.to_le_bytes(), 16 - zeros as usize);
}
/// All sixteen hexadecimal digits, the most significant in the lowest byte.
fn hex_digits(value: u64) -> u128 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let eight = |half: u32| {
        // Spreads the digits, one value per byte.
        let mut digits = u64::from(half.swap_bytes());
        digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
        digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
        digits = (digits << 8 | digits >> 4) & 0x0f0f_0f0f_0f0f_0f0f;
        let letters = (digits + 6 * ONES) >> 4 & ONES;
        u128::from(digits + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'9' - 1))
    };
    eight((value >> 32) as u32) | eight(value as u32) << 64
}
/// Appends an address in hexadecimal, or `NULL`.
pub fn push_address(out: &mut Text, value: u64) {
    match value {
        0 => out.push_str("NULL"),
        _ => push_hex(out, value),
    }
}
/// Appends a time in seconds.
pub fn push_time(out: &mut Text, time: SimTime) {
    let ns = time.as_nanos();
    push_unsigned(out, ns / 1_000_000_000);
    out.push('.');
    // A leading one preserves the zeros.
    out.push_str(&itoa::Buffer::new().format(1_000_000_000 + ns % 1_000_000_000)[1..]);
}

/// strace's escaped form of each byte.
static ESCAPED: [Piece; 256] = {
    let mut table = [Short::EMPTY; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = escaped(byte as u8);
        byte += 1;
    }
    table
};

const fn escaped(byte: u8) -> Piece {
    match byte {
        b'\n' => Short(*b"\\n\0\0", 2),
        b'\r' => Short(*b"\\r\0\0", 2),
        b'\t' => Short(*b"\\t\0\0", 2),
        0x0b => Short(*b"\\v\0\0", 2),
        0x0c => Short(*b"\\f\0\0", 2),
        b'"' => Short(*b"\\\"\0\0", 2),
        b'\\' => Short(*b"\\\\\0\0", 2),
        0x20..0x7f => Short([byte, 0, 0, 0], 1),
        0..8 => Short([b'\\', b'0' + byte, 0, 0], 2),
        8..0x20 => Short([b'\\', b'0' + (byte >> 3), b'0' + (byte & 7), 0], 3),
        _ => octal(byte),
    }
}

/// Appends quoted text with strace's escapes, and an ellipsis if `data` is shorter than `len`.
pub fn push_quoted(out: &mut Text, data: &[u8], len: usize) {
    out.push('"');
    let (eights, rest) = data.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate() {
        let next = data.get(8 * n + 8).copied();
        if u64::from_ne_bytes(*eight) == 0 && !next.is_some_and(is_octal) {
            out.0.extend_from_slice(br"\0\0\0\0\0\0\0\0");
        } else if eight.iter().fold(true, |all, byte| all & is_plain(*byte)) {
            out.0.extend_from_slice(eight);
        } else {
            out.push_pieces(escaped_each(*eight, next));
        }
    }
    if !rest.is_empty() {
        let mut eight = [0; 8];
        eight[..rest.len()].copy_from_slice(rest);
        let mut pieces = escaped_each(eight, None);
        pieces[rest.len()..].fill(Short::EMPTY);
        out.push_pieces(pieces);
    }
    out.push('"');
    if len > data.len() {
        out.push_str("...");
    }
}

/// Escaped forms of eight bytes that precede `next`.
fn escaped_each(eight: [u8; 8], next: Option<u8>) -> [Piece; 8] {
    array::from_fn(|n| {
        let piece = ESCAPED[usize::from(eight[n])];
        // An octal digit after a short escape would be read as part of it.
        let next = eight.get(n + 1).copied().or(next);
        match piece.1 > 1 && is_octal(piece.0[1]) && next.is_some_and(is_octal) {
            true => octal(eight[n]),
            false => piece,
        }
    })
}

/// True if a byte needs no escape.
const fn is_plain(byte: u8) -> bool {
    (byte >= 0x20) & (byte < 0x7f) & (byte != b'"') & (byte != b'\\')
}
const fn is_octal(byte: u8) -> bool {
    matches!(byte, b'0'..=b'7')
}
/// Octal escape with all three digits.
const fn octal(byte: u8) -> Piece {
    Short([b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)], 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(push: impl Fn(&mut Text)) -> String {
        let mut text = Text::default();
        push(&mut text);
        text.into_string()
    }

    #[test]
    fn text_is_escaped_as_strace_does() {
        assert_eq!(made(|t| push_quoted(t, b"a\n\"b\\\x01\xff", 6)), r#""a\n\"b\\\1\377""#);
        // Output of strace 6.1.
        let octals = b"\x001\x008\x009\x0b\x0ca\x071\x3f8\x7f\xff";
        assert_eq!(made(|t| push_quoted(t, octals, 15)), r#""\0001\08\09\v\fa\0071?8\177\377""#);
        assert_eq!(made(|t| push_quoted(t, b"\0\0\0\0\0\0\0\x007", 9)), r#""\0\0\0\0\0\0\0\0007""#);
        assert_eq!(made(|t| push_quoted(t, b"\0\0\0\0\0\0\0\x00a", 9)), r#""\0\0\0\0\0\0\0\0a""#);
        assert_eq!(
            made(|t| push_quoted(t, b"plain, and \x7f not plain", 21)),
            r#""plain, and \177 not plain""#
        );
        assert_eq!(made(|t| push_quoted(t, b"abc", 9)), "\"abc\"...");
        assert_eq!(made(|t| push_quoted(t, &[b'x'; 100], 100)), format!("\"{}\"", "x".repeat(100)));
        assert_eq!(made(|t| push_quoted(t, &[0xff; 33], 33)), format!("\"{}\"", "\\377".repeat(33)));
    }

    #[test]
    fn numbers_are_as_the_general_formatter_makes_them() {
        for value in [
            0,
            1,
            9,
            10,
            99,
            100,
            255,
            999,
            1_000,
            7_060,
            9_999,
            10_000,
            0xa9f,
            12_345_678_901,
            1 << 63,
            u64::MAX,
        ] {
            assert_eq!(made(|t| push_unsigned(t, value)), value.to_string());
            assert_eq!(made(|t| push_signed(t, value as i64)), (value as i64).to_string());
            assert_eq!(made(|t| push_hex(t, value)), format!("{value:#x}"));
            let time = SimTime::from_nanos(value % 1_000_000_000_000);
            assert_eq!(made(|t| push_time(t, time)), time.to_string());
        }
        assert_eq!(made(|t| push_ipv4(t, [0, 9, 11, 255])), "0.9.11.255");
        for byte in 0..=255_u8 {
            let quoted = made(|t| push_quoted(t, &[byte], 1));
            assert!(
                byte.is_ascii_graphic()
                    || byte == b' '
                    || b"\n\r\t\x0b\x0c".contains(&byte)
                    || quoted == format!("\"\\{byte:o}\"")
            );
        }
    }
}
