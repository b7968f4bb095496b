//! Numbers in user input: decimal, hexadecimal, binary, octal, and IPv4, IPv6 and MAC addresses.

use num_bigint::BigUint;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses a number or address to big-endian bytes.
pub(crate) fn parse(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("'{text}' is not a number, IPv4, IPv6 or MAC address");
    if let Some(mac) = mac(text) {
        return Ok(mac);
    }
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().map(|address| address.octets().to_vec()).map_err(|_| wrong());
    }
    if text.matches('.').count() == 3 {
        return text.parse::<Ipv4Addr>().map(|address| address.octets().to_vec()).map_err(|_| wrong());
    }
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ => (10, lower.as_str()),
    };
    if digits.is_empty() || digits.len() > 4_096 || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(wrong());
    }
    BigUint::parse_bytes(digits.as_bytes(), radix).map(|value| value.to_bytes_be()).ok_or_else(wrong)
}

fn mac(text: &str) -> Option<Vec<u8>> {
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    if bytes.len() != 6 || bytes.iter().any(|byte| byte.is_empty() || byte.len() > 2) {
        return None;
    }
    bytes.iter().map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

/// Parses a number below 2^64.
pub(crate) fn small(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    if bytes.len() - start > 8 {
        return Err(format!("'{text}' is too large"));
    }
    Ok(bytes[start..].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses() {
        assert_eq!(parse("10.0.1.2").unwrap(), [10, 0, 1, 2]);
        assert_eq!(parse("08:00:00:00:01:0a").unwrap(), [8, 0, 0, 0, 1, 10]);
        assert_eq!(parse("::1").unwrap()[15], 1);
        assert_eq!(parse("258").unwrap(), [1, 2]);
        assert_eq!(parse("0x0102").unwrap(), [1, 2]);
        assert_eq!(parse("0b101").unwrap(), [5]);
        for wrong in ["", "0x", "1.2.3", "10.0.0.256", "zz", "-1", "0b2", "::x", "1_0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(small("0xffff"), Ok(65_535));
        assert!(small("0x10000000000000000").is_err());
    }
}
