//! Route metrics in rtnetlink: `RTA_METRICS`.

use super::message::{Message, Request, attribute};
use super::routes::RTMSG;
use belljar_linux_abi::Errno;
use belljar_net::routes::Metrics;

const RTA_METRICS: u16 = 8;
/// `RTAX_LOCK`: bit mask of the metrics that only the administrator may change.
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const RTAX_ADVMSS: u16 = 8;
/// Highest metric number (`RTAX_MAX`).
const RTAX_MAX: u16 = 17;
/// Maximum values; larger ones are clamped (`ip_metrics_convert`).
const MTU_MAX: u32 = 65_535 - 15;
const ADVMSS_MAX: u32 = 65_535 - 40;
const TYPE_MASK: u16 = 0x3fff;

/// Metrics in a request, and the numbers of those that have no effect here.
pub(crate) fn read(request: &Request<'_>) -> Result<(Metrics, Vec<u16>), Errno> {
    let mut metrics = Metrics::default();
    let Some(nested) = request.attribute(RTMSG, RTA_METRICS) else { return Ok((metrics, Vec::new())) };
    let number = |kind: u16| -> Result<Option<u32>, Errno> {
        let Some(value) = attribute(nested, kind) else { return Ok(None) };
        let value = value.try_into().map_err(|_| Errno::EINVAL)?;
        Ok(Some(u32::from_ne_bytes(value)).filter(|value| *value != 0))
    };
    let mut others = Vec::new();
    let mut rest = nested;
    while rest.len() >= 4 {
        let len = usize::from(u16::from_ne_bytes([rest[0], rest[1]]));
        let kind = u16::from_ne_bytes([rest[2], rest[3]]) & TYPE_MASK;
        if len < 4 || len > rest.len() || kind > RTAX_MAX {
            return Err(Errno::EINVAL);
        }
        if !matches!(kind, 0 | RTAX_LOCK | RTAX_MTU | RTAX_ADVMSS) {
            others.push(kind);
        }
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    metrics.mtu = number(RTAX_MTU)?.map(|mtu| mtu.min(MTU_MAX));
    metrics.advmss = number(RTAX_ADVMSS)?.map(|mss| mss.min(ADVMSS_MAX));
    metrics.mtu_locked = number(RTAX_LOCK)?.is_some_and(|locks| locks & 1 << RTAX_MTU != 0);
    Ok((metrics, others))
}

/// Appends the metrics to a message, if there are any.
pub(crate) fn put(message: Message, metrics: &Metrics) -> Message {
    let lock = metrics.mtu_locked.then_some(1 << RTAX_MTU);
    let mut nested = Vec::new();
    for (kind, value) in [(RTAX_LOCK, lock), (RTAX_MTU, metrics.mtu), (RTAX_ADVMSS, metrics.advmss)] {
        let Some(value) = value else { continue };
        nested.extend(8u16.to_ne_bytes());
        nested.extend(kind.to_ne_bytes());
        nested.extend(value.to_ne_bytes());
    }
    if nested.is_empty() { message } else { message.attribute(RTA_METRICS, &nested) }
}
