//! Policies of attributes and their validation (`lib/nlattr.c` in Linux): each attribute has a type, which limits
//! its length, and possibly a range of values.
//!
//! Requests are validated in one of three ways. Old kinds of requests are validated liberally: unknown
//! attributes and bytes after the last attribute are ignored, and values may be longer than their type. With
//! strict checking, unknown attributes and trailing bytes are refused. Kinds of requests that are new are
//! validated strictly throughout: lengths are exact, and only nested attributes have the flag of those.

use super::message::{Request, TYPE_MASK};
use super::refusal::{Refusal, refusal};
use belljar_linux_abi::Errno;

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// Length of `struct nlattr` in bytes.
pub(super) const ATTRIBUTE: usize = 4;

/// Type of an attribute, `NLA_*`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    /// Any value of at least this length.
    Any(usize),
    Flag,
    U8,
    U16,
    U32,
    U64,
    S32,
    /// Bytes, with their maximum number.
    Binary(usize),
    /// Text, with its maximum length without NUL; 0 is no limit.
    Text(usize),
    /// Text that must end with a NUL, with its maximum length without NUL.
    NulText(usize),
    /// Attributes, of this policy if there is one.
    Nested(Option<&'static Policy>),
    /// Attribute of answers only, with the message of its refusal.
    Reject,
}

/// Values that an attribute may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    None,
    Range(i64, i64),
    Mask(u32),
}

/// Policy of one attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) kind: Type,
    pub(super) limit: Limit,
}

/// Policy of the attributes of a request or nest.
#[derive(Debug)]
pub(super) struct Policy {
    /// Highest known attribute type.
    pub(super) max: u16,
    /// First attribute type that is validated strictly in any case.
    pub(super) strict_from: u16,
    /// Attributes by type. Others up to `max` have no policy (`NLA_UNSPEC`).
    pub(super) attributes: &'static [(u16, Attribute)],
}

/// Degree of validation, `NL_VALIDATE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Degree {
    /// True if the policy refuses unknown types and trailing bytes.
    closed: bool,
    /// True if the policy refuses wrong lengths, wrong nesting and attributes without a policy.
    exact: bool,
}

/// `NL_VALIDATE_LIBERAL`.
pub(super) const LIBERAL: Degree = Degree { closed: false, exact: false };
/// `NL_VALIDATE_DEPRECATED_STRICT`.
pub(super) const CLOSED: Degree = Degree { closed: true, exact: false };
/// `NL_VALIDATE_STRICT`.
pub(super) const STRICT: Degree = Degree { closed: true, exact: true };

/// An attribute without limits.
pub(super) const fn plain(kind: Type) -> Attribute {
    Attribute { kind, limit: Limit::None }
}
/// An attribute with a range of values.
pub(super) const fn within(kind: Type, least: i64, most: i64) -> Attribute {
    Attribute { kind, limit: Limit::Range(least, most) }
}

impl Type {
    /// Length in bytes of a number.
    fn len(self) -> Option<usize> {
        match self {
            Type::U8 => Some(1),
            Type::U16 => Some(2),
            Type::U32 | Type::S32 => Some(4),
            Type::U64 => Some(8),
            _ => None,
        }
    }
}

impl Attribute {
    /// Description in an extended ack, `NL_POLICY_TYPE_ATTR_*`; `None` if there is nothing to describe.
    pub(super) fn description(&self) -> Option<Vec<u8>> {
        const TYPE: u16 = 1;
        const MIN_VALUE_S: u16 = 2;
        const MAX_VALUE_S: u16 = 3;
        const MIN_VALUE_U: u16 = 4;
        const MAX_VALUE_U: u16 = 5;
        const MAX_LENGTH: u16 = 7;
        const MASK: u16 = 12;
        let mut out = Vec::new();
        let mut put = |kind: u16, value: &[u8]| {
            out.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
            out.extend(kind.to_ne_bytes());
            out.extend(value);
        };
        let mut range = |least: i64, most: i64, signed: bool| {
            let kinds = if signed { [MIN_VALUE_S, MAX_VALUE_S] } else { [MIN_VALUE_U, MAX_VALUE_U] };
            put(kinds[0], &least.to_ne_bytes());
            put(kinds[1], &most.to_ne_bytes());
        };
        let number = match self.kind {
            Type::Any(_) | Type::Reject => return None,
            Type::Flag => 1u32,
            Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::S32 => {
                let (signed, most) = match self.kind {
                    Type::U8 => (false, i64::from(u8::MAX)),
                    Type::U16 => (false, i64::from(u16::MAX)),
                    Type::U32 => (false, i64::from(u32::MAX)),
                    // All bits are set: the bytes of the unsigned maximum.
                    Type::U64 => (false, -1),
                    _ => (true, i64::from(i32::MAX)),
                };
                match self.limit {
                    Limit::Mask(mask) => put(MASK, &u64::from(mask).to_ne_bytes()),
                    Limit::Range(least, most) => range(least, most, signed),
                    _ => range(if signed { i64::from(i32::MIN) } else { 0 }, most, signed),
                }
                match self.kind {
                    Type::U8 => 2,
                    Type::U16 => 3,
                    Type::U32 => 4,
                    Type::U64 => 5,
                    _ => 8,
                }
            }
            Type::Binary(_) | Type::Text(_) | Type::NulText(_) => {
                let (number, most) = match self.kind {
                    Type::Text(most) => (11, most),
                    Type::NulText(most) => (12, most),
                    Type::Binary(most) => (10, most),
                    _ => (10, 0),
                };
                if most != 0 {
                    put(MAX_LENGTH, &(most as u32).to_ne_bytes());
                }
                number
            }
            Type::Nested(_) => 13,
        };
        put(TYPE, &number.to_ne_bytes());
        Some(out)
    }

    /// Checks a value against the type (the first half of `validate_nla`); the error is the errno of a failed
    /// validation.
    fn check_type(&self, value: &[u8]) -> Result<(), Errno> {
        let text = |value: &[u8], most: usize| {
            let bare = value.strip_suffix(&[0]).unwrap_or(value).len();
            if value.is_empty() || most != 0 && bare > most { Err(Errno::ERANGE) } else { Ok(()) }
        };
        let valid = match self.kind {
            Type::Reject => return Err(Errno::EINVAL),
            Type::Flag => value.is_empty(),
            Type::Any(least) => value.len() >= least,
            Type::Binary(most) => most == 0 || value.len() <= most,
            Type::Text(most) => return text(value, most),
            Type::NulText(most) => {
                let head = if most == 0 { value } else { &value[..value.len().min(most + 1)] };
                return if head.contains(&0) { text(value, most) } else { Err(Errno::EINVAL) };
            }
            Type::Nested(_) => value.is_empty() || value.len() >= ATTRIBUTE,
            number => number.len().is_none_or(|len| value.len() >= len),
        };
        if valid { Ok(()) } else { Err(Errno::ERANGE) }
    }

    /// Checks a value against the limit.
    fn check_limit(&self, value: &[u8]) -> Result<(), Refusal> {
        let number = match self.kind {
            Type::U8 => i64::from(value[0]),
            Type::U16 => i64::from(u16::from_ne_bytes([value[0], value[1]])),
            Type::U32 => i64::from(u32::from_ne_bytes(*value.first_chunk().expect("a checked length"))),
            Type::S32 => i64::from(i32::from_ne_bytes(*value.first_chunk().expect("a checked length"))),
            _ => value.len() as i64,
        };
        match self.limit {
            Limit::Range(least, most) if !(least..=most).contains(&number) => {
                Err(refusal(Errno::ERANGE, "integer out of range"))
            }
            Limit::Mask(mask) if number & !i64::from(mask) != 0 => {
                Err(refusal(Errno::EINVAL, "reserved bit set"))
            }
            _ => Ok(()),
        }
    }
}

impl Policy {
    fn of(&self, kind: u16) -> &'static Attribute {
        const NO_POLICY: Attribute = plain(Type::Any(0));
        let found = self.attributes.iter().find(|(number, _)| *number == kind);
        found.map_or(&NO_POLICY, |(_, attribute)| attribute)
    }

    /// Validates the attributes in `bytes`, which begin at `offset` of the request; notes trailing bytes in the
    /// request.
    pub(super) fn validate(
        &self,
        request: &Request<'_>,
        bytes: &[u8],
        offset: usize,
        degree: Degree,
    ) -> Result<(), Refusal> {
        let mut at = 0;
        while let Some((head, value)) = split(&bytes[at.min(bytes.len())..]) {
            let kind = head & TYPE_MASK;
            let here = |refusal: Refusal| Refusal { at: Some((offset + at) as u32), ..refusal };
            if kind == 0 || kind > self.max {
                if degree.closed {
                    return Err(here(refusal(Errno::EINVAL, "Unknown attribute type")));
                }
            } else {
                self.validate_one(request, (head, value), offset + at, degree)
                    .map_err(|refusal| if refusal.at.is_some() { refusal } else { here(refusal) })?;
            }
            at += (ATTRIBUTE + value.len()).next_multiple_of(4);
        }
        if at < bytes.len() {
            request.note("bytes leftover after parsing attributes");
            if degree.closed {
                return Err(Errno::EINVAL.into());
            }
        }
        Ok(())
    }

    fn validate_one(
        &self,
        request: &Request<'_>,
        (head, value): (u16, &[u8]),
        offset: usize,
        degree: Degree,
    ) -> Result<(), Refusal> {
        let kind = head & TYPE_MASK;
        let degree = if self.strict_from != 0 && kind >= self.strict_from { STRICT } else { degree };
        let policy = self.of(kind);
        let failed = |refusal: Refusal| Refusal { policy: Some(policy), ..refusal };
        let invalid = |words| Err(failed(refusal(Errno::EINVAL, words)));
        if degree.exact {
            if policy.kind.len().is_some_and(|len| value.len() != len) {
                return invalid("invalid attribute length");
            }
            match (policy.kind, head & NESTED != 0) {
                (Type::Nested(_), false) => return invalid("NLA_F_NESTED is missing"),
                (Type::Nested(_) | Type::Any(_), true) | (_, false) => {}
                (_, true) => return invalid("NLA_F_NESTED not expected"),
            }
            if matches!(policy.kind, Type::Any(_)) {
                return Err(refusal(Errno::EINVAL, "Unsupported attribute"));
            }
        }
        let words = "Attribute failed policy validation";
        policy.check_type(value).map_err(|errno| failed(refusal(errno, words)))?;
        if let Type::Nested(Some(nested)) = policy.kind
            && !value.is_empty()
        {
            nested.validate(request, value, offset + ATTRIBUTE, degree)?;
        }
        policy.check_limit(value).map_err(failed)
    }
}

/// First attribute of a sequence: its type with flags, and its value. `None` at the end or if it is malformed.
pub(super) fn split(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let [a, b, c, d, ..] = *bytes else { return None };
    let value = bytes.get(ATTRIBUTE..usize::from(u16::from_ne_bytes([a, b])))?;
    Some((u16::from_ne_bytes([c, d]), value))
}

impl Request<'_> {
    /// Validates the attributes after a family header of `header` bytes (`nlmsg_parse`).
    pub(super) fn validate(&self, header: usize, policy: &Policy, degree: Degree) -> Result<(), Refusal> {
        let invalid = refusal(Errno::EINVAL, "Invalid header length");
        let head = self.body.get(..header).ok_or(invalid)?;
        let skip = header.next_multiple_of(4).min(self.body.len());
        debug_assert_eq!(head.len(), header);
        policy.validate(self, &self.body[skip..], super::message::HEADER_LEN + skip, degree)
    }
}
