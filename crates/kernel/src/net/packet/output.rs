//! Transmission of frames.

use super::LinkAddress;
use crate::call::Call;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::message::OutgoingMessage;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::offload;
use belljar_linux_net::timestamps::requested;
use belljar_netstack::account::{DropCause, Origin, PacketDisposition, Receiver};
use belljar_netstack::interface::Attachment;
use belljar_netstack::socket::Socket;
use belljar_netstack::stamping;
use belljar_netstack::timestamps::StampRequest;
use belljar_wire::ethernet::{HEADER_LEN, ethertype};

/// Ethertype of IPv6.
const IPV6: u16 = 0x86dd;

pub(super) fn send(call: &mut Call<'_>, key: SocketKey, message: &OutgoingMessage) -> Result<usize, Errno> {
    let name = message.name.as_ref().map(|raw| LinkAddress::parse(raw)).transpose()?;
    call.host.net.socket(key).take_error()?;
    if call.host.own.packet(key).rings.has_sender() {
        return call.host.ring_send(key, name);
    }
    let own_level = message.control.iter().filter(|control| control.level == c::SOL_SOCKET);
    for control in own_level {
        control.check_socket_level()?;
    }
    let stamps = requested(&message.control);
    let data = call.gather(&message.buffers, 0, message.len)?;
    match call.host.own.packet(key).offload {
        0 => call.host.packet_send(key, name, data, stamps)?,
        len => {
            let header = offload::VirtioNetHeader::parse(&data)?;
            let frame = data.get(len..).filter(|frame| frame.len() >= HEADER_LEN).ok_or(Errno::EINVAL)?;
            for frame in header.packets(frame, HEADER_LEN)? {
                call.host.packet_send(key, name, frame, stamps)?;
            }
        }
    }
    let network = call.host.net.socket(key).network;
    call.host.stack_mut(network).flush_network();
    Ok(message.len)
}

impl Host {
    /// Transmits a frame, or for `SOCK_DGRAM` a payload to which a header is added.
    pub(super) fn packet_send(
        &mut self,
        key: SocketKey,
        name: Option<LinkAddress>,
        data: Vec<u8>,
        stamps: (Option<u32>, Option<u32>),
    ) -> Result<(), Errno> {
        let Socket { network, type_, .. } = *self.net.socket(key);
        let cooked = type_ == c::SOCK_DGRAM;
        let packet = self.own.packet(key);
        let (interface, protocol) = match &name {
            None => (packet.interface, packet.protocol),
            Some(name) => (self.stack(network).interfaces.by_index(name.index), name.protocol),
        };
        let interface = interface.ok_or(Errno::ENXIO)?;
        let net = self.stack_mut(network);
        if !net.interfaces[interface].up {
            return Err(Errno::ENETDOWN);
        }
        if let Attachment::Tun(_) = net.interfaces[interface].attachment {
            // TUN interfaces have no link-layer header, so both socket types send the same.
            let request = self.net.socket(key).begin_stamps(key, stamps);
            let sent = stamping::transmit(self.stack_mut(network), (interface, false), data, request);
            return sent.then_some(()).ok_or(Errno::ENOBUFS);
        }
        let frame = if cooked {
            let to = name.filter(|name| name.halen >= 6).map(|name| name.mac());
            // Without an address the destination is zero, as in Linux's `eth_header`.
            let mut frame = to.unwrap_or([0; 6]).to_vec();
            frame.extend_from_slice(&net.interfaces[interface].mac);
            frame.extend_from_slice(&protocol.to_be_bytes());
            frame.extend_from_slice(&data);
            frame
        } else {
            data
        };
        if frame.len() < HEADER_LEN {
            return Err(Errno::EINVAL);
        }
        if frame.len() > net.interfaces.mtu(interface) + HEADER_LEN {
            return Err(Errno::EMSGSIZE);
        }
        let request = self.net.socket(key).begin_stamps(key, stamps);
        self.send_raw_frame((network, interface), frame, request)
    }

    /// Transmits a frame unchanged; `lo` and the graph strip the Ethernet header.
    fn send_raw_frame(
        &mut self,
        (network, interface): (u32, usize),
        mut frame: Vec<u8>,
        stamps: Option<StampRequest>,
    ) -> Result<(), Errno> {
        let protocol = u16::from_be_bytes([frame[12], frame[13]]);
        let net = self.stack_mut(network);
        let attachment = net.interfaces[interface].attachment;
        if net.interfaces[interface].is_link() {
            let sent = stamping::transmit(net, (interface, true), frame, stamps);
            return sent.then_some(()).ok_or(Errno::ENOBUFS);
        }
        if attachment == Attachment::Graph && protocol == ethertype::ARP {
            net.account.originate(Origin::PacketSocket, PacketDisposition::consumed(Receiver::Arp));
            self.answer_for_graph((network, interface), &frame);
            return Ok(());
        }
        if protocol != ethertype::IPV4 && protocol != IPV6 || frame.len() < HEADER_LEN + 20 {
            let unsupported = PacketDisposition::dropped(DropCause::UnknownProtocol);
            net.account.originate(Origin::PacketSocket, unsupported);
            self.warn(
                "frames of other protocols than IP vanish on lo and on the graph, which have no Ethernet",
            );
            return Ok(());
        }
        frame.drain(..HEADER_LEN);
        let sent = stamping::transmit(self.stack_mut(network), (interface, false), frame, stamps);
        sent.then_some(()).ok_or(Errno::ENOBUFS)
    }
}
