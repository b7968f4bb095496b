//! Conversion of key matches between canonical `FieldMatch` and [`Key`].

use crate::bytestring;
use crate::pipeline::Key;
use crate::proto::FieldMatch;
use crate::proto::field_match::{Exact, Kind, Lpm, Optional, Range, Ternary};
use crate::refusal::Refusal;
use belljar_p4info::Field;
use belljar_p4info::proto::MatchType;

/// Validates matches and converts them to canonical form: fields in order, values in their shortest form.
/// Omitted fields match any value.
pub fn canonical(fields: &[Field], given: &[FieldMatch]) -> Result<(Vec<FieldMatch>, Vec<Key>), Refusal> {
    if let Some(unknown) = given.iter().find(|given| fields.iter().all(|field| field.id != given.field_id)) {
        return Err(Refusal::invalid(format!("the key has no field {}", unknown.field_id)));
    }
    let mut matches = Vec::with_capacity(given.len());
    let mut keys = Vec::with_capacity(fields.len());
    for field in fields {
        let mut of_field = given.iter().filter(|given| given.field_id == field.id);
        let first = of_field.next();
        if of_field.next().is_some() {
            return Err(Refusal::invalid(format!("field '{}' occurs twice", field.name)));
        }
        match first {
            Some(first) => {
                let (kind, key) = one(field, first.kind.as_ref())
                    .map_err(|refusal| refusal.at(&format!("field '{}'", field.name)))?;
                matches.push(FieldMatch { field_id: field.id, kind: Some(kind) });
                keys.push(key);
            }
            None => keys.push(any(field)?),
        }
    }
    Ok((matches, keys))
}

/// Match on any value.
fn any(field: &Field) -> Result<Key, Refusal> {
    let zero = || vec![0];
    match field.kind {
        MatchType::Lpm => Ok(Key::Lpm { value: zero(), length: 0 }),
        MatchType::Ternary => Ok(Key::Ternary { value: zero(), mask: zero() }),
        MatchType::Range => Ok(Key::Range { low: zero(), high: bytestring::maximum(field.width) }),
        MatchType::Optional => Ok(Key::Optional(None)),
        _ => Err(Refusal::invalid(format!("field '{}' must be given: it is matched exactly", field.name))),
    }
}

fn one(field: &Field, given: Option<&Kind>) -> Result<(Kind, Key), Refusal> {
    let number = |value: &[u8]| bytestring::unsigned(value, field.width);
    match (field.kind, given) {
        (MatchType::Exact, Some(Kind::Exact(exact))) => {
            let value = number(&exact.value)?;
            Ok((Kind::Exact(Exact { value: value.clone() }), Key::Exact(value)))
        }
        (MatchType::Lpm, Some(Kind::Lpm(lpm))) => {
            let value = number(&lpm.value)?;
            let length =
                u32::try_from(lpm.prefix_len).ok().filter(|length| (1..=field.width).contains(length));
            let length = length.ok_or_else(|| {
                Refusal::invalid(format!(
                    "the prefix is of {} bits, not 1 to {}",
                    lpm.prefix_len, field.width
                ))
            })?;
            if trailing_zeros(&value).is_some_and(|zeros| zeros < field.width - length) {
                return Err(Refusal::invalid("bits beyond the prefix must be 0"));
            }
            Ok((
                Kind::Lpm(Lpm { value: value.clone(), prefix_len: lpm.prefix_len }),
                Key::Lpm { value, length },
            ))
        }
        (MatchType::Ternary, Some(Kind::Ternary(ternary))) => {
            let (value, mask) = (number(&ternary.value)?, number(&ternary.mask)?);
            if bytestring::bits(&mask) == 0 {
                return Err(Refusal::invalid("a mask of 0 matches anything: leave the field out"));
            }
            if value.len() > mask.len()
                || value.iter().rev().zip(mask.iter().rev()).any(|(value, mask)| value & !mask != 0)
            {
                return Err(Refusal::invalid("bits that the mask leaves out must be 0"));
            }
            Ok((
                Kind::Ternary(Ternary { value: value.clone(), mask: mask.clone() }),
                Key::Ternary { value, mask },
            ))
        }
        (MatchType::Range, Some(Kind::Range(range))) => {
            let (low, high) = (number(&range.low)?, number(&range.high)?);
            if (low.len(), &low) > (high.len(), &high) {
                return Err(Refusal::invalid("the range begins after its end"));
            }
            if bytestring::bits(&low) == 0 && high == bytestring::maximum(field.width) {
                return Err(Refusal::invalid("the range holds every value: leave the field out"));
            }
            Ok((Kind::Range(Range { low: low.clone(), high: high.clone() }), Key::Range { low, high }))
        }
        (MatchType::Optional, Some(Kind::Optional(optional))) => {
            let value = number(&optional.value)?;
            Ok((Kind::Optional(Optional { value: value.clone() }), Key::Optional(Some(value))))
        }
        (kind, _) => Err(Refusal::invalid(
            format!("the match is not of the kind that P4Info has, {kind:?}").to_lowercase(),
        )),
    }
}

/// Number of trailing zero bits; `None` for 0.
fn trailing_zeros(value: &[u8]) -> Option<u32> {
    let zeros = value.iter().rev().take_while(|byte| **byte == 0).count();
    let last = value.iter().rev().nth(zeros)?;
    Some(8 * zeros as u32 + last.trailing_zeros())
}

/// Matches of an entry that was added by the program or by another interface.
pub fn from_keys(fields: &[Field], keys: &[Key]) -> Vec<FieldMatch> {
    let number = |value: &[u8]| bytestring::shortest(value).to_vec();
    let kind = |field: &Field, key: &Key| match key {
        Key::Exact(value) => Some(Kind::Exact(Exact { value: number(value) })),
        Key::Lpm { length: 0, .. } => None,
        Key::Lpm { value, length } => {
            Some(Kind::Lpm(Lpm { value: number(value), prefix_len: *length as i32 }))
        }
        Key::Ternary { mask, .. } if bytestring::bits(mask) == 0 => None,
        Key::Ternary { value, mask } => {
            Some(Kind::Ternary(Ternary { value: number(value), mask: number(mask) }))
        }
        Key::Range { low, high }
            if bytestring::bits(low) == 0 && number(high) == bytestring::maximum(field.width) =>
        {
            None
        }
        Key::Range { low, high } => Some(Kind::Range(Range { low: number(low), high: number(high) })),
        Key::Optional(value) => value.as_ref().map(|value| Kind::Optional(Optional { value: number(value) })),
    };
    let matches = fields
        .iter()
        .zip(keys)
        .filter_map(|(field, key)| Some(FieldMatch { field_id: field.id, kind: Some(kind(field, key)?) }));
    matches.collect()
}
