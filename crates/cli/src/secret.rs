//! Secrets by which those who may speak to this program are known.

use belljar_base::hex;
use std::fs::File;
use std::io::{Read, Result};

/// A secret of so many bytes that the system draws, in hexadecimal.
pub fn drawn(len: usize) -> Result<String> {
    let mut bytes = vec![0; len];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Compares in a time that does not tell how much is equal.
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
