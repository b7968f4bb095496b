//! Reading error queues (`MSG_ERRQUEUE`): ICMP errors about packets that a socket sent (`IP_RECVERR`), and notices that
//! the memory of its sends is free again (`MSG_ZEROCOPY`).

use super::message::{Attempt, ControlMessage, Incoming, RawAddress, ReceivedMessage};
use super::udp::timestamp_message;
use crate::call::Call;
use crate::ids::SocketKey;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::address;
use belljar_netstack::error_queue::ErrorReport;
use belljar_netstack::socket::SocketKind;
use belljar_netstack::zero_copy::CompletedSends;
use std::net::{IpAddr, SocketAddr};

/// The control message with a `struct sock_extended_err`: the error, its origin, type and code, two words that depend on
/// them, and the offender's address, which is all zero where there is none.
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

/// The `struct sock_extended_err` that tells of them, without an offender.
fn sends_told(told: &CompletedSends, domain: i32) -> ControlMessage {
    const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
    const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
    let code = if told.copied { SO_EE_CODE_ZEROCOPY_COPIED } else { 0 };
    let what = [SO_EE_ORIGIN_ZEROCOPY, 0, code, 0];
    extended_error(domain == c::AF_INET, 0, what, [told.first, told.last], None)
}

/// `recvmsg` with `MSG_ERRQUEUE`: what an error quotes, if it is one, with a `struct sock_extended_err` and the offender's
/// address; never waits.
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
    // The next one is told of when this one has been read.
    if next.is_some() || report.errno().is_some() {
        socket.error = next;
    }
    let (domain, stamp) = (socket.domain, socket.options.timestamp);
    let epoch = call.host.net.clock.realtime_ns() - call.now().as_nanos();
    let stamped = |at| timestamp_message(stamp, at, epoch).into_iter();
    let error = match report {
        ErrorReport::Icmp(error) => error,
        ErrorReport::Sent(told) => {
            let control = stamped(call.now()).chain([sends_told(&told, domain)]).collect();
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
    let mut control: Vec<_> = stamped(error.arrived).collect();
    control.push(told);
    let taken = error.quoted.len().min(room.len);
    call.scatter(&room.buffers, &error.quoted[..taken])?;
    let cut = if taken < error.quoted.len() { c::MSG_TRUNC } else { 0 };
    Ok(Attempt::Done(ReceivedMessage { value: taken, name, control, flags: c::MSG_ERRQUEUE | cut }))
}
