//! Name server of a simulated network: names and addresses of the hosts, and configured records.
//! Authoritative for the root, and thus for all names (RFC 1035).

mod faults;
mod record;

use belljar_base::{Map, Set};
use simple_dns::rdata::{A, AAAA, CNAME, OPT, PTR, RData, SOA};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use faults::{DnsAnswer, DnsFault, DnsFaults};

/// Default address of the name server, in a network reserved for documentation by RFC 5737, so that it
/// conflicts with no host.
pub const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// Port of the name server.
pub const PORT: u16 = 53;
/// Default TTL of answers in seconds.
const TTL: u32 = 3_600;
/// TTL of negative answers in seconds.
const NEGATIVE_TTL: u32 = 60;
/// Maximum length of an answer over UDP without EDNS (RFC 1035 section 4.2.1).
const SHORT: usize = 512;
/// Maximum length of an answer over UDP with EDNS, which fits into one packet.
const LONG: u16 = 1_232;
/// Maximum length of an answer over TCP, whose length field has 16 bits.
const LONGEST: usize = 65_535;
/// Maximum number of aliases followed in sequence.
const MOST_ALIASES: usize = 8;
const REVERSE: &str = ".in-addr.arpa";
const REVERSE_V6: &str = ".ip6.arpa";

/// Zone of the name server: all names and their records.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Address of the name server.
    pub address: Ipv4Addr,
    hosts: Map<String, Ipv4Addr>,
    hosts6: Map<String, Ipv6Addr>,
    names: Map<IpAddr, String>,
    records: Map<String, Vec<ResourceRecord<'static>>>,
    /// Ancestors of names with records, which exist as well (RFC 8020).
    parents: Set<String>,
}

impl Zone {
    /// Creates a zone of hosts, for a name server at `address`.
    pub fn new<'a>(address: Ipv4Addr, hosts: impl Iterator<Item = (&'a str, Ipv4Addr)>) -> Zone {
        let hosts: Map<String, Ipv4Addr> = hosts.map(|(name, at)| (name.to_owned(), at)).collect();
        let names: Map<IpAddr, String> =
            hosts.iter().map(|(name, at)| ((*at).into(), name.clone())).collect();
        let mut parents = Set::from([String::new()]);
        hosts.keys().for_each(|name| add_parents(name, &mut parents));
        for at in hosts.values() {
            let [a, b, c, d] = at.octets();
            add_parents(&format!("{d}.{c}.{b}.{a}{REVERSE}"), &mut parents);
        }
        Zone { address, hosts, hosts6: Map::new(), names, records: Map::new(), parents }
    }

    /// Adds the IPv6 addresses of hosts.
    pub fn add_ipv6<'a>(&mut self, hosts: impl Iterator<Item = (&'a str, Ipv6Addr)>) {
        for (name, at) in hosts {
            self.hosts6.insert(name.to_owned(), at);
            self.names.insert(at.into(), name.to_owned());
            add_parents(name, &mut self.parents);
            add_parents(&nibbles(at), &mut self.parents);
        }
    }

    /// Adds a record in the format of zone files: `NAME [TTL] TYPE DATA`. Names are absolute, with or
    /// without a trailing dot. The error is a message for the user.
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        let record = record::record(line)?;
        let name = text(&record.name);
        add_parents(&name, &mut self.parents);
        self.records.entry(name).or_default().push(record);
        Ok(())
    }

    /// Answers a query received over UDP; `None` if the message is no query.
    pub fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        self.answer_within(query, None, &DnsFaults::default())
    }

    /// Answers a query received over TCP, without the length prefixes; `None` if the message is no query.
    pub fn answer_over_tcp(&self, query: &[u8]) -> Option<Vec<u8>> {
        self.answer_within(query, Some(LONGEST), &DnsFaults::default())
    }

    /// Answers a query as a name server with faults; `None` also if a fault takes the answer.
    pub fn faulty_answer(&self, query: &[u8], over_tcp: bool, faults: &DnsFaults) -> Option<Vec<u8>> {
        self.answer_within(query, over_tcp.then_some(LONGEST), faults)
    }

    /// Answers a query. The answer is truncated if it exceeds `limit`, or without one the query's UDP
    /// payload size.
    fn answer_within(&self, bytes: &[u8], limit: Option<usize>, faults: &DnsFaults) -> Option<Vec<u8>> {
        let Ok(query) = Packet::parse(bytes) else { return unreadable(bytes) };
        if query.has_flags(PacketFlag::RESPONSE) {
            return None;
        }
        let mut reply = Packet::new_reply(query.id());
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
        if query.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        reply.questions = query.questions.clone();
        *reply.opcode_mut() = query.opcode();
        let asked = query.opt();
        if asked.is_some() {
            // RFC 6891 section 7: a query with EDNS gets an answer with EDNS. Its version is not checked:
            // all clients use version 0, and the parser mistakes the DO flag for part of the version.
            *reply.opt_mut() = Some(OPT { opt_codes: Vec::new(), udp_packet_size: LONG, version: 0 });
        }
        match &query.questions[..] {
            _ if query.opcode() != OPCODE::StandardQuery => *reply.rcode_mut() = RCODE::NotImplemented,
            [question] if !matches!(question.qclass, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY) => {
                *reply.rcode_mut() = RCODE::Refused;
            }
            [question] => {
                let name = text(&question.qname);
                let (answers, known) = match faults.of(&name) {
                    Some(DnsAnswer::Timeout) => return None,
                    Some(failure @ (DnsAnswer::ServerFailure | DnsAnswer::Refused)) => {
                        let is_refused = *failure == DnsAnswer::Refused;
                        *reply.rcode_mut() = if is_refused { RCODE::Refused } else { RCODE::ServerFailure };
                        return reply.build_bytes_vec_compressed().ok();
                    }
                    Some(DnsAnswer::NoName) => (Vec::new(), false),
                    Some(DnsAnswer::Addresses(addresses)) => {
                        (of_addresses(&name, addresses, question.qtype), true)
                    }
                    None => self.find(&name, question.qtype),
                };
                // An alias that was requested itself, or leads to a requested record, is a positive answer.
                let ends = answers.iter().any(|record| record.match_qtype(question.qtype));
                reply.answers = answers;
                if !known {
                    *reply.rcode_mut() = RCODE::NameError;
                }
                if !known || !ends {
                    reply.name_servers.push(authority(NEGATIVE_TTL));
                }
            }
            _ => *reply.rcode_mut() = RCODE::FormatError,
        }
        let own = asked.map_or(SHORT, |opt| usize::from(opt.udp_packet_size.min(LONG)).max(SHORT));
        let bytes = reply.build_bytes_vec_compressed().ok()?;
        if bytes.len() <= limit.unwrap_or(own) {
            return Some(bytes);
        }
        reply.answers.clear();
        reply.set_flags(PacketFlag::TRUNCATION);
        reply.build_bytes_vec_compressed().ok()
    }

    /// Returns the records of a name, with aliases followed; the flag is true if the name exists.
    fn find(&self, name: &str, wanted: QTYPE) -> (Vec<ResourceRecord<'_>>, bool) {
        let (mut name, mut found) = (name.to_owned(), Vec::new());
        for step in 0..=MOST_ALIASES {
            let all = self.all(&name);
            if all.is_empty() {
                // The name of a dangling alias exists, as does a name with descendants only.
                return (found, step > 0 || self.parents.contains(&name));
            }
            let alias = all.iter().find_map(|record| match &record.rdata {
                RData::CNAME(CNAME(target)) => Some(text(target)),
                _ => None,
            });
            let follows = !matches!(wanted, QTYPE::ANY | QTYPE::TYPE(TYPE::CNAME));
            match alias.filter(|_| follows) {
                Some(target) => {
                    found.extend(all.into_iter().filter(|r| matches!(r.rdata, RData::CNAME(_))));
                    name = target;
                }
                None => {
                    found.extend(all.into_iter().filter(|record| record.match_qtype(wanted)));
                    return (found, true);
                }
            }
        }
        (found, true)
    }

    fn all(&self, name: &str) -> Vec<ResourceRecord<'_>> {
        let mut all = self.records.get(name).cloned().unwrap_or_default();
        let owner = || Name::new_unchecked(name).into_owned();
        if name.is_empty() {
            all.push(authority(TTL));
        }
        if let Some(address) = self.hosts.get(name) {
            all.push(ResourceRecord::new(
                owner(),
                CLASS::IN,
                TTL,
                RData::A(A { address: (*address).into() }),
            ));
        }
        if let Some(address) = self.hosts6.get(name) {
            let data = RData::AAAA(AAAA { address: (*address).into() });
            all.push(ResourceRecord::new(owner(), CLASS::IN, TTL, data));
        }
        if let Some(host) = reversed(name).and_then(|address| self.names.get(&address)) {
            let data = RData::PTR(PTR(Name::new_unchecked(host)));
            all.push(ResourceRecord::new(owner(), CLASS::IN, TTL, data));
        }
        all
    }
}

/// Records of a name that has these addresses and nothing else.
fn of_addresses(name: &str, addresses: &[IpAddr], wanted: QTYPE) -> Vec<ResourceRecord<'static>> {
    let record = |address: &IpAddr| {
        let data = match address {
            IpAddr::V4(v4) => RData::A(A { address: (*v4).into() }),
            IpAddr::V6(v6) => RData::AAAA(AAAA { address: (*v6).into() }),
        };
        ResourceRecord::new(Name::new_unchecked(name).into_owned(), CLASS::IN, TTL, data)
    };
    addresses.iter().map(record).filter(|record| record.match_qtype(wanted)).collect()
}

/// Normalises a name for lookups, which ignore case.
fn text(name: &Name<'_>) -> String {
    name.to_string().trim_end_matches('.').to_ascii_lowercase()
}

/// Name for the reverse lookup of an IPv6 address (RFC 3596, section 2.5).
fn nibbles(at: Ipv6Addr) -> String {
    let mut name: String =
        at.octets().iter().rev().map(|byte| format!("{:x}.{:x}.", byte & 0xf, byte >> 4)).collect();
    name.pop();
    name + REVERSE_V6
}

/// Address of a name for reverse lookups, such as `4.3.2.1.in-addr.arpa`, or 32 nibbles under `ip6.arpa`.
fn reversed(name: &str) -> Option<IpAddr> {
    if let Some(digits) = name.strip_suffix(REVERSE_V6) {
        let digits: Vec<u32> = digits
            .split('.')
            .map(|digit| u32::from_str_radix(digit, 16).ok().filter(|_| digit.len() == 1))
            .collect::<Option<_>>()?;
        let bits = digits.iter().rev().fold(0u128, |bits, digit| bits << 4 | u128::from(*digit));
        return (digits.len() == 32).then(|| Ipv6Addr::from_bits(bits).into());
    }
    let digits: Vec<&str> = name.strip_suffix(REVERSE)?.split('.').rev().collect();
    digits.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4)
}

/// Adds all proper suffixes of a name.
fn add_parents(name: &str, parents: &mut Set<String>) {
    let mut rest = name;
    while let Some((_, parent)) = rest.split_once('.') {
        if !parents.insert(parent.to_owned()) {
            return;
        }
        rest = parent;
    }
}

/// SOA record of the root, the only zone. Its minimum is the TTL of negative answers, which contain it (RFC
/// 2308).
fn authority(ttl: u32) -> ResourceRecord<'static> {
    let data = SOA {
        mname: Name::new_unchecked("ns.belljar"),
        rname: Name::new_unchecked("hostmaster.belljar"),
        serial: 1,
        refresh: 3_600,
        retry: 600,
        expire: 86_400,
        minimum: NEGATIVE_TTL,
    };
    ResourceRecord::new(Name::new_unchecked(""), CLASS::IN, ttl, RData::SOA(data))
}

/// Answers a query of which only the header can be parsed.
fn unreadable(query: &[u8]) -> Option<Vec<u8>> {
    let &[high, low, flags, ..] = query else { return None };
    let is_query = query.len() >= 12 && flags & 0x80 == 0;
    let format_error = 1;
    is_query.then(|| vec![high, low, 0x80 | (flags & 0x79), format_error, 0, 0, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests;
