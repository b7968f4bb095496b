//! Error queue reads (`MSG_ERRQUEUE`): ICMP errors for packets that a socket sent (`IP_RECVERR`) and
//! zero-copy completion notifications (`MSG_ZEROCOPY`).

use super::message::{Attempt, ControlMessage, Incoming, RawAddress, ReceivedMessage};
use crate::call::Call;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::timestamps::{self, PacketArrival};
use belljar_netstack::address;
use belljar_netstack::error_queue::ErrorReport;
use belljar_netstack::socket::SocketKind;
use belljar_netstack::timestamps::{ReceiveStamps, SentStamp, flag};
use belljar_netstack::zero_copy::CompletedSends;
use std::net::{IpAddr, SocketAddr};

/// Control message with a `struct sock_extended_err`: the errno; origin, type and code; `ee_info` and
/// `ee_data`; and the offender's address, all zero if there is none.
pub fn extended_error(
    v4: bool,
    errno: u32,
    what: [u8; 4],
    words: [u32; 2],
    offender: Option<IpAddr>,
) -> ControlMessage {
    let family = if v4 { c::AF_INET } else { c::AF_INET6 };
    let mut address =
        address::emit(family, SocketAddr::new(offender.unwrap_or(address::unspecified(family)), 0));
    if offender.is_none() {
        address.fill(0);
    }
    let [first, second] = words.map(u32::to_ne_bytes);
    let data = [&errno.to_ne_bytes()[..], &what, &first, &second, &address].concat();
    let (level, type_) = if v4 { (c::IPPROTO_IP, c::IP_RECVERR) } else { (c::IPPROTO_IPV6, c::IPV6_RECVERR) };
    ControlMessage { level, type_, data }
}

/// Control message that reports completed zero-copy sends; it has no offender.
fn sends_told(told: &CompletedSends, domain: i32) -> ControlMessage {
    const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
    const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
    let code = if told.copied { SO_EE_CODE_ZEROCOPY_COPIED } else { 0 };
    let what = [SO_EE_ORIGIN_ZEROCOPY, 0, code, 0];
    extended_error(domain == c::AF_INET, 0, what, [told.first, told.last], None)
}

/// `recvmsg(2)` with `MSG_ERRQUEUE`: returns the quoted packet of an ICMP error, if the entry is one, and a
/// `struct sock_extended_err` with the offender's address. Never waits; `EAGAIN` if the queue is empty.
pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    const SO_EE_ORIGIN_LOCAL: u8 = 1;
    const SO_EE_ORIGIN_ICMP: u8 = 2;
    const SO_EE_ORIGIN_ICMP6: u8 = 3;
    let popped = match &mut call.host.socket(key).kind {
        SocketKind::Udp(udp) => udp.errors.pop(&mut udp.queued_charge),
        SocketKind::Tcp(tcp) => tcp.errors.pop(&mut 0),
        SocketKind::Raw(raw) => raw.end.pop_error(),
        SocketKind::Ping(ping) => ping.end.pop_error(),
        _ => None,
    };
    let (report, next) = popped.ok_or(Errno::EAGAIN)?;
    let socket = call.host.socket(key);
    // The pending error becomes that of the next entry.
    if next.is_some() || report.errno().is_some() {
        socket.error = next;
    }
    let (domain, stamps) = (socket.domain, socket.receive_stamps());
    let clock = &call.host.net.clock;
    let stamped = |at| PacketArrival { at, hardware: 0, packet: (0, 0) }.messages(stamps, clock);
    let error = match report {
        ErrorReport::Icmp(error) => error,
        ErrorReport::Stamp(stamp) => return receive_stamp(call, key, room, *stamp, stamps),
        ErrorReport::Sent(told) => {
            let mut control = stamped(clock.now());
            control.push(sends_told(&told, domain));
            let (value, name) = (0, RawAddress::new());
            return Ok(Attempt::Done(ReceivedMessage { value, name, control, flags: c::MSG_ERRQUEUE }));
        }
    };
    let v4 = error.destination.is_ipv4();
    let origin = match error.offender {
        None => SO_EE_ORIGIN_LOCAL,
        Some(IpAddr::V4(_)) => SO_EE_ORIGIN_ICMP,
        Some(IpAddr::V6(_)) => SO_EE_ORIGIN_ICMP6,
    };
    let what = [origin, error.icmp.0, error.icmp.1, 0];
    let told = extended_error(v4, error.errno.0.into(), what, [error.extra, 0], error.offender);
    let name: RawAddress = address::emit(domain, error.destination);
    let mut control = stamped(error.arrived);
    control.push(told);
    let taken = error.quoted.len().min(room.len);
    call.scatter(&room.buffers, &error.quoted[..taken])?;
    let cut = if taken < error.quoted.len() { c::MSG_TRUNC } else { 0 };
    Ok(Attempt::Done(ReceivedMessage { value: taken, name, control, flags: c::MSG_ERRQUEUE | cut }))
}

/// Reads the timestamp of a sent packet: the frame with its source address, unless the socket asks for times alone.
fn receive_stamp(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    stamp: SentStamp,
    stamps: ReceiveStamps,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    let mut control = timestamps::of_sent(&stamp, stamps);
    let v6 = call.host.socket(key).domain == c::AF_INET6;
    let shown = stamp.interface.filter(|_| v6 || stamps.flags & flag::OPT_CMSG != 0);
    let options = call.host.socket(key).ip_options();
    let (info4, info6) = options.map_or((false, false), |ip| (ip.receive_pktinfo, ip.receive_pktinfo6 && v6));
    let (source, info) = timestamps::sent_source(&stamp, shown, (info4, info6));
    control.extend(info);
    let (errno, what, words) = timestamps::extended_error(&stamp);
    let mut error = extended_error(!v6, errno, what, words, source);
    if v6 && error.data.len() < timestamps::ERROR_LEN6 {
        error.data.resize(timestamps::ERROR_LEN6, 0);
    }
    control.push(error);
    let value = stamp.frame.len().min(room.len);
    call.scatter(&room.buffers, &stamp.frame[..value])?;
    let cut = if value < stamp.frame.len() { c::MSG_TRUNC } else { 0 };
    let (flags, name) = (c::MSG_ERRQUEUE | cut, RawAddress::new());
    Ok(Attempt::Done(ReceivedMessage { value, name, control, flags }))
}
