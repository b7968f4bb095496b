//! Which packets of a capture are wanted, in the words of tcpdump's filters: `tcp port 80 and not host web`.
//!
//! ```text
//! expression   all of ["or" all of]...
//! all of       part ["and" part]...
//! part         "not" part | "(" expression ")" | protocol [place] | place
//! protocol     "ip" | "tcp" | "udp" | "icmp"
//! place        ["src" | "dst"] ("host" HOST | "net" ADDRESS/BITS | "port" N | "portrange" N-M)
//! ```

use belljar_wire::ipv4;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// A filter that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every packet.
    All,
    /// All of these hold.
    And(Vec<Filter>),
    /// One of these holds.
    Or(Vec<Filter>),
    /// It does not hold.
    Not(Box<Filter>),
    /// IPv4, of this protocol if one is given.
    Ip(Option<u8>),
    /// The address at an end is in a network of so many bits.
    Net(End, Ipv4Addr, u32),
    /// The port of TCP or UDP at an end is one of these.
    Port(End, RangeInclusive<u16>),
}

/// Which end of a packet's way is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
    /// One of both.
    Either,
}

impl Filter {
    /// Reads a filter; an empty one lets all pass. `address` knows the names of hosts. The error says what
    /// is wrong.
    pub fn parse(text: &str, address: &dyn Fn(&str) -> Option<Ipv4Addr>) -> Result<Filter, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        if words.is_empty() {
            return Ok(Filter::All);
        }
        let mut parser = Parser { words: &words, address };
        let filter = parser.expression()?;
        match parser.words.first() {
            None => Ok(filter),
            Some(word) => Err(format!("'{word}' is not expected there: join conditions by 'and' or 'or'")),
        }
    }

    /// Whether an IP packet is wanted; of its bytes some may be cut off.
    pub fn matches(&self, packet: &[u8]) -> bool {
        match self {
            Filter::All => true,
            Filter::And(all) => all.iter().all(|filter| filter.matches(packet)),
            Filter::Or(any) => any.iter().any(|filter| filter.matches(packet)),
            Filter::Not(inner) => !inner.matches(packet),
            Filter::Ip(protocol) => {
                header(packet).is_some_and(|ip| protocol.is_none_or(|p| p == ip.protocol))
            }
            Filter::Net(end, network, bits) => {
                let within = |address: Ipv4Addr| {
                    let differs = u32::from(address) ^ u32::from(*network);
                    differs.checked_shr(32 - bits).unwrap_or(0) == 0
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
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ports: Option<(u16, u16)>,
}

/// What filters look at; `None` if it is no IPv4. A capture may have kept the beginning only.
fn header(packet: &[u8]) -> Option<Header> {
    const FRAGMENT_OFFSET: u16 = 0x1fff;
    let fixed = packet.get(..ipv4::HEADER_LEN).filter(|bytes| bytes[0] >> 4 == 4)?;
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    let protocol = fixed[9];
    let first = u16::from_be_bytes([fixed[6], fixed[7]]) & FRAGMENT_OFFSET == 0;
    let start = usize::from(fixed[0] & 15) * 4;
    let ports = packet.get(start..start + 4).filter(|_| first && matches!(protocol, 6 | 17));
    let ports = ports.map(|p| (u16::from_be_bytes([p[0], p[1]]), u16::from_be_bytes([p[2], p[3]])));
    Some(Header { protocol, source: address(12), destination: address(16), ports })
}

struct Parser<'a> {
    words: &'a [&'a str],
    address: &'a dyn Fn(&str) -> Option<Ipv4Addr>,
}

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
        for (name, protocol) in [("ip", None), ("tcp", Some(6)), ("udp", Some(17)), ("icmp", Some(1))] {
            if self.take(name) {
                let place = ["src", "dst", "host", "net", "port", "portrange"];
                let more = self.words.first().is_some_and(|next| place.contains(next));
                let protocol = Filter::Ip(protocol);
                return Ok(if more { Filter::And(vec![protocol, self.place()?]) } else { protocol });
            }
        }
        self.place()
    }
    fn place(&mut self) -> Result<Filter, String> {
        let end = match () {
            () if self.take("src") => End::Source,
            () if self.take("dst") => End::Destination,
            () => End::Either,
        };
        let kind = self.word("the filter")?;
        let value = match kind.as_str() {
            "host" | "net" | "port" | "portrange" => self.word(&kind)?,
            other => {
                return Err(format!(
                    "'{other}' is not known: use ip, tcp, udp, icmp, host, net, port, portrange, src, dst, and, or, not"
                ));
            }
        };
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("'{text}' is not a port"));
        match kind.as_str() {
            "host" => {
                let known = value.parse().ok().or_else(|| (self.address)(&value));
                let address =
                    known.ok_or_else(|| format!("'{value}' is neither a host nor an IPv4 address"))?;
                Ok(Filter::Net(end, address, 32))
            }
            "net" => {
                let parsed = value.split_once('/').and_then(|(network, bits)| {
                    Some((network.parse().ok()?, bits.parse().ok().filter(|bits| *bits <= 32)?))
                });
                let (network, bits) =
                    parsed.ok_or_else(|| format!("'{value}' is not a network such as 10.0.0.0/8"))?;
                Ok(Filter::Net(end, network, bits))
            }
            "port" => port(&value).map(|port| Filter::Port(end, port..=port)),
            _ => {
                let (from, to) = value
                    .split_once('-')
                    .ok_or_else(|| format!("'{value}' is not a range such as 8000-8999"))?;
                Ok(Filter::Port(end, port(from)?..=port(to)?))
            }
        }
    }
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
        let address = |name: &str| (name == "web").then_some(Ipv4Addr::new(11, 0, 0, 7));
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
        ] {
            assert_eq!([&web, &dns, &ping].map(|p| matches(filter, p)), expected, "{filter}");
        }
        assert!(matches("tcp port 80", &web[..24]), "cut off behind the ports");
        assert!(!matches("tcp port 80", &web[..20]) && matches("host web", &web[..20]));
        assert!(!matches("ip", &[0x60; 40]));
    }

    #[test]
    fn mistakes_are_named() {
        for (filter, message) in [
            ("tcp udp", "'udp' is not expected there"),
            ("port http", "'http' is not a port"),
            ("host", "something is missing after 'host'"),
            ("host nobody", "neither a host nor an IPv4 address"),
            ("net 10.0.0.0", "not a network"),
            ("net 10.0.0.0/33", "not a network"),
            ("portrange 80", "not a range"),
            ("(tcp", "a parenthesis is not closed"),
            ("less 100", "'less' is not known"),
        ] {
            let error = Filter::parse(filter, &|_| None).unwrap_err();
            assert!(error.contains(message), "{filter}: {error}");
        }
    }
}
