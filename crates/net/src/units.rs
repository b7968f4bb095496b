//! Values with units in Shadow's syntax: a number, optional space, and a unit. Units are case-sensitive ("1
//! Mbit" is a million bits per second, "1 mbit" is an error).
//!
//! A number without a unit is in the base unit: seconds, bits per second, bytes. Numbers are decimal and
//! may have a fraction, as long as the value is a whole number in Belljar's internal unit.

use crate::suggest::nearest;
use belljar_base::SimDuration;

/// Error of a text that is not a value of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnitError {
    /// Description of the problem.
    pub message: String,
    /// Suggested correction.
    pub help: Option<String>,
}

const TIME: &[(&str, u128)] = &[
    ("ns", 1_000),
    ("nanosecond", 1_000),
    ("nanoseconds", 1_000),
    ("us", 1_000_000),
    ("μs", 1_000_000),
    ("microsecond", 1_000_000),
    ("microseconds", 1_000_000),
    ("ms", 1_000_000_000),
    ("millisecond", 1_000_000_000),
    ("milliseconds", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("sec", 1_000_000_000_000),
    ("secs", 1_000_000_000_000),
    ("second", 1_000_000_000_000),
    ("seconds", 1_000_000_000_000),
    ("m", 60_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("mins", 60_000_000_000_000),
    ("minute", 60_000_000_000_000),
    ("minutes", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
    ("hr", 3_600_000_000_000_000),
    ("hrs", 3_600_000_000_000_000),
    ("hour", 3_600_000_000_000_000),
    ("hours", 3_600_000_000_000_000),
];

const PREFIXES: &[(&str, u128)] = &[
    ("", 1),
    ("K", 1_000),
    ("kilo", 1_000),
    ("Ki", 1 << 10),
    ("kibi", 1 << 10),
    ("M", 1_000_000),
    ("mega", 1_000_000),
    ("Mi", 1 << 20),
    ("mebi", 1 << 20),
    ("G", 1_000_000_000),
    ("giga", 1_000_000_000),
    ("Gi", 1 << 30),
    ("gibi", 1 << 30),
    ("T", 1_000_000_000_000),
    ("tera", 1_000_000_000_000),
    ("Ti", 1 << 40),
    ("tebi", 1 << 40),
];

/// Parses a duration: `10 ms`, `3 min`, `1 hour`; without a unit, seconds. At most 213 days.
pub fn parse_duration(text: &str) -> Result<SimDuration, UnitError> {
    let kind = Kind { name: "time", example: "10 ms", picture: "ns, us, ms, s, min or h" };
    let names = || TIME.iter().map(|(name, _)| (*name).to_owned());
    parse(text, &kind, 1_000_000_000_000, |u| lookup(TIME, u), names).map(SimDuration::from_picos)
}

/// Parses a bandwidth in bits per second: `1 Gbit`, `100 Mbit`, `10 Kibit`; without a unit, bits per
/// second.
pub fn parse_bandwidth(text: &str) -> Result<u64, UnitError> {
    let kind = Kind { name: "bandwidth", example: "100 Mbit", picture: "bit, Kbit, Mbit or Gbit" };
    parse_prefixed(text, &kind, &["bits", "bit"])
}

/// Parses a number of bytes: `16 MiB`, `131072 B`, `64 KB`; without a unit, bytes.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let kind = Kind { name: "size", example: "16 MiB", picture: "B, KB, KiB, MB, MiB, GB or GiB" };
    parse_prefixed(text, &kind, &["bytes", "byte", "B"])
}

/// Formats a duration in the largest unit that gives a whole number; [`parse_duration`] parses the result.
pub fn format_duration(value: SimDuration) -> String {
    let ps = u128::from(value.as_picos());
    for (unit, factor) in [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000)]
    {
        if ps % factor == 0 {
            return format!("{} {unit}", ps / factor);
        }
    }
    format!("{}.{:03} ns", ps / 1_000, ps % 1_000)
}

/// Formats a bandwidth in the largest decimal unit that gives a whole number; [`parse_bandwidth`] parses
/// the result.
pub fn format_bandwidth(bits_per_second: u64) -> String {
    for (unit, factor) in [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("Kbit", 1_000)] {
        if bits_per_second > 0 && bits_per_second.is_multiple_of(factor) {
            return format!("{} {unit}", bits_per_second / factor);
        }
    }
    format!("{bits_per_second} bit")
}

struct Kind {
    name: &'static str,
    example: &'static str,
    picture: &'static str,
}

fn lookup(table: &[(&str, u128)], unit: &str) -> Option<u128> {
    table.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

fn parse_prefixed(text: &str, kind: &Kind, suffixes: &[&str]) -> Result<u64, UnitError> {
    // Shadow accepts a single prefix ("10 M") as well as one with its suffix ("10 Mbit").
    let factor = |unit: &str| {
        suffixes
            .iter()
            .find_map(|s| lookup(PREFIXES, unit.strip_suffix(s)?))
            .or_else(|| lookup(PREFIXES, unit))
    };
    let names = || PREFIXES.iter().flat_map(|(p, _)| suffixes.iter().rev().map(move |s| format!("{p}{s}")));
    parse(text, kind, 1, factor, names)
}

fn parse<N: Iterator<Item = String>>(
    text: &str,
    kind: &Kind,
    base_factor: u128,
    factor: impl Fn(&str) -> Option<u128>,
    names: impl Fn() -> N,
) -> Result<u64, UnitError> {
    let fail = |message: String, help: String| Err(UnitError { message, help: Some(help) });
    let trimmed = text.trim();
    let example = format!("write a number and a unit, such as \"{}\"", kind.example);
    if trimmed.starts_with('-') {
        return fail(format!("a {} cannot be negative: \"{text}\"", kind.name), example);
    }
    let trimmed = trimmed.strip_prefix('+').unwrap_or(trimmed);
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim());
    let Some((mantissa, scale)) = decimal(number) else {
        let known = number.chars().any(|c| c.is_ascii_digit()) && mantissa_too_long(number);
        return match known {
            true => fail(format!("the {} \"{text}\" is too large", kind.name), example),
            false => fail(format!("\"{text}\" is not a {}", kind.name), example),
        };
    };
    let factor = match unit {
        "" => base_factor,
        unit => match factor(unit) {
            Some(factor) => factor,
            None => {
                let names: Vec<String> = names().collect();
                let help = match nearest_unit(unit, &names) {
                    Some(near) => format!("did you mean \"{number} {near}\"? Units are case-sensitive"),
                    None => format!("use {}", kind.picture),
                };
                return fail(format!("\"{unit}\" is not a unit of {}", kind.name), help);
            }
        },
    };
    let Some(scaled) = mantissa.checked_mul(factor) else {
        return fail(format!("the {} \"{text}\" is too large", kind.name), example);
    };
    if scaled % scale != 0 {
        return fail(
            format!("the {} \"{text}\" has more decimals than can be kept", kind.name),
            "use a smaller unit or fewer decimals".to_owned(),
        );
    }
    match u64::try_from(scaled / scale) {
        // The last value is reserved for "never".
        Ok(value) if value < u64::MAX => Ok(value),
        _ => fail(format!("the {} \"{text}\" is too large", kind.name), example),
    }
}

fn nearest_unit<'a>(unit: &str, names: &'a [String]) -> Option<&'a str> {
    let same_letters = names.iter().find(|n| n.eq_ignore_ascii_case(unit));
    // Endings such as "Mbps" and "MB/s" are the usual mistake in bandwidths.
    let as_rate = ["bps", "bit/s", "bits/s", "b/s"].iter().find_map(|end| {
        let wanted = format!("{}bit", unit.strip_suffix(end)?);
        names.iter().find(|n| n.eq_ignore_ascii_case(&wanted))
    });
    same_letters.or(as_rate).map(String::as_str).or_else(|| nearest(unit, names.iter().map(String::as_str)))
}

/// Splits a decimal number into (all digits, power of ten by which to divide).
fn decimal(number: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    Some((digits.parse().ok()?, 10u128.pow(fraction.len() as u32)))
}

fn mantissa_too_long(number: &str) -> bool {
    number.matches('.').count() <= 1
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
