//! Input of datagrams and ICMP errors.

use super::UDP_ENCAP_ESPINUDP;
use super::ports::comes_from;
use super::{Datagram, HEADER_LEN, Protocol, covered_bytes};
use crate::SocketKey;
use crate::Stack;
use crate::account::{DropCause, PacketDisposition, Receiver};
use crate::buffers;
use crate::devices::{self, vrf};
use crate::endpoint::Ingress;
use crate::error_queue::{QueuedError, is_hard};
use crate::filter::Metadata;
use crate::ip::Inbound;
use crate::ip::Unreachable;
use crate::mib::version;
use crate::readiness::{EPOLLERR, READABLE};
use crate::send_charge::charge;
use crate::{LO, interface_index};
use belljar_linux_abi::Errno;
use belljar_net::ChecksumState;
use belljar_wire::checksum;
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

/// Length of a UDP segment, and number of bytes that its checksum covers, which is the same; `None` if the
/// length is not valid.
fn udp_lengths(segment: &[u8]) -> Option<(usize, usize)> {
    let len = usize::from(u16::from_be_bytes(segment.get(4..6)?.try_into().ok()?));
    (len >= HEADER_LEN && len <= segment.len()).then_some((len, len))
}

/// Length and checksum coverage of a UDP-Lite segment, whose length is that of the packet. The checksum is
/// mandatory (RFC 3828, section 3.1).
fn udp_lite_lengths(segment: &[u8]) -> Option<(usize, usize)> {
    let header = segment.first_chunk::<HEADER_LEN>()?;
    let (field, sum) = (u16::from_be_bytes([header[4], header[5]]), [header[6], header[7]]);
    let covered = covered_bytes(field, segment.len()).filter(|_| sum != [0, 0])?;
    Some((segment.len(), covered))
}

/// True if a datagram to a socket with `UDP_ENCAP_ESPINUDP` is not delivered to the program
/// (`xfrm4_udp_encap_rcv`): an ESP packet, for which the host has no keys, or a NAT keepalive (RFC 3948).
fn is_for_ipsec(payload: &[u8]) -> bool {
    const ESP_HEADER: usize = 8;
    payload == [0xff] || payload.len() > ESP_HEADER && payload[..4] != [0; 4]
}

impl Stack {
    /// Processes a received UDP or UDP-Lite packet.
    pub(crate) fn udp_input(&mut self, protocol: Protocol, mut inbound: Inbound) -> PacketDisposition {
        let segment = inbound.payload();
        let lengths = match protocol {
            Protocol::Udp => udp_lengths(segment),
            Protocol::Lite => udp_lite_lengths(segment),
        };
        let Some((len, covered)) = lengths else {
            self.counters.udp[protocol.index()][version(&inbound.header.dst)].wrong += 1;
            self.counters.malformed += 1;
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::Malformed);
        };
        let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
        let (src, dst) = (inbound.header.src, inbound.header.dst);
        let (src_port, dst_port, sum) = (word(0), word(2), word(6));
        // The field of a partial checksum may be zero.
        let unsummed = sum == 0 && inbound.checksum != ChecksumState::Open;
        // A packet over `lo` cannot be corrupted.
        if inbound.interface != LO
            && inbound.checksum == ChecksumState::Untested
            && sum != 0
            && checksum::partial(src, dst, protocol.number(), &segment[..len], covered) != 0
        {
            let counters = &mut self.counters.udp[protocol.index()][version(&dst)];
            counters.wrong += 1;
            counters.wrong_checksum += 1;
            self.counters.malformed += 1;
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::Checksum);
        }
        if self.devices.is_some()
            && protocol == Protocol::Udp
            && let Some(end) = devices::receive_udp(self, &inbound, dst_port)
        {
            buffers::recycle(inbound.packet);
            return end;
        }
        let (source, lengths) = (SocketAddr::new(src, src_port), (len, covered));
        if self.interfaces.is_multipoint(dst) {
            return self.udp_input_to_many(protocol, inbound, source, (dst_port, unsummed), lengths);
        }
        let ingress = vrf::ingress(self, inbound.interface);
        let ports = &self.udp_ports[protocol.index()];
        let receiver = ports.receiver(&self.sockets, source, SocketAddr::new(dst, dst_port), ingress);
        if unsummed && dst.is_ipv6() && !receiver.is_some_and(|key| self.sockets.udp(key).no_check6.1) {
            // RFC 8200, section 8.1: dropped, unless the socket accepts datagrams without a checksum.
            let counters = &mut self.counters.udp[protocol.index()][version(&dst)];
            counters.wrong += 1;
            counters.wrong_checksum += 1;
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::Checksum);
        }
        let Some(key) = receiver else {
            self.counters.udp[protocol.index()][version(&dst)].no_port += 1;
            self.send_unreachable(&mut inbound, Unreachable::Port);
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::NoSocket);
        };
        self.udp_enqueue(key, inbound, source, lengths)
    }

    /// Delivers a copy of a multicast or broadcast datagram to each socket that accepts it.
    fn udp_input_to_many(
        &mut self,
        protocol: Protocol,
        inbound: Inbound,
        source: SocketAddr,
        (port, unsummed): (u16, bool),
        lengths: (usize, usize),
    ) -> PacketDisposition {
        let dst = inbound.header.dst;
        let mut end = None;
        let keys: SmallVec<[SocketKey; 4]> =
            self.udp_ports[protocol.index()].0.get(&port).into_iter().flatten().copied().collect();
        let ingress = vrf::ingress(self, inbound.interface);
        for key in keys {
            let device = self.socket(key).options.bound_device;
            let udp = self.sockets.udp(key);
            let member = udp.ip.takes_group(inbound.interface, dst, source.ip()) && ingress.reaches(device);
            let from_peer = udp.peer.is_none_or(|peer| comes_from(peer, source));
            let checked = !unsummed || dst.is_ipv4() || udp.no_check6.1;
            let takes = checked && udp.bound.is_some_and(|bound| bound.reach.takes(dst));
            if member && from_peer && takes {
                let copy = Inbound {
                    interface: inbound.interface,
                    checksum: inbound.checksum,
                    segment: inbound.segment,
                    mark: inbound.mark,
                    tracking: inbound.tracking,
                    header: inbound.header,
                    packet: inbound.packet.clone(),
                    payload: inbound.payload.clone(),
                };
                let of_copy = self.udp_enqueue(key, copy, source, lengths);
                end = Some(end.map_or(of_copy, |end: PacketDisposition| end.or(of_copy)));
            }
        }
        buffers::recycle(inbound.packet);
        // Linux ignores a datagram to many for which this host has no socket.
        end.unwrap_or(PacketDisposition::consumed(Receiver::OtherAddress))
    }

    /// Queues a segment on a socket; `lengths` holds its length and checksum coverage in bytes. A coalesced
    /// segment is split unless the socket has `UDP_GRO`.
    fn udp_enqueue(
        &mut self,
        key: SocketKey,
        inbound: Inbound,
        source: SocketAddr,
        lengths: (usize, usize),
    ) -> PacketDisposition {
        if inbound.segment == 0 || self.sockets.udp(key).joins {
            return self.udp_enqueue_one(key, inbound, source, lengths);
        }
        let start = inbound.payload.start;
        let (headers, data) = inbound.packet[..start + lengths.0].split_at(start + HEADER_LEN);
        let mut end = PacketDisposition::consumed(Receiver::Udp);
        let mut first = true;
        for piece in data.chunks(usize::from(inbound.segment)) {
            let len = HEADER_LEN + piece.len();
            let mut packet = buffers::take();
            packet.extend_from_slice(headers);
            packet[start + 4..start + 6].copy_from_slice(&(len as u16).to_be_bytes());
            packet.extend_from_slice(piece);
            let payload = start..packet.len();
            let Inbound { interface, checksum, mark, tracking, header, .. } = inbound;
            let apart = Inbound { interface, checksum, segment: 0, mark, tracking, header, packet, payload };
            let of_piece = self.udp_enqueue_one(key, apart, source, (len, len));
            end = if std::mem::take(&mut first) { of_piece } else { end.or(of_piece) };
        }
        buffers::recycle(inbound.packet);
        end
    }

    fn udp_enqueue_one(
        &mut self,
        key: SocketKey,
        mut inbound: Inbound,
        source: SocketAddr,
        (mut len, covered): (usize, usize),
    ) -> PacketDisposition {
        let (now, hardware) = (self.clock.now(), self.frame_stamp);
        let payload = inbound.payload().get(HEADER_LEN..len).unwrap_or_default();
        if self.sockets.udp(key).encapsulation == UDP_ENCAP_ESPINUDP && is_for_ipsec(payload) {
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::NoSocket);
        }
        let udp = self.sockets.udp(key);
        let (number, version) = (udp.protocol.index(), version(&inbound.header.dst));
        if !udp.coverage.takes(covered, len) {
            udp.drops += 1;
            self.counters.udp[number][version].wrong += 1;
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::Checksum);
        }
        if self.socket(key).options.filter.is_some() {
            inbound.fill_checksum();
            // The filter operates on the UDP header too, but cannot truncate it.
            let metadata = Metadata {
                protocol: if inbound.header.dst.is_ipv4() { 0x800 } else { 0x86dd },
                interface: interface_index(inbound.interface),
                ..Metadata::default()
            };
            match self.sockets[key.0].filtered(&mut self.filter_random, &inbound.payload()[..len], metadata) {
                Some(kept) => len = kept.max(HEADER_LEN),
                None => {
                    self.sockets.udp(key).drops += 1;
                    buffers::recycle(inbound.packet);
                    return PacketDisposition::dropped(DropCause::SocketFilter);
                }
            }
        }
        let receive_buffer = self.socket(key).options.receive_buffer;
        let udp = self.sockets.udp(key);
        // The first datagram is accepted whatever its size.
        let charged = charge(inbound.packet.len());
        if udp.queued_charge != 0 && udp.queued_charge.saturating_add(charged) > receive_buffer {
            udp.drops += 1;
            self.counters.udp[number][version].buffer_full += 1;
            buffers::recycle(inbound.packet);
            return PacketDisposition::dropped(DropCause::ReceiveBufferFull);
        }
        self.counters.udp[number][version].received += 1;
        let udp = self.sockets.udp(key);
        udp.queued_charge += charged;
        let start = inbound.payload.start;
        udp.queue.push_back(Datagram {
            payload: start + HEADER_LEN..start + len,
            source,
            destination: inbound.header.dst,
            interface: inbound.interface,
            arrived: now,
            hardware,
            tos: inbound.header.tos,
            ttl: inbound.header.ttl,
            segment: inbound.segment,
            packet: inbound.packet,
        });
        self.effects.notify_socket(key, READABLE);
        PacketDisposition::consumed(Receiver::Udp)
    }

    /// Processes an ICMP error about a datagram from `local` to `remote`.
    pub fn udp_error(
        &mut self,
        protocol: Protocol,
        (local, remote): (SocketAddr, SocketAddr),
        errno: Errno,
        icmp: (u8, u8, u32),
        (offender, ingress): (IpAddr, Ingress),
        quoted: &[u8],
    ) {
        let arrived = self.clock.now();
        let Some(key) = self.udp_ports[protocol.index()].receiver(&self.sockets, remote, local, ingress)
        else {
            return;
        };
        // A smaller path MTU is reported unless the socket ignores path MTUs (`IP_PMTUDISC_DONT`).
        let unheeded = errno == Errno::EMSGSIZE && self.sockets.udp(key).ip.ignores_path_mtu();
        if unheeded && remote.is_ipv4() {
            return;
        }
        let room = self.socket(key).options.receive_buffer;
        let udp = self.sockets.udp(key);
        let connected = udp.peer.is_some();
        if udp.ip.receive_errors {
            let error = QueuedError {
                errno,
                icmp: (icmp.0, icmp.1),
                extra: icmp.2,
                arrived,
                offender: Some(offender),
                destination: remote,
                quoted: quoted.get(HEADER_LEN..).unwrap_or_default().to_vec(),
            };
            udp.errors.push(error, &mut udp.queued_charge, room);
        } else if !connected || unheeded || !is_hard(errno, (icmp.0, icmp.1), remote.is_ipv4()) {
            // Without `IP_RECVERR` only hard errors are reported, and only to connected sockets.
            return;
        }
        self.socket(key).error = Some(errno);
        self.effects.notify_socket(key, EPOLLERR);
    }
}
