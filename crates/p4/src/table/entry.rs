//! Canonical form of an entry's key: validated, masked, in the layout of the table key.

use super::tuples::{Piece, prefixes};
use crate::bits::{self, PADDING, mask};
use crate::control::{ControlError, Entry, KeyMatch, Result};
use crate::program::{Key, Lookup, MatchKind, Table};

/// Maximum number of pieces into which an entry with ranges is split.
const MAX_PIECES: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Canonical {
    /// Bits of the key, zero outside the mask, padded.
    pub value: Vec<u8>,
    /// Mask, in the layout of `value`; zero for ranges.
    mask: Vec<u8>,
    /// Prefix length in bits, including exact fields.
    pub prefix: u32,
    /// Ranges: index of the key field, first and last value.
    ranges: Vec<(u32, u128, u128)>,
}

impl Canonical {
    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.value.len() + self.mask.len() + size_of_val(&self.ranges[..])
    }
}

/// Adjusts an integer to the bytes of a field; an error if the value does not fit.
fn fit(table: &Table, key: &Key, value: &[u8]) -> Result<Vec<u8>> {
    let start = value.iter().position(|byte| *byte != 0).unwrap_or(value.len());
    let value = &value[start..];
    let bits = value.first().map_or(0, |first| value.len() as u32 * 8 - first.leading_zeros());
    if bits > key.width {
        return Err(ControlError::invalid(format!(
            "the value of '{}' in table '{}' has {bits} bits, the key {}",
            key.name, table.name, key.width
        )));
    }
    let mut out = vec![0; key.width.div_ceil(8) as usize];
    let at = out.len() - value.len();
    out[at..].copy_from_slice(value);
    Ok(out)
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

impl Canonical {
    pub fn new(table: &Table, entry: &Entry) -> Result<Canonical> {
        if entry.key.len() != table.key.len() {
            let (given, wanted) = (entry.key.len(), table.key.len());
            return Err(ControlError::invalid(format!(
                "table '{}' has {wanted} key fields, not {given}",
                table.name
            )));
        }
        if table.lookup != Lookup::Ternary && entry.priority != 0 {
            return Err(ControlError::invalid(format!(
                "entries of table '{}' have no priority: no key is ternary, range or optional",
                table.name
            )));
        }
        if entry.idle_timeout.is_some_and(|timeout| !timeout.is_zero()) && !table.timeouts {
            return Err(ControlError::invalid(format!(
                "table '{}' has no idle timeouts; give it support_timeout = true",
                table.name
            )));
        }
        let bytes = table.key_bits.div_ceil(64) as usize * 8 + PADDING;
        let mut out =
            Canonical { value: vec![0; bytes], mask: vec![0; bytes], prefix: 0, ranges: Vec::new() };
        for (n, (key, part)) in table.key.iter().zip(&entry.key).enumerate() {
            out.field(table, n as u32, key, part)?;
        }
        Ok(out)
    }

    fn field(&mut self, table: &Table, n: u32, key: &Key, part: &KeyMatch) -> Result<()> {
        let ones = || crate::lower::ones(key.width);
        let (value, field_mask) = match (key.kind, part) {
            (MatchKind::Range, part) => {
                let full = (0, mask(key.width));
                let (low, high) = match part {
                    KeyMatch::Range { low, high } => {
                        (number(&fit(table, key, low)?), number(&fit(table, key, high)?))
                    }
                    KeyMatch::Exact(value) => {
                        let value = number(&fit(table, key, value)?);
                        (value, value)
                    }
                    KeyMatch::Any => full,
                    _ => return Err(mismatch(table, key, "a range")),
                };
                if low > high {
                    return Err(ControlError::invalid(format!(
                        "the range of '{}' in table '{}' ends before it begins",
                        key.name, table.name
                    )));
                }
                self.ranges.push((n, low, high));
                return Ok(());
            }
            (MatchKind::Exact | MatchKind::Valid, KeyMatch::Exact(value)) => {
                (fit(table, key, value)?, ones())
            }
            (MatchKind::Exact | MatchKind::Valid, _) => return Err(mismatch(table, key, "one value")),
            (MatchKind::Lpm, KeyMatch::Lpm { value, prefix }) => {
                if *prefix > key.width {
                    return Err(ControlError::invalid(format!(
                        "the prefix of '{}' in table '{}' has {prefix} bits, the key {}",
                        key.name, table.name, key.width
                    )));
                }
                (fit(table, key, value)?, prefix_mask(key.width, *prefix))
            }
            (MatchKind::Lpm | MatchKind::Ternary | MatchKind::Optional, KeyMatch::Any) => {
                (fit(table, key, &[])?, fit(table, key, &[])?)
            }
            (MatchKind::Lpm, _) => return Err(mismatch(table, key, "a value and a prefix length")),
            (MatchKind::Ternary | MatchKind::Optional, KeyMatch::Exact(value)) => {
                (fit(table, key, value)?, ones())
            }
            (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
                (fit(table, key, value)?, fit(table, key, mask)?)
            }
            (MatchKind::Optional, KeyMatch::Ternary { value, mask }) => {
                let mask = fit(table, key, mask)?;
                if mask != ones() && mask.iter().any(|byte| *byte != 0) {
                    return Err(ControlError::invalid(format!(
                        "the optional key '{}' in table '{}' has a mask that is neither zero nor all ones",
                        key.name, table.name
                    )));
                }
                (fit(table, key, value)?, mask)
            }
            (MatchKind::Ternary, _) => return Err(mismatch(table, key, "a value and a mask")),
            (MatchKind::Optional, _) => return Err(mismatch(table, key, "a value or any")),
        };
        self.prefix += field_mask.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let value: Vec<u8> = value.iter().zip(&field_mask).map(|(value, mask)| value & mask).collect();
        bits::set_bytes(&mut self.value, key.offset, key.width, &value);
        bits::set_bytes(&mut self.mask, key.offset, key.width, &field_mask);
        Ok(())
    }

    /// Byte string that is unique among the different entries of a table.
    pub fn name(&self, table: &Table, priority: i32) -> Vec<u8> {
        let len = self.value.len() - PADDING;
        let mut name = self.value[..len].to_vec();
        if table.lookup != Lookup::Exact {
            name.extend(&self.mask[..len]);
        }
        for (_, low, high) in &self.ranges {
            name.extend(low.to_be_bytes());
            name.extend(high.to_be_bytes());
        }
        if table.lookup == Lookup::Ternary {
            name.extend(priority.to_be_bytes());
        }
        name
    }

    /// Match values of the key fields.
    pub fn matches(&self, table: &Table) -> Vec<KeyMatch> {
        let part = |bytes: &[u8], key: &Key| {
            let mut out = vec![0; key.width.div_ceil(8) as usize];
            bits::get_bytes(bytes, key.offset, key.width, &mut out);
            out
        };
        let one = |n: usize, key: &Key| {
            let (value, mask) = (part(&self.value, key), part(&self.mask, key));
            match key.kind {
                MatchKind::Exact | MatchKind::Valid => KeyMatch::Exact(value),
                MatchKind::Lpm => {
                    KeyMatch::Lpm { value, prefix: mask.iter().map(|byte| byte.count_ones()).sum() }
                }
                MatchKind::Optional if mask.iter().all(|byte| *byte == 0) => KeyMatch::Any,
                MatchKind::Optional => KeyMatch::Exact(value),
                MatchKind::Ternary => KeyMatch::Ternary { value, mask },
                MatchKind::Range => {
                    let range = self.ranges.iter().find(|(number, ..)| *number as usize == n);
                    let (_, low, high) = range.copied().unwrap_or((0, 0, 0));
                    let bytes = |value: u128| value.to_be_bytes()[16 - value_bytes(key.width)..].to_vec();
                    KeyMatch::Range { low: bytes(low), high: bytes(high) }
                }
            }
        };
        table.key.iter().enumerate().map(|(n, key)| one(n, key)).collect()
    }

    /// True if the ranges match a key.
    pub fn in_ranges(&self, table: &Table, key: &[u8]) -> bool {
        self.ranges.iter().all(|(n, low, high)| {
            let field = &table.key[*n as usize];
            let value = bits::get(key, field.offset, field.width);
            *low <= value && value <= *high
        })
    }

    /// Masked values that together cover the entry.
    pub fn pieces(&self, table: &Table, words: usize) -> Vec<Piece> {
        let mut splits: Vec<(u32, Vec<(u128, u32)>)> = Vec::new();
        for (n, low, high) in &self.ranges {
            splits.push((*n, prefixes(*low, *high, table.key[*n as usize].width)));
        }
        let mut loose = false;
        while splits.iter().fold(1usize, |product, (_, all)| product.saturating_mul(all.len())) > MAX_PIECES {
            let Some(widest) = splits.iter_mut().max_by_key(|(_, all)| all.len()) else { break };
            // A single prefix that covers the range.
            let (n, low, high) =
                self.ranges.iter().find(|(n, ..)| *n == widest.0).copied().unwrap_or((0, 0, 0));
            let free = (128 - (low ^ high).leading_zeros()).min(table.key[n as usize].width);
            widest.1 = vec![(low & !mask(free), free)];
            loose = true;
        }
        let mut out = vec![(self.value.clone(), self.mask.clone())];
        for (n, all) in &splits {
            let key = &table.key[*n as usize];
            out = out
                .iter()
                .flat_map(|(value, old)| {
                    all.iter().map(|(at, free)| {
                        let (mut value, mut set) = (value.clone(), old.clone());
                        bits::set(&mut value, key.offset, key.width, *at);
                        bits::set(&mut set, key.offset, key.width, mask(key.width) & !mask(*free));
                        (value, set)
                    })
                })
                .collect();
        }
        let words_of = |bytes: &[u8]| -> Vec<u64> {
            bytes
                .chunks_exact(8)
                .take(words)
                .map(|word| u64::from_be_bytes(word.try_into().expect("8 bytes")))
                .collect()
        };
        out.iter()
            .map(|(value, mask)| Piece { value: words_of(value), mask: words_of(mask), loose })
            .collect()
    }
}

fn value_bytes(width: u32) -> usize {
    width.div_ceil(8) as usize
}

fn prefix_mask(width: u32, prefix: u32) -> Vec<u8> {
    let bytes = width.div_ceil(8);
    let padding = bytes * 8 - width;
    let bit = |n: u32| n >= padding && n - padding < prefix;
    (0..bytes).map(|byte| (0..8).fold(0, |sum, n| sum << 1 | u8::from(bit(byte * 8 + n)))).collect()
}

fn mismatch(table: &Table, key: &Key, wanted: &str) -> ControlError {
    let kind = key.kind.name();
    ControlError::invalid(format!("the {kind} key '{}' of table '{}' takes {wanted}", key.name, table.name))
}
