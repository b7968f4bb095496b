//! Properties of one direction of a link as YAML.

use super::Writer;
use belljar_net::link::{LinkOverrides, LinkProperties};
use belljar_net::nic::{CodelConfig, Limit};
use belljar_net::units::{format_bandwidth, format_duration};
use belljar_net::{Loss, QueueConfig};

/// Writes all properties of a direction.
pub(super) fn line(out: &mut Writer, level: usize, line: &LinkProperties) {
    out.plain(level, "latency", format_duration(line.latency));
    out.plain(level, "jitter", format_duration(line.jitter));
    let all = LinkOverrides {
        rate: Some(line.rate),
        loss: Some(line.loss),
        reordering: Some(line.reordering),
        duplication: Some(line.duplication),
        corruption: Some(line.corruption),
        queue: Some(line.queue.clone()),
        token_bucket: Some(line.token_bucket),
    };
    change(out, level, &all);
    out.plain(level, "overhead", format_args!("{} B", line.overhead));
}

/// Writes the changed properties of a direction.
pub(crate) fn change(out: &mut Writer, level: usize, change: &LinkOverrides) {
    let none = || "none".to_owned();
    if let Some(rate) = change.rate {
        out.plain(level, "rate", rate.map_or("unlimited".to_owned(), format_bandwidth));
    }
    if let Some(loss) = change.loss {
        let text = match loss {
            Loss::Independent(probability) => probability.to_string(),
            Loss::GilbertElliott(model) => format!(
                "{{ gilbert_elliott: {{ to_bad: {}, to_good: {}, loss_bad: {}, loss_good: {} }} }}",
                model.to_bad, model.to_good, model.loss_bad, model.loss_good
            ),
        };
        out.plain(level, "packet_loss", text);
    }
    if let Some(reordering) = change.reordering {
        let text = reordering.map_or_else(none, |reordering| {
            let delay = format_duration(reordering.delay);
            format!("{{ probability: {}, delay: {delay} }}", reordering.probability)
        });
        out.plain(level, "reordering", text);
    }
    if let Some(probability) = change.duplication {
        out.plain(level, "duplication", probability);
    }
    if let Some(probability) = change.corruption {
        out.plain(level, "corruption", probability);
    }
    if let Some(config) = &change.queue {
        out.plain(level, "queue", queue(config));
    }
    if let Some(bucket) = change.token_bucket {
        let text = bucket.map_or_else(none, |bucket| {
            format!("{{ rate: {}, burst: {} B }}", format_bandwidth(bucket.rate), bucket.burst)
        });
        out.plain(level, "token_bucket", text);
    }
}

/// A queue on one line.
pub(super) fn queue(config: &QueueConfig) -> String {
    match config {
        QueueConfig::Fifo { limit, ecn_threshold } => {
            let threshold = ecn_threshold
                .map(|threshold| format!(", ecn_threshold: {{ {} }}", amount(threshold)))
                .unwrap_or_default();
            format!("{{ {}{threshold} }}", amount(*limit))
        }
        QueueConfig::Codel { packets, codel } => {
            format!("{{ codel: {{ packets: {packets}, {} }} }}", constants(codel))
        }
        QueueConfig::FqCodel(fq) => {
            let quantum = fq.quantum.map(|quantum| format!(", quantum: {quantum} B")).unwrap_or_default();
            let (packets, bytes, flows) = (fq.packets, fq.bytes, fq.flows);
            let own = format!("packets: {packets}, bytes: {bytes} B, flows: {flows}{quantum}");
            format!("{{ fq_codel: {{ {own}, {} }} }}", constants(&fq.codel))
        }
        QueueConfig::Red(red) => {
            let sizes = format!("min: {} B, max: {} B, limit: {} B", red.min, red.max, red.limit);
            let shares = format!("probability: {}, weight: {}", red.probability, red.weight);
            let rest = format!("average_packet: {} B, ecn: {}", red.average_packet, red.ecn);
            format!("{{ red: {{ {sizes}, {shares}, {rest} }} }}")
        }
        QueueConfig::Priority(priority) => {
            let bands: Vec<String> = priority.bands.iter().map(queue).collect();
            let classes = priority.dscp.as_ref().map(|dscp| {
                let all: Vec<String> = dscp.iter().map(|(class, band)| format!("{class}: {band}")).collect();
                format!(", dscp: {{ {} }}, default: {}", all.join(", "), priority.usual)
            });
            format!("{{ priority: {{ bands: [{}]{} }} }}", bands.join(", "), classes.unwrap_or_default())
        }
    }
}

fn amount(limit: Limit) -> String {
    match limit {
        Limit::Packets(n) => format!("packets: {n}"),
        Limit::Bytes(n) => format!("bytes: {n} B"),
    }
}

fn constants(codel: &CodelConfig) -> String {
    let (target, interval) = (format_duration(codel.target), format_duration(codel.interval));
    let threshold = codel.ce_threshold.map(|at| format!(", ce_threshold: {}", format_duration(at)));
    let threshold = threshold.unwrap_or_default();
    format!("target: {target}, interval: {interval}, ecn: {}{threshold}", codel.ecn)
}
