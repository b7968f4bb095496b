//! Parser for records in text form: `NAME [TTL] [IN] TYPE DATA`, as in a zone file (RFC 1035 section 5.1).

use super::TTL;
use simple_dns::rdata::{A, AAAA, CNAME, MX, NS, PTR, RData, SRV, TXT};
use simple_dns::{CLASS, Name, ResourceRecord};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Parses a record in the format of zone files.
pub(super) fn record(line: &str) -> Result<ResourceRecord<'static>, String> {
    let mut words = line.split_whitespace().peekable();
    let owner = name(words.next().ok_or("it is empty")?)?;
    let ttl = words.next_if(|word| word.bytes().all(|b| b.is_ascii_digit()));
    let ttl_given = ttl.is_some();
    let ttl = match ttl {
        Some(text) => text.parse().map_err(|_| format!("{text} is too long a time to live"))?,
        None => TTL,
    };
    let class = words.next_if(|word| *word == "IN");
    let words_before_data = 2 + usize::from(ttl_given) + usize::from(class.is_some());
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
            let strings = strings(after_words(line, words_before_data));
            let mut data = TXT::new();
            for string in &strings {
                data.add_string(string).map_err(|_| "a text has more than 255 bytes")?;
            }
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

/// Returns the text after the first `count` words of a line.
fn after_words(line: &str, count: usize) -> &str {
    (0..count)
        .fold(line.trim(), |rest, _| rest.split_once(char::is_whitespace).map_or("", |(_, r)| r.trim_start()))
}

/// Parses quoted strings, in which a backslash escapes the next character; unquoted text is a single
/// string.
fn strings(text: &str) -> Vec<String> {
    if !text.starts_with('"') {
        return vec![text.to_owned()];
    }
    let (mut found, mut open, mut chars) = (Vec::new(), None::<String>, text.chars());
    while let Some(c) = chars.next() {
        match (&mut open, c) {
            (Some(_), '"') => found.extend(open.take()),
            (Some(string), '\\') => string.extend(chars.next()),
            (Some(string), c) => string.push(c),
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    found.extend(open);
    found
}
