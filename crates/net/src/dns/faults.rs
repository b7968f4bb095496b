//! Faults of a name server: wrong answers, or none, to queries for some names.

use belljar_base::matches_wildcard;
use std::cell::Cell;
use std::net::IpAddr;

/// Answer to a query that a fault concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsAnswer {
    /// No answer.
    Timeout,
    /// SERVFAIL.
    ServerFailure,
    /// REFUSED.
    Refused,
    /// NXDOMAIN: the name does not exist.
    NoName,
    /// Other addresses.
    Addresses(Vec<IpAddr>),
}

impl DnsAnswer {
    /// Answers without an address, by their names in experiments.
    pub const NAMES: &'static [(&'static str, DnsAnswer)] = &[
        ("timeout", DnsAnswer::Timeout),
        ("SERVFAIL", DnsAnswer::ServerFailure),
        ("REFUSED", DnsAnswer::Refused),
        ("NXDOMAIN", DnsAnswer::NoName),
    ];
}

/// Fault of a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsFault {
    /// Names that are concerned, in lower case without a final dot; `*` stands for any characters.
    pub names: Vec<String>,
    /// The answer.
    pub answer: DnsAnswer,
}

/// Faults that last, by the numbers of their events, the latest last.
#[derive(Clone, Debug, Default)]
pub struct DnsFaults {
    /// Faults with the numbers of their events.
    lasting: Vec<(u32, DnsFault)>,
    /// Number of queries that faults have concerned.
    met: Cell<u64>,
}

impl DnsFaults {
    /// Adds the fault of an event; an earlier one of the same event ends.
    pub fn begin(&mut self, event: u32, fault: DnsFault) {
        self.end(event);
        self.lasting.push((event, fault));
    }
    /// Ends the fault of an event.
    pub fn end(&mut self, event: u32) {
        self.lasting.retain(|(other, _)| *other != event);
    }
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.lasting.is_empty()
    }
    /// Number of queries that faults have concerned.
    pub fn met(&self) -> u64 {
        self.met.get()
    }
    /// Answer of the latest fault that concerns a queried name; the query is counted.
    pub fn of(&self, name: &str) -> Option<&DnsAnswer> {
        if self.lasting.is_empty() {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let concerns = |fault: &DnsFault| fault.names.iter().any(|pattern| matches_wildcard(pattern, &name));
        let found = self.lasting.iter().rev().find(|(_, fault)| concerns(fault))?;
        self.met.set(self.met.get() + 1);
        Some(&found.1.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_fault_that_concerns_a_name_holds() {
        let mut faults = DnsFaults::default();
        let fault = |names: &[&str], answer| DnsFault {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            answer,
        };
        faults.begin(1, fault(&["*"], DnsAnswer::ServerFailure));
        faults.begin(2, fault(&["db*.example", "web"], DnsAnswer::NoName));
        assert_eq!(faults.of("db7.example"), Some(&DnsAnswer::NoName));
        assert_eq!(faults.of("WEB"), Some(&DnsAnswer::NoName));
        assert_eq!(faults.of("db7.example.org"), Some(&DnsAnswer::ServerFailure));
        faults.end(1);
        assert_eq!((faults.of("web2"), faults.is_empty(), faults.met()), (None, false, 3));
        faults.end(2);
        assert!(faults.is_empty());
    }
}
