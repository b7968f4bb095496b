//! The name server of a simulated network: names and addresses of the hosts, and records that the
//! experiment gives. Authoritative for all names there are (RFC 1035).

use belljar_base::Map;
use simple_dns::rdata::{A, AAAA, CNAME, MX, NS, PTR, RData, SRV, TXT};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where the name server is unless the experiment says otherwise: in a network that RFC 5737 keeps
/// for documentation, so that it is nobody's.
pub const DEFAULT_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// The port that it answers on.
pub const PORT: u16 = 53;
/// Seconds for which answers may be kept, where a record does not say.
const TTL: u32 = 3_600;
/// The longest answer over UDP to one who does not say more (RFC 1035 section 4.2.1).
const SHORT: usize = 512;
/// Aliases that are followed one after another.
const MOST_ALIASES: usize = 8;
const REVERSE: &str = ".in-addr.arpa";

/// All names and what is known of them.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The name server's address.
    pub address: Ipv4Addr,
    hosts: Map<String, Ipv4Addr>,
    names: Map<Ipv4Addr, String>,
    records: Map<String, Vec<ResourceRecord<'static>>>,
}

impl Zone {
    /// The names of hosts, answered for at `address`.
    pub fn new<'a>(address: Ipv4Addr, hosts: impl Iterator<Item = (&'a str, Ipv4Addr)>) -> Zone {
        let hosts: Map<String, Ipv4Addr> = hosts.map(|(name, at)| (name.to_owned(), at)).collect();
        let names = hosts.iter().map(|(name, at)| (*at, name.clone())).collect();
        Zone { address, hosts, names, records: Map::new() }
    }

    /// Adds a record written as in a zone file: `NAME [TTL] TYPE DATA`. Names are complete, with or
    /// without a dot at their end. The error says what is wrong.
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        let record = record(line)?;
        self.records.entry(text(&record.name)).or_default().push(record);
        Ok(())
    }

    /// The answer to a query that came over UDP; `None` for what is no query.
    pub fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let query = Packet::parse(query).ok().filter(|query| !query.has_flags(PacketFlag::RESPONSE))?;
        let mut reply = Packet::new_reply(query.id());
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
        if query.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        reply.questions = query.questions.clone();
        match &query.questions[..] {
            _ if query.opcode() != OPCODE::StandardQuery => *reply.rcode_mut() = RCODE::NotImplemented,
            [question] => {
                let (answers, known) = self.find(&text(&question.qname), question.qtype);
                reply.answers = answers;
                if !known {
                    *reply.rcode_mut() = RCODE::NameError;
                }
            }
            _ => *reply.rcode_mut() = RCODE::FormatError,
        }
        let limit = query.opt().map_or(SHORT, |opt| usize::from(opt.udp_packet_size).max(SHORT));
        let bytes = reply.build_bytes_vec_compressed().ok()?;
        if bytes.len() <= limit {
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
                // An alias of nothing is known all the same.
                return (found, step > 0);
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
        if let Some(address) = self.hosts.get(name) {
            all.push(ResourceRecord::new(
                owner(),
                CLASS::IN,
                TTL,
                RData::A(A { address: (*address).into() }),
            ));
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

/// The address that `4.3.2.1.in-addr.arpa` stands for.
fn reversed(name: &str) -> Option<Ipv4Addr> {
    let digits: Vec<&str> = name.strip_suffix(REVERSE)?.split('.').rev().collect();
    digits.join(".").parse().ok()
}

fn record(line: &str) -> Result<ResourceRecord<'static>, String> {
    let mut words = line.split_whitespace().peekable();
    let owner = name(words.next().ok_or("it is empty")?)?;
    let ttl = words.next_if(|word| word.bytes().all(|b| b.is_ascii_digit()));
    let ttl = match ttl {
        Some(text) => text.parse().map_err(|_| format!("{text} is too long a time to live"))?,
        None => TTL,
    };
    let _ = words.next_if(|word| *word == "IN");
    let kind = words.next().ok_or("it has no type")?.to_ascii_uppercase();
    let rest: Vec<&str> = words.collect();
    let count = |wanted: usize, what: &str| match rest.len() == wanted {
        true => Ok(()),
        false => Err(format!("{kind} takes {what}")),
    };
    let number =
        |text: &str| text.parse::<u16>().map_err(|_| format!("'{text}' is not a number up to 65535"));
    let data = match kind.as_str() {
        "A" => {
            count(1, "an IPv4 address")?;
            let address: Ipv4Addr =
                rest[0].parse().map_err(|_| format!("'{}' is not an IPv4 address", rest[0]))?;
            RData::A(A { address: address.into() })
        }
        "AAAA" => {
            count(1, "an IPv6 address")?;
            let address: Ipv6Addr =
                rest[0].parse().map_err(|_| format!("'{}' is not an IPv6 address", rest[0]))?;
            RData::AAAA(AAAA { address: address.into() })
        }
        "CNAME" | "NS" | "PTR" => {
            count(1, "a name")?;
            let target = name(rest[0])?;
            match kind.as_str() {
                "CNAME" => RData::CNAME(CNAME(target)),
                "NS" => RData::NS(NS(target)),
                _ => RData::PTR(PTR(target)),
            }
        }
        "MX" => {
            count(2, "a preference and a name")?;
            RData::MX(MX { preference: number(rest[0])?, exchange: name(rest[1])? })
        }
        "SRV" => {
            count(4, "priority, weight, port and a name")?;
            let (priority, weight, port) = (number(rest[0])?, number(rest[1])?, number(rest[2])?);
            RData::SRV(SRV { priority, weight, port, target: name(rest[3])? })
        }
        "TXT" => {
            let joined = rest.join(" ");
            let string = joined.strip_prefix('"').and_then(|s| s.strip_suffix('"')).unwrap_or(&joined);
            let data = TXT::new().with_string(string).map_err(|_| "the text has more than 255 bytes")?;
            RData::TXT(data.into_owned())
        }
        other => return Err(format!("'{other}' is none of A, AAAA, CNAME, MX, NS, PTR, SRV, TXT")),
    };
    Ok(ResourceRecord::new(owner, CLASS::IN, ttl, data))
}

fn name(text: &str) -> Result<Name<'static>, String> {
    let complete = text.strip_suffix('.').unwrap_or(text);
    let sound = !complete.split('.').any(str::is_empty);
    let name = Name::new(complete).ok().filter(|_| sound).ok_or_else(|| format!("'{text}' is not a name"))?;
    Ok(name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::{QCLASS, Question};

    fn zone() -> Zone {
        let hosts = [("alice", Ipv4Addr::new(11, 0, 0, 1)), ("www.bob", Ipv4Addr::new(11, 0, 0, 2))];
        let mut zone = Zone::new(DEFAULT_ADDRESS, hosts.into_iter());
        for line in [
            "example.org. 60 IN A 1.2.3.4",
            "Example.org AAAA 2001:db8::1",
            "www.example.org CNAME site.example.org",
            "site.example.org CNAME alice",
            "lost.example.org CNAME nowhere",
            "loop CNAME loop",
            "example.org MX 10 mail.example.org",
            "_x._tcp.example.org SRV 1 2 8080 alice",
            "example.org TXT \"some words\"",
        ] {
            zone.add(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        zone
    }

    /// Type and data of the answers, and the status.
    fn ask(name: &str, kind: TYPE) -> (Vec<String>, RCODE) {
        let mut query = Packet::new_query(77);
        let kind = QTYPE::TYPE(kind);
        query.questions.push(Question::new(Name::new_unchecked(name), kind, QCLASS::CLASS(CLASS::IN), false));
        let bytes = zone().answer(&query.build_bytes_vec().unwrap()).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert!(reply.id() == 77 && reply.has_flags(PacketFlag::RESPONSE) && reply.questions.len() == 1);
        let shown = reply.answers.iter().map(|record| match &record.rdata {
            RData::A(a) => Ipv4Addr::from(a.address).to_string(),
            RData::AAAA(a) => Ipv6Addr::from(a.address).to_string(),
            RData::CNAME(CNAME(name)) | RData::PTR(PTR(name)) => text(name),
            RData::MX(mx) => format!("{} {}", mx.preference, mx.exchange),
            RData::SRV(srv) => format!("{} {} {} {}", srv.priority, srv.weight, srv.port, srv.target),
            RData::TXT(_) => format!("ttl {}", record.ttl),
            other => format!("{other:?}"),
        });
        (shown.collect(), reply.rcode())
    }
    fn known(answers: &[&str]) -> (Vec<String>, RCODE) {
        (answers.iter().map(|a| (*a).to_owned()).collect(), RCODE::NoError)
    }

    #[test]
    fn hosts_have_addresses_and_names() {
        assert_eq!(ask("alice", TYPE::A), known(&["11.0.0.1"]));
        assert_eq!(ask("WWW.Bob", TYPE::A), known(&["11.0.0.2"]));
        assert_eq!(ask("alice", TYPE::AAAA), known(&[]), "there is such a name, but no such record");
        assert_eq!(ask("carol", TYPE::A), (vec![], RCODE::NameError));
        assert_eq!(ask("2.0.0.11.in-addr.arpa", TYPE::PTR), known(&["www.bob"]));
        assert_eq!(ask("3.0.0.11.in-addr.arpa", TYPE::PTR).1, RCODE::NameError);
    }

    #[test]
    fn records_of_the_experiment() {
        assert_eq!(ask("example.org", TYPE::A), known(&["1.2.3.4"]));
        assert_eq!(ask("example.org", TYPE::AAAA), known(&["2001:db8::1"]));
        assert_eq!(ask("example.org", TYPE::MX), known(&["10 mail.example.org"]));
        assert_eq!(ask("example.org", TYPE::TXT), known(&["ttl 3600"]));
        assert_eq!(ask("_x._tcp.example.org", TYPE::SRV), known(&["1 2 8080 alice"]));
        assert_eq!(ask("www.example.org", TYPE::A), known(&["site.example.org", "alice", "11.0.0.1"]));
        assert_eq!(ask("lost.example.org", TYPE::A), known(&["nowhere"]));
        assert_eq!(ask("loop", TYPE::A).1, RCODE::NoError);
    }

    #[test]
    fn records_that_are_wrong() {
        let mut zone = zone();
        for (line, error) in [
            ("", "it is empty"),
            ("a", "it has no type"),
            ("a A", "A takes an IPv4 address"),
            ("a A 1.2.3", "'1.2.3' is not an IPv4 address"),
            ("a AAAA x", "'x' is not an IPv6 address"),
            ("a MX mail", "MX takes a preference and a name"),
            ("a MX ten mail", "'ten' is not a number up to 65535"),
            ("a SRV 1 2 3", "SRV takes priority, weight, port and a name"),
            ("a HINFO x", "'HINFO' is none of A, AAAA, CNAME, MX, NS, PTR, SRV, TXT"),
            ("a 99999999999 A 1.2.3.4", "99999999999 is too long a time to live"),
            ("a..b A 1.2.3.4", "'a..b' is not a name"),
        ] {
            assert_eq!(zone.add(line), Err(error.to_owned()));
        }
    }

    #[test]
    fn long_answers_are_cut_and_garbage_is_not_answered() {
        let mut zone = zone();
        (0..60).for_each(|n| zone.add(&format!("many A 10.0.0.{n}")).unwrap());
        let mut query = Packet::new_query(1);
        let class = QCLASS::CLASS(CLASS::IN);
        query.questions.push(Question::new(Name::new_unchecked("many"), QTYPE::TYPE(TYPE::A), class, false));
        let bytes = zone.answer(&query.build_bytes_vec().unwrap()).unwrap();
        let reply = Packet::parse(&bytes).unwrap();
        assert!(reply.has_flags(PacketFlag::TRUNCATION) && reply.answers.is_empty());
        assert_eq!(zone.answer(&bytes), None, "a reply is no query");
        assert_eq!(zone.answer(b"hello"), None);
    }
}
