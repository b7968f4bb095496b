//! Ancillary data, cmsg(3): decoding of the options for one datagram, ip(7), ipv6(7), udp(7). Messages of a
//! level that the sender does not support are ignored.

use crate::timestamps::{option, requested};
use belljar_linux_abi::socket::{In6Pktinfo, InPktinfo};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
use belljar_netstack::timestamps::check_given;
use belljar_netstack::udp::{CmsgContext, SendOptions, UDP_SEGMENT};
use std::net::{IpAddr, Ipv6Addr};
use zerocopy::FromBytes;

/// Control message passed to `sendmsg`, cmsg(3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlMessage {
    /// `cmsg_level`.
    pub level: i32,
    /// `cmsg_type`.
    pub type_: i32,
    /// Data after the header.
    pub data: Vec<u8>,
}

impl ControlMessage {
    /// Validates a message of level `SOL_SOCKET`: `EINVAL` for an unknown type or a wrong length
    /// (`__sock_cmsg_send` in Linux).
    pub fn check_socket_level(&self) -> Result<(), Errno> {
        let word = || self.data[..].try_into().map(u32::from_ne_bytes).map_err(|_| Errno::EINVAL);
        match self.type_ {
            c::SCM_RIGHTS | c::SCM_CREDENTIALS => Ok(()),
            c::SO_MARK | c::SO_PRIORITY | option::STAMP_ID => word().map(|_| ()),
            c::SO_TIMESTAMPING | option::TIMESTAMPING_NEW => check_given(word()?).map(|_| ()),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// `IP_PROTOCOL`, of `include/uapi/linux/in.h`.
const IP_PROTOCOL: i32 = 52;

/// Value of a message with exactly an `int`.
fn number(control: &ControlMessage) -> Result<i32, Errno> {
    control.data[..].try_into().map(i32::from_ne_bytes).map_err(|_| Errno::EINVAL)
}

/// Byte value in an `int`; `None` for -1, the socket's setting.
fn byte_or_own(control: &ControlMessage) -> Result<Option<u8>, Errno> {
    match number(control)? {
        -1 => Ok(None),
        number => u8::try_from(number).map(Some).map_err(|_| Errno::EINVAL),
    }
}

/// Decodes the options; `EINVAL` for an unknown type of a level that the sender supports.
pub fn read_options(messages: &[ControlMessage], by: CmsgContext) -> Result<SendOptions, Errno> {
    let mut options = SendOptions::default();
    for control in messages {
        match (control.level, control.type_) {
            (c::IPPROTO_UDP, UDP_SEGMENT) if by.udp => {
                let size = control.data[..].try_into().map_err(|_| Errno::EINVAL)?;
                options.segment = Some(u16::from_ne_bytes(size));
            }
            (c::IPPROTO_UDP, _) if by.udp => return Err(Errno::EINVAL),
            (c::SOL_SOCKET, _) => {
                control.check_socket_level()?;
                (options.stamps, options.stamp_id) = requested(messages);
            }
            (c::IPPROTO_IPV6, c::IPV6_PKTINFO) if by.v6 => read_pktinfo6(&mut options, control, by.over_v4)?,
            (c::IPPROTO_IP, _) if by.over_v4 => read_v4(&mut options, control, messages)?,
            (c::IPPROTO_IPV6, _) if !by.over_v4 => read_v6(&mut options, control)?,
            _ => {}
        }
    }
    Ok(options)
}

/// Decodes a message of level `IPPROTO_IP`, `ip_cmsg_send` in Linux.
fn read_v4(
    options: &mut SendOptions,
    control: &ControlMessage,
    messages: &[ControlMessage],
) -> Result<(), Errno> {
    match control.type_ {
        c::IP_PKTINFO => {
            let info = InPktinfo::read_from_bytes(&control.data).map_err(|_| Errno::EINVAL)?;
            options.source = Some(IpAddr::from(info.spec_dst)).filter(|ip| !ip.is_unspecified());
            options.interface = outgoing_interface(messages);
        }
        c::IP_TOS => {
            let tos = match control.data[..] {
                [byte] => byte,
                _ => u8::try_from(number(control)?).map_err(|_| Errno::EINVAL)?,
            };
            options.tos = Some(tos);
        }
        c::IP_TTL => match u8::try_from(number(control)?) {
            Ok(0) | Err(_) => return Err(Errno::EINVAL),
            Ok(ttl) => options.ttl = Some(ttl),
        },
        // Without effect, except where a program writes the header itself.
        IP_PROTOCOL if (1..=255).contains(&number(control)?) => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Decodes a message of level `IPPROTO_IPV6`, `ip6_datagram_send_ctl` in Linux, without extension headers.
fn read_v6(options: &mut SendOptions, control: &ControlMessage) -> Result<(), Errno> {
    match control.type_ {
        c::IPV6_TCLASS => options.tos = byte_or_own(control)?,
        c::IPV6_HOPLIMIT => options.ttl = byte_or_own(control)?,
        c::IPV6_DONTFRAG if matches!(number(control)?, 0 | 1) => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Decodes `IPV6_PKTINFO`; over IPv4, the address must be an IPv4 address.
fn read_pktinfo6(options: &mut SendOptions, control: &ControlMessage, over_v4: bool) -> Result<(), Errno> {
    let (info, _) = In6Pktinfo::read_from_prefix(&control.data).map_err(|_| Errno::EINVAL)?;
    let ip = address::canonical(Ipv6Addr::from(info.addr).into());
    if over_v4 && ip.is_ipv6() {
        return Err(Errno::EINVAL);
    }
    options.source = Some(ip).filter(|ip| !ip.is_unspecified());
    options.interface = u32::try_from(info.ifindex).ok().filter(|index| *index != 0);
    Ok(())
}
/// Outgoing interface index given by `IP_PKTINFO`.
pub fn outgoing_interface(messages: &[ControlMessage]) -> Option<u32> {
    let info = messages.iter().find(|m| (m.level, m.type_) == (c::IPPROTO_IP, c::IP_PKTINFO))?;
    let index = u32::from_ne_bytes(info.data.get(..4)?.try_into().ok()?);
    (index != 0).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(by: CmsgContext, level: i32, type_: i32, data: &[u8]) -> Result<SendOptions, Errno> {
        let control = vec![ControlMessage { level, type_, data: data.to_vec() }];
        read_options(&control, by)
    }

    #[test]
    fn each_sender_knows_its_own_levels() {
        let v4 = CmsgContext { v6: false, over_v4: true, udp: true };
        let v6 = CmsgContext { v6: true, over_v4: false, udp: true };
        let word = 7i32.to_ne_bytes();
        assert_eq!(read(v4, c::IPPROTO_IP, c::IP_TTL, &word).unwrap().ttl, Some(7));
        assert_eq!(read(v6, c::IPPROTO_IP, c::IP_TTL, &word).unwrap().ttl, None);
        assert_eq!(read(v6, c::IPPROTO_IPV6, c::IPV6_HOPLIMIT, &word).unwrap().ttl, Some(7));
        assert_eq!(read(v4, c::IPPROTO_IPV6, c::IPV6_HOPLIMIT, &word).unwrap().ttl, None);
        for (by, level, type_) in
            [(v4, c::IPPROTO_IP, 99), (v6, c::IPPROTO_IPV6, 99), (v4, c::SOL_SOCKET, 99)]
        {
            assert_eq!(read(by, level, type_, &word).unwrap_err(), Errno::EINVAL);
        }
        for level in [c::IPPROTO_TCP, c::IPPROTO_RAW, 999] {
            read(v4, level, 99, &word).expect("nobody's");
        }
        assert_eq!(read(v4, c::IPPROTO_UDP, 99, &word).unwrap_err(), Errno::EINVAL);
        read(CmsgContext { udp: false, ..v4 }, c::IPPROTO_UDP, 99, &word).expect("nobody's");
    }

    #[test]
    fn numbers_have_their_sizes_and_ranges() {
        let v4 = CmsgContext { v6: false, over_v4: true, udp: true };
        assert_eq!(read(v4, c::IPPROTO_IP, c::IP_TOS, &[9]).unwrap().tos, Some(9));
        for (type_, data) in [
            (c::IP_TOS, &[0, 0][..]),
            (c::IP_TOS, &256i32.to_ne_bytes()),
            (c::IP_TTL, &0i32.to_ne_bytes()),
            (c::IP_TTL, &[9]),
            (IP_PROTOCOL, &0i32.to_ne_bytes()),
        ] {
            assert_eq!(read(v4, c::IPPROTO_IP, type_, data).unwrap_err(), Errno::EINVAL, "{type_} {data:?}");
        }
        let mapped: Ipv6Addr = "::ffff:11.0.0.1".parse().unwrap();
        let info = |ip: Ipv6Addr| [&ip.octets()[..], &[0; 4]].concat();
        let over_v4 = CmsgContext { v6: true, ..v4 };
        let source = read(over_v4, c::IPPROTO_IPV6, c::IPV6_PKTINFO, &info(mapped)).unwrap().source;
        assert_eq!(source, Some(IpAddr::from([11, 0, 0, 1])));
        let refused = read(over_v4, c::IPPROTO_IPV6, c::IPV6_PKTINFO, &info(Ipv6Addr::LOCALHOST));
        assert_eq!(refused.unwrap_err(), Errno::EINVAL);
    }
}
