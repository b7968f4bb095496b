//! Packet sockets, packet(7): whole frames that an interface sends and receives, or their payload
//! (`SOCK_DGRAM`).
//!
//! [`tap`] delivers frames to the sockets, [`ring`] stores frames in rings mapped by programs,
//! [`send`](send()) transmits frames on an interface. `lo` and the graph's `eth0` carry no Ethernet: packet
//! sockets see a synthesised header with the hardware addresses of the interface.

mod options;
mod output;
pub mod ring;
mod tap;

use super::message::{Attempt, ControlMessage, Incoming, OutgoingMessage, RawAddress, ReceivedMessage};
use super::udp::charge;
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::own::{OwnKind, OwnSockets};
use belljar_linux_abi::{Errno, c};
pub use belljar_linux_net::link_address::LinkAddress;
use belljar_linux_net::socket_inode;
use belljar_linux_net::timestamps::{self, PacketArrival};
use belljar_netstack::readiness::{EPOLLERR, READABLE, WRITABLE};
use belljar_netstack::timestamps::error_bits;
use belljar_netstack::{Stack, interface_index};
use belljar_objects::packet_sockets::{PacketSocket, status};
pub use options::{get_option, set_option};
use std::fmt::Write;

/// `SOCK_PACKET`, obsolete.
const SOCK_PACKET: i32 = 10;
/// `PACKET_AUXDATA`.
const AUXDATA: i32 = 8;

/// Creates a packet socket in a network; the caller has checked `CAP_NET_RAW`.
pub fn create(host: &mut Host, network: u32, type_: i32, protocol: i32) -> Result<SocketKey, Errno> {
    if type_ != c::SOCK_RAW && type_ != c::SOCK_DGRAM {
        if type_ == SOCK_PACKET {
            host.warn("sockets of type SOCK_PACKET are not supported: programs use SOCK_RAW since 1999");
        }
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    let packet = PacketSocket { protocol: (protocol as u16).swap_bytes(), ..PacketSocket::default() };
    let kind = OwnKind::Packet(Box::new(packet));
    let key = host.own.add(&mut host.net, network, (c::AF_PACKET, type_, protocol), kind);
    host.count_watchers(network);
    Ok(key)
}

pub fn bind(call: &mut Call<'_>, key: SocketKey, raw: &[u8]) -> Result<(), Errno> {
    let name = LinkAddress::parse(raw)?;
    let network = call.host.net.socket(key).network;
    let interface = match name.index {
        0 => None,
        index => Some(call.host.stack(network).interfaces.by_index(index).ok_or(Errno::ENODEV)?),
    };
    let packet = call.host.own.packet(key);
    if packet.fanout.is_some() {
        return Err(Errno::EINVAL);
    }
    packet.interface = interface;
    if name.protocol != 0 {
        packet.protocol = name.protocol;
    }
    let up = interface.is_none_or(|interface| call.host.stack(network).interfaces[interface].up);
    call.host.net.socket(key).error = if up { None } else { Some(Errno::ENETDOWN) };
    Ok(())
}

pub fn connect(_: &mut Call<'_>, _: SocketKey, _: &[u8], _again: bool) -> Result<Attempt<()>, Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    output::send(call, key, message).map(Attempt::Done)
}

pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    _done: usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    let known = c::MSG_PEEK | c::MSG_DONTWAIT | c::MSG_TRUNC | c::MSG_CMSG_CLOEXEC | c::MSG_ERRQUEUE;
    if room.flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    if room.flags & c::MSG_ERRQUEUE != 0 {
        return receive_stamp(call, key, room);
    }
    let socket = call.host.net.socket(key);
    let (queue, stamp, cooked) = (key.into(), socket.receive_stamps(), socket.type_ == c::SOCK_DGRAM);
    socket.take_error()?;
    let packet = call.host.own.packet(key);
    let offload = packet.offload;
    if !packet.queue.is_empty() && room.len < offload {
        return Err(Errno::EINVAL);
    }
    let Some(frame) = packet.queue.pop_front() else { return Ok(Attempt::Wait(queue)) };
    let taken = frame.bytes.len().min(room.len - offload.min(room.len));
    let payload = frame.len - frame.network;
    let arrival =
        PacketArrival { at: frame.arrived, hardware: frame.hardware, packet: (frame.from.index, payload) };
    let mut received = ReceivedMessage {
        value: offload + if room.flags & c::MSG_TRUNC != 0 { frame.len } else { taken },
        name: frame.from.emit(),
        control: arrival.messages(stamp, &call.host.net.clock),
        flags: if taken < frame.bytes.len() { c::MSG_TRUNC } else { 0 },
    };
    if packet.auxdata {
        let mut data = (status::USER | status::CSUM_VALID).to_ne_bytes().to_vec();
        data.extend_from_slice(&(frame.len as u32).to_ne_bytes());
        data.extend_from_slice(&(frame.bytes.len() as u32).to_ne_bytes());
        let network = if cooked { 0 } else { frame.network as u16 };
        data.extend_from_slice(&0u16.to_ne_bytes());
        data.extend_from_slice(&network.to_ne_bytes());
        data.extend_from_slice(&[0; 4]);
        received.control.push(ControlMessage { level: c::SOL_PACKET, type_: AUXDATA, data });
    }
    // `struct virtio_net_hdr` is all zero: received frames need no segmentation and have complete checksums.
    let stored = match offload {
        0 => call.scatter(&room.buffers, &frame.bytes[..taken]),
        len => call.scatter(&room.buffers, &[&vec![0; len], &frame.bytes[..taken]].concat()),
    };
    call.host.net.socket(key).options.last_arrival = Some(frame.arrived);
    let packet = call.host.own.packet(key);
    if room.flags & c::MSG_PEEK != 0 {
        packet.queue.push_front(frame);
    } else {
        packet.queued_charge = packet.queued_charge.saturating_sub(charge(frame.bytes.len()));
    }
    stored.map(|()| Attempt::Done(received))
}

/// `MSG_ERRQUEUE`: timestamps of sent frames (`sock_recv_errqueue` of Linux).
fn receive_stamp(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    /// `PACKET_TX_TIMESTAMP`.
    const TX_TIMESTAMP: i32 = 16;
    let socket = call.host.net.socket(key);
    let stamp = socket.pop_stamp().ok_or(Errno::EAGAIN)?;
    let mut control = timestamps::of_sent(&stamp, socket.receive_stamps());
    let (errno, what, words) = timestamps::extended_error(&stamp);
    let [first, second] = words.map(u32::to_ne_bytes);
    let data = [&errno.to_ne_bytes()[..], &what, &first, &second].concat();
    control.push(ControlMessage { level: c::SOL_PACKET, type_: TX_TIMESTAMP, data });
    let value = stamp.frame.len().min(room.len);
    call.scatter(&room.buffers, &stamp.frame[..value])?;
    let cut = if value < stamp.frame.len() { c::MSG_TRUNC } else { 0 };
    let (flags, name) = (c::MSG_ERRQUEUE | cut, RawAddress::new());
    Ok(Attempt::Done(ReceivedMessage { value, name, control, flags }))
}

pub fn shutdown(_call: &mut Call<'_>, _key: SocketKey, _how: i32) -> Result<(), Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub fn local_name(host: &mut Host, key: SocketKey) -> Result<RawAddress, Errno> {
    let packet = host.own.packet(key);
    let (protocol, interface) = (packet.protocol, packet.interface);
    let mut name = LinkAddress { protocol, ..LinkAddress::default() };
    if let Some(number) = interface {
        let interface = &host.stack(host.net.sockets[key.0].network).interfaces[number];
        name.index = interface_index(number);
        name.hardware_type = interface.hardware_type();
        name.set_address(&interface.mac);
    }
    Ok(name.emit())
}

pub fn peer_name(_host: &mut Host, _key: SocketKey) -> Result<RawAddress, Errno> {
    Err(Errno::EOPNOTSUPP)
}

pub fn readiness(host: &Host, key: SocketKey) -> u32 {
    let socket = &host.net.sockets[key.0];
    let Some(OwnKind::Packet(packet)) = host.own.get(key) else { return 0 };
    let readable = !packet.queue.is_empty() || packet.rings.is_readable(&*host.machine);
    let failed = socket.error.is_some() || socket.stamps.as_ref().is_some_and(|stamps| !stamps.is_empty());
    let error = if failed { error_bits(&socket.options) } else { 0 };
    WRITABLE | error | if readable { READABLE } else { 0 }
}

pub fn readable_bytes(host: &mut Host, key: SocketKey) -> Result<usize, Errno> {
    Ok(host.own.packet(key).queue.front().map_or(0, |frame| frame.bytes.len()))
}

pub fn unsent_bytes(_host: &mut Host, _key: SocketKey) -> Result<usize, Errno> {
    Ok(0)
}

pub fn close(host: &mut Host, key: SocketKey) {
    host.drop_rings(key);
    let (packet, fanouts) = host.own.packet_and_groups(key);
    fanouts.leave(key, packet);
    let network = host.own.remove(&mut host.net, key).network;
    host.count_watchers(network);
}

impl Host {
    /// Updates the number of packet sockets that the stack of a network keeps.
    fn count_watchers(&mut self, network: u32) {
        let watchers = self.own.packets_in(&self.net, network).len();
        self.stack_mut(network).watchers = watchers;
    }
}

impl OwnSockets {
    /// State of a packet socket. Panics for a socket of another family.
    fn packet(&mut self, key: SocketKey) -> &mut PacketSocket {
        self.packet_and_groups(key).0
    }

    /// Number of memberships that put an interface of a network into promiscuous and into all-multicast mode.
    pub(in crate::net) fn memberships(&self, net: &Stack, (network, interface): (u32, usize)) -> (u32, u32) {
        let sockets = self.packets_in(net, network).into_iter().filter_map(|key| self.get(key));
        let memberships = sockets.flat_map(|kind| match kind {
            OwnKind::Packet(packet) => &packet.memberships[..],
            _ => &[],
        });
        let kinds = memberships.filter(|(number, ..)| *number == interface).map(|(_, kind, _)| *kind);
        kinds.fold((0, 0), |(promiscuous, all_groups), kind| match kind {
            options::PROMISCUOUS => (promiscuous + 1, all_groups),
            options::ALL_GROUPS => (promiscuous, all_groups + 1),
            _ => (promiscuous, all_groups),
        })
    }

    /// An interface goes down: sockets bound to it get the error `ENETDOWN` and are notified.
    pub(in crate::net) fn packet_interface_down(
        &mut self,
        net: &mut Stack,
        (network, interface): (u32, usize),
    ) {
        for key in self.packets_in(net, network) {
            if self.packet(key).interface == Some(interface) {
                net.socket(key).error = Some(Errno::ENETDOWN);
                net.effects.notify_socket(key, EPOLLERR);
            }
        }
    }

    /// `/proc/net/packet` of a network.
    pub(crate) fn proc_net_packet(&self, net: &Stack, network: u32) -> String {
        let mut text = String::from("sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n");
        for key in self.packets_in(net, network) {
            let socket = &net.sockets[key.0];
            let Some(OwnKind::Packet(packet)) = self.get(key) else { continue };
            let index = packet.interface.map_or(0, interface_index);
            let _ = writeln!(
                text,
                "0000000000000000 3      {:<4} {:04x}   {index:<5} 1 {:<6} {:<6} {:<6}",
                socket.type_,
                packet.protocol,
                packet.queued_bytes(),
                socket.uid,
                socket_inode(net, key)
            );
        }
        text
    }
}
