//! Numbers and quoted text appended to a log. A line is made for each call, so these do without the general
//! formatter and without strings of their own.

use belljar_base::SimTime;

/// Appends digits of a base that is a power of two, which the compiler knows.
fn push_digits<const BITS: u32>(out: &mut String, value: u64) {
    let count = (64 - value.leading_zeros()).div_ceil(BITS).max(1);
    for digit in (0..count).rev() {
        let digit = (value >> (digit * BITS)) as u8 & ((1 << BITS) - 1);
        out.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
    }
}

/// Appends a number.
pub fn push_unsigned(out: &mut String, value: u64) {
    out.push_str(itoa::Buffer::new().format(value));
}
/// Appends a number with its sign.
pub fn push_signed(out: &mut String, value: i64) {
    if value < 0 {
        out.push('-');
    }
    push_unsigned(out, value.unsigned_abs());
}
/// Appends a number in hexadecimal, behind `0x`.
pub fn push_hex(out: &mut String, value: u64) {
    out.push_str("0x");
    push_digits::<4>(out, value);
}
/// Appends an address in hexadecimal, or `NULL`.
pub fn push_address(out: &mut String, value: u64) {
    match value {
        0 => out.push_str("NULL"),
        _ => push_hex(out, value),
    }
}
/// Appends a time in seconds, as it is displayed.
pub fn push_time(out: &mut String, time: SimTime) {
    let ns = time.as_nanos();
    push_unsigned(out, ns / 1_000_000_000);
    out.push('.');
    // A one before them keeps the zeros at the front.
    out.push_str(&itoa::Buffer::new().format(1_000_000_000 + ns % 1_000_000_000)[1..]);
}

/// Appends text in quotes with strace's escapes, dots if it is part of something of `len` bytes.
pub fn push_quoted(out: &mut String, data: &[u8], len: usize) {
    out.push('"');
    let is_plain = |byte: u8| matches!(byte, 0x20..0x7f) && byte != b'"' && byte != b'\\';
    let mut rest = data;
    while let Some((&byte, others)) = rest.split_first() {
        let plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
        if plain > 0 {
            out.push_str(std::str::from_utf8(&rest[..plain]).expect("plain characters are ASCII"));
            rest = &rest[plain..];
            continue;
        }
        rest = others;
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0 => out.push_str("\\0"),
            _ => {
                out.push('\\');
                push_digits::<3>(out, u64::from(byte));
            }
        }
    }
    out.push('"');
    if len > data.len() {
        out.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(push: impl Fn(&mut String)) -> String {
        let mut text = String::new();
        push(&mut text);
        text
    }

    #[test]
    fn text_is_escaped_as_strace_does() {
        assert_eq!(made(|t| push_quoted(t, b"a\n\"b\\\x01\xff", 6)), r#""a\n\"b\\\1\377""#);
        assert_eq!(made(|t| push_quoted(t, b"abc", 9)), "\"abc\"...");
    }

    #[test]
    fn numbers_are_as_the_general_formatter_makes_them() {
        for value in [0, 1, 9, 10, 255, 12_345_678_901, 1 << 63, u64::MAX] {
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
