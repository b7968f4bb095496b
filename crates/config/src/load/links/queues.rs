//! Queues and token buckets.

use crate::error::Problem;
use crate::load::events_values::probability;
use crate::yaml::section::mapping;
use crate::yaml::{Node, Section, Value, section};
use belljar_base::Map;
use belljar_net::nic::{CodelConfig, FqCodelConfig, Limit, PriorityConfig, RedConfig};
use belljar_net::{QueueConfig, TokenBucket};
use belljar_wire::ethernet;

const KINDS: &[&str] = &["packets", "bytes", "codel", "fq_codel", "red", "priority"];
const FORMS: &str =
    "write one of packets, bytes, codel, fq_codel, red and priority, such as { packets: 100 }";
const MOST: u64 = 1_000_000_000;
/// Upper bound on the length of a frame.
const LONGEST_FRAME: usize = (64 << 10) + ethernet::HEADER_LEN;

/// Loads a queue of one of the kinds.
pub(in crate::load) fn queue(node: &Node) -> Result<QueueConfig, Problem> {
    let keys: Vec<&str> = KINDS.iter().copied().chain(["ecn_threshold"]).collect();
    let s = Section::new(node, "'queue'", &keys, false)?;
    let mut kinds = KINDS.iter().filter_map(|kind| s.get(kind).map(|node| (*kind, node)));
    let (Some((kind, inner)), None) = (kinds.next(), kinds.next()) else {
        return Err(node.problem("a queue is of one kind").help(FORMS));
    };
    if let (Some(entry), true) = (s.entry("ecn_threshold"), !matches!(kind, "packets" | "bytes")) {
        return Err(Problem::at(entry.key_span, "'ecn_threshold' is only valid with packets or bytes")
            .help(format!("{kind} marks packets with ecn: true")));
    }
    Ok(match kind {
        "packets" => {
            let limit = Limit::Packets(packets(inner, kind)?);
            let threshold = |node, key: &str| threshold(node, key, packets_limit, limit);
            QueueConfig::Fifo { limit, ecn_threshold: s.read("ecn_threshold", threshold)? }
        }
        "bytes" => {
            let limit = Limit::Bytes(bytes(inner, kind)?);
            let threshold = |node, key: &str| threshold(node, key, bytes_limit, limit);
            QueueConfig::Fifo { limit, ecn_threshold: s.read("ecn_threshold", threshold)? }
        }
        "codel" => {
            let s = Section::new(inner, "'codel'", &with_codel(&["packets"]), false)?;
            let codel = codel(&s, CodelConfig::default())?;
            QueueConfig::Codel { packets: s.read("packets", packets)?.unwrap_or(1_000), codel }
        }
        "fq_codel" => QueueConfig::FqCodel(fq_codel(inner)?),
        "red" => QueueConfig::Red(red(inner)?),
        _ => QueueConfig::Priority(priority(inner)?),
    })
}

fn packets(node: &Node, key: &str) -> Result<usize, Problem> {
    section::whole(node, key, MOST).map(|n| n as usize)
}
fn bytes(node: &Node, key: &str) -> Result<usize, Problem> {
    section::bytes(node, key).map(|n| n.min(MOST * 1_000) as usize)
}
fn packets_limit(node: &Node, key: &str) -> Result<Limit, Problem> {
    packets(node, key).map(Limit::Packets)
}
fn bytes_limit(node: &Node, key: &str) -> Result<Limit, Problem> {
    bytes(node, key).map(Limit::Bytes)
}

/// A threshold in the unit of the queue, or `{ packets: 65 }`, or `{ bytes: 97 KB }`.
fn threshold(
    node: &Node,
    key: &str,
    usual: fn(&Node, &str) -> Result<Limit, Problem>,
    limit: Limit,
) -> Result<Limit, Problem> {
    let threshold = match node.value {
        Value::Mapping(_) => threshold_in_unit(node)?,
        _ => usual(node, key)?,
    };
    // A packet that the threshold would mark is dropped first.
    let is_idle = match (threshold, limit) {
        (Limit::Packets(threshold), Limit::Packets(limit)) => threshold >= limit,
        (Limit::Bytes(threshold), Limit::Bytes(limit)) => threshold >= limit,
        (Limit::Packets(threshold), Limit::Bytes(limit)) => threshold > limit / ethernet::HEADER_LEN,
        (Limit::Bytes(threshold), Limit::Packets(limit)) => threshold / LONGEST_FRAME >= limit,
    };
    let text = |limit: Limit| match limit {
        Limit::Packets(packets) => format!("{packets} packets"),
        Limit::Bytes(bytes) => format!("{bytes} bytes"),
    };
    match is_idle {
        true => Err(node
            .problem(format!(
                "'{key}' has no effect: a queue of {} never exceeds {}",
                text(limit),
                text(threshold)
            ))
            .help("write a threshold below the length of the queue")),
        false => Ok(threshold),
    }
}

/// `{ packets: 65 }`, or `{ bytes: 97 KB }`.
fn threshold_in_unit(node: &Node) -> Result<Limit, Problem> {
    let s = Section::new(node, "'ecn_threshold'", &["packets", "bytes"], false)?;
    match (s.get("packets"), s.get("bytes")) {
        (Some(node), None) => packets_limit(node, "packets"),
        (None, Some(node)) => bytes_limit(node, "bytes"),
        _ => Err(node.problem("a threshold counts packets or bytes").help("write { packets: 65 }")),
    }
}

fn with_codel(own: &[&'static str]) -> Vec<&'static str> {
    own.iter().copied().chain(["target", "interval", "ecn", "ce_threshold"]).collect()
}

fn codel(s: &Section, usual: CodelConfig) -> Result<CodelConfig, Problem> {
    let interval = s.read("interval", section::duration)?;
    if let (Some(node), true) = (s.get("interval"), interval.is_some_and(|interval| interval.is_zero())) {
        return Err(node.problem("CoDel's interval must not be 0"));
    }
    Ok(CodelConfig {
        target: s.read("target", section::duration)?.unwrap_or(usual.target),
        interval: interval.unwrap_or(usual.interval),
        ecn: s.read("ecn", section::boolean)?.unwrap_or(usual.ecn),
        ce_threshold: s.read("ce_threshold", section::duration)?.or(usual.ce_threshold),
    })
}

fn fq_codel(node: &Node) -> Result<FqCodelConfig, Problem> {
    let s = Section::new(node, "'fq_codel'", &with_codel(&["packets", "bytes", "flows", "quantum"]), false)?;
    let usual = FqCodelConfig::default();
    Ok(FqCodelConfig {
        packets: s.read("packets", packets)?.unwrap_or(usual.packets),
        bytes: s.read("bytes", bytes)?.unwrap_or(usual.bytes),
        flows: s.read("flows", |node, key| positive(node, key, 65_536))?.unwrap_or(usual.flows.into()) as u32,
        quantum: s.read("quantum", bytes)?,
        codel: codel(&s, usual.codel)?,
    })
}

fn positive(node: &Node, key: &str, most: u64) -> Result<u64, Problem> {
    match section::whole(node, key, most)? {
        0 => Err(node.problem(format!("'{key}' must not be 0"))),
        number => Ok(number),
    }
}

fn red(node: &Node) -> Result<RedConfig, Problem> {
    let keys = ["limit", "min", "max", "probability", "weight", "average_packet", "ecn"];
    let s = Section::new(node, "'red'", &keys, false)?;
    let size = |key: &str, example: &str| bytes(s.required(key, example)?, key);
    let config = RedConfig {
        min: size("min", "min: 30 KB")?,
        max: size("max", "max: 90 KB")?,
        limit: size("limit", "limit: 400 KB")?,
        probability: s.read("probability", probability)?.unwrap_or(0.02),
        weight: s.read("weight", probability)?.unwrap_or(0.002),
        average_packet: s.read("average_packet", bytes)?.unwrap_or(1_000),
        ecn: s.read("ecn", section::boolean)?.unwrap_or(false),
    };
    if config.min > config.max || config.max > config.limit {
        return Err(node
            .problem("RED's thresholds are not in order")
            .help("min must not be more than max, nor max more than limit"));
    }
    if let (Some(node), true) = (s.get("weight"), config.weight <= 0.0) {
        return Err(node.problem("the weight of RED must be more than 0"));
    }
    Ok(config)
}

fn priority(node: &Node) -> Result<PriorityConfig, Problem> {
    let s = Section::new(node, "'priority'", &["bands", "dscp", "default"], false)?;
    let bands = s.required("bands", "bands: [{ packets: 100 }, { packets: 100 }, { packets: 100 }]")?;
    let items = section::list(bands, "bands")?;
    if !(2..=16).contains(&items.len()) {
        return Err(bands.problem(format!("there are 2 to 16 bands, not {}", items.len())));
    }
    let queues = items.iter().map(|item| match queue(item)? {
        QueueConfig::Priority(_) => Err(item.problem("a band has no bands of its own").help(FORMS)),
        queue => Ok(queue),
    });
    let queues = queues.collect::<Result<Vec<_>, _>>()?;
    let band = |node: &Node, key: &str| {
        let band = section::whole(node, key, MOST)? as usize;
        let last = queues.len() - 1;
        match band <= last {
            true => Ok(band),
            false => Err(node.problem(format!("there is no band {band}: they are 0 to {last}"))),
        }
    };
    let dscp = s.read("dscp", |node, key| {
        let mut bands = Map::new();
        for entry in mapping(node, key)? {
            let class = entry.key.parse::<u8>().ok().filter(|class| *class < 64).ok_or_else(|| {
                let message = format!("'{}' is not a differentiated services codepoint", entry.key);
                Problem::at(entry.key_span, message).help("write a number from 0 to 63, such as 46")
            })?;
            bands.insert(class, band(&entry.value, &entry.key)?);
        }
        Ok(bands)
    })?;
    if let (None, Some(entry)) = (&dscp, s.entry("default")) {
        return Err(Problem::at(entry.key_span, "'default' is not valid without 'dscp'")
            .help("without dscp packets go to bands as with Linux's prio, by their TOS byte"));
    }
    let usual = s.read("default", band)?.unwrap_or(1);
    Ok(PriorityConfig { bands: queues, dscp, usual })
}

/// `{ rate: 10 Mbit, burst: 32 KB }`, or `none`.
pub(super) fn token_bucket(node: &Node, key: &str) -> Result<Option<TokenBucket>, Problem> {
    if section::string(node, key).is_ok_and(|text| text == "none") {
        return Ok(None);
    }
    let s = Section::new(node, "'token_bucket'", &["rate", "burst"], false)?;
    Ok(Some(TokenBucket {
        rate: section::bandwidth(s.required("rate", "rate: 10 Mbit")?, "rate")?,
        burst: section::bytes(s.required("burst", "burst: 32 KB")?, "burst")?,
    }))
}

/// Refuses a burst smaller than the longest frame, which could never be sent, as with `tbf`.
pub(crate) fn check_burst(node: &Node, bucket: &TokenBucket, mtu: usize) -> Result<(), Problem> {
    let longest = mtu + ethernet::HEADER_LEN;
    if bucket.burst >= longest as u64 {
        return Ok(());
    }
    Err(node
        .problem(format!("a burst of {} bytes holds no frame of {longest} bytes", bucket.burst))
        .help(format!("write burst: {longest} B, or more, or give the link a smaller mtu")))
}
