//! Packet filters in the syntax of tcpdump, for captures and for reading them: `tcp port 80 and not host
//! web`.
//!
//! ```text
//! expression   conjunction ["or" conjunction]...
//! conjunction  part ["and" part]...
//! part         "not" part | "(" expression ")" | protocol [primitive] | primitive | VALUE
//! protocol     "ip" | "ip6" | "arp" | "tcp" | "udp" | "icmp" | "icmp6"
//! primitive    ["src" | "dst"] ("host" HOST | "net" ADDRESS/BITS | "port" N | "portrange" N-M)
//! ```
//!
//! `&&`, `||` and `!` are synonyms of `and`, `or` and `not`. A single value takes its qualifiers from the
//! preceding primitive: `port 80 or 443`.

use belljar_wire::{ethernet, ipv4, ipv6};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// Parsed filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every packet.
    All,
    /// Conjunction of filters.
    And(Vec<Filter>),
    /// Disjunction of filters.
    Or(Vec<Filter>),
    /// Negation of a filter.
    Not(Box<Filter>),
    /// IPv4 packets, or packets of this protocol over IPv4 or IPv6.
    Ip(Option<u8>),
    /// IPv6 packets.
    Ip6,
    /// ARP packets, which only occur in frames.
    Arp,
    /// Address at an end within a network; the number is its prefix length in bits.
    Net(End, IpAddr, u32),
    /// TCP or UDP port at an end within a range.
    Port(End, RangeInclusive<u16>),
}

/// End of a packet to which a condition applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Source.
    Source,
    /// Destination.
    Destination,
    /// Source or destination.
    Either,
}

impl Filter {
    /// Parses a filter; an empty one matches all packets. `addresses` resolves the name of a host. The
    /// error is a message for the user.
    pub fn parse(text: &str, addresses: &dyn Fn(&str) -> Vec<IpAddr>) -> Result<Filter, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('!', " ! ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        if words.is_empty() {
            return Ok(Filter::All);
        }
        let mut parser = Parser { words: &words, addresses, last: None };
        let filter = parser.expression()?;
        match parser.words.first() {
            None => Ok(filter),
            Some(word) => Err(format!("'{word}' is not expected there: join conditions by 'and' or 'or'")),
        }
    }

    /// True if the filter matches captured bytes, which may be truncated: an Ethernet frame or an IP packet.
    pub fn matches_captured(&self, bytes: &[u8], ethernet: bool) -> bool {
        if ethernet { self.matches_frame(bytes) } else { self.matches(bytes) }
    }

    /// True if the filter matches an Ethernet frame, which may be truncated.
    pub fn matches_frame(&self, frame: &[u8]) -> bool {
        let (header, payload) = frame.split_at(frame.len().min(ethernet::HEADER_LEN));
        let kind = header.get(12..14).map_or(0, |kind| u16::from_be_bytes([kind[0], kind[1]]));
        match self {
            Filter::All => true,
            Filter::And(all) => all.iter().all(|filter| filter.matches_frame(frame)),
            Filter::Or(any) => any.iter().any(|filter| filter.matches_frame(frame)),
            Filter::Not(inner) => !inner.matches_frame(frame),
            Filter::Arp => kind == ARP,
            _ => matches!(kind, IPV4 | IPV6) && self.matches(payload),
        }
    }

    /// True if the filter matches an IP packet, which may be truncated.
    pub fn matches(&self, packet: &[u8]) -> bool {
        match self {
            Filter::All => true,
            Filter::And(all) => all.iter().all(|filter| filter.matches(packet)),
            Filter::Or(any) => any.iter().any(|filter| filter.matches(packet)),
            Filter::Not(inner) => !inner.matches(packet),
            Filter::Arp => false,
            Filter::Ip6 => packet.first().is_some_and(|first| first >> 4 == 6),
            Filter::Ip(protocol) => {
                header(packet).is_some_and(|ip| protocol.map_or(ip.source.is_ipv4(), |p| p == ip.protocol))
            }
            Filter::Net(end, network, bits) => {
                let within = |address: IpAddr| match (address, network) {
                    (IpAddr::V4(address), IpAddr::V4(network)) => {
                        let differs = u32::from(address) ^ u32::from(*network);
                        differs.checked_shr(32 - bits).unwrap_or(0) == 0
                    }
                    (IpAddr::V6(address), IpAddr::V6(network)) => {
                        let differs = address.to_bits() ^ network.to_bits();
                        differs.checked_shr(128 - bits).unwrap_or(0) == 0
                    }
                    _ => false,
                };
                header(packet).is_some_and(|ip| end.holds(within(ip.source), within(ip.destination)))
            }
            Filter::Port(end, ports) => {
                let found = header(packet).and_then(|ip| ip.ports);
                found.is_some_and(|(from, to)| end.holds(ports.contains(&from), ports.contains(&to)))
            }
        }
    }
}

impl End {
    fn holds(self, source: bool, destination: bool) -> bool {
        match self {
            End::Source => source,
            End::Destination => destination,
            End::Either => source || destination,
        }
    }
}

struct Header {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    ports: Option<(u16, u16)>,
}

/// Header fields for filters; `None` if the packet is no IP packet. The packet may be truncated.
fn header(packet: &[u8]) -> Option<Header> {
    const FRAGMENT_OFFSET: u16 = 0x1fff;
    if packet.first().is_some_and(|first| first >> 4 == 6) {
        return header_v6(packet);
    }
    let fixed = packet.get(..ipv4::HEADER_LEN).filter(|bytes| bytes[0] >> 4 == 4)?;
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    let protocol = fixed[9];
    let first = u16::from_be_bytes([fixed[6], fixed[7]]) & FRAGMENT_OFFSET == 0;
    let start = usize::from(fixed[0] & 15) * 4;
    let ports = packet.get(start..start + 4).filter(|_| first && matches!(protocol, 6 | 17));
    let ports = ports.map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])));
    Some(Header { protocol, source: address(12).into(), destination: address(16).into(), ports })
}

fn header_v6(packet: &[u8]) -> Option<Header> {
    let fixed = packet.get(..ipv6::HEADER_LEN)?;
    // The extension headers of a truncated packet are parsed as far as they are present.
    let mut whole = packet.to_vec();
    whole.resize(ipv6::HEADER_LEN + usize::from(u16::from_be_bytes([fixed[4], fixed[5]])), 0);
    let upper = ipv6::upper(&whole).ok();
    let (protocol, start) = upper.as_ref().map_or((fixed[6], 40), |u| (u.protocol, u.payload.start));
    let later = upper.and_then(|upper| upper.fragment).is_some_and(|fragment| fragment.offset > 0);
    let ports = packet.get(start..start + 4).filter(|_| !later && matches!(protocol, 6 | 17));
    let ports = ports.map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])));
    let (source, destination) = (ipv6::source(fixed).into(), ipv6::destination(fixed).into());
    Some(Header { protocol, source, destination, ports })
}

struct Parser<'a> {
    words: &'a [&'a str],
    addresses: &'a dyn Fn(&str) -> Vec<IpAddr>,
    /// Protocol, end and kind of the preceding primitive.
    last: Option<(Option<u8>, End, Kind)>,
}

/// Kind of a primitive's value.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
}

const KINDS: [(&str, Kind); 4] =
    [("host", Kind::Host), ("net", Kind::Net), ("port", Kind::Port), ("portrange", Kind::PortRange)];
const PROTOCOLS: [(&str, Option<u8>); 5] =
    [("ip", None), ("tcp", Some(6)), ("udp", Some(17)), ("icmp", Some(1)), ("icmp6", Some(58))];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

impl Parser<'_> {
    fn take(&mut self, what: &str) -> bool {
        let found = self.words.first() == Some(&what);
        self.words = &self.words[usize::from(found)..];
        found
    }
    fn word(&mut self, after: &str) -> Result<String, String> {
        let (first, rest) =
            self.words.split_first().ok_or(format!("something is missing after '{after}'"))?;
        self.words = rest;
        Ok((*first).to_owned())
    }

    fn expression(&mut self) -> Result<Filter, String> {
        let mut any = vec![self.conjunction()?];
        while self.take("or") || self.take("||") {
            any.push(self.conjunction()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Filter::Or(any) })
    }
    fn conjunction(&mut self) -> Result<Filter, String> {
        let mut all = vec![self.part()?];
        while self.take("and") || self.take("&&") {
            all.push(self.part()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Filter::And(all) })
    }
    fn part(&mut self) -> Result<Filter, String> {
        if self.take("not") || self.take("!") {
            return Ok(Filter::Not(Box::new(self.part()?)));
        }
        if self.take("(") {
            let inner = self.expression()?;
            return match self.take(")") {
                true => Ok(inner),
                false => Err("a parenthesis is not closed".to_owned()),
            };
        }
        for (name, filter) in [("ip6", Filter::Ip6), ("arp", Filter::Arp)] {
            if self.take(name) {
                return Ok(filter);
            }
        }
        for (name, protocol) in PROTOCOLS {
            if self.take(name) {
                let more = self.words.first().is_some_and(|next| {
                    matches!(*next, "src" | "dst") || KINDS.iter().any(|(name, _)| name == next)
                });
                let only = Filter::Ip(protocol);
                return if more {
                    self.place(protocol).map(|place| Filter::And(vec![only, place]))
                } else {
                    Ok(only)
                };
            }
        }
        self.place(None)
    }
    fn place(&mut self, protocol: Option<u8>) -> Result<Filter, String> {
        let end = match () {
            () if self.take("src") => End::Source,
            () if self.take("dst") => End::Destination,
            () => End::Either,
        };
        let word = self.word("the filter")?;
        if let Some((name, kind)) = KINDS.iter().find(|(name, _)| *name == word) {
            self.last = Some((protocol, end, *kind));
            let value = self.word(name)?;
            return self.value(end, *kind, &value);
        }
        // A single value, unless it is a keyword of tcpdump that is not supported.
        match self.last {
            Some((protocol, end, kind)) if self.is_value(kind, &word) => {
                let place = self.value(end, kind, &word)?;
                Ok(protocol.map_or(place.clone(), |p| Filter::And(vec![Filter::Ip(Some(p)), place])))
            }
            _ => Err(format!(
                "'{word}' is not known: use ip, ip6, arp, tcp, udp, icmp, icmp6, host, net, port, portrange, src, dst, and, or, not"
            )),
        }
    }
    fn is_value(&self, kind: Kind, word: &str) -> bool {
        match kind {
            Kind::Host => word.parse::<IpAddr>().is_ok() || !(self.addresses)(word).is_empty(),
            _ => word.starts_with(|first: char| first.is_ascii_digit()),
        }
    }
    fn value(&self, end: End, kind: Kind, value: &str) -> Result<Filter, String> {
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("'{text}' is not a port"));
        match kind {
            Kind::Host => {
                let known = value.parse().map_or_else(|_| (self.addresses)(value), |address| vec![address]);
                match known[..] {
                    [] => Err(format!("'{value}' is neither a host nor an IP address")),
                    [one] => Ok(Filter::Net(end, one, bits_of(one))),
                    _ => Ok(Filter::Or(
                        known.into_iter().map(|one| Filter::Net(end, one, bits_of(one))).collect(),
                    )),
                }
            }
            Kind::Net => {
                let parsed = value.split_once('/').and_then(|(network, bits)| {
                    let network: IpAddr = network.parse().ok()?;
                    Some((network, bits.parse().ok().filter(|bits| *bits <= bits_of(network))?))
                });
                let (network, bits) =
                    parsed.ok_or_else(|| format!("'{value}' is not a network such as 10.0.0.0/8"))?;
                Ok(Filter::Net(end, network, bits))
            }
            Kind::Port => port(value).map(|port| Filter::Port(end, port..=port)),
            Kind::PortRange => {
                let (from, to) = value
                    .split_once('-')
                    .ok_or_else(|| format!("'{value}' is not a range such as 8000-8999"))?;
                Ok(Filter::Port(end, port(from)?..=port(to)?))
            }
        }
    }
}

/// Length of an address in bits.
fn bits_of(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0];
        bytes.extend(source.iter().chain(&destination));
        bytes.extend(ports.0.to_be_bytes().iter().chain(&ports.1.to_be_bytes()));
        bytes.extend([0; 4]);
        bytes
    }
    fn matches(filter: &str, packet: &[u8]) -> bool {
        let address = |name: &str| {
            if name == "web" {
                vec![[11, 0, 0, 7].into(), [10, 0, 0, 7].into(), "2001:db8::7".parse().unwrap()]
            } else {
                vec![]
            }
        };
        Filter::parse(filter, &address).unwrap_or_else(|e| panic!("{filter}: {e}")).matches(packet)
    }

    #[test]
    fn conditions_and_what_joins_them() {
        let web = packet(6, [11, 0, 0, 1], [11, 0, 0, 7], (40_000, 80));
        let dns = packet(17, [11, 0, 0, 1], [192, 0, 2, 53], (40_001, 53));
        let ping = packet(1, [11, 0, 0, 7], [11, 0, 0, 1], (0, 80));
        for (filter, expected) in [
            ("", [true; 3]),
            ("ip", [true; 3]),
            ("tcp", [true, false, false]),
            ("udp or icmp", [false, true, true]),
            ("host web", [true, false, true]),
            ("src host web", [false, false, true]),
            ("port 80", [true, false, false]),
            ("tcp dst port 80", [true, false, false]),
            ("tcp src port 80", [false; 3]),
            ("portrange 50-60", [false, true, false]),
            ("net 11.0.0.0/8", [true; 3]),
            ("dst net 11.0.0.0/8", [true, false, true]),
            ("net 0.0.0.0/0", [true; 3]),
            ("not (tcp or udp)", [false, false, true]),
            ("udp port 53 or tcp and host web", [true, true, false]),
            ("port 53 or 80", [true, true, false]),
            ("tcp port 53 or 80", [true, false, false]),
            ("src host 11.0.0.1 and not (dst host web or 192.0.2.53)", [false; 3]),
            ("host 10.0.0.7 or web", [true, false, true]),
            ("!tcp && !(udp || port 53)", [false, false, true]),
            ("arp or ip6", [false; 3]),
        ] {
            assert_eq!([&web, &dns, &ping].map(|p| matches(filter, p)), expected, "{filter}");
        }
        assert!(matches("tcp port 80", &web[..24]), "cut off behind the ports");
        assert!(!matches("tcp port 80", &web[..20]) && matches("host web", &web[..20]));
        assert!(!matches("ip", &[0x60; 40]) && matches("ip6", &[0x60; 40]));
        let in_frame = |kind: [u8; 2], filter: &str| {
            let frame = [&[0; 12][..], &kind, &web].concat();
            Filter::parse(filter, &|_| Vec::new()).unwrap().matches_frame(&frame)
        };
        assert!(in_frame([8, 0], "tcp port 80") && !in_frame([8, 0], "arp") && in_frame([8, 0], "not arp"));
        assert!(in_frame([8, 6], "arp") && !in_frame([8, 6], "tcp port 80") && in_frame([8, 6], ""));
    }

    #[test]
    fn ipv6_packets_are_told_apart() {
        let mut web = vec![0; 44];
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::7".parse().unwrap());
        let header = |next_header, payload_len| ipv6::Repr {
            src,
            dst,
            next_header,
            payload_len,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        header(6, 1_000).emit(&mut web);
        web[43] = 80;
        for (filter, expected) in [
            ("ip6", true),
            ("ip", false),
            ("tcp dst port 80", true),
            ("udp", false),
            ("src host 2001:db8::1 and dst host web", true),
            ("src host web", false),
            ("net 2001:db8::/32", true),
            ("net 2001:db9::/32 or 11.0.0.0/8", false),
            ("icmp6 or arp", false),
        ] {
            assert_eq!(matches(filter, &web), expected, "{filter}");
        }
        // A later fragment has no ports.
        let mut later = vec![0; 52];
        header(ipv6::extension::FRAGMENT, 12).emit(&mut later);
        ipv6::Fragment { next_header: 17, offset: 8, more: false, ident: 1 }.emit(&mut later[40..]);
        assert!(matches("udp", &later) && !matches("udp port 0", &later));
        assert!(Filter::parse("net 2001:db8::/129", &|_| Vec::new()).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (filter, message) in [
            ("tcp udp", "'udp' is not expected there"),
            ("port http", "'http' is not a port"),
            ("host", "something is missing after 'host'"),
            ("host nobody", "neither a host nor an IP address"),
            ("net 10.0.0.0", "not a network"),
            ("net 10.0.0.0/33", "not a network"),
            ("portrange 80", "not a range"),
            ("(tcp", "a parenthesis is not closed"),
            ("less 100", "'less' is not known"),
            ("port 80 or http", "'http' is not known"),
            ("80", "'80' is not known"),
        ] {
            let error = Filter::parse(filter, &|_| Vec::new()).unwrap_err();
            assert!(error.contains(message), "{filter}: {error}");
        }
    }
}
