//! Dispatch of rtnetlink requests and their answers, rtnetlink(7).

use super::Requester;
use super::bridge_links::dump_bridges;
use super::bridges;
use super::bridges::{change_bridges, dump_fdb, flush_fdb, get_fdb};
use super::generic::is_dump as is_generic_dump;
use super::local_table::record_order;
use super::message::{ACK, ACK_TLVS, CAPPED, DONE, ERROR, HEADER_LEN, MULTI, Message, Request};
pub use super::message::{ip_bytes, parse_ip};
use super::neighbours::record_types;
use super::nexthops::{DELNEXTHOP, GETNEXTHOP, NEWNEXTHOP};
use super::policy::Attribute;
use super::refusal::{Refusal, refusal};
use super::rules::refuse_rule_family;
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use belljar_tc::is_tc_request;
use std::net::{Ipv4Addr, Ipv6Addr};

/// `RTM_GETNETCONF`.
const GETNETCONF: u16 = 82;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_BULK`: a deletion of several objects.
const BULK: u16 = 0x200;
/// First type of a message that is not about control, `NLMSG_MIN_TYPE`.
const MIN_TYPE: u16 = 16;
/// `RTM_MAX` of Linux 6.18.
const RTM_MAX: u16 = 123;

impl Admin<'_> {
    /// Answers the requests sent to a `NETLINK_ROUTE` or, if `generic`, a `NETLINK_GENERIC` socket; returns
    /// the datagrams.
    pub fn answer(&mut self, requests: &[u8], asker: Requester, generic: bool) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let mut rest = requests;
        while let Some((mut request, tail)) = Request::split(rest) {
            rest = tail;
            request.strict = asker.strict;
            if request.flags & REQUEST == 0 || request.kind < MIN_TYPE {
                answers.extend((request.flags & ACK != 0).then(|| error_message(&request, asker, None)));
                continue;
            }
            let result = match generic {
                true => match self.answer_generic(&request, asker) {
                    result if is_generic_dump(&request) => Ok(Answer::Dump(result)),
                    result => result.map(Answer::Messages),
                },
                false => {
                    let result = self.answer_one(&request, asker);
                    record_order(self.net);
                    record_types(self.net);
                    result
                }
            };
            match result {
                Ok(Answer::Dump(result)) => {
                    let (messages, refusal) = match result {
                        Ok(messages) => (messages, None),
                        Err(refusal) => (Vec::new(), Some(refusal)),
                    };
                    match generic {
                        // Each message of these dumps fills a buffer.
                        true => answers.extend(messages),
                        false if messages.is_empty() => {}
                        false => answers.push(messages.concat()),
                    }
                    answers.push(done_message(&request, asker, refusal));
                }
                Ok(Answer::Messages(messages)) => {
                    answers.extend(messages);
                    if request.flags & ACK != 0 {
                        answers.push(error_message(&request, asker, None));
                    }
                }
                Err(refusal) => answers.push(error_message(&request, asker, Some(refusal))),
            }
        }
        answers
    }

    fn answer_one(&mut self, request: &Request<'_>, asker: Requester) -> Result<Answer, Refusal> {
        if request.kind > RTM_MAX {
            return Err(Errno::EOPNOTSUPP.into());
        }
        // Requests without the byte of a family are ignored.
        let Some(family) = request.body.first().copied().map(i32::from) else {
            return Ok(Answer::Messages(Vec::new()));
        };
        if request.kind & 3 != 2 && !asker.may_change {
            return Err(Errno::EPERM.into());
        }
        if request.is_dump() {
            return self.dump(request, family, asker.port);
        }
        self.carry_out(request, family, asker.port).map(Answer::Messages)
    }

    /// Answers a dump.
    fn dump(&mut self, request: &Request<'_>, family: i32, port: u32) -> Result<Answer, Refusal> {
        let result = match request.kind {
            c::RTM_GETLINK if family == bridges::AF_BRIDGE => dump_bridges(self, request, port),
            c::RTM_GETNEIGH if family == bridges::AF_BRIDGE => dump_fdb(self, request, port),
            c::RTM_GETLINK => self.dump_links(request, port),
            c::RTM_GETADDR => self.addresses(request, family, port),
            c::RTM_GETROUTE => self.routes(request, family, port),
            c::RTM_GETNEIGH => self.neighbours(request, family, port),
            c::RTM_GETRULE => self.rules(request, family, port),
            GETNETCONF => Ok(self.netconf(family, request.sequence, MULTI, port)),
            GETNEXTHOP => self.nexthops(request, port),
            // There are no neighbour tables to report.
            c::RTM_GETNEIGHTBL => Ok(Vec::new()),
            kind if is_tc_request(kind) => self.traffic_control(request, true, port),
            kind => return Err(self.unsupported(kind)),
        };
        Ok(Answer::Dump(result))
    }

    /// Carries out a change or a query of one object; returns the answers besides the acknowledgment.
    fn carry_out(&mut self, request: &Request<'_>, family: i32, port: u32) -> Result<Vec<Vec<u8>>, Refusal> {
        let v6 = family == c::AF_INET6;
        if request.kind & 3 == 1 && request.flags & BULK != 0 {
            let listed = [c::RTM_DELROUTE, c::RTM_DELADDR].contains(&request.kind);
            let of_bridges = bridges::are_meant(request.kind, family) && request.kind == c::RTM_DELNEIGH;
            if !of_bridges && (!listed || v6 || family == c::AF_INET) {
                return Err(refusal(Errno::EOPNOTSUPP, "Bulk delete is not supported"));
            }
        }
        match request.kind {
            c::RTM_GETLINK => Ok(vec![self.get_link(request, port)?]),
            c::RTM_GETADDR if v6 => Ok(vec![self.address6(request, port)?]),
            c::RTM_GETROUTE if v6 || family == c::AF_INET => Ok(vec![self.route_to(request, port)?]),
            c::RTM_GETNEIGH if family == bridges::AF_BRIDGE => Ok(vec![get_fdb(self, request, port)?]),
            c::RTM_GETNEIGH => Ok(vec![self.neighbour(request, port)?]),
            GETNEXTHOP => Ok(vec![self.nexthop(request, port)?]),
            // Linux registers no handlers for these or their other families.
            c::RTM_GETRULE | c::RTM_GETADDR | c::RTM_GETROUTE => Err(Errno::EOPNOTSUPP.into()),
            GETNETCONF => Ok(self.netconf(family, request.sequence, 0, port)),
            c::RTM_GETNEIGHTBL => Ok(Vec::new()),
            kind if is_tc_request(kind) => self.traffic_control(request, false, port),
            _ => self.change(request, family, port).map(|()| Vec::new()),
        }
    }

    /// Carries out a change.
    fn change(&mut self, request: &Request<'_>, family: i32, port: u32) -> Result<(), Refusal> {
        let v4 = family == c::AF_INET;
        if bridges::are_meant(request.kind, family) {
            if request.kind == c::RTM_DELNEIGH && request.flags & BULK != 0 {
                return flush_fdb(self, request);
            }
            return change_bridges(self, request);
        }
        match (request.kind, family) {
            (c::RTM_NEWLINK, _) => self.change_link(request),
            (c::RTM_SETLINK, _) => self.set_link_named(request),
            (c::RTM_DELLINK, _) => self.remove_link(request),
            (c::RTM_NEWADDR, c::AF_INET) => self.add_address(request),
            (c::RTM_NEWADDR, c::AF_INET6) => self.add_address6(request),
            (c::RTM_DELADDR, c::AF_INET) => self.remove_address(request),
            (c::RTM_DELADDR, c::AF_INET6) => self.remove_address6(request),
            (c::RTM_NEWROUTE, c::AF_INET6) => self.add_route::<Ipv6Addr>(request, port),
            (c::RTM_DELROUTE, c::AF_INET6) => self.remove_route::<Ipv6Addr>(request, port),
            (c::RTM_NEWROUTE, _) if v4 => self.add_route::<Ipv4Addr>(request, port),
            (c::RTM_DELROUTE, _) if v4 => self.remove_route::<Ipv4Addr>(request, port),
            // Linux registers no handlers for other families.
            (c::RTM_NEWADDR | c::RTM_DELADDR | c::RTM_NEWROUTE | c::RTM_DELROUTE, _) => {
                Err(Errno::EOPNOTSUPP.into())
            }
            (c::RTM_NEWRULE, c::AF_INET6) => self.add_rule::<Ipv6Addr>(request),
            (c::RTM_DELRULE, c::AF_INET6) => self.remove_rule::<Ipv6Addr>(request),
            (c::RTM_NEWRULE, _) if v4 => self.add_rule::<Ipv4Addr>(request),
            (c::RTM_DELRULE, _) if v4 => self.remove_rule::<Ipv4Addr>(request),
            (c::RTM_NEWRULE | c::RTM_DELRULE, _) => Err(refuse_rule_family(request)),
            (c::RTM_NEWNEIGH, _) => self.add_neighbour(request),
            (c::RTM_DELNEIGH, _) => self.remove_neighbour(request),
            (NEWNEXTHOP, _) => self.add_nexthop(request, port),
            (DELNEXTHOP, _) => self.remove_nexthop(request, port),
            (kind, _) => Err(self.unsupported(kind)),
        }
    }

    fn unsupported(&mut self, kind: u16) -> Refusal {
        self.warn(format!("netlink message {kind} of NETLINK_ROUTE is not supported"));
        Errno::EOPNOTSUPP.into()
    }
}

/// Answer to a request.
enum Answer {
    /// Messages that precede the acknowledgment.
    Messages(Vec<Vec<u8>>),
    /// Messages of a dump, or the error with which it ends.
    Dump(Result<Vec<Vec<u8>>, Refusal>),
}

/// Attributes of the extended ack of an error, or of a success with a message.
fn extended_ack(request: &Request<'_>, asker: Requester, refusal: Option<Refusal>) -> Vec<(u16, Vec<u8>)> {
    const MSG: u16 = 1;
    const OFFS: u16 = 2;
    const POLICY: u16 = 4;
    const MISS_TYPE: u16 = 5;
    let mut attributes = Vec::new();
    if !asker.extended {
        return attributes;
    }
    let given = refusal.and_then(|refusal| refusal.words).or(request.notice()).map(str::to_owned);
    if let Some(words) = given.or_else(|| request.notice_text()) {
        attributes.push((MSG, [words.as_bytes(), &[0]].concat()));
    }
    let Some(refusal) = refusal else { return attributes };
    if let Some(at) = refusal.at {
        attributes.push((OFFS, at.to_ne_bytes().to_vec()));
    }
    if let Some(policy) = refusal.policy.and_then(Attribute::description) {
        attributes.push((POLICY, policy));
    }
    if let Some(missing) = refusal.missing {
        attributes.push((MISS_TYPE, u32::from(missing).to_ne_bytes().to_vec()));
    }
    attributes
}

/// `NLMSG_ERROR`: an error, or with `None` an acknowledgment (`netlink_ack` in Linux).
pub(crate) fn error_message(request: &Request<'_>, asker: Requester, refusal: Option<Refusal>) -> Vec<u8> {
    let code = refusal.map_or(0, |refusal| -i32::from(refusal.errno.0));
    let capped = refusal.is_none() || asker.capped;
    let quoted = if capped { &request.whole[..HEADER_LEN] } else { request.whole };
    let extended = extended_ack(request, asker, refusal);
    let flags = if capped { CAPPED } else { 0 } | if extended.is_empty() { 0 } else { ACK_TLVS };
    let message =
        Message::new(ERROR, flags, request.sequence, asker.port).put(&code.to_ne_bytes()).put(quoted);
    let padding = [0; 3];
    let padding = &padding[..quoted.len().next_multiple_of(4) - quoted.len()];
    let message = if extended.is_empty() { message } else { message.put(padding) };
    extended.iter().fold(message, |message, (kind, value)| message.attribute(*kind, value)).finish()
}

/// `NLMSG_DONE`: the end of a dump, with its error if there is one.
fn done_message(request: &Request<'_>, asker: Requester, refusal: Option<Refusal>) -> Vec<u8> {
    let code = refusal.map_or(0, |refusal| -i32::from(refusal.errno.0));
    let extended = extended_ack(request, asker, refusal);
    let flags = MULTI | if extended.is_empty() { 0 } else { ACK_TLVS };
    let message = Message::new(DONE, flags, request.sequence, asker.port).put(&code.to_ne_bytes());
    extended.iter().fold(message, |message, (kind, value)| message.attribute(*kind, value)).finish()
}
