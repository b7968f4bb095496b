//! Measures of a run's results, whether simulated, emulated or deployed.

use belljar_base::Map;
use belljar_emulation::truth::Truthfulness;
use belljar_results::Statistics;
use belljar_results::names;
use belljar_results::read::{ReadError, Results, packets};
use std::net::IpAddr;

/// Kind of a measure. Tables appear in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Seconds from the start of a process to its end.
    Completion,
    /// Throughput of a host while its processes ran, in Mbit/s.
    Throughput,
    /// Share of packets dropped at interfaces, on links and on paths, in percent.
    Loss,
    /// Share of packets dropped in stacks, in percent.
    StackLoss,
    /// Time from a TCP SYN to its SYN-ACK, in milliseconds.
    Handshake,
    /// Number with a unit on a program's standard output.
    Printed,
    /// CPU time of a host's processes, in seconds.
    Cpu,
}

impl Kind {
    /// Heading of the kind's table.
    pub fn heading(self) -> &'static str {
        match self {
            Kind::Completion => "completion times (s)",
            Kind::Throughput => "throughput of hosts (Mbit/s)",
            Kind::Loss => "packets dropped (%)",
            Kind::StackLoss => "packets dropped in stacks (%)",
            Kind::Handshake => "round trip of TCP handshakes, median (ms)",
            Kind::Printed => "what programs measured themselves",
            Kind::Cpu => "processor time of hosts (s)",
        }
    }
    /// Threshold below which a difference is insignificant, however large its share: start-up time of
    /// programs on a real machine, rounding of printed numbers.
    pub fn floor(self) -> f64 {
        match self {
            Kind::Completion => 0.05,
            Kind::Throughput => 0.01,
            Kind::Loss | Kind::StackLoss => 1.0,
            Kind::Handshake => 0.3,
            Kind::Printed => 0.0,
            Kind::Cpu => f64::INFINITY,
        }
    }
}

/// Measures of a run, by kind and name.
pub type Measures = Map<(Kind, String), f64>;

/// Upper bound on the number of lines of an output from which numbers are taken.
const MOST_LINES: usize = 40;

/// Computes the measures of a run.
pub fn measure(results: &Results) -> Result<Measures, ReadError> {
    let mut all = Measures::new();
    for (name, host) in &results.statistics.hosts {
        let mut span: Option<(f64, f64)> = None;
        for (number, process) in host.processes.iter().enumerate() {
            let label = format!("{name}: {} ({})", process.program, number + 1);
            let (Some(started), Some(ended)) = (process.started, process.ended) else { continue };
            if process.state.starts_with("exited") {
                all.insert((Kind::Completion, label.clone()), ended - started);
                span = Some(span.map_or((started, ended), |(a, b)| (a.min(started), b.max(ended))));
            }
            if let Some(pid) = process.pid {
                let path = results.host(name).join(format!("{}.{pid}.stdout", process.program));
                printed(&label, &belljar_inputs::read_text(&path).unwrap_or_default(), &mut all);
            }
        }
        // A host with processes that still run at the end has no span, hence no throughput.
        let all_ended =
            host.processes.iter().all(|process| process.started.is_none() || process.ended.is_some());
        if let Some((from, to)) = span.filter(|(from, to)| all_ended && to - from > 0.01) {
            let most = host.bytes_out.max(host.bytes_in);
            for (way, bytes) in [("sent", host.bytes_out), ("received", host.bytes_in)] {
                // A direction with acknowledgements alone is skipped: their number depends on the receiver's
                // TCP stack.
                if bytes > 10_000 && bytes > most / 10 {
                    let rate = bytes as f64 * 8.0 / 1e6 / (to - from);
                    all.insert((Kind::Throughput, format!("{name} {way}")), rate);
                }
            }
        }
        losses_of_host(&results.statistics, name, &mut all);
    }
    for (link, directions) in &results.statistics.links {
        for (direction, counted) in directions.iter().filter(|(_, counted)| counted.frames > 0) {
            let dropped: u64 = counted.drops.values().sum();
            let share = 100.0 * dropped as f64 / counted.frames as f64;
            all.insert((Kind::Loss, format!("link {link}, {direction}")), share);
        }
    }
    handshakes(results, &mut all)?;
    if let Some(truth) = truthfulness(results) {
        all.extend(truth.cpu.hosts.into_iter().map(|(host, seconds)| ((Kind::Cpu, host), seconds)));
    }
    Ok(all)
}

/// Adds the losses of a host: at its interfaces and on the links and paths from it, and in its stack. An
/// emulation has no account of the stack, which is the kernel's.
fn losses_of_host(statistics: &Statistics, name: &str, all: &mut Measures) {
    let Some(host) = statistics.hosts.get(name) else { return };
    let stack = statistics.packets.get(name);
    let in_stack: u64 = stack.map_or(0, |stack| stack.drops.values().sum());
    let outside = host.drops.values().sum::<u64>().saturating_sub(in_stack);
    if host.packets_out > 0 {
        let share = 100.0 * outside as f64 / host.packets_out as f64;
        all.insert((Kind::Loss, format!("{name}: of packets sent")), share);
    }
    let entered = stack.map_or(0, |stack| stack.received + stack.originated.values().sum::<u64>());
    if entered > 0 {
        let share = 100.0 * in_stack as f64 / entered as f64;
        all.insert((Kind::StackLoss, format!("{name}: of its packets")), share);
    }
}

/// Returns the verdict on an emulated run, or `None` for a run without one.
pub fn truthfulness(results: &Results) -> Option<Truthfulness> {
    serde_json::from_str(&results.text(names::EMULATION)?).ok()
}

/// Adds the numbers with units of a program's output. A measure's name is the line with all numbers masked,
/// and the index of the number in the line.
fn printed(label: &str, output: &str, all: &mut Measures) {
    let lines: Vec<&str> = output.lines().collect();
    if lines.len() > MOST_LINES {
        return;
    }
    for line in lines {
        let numbers = numbers(line);
        let masked: String = masked(line);
        for (place, (value, unit)) in numbers.into_iter().enumerate() {
            if let Some(factor) = unit_factor(&unit) {
                let shown: String = masked.trim().chars().take(48).collect();
                let name = format!("{label}: \"{shown}\" no. {}", place + 1);
                // A repeated line counts once, with the values of its first occurrence.
                all.entry((Kind::Printed, name)).or_insert(value * factor);
            }
        }
    }
}

/// Parses the numbers of a line, each with the word behind it.
fn numbers(line: &str) -> Vec<(f64, String)> {
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let begins = bytes[at].is_ascii_digit() && (at == 0 || !is_part(bytes[at - 1]));
        if !begins {
            at += 1;
            continue;
        }
        let len = bytes[at..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        let text = line[at..at + len].trim_end_matches('.');
        let rest = line[at + len..].trim_start();
        let unit: String =
            rest.chars().take_while(|c| c.is_ascii_alphabetic() || "/%".contains(*c)).collect();
        if let Ok(value) = text.parse() {
            found.push((value, unit));
        }
        at += len.max(1);
    }
    found
}

/// True for a character of a word or of a longer token, such as an address.
fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_'
}

fn masked(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' | '.' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            ' ' if out.ends_with(' ') => {}
            other => out.push(other),
        }
    }
    out
}

/// Returns the factor that converts a number to the common unit, or `None` if the unit is not one of a
/// measurement.
fn unit_factor(unit: &str) -> Option<f64> {
    match unit.trim_end_matches(',') {
        "s" | "sec" | "secs" | "seconds" | "ms" | "us" | "usec" | "msec" => Some(1.0),
        "Mbits/sec" | "Mbit/s" | "MB/s" | "MB/sec" | "MBytes/sec" => Some(1.0),
        "Gbits/sec" | "Gbit/s" => Some(1e3),
        "Kbits/sec" | "kbit/s" | "kB/s" | "KBytes/sec" => Some(1e-3),
        _ => None,
    }
}

/// Adds the round trips of TCP handshakes that hosts initiated, from their captures.
fn handshakes(results: &Results, all: &mut Measures) -> Result<(), ReadError> {
    let text = results.text(names::TOPOLOGY);
    let epoch = text.and_then(|text| belljar_results::Topology::from_json(&text)).map_or(0, |t| t.epoch_secs);
    for host in results.statistics.hosts.keys() {
        let mut times = Vec::new();
        for (interface, path) in results.files(host, "pcap") {
            if interface == "lo" {
                continue;
            }
            let mut begun: Map<(IpAddr, u16, IpAddr, u16), f64> = Map::new();
            for packet in packets(&path, epoch)? {
                let ip = if packet.ethernet { packet.bytes.get(14..) } else { Some(&packet.bytes[..]) };
                let Some((from, to, flags)) = ip.and_then(tcp) else { continue };
                let at = packet.at.as_nanos() as f64 / 1e6;
                match flags & 0x12 {
                    // A retransmitted SYN overwrites the time of the first.
                    0x02 => drop(begun.insert((from.0, from.1, to.0, to.1), at)),
                    0x12 => {
                        let key = (to.0, to.1, from.0, from.1);
                        times.extend(begun.remove(&key).map(|first| at - first));
                    }
                    _ => {}
                }
            }
        }
        times.sort_by(f64::total_cmp);
        // The host's own SYN-ACKs follow at once: only a handshake that it initiated has a round trip.
        times.retain(|time| *time > 0.0);
        if let Some(median) = times.get(times.len() / 2) {
            all.insert((Kind::Handshake, host.clone()), *median);
        }
    }
    Ok(())
}

type End = (IpAddr, u16);

/// Parses the source, destination and flags of a TCP segment.
fn tcp(packet: &[u8]) -> Option<(End, End, u8)> {
    let (from, to, segment): (IpAddr, IpAddr, &[u8]) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let address = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
            (*packet.get(9)? == 6).then_some(())?;
            (address(12)?, address(16)?, packet.get(header..)?)
        }
        6 => {
            let address =
                |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
            (*packet.get(6)? == 6).then_some(())?;
            (address(8)?, address(24)?, packet.get(40..)?)
        }
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes(segment.get(at..at + 2)?.try_into().ok()?));
    Some(((from, port(0)?), (to, port(2)?), *segment.get(13)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_found() {
        let mut all = Measures::new();
        printed(
            "h: iperf (1)",
            "[  1] 0.0-10.1 sec  23.6 MBytes  19.6 Mbits/sec\nport 43210 of 10.0.0.1\n",
            &mut all,
        );
        let found: Vec<f64> = all.values().copied().collect();
        assert_eq!(found, [10.1, 19.6]);
        assert!(all.keys().all(|(kind, name)| *kind == Kind::Printed && name.contains("#-# sec")));
    }

    #[test]
    fn a_segment_is_taken_apart() {
        let mut packet = vec![0x45; 40];
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..24].copy_from_slice(&[0, 80, 1, 0]);
        packet[33] = 0x12;
        let ((from, port), (to, other), flags) = tcp(&packet).unwrap();
        assert_eq!(
            (from.to_string(), port, to.to_string(), other, flags),
            ("10.0.0.1".into(), 80, "10.0.0.2".into(), 256, 18)
        );
        assert!(tcp(&packet[..30]).is_none() && tcp(&[]).is_none());
    }
}
