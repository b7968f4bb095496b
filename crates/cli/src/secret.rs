//! Secrets that authenticate peers of this program.

use belljar_base::hex;
use std::fs::File;
use std::io::{Read, Result};

/// Draws a secret of `len` random bytes, in hexadecimal.
pub fn drawn(len: usize) -> Result<String> {
    let mut bytes = vec![0; len];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Compares two secrets. For secrets of equal length the time does not depend on their content.
pub fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_have_their_length() {
        let (a, b) = (drawn(16).unwrap(), drawn(16).unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), 32);
        assert!(is_equal(&a, &a.clone()) && !is_equal(&a, &b) && !is_equal(&a, &a[1..]) && !is_equal("", &a));
    }
}
