//! The name server of a simulated network: names and addresses of the hosts, and records that the
//! experiment gives. Authoritative for all names there are (RFC 1035).

mod record;

use belljar_base::{Map, Set};
use simple_dns::rdata::{A, AAAA, CNAME, OPT, PTR, RData, SOA};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where the name server is unless the experiment says otherwise: in a network that RFC 5737 keeps
/// for documentation, so that it is nobody's.
pub const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// The port that it answers on.
pub const PORT: u16 = 53;
/// Seconds for which answers may be kept, where a record does not say.
const TTL: u32 = 3_600;
/// Seconds for which it may be kept that there is no such name or record.
const NEGATIVE_TTL: u32 = 60;
/// The longest answer over UDP to one who does not say more (RFC 1035 section 4.2.1).
const SHORT: usize = 512;
/// The longest to anybody: it fits into one packet.
const LONG: u16 = 1_232;
/// The longest answer over TCP, whose length has 16 bits.
const LONGEST: usize = 65_535;
/// Aliases that are followed one after another.
const MOST_ALIASES: usize = 8;
const REVERSE: &str = ".in-addr.arpa";
const REVERSE_V6: &str = ".ip6.arpa";

/// All names and what is known of them.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The name server's address.
    pub address: Ipv4Addr,
    hosts: Map<String, Ipv4Addr>,
    hosts6: Map<String, Ipv6Addr>,
    names: Map<IpAddr, String>,
    records: Map<String, Vec<ResourceRecord<'static>>>,
    /// Parent domains of names with records: such names exist (RFC 8020).
    parents: Set<String>,
}

impl Zone {
    /// The names of hosts, answered for at `address`.
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

    /// Adds a record written as in a zone file: `NAME [TTL] TYPE DATA`. Names are complete, with or
    /// without a dot at their end. The error says what is wrong.
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        let record = record::record(line)?;
        let name = text(&record.name);
        add_parents(&name, &mut self.parents);
        self.records.entry(name).or_default().push(record);
        Ok(())
    }

    /// The answer to a query that came over UDP; `None` for what is no query.
    pub fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        self.answer_within(query, None)
    }

    /// The answer to a query that came over TCP, without its length; `None` for what is no query.
    pub fn answer_over_tcp(&self, query: &[u8]) -> Option<Vec<u8>> {
        self.answer_within(query, Some(LONGEST))
    }

    /// The answer, cut if it is longer than `limit`, or else than what the query says.
    fn answer_within(&self, bytes: &[u8], limit: Option<usize>) -> Option<Vec<u8>> {
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
            // RFC 6891 section 7: who speaks EDNS is answered in it. Its version is not looked at: nobody
            // speaks another than 0, and the parser takes the flag DO for part of it.
            *reply.opt_mut() = Some(OPT { opt_codes: Vec::new(), udp_packet_size: LONG, version: 0 });
        }
        match &query.questions[..] {
            _ if query.opcode() != OPCODE::StandardQuery => *reply.rcode_mut() = RCODE::NotImplemented,
            [question] if !matches!(question.qclass, QCLASS::CLASS(CLASS::IN) | QCLASS::ANY) => {
                *reply.rcode_mut() = RCODE::Refused;
            }
            [question] => {
                let (answers, known) = self.find(&text(&question.qname), question.qtype);
                // Who asked for an alias and gets where it leads to has been answered.
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

    /// The records of a name, aliases followed, and whether there is such a name.
    fn find(&self, name: &str, wanted: QTYPE) -> (Vec<ResourceRecord<'_>>, bool) {
        let (mut name, mut found) = (name.to_owned(), Vec::new());
        for step in 0..=MOST_ALIASES {
            let all = self.all(&name);
            if all.is_empty() {
                // An alias of nothing is known all the same, and so is what only has names below it.
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

/// A name as it is looked up: names don't differ by case.
fn text(name: &Name<'_>) -> String {
    name.to_string().trim_end_matches('.').to_ascii_lowercase()
}

/// The name that an IPv6 address is looked up by (RFC 3596, section 2.5).
fn nibbles(at: Ipv6Addr) -> String {
    let mut name: String =
        at.octets().iter().rev().map(|byte| format!("{:x}.{:x}.", byte & 0xf, byte >> 4)).collect();
    name.pop();
    name + REVERSE_V6
}

/// The address that `4.3.2.1.in-addr.arpa` stands for, or one of 32 nibbles.
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

/// All suffixes of a name that are shorter than it.
fn add_parents(name: &str, parents: &mut Set<String>) {
    let mut rest = name;
    while let Some((_, parent)) = rest.split_once('.') {
        if !parents.insert(parent.to_owned()) {
            return;
        }
        rest = parent;
    }
}

/// The one zone there is, the root: beside an answer that says "there is none", its last number says
/// for how long that may be kept (RFC 2308).
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

/// The answer to a query that cannot be read beyond its number.
fn unreadable(query: &[u8]) -> Option<Vec<u8>> {
    let &[high, low, flags, ..] = query else { return None };
    let is_query = query.len() >= 12 && flags & 0x80 == 0;
    let format_error = 1;
    is_query.then(|| vec![high, low, 0x80 | (flags & 0x79), format_error, 0, 0, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests;
