//! Numbers and quoted text appended to a log. A line is made for each call, so these do without the general
//! formatter and without strings of their own.

use belljar_base::SimTime;
use std::fmt;

/// Text that grows at its end; all of it is ASCII but what programs are called.
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
        self.0.extend_from_slice(text.as_bytes());
    }
    /// Appends all of another.
    pub fn append(&mut self, other: &Text) {
        self.0.extend_from_slice(&other.0);
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// The same as a string.
    pub fn into_string(self) -> String {
        String::from_utf8(self.0).expect("made of strings and ASCII")
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

/// Appends a number.
#[inline]
pub fn push_unsigned(out: &mut Text, value: u64) {
    let digit = |divisor: u64| b'0' + (value / divisor % 10) as u8;
    match value {
        // Most are small.
        0..10 => out.0.push(digit(1)),
        10..100 => out.0.extend_from_slice(&[digit(10), digit(1)]),
        100..1_000 => out.0.extend_from_slice(&[digit(100), digit(10), digit(1)]),
        1_000..10_000 => out.0.extend_from_slice(&[digit(1_000), digit(100), digit(10), digit(1)]),
        _ => out.push_str(itoa::Buffer::new().format(value)),
    }
}
/// Appends a number with its sign.
pub fn push_signed(out: &mut Text, value: i64) {
    if value < 0 {
        out.push('-');
    }
    push_unsigned(out, value.unsigned_abs());
}
/// Appends a number in hexadecimal, behind `0x`.
pub fn push_hex(out: &mut Text, value: u64) {
    out.push_str("0x");
    let count = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..count).rev() {
        out.0.push(b"0123456789abcdef"[(value >> (4 * digit)) as usize & 0xf]);
    }
}
/// Appends an address in hexadecimal, or `NULL`.
pub fn push_address(out: &mut Text, value: u64) {
    match value {
        0 => out.push_str("NULL"),
        _ => push_hex(out, value),
    }
}
/// Appends a time in seconds, as it is displayed.
pub fn push_time(out: &mut Text, time: SimTime) {
    let ns = time.as_nanos();
    push_unsigned(out, ns / 1_000_000_000);
    out.push('.');
    // A one before them keeps the zeros at the front.
    out.push_str(&itoa::Buffer::new().format(1_000_000_000 + ns % 1_000_000_000)[1..]);
}

/// The characters that stand for a byte in quotes, and their number.
type Escaped = ([u8; 4], u8);

/// strace's escapes.
static ESCAPED: [Escaped; 256] = {
    let mut table = [([0; 4], 0); 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = escaped(byte as u8);
        byte += 1;
    }
    table
};

const fn escaped(byte: u8) -> Escaped {
    match byte {
        b'\n' => (*b"\\n\0\0", 2),
        b'\r' => (*b"\\r\0\0", 2),
        b'\t' => (*b"\\t\0\0", 2),
        b'"' => (*b"\\\"\0\0", 2),
        b'\\' => (*b"\\\\\0\0", 2),
        0x20..0x7f => ([byte, 0, 0, 0], 1),
        0..8 => ([b'\\', b'0' + byte, 0, 0], 2),
        8..0x20 => ([b'\\', b'0' + (byte >> 3), b'0' + (byte & 7), 0], 3),
        _ => ([b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)], 4),
    }
}

/// Appends text in quotes with strace's escapes, dots if it is part of something of `len` bytes.
pub fn push_quoted(out: &mut Text, data: &[u8], len: usize) {
    out.push('"');
    for some in data.chunks(32) {
        // Each byte's four characters are put there, and those that are none are overwritten.
        let (mut characters, mut end) = ([0; 4 * 32], 0);
        for byte in some {
            let (text, count) = ESCAPED[usize::from(*byte)];
            characters[end..end + 4].copy_from_slice(&text);
            end += usize::from(count);
        }
        out.0.extend_from_slice(&characters[..end]);
    }
    out.push('"');
    if len > data.len() {
        out.push_str("...");
    }
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
        assert_eq!(made(|t| push_quoted(t, b"abc", 9)), "\"abc\"...");
        assert_eq!(made(|t| push_quoted(t, &[b'x'; 100], 100)), format!("\"{}\"", "x".repeat(100)));
        assert_eq!(made(|t| push_quoted(t, &[0xff; 33], 33)), format!("\"{}\"", "\\377".repeat(33)));
    }

    #[test]
    fn numbers_are_as_the_general_formatter_makes_them() {
        for value in
            [0, 1, 9, 10, 99, 100, 255, 999, 1_000, 7_060, 9_999, 10_000, 12_345_678_901, 1 << 63, u64::MAX]
        {
            assert_eq!(made(|t| push_unsigned(t, value)), value.to_string());
            assert_eq!(made(|t| push_signed(t, value as i64)), (value as i64).to_string());
            assert_eq!(made(|t| push_hex(t, value)), format!("{value:#x}"));
            let time = SimTime::from_nanos(value % 1_000_000_000_000);
            assert_eq!(made(|t| push_time(t, time)), time.to_string());
        }
        for byte in 0..=255_u8 {
            let quoted = made(|t| push_quoted(t, &[byte], 1));
            assert!(
                byte.is_ascii_graphic()
                    || byte == b' '
                    || b"\n\r\t".contains(&byte)
                    || quoted == format!("\"\\{byte:o}\"")
            );
        }
    }
}
