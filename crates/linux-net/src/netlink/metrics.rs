//! Route metrics in rtnetlink: `RTA_METRICS`.

use super::message::{Message, Request, attributes};
use super::policies;
use super::policy::ATTRIBUTE;
use super::refusal::{Refusal, refusal};
use belljar_linux_abi::Errno;
use belljar_net::routes::Metrics;

const RTA_METRICS: u16 = 8;
/// `RTAX_LOCK`: bit mask of the metrics that only the administrator may change.
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const RTAX_ADVMSS: u16 = 8;
/// Maximum values; larger ones are clamped (`ip_metrics_convert`).
const MTU_MAX: u32 = 65_535 - 15;
const ADVMSS_MAX: u32 = 65_535 - 40;

/// Metrics in a request, and the numbers of those that have no effect here (`ip_metrics_convert`).
pub(crate) fn read(request: &Request<'_>, nested: Option<&[u8]>) -> Result<(Metrics, Vec<u16>), Refusal> {
    let mut metrics = Metrics::default();
    let mut others = Vec::new();
    for (kind, value) in attributes(nested.unwrap_or_default()) {
        if kind == 0 {
            continue;
        }
        if kind > policies::METRICS.max {
            return Err(refusal(Errno::EINVAL, "Invalid metric type"));
        }
        let at = request.offset_of(value) - ATTRIBUTE;
        let invalid = refusal(Errno::EINVAL, "Invalid attribute in metrics");
        let value: [u8; 4] = value.try_into().map_err(|_| Refusal { at: Some(at as u32), ..invalid })?;
        let value = u32::from_ne_bytes(value);
        let given = Some(value).filter(|value| *value != 0);
        match kind {
            RTAX_LOCK => (metrics.locks, metrics.mtu_locked) = (value, value & 1 << RTAX_MTU != 0),
            RTAX_MTU => metrics.mtu = given.map(|mtu| mtu.min(MTU_MAX)),
            RTAX_ADVMSS => metrics.advmss = given.map(|mss| mss.min(ADVMSS_MAX)),
            other => others.push(other),
        }
    }
    Ok((metrics, others))
}

/// True if a route has the metrics that a deletion names (`fib_metrics_match`).
pub(crate) fn are_matched(nested: Option<&[u8]>, metrics: &Metrics) -> bool {
    attributes(nested.unwrap_or_default()).filter(|(kind, _)| *kind != 0).all(|(kind, value)| {
        let own = match kind {
            RTAX_LOCK => metrics.locks,
            RTAX_MTU => metrics.mtu.unwrap_or(0),
            RTAX_ADVMSS => metrics.advmss.unwrap_or(0),
            _ => 0,
        };
        kind <= policies::METRICS.max && value == own.to_ne_bytes()
    })
}

/// Appends the metrics to a message, if there are any.
pub(crate) fn put(message: Message, metrics: &Metrics) -> Message {
    let lock = Some(metrics.locks).filter(|locks| *locks != 0);
    let mut nested = Vec::new();
    for (kind, value) in [(RTAX_LOCK, lock), (RTAX_MTU, metrics.mtu), (RTAX_ADVMSS, metrics.advmss)] {
        let Some(value) = value else { continue };
        nested.extend(8u16.to_ne_bytes());
        nested.extend(kind.to_ne_bytes());
        nested.extend(value.to_ne_bytes());
    }
    if nested.is_empty() { message } else { message.attribute(RTA_METRICS, &nested) }
}
