//! Text format of mtree(5).

use belljar_base::Map;
use std::fmt::Write;

/// Name encoded for mtree(5): bytes other than visible ASCII become a backslash and three octal digits.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'=') {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text
}

/// Inverse of [`escaped`].
pub fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if bytes[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

/// Keywords of a line and their values.
pub type Words<'a> = Map<&'a str, &'a str>;

/// Path components and keywords of a line; `None` for comments and empty lines.
pub fn parsed(line: &str) -> Option<(Vec<Vec<u8>>, Words<'_>)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let mut words = line.split_ascii_whitespace();
    let path = words.next()?.strip_prefix("./")?;
    let parts = path.split('/').map(unescaped).collect();
    Some((parts, words.filter_map(|word| word.split_once('=')).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_and_lines_are_read_back() {
        let name = b"a b\\c=#\xff\n";
        assert_eq!(escaped(name), "a\\040b\\134c\\075\\043\\377\\012");
        assert_eq!(unescaped(&escaped(name)), name);
        let (path, words) = parsed("./fs/a\\040b type=file mode=0644 time=1.5").unwrap();
        assert_eq!(path, [b"fs".to_vec(), b"a b".to_vec()]);
        assert_eq!(words, [("type", "file"), ("mode", "0644"), ("time", "1.5")].into());
        assert!(parsed("#mtree").is_none() && parsed("").is_none());
    }
}
