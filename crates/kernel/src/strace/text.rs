//! Numbers and quoted text appended to a log. A line is made for each call, so these do without the general
//! formatter and without strings of their own.

use belljar_base::SimTime;

/// Appends digits of a base up to 16, which the compiler knows: to divide by any is slow.
fn push_digits<const BASE: u64>(out: &mut String, mut value: u64, least: usize) {
    let mut digits = [b'0'; 22];
    let mut at = digits.len();
    while value != 0 {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(value % BASE) as usize];
        value /= BASE;
    }
    let at = at.min(digits.len() - least);
    out.push_str(std::str::from_utf8(&digits[at..]).expect("digits"));
}

/// Appends a number.
pub fn push_unsigned(out: &mut String, value: u64) {
    push_digits::<10>(out, value, 1);
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
    push_digits::<16>(out, value, 1);
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
    push_digits::<10>(out, ns % 1_000_000_000, 9);
}

/// Appends text in quotes with strace's escapes, dots if it is part of something of `len` bytes.
pub fn push_quoted(out: &mut String, data: &[u8], len: usize) {
    out.push('"');
    for byte in data {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x20..0x7f => out.push(char::from(*byte)),
            0 => out.push_str("\\0"),
            _ => {
                out.push('\\');
                push_digits::<8>(out, u64::from(*byte), 1);
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
