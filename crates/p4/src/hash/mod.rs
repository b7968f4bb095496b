//! Hash and checksum algorithms of v1model, under BMv2's names.

mod crc;
#[cfg(test)]
mod tests;
mod toeplitz;

pub(crate) use crc::Crc;
pub use crc::CrcParameters;

/// Hash or checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// A CRC with fixed parameters.
    Crc(crc::Fixed),
    /// A CRC with settable parameters, of 8, 16, 32 or 64 bits.
    CustomCrc(u32),
    /// The Internet checksum (RFC 1071).
    Checksum16,
    Xor16,
    Xor32,
    Identity,
    Xxh64,
    Toeplitz,
    RoundRobin,
}

impl Algorithm {
    pub const NAMES: [&str; 18] = [
        "crc8",
        "crc8_custom",
        "crc16",
        "crc16_custom",
        "crc32",
        "crc32_custom",
        "crc64",
        "crc64_custom",
        "crcCCITT",
        "csum16",
        "cksum16",
        "xor16",
        "xor32",
        "identity",
        "xxh64",
        "toeplitz",
        "round_robin",
        "round_robin_consistent",
    ];

    pub fn by_name(name: &str) -> Option<Algorithm> {
        Some(match name {
            "crc8" => Algorithm::Crc(crc::Fixed::Crc8),
            "crc16" => Algorithm::Crc(crc::Fixed::Crc16),
            "crc32" => Algorithm::Crc(crc::Fixed::Crc32),
            "crc64" => Algorithm::Crc(crc::Fixed::Crc64),
            "crcCCITT" => Algorithm::Crc(crc::Fixed::Ccitt),
            "crc8_custom" => Algorithm::CustomCrc(8),
            "crc16_custom" => Algorithm::CustomCrc(16),
            "crc32_custom" => Algorithm::CustomCrc(32),
            "crc64_custom" => Algorithm::CustomCrc(64),
            "csum16" | "cksum16" => Algorithm::Checksum16,
            "xor16" => Algorithm::Xor16,
            "xor32" => Algorithm::Xor32,
            "identity" => Algorithm::Identity,
            "xxh64" => Algorithm::Xxh64,
            "toeplitz" => Algorithm::Toeplitz,
            "round_robin" | "round_robin_consistent" => Algorithm::RoundRobin,
            _ => return None,
        })
    }
}

/// Algorithm of a calculation with its per-switch state.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    algorithm: Algorithm,
    crc: Option<Crc>,
    key: Vec<u8>,
    turn: u64,
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Hasher {
        let crc = match algorithm {
            Algorithm::Crc(fixed) => Some(Crc::new(fixed.parameters())),
            Algorithm::CustomCrc(width) => Some(Crc::new(crc::custom(width))),
            _ => None,
        };
        Hasher { algorithm, crc, key: vec![0; 16], turn: 0 }
    }
    /// Width of the CRC, if its parameters are settable.
    pub fn custom_width(&self) -> Option<u32> {
        match self.algorithm {
            Algorithm::CustomCrc(width) => Some(width),
            _ => None,
        }
    }
    pub fn set_crc(&mut self, parameters: CrcParameters) {
        self.crc = Some(Crc::new(parameters));
    }
    /// Sets the key of a Toeplitz hash; false if the algorithm is another or the key is shorter than four
    /// bytes.
    pub fn set_toeplitz_key(&mut self, key: &[u8]) -> bool {
        let right = self.algorithm == Algorithm::Toeplitz && key.len() >= 4;
        if right {
            self.key = key.to_vec();
        }
        right
    }

    pub fn hash(&mut self, bytes: &[u8]) -> u64 {
        match self.algorithm {
            Algorithm::Crc(_) | Algorithm::CustomCrc(_) => self.crc.as_ref().map_or(0, |crc| crc.of(bytes)),
            Algorithm::Checksum16 => u64::from(checksum16(bytes)),
            Algorithm::Xor16 => xor(bytes, 2),
            Algorithm::Xor32 => xor(bytes, 4),
            Algorithm::Identity => bytes.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            Algorithm::Xxh64 => xxhash_rust::xxh64::xxh64(bytes, 0),
            Algorithm::Toeplitz => u64::from(toeplitz::hash(&self.key, bytes)),
            Algorithm::RoundRobin => {
                self.turn += 1;
                self.turn - 1
            }
        }
    }
}

/// Internet checksum (RFC 1071); an odd last byte is padded with zero.
pub(crate) fn checksum16(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes(word.try_into().expect("4 bytes")));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u64::from(u32::from_be_bytes(last));
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn xor(bytes: &[u8], width: usize) -> u64 {
    bytes.chunks(width).fold(0, |sum, chunk| {
        let part = (0..width).fold(0u64, |part, n| part << 8 | u64::from(chunk.get(n).copied().unwrap_or(0)));
        sum ^ part
    })
}
