//! Stateful expressions: counter, limit, quota, last. Each may be in a rule, in an element of a set, or an
//! object with a name. Their state changes while the ruleset is borrowed, so it is in atomic numbers; a
//! ruleset is used by one thread at a time.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::operation::{DumpScope, Operation, Outcome, Passing};
use crate::registers::Registers;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number that changes while it is borrowed.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn new(value: u64) -> Number {
        Number(AtomicU64::new(value))
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    /// Adds to the number, and returns the sum.
    pub(crate) fn add(&self, more: u64) -> u64 {
        let sum = self.get().wrapping_add(more);
        self.set(sum);
        sum
    }
}

/// Object with a name: a stateful expression that several rules use.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) handle: u64,
    /// `NFT_OBJECT_*`.
    pub(crate) kind: u32,
    pub(crate) userdata: Vec<u8>,
    pub(crate) operation: Arc<dyn Operation>,
}

/// `NFT_OBJECT_*`.
pub(crate) mod object {
    pub(crate) const COUNTER: u32 = 1;
    pub(crate) const QUOTA: u32 = 2;
    pub(crate) const CT_HELPER: u32 = 3;
    pub(crate) const LIMIT: u32 = 4;
    pub(crate) const CONNLIMIT: u32 = 5;
}

/// Counter of packets and bytes.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) packets: Number,
    pub(crate) bytes: Number,
}

impl Counter {
    pub(crate) fn read(attributes: Attributes<'_>) -> Result<Counter, NetfilterError> {
        Ok(Counter {
            bytes: Number::new(attributes.u64(1)?.unwrap_or(0)),
            packets: Number::new(attributes.u64(2)?.unwrap_or(0)),
        })
    }
    /// Counts a packet.
    pub(crate) fn count(&self, len: usize) {
        self.packets.add(1);
        self.bytes.add(len as u64);
    }
    /// Writes `NFTA_COUNTER_*`.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(1, self.bytes.get());
        out.u64(2, self.packets.get());
    }
}

impl Operation for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        self.write(out);
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        self.count(passing.headers.end);
        Outcome::Continue
    }
    fn reset(&self) {
        self.packets.set(0);
        self.bytes.set(0);
    }
    fn fresh(&self) -> Option<Arc<dyn Operation>> {
        Some(Arc::new(Counter {
            packets: Number::new(self.packets.get()),
            bytes: Number::new(self.bytes.get()),
        }))
    }
}

/// Limit: a token bucket whose tokens are nanoseconds.
#[derive(Debug)]
pub(crate) struct Limit {
    rate: u64,
    unit_secs: u64,
    burst: u32,
    /// True for a limit of bytes, false for one of packets.
    bytes: bool,
    /// True if packets beyond the limit match.
    over: bool,
    max_tokens: u64,
    tokens: Number,
    last: Number,
}

/// `NFT_LIMIT_PKT_BURST_DEFAULT`.
const DEFAULT_BURST: u32 = 5;
const NANOS: u64 = 1_000_000_000;

impl Limit {
    /// Reads `NFTA_LIMIT_*`.
    pub(crate) fn read(attributes: Attributes<'_>, now: SimTime) -> Result<Limit, NetfilterError> {
        let (rate, unit_secs) = (attributes.need(1)?.u64()?, attributes.need(2)?.u64()?);
        let bytes = match attributes.u32(4)?.unwrap_or(0) {
            0 => false,
            1 => true,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        let nanos = unit_secs.checked_mul(NANOS).filter(|nanos| *nanos > 0).ok_or(Errno::EOVERFLOW)?;
        if rate == 0 {
            return Err(Errno::EINVAL.into());
        }
        let burst = match attributes.u32(3)?.unwrap_or(0) {
            0 if !bytes => DEFAULT_BURST,
            burst => burst,
        };
        let overflow = NetfilterError::from(Errno::EOVERFLOW);
        let max_tokens = match bytes {
            false => (nanos / rate).checked_mul(u64::from(burst)).ok_or(overflow)?,
            true => {
                let sum = rate.checked_add(u64::from(burst)).ok_or(overflow)?;
                nanos.checked_mul(sum).ok_or(overflow)? / rate
            }
        };
        let over = match attributes.u32(5)?.unwrap_or(0) {
            flags @ 0..=1 => flags == 1,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        let (tokens, last) = (Number::new(max_tokens), Number::new(now.as_nanos()));
        Ok(Limit { rate, unit_secs, burst, bytes, over, max_tokens, tokens, last })
    }
    /// Takes the tokens of a packet, and returns true if there are enough.
    fn take(&self, len: usize, now: SimTime) -> bool {
        let nanos = self.unit_secs * NANOS;
        let cost = match self.bytes {
            false => nanos / self.rate,
            true => (u128::from(nanos) * len as u128 / u128::from(self.rate)) as u64,
        };
        let now = now.as_nanos();
        let gained = now.saturating_sub(self.last.get());
        let tokens = self.tokens.get().saturating_add(gained).min(self.max_tokens);
        self.last.set(now);
        self.tokens.set(tokens.checked_sub(cost).unwrap_or(tokens));
        tokens >= cost
    }
}

impl Operation for Limit {
    fn name(&self) -> &'static str {
        "limit"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        out.u64(1, self.rate);
        out.u64(2, self.unit_secs);
        out.u32(3, self.burst);
        out.u32(4, u32::from(self.bytes));
        out.u32(5, u32::from(self.over));
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        Outcome::given(self.take(passing.headers.end, passing.environment.now()) != self.over)
    }
    fn fresh(&self) -> Option<Arc<dyn Operation>> {
        let Limit { rate, unit_secs, burst, bytes, over, max_tokens, .. } = *self;
        let (tokens, last) = (Number::new(max_tokens), Number::new(self.last.get()));
        Some(Arc::new(Limit { rate, unit_secs, burst, bytes, over, max_tokens, tokens, last }))
    }
}

/// Quota of bytes.
#[derive(Debug)]
pub(crate) struct Quota {
    bytes: u64,
    /// True if packets beyond the quota match.
    over: bool,
    consumed: Number,
}

impl Quota {
    /// Reads `NFTA_QUOTA_*`.
    pub(crate) fn read(attributes: Attributes<'_>) -> Result<Quota, NetfilterError> {
        let bytes = attributes.need(1)?.u64()?;
        if bytes > i64::MAX as u64 {
            return Err(Errno::EOVERFLOW.into());
        }
        let consumed = attributes.u64(4)?.unwrap_or(0);
        if consumed > bytes {
            return Err(Errno::EINVAL.into());
        }
        let over = match attributes.u32(2)?.unwrap_or(0) {
            flags @ 0..=1 => flags == 1,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        };
        Ok(Quota { bytes, over, consumed: Number::new(consumed) })
    }
}

impl Operation for Quota {
    fn name(&self) -> &'static str {
        "quota"
    }
    fn dump(&self, _: &dyn DumpScope, out: &mut Writer) {
        let consumed = self.consumed.get();
        out.u64(1, self.bytes);
        out.u64(4, consumed.min(self.bytes));
        out.u32(2, u32::from(self.over) | if consumed >= self.bytes { 2 } else { 0 });
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        let exceeded = self.consumed.add(passing.headers.end as u64) >= self.bytes;
        Outcome::given(exceeded == self.over)
    }
    fn reset(&self) {
        self.consumed.set(0);
    }
    fn fresh(&self) -> Option<Arc<dyn Operation>> {
        Some(Arc::new(Quota {
            bytes: self.bytes,
            over: self.over,
            consumed: Number::new(self.consumed.get()),
        }))
    }
}

/// Time of the last packet.
#[derive(Debug, Default)]
pub(crate) struct Last {
    /// Nanoseconds since the start plus one; 0 for never.
    at: Number,
}

impl Last {
    /// Reads `NFTA_LAST_*`.
    pub(crate) fn read(attributes: Attributes<'_>, now: SimTime) -> Result<Last, NetfilterError> {
        let last = Last::default();
        if attributes.u32(1)?.unwrap_or(0) != 0 {
            let age = attributes.u64(2)?.unwrap_or(0).saturating_mul(1_000_000);
            last.at.set(now.as_nanos().saturating_sub(age) + 1);
        }
        Ok(last)
    }
}

impl Operation for Last {
    fn name(&self) -> &'static str {
        "last"
    }
    fn dump(&self, names: &dyn DumpScope, out: &mut Writer) {
        let at = self.at.get();
        out.u32(1, u32::from(at != 0));
        if at != 0 {
            out.u64(2, names.now().as_nanos().saturating_sub(at - 1) / 1_000_000);
        }
    }
    fn evaluate(&self, _: &mut Registers, passing: &mut Passing<'_>) -> Outcome {
        self.at.set(passing.environment.now().as_nanos() + 1);
        Outcome::Continue
    }
    fn fresh(&self) -> Option<Arc<dyn Operation>> {
        Some(Arc::new(Last::default()))
    }
}
