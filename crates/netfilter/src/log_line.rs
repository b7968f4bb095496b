//! Lines of logged packets, as `nf_log_syslog` of Linux prints them. The link-layer header is not known here,
//! so `MAC=` is empty.

use crate::operation::Passing;
use crate::packet::{Headers, destination, source};
use belljar_wire::protocol;
use std::fmt::Write;
use std::net::IpAddr;

/// Optional parts of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStyle {
    tcp_sequence: bool,
    tcp_options: bool,
    ip_options: bool,
}

impl LogStyle {
    /// By `NF_LOG_*`.
    pub(crate) fn of_flags(flags: u32) -> LogStyle {
        LogStyle { tcp_sequence: flags & 1 != 0, tcp_options: flags & 2 != 0, ip_options: flags & 4 != 0 }
    }
}

/// The line of a packet.
pub(crate) fn log_line(passing: &Passing<'_>, prefix: &str, style: LogStyle) -> String {
    let name = |number: Option<usize>| {
        number.map(|number| passing.environment.interface(number).name).unwrap_or_default()
    };
    let mut line = format!("{prefix}IN={} OUT={} ", name(passing.input), name(passing.output));
    if passing.input.is_some() {
        line.push_str("MAC= ");
    }
    let bytes = &passing.bytes()[..passing.headers.end];
    if passing.headers.protocol.is_none() {
        line.push_str("TRUNCATED");
        return line;
    }
    describe(bytes, &passing.headers, style, true, &mut line);
    if passing.packet.mark() != 0 {
        let _ = write!(line, "MARK=0x{:x} ", passing.packet.mark());
    }
    line.truncate(line.trim_end().len());
    line.push(' ');
    line
}

fn describe(bytes: &[u8], headers: &Headers, style: LogStyle, outer: bool, line: &mut String) {
    match headers.v6 {
        false => describe_v4(bytes, headers, style, line),
        true => describe_v6(bytes, line),
    }
    if headers.fragment_offset != 0 {
        return;
    }
    let at = headers.transport;
    let byte = |offset: usize| bytes.get(at + offset).copied();
    let half = |offset: usize| Some(u16::from_be_bytes([byte(offset)?, byte(offset + 1)?]));
    let word = |offset: usize| Some(u32::from(half(offset)?) << 16 | u32::from(half(offset + 2)?));
    let left = bytes.len().saturating_sub(at);
    let incomplete = |line: &mut String, name: &str| {
        let _ = write!(line, "PROTO={name} INCOMPLETE [{left} bytes] ");
    };
    match headers.protocol {
        Some(protocol::TCP) => {
            let (Some(from), Some(to), Some(window), Some(urgent), Some(flags)) =
                (half(0), half(2), half(14), half(18), byte(13))
            else {
                return incomplete(line, "TCP");
            };
            let _ = write!(line, "PROTO=TCP SPT={from} DPT={to} ");
            if style.tcp_sequence {
                let _ = write!(line, "SEQ={} ACK={} ", word(4).unwrap_or(0), word(8).unwrap_or(0));
            }
            let reserved = byte(12).unwrap_or(0) << 2 & 0x3c;
            let _ = write!(line, "WINDOW={window} RES=0x{reserved:02x} ");
            for (bit, name) in [(7, "CWR"), (6, "ECE"), (5, "URG"), (4, "ACK"), (3, "PSH"), (2, "RST")]
                .into_iter()
                .chain([(1, "SYN"), (0, "FIN")])
            {
                if flags >> bit & 1 != 0 {
                    let _ = write!(line, "{name} ");
                }
            }
            let _ = write!(line, "URGP={urgent} ");
            let end = at + usize::from(byte(12).unwrap_or(0) >> 4) * 4;
            if style.tcp_options
                && let Some(options) = bytes.get(at + 20..end).filter(|options| !options.is_empty())
            {
                write_options(options, line);
            }
        }
        Some(number @ (protocol::UDP | protocol::UDP_LITE)) => {
            let name = if number == protocol::UDP { "UDP" } else { "UDPLITE" };
            let (Some(from), Some(to), Some(len)) = (half(0), half(2), half(4)) else {
                return incomplete(line, name);
            };
            let _ = write!(line, "PROTO={name} SPT={from} DPT={to} LEN={len} ");
        }
        Some(number @ (protocol::ICMP | protocol::ICMPV6)) => {
            let name = if number == protocol::ICMP { "ICMP" } else { "ICMPv6" };
            let (Some(kind), Some(code)) = (byte(0), byte(1)) else { return incomplete(line, name) };
            let _ = write!(line, "PROTO={name} TYPE={kind} CODE={code} ");
            let (echo, error) = match number {
                protocol::ICMP => ([0, 8].contains(&kind), [3, 4, 11].contains(&kind)),
                _ => ([128, 129].contains(&kind), (1..=4).contains(&kind)),
            };
            if echo {
                let _ = write!(line, "ID={} SEQ={} ", half(4).unwrap_or(0), half(6).unwrap_or(0));
            } else if error && outer {
                let inner = bytes.get(at + 8..).unwrap_or_default();
                let found = Headers::of(inner);
                let size = if headers.v6 { 40 } else { 20 };
                if inner.len() >= size && inner[0] >> 4 == bytes[0] >> 4 {
                    line.push('[');
                    let transport = if headers.v6 { 40 } else { usize::from(inner[0] & 0xf) * 4 };
                    let protocol = found.protocol.or(Some(inner[if headers.v6 { 6 } else { 9 }]));
                    let found = Headers { v6: headers.v6, protocol, transport, end: inner.len(), ..found };
                    describe(inner, &found, style, false, line);
                    line.push_str("] ");
                }
                if number == protocol::ICMP && kind == 3 && code == 4 {
                    let _ = write!(line, "MTU={} ", half(6).unwrap_or(0));
                }
                if number == protocol::ICMPV6 && kind == 2 {
                    let _ = write!(line, "MTU={} ", word(4).unwrap_or(0));
                }
            }
        }
        Some(number) => {
            let _ = write!(line, "PROTO={number} ");
        }
        None => {}
    }
}

fn describe_v4(bytes: &[u8], headers: &Headers, style: LogStyle, line: &mut String) {
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (tos, flags) = (bytes[1], half(6));
    let _ = write!(line, "SRC={} DST={} LEN={} ", source(bytes), destination(bytes), half(2));
    let _ =
        write!(line, "TOS=0x{:02X} PREC=0x{:02X} TTL={} ID={} ", tos & 0x1e, tos & 0xe0, bytes[8], half(4));
    for (bit, name) in [(15, "CE"), (14, "DF"), (13, "MF")] {
        if flags >> bit & 1 != 0 {
            let _ = write!(line, "{name} ");
        }
    }
    if headers.fragment_offset != 0 {
        let _ = write!(line, "FRAG:{} ", headers.fragment_offset);
    }
    if style.ip_options
        && let Some(options) = bytes.get(20..headers.transport).filter(|options| !options.is_empty())
    {
        write_options(options, line);
    }
}

fn describe_v6(bytes: &[u8], line: &mut String) {
    let full = |ip: IpAddr| match ip {
        IpAddr::V6(v6) => v6.segments().map(|part| format!("{part:04x}")).join(":"),
        IpAddr::V4(v4) => v4.to_string(),
    };
    let word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let len = u16::from_be_bytes([bytes[4], bytes[5]]);
    let _ = write!(line, "SRC={} DST={} ", full(source(bytes)), full(destination(bytes)));
    let (class, label) = (word >> 20 & 0xff, word & 0xf_ffff);
    let _ = write!(line, "LEN={} TC={class} HOPLIMIT={} FLOWLBL={label} ", u32::from(len) + 40, bytes[7]);
}

fn write_options(options: &[u8], line: &mut String) {
    line.push_str("OPT (");
    for byte in options {
        let _ = write!(line, "{byte:02X}");
    }
    line.push_str(") ");
}
