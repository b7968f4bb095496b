//! Answers to `RTM_GETLINK`, `RTM_GETADDR`, `RTM_GETROUTE` and the like, rtnetlink(7).

use super::message::{ACK, DONE, ERROR, MULTI, Message, Request};
use crate::host::Host;
use crate::net::interface::{NAMES, mtu};
use crate::net::ioctl::{NETMASK_BITS, interface_flags};
use crate::net::ip::route::route;
use crate::net::{ETH0, LO, interface_index};
use belljar_linux_abi::{Errno, c};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `ARPHRD_LOOPBACK` and `ARPHRD_ETHER`.
const HARDWARE_TYPES: [u16; 2] = [772, 1];
const IFA_F_PERMANENT: u8 = 0x80;
/// `IFA_FLAGS`.
const IFA_FLAGS: u16 = 8;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKMODE: u16 = 17;

/// An address of an interface.
struct Address {
    interface: usize,
    ip: IpAddr,
    prefix: u8,
}

impl Host {
    /// The datagrams that answer `requests` from the socket with port id `port`.
    pub(super) fn netlink_answer(&mut self, requests: &[u8], port: u32) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let mut rest = requests;
        while let Some((request, tail)) = Request::split(rest) {
            rest = tail;
            let result = self.netlink_request(&request, port);
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

    fn netlink_request(&mut self, request: &Request<'_>, port: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let flags = if request.is_dump() { MULTI } else { 0 };
        let family = i32::from(request.body.first().copied().unwrap_or(0));
        match request.kind {
            c::RTM_GETLINK => self.links(request, flags, port),
            c::RTM_GETADDR => Ok(self.addresses(family, request.sequence, flags, port)),
            c::RTM_GETROUTE if request.is_dump() => Ok(self.routes(family, request.sequence, port)),
            c::RTM_GETROUTE => self.route_to(request, port).map(|message| vec![message]),
            // No neighbours, rules, queueing disciplines or the like to show.
            c::RTM_GETNEIGH | c::RTM_GETRULE | c::RTM_GETQDISC | c::RTM_GETNEIGHTBL => Ok(Vec::new()),
            kind => {
                self.warn(format!("netlink message {kind} of NETLINK_ROUTE is not supported"));
                Err(Errno::EOPNOTSUPP)
            }
        }
    }

    fn links(&self, request: &Request<'_>, flags: u16, port: u32) -> Result<Vec<Vec<u8>>, Errno> {
        let message = |interface| self.link(interface, request.sequence, flags, port);
        if request.is_dump() {
            return Ok(vec![message(LO), message(ETH0)]);
        }
        const IFINFOMSG: usize = 16;
        let index = request.body.get(4..8).ok_or(Errno::EINVAL)?;
        let index = u32::from_ne_bytes(index.try_into().expect("four bytes"));
        let name = request.attribute(IFINFOMSG, c::IFLA_IFNAME).map(|name| {
            let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            &name[..end]
        });
        [LO, ETH0]
            .into_iter()
            .find(|interface| match name {
                Some(name) if index == 0 => NAMES[*interface].as_bytes() == name,
                _ => interface_index(*interface) == index,
            })
            .map(|interface| vec![message(interface)])
            .ok_or(Errno::ENODEV)
    }

    fn link(&self, interface: usize, sequence: u32, flags: u16, port: u32) -> Vec<u8> {
        let (address, broadcast) = match interface {
            LO => ([0; 6], [0; 6]),
            _ => (self.net.mac, [0xff; 6]),
        };
        let name = [NAMES[interface].as_bytes(), &[0]].concat();
        let queue_len: u32 = 1_000;
        // IF_OPER_UNKNOWN for lo, IF_OPER_UP.
        let state = if interface == LO { 0 } else { 6 };
        let qdisc: &[u8] = if interface == LO { b"noqueue\0" } else { b"pfifo\0" };
        Message::new(c::RTM_NEWLINK, flags, sequence, port)
            .put(&[c::AF_UNSPEC as u8, 0])
            .put(&HARDWARE_TYPES[interface].to_ne_bytes())
            .put(&interface_index(interface).to_ne_bytes())
            .put(&interface_flags(interface).to_ne_bytes())
            .put(&[0; 4])
            .attribute(c::IFLA_IFNAME, &name)
            .attribute(IFLA_TXQLEN, &queue_len.to_ne_bytes())
            .attribute(IFLA_OPERSTATE, &[state])
            .attribute(IFLA_LINKMODE, &[0])
            .attribute(c::IFLA_MTU, &(mtu(interface) as u32).to_ne_bytes())
            .attribute(c::IFLA_QDISC, qdisc)
            .attribute(c::IFLA_ADDRESS, &address)
            .attribute(c::IFLA_BROADCAST, &broadcast)
            .finish()
    }

    fn addresses(&self, family: i32, sequence: u32, flags: u16, port: u32) -> Vec<Vec<u8>> {
        let all = [
            Address { interface: LO, ip: Ipv4Addr::LOCALHOST.into(), prefix: 8 },
            Address { interface: ETH0, ip: self.config.address.into(), prefix: NETMASK_BITS as u8 },
            Address { interface: LO, ip: Ipv6Addr::LOCALHOST.into(), prefix: 128 },
        ];
        all.into_iter()
            .filter(|address| match family {
                c::AF_INET => address.ip.is_ipv4(),
                c::AF_INET6 => address.ip.is_ipv6(),
                _ => true,
            })
            .map(|address| address_message(&address, sequence, flags, port))
            .collect()
    }

    fn routes(&self, family: i32, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        if family == c::AF_INET6 {
            return Vec::new();
        }
        let source = self.config.address;
        // Everybody is on the link: a default route without a gateway.
        vec![
            Message::new(c::RTM_NEWROUTE, MULTI, sequence, port)
                .put(&[c::AF_INET as u8, 0, 0, 0, c::RT_TABLE_MAIN, c::RTPROT_BOOT])
                .put(&[c::RT_SCOPE_LINK, c::RTN_UNICAST, 0, 0, 0, 0])
                .attribute(c::RTA_TABLE, &u32::from(c::RT_TABLE_MAIN).to_ne_bytes())
                .attribute(c::RTA_PREFSRC, &source.octets())
                .attribute(c::RTA_OIF, &interface_index(ETH0).to_ne_bytes())
                .finish(),
        ]
    }

    /// `ip route get`.
    fn route_to(&self, request: &Request<'_>, port: u32) -> Result<Vec<u8>, Errno> {
        const RTMSG: usize = 12;
        let destination = request.attribute(RTMSG, c::RTA_DST).ok_or(Errno::EINVAL)?;
        let ip: IpAddr = match destination.len() {
            4 => <[u8; 4]>::try_from(destination).expect("four bytes").into(),
            16 => <[u8; 16]>::try_from(destination).expect("16 bytes").into(),
            _ => return Err(Errno::EINVAL),
        };
        let found = route(self.config.address, ip, None)?;
        let (family, bits) = if ip.is_ipv4() { (c::AF_INET, 32) } else { (c::AF_INET6, 128) };
        let kind = if found.interface == LO { c::RTN_LOCAL } else { c::RTN_UNICAST };
        let table = if found.interface == LO { c::RT_TABLE_LOCAL } else { c::RT_TABLE_MAIN };
        Ok(Message::new(c::RTM_NEWROUTE, 0, request.sequence, port)
            .put(&[family as u8, bits, 0, 0, table, c::RTPROT_UNSPEC, c::RT_SCOPE_UNIVERSE, kind])
            .put(&[0; 4])
            .attribute(c::RTA_TABLE, &u32::from(table).to_ne_bytes())
            .attribute(c::RTA_DST, destination)
            .attribute(c::RTA_OIF, &interface_index(found.interface).to_ne_bytes())
            .attribute(c::RTA_PREFSRC, &ip_bytes(found.source))
            .finish())
    }
}

fn ip_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn address_message(address: &Address, sequence: u32, flags: u16, port: u32) -> Vec<u8> {
    let family = if address.ip.is_ipv4() { c::AF_INET } else { c::AF_INET6 };
    let scope = if address.interface == LO { c::RT_SCOPE_HOST } else { c::RT_SCOPE_UNIVERSE };
    let bytes = ip_bytes(address.ip);
    let mut message = Message::new(c::RTM_NEWADDR, flags, sequence, port)
        .put(&[family as u8, address.prefix, IFA_F_PERMANENT, scope])
        .put(&interface_index(address.interface).to_ne_bytes())
        .attribute(c::IFA_ADDRESS, &bytes);
    if let IpAddr::V4(v4) = address.ip {
        message = message.attribute(c::IFA_LOCAL, &bytes);
        if address.interface == ETH0 {
            let broadcast = u32::from(v4) | (u32::MAX >> address.prefix);
            message = message.attribute(c::IFA_BROADCAST, &broadcast.to_be_bytes());
        }
        let name = [NAMES[address.interface].as_bytes(), &[0]].concat();
        message = message.attribute(c::IFA_LABEL, &name);
    }
    message.attribute(IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes()).finish()
}

/// `NLMSG_ERROR`: an error, or an acknowledgment where there is none.
fn error_message(request: &Request<'_>, port: u32, errno: Option<Errno>) -> Vec<u8> {
    let code = errno.map_or(0, |errno| -i32::from(errno.0));
    let quoted = if errno.is_some() { request.whole } else { &request.whole[..super::message::HEADER_LEN] };
    Message::new(ERROR, 0, request.sequence, port).put(&code.to_ne_bytes()).put(quoted).finish()
}
