//! Input of raw sockets: each receives a copy of every packet of its protocol that matches its addresses and
//! filter.

use super::{RawError, RawSocket};
use crate::SocketKey;
use crate::Stack;
use crate::account::{DropCause, PacketDisposition, Receiver};
use crate::devices::vrf;
use crate::error_queue::QueuedError;
use crate::filter::Metadata;
use crate::interface_index;
use crate::ip::Inbound;
use crate::socket::{Socket, SocketKind};
use belljar_linux_abi::c;
use belljar_wire::protocol;
use smallvec::SmallVec;
use std::net::SocketAddr;

impl RawSocket {
    /// True if the socket accepts a packet's addresses and its ICMP type.
    fn wants(&self, inbound: &Inbound) -> bool {
        let header = &inbound.header;
        let here = self.local.is_none_or(|local| local == header.dst);
        let there = self.end.peer.is_none_or(|peer| peer == header.src);
        let filtered = match (header.protocol, inbound.payload().first()) {
            (protocol::ICMP, Some(kind)) if header.dst.is_ipv4() => {
                *kind < 32 && self.icmp_filter & (1 << kind) != 0
            }
            (protocol::ICMPV6, Some(kind)) => {
                self.icmp6_filter[usize::from(kind >> 5)] & (1 << (kind & 31)) != 0
            }
            _ => false,
        };
        self.protocol == header.protocol && here && there && !filtered
    }
}

impl Stack {
    /// Delivers copies of a packet to the raw sockets of its protocol. Returns the disposition of the packet
    /// if no other protocol receives it; `None` if there are no such sockets.
    pub(crate) fn raw_input(&mut self, inbound: &mut Inbound) -> Option<PacketDisposition> {
        if self.raw_sockets == 0 {
            return None;
        }
        inbound.fill_checksum();
        let inbound = &*inbound;
        let v4 = inbound.header.dst.is_ipv4();
        let ingress = vrf::ingress(self, inbound.interface);
        let wanted = |socket: &Socket| match &socket.kind {
            SocketKind::Raw(raw) => {
                (socket.domain == c::AF_INET) == v4
                    && ingress.reaches(socket.options.bound_device)
                    && raw.wants(inbound)
                    && raw.end.ip.takes_group(inbound.interface, inbound.header.dst, inbound.header.src)
            }
            _ => false,
        };
        let sockets = self.own_sockets().filter(|(_, socket)| wanted(socket));
        let keys: SmallVec<[SocketKey; 4]> = sockets.map(|(key, _)| SocketKey(key)).collect();
        keys.into_iter().map(|key| self.raw_enqueue(key, inbound)).reduce(PacketDisposition::or)
    }

    fn raw_enqueue(&mut self, key: SocketKey, inbound: &Inbound) -> PacketDisposition {
        // An IPv4 socket receives the IP header too.
        let start = if inbound.header.dst.is_ipv4() { 0 } else { inbound.payload.start };
        let mut bytes = inbound.packet[start..inbound.payload.end].to_vec();
        let metadata = Metadata {
            protocol: if inbound.header.dst.is_ipv4() { 0x800 } else { 0x86dd },
            interface: interface_index(inbound.interface),
            hardware_type: self.interfaces[inbound.interface].hardware_type(),
            ..Metadata::default()
        };
        let Some(kept) = self.sockets[key.0].filtered(&mut self.filter_random, &bytes, metadata) else {
            return PacketDisposition::dropped(DropCause::SocketFilter);
        };
        bytes.truncate(kept);
        match self.ip_socket_enqueue(key, bytes, inbound) {
            true => PacketDisposition::consumed(Receiver::Raw),
            false => PacketDisposition::dropped(DropCause::ReceiveBufferFull),
        }
    }

    /// Processes an ICMP error about a packet of a raw socket: `raw_err` of Linux.
    pub fn raw_error(&mut self, error: &RawError<'_>) {
        let concerned = |socket: &Socket| match &socket.kind {
            SocketKind::Raw(raw) => {
                raw.protocol == error.protocol
                    && raw.local.is_none_or(|own| own == error.local)
                    && raw.end.peer.is_none_or(|peer| peer == error.remote)
            }
            _ => false,
        };
        let sockets = self.own_sockets().filter(|(_, socket)| concerned(socket));
        let keys: SmallVec<[SocketKey; 2]> = sockets.map(|(key, _)| SocketKey(key)).collect();
        let arrived = self.clock.now();
        for key in keys {
            let error = QueuedError {
                errno: error.errno,
                icmp: (error.icmp.0, error.icmp.1),
                extra: error.icmp.2,
                arrived,
                offender: Some(error.offender),
                destination: SocketAddr::new(error.remote, 0),
                quoted: error.quoted.to_vec(),
            };
            self.ip_socket_error(key, error);
        }
    }
}
