//! Dispatch of rtnetlink requests and their answers, rtnetlink(7).

use super::Requester;
use super::attributes;
use super::message::{ACK, ACK_TLVS, CAPPED, DONE, ERROR, HEADER_LEN, MULTI, Message, Request};
use super::neighbours::asks_for_proxies;
use super::nexthops::{DELNEXTHOP, GETNEXTHOP, NEWNEXTHOP};
use super::refusal::Refusal;
use crate::Admin;
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTM_GETNETCONF`.
const GETNETCONF: u16 = 82;

impl Admin<'_> {
    /// Answers the requests sent to a `NETLINK_ROUTE` or, if `generic`, a `NETLINK_GENERIC` socket; returns
    /// the datagrams.
    pub fn answer(&mut self, requests: &[u8], asker: Requester, generic: bool) -> Vec<Vec<u8>> {
        let port = asker.port;
        let mut answers = Vec::new();
        let mut rest = requests;
        while let Some((request, tail)) = Request::split(rest) {
            rest = tail;
            let result = match generic {
                // There are no generic netlink families.
                true => Err(Errno::ENOENT.into()),
                false => self.answer_one(&request, port, asker.may_change),
            };
            match result {
                Ok(messages) if request.is_dump() => {
                    let done = Message::new(DONE, MULTI, request.sequence, port).put(&[0; 4]).finish();
                    if !messages.is_empty() {
                        answers.push(messages.concat());
                    }
                    answers.push(done);
                }
                Ok(messages) => {
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

    fn answer_one(
        &mut self,
        request: &Request<'_>,
        port: u32,
        may_change: bool,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        if request.kind & 3 != 2 && !may_change {
            return Err(Errno::EPERM.into());
        }
        match request.kind {
            c::RTM_NEWROUTE | c::RTM_DELROUTE => self.look_through(request, &attributes::ROUTE)?,
            c::RTM_NEWADDR | c::RTM_DELADDR => self.look_through(request, &attributes::ADDRESS)?,
            c::RTM_NEWNEIGH | c::RTM_DELNEIGH => self.look_through(request, &attributes::NEIGHBOUR)?,
            _ => {}
        }
        let flags = if request.is_dump() { MULTI } else { 0 };
        let family = i32::from(request.body.first().copied().unwrap_or(0));
        let v6 = family == c::AF_INET6;
        match request.kind {
            c::RTM_GETLINK => Ok(self.links(request, flags, port)?),
            c::RTM_GETADDR => Ok(self.addresses(family, request.sequence, flags, port)),
            c::RTM_GETROUTE if request.is_dump() => Ok(self.routes(family, request.sequence, port)),
            c::RTM_GETROUTE => Ok(vec![self.route_to(request, port)?]),
            c::RTM_GETNEIGH if !request.is_dump() => Ok(vec![self.neighbour(request, port)?]),
            c::RTM_GETNEIGH => Ok(self.neighbours(family, asks_for_proxies(request), request.sequence, port)),
            // Handlers of changes return the answers besides the acknowledgment.
            c::RTM_NEWLINK | c::RTM_SETLINK => self.change_link(request).map(|()| Vec::new()),
            c::RTM_DELLINK => self.remove_link(request).map(|()| Vec::new()),
            c::RTM_NEWADDR => self.add_address(request).map(|()| Vec::new()),
            c::RTM_DELADDR => self.remove_address(request).map(|()| Vec::new()),
            c::RTM_NEWROUTE if v6 => self.add_route::<Ipv6Addr>(request, port).map(|()| Vec::new()),
            c::RTM_DELROUTE if v6 => self.remove_route::<Ipv6Addr>(request, port).map(|()| Vec::new()),
            c::RTM_NEWRULE if v6 => self.add_rule::<Ipv6Addr>(request).map(|()| Vec::new()),
            c::RTM_DELRULE if v6 => self.remove_rule::<Ipv6Addr>(request).map(|()| Vec::new()),
            // Linux registers no handlers for other families.
            c::RTM_NEWROUTE | c::RTM_DELROUTE | c::RTM_NEWRULE | c::RTM_DELRULE if family != c::AF_INET => {
                Err(Errno::EOPNOTSUPP.into())
            }
            c::RTM_NEWROUTE => self.add_route::<Ipv4Addr>(request, port).map(|()| Vec::new()),
            c::RTM_DELROUTE => self.remove_route::<Ipv4Addr>(request, port).map(|()| Vec::new()),
            c::RTM_NEWRULE => self.add_rule::<Ipv4Addr>(request).map(|()| Vec::new()),
            c::RTM_DELRULE => self.remove_rule::<Ipv4Addr>(request).map(|()| Vec::new()),
            c::RTM_GETRULE => Ok(self.rules(family, request.sequence, port)),
            c::RTM_NEWNEIGH => self.add_neighbour(request).map(|()| Vec::new()),
            c::RTM_DELNEIGH => self.remove_neighbour(request).map(|()| Vec::new()).map_err(Refusal::from),
            GETNETCONF => Ok(self.netconf(family, request.sequence, flags, port)),
            NEWNEXTHOP => self.add_nexthop(request, port).map(|()| Vec::new()),
            DELNEXTHOP => self.remove_nexthop(request, port).map(|()| Vec::new()),
            GETNEXTHOP if request.is_dump() => self.nexthops(request, port),
            GETNEXTHOP => Ok(vec![self.nexthop(request, port)?]),
            // There are no queueing disciplines or neighbour tables to report.
            c::RTM_GETQDISC | c::RTM_GETNEIGHTBL => Ok(Vec::new()),
            kind => {
                self.warn(format!("netlink message {kind} of NETLINK_ROUTE is not supported"));
                Err(Errno::EOPNOTSUPP.into())
            }
        }
    }
}

/// Attribute value of an IP address.
pub fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// IP address in an attribute value.
pub fn parse_ip(bytes: &[u8]) -> Result<IpAddr, Errno> {
    match bytes.len() {
        4 => Ok(<[u8; 4]>::try_from(bytes).expect("four bytes").into()),
        16 => Ok(<[u8; 16]>::try_from(bytes).expect("16 bytes").into()),
        _ => Err(Errno::EINVAL),
    }
}

/// `NLMSG_ERROR`: an error, or with `None` an acknowledgment (`netlink_ack` in Linux).
pub(crate) fn error_message(request: &Request<'_>, asker: Requester, refusal: Option<Refusal>) -> Vec<u8> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let code = refusal.map_or(0, |refusal| -i32::from(refusal.errno.0));
    let capped = refusal.is_none() || asker.capped;
    let quoted = if capped { &request.whole[..HEADER_LEN] } else { request.whole };
    let words = refusal.and_then(|refusal| refusal.words).filter(|_| asker.extended);
    let flags = if capped { CAPPED } else { 0 } | if words.is_some() { ACK_TLVS } else { 0 };
    let message =
        Message::new(ERROR, flags, request.sequence, asker.port).put(&code.to_ne_bytes()).put(quoted);
    match words {
        Some(words) => {
            let padding = [0; 3];
            let message = message.put(&padding[..quoted.len().next_multiple_of(4) - quoted.len()]);
            message.attribute(NLMSGERR_ATTR_MSG, &[words.as_bytes(), &[0]].concat())
        }
        None => message,
    }
    .finish()
}
