//! Answers to `RTM_GETLINK`, `RTM_GETADDR`, `RTM_GETROUTE` and the like, rtnetlink(7).

use super::message::{ACK, DONE, ERROR, MULTI, Message, Request};
use crate::host::Host;
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `RTM_GETNETCONF`, `RTM_NEWNEXTHOP`, `RTM_GETNEXTHOP`.
const GETNETCONF: u16 = 82;
const NEWNEXTHOP: u16 = 104;
const GETNEXTHOP: u16 = 106;

impl Host {
    /// The datagrams that answer `requests` from the socket with port id `port`, whose owner may change
    /// things or may not.
    pub(super) fn netlink_answer(
        &mut self,
        requests: &[u8],
        port: u32,
        may_change: bool,
        generic: bool,
    ) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let mut rest = requests;
        while let Some((request, tail)) = Request::split(rest) {
            rest = tail;
            let result = match generic {
                // Of the families of generic netlink there is none.
                true => Err(Errno::ENOENT),
                false => self.netlink_request(&request, port, may_change),
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
                        answers.push(error_message(&request, port, None));
                    }
                }
                Err(errno) => answers.push(error_message(&request, port, Some(errno))),
            }
        }
        answers
    }

    fn netlink_request(
        &mut self,
        request: &Request<'_>,
        port: u32,
        may_change: bool,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        if request.kind & 3 != 2 && !may_change {
            return Err(Errno::EPERM);
        }
        let flags = if request.is_dump() { MULTI } else { 0 };
        let family = i32::from(request.body.first().copied().unwrap_or(0));
        let v6 = family == c::AF_INET6;
        match request.kind {
            c::RTM_GETLINK => self.links(request, flags, port),
            c::RTM_GETADDR => Ok(self.addresses(family, request.sequence, flags, port)),
            c::RTM_GETROUTE if request.is_dump() => Ok(self.routes(family, request.sequence, port)),
            c::RTM_GETROUTE => self.route_to(request, port).map(|message| vec![message]),
            c::RTM_GETNEIGH if !request.is_dump() => {
                self.neighbour(request, port).map(|message| vec![message])
            }
            c::RTM_GETNEIGH => Ok(self.neighbours(family, request.sequence, port)),
            // Each gives what there is to answer besides that it is done.
            c::RTM_NEWLINK | c::RTM_SETLINK => self.change_link(request).map(|()| Vec::new()),
            c::RTM_NEWADDR => self.add_address(request).map(|()| Vec::new()),
            c::RTM_DELADDR => self.remove_address(request).map(|()| Vec::new()),
            c::RTM_NEWROUTE if v6 => self.add_route::<Ipv6Addr>(request).map(|()| Vec::new()),
            c::RTM_DELROUTE if v6 => self.remove_route::<Ipv6Addr>(request).map(|()| Vec::new()),
            c::RTM_NEWRULE if v6 => self.add_rule::<Ipv6Addr>(request).map(|()| Vec::new()),
            c::RTM_DELRULE if v6 => self.remove_rule::<Ipv6Addr>(request).map(|()| Vec::new()),
            // Of other families Linux routes nothing here.
            c::RTM_NEWROUTE | c::RTM_DELROUTE | c::RTM_NEWRULE | c::RTM_DELRULE if family != c::AF_INET => {
                Err(Errno::EOPNOTSUPP)
            }
            c::RTM_NEWROUTE => self.add_route::<Ipv4Addr>(request).map(|()| Vec::new()),
            c::RTM_DELROUTE => self.remove_route::<Ipv4Addr>(request).map(|()| Vec::new()),
            c::RTM_NEWRULE => self.add_rule::<Ipv4Addr>(request).map(|()| Vec::new()),
            c::RTM_DELRULE => self.remove_rule::<Ipv4Addr>(request).map(|()| Vec::new()),
            c::RTM_GETRULE => Ok(self.rules(family, request.sequence, port)),
            c::RTM_NEWNEIGH => self.add_neighbour(request).map(|()| Vec::new()),
            c::RTM_DELNEIGH => self.remove_neighbour(request).map(|()| Vec::new()),
            GETNETCONF => Ok(self.netconf(family, request.sequence, flags, port)),
            // As a kernel that does not know them: programs use plain next hops instead.
            GETNEXTHOP | NEWNEXTHOP => Err(Errno::EOPNOTSUPP),
            // No queueing disciplines or the like to show.
            c::RTM_GETQDISC | c::RTM_GETNEIGHTBL => Ok(Vec::new()),
            kind => {
                self.warn(format!("netlink message {kind} of NETLINK_ROUTE is not supported"));
                Err(Errno::EOPNOTSUPP)
            }
        }
    }
}

/// An address as the value of an attribute.
pub fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// The address in the value of an attribute.
pub fn parse_ip(bytes: &[u8]) -> Result<IpAddr, Errno> {
    match bytes.len() {
        4 => Ok(<[u8; 4]>::try_from(bytes).expect("four bytes").into()),
        16 => Ok(<[u8; 16]>::try_from(bytes).expect("16 bytes").into()),
        _ => Err(Errno::EINVAL),
    }
}

/// `NLMSG_ERROR`: an error, or an acknowledgment where there is none.
pub(super) fn error_message(request: &Request<'_>, port: u32, errno: Option<Errno>) -> Vec<u8> {
    let code = errno.map_or(0, |errno| -i32::from(errno.0));
    let quoted = if errno.is_some() { request.whole } else { &request.whole[..super::message::HEADER_LEN] };
    Message::new(ERROR, 0, request.sequence, port).put(&code.to_ne_bytes()).put(quoted).finish()
}
