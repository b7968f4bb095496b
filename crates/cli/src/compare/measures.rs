//! Measures of the results of a run, whichever world it ran in.

use belljar_base::Map;
use belljar_emulation::truth::Truthfulness;
use belljar_results::names;
use belljar_results::read::{ReadError, Results, packets};
use std::fs;
use std::net::IpAddr;

/// Kind of a measure; they are shown in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// From the start of a process to its end, in seconds.
    Completion,
    /// Bits per second of a host while its processes ran.
    Throughput,
    /// The share of packets that were dropped.
    Loss,
    /// From a TCP SYN to its answer, in seconds.
    Handshake,
    /// A number with a unit that a program wrote to its standard output.
    Printed,
    /// Seconds of processor time of a host's processes.
    Cpu,
}

impl Kind {
    /// The heading of its table.
    pub fn heading(self) -> &'static str {
        match self {
            Kind::Completion => "completion times (s)",
            Kind::Throughput => "throughput of hosts (Mbit/s)",
            Kind::Loss => "packets dropped (%)",
            Kind::Handshake => "round trip of TCP handshakes, median (ms)",
            Kind::Printed => "what programs measured themselves",
            Kind::Cpu => "processor time of hosts (s)",
        }
    }
    /// A difference below this does not matter, however large its share: what a real machine takes to start a program, the
    /// rounding of what programs print.
    pub fn floor(self) -> f64 {
        match self {
            Kind::Completion => 0.05,
            Kind::Throughput => 0.01,
            Kind::Loss => 1.0,
            Kind::Handshake => 0.3,
            Kind::Printed => 0.0,
            Kind::Cpu => f64::INFINITY,
        }
    }
}

/// The measures of a run by kind and name.
pub type Measures = Map<(Kind, String), f64>;

/// Lines of a program's output that are looked at.
const MOST_LINES: usize = 40;

/// Measures a run.
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
                printed(&label, &fs::read_to_string(path).unwrap_or_default(), &mut all);
            }
        }
        // The traffic of a host that still served others in the end has no span of its own.
        let all_ended =
            host.processes.iter().all(|process| process.started.is_none() || process.ended.is_some());
        if let Some((from, to)) = span.filter(|(from, to)| all_ended && to - from > 0.01) {
            let most = host.bytes_out.max(host.bytes_in);
            for (way, bytes) in [("sent", host.bytes_out), ("received", host.bytes_in)] {
                // Acknowledgements alone are as many as the receiver's stack pleases.
                if bytes > 10_000 && bytes > most / 10 {
                    let rate = bytes as f64 * 8.0 / 1e6 / (to - from);
                    all.insert((Kind::Throughput, format!("{name} {way}")), rate);
                }
            }
        }
        let dropped: u64 = host.drops.values().sum();
        if host.packets_out > 0 {
            let share = 100.0 * dropped as f64 / host.packets_out as f64;
            all.insert((Kind::Loss, format!("{name}: of packets sent")), share);
        }
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

/// The verdict on an emulated run; `None` of a simulated one.
pub fn truthfulness(results: &Results) -> Option<Truthfulness> {
    serde_json::from_str(&results.text(names::EMULATION)?).ok()
}

/// Numbers with units in a program's output. Their names are the line with all numbers masked, and the place in it.
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
                // A line that comes again counts once, with its first values.
                all.entry((Kind::Printed, name)).or_insert(value * factor);
            }
        }
    }
}

/// The numbers of a line with the words behind them.
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

/// Part of a word or of a longer number, such as an address.
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

/// The factor that makes numbers of a unit comparable; `None` where the number is no measurement.
fn unit_factor(unit: &str) -> Option<f64> {
    match unit.trim_end_matches(',') {
        "s" | "sec" | "secs" | "seconds" | "ms" | "us" | "usec" | "msec" => Some(1.0),
        "Mbits/sec" | "Mbit/s" | "MB/s" | "MB/sec" | "MBytes/sec" => Some(1.0),
        "Gbits/sec" | "Gbit/s" => Some(1e3),
        "Kbits/sec" | "kbit/s" | "kB/s" | "KBytes/sec" => Some(1e-3),
        _ => None,
    }
}

/// The round trips of TCP handshakes that hosts began, from their captures.
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
                    // A SYN that is sent again measures nothing.
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
        // A server's own answers come at once: what it did not begin is no round trip.
        times.retain(|time| *time > 0.0);
        if let Some(median) = times.get(times.len() / 2) {
            all.insert((Kind::Handshake, host.clone()), *median);
        }
    }
    Ok(())
}

type End = (IpAddr, u16);

/// Sender, receiver and flags of a TCP segment.
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
